//! The ready queue. The end of a command, a commit or a migration puts here the work that may now go on. The loop at
//! the end of each call of the driver carries it out. So no function that starts, continues or ends such work calls
//! itself through others.

use crate::{log::drive::LogDrive, log::step::LogCall};

/// Work that may go on. The order of the variants is the order of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Turn {
    /// A deferred piece may have waited for an operation that has ended.
    Pieces,
    /// A commit may be wanted, and none may be under way.
    Commit,
    /// A condition for a migration may hold.
    Trigger,
    /// The migration may have something to do.
    Migration,
}

const TURNS: [Turn; 4] = [Turn::Pieces, Turn::Commit, Turn::Trigger, Turn::Migration];

/// The work that may go on. The queue is empty between two calls of the driver.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::log) struct Ready(u8);

impl Ready {
    #[inline]
    pub(in crate::log) fn push(&mut self, turn: Turn) {
        self.0 |= 1 << turn as u8;
    }

    #[inline]
    fn pop(&mut self) -> Option<Turn> {
        let turn = *TURNS.get(self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(turn)
    }
}

impl LogDrive {
    /// Carries out ready work, until none is left.
    #[inline]
    pub(in crate::log) fn go_on(&mut self, io: &mut LogCall) {
        while let Some(turn) = self.ready.pop() {
            match turn {
                Turn::Pieces => self.look_at_deferred(io),
                Turn::Commit => self.pump_commit(io),
                Turn::Trigger => self.migrate_if_due(io),
                Turn::Migration => self.pump_migration(io),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_turn_comes_once_and_in_order_however_it_was_pushed() {
        let mut ready = Ready::default();
        for turn in TURNS.iter().rev().chain(&TURNS) {
            ready.push(*turn);
        }
        assert_eq!(std::iter::from_fn(|| ready.pop()).collect::<Vec<_>>(), TURNS);
        ready.push(Turn::Trigger);
        assert_eq!(ready.pop(), Some(Turn::Trigger));
        ready.push(Turn::Pieces);
        assert_eq!((ready.pop(), ready.pop()), (Some(Turn::Pieces), None));
    }
}

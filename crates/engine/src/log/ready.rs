//! What may go on. Whatever has ended says here what may follow from it, and the loop at the end of each call of the driver carries that
//! out. So nothing that begins, continues or ends something calls what might do so again.

use peryton_units::Nanos;

use crate::{api::command::Commands, log::drive::LogDrive, log::step::LogIo};

/// Something that may go on; what comes first here goes on first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Turn {
    /// Something is done that a deferred piece may have waited for.
    Pieces,
    /// A commit may be wanted, and none may be under way.
    Commit,
    /// A condition for a migration may hold.
    Trigger,
    /// The migration may have something to do.
    Migration,
}

const TURNS: [Turn; 4] = [Turn::Pieces, Turn::Commit, Turn::Trigger, Turn::Migration];

/// What may go on. It is empty between two calls of the driver.
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
    /// Carries out what may go on, until nothing may.
    #[inline]
    pub(in crate::log) fn go_on(&mut self, io: &mut LogIo, now: Nanos, out: &mut Commands) {
        while let Some(turn) = self.ready.pop() {
            match turn {
                Turn::Pieces => self.look_at_deferred(io, now, out),
                Turn::Commit => self.pump_commit(io, now, out),
                Turn::Trigger => self.migrate_if_due(io, now),
                Turn::Migration => self.pump_migration(io, now, out),
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

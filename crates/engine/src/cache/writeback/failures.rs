//! Extents that cannot leave the fast device: how long the next attempt waits.

use peryton_units::Nanos;

/// So many failures in a row end a pass: it is the device that fails, not a block of it.
const MANY: u32 = 64;
/// The pause before another pass. It doubles as long as every write-back fails.
const FIRST_PAUSE: Nanos = Nanos::from_s(1);
const LONGEST_PAUSE: Nanos = Nanos::from_s(10);
/// The pause before room is made again. It doubles with each failure, this often at most.
const FIRST_PAUSE_OF_ROOM: Nanos = Nanos::from_ms(10);
const MOST_DOUBLINGS: u32 = 7;

/// The failures since an extent has left or was written back.
#[derive(Debug, Default)]
pub(in crate::cache) struct Failures {
    /// Those since the last pause of cleaning.
    in_a_row: u32,
    /// The last pause of cleaning.
    pause: Nanos,
}

impl Failures {
    /// An extent was copied to its origin or to the other device, or could not be.
    pub(in crate::cache) fn ended(&mut self, failed: bool) {
        match failed {
            true => self.in_a_row = self.in_a_row.saturating_add(1),
            false => *self = Failures::default(),
        }
    }

    /// Whether no further extent should be tried before a pause.
    pub(in crate::cache) fn are_many(&self) -> bool {
        self.in_a_row >= MANY
    }

    /// The pause before the next pass; `None` if the last write-back has succeeded.
    pub(in crate::cache) fn pause(&mut self) -> Option<Nanos> {
        if std::mem::take(&mut self.in_a_row) == 0 {
            return None;
        }
        self.pause = Nanos(self.pause.0.saturating_mul(2)).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        Some(self.pause)
    }

    /// The pause before room is made again.
    pub(in crate::cache) fn pause_of_room(&self) -> Nanos {
        Nanos(FIRST_PAUSE_OF_ROOM.0 << self.in_a_row.saturating_sub(1).min(MOST_DOUBLINGS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_something_succeeds() {
        let mut failures = Failures::default();
        assert_eq!(failures.pause(), None);
        for seconds in [1, 2, 4, 8, 10, 10] {
            assert!(!failures.are_many());
            (0..MANY).for_each(|_| failures.ended(true));
            assert!(failures.are_many());
            assert_eq!(failures.pause(), Some(Nanos::from_s(seconds)));
        }
        failures.ended(true);
        assert_eq!(failures.pause_of_room(), Nanos::from_ms(10));
        (0..99).for_each(|_| failures.ended(true));
        assert_eq!(failures.pause_of_room(), Nanos::from_ms(1280));
        failures.ended(false);
        assert_eq!(failures.pause(), None);
        failures.ended(true);
        assert_eq!(failures.pause(), Some(FIRST_PAUSE));
    }
}

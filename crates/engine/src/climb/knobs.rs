//! What may be moved, and by how much.

use peryton_units::Nanos;

use crate::config::Tuning;

const STEP: u64 = 4;
/// Turns that a way may rest.
pub(super) const LONGEST_REST: u32 = 63;

/// Settings whose every value is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knob {
    Threshold,
    Window,
    Moves,
    Delay,
}

impl Knob {
    pub(super) fn name(self) -> &'static str {
        match self {
            Knob::Threshold => "placement.promotion.threshold",
            Knob::Window => "placement.promotion.window",
            Knob::Moves => "placement.max_moves",
            Knob::Delay => "placement.writeback.delay",
        }
    }

    pub(super) fn get(self, tuning: &Tuning) -> u64 {
        match self {
            Knob::Threshold => u64::from(tuning.promotion_threshold),
            Knob::Window => tuning.promotion_window.0,
            Knob::Moves => u64::from(tuning.max_moves),
            Knob::Delay => tuning.writeback_delay.0,
        }
    }

    pub(super) fn set(self, tuning: &mut Tuning, value: u64) {
        match self {
            Knob::Threshold => tuning.promotion_threshold = value as u32,
            Knob::Window => tuning.promotion_window = Nanos(value),
            Knob::Moves => tuning.max_moves = value as u32,
            Knob::Delay => tuning.writeback_delay = Nanos(value),
        }
    }

    /// Whether such a step moves less data in, which is faster at once, whatever it costs afterwards.
    pub(super) fn moves_less(self, up: bool) -> bool {
        match self {
            Knob::Threshold => up,
            Knob::Window | Knob::Moves => !up,
            Knob::Delay => false,
        }
    }

    /// Four times or a quarter as much (half a step is lost in the noise), within bounds; none where there is no further
    /// to go.
    pub(super) fn step(self, value: u64, up: bool, most_moves: u64) -> Option<u64> {
        let second = Nanos::from_s(1).0;
        let (least, most, smallest) = match self {
            Knob::Threshold => (0, 256, 1),
            Knob::Window => (second, 3600 * second, second),
            Knob::Moves => (1, most_moves, 1),
            Knob::Delay => (0, 600 * second, second),
        };
        let next = match up {
            true => (value * STEP).max(smallest),
            // Below the smallest step there is nothing but the end.
            false if value <= smallest => least,
            false => (value / STEP).max(smallest.min(value / 2)),
        };
        let next = next.clamp(least, most.max(least));
        (next != value).then_some(next)
    }
}

/// What failed is not tried again soon, and the more often it failed the later.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    pub(super) left: u32,
    next: u32,
}

impl Rest {
    pub(super) const LONGEST: Rest = Rest { left: LONGEST_REST, next: LONGEST_REST };

    pub(super) fn failed(&mut self) {
        self.next = (self.next * 2 + 1).min(LONGEST_REST);
        self.left = self.next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_leads_neither_out_of_bounds_nor_nowhere() {
        for knob in [Knob::Threshold, Knob::Window, Knob::Moves, Knob::Delay] {
            for up in [false, true] {
                let mut value = 4;
                for _ in 0..40 {
                    let Some(next) = knob.step(value, up, 16) else { break };
                    assert_ne!(next, value);
                    value = next;
                }
                assert_eq!(knob.step(value, up, 16), None, "{knob:?} goes on beyond {value}");
                assert!(knob != Knob::Moves || (1..=16).contains(&value), "{value}");
            }
        }
    }
}

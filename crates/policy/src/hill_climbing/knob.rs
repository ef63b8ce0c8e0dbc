//! The settings that the search may change, and its steps.

const STEP: u64 = 4;
/// The most turns for which a direction rests.
const LONGEST_REST: u32 = 63;

/// One of the two ways in which a knob can be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To a smaller value.
    Down,
    /// To a larger value.
    Up,
}

/// A setting that the search may change: a number that is safe anywhere within its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Its name, for reports.
    pub name: &'static str,
    /// Its least value.
    pub least: u64,
    /// Its largest value.
    pub most: u64,
    /// The smallest value above 0 that has an effect.
    pub smallest_step: u64,
    /// The direction in which less data is moved to the fast device, if there is one. Such a step makes the drive
    /// faster immediately, whatever it costs later.
    pub less_data: Option<Direction>,
}

impl Knob {
    /// Whether such a step moves less data to the fast device.
    pub(super) fn moves_less(&self, up: bool) -> bool {
        self.less_data == Some(if up { Direction::Up } else { Direction::Down })
    }

    /// The value after a step: four times or a quarter as much (half a step would be lost in the noise), within bounds.
    /// `None` at a bound.
    pub(super) fn step(&self, value: u64, up: bool) -> Option<u64> {
        let Knob { least, most, smallest_step: smallest, .. } = *self;
        let next = match up {
            true => (value * STEP).max(smallest),
            // Below the smallest step there is only the end of the range.
            false if value <= smallest => least,
            false => (value / STEP).max(smallest.min(value / 2)),
        };
        let next = next.clamp(least, most.max(least));
        (next != value).then_some(next)
    }
}

/// A failed direction is not tried again soon; each further failure doubles the pause.
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
        for (least, most, smallest_step) in [(0, 256, 1), (1, 16, 1), (0, 600, 10), (10, 3600, 10), (1, 1, 1)] {
            let knob = Knob { name: "knob", least, most, smallest_step, less_data: None };
            for up in [false, true] {
                let mut value = 4.clamp(least, most);
                for _ in 0..40 {
                    let Some(next) = knob.step(value, up) else { break };
                    assert_ne!(next, value);
                    value = next;
                }
                assert_eq!(knob.step(value, up), None, "{knob:?} goes on beyond {value}");
                assert!((least..=most).contains(&value), "{value} of {knob:?}");
            }
        }
    }
}

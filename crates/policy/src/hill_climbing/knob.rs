//! What the search may move, and by how much.

const STEP: u64 = 4;
/// Turns that a way may rest.
const LONGEST_REST: u32 = 63;

/// One of the two ways in which a knob can be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To a smaller value.
    Down,
    /// To a larger value.
    Up,
}

/// A setting that the search may move: a number all of whose values within its bounds are safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Its name, for reports.
    pub name: &'static str,
    /// Its least value.
    pub least: u64,
    /// Its largest value.
    pub most: u64,
    /// The smallest value above 0 that makes a difference.
    pub smallest_step: u64,
    /// The direction in which less data comes to the fast device, if there is one: that makes the drive faster at once,
    /// whatever it costs afterwards.
    pub less_data: Option<Direction>,
}

impl Knob {
    /// Whether such a step brings less data to the fast device.
    pub(super) fn moves_less(&self, up: bool) -> bool {
        self.less_data == Some(if up { Direction::Up } else { Direction::Down })
    }

    /// Four times or a quarter as much (half a step is lost in the noise), within bounds; none where there is no further
    /// to go.
    pub(super) fn step(&self, value: u64, up: bool) -> Option<u64> {
        let Knob { least, most, smallest_step: smallest, .. } = *self;
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

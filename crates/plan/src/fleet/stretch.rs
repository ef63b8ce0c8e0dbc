//! The part of a fleet's time in which a drive is simulated.

use peryton_units::Nanos;

use super::{carry::Fleet, verify::MOST_SIMULATED};

/// A part of the time, and about how many requests a group has in it, and in all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    pub(super) from: Nanos,
    pub(super) to: Nanos,
    pub(super) requests: u64,
    pub(super) share: f64,
}

impl Stretch {
    /// All of it if it is not too much; otherwise the time up to the window in which the drive is busiest, and some after it if there is not
    /// enough before.
    pub(super) fn of(fleet: &Fleet, group: &[usize], busy: &[f64]) -> Stretch {
        Stretch::with(fleet, &fleet.requests(group), busy, MOST_SIMULATED)
    }

    fn with(fleet: &Fleet, requests: &[f64], busy: &[f64], most: u64) -> Stretch {
        let all: f64 = requests.iter().sum();
        let (mut from, mut to) = (0, requests.len());
        if all > most as f64 {
            let busiest = (0..busy.len()).max_by(|a, b| busy[*a].total_cmp(&busy[*b])).unwrap_or(0);
            (from, to) = (busiest, busiest + 1);
            let mut sum = requests[busiest];
            loop {
                let before = from.checked_sub(1).filter(|index| sum + requests[*index] <= most as f64);
                let after = Some(to).filter(|index| *index < requests.len() && sum + requests[*index] <= most as f64);
                match (before, after) {
                    (Some(index), _) => (from, sum) = (index, sum + requests[index]),
                    (None, Some(index)) => (to, sum) = (index + 1, sum + requests[index]),
                    (None, None) => break,
                }
            }
        }
        let taken: f64 = requests[from..to].iter().sum();
        Stretch {
            from: fleet.window_start(from),
            to: fleet.window_start(to),
            requests: taken as u64,
            share: if all > 0.0 { taken / all } else { 1.0 },
        }
    }
}

//! Admits a random share of the misses ("Mixed SSD arrays", section III-C): extents requested often are admitted sooner
//! or later.

use super::{Access, AdmissionRule, Unit, WriteHits};
use crate::{
    admission::mix,
    saving::{Saving, halves, whole},
};

#[derive(Clone, Debug)]
pub struct Probability {
    /// The probability in units of 2⁻³²; above all draws for a probability of 1.
    chance: u64,
    /// The state of the random numbers.
    draws: u64,
}

impl AdmissionRule for Probability {
    const UNIT: Unit = Unit::Share;
    const ADAPTS: bool = true;
    // "Handles only a portion p of I/O requests in cache" (section VI-A): that includes requests that hit.
    const WRITE_HITS: Option<WriteHits> = Some(WriteHits::Bypass);

    fn new(_extents: usize, seed: u64) -> Probability {
        Probability { chance: 0, draws: mix(seed) }
    }

    fn set_threshold(&mut self, threshold: f64) {
        self.chance = (threshold.clamp(0.0, 1.0) * 4_294_967_296.0) as u64;
    }

    #[inline]
    fn admits(&mut self, _miss: Access) -> bool {
        self.draws = self.draws.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (mix(self.draws) >> 32) < self.chance
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        to.put(0, &halves(self.draws));
        true
    }

    fn load(&mut self, _list: u8, item: &[u32]) {
        if let [low, high] = *item {
            self.draws = whole([low, high]);
        }
    }

    fn sampled_threshold(step: u32, caches: u32) -> f64 {
        // From 0.01 to 1, by factors.
        0.01f64.powf(f64::from(caches - step) / f64::from(caches.saturating_sub(1).max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampled_thresholds_run_from_strict_to_open() {
        let found = [1, 2, 3].map(|step| Probability::sampled_threshold(step, 3));
        assert!(found.iter().zip([0.01, 0.1, 1.0]).all(|(found, wanted)| (found - wanted).abs() < 1e-12), "{found:?}");
    }
}

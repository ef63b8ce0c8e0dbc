//! Admits extents with more recent references than the threshold ("Mixed SSD arrays", section III-B).

use super::{Access, AdmissionRule, Unit};
use crate::{admission::references::References, saving::Saving};

#[derive(Clone, Debug)]
pub struct Hotness {
    references: References,
    threshold: f64,
}

impl AdmissionRule for Hotness {
    const UNIT: Unit = Unit::Count;
    const ADAPTS: bool = true;

    fn new(extents: usize, _seed: u64) -> Hotness {
        Hotness { references: References::new(extents), threshold: 0.0 }
    }

    fn set_threshold(&mut self, threshold: f64) {
        self.threshold = threshold;
    }

    #[inline]
    fn admits(&mut self, miss: Access) -> bool {
        f64::from(self.references.count(miss.extent)) > self.threshold
    }

    fn sampled_threshold(step: u32, caches: u32) -> f64 {
        f64::from(caches - step)
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        self.references.save(0, to)
    }

    fn load(&mut self, _list: u8, item: &[u32]) {
        self.references.load(item);
    }

    #[cfg(test)]
    fn remembered(&self) -> usize {
        self.references.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampled_thresholds_run_from_strict_to_open() {
        assert_eq!([1, 2, 3].map(|step| Hotness::sampled_threshold(step, 3)), [2.0, 1.0, 0.0]);
    }
}

//! Admits the extents with the most references: hotness with a threshold that follows the counts.

use super::{Access, AdmissionRule, Unit};
use crate::{admission::references::References, saving::Saving};

#[derive(Clone, Debug)]
pub struct HottestShare {
    references: References,
    share: f64,
}

impl AdmissionRule for HottestShare {
    const UNIT: Unit = Unit::Share;
    const DEFAULT_THRESHOLD: Option<f64> = Some(0.1);

    fn new(extents: usize, _seed: u64) -> HottestShare {
        HottestShare { references: References::new(extents), share: 0.0 }
    }

    fn set_threshold(&mut self, threshold: f64) {
        self.share = threshold;
    }

    #[inline]
    fn admits(&mut self, miss: Access) -> bool {
        let threshold = self.references.threshold_of_hottest(self.share);
        self.references.count(miss.extent) > threshold
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

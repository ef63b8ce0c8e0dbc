//! The rule that admits every miss.

use super::{Access, AdmissionRule, Unit};

#[derive(Clone, Debug)]
pub struct All;

impl AdmissionRule for All {
    const UNIT: Unit = Unit::Nothing;
    const DEFAULT_THRESHOLD: Option<f64> = Some(1.0);

    fn new(_extents: usize, _seed: u64) -> All {
        All
    }

    fn set_threshold(&mut self, _threshold: f64) {}

    #[inline]
    fn admits(&mut self, _miss: Access) -> bool {
        true
    }
}

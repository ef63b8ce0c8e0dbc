//! Admits short requests ("Mixed SSD arrays", section III-A): the storage serves long ones well.

use super::{Access, AdmissionRule, Unit, WriteHits};

#[derive(Clone, Debug)]
pub struct Size {
    threshold: f64,
}

/// Larger than any request: 1 GiB, small enough that smoothing towards and away from it still has an effect.
const ADMITS_ALL: f64 = 1_073_741_824.0;

impl AdmissionRule for Size {
    const UNIT: Unit = Unit::Bytes;
    const ADAPTS: bool = true;
    const WRITE_HITS: Option<WriteHits> = Some(WriteHits::Cache);

    fn new(_extents: usize, _seed: u64) -> Size {
        Size { threshold: 0.0 }
    }

    fn set_threshold(&mut self, threshold: f64) {
        self.threshold = threshold;
    }

    #[inline]
    fn admits(&mut self, miss: Access) -> bool {
        miss.request_len.0 as f64 <= self.threshold
    }

    fn sampled_threshold(step: u32, caches: u32) -> f64 {
        // The sizes that requests usually have: 4 KiB, 8 KiB, and so on.
        if step < caches { 4096.0 * 2f64.powi(step as i32 - 1) } else { ADMITS_ALL }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampled_thresholds_run_from_strict_to_open() {
        assert_eq!([1, 2, 3].map(|step| Size::sampled_threshold(step, 3)), [4096.0, 8192.0, ADMITS_ALL]);
    }
}

//! The misses of sizes of the fast device.

use peryton_trace::MissRatioCurve;
use peryton_units::Bytes;

/// The miss-ratio curve of a trace that touches a share of the data of the design: a size of the design counts as so much less.
pub(super) struct Misses {
    pub(super) curve: MissRatioCurve,
    /// The share.
    pub(super) load: f64,
}

impl Misses {
    /// The miss ratio of each size.
    pub(super) fn at(&self, sizes: &[Bytes]) -> Vec<f64> {
        let simulated: Vec<Bytes> = sizes.iter().map(|size| Bytes((size.0 as f64 * self.load) as u64)).collect();
        self.curve.at(&simulated).iter().map(|ratios| ratios.blocks.all).collect()
    }

    /// The number of extents of all data in use.
    pub(super) fn extents(&self) -> u64 {
        (self.curve.blocks() as f64 / self.load) as u64
    }
}

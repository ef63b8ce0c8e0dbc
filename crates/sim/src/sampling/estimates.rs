//! What a sample says about the whole trace, in a report.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// A sample, and its estimates of the whole trace's figures.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SampleReport {
    /// The requested share of the regions of the address space.
    pub share: f64,
    /// The seed of the hash that chooses the regions.
    pub seed: u64,
    /// The size of a region.
    pub region_bytes: u64,
    /// The number of requests in the sample.
    pub requests: u64,
    /// The share of the trace's requests that are in the sample.
    pub requests_share: f64,
    /// Number of disjoint slices of the sample, from which the error is computed.
    pub slices: usize,
    /// The share of samples whose intervals contain the figure of the whole trace.
    pub confidence: f64,
    /// Estimates of the whole trace's figures, by their names in a report. Counts and bytes are those of the
    /// sample, multiplied.
    pub figures: BTreeMap<String, SampleFigure>,
}

/// The estimate of a figure of the whole trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SampleFigure {
    /// The estimate.
    pub estimate: f64,
    /// The lower end of the interval of the estimate.
    pub low: f64,
    /// The upper end of the interval of the estimate.
    pub high: f64,
}

impl SampleFigure {
    /// In another unit.
    pub(super) fn times(self, factor: f64) -> SampleFigure {
        SampleFigure { estimate: self.estimate * factor, low: self.low * factor, high: self.high * factor }
    }
}

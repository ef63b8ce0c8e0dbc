//! What a sample says about the whole trace, in a report.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// A sample, and what it says about the whole trace.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SampleReport {
    /// The share of the regions that was asked for.
    pub share: f64,
    /// The seed of the hash that chooses them.
    pub seed: u64,
    /// The size of a region.
    pub region_bytes: u64,
    /// The requests of the sample, and their share of the trace's.
    pub requests: u64,
    /// Their share of the trace's requests.
    pub requests_share: f64,
    /// Number of disjoint slices of the sample, from which the error is computed.
    pub slices: usize,
    /// The share of samples whose intervals contain the figure of the whole trace.
    pub confidence: f64,
    /// Figures of the whole trace, as estimated, by their names in a report. Counts and bytes are those of the sample, multiplied.
    pub figures: BTreeMap<String, SampleFigure>,
}

/// A figure of the whole trace, as a sample has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SampleFigure {
    /// The figure.
    pub estimate: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end of its interval.
    pub high: f64,
}

impl SampleFigure {
    /// In another unit.
    pub(super) fn times(self, factor: f64) -> SampleFigure {
        SampleFigure { estimate: self.estimate * factor, low: self.low * factor, high: self.high * factor }
    }
}

//! The statistics of a partitioned drive.

use serde::Serialize;

/// The statistics of a partitioned drive (MixedStore, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PartitionStats {
    /// Writes that were sent to the fast device.
    pub writes_fast: u64,
    /// Writes that were sent to the slow device.
    pub writes_slow: u64,
    /// Writes that regulation sent to the slow device.
    pub regulated: u64,
    /// Cold extents that were moved to the slow device while the host was idle.
    pub busted: u64,
    /// Frequently read extents that were copied to the fast device while the host was idle.
    pub promoted_idle: u64,
    /// Writes whose response time the model had predicted.
    pub predicted: u64,
    /// Sum of the absolute errors of the predictions, in ns.
    pub error_ns: u64,
    /// Sum of the absolute errors that the last value would have had, in ns.
    pub last_value_error_ns: u64,
    /// The sum of the response times of these writes, in ns.
    pub response_ns: u64,
    /// The sum of the squares of their response times, in square milliseconds.
    pub response_squares: f64,
    /// The sum of the squares of the errors, in square milliseconds.
    pub residual_squares: f64,
    /// Predictions made by the mean service time, because the model had too few samples or a larger error.
    pub stand_ins: u64,
    /// How often the model had to start again.
    pub resets: u64,
}

impl PartitionStats {
    /// Share of the variance of the response times that the predictions explain; `None` without variance.
    pub fn r_squared(&self) -> Option<f64> {
        let mean = self.response_ns as f64 / 1e6 / self.predicted.max(1) as f64;
        let total = self.response_squares - mean * mean * self.predicted as f64;
        (self.predicted > 1 && total > 0.0).then(|| 1.0 - self.residual_squares / total)
    }

    /// Mean error of the predictions over the mean response time; `None` before the first prediction.
    pub fn relative_error(&self) -> Option<f64> {
        (self.response_ns > 0).then(|| self.error_ns as f64 / self.response_ns as f64)
    }

    /// Mean error of the last value over the mean response time; `None` before the first prediction.
    pub fn last_value_relative_error(&self) -> Option<f64> {
        (self.response_ns > 0).then(|| self.last_value_error_ns as f64 / self.response_ns as f64)
    }
}

//! Counts of a device's failures, for the status and for the decision at the end of serving.

use serde::Serialize;

use crate::backend::Operation;

/// Counts of a device's failures.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Health {
    /// Commands that failed after all attempts.
    pub(crate) errors: u64,
    /// Commands that were repeated.
    pub(crate) retries: u64,
    /// Flushes that failed. What was written before each of them may be lost.
    pub(crate) failed_flushes: u64,
    /// The last failure, as the system describes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
}

/// Whether data that a device acknowledged may be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Every requested flush succeeded.
    #[default]
    None,
    /// A drill prevented a flush: nothing is lost, and the next successful flush confirms that.
    UntilFlushed,
    /// The kernel failed a flush. It may have dropped the data that it could not write, and a later flush that succeeds
    /// does not show that.
    Lasting,
}

/// An operation that failed after all attempts.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) operation: Operation,
    /// The failure, as the system describes it.
    pub(crate) error: String,
}

//! What has happened to a device: for people, and for the end of the server.

use serde::Serialize;

use crate::backend::Operation;

/// What has happened to a device.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Health {
    /// Commands that failed for good.
    pub(crate) errors: u64,
    /// Commands that were tried again.
    pub(crate) retries: u64,
    /// Flushes that failed: what was written before each of them may be lost.
    pub(crate) failed_flushes: u64,
    /// The last failure, in the system's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
}

/// Whether what was written to a device may be gone although it was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Every flush that was asked for succeeded.
    #[default]
    None,
    /// A flush was not carried out (a drill): nothing is lost, and the next one that succeeds says so.
    UntilFlushed,
    /// The kernel failed a flush. It may have dropped what it could not write, and a later flush that succeeds says nothing
    /// about that.
    Lasting,
}

/// An operation that failed for good.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) operation: Operation,
    /// In the system's words.
    pub(crate) error: String,
}

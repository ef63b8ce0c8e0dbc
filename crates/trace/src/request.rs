use peryton_units::{Bytes, Nanos, Op};

use crate::TraceError;

/// One block request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Arrival, counted from the first request of the trace.
    pub at: Nanos,
    /// Offset on the volume.
    pub offset: Bytes,
    /// Length; zero for a flush.
    pub len: Bytes,
    /// The number of the volume, ASU or disk in the trace.
    pub volume: u32,
    /// The operation.
    pub op: Op,
}

/// The most requests that a [`Source`] puts into one batch: large enough to amortise a virtual call, small enough to
/// stay in the second-level cache.
pub const BATCH: usize = 4096;

/// A stream of requests.
pub trait Source: Send {
    /// Clears `batch` and fills it with the next requests in order. An empty batch is the end. A batch has at most
    /// [`BATCH`](crate::BATCH) requests, so that memory does not grow with the trace.
    ///
    /// # Errors
    /// The trace cannot be read further, or contains data that is not a request. The batch is then empty, and the
    /// stream has ended.
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError>;
}

use peryton_units::{Bytes, Nanos, Op};

use crate::TraceError;

/// One block request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Arrival, counted from the first request of the trace.
    pub at: Nanos,
    /// Where on the volume.
    pub offset: Bytes,
    /// How much; zero for a flush.
    pub len: Bytes,
    /// Which volume, ASU or disk of the trace, as the trace numbers it.
    pub volume: u32,
    /// What is asked.
    pub op: Op,
}

/// The most requests that a [`Source`] puts into one batch: large enough to amortise a virtual call, small enough
/// to stay in the second-level cache.
pub const BATCH: usize = 4096;

/// A stream of requests.
pub trait Source: Send {
    /// Clears `batch` and fills it with the next requests in order. An empty batch is the end. The batch is bounded
    /// ([`BATCH`](crate::BATCH) requests), so that memory does not grow with the trace.
    ///
    /// # Errors
    /// The trace cannot be read on, or holds something that is no request. The batch is empty then, and the stream at
    /// its end.
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError>;
}

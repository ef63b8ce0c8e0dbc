use peryton_units::{Bytes, Nanos, Op};

use crate::{Account, TraceError};

/// The slot that an object has on a drive, in bytes.
///
/// A cache trace has objects, a drive has offsets. Where a drive is simulated, object i is read at i × 4 KiB, and no request is
/// longer than its slot, so that requests for different objects never access the same bytes; what is cut off is counted in
/// [`Account::cut`]. With extents of 4 KiB an extent is an object, and the hit ratio of a cache of n extents is libCacheSim's
/// for n objects of equal size (`--ignore-obj-size`). Objects from 2^50 on do not fit below 2^63 bytes and are hashed into the
/// slots from 2^50 to 2^51: two of a million such objects share a slot with a probability below 1 in 2000.
pub const OBJECT_UNIT: Bytes = Bytes::kib(4);

/// One block request of a trace.
///
/// ```
/// use peryton_trace::Request;
/// use peryton_units::{Bytes, Nanos, Op};
///
/// // A read of 4 KiB at 1 MiB, 250 µs after the first request of the trace.
/// let request = Request { at: Nanos::from_us(250), offset: Bytes::mib(1), len: Bytes::kib(4), volume: 0, op: Op::Read };
/// assert_eq!(request.offset.0 + request.len.0, 1_052_672);
/// ```
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
///
/// ```
/// use peryton_trace::{BATCH, Characteristics, Request, Source, TraceError};
/// use peryton_units::{Bytes, Nanos, Op};
///
/// /// A program's own trace: reads of one block after the other, a millisecond apart.
/// struct Scan(std::ops::Range<u64>);
///
/// impl Source for Scan {
///     fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
///         batch.clear();
///         batch.extend(self.0.by_ref().take(BATCH).map(|n| {
///             let (at, offset) = (Nanos::from_ms(n), Bytes::kib(4 * n));
///             Request { at, offset, len: Bytes::kib(4), volume: 0, op: Op::Read }
///         }));
///         Ok(())
///     }
/// }
///
/// let about = Characteristics::of(&mut Scan(0..10_000))?;
/// assert_eq!((about.requests, about.footprint.pages), (10_000, 10_000));
/// # Ok::<(), TraceError>(())
/// ```
pub trait Source: Send {
    /// Clears `batch` and fills it with the next requests in order. An empty batch is the end. A batch has at most
    /// [`BATCH`](crate::BATCH) requests, so that memory does not grow with the trace.
    ///
    /// # Errors
    /// The trace cannot be read further, or contains data that is not a request. The batch is then empty, and the
    /// stream has ended.
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError>;

    /// What became of the trace so far; a source that passes on another's requests passes on its account.
    fn account(&self) -> Account {
        Account::default()
    }
}

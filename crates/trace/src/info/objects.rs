use std::fmt::{self, Display};

use peryton_units::{Bytes, Nanos, Op};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::{
    DEFAULT_MAX_BLOCKS, SizeDistribution,
    distribution::SizeCollector,
    render::{grouped, line, percent, seconds, sizes_of},
    sample::Sample,
};
use crate::{Account, Objects, TraceError};

/// The characteristics of a trace of objects, with their whole sizes.
///
/// ```
/// use peryton_trace::{ObjectCharacteristics, OpenOptions, read};
///
/// let text = "0 REST.PUT.OBJECT 7 100000\n12 REST.GET.OBJECT 7 100000\n13 REST.GET.OBJECT 8 5\n";
/// let mut objects = read("example", text.as_bytes(), &OpenOptions::default())?.into_objects()?;
/// let about = ObjectCharacteristics::of(&mut objects)?;
/// assert_eq!((about.requests, about.objects, about.footprint_bytes), (3, 2, 100_005));
/// # Ok::<(), peryton_trace::TraceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectCharacteristics {
    /// Number of all requests.
    pub requests: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of requests that store an object.
    pub writes: u64,
    /// Number of requests that delete one.
    pub deletes: u64,
    /// Bytes of all reads.
    pub bytes_read: u64,
    /// Bytes of all objects that are stored, each time.
    pub bytes_written: u64,
    /// Time from the first arrival to the last, in seconds.
    pub span_s: f64,
    /// What became of the trace on its way.
    pub account: Account,
    /// Sizes of reads and of what is stored, in bytes.
    pub request_bytes: Option<SizeDistribution>,
    /// Number of different objects.
    pub objects: u64,
    /// Bytes of these, each with the largest size that a request had for it.
    pub footprint_bytes: u64,
    /// Share of the objects that one request asks for, and no other: no cache can hit them.
    pub requested_once_share: f64,
    /// The share of objects in the sample; below one, the last three figures are estimates.
    pub sampled_share: f64,
}

impl ObjectCharacteristics {
    /// Reads the trace to its end.
    ///
    /// # Errors
    /// Those of the trace.
    pub fn of(trace: &mut Objects) -> Result<ObjectCharacteristics, TraceError> {
        let (mut counts, mut bytes, mut sizes) = ([0u64; 4], [0u64; 4], SizeCollector::new());
        let (mut sample, mut seen) = (Sample::default(), FxHashMap::<u64, (u64, u64)>::default());
        let (mut batch, mut last) = (Vec::new(), Nanos::ZERO);
        loop {
            trace.next_batch(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            for request in &batch {
                let op = request.op as usize;
                counts[op] += 1;
                bytes[op] = bytes[op].saturating_add(request.size.0);
                last = request.at;
                if request.op == Op::Discard {
                    continue;
                }
                sizes.record(request.size.0);
                if sample.contains(0, request.id) {
                    let (size, requests) = seen.entry(request.id).or_default();
                    (*size, *requests) = ((*size).max(request.size.0), *requests + 1);
                }
            }
            if seen.len() > DEFAULT_MAX_BLOCKS {
                sample.halve();
                seen.retain(|id, _| sample.contains(0, *id));
            }
        }
        let once = seen.values().filter(|(_, requests)| *requests == 1).count();
        let [reads, writes, deletes, flushes] = counts;
        Ok(ObjectCharacteristics {
            requests: reads + writes + deletes + flushes,
            reads,
            writes,
            deletes,
            bytes_read: bytes[0],
            bytes_written: bytes[1],
            span_s: last.as_s_f64(),
            account: trace.account(),
            request_bytes: sizes.summary(),
            objects: seen.len() as u64 * sample.weight(),
            footprint_bytes: seen
                .values()
                .fold(0, |sum: u64, (size, _)| sum.saturating_add(*size))
                .saturating_mul(sample.weight()),
            requested_once_share: if seen.is_empty() { 0.0 } else { once as f64 / seen.len() as f64 },
            sampled_share: sample.share(),
        })
    }
}

impl Display for ObjectCharacteristics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [self.requests, self.reads, self.writes, self.deletes].map(grouped);
        let [requests, reads, writes, deletes] = counts;
        line(f, "requests for objects", format!("{requests} ({reads} reads, {writes} writes, {deletes} deletes)"))?;
        line(f, "data", format!("{} read, {} written", Bytes(self.bytes_read), Bytes(self.bytes_written)))?;
        line(f, "time span", seconds(self.span_s))?;
        line(f, "objects", format!("{}, {} in all", grouped(self.objects), Bytes(self.footprint_bytes)))?;
        line(f, "requested once", percent(self.requested_once_share))?;
        if self.sampled_share < 1.0 {
            line(f, "", format!("estimated from {} of the objects", percent(self.sampled_share)))?;
        }
        self.request_bytes.as_ref().map_or(Ok(()), |sizes| sizes_of("size", sizes, f))
    }
}

//! What makes a small trace of a large one: regions next to each other, times that are as dense, requests in memory.

use std::sync::Arc;

use peryton_trace::{BATCH, Request, Source, TraceError};
use peryton_units::{Bytes, Nanos, Op};
use rustc_hash::FxHashMap;

/// The size of a region unless a trace has too few of them: large enough for most of a run of sequential requests to stay together,
/// and a whole number of the extents of most designs.
pub const REGION: Bytes = Bytes(1 << 20);
/// The least address space of regions that were moved next to each other, in regions.
const LEAST_REACH: u64 = 64;

/// Moves the regions that requests begin in next to each other, in the order of their addresses; returns the requests, and the
/// address space that they then need. A discard ends with its region.
pub fn pack_regions(requests: &[Request], region: Bytes) -> (Vec<Request>, Bytes) {
    let of = |request: &Request| request.offset.0 / region.0;
    let mut regions: Vec<u64> = requests.iter().filter(|request| request.op != Op::Flush).map(of).collect();
    regions.sort_unstable();
    regions.dedup();
    let place: FxHashMap<u64, u64> = regions.iter().zip(0u64..).map(|(region, place)| (*region, place)).collect();
    let mut reach = LEAST_REACH * region.0;
    let moved = |request: &Request| {
        if request.op == Op::Flush {
            return *request;
        }
        let within = request.offset.0 % region.0;
        let offset = Bytes(place[&of(request)] * region.0 + within);
        let len = if request.op == Op::Discard { request.len.min(Bytes(region.0 - within)) } else { request.len };
        reach = reach.max(offset.0 + len.0);
        Request { offset, len, ..*request }
    };
    let requests = requests.iter().map(moved).collect();
    (requests, Bytes(reach.next_multiple_of(region.0)))
}

/// Makes the times of the requests of a sample as dense as those of the trace, of whose requests they are this share. They begin
/// at 0.
pub fn compress_times(requests: &mut [Request], share: f64) {
    let Some(first) = requests.first().map(|request| request.at) else { return };
    for request in requests {
        request.at = Nanos((request.at.saturating_sub(first).0 as f64 * share) as u64);
    }
}

/// Requests in memory.
pub struct Held {
    requests: Arc<Vec<Request>>,
    at: usize,
}

impl Held {
    /// All of them, from the first one.
    pub fn new(requests: Arc<Vec<Request>>) -> Held {
        Held { requests, at: 0 }
    }
}

impl Source for Held {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        let end = (self.at + BATCH).min(self.requests.len());
        batch.clear();
        batch.extend_from_slice(&self.requests[self.at..end]);
        self.at = end;
        Ok(())
    }
}

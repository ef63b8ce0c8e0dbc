//! The order of requests in time.
//!
//! Real traces have small inversions: a line is written when a request completes, or each CPU writes its own buffer.
//! Requests are sorted by arrival within a window of [`REORDER_WINDOW`]; equal times keep the order of the file. A
//! request that comes later in the file than the window reaches keeps its place, gets the arrival of the previous one,
//! and is counted. So time never goes back in the output.

use peryton_units::Nanos;

use crate::{BATCH, Request, TraceError};

/// The number of requests that are held back for sorting: more than blktrace's default buffers of one CPU hold (512
/// KiB, about 11,000 events), in under 3 MB of memory.
pub const REORDER_WINDOW: usize = 32_768;

#[derive(Default)]
pub(crate) struct Order {
    pending: Vec<Request>,
    /// Requests before this index have been returned.
    cursor: usize,
    /// Requests before this index are in their final order.
    ready: usize,
    base: Option<u64>,
    last: u64,
    late: u64,
    ended: bool,
    /// An error, returned after the good requests before it.
    failed: Option<TraceError>,
}

impl Order {
    /// Number of requests that arrived before one that had been returned.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// Clears `batch` and puts the next requests into it, with arrivals counted from the first. `fill` appends requests
    /// in the order of the file and returns whether there may be more.
    pub(crate) fn next_batch(
        &mut self,
        batch: &mut Vec<Request>,
        fill: impl FnMut(&mut Vec<Request>) -> Result<bool, TraceError>,
    ) -> Result<(), TraceError> {
        batch.clear();
        if self.cursor == self.ready {
            self.refill(fill);
        }
        let until = self.ready.min(self.cursor + BATCH);
        let requests = &self.pending[self.cursor..until];
        self.cursor = until;
        let Some(first) = requests.first() else {
            return self.failed.take().map_or(Ok(()), Err);
        };
        let base = *self.base.get_or_insert(first.at.0);
        batch.extend(requests.iter().map(|request| {
            self.late += u64::from(request.at.0 < self.last);
            self.last = self.last.max(request.at.0);
            Request { at: Nanos(self.last - base), ..*request }
        }));
        Ok(())
    }

    fn refill(&mut self, mut fill: impl FnMut(&mut Vec<Request>) -> Result<bool, TraceError>) {
        self.pending.drain(..self.ready);
        while !self.ended && self.pending.len() < 2 * REORDER_WINDOW {
            match fill(&mut self.pending) {
                Ok(more) => self.ended = !more,
                Err(error) => {
                    self.ended = true;
                    self.failed = Some(error);
                }
            }
        }
        if !self.pending.is_sorted_by_key(|request| request.at) {
            self.pending.sort_by_key(|request| request.at);
        }
        self.cursor = 0;
        self.ready = if self.ended { self.pending.len() } else { self.pending.len() - REORDER_WINDOW };
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::{Bytes, Op};

    use super::*;

    fn ordered(times: &[u64]) -> (Vec<Request>, u64) {
        let mut order = Order::default();
        let mut chunks = times.chunks(1000);
        let (mut all, mut batch, mut serial) = (Vec::new(), Vec::new(), 0);
        loop {
            order
                .next_batch(&mut batch, |out| {
                    let Some(chunk) = chunks.next() else { return Ok(false) };
                    out.extend(chunk.iter().map(|&at| {
                        serial += 1;
                        Request { at: Nanos(at), offset: Bytes(serial - 1), len: Bytes(1), volume: 0, op: Op::Read }
                    }));
                    Ok(true)
                })
                .unwrap();
            assert!(batch.len() <= BATCH);
            if batch.is_empty() {
                return (all, order.late());
            }
            all.append(&mut batch);
        }
    }

    #[test]
    fn inversions_inside_the_window_are_sorted() {
        // Times displaced by up to half a window, with ties.
        let times: Vec<u64> = (0..200_000u64).map(|i| 500 + (i ^ 0x3fff) / 2).collect();
        let (requests, late) = ordered(&times);
        assert_eq!((requests.len(), late), (times.len(), 0));
        assert_eq!(requests[0].at, Nanos(0));
        let mut expected: Vec<(u64, u64)> = times.iter().zip(0..).map(|(&at, serial)| (at, serial)).collect();
        expected.sort();
        let base = expected[0].0;
        let read: Vec<_> = requests.iter().map(|request| (request.at.0 + base, request.offset.0)).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn a_request_beyond_the_window_is_counted_and_time_does_not_go_back() {
        let mut times: Vec<u64> = (1000..1000 + 3 * REORDER_WINDOW as u64).collect();
        times.push(1);
        times.push(999);
        let (requests, late) = ordered(&times);
        assert_eq!((requests.len(), late), (times.len(), 2));
        assert!(requests.is_sorted_by_key(|request| request.at));
    }

    #[test]
    fn what_comes_before_an_error_is_yielded() {
        let mut order = Order::default();
        let mut calls = 0;
        let mut batch = Vec::new();
        let mut next = |batch: &mut Vec<Request>| {
            order.next_batch(batch, |out| {
                calls += 1;
                if calls > 1 {
                    return Err(TraceError::Empty { path: "t".into(), expected: "x".into() });
                }
                out.push(Request { at: Nanos(7), offset: Bytes(0), len: Bytes(1), volume: 0, op: Op::Read });
                Ok(true)
            })
        };
        assert!(next(&mut batch).is_ok() && batch.len() == 1);
        assert!(next(&mut batch).is_err());
        assert!(next(&mut batch).is_ok() && batch.is_empty());
    }
}

//! Several traces as one.

use std::{cmp::Reverse, collections::BinaryHeap};

use peryton_units::Nanos;

use crate::{Account, BATCH, Request, TraceError, decode::Decode};

/// The way in which several files form one trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Join {
    /// They were recorded at the same time, with the same clock: their requests are merged by arrival.
    #[default]
    ByTime,
    /// They were recorded one after another: each begins when the previous one ends.
    InSequence,
}

/// One of several traces.
struct Part {
    decode: Box<dyn Decode>,
    buffer: Vec<Request>,
    cursor: usize,
}

impl Part {
    /// The next request, which stays in the trace.
    fn peek(&mut self) -> Result<Option<Request>, TraceError> {
        if self.cursor == self.buffer.len() {
            self.buffer.clear();
            self.cursor = 0;
            self.decode.fill(&mut self.buffer)?;
        }
        Ok(self.buffer.get(self.cursor).copied())
    }
}

/// Traces with one clock, merged by arrival; at equal times in the order in which they were named.
pub(crate) struct Merge {
    parts: Vec<Part>,
    next: BinaryHeap<Reverse<(Nanos, usize)>>,
    begun: bool,
}

impl Merge {
    pub(crate) fn new(traces: Vec<Box<dyn Decode>>) -> Merge {
        let parts: Vec<_> = traces.into_iter().map(|decode| Part { decode, buffer: Vec::new(), cursor: 0 }).collect();
        Merge { next: BinaryHeap::with_capacity(parts.len()), parts, begun: false }
    }

    fn queue(&mut self, part: usize) -> Result<(), TraceError> {
        if let Some(request) = self.parts[part].peek()? {
            self.next.push(Reverse((request.at, part)));
        }
        Ok(())
    }
}

impl Decode for Merge {
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        if !std::mem::replace(&mut self.begun, true) {
            for part in 0..self.parts.len() {
                self.queue(part)?;
            }
        }
        for _ in 0..BATCH {
            let Some(Reverse((_, part))) = self.next.pop() else {
                return Ok(());
            };
            let from = &mut self.parts[part];
            out.push(from.buffer[from.cursor]);
            from.cursor += 1;
            self.queue(part)?;
        }
        Ok(())
    }

    fn add_to(&self, account: &mut Account) {
        self.parts.iter().for_each(|part| part.decode.add_to(account));
    }
}

/// Traces one after another; each begins when the previous one ends.
pub(crate) struct Sequence {
    traces: Vec<Box<dyn Decode>>,
    current: usize,
    /// The arrival of the current trace's first request, on its own clock.
    first: Option<u64>,
    /// The start of the current trace, and the latest arrival so far.
    start: u64,
    latest: u64,
}

impl Sequence {
    pub(crate) fn new(traces: Vec<Box<dyn Decode>>) -> Sequence {
        Sequence { traces, current: 0, first: None, start: 0, latest: 0 }
    }
}

impl Decode for Sequence {
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        let before = out.len();
        while let Some(trace) = self.traces.get_mut(self.current) {
            let filled = trace.fill(out);
            if let Some(request) = out.get(before) {
                let first = *self.first.get_or_insert(request.at.0);
                for request in &mut out[before..] {
                    // The subtraction can only cut off a small inversion at the very start of a trace.
                    request.at = Nanos(self.start.saturating_add(request.at.0.saturating_sub(first)));
                    self.latest = self.latest.max(request.at.0);
                }
                return filled;
            }
            filled?;
            self.current += 1;
            self.first = None;
            self.start = self.latest;
        }
        Ok(())
    }

    fn add_to(&self, account: &mut Account) {
        self.traces.iter().for_each(|trace| trace.add_to(account));
    }
}

/// A trace all of whose requests go to one volume.
pub(crate) struct AsVolume {
    pub(crate) decode: Box<dyn Decode>,
    pub(crate) volume: u32,
}

impl Decode for AsVolume {
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        let before = out.len();
        let filled = self.decode.fill(out);
        out[before..].iter_mut().for_each(|request| request.volume = self.volume);
        filled
    }

    fn add_to(&self, account: &mut Account) {
        self.decode.add_to(account);
    }
}

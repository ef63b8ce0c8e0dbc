//! Traces whose clock has whole seconds: whether a trace is one, and its requests spread over their second.

use std::collections::VecDeque;

use peryton_units::Nanos;

use crate::{BATCH, Request, TraceError};

const SECOND: u64 = 1_000_000_000;
/// The most requests of one second that are held to be spread: 128 MiB.
const MOST_A_SECOND: usize = 1 << 22;

/// Sees whether all times are whole seconds, and how many requests have the time of the one before.
#[derive(Default)]
pub(crate) struct Seconds {
    has_fractions: bool,
    last: Option<Nanos>,
    together: u64,
}

impl Seconds {
    /// Looks at the next requests of a trace that begins at `start` on its own clock.
    pub(crate) fn see(&mut self, start: Nanos, requests: &[Request]) {
        if self.has_fractions {
            return;
        }
        for request in requests {
            if !(request.at.0 + start.0).is_multiple_of(SECOND) {
                self.has_fractions = true;
                return;
            }
            self.together += u64::from(self.last == Some(request.at));
            self.last = Some(request.at);
        }
    }

    pub(crate) fn are_whole(&self) -> bool {
        !self.has_fractions
    }

    /// Number of requests with the time of the one before, if all times are whole seconds.
    pub(crate) fn together(&self) -> u64 {
        if self.has_fractions { 0 } else { self.together }
    }
}

/// Spreads the requests of each second evenly over it, in their order.
#[derive(Default)]
pub(crate) struct Spread {
    /// The requests of one second, which may not be complete.
    second: Vec<Request>,
    /// The requests that have their time.
    ready: VecDeque<Request>,
    count: u64,
    ended: bool,
}

impl Spread {
    /// Takes the next requests of the trace out of `batch`; none is the end.
    pub(crate) fn put(&mut self, path: &str, are_whole: bool, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        let wrong = |problem: &str, remedy: &str| TraceError::Options {
            path: path.to_owned(),
            problem: problem.to_owned(),
            remedy: remedy.to_owned(),
        };
        if !are_whole {
            return Err(wrong("the times have fractions of a second", "leave out --spread"));
        }
        self.ended = batch.is_empty();
        if self.ended {
            self.complete();
        }
        for request in batch.drain(..) {
            if self.second.last().is_some_and(|last| last.at != request.at) {
                self.complete();
            }
            if self.second.len() == MOST_A_SECOND {
                return Err(wrong("more than 4194304 requests have the same time", "leave out --spread"));
            }
            self.second.push(request);
        }
        Ok(())
    }

    fn complete(&mut self) {
        let count = self.second.len() as u64;
        self.count += count.saturating_sub(1);
        for (place, mut request) in (0u64..).zip(self.second.drain(..)) {
            request.at.0 += place * SECOND / count;
            self.ready.push_back(request);
        }
    }

    /// Moves the next requests to `batch`; false if there are none yet.
    pub(crate) fn take(&mut self, batch: &mut Vec<Request>) -> bool {
        batch.clear();
        batch.extend(self.ready.drain(..self.ready.len().min(BATCH)));
        !batch.is_empty() || self.ended
    }

    /// Number of requests that got another time.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

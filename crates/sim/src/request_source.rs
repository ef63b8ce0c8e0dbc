//! The trace as input of the simulated drive: one request after the other, each within the volume. What has to be done for each
//! before that (to read, decompress, parse, fit and hash it) can be left to a thread of its own.

mod ahead;
mod fitted;
#[cfg(test)]
mod tests;

use peryton_trace::{Account, BATCH, Request, RequestHash, Source};
use peryton_units::Bytes;

use self::{
    ahead::{Ahead, Sent},
    fitted::{Fitted, Hashes},
};
use crate::{Fit, SimError, touched::Touched};

/// How the volumes of a trace are ranges of one: each is this many bytes behind the one before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    /// How many of them get each request; of one, the volume of the request.
    pub(crate) copies: u32,
    pub(crate) apart: Bytes,
}

/// Who reads the trace.
enum Reader {
    /// The thread that simulates, when it has no request left.
    Here(Box<Fitted>),
    /// Another one, which gives the trace back at its end.
    Ahead(Ahead),
}

/// Reads a trace in batches and hands out its requests.
pub(crate) struct RequestSource<'a> {
    reader: Reader,
    /// Requests that were already made to fit.
    batch: Vec<Request>,
    /// The index of the next request.
    at: usize,
    ended: bool,
    /// Whether the requests of the batch are hashed one by one as they are taken: each has to wait for the hash of the one before,
    /// and has other work to do meanwhile then. Otherwise they are part of the hash already.
    hashes_taken: bool,
    /// The hash of all requests before the batch, or with it.
    hash: RequestHash,
    progress: &'a (dyn Fn(u64) + Sync),
}

impl<'a> RequestSource<'a> {
    /// A trace of up to `count` volumes of `volume` bytes each.
    pub(crate) fn new(
        source: Box<dyn Source>,
        volume: Bytes,
        count: usize,
        fit: Fit,
        limit: Option<u64>,
        progress: &'a (dyn Fn(u64) + Sync),
    ) -> Result<RequestSource<'a>, SimError> {
        let mut requests = RequestSource {
            reader: Reader::Here(Box::new(Fitted::new(source, volume, count, fit, limit))),
            batch: Vec::with_capacity(BATCH),
            at: 0,
            ended: false,
            hashes_taken: false,
            hash: RequestHash::default(),
            progress,
        };
        requests.refill()?;
        Ok(requests)
    }
    /// From now on volumes are ranges of one; nothing may have been taken yet.
    pub(crate) fn spread(&mut self, spread: Spread) {
        self.hash_rest();
        let Reader::Here(fitted) = &mut self.reader else { unreachable!("a trace is spread before it is read ahead") };
        debug_assert!(self.at == 0 && fitted.spread.is_none(), "all requests are spread");
        fitted.spread = Some(spread);
        fitted.spread_out(&mut self.batch);
    }

    /// From now on the source notes in `touched` what the requests access. Nothing may have been taken yet.
    pub(crate) fn note(&mut self, touched: Touched) {
        let Reader::Here(fitted) = &mut self.reader else {
            unreachable!("what is accessed is noted before it is read ahead")
        };
        debug_assert!(self.at == 0, "all that is accessed is noted");
        fitted.touched = Some(touched);
        fitted.note(&self.batch);
    }

    /// From now on another thread reads the trace, ahead of this one. Nothing may have been taken yet.
    pub(crate) fn read_ahead(mut self) -> RequestSource<'a> {
        self.hash_rest();
        let Reader::Here(mut fitted) = self.reader else { unreachable!("a trace is read ahead once") };
        fitted.hash = self.hash;
        let reader = match self.ended {
            true => Reader::Here(fitted),
            false => Ahead::new(fitted).map_or_else(Reader::Here, Reader::Ahead),
        };
        RequestSource { reader, ..self }
    }

    /// Adds the requests to the hash that were to be added as they are taken.
    fn hash_rest(&mut self) {
        if std::mem::take(&mut self.hashes_taken) {
            self.batch[self.at..].iter().for_each(|request| self.hash.add(request));
        }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<&Request> {
        self.batch.get(self.at)
    }

    /// The request this many places ahead, if it has been read already.
    #[inline]
    pub(crate) fn ahead(&self, distance: usize) -> Option<&Request> {
        self.batch.get(self.at + distance)
    }

    /// Goes past the next request, which [`RequestSource::peek`] has shown.
    #[inline(always)]
    pub(crate) fn pass(&mut self) -> Result<(), SimError> {
        let Some(request) = self.batch.get(self.at) else { return Ok(()) };
        if self.hashes_taken {
            self.hash.add(request);
        }
        self.at += 1;
        if self.at == self.batch.len() && !self.ended {
            return self.refill();
        }
        Ok(())
    }

    /// Takes the next request.
    pub(crate) fn take(&mut self) -> Result<Option<Request>, SimError> {
        let next = self.peek().copied();
        self.pass()?;
        Ok(next)
    }

    /// Gets the next batch.
    #[cold]
    fn refill(&mut self) -> Result<(), SimError> {
        self.at = 0;
        let before = match &mut self.reader {
            Reader::Here(fitted) => {
                let before = fitted.read;
                fitted.hash = self.hash;
                self.hashes_taken = fitted.fill(&mut self.batch, Hashes::Later)? == Hashes::Later;
                self.hash = fitted.hash;
                // The last ones may all have been left out.
                if self.batch.is_empty() { fitted.read } else { before }
            }
            Reader::Ahead(ahead) => match ahead.next(std::mem::take(&mut self.batch)) {
                Sent::Batch { requests, before } => {
                    self.batch = requests;
                    before
                }
                Sent::End { fitted, error } => {
                    let read = fitted.read;
                    self.hash = fitted.hash;
                    self.reader = Reader::Here(fitted);
                    self.ended = true;
                    error.map_or(Ok(()), Err)?;
                    read
                }
            },
        };
        (self.progress)(before);
        self.ended = self.batch.is_empty();
        Ok(())
    }

    /// The trace, which has been read to its end.
    fn whole(&self) -> &Fitted {
        match &self.reader {
            Reader::Here(fitted) => fitted,
            Reader::Ahead(_) => unreachable!("the trace comes back with its end"),
        }
    }

    /// The hash of the requests that were read, all of which have been taken.
    pub(crate) fn hash(&self) -> RequestHash {
        debug_assert!(self.peek().is_none(), "what was not taken is not in the hash");
        self.hash
    }

    /// What became of the trace on its way.
    pub(crate) fn account(&self) -> Account {
        self.whole().account()
    }

    /// Number of volumes with a request.
    pub(crate) fn volumes_seen(&self) -> usize {
        self.whole().volumes.len()
    }

    /// What was noted of the extents that were accessed.
    pub(crate) fn take_touched(&mut self) -> Option<Touched> {
        match &mut self.reader {
            Reader::Here(fitted) => fitted.touched.take(),
            Reader::Ahead(_) => unreachable!("the trace comes back with its end"),
        }
    }

    /// Number of requests that did not fit the volume and were wrapped.
    pub(crate) fn wrapped(&self) -> u64 {
        self.whole().wrapped
    }

    /// Number of requests without a length, which were left out.
    pub(crate) fn empty(&self) -> u64 {
        self.whole().empty
    }

    /// Number of requests that did not fit the volume and were left out.
    pub(crate) fn skipped(&self) -> u64 {
        self.whole().skipped
    }
}

//! The trace as the simulated drive sees it: one request after the other, each within the volume.

use peryton_trace::{BATCH, Request, Source};
use peryton_units::{Bytes, Nanos, Op};

use crate::{Fit, SimError};

/// Reads a trace in batches and hands out its requests.
pub(crate) struct Feed<'a> {
    source: Box<dyn Source>,
    batch: Vec<Request>,
    at: usize,
    /// The next request, already made to fit.
    next: Option<Request>,
    /// Requests read from the trace, and how many may still be.
    read: u64,
    left: u64,
    volume: Bytes,
    fit: Fit,
    /// Requests that did not fit the volume and were moved, or left out.
    pub(crate) wrapped: u64,
    pub(crate) skipped: u64,
    /// Which volume of the trace the requests so far are of.
    of: Option<u32>,
    /// Volumes in the order of their first requests, where the drive has several; requests carry their index.
    volumes: Vec<u32>,
    most_volumes: usize,
    index: u32,
    latest: Nanos,
    progress: &'a (dyn Fn(u64) + Sync),
}

impl<'a> Feed<'a> {
    pub(crate) fn new(
        source: Box<dyn Source>,
        volume: Bytes,
        fit: Fit,
        limit: Option<u64>,
        progress: &'a (dyn Fn(u64) + Sync),
    ) -> Result<Feed<'a>, SimError> {
        Feed::of_volumes(source, volume, 1, fit, limit, progress)
    }

    /// A trace of up to `count` volumes of `volume` bytes each.
    pub(crate) fn of_volumes(
        source: Box<dyn Source>,
        volume: Bytes,
        count: usize,
        fit: Fit,
        limit: Option<u64>,
        progress: &'a (dyn Fn(u64) + Sync),
    ) -> Result<Feed<'a>, SimError> {
        let mut feed = Feed {
            source,
            batch: Vec::with_capacity(BATCH),
            at: 0,
            next: None,
            read: 0,
            left: limit.unwrap_or(u64::MAX),
            volume,
            fit,
            wrapped: 0,
            skipped: 0,
            of: None,
            volumes: Vec::new(),
            most_volumes: count,
            index: 0,
            latest: Nanos::ZERO,
            progress,
        };
        feed.advance()?;
        Ok(feed)
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<&Request> {
        self.next.as_ref()
    }

    /// A request that is still this many away, if it has been read already.
    #[inline]
    pub(crate) fn ahead(&self, distance: usize) -> Option<&Request> {
        self.batch.get(self.at + distance)
    }

    /// Takes the next request and looks for the one after it.
    #[inline]
    pub(crate) fn take(&mut self) -> Result<Option<Request>, SimError> {
        let next = self.next;
        if next.is_some() {
            self.advance()?;
        }
        Ok(next)
    }

    #[inline]
    fn advance(&mut self) -> Result<(), SimError> {
        self.next = None;
        while self.left > 0 {
            if self.at == self.batch.len() {
                self.at = 0;
                self.source.next_batch(&mut self.batch)?;
                (self.progress)(self.read);
                if self.batch.is_empty() {
                    self.left = 0;
                    break;
                }
            }
            let Request { at, offset, len, volume, op } = self.batch[self.at];
            self.at += 1;
            self.read += 1;
            self.left -= 1;
            // Traces are sorted by time except where their recorders were not.
            self.latest = self.latest.max(at);
            if self.of != Some(volume) {
                self.another_volume(volume)?;
            }
            let request = Request { at: self.latest, offset, len, volume: self.index, op };
            let fits = offset.0.checked_add(len.0).is_some_and(|end| end <= self.volume.0) || op == Op::Flush;
            self.next = if fits { Some(request) } else { self.made_to_fit(request)? };
            if self.next.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// How many volumes have had a request so far.
    pub(crate) fn volumes_seen(&self) -> usize {
        self.volumes.len()
    }

    /// Requests of more volumes than the drive has would lie on top of each other.
    #[cold]
    fn another_volume(&mut self, volume: u32) -> Result<(), SimError> {
        let before = self.of.replace(volume);
        let known = self.volumes.iter().position(|known| *known == volume);
        if known.is_none() {
            if self.volumes.len() == self.most_volumes {
                let before = before.expect("a drive has a volume at least");
                return Err(match self.most_volumes {
                    1 => SimError::SeveralVolumes { request: self.read, before, volume },
                    most => SimError::TooManyVolumes { request: self.read, volume, most },
                });
            }
            self.volumes.push(volume);
        }
        self.index = known.unwrap_or(self.volumes.len() - 1) as u32;
        Ok(())
    }

    #[cold]
    fn made_to_fit(&mut self, mut request: Request) -> Result<Option<Request>, SimError> {
        match self.fit {
            Fit::Strict => Err(SimError::PastTheEnd {
                request: self.read,
                op: request.op,
                offset: request.offset,
                len: request.len,
                volume: self.volume,
            }),
            Fit::Wrap => {
                self.wrapped += 1;
                request.len = request.len.min(self.volume);
                let offset = request.offset.0 % self.volume.0;
                request.offset = Bytes(offset.min(self.volume.0 - request.len.0));
                Ok(Some(request))
            }
            Fit::Skip => {
                self.skipped += 1;
                Ok(None)
            }
        }
    }
}

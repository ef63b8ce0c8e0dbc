//! The trace as input of the simulated drive: one request after the other, each within the volume.

use peryton_trace::{BATCH, Request, RequestHash, Source};
use peryton_units::{Bytes, Nanos, Op};

use crate::{Fit, SimError};

/// How the volumes of a trace are ranges of one: each is so many bytes behind the one before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    /// How many of them get each request; of one, the volume of the request.
    pub(crate) copies: u32,
    pub(crate) apart: Bytes,
}

/// Reads a trace in batches and hands out its requests.
pub(crate) struct RequestSource<'a> {
    source: Box<dyn Source>,
    /// Requests that were already made to fit.
    batch: Vec<Request>,
    /// The index of the next request.
    at: usize,
    /// Number of requests read from the trace.
    read: u64,
    left: u64,
    volume: Bytes,
    spread: Option<Spread>,
    fit: Fit,
    /// Number of requests that did not fit the volume and were wrapped or left out.
    pub(crate) wrapped: u64,
    pub(crate) skipped: u64,
    /// The volume of all requests so far.
    of: Option<u32>,
    /// Volumes in the order of their first requests, if the drive has several; requests have the index of their volume
    /// here.
    volumes: Vec<u32>,
    most_volumes: usize,
    index: u32,
    latest: Nanos,
    /// The hash of the requests read so far, except for those of the batch that is handed out if they are hashed one by one as
    /// they are taken: each has to wait for the hash of the one before, and has other work to do meanwhile then.
    hash: RequestHash,
    hashes_taken: bool,
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
            source,
            batch: Vec::with_capacity(BATCH),
            at: 0,
            read: 0,
            left: limit.unwrap_or(u64::MAX),
            volume,
            spread: None,
            fit,
            wrapped: 0,
            skipped: 0,
            of: None,
            volumes: Vec::new(),
            most_volumes: count,
            index: 0,
            latest: Nanos::ZERO,
            hash: RequestHash::default(),
            hashes_taken: false,
            progress,
        };
        requests.refill()?;
        Ok(requests)
    }

    /// From now on volumes are ranges of one; nothing may have been taken yet.
    pub(crate) fn spread(&mut self, spread: Spread) {
        debug_assert!(self.at == 0 && self.spread.is_none(), "all requests are spread");
        self.spread = Some(spread);
        if self.hashes_taken {
            self.batch.iter().for_each(|request| self.hash.add(request));
            self.hashes_taken = false;
        }
        self.spread_batch();
    }

    fn spread_batch(&mut self) {
        let Some(Spread { copies, apart }) = self.spread else { return };
        let requests = std::mem::take(&mut self.batch);
        let placed = |request: Request, number: u32| Request {
            offset: if request.op == Op::Flush { request.offset } else { request.offset + apart * u64::from(number) },
            volume: 0,
            ..request
        };
        self.batch = match copies {
            1 => requests.into_iter().map(|request| placed(request, request.volume)).collect(),
            _ => requests
                .into_iter()
                .flat_map(|request| (0..copies).map(move |number| placed(request, number)))
                .collect(),
        };
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
        if self.at == self.batch.len() && self.left > 0 {
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

    /// Reads the next batch that has a request, and makes its requests fit.
    #[cold]
    fn refill(&mut self) -> Result<(), SimError> {
        self.at = 0;
        self.batch.clear();
        while self.batch.is_empty() && self.left > 0 {
            self.source.next_batch(&mut self.batch)?;
            (self.progress)(self.read);
            if self.batch.is_empty() {
                self.left = 0;
            }
            self.batch.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= self.batch.len() as u64;
            self.hashes_taken = self.needs_no_change();
            if self.hashes_taken {
                self.read += self.batch.len() as u64;
                self.latest = self.batch.last().map_or(self.latest, |last| last.at);
                continue;
            }
            let mut kept = 0;
            for index in 0..self.batch.len() {
                let Request { at, offset, len, volume, op } = self.batch[index];
                self.hash.add(&self.batch[index]);
                self.read += 1;
                // The times of a trace ascend, except where its recorder did not keep the order.
                self.latest = self.latest.max(at);
                if self.of != Some(volume) {
                    self.another_volume(volume)?;
                }
                // Changed in place: a trace that fits is not copied.
                (self.batch[index].at, self.batch[index].volume) = (self.latest, self.index);
                let fits = offset.0.checked_add(len.0).is_some_and(|end| end <= self.volume.0) || op == Op::Flush;
                if !fits {
                    let Some(fitting) = self.made_to_fit(self.batch[index])? else { continue };
                    self.batch[index] = fitting;
                }
                if kept < index {
                    self.batch[kept] = self.batch[index];
                }
                kept += 1;
            }
            self.batch.truncate(kept);
        }
        self.spread_batch();
        Ok(())
    }

    /// Whether the batch, as it was read, can be handed out as it is.
    fn needs_no_change(&self) -> bool {
        let Some(first) = self.batch.first() else { return false };
        let (of, mut latest, mut fits) = (first.volume, self.latest, true);
        for Request { at, offset, len, volume, op } in &self.batch {
            let ends_within = offset.0.checked_add(len.0).is_some_and(|end| end <= self.volume.0) || *op == Op::Flush;
            fits &= ends_within & (*volume == of) & (*at >= latest);
            latest = *at;
        }
        fits && self.spread.is_none() && self.of == Some(of) && self.index == of
    }

    /// The hash of the requests that were read, all of which have been taken.
    pub(crate) fn hash(&self) -> RequestHash {
        debug_assert!(self.peek().is_none() || !self.hashes_taken, "what was not taken is not in the hash");
        self.hash
    }

    /// Number of volumes with a request so far.
    pub(crate) fn volumes_seen(&self) -> usize {
        self.volumes.len()
    }

    /// An error, because requests of more volumes than the drive has would overlap.
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

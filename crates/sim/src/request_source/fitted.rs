//! A trace whose requests are made to fit the volume, and hashed.

use peryton_trace::{Account, Request, RequestHash, Source};
use peryton_units::{Bytes, Nanos, Op};

use super::Spread;
use crate::{Fit, SimError, touched::Touched};

/// Reads a trace in batches that a drive can serve as they are.
pub(super) struct Fitted {
    source: Box<dyn Source>,
    /// Number of requests read from the trace.
    pub(super) read: u64,
    left: u64,
    volume: Bytes,
    pub(super) spread: Option<Spread>,
    fit: Fit,
    /// Number of requests that did not fit the volume and were wrapped or left out.
    pub(super) wrapped: u64,
    pub(super) skipped: u64,
    /// Number of requests without a length, which were left out: they would be answered at once.
    pub(super) empty: u64,
    /// The volume of all requests so far.
    of: Option<u32>,
    /// Volumes in the order of their first requests, if the drive has several; requests have the index of their volume
    /// here.
    pub(super) volumes: Vec<u32>,
    most_volumes: usize,
    index: u32,
    latest: Nanos,
    /// The extents that the requests access, if they are noted here.
    pub(super) touched: Option<Touched>,
    /// The hash of the requests read so far, but for those of a batch that is hashed as it is taken.
    pub(super) hash: RequestHash,
}

/// Whether a request that has to have a length has none.
fn is_empty(op: Op, len: Bytes) -> bool {
    len == Bytes::ZERO && op != Op::Flush
}

/// Who hashes a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hashes {
    /// It is hashed when it is read.
    Here,
    /// It is left to those who take the requests, if all can be handed out as they were read.
    Later,
}

impl Fitted {
    /// A trace of up to `count` volumes of `volume` bytes each.
    pub(super) fn new(source: Box<dyn Source>, volume: Bytes, count: usize, fit: Fit, limit: Option<u64>) -> Fitted {
        Fitted {
            source,
            read: 0,
            left: limit.unwrap_or(u64::MAX),
            volume,
            spread: None,
            fit,
            wrapped: 0,
            skipped: 0,
            empty: 0,
            of: None,
            volumes: Vec::new(),
            most_volumes: count,
            index: 0,
            latest: Nanos::ZERO,
            touched: None,
            hash: RequestHash::default(),
        }
    }

    /// Reads the next batch that has a request, and makes its requests fit; an empty batch is the end. Returns who hashes it.
    pub(super) fn fill(&mut self, batch: &mut Vec<Request>, hashes: Hashes) -> Result<Hashes, SimError> {
        batch.clear();
        let mut hashed = Hashes::Here;
        while batch.is_empty() && self.left > 0 {
            self.source.next_batch(batch)?;
            if batch.is_empty() {
                self.left = 0;
            }
            batch.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= batch.len() as u64;
            if self.needs_no_change(batch) {
                self.read += batch.len() as u64;
                self.latest = batch.last().map_or(self.latest, |last| last.at);
                hashed = hashes;
                if hashes == Hashes::Here {
                    batch.iter().for_each(|request| self.hash.add(request));
                }
            } else {
                self.make_fit(batch)?;
            }
        }
        self.spread_out(batch);
        self.note(batch);
        Ok(hashed)
    }

    /// Notes what the requests access.
    pub(super) fn note(&mut self, batch: &[Request]) {
        if let Some(touched) = &mut self.touched {
            batch.iter().for_each(|request| touched.touch(request.op, request.offset, request.len));
        }
    }

    fn make_fit(&mut self, batch: &mut Vec<Request>) -> Result<(), SimError> {
        let mut kept = 0;
        for index in 0..batch.len() {
            let Request { at, offset, len, volume, op } = batch[index];
            self.hash.add(&batch[index]);
            self.read += 1;
            // The times of a trace ascend, except where its recorder did not keep the order.
            self.latest = self.latest.max(at);
            if self.of != Some(volume) {
                self.another_volume(volume)?;
            }
            // Changed in place: a trace that fits is not copied.
            (batch[index].at, batch[index].volume) = (self.latest, self.index);
            if is_empty(op, len) {
                self.empty += 1;
                continue;
            }
            let fits = offset.0.checked_add(len.0).is_some_and(|end| end <= self.volume.0) || op == Op::Flush;
            if !fits {
                let Some(fitting) = self.made_to_fit(batch[index])? else { continue };
                batch[index] = fitting;
            }
            if kept < index {
                batch[kept] = batch[index];
            }
            kept += 1;
        }
        batch.truncate(kept);
        Ok(())
    }

    /// Whether the batch, as it was read, can be handed out as it is.
    fn needs_no_change(&self, batch: &[Request]) -> bool {
        let Some(first) = batch.first() else { return false };
        let (of, mut latest, mut fits) = (first.volume, self.latest, true);
        for Request { at, offset, len, volume, op } in batch {
            let ends_within = offset.0.checked_add(len.0).is_some_and(|end| end <= self.volume.0) || *op == Op::Flush;
            fits &= ends_within & !is_empty(*op, *len) & (*volume == of) & (*at >= latest);
            latest = *at;
        }
        fits && self.spread.is_none() && self.of == Some(of) && self.index == of
    }

    /// Volumes become ranges of one, if they are.
    pub(super) fn spread_out(&self, batch: &mut Vec<Request>) {
        let Some(Spread { copies, apart }) = self.spread else { return };
        let requests = std::mem::take(batch);
        let placed = |request: Request, number: u32| Request {
            offset: if request.op == Op::Flush { request.offset } else { request.offset + apart * u64::from(number) },
            volume: 0,
            ..request
        };
        *batch = match copies {
            1 => requests.into_iter().map(|request| placed(request, request.volume)).collect(),
            _ => requests
                .into_iter()
                .flat_map(|request| (0..copies).map(move |number| placed(request, number)))
                .collect(),
        };
    }

    /// What became of the trace on its way.
    pub(super) fn account(&self) -> Account {
        self.source.account()
    }

    /// An error, because requests of more volumes than the drive has would overlap.
    #[cold]
    fn another_volume(&mut self, volume: u32) -> Result<(), SimError> {
        let before = self.of.replace(volume);
        let known = self.volumes.iter().position(|known| *known == volume);
        if known.is_none() {
            if self.volumes.len() == self.most_volumes {
                let before = before.expect("a drive has a volume at least");
                let (request, names) = (self.read, self.source.account().names);
                return Err(match self.most_volumes {
                    1 => SimError::SeveralVolumes { request, before, volume, names },
                    most => SimError::TooManyVolumes { request, volume, most, names },
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

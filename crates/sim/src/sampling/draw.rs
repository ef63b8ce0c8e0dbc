//! Drawing a sample: one reading of the trace, from which the requests of some regions are kept.

use peryton_trace::{Request, RequestHash, Source, block_hash};
use peryton_units::{Bytes, Op};
use rustc_hash::FxHashSet;

use super::{
    regions::REGION,
    share::{SLICES, Sampling},
};
use crate::{Design, Options, SimError, request_source::RequestSource};

/// The fewest regions of a slice. With fewer, a single region would change the result.
const LEAST_REGIONS: usize = 48;
/// Smaller regions for traces that touch little: a sixteenth and a 256th of the usual ones.
const SMALLER: [u64; 2] = [1 << 16, 1 << 12];
/// The most requests of a sample, which are in memory, at 40 bytes each.
pub(super) const MOST_REQUESTS: usize = 20_000_000;
/// How long a stream is that makes a disk faster than the flash before it, unless the design says from which length it goes past.
const LONG: Bytes = Bytes::mib(4);
/// The most sequential streams that are followed at a time.
const STREAMS: usize = 64;

/// The requests of a sample, in one of eight slices each.
pub(super) struct Drawn {
    /// The size of the regions.
    pub(super) region: Bytes,
    requests: Vec<Request>,
    slices: Vec<u8>,
    /// How many of them were read as requests of the warm-up.
    warming: Warming,
    /// Requests of the trace, those that were skipped included.
    pub(super) read: u64,
    pub(super) hash: RequestHash,
    pub(super) wrapped: u64,
    pub(super) skipped: u64,
    /// Requests without a length, which were left out.
    pub(super) empty: u64,
    /// Flushes of the sample.
    pub(super) flushes: u64,
    /// Requests of sequential streams that were longer than what sends them past the fast device.
    pub(super) streaming: u64,
}

/// From which length sequential streams go past a fast device of a design: because they are long, or because the disk is faster with them
/// than the flash. `None`: they do not.
pub(super) fn bypassing(design: &Design) -> Option<Bytes> {
    let bypassing = |one: &&Design| {
        one.placement.promotes() && (one.tuning.bypass.sequential.is_some() || one.tuning.bypass.congested)
    };
    let nest = design.nest();
    nest.into_iter().filter(bypassing).map(|one| one.tuning.bypass.sequential.unwrap_or(LONG)).min()
}

/// Requests of the warm-up in each slice.
type Warming = [u64; SLICES];

/// Some of the requests: those of one slice, or of all.
pub(super) struct Part {
    pub(super) requests: Vec<Request>,
    pub(super) warm_up: u64,
    /// Its share of the trace's requests.
    pub(super) rate: f64,
}

impl Drawn {
    /// Reads the trace as a simulation of the design would.
    pub(super) fn of(
        sampling: Sampling,
        design: &Design,
        trace: Box<dyn Source>,
        options: &Options,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Drawn, SimError> {
        let mut source = RequestSource::new(trace, design.volume, 1, options.fit, options.limit, progress)?;
        let extent = design.nest().into_iter().filter_map(Design::extent).map(|extent| extent.0).max().unwrap_or(4096);
        let mut sizes: Vec<u64> = [REGION.0, SMALLER[0], SMALLER[1]].map(|size| size.next_multiple_of(extent)).to_vec();
        sizes.dedup();
        let mut kept: Vec<Kept> = sizes.into_iter().map(Kept::new).collect();
        let mut streams = bypassing(design).map(Streams::new);
        let mut read = 0u64;
        while let Some(request) = source.take()? {
            let warms = read < options.warm_up_requests;
            read += 1;
            for one in &mut kept {
                one.add(sampling, &request, read, warms);
            }
            if let Some(streams) = &mut streams {
                streams.add(&request);
            }
            // Smaller regions are kept only as long as it may be that there are too few larger ones.
            if kept.len() > 1
                && let Some(enough) = kept.iter().position(Kept::is_enough)
            {
                kept.truncate(enough + 1);
            }
            if kept.iter().any(|one| one.requests.len() > MOST_REQUESTS) {
                return Err(SimError::Sample {
                    sample: sampling.to_string(),
                    problem: format!("has more than {MOST_REQUESTS} requests, which do not fit memory: sample less"),
                });
            }
        }
        let chosen = kept.iter().position(Kept::is_enough).unwrap_or(kept.len() - 1);
        let Kept { region, requests, slices, warming, regions } = kept.swap_remove(chosen);
        let fewest = regions.iter().map(FxHashSet::len).min().unwrap_or(0);
        if fewest < LEAST_REGIONS {
            let least = sampling.share() * LEAST_REGIONS as f64 * 1.5 / fewest.max(1) as f64;
            return Err(sampling.too_small(
                format!(
                    "the trace touches too little of the volume: an eighth of the sample has {fewest} regions of {}, and {LEAST_REGIONS} \
                     are needed",
                    Bytes(region)
                ),
                least,
            ));
        }
        let flushes = requests.iter().filter(|request| request.op == Op::Flush).count() as u64;
        Ok(Drawn {
            flushes,
            region: Bytes(region),
            requests,
            slices,
            warming,
            read: source.hash().requests(),
            hash: source.hash(),
            wrapped: source.wrapped(),
            skipped: source.skipped(),
            empty: source.empty(),
            streaming: streams.map_or(0, |streams| streams.long),
        })
    }

    /// The requests of a slice, or of all.
    pub(super) fn part(&self, slice: Option<usize>) -> Part {
        let is_in = |of: &&u8| slice.is_none_or(|slice| usize::from(**of) == slice);
        let pairs = self.requests.iter().zip(&self.slices);
        let requests: Vec<Request> = pairs.filter(|(_, of)| is_in(of)).map(|(request, _)| *request).collect();
        let warm_up = slice.map_or_else(|| self.warming.iter().sum(), |slice| self.warming[slice]);
        let rate = requests.len() as f64 / self.read.saturating_sub(self.skipped + self.empty).max(1) as f64;
        Part { requests, warm_up, rate }
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.len() as u64
    }
}

/// What was kept with regions of one size.
struct Kept {
    region: u64,
    requests: Vec<Request>,
    slices: Vec<u8>,
    warming: Warming,
    /// The regions of each slice with a request, as long as they are few.
    regions: [FxHashSet<u64>; SLICES],
}

impl Kept {
    fn new(region: u64) -> Kept {
        let regions = std::array::from_fn(|_| FxHashSet::default());
        Kept { region, requests: Vec::new(), slices: Vec::new(), warming: [0; SLICES], regions }
    }

    #[inline]
    fn add(&mut self, sampling: Sampling, request: &Request, number: u64, warms: bool) {
        let region = request.offset.0 / self.region;
        // A flush belongs to no region: it is drawn by its number.
        let hash = if request.op == Op::Flush { block_hash(u32::MAX, number) } else { block_hash(0, region) };
        let Some(slice) = sampling.slice(hash) else { return };
        self.requests.push(*request);
        self.slices.push(slice as u8);
        self.warming[slice] += u64::from(warms);
        if self.regions[slice].len() < LEAST_REGIONS && request.op != Op::Flush {
            self.regions[slice].insert(region);
        }
    }

    fn is_enough(&self) -> bool {
        self.regions.iter().all(|regions| regions.len() >= LEAST_REGIONS)
    }
}

/// Sequential streams, which a sample cuts into regions.
struct Streams {
    long_from: Bytes,
    /// Where each ends, its bytes and its requests; the one that was used least recently is first.
    open: Vec<(u64, u64, u64)>,
    long: u64,
}

impl Streams {
    fn new(long_from: Bytes) -> Streams {
        Streams { long_from, open: Vec::with_capacity(STREAMS), long: 0 }
    }

    fn add(&mut self, request: &Request) {
        if !matches!(request.op, Op::Read | Op::Write) {
            return;
        }
        let (from, len) = (request.offset.0, request.len.0);
        let before = self.open.iter().rposition(|(end, ..)| *end == from).map(|at| self.open.remove(at));
        if before.is_none() && self.open.len() == STREAMS {
            self.open.remove(0);
        }
        let (bytes, requests) = before.map_or((0, 0), |(_, bytes, requests)| (bytes, requests));
        let (bytes, mut requests) = (bytes + len, requests + 1);
        if bytes >= self.long_from.0 {
            self.long += requests;
            requests = 0;
        }
        self.open.push((from + len, bytes, requests));
    }
}

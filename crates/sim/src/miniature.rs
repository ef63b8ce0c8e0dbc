//! Miss-ratio curves of any replacement policy, by miniature simulation (Waldspurger et al., USENIX ATC 2017). The
//! simulation uses only a sample of the blocks, chosen by a hash of their address (SHARDS), in caches that are smaller
//! by the same factor.

use peryton_policy::{BareCache, replacement::OptimalCache};
use peryton_trace::{BlockAccess, MissRatios, Request, Tally, TraceError, block_accesses, block_hash};
use peryton_units::{Bytes, Nanos};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use thiserror::Error;

use crate::{CurvePolicy, TraceFactory, future::Future};

/// The parameters of a miniature simulation.
///
/// ```
/// use peryton_engine::Replacement;
/// use peryton_sim::Miniature;
/// use peryton_trace::{OpenOptions, Source, TraceError, open};
/// use peryton_units::{Bytes, Nanos};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sizes = [Bytes::mib(1), Bytes::mib(16)];
/// let miniature = Miniature {
///     block: Bytes::kib(4),
///     rate: 1.0,
///     window: Nanos::from_s(60),
///     caches: sizes.map(|size| (Replacement::Lru.into(), size)).to_vec(),
/// };
/// let trace = || -> Result<Box<dyn Source>, TraceError> {
///     Ok(Box::new(open("../../examples/traces/sqlite-ext4.parquet", &OpenOptions::default())?))
/// };
/// for (size, ratios) in sizes.iter().zip(miniature.run(&trace, &|_requests_so_far| {})?) {
///     println!("{size}: {ratios:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Miniature {
    /// The unit of caching.
    pub block: Bytes,
    /// The share of blocks in the sample, above 0 and at most 1. With 1 the curve is that of the full simulation.
    pub rate: f64,
    /// WSClock's working-set window (TW).
    pub window: Nanos,
    /// Policy and size of each cache.
    pub caches: Vec<(CurvePolicy, Bytes)>,
}

/// The reason why no curve could be computed.
#[derive(Debug, Error)]
pub enum MiniatureError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A setting of [`Curves`](crate::Curves) is out of range.
    #[error("{problem}")]
    Setting {
        /// The setting, and the remedy.
        problem: String,
    },
    /// The rate is not a share.
    #[error("a sampling rate of {rate} is no share of the blocks: use one above 0 and up to 1, such as 0.01")]
    Rate {
        /// The rate given.
        rate: f64,
    },
    /// The caches would not fit in memory.
    #[error(
        "the caches have room for {slots} blocks in all, {MOST_SLOTS} fit in memory: use a lower rate, smaller sizes or larger blocks"
    )]
    TooLarge {
        /// The sum of slots over all caches.
        slots: u64,
    },
    /// The sample would not fit in memory.
    #[error(
        "the sample has more than {MOST_BLOCKS} blocks, which would not fit in memory: use a lower rate than {rate}"
    )]
    TooManyBlocks {
        /// The rate given.
        rate: f64,
    },
    /// The next accesses of the sampled blocks would not fit in memory.
    #[error(
        "opt needs to know the next access of each sampled block, and the sample has more than {MOST_ACCESSES} accesses, which would not fit in memory: use a lower rate than {rate}"
    )]
    TooManyAccesses {
        /// The rate given.
        rate: f64,
    },
    /// The trace is not the same as when it was read before.
    #[error(
        "the trace changed while it was read, and opt needs to know its future: repeat this when nothing writes to it"
    )]
    Changed,
}

/// The most slots of all caches together: some 5 GB.
pub const MOST_SLOTS: u64 = 1 << 26;
/// The most blocks in the sample: some 2 GB.
pub const MOST_BLOCKS: usize = 1 << 26;
/// The most sampled accesses whose future can be known: 2 GB.
pub const MOST_ACCESSES: usize = 1 << 29;
/// The number of accesses that are collected and then passed to each cache; as many caches run at the same time as
/// there are cores.
const GATHERED: usize = 1 << 18;

impl Miniature {
    /// Number of blocks in the miniature of a cache of this size, rounded, at least one.
    pub fn slots(&self, size: Bytes) -> u64 {
        ((size.0 / self.block.0) as f64 * self.rate).round().max(1.0) as u64
    }

    /// Reads the trace to its end; returns the miss ratios of each cache, in their order. Calls `progress` with the
    /// number of requests read so far. For [`CurvePolicy::Optimal`] the trace is read once more before.
    ///
    /// Misses in the sample, divided by the rate, are compared with *all* accesses and not with the sampled ones. The
    /// number of sampled accesses depends mostly on whether the hottest blocks are in the sample, and these are hits
    /// either way (SHARDS-adj).
    ///
    /// # Errors
    /// The rate is not a share, the caches or the future do not fit in memory, or the trace cannot be read.
    pub fn run(&self, trace: &TraceFactory<'_>, progress: &dyn Fn(u64)) -> Result<Vec<MissRatios>, MiniatureError> {
        assert!(self.block > Bytes::ZERO, "a cache of blocks of no size has none");
        if !(self.rate > 0.0 && self.rate <= 1.0) {
            return Err(MiniatureError::Rate { rate: self.rate });
        }
        let slots = self.caches.iter().fold(0u64, |sum, (_, size)| sum.saturating_add(self.slots(*size)));
        if slots > MOST_SLOTS {
            return Err(MiniatureError::TooLarge { slots });
        }
        let looks_ahead = self.caches.iter().any(|(policy, _)| *policy == CurvePolicy::Optimal);
        let future = if looks_ahead { Some(Future::of(&mut *trace()?, self.block, self.rate)?) } else { None };
        let mut source = trace()?;
        let cache = |(policy, size): &(CurvePolicy, Bytes)| Cache {
            // A cache too small for one block always misses.
            simulated: (size.0 >= self.block.0).then(|| Simulated::new(*policy, self.slots(*size) as u32, self.window)),
            missed: Tally::default(),
        };
        let mut caches: Vec<Cache> = self.caches.iter().map(cache).collect();
        let mut sampler = Sampler::new(self.rate);
        let (mut all, mut batch, mut read) = (Tally::default(), Vec::<Request>::new(), 0);
        let (mut gathered, mut replayed) = (Vec::new(), 0);
        loop {
            source.next_batch(&mut batch)?;
            read += batch.len() as u64;
            for request in &batch {
                for access in block_accesses(request, self.block) {
                    all.add(access, 1);
                    if let Some(number) = sampler.number(access)? {
                        gathered.push((request.at, number, access));
                    }
                }
            }
            if batch.is_empty() || gathered.len() >= GATHERED {
                let next = match &future {
                    Some(future) => future.next(replayed, gathered.len()).ok_or(MiniatureError::Changed)?,
                    None => &[],
                };
                caches.par_iter_mut().for_each(|cache| cache.replay(&gathered, next));
                replayed += gathered.len();
                gathered.clear();
                progress(read);
            }
            if batch.is_empty() {
                break;
            }
        }
        let scaled = |missed: [u64; 2]| missed.map(|missed| missed as f64 / self.rate);
        let ratios = |((_, size), cache): (&(CurvePolicy, Bytes), &Cache)| {
            MissRatios::new(*size, scaled(cache.missed.blocks), scaled(cache.missed.bytes), &all)
        };
        Ok(self.caches.iter().zip(&caches).map(ratios).collect())
    }
}

/// Numbers the sampled blocks in the order of their first access.
pub(crate) struct Sampler {
    numbers: FxHashMap<(u32, u64), u32>,
    rate: f64,
}

impl Sampler {
    pub(crate) fn new(rate: f64) -> Sampler {
        Sampler { numbers: FxHashMap::default(), rate }
    }

    /// The number of the block; `None` if it is not in the sample.
    #[inline]
    pub(crate) fn number(&mut self, access: BlockAccess) -> Result<Option<u32>, MiniatureError> {
        if self.rate < 1.0 {
            let hash = block_hash(access.volume, access.block) as f64 / (u64::MAX as f64 + 1.0);
            if hash >= self.rate {
                return Ok(None);
            }
        }
        let next = self.numbers.len();
        let number = *self.numbers.entry((access.volume, access.block)).or_insert(next as u32);
        if next == MOST_BLOCKS && number as usize == next {
            return Err(MiniatureError::TooManyBlocks { rate: self.rate });
        }
        Ok(Some(number))
    }
}

/// A cache, by what it knows.
enum Simulated {
    Bare(Box<BareCache>),
    Optimal(OptimalCache),
}

impl Simulated {
    fn new(policy: CurvePolicy, slots: u32, window: Nanos) -> Simulated {
        match policy {
            CurvePolicy::Replacement(replacement) => {
                Simulated::Bare(Box::new(BareCache::new(replacement, slots, window)))
            }
            CurvePolicy::Optimal => Simulated::Optimal(OptimalCache::new(slots)),
        }
    }
}

struct Cache {
    simulated: Option<Simulated>,
    missed: Tally,
}

impl Cache {
    /// Replays accesses. `next` has the number of the next access of each one's block, if a cache needs it.
    fn replay(&mut self, accesses: &[(Nanos, u32, BlockAccess)], next: &[u32]) {
        let Cache { simulated, missed } = self;
        match simulated {
            None => accesses.iter().for_each(|(_, _, access)| missed.add(*access, 1)),
            Some(Simulated::Bare(bare)) => {
                let bare = &mut **bare;
                for (at, number, access) in accesses {
                    if !bare.access(*at, *number) {
                        missed.add(*access, 1);
                    }
                }
            }
            Some(Simulated::Optimal(optimal)) => {
                for ((_, number, access), next) in accesses.iter().zip(next) {
                    if !optimal.access(*number, *next) {
                        missed.add(*access, 1);
                    }
                }
            }
        }
    }
}

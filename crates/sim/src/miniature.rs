//! Miss-ratio curves of any replacement policy, by miniature simulation (Waldspurger et al., USENIX ATC 2017). The
//! simulation uses only a sample of the blocks, chosen by a hash of their address (SHARDS), in caches that are smaller
//! by the same factor.

use peryton_policy::replacement::{Accesses, Capacity, OptimalCache, Simulated};
use peryton_trace::{MissRatios, Request, RequestHash, Source, Tally, TraceError};
use peryton_units::{Bytes, Nanos};
use rayon::prelude::*;
use thiserror::Error;

use crate::{
    CacheUnit, CurvePolicy, TraceFactory,
    blocks::{BlockColumns, Blocks, PART},
    future::Future,
};

/// The parameters of a miniature simulation.
///
/// ```
/// use peryton_engine::Replacement;
/// use peryton_sim::{CacheUnit, Miniature};
/// use peryton_trace::{OpenOptions, Source, TraceError, open};
/// use peryton_units::{Bytes, Nanos};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sizes = [Bytes::mib(1), Bytes::mib(16)];
/// let miniature = Miniature {
///     unit: CacheUnit::Block(Bytes::kib(4)),
///     rate: 1.0,
///     seed: 0,
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
    pub unit: CacheUnit,
    /// The share of blocks in the sample, above 0 and at most 1. With 1 the curve is that of the full simulation.
    pub rate: f64,
    /// Which sample of this size it is.
    pub seed: u64,
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
    /// Nothing is read or written.
    #[error("the trace has no reads and no writes: there is nothing that a cache could miss")]
    NoAccesses,
    /// The trace is not the same as when it was read before.
    #[error(
        "the trace changed while it was read, and opt needs to know its future: repeat this when nothing writes to it"
    )]
    Changed,
}

/// The most slots of all caches together: some 6 GB.
pub const MOST_SLOTS: u64 = 1 << 26;
/// The most blocks in the sample: some 2 GB.
pub const MOST_BLOCKS: u32 = 1 << 26;
/// The most sampled accesses whose future can be known: 2 GB.
pub const MOST_ACCESSES: usize = 1 << 29;
/// For each cache, this many accesses are collected before they are passed to all caches; as many caches run at the same time as there are
/// cores, while the next accesses are read. Caches that take turns on a core find little of theirs in its own memory, so with several of
/// them a turn is longer.
const GATHERED: usize = 1 << 14;
/// The most accesses that are collected: some 2 MB.
const MOST_GATHERED: usize = 1 << 16;

/// The number of groups of blocks in [`Missed`].
pub const GROUPS: usize = 1 << 12;

/// The misses of one cache.
#[derive(Clone, Debug)]
pub struct Missed {
    /// In the sample.
    pub misses: Tally,
    /// The same by groups of blocks, to which the blocks belong at random. How groups differ shows how samples would.
    pub by_group: Box<[u32; GROUPS]>,
}

/// What a run found.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// For each cache its misses.
    pub caches: Vec<Missed>,
    /// The same in a quarter of the sample, in caches that are smaller by as much. Empty if every block is in the sample.
    pub in_part: Vec<Missed>,
    /// All accesses of the trace.
    pub all: Tally,
    /// Number of blocks in the sample.
    pub sampled_blocks: u32,
    /// The hash of the requests.
    pub hash: RequestHash,
}

impl Miniature {
    /// Number of blocks in the miniature of a cache of this size, rounded, at least one; `None` of a cache of objects, where that is not known.
    pub fn slots(&self, size: Bytes) -> Option<u64> {
        match self.unit {
            CacheUnit::Block(_) => Some(self.room_at(self.rate, size)),
            CacheUnit::Object => None,
        }
    }

    /// How many blocks, or bytes of objects, the miniature of a cache of this size has room for.
    fn room_at(&self, rate: f64, size: Bytes) -> u64 {
        let units = match self.unit {
            CacheUnit::Block(block) => size.0 / block.0,
            CacheUnit::Object => size.0,
        };
        (units as f64 * rate).round().max(1.0) as u64
    }

    /// The rate of the part of the sample.
    pub(crate) fn part_rate(&self) -> f64 {
        self.rate / PART as f64
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
        let found = self.replay(trace, progress, false)?;
        let scaled = |missed: [u64; 2]| missed.map(|missed| missed as f64 / self.rate);
        let ratios = |((_, size), cache): (&(CurvePolicy, Bytes), &Missed)| {
            MissRatios::new(*size, scaled(cache.misses.blocks), scaled(cache.misses.bytes), &found.all)
        };
        Ok(self.caches.iter().zip(&found.caches).map(ratios).collect())
    }

    /// The same, but returns counts.
    ///
    /// # Errors
    /// Those of [`Miniature::run`].
    pub fn simulate(&self, trace: &TraceFactory<'_>, progress: &dyn Fn(u64)) -> Result<Simulation, MiniatureError> {
        self.replay(trace, progress, self.rate < 1.0)
    }

    fn replay(
        &self,
        trace: &TraceFactory<'_>,
        progress: &dyn Fn(u64),
        with_part: bool,
    ) -> Result<Simulation, MiniatureError> {
        assert!(self.unit != CacheUnit::Block(Bytes::ZERO), "a cache of blocks of no size has none");
        if !(self.rate > 0.0 && self.rate <= 1.0) {
            return Err(MiniatureError::Rate { rate: self.rate });
        }
        let slots = self.caches.iter().filter_map(|(_, size)| self.slots(*size)).fold(0, u64::saturating_add);
        if slots > MOST_SLOTS {
            return Err(MiniatureError::TooLarge { slots });
        }
        let looks_ahead = self.caches.iter().any(|(policy, _)| *policy == CurvePolicy::Optimal);
        let future =
            if looks_ahead { Some(Future::of(&mut *trace()?, self.unit, self.rate, self.seed)?) } else { None };
        let caches_at = |rate: f64| -> Vec<Cache> {
            let cache = |(policy, size): &(CurvePolicy, Bytes)| self.cache(*policy, *size, rate);
            self.caches.iter().map(cache).collect()
        };
        let mut caches = caches_at(self.rate);
        let mut in_part = if with_part { caches_at(self.part_rate()) } else { Vec::new() };
        let blocks = Blocks::new(self.unit, self.rate, self.seed);
        let gathered = (GATHERED * self.caches.len()).clamp(GATHERED, MOST_GATHERED);
        let mut reading = Reading { source: trace()?, blocks, batch: Vec::new(), read: 0, gathered };
        let (mut now, mut next) = (BlockColumns::default(), BlockColumns::default());
        reading.fill(&mut now)?;
        let mut replayed = 0;
        while !now.is_empty() {
            let ahead = match &future {
                Some(future) => future.next(replayed, now.len()).ok_or(MiniatureError::Changed)?,
                None => &[],
            };
            let replay_part = || {
                if with_part {
                    let part = now.part();
                    let ahead: Vec<u32> = match ahead.is_empty() {
                        true => Vec::new(),
                        false => now.in_part.iter().map(|position| ahead[*position as usize]).collect(),
                    };
                    in_part.par_iter_mut().for_each(|cache| cache.replay(&part, &ahead));
                }
            };
            let replay = || {
                rayon::join(|| caches.par_iter_mut().for_each(|cache| cache.replay(&now, ahead)), replay_part);
            };
            let (filled, ()) = rayon::join(|| reading.fill(&mut next), replay);
            filled?;
            replayed += now.len();
            progress(reading.read);
            std::mem::swap(&mut now, &mut next);
        }
        progress(reading.read);
        Ok(Simulation {
            caches: caches.into_iter().map(|cache| cache.missed).collect(),
            in_part: in_part.into_iter().map(|cache| cache.missed).collect(),
            all: reading.blocks.all,
            sampled_blocks: reading.blocks.len(),
            hash: reading.blocks.hash,
        })
    }

    fn cache(&self, policy: CurvePolicy, size: Bytes, rate: f64) -> Cache {
        let room = self.room_at(rate, size);
        let under = match (policy, self.unit) {
            // A cache too small for one block always misses.
            (_, CacheUnit::Block(block)) if size < block => Under::Nothing,
            (CurvePolicy::Replacement(replacement), CacheUnit::Block(_)) => {
                Under::Policy(replacement.simulated(Capacity::of_cache(room as u32), self.window))
            }
            (CurvePolicy::Replacement(replacement), CacheUnit::Object) => {
                Under::PolicyOfObjects(replacement.simulated(Capacity::of_objects(room), self.window))
            }
            (CurvePolicy::Optimal, _) => Under::Optimal(OptimalCache::new(room as u32)),
        };
        Cache { under, missed: Missed { misses: Tally::default(), by_group: Box::new([0; GROUPS]) } }
    }
}

/// The trace, as far as it was read.
struct Reading {
    source: Box<dyn Source>,
    blocks: Blocks,
    batch: Vec<Request>,
    read: u64,
    /// The number of accesses that are collected at a time.
    gathered: usize,
}

impl Reading {
    /// Reads on until there are enough accesses; leaves none at the end of the trace.
    fn fill(&mut self, columns: &mut BlockColumns) -> Result<(), MiniatureError> {
        columns.clear();
        while columns.len() < self.gathered {
            self.source.next_batch(&mut self.batch)?;
            if self.batch.is_empty() {
                break;
            }
            self.read += self.batch.len() as u64;
            self.blocks.add(&self.batch, columns);
        }
        self.blocks.number(columns)
    }
}

/// A cache, by what it knows.
enum Under {
    Nothing,
    Policy(Box<dyn Simulated>),
    PolicyOfObjects(Box<dyn Simulated>),
    Optimal(OptimalCache),
}

struct Cache {
    under: Under,
    missed: Missed,
}

impl Cache {
    /// Replays accesses. `next` has the number of the next access of each one's block, if a cache needs it.
    fn replay(&mut self, accesses: &BlockColumns, next: &[u32]) {
        let Cache { under, missed: Missed { misses, by_group } } = self;
        let mut missed = |index: usize| {
            misses.add_bytes(accesses.ops[index], accesses.bytes[index]);
            by_group[accesses.numbers[index] as usize % GROUPS] += 1;
        };
        match under {
            Under::Nothing => (0..accesses.len()).for_each(missed),
            Under::Policy(cache) => {
                let columns = Accesses { extents: &accesses.numbers, times: &accesses.times, sizes: None };
                cache.replay(columns, &mut missed);
            }
            Under::PolicyOfObjects(cache) => {
                let sizes = Some(&accesses.bytes[..]);
                let columns = Accesses { extents: &accesses.numbers, times: &accesses.times, sizes };
                cache.replay(columns, &mut missed);
            }
            Under::Optimal(optimal) => {
                for (index, (number, next)) in accesses.numbers.iter().zip(next).enumerate() {
                    if !optimal.access(*number, *next) {
                        missed(index);
                    }
                }
            }
        }
    }
}

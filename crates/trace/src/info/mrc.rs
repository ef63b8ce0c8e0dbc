use peryton_units::{Bytes, Op};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::sample::Sample;
use crate::{Request, Source, TraceError};

/// Hit ratios of an LRU cache of any size, from one pass: the distribution of stack distances (Mattson et al. 1970,
/// with Olken's counting tree). Memory grows with the blocks touched, or stops at a bound by sampling them (SHARDS).
#[derive(Clone, Debug)]
pub struct MissRatioCurve {
    block: Bytes,
    /// Hits by stack distance: how many reads and writes a cache of `index + 1` followed blocks has more than one of `index`.
    hits: Vec<[u64; 2]>,
    /// All reads and writes of blocks, and those that the followed blocks stand for.
    accesses: [u64; 2],
    followed: [u64; 2],
    sample: Sample,
}

/// Miss ratios of block accesses at one cache size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MissRatios {
    /// Size of the cache.
    pub cache_bytes: u64,
    /// Of reads and writes.
    pub all: f64,
    /// Of reads; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<f64>,
    /// Of writes; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<f64>,
}

/// The most blocks that can be followed: times are 32-bit numbers.
const MAX_BLOCKS: usize = 1 << 30;
/// Of a longer request only the first blocks are followed.
const MAX_REQUEST_BLOCKS: u64 = 1 << 18;

impl MissRatioCurve {
    /// Reads `source` to its end. A request counts once for every `block` that it touches. At most `max_blocks` are
    /// followed: from there on half of them, by a hash of their address, and so on, and distances are scaled up.
    pub fn of(source: &mut dyn Source, block: Bytes, max_blocks: usize) -> Result<MissRatioCurve, TraceError> {
        assert!(block > Bytes::ZERO, "a cache of blocks of no size has none");
        let mut stack = Stack::new(max_blocks.clamp(1, MAX_BLOCKS));
        let mut curve =
            MissRatioCurve { block, hits: Vec::new(), accesses: [0; 2], followed: [0; 2], sample: Sample::default() };
        let mut batch: Vec<Request> = Vec::new();
        loop {
            source.next_batch(&mut batch)?;
            if batch.is_empty() {
                curve.sample = stack.sample;
                return Ok(curve);
            }
            for request in batch.iter().filter(|r| matches!(r.op, Op::Read | Op::Write) && r.len > Bytes::ZERO) {
                let first = request.offset.0 / block.0;
                let last = request.offset.0.saturating_add(request.len.0 - 1) / block.0;
                for number in first..=last.min(first.saturating_add(MAX_REQUEST_BLOCKS - 1)) {
                    curve.access(&mut stack, (request.volume, number), request.op as usize);
                }
            }
        }
    }

    fn access(&mut self, stack: &mut Stack, key: (u32, u64), op: usize) {
        self.accesses[op] += 1;
        if !stack.sample.contains(key.0, key.1) {
            return;
        }
        let before = stack.sample.weight();
        let distance = stack.distance(key);
        if stack.sample.weight() != before {
            self.rescale();
        }
        // What a block stood for when it was accessed, so that halving the sample later does not change its part.
        let weight = stack.sample.weight();
        self.followed[op] += weight;
        if let Some(distance) = distance {
            if self.hits.len() <= distance {
                self.hits.resize(distance + 1, [0; 2]);
            }
            self.hits[distance][op] += weight;
        }
    }

    /// After the sample was halved, a distance within it stands for one twice as long.
    fn rescale(&mut self) {
        for index in 0..self.hits.len() {
            let hits = std::mem::take(&mut self.hits[index]);
            for (sum, hits) in self.hits[index / 2].iter_mut().zip(hits) {
                *sum += hits;
            }
        }
        self.hits.truncate(self.hits.len().div_ceil(2));
    }

    /// The share of blocks that was followed; below one, ratios are estimates.
    pub fn sampled_share(&self) -> f64 {
        self.sample.share()
    }

    /// The smallest cache that only misses the first access of each block.
    pub fn largest(&self) -> Bytes {
        Bytes((self.hits.len() as u64).saturating_mul(self.sample.weight()).saturating_mul(self.block.0))
    }

    /// Miss ratios of caches of these sizes, in rising order.
    ///
    /// What a sample has too few or too many accesses is mostly those of the hottest blocks, in it or not; the
    /// difference counts as hits at the shortest distance (SHARDS-adj, Waldspurger et al. 2015, section 5).
    pub fn at(&self, sizes: &[Bytes]) -> Vec<MissRatios> {
        assert!(sizes.is_sorted(), "sizes are given in rising order");
        let missing = |op: usize| self.accesses[op] as f64 - self.followed[op] as f64;
        let (mut hits, mut next) = ([missing(0), missing(1)], 0);
        let ratio = |hits: f64, of: u64| (of > 0).then(|| (1.0 - hits / of as f64).clamp(0.0, 1.0));
        let [reads, writes] = self.accesses;
        let row = |size: &Bytes| {
            let blocks = (size.0 / self.block.0 / self.sample.weight()).min(self.hits.len() as u64) as usize;
            for [read, write] in &self.hits[next..blocks.max(next)] {
                hits[0] += *read as f64;
                hits[1] += *write as f64;
            }
            next = blocks.max(next);
            let [read, write] = if blocks == 0 { [0.0; 2] } else { hits };
            MissRatios {
                cache_bytes: size.0,
                all: ratio(read + write, reads + writes).unwrap_or(1.0),
                read: ratio(read, reads),
                write: ratio(write, writes),
            }
        };
        sizes.iter().map(row).collect()
    }
}

/// The LRU stack: when each block was accessed last, and a counting tree over these times.
struct Stack {
    last: FxHashMap<(u32, u64), u32>,
    /// Fenwick tree: one at every time that is the last of a block. Times begin at one.
    tree: Vec<u32>,
    now: usize,
    max_blocks: usize,
    sample: Sample,
}

/// The tree has room for so many accesses before times are numbered anew.
const MIN_TREE: usize = 1 << 16;

impl Stack {
    fn new(max_blocks: usize) -> Stack {
        let tree = vec![0; MIN_TREE];
        Stack { last: FxHashMap::default(), tree, now: 0, max_blocks, sample: Sample::default() }
    }

    /// How many other blocks were accessed since the last access of this one; `None` the first time. The block becomes
    /// the most recent.
    fn distance(&mut self, key: (u32, u64)) -> Option<usize> {
        if self.now + 1 == self.tree.len() {
            self.renumber();
        }
        self.now += 1;
        let now = self.now as u32;
        let before = self.last.insert(key, now);
        let distance = before.map(|before| {
            let since = self.last.len() - self.upto(before as usize);
            self.add(before as usize, -1);
            since
        });
        self.add(self.now, 1);
        while self.last.len() > self.max_blocks {
            self.sample.halve();
            let sample = self.sample;
            self.last.retain(|&(volume, number), _| sample.contains(volume, number));
            self.renumber();
        }
        distance
    }

    /// How many blocks were accessed last at `time` or earlier.
    fn upto(&self, mut time: usize) -> usize {
        let mut sum = 0;
        while time > 0 {
            sum += self.tree[time];
            time &= time - 1;
        }
        sum as usize
    }

    fn add(&mut self, mut time: usize, by: i32) {
        while time < self.tree.len() {
            self.tree[time] = self.tree[time].wrapping_add_signed(by);
            time += time & time.wrapping_neg();
        }
    }

    /// Numbers the last accesses from one, in their order, in a tree with as much room again as they take.
    fn renumber(&mut self) {
        let mut order: Vec<(u32, (u32, u64))> = self.last.iter().map(|(&key, &time)| (time, key)).collect();
        order.sort_unstable();
        let room = (order.len() * 2 + 2).max(MIN_TREE);
        self.tree.clear();
        self.tree.resize(room, 0);
        self.now = order.len();
        for (index, (_, key)) in order.into_iter().enumerate() {
            self.last.insert(key, index as u32 + 1);
            self.tree[index + 1] = 1;
        }
        for time in 1..room {
            let parent = time + (time & time.wrapping_neg());
            if parent < room {
                self.tree[parent] += self.tree[time];
            }
        }
    }
}

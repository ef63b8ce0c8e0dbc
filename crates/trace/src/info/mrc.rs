use std::collections::VecDeque;

use peryton_units::{Bytes, Numbering, Op, prefetch};
use serde::Serialize;

use super::sample::Sample;
use crate::{BATCH, Request, Source, TraceError};

/// Hit ratios of an LRU cache of any size, from one pass: the distribution of stack distances (Mattson et al. 1970,
/// with Olken's counting tree). Memory grows with the blocks touched, or stops at a bound by sampling them (SHARDS).
///
/// ```
/// use peryton_trace::{MissRatioCurve, OpenOptions, read};
/// use peryton_units::Bytes;
///
/// let text = "time_us,op,offset,length\n0,W,0,4096\n9,R,0,4096\n";
/// let mut trace = read("example", text.as_bytes(), &OpenOptions::default())?;
/// let curve = MissRatioCurve::of(&mut trace, Bytes::kib(4), 1 << 20)?;
/// let at = curve.at(&[Bytes::kib(4)]);
/// assert_eq!(at[0].blocks.all, 0.5); // The write missed, the read hit.
/// # Ok::<(), peryton_trace::TraceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MissRatioCurve {
    block: Bytes,
    /// Hits by stack distance: `index` has the hits in a cache of `index + 1` sampled blocks that a cache of `index`
    /// misses.
    hits: Vec<Tally>,
    /// All accesses of blocks, and the number that the sampled blocks represent.
    all: Tally,
    followed: Tally,
    blocks: u64,
    sample: Sample,
}

/// Accesses of blocks, and their bytes; reads first, then writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of block accesses.
    pub blocks: [u64; 2],
    /// Bytes of these accesses.
    pub bytes: [u64; 2],
}

impl Tally {
    /// Counts an access `weight` times.
    #[inline]
    pub fn add(&mut self, access: BlockAccess, weight: u64) {
        self.blocks[access.op as usize] += weight;
        self.bytes[access.op as usize] += weight * u64::from(access.bytes);
    }

    /// Counts an access to so many bytes of a block.
    #[inline]
    pub fn add_bytes(&mut self, op: Op, bytes: u32) {
        self.blocks[op as usize] += 1;
        self.bytes[op as usize] += u64::from(bytes);
    }

    fn add_all(&mut self, other: &Tally) {
        for op in 0..2 {
            self.blocks[op] += other.blocks[op];
            self.bytes[op] += other.bytes[op];
        }
    }
}

/// A request's access to one block.
#[derive(Clone, Copy, Debug)]
pub struct BlockAccess {
    /// The volume's number.
    pub volume: u32,
    /// The block's number on it.
    pub block: u64,
    /// [`Op::Read`] or [`Op::Write`].
    pub op: Op,
    /// Bytes of the block that were accessed.
    pub bytes: u32,
}

/// The most blocks in the sample: times are 32-bit numbers.
const MAX_BLOCKS: usize = 1 << 30;
/// How many accesses ahead the number of a block is fetched, and how many ahead the time of its last access.
const FETCH_NUMBER: usize = 24;
const FETCH_LAST: usize = 12;
/// How many hits are counted later, while their counters are fetched.
const FETCH_HITS: usize = 12;
/// The most blocks of one request that are counted.
const MAX_REQUEST_BLOCKS: u64 = 1 << 18;

/// The accesses to blocks of this size by a request: none for an empty request, or one that is neither a read nor a
/// write.
///
/// ```
/// use peryton_trace::{Request, block_accesses};
/// use peryton_units::{Bytes, Nanos, Op};
///
/// let request = Request { at: Nanos::ZERO, offset: Bytes(2048), len: Bytes::kib(4), volume: 0, op: Op::Read };
/// let accesses: Vec<_> = block_accesses(&request, Bytes::kib(4)).map(|access| (access.block, access.bytes)).collect();
/// assert_eq!(accesses, [(0, 2048), (1, 2048)]);
/// ```
#[inline]
pub fn block_accesses(request: &Request, block: Bytes) -> impl Iterator<Item = BlockAccess> {
    let Request { volume, op, .. } = *request;
    let counts = matches!(op, Op::Read | Op::Write) && request.len > Bytes::ZERO;
    let start = request.offset.0;
    let end = start.saturating_add(if counts { request.len.0 } else { 0 });
    let number_of = |byte: u64| match block.0.is_power_of_two() {
        true => byte >> block.0.trailing_zeros(),
        false => byte / block.0,
    };
    let first = number_of(start);
    let last = if counts { number_of(end.saturating_sub(1)) + 1 } else { first };
    (first..last.min(first.saturating_add(MAX_REQUEST_BLOCKS))).map(move |number| {
        let begin = start.max(number.saturating_mul(block.0));
        let bytes = end.min(number.saturating_add(1).saturating_mul(block.0)) - begin;
        BlockAccess { volume, block: number, op, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) }
    })
}

/// Miss ratios at one cache size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MissRatios {
    /// Size of the cache.
    pub cache_bytes: u64,
    /// Ratios of block accesses.
    #[serde(flatten)]
    pub blocks: Ratios,
    /// Ratios of accessed bytes.
    pub bytes: Ratios,
}

/// Miss ratios by operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratios {
    /// Miss ratio of reads and writes.
    pub all: f64,
    /// Miss ratio of reads; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<f64>,
    /// Miss ratio of writes; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<f64>,
}

impl MissRatios {
    /// Computes the ratios from estimates of the misses and counts of all accesses.
    pub fn new(cache: Bytes, missed_blocks: [f64; 2], missed_bytes: [f64; 2], all: &Tally) -> MissRatios {
        MissRatios {
            cache_bytes: cache.0,
            blocks: Ratios::new(missed_blocks, all.blocks),
            bytes: Ratios::new(missed_bytes, all.bytes),
        }
    }
}

impl Ratios {
    fn new(missed: [f64; 2], of: [u64; 2]) -> Ratios {
        let ratio = |missed: f64, of: u64| (of > 0).then(|| (missed / of as f64).clamp(0.0, 1.0));
        let [read, write] = [0, 1].map(|op| ratio(missed[op], of[op]));
        Ratios { all: ratio(missed[0] + missed[1], of[0] + of[1]).unwrap_or(1.0), read, write }
    }
}

impl MissRatioCurve {
    /// Reads `source` to its end. A request counts once for every `block` that it accesses. At most `max_blocks` are
    /// sampled: if there are more, half of them are dropped, by a hash of their address, and distances are scaled up.
    ///
    /// # Errors
    /// Those of the source.
    pub fn of(source: &mut dyn Source, block: Bytes, max_blocks: usize) -> Result<MissRatioCurve, TraceError> {
        let mut curve = GrowingCurve::new(block, max_blocks);
        let mut batch: Vec<Request> = Vec::new();
        loop {
            source.next_batch(&mut batch)?;
            if batch.is_empty() {
                return Ok(curve.curve());
            }
            curve.add_all(&batch);
        }
    }

    fn access(&mut self, stack: &mut Stack, access: BlockAccess, times: u64) {
        self.all.add(access, times);
        if !stack.sample.contains(access.volume, access.block) {
            return;
        }
        let before = stack.sample.weight();
        let distance = stack.distance(access.volume, access.block);
        if stack.sample.weight() != before {
            self.count_hits(&mut stack.hits, 0);
            self.rescale();
        }
        // The number of blocks that the block represented when it was accessed, so that halving the sample later does
        // not change it.
        let weight = stack.sample.weight() * times;
        self.followed.add(access, weight);
        if let Some(distance) = distance {
            if self.hits.len() <= distance {
                self.hits.resize(distance + 1, Tally::default());
            }
            prefetch(&self.hits[distance]);
            stack.hits.push_back((distance, access, weight));
            self.count_hits(&mut stack.hits, FETCH_HITS);
        }
    }

    /// Counts hits whose distances were found, but for this many.
    #[inline]
    fn count_hits(&mut self, found: &mut VecDeque<(usize, BlockAccess, u64)>, but: usize) {
        while found.len() > but
            && let Some((distance, access, weight)) = found.pop_front()
        {
            self.hits[distance].add(access, weight);
        }
    }

    /// Scales the histogram after the sample was halved: each distance then represents a distance twice as long.
    fn rescale(&mut self) {
        for index in 0..self.hits.len() {
            let hits = std::mem::take(&mut self.hits[index]);
            self.hits[index / 2].add_all(&hits);
        }
        self.hits.truncate(self.hits.len().div_ceil(2));
    }

    /// The share of blocks in the sample; below one, ratios are estimates.
    pub fn sampled_share(&self) -> f64 {
        self.sample.share()
    }

    /// Number of accesses to blocks.
    pub fn accesses(&self) -> u64 {
        self.all.blocks.iter().sum()
    }

    /// Number of different blocks that were accessed.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The size of the smallest cache that only misses the first access of each block.
    pub fn largest(&self) -> Bytes {
        Bytes((self.hits.len() as u64).saturating_mul(self.sample.weight()).saturating_mul(self.block.0))
    }

    /// Miss ratios of caches of these sizes, in ascending order.
    ///
    /// If a sample has too few or too many accesses, most of the difference is due to the hottest blocks. It is counted
    /// as hits at the shortest distance (SHARDS-adj, Waldspurger et al. 2015, section 5).
    pub fn at(&self, sizes: &[Bytes]) -> Vec<MissRatios> {
        assert!(sizes.is_sorted(), "sizes are given in rising order");
        // Accesses that are not hits are misses, so the difference counts as hits.
        let (mut hits, mut next) = (Tally::default(), 0);
        let row = |size: &Bytes| {
            let blocks = (size.0 / self.block.0 / self.sample.weight()).min(self.hits.len() as u64) as usize;
            for tally in &self.hits[next..blocks.max(next)] {
                hits.add_all(tally);
            }
            next = blocks.max(next);
            if blocks == 0 {
                let every = |count: [u64; 2]| count.map(|count| count as f64);
                return MissRatios::new(*size, every(self.all.blocks), every(self.all.bytes), &self.all);
            }
            let missed = |of: fn(&Tally) -> [u64; 2]| [0, 1].map(|op| (of(&self.followed)[op] - of(&hits)[op]) as f64);
            MissRatios::new(*size, missed(|t| t.blocks), missed(|t| t.bytes), &self.all)
        };
        sizes.iter().map(row).collect()
    }
}

/// A miss-ratio curve that gets its requests one by one, each with a weight: so that those that only warm the caches up count less.
///
/// ```
/// use peryton_trace::{GrowingCurve, Request};
/// use peryton_units::{Bytes, Nanos, Op};
///
/// let mut curve = GrowingCurve::new(Bytes::kib(4), 1 << 10);
/// let read = Request { at: Nanos::ZERO, offset: Bytes::ZERO, len: Bytes::kib(4), volume: 0, op: Op::Read };
/// curve.add(&read, 1);
/// curve.add(&read, 3);
/// assert_eq!(curve.curve().at(&[Bytes::kib(4)])[0].blocks.all, 0.25);
/// ```
#[derive(Clone, Debug)]
pub struct GrowingCurve {
    curve: MissRatioCurve,
    stack: Stack,
}

impl GrowingCurve {
    /// A curve of caches of blocks of this size, with at most so many blocks in its sample.
    pub fn new(block: Bytes, max_blocks: usize) -> GrowingCurve {
        assert!(block > Bytes::ZERO, "a cache of blocks of no size has none");
        let curve = MissRatioCurve {
            block,
            hits: Vec::new(),
            all: Tally::default(),
            followed: Tally::default(),
            blocks: 0,
            sample: Sample::default(),
        };
        GrowingCurve { curve, stack: Stack::new(max_blocks.clamp(1, MAX_BLOCKS)) }
    }

    /// A request counts `weight` times for every block that it accesses.
    #[inline]
    pub fn add(&mut self, request: &Request, weight: u64) {
        for access in block_accesses(request, self.curve.block) {
            self.curve.access(&mut self.stack, access, weight);
        }
    }

    /// The same for many requests, with what each needs fetched before.
    fn add_all(&mut self, requests: &[Request]) {
        let mut accesses = Vec::with_capacity(requests.len());
        let mut requests = requests.iter().peekable();
        while requests.peek().is_some() {
            accesses.clear();
            while accesses.len() < BATCH
                && let Some(request) = requests.next()
            {
                accesses.extend(block_accesses(request, self.curve.block));
            }
            for (index, access) in accesses.iter().enumerate() {
                self.stack.prefetch(accesses.get(index + FETCH_NUMBER), accesses.get(index + FETCH_LAST));
                self.curve.access(&mut self.stack, *access, 1);
            }
        }
    }

    /// The curve so far.
    pub fn curve(&self) -> MissRatioCurve {
        let sample = self.stack.sample;
        let blocks = self.stack.last.len() as u64 * sample.weight();
        let mut curve = MissRatioCurve { sample, blocks, ..self.curve.clone() };
        curve.count_hits(&mut self.stack.hits.clone(), 0);
        curve
    }
}

/// The LRU stack: when each block was last accessed.
#[derive(Clone, Debug)]
struct Stack {
    numbering: Numbering,
    /// The time of the last access of each block, by its number.
    last: Vec<u32>,
    /// These times.
    times: Times,
    max_blocks: usize,
    /// The least number of accesses that the times have space for.
    least: usize,
    sample: Sample,
    /// Distances and weights of the latest hits, which are counted when their counters were fetched.
    hits: VecDeque<(usize, BlockAccess, u64)>,
}

/// The least number of accesses that the times have space for before they are renumbered, and the same for each block of a small sample.
const MIN_TIMES: usize = 1 << 16;
const MIN_TIMES_A_BLOCK: usize = 4;

impl Stack {
    fn new(max_blocks: usize) -> Stack {
        let least = MIN_TIMES.min(max_blocks.saturating_mul(MIN_TIMES_A_BLOCK) + 2);
        let (numbering, times) = (Numbering::default(), Times::first(0, least));
        let (last, sample, hits) = (Vec::new(), Sample::default(), VecDeque::new());
        Stack { numbering, last, times, max_blocks, least, sample, hits }
    }

    /// Fetches what [`Stack::distance`] will need, of a block that is accessed soon and of one that is accessed sooner.
    #[inline]
    fn prefetch(&self, soon: Option<&BlockAccess>, sooner: Option<&BlockAccess>) {
        if let Some(access) = soon {
            self.numbering.prefetch(access.volume, access.block);
        }
        let number = sooner.and_then(|access| self.numbering.known(access.volume, access.block));
        if let Some(last) = number.and_then(|number| self.last.get(number as usize)) {
            prefetch(last);
        }
    }

    /// The number of other blocks that were accessed since the last access of this one; `None` for its first access.
    /// The block becomes the most recent.
    #[inline]
    fn distance(&mut self, volume: u32, block: u64) -> Option<usize> {
        if self.times.is_full() {
            self.renumber();
        }
        let number = self.numbering.number(volume, block) as usize;
        let now = self.times.push();
        let Some(last) = self.last.get_mut(number) else {
            self.last.push(now);
            while self.last.len() > self.max_blocks {
                self.halve();
            }
            return None;
        };
        let before = std::mem::replace(last, now);
        let since = self.last.len() - 1 - self.times.before(before);
        self.times.remove(before);
        Some(since)
    }

    #[cold]
    fn halve(&mut self) {
        self.sample.halve();
        let (numbering, last) = (std::mem::take(&mut self.numbering), std::mem::take(&mut self.last));
        for (volume, block, number) in numbering.blocks() {
            let time = last[number as usize];
            if self.sample.contains(volume, block) {
                self.numbering.number(volume, block);
                self.last.push(time);
            } else {
                self.times.remove(time);
            }
        }
    }

    /// Renumbers the last accesses from zero, in their order, with four times the space that they need.
    #[cold]
    fn renumber(&mut self) {
        self.last.iter_mut().for_each(|time| *time = self.times.before(*time) as u32);
        self.times = Times::first(self.last.len(), (self.last.len() * 4 + 2).max(self.least));
    }
}

/// A set of times, to which the next one is added at each step. It counts those before any of them: a bit a time, and a Fenwick tree over
/// whole words, so that it stays in the processor's caches.
#[derive(Clone, Debug)]
struct Times {
    words: Vec<u64>,
    /// The sums of the words before the one of the next time. Words are numbered from one here.
    tree: Vec<u32>,
    next: usize,
}

const WORD: usize = u64::BITS as usize;

impl Times {
    /// The first `count` times, with space for `room`.
    fn first(count: usize, room: usize) -> Times {
        let mut words = vec![0; room.div_ceil(WORD)];
        words[..count / WORD].fill(u64::MAX);
        if !count.is_multiple_of(WORD) {
            words[count / WORD] = (1 << (count % WORD)) - 1;
        }
        let mut tree = vec![0; words.len() + 1];
        for at in 1..tree.len() {
            tree[at] += if at <= count / WORD { WORD as u32 } else { 0 };
            let parent = at + (at & at.wrapping_neg());
            if parent < tree.len() {
                tree[parent] += tree[at];
            }
        }
        Times { words, tree, next: count }
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.next == self.words.len() * WORD
    }

    /// Adds the next time, and returns it.
    #[inline]
    fn push(&mut self) -> u32 {
        let (now, word) = (self.next, self.next / WORD);
        self.words[word] |= 1 << (now % WORD);
        self.next += 1;
        if self.next.is_multiple_of(WORD) {
            self.add(word, self.words[word].count_ones());
        }
        now as u32
    }

    #[inline]
    fn remove(&mut self, time: u32) {
        let word = time as usize / WORD;
        self.words[word] &= !(1 << (time as usize % WORD));
        if word < self.next / WORD {
            self.add(word, u32::MAX);
        }
    }

    /// How many times of the set are before this one.
    #[inline]
    fn before(&self, time: u32) -> usize {
        let word = time as usize / WORD;
        let in_word = (self.words[word] & ((1 << (time as usize % WORD)) - 1)).count_ones();
        let (mut sum, mut at) = (in_word, word);
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at]);
            at &= at - 1;
        }
        sum as usize
    }

    /// Adds to the sum of a word, modulo 2^32.
    #[inline]
    fn add(&mut self, word: usize, by: u32) {
        let mut at = word + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(by);
            at += at & at.wrapping_neg();
        }
    }
}

//! Accesses to blocks, or to objects, in columns: what simulated caches read.

use peryton_trace::{BlockAccess, Request, RequestHash, Tally, block_accesses};
use peryton_units::{Bytes, Nanos, Numbering, Op, block_hash, mixed};

use crate::{MiniatureError, miniature::MOST_BLOCKS};

/// What a cache holds: the unit of caching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheUnit {
    /// Blocks of this size. A request counts once for each of them that it touches.
    Block(Bytes),
    /// Objects of the sizes that the trace has: it is [`Objects`](peryton_trace::Objects). One that is cached keeps the size that it had
    /// when it came. Sizes from 4 GiB on count as one byte less than that.
    Object,
}

/// Accesses to blocks of a sample.
#[derive(Debug, Default)]
pub(crate) struct BlockColumns {
    keys: Vec<(u32, u64)>,
    /// The blocks, numbered in the order of their first accesses.
    pub(crate) numbers: Vec<u32>,
    pub(crate) times: Vec<Nanos>,
    pub(crate) bytes: Vec<u32>,
    pub(crate) ops: Vec<Op>,
    /// The positions of the accesses that are in the part of the sample, too.
    pub(crate) in_part: Vec<u32>,
}

impl BlockColumns {
    /// What is in the part of the sample.
    pub(crate) fn part(&self) -> BlockColumns {
        fn of<T: Copy>(column: &[T], positions: &[u32]) -> Vec<T> {
            positions.iter().map(|position| column[*position as usize]).collect()
        }
        let positions = &self.in_part;
        BlockColumns {
            keys: of(&self.keys, positions),
            numbers: of(&self.numbers, positions),
            times: of(&self.times, positions),
            bytes: of(&self.bytes, positions),
            ops: of(&self.ops, positions),
            in_part: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn reserve(&mut self, more: usize) {
        self.keys.reserve(more);
        self.times.reserve(more);
        self.bytes.reserve(more);
        self.ops.reserve(more);
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.numbers.clear();
        self.times.clear();
        self.bytes.clear();
        self.ops.clear();
        self.in_part.clear();
    }
}

/// The blocks of a trace that are in the sample: those whose hash is below the rate (SHARDS, Waldspurger et al., FAST 2015).
pub(crate) struct Blocks {
    unit: CacheUnit,
    rate: f64,
    /// Hashes from here on are not in the sample; absent if every block is, so that nothing is hashed.
    from: Option<u64>,
    /// Makes the sample another one.
    salt: u64,
    numbering: Numbering,
    /// All accesses, whether in the sample or not.
    pub(crate) all: Tally,
    /// The hash of the requests.
    pub(crate) hash: RequestHash,
}

/// A sample has a part that is smaller by this factor: the blocks of the lowest hashes. How a figure of the part differs from that of the
/// sample shows how it depends on the rate.
pub(crate) const PART: u64 = 4;

impl Blocks {
    pub(crate) fn new(unit: CacheUnit, rate: f64, seed: u64) -> Blocks {
        let salt = if seed == 0 { 0 } else { mixed(seed) };
        let from = (rate < 1.0).then_some((rate * (u64::MAX as f64 + 1.0)) as u64);
        Blocks {
            unit,
            rate,
            from,
            salt,
            numbering: Numbering::default(),
            all: Tally::default(),
            hash: RequestHash::default(),
        }
    }

    /// Number of blocks in the sample so far.
    pub(crate) fn len(&self) -> u32 {
        self.numbering.len()
    }

    /// Adds the accesses of requests.
    pub(crate) fn add(&mut self, batch: &[Request], columns: &mut BlockColumns) {
        columns.reserve(batch.len());
        match self.unit {
            CacheUnit::Block(block) => {
                for request in batch {
                    self.hash.add(request);
                    block_accesses(request, block).for_each(|access| self.add_one(request.at, access, columns));
                }
            }
            CacheUnit::Object => {
                for request in batch {
                    self.hash.add(request);
                    let Request { at, offset, len, volume, op } = *request;
                    if len > Bytes::ZERO && matches!(op, Op::Read | Op::Write) {
                        let bytes = u32::try_from(len.0).unwrap_or(u32::MAX);
                        self.add_one(at, BlockAccess { volume, block: offset.0, op, bytes }, columns);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn add_one(&mut self, at: Nanos, access: BlockAccess, columns: &mut BlockColumns) {
        self.all.add_bytes(access.op, access.bytes);
        if let Some(from) = self.from {
            let hash = block_hash(access.volume, access.block ^ self.salt);
            if hash >= from {
                return;
            }
            if hash < from / PART {
                columns.in_part.push(columns.keys.len() as u32);
            }
        }
        columns.keys.push((access.volume, access.block));
        columns.times.push(at);
        columns.bytes.push(access.bytes);
        columns.ops.push(access.op);
    }

    /// Numbers the blocks of these accesses.
    pub(crate) fn number(&mut self, columns: &mut BlockColumns) -> Result<(), MiniatureError> {
        let BlockColumns { keys, numbers, .. } = columns;
        self.numbering.number_all(&keys[numbers.len()..], numbers);
        match self.numbering.len() > MOST_BLOCKS {
            true => Err(MiniatureError::TooManyBlocks { rate: self.rate }),
            false => Ok(()),
        }
    }
}

//! Accesses to blocks in columns: what simulated caches read.

use peryton_trace::{Request, Tally, block_accesses};
use peryton_units::{Bytes, Nanos, Numbering, Op, block_hash, mixed};

use crate::{MiniatureError, miniature::MOST_BLOCKS};

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
    block: Bytes,
    rate: f64,
    /// Hashes from here on are not in the sample; absent if every block is, so that nothing is hashed.
    from: Option<u64>,
    /// Makes the sample another one.
    salt: u64,
    numbering: Numbering,
    /// All accesses, whether in the sample or not.
    pub(crate) all: Tally,
}

/// A sample has a part that is smaller by this factor: the blocks of the lowest hashes. How a figure of the part differs from that of the
/// sample shows how it depends on the rate.
pub(crate) const PART: u64 = 4;

/// How many blocks ahead the table of numbers is fetched.
const AHEAD: usize = 32;

impl Blocks {
    pub(crate) fn new(block: Bytes, rate: f64, seed: u64) -> Blocks {
        let salt = if seed == 0 { 0 } else { mixed(seed) };
        let from = (rate < 1.0).then_some((rate * (u64::MAX as f64 + 1.0)) as u64);
        Blocks { block, rate, from, salt, numbering: Numbering::default(), all: Tally::default() }
    }

    /// Number of blocks in the sample so far.
    pub(crate) fn len(&self) -> u32 {
        self.numbering.len()
    }

    /// Adds the accesses of requests.
    pub(crate) fn add(&mut self, batch: &[Request], columns: &mut BlockColumns) {
        for request in batch {
            for access in block_accesses(request, self.block) {
                self.all.add_bytes(access.op, access.bytes);
                if let Some(from) = self.from {
                    let hash = block_hash(access.volume, access.block ^ self.salt);
                    if hash >= from {
                        continue;
                    }
                    if hash < from / PART {
                        columns.in_part.push(columns.keys.len() as u32);
                    }
                }
                columns.keys.push((access.volume, access.block));
                columns.times.push(request.at);
                columns.bytes.push(access.bytes);
                columns.ops.push(access.op);
            }
        }
    }

    /// Numbers the blocks of these accesses.
    pub(crate) fn number(&mut self, columns: &mut BlockColumns) -> Result<(), MiniatureError> {
        let BlockColumns { keys, numbers, .. } = columns;
        for (index, (volume, block)) in keys.iter().enumerate().skip(numbers.len()) {
            if let Some((volume, block)) = keys.get(index + AHEAD) {
                self.numbering.prefetch(*volume, *block);
            }
            numbers.push(self.numbering.number(*volume, *block));
        }
        match self.numbering.len() > MOST_BLOCKS {
            true => Err(MiniatureError::TooManyBlocks { rate: self.rate }),
            false => Ok(()),
        }
    }
}

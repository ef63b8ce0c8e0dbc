//! The blocks of an extent of which the fast device may have a part. A set of them is a mask, whose lowest bit is the first.

use peryton_units::Bytes;

/// How an extent is divided into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// log2 of the size of a block.
    shift: u32,
    extent_bytes: u32,
    /// All of them.
    pub(in crate::cache) all: u16,
}

/// The first of some blocks, and how many there are.
fn range(first: u32, count: u32) -> u16 {
    (((1u32 << count) - 1) << first) as u16
}

impl Blocks {
    pub(in crate::cache) fn new(extent: Bytes, block: Bytes) -> Blocks {
        let count = extent.0.div_ceil(block.0) as u32;
        Blocks { shift: block.0.trailing_zeros(), extent_bytes: extent.0 as u32, all: range(0, count) }
    }

    /// How many there are.
    pub(crate) fn count(self) -> u32 {
        self.all.count_ones()
    }

    /// The blocks that a range, which is not empty, has a part of.
    #[inline]
    pub(in crate::cache) fn touched(self, within: u32, len: u32) -> u16 {
        let first = within >> self.shift;
        range(first, ((within + len - 1) >> self.shift) + 1 - first)
    }

    /// The blocks that a range covers.
    #[inline]
    pub(in crate::cache) fn covered(self, within: u32, len: u32) -> u16 {
        let first = within.div_ceil(1 << self.shift);
        let end = within + len;
        // The last block of an extent may be shorter.
        let end = if end == self.extent_bytes { end.div_ceil(1 << self.shift) } else { end >> self.shift };
        if end > first { range(first, end - first) } else { 0 }
    }

    /// The range of blocks that are neighbours: where it begins in the extent, and its length.
    pub(in crate::cache) fn span(self, blocks: u16) -> (u32, u32) {
        debug_assert!(blocks != 0 && is_run(blocks), "the blocks {blocks:b} are not neighbours");
        let within = blocks.trailing_zeros() << self.shift;
        let end = ((16 - blocks.leading_zeros()) << self.shift).min(self.extent_bytes);
        (within, end - within)
    }

    /// The length of some blocks.
    pub(in crate::cache) fn bytes(self, blocks: u16) -> u64 {
        runs(blocks).map(|run| u64::from(self.span(run).1)).sum()
    }
}

/// Whether the blocks are neighbours.
fn is_run(blocks: u16) -> bool {
    let shifted = blocks >> blocks.trailing_zeros();
    shifted & shifted.wrapping_add(1) == 0
}

/// The first of the blocks with those that follow it without a gap; none if there are none.
pub(in crate::cache) fn first_run(blocks: u16) -> u16 {
    let start = blocks.trailing_zeros();
    if start >= 16 {
        return 0;
    }
    range(start, (blocks >> start).trailing_ones())
}

/// The blocks from the first to the last of some; none if there are none.
pub(in crate::cache) fn between(blocks: u16) -> u16 {
    if blocks == 0 { 0 } else { range(blocks.trailing_zeros(), 16 - blocks.leading_zeros() - blocks.trailing_zeros()) }
}

/// The blocks in runs of neighbours.
pub(in crate::cache) fn runs(blocks: u16) -> impl Iterator<Item = u16> {
    let mut left = blocks;
    std::iter::from_fn(move || {
        let run = first_run(left);
        left &= !run;
        (run != 0).then_some(run)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn blocks_are_what_a_plain_count_says(units in 2u32..200, from in 0u32..400, len in 1u32..400) {
            let extent = units * 4096;
            let block = peryton_format::blocks::block_of(Bytes(u64::from(extent)));
            let blocks = Blocks::new(Bytes(u64::from(extent)), block);
            let from = from * 512 % extent;
            let len = (len * 512).min(extent - from);
            let (mut touched, mut covered) = (0u16, 0u16);
            for index in 0..extent.div_ceil(block.0 as u32) {
                let start = index * block.0 as u32;
                let end = (start + block.0 as u32).min(extent);
                touched |= u16::from(start < from + len && from < end) << index;
                covered |= u16::from(from <= start && end <= from + len) << index;
            }
            prop_assert_eq!(blocks.touched(from, len), touched);
            prop_assert_eq!(blocks.covered(from, len), covered);
            prop_assert_eq!(blocks.span(blocks.all), (0, extent));
            prop_assert_eq!(blocks.bytes(blocks.all), u64::from(extent));
        }

        #[test]
        fn runs_are_all_of_the_blocks_in_pieces_without_gaps(set: u16) {
            let all: Vec<u16> = runs(set).collect();
            prop_assert_eq!(all.iter().fold(0, |sum, run| sum | run), set);
            prop_assert!(all.iter().all(|run| is_run(*run)));
            prop_assert!(all.windows(2).all(|pair| (pair[0].leading_zeros()) > 16 - pair[1].trailing_zeros()));
        }
    }
}

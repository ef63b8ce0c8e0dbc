//! The blocks of an extent of which the fast device may have a part. A set of blocks is a mask, whose lowest bit is the first block.
//! If the slow device maps its data in units larger than a block, [`Units`] says which blocks share a unit.

use peryton_units::Bytes;

/// How an extent is divided into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// log2 of the size of a block.
    shift: u32,
    extent_bytes: u32,
    /// The mask of all blocks.
    pub(in crate::cache) all: u16,
}

/// The mask of `count` blocks from `first` on.
fn range(first: u32, count: u32) -> u16 {
    (((1u32 << count) - 1) << first) as u16
}

impl Blocks {
    pub(in crate::cache) fn new(extent: Bytes, block: Bytes) -> Blocks {
        let count = extent.0.div_ceil(block.0) as u32;
        Blocks { shift: block.0.trailing_zeros(), extent_bytes: extent.0 as u32, all: range(0, count) }
    }

    /// The number of blocks of an extent.
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

    /// The range of adjacent blocks: where it begins in the extent, and its length.
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

/// The units in which the slow device maps its data, if a unit has several blocks. A write of a part of a unit makes the device read the
/// rest, and write the whole unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cache) struct Units {
    /// The blocks of a unit; 0 if a unit is no larger than a block.
    blocks: u32,
    /// All blocks of an extent.
    all: u16,
}

/// What [`Units::fullness`] returns if every block of every unit counts.
pub(in crate::cache) const FULL: u32 = 16;

impl Units {
    /// The units of an extent, which has a whole number of them.
    pub(in crate::cache) fn new(blocks: Option<Blocks>, unit: Option<Bytes>) -> Units {
        match (blocks, unit) {
            (Some(blocks), Some(unit)) if unit.0 >> blocks.shift > 1 => {
                Units { blocks: (unit.0 >> blocks.shift) as u32, all: blocks.all }
            }
            _ => Units::default(),
        }
    }

    /// Whether units are larger than blocks.
    #[inline]
    pub(in crate::cache) fn any(self) -> bool {
        self.blocks != 0
    }

    /// The units that some blocks are in, as their blocks.
    fn of(self, blocks: u16) -> impl Iterator<Item = u16> {
        let mut left = blocks & self.all;
        std::iter::from_fn(move || {
            if left == 0 || self.blocks == 0 {
                return None;
            }
            let first = left.trailing_zeros() / self.blocks * self.blocks;
            let unit = range(first, self.blocks.min(16 - first)) & self.all;
            left &= !unit;
            Some(unit)
        })
    }

    /// The given blocks, and all other blocks of their units. A unit with a block in `without` is not completed.
    pub(in crate::cache) fn completed(self, blocks: u16, without: u16) -> u16 {
        self.of(blocks).filter(|unit| unit & without == 0).fold(blocks, |all, unit| all | unit)
    }

    /// The share of their units that these blocks fill, in sixteenths, rounded down; [`FULL`] if there are no units.
    pub(in crate::cache) fn fullness(self, blocks: u16) -> u32 {
        let whole = self.of(blocks).fold(0, |all, unit| all | unit).count_ones();
        (blocks & self.all)
            .count_ones()
            .checked_mul(FULL)
            .filter(|_| self.any())
            .map_or(FULL, |some| some / whole.max(1))
    }

    /// Whether a write leaves a unit incomplete. It touches the blocks `touched`, and covers the blocks `covered`.
    pub(in crate::cache) fn are_partial(self, touched: u16, covered: u16) -> bool {
        self.any() && self.completed(touched, 0) != covered
    }
}

/// Whether the blocks are adjacent.
fn is_run(blocks: u16) -> bool {
    let shifted = blocks >> blocks.trailing_zeros();
    shifted & shifted.wrapping_add(1) == 0
}

/// The first run of adjacent blocks; empty if there is none.
pub(in crate::cache) fn first_run(blocks: u16) -> u16 {
    let start = blocks.trailing_zeros();
    if start >= 16 {
        return 0;
    }
    range(start, (blocks >> start).trailing_ones())
}

/// All blocks from the first to the last of these; empty if there are none.
pub(in crate::cache) fn between(blocks: u16) -> u16 {
    if blocks == 0 { 0 } else { range(blocks.trailing_zeros(), 16 - blocks.leading_zeros() - blocks.trailing_zeros()) }
}

/// The runs of adjacent blocks.
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
        fn blocks_are_what_a_plain_count_says(units in 1u32..200, from in 0u32..400, len in 1u32..400) {
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
        fn units_are_what_a_plain_loop_says(set: u16, without: u16, shift in 1u32..5) {
            let blocks = Blocks::new(Bytes::kib(64), Bytes::kib(4));
            let units = Units::new(Some(blocks), Some(Bytes::kib(4 << shift)));
            let (mut completed, mut whole) = (set, 0);
            for first in (0..16).step_by(1 << shift) {
                let unit = range(first, 1 << shift);
                if set & unit != 0 {
                    whole += unit.count_ones();
                    completed |= if without & unit == 0 { unit } else { 0 };
                }
            }
            prop_assert_eq!(units.completed(set, without), completed);
            prop_assert_eq!(units.fullness(set), (set.count_ones() * 16).checked_div(whole).unwrap_or(0));
            prop_assert_eq!(units.are_partial(set, set), set.count_ones() != whole);
            // Without units nothing is completed, and everything counts as full.
            for none in [Units::default(), Units::new(Some(blocks), Some(Bytes::kib(4))), Units::new(None, Some(Bytes::kib(64)))] {
                prop_assert_eq!((none.any(), none.completed(set, without), none.fullness(set)), (false, set, FULL));
                prop_assert!(!none.are_partial(set, 0));
            }
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

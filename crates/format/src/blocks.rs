//! Extents that the fast device has in part: an extent is divided into blocks, and masks say which of them are there.

use bytemuck::Zeroable;
use peryton_units::Bytes;

/// The most blocks of an extent: each has a bit in each half of a word.
pub const MOST_BLOCKS: u64 = 16;
/// The smallest block.
pub const SMALLEST_BLOCK: Bytes = Bytes::kib(4);

/// The size of the blocks of extents of this size: 4 KiB times the smallest power of two with which an extent has at most
/// [`MOST_BLOCKS`] blocks. An extent of 4 KiB is one block.
///
/// ```
/// use peryton_format::blocks::block_of;
/// use peryton_units::Bytes;
///
/// assert_eq!(block_of(Bytes::kib(64)), Bytes::kib(4));
/// assert_eq!(block_of(Bytes::kib(68)), Bytes::kib(8), "the last block is shorter");
/// assert_eq!(block_of(Bytes::mib(1)), Bytes::kib(64));
/// assert_eq!(block_of(Bytes::kib(4)), Bytes::kib(4));
/// ```
pub fn block_of(extent: Bytes) -> Bytes {
    let least = extent.0.div_ceil(MOST_BLOCKS).div_ceil(SMALLEST_BLOCK.0).next_power_of_two();
    SMALLEST_BLOCK * least
}

/// Where the newest data of each block of an extent is. The extent has a place on the fast device. There is a bit for each block;
/// the lowest is that of the first block.
///
/// ```
/// use peryton_format::blocks::Masks;
///
/// // The fast device has the first two blocks, the second one is newer there, and the fourth is lost.
/// let masks = Masks::new(0b0011, 0b1010);
/// assert_eq!((masks.valid(), masks.dirty(), masks.lost()), (0b0011, 0b0010, 0b1000));
/// assert_eq!(Masks::from_word(masks.word()), masks);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Zeroable)]
pub struct Masks(u32);

impl Masks {
    /// Masks of the blocks that the fast device has, and of those that the slow device lacks. A block of the second mask is dirty
    /// if the fast device has it, and lost otherwise.
    #[inline]
    pub fn new(valid: u16, differs_from_origin: u16) -> Masks {
        Masks(u32::from(valid) | u32::from(differs_from_origin) << 16)
    }

    /// Decodes masks from a block of metadata.
    #[inline]
    pub fn from_word(word: u32) -> Masks {
        Masks(word)
    }

    /// The masks as they are encoded in a block of metadata.
    #[inline]
    pub fn word(self) -> u32 {
        self.0
    }

    /// The blocks that the fast device has.
    #[inline]
    pub fn valid(self) -> u16 {
        self.0 as u16
    }

    /// The blocks that the slow device does not have.
    #[inline]
    pub fn differs_from_origin(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The blocks that are newer on the fast device.
    #[inline]
    pub fn dirty(self) -> u16 {
        self.valid() & self.differs_from_origin()
    }

    /// The blocks that neither device has, because a device was lost that had them.
    #[inline]
    pub fn lost(self) -> u16 {
        !self.valid() & self.differs_from_origin()
    }

    /// The masks with all blocks of the fast device dirty.
    #[must_use]
    pub fn all_dirty(self) -> Masks {
        Masks::new(self.valid(), self.valid() | self.lost())
    }

    /// The masks with no block dirty.
    #[must_use]
    pub fn clean(self) -> Masks {
        Masks::new(self.valid(), self.lost())
    }

    /// Whether the fast device has nothing, and nothing is lost.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_extent_has_more_blocks_than_there_are_bits() {
        for units in 1..5_000 {
            let extent = SMALLEST_BLOCK * units;
            let block = block_of(extent);
            let blocks = extent.0.div_ceil(block.0);
            assert!((units.min(2)..=MOST_BLOCKS).contains(&blocks), "{extent} has {blocks} blocks");
            assert!(block.0.is_power_of_two(), "{extent}");
            assert!(block == SMALLEST_BLOCK || extent.0.div_ceil(block.0 / 2) > MOST_BLOCKS, "{extent}: {block}");
        }
    }
}

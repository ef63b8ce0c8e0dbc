//! Blocks of metadata, each with its own checksum, so that a torn, flipped or misdirected one is never believed.

use super::superblock::VolumeId;
use crate::mutation::{self, Mutation};

/// One block of metadata: a device sector or flash page, written as a whole.
pub(crate) const BLOCK: u64 = 4096;
/// The same, for slices.
pub(crate) const BLOCK_LEN: usize = BLOCK as usize;
/// No volume lives to see as many generations, checkpoints or commits; beyond, sums would overflow.
pub(crate) const MOST_NUMBERS: u64 = 1 << 62;

/// What a block holds: its second word, four letters on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Superblock,
    Journal,
    CheckpointHeader,
    CheckpointEntries,
    LogAppend,
    LogIndex,
    LogCommit,
}

impl Kind {
    fn letters(self) -> [u8; 4] {
        *match self {
            Kind::Superblock => b"PYsb",
            Kind::Journal => b"PYjl",
            Kind::CheckpointHeader => b"PYch",
            Kind::CheckpointEntries => b"PYce",
            Kind::LogAppend => b"PYla",
            Kind::LogIndex => b"PYli",
            Kind::LogCommit => b"PYlc",
        }
    }
}

fn checksum(block: &[u8], volume: VolumeId) -> u32 {
    // The volume's name goes in first: a block of another volume that used the device before is not one of ours.
    crc32c::crc32c_append(crc32c::crc32c(&volume.0.to_le_bytes()), &block[4..])
}

/// Fills in kind and checksum; `block` is one block, all else written.
pub(crate) fn seal(block: &mut [u8], kind: Kind, volume: VolumeId) {
    debug_assert_eq!(block.len(), BLOCK_LEN);
    block[4..8].copy_from_slice(&kind.letters());
    let sum = checksum(block, volume);
    block[..4].copy_from_slice(&sum.to_le_bytes());
}

/// Whether the block is whole, of this kind, and of this volume.
pub(crate) fn is_sealed(block: &[u8], kind: Kind, volume: VolumeId) -> bool {
    has_kind(block, kind) && (get_u32(block, 0) == checksum(block, volume) || mutation::is(Mutation::TrustChecksums))
}

/// Whether the block says that it is of this kind, whole or not.
pub(crate) fn has_kind(block: &[u8], kind: Kind) -> bool {
    block.len() == BLOCK_LEN && block[4..8] == kind.letters()
}

/// Whether the block would be whole if it said that it is of this kind: the damage is in just that.
pub(crate) fn is_mislabelled(block: &[u8], kind: Kind, volume: VolumeId) -> bool {
    if block.iter().all(|byte| *byte == 0) {
        return false;
    }
    let mut block = block.to_vec();
    block[4..8].copy_from_slice(&kind.letters());
    is_sealed(&block, kind, volume)
}

// Little-endian fields.

pub(crate) fn put_u32(block: &mut [u8], at: usize, value: u32) {
    block[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(block: &mut [u8], at: usize, value: u64) {
    block[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn get_u32(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn get_u64(block: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_or_another_volume_breaks_the_seal() {
        let volume = VolumeId(7);
        let mut block = vec![3u8; BLOCK_LEN];
        seal(&mut block, Kind::Journal, volume);
        assert!(is_sealed(&block, Kind::Journal, volume));
        assert!(!is_sealed(&block, Kind::Journal, VolumeId(8)));
        assert!(!is_sealed(&block, Kind::CheckpointHeader, volume));
        for bit in [0, 33, 64, 5000, BLOCK_LEN * 8 - 1] {
            let mut broken = block.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_sealed(&broken, Kind::Journal, volume), "bit {bit}");
        }
        assert!(!is_sealed(&block[..100], Kind::Journal, volume));
    }
}

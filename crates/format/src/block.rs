//! Blocks of metadata, each with its own checksum, so that a torn, flipped or misdirected block is recognised.

use crate::{
    mutation::{self, Mutation},
    superblock::VolumeId,
};

/// One block of metadata: a device sector or flash page, written as a whole.
pub const BLOCK: u64 = 4096;
/// The length of a block as `usize`, for slices.
pub const BLOCK_LEN: usize = BLOCK as usize;
/// Generations, checkpoints and commits have numbers below this. No volume reaches it. A block with a higher number is
/// refused, because sums with it could overflow.
pub const MOST_NUMBERS: u64 = 1 << 62;

/// The kind of a block. Its four letters are the second word of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A superblock.
    Superblock,
    /// A block of a commit in the journal of a map.
    Journal,
    /// The header of a checkpoint.
    CheckpointHeader,
    /// The index of a checkpoint.
    CheckpointIndex,
    /// Entries of a checkpoint.
    CheckpointEntries,
    /// Masks of a checkpoint.
    CheckpointMasks,
    /// The header of an append to a log.
    LogAppend,
    /// Entries of an index in a log.
    LogIndex,
    /// A block of a commit in the ring of a log.
    LogCommit,
    /// The label of the records that a server keeps in memory for the next server.
    Takeover,
    /// Where the room for snapshots of a cache's policies begins and ends.
    SnapshotRoom,
    /// The header of such a snapshot.
    SnapshotHeader,
    /// The items of a snapshot.
    SnapshotItems,
    /// The progress of taking over a disk with data, or of giving it back.
    Adoption,
    /// Which server has the volume.
    Holder,
}

impl Kind {
    /// The four letters of the kind.
    pub fn letters(self) -> [u8; 4] {
        *match self {
            Kind::Superblock => b"PYsb",
            Kind::Journal => b"PYjl",
            Kind::CheckpointHeader => b"PYch",
            Kind::CheckpointIndex => b"PYci",
            Kind::CheckpointEntries => b"PYce",
            Kind::CheckpointMasks => b"PYcm",
            Kind::LogAppend => b"PYla",
            Kind::LogIndex => b"PYli",
            Kind::LogCommit => b"PYlc",
            Kind::Takeover => b"PYtk",
            Kind::SnapshotRoom => b"PYsr",
            Kind::SnapshotHeader => b"PYsh",
            Kind::SnapshotItems => b"PYsi",
            Kind::Adoption => b"PYad",
            Kind::Holder => b"PYmm",
        }
    }
}

fn checksum(block: &[u8], volume: VolumeId) -> u32 {
    // The volume's identity is part of the checksum, so that blocks of another volume that used the device are
    // recognised.
    crc32c::crc32c_append(crc32c::crc32c(&volume.0.to_le_bytes()), &block[4..])
}

/// Writes the kind and the checksum into a block; all other fields must be written before.
///
/// # Panics
///
/// If `block` is shorter than a block.
pub fn seal(block: &mut [u8], kind: Kind, volume: VolumeId) {
    debug_assert_eq!(block.len(), BLOCK_LEN);
    block[4..8].copy_from_slice(&kind.letters());
    seal_as_it_is(block, volume);
}

/// Corrects the checksum of a block without changing its kind. Tests use this to forge metadata.
///
/// # Panics
///
/// If `block` is shorter than a block.
pub fn seal_as_it_is(block: &mut [u8], volume: VolumeId) {
    let sum = checksum(block, volume);
    block[..4].copy_from_slice(&sum.to_le_bytes());
}

/// Whether the block is valid, of this kind, and of this volume.
pub fn is_sealed(block: &[u8], kind: Kind, volume: VolumeId) -> bool {
    has_kind(block, kind) && (get_u32(block, 0) == checksum(block, volume) || mutation::is(Mutation::TrustChecksums))
}

/// Whether the block has this kind, valid or not.
pub fn has_kind(block: &[u8], kind: Kind) -> bool {
    block.len() == BLOCK_LEN && block[4..8] == kind.letters()
}

/// Whether the block would be valid with this kind: then only its kind is damaged.
pub fn is_mislabelled(block: &[u8], kind: Kind, volume: VolumeId) -> bool {
    if block.iter().all(|byte| *byte == 0) {
        return false;
    }
    let mut block = block.to_vec();
    block[4..8].copy_from_slice(&kind.letters());
    is_sealed(&block, kind, volume)
}

// Little-endian fields. Each function panics if the block ends before the field; the callers ensure that it does not.

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

//! Where the metadata lies on each device.

use peryton_units::Bytes;

use super::{block::BLOCK, checkpoint::ENTRIES_PER_BLOCK};

/// The ring's size is that of a checkpoint within these bounds: writing the map costs about as much as the updates
/// that led to it.
const SMALLEST_JOURNAL: u64 = 8 << 20;
const LARGEST_JOURNAL: u64 = 64 << 20;
/// A small volume is not mostly journal: at most this share of a device's data, but never less than a few commits.
const SHARE_OF_DATA: u64 = 64;
const LEAST_JOURNAL: u64 = 4 * BLOCK;
/// Data begins at a multiple of this, so that extents are aligned with flash blocks and stripes.
const DATA_ALIGNMENT: u64 = 1 << 20;

/// Superblock, journal, checkpoints A and B; data; a copy of the superblock at the end. The same on each device of a
/// volume with a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetadataLayout {
    pub(crate) journal_bytes: u64,
    pub(crate) checkpoint_bytes: u64,
    pub(crate) data_at: Bytes,
}

impl MetadataLayout {
    /// For a map of `entries` entries on devices with at least `data` bytes of data each.
    pub(crate) fn new(entries: u64, data: Bytes) -> MetadataLayout {
        // A header and the entries.
        let checkpoint_bytes = BLOCK + entries.div_ceil(ENTRIES_PER_BLOCK) * BLOCK;
        let small = (data.0 / SHARE_OF_DATA).next_multiple_of(BLOCK).max(LEAST_JOURNAL);
        let journal_bytes = checkpoint_bytes.clamp(SMALLEST_JOURNAL, LARGEST_JOURNAL).min(small);
        let end = BLOCK + journal_bytes + 2 * checkpoint_bytes;
        MetadataLayout { journal_bytes, checkpoint_bytes, data_at: Bytes(end.next_multiple_of(DATA_ALIGNMENT)) }
    }

    /// Without a map: superblocks only.
    pub(crate) fn bare() -> MetadataLayout {
        MetadataLayout { journal_bytes: 0, checkpoint_bytes: 0, data_at: Bytes(DATA_ALIGNMENT) }
    }

    /// What a device needs for `data` bytes of data.
    pub(crate) fn device_bytes(&self, data: Bytes) -> Bytes {
        self.data_at + data + Bytes(BLOCK)
    }

    pub(crate) fn journal_at(&self, used: u64) -> Bytes {
        Bytes(BLOCK + used)
    }

    /// Where checkpoint A (0) or B (1) begins.
    pub(crate) fn checkpoint_at(&self, which: u64) -> Bytes {
        Bytes(BLOCK + self.journal_bytes + which * self.checkpoint_bytes)
    }
}

//! Checkpoints: the whole map, written alternately to one of two places on each device.

use peryton_units::Bytes;

use crate::{
    block::{BLOCK, BLOCK_LEN, Kind, MOST_NUMBERS, get_u32, get_u64, is_sealed, put_u32, put_u64, seal},
    entry::MapEntry,
    layout::MetadataLayout,
    mutation::{self, Mutation},
    notice::Notice,
    storage::{DeviceId, Storage},
    superblock::VolumeId,
};

const HEADER: usize = 32;
/// Number of map entries in a block.
pub const ENTRIES_PER_BLOCK: u64 = ((BLOCK_LEN - HEADER) / 4) as u64;
/// Checkpoints are read and written in parts of this many bytes.
pub const PIECE: u64 = 256 << 10;

/// The content of a checkpoint's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointHeader {
    /// The number of the checkpoint. Odd ones are written to B, even ones to A.
    pub number: u64,
    /// The last commit before the checkpoint that is known to be complete in every journal that it was written to.
    pub last_commit: u64,
    /// The first commit that is not in the checkpoint.
    pub first_commit: u64,
    /// Place of that commit in the journal's ring. If the commit did not fit there, it began at the start of the ring.
    pub journal_at: u64,
    /// Number of entries of the map.
    pub entries: u32,
    /// What the slow device's copy records about the commits that follow.
    pub notice: Notice,
}

impl CheckpointHeader {
    /// The place of the checkpoint: 0 for A, 1 for B.
    pub fn which(&self) -> u64 {
        if mutation::is(Mutation::WrongCheckpointTurn) { 0 } else { self.number % 2 }
    }

    /// Encodes the header into `block`, which is one block.
    ///
    /// # Panics
    ///
    /// If `block` is shorter than a block.
    pub fn encode(&self, volume: VolumeId, block: &mut [u8]) {
        block.fill(0);
        put_u64(block, 8, self.number);
        put_u64(block, 16, self.first_commit);
        put_u64(block, 24, self.journal_at);
        put_u64(block, 32, self.last_commit);
        put_u32(block, 40, self.entries);
        put_u32(block, 44, u32::from(self.notice.alone) | u32::from(self.notice.home) << 1);
        seal(block, Kind::CheckpointHeader, volume);
    }

    /// Decodes a header; `None` if the block is not a valid header of a checkpoint of this volume. Does not check
    /// whether the numbers are possible: [`headers`] does that.
    pub fn decode(block: &[u8], volume: VolumeId) -> Option<CheckpointHeader> {
        is_sealed(block, Kind::CheckpointHeader, volume).then(|| CheckpointHeader {
            number: get_u64(block, 8),
            first_commit: get_u64(block, 16),
            journal_at: get_u64(block, 24),
            last_commit: get_u64(block, 32),
            entries: get_u32(block, 40),
            notice: Notice { alone: get_u32(block, 44) & 1 != 0, home: get_u32(block, 44) & 2 != 0 },
        })
    }
}

impl CheckpointHeader {
    /// Whether the numbers are possible. A correct checksum does not prove that, because anyone can compute one.
    fn is_possible(&self, layout: &MetadataLayout) -> bool {
        let numbers = [self.number, self.first_commit, self.last_commit];
        let entries = BLOCK + u64::from(self.entries).div_ceil(ENTRIES_PER_BLOCK) * BLOCK;
        numbers.into_iter().all(|number| number < MOST_NUMBERS)
            && self.journal_at <= layout.journal_bytes
            && self.journal_at.is_multiple_of(BLOCK)
            && entries <= layout.checkpoint_bytes
    }
}

/// Encodes the blocks of entries from block `first` on. `image` is the whole map; `into` is a whole number of blocks.
pub fn encode_entries(image: &[MapEntry], number: u64, first: u64, volume: VolumeId, into: &mut [u8]) {
    for (block, index) in into.chunks_exact_mut(BLOCK_LEN).zip(first..) {
        block.fill(0);
        let start = (index * ENTRIES_PER_BLOCK).min(image.len() as u64) as usize;
        let entries = &image[start..image.len().min(start + ENTRIES_PER_BLOCK as usize)];
        put_u64(block, 8, number);
        put_u32(block, 16, index as u32);
        put_u32(block, 20, entries.len() as u32);
        for (slot, entry) in entries.iter().enumerate() {
            put_u32(block, HEADER + slot * 4, entry.word());
        }
        seal(block, Kind::CheckpointEntries, volume);
    }
}

/// Adds the entries of a block to the map if the block is valid and is block `index` of checkpoint `number`.
fn decode_entries(block: &[u8], number: u64, index: u64, volume: VolumeId, image: &mut [MapEntry]) -> bool {
    let start = (index * ENTRIES_PER_BLOCK) as usize;
    let count = image.len().saturating_sub(start).min(ENTRIES_PER_BLOCK as usize);
    let valid = is_sealed(block, Kind::CheckpointEntries, volume)
        && get_u64(block, 8) == number
        && u64::from(get_u32(block, 16)) == index
        && get_u32(block, 20) as usize == count;
    if valid {
        for (slot, entry) in image[start..start + count].iter_mut().enumerate() {
            *entry = MapEntry::from_word(get_u32(block, HEADER + slot * 4));
        }
    }
    valid
}

/// The headers of A and B on a device, each `None` if it cannot be read, is not valid, or has impossible numbers.
pub fn headers(
    storage: &mut dyn Storage,
    device: DeviceId,
    layout: &MetadataLayout,
    volume: VolumeId,
) -> [Option<CheckpointHeader>; 2] {
    [0, 1].map(|which| {
        let mut block = [0; BLOCK_LEN];
        storage.read(device, layout.checkpoint_at(which), &mut block).ok()?;
        CheckpointHeader::decode(&block, volume).filter(|header| header.which() == which && header.is_possible(layout))
    })
}

/// Reads the entries of a checkpoint, each block from the first device that has a valid copy; `None` if a block is
/// valid on no device. Takes memory in proportion to `header.entries`, so the header must come from [`headers`].
pub fn load(
    storage: &mut dyn Storage,
    devices: &[DeviceId],
    layout: &MetadataLayout,
    header: &CheckpointHeader,
    volume: VolumeId,
) -> Option<Vec<MapEntry>> {
    let mut image = vec![MapEntry::default(); header.entries as usize];
    let blocks = u64::from(header.entries).div_ceil(ENTRIES_PER_BLOCK);
    let mut missing: Vec<u64> = Vec::new();
    let mut todo: Vec<(u64, u64)> = vec![(0, blocks)];
    for device in devices {
        for range in std::mem::take(&mut todo) {
            missing.extend(load_range(storage, *device, layout, header, range, volume, &mut image));
        }
        if missing.is_empty() {
            return Some(image);
        }
        todo = missing.drain(..).map(|index| (index, index + 1)).collect();
    }
    None
}

/// Reads some of the blocks of entries from a device; returns the numbers of those that are not valid there.
fn load_range(
    storage: &mut dyn Storage,
    device: DeviceId,
    layout: &MetadataLayout,
    header: &CheckpointHeader,
    (from, to): (u64, u64),
    volume: VolumeId,
    image: &mut [MapEntry],
) -> Vec<u64> {
    let at = |index: u64| layout.checkpoint_at(header.which()) + Bytes(BLOCK + index * BLOCK);
    let mut missing = Vec::new();
    let mut index = from;
    while index < to {
        let count = (to - index).min(PIECE / BLOCK);
        let mut piece = vec![0; (count * BLOCK) as usize];
        let whole = storage.read(device, at(index), &mut piece).is_ok();
        for (block, index) in piece.chunks_exact_mut(BLOCK_LEN).zip(index..) {
            let read = whole || storage.read(device, at(index), block).is_ok();
            if !read || !decode_entries(block, header.number, index, volume, image) {
                missing.push(index);
            }
        }
        index += count;
    }
    missing
}

/// Counts the blocks of entries that are not valid on a device. The header must come from [`headers`].
pub fn damaged_blocks(
    storage: &mut dyn Storage,
    device: DeviceId,
    layout: &MetadataLayout,
    header: &CheckpointHeader,
    volume: VolumeId,
) -> u64 {
    let mut image = vec![MapEntry::default(); header.entries as usize];
    let blocks = u64::from(header.entries).div_ceil(ENTRIES_PER_BLOCK);
    load_range(storage, device, layout, header, (0, blocks), volume, &mut image).len() as u64
}

/// Writes a whole checkpoint to each device: first the entries, then the header, which makes the checkpoint valid.
///
/// # Errors
///
/// The device that failed. The checkpoint before this one is still valid.
pub fn store(
    storage: &mut dyn Storage,
    devices: &[DeviceId],
    layout: &MetadataLayout,
    header: &CheckpointHeader,
    image: &[MapEntry],
    volume: VolumeId,
) -> Result<(), DeviceId> {
    let blocks = (image.len() as u64).div_ceil(ENTRIES_PER_BLOCK);
    let at = layout.checkpoint_at(header.which());
    for device in devices {
        let mut index = 0;
        while index < blocks {
            let count = (blocks - index).min(PIECE / BLOCK);
            let mut piece = vec![0; (count * BLOCK) as usize];
            encode_entries(image, header.number, index, volume, &mut piece);
            storage.write(*device, at + Bytes(BLOCK + index * BLOCK), &piece).map_err(|_| *device)?;
            index += count;
        }
        storage.flush(*device).map_err(|_| *device)?;
    }
    let mut block = [0; BLOCK_LEN];
    header.encode(volume, &mut block);
    for device in devices {
        storage.write(*device, at, &block).map_err(|_| *device)?;
        storage.flush(*device).map_err(|_| *device)?;
    }
    Ok(())
}

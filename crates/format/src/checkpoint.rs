//! Checkpoints: the whole map, written alternately to one of two places on each device.

use peryton_units::Bytes;

use crate::{
    block::{BLOCK, BLOCK_LEN, Kind, MOST_NUMBERS, get_u32, get_u64, is_sealed, put_u32, put_u64, seal},
    blocks::Masks,
    entry::MapEntry,
    layout::MetadataLayout,
    mutation::{self, Mutation},
    notice::Notice,
    storage::{DeviceId, Storage, read_blocks},
    superblock::VolumeId,
};

const HEADER: usize = 32;
/// Number of map entries in a block.
pub const ENTRIES_PER_BLOCK: u64 = ((BLOCK_LEN - HEADER) / 4) as u64;
/// Checkpoints are written in parts of this many bytes.
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
    /// The number of the layout that it is of ([`MetadataLayout::number`]). Another division of the metadata may have left it.
    pub layout: u32,
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
        put_u32(block, 44, self.notice.word());
        put_u32(block, 48, self.layout);
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
            notice: Notice::of_word(get_u32(block, 44)),
            layout: get_u32(block, 48),
        })
    }
}

impl CheckpointHeader {
    /// Whether the numbers are possible. A correct checksum does not prove that, because anyone can compute one.
    fn is_possible(&self, layout: &MetadataLayout) -> bool {
        let numbers = [self.number, self.first_commit, self.last_commit];
        let blocks = u64::from(self.entries).div_ceil(ENTRIES_PER_BLOCK) + mask_blocks(layout);
        let entries = BLOCK + blocks * BLOCK;
        self.layout == layout.number
            && numbers.into_iter().all(|number| number < MOST_NUMBERS)
            && self.journal_at <= layout.journal_bytes
            && self.journal_at.is_multiple_of(BLOCK)
            && entries <= layout.checkpoint_bytes
    }
}

/// Number of blocks of a checkpoint that hold masks.
fn mask_blocks(layout: &MetadataLayout) -> u64 {
    u64::from(layout.masks).div_ceil(ENTRIES_PER_BLOCK)
}

/// What the blocks of a checkpoint hold: words, one for each extent or for each place of the fast device.
pub trait Word: Copy + Default {
    /// The kind of its blocks.
    const KIND: Kind;
    /// The word.
    fn to_word(self) -> u32;
    /// The value of a word.
    fn of_word(word: u32) -> Self;
}

impl Word for MapEntry {
    const KIND: Kind = Kind::CheckpointEntries;
    fn to_word(self) -> u32 {
        self.word()
    }
    fn of_word(word: u32) -> MapEntry {
        MapEntry::from_word(word)
    }
}

impl Word for Masks {
    const KIND: Kind = Kind::CheckpointMasks;
    fn to_word(self) -> u32 {
        self.word()
    }
    fn of_word(word: u32) -> Masks {
        Masks::from_word(word)
    }
}

/// Encodes the blocks of entries, or of masks, from block `first` on. `image` is the whole map, or the masks of all places;
/// `into` is a whole number of blocks.
pub fn encode_entries<W: Word>(image: &[W], number: u64, first: u64, volume: VolumeId, into: &mut [u8]) {
    for (block, index) in into.chunks_exact_mut(BLOCK_LEN).zip(first..) {
        block.fill(0);
        let start = (index * ENTRIES_PER_BLOCK).min(image.len() as u64) as usize;
        let entries = &image[start..image.len().min(start + ENTRIES_PER_BLOCK as usize)];
        put_u64(block, 8, number);
        put_u32(block, 16, index as u32);
        put_u32(block, 20, entries.len() as u32);
        for (slot, entry) in entries.iter().enumerate() {
            put_u32(block, HEADER + slot * 4, entry.to_word());
        }
        seal(block, W::KIND, volume);
    }
}

/// Adds the entries of a block to the map if the block is valid and is block `index` of checkpoint `number`.
fn decode_entries<W: Word>(block: &[u8], number: u64, index: u64, volume: VolumeId, image: &mut [W]) -> bool {
    let start = (index * ENTRIES_PER_BLOCK) as usize;
    let count = image.len().saturating_sub(start).min(ENTRIES_PER_BLOCK as usize);
    let valid = is_sealed(block, W::KIND, volume)
        && get_u64(block, 8) == number
        && u64::from(get_u32(block, 16)) == index
        && get_u32(block, 20) as usize == count;
    if valid {
        for (slot, entry) in image[start..start + count].iter_mut().enumerate() {
            *entry = W::of_word(get_u32(block, HEADER + slot * 4));
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

/// Reads the entries of a checkpoint and the masks of the places of the fast device, of which there are none if extents are there as a
/// whole. Each block is read from the first device that has a valid copy; `None` if a block is valid on no device. Takes memory in
/// proportion to `header.entries`, so the header must come from [`headers`].
pub fn load(
    storage: &mut dyn Storage,
    devices: &[DeviceId],
    layout: &MetadataLayout,
    header: &CheckpointHeader,
    volume: VolumeId,
) -> Option<(Vec<MapEntry>, Vec<Masks>)> {
    let after = MetadataLayout::entry_blocks(u64::from(header.entries));
    let entries = load_words(storage, devices, layout, header, (0, header.entries), volume)?;
    Some((entries, load_words(storage, devices, layout, header, (after, layout.masks), volume)?))
}

/// Reads `count` words that begin this many blocks behind the header.
fn load_words<W: Word>(
    storage: &mut dyn Storage,
    devices: &[DeviceId],
    layout: &MetadataLayout,
    header: &CheckpointHeader,
    (after, count): (u64, u32),
    volume: VolumeId,
) -> Option<Vec<W>> {
    let mut image = vec![W::default(); count as usize];
    let blocks = u64::from(count).div_ceil(ENTRIES_PER_BLOCK);
    let mut missing: Vec<u64> = Vec::new();
    let mut todo: Vec<(u64, u64)> = vec![(0, blocks)];
    for device in devices {
        for range in std::mem::take(&mut todo) {
            missing.extend(load_range(storage, *device, layout, header, (after, range), volume, &mut image));
        }
        if missing.is_empty() {
            return Some(image);
        }
        todo = missing.drain(..).map(|index| (index, index + 1)).collect();
    }
    None
}

/// Reads some of the blocks of entries from a device; returns the numbers of those that are not valid there.
fn load_range<W: Word>(
    storage: &mut dyn Storage,
    device: DeviceId,
    layout: &MetadataLayout,
    header: &CheckpointHeader,
    (after, (from, to)): (u64, (u64, u64)),
    volume: VolumeId,
    image: &mut [W],
) -> Vec<u64> {
    let at = layout.checkpoint_at(header.which()) + Bytes(BLOCK + (after + from) * BLOCK);
    let mut missing = Vec::new();
    read_blocks(storage, device, at, (to - from) * BLOCK, |index, block| {
        if !block.is_some_and(|block| decode_entries(block, header.number, from + index, volume, image)) {
            missing.push(from + index);
        }
    });
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
    let mut masks = vec![Masks::default(); layout.masks as usize];
    let blocks = u64::from(header.entries).div_ceil(ENTRIES_PER_BLOCK);
    let entries = load_range(storage, device, layout, header, (0, (0, blocks)), volume, &mut image).len();
    let of_masks = (blocks, (0, mask_blocks(layout)));
    (entries + load_range(storage, device, layout, header, of_masks, volume, &mut masks).len()) as u64
}

/// Writes a whole checkpoint, with the masks of the places of the fast device, to each device: first the words, then the header, which
/// makes the checkpoint valid.
///
/// # Errors
///
/// The device that failed. The checkpoint before this one is still valid.
pub fn store(
    storage: &mut dyn Storage,
    devices: &[DeviceId],
    layout: &MetadataLayout,
    header: &CheckpointHeader,
    (image, masks): (&[MapEntry], &[Masks]),
    volume: VolumeId,
) -> Result<(), DeviceId> {
    let at = layout.checkpoint_at(header.which());
    for device in devices {
        let after = MetadataLayout::entry_blocks(image.len() as u64);
        store_words(storage, *device, at + Bytes(BLOCK), (image, header.number), volume)?;
        store_words(storage, *device, at + Bytes(BLOCK + after * BLOCK), (masks, header.number), volume)?;
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

fn store_words<W: Word>(
    storage: &mut dyn Storage,
    device: DeviceId,
    at: Bytes,
    (image, number): (&[W], u64),
    volume: VolumeId,
) -> Result<(), DeviceId> {
    let blocks = (image.len() as u64).div_ceil(ENTRIES_PER_BLOCK);
    let mut index = 0;
    while index < blocks {
        let count = (blocks - index).min(PIECE / BLOCK);
        let mut piece = vec![0; (count * BLOCK) as usize];
        encode_entries(image, number, index, volume, &mut piece);
        storage.write(device, at + Bytes(index * BLOCK), &piece).map_err(|_| device)?;
        index += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Place;

    #[test]
    fn masks_follow_the_entries_and_a_damaged_block_of_them_is_found() {
        let layout = MetadataLayout::with_masks(3000, 2000, Bytes::mib(8));
        assert!(layout.checkpoint_bytes > MetadataLayout::new(3000, Bytes::mib(8)).checkpoint_bytes);
        let mut devices = vec![vec![0; layout.device_bytes(Bytes::mib(8)).0 as usize]; 2];
        let both = [DeviceId(0), DeviceId(1)];
        let entries: Vec<MapEntry> = (0..3000).map(|place| MapEntry::new(Some(Place(place)), false, false)).collect();
        let masks: Vec<Masks> = (0..2000).map(|place| Masks::new(place, place & 5)).collect();
        let notice = Notice::default();
        let header = CheckpointHeader {
            number: 1,
            journal_at: 0,
            first_commit: 1,
            last_commit: 0,
            entries: 3000,
            notice,
            layout: 0,
        };
        let volume = VolumeId(3);
        store(&mut devices, &both, &layout, &header, (&entries, &masks), volume).expect("memory does not fail");
        let words = Some((entries, masks));
        assert_eq!(load(&mut devices, &both, &layout, &header, volume), words);
        // The second block of masks: three blocks of entries are before the first.
        let at = (layout.checkpoint_at(1) + Bytes(BLOCK * 5)).0 as usize;
        devices[0][at + 50] ^= 1;
        assert_eq!(damaged_blocks(&mut devices, DeviceId(0), &layout, &header, volume), 1);
        assert_eq!(load(&mut devices, &both, &layout, &header, volume), words);
        assert_eq!(load(&mut devices, &both[..1], &layout, &header, volume), None);
    }
}

//! Checkpoints: the whole map, written alternately to one of two places on each device.

use std::ops::Range;

use peryton_units::Bytes;

use crate::{
    block::{BLOCK, BLOCK_LEN, Kind, MOST_NUMBERS, get_u32, get_u64, is_sealed, put_u32, put_u64, seal},
    blocks::Masks,
    entry::MapEntry,
    journal::MapRecord,
    layout::MetadataLayout,
    mutation::{self, Mutation},
    notice::Notice,
    storage::{DeviceId, Storage, read_blocks},
    superblock::VolumeId,
};

const HEADER: usize = 32;
/// Number of words in a block.
const ENTRIES_PER_BLOCK: u64 = ((BLOCK_LEN - HEADER) / 4) as u64;
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
    /// The number of the layout in force when the checkpoint was written ([`MetadataLayout::number`]). A header with another number is left
    /// from before a resize.
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
    fn shape(&self, layout: &MetadataLayout) -> Shape {
        Shape { entries: self.entries, masks: layout.masks }
    }

    /// Whether the numbers are possible. A correct checksum does not prove that, because anyone can compute one.
    fn is_possible(&self, layout: &MetadataLayout) -> bool {
        let numbers = [self.number, self.first_commit, self.last_commit];
        self.layout == layout.number
            && numbers.into_iter().all(|number| number < MOST_NUMBERS)
            && self.journal_at <= layout.journal_bytes
            && self.journal_at.is_multiple_of(BLOCK)
            && self.shape(layout).bytes() <= layout.checkpoint_bytes
    }
}

/// How long the parts of a checkpoint are. After its header it has an index, which says of each further block by which checkpoint it
/// was written; then the entries, and the masks of the places of the fast device. Blocks are counted from the first one of entries.
///
/// ```
/// use peryton_format::checkpoint::Shape;
///
/// let shape = Shape { entries: 3000, masks: 2000 };
/// assert_eq!((shape.blocks(), shape.bytes()), (3 + 2, (1 + 1 + 5) * 4096));
/// assert_eq!((shape.index(), shape.place_of(4)), (4096..8192, 6 * 4096));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of entries of the map.
    pub entries: u32,
    /// Number of places with masks.
    pub masks: u32,
}

/// The number of blocks that hold this many words.
fn blocks_for(words: u64) -> u64 {
    words.div_ceil(ENTRIES_PER_BLOCK)
}

impl Shape {
    fn entry_blocks(self) -> u64 {
        blocks_for(u64::from(self.entries))
    }

    /// Number of blocks of entries and of masks.
    pub fn blocks(self) -> u64 {
        self.entry_blocks() + blocks_for(u64::from(self.masks))
    }

    /// The bytes of the index, from the start of the checkpoint.
    pub fn index(self) -> Range<u64> {
        BLOCK..BLOCK + blocks_for(self.blocks()) * BLOCK
    }

    /// Where a block begins, from the start of the checkpoint.
    pub fn place_of(self, block: u32) -> u64 {
        self.index().end + u64::from(block) * BLOCK
    }

    /// The length of the checkpoint with its header.
    pub fn bytes(self) -> u64 {
        self.index().end + self.blocks() * BLOCK
    }

    /// The blocks that change with this record: that of the entry, and that of the masks.
    pub fn blocks_of(self, record: &MapRecord) -> impl Iterator<Item = u32> {
        let masks = record.entry.place().map(|place| place.0).filter(|place| *place < self.masks);
        let masks = masks.map(|place| self.entry_blocks() + u64::from(place) / ENTRIES_PER_BLOCK);
        std::iter::once(u64::from(record.extent) / ENTRIES_PER_BLOCK).chain(masks).map(|block| block as u32)
    }
}

/// The index of a checkpoint: for each block, the lower 32 bits of the number of the checkpoint that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers(Vec<u32>);

impl Numbers {
    /// All blocks were written by one checkpoint.
    pub fn all(shape: Shape, number: u64) -> Numbers {
        Numbers(vec![number as u32; shape.blocks() as usize])
    }

    /// This checkpoint writes the block.
    pub fn set(&mut self, block: u32, number: u64) {
        self.0[block as usize] = number as u32;
    }
}

/// What a checkpoint holds.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// The map.
    pub entries: &'a [MapEntry],
    /// The masks of all places.
    pub masks: &'a [Masks],
    /// The index.
    pub numbers: &'a Numbers,
}

impl Contents<'_> {
    fn shape(&self) -> Shape {
        Shape { entries: self.entries.len() as u32, masks: self.masks.len() as u32 }
    }

    /// Encodes the blocks of checkpoint `number` that begin `at` bytes from its start. `into` is a whole number of blocks, none of which
    /// is the header.
    pub fn encode(&self, number: u64, at: u64, volume: VolumeId, into: &mut [u8]) {
        let (shape, numbers) = (self.shape(), &self.numbers.0);
        let (index, entry_blocks) = (blocks_for(shape.blocks()), shape.entry_blocks());
        for (block, place) in into.chunks_exact_mut(BLOCK_LEN).zip(at / BLOCK - 1..) {
            match place.checked_sub(index) {
                None => encode_words(numbers, number as u32, place, volume, block),
                Some(at) => {
                    let number = numbers[at as usize];
                    match at.checked_sub(entry_blocks) {
                        None => encode_words(self.entries, number, at, volume, block),
                        Some(at) => encode_words(self.masks, number, at, volume, block),
                    }
                }
            }
        }
    }
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

impl Word for u32 {
    const KIND: Kind = Kind::CheckpointIndex;
    fn to_word(self) -> u32 {
        self
    }
    fn of_word(word: u32) -> u32 {
        word
    }
}

/// Encodes block `index` of these words, which checkpoint `number` writes.
fn encode_words<W: Word>(image: &[W], number: u32, index: u64, volume: VolumeId, block: &mut [u8]) {
    block.fill(0);
    let start = (index * ENTRIES_PER_BLOCK).min(image.len() as u64) as usize;
    let words = &image[start..image.len().min(start + ENTRIES_PER_BLOCK as usize)];
    put_u64(block, 8, u64::from(number));
    put_u32(block, 16, index as u32);
    put_u32(block, 20, words.len() as u32);
    for (slot, word) in words.iter().enumerate() {
        put_u32(block, HEADER + slot * 4, word.to_word());
    }
    seal(block, W::KIND, volume);
}

/// Adds the words of a block to the image if the block is valid and is block `index`, written by checkpoint `number`.
fn decode_words<W: Word>(block: &[u8], number: u32, index: u64, volume: VolumeId, image: &mut [W]) -> bool {
    let start = (index * ENTRIES_PER_BLOCK) as usize;
    let count = image.len().saturating_sub(start).min(ENTRIES_PER_BLOCK as usize);
    let valid = is_sealed(block, W::KIND, volume)
        && get_u64(block, 8) == u64::from(number)
        && u64::from(get_u32(block, 16)) == index
        && get_u32(block, 20) as usize == count;
    if valid {
        for (slot, word) in image[start..start + count].iter_mut().enumerate() {
            *word = W::of_word(get_u32(block, HEADER + slot * 4));
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
    let parts = Parts::of(header, layout);
    let index: Vec<u32> = load_part(storage, devices, parts.index(), volume)?;
    let [entries, masks] = parts.words(&index);
    Some((load_part(storage, devices, entries, volume)?, load_part(storage, devices, masks, volume)?))
}

/// Some of the blocks of a checkpoint, which hold words of one kind.
#[derive(Clone, Copy)]
struct Part<'a> {
    at: Bytes,
    /// Number of words.
    words: u32,
    numbers: &'a [u32],
}

/// Where the parts of a checkpoint are.
struct Parts {
    shape: Shape,
    at: Bytes,
    /// For each block of the index, the checkpoint that wrote it. This is always the present one.
    index: Vec<u32>,
}

impl Parts {
    fn of(header: &CheckpointHeader, layout: &MetadataLayout) -> Parts {
        let shape = header.shape(layout);
        let index = vec![header.number as u32; blocks_for(shape.blocks()) as usize];
        Parts { shape, at: layout.checkpoint_at(header.which()), index }
    }

    fn index(&self) -> Part<'_> {
        Part { at: self.at + Bytes(self.shape.index().start), words: self.shape.blocks() as u32, numbers: &self.index }
    }

    /// The entries and the masks, if this is the index.
    fn words<'a>(&self, index: &'a [u32]) -> [Part<'a>; 2] {
        let (entries, masks) = index.split_at(self.shape.entry_blocks() as usize);
        let at = |block: usize| self.at + Bytes(self.shape.place_of(block as u32));
        [
            Part { at: at(0), words: self.shape.entries, numbers: entries },
            Part { at: at(entries.len()), words: self.shape.masks, numbers: masks },
        ]
    }
}

/// Reads a part; each block comes from the first device that has a valid copy. `None` if a block is valid on no device.
fn load_part<W: Word>(
    storage: &mut dyn Storage,
    devices: &[DeviceId],
    part: Part<'_>,
    volume: VolumeId,
) -> Option<Vec<W>> {
    let mut image = vec![W::default(); part.words as usize];
    let (first, others) = devices.split_first()?;
    let mut missing = load_range(storage, *first, (part, 0..part.numbers.len() as u64), volume, &mut image);
    for device in others {
        missing.retain(|index| !load_range(storage, *device, (part, *index..index + 1), volume, &mut image).is_empty());
    }
    missing.is_empty().then_some(image)
}

/// Reads some of the blocks of a part from a device; returns those that are not valid there.
fn load_range<W: Word>(
    storage: &mut dyn Storage,
    device: DeviceId,
    (part, range): (Part<'_>, Range<u64>),
    volume: VolumeId,
    image: &mut [W],
) -> Vec<u64> {
    let at = part.at + Bytes(range.start * BLOCK);
    let mut missing = Vec::new();
    read_blocks(storage, device, at, (range.end - range.start) * BLOCK, |index, block| {
        let index = range.start + index;
        let number = part.numbers[index as usize];
        if !block.is_some_and(|block| decode_words(block, number, index, volume, image)) {
            missing.push(index);
        }
    });
    missing
}

/// Counts the blocks of a checkpoint that are not valid on a device, besides its header, which must come from [`headers`]. A block
/// counts as well if the index does not say by which checkpoint it was written.
pub fn damaged_blocks(
    storage: &mut dyn Storage,
    device: DeviceId,
    layout: &MetadataLayout,
    header: &CheckpointHeader,
    volume: VolumeId,
) -> u64 {
    fn damaged<W: Word>(
        storage: &mut dyn Storage,
        device: DeviceId,
        part: Part<'_>,
        volume: VolumeId,
    ) -> (u64, Vec<W>) {
        let mut image = vec![W::default(); part.words as usize];
        let all = 0..part.numbers.len() as u64;
        (load_range(storage, device, (part, all), volume, &mut image).len() as u64, image)
    }
    let parts = Parts::of(header, layout);
    let (of_index, index) = damaged::<u32>(storage, device, parts.index(), volume);
    let [entries, masks] = parts.words(&index);
    of_index
        + damaged::<MapEntry>(storage, device, entries, volume).0
        + damaged::<Masks>(storage, device, masks, volume).0
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
    (entries, masks): (&[MapEntry], &[Masks]),
    volume: VolumeId,
) -> Result<(), DeviceId> {
    let shape = Shape { entries: entries.len() as u32, masks: masks.len() as u32 };
    let contents = Contents { entries, masks, numbers: &Numbers::all(shape, header.number) };
    let start = layout.checkpoint_at(header.which());
    let mut piece = vec![0; PIECE as usize];
    for device in devices {
        for at in (BLOCK..shape.bytes()).step_by(PIECE as usize) {
            let piece = &mut piece[..PIECE.min(shape.bytes() - at) as usize];
            contents.encode(header.number, at, volume, piece);
            storage.write(*device, start + Bytes(at), piece).map_err(|_| *device)?;
        }
        storage.flush(*device).map_err(|_| *device)?;
    }
    let mut block = [0; BLOCK_LEN];
    header.encode(volume, &mut block);
    for device in devices {
        storage.write(*device, start, &block).map_err(|_| *device)?;
        storage.flush(*device).map_err(|_| *device)?;
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
        // The second block of masks: the index and three blocks of entries are before the first.
        let at = (layout.checkpoint_at(1) + Bytes(BLOCK * 6)).0 as usize;
        devices[0][at + 50] ^= 1;
        assert_eq!(damaged_blocks(&mut devices, DeviceId(0), &layout, &header, volume), 1);
        assert_eq!(load(&mut devices, &both, &layout, &header, volume), words);
        assert_eq!(load(&mut devices, &both[..1], &layout, &header, volume), None);
    }
}

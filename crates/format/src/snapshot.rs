//! Snapshots of what a cache has learnt: which extents were used lately, how often, and the state of the policies. No data of a host
//! depend on them: a snapshot that is torn, old or lost costs hits only.
//!
//! A snapshot lies behind what the volume uses of the fast device ([`Room`]), in one of two halves that are used in turn. It has a
//! header, and blocks of items. It counts if all of its blocks are whole and agree.

use peryton_units::Bytes;

use crate::{
    block::{BLOCK, BLOCK_LEN, Kind, MOST_NUMBERS, get_u32, get_u64, is_sealed, put_u32, put_u64, seal},
    mutation::{self, Mutation},
    storage::{DeviceId, Storage},
    superblock::VolumeId,
};

/// Where the items of a block begin.
const ITEMS_AT: usize = 32;
/// Number of words in a block.
pub const WORDS_PER_BLOCK: usize = (BLOCK_LEN - ITEMS_AT) / 4;
/// The most words of an item.
pub const MOST_WORDS: usize = 15;
/// The most bytes of a name in a header.
const NAME: usize = 32;
/// The version of the items.
const VERSION: u32 = 1;
/// The bytes in each half for each place of the fast device.
const BYTES_PER_PLACE: u64 = 48;
/// With small extents, a half takes at most one part in this many of the fast device's data.
const SHARE_OF_DATA: u64 = 128;
/// Snapshots are read in parts of this many bytes.
const PIECE: u64 = 256 << 10;
/// A clock of more than 73 years is damage. The engine's clock goes on from this time, and must not come to its end.
const MOST_CLOCK_NS: u64 = 1 << 61;

/// The room for snapshots on the fast device: behind the last superblock, so that programs that know nothing of it leave it alone.
/// It begins and ends with a block that says where it is.
///
/// ```
/// use peryton_format::snapshot::Room;
/// use peryton_units::Bytes;
///
/// // A volume uses 8 GiB of the device, with 8192 places of 1 MiB.
/// let room = Room::new(Bytes::gib(8), 8192, Bytes::gib(8));
/// assert!(room.bytes() < Bytes::mib(1));
/// assert_eq!(room.half_at(1) - room.half_at(0), room.half);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The offset of the room: the end of what the volume uses.
    pub at: Bytes,
    /// The length of each half.
    pub half: Bytes,
}

impl Room {
    /// The room on a fast device with this number of places and `data` bytes of data. It begins behind the `used` bytes of the volume.
    pub fn new(used: Bytes, places: u32, data: Bytes) -> Room {
        let wanted = (u64::from(places) * BYTES_PER_PLACE).min(data.0 / SHARE_OF_DATA);
        // A header and a block at the least.
        Room { at: used, half: Bytes(BLOCK + wanted.next_multiple_of(BLOCK).max(BLOCK)) }
    }

    /// The length of the room.
    pub fn bytes(&self) -> Bytes {
        Bytes(2 * (BLOCK + self.half.0))
    }

    /// The offset of its end.
    pub fn end(&self) -> Bytes {
        self.at + self.bytes()
    }

    /// The offset of a half.
    pub fn half_at(&self, which: u64) -> Bytes {
        if mutation::is(Mutation::SnapshotOverData) {
            return self.at.saturating_sub(self.half);
        }
        self.at + Bytes(BLOCK + which % 2 * self.half.0)
    }

    /// The most blocks of items in a half.
    pub fn most_blocks(&self) -> u32 {
        u32::try_from(self.half.0 / BLOCK - 1).unwrap_or(u32::MAX)
    }

    /// Marks the room on the device.
    ///
    /// # Errors
    ///
    /// The device failed.
    pub fn mark(&self, storage: &mut dyn Storage, device: DeviceId, volume: VolumeId) -> Result<(), DeviceId> {
        let mut block = [0; BLOCK_LEN];
        put_u64(&mut block, 8, self.at.0);
        put_u64(&mut block, 16, self.half.0);
        seal(&mut block, Kind::SnapshotRoom, volume);
        // What an earlier volume has left there is of another identity.
        for at in [self.at, self.end() - Bytes(BLOCK)] {
            storage.write(device, at, &block).map_err(|_| device)?;
        }
        Ok(())
    }

    /// Whether the device has this room.
    pub fn is_marked(&self, storage: &mut dyn Storage, device: DeviceId, volume: VolumeId) -> bool {
        let mut block = [0; BLOCK_LEN];
        let large = storage.size(device).is_some_and(|size| size >= self.end());
        large
            && [self.at, self.end() - Bytes(BLOCK)].into_iter().any(|at| {
                storage.read(device, at, &mut block).is_ok()
                    && is_sealed(&block, Kind::SnapshotRoom, volume)
                    && get_u64(&block, 8) == self.at.0
                    && get_u64(&block, 16) == self.half.0
            })
    }

    /// Where the volume ends that this block belongs to, if the block marks a room. The volume is not known.
    pub fn marks_end(block: &[u8]) -> Option<Bytes> {
        crate::block::has_kind(block, Kind::SnapshotRoom).then(|| Bytes(get_u64(block, 8)))
    }
}

/// The header of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Snapshots are numbered; even ones are in the first half.
    pub number: u64,
    /// The generation of the volume in which it was taken.
    pub generation: u64,
    /// Number of blocks of items.
    pub blocks: u32,
    /// When it was taken, in seconds since 1970; 0 if that is not known.
    pub unix_s: u64,
    /// The same in nanoseconds of the engine's clock, to which times in it refer.
    pub clock_ns: u64,
    /// Number of extents on the fast device that it describes.
    pub extents: u64,
    /// The replacement policy, and the version of what it has saved.
    pub policy: (String, u32),
    /// The admission rule; empty if there is none.
    pub rule: String,
}

impl Header {
    /// Encodes the header into a block.
    ///
    /// # Panics
    ///
    /// If `block` is shorter than a block.
    pub fn encode(&self, volume: VolumeId, block: &mut [u8]) {
        block.fill(0);
        put_u64(block, 8, self.number);
        put_u64(block, 16, self.generation);
        put_u32(block, 24, self.blocks);
        put_u32(block, 28, VERSION);
        put_u64(block, 32, self.unix_s);
        put_u64(block, 40, self.clock_ns);
        put_u64(block, 48, self.extents);
        put_u32(block, 56, self.policy.1);
        for (at, name) in [(64, &self.policy.0), (64 + NAME, &self.rule)] {
            let len = name.len().min(NAME);
            block[at..at + len].copy_from_slice(&name.as_bytes()[..len]);
        }
        seal(block, Kind::SnapshotHeader, volume);
    }

    /// Decodes a header; `None` if the block is not one of this volume, or is of another version.
    pub fn decode(block: &[u8], volume: VolumeId) -> Option<Header> {
        if !is_sealed(block, Kind::SnapshotHeader, volume) || get_u32(block, 28) != VERSION {
            return None;
        }
        let name = |at: usize| {
            let bytes = &block[at..at + NAME];
            let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(NAME);
            String::from_utf8_lossy(&bytes[..len]).into_owned()
        };
        let (number, generation) = (get_u64(block, 8), get_u64(block, 16));
        let clock_ns = get_u64(block, 40);
        let is_sound = number < MOST_NUMBERS && generation < MOST_NUMBERS && clock_ns < MOST_CLOCK_NS;
        is_sound.then(|| Header {
            number,
            generation,
            blocks: get_u32(block, 24),
            unix_s: get_u64(block, 32),
            clock_ns,
            extents: get_u64(block, 48),
            policy: (name(64), get_u32(block, 56)),
            rule: name(64 + NAME),
        })
    }
}

/// Makes blocks of items. An item is of a list, which has a number, and has up to [`MOST_WORDS`] words. Neither items nor the
/// lists that a block begins with reach into another block.
///
/// ```
/// use peryton_format::{snapshot::{Packer, items}, superblock::VolumeId};
///
/// let mut packer = Packer::new(VolumeId(7), 4, 1, 10);
/// packer.put(3, &[1, 2]);
/// packer.put(3, &[5, 6]);
/// let words = [0x0032_0002, 1, 2, 5, 6];
/// let found: Vec<(u16, Vec<u32>)> = items(&words).map(|(list, item)| (list, item.to_vec())).collect();
/// assert_eq!(found, [(3, vec![1, 2]), (3, vec![5, 6])]);
/// packer.end();
/// assert_eq!(packer.bytes().len(), 4096);
/// ```
#[derive(Debug)]
pub struct Packer {
    volume: VolumeId,
    number: u64,
    generation: u64,
    most_blocks: u32,
    /// Blocks so far, and those of them that are sealed and not taken yet.
    blocks: u32,
    bytes: Vec<u8>,
    /// The block under way.
    words: Vec<u32>,
    /// Where the list under way begins in it.
    run: Option<usize>,
}

/// A list in a block begins with a word: bits 20 to 31 hold its number, 16 to 19 the words of an item, 0 to 15 the number of items.
const LIST_SHIFT: u32 = 20;
const WIDTH_SHIFT: u32 = 16;
const MOST_ITEMS: u32 = 0xffff;
/// The most lists that may have numbers.
pub const MOST_LISTS: u16 = 1 << 12;

impl Packer {
    /// Makes at most this many blocks of the snapshot with this number.
    pub fn new(volume: VolumeId, number: u64, generation: u64, most_blocks: u32) -> Packer {
        Packer { volume, number, generation, most_blocks, blocks: 0, bytes: Vec::new(), words: Vec::new(), run: None }
    }

    /// Adds an item. Without room for it nothing happens.
    pub fn put(&mut self, list: u16, item: &[u32]) {
        debug_assert!((1..=MOST_WORDS).contains(&item.len()) && list < MOST_LISTS);
        if self.words.len() + 1 + item.len() > WORDS_PER_BLOCK {
            self.seal();
        }
        if self.is_full() {
            return;
        }
        let head = u32::from(list) << LIST_SHIFT | (item.len() as u32) << WIDTH_SHIFT;
        match self.run.filter(|run| self.words[*run] & !MOST_ITEMS == head) {
            Some(run) => self.words[run] += 1,
            None => {
                self.run = Some(self.words.len());
                self.words.push(head | 1);
            }
        }
        self.words.extend(item);
    }

    /// Whether there is no room for more.
    pub fn is_full(&self) -> bool {
        self.blocks >= self.most_blocks
    }

    fn seal(&mut self) {
        if self.words.is_empty() || self.is_full() {
            return;
        }
        let from = self.bytes.len();
        self.bytes.resize(from + BLOCK_LEN, 0);
        let block = &mut self.bytes[from..];
        put_u64(block, 8, self.number);
        put_u64(block, 16, self.generation);
        put_u32(block, 24, self.blocks);
        put_u32(block, 28, self.words.len() as u32);
        for (index, word) in self.words.iter().enumerate() {
            put_u32(block, ITEMS_AT + 4 * index, *word);
        }
        seal(block, Kind::SnapshotItems, self.volume);
        (self.blocks, self.run) = (self.blocks + 1, None);
        self.words.clear();
    }

    /// Seals the last block.
    pub fn end(&mut self) {
        self.seal();
    }

    /// The blocks that are complete and were not taken.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes the blocks that are complete: the number of the first, and their bytes. `into` is emptied and reused.
    pub fn take(&mut self, into: &mut Vec<u8>) -> u32 {
        into.clear();
        std::mem::swap(into, &mut self.bytes);
        self.blocks - (into.len() / BLOCK_LEN) as u32
    }

    /// Number of blocks so far.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }
}

/// The items of a block's words, each with the number of its list.
pub fn items(words: &[u32]) -> impl Iterator<Item = (u16, &[u32])> {
    let mut rest = words;
    std::iter::from_fn(move || {
        let (head, after) = rest.split_first()?;
        let (list, width, count) =
            (head >> LIST_SHIFT, (head >> WIDTH_SHIFT & 0xf) as usize, (head & MOST_ITEMS) as usize);
        let len = width * count;
        if width == 0 || len > after.len() {
            rest = &[];
            return None;
        }
        let (run, next) = after.split_at(len);
        rest = next;
        Some(run.chunks_exact(width).map(move |item| (list as u16, item)))
    })
    .flatten()
}

/// The headers of both halves, each `None` if there is none of this volume, or if its numbers are impossible.
pub fn headers(storage: &mut dyn Storage, device: DeviceId, room: &Room, volume: VolumeId) -> [Option<Header>; 2] {
    [0, 1].map(|which| {
        let mut block = [0; BLOCK_LEN];
        storage.read(device, room.half_at(which), &mut block).ok()?;
        let header = Header::decode(&block, volume)?;
        (header.number % 2 == which && header.blocks <= room.most_blocks()).then_some(header)
    })
}

/// The words of each block of a snapshot; `None` if one of them is damaged, or of another snapshot. Takes memory in proportion to its
/// length, which the room bounds.
pub fn load(
    storage: &mut dyn Storage,
    device: DeviceId,
    room: &Room,
    header: &Header,
    volume: VolumeId,
) -> Option<Vec<Vec<u32>>> {
    let (mut found, mut index) = (Vec::new(), 0);
    while index < header.blocks {
        let count = (header.blocks - index).min((PIECE / BLOCK) as u32);
        let mut piece = vec![0; count as usize * BLOCK_LEN];
        let at = room.half_at(header.number) + Bytes(BLOCK + u64::from(index) * BLOCK);
        storage.read(device, at, &mut piece).ok()?;
        for (block, index) in piece.chunks_exact(BLOCK_LEN).zip(index..) {
            let count = get_u32(block, 28) as usize;
            let whole = is_sealed(block, Kind::SnapshotItems, volume)
                && get_u64(block, 8) == header.number
                && get_u64(block, 16) == header.generation
                && get_u32(block, 24) == index
                && count <= WORDS_PER_BLOCK;
            if !whole {
                return None;
            }
            found.push((0..count).map(|word| get_u32(block, ITEMS_AT + 4 * word)).collect());
        }
        index += count;
    }
    Some(found)
}

/// A snapshot that is whole: its header, and the words of each of its blocks.
pub type Whole = (Header, Vec<Vec<u32>>);

/// The newest snapshot that is whole, of those that were taken before the volume was opened in `generation`. Also returns the highest
/// number in use.
pub fn newest(
    storage: &mut dyn Storage,
    device: DeviceId,
    room: &Room,
    volume: VolumeId,
    generation: u64,
) -> (Option<Whole>, u64) {
    let mut found: Vec<Header> = headers(storage, device, room, volume).into_iter().flatten().collect();
    let highest = found.iter().map(|header| header.number).max().unwrap_or(0);
    // One of a later generation is of a copy of the device from another time.
    found.retain(|header| header.generation < generation);
    found.sort_by_key(|header| std::cmp::Reverse(header.number));
    let whole = found.into_iter().find_map(|header| {
        let words = load(storage, device, room, &header, volume)?;
        Some((header, words))
    });
    (whole, highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: VolumeId = VolumeId(9);
    const DEVICE: DeviceId = DeviceId(0);

    fn room() -> Room {
        Room::new(Bytes::kib(64), 1000, Bytes::mib(16))
    }

    fn write(devices: &mut Vec<Vec<u8>>, number: u64, generation: u64, items: u32) -> Header {
        let room = room();
        let mut packer = Packer::new(VOLUME, number, generation, room.most_blocks());
        for item in 0..items {
            packer.put((item / 1500) as u16, &[item, number as u32, 7]);
        }
        packer.end();
        let mut bytes = Vec::new();
        assert_eq!(packer.take(&mut bytes), 0);
        devices.write(DEVICE, room.half_at(number) + Bytes(BLOCK), &bytes).unwrap();
        let policy = ("lru".to_owned(), 1);
        let header = Header { number, generation, blocks: packer.blocks(), policy, ..Header::default() };
        let mut block = [0; BLOCK_LEN];
        header.encode(VOLUME, &mut block);
        devices.write(DEVICE, room.half_at(number), &block).unwrap();
        header
    }

    fn devices() -> Vec<Vec<u8>> {
        vec![vec![0; room().end().0 as usize]]
    }

    #[test]
    fn what_was_written_is_read_again_and_the_newest_whole_one_counts() {
        let (mut devices, room) = (devices(), room());
        assert!(!room.is_marked(&mut devices, DEVICE, VOLUME));
        room.mark(&mut devices, DEVICE, VOLUME).unwrap();
        assert!(room.is_marked(&mut devices, DEVICE, VOLUME) && !room.is_marked(&mut devices, DEVICE, VolumeId(8)));
        assert_eq!(newest(&mut devices, DEVICE, &room, VOLUME, 9), (None, 0));
        let older = write(&mut devices, 3, 4, 2000);
        let newer = write(&mut devices, 4, 5, 100);
        let (found, highest) = newest(&mut devices, DEVICE, &room, VOLUME, 6);
        let (header, words) = found.unwrap();
        assert_eq!((header, highest), (newer, 4));
        let all: Vec<Vec<u32>> = words.iter().flat_map(|words| items(words)).map(|(_, item)| item.to_vec()).collect();
        assert_eq!(all, (0..100).map(|item| vec![item, 4, 7]).collect::<Vec<_>>());
        // Of a generation that has not begun.
        assert_eq!(newest(&mut devices, DEVICE, &room, VOLUME, 5).0.unwrap().0, older);
        // Another volume's.
        assert_eq!(newest(&mut devices, DEVICE, &room, VolumeId(8), 6), (None, 0));
        for bit in [3, 9 * 8, 20 * 8, 27 * 8, 29 * 8, 500, 4096 * 8 - 1] {
            let at = room.half_at(4).0 as usize + BLOCK_LEN;
            devices[0][at + bit / 8] ^= 1 << (bit % 8);
            let found = newest(&mut devices, DEVICE, &room, VOLUME, 6).0.unwrap().0;
            assert_eq!(found, older, "bit {bit}: a damaged one does not count, and the one before it does");
            devices[0][at + bit / 8] ^= 1 << (bit % 8);
        }
        let words = load(&mut devices, DEVICE, &room, &older, VOLUME).unwrap();
        let lists: Vec<u16> = words.iter().flat_map(|words| items(words)).map(|(list, _)| list).collect();
        assert_eq!((lists.len(), lists[1499], lists[1500]), (2000, 0, 1));
    }

    #[test]
    fn a_half_takes_no_more_than_its_blocks() {
        let room = room();
        let mut packer = Packer::new(VOLUME, 1, 1, room.most_blocks());
        (0..100_000).for_each(|item| packer.put(1, &[item, 0]));
        packer.end();
        assert!(packer.is_full() && packer.blocks() == room.most_blocks());
        assert_eq!(packer.bytes().len() as u64 + BLOCK, room.half.0);
    }

    #[test]
    fn words_that_make_no_sense_end_a_block() {
        assert_eq!(items(&[0x0012_ffff, 1, 2]).count(), 0);
        assert_eq!(items(&[0x0010_0005, 1, 2]).count(), 0);
        assert_eq!(items(&[]).count(), 0);
    }
}

//! A fake disk with a volatile write cache. When the power goes, each write that no flush has covered may be lost,
//! kept, or torn sector by sector, whatever the order in which the writes were completed.
//!
//! Each sector of data holds a tag instead of bytes. Metadata holds real bytes, because recovery decodes it. Where
//! metadata lies among data, as in a log, the tags of its sectors stand for their bytes.

use std::{cell::RefCell, collections::BTreeSet, fmt, hash::Hash, hash::Hasher, rc::Rc};

use peryton_units::Bytes;
use rand::{RngExt, seq::SliceRandom};
use rand_pcg::Pcg64Mcg;

/// The unit that a disk writes as a whole, in bytes.
pub(crate) const SECTOR: u64 = 512;
const SECTOR_LEN: usize = SECTOR as usize;
/// The fake disk stores metadata in blocks of this many bytes.
const BLOCK_LEN: usize = 4096;
const SECTORS_PER_BLOCK: u64 = 8;

/// The content of a data sector: a number that no other write of any sector has, or 0 for zeros.
pub(crate) type Tag = u32;

/// Tags from this value on are raw: they stand for bytes in `BYTES`.
const RAW: Tag = 1 << 31;

thread_local! {
    /// The bytes that the raw tags of this thread's run stand for.
    static BYTES: RefCell<Vec<[u8; SECTOR_LEN]>> = const { RefCell::new(Vec::new()) };
}

/// Forgets the raw tags of the previous run on this thread.
pub(crate) fn forget_bytes() {
    BYTES.with_borrow_mut(Vec::clear);
}

/// Writes the bytes of a sector: those that a raw tag stands for, or else the tag repeated.
pub(crate) fn expand(tag: Tag, into: &mut [u8]) {
    if tag == 0 {
        return into.fill(0);
    }
    let raw = BYTES.with_borrow(|bytes| {
        let found = tag.checked_sub(RAW).and_then(|index| bytes.get(index as usize));
        found.inspect(|bytes| into.copy_from_slice(*bytes)).is_some()
    });
    if raw {
        return;
    }
    into[..4].copy_from_slice(&tag.to_le_bytes());
    let mut done = 4;
    while done < into.len() {
        let len = done.min(into.len() - done);
        into.copy_within(..len, done);
        done += len;
    }
}

/// Returns the tag of a sector with these bytes; makes a raw tag if they are not one tag repeated.
pub(crate) fn tag_of(bytes: &[u8]) -> Tag {
    let tag = Tag::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    if tag < RAW && bytes.chunks_exact(4).all(|four| four == tag.to_le_bytes()) {
        return tag;
    }
    BYTES.with_borrow_mut(|all| {
        all.push(bytes.try_into().expect("a whole sector"));
        RAW + all.len() as Tag - 1
    })
}

/// The content that a write carries.
#[derive(Clone, Hash)]
pub enum Payload {
    Data(Rc<[Tag]>),
    Metadata(Rc<[u8]>),
    /// Anything of another disk, as tags: those of metadata stand for its bytes.
    Copied(Rc<[Tag]>),
}

/// Short, because `--verbose` prints it.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Payload::Data(tags) => write!(f, "{} sectors of data from tag {:?}", tags.len(), tags.first()),
            Payload::Metadata(bytes) => write!(f, "{} bytes of metadata", bytes.len()),
            Payload::Copied(tags) => write!(f, "{} sectors of another disk", tags.len()),
        }
    }
}

impl Payload {
    pub(crate) fn sectors(&self) -> u64 {
        match self {
            Payload::Data(tags) | Payload::Copied(tags) => tags.len() as u64,
            Payload::Metadata(bytes) => bytes.len() as u64 / SECTOR,
        }
    }
}

/// A write, or the part of one that takes effect.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Entry {
    /// The sector of the device at which the write begins.
    pub(crate) sector: u64,
    pub(crate) payload: Payload,
    /// Which sectors of the write take effect; `None` stands for all.
    pub(crate) mask: Option<Rc<[bool]>>,
}

impl Entry {
    pub(crate) fn new(at: Bytes, payload: Payload) -> Entry {
        assert!(at.0.is_multiple_of(SECTOR), "a command at {} is not aligned with a sector", at.0);
        Entry { sector: at.0 / SECTOR, payload, mask: None }
    }

    /// Chooses at random which sectors of the write take effect.
    pub(crate) fn partial(mut self, rng: &mut Pcg64Mcg) -> Entry {
        let mut mask: Vec<bool> = (0..self.payload.sectors()).map(|_| rng.random_bool(0.5)).collect();
        // Every other long write is torn between blocks: the sectors of each go with its first one.
        if mask.len() > SECTORS_PER_BLOCK as usize && mask[1] != mask[2] {
            mask.chunks_mut(SECTORS_PER_BLOCK as usize).for_each(|block| {
                let first = block[0];
                block.fill(first);
            });
        }
        if let Some(before) = &self.mask {
            mask.iter_mut().zip(before.iter()).for_each(|(takes_effect, before)| *takes_effect &= before);
        }
        self.mask = Some(mask.into());
        self
    }
}

/// The content of a disk. Metadata lies before and after the data.
#[derive(Clone, Debug, Hash)]
struct Content {
    data_from: u64,
    data: Vec<Tag>,
    blocks: Vec<Option<Rc<[u8; BLOCK_LEN]>>>,
}

enum At {
    Data(usize),
    Metadata { block: usize, within: usize },
}

impl Content {
    fn at(&self, sector: u64) -> At {
        let data_to = self.data_from + self.data.len() as u64;
        if (self.data_from..data_to).contains(&sector) {
            return At::Data((sector - self.data_from) as usize);
        }
        let sector = if sector < self.data_from { sector } else { sector - self.data.len() as u64 };
        let within = (sector % SECTORS_PER_BLOCK) as usize * SECTOR_LEN;
        At::Metadata { block: (sector / SECTORS_PER_BLOCK) as usize, within }
    }

    /// Writes the sectors of an entry that take effect.
    fn apply(&mut self, entry: &Entry) {
        for index in 0..entry.payload.sectors() as usize {
            if entry.mask.as_ref().is_some_and(|mask| !mask[index]) {
                continue;
            }
            match (self.at(entry.sector + index as u64), &entry.payload) {
                (At::Data(at), Payload::Data(tags) | Payload::Copied(tags)) => self.data[at] = tags[index],
                (At::Metadata { block, within }, Payload::Copied(tags)) => {
                    let block = self.blocks[block].get_or_insert_with(|| Rc::new([0; BLOCK_LEN]));
                    expand(tags[index], &mut Rc::make_mut(block)[within..within + SECTOR_LEN]);
                }
                (At::Metadata { block, within }, Payload::Metadata(bytes)) => {
                    let block = self.blocks[block].get_or_insert_with(|| Rc::new([0; BLOCK_LEN]));
                    let bytes = &bytes[index * SECTOR_LEN..][..SECTOR_LEN];
                    Rc::make_mut(block)[within..within + SECTOR_LEN].copy_from_slice(bytes);
                }
                (At::Data(_), _) => panic!("metadata was written into data at sector {}", entry.sector),
                (At::Metadata { .. }, _) => panic!("data was written into metadata at sector {}", entry.sector),
            }
        }
    }
}

/// How many of the unflushed writes survive a power loss.
#[derive(Clone, Copy, Debug)]
enum Survival {
    All,
    Nothing,
    /// Each write survives as a whole, not at all, or in some of its sectors.
    Some,
    /// Each sector survives or not, independently of the others.
    Sectors,
}

#[derive(Clone, Debug)]
pub struct Disk {
    size: u64,
    /// How much of it is behind what a volume uses.
    behind: u64,
    stable: Content,
    live: Content,
    /// Writes that are completed but not covered by a flush, oldest first. The first one has number `first`.
    cache: Vec<Entry>,
    first: u64,
    /// Sectors that the disk cannot read until they are written again.
    pub(crate) bad: BTreeSet<u64>,
    /// Whether the disk has died: then every command fails.
    pub(crate) dead: bool,
}

impl Disk {
    /// Makes a disk of which a volume uses `used`, with metadata before `data_at`, in the last block, and in the `behind` bytes behind
    /// that. `content` gives the tag of each data sector.
    pub(crate) fn new(used: Bytes, behind: Bytes, data_at: Bytes, content: impl Fn(u64) -> Tag) -> Disk {
        let size = used;
        assert!(size.0.is_multiple_of(BLOCK_LEN as u64) && data_at.0.is_multiple_of(BLOCK_LEN as u64));
        let data = (size.0 - data_at.0) / SECTOR - SECTORS_PER_BLOCK;
        let content = Content {
            data_from: data_at.0 / SECTOR,
            data: (0..data).map(content).collect(),
            blocks: vec![None; (data_at + behind).0 as usize / BLOCK_LEN + 1],
        };
        Disk {
            size: (used + behind).0,
            behind: behind.0,
            stable: content.clone(),
            live: content,
            cache: Vec::new(),
            first: 0,
            bad: BTreeSet::new(),
            dead: false,
        }
    }

    pub(crate) fn size(&self) -> Bytes {
        Bytes(self.size)
    }

    /// What a volume uses of it.
    pub(crate) fn used(&self) -> Bytes {
        Bytes(self.size - self.behind)
    }

    /// The sector at which the data begins, and the number of data sectors.
    pub(crate) fn data(&self) -> (u64, usize) {
        (self.live.data_from, self.live.data.len())
    }

    /// Applies a completed write; it stays volatile until a flush covers it.
    pub(crate) fn write(&mut self, entry: Entry) {
        if !self.bad.is_empty() {
            for (index, sector) in (entry.sector..entry.sector + entry.payload.sectors()).enumerate() {
                if entry.mask.as_ref().is_none_or(|mask| mask[index]) {
                    self.bad.remove(&sector);
                }
            }
        }
        self.live.apply(&entry);
        self.cache.push(entry);
    }

    pub(crate) fn is_bad(&self, at: Bytes, len: Bytes) -> bool {
        self.bad.range(at.0 / SECTOR..(at.0 + len.0).div_ceil(SECTOR)).next().is_some()
    }

    pub(crate) fn read(&self, at: Bytes, into: &mut [Tag]) {
        match self.live.at(at.0 / SECTOR) {
            At::Data(from) => into.copy_from_slice(&self.live.data[from..from + into.len()]),
            At::Metadata { .. } => panic!("data was read from metadata at {}", at.0),
        }
    }

    /// What a sector of data holds, and what it will hold if the power goes now and nothing of the cache is kept.
    pub(crate) fn both(&self, sector: u64) -> [Tag; 2] {
        [&self.live, &self.stable].map(|content| match content.at(sector) {
            At::Data(at) => content.data[at],
            At::Metadata { .. } => panic!("sector {sector} holds metadata"),
        })
    }

    /// Reads anything as tags.
    pub(crate) fn read_any(&self, at: Bytes, into: &mut [Tag]) {
        let mut bytes = [0; SECTOR_LEN];
        for (sector, into) in (at.0 / SECTOR..).zip(into) {
            *into = match self.live.at(sector) {
                At::Data(at) => self.live.data[at],
                At::Metadata { .. } => {
                    self.read_bytes(Bytes(sector * SECTOR), &mut bytes);
                    tag_of(&bytes)
                }
            };
        }
    }

    /// A disk of the same size, which was used for something else.
    pub(crate) fn another(&self, content: impl Fn(u64) -> Tag) -> Disk {
        Disk::new(self.used(), Bytes(self.behind), Bytes(self.live.data_from * SECTOR), content)
    }

    /// Reads bytes: metadata as it is, data as its tags repeated.
    pub(crate) fn read_bytes(&self, at: Bytes, into: &mut [u8]) {
        for (sector, into) in (at.0 / SECTOR..).zip(into.chunks_mut(SECTOR_LEN)) {
            match self.live.at(sector) {
                At::Data(at) => expand(self.live.data[at], into),
                At::Metadata { block, within } => match &self.live.blocks[block] {
                    Some(block) => into.copy_from_slice(&block[within..within + into.len()]),
                    None => into.fill(0),
                },
            }
        }
    }

    /// Makes the entry for a write of bytes, to data or to metadata.
    pub(crate) fn entry(&self, at: Bytes, bytes: Vec<u8>) -> Entry {
        let payload = match self.live.at(at.0 / SECTOR) {
            At::Data(_) => Payload::Data(bytes.chunks_exact(SECTOR_LEN).map(tag_of).collect()),
            At::Metadata { .. } => Payload::Metadata(bytes.into()),
        };
        Entry::new(at, payload)
    }

    /// The number up to which a flush that begins now covers the writes.
    pub(crate) fn mark(&self) -> u64 {
        self.first + self.cache.len() as u64
    }

    /// Makes durable what a flush covers that began at `mark` and has now completed.
    pub(crate) fn flushed(&mut self, mark: u64) {
        let count = mark.saturating_sub(self.first) as usize;
        for entry in self.cache.drain(..count) {
            self.stable.apply(&entry);
        }
        self.first += count as u64;
    }

    /// Makes durable all that was written.
    pub(crate) fn write_out(&mut self) {
        self.flushed(self.mark());
    }

    /// A flush has failed. Of all that no flush has covered, the oldest part is settled, write by write, as kept, torn or
    /// lost, which means that what was there before is there again; the rest is still to be flushed. Later flushes know
    /// nothing of it. Says whether anything was lost.
    pub(crate) fn flush_failed(&mut self, rng: &mut Pcg64Mcg) -> bool {
        // In one case of four a flush fails and nothing is lost.
        if self.cache.is_empty() || rng.random_bool(0.25) {
            return false;
        }
        let settled = if rng.random_bool(0.5) { self.cache.len() } else { rng.random_range(1..=self.cache.len()) };
        let keeps = [0.0, 0.3, 0.7][rng.random_range(0..3)];
        let mut lost = false;
        for entry in self.cache.drain(..settled) {
            if rng.random_bool(keeps) {
                self.stable.apply(&entry);
                continue;
            }
            lost = true;
            if rng.random_range(0..3) == 0 {
                self.stable.apply(&entry.partial(rng));
            }
        }
        self.first += settled as u64;
        self.live = self.stable.clone();
        self.cache.iter().for_each(|entry| self.live.apply(entry));
        lost
    }

    /// Hashes all that the disk may ever show.
    pub(crate) fn identify(&self, hasher: &mut impl Hasher) {
        (&self.stable, &self.live, &self.cache, &self.bad, self.dead).hash(hasher);
    }

    /// How many writes a flush covers that began at `mark` and has not completed.
    pub(crate) fn covered(&self, mark: u64) -> u64 {
        mark.saturating_sub(self.first)
    }

    /// How many writes no flush has covered.
    pub(crate) fn unflushed(&self) -> usize {
        self.cache.len()
    }

    /// Returns the disk as the next start finds it if the power goes now, with these writes in flight.
    pub(crate) fn after_crash(&self, in_flight: impl Iterator<Item = Entry>, rng: &mut Pcg64Mcg) -> Disk {
        let survival = match rng.random_range(0..10) {
            0..2 => Survival::All,
            2..4 => Survival::Nothing,
            4..8 => Survival::Some,
            _ => Survival::Sectors,
        };
        let mut stable = self.stable.clone();
        let mut in_flight: Vec<Entry> = in_flight.collect();
        in_flight.shuffle(rng);
        // Writes to one sector do not overtake each other, so the survivors are applied in the order of completion.
        for entry in self.cache.iter().chain(&in_flight) {
            match survival {
                Survival::All => stable.apply(entry),
                Survival::Nothing => {}
                Survival::Some => match rng.random_range(0..4) {
                    0 => stable.apply(entry),
                    1 => stable.apply(&entry.clone().partial(rng)),
                    _ => {}
                },
                Survival::Sectors => stable.apply(&entry.clone().partial(rng)),
            }
        }
        let live = stable.clone();
        // A dead device answers again after a power cycle, so that recovery must recognise its stale content.
        Disk { stable, live, cache: Vec::new(), first: 0, bad: self.bad.clone(), dead: false, ..*self }
    }

    /// The disk as it is after the process that used it has died, with these writes in flight: all that was completed is
    /// there, as volatile as before; what was in flight is there, or not, or in part.
    pub(crate) fn after_process_death(&self, in_flight: impl Iterator<Item = Entry>, rng: &mut Pcg64Mcg) -> Disk {
        let mut disk = self.clone();
        let mut in_flight: Vec<Entry> = in_flight.collect();
        in_flight.shuffle(rng);
        for entry in in_flight {
            match rng.random_range(0..4) {
                0 => {}
                1 => disk.write(entry.partial(rng)),
                _ => disk.write(entry),
            }
        }
        disk
    }

    /// The metadata blocks that have been written.
    pub(crate) fn written_blocks(&self) -> Vec<usize> {
        (0..self.stable.blocks.len()).filter(|block| self.stable.blocks[*block].is_some()).collect()
    }

    /// Flips one bit of a metadata block that has been written.
    pub(crate) fn flip(&mut self, block: usize, bit: usize) {
        let bytes = self.stable.blocks[block].as_mut().expect("the block has been written");
        Rc::make_mut(bytes)[bit / 8] ^= 1 << (bit % 8);
        self.live.blocks[block] = self.stable.blocks[block].clone();
    }

    /// The device sector at which a metadata block begins.
    pub(crate) fn sector_of(&self, block: usize) -> u64 {
        let before = self.live.data_from / SECTORS_PER_BLOCK;
        let after = if block as u64 >= before { self.live.data.len() as u64 } else { 0 };
        block as u64 * SECTORS_PER_BLOCK + after
    }

    /// Changes one of the sectors that have data of the host; metadata among them stays as it is.
    pub(crate) fn rot(&mut self, tag: Tag, rng: &mut Pcg64Mcg) {
        let written = |tag: &Tag| (1..RAW).contains(tag);
        let count = self.stable.data.iter().filter(|tag| written(tag)).count();
        if count > 0 {
            let chosen = rng.random_range(0..count);
            let mut places = (0..self.stable.data.len()).filter(|index| written(&self.stable.data[*index]));
            let place = places.nth(chosen).expect("there are so many");
            self.scribble(place, tag);
        }
    }

    /// Writes to a data sector as a program other than Peryton would.
    pub(crate) fn scribble(&mut self, index: usize, tag: Tag) {
        self.stable.data[index] = tag;
        self.live.data[index] = tag;
        self.bad.remove(&(self.live.data_from + index as u64));
    }
}

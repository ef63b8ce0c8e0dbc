//! What a server keeps in shared memory, so that the server after it knows everything that it answered, should the process
//! die while the machine runs on.
//!
//! The journal of a map, and the ring of a log, are written when a flush asks for it, or every few seconds. What they do not
//! have yet is in the memory of the process. The devices keep what was written to them when a process dies; what leads to it
//! is kept here.
//!
//! The memory is an array of words of eight bytes, each of which is stored at once. It begins with a sealed block, the
//! [`Label`], which says whose records these are. Behind it:
//!
//! * for a map, one word for each extent: its entry, if that has changed since the volume was opened. A word is the state of
//!   an extent and not the step to it, so a later change takes the place of an earlier one, and the array never fills;
//! * for a log, a ring of the records that the next commits will have.
//!
//! Each record has a checksum of its own, made with the volume's name and the generation. A process that dies amid a
//! record leaves it incomplete; nothing was answered that needs it.
//!
//! `docs/format.md` of the repository draws every word.

use thiserror::Error;

use crate::{
    block::{BLOCK, BLOCK_LEN, Kind, MOST_NUMBERS, get_u32, get_u64, is_sealed, put_u32, put_u64, seal},
    entry::MapEntry,
    geometry,
    log::ring::{CommitRecord, RECORD_WORDS},
    mutation::{self, Mutation},
    superblock::VolumeId,
};

/// The most devices that a volume has.
pub const MOST_DEVICES: usize = geometry::MOST_DEVICES;
/// The version of what is described here.
const VERSION: u32 = 1;
/// How many words the label takes.
const LABEL: usize = BLOCK_LEN / 8;
/// Which devices are fenced.
const GONE: usize = LABEL;
/// Whether the records are not complete.
const SUSPENDED: usize = LABEL + 1;
/// Whether a device may have lost what was written to it.
const DOUBTED: usize = LABEL + 2;
/// Two copies of a number, written in turn, so that one is always whole: the records of a log that are durable.
const SETTLED: usize = LABEL + 4;
/// The same: the appends of a log that are complete.
const COMPLETE: usize = LABEL + 8;
/// Where the records begin.
const RECORDS: usize = LABEL + 16;
/// A record of a log: its number, its words, and their checksum.
const LOG_RECORD: usize = RECORD_WORDS + 2;
/// The most records that a log keeps, whatever its size.
pub const MOST_LOG_RECORDS: u64 = 1 << 18;
/// An extent's word is addressed with 32 bits, and no place is above this.
const MOST_EXTENTS: u64 = 1 << 30;

/// What the records are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A map of so many extents.
    Map {
        /// How many.
        extents: u64,
    },
    /// A log, of which so many records have room.
    Log {
        /// How many.
        records: u64,
    },
}

impl Contents {
    /// How many words the records take with everything before them.
    pub fn words(self) -> u64 {
        RECORDS as u64
            + match self {
                Contents::Map { extents } => extents,
                Contents::Log { records } => records * LOG_RECORD as u64,
            }
    }

    /// How many bytes they take: a whole number of blocks.
    pub fn bytes(self) -> u64 {
        (self.words() * 8).next_multiple_of(BLOCK)
    }
}

/// Whose records these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The volume.
    pub volume: VolumeId,
    /// The generation in which they were made.
    pub generation: u64,
    /// Which time the machine was started: what the devices had in their caches, and the memory, are gone with that.
    pub boot: u128,
    /// A digest of each device: one that was taken out and put back may have lost what was in its cache.
    pub devices: [u64; MOST_DEVICES],
    /// What they are about.
    pub contents: Contents,
}

impl Label {
    /// Encodes the label into a block.
    ///
    /// # Panics
    ///
    /// If `block` is shorter than a block.
    pub fn encode(&self, block: &mut [u8]) {
        block.fill(0);
        let (kind, count) = match self.contents {
            Contents::Map { extents } => (1, extents),
            Contents::Log { records } => (2, records),
        };
        put_u32(block, 8, VERSION);
        put_u32(block, 12, kind);
        put_u64(block, 16, self.generation);
        block[24..40].copy_from_slice(&self.boot.to_le_bytes());
        put_u64(block, 40, count);
        for (index, device) in self.devices.iter().enumerate() {
            put_u64(block, 48 + index * 8, *device);
        }
        seal(block, Kind::Takeover, self.volume);
    }

    /// Decodes a label; `None` if the block is not a whole label of this volume, or says what cannot be.
    pub fn decode(block: &[u8], volume: VolumeId) -> Option<Label> {
        if !is_sealed(block, Kind::Takeover, volume) || get_u32(block, 8) != VERSION {
            return None;
        }
        let count = get_u64(block, 40);
        let contents = match get_u32(block, 12) {
            1 if count <= MOST_EXTENTS => Contents::Map { extents: count },
            2 if (1..=MOST_LOG_RECORDS).contains(&count) => Contents::Log { records: count },
            _ => return None,
        };
        let boot = u128::from(get_u64(block, 24)) | u128::from(get_u64(block, 32)) << 64;
        let generation = get_u64(block, 16);
        let devices = std::array::from_fn(|index| get_u64(block, 48 + index * 8));
        let label = Label { volume, generation, boot, devices, contents };
        (generation < MOST_NUMBERS).then_some(label)
    }
}

/// Something that the server after this one has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The map entry of an extent from now on.
    Entry {
        /// Which extent.
        extent: u32,
        /// Its entry.
        entry: MapEntry,
    },
    /// A record of a log's next commit.
    Log {
        /// Records are numbered from 1 without gaps.
        number: u64,
        /// What it says.
        record: CommitRecord,
    },
    /// Records of a log up to and with this number are durable.
    Settled {
        /// The number of the last of them.
        upto: u64,
    },
    /// All appends of a log before this sequence are on its device, or a record says that they are absent.
    Complete {
        /// That sequence.
        before: u64,
    },
    /// These devices are fenced, though the others may not know it yet.
    Gone {
        /// A bit each.
        devices: u32,
    },
    /// From now on the records are not complete, or are complete again.
    Suspended {
        /// Whether they are not.
        is: bool,
    },
    /// A device may have lost what was written to it, though it answered, or has not.
    Doubted {
        /// Whether it may have.
        is: bool,
    },
}

/// Memory that words are stored in, each at once and in the order of the calls.
pub trait Words {
    /// Stores a word.
    fn store(&mut self, index: usize, word: u64);
}

impl Words for Vec<u64> {
    fn store(&mut self, index: usize, word: u64) {
        self[index] = word;
    }
}

/// The checksum that all of a generation's records begin with.
fn key(volume: VolumeId, generation: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&volume.0.to_le_bytes()), &generation.to_le_bytes())
}

/// Never zero: a word of zeros is no record.
fn checksum(key: u32, index: usize, words: &[u64]) -> u64 {
    let sum = crc32c::crc32c_append(key, &(index as u64).to_le_bytes());
    let sum = words.iter().fold(sum, |sum, word| crc32c::crc32c_append(sum, &word.to_le_bytes()));
    u64::from(sum.max(1))
}

/// Half a word with its checksum.
fn sealed(key: u32, index: usize, half: u32) -> u64 {
    u64::from(half) | checksum(key, index, &[u64::from(half)]) << 32
}

/// The half of such a word; `None` if there is none, an error if it is not what was stored.
fn unsealed(key: u32, words: &[u64], index: usize) -> Result<Option<u32>, Unfit> {
    let word = words.get(index).copied().ok_or(Unfit::Damaged)?;
    let half = word as u32;
    match word {
        0 => Ok(None),
        _ if word == sealed(key, index, half) || mutation::is(Mutation::TrustChecksums) => Ok(Some(half)),
        _ => Err(Unfit::Damaged),
    }
}

/// Stores records in the memory that its label is in.
#[derive(Clone, Debug)]
pub struct Writer {
    key: u32,
    contents: Contents,
    /// Which of the two copies of a number is written next.
    turns: [usize; 2],
}

impl Writer {
    /// For memory that holds nothing but zeros behind this label.
    pub fn new(label: &Label) -> Writer {
        Writer { key: key(label.volume, label.generation), contents: label.contents, turns: [0; 2] }
    }

    /// Stores a record.
    #[inline]
    pub fn store(&mut self, record: Record, into: &mut impl Words) {
        let key = self.key;
        match record {
            Record::Entry { extent, entry } => {
                let index = RECORDS + extent as usize;
                into.store(index, sealed(key, index, entry.word()));
            }
            Record::Log { number, record } => {
                let Contents::Log { records } = self.contents else { return };
                let index = RECORDS + (number % records) as usize * LOG_RECORD;
                let [a, b, c] = record.words();
                let words = [number, a, b, c];
                // What was there is durable. Without a checksum there is nothing.
                into.store(index + LOG_RECORD - 1, 0);
                for (within, word) in words.into_iter().enumerate() {
                    into.store(index + within, word);
                }
                into.store(index + LOG_RECORD - 1, checksum(key, index, &words));
            }
            Record::Settled { upto } => self.number(0, SETTLED, upto, into),
            Record::Complete { before } => self.number(1, COMPLETE, before, into),
            Record::Gone { devices } => into.store(GONE, sealed(key, GONE, devices)),
            Record::Suspended { is } => into.store(SUSPENDED, sealed(key, SUSPENDED, u32::from(is))),
            Record::Doubted { is } => into.store(DOUBTED, sealed(key, DOUBTED, u32::from(is))),
        }
    }

    fn number(&mut self, which: usize, at: usize, number: u64, into: &mut impl Words) {
        let index = at + self.turns[which] * 2;
        self.turns[which] ^= 1;
        into.store(index + 1, 0);
        into.store(index, number);
        into.store(index + 1, checksum(self.key, index, &[number]));
    }
}

/// Why records are not taken over.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Unfit {
    /// They are not those of this volume.
    #[error("they are not of this volume")]
    Foreign,
    /// Something of them is not what was stored.
    #[error("they are damaged")]
    Damaged,
    /// There was no room for all of them.
    #[error("there was no room for all of them")]
    Incomplete,
    /// A device had failed a flush.
    #[error("a device had failed a flush, and may have lost what was written to it")]
    Doubted,
}

/// What a server that died left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Whose it was.
    pub label: Label,
    /// Entries that have changed since the volume was opened, in the order of extents.
    pub entries: Vec<(u32, MapEntry)>,
    /// What the log's next commits would have recorded, in order.
    pub records: Vec<CommitRecord>,
    /// All appends before this sequence are on the log's device, or absent by a record; 0 if that is not known.
    pub complete: u64,
    /// Devices that were fenced, a bit each.
    pub gone: u32,
}

impl Found {
    /// Decodes all of the memory.
    ///
    /// # Errors
    ///
    /// What is there is not fit to be taken over.
    pub fn decode(words: &[u64], volume: VolumeId) -> Result<Found, Unfit> {
        let block: Vec<u8> = words.iter().take(LABEL).flat_map(|word| word.to_le_bytes()).collect();
        let label = Label::decode(&block, volume).ok_or(Unfit::Foreign)?;
        if (words.len() as u64) < label.contents.words() {
            return Err(Unfit::Damaged);
        }
        let key = key(label.volume, label.generation);
        if unsealed(key, words, SUSPENDED)?.unwrap_or(0) != 0 {
            return Err(Unfit::Incomplete);
        }
        if unsealed(key, words, DOUBTED)?.unwrap_or(0) != 0 {
            return Err(Unfit::Doubted);
        }
        let gone = unsealed(key, words, GONE)?.unwrap_or(0);
        let mut found = Found { label, entries: Vec::new(), records: Vec::new(), complete: 0, gone };
        match label.contents {
            Contents::Map { extents } => {
                for extent in 0..extents as u32 {
                    if let Some(word) = unsealed(key, words, RECORDS + extent as usize)? {
                        found.entries.push((extent, MapEntry::from_word(word)));
                    }
                }
            }
            Contents::Log { records } => {
                found.complete = number(key, words, COMPLETE).unwrap_or(0);
                found.records = log_records(key, words, records)?;
            }
        }
        Ok(found)
    }
}

/// The higher of the two copies of a number that are whole.
fn number(key: u32, words: &[u64], at: usize) -> Option<u64> {
    let copies = [at, at + 2].into_iter().filter(|index| words[index + 1] == checksum(key, *index, &[words[*index]]));
    copies.map(|index| words[index]).max()
}

fn log_records(key: u32, words: &[u64], records: u64) -> Result<Vec<CommitRecord>, Unfit> {
    let settled = number(key, words, SETTLED).unwrap_or(0);
    let mut found: Vec<(u64, CommitRecord)> = Vec::new();
    let mut incomplete = 0;
    for slot in 0..records {
        let index = RECORDS + slot as usize * LOG_RECORD;
        let [number, a, b, c, sum] = [0, 1, 2, 3, 4].map(|within| words[index + within]);
        if sum == 0 {
            // Nothing, or the record that was being stored.
            incomplete += u64::from(number != 0);
            continue;
        }
        let whole = sum == checksum(key, index, &[number, a, b, c]) && number % records == slot;
        let record = CommitRecord::from_words([a, b, c]).filter(|_| whole).ok_or(Unfit::Damaged)?;
        if number > settled {
            found.push((number, record));
        }
    }
    found.sort_unstable_by_key(|(number, _)| *number);
    // They are all there, and at most one was being stored.
    let gaps = found.first().is_some_and(|(first, _)| *first != settled + 1)
        || found.windows(2).any(|pair| pair[0].0 + 1 != pair[1].0);
    if gaps || incomplete > 1 {
        return Err(Unfit::Damaged);
    }
    Ok(found.into_iter().map(|(_, record)| record).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::entry::Place;

    fn memory(contents: Contents) -> (Vec<u64>, Writer) {
        let label =
            Label { volume: VolumeId(9), generation: 4, boot: 7 << 64 | 1, devices: [3; MOST_DEVICES], contents };
        let mut block = vec![0; BLOCK_LEN];
        label.encode(&mut block);
        let mut words: Vec<u64> =
            block.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect();
        words.resize(contents.words() as usize, 0);
        (words, Writer::new(&label))
    }

    /// Stops at a word, as a process does that is killed.
    struct Cut<'a> {
        words: &'a mut Vec<u64>,
        left: usize,
        died: bool,
    }

    impl Words for Cut<'_> {
        fn store(&mut self, index: usize, word: u64) {
            self.died |= self.left == 0;
            if !self.died {
                self.left -= 1;
                self.words[index] = word;
            }
        }
    }

    fn void(number: u64) -> CommitRecord {
        CommitRecord::Void { offset: number * 512, len: 512, before: number }
    }

    proptest! {
        #[test]
        fn the_latest_state_of_each_extent_is_found(stores in prop::collection::vec((0u32..50, any::<bool>(), 0u32..99), 0..200)) {
            let (mut words, mut writer) = memory(Contents::Map { extents: 50 });
            let mut expected = std::collections::BTreeMap::new();
            for (extent, dirty, place) in stores {
                let entry = MapEntry::new(place.checked_sub(1).map(Place), dirty, false);
                writer.store(Record::Entry { extent, entry }, &mut words);
                expected.insert(extent, entry);
            }
            let found = Found::decode(&words, VolumeId(9)).expect("it is whole");
            prop_assert_eq!(found.entries, expected.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn a_log_finds_all_that_was_stored_whole_wherever_it_was_cut(
            stores in 1u64..40, settled in 0u64..40, cut in 0usize..400
        ) {
            let (mut words, mut writer) = memory(Contents::Log { records: 16 });
            let mut cut = Cut { words: &mut words, left: cut, died: false };
            let (mut whole, mut upto) = (0, 0);
            for number in 1..=stores {
                // No more are kept than there is room for.
                if number - upto > 16 || number == settled {
                    writer.store(Record::Settled { upto: number - 1 }, &mut cut);
                    if !cut.died { upto = number - 1; }
                }
                if cut.died { break; }
                writer.store(Record::Log { number, record: void(number) }, &mut cut);
                writer.store(Record::Complete { before: number }, &mut cut);
                if !cut.died { whole = number; }
            }
            let found = Found::decode(&words, VolumeId(9)).expect("a cut is no damage");
            for number in upto + 1..=whole {
                prop_assert!(found.records.contains(&void(number)), "{number} of {whole} is missing: {found:?}");
            }
            prop_assert!(found.complete + 1 >= whole.max(1), "{found:?}");
        }

        #[test]
        fn a_flipped_bit_is_noticed(bit in 0usize..(RECORDS + 20) * 64) {
            let (mut words, mut writer) = memory(Contents::Map { extents: 20 });
            for extent in 0..20 {
                writer.store(Record::Entry { extent, entry: MapEntry::new(Some(Place(extent)), true, false) }, &mut words);
            }
            writer.store(Record::Gone { devices: 1 }, &mut words);
            writer.store(Record::Suspended { is: false }, &mut words);
            let sound = Found::decode(&words, VolumeId(9)).expect("it is whole");
            words[bit / 64] ^= 1 << (bit % 64);
            match Found::decode(&words, VolumeId(9)) {
                Err(_) => {}
                // Where nothing is, nothing is changed.
                Ok(found) => prop_assert_eq!(found, sound),
            }
        }
    }

    #[test]
    fn another_volume_and_another_generation_find_nothing() {
        let (mut words, mut writer) = memory(Contents::Map { extents: 4 });
        assert_eq!(Found::decode(&words, VolumeId(8)), Err(Unfit::Foreign));
        assert_eq!(Found::decode(&words[..100], VolumeId(9)), Err(Unfit::Foreign));
        assert_eq!(Found::decode(&words[..RECORDS], VolumeId(9)), Err(Unfit::Damaged));
        let other = Label { generation: 5, ..Found::decode(&words, VolumeId(9)).expect("whole").label };
        Writer::new(&other).store(Record::Entry { extent: 1, entry: MapEntry::default() }, &mut words);
        assert_eq!(Found::decode(&words, VolumeId(9)), Err(Unfit::Damaged));
        writer.store(Record::Suspended { is: true }, &mut words);
        assert_eq!(Found::decode(&words, VolumeId(9)), Err(Unfit::Incomplete));
        writer.store(Record::Suspended { is: false }, &mut words);
        writer.store(Record::Doubted { is: true }, &mut words);
        assert_eq!(Found::decode(&words, VolumeId(9)), Err(Unfit::Doubted));
    }
}

//! Records that a server keeps in shared memory. If its process dies while the machine runs on, the next server reads them,
//! and so loses nothing that was answered.
//!
//! A server writes the journal of a map, or the ring of a log, when a flush requires it, and otherwise every few seconds.
//! Until then the newest metadata are only in the memory of the process. When the process dies, the devices still have
//! the data that were written to them, but not the metadata that say where these data are. The records here do.
//!
//! The memory is an array of words of eight bytes, each of which is stored atomically. It begins with a sealed block, the
//! [`Label`], which identifies the volume. After the label:
//!
//! * for a map, there is one word for each extent: its entry, if that has changed since the volume was opened. A word is
//!   the state of an extent, not a change of it, so a later word replaces an earlier one, and the array never fills up;
//!   If the fast device may have a part of an extent, there is a word for each of its places as well, which follow: its masks.
//!   They are stored before an entry names the place;
//! * for a log, there is a ring of the records that the next commits will contain.
//!
//! Each record has a checksum of its own, which includes the volume's identity and the generation. A process that dies
//! while it stores a record leaves the record incomplete. No answer depends on such a record.
//!
//! `docs/format.md` of the repository draws every word.

use thiserror::Error;

use crate::{
    block::{BLOCK, BLOCK_LEN, Kind, MOST_NUMBERS, get_u32, get_u64, is_sealed, put_u32, put_u64, seal},
    blocks::Masks,
    entry::MapEntry,
    geometry,
    log::ring::{CommitRecord, RECORD_WORDS},
    mutation::{self, Mutation},
    superblock::VolumeId,
};

/// The most devices that a volume has.
pub const MOST_DEVICES: usize = geometry::MOST_DEVICES;
/// The version of this format.
const VERSION: u32 = 1;
/// The number of words of the label.
const LABEL: usize = BLOCK_LEN / 8;
/// The index of the word that says which devices are fenced.
const GONE: usize = LABEL;
/// The index of the word that says whether records are missing.
const SUSPENDED: usize = LABEL + 1;
/// The index of the word that says whether a device may have lost data that were written to it.
const DOUBTED: usize = LABEL + 2;
/// The index of the number of the last durable commit of a map, or record of a log. It has two copies that are written in turn, so that
/// one is always whole.
const SETTLED: usize = LABEL + 4;
/// The index of the sequence before which all appends of a log are complete, with two copies as well.
const COMPLETE: usize = LABEL + 8;
/// The index of the first word of the records.
const RECORDS: usize = LABEL + 16;
/// The number of words of a log's record: its number, its content, and their checksum.
const LOG_RECORD: usize = RECORD_WORDS + 2;
/// The most records that a log keeps in memory, whatever its size.
pub const MOST_LOG_RECORDS: u64 = 1 << 18;
/// The most extents of a map. Places are numbered with 30 bits.
const MOST_EXTENTS: u64 = 1 << 30;

/// Where the label has the number of places.
const PLACES_AT: usize = 48 + 8 * MOST_DEVICES;

/// What the records describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A map, and the masks of the places of the fast device.
    Map {
        /// The number of extents.
        extents: u64,
        /// The number of places that have masks; 0 if extents are there as a whole.
        places: u64,
    },
    /// A log.
    Log {
        /// The number of records that the memory has room for.
        records: u64,
    },
}

impl Contents {
    /// The number of words of the whole memory: the label, the other fields and the records.
    pub fn words(self) -> u64 {
        RECORDS as u64
            + match self {
                Contents::Map { extents, places } => extents + places,
                Contents::Log { records } => records * LOG_RECORD as u64,
            }
    }

    /// The same in bytes, rounded up to a whole number of blocks.
    pub fn bytes(self) -> u64 {
        (self.words() * 8).next_multiple_of(BLOCK)
    }
}

/// Which volume the records belong to, and when they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The volume.
    pub volume: VolumeId,
    /// The generation of the volume in which they were made.
    pub generation: u64,
    /// The identity of the start of the machine. Another start means that the devices' caches may have been lost.
    pub boot: u128,
    /// A digest of the identity of each device. It changes if a device is taken out and put back, because the device may
    /// then have lost its cache.
    pub devices: [u64; MOST_DEVICES],
    /// What the records describe.
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
        let (kind, count, places) = match self.contents {
            Contents::Map { extents, places } => (1, extents, places),
            Contents::Log { records } => (2, records, 0),
        };
        put_u32(block, 8, VERSION);
        put_u32(block, 12, kind);
        put_u64(block, PLACES_AT, places);
        put_u64(block, 16, self.generation);
        block[24..40].copy_from_slice(&self.boot.to_le_bytes());
        put_u64(block, 40, count);
        for (index, device) in self.devices.iter().enumerate() {
            put_u64(block, 48 + index * 8, *device);
        }
        seal(block, Kind::Takeover, self.volume);
    }

    /// Decodes a label; `None` if the block is not a valid label of this volume, or has impossible values.
    pub fn decode(block: &[u8], volume: VolumeId) -> Option<Label> {
        if !is_sealed(block, Kind::Takeover, volume) || get_u32(block, 8) != VERSION {
            return None;
        }
        let (count, places) = (get_u64(block, 40), get_u64(block, PLACES_AT));
        let contents = match get_u32(block, 12) {
            1 if count.max(places) <= MOST_EXTENTS => Contents::Map { extents: count, places },
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

/// A record for the next server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The map entry of an extent from now on.
    Entry {
        /// The extent.
        extent: u32,
        /// Its entry.
        entry: MapEntry,
    },
    /// The masks of a place of the fast device from now on.
    Masks {
        /// The place.
        place: u32,
        /// Its masks.
        masks: Masks,
    },
    /// A record of a log's next commit.
    Log {
        /// Its number: records are numbered from 1, without gaps.
        number: u64,
        /// Its content.
        record: CommitRecord,
    },
    /// The commits of a map, or the records of a log, up to this one are durable.
    Settled {
        /// The number of the last durable one.
        upto: u64,
    },
    /// All appends of a log before this sequence are on its device, or a record says that they are absent.
    Complete {
        /// The sequence.
        before: u64,
    },
    /// These devices are fenced, though the superblocks of the others may not say so yet.
    Gone {
        /// The devices, one bit each.
        devices: u32,
    },
    /// Whether records are missing from now on, because there was no room for them.
    Suspended {
        /// Whether records are missing.
        is: bool,
    },
    /// Whether a device may have lost data whose write it had answered, because it failed a flush.
    Doubted {
        /// Whether a device may have lost such data.
        is: bool,
    },
}

/// Memory in which words are stored, each atomically and in the order of the calls.
pub trait Words {
    /// Stores a word.
    fn store(&mut self, index: usize, word: u64);
}

impl Words for Vec<u64> {
    fn store(&mut self, index: usize, word: u64) {
        self[index] = word;
    }
}

/// The checksum of volume and generation, from which the checksum of each record continues.
fn key(volume: VolumeId, generation: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&volume.0.to_le_bytes()), &generation.to_le_bytes())
}

/// The checksum of a record. It is never zero, because a word of zeros means that there is no record.
fn checksum(key: u32, index: usize, words: &[u64]) -> u64 {
    let sum = crc32c::crc32c_append(key, &(index as u64).to_le_bytes());
    let sum = words.iter().fold(sum, |sum, word| crc32c::crc32c_append(sum, &word.to_le_bytes()));
    u64::from(sum.max(1))
}

/// A word of 32 bits of content and their checksum.
fn sealed(key: u32, index: usize, half: u32) -> u64 {
    u64::from(half) | checksum(key, index, &[u64::from(half)]) << 32
}

/// The content of such a word; `None` if nothing was stored there, an error if the checksum is wrong.
fn unsealed(key: u32, words: &[u64], index: usize) -> Result<Option<u32>, Unfit> {
    let word = words.get(index).copied().ok_or(Unfit::Damaged)?;
    let half = word as u32;
    match word {
        0 => Ok(None),
        _ if word == sealed(key, index, half) || mutation::is(Mutation::TrustChecksums) => Ok(Some(half)),
        _ => Err(Unfit::Damaged),
    }
}

/// Stores records in memory that begins with their label.
#[derive(Clone, Debug)]
pub struct Writer {
    key: u32,
    contents: Contents,
    /// For each number with two copies, which copy is written next.
    turns: [usize; 2],
}

impl Writer {
    /// A writer for memory that holds this label and otherwise zeros.
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
            Record::Masks { place, masks } => {
                let Contents::Map { extents, .. } = self.contents else { return };
                let index = RECORDS + extents as usize + place as usize;
                into.store(index, sealed(key, index, masks.word()));
            }
            Record::Log { number, record } => {
                let Contents::Log { records } = self.contents else { return };
                let index = RECORDS + (number % records) as usize * LOG_RECORD;
                let [a, b, c] = record.words();
                let words = [number, a, b, c];
                // The record that was here is durable, so it is not needed. With a checksum of zero it counts as absent.
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

/// Why the next server cannot use the records.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Unfit {
    /// They belong to another volume.
    #[error("they are not of this volume")]
    Foreign,
    /// A record is damaged.
    #[error("they are damaged")]
    Damaged,
    /// There was no room for some of them.
    #[error("there was no room for all of them")]
    Incomplete,
    /// A device had failed a flush.
    #[error("a device had failed a flush, and may have lost what was written to it")]
    Doubted,
}

/// The records of a server that died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Their label.
    pub label: Label,
    /// Entries that have changed since the volume was opened, in the order of extents.
    pub entries: Vec<(u32, MapEntry)>,
    /// Masks that have changed since then, in the order of places.
    pub masks: Vec<(u32, Masks)>,
    /// The records that the log's next commits would have contained, in order.
    pub records: Vec<CommitRecord>,
    /// The number of the last commit of a map, or record of a log, that is durable; 0 if none is. Devices without it are older than the
    /// records.
    pub settled: u64,
    /// All appends before this sequence are on the log's device, or absent by a record; 0 if that is not known.
    pub complete: u64,
    /// Devices that were fenced, one bit each.
    pub gone: u32,
}

impl Found {
    /// Decodes the whole memory.
    ///
    /// # Errors
    ///
    /// The next server cannot use the records.
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
        let settled = number(key, words, SETTLED).unwrap_or(0);
        let mut found =
            Found { label, entries: Vec::new(), masks: Vec::new(), records: Vec::new(), settled, complete: 0, gone };
        match label.contents {
            Contents::Map { extents, places } => {
                for extent in 0..extents as u32 {
                    if let Some(word) = unsealed(key, words, RECORDS + extent as usize)? {
                        found.entries.push((extent, MapEntry::from_word(word)));
                    }
                }
                for place in 0..places as u32 {
                    if let Some(word) = unsealed(key, words, RECORDS + extents as usize + place as usize)? {
                        found.masks.push((place, Masks::from_word(word)));
                    }
                }
            }
            Contents::Log { records } => {
                found.complete = number(key, words, COMPLETE).unwrap_or(0);
                found.records = log_records(key, words, (records, settled))?;
            }
        }
        Ok(found)
    }
}

/// The higher of those of the two copies of a number that are valid.
fn number(key: u32, words: &[u64], at: usize) -> Option<u64> {
    let copies = [at, at + 2].into_iter().filter(|index| words[index + 1] == checksum(key, *index, &[words[*index]]));
    copies.map(|index| words[index]).max()
}

fn log_records(key: u32, words: &[u64], (records, settled): (u64, u64)) -> Result<Vec<CommitRecord>, Unfit> {
    let mut found: Vec<(u64, CommitRecord)> = Vec::new();
    let mut incomplete = 0;
    for slot in 0..records {
        let index = RECORDS + slot as usize * LOG_RECORD;
        let [number, a, b, c, sum] = [0, 1, 2, 3, 4].map(|within| words[index + within]);
        if sum == 0 {
            // No record, or one that was being stored when the process died.
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
    // The numbers have no gap, and at most one record was being stored.
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
            let (mut words, mut writer) = memory(Contents::Map { extents: 50, places: 0 });
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
                // The engine keeps no more records than there is room for.
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
            let (mut words, mut writer) = memory(Contents::Map { extents: 20, places: 0 });
            for extent in 0..20 {
                writer.store(Record::Entry { extent, entry: MapEntry::new(Some(Place(extent)), true, false) }, &mut words);
            }
            writer.store(Record::Gone { devices: 1 }, &mut words);
            writer.store(Record::Suspended { is: false }, &mut words);
            let sound = Found::decode(&words, VolumeId(9)).expect("it is whole");
            words[bit / 64] ^= 1 << (bit % 64);
            match Found::decode(&words, VolumeId(9)) {
                Err(_) => {}
                // The bit was in a part that is not used.
                Ok(found) => prop_assert_eq!(found, sound),
            }
        }
    }

    #[test]
    fn masks_are_found_beside_the_entries() {
        let (mut words, mut writer) = memory(Contents::Map { extents: 6, places: 3 });
        let entry = MapEntry::new(Some(Place(2)), true, false);
        writer.store(Record::Masks { place: 2, masks: Masks::new(7, 4) }, &mut words);
        writer.store(Record::Entry { extent: 5, entry }, &mut words);
        writer.store(Record::Masks { place: 2, masks: Masks::new(15, 4) }, &mut words);
        let found = Found::decode(&words, VolumeId(9)).expect("it is whole");
        assert_eq!((found.entries, found.masks), (vec![(5, entry)], vec![(2, Masks::new(15, 4))]));
        assert_eq!(found.label.contents, Contents::Map { extents: 6, places: 3 });
    }

    #[test]
    fn another_volume_and_another_generation_find_nothing() {
        let (mut words, mut writer) = memory(Contents::Map { extents: 4, places: 0 });
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

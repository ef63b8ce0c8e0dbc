//! Commits in the ring on the log device: what the log's own headers do not say.
//!
//! A commit is one or more blocks, each sealed, all or nothing. It names the commit before it and the first one that is
//! still needed, so that the newest whole commit tells which others must be there. It holds the state of every segment
//! and the records that came since the commit before, or all that are needed.

use std::collections::BTreeMap;

use peryton_units::Bytes;

use crate::{
    command::DeviceId,
    metadata::{
        VolumeId,
        block::{BLOCK, BLOCK_LEN, Kind, MOST_NUMBERS, get_u32, get_u64, is_sealed, put_u32, put_u64, seal},
    },
    storage::Storage,
};

const FIELDS: usize = 96;
pub(super) const WORDS_PER_BLOCK: usize = (BLOCK_LEN - FIELDS) / 8;
pub(super) const RECORD_WORDS: usize = 3;
/// Set in a segment's word if it is free.
const FREE: u64 = 1 << 63;
/// A record's first word: what it is, above what it begins with.
const KIND_SHIFT: u32 = 56;
const LOW: u64 = (1 << KIND_SHIFT) - 1;
const PLACE_BITS: u32 = 40;
/// The ring is read in pieces of this size.
const PIECE: u64 = 1 << 20;

/// What a segment is, as of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Nothing in it counts but what was opened with this sequence or a later one.
    Free { before: u64 },
    /// It was opened with this sequence.
    InUse { opened: u64 },
}

/// What the headers in the log do not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The primary has newer data for the range than any append before this sequence.
    Void { offset: u64, len: u64, before: u64 },
    /// The appends from `from` up to but without `to` do not count. The one after them is at `next_at`, unless it
    /// opened a segment.
    Absent { from: u64, to: u64, next_at: u64 },
    /// Of the segment only the `count` pieces that follow count, newer than any append before `as_of`.
    Listed { segment: u32, count: u32, opened: u64, as_of: u64 },
    /// One of them.
    Left { offset: u64, at: u64, len: u64 },
}

impl Record {
    fn words(self) -> [u64; RECORD_WORDS] {
        let first = |kind: u64, low: u64| kind << KIND_SHIFT | low & LOW;
        match self {
            Record::Void { offset, len, before } => [first(1, offset), len, before],
            Record::Absent { from, to, next_at } => [first(2, next_at), from, to],
            Record::Listed { segment, count, opened, as_of } => {
                [first(3, u64::from(segment) << 32 | u64::from(count)), opened, as_of]
            }
            Record::Left { offset, at, len } => [first(4, offset), at | len << PLACE_BITS, 0],
        }
    }

    fn from_words([first, a, b]: [u64; RECORD_WORDS]) -> Option<Record> {
        let low = first & LOW;
        Some(match first >> KIND_SHIFT {
            1 => Record::Void { offset: low, len: a, before: b },
            // All ones mean nowhere, in any width.
            2 => Record::Absent { from: a, to: b, next_at: if low == LOW { u64::MAX } else { low } },
            3 => Record::Listed { segment: (low >> 32) as u32, count: low as u32, opened: a, as_of: b },
            4 => Record::Left { offset: low, at: a & ((1 << PLACE_BITS) - 1), len: a >> PLACE_BITS },
            _ => return None,
        })
    }
}

/// What each block of a commit begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) number: u64,
    /// How often it was tried before.
    pub(super) attempt: u32,
    /// The number of the commit before.
    pub(super) previous: u64,
    /// Commits before this one count no longer.
    pub(super) first_needed: u64,
    /// The sequence of the next append.
    pub(super) next_sequence: u64,
    /// All appends below were durable, or recorded as absent.
    pub(super) flushed: u64,
    /// Where the newest index is.
    pub(super) index: u64,
    pub(super) segments: u32,
    pub(super) records: u32,
}

impl Head {
    fn words(&self) -> usize {
        self.segments as usize + self.records as usize * RECORD_WORDS
    }

    pub(super) fn bytes(&self) -> u64 {
        commit_bytes(self.segments as usize, self.records as usize)
    }
}

/// How long a commit is.
pub(super) fn commit_bytes(segments: usize, records: usize) -> u64 {
    ((segments + records * RECORD_WORDS).div_ceil(WORDS_PER_BLOCK) as u64) * BLOCK
}

/// Encodes blocks of a commit from block `first` on; `into` is whole blocks.
pub(super) fn encode(
    head: &Head,
    segments: impl Iterator<Item = Held>,
    records: impl Iterator<Item = Record>,
    first: u64,
    volume: VolumeId,
    into: &mut [u8],
) {
    let state = |held| match held {
        Held::Free { before } => before | FREE,
        Held::InUse { opened } => opened,
    };
    let mut words = segments.map(state).chain(records.flat_map(Record::words)).skip(first as usize * WORDS_PER_BLOCK);
    for (block, index) in into.chunks_exact_mut(BLOCK_LEN).zip(first..) {
        block.fill(0);
        put_u64(block, 8, head.number);
        put_u32(block, 16, index as u32);
        put_u32(block, 20, head.attempt);
        put_u64(block, 24, head.previous);
        put_u64(block, 32, head.first_needed);
        put_u64(block, 40, head.next_sequence);
        put_u64(block, 48, head.flushed);
        put_u64(block, 56, head.index);
        put_u32(block, 64, head.segments);
        put_u32(block, 68, head.records);
        for (slot, word) in words.by_ref().take(WORDS_PER_BLOCK).enumerate() {
            put_u64(block, FIELDS + slot * 8, word);
        }
        seal(block, Kind::LogCommit, volume);
    }
}

/// What a block of a commit says of the whole, and which block it is.
fn head(block: &[u8], volume: VolumeId) -> Option<(Head, u32)> {
    let number = get_u64(block, 8);
    (is_sealed(block, Kind::LogCommit, volume) && number < MOST_NUMBERS).then(|| {
        let head = Head {
            number,
            attempt: get_u32(block, 20),
            previous: get_u64(block, 24),
            first_needed: get_u64(block, 32),
            next_sequence: get_u64(block, 40),
            flushed: get_u64(block, 48),
            index: get_u64(block, 56),
            segments: get_u32(block, 64),
            records: get_u32(block, 68),
        };
        (head, get_u32(block, 16))
    })
}

/// A commit found in the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) head: Head,
    /// Where in the ring it begins.
    pub(super) at: u64,
    pub(super) segments: Vec<Held>,
    pub(super) records: Vec<Record>,
}

/// The whole commits in a ring, and where they are.
pub(super) struct Ring<'a> {
    storage: &'a mut dyn Storage,
    device: DeviceId,
    at: Bytes,
    bytes: u64,
    volume: VolumeId,
    /// By number and attempt: where its blocks begin.
    whole: BTreeMap<(u64, u32), (Head, u64)>,
    /// The highest number of any block that is whole.
    pub(super) newest: u64,
    /// The highest number that any of them names as the one before.
    pub(super) newest_previous: u64,
    /// Blocks that hold something of ours, but not what was written.
    pub(super) damaged: u64,
}

impl<'a> Ring<'a> {
    /// Looks at every block of the ring. What the device cannot read counts as invalid.
    pub(super) fn scan(
        storage: &'a mut dyn Storage,
        device: DeviceId,
        (at, bytes): (Bytes, u64),
        volume: VolumeId,
    ) -> Ring<'a> {
        let mut ring = Ring {
            storage,
            device,
            at,
            bytes,
            volume,
            whole: BTreeMap::new(),
            newest: 0,
            newest_previous: 0,
            damaged: 0,
        };
        // Blocks of one commit follow each other, around the end of the ring if need be.
        let mut heads: Vec<Option<(Head, u32)>> = Vec::with_capacity((bytes / BLOCK) as usize);
        let mut piece = vec![0; PIECE.min(bytes) as usize];
        for from in (0..bytes).step_by(PIECE as usize) {
            let piece = &mut piece[..PIECE.min(bytes - from) as usize];
            let read = ring.storage.read(device, at + Bytes(from), piece).is_ok();
            for (block, within) in piece.chunks_exact_mut(BLOCK_LEN).zip((from..).step_by(BLOCK_LEN)) {
                let read = read || ring.storage.read(device, at + Bytes(within), block).is_ok();
                let found = if read { head(block, volume) } else { None };
                let ours = crate::metadata::block::has_kind(block, Kind::LogCommit);
                ring.damaged += u64::from(read && ours && found.is_none());
                heads.push(found);
            }
        }
        ring.newest = heads.iter().flatten().map(|(head, _)| head.number).max().unwrap_or(0);
        ring.newest_previous = heads.iter().flatten().map(|(head, _)| head.previous).max().unwrap_or(0);
        for (block, found) in heads.iter().enumerate() {
            let Some((head, 0)) = found else { continue };
            let count = head.words().div_ceil(WORDS_PER_BLOCK);
            let same = |index: usize| heads[(block + index) % heads.len()] == Some((*head, index as u32));
            if count <= heads.len() && (1..count).all(same) {
                ring.whole.insert((head.number, head.attempt), (*head, block as u64 * BLOCK));
            }
        }
        ring
    }

    /// The highest number of a whole commit.
    pub(super) fn newest_whole(&self) -> Option<u64> {
        self.whole.last_key_value().map(|((number, _), _)| *number)
    }

    /// The last attempt of a commit.
    pub(super) fn find(&mut self, number: u64) -> Option<Found> {
        let (_, (head, at)) = self.whole.range((number, 0)..=(number, u32::MAX)).next_back()?;
        let (head, at) = (*head, *at);
        let mut words = Vec::with_capacity(head.words());
        let mut block = [0; BLOCK_LEN];
        for index in 0..head.bytes() / BLOCK {
            let place = self.at + Bytes((at + index * BLOCK) % self.bytes);
            self.storage.read(self.device, place, &mut block).ok()?;
            if !is_sealed(&block, Kind::LogCommit, self.volume) {
                return None;
            }
            let rest = (head.words() - words.len()).min(WORDS_PER_BLOCK);
            words.extend((0..rest).map(|slot| get_u64(&block, FIELDS + slot * 8)));
        }
        let (segments, records) = words.split_at(head.segments as usize);
        let held = |word: &u64| match word & FREE {
            0 => Held::InUse { opened: *word },
            _ => Held::Free { before: word & !FREE },
        };
        let record = |words: &[u64]| Record::from_words([words[0], words[1], words[2]]);
        let records = records.chunks_exact(RECORD_WORDS).map(record).collect::<Option<Vec<_>>>()?;
        Some(Found { head, at, segments: segments.iter().map(held).collect(), records })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::DeviceError;

    const VOLUME: VolumeId = VolumeId(5);
    const RING: u64 = 64 << 10;

    struct Memory(Vec<u8>);

    impl Storage for Memory {
        fn size(&self, _: DeviceId) -> Option<Bytes> {
            Some(Bytes(self.0.len() as u64))
        }
        fn read(&mut self, _: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
            into.copy_from_slice(&self.0[at.0 as usize..][..into.len()]);
            Ok(())
        }
        fn write(&mut self, _: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
            self.0[at.0 as usize..][..from.len()].copy_from_slice(from);
            Ok(())
        }
        fn flush(&mut self, _: DeviceId) -> Result<(), DeviceError> {
            Ok(())
        }
    }

    fn scan(memory: &mut Memory) -> Ring<'_> {
        Ring::scan(memory, DeviceId(0), (Bytes(0), RING), VOLUME)
    }

    fn put(memory: &mut Memory, at: u64, found: &Found) {
        let mut bytes = vec![0; found.head.bytes() as usize];
        let (segments, records) = (found.segments.iter().copied(), found.records.iter().copied());
        encode(&found.head, segments, records, 0, VOLUME, &mut bytes);
        for (block, index) in bytes.chunks(BLOCK_LEN).zip(0..) {
            let place = (at + index * BLOCK) % RING;
            memory.write(DeviceId(0), Bytes(place), block).unwrap();
        }
    }

    fn commit(number: u64, attempt: u32, records: usize, at: u64) -> Found {
        let samples = [
            Record::Void { offset: 1 << 50, len: 1 << 60, before: u64::MAX },
            Record::Absent { from: 1, to: 9, next_at: u64::MAX },
            Record::Absent { from: 1, to: 9, next_at: 1 << 39 },
            Record::Listed { segment: 1022, count: u32::MAX, opened: 4, as_of: 5 },
            Record::Left { offset: 1 << 50, at: (1 << 40) - 512, len: 1 << 18 },
        ];
        let segments = vec![Held::Free { before: 77 }, Held::InUse { opened: 1 << 62 }];
        let records: Vec<Record> = samples.into_iter().cycle().take(records).collect();
        let head = Head {
            number,
            attempt,
            previous: number - 1,
            first_needed: 1,
            next_sequence: 78,
            flushed: 70,
            index: u64::MAX,
            segments: 2,
            records: records.len() as u32,
        };
        Found { head, at, segments, records }
    }

    #[test]
    fn a_forged_number_without_a_next_is_none() {
        let mut memory = Memory(vec![0; RING as usize]);
        let (sound, forged) = (commit(6, 0, 3, 20480), commit(u64::MAX, 0, 3, 0));
        put(&mut memory, sound.at, &sound);
        put(&mut memory, forged.at, &forged);
        assert_eq!(scan(&mut memory).newest_whole(), Some(6));
    }

    #[test]
    fn commits_come_back_wherever_they_begin() {
        let mut memory = Memory(vec![0; RING as usize]);
        let (first, second) = (commit(6, 0, 3, 20480), commit(7, 0, 700, RING - 8192));
        put(&mut memory, first.at, &first);
        put(&mut memory, second.at, &second);
        let mut ring = scan(&mut memory);
        assert_eq!((ring.newest_whole(), ring.newest), (Some(7), 7));
        assert_eq!(ring.find(6), Some(first));
        assert_eq!(ring.find(7), Some(second));
        assert_eq!(ring.find(8), None);
    }

    #[test]
    fn a_torn_commit_is_none_and_an_earlier_attempt_of_it_counts() {
        let mut memory = Memory(vec![0; RING as usize]);
        let (old, new) = (commit(6, 0, 3, 0), commit(6, 1, 700, 8192));
        put(&mut memory, old.at, &old);
        put(&mut memory, new.at, &new);
        assert_eq!(scan(&mut memory).find(6), Some(new));
        memory.0[8192 + 2 * 4096 + 100] ^= 1;
        let mut ring = scan(&mut memory);
        assert_eq!((ring.find(6), ring.damaged), (Some(old), 1));
    }

    proptest! {
        #[test]
        fn no_ring_whatever_it_holds_breaks_the_reader(
            seed in proptest::collection::vec((0..16u64, any::<u8>(), 0..80usize, any::<u64>()), 1..40)
        ) {
            let mut memory = Memory(vec![0; RING as usize]);
            for (block, index, field, value) in seed {
                let bytes = &mut memory.0[(block * BLOCK) as usize..][..BLOCK_LEN];
                put_u32(bytes, 16, u32::from(index % 3));
                put_u64(bytes, 8 + field / 8 * 8, value >> (value % 64));
                seal(bytes, Kind::LogCommit, VOLUME);
            }
            let mut ring = scan(&mut memory);
            for number in ring.whole.keys().map(|key| key.0).collect::<Vec<_>>() {
                let _ = ring.find(number);
            }
        }
    }
}

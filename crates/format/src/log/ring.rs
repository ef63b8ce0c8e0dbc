//! Commits in the ring on the log device. They record changes that no header of the log has.
//!
//! A commit is one or more blocks, each with a checksum; it is valid only if all of them are. It names the commit
//! before it and the first one that is still needed, so the newest valid commit says which others must exist. It holds
//! the state of every segment, and either the records since the commit before or all that are needed.

use std::collections::BTreeMap;

use peryton_units::Bytes;

use super::PLACE_BITS;
use crate::{
    block::{BLOCK, BLOCK_LEN, Kind, MOST_NUMBERS, get_u32, get_u64, has_kind, is_sealed, put_u32, put_u64, seal},
    storage::{DeviceId, Storage, read_blocks},
    superblock::VolumeId,
};

const FIELDS: usize = 96;
/// Number of 8-byte words in a block of a commit: one for each segment, then those of the records.
pub const WORDS_PER_BLOCK: usize = (BLOCK_LEN - FIELDS) / 8;
/// Number of words of a record.
pub const RECORD_WORDS: usize = 3;
/// Set in the word of a free segment.
const FREE: u64 = 1 << 63;
/// The shift of a record's kind in its first word.
const KIND_SHIFT: u32 = 56;
const LOW: u64 = (1 << KIND_SHIFT) - 1;

/// The state of a segment according to a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentUse {
    /// The segment is free: its content is valid only if it was opened with sequence `before` or a later one.
    Free {
        /// The sequence.
        before: u64,
    },
    /// The segment is in use.
    InUse {
        /// The sequence of the append that opened it.
        opened: u64,
    },
}

/// A record of a commit, besides the state of the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitRecord {
    /// The primary has newer data for a range than every append before sequence `before`.
    Void {
        /// Offset of the range on the volume.
        offset: u64,
        /// Length of the range in bytes.
        len: u64,
        /// The sequence.
        before: u64,
    },
    /// The appends from sequence `from` up to but not including `to` are absent.
    Absent {
        /// The first absent sequence.
        from: u64,
        /// The sequence after the last absent one.
        to: u64,
        /// Place of append `to` in the log, unless it opened a segment.
        next_at: u64,
    },
    /// Of this segment, only the pieces in the [`CommitRecord::Left`] records that follow are needed.
    Listed {
        /// The segment.
        segment: u32,
        /// Number of pieces that follow.
        count: u32,
        /// The sequence that opened the segment.
        opened: u64,
        /// The pieces are newer than every append before this sequence.
        as_of: u64,
    },
    /// One piece of a listed segment.
    Left {
        /// Offset of the piece on the volume.
        offset: u64,
        /// Place of its data in the log.
        at: u64,
        /// Length of the piece in bytes.
        len: u64,
    },
}

impl CommitRecord {
    pub(crate) fn words(self) -> [u64; RECORD_WORDS] {
        let first = |kind: u64, low: u64| kind << KIND_SHIFT | low & LOW;
        match self {
            CommitRecord::Void { offset, len, before } => [first(1, offset), len, before],
            CommitRecord::Absent { from, to, next_at } => [first(2, next_at), from, to],
            CommitRecord::Listed { segment, count, opened, as_of } => {
                [first(3, u64::from(segment) << 32 | u64::from(count)), opened, as_of]
            }
            CommitRecord::Left { offset, at, len } => [first(4, offset), at | len << PLACE_BITS, 0],
        }
    }

    /// Joins the next record to this one, if it continues this one's range and is otherwise equal; returns whether it did.
    pub fn join(&mut self, next: CommitRecord) -> bool {
        match (self, next) {
            (
                CommitRecord::Void { offset, len, before },
                CommitRecord::Void { offset: next, len: more, before: same },
            ) if *before == same && offset.checked_add(*len) == Some(next) && len.checked_add(more).is_some() => {
                *len += more;
                true
            }
            (CommitRecord::Absent { to, next_at, .. }, CommitRecord::Absent { from, to: end, next_at: at })
                if *to == from =>
            {
                (*to, *next_at) = (end, at);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn from_words([first, a, b]: [u64; RECORD_WORDS]) -> Option<CommitRecord> {
        let low = first & LOW;
        Some(match first >> KIND_SHIFT {
            1 => CommitRecord::Void { offset: low, len: a, before: b },
            // All ones stand for no place, in any width.
            2 => CommitRecord::Absent { from: a, to: b, next_at: if low == LOW { u64::MAX } else { low } },
            3 => CommitRecord::Listed { segment: (low >> 32) as u32, count: low as u32, opened: a, as_of: b },
            4 => CommitRecord::Left { offset: low, at: a & ((1 << PLACE_BITS) - 1), len: a >> PLACE_BITS },
            _ => return None,
        })
    }
}

/// The beginning of each block of a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitHead {
    /// The number of the commit, in the order in which commits are written.
    pub number: u64,
    /// How often the commit was tried before.
    pub attempt: u32,
    /// The number of the commit before.
    pub previous: u64,
    /// The number of the first commit that is still needed.
    pub first_needed: u64,
    /// The sequence of the next append.
    pub next_sequence: u64,
    /// Every append with a lower sequence was durable, or is recorded as absent.
    pub flushed: u64,
    /// Place of the newest index.
    pub index: u64,
    /// Number of segments.
    pub segments: u32,
    /// Number of records of the commit.
    pub records: u32,
}

impl CommitHead {
    fn words(&self) -> usize {
        self.segments as usize + self.records as usize * RECORD_WORDS
    }

    /// Length of the commit in bytes.
    pub fn bytes(&self) -> u64 {
        commit_bytes(self.segments as usize, self.records as usize)
    }
}

/// Length in bytes of a commit with this many segments and records.
pub fn commit_bytes(segments: usize, records: usize) -> u64 {
    ((segments + records * RECORD_WORDS).div_ceil(WORDS_PER_BLOCK) as u64) * BLOCK
}

/// Encodes the blocks of a commit from block `first` on. `segments` and `records` are those of the whole commit; `into`
/// is a whole number of blocks.
pub fn encode(
    head: &CommitHead,
    segments: impl Iterator<Item = SegmentUse>,
    records: impl Iterator<Item = CommitRecord>,
    first: u64,
    volume: VolumeId,
    into: &mut [u8],
) {
    let state = |held| match held {
        SegmentUse::Free { before } => before | FREE,
        SegmentUse::InUse { opened } => opened,
    };
    let mut words =
        segments.map(state).chain(records.flat_map(CommitRecord::words)).skip(first as usize * WORDS_PER_BLOCK);
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

/// Decodes the head of a block, and the block's index in the commit.
fn head(block: &[u8], volume: VolumeId) -> Option<(CommitHead, u32)> {
    let number = get_u64(block, 8);
    (is_sealed(block, Kind::LogCommit, volume) && number < MOST_NUMBERS).then(|| {
        let head = CommitHead {
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
pub struct FoundLogCommit {
    /// The head of its blocks.
    pub head: CommitHead,
    /// Place in the ring.
    pub at: u64,
    /// The state of each segment.
    pub segments: Vec<SegmentUse>,
    /// Its records.
    pub records: Vec<CommitRecord>,
}

/// The complete commits in a ring, and their places.
pub struct LogRing<'a> {
    storage: &'a mut dyn Storage,
    device: DeviceId,
    at: Bytes,
    bytes: u64,
    volume: VolumeId,
    /// The head and the place of each complete commit, by number and attempt.
    whole: BTreeMap<(u64, u32), (CommitHead, u64)>,
    newest: u64,
    newest_previous: u64,
    damaged_blocks: u64,
}

impl<'a> LogRing<'a> {
    /// Reads every block of the ring, which begins at `at` on the device and is `bytes` long. Unreadable blocks count
    /// as absent.
    pub fn scan(
        storage: &'a mut dyn Storage,
        device: DeviceId,
        (at, bytes): (Bytes, u64),
        volume: VolumeId,
    ) -> LogRing<'a> {
        let mut ring = LogRing {
            storage,
            device,
            at,
            bytes,
            volume,
            whole: BTreeMap::new(),
            newest: 0,
            newest_previous: 0,
            damaged_blocks: 0,
        };
        // The blocks of a commit follow each other; they may continue at the start of the ring.
        let mut heads: Vec<Option<(CommitHead, u32)>> = Vec::with_capacity((bytes / BLOCK) as usize);
        read_blocks(ring.storage, device, at, bytes, |_, block| {
            let found = block.and_then(|block| head(block, volume));
            let ours = block.is_some_and(|block| has_kind(block, Kind::LogCommit));
            ring.damaged_blocks += u64::from(ours && found.is_none());
            heads.push(found);
        });
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

    /// The highest number of any valid block; 0 if there is none.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// The highest number that any valid block names as the commit before it.
    pub fn newest_previous(&self) -> u64 {
        self.newest_previous
    }

    /// Number of damaged blocks of the ring.
    pub fn damaged_blocks(&self) -> u64 {
        self.damaged_blocks
    }

    /// The highest number of a complete commit.
    pub fn newest_whole(&self) -> Option<u64> {
        self.whole.last_key_value().map(|((number, _), _)| *number)
    }

    /// The last complete attempt of a commit; `None` if there is none.
    pub fn find(&mut self, number: u64) -> Option<FoundLogCommit> {
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
            0 => SegmentUse::InUse { opened: *word },
            _ => SegmentUse::Free { before: word & !FREE },
        };
        let record = |words: &[u64]| CommitRecord::from_words([words[0], words[1], words[2]]);
        let records = records.chunks_exact(RECORD_WORDS).map(record).collect::<Option<Vec<_>>>()?;
        Some(FoundLogCommit { head, at, segments: segments.iter().map(held).collect(), records })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VOLUME: VolumeId = VolumeId(5);
    const RING: u64 = 64 << 10;

    type Memory = Vec<Vec<u8>>;

    fn scan(memory: &mut Memory) -> LogRing<'_> {
        LogRing::scan(memory, DeviceId(0), (Bytes(0), RING), VOLUME)
    }

    fn put(memory: &mut Memory, at: u64, found: &FoundLogCommit) {
        let mut bytes = vec![0; found.head.bytes() as usize];
        let (segments, records) = (found.segments.iter().copied(), found.records.iter().copied());
        encode(&found.head, segments, records, 0, VOLUME, &mut bytes);
        for (block, index) in bytes.chunks(BLOCK_LEN).zip(0..) {
            let place = (at + index * BLOCK) % RING;
            Storage::write(memory, DeviceId(0), Bytes(place), block).unwrap();
        }
    }

    fn commit(number: u64, attempt: u32, records: usize, at: u64) -> FoundLogCommit {
        let samples = [
            CommitRecord::Void { offset: 1 << 50, len: 1 << 60, before: u64::MAX },
            CommitRecord::Absent { from: 1, to: 9, next_at: u64::MAX },
            CommitRecord::Absent { from: 1, to: 9, next_at: 1 << 39 },
            CommitRecord::Listed { segment: 1022, count: u32::MAX, opened: 4, as_of: 5 },
            CommitRecord::Left { offset: 1 << 50, at: (1 << 40) - 512, len: 1 << 18 },
        ];
        let segments = vec![SegmentUse::Free { before: 77 }, SegmentUse::InUse { opened: 1 << 62 }];
        let records: Vec<CommitRecord> = samples.into_iter().cycle().take(records).collect();
        let head = CommitHead {
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
        FoundLogCommit { head, at, segments, records }
    }

    #[test]
    fn a_forged_number_without_a_next_is_none() {
        let mut memory = vec![vec![0; RING as usize]];
        let (sound, forged) = (commit(6, 0, 3, 20480), commit(u64::MAX, 0, 3, 0));
        put(&mut memory, sound.at, &sound);
        put(&mut memory, forged.at, &forged);
        assert_eq!(scan(&mut memory).newest_whole(), Some(6));
    }

    #[test]
    fn commits_are_read_wherever_they_begin() {
        let mut memory = vec![vec![0; RING as usize]];
        let (first, second) = (commit(6, 0, 3, 20480), commit(7, 0, 700, RING - 8192));
        put(&mut memory, first.at, &first);
        put(&mut memory, second.at, &second);
        let mut ring = scan(&mut memory);
        assert_eq!((ring.newest_whole(), ring.newest()), (Some(7), 7));
        assert_eq!(ring.find(6), Some(first));
        assert_eq!(ring.find(7), Some(second));
        assert_eq!(ring.find(8), None);
    }

    #[test]
    fn a_torn_commit_is_none_and_an_earlier_attempt_of_it_counts() {
        let mut memory = vec![vec![0; RING as usize]];
        let (old, new) = (commit(6, 0, 3, 0), commit(6, 1, 700, 8192));
        put(&mut memory, old.at, &old);
        put(&mut memory, new.at, &new);
        assert_eq!(scan(&mut memory).find(6), Some(new));
        memory[0][8192 + 2 * 4096 + 100] ^= 1;
        let mut ring = scan(&mut memory);
        assert_eq!((ring.find(6), ring.damaged_blocks()), (Some(old), 1));
    }

    proptest! {
        #[test]
        fn no_content_of_a_ring_breaks_the_reader(
            seed in proptest::collection::vec((0..16u64, any::<u8>(), 0..80usize, any::<u64>()), 1..40)
        ) {
            let mut memory = vec![vec![0; RING as usize]];
            for (block, index, field, value) in seed {
                let bytes = &mut memory[0][(block * BLOCK) as usize..][..BLOCK_LEN];
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

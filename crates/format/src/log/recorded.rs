//! The combined content of the commits in a log's ring: the state of the segments, and what the headers in them cannot
//! say.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{
    FIRST_SEQUENCE, MOST_SEQUENCE,
    layout::LogLayout,
    ring::{CommitRecord, FoundLogCommit, LogRing, SegmentUse},
};
use crate::{handoff::Found, storage::Storage, superblock::VolumeId};

/// The content of the commits that are still needed.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The newest complete commit.
    pub newest: FoundLogCommit,
    /// The records of the commits, oldest first.
    pub records: Vec<CommitRecord>,
    /// Number of needed commits.
    pub commits: u64,
    /// Bytes of the ring that they take.
    pub used: u64,
    /// The lowest number above those of all blocks in the ring.
    pub next_number: u64,
    /// The ranges for which the primary has newer data than the log, ordered by [`Void::before`].
    pub voids: Vec<Void>,
    /// The absent appends. The key is the first absent sequence; the value is the sequence after the last absent one, and
    /// the place of that append in the log. The ranges do not overlap.
    pub absents: BTreeMap<u64, (u64, u64)>,
    /// The segments that are needed for listed pieces only, by their number.
    pub listed: BTreeMap<u32, ListedSegment>,
    /// Number of damaged blocks in the ring.
    pub damaged_blocks: u64,
    /// All appends before this sequence were complete when the process died that wrote them; 0 if that is not known.
    pub complete: u64,
}

/// A range for which the primary has newer data than the log. Offset and length are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Void {
    /// Appends before this sequence are older.
    pub before: u64,
    /// Offset of the range on the volume.
    pub offset: u64,
    /// Length of the range.
    pub len: u64,
}

/// A segment that is needed for some pieces only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSegment {
    /// The sequence that opened the segment.
    pub opened: u64,
    /// The pieces are newer than every append before this sequence.
    pub as_of: u64,
    /// The pieces: offset on the volume, place in the log, and length, in bytes.
    pub left: Vec<(u64, u64, u64)>,
}

/// Why the commits cannot be used.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct NoCommits(pub &'static str);

const PART: NoCommits = NoCommits("part of its commits cannot be read");

impl Recorded {
    /// Reads the ring of a log with this layout.
    ///
    /// # Errors
    ///
    /// A needed commit cannot be read, or the newest one has impossible values.
    pub fn read(storage: &mut dyn Storage, layout: &LogLayout, volume: VolumeId) -> Result<Recorded, NoCommits> {
        let mut ring = LogRing::scan(storage, layout.pair().log, (layout.ring_at(), layout.ring_bytes()), volume);
        let newest = ring.newest_whole().and_then(|number| ring.find(number));
        let newest = newest.ok_or(NoCommits("none of its commits can be read"))?;
        // The commit after the newest may be torn; if a still later one exists, a commit between is lost.
        if ring.newest_previous() > newest.head.number {
            return Err(PART);
        }
        let sound = newest.segments.len() as u64 == layout.segments()
            && (FIRST_SEQUENCE..MOST_SEQUENCE).contains(&newest.head.next_sequence)
            && newest.head.first_needed <= newest.head.number;
        if !sound {
            return Err(NoCommits("its newest commit has impossible values"));
        }
        let mut chain = vec![newest.records.clone()];
        let (mut last, mut used) = (newest.head, newest.head.bytes());
        while last.number > newest.head.first_needed {
            let found = ring.find(last.previous).filter(|found| found.head.number < last.number).ok_or(PART)?;
            if found.head.number < newest.head.first_needed {
                break;
            }
            (last, used) = (found.head, used + found.head.bytes());
            chain.push(found.records);
        }
        let records: Vec<CommitRecord> = chain.iter().rev().flatten().copied().collect();
        let mut recorded = Recorded {
            commits: chain.len() as u64,
            used,
            next_number: ring.newest().saturating_add(1),
            voids: Vec::new(),
            absents: BTreeMap::new(),
            listed: BTreeMap::new(),
            damaged_blocks: ring.damaged_blocks(),
            complete: 0,
            newest,
            records: Vec::new(),
        };
        recorded.sort(&records);
        recorded.records = records;
        Ok(recorded)
    }

    /// Adds the records of the next commits that a killed process has left in memory.
    pub fn take_over(&mut self, left: &Found) {
        let mut records: Vec<CommitRecord> = Vec::new();
        for record in &left.records {
            if !records.last_mut().is_some_and(|last| last.join(*record)) {
                records.push(*record);
            }
        }
        self.sort(&records);
        self.records.append(&mut records);
        self.complete = left.complete;
    }

    /// If the append with this sequence is recorded as absent: the first sequence that is not, and the place of that append.
    pub fn absent(&self, sequence: u64) -> Option<(u64, u64)> {
        let (_, (to, next_at)) = self.absents.range(..=sequence).next_back()?;
        (*to > sequence).then_some((*to, *next_at))
    }

    /// Adds a range of absent appends. It may overlap ranges that are known: a recovery joins ranges in the commit that it
    /// writes, and if its process dies afterwards, the next one reads that commit and the same ranges in memory.
    fn add_absent(&mut self, mut from: u64, (mut to, mut next_at): (u64, u64)) {
        if let Some((first, (end, at))) = self.absents.range(..from).next_back().map(|(first, known)| (*first, *known))
            && end > from
        {
            from = first;
            if end >= to {
                (to, next_at) = (end, at);
            }
        }
        while let Some((first, (end, at))) = self.absents.range(from..to).next().map(|(first, known)| (*first, *known))
        {
            self.absents.remove(&first);
            if end >= to {
                (to, next_at) = (end, at);
            }
        }
        self.absents.insert(from, (to, next_at));
    }

    /// Sorts the records into voids, absent appends and listed segments.
    fn sort(&mut self, records: &[CommitRecord]) {
        let mut records = records.iter().peekable();
        while let Some(record) = records.next() {
            match *record {
                CommitRecord::Void { offset, len, before } => self.voids.push(Void { before, offset, len }),
                CommitRecord::Absent { from, to, next_at } if from < to && to <= MOST_SEQUENCE => {
                    self.add_absent(from, (to, next_at));
                }
                CommitRecord::Listed { segment, opened, as_of, count } => {
                    let mut left = Vec::new();
                    while left.len() < count as usize
                        && let Some(CommitRecord::Left { offset, at, len }) = records.peek()
                    {
                        left.push((*offset, *at, *len));
                        records.next();
                    }
                    let held = self.newest.segments.get(segment as usize);
                    if held == Some(&SegmentUse::InUse { opened }) {
                        self.listed.insert(segment, ListedSegment { opened, as_of, left });
                    }
                }
                CommitRecord::Absent { .. } | CommitRecord::Left { .. } => {}
            }
        }
        // A record that a commit and the memory both have counts once, or the ring would fill if recoveries kept being killed.
        self.voids.sort_unstable_by_key(|void| (void.before, void.offset, void.len));
        self.voids.dedup();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{handoff, log::NOWHERE, superblock::VolumeId};

    fn recorded(records: &[CommitRecord]) -> Recorded {
        let newest =
            FoundLogCommit { head: Default::default(), at: 0, segments: Vec::new(), records: records.to_vec() };
        let mut recorded = Recorded {
            newest,
            records: records.to_vec(),
            commits: 1,
            used: 0,
            next_number: 1,
            voids: Vec::new(),
            absents: BTreeMap::new(),
            listed: BTreeMap::new(),
            damaged_blocks: 0,
            complete: 0,
        };
        recorded.sort(records);
        recorded
    }

    fn left(records: Vec<CommitRecord>) -> Found {
        let contents = handoff::Contents::Log { records: 8 };
        let label = handoff::Label {
            volume: VolumeId(1),
            generation: 1,
            boot: 0,
            devices: [0; handoff::MOST_DEVICES],
            contents,
        };
        Found { label, entries: Vec::new(), masks: Vec::new(), records, settled: 0, complete: 3, gone: 0 }
    }

    /// A recovery has joined the ranges 10..20 and 20..21 with what was beyond the cut, 21..50, and was killed after its commit.
    #[test]
    fn a_range_of_absent_appends_is_found_although_the_memory_has_a_part_of_it() {
        let mut recorded = recorded(&[
            CommitRecord::Absent { from: 1, to: 2, next_at: 4096 },
            CommitRecord::Absent { from: 10, to: 50, next_at: NOWHERE },
        ]);
        recorded.take_over(&left(vec![CommitRecord::Absent { from: 20, to: 21, next_at: 8192 }]));
        for sequence in 10..50 {
            assert_eq!(recorded.absent(sequence), Some((50, NOWHERE)), "{sequence}");
        }
        assert_eq!(recorded.absent(1), Some((2, 4096)));
        assert!([2, 9, 50].iter().all(|sequence| recorded.absent(*sequence).is_none()));
    }

    /// Ranges that overlap in every order become one, which ends where the last of them ends.
    #[test]
    fn overlapping_ranges_of_absent_appends_become_one() {
        let ranges = [(10, 20), (15, 30), (5, 12), (30, 31), (28, 30), (40, 41)];
        for turn in 0..ranges.len() {
            let records: Vec<CommitRecord> = (0..ranges.len())
                .map(|index| ranges[(index + turn) % ranges.len()])
                .map(|(from, to)| CommitRecord::Absent { from, to, next_at: to * 4096 })
                .collect();
            let recorded = recorded(&records);
            for sequence in 5..30 {
                assert_eq!(recorded.absent(sequence), Some((30, 30 * 4096)), "{sequence}, turn {turn}");
            }
            assert_eq!(recorded.absents.len(), 3, "turn {turn}");
        }
    }

    #[test]
    fn a_void_in_a_commit_and_in_the_memory_counts_once() {
        let void = CommitRecord::Void { offset: 4096, len: 512, before: 7 };
        let mut recorded = recorded(&[void]);
        recorded.take_over(&left(vec![void, CommitRecord::Void { offset: 0, len: 512, before: 7 }]));
        assert_eq!(recorded.voids.len(), 2);
    }
}

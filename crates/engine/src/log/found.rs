//! What is found in a log when a volume is opened.

use std::collections::BTreeMap;

use peryton_format::{
    log::MOST_SEQUENCE,
    log::ring::{CommitRecord, FoundLogCommit, SegmentUse},
    log::scan::{FoundIndex, SegmentsInUse},
};

use crate::log::index::Pending;

/// What the ring says.
pub(in crate::log) struct Recorded {
    pub(in crate::log) newest: FoundLogCommit,
    /// What its commits record, oldest first.
    pub(in crate::log) records: Vec<CommitRecord>,
    /// How many commits are needed, and how much of the ring they take.
    pub(in crate::log) commits: u64,
    pub(in crate::log) used: u64,
    /// The next number that no block in the ring has.
    pub(in crate::log) next_number: u64,
    pub(in crate::log) voids: Vec<Void>,
    /// By their first sequence: the sequence after them, and where that is.
    pub(in crate::log) absents: BTreeMap<u64, (u64, u64)>,
    /// By segment: of those only what is listed counts.
    pub(in crate::log) listed: BTreeMap<u32, Listed>,
    pub(in crate::log) damaged: u64,
}

#[derive(Clone, Copy)]
pub(in crate::log) struct Void {
    pub(in crate::log) before: u64,
    pub(in crate::log) offset: u64,
    pub(in crate::log) len: u64,
}

pub(in crate::log) struct Listed {
    pub(in crate::log) opened: u64,
    pub(in crate::log) as_of: u64,
    pub(in crate::log) left: Vec<(u64, u64, u64)>,
}

impl Recorded {
    /// The sequence after those that are recorded as absent, and where that is.
    pub(in crate::log) fn absent(&self, sequence: u64) -> Option<(u64, u64)> {
        let (_, (to, next_at)) = self.absents.range(..=sequence).next_back()?;
        (*to > sequence).then_some((*to, *next_at))
    }

    pub(in crate::log) fn sort(&mut self, records: &[CommitRecord]) {
        let mut records = records.iter().peekable();
        while let Some(record) = records.next() {
            match *record {
                CommitRecord::Void { offset, len, before } => self.voids.push(Void { before, offset, len }),
                CommitRecord::Absent { from, to, next_at } if from < to && to <= MOST_SEQUENCE => {
                    self.absents.insert(from, (to, next_at));
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
                        self.listed.insert(segment, Listed { opened, as_of, left });
                    }
                }
                CommitRecord::Absent { .. } | CommitRecord::Left { .. } => {}
            }
        }
        self.voids.sort_by_key(|void| void.before);
    }
}

/// What is put into the map in the order of sequences.
pub(in crate::log) struct Replay {
    /// Voids and lists, the next one last; with the sequence before which they come.
    pub(in crate::log) events: Vec<(u64, Event)>,
}

pub(in crate::log) enum Event {
    Left(Vec<(u64, u64, u64)>),
    Void { offset: u64, len: u64 },
}

/// What was found in a log.
pub(in crate::log) struct Contents {
    pub(in crate::log) lives: SegmentsInUse,
    /// Its indexes, oldest first.
    pub(in crate::log) chain: Vec<FoundIndex>,
    /// All from here on had to be there: what came before is in no segment any more, or listed.
    pub(in crate::log) start: u64,
    /// Where the log was cut.
    pub(in crate::log) cut: u64,
    /// Records that the last index does not list.
    pub(in crate::log) tail: Vec<Pending>,
}

impl Replay {
    pub(in crate::log) fn new(recorded: &Recorded) -> Replay {
        let left = |listed: &Listed| (listed.as_of, Event::Left(listed.left.clone()));
        let void = |void: &Void| (void.before, Event::Void { offset: void.offset, len: void.len });
        let lists = recorded.listed.values().map(left);
        let mut events: Vec<(u64, Event)> = lists.chain(recorded.voids.iter().map(void)).collect();
        // Stable: what is left of segments comes before voids of the same moment.
        events.sort_by_key(|(key, _)| *key);
        events.reverse();
        Replay { events }
    }
}

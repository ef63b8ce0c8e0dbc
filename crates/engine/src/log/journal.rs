//! What the commits of a log record: what the log's own headers do not say, that is, that a segment is free, that
//! something in the log was superseded by a write or a discard on the primary, that an append is not there.
//!
//! A commit adds to those before it, until the ring has just enough room left for all the records that are needed: then
//! it repeats them, and the others count no longer.

use std::collections::VecDeque;

use peryton_format::{
    block::BLOCK,
    log::NOWHERE,
    log::ring::{self, CommitHead, CommitRecord, SegmentUse},
};
use peryton_units::{Bytes, Nanos};

use crate::{
    io::RequestIndex,
    journal::{self, Group, Ring},
    log::step::LogIo,
};

/// What one commit makes durable.
#[derive(Debug, Default)]
pub(crate) struct LogBatch {
    pub(in crate::log) records: Vec<CommitRecord>,
    pub(in crate::log) freed: Vec<u32>,
    pub(in crate::log) flushes: Vec<RequestIndex>,
    pub(in crate::log) since: Option<Nanos>,
    /// Records before this one count no longer once this is durable.
    pub(in crate::log) obsolete: u64,
    /// Segments are given up, or most of what is in them.
    pub(in crate::log) settles: bool,
    /// An index follows.
    pub(in crate::log) index: bool,
}

impl LogBatch {
    pub(in crate::log) fn records_nothing(&self) -> bool {
        self.records.is_empty() && self.freed.is_empty()
    }

    /// The oldest append that it says is absent.
    pub(in crate::log) fn absent(&self) -> u64 {
        let from =
            |record: &CommitRecord| if let CommitRecord::Absent { from, .. } = record { *from } else { u64::MAX };
        self.records.iter().map(from).min().unwrap_or(u64::MAX)
    }
}

impl journal::Batch for LogBatch {
    fn append(&mut self, later: &mut LogBatch) {
        self.records.append(&mut later.records);
        self.freed.append(&mut later.freed);
        self.flushes.append(&mut later.flushes);
        self.obsolete = self.obsolete.max(later.obsolete);
        self.settles |= later.settles;
        self.index = later.index;
        self.since = self.since.or(later.since);
        later.clear();
    }

    fn clear(&mut self) {
        self.records.clear();
        self.freed.clear();
        self.flushes.clear();
        (self.since, self.obsolete, self.settles, self.index) = (None, 0, false, false);
    }

    fn take_flushes(&mut self) -> Vec<RequestIndex> {
        std::mem::take(&mut self.flushes)
    }
}

/// A commit that is still needed.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct NeededCommit {
    pub(in crate::log) number: u64,
    pub(in crate::log) bytes: u64,
    /// How many records there ever were, its own included.
    pub(in crate::log) upto: u64,
}

#[derive(Debug)]
pub(in crate::log) struct Commit {
    /// The first device is the primary, the second the log.
    pub(in crate::log) group: Group<LogBatch>,
    /// A commit was asked for when the one under way began, and whether that records something.
    pub(in crate::log) asked: bool,
    pub(in crate::log) records_something: bool,
    /// Where the ring begins, and how much of it is needed.
    pub(in crate::log) at: Bytes,
    pub(in crate::log) ring: Ring,
    pub(in crate::log) segments: usize,
    /// The next commit, as far as it is settled before it is written, and what it says of the segments.
    pub(in crate::log) head: CommitHead,
    pub(in crate::log) table: Vec<SegmentUse>,
    /// The commit under way repeats all that is needed.
    pub(in crate::log) repeats: bool,
    /// No segment is in use once it is durable, and no record is needed.
    pub(in crate::log) empties: bool,
    /// The last record was gathered since the last migration began, and may be joined with the next.
    pub(in crate::log) joins: bool,
    /// Commits that are needed, the records in them, and how many records there were before those.
    pub(in crate::log) written: VecDeque<NeededCommit>,
    pub(in crate::log) needed: VecDeque<CommitRecord>,
    pub(in crate::log) forgotten: u64,
    /// How many records there ever were when the migration under way began.
    pub(in crate::log) before_migration: u64,
    /// Appends before this one, which is at this place, are completed: what the flush under way covers.
    pub(in crate::log) covers: (u64, u64),
}

impl Commit {
    pub(in crate::log) fn new(at: Bytes, ring: u64, segments: usize) -> Commit {
        Commit {
            group: Group::new(),
            asked: false,
            records_something: false,
            at,
            ring: Ring::new(ring),
            segments,
            head: CommitHead { number: 1, index: NOWHERE, segments: segments as u32, ..CommitHead::default() },
            table: Vec::new(),
            repeats: false,
            empties: false,
            joins: false,
            written: VecDeque::new(),
            needed: VecDeque::new(),
            forgotten: 0,
            before_migration: 0,
            covers: (0, NOWHERE),
        }
    }

    /// Goes on after a commit that was found with this head, behind which the ring goes on at `next`, and of which these
    /// records are needed.
    pub(in crate::log) fn resume(&mut self, head: CommitHead, next: u64, records: Vec<CommitRecord>) {
        self.head = CommitHead { number: head.number + 1, previous: head.number, attempt: 0, ..head };
        self.ring.resume(next, head.bytes());
        self.written =
            VecDeque::from([NeededCommit { number: head.number, bytes: head.bytes(), upto: records.len() as u64 }]);
        self.needed = records.into();
        (self.forgotten, self.before_migration) = (0, 0);
    }

    pub(in crate::log) fn wait(&mut self, flush: RequestIndex) {
        self.group.gathering.flushes.push(flush);
    }

    /// To be durable after the commit interval, or with the next flush.
    pub(in crate::log) fn record(&mut self, io: &mut LogIo, now: Nanos, record: CommitRecord) {
        if !self.group.alive[1] {
            // The ring is gone with the log.
            return;
        }
        let batch = &mut self.group.gathering;
        let joined = match (batch.records.last_mut().filter(|_| self.joins), record) {
            (
                Some(CommitRecord::Void { offset, len, before }),
                CommitRecord::Void { offset: next, len: more, before: same },
            ) if *before == same && *offset + *len == next => {
                *len += more;
                true
            }
            (Some(CommitRecord::Absent { to, next_at, .. }), CommitRecord::Absent { from, to: end, next_at: at })
                if *to == from =>
            {
                (*to, *next_at) = (end, at);
                true
            }
            _ => false,
        };
        if !joined {
            batch.records.push(record);
            self.joins = true;
        }
        if batch.since.is_none() {
            batch.since = Some(now);
            io.due(now.saturating_add(io.tuning.commit_interval));
        }
    }

    /// Of a segment only what is listed counts.
    pub(in crate::log) fn list(&mut self, io: &mut LogIo, now: Nanos, records: impl IntoIterator<Item = CommitRecord>) {
        for record in records {
            self.record(io, now, record);
        }
        self.group.gathering.settles = true;
    }

    /// The segment is free once this is durable; not to be waited for.
    pub(in crate::log) fn free(&mut self, segment: u32) {
        self.group.gathering.freed.push(segment);
        self.group.gathering.settles = true;
        self.group.wanted = true;
    }

    /// An index is to follow once the log is flushed.
    pub(in crate::log) fn flush_for_index(&mut self) {
        self.group.gathering.index = true;
    }

    /// Segments that wait for their commit.
    pub(in crate::log) fn freed(&self) -> impl Iterator<Item = u32> {
        self.group.gathering.freed.iter().chain(&self.group.committing.freed).copied()
    }

    pub(in crate::log) fn is_idle(&self) -> bool {
        let Group { wanted, gathering, .. } = &self.group;
        self.group.is_idle() && !wanted && gathering.flushes.is_empty() && !gathering.index
    }

    /// A migration of the whole log makes what is recorded now obsolete.
    pub(in crate::log) fn migration_starts(&mut self) {
        self.before_migration = self.forgotten + self.records() as u64;
        self.joins = false;
    }

    pub(in crate::log) fn migration_ended(&mut self) {
        self.group.gathering.obsolete = self.before_migration;
    }

    /// The most records that may be needed at a time: repeating them takes three eighths of the ring, so that it has room
    /// for two repetitions, the old and the new, and for commits between them.
    pub(in crate::log) fn most_records(&self) -> usize {
        let words = (self.reserve() / BLOCK) as usize * ring::WORDS_PER_BLOCK;
        words.saturating_sub(self.segments) / ring::RECORD_WORDS
    }

    pub(in crate::log) fn reserve(&self) -> u64 {
        self.ring.bytes() / 8 * 3 / BLOCK * BLOCK
    }

    pub(in crate::log) fn records(&self) -> usize {
        self.needed.len() + self.group.committing.records.len() + self.group.gathering.records.len()
    }

    /// How many records may be needed before nothing that makes another may begin. What is under way then, and what a
    /// failed device makes of it, has room.
    pub(in crate::log) fn crowd(&self) -> usize {
        let most = self.most_records();
        most - (most / 16).max(256).min(most)
    }

    /// Many records are needed: it is time to migrate, after which they are not.
    pub(in crate::log) fn ring_fills(&self) -> bool {
        self.records() * 4 > self.crowd() * 3
    }

    /// So many that, with `more` to come, nothing that makes another may begin.
    pub(in crate::log) fn is_crowded(&self, more: usize) -> bool {
        self.records() + more > self.crowd()
    }

    /// So many that not even appends may begin, for one that fails makes a record.
    pub(in crate::log) fn is_full(&self) -> bool {
        let most = self.most_records();
        self.records() > most - (most / 32).max(128).min(most)
    }

    /// The most records that listing the rest of segments may make in one migration.
    pub(in crate::log) fn most_listed(&self) -> usize {
        self.most_records() / 16
    }

    /// How many of the records that are needed come before record `obsolete`.
    pub(in crate::log) fn obsolete_records(&self, obsolete: u64) -> usize {
        obsolete.saturating_sub(self.forgotten).min(self.needed.len() as u64) as usize
    }

    /// Makes room as soon as possible, if there is something that counts no longer.
    pub(in crate::log) fn make_room(&mut self) {
        self.group.wanted |= self.group.gathering.obsolete > 0;
    }

    /// The commit under way is durable.
    pub(in crate::log) fn done(&mut self, batch: &LogBatch) {
        let bytes = self.head.bytes();
        self.needed.extend(&batch.records);
        let obsolete = if self.empties { self.needed.len() } else { self.obsolete_records(batch.obsolete) };
        self.needed.drain(..obsolete);
        self.forgotten += obsolete as u64;
        let (repeats, first_needed) = (self.repeats, self.head.first_needed);
        while let Some(old) = self.written.front().filter(|old| repeats || old.number < first_needed) {
            self.ring.release(old.bytes);
            self.written.pop_front();
        }
        let number = self.head.number;
        let upto = self.forgotten + self.needed.len() as u64;
        self.written.push_back(NeededCommit { number, bytes, upto });
        self.ring.take_pieces(bytes);
        self.head = CommitHead { number: number + 1, previous: number, attempt: 0, ..self.head };
    }

    /// A device is fenced. Without the log there is nothing to record.
    pub(in crate::log) fn fence(&mut self, log: bool) {
        self.group.fence(usize::from(log));
        if log {
            for batch in [&mut self.group.gathering, &mut self.group.committing] {
                batch.records.clear();
                batch.freed.clear();
                (batch.obsolete, batch.settles, batch.index, batch.since) = (0, false, false, None);
            }
            self.needed.clear();
            self.ring.release(self.ring.used());
            self.written.clear();
        }
    }
}

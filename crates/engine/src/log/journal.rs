//! The records of a log's commits. The headers of the log cannot say that a segment is free, that a write or a discard
//! on the primary superseded data in the log, or that an append is absent; commits do.
//!
//! A commit adds its records to those of earlier commits. When the ring has just enough room left for all needed
//! records, the next commit repeats them, and the earlier commits are no longer needed.

use std::collections::VecDeque;

use peryton_format::{
    block::BLOCK,
    handoff::MOST_LOG_RECORDS,
    log::NOWHERE,
    log::ring::{self, CommitHead, CommitRecord, SegmentUse},
};
use peryton_units::{Bytes, Nanos};

use crate::{
    io::RequestIndex,
    journal::{self, Group, Ring},
    log::kept::Kept,
    log::step::LogIo,
};

/// The changes that one commit makes durable.
#[derive(Debug, Default)]
pub(crate) struct LogBatch {
    pub(in crate::log) records: Vec<CommitRecord>,
    pub(in crate::log) freed: Vec<u32>,
    pub(in crate::log) flushes: Vec<RequestIndex>,
    pub(in crate::log) since: Option<Nanos>,
    /// Records before this number are obsolete once this batch is durable.
    pub(in crate::log) obsolete: u64,
    /// Whether the batch frees segments, or most of their content.
    pub(in crate::log) settles: bool,
    /// Whether an index follows the flush.
    pub(in crate::log) index: bool,
}

impl LogBatch {
    pub(in crate::log) fn records_nothing(&self) -> bool {
        self.records.is_empty() && self.freed.is_empty()
    }

    /// Sequence of the oldest append that this batch records as absent; `u64::MAX` if there is none.
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

/// A commit in the ring that is still needed.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct NeededCommit {
    pub(in crate::log) number: u64,
    pub(in crate::log) bytes: u64,
    /// Number of records ever made, up to and including those of this commit.
    pub(in crate::log) upto: u64,
}

#[derive(Debug)]
pub(in crate::log) struct Commit {
    /// The state of the commits. The group's first device is the primary, the second the log.
    pub(in crate::log) group: Group<LogBatch>,
    /// Whether a commit was requested when the one under way began, and whether that one has records.
    pub(in crate::log) asked: bool,
    pub(in crate::log) records_something: bool,
    /// The place of the ring on the log device, and its state.
    pub(in crate::log) at: Bytes,
    pub(in crate::log) ring: Ring,
    pub(in crate::log) segments: usize,
    /// The head of the next commit, as far as it is known before it is written, and its table of segments.
    pub(in crate::log) head: CommitHead,
    pub(in crate::log) table: Vec<SegmentUse>,
    /// Whether the commit under way repeats all needed records.
    pub(in crate::log) repeats: bool,
    /// Whether no segment is in use, and so no record is needed, once the commit under way is durable.
    pub(in crate::log) empties: bool,
    /// Whether the next record may be merged with the last: both were gathered since the last migration began.
    pub(in crate::log) joins: bool,
    /// The commits that are needed, the records in them, and the number of records before those.
    pub(in crate::log) written: VecDeque<NeededCommit>,
    pub(in crate::log) needed: VecDeque<CommitRecord>,
    pub(in crate::log) forgotten: u64,
    /// Number of records ever made when the migration under way began.
    pub(in crate::log) before_migration: u64,
    /// The flush under way covers the appends before this sequence, which is at this place.
    pub(in crate::log) covers: (u64, u64),
    /// Records for the next process, if the driver keeps them in memory that outlives this one.
    pub(in crate::log) kept: Option<Kept>,
    /// All appends before this sequence are flushed, according to the last durable commit.
    pub(in crate::log) marked: u64,
    /// A flush has made appends before this sequence durable and no commit records it yet; and the time at which one
    /// will.
    pub(in crate::log) mark: Option<(u64, Nanos)>,
    /// The next commit is written, whether it records anything else or not.
    pub(in crate::log) marks: bool,
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
            kept: None,
            marked: 0,
            mark: None,
            marks: false,
        }
    }

    /// Restores the state after the volume was opened: `head` is the newest commit, the ring continues at `next`, and
    /// `records` are still needed.
    pub(in crate::log) fn resume(&mut self, head: CommitHead, next: u64, records: Vec<CommitRecord>) {
        self.head = CommitHead { number: head.number + 1, previous: head.number, attempt: 0, ..head };
        self.ring.resume(next, head.bytes());
        self.written =
            VecDeque::from([NeededCommit { number: head.number, bytes: head.bytes(), upto: records.len() as u64 }]);
        self.needed = records.into();
        self.marked = head.flushed;
        (self.forgotten, self.before_migration) = (0, 0);
    }

    pub(in crate::log) fn wait(&mut self, flush: RequestIndex) {
        self.group.gathering.flushes.push(flush);
    }

    /// Gathers a record. It becomes durable after the commit interval or with the next flush.
    pub(in crate::log) fn record(&mut self, io: &mut LogIo, record: CommitRecord) {
        if !self.group.alive[1] {
            // The ring is lost with the log.
            return;
        }
        self.keep(record);
        let batch = &mut self.group.gathering;
        let last = batch.records.last_mut().filter(|_| self.joins);
        if !last.is_some_and(|last| last.join(record)) {
            batch.records.push(record);
            self.joins = true;
        }
        if batch.since.is_none() {
            batch.since = Some(io.now);
            io.due_in(io.tuning.commit_interval);
        }
    }

    /// The next process needs this record if it starts before the next commit.
    pub(in crate::log) fn keep(&mut self, record: CommitRecord) {
        if let Some(kept) = &mut self.kept {
            kept.add(record);
        }
    }

    /// Records that only the listed parts of a segment are still needed.
    pub(in crate::log) fn list(&mut self, io: &mut LogIo, records: impl IntoIterator<Item = CommitRecord>) {
        for record in records {
            self.record(io, record);
        }
        self.group.gathering.settles = true;
    }

    /// Frees a segment with the next commit, which starts as soon as possible.
    pub(in crate::log) fn free(&mut self, segment: u32) {
        self.group.gathering.freed.push(segment);
        self.group.gathering.settles = true;
        self.group.wanted = true;
    }

    /// Requests an index after the next flush of the log.
    pub(in crate::log) fn flush_for_index(&mut self) {
        self.group.gathering.index = true;
    }

    /// The segments that become free with a commit that is not durable yet.
    pub(in crate::log) fn freed(&self) -> impl Iterator<Item = u32> {
        self.group.gathering.freed.iter().chain(&self.group.committing.freed).copied()
    }

    pub(in crate::log) fn is_idle(&self) -> bool {
        let Group { wanted, gathering, .. } = &self.group;
        self.group.is_idle() && !wanted && gathering.flushes.is_empty() && !gathering.index
    }

    /// Notes which records become obsolete when the migration of the whole log that starts now has ended.
    pub(in crate::log) fn migration_starts(&mut self) {
        self.before_migration = self.forgotten + self.records() as u64;
        self.joins = false;
    }

    pub(in crate::log) fn migration_ended(&mut self) {
        self.group.gathering.obsolete = self.before_migration;
    }

    /// The most records that may be needed at a time. Repeating them takes three eighths of the ring, so that it has
    /// room for two repetitions, the old and the new, and for commits between them.
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

    /// The number of needed records above which no operation may begin that makes another. The rest is room for
    /// operations under way and for the records that a failed device causes.
    pub(in crate::log) fn crowd(&self) -> usize {
        let most = self.most_records();
        most - (most / 16).max(256).min(most)
    }

    /// Whether so many records are needed that a migration should start, which makes them obsolete.
    pub(in crate::log) fn ring_fills(&self) -> bool {
        self.records() * 4 > self.crowd() * 3
    }

    /// Whether, with `more` records to come, no operation may begin that makes another.
    pub(in crate::log) fn is_crowded(&self, more: usize) -> bool {
        self.records() + more > self.crowd() || self.is_memory_crowded(more as u64)
    }

    /// Whether not even an append may begin; a failed append makes a record.
    pub(in crate::log) fn is_full(&self) -> bool {
        let most = self.most_records();
        self.records() > most - (most / 32).max(128).min(most)
    }

    /// How many records that are not durable there is memory for that outlives the process.
    pub(in crate::log) fn most_kept(&self) -> u64 {
        (self.most_records() as u64).clamp(1, MOST_LOG_RECORDS)
    }

    fn is_memory_crowded(&self, more: u64) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.is_crowded(more))
    }

    /// The most records with which one migration may list the rest of segments.
    pub(in crate::log) fn most_listed(&self) -> usize {
        self.most_records() / 16
    }

    /// The records, durable or not, that were made before the migration that began last.
    pub(in crate::log) fn made_before_migration(&self) -> Vec<CommitRecord> {
        let count = self.before_migration.saturating_sub(self.forgotten) as usize;
        let Group { committing, gathering, .. } = &self.group;
        self.needed.iter().chain(&committing.records).chain(&gathering.records).take(count).copied().collect()
    }

    /// Number of needed records that come before record number `obsolete`.
    pub(in crate::log) fn obsolete_records(&self, obsolete: u64) -> usize {
        obsolete.saturating_sub(self.forgotten).min(self.needed.len() as u64) as usize
    }

    /// Requests a commit if it would make records obsolete, or room in memory for as many more.
    pub(in crate::log) fn make_room(&mut self, more: usize) {
        self.group.wanted |= self.group.gathering.obsolete > 0 || self.is_memory_crowded(more as u64);
    }

    /// Updates the ring and the needed records after the commit under way has become durable.
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

    /// Fences a device. Without the log there is nothing to record.
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

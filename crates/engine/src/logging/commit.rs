//! What the log's own headers do not say is made durable here: that a segment is free, that something in the log was
//! superseded by a write or a discard on the primary, that an append is not there.
//!
//! `Idle → FlushingBefore → Writing → FlushingLog → Idle`, in this order, for a record may only say what the primary
//! holds; and where segments are given up, what superseded their content in the log must be durable, too. Commits go to
//! a ring on the log device. A host flush with nothing to record flushes both devices at once.
//!
//! A commit adds to those before it, until the ring has just enough room left for all the records that are needed: then
//! it repeats them, and the others count no longer.

use std::collections::VecDeque;

use peryton_format::{
    block::BLOCK,
    log::{
        NOWHERE,
        ring::{self, CommitHead, CommitRecord, SegmentUse},
    },
    superblock::VolumeId,
};
use peryton_units::{Bytes, Nanos};

use super::{Logging, Step, log::State};
use crate::{
    command::{Buffer, Cause, Commands},
    core::{Core, InFlight, Purpose, RequestIndex},
    error::{DeviceError, RequestError},
};

/// A failed commit is tried again after this time.
const RETRY: Nanos = Nanos::from_ms(250);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Nothing to record.
    FlushingOnly {
        left: u32,
    },
    FlushingBefore {
        left: u32,
    },
    Writing {
        left: u32,
    },
    FlushingLog,
}

#[derive(Debug, Default)]
struct Batch {
    records: Vec<CommitRecord>,
    freed: Vec<u32>,
    flushes: Vec<RequestIndex>,
    since: Option<Nanos>,
    /// Records before this one count no longer once this is durable.
    obsolete: u64,
    /// Segments are given up, or most of what is in them.
    settles: bool,
    /// An index follows.
    index: bool,
}

impl Batch {
    fn records_nothing(&self) -> bool {
        self.records.is_empty() && self.freed.is_empty()
    }

    /// The oldest append that it says is absent.
    fn absent(&self) -> u64 {
        let from =
            |record: &CommitRecord| if let CommitRecord::Absent { from, .. } = record { *from } else { u64::MAX };
        self.records.iter().map(from).min().unwrap_or(u64::MAX)
    }
}

/// A commit that is still needed.
#[derive(Clone, Copy, Debug)]
struct Written {
    number: u64,
    bytes: u64,
    /// How many records there ever were, its own included.
    upto: u64,
}

#[derive(Debug)]
pub(super) struct Commit {
    phase: Phase,
    gathering: Batch,
    committing: Batch,
    failed: bool,
    wanted: bool,
    /// Where the ring begins, how long it is, and where in it the next commit goes.
    pub(super) at: Bytes,
    pub(super) ring: u64,
    next: u64,
    segments: usize,
    /// The next commit, as far as it is settled before it is written, and what it says of the segments.
    head: CommitHead,
    table: Vec<SegmentUse>,
    /// The commit under way repeats all that is needed.
    repeats: bool,
    /// No segment is in use once it is durable, and no record is needed.
    empties: bool,
    /// The last record was gathered since the last migration began, and may be joined with the next.
    joins: bool,
    /// Commits that are needed, the records in them, and how many records there were before those.
    written: VecDeque<Written>,
    needed: VecDeque<CommitRecord>,
    forgotten: u64,
    /// How many records there ever were when the migration under way began.
    before_migration: u64,
    /// Appends before this one, which is at this place, are completed: what the flush under way covers.
    covers: (u64, u64),
    /// Something failed: nothing is tried before this time.
    retry_at: Nanos,
    /// Which devices there are to flush, the primary and the log.
    pub(super) alive: [bool; 2],
}

impl Commit {
    pub(super) fn new(at: Bytes, ring: u64, segments: usize) -> Commit {
        Commit {
            phase: Phase::Idle,
            gathering: Batch::default(),
            committing: Batch::default(),
            failed: false,
            wanted: false,
            at,
            ring,
            next: 0,
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
            retry_at: Nanos::ZERO,
            alive: [true; 2],
        }
    }

    /// Goes on after a commit that was found with this head, behind which the ring goes on at `next`, and of which these
    /// records are needed.
    pub(super) fn resume(&mut self, head: CommitHead, next: u64, records: Vec<CommitRecord>) {
        self.head = CommitHead { number: head.number + 1, previous: head.number, attempt: 0, ..head };
        self.next = next;
        self.written =
            VecDeque::from([Written { number: head.number, bytes: head.bytes(), upto: records.len() as u64 }]);
        self.needed = records.into();
        (self.forgotten, self.before_migration) = (0, 0);
    }

    pub(super) fn wait(&mut self, flush: RequestIndex) {
        self.gathering.flushes.push(flush);
    }

    /// To be durable after the commit interval, or with the next flush.
    pub(super) fn record(&mut self, core: &mut Core, now: Nanos, record: CommitRecord) {
        if !self.alive[1] {
            // The ring is gone with the log.
            return;
        }
        let batch = &mut self.gathering;
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
            core.due(now.saturating_add(core.tuning.commit_interval));
        }
    }

    /// Of a segment only what is listed counts.
    pub(super) fn list(&mut self, core: &mut Core, now: Nanos, records: impl IntoIterator<Item = CommitRecord>) {
        for record in records {
            self.record(core, now, record);
        }
        self.gathering.settles = true;
    }

    /// The segment is free once this is durable; not to be waited for.
    pub(super) fn free(&mut self, segment: u32) {
        self.gathering.freed.push(segment);
        self.gathering.settles = true;
        self.wanted = true;
    }

    /// An index is to follow once the log is flushed.
    pub(super) fn flush_for_index(&mut self) {
        self.gathering.index = true;
    }

    /// Segments that wait for their commit.
    pub(super) fn freed(&self) -> impl Iterator<Item = u32> {
        self.gathering.freed.iter().chain(&self.committing.freed).copied()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle && !self.wanted && self.gathering.flushes.is_empty() && !self.gathering.index
    }

    /// A migration of the whole log makes what is recorded now obsolete.
    pub(super) fn migration_starts(&mut self) {
        let recorded = self.needed.len() + self.committing.records.len() + self.gathering.records.len();
        self.before_migration = self.forgotten + recorded as u64;
        self.joins = false;
    }

    pub(super) fn migration_ended(&mut self) {
        self.gathering.obsolete = self.before_migration;
    }

    /// The most records that may be needed at a time: repeating them takes three eighths of the ring, so that it has room
    /// for two repetitions, the old and the new, and for commits between them.
    fn most_records(&self) -> usize {
        let words = (self.reserve() / BLOCK) as usize * ring::WORDS_PER_BLOCK;
        words.saturating_sub(self.segments) / ring::RECORD_WORDS
    }

    fn reserve(&self) -> u64 {
        self.ring / 8 * 3 / BLOCK * BLOCK
    }

    fn records(&self) -> usize {
        self.needed.len() + self.committing.records.len() + self.gathering.records.len()
    }

    /// How many records may be needed before nothing that makes another may begin. What is under way then, and what a
    /// failed device makes of it, has room.
    fn crowd(&self) -> usize {
        let most = self.most_records();
        most - (most / 16).max(256).min(most)
    }

    /// Many records are needed: it is time to migrate, after which they are not.
    pub(super) fn ring_fills(&self) -> bool {
        self.records() * 4 > self.crowd() * 3
    }

    /// So many that, with `more` to come, nothing that makes another may begin.
    pub(super) fn is_crowded(&self, more: usize) -> bool {
        self.records() + more > self.crowd()
    }

    /// So many that not even appends may begin, for one that fails makes a record.
    pub(super) fn is_full(&self) -> bool {
        let most = self.most_records();
        self.records() > most - (most / 32).max(128).min(most)
    }

    /// The most records that listing the rest of segments may make in one migration.
    pub(super) fn most_listed(&self) -> usize {
        self.most_records() / 16
    }

    fn used(&self) -> u64 {
        self.written.iter().map(|written| written.bytes).sum()
    }

    /// How many of the records that are needed come before record `obsolete`.
    fn obsolete_records(&self, obsolete: u64) -> usize {
        obsolete.saturating_sub(self.forgotten).min(self.needed.len() as u64) as usize
    }

    /// Makes room as soon as possible, if there is something that counts no longer.
    pub(super) fn make_room(&mut self) {
        self.wanted |= self.gathering.obsolete > 0;
    }

    /// The commit under way is durable.
    fn done(&mut self, batch: &Batch) {
        let bytes = self.head.bytes();
        self.needed.extend(&batch.records);
        let obsolete = if self.empties { self.needed.len() } else { self.obsolete_records(batch.obsolete) };
        self.needed.drain(..obsolete);
        self.forgotten += obsolete as u64;
        if self.repeats {
            self.written.clear();
        }
        while self.written.front().is_some_and(|written| written.number < self.head.first_needed) {
            self.written.pop_front();
        }
        let number = self.head.number;
        let upto = self.forgotten + self.needed.len() as u64;
        self.written.push_back(Written { number, bytes, upto });
        self.next = (self.next + bytes) % self.ring;
        self.head = CommitHead { number: number + 1, previous: number, attempt: 0, ..self.head };
    }

    /// The commit under way has failed: what it was to record goes into the next, before what has come since. Host
    /// flushes wait for that.
    #[cold]
    fn take_back(&mut self, core: &mut Core, now: Nanos, mut batch: Batch) {
        let gathering = &mut self.gathering;
        batch.records.append(&mut gathering.records);
        batch.freed.append(&mut gathering.freed);
        batch.flushes.append(&mut gathering.flushes);
        batch.obsolete = batch.obsolete.max(gathering.obsolete);
        batch.settles |= gathering.settles;
        batch.index = gathering.index;
        batch.since = batch.since.or(gathering.since);
        self.gathering = batch;
        self.joins = false;
        self.head.attempt += 1;
        self.retry_at = now.saturating_add(RETRY);
        core.due(self.retry_at);
    }

    /// A device is dead. Without the log there is nothing to record.
    pub(super) fn device_died(&mut self, log: bool) {
        self.alive[usize::from(log)] = false;
        self.failed = true;
        self.retry_at = Nanos::ZERO;
        if log {
            for batch in [&mut self.gathering, &mut self.committing] {
                batch.records.clear();
                batch.freed.clear();
                (batch.obsolete, batch.settles, batch.index, batch.since) = (0, false, false, None);
            }
            self.needed.clear();
            self.written.clear();
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.phase == Phase::Idle
    }

    pub(super) fn take_flushes(&mut self) -> Vec<RequestIndex> {
        std::mem::take(&mut self.gathering.flushes)
    }
}

impl Logging {
    /// Starts a commit if one is wanted and none is under way.
    pub(super) fn pump_commit(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        let commit = &mut self.commit;
        let flushes = !commit.gathering.flushes.is_empty();
        if commit.phase != Phase::Idle || !commit.wanted && !flushes && !commit.gathering.index {
            return;
        }
        if core.burying || now < commit.retry_at {
            return;
        }
        if commit.alive == [false; 2] {
            return self.give_up(core, out);
        }
        let wanted = std::mem::take(&mut commit.wanted);
        commit.failed = false;
        commit.committing = std::mem::take(&mut commit.gathering);
        let purpose = Purpose::Log(Step::Commit);
        let records = !commit.committing.records_nothing() || wanted && commit.committing.obsolete > 0;
        if !records {
            commit.gathering.obsolete = commit.committing.obsolete;
        }
        let (primary, settles) = (records || wanted || flushes, commit.committing.settles);
        let mut left = 0;
        if primary && commit.alive[0] {
            left += u32::from(core.flush_if_needed(self.primary, purpose, out));
        }
        if (!records || settles) && self.commit.alive[1] {
            left += u32::from(self.flush_log(core, out));
        } else {
            self.commit.covers = (0, NOWHERE);
        }
        self.commit.phase = if records { Phase::FlushingBefore { left } } else { Phase::FlushingOnly { left } };
        if left == 0 {
            self.flushed_before(core, now, out);
        }
    }

    /// Flushes the log device and notes what that covers.
    fn flush_log(&mut self, core: &mut Core, out: &mut Commands) -> bool {
        self.commit.covers = self.unretired();
        core.flush_if_needed(self.log_device, Purpose::Log(Step::Commit), out)
    }

    /// The log device is flushed, as far as the flush covered.
    fn log_flushed(&mut self) {
        let (sequence, at) = self.commit.covers;
        // What is missing is not explained yet.
        let absent = self.commit.gathering.absent().min(self.commit.committing.absent());
        if sequence > self.index.flushed && absent >= sequence {
            (self.index.flushed, self.index.flushed_at) = (sequence, at);
        }
    }

    /// All flushes that come before the commit's record, if it has one, are done.
    fn flushed_before(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        if self.commit.failed {
            return self.end_commit(core, now, out);
        }
        self.log_flushed();
        match self.commit.phase {
            Phase::FlushingBefore { .. } => self.write_commit(core, now, out),
            _ => self.end_commit(core, now, out),
        }
    }

    fn write_commit(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        let table: Vec<SegmentUse> = self.held().collect();
        let empties = table.iter().all(|held| matches!(held, SegmentUse::Free { .. }));
        let (sequence, flushed, index) = (self.log.next_sequence(), self.index.flushed, self.index.newest);
        let commit = &mut self.commit;
        let obsolete = commit.committing.obsolete;
        let new = commit.committing.records.len();
        let more = ring::commit_bytes(commit.segments, new);
        (commit.empties, commit.table) = (empties, table);
        commit.repeats = empties || commit.used() + more + commit.reserve() > commit.ring;
        let records = match (empties, commit.repeats) {
            (true, _) => 0,
            (_, true) => commit.needed.len() - commit.obsolete_records(obsolete) + new,
            _ => new,
        };
        let bytes = ring::commit_bytes(commit.segments, records);
        if commit.used() + bytes > commit.ring {
            debug_assert!(false, "{records} records are more than the ring has room for");
            commit.failed = true;
            return self.end_commit(core, now, out);
        }
        let number = commit.head.number;
        let first_needed = if commit.repeats {
            number
        } else {
            commit.written.iter().find(|written| written.upto > obsolete).map_or(number, |written| written.number)
        };
        commit.head = CommitHead {
            first_needed,
            next_sequence: sequence,
            flushed,
            index,
            records: records as u32,
            ..commit.head
        };
        let mut left = 0;
        let (mut at, mut rest) = (commit.next, bytes);
        while rest > 0 {
            // Around the end of the ring, if need be.
            let len = rest.min(commit.ring - at);
            let place = (self.log_device, commit.at + Bytes(at));
            core.write(place, Bytes(len), Buffer::Metadata, Purpose::Log(Step::Commit), Cause::Metadata, out);
            (at, rest, left) = (0, rest - len, left + 1);
        }
        commit.phase = Phase::Writing { left };
    }

    /// What the segments are once the commit under way is durable.
    pub(super) fn held(&self) -> impl Iterator<Item = SegmentUse> {
        let before = self.log.next_sequence();
        let freed = &self.commit.committing.freed;
        self.log.segments.iter().zip(0..).map(move |(segment, index)| match segment.state {
            State::Free | State::Draining { committed: true } => SegmentUse::Free { before },
            State::Draining { committed: false } if freed.contains(&index) => SegmentUse::Free { before },
            _ => SegmentUse::InUse { opened: segment.opened },
        })
    }

    /// Encodes what a write of the commit under way writes.
    pub(super) fn encode_commit(&self, command: &InFlight, volume: VolumeId, into: &mut [u8]) {
        let commit = &self.commit;
        let within = command.at.0 - commit.at.0;
        let first = (within + commit.ring - commit.next) % commit.ring / BLOCK;
        // Without any segment in use none is encoded, and unless it repeats those needed, only the new ones.
        let old =
            commit.needed.iter().filter(|_| commit.repeats).skip(commit.obsolete_records(commit.committing.obsolete));
        let records = old.chain(&commit.committing.records).filter(|_| !commit.empties).copied();
        ring::encode(&commit.head, commit.table.iter().copied(), records, first, volume, into);
    }

    /// The commit that closes a volume with nothing in flight: it repeats what is needed, and gives up what waited for
    /// it. Also where it goes.
    pub(super) fn closing_commit(&mut self) -> Result<(CommitHead, Vec<CommitRecord>, u64), DeviceError> {
        let commit = &mut self.commit;
        commit.committing.freed.append(&mut commit.gathering.freed);
        let commit = &self.commit;
        let records: Vec<CommitRecord> = match self.log.is_empty() {
            true => Vec::new(),
            false => commit.needed.iter().chain(&commit.gathering.records).copied().collect(),
        };
        let head = CommitHead {
            first_needed: commit.head.number,
            next_sequence: self.log.next_sequence(),
            flushed: self.log.next_sequence(),
            index: self.index.newest,
            records: records.len() as u32,
            ..commit.head
        };
        if commit.used() + head.bytes() > commit.ring {
            return Err(DeviceError);
        }
        Ok((head, records, commit.next))
    }

    pub(super) fn commit_step(&mut self, core: &mut Core, now: Nanos, failed: bool, out: &mut Commands) {
        self.commit.failed |= failed;
        match &mut self.commit.phase {
            Phase::FlushingOnly { left } | Phase::FlushingBefore { left } => {
                *left -= 1;
                if *left == 0 {
                    self.flushed_before(core, now, out);
                }
            }
            Phase::Writing { left } => {
                *left -= 1;
                if *left > 0 {
                    return;
                }
                self.commit.phase = Phase::FlushingLog;
                if self.commit.failed || !self.flush_log(core, out) {
                    self.end_commit(core, now, out);
                }
            }
            Phase::FlushingLog => self.end_commit(core, now, out),
            Phase::Idle => unreachable!("a commit step completed while no commit was under way"),
        }
    }

    fn end_commit(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        let commit = &mut self.commit;
        let phase = std::mem::replace(&mut commit.phase, Phase::Idle);
        let mut batch = std::mem::take(&mut commit.committing);
        let mut flushes = std::mem::take(&mut batch.flushes);
        if commit.failed {
            batch.flushes = std::mem::take(&mut flushes);
            commit.take_back(core, now, batch);
        } else {
            core.is_durable();
            if !matches!(phase, Phase::FlushingOnly { .. }) {
                self.commit.done(&batch);
                self.log_flushed();
                core.ledger.commits += 1;
                core.ledger.map_updates += (batch.records.len() + batch.freed.len()) as u64;
            }
            for segment in batch.freed {
                self.log.drained(segment);
            }
            if batch.index {
                self.write_index(core, out);
            }
        }
        for flush in flushes {
            core.part_done(flush, Ok(()), out);
        }
        self.retry_parked(core, now, out);
        self.pump_commit(core, now, out);
    }

    /// Both devices are dead.
    #[cold]
    fn give_up(&mut self, core: &mut Core, out: &mut Commands) {
        let batch = std::mem::take(&mut self.commit.gathering);
        self.commit.wanted = false;
        for flush in batch.flushes {
            core.part_done(flush, Err(RequestError::Device), out);
        }
    }

    pub(super) fn tick_commit(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        if self.commit.retry_at > Nanos::ZERO {
            if now < self.commit.retry_at {
                return core.due(self.commit.retry_at);
            }
            self.commit.retry_at = Nanos::ZERO;
            self.commit.wanted |= !self.commit.gathering.records_nothing();
            self.pump_commit(core, now, out);
        }
        if let Some(since) = self.commit.gathering.since {
            let due = since.saturating_add(core.tuning.commit_interval);
            if due <= now {
                self.commit.wanted = true;
                self.pump_commit(core, now, out);
            } else {
                core.due(due);
            }
        }
    }
}

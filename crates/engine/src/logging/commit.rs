//! What the commits of a log record: what the log's own headers do not say, that is, that a segment is free, that
//! something in the log was superseded by a write or a discard on the primary, that an append is not there.
//!
//! The order is that of every group commit (`crate::journal`). Commits go to a ring on the log device. A host flush with
//! nothing to record flushes both devices at once.
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

use super::{Logging, log::State};
use crate::{
    command::{Buffer, Cause, Commands},
    error::{DeviceError, RequestError},
    io::RequestIndex,
    journal::{self, Commits, Group, Outcome, Ring, Setback, Written},
    logging::step::{Core, InFlight, Step},
};

/// What one commit makes durable.
#[derive(Debug, Default)]
pub(crate) struct Batch {
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

impl journal::Batch for Batch {
    fn append(&mut self, mut later: Batch) {
        self.records.append(&mut later.records);
        self.freed.append(&mut later.freed);
        self.flushes.append(&mut later.flushes);
        self.obsolete = self.obsolete.max(later.obsolete);
        self.settles |= later.settles;
        self.index = later.index;
        self.since = self.since.or(later.since);
    }

    fn take_flushes(&mut self) -> Vec<RequestIndex> {
        std::mem::take(&mut self.flushes)
    }
}

/// A commit that is still needed.
#[derive(Clone, Copy, Debug)]
struct NeededCommit {
    number: u64,
    bytes: u64,
    /// How many records there ever were, its own included.
    upto: u64,
}

#[derive(Debug)]
pub(super) struct Commit {
    /// The first device is the primary, the second the log.
    pub(super) group: Group<Batch>,
    /// A commit was asked for when the one under way began, and whether that records something.
    asked: bool,
    records_something: bool,
    /// Where the ring begins, and how much of it is needed.
    pub(super) at: Bytes,
    pub(super) ring: Ring,
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
    written: VecDeque<NeededCommit>,
    needed: VecDeque<CommitRecord>,
    forgotten: u64,
    /// How many records there ever were when the migration under way began.
    before_migration: u64,
    /// Appends before this one, which is at this place, are completed: what the flush under way covers.
    covers: (u64, u64),
}

impl Commit {
    pub(super) fn new(at: Bytes, ring: u64, segments: usize) -> Commit {
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
    pub(super) fn resume(&mut self, head: CommitHead, next: u64, records: Vec<CommitRecord>) {
        self.head = CommitHead { number: head.number + 1, previous: head.number, attempt: 0, ..head };
        self.ring.resume(next, head.bytes());
        self.written =
            VecDeque::from([NeededCommit { number: head.number, bytes: head.bytes(), upto: records.len() as u64 }]);
        self.needed = records.into();
        (self.forgotten, self.before_migration) = (0, 0);
    }

    pub(super) fn wait(&mut self, flush: RequestIndex) {
        self.group.gathering.flushes.push(flush);
    }

    /// To be durable after the commit interval, or with the next flush.
    pub(super) fn record(&mut self, core: &mut Core, now: Nanos, record: CommitRecord) {
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
            core.due(now.saturating_add(core.tuning.commit_interval));
        }
    }

    /// Of a segment only what is listed counts.
    pub(super) fn list(&mut self, core: &mut Core, now: Nanos, records: impl IntoIterator<Item = CommitRecord>) {
        for record in records {
            self.record(core, now, record);
        }
        self.group.gathering.settles = true;
    }

    /// The segment is free once this is durable; not to be waited for.
    pub(super) fn free(&mut self, segment: u32) {
        self.group.gathering.freed.push(segment);
        self.group.gathering.settles = true;
        self.group.wanted = true;
    }

    /// An index is to follow once the log is flushed.
    pub(super) fn flush_for_index(&mut self) {
        self.group.gathering.index = true;
    }

    /// Segments that wait for their commit.
    pub(super) fn freed(&self) -> impl Iterator<Item = u32> {
        self.group.gathering.freed.iter().chain(&self.group.committing.freed).copied()
    }

    pub(super) fn is_idle(&self) -> bool {
        let Group { wanted, gathering, .. } = &self.group;
        self.group.is_idle() && !wanted && gathering.flushes.is_empty() && !gathering.index
    }

    /// A migration of the whole log makes what is recorded now obsolete.
    pub(super) fn migration_starts(&mut self) {
        self.before_migration = self.forgotten + self.records() as u64;
        self.joins = false;
    }

    pub(super) fn migration_ended(&mut self) {
        self.group.gathering.obsolete = self.before_migration;
    }

    /// The most records that may be needed at a time: repeating them takes three eighths of the ring, so that it has room
    /// for two repetitions, the old and the new, and for commits between them.
    fn most_records(&self) -> usize {
        let words = (self.reserve() / BLOCK) as usize * ring::WORDS_PER_BLOCK;
        words.saturating_sub(self.segments) / ring::RECORD_WORDS
    }

    fn reserve(&self) -> u64 {
        self.ring.bytes() / 8 * 3 / BLOCK * BLOCK
    }

    fn records(&self) -> usize {
        self.needed.len() + self.group.committing.records.len() + self.group.gathering.records.len()
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

    /// How many of the records that are needed come before record `obsolete`.
    fn obsolete_records(&self, obsolete: u64) -> usize {
        obsolete.saturating_sub(self.forgotten).min(self.needed.len() as u64) as usize
    }

    /// Makes room as soon as possible, if there is something that counts no longer.
    pub(super) fn make_room(&mut self) {
        self.group.wanted |= self.group.gathering.obsolete > 0;
    }

    /// The commit under way is durable.
    fn done(&mut self, batch: &Batch) {
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
    pub(super) fn fence(&mut self, log: bool) {
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

impl Logging {
    /// Starts a commit if one is wanted and none is under way.
    pub(super) fn pump_commit(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        let group = &mut self.commit.group;
        let wanted = group.wanted || !group.gathering.flushes.is_empty() || group.gathering.index;
        if !group.is_idle() || !wanted || core.fencing || group.is_paused(now) {
            return;
        }
        if group.alive == [false; 2] {
            return self.give_up(core, out);
        }
        self.commit.asked = std::mem::take(&mut group.wanted);
        if let Some(outcome) = self.start(core, out) {
            self.committed(core, now, outcome, out);
        }
    }

    /// A command of the commit under way has completed.
    pub(super) fn step_commit(&mut self, core: &mut Core, now: Nanos, failed: bool, out: &mut Commands) {
        if let Some(outcome) = self.commit_step(core, failed, out) {
            self.committed(core, now, outcome, out);
        }
    }

    /// Flushes the log device and notes what that covers.
    fn flush_log(&mut self, core: &mut Core, out: &mut Commands) -> bool {
        self.commit.covers = self.unretired();
        core.flush_if_needed(self.log_device, Step::Commit, out)
    }

    /// The log device is flushed, as far as the flush covered.
    fn log_flushed(&mut self) {
        let (sequence, at) = self.commit.covers;
        // What is missing is not explained yet.
        let Group { gathering, committing, .. } = &self.commit.group;
        let absent = gathering.absent().min(committing.absent());
        if sequence > self.index.flushed && absent >= sequence {
            (self.index.flushed, self.index.flushed_at) = (sequence, at);
        }
    }

    /// What the segments are once the commit under way is durable.
    pub(super) fn held(&self) -> impl Iterator<Item = SegmentUse> {
        let before = self.log.next_sequence();
        let freed = &self.commit.group.committing.freed;
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
        let ring = commit.ring.bytes();
        let first = (within + ring - commit.ring.next()) % ring / BLOCK;
        // Without any segment in use none is encoded, and unless it repeats those needed, only the new ones.
        let old = commit
            .needed
            .iter()
            .filter(|_| commit.repeats)
            .skip(commit.obsolete_records(commit.group.committing.obsolete));
        let records = old.chain(&commit.group.committing.records).filter(|_| !commit.empties).copied();
        ring::encode(&commit.head, commit.table.iter().copied(), records, first, volume, into);
    }

    /// The commit that closes a volume with nothing in flight: it repeats what is needed, and gives up what waited for
    /// it. Also where it goes.
    pub(super) fn closing_commit(&mut self) -> Result<(CommitHead, Vec<CommitRecord>, u64), DeviceError> {
        let Group { committing, gathering, .. } = &mut self.commit.group;
        committing.freed.append(&mut gathering.freed);
        let commit = &self.commit;
        let records: Vec<CommitRecord> = match self.log.is_empty() {
            true => Vec::new(),
            false => commit.needed.iter().chain(&commit.group.gathering.records).copied().collect(),
        };
        let head = CommitHead {
            first_needed: commit.head.number,
            next_sequence: self.log.next_sequence(),
            flushed: self.log.next_sequence(),
            index: self.index.newest,
            records: records.len() as u32,
            ..commit.head
        };
        if commit.ring.used() + head.bytes() > commit.ring.bytes() {
            return Err(DeviceError);
        }
        Ok((head, records, commit.ring.next()))
    }

    /// A commit is over. The next one begins if something waits for it.
    fn committed(&mut self, core: &mut Core, now: Nanos, outcome: Outcome<Batch>, out: &mut Commands) {
        if let Outcome::Durable(batch) = outcome {
            for segment in batch.freed {
                self.log.drained(segment);
            }
            if batch.index {
                self.write_index(core, out);
            }
            for flush in batch.flushes {
                core.part_done(flush, Ok(()), out);
            }
        }
        self.retry_parked(core, now, out);
        self.pump_commit(core, now, out);
    }

    /// Both devices are fenced.
    #[cold]
    fn give_up(&mut self, core: &mut Core, out: &mut Commands) {
        let batch = std::mem::take(&mut self.commit.group.gathering);
        self.commit.group.wanted = false;
        for flush in batch.flushes {
            core.part_done(flush, Err(RequestError::Device), out);
        }
    }

    pub(super) fn tick_commit(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        match self.commit.group.retry_is_due(core) {
            Some(false) => return,
            Some(true) => {
                let group = &mut self.commit.group;
                group.wanted |= !group.gathering.records_nothing();
                self.pump_commit(core, now, out);
            }
            None => {}
        }
        if let Some(since) = self.commit.group.gathering.since
            && Group::<Batch>::is_due(core, since)
        {
            self.commit.group.wanted = true;
            self.pump_commit(core, now, out);
        }
    }
}

impl Commits for Logging {
    type Step = Step;
    type Batch = Batch;

    fn group(&mut self) -> &mut Group<Batch> {
        &mut self.commit.group
    }

    /// A record may only say what the primary holds; and where segments are given up, what superseded their content in
    /// the log must be durable, too.
    fn flush_before(&mut self, core: &mut Core, out: &mut Commands) -> u32 {
        let commit = &mut self.commit;
        let Group { committing, gathering, alive, .. } = &mut commit.group;
        let asked = commit.asked;
        let records = !committing.records_nothing() || asked && committing.obsolete > 0;
        if !records {
            gathering.obsolete = committing.obsolete;
        }
        commit.records_something = records;
        let alive = *alive;
        let (primary, settles) = (records || asked || !committing.flushes.is_empty(), committing.settles);
        let mut left = u32::from(primary && alive[0] && core.flush_if_needed(self.primary, Step::Commit, out));
        if (!records || settles) && alive[1] {
            left += u32::from(self.flush_log(core, out));
        } else {
            self.commit.covers = (0, NOWHERE);
        }
        left
    }

    fn is_flushed_before(&mut self) {
        self.log_flushed();
    }

    fn write_record(&mut self, core: &mut Core, out: &mut Commands) -> Written {
        if !self.commit.records_something {
            return Written::Nothing;
        }
        let table: Vec<SegmentUse> = self.held().collect();
        let empties = table.iter().all(|held| matches!(held, SegmentUse::Free { .. }));
        let (sequence, flushed, index) = (self.log.next_sequence(), self.index.flushed, self.index.newest);
        let commit = &mut self.commit;
        let obsolete = commit.group.committing.obsolete;
        let new = commit.group.committing.records.len();
        let more = ring::commit_bytes(commit.segments, new);
        (commit.empties, commit.table) = (empties, table);
        commit.repeats = empties || commit.ring.used() + more + commit.reserve() > commit.ring.bytes();
        let records = match (empties, commit.repeats) {
            (true, _) => 0,
            (_, true) => commit.needed.len() - commit.obsolete_records(obsolete) + new,
            _ => new,
        };
        let bytes = ring::commit_bytes(commit.segments, records);
        if commit.ring.used() + bytes > commit.ring.bytes() {
            debug_assert!(false, "{records} records are more than the ring has room for");
            return Written::NoRoom;
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
        for (at, len) in commit.ring.pieces(bytes) {
            let place = (self.log_device, commit.at + Bytes(at));
            core.write(place, Bytes(len), Buffer::Metadata, Step::Commit, Cause::Metadata, out);
            left += 1;
        }
        Written::InFlight(left)
    }

    fn flush_after(&mut self, core: &mut Core, out: &mut Commands) -> u32 {
        u32::from(self.flush_log(core, out))
    }

    fn is_durable(&mut self, core: &mut Core, batch: &Batch) {
        if self.commit.records_something {
            self.commit.done(batch);
            self.log_flushed();
            core.ledger.commits += 1;
            core.ledger.map_updates += (batch.records.len() + batch.freed.len()) as u64;
        }
    }

    fn is_taken_back(&mut self, core: &mut Core, _: Setback) {
        self.commit.joins = false;
        self.commit.head.attempt += 1;
        self.commit.group.pause(core);
    }
}

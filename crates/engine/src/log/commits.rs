//! The commits of a log: when they begin, what is flushed for them, and what they release. The order of their steps is
//! that of every group commit (`crate::journal`). Commits go to a ring on the log device. A host flush with nothing to
//! record flushes both devices together.

use peryton_format::{
    block::BLOCK,
    log::NOWHERE,
    log::ring::{self, CommitHead, CommitRecord, SegmentUse},
    superblock::VolumeId,
};
use peryton_units::{Bytes, Nanos};

use crate::{
    api::command::{Buffer, Cause},
    api::error::{DeviceError, RequestError},
    journal::{Commits, Group, Outcome, Setback, Written},
    log::drive::LogDrive,
    log::journal::LogBatch,
    log::ready::Turn,
    log::segments::State,
    log::step::{LogCall, LogCommand, LogIo, LogStep},
};

/// How long after a flush a commit records what it covered, if the header of no later append has recorded it by then.
const MARK_AFTER: Nanos = Nanos::from_ms(100);

impl LogDrive {
    /// Starts a commit if one is wanted and none is under way.
    pub(in crate::log) fn pump_commit(&mut self, io: &mut LogCall) {
        if self.stopped.any() {
            return self.give_up_commits(io);
        }
        let group = &mut self.commit.group;
        let wanted = group.wanted || !group.gathering.flushes.is_empty() || group.gathering.index;
        if !group.is_idle() || !wanted || io.fencing || group.is_paused(io.now) {
            return;
        }
        if group.alive == [false; 2] {
            return self.give_up(io);
        }
        self.commit.asked = std::mem::take(&mut group.wanted);
        if let Some(outcome) = self.start(io) {
            self.committed(io, outcome);
        }
    }

    /// Handles a completed command of the commit under way.
    pub(in crate::log) fn step_commit(&mut self, io: &mut LogCall, failed: bool) {
        if let Some(outcome) = self.commit_step(io, failed) {
            self.committed(io, outcome);
        }
    }

    /// Flushes the log device and notes which appends the flush covers. Returns false if no flush is needed.
    fn flush_log(&mut self, io: &mut LogCall) -> bool {
        self.commit.covers = self.unretired();
        io.flush_if_needed(self.log_device, LogStep::Commit)
    }

    /// Records that the appends covered by the last flush of the log are durable.
    pub(in crate::log) fn log_flushed(&mut self) {
        let (sequence, at) = self.commit.covers;
        // Appends from the first absent one on wait until a durable commit says that it is absent.
        let Group { gathering, committing, .. } = &self.commit.group;
        let absent = gathering.absent().min(committing.absent());
        if sequence > self.index.flushed && absent >= sequence {
            (self.index.flushed, self.index.flushed_at) = (sequence, at);
        }
    }

    /// Returns the state of each segment as it will be when the commit under way is durable.
    pub(in crate::log) fn held(&self) -> impl Iterator<Item = SegmentUse> {
        let before = self.log.next_sequence();
        let freed = &self.commit.group.committing.freed;
        self.log.segments.iter().zip(0..).map(move |(segment, index)| match segment.state {
            State::Free | State::Draining { committed: true } => SegmentUse::Free { before },
            State::Draining { committed: false } if freed.contains(&index) => SegmentUse::Free { before },
            _ => SegmentUse::InUse { opened: segment.opened },
        })
    }

    /// Encodes the content of a write of the commit under way.
    pub(in crate::log) fn encode_commit(&self, command: &LogCommand, volume: VolumeId, into: &mut [u8]) {
        if self.gone.log {
            // It was given up in the call that has issued this write. What the commit would say is gone, so it is none.
            into.fill(0);
            return;
        }
        let commit = &self.commit;
        let within = command.at.0 - commit.at.0;
        let ring = commit.ring.bytes();
        let first = (within + ring - commit.ring.next()) % ring / BLOCK;
        // No record is encoded if no segment is in use. Old records are encoded only if this commit repeats them.
        let old = commit
            .needed
            .iter()
            .filter(|_| commit.repeats)
            .skip(commit.obsolete_records(commit.group.committing.obsolete));
        let records = old.chain(&commit.group.committing.records).filter(|_| !commit.empties).copied();
        ring::encode(&commit.head, commit.table.iter().copied(), records, first, volume, into);
    }

    /// Builds the commit that closes a volume with nothing in flight: it repeats the needed records and frees the
    /// segments that waited for a commit. Returns its head, its records and its place in the ring.
    pub(in crate::log) fn closing_commit(&mut self) -> Result<(CommitHead, Vec<CommitRecord>, u64), DeviceError> {
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

    /// Releases what waited for a commit, and starts the next commit if anything waits for it.
    fn committed(&mut self, io: &mut LogCall, outcome: Outcome<LogBatch>) {
        if let Outcome::Durable(mut batch) = outcome {
            for segment in batch.freed.drain(..) {
                self.log.drained(segment);
            }
            if batch.index {
                self.write_index(io);
            }
            if !batch.flushes.is_empty() {
                self.mark_soon(io);
            }
            for flush in batch.flushes.drain(..) {
                io.part_done(flush, Ok(()));
            }
            self.commit.group.recycle(batch);
        }
        if self.commit.records_something {
            // It may have made room.
            self.ready.push(Turn::Pieces);
        }
        self.ready.push(Turn::Commit);
    }

    /// Fails the waiting host flushes because both devices are fenced.
    #[cold]
    fn give_up(&mut self, io: &mut LogCall) {
        let batch = std::mem::take(&mut self.commit.group.gathering);
        self.commit.group.wanted = false;
        for flush in batch.flushes {
            io.part_done(flush, Err(RequestError::Device));
        }
    }

    /// Notes that a flush was answered. The header of the next append records what it covered, and the next flush makes that
    /// record durable; if no append follows soon, a commit records it. Recovery then recognises damage to flushed data, and
    /// does not take it for the end of the log.
    fn mark_soon(&mut self, io: &mut LogIo) {
        if self.commit.mark.is_none() && self.index.flushed > self.commit.marked && !self.log.is_empty() {
            let due = io.now.saturating_add(MARK_AFTER);
            self.commit.mark = Some((self.index.flushed, due));
            io.due(due);
        }
    }

    fn tick_mark(&mut self, io: &mut LogIo) {
        let Some((flushed, due)) = self.commit.mark else { return };
        if io.now < due {
            return io.due(due);
        }
        self.commit.mark = None;
        if self.index.flushed > flushed {
            // While appends follow, their headers record what was flushed; while none do, a commit does.
            return self.mark_soon(io);
        }
        if self.commit.marked < flushed && !self.log.is_empty() && self.commit.group.alive[1] && !self.commit.is_full()
        {
            self.commit.marks = true;
            self.commit.group.wanted = true;
            self.ready.push(Turn::Commit);
        }
    }

    pub(in crate::log) fn tick_commit(&mut self, io: &mut LogIo) {
        if self.stopped.any() {
            return;
        }
        self.tick_mark(io);
        match self.commit.group.retry_is_due(io) {
            Some(false) => return,
            Some(true) => {
                let group = &mut self.commit.group;
                group.wanted |= !group.gathering.records_nothing();
                self.ready.push(Turn::Commit);
            }
            None => {}
        }
        if let Some(since) = self.commit.group.gathering.since
            && Group::<LogBatch>::is_due(io, since)
        {
            self.commit.group.wanted = true;
            self.ready.push(Turn::Commit);
        }
    }
}

impl Commits for LogDrive {
    type Step = LogStep;
    type Batch = LogBatch;

    fn group(&mut self) -> &mut Group<LogBatch> {
        &mut self.commit.group
    }

    /// A record that moves data to the primary requires that the primary is flushed. A record that gives up segments
    /// requires that the log is flushed too, because a newer copy in the log may have superseded their content.
    fn preflush(&mut self, io: &mut LogCall) -> u32 {
        let commit = &mut self.commit;
        if let Some(kept) = &mut commit.kept {
            kept.commit_begins();
        }
        let Group { committing, gathering, alive, .. } = &mut commit.group;
        let asked = commit.asked;
        let marks = std::mem::take(&mut commit.marks);
        let records = !committing.records_nothing() || asked && committing.obsolete > 0 || marks;
        if !records {
            gathering.obsolete = committing.obsolete;
        }
        commit.records_something = records;
        let alive = *alive;
        let (primaries, settles) = (records || asked || !committing.flushes.is_empty(), committing.settles);
        let mut left = 0;
        for primary in self.primaries.iter().filter(|primary| primaries && !primary.gone) {
            left += u32::from(io.flush_if_needed(primary.device, LogStep::Commit));
        }
        if (!records || settles) && alive[1] {
            left += u32::from(self.flush_log(io));
        } else {
            self.commit.covers = (0, NOWHERE);
        }
        left
    }

    fn on_preflushed(&mut self) {
        self.log_flushed();
    }

    fn write_record(&mut self, io: &mut LogCall) -> Written {
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
            io.write(place, Bytes(len), Buffer::Metadata, LogStep::Commit, Cause::Metadata);
            left += 1;
        }
        Written::InFlight(left)
    }

    fn postflush(&mut self, io: &mut LogCall) -> u32 {
        u32::from(self.flush_log(io))
    }

    fn on_durable(&mut self, io: &mut LogIo, batch: &LogBatch) {
        if self.commit.records_something {
            self.commit.marked = self.commit.head.flushed;
            self.commit.done(batch);
            if let Some(kept) = &mut self.commit.kept {
                kept.commit_is_durable();
            }
            self.log_flushed();
            io.stats.commits += 1;
            io.stats.map_updates += (batch.records.len() + batch.freed.len()) as u64;
        }
    }

    fn on_taken_back(&mut self, io: &mut LogIo, _: Setback) {
        self.commit.joins = false;
        self.commit.head.attempt += 1;
        self.commit.group.pause(io);
    }
}

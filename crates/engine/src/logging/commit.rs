//! What the log's own records do not say is made durable here: that a segment is free, or that something in the log was
//! superseded by a write or a discard on the primary.
//!
//! `Idle → FlushingPrimary → Writing → FlushingLog → Idle`, in this order, for the record may only say what the primary
//! holds. It goes to a small ring on the log device. A host flush with nothing to record flushes both devices at once.

use peryton_units::{Bytes, Nanos};

use super::{Logging, Step};
use crate::{
    command::{Buffer, Cause, Commands},
    core::{Core, Purpose, RequestIndex},
    error::RequestError,
};

const BLOCK: u64 = 4096;
/// A range of the volume and a place in the log before which it is void, or a segment and its generation.
const UPDATE_BYTES: u64 = 24;
const UPDATES_PER_BLOCK: u64 = (BLOCK - 32) / UPDATE_BYTES;
/// A failed commit is tried again after this time.
const RETRY: Nanos = Nanos::from_s(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Nothing to record.
    FlushingBoth {
        left: u32,
    },
    FlushingPrimary,
    Writing,
    FlushingLog,
}

#[derive(Debug, Default)]
struct Batch {
    updates: u64,
    freed: Vec<u32>,
    flushes: Vec<RequestIndex>,
    since: Option<Nanos>,
    /// What was written to the ring before this counts no longer once this is durable.
    obsolete: u64,
}

impl Batch {
    fn records_nothing(&self) -> bool {
        self.updates == 0 && self.freed.is_empty()
    }
}

#[derive(Debug)]
pub(super) struct Commit {
    phase: Phase,
    gathering: Batch,
    committing: Batch,
    failed: bool,
    wanted: bool,
    /// Where the ring begins, how long it is, and where the next record goes.
    at: Bytes,
    ring: u64,
    next: u64,
    /// Bytes ever written to the ring, those of them that count no longer, and those that will not once the migration
    /// under way is over.
    written: u64,
    obsolete: u64,
    before_migration: u64,
}

impl Commit {
    pub(super) fn new(at: Bytes, ring: u64) -> Commit {
        Commit {
            phase: Phase::Idle,
            gathering: Batch::default(),
            committing: Batch::default(),
            failed: false,
            wanted: false,
            at,
            ring,
            next: 0,
            written: 0,
            obsolete: 0,
            before_migration: 0,
        }
    }

    pub(super) fn wait(&mut self, flush: RequestIndex) {
        self.gathering.flushes.push(flush);
    }

    /// So many things on the primary supersede what the log holds.
    pub(super) fn update(&mut self, core: &mut Core, now: Nanos, count: u64) {
        self.gathering.updates += count;
        if self.gathering.since.is_none() {
            self.gathering.since = Some(now);
            core.due(now.saturating_add(core.tuning.commit_interval));
        }
    }

    /// The segment is free once this is durable; not to be waited for.
    pub(super) fn free(&mut self, segment: u32) {
        self.gathering.freed.push(segment);
        self.wanted = true;
    }

    /// Segments that wait for their commit.
    pub(super) fn freed(&self) -> impl Iterator<Item = u32> {
        self.gathering.freed.iter().chain(&self.committing.freed).copied()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle && !self.wanted && self.gathering.flushes.is_empty()
    }

    /// A migration of the whole log makes what is in the ring now obsolete.
    pub(super) fn migration_starts(&mut self) {
        self.before_migration = self.written;
    }

    pub(super) fn migration_ended(&mut self) {
        self.gathering.obsolete = self.before_migration;
    }

    fn used(&self) -> u64 {
        self.written - self.obsolete
    }

    /// Half of the ring is in use: it is time to migrate.
    pub(super) fn ring_fills(&self) -> bool {
        self.used() * 2 > self.ring
    }
}

impl Logging {
    /// Starts a commit if one is wanted and none is under way.
    pub(super) fn pump_commit(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        let commit = &mut self.commit;
        if commit.phase != Phase::Idle || !commit.wanted && commit.gathering.flushes.is_empty() {
            return;
        }
        commit.wanted = false;
        commit.failed = false;
        commit.committing = std::mem::take(&mut commit.gathering);
        let purpose = Purpose::Log(Step::Commit);
        if commit.committing.records_nothing() {
            let mut left = 0;
            for device in [self.primary, self.log_device] {
                left += u32::from(core.flush_if_needed(device, purpose, out));
            }
            commit.phase = Phase::FlushingBoth { left };
            if left == 0 {
                self.end_commit(core, now, out);
            }
        } else {
            commit.phase = Phase::FlushingPrimary;
            if !core.flush_if_needed(self.primary, purpose, out) {
                self.write_commit(core, now, out);
            }
        }
    }

    fn write_commit(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        let commit = &mut self.commit;
        commit.phase = Phase::Writing;
        let updates = commit.committing.updates + commit.committing.freed.len() as u64;
        let len = (updates.div_ceil(UPDATES_PER_BLOCK) * BLOCK).min(commit.ring);
        // Freed segments make room in the ring; anything else waits for that.
        if commit.used() + len > commit.ring && commit.committing.freed.is_empty() {
            commit.failed = true;
            return self.end_commit(core, now, out);
        }
        if commit.next + len > commit.ring {
            commit.next = 0;
        }
        let at = commit.at + Bytes(commit.next);
        commit.next += len;
        commit.written += len;
        let place = (self.log_device, at);
        core.write(place, Bytes(len), Buffer::Metadata, Purpose::Log(Step::Commit), Cause::Metadata, out);
    }

    pub(super) fn commit_step(&mut self, core: &mut Core, now: Nanos, failed: bool, out: &mut Commands) {
        self.commit.failed |= failed;
        match self.commit.phase {
            Phase::FlushingBoth { left } => {
                self.commit.phase = Phase::FlushingBoth { left: left - 1 };
                if left == 1 {
                    self.end_commit(core, now, out);
                }
            }
            Phase::FlushingPrimary | Phase::Writing if failed => self.end_commit(core, now, out),
            Phase::FlushingPrimary => self.write_commit(core, now, out),
            Phase::Writing => {
                self.commit.phase = Phase::FlushingLog;
                if !core.flush_if_needed(self.log_device, Purpose::Log(Step::Commit), out) {
                    self.end_commit(core, now, out);
                }
            }
            Phase::FlushingLog => self.end_commit(core, now, out),
            Phase::Idle => unreachable!("a commit step completed while no commit was under way"),
        }
    }

    fn end_commit(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        let commit = &mut self.commit;
        commit.phase = Phase::Idle;
        let Batch { updates, mut freed, flushes, since, obsolete } = std::mem::take(&mut commit.committing);
        let result = if commit.failed { Err(RequestError::Device) } else { Ok(()) };
        if commit.failed {
            commit.gathering.updates += updates;
            commit.gathering.freed.append(&mut freed);
            commit.gathering.obsolete = commit.gathering.obsolete.max(obsolete);
            if since.is_some() || commit.gathering.since.is_some() || !commit.gathering.freed.is_empty() {
                // Counted so that it is due after the pause, whatever the interval.
                let interval = core.tuning.commit_interval;
                commit.gathering.since = Some(now.saturating_add(RETRY).saturating_sub(interval));
                core.due(now.saturating_add(RETRY));
            }
        } else {
            core.ledger.commits += u64::from(updates > 0 || !freed.is_empty());
            core.ledger.map_updates += updates;
            commit.obsolete = commit.obsolete.max(obsolete);
            for segment in freed {
                self.log.drained(segment);
            }
        }
        for flush in flushes {
            core.part_done(flush, result, out);
        }
        self.pump_commit(core, now, out);
    }

    pub(super) fn tick_commit(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
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

//! The commit phase: map updates are gathered, and made durable together in an order that never lets the map point to
//! data that is not there, nor a place be reused while the durable map still points to it.
//!
//! A commit runs `Idle → FlushingData → WritingJournal → FlushingJournal → Idle`. The journal is a ring on the fast
//! device; when half of it is used, the whole map is written out as a checkpoint on both devices, so that either can
//! tell what was where.

use peryton_units::{Bytes, Nanos};

use crate::{
    command::{Buffer, Cause, Commands, DeviceId},
    core::{Core, Purpose, RequestIndex},
    extent_map::Place,
};

/// One block of metadata: a device sector or flash page, written as a whole.
pub(crate) const BLOCK: u64 = 4096;
/// A map update in the journal: extent, place, flags, sequence.
const UPDATE_BYTES: u64 = 16;
/// A journal block begins with a checksum, its sequence and the count of its updates.
const UPDATES_PER_BLOCK: u64 = (BLOCK - 32) / UPDATE_BYTES;
/// A map entry in a checkpoint.
const ENTRY_BYTES: u64 = 8;
/// A checkpoint goes out in writes of this size, one in flight per device, so that it does not crowd out the host.
const CHECKPOINT_CHUNK: u64 = 256 << 10;
/// The ring's size is that of a checkpoint within these bounds: writing the map costs about as much as the updates
/// that led to it.
const SMALLEST_JOURNAL: u64 = 8 << 20;
const LARGEST_JOURNAL: u64 = 64 << 20;
/// Data begins at a multiple of this, so that extents are aligned with flash blocks and stripes.
const DATA_ALIGNMENT: u64 = 1 << 20;

/// Where the metadata lies: superblock, journal, checkpoints A and B; data; a copy of the superblock at the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetadataLayout {
    journal_bytes: u64,
    checkpoint_bytes: u64,
    pub(crate) data_at: Bytes,
}

impl MetadataLayout {
    /// For a map of `entries` entries.
    pub(crate) fn new(entries: u64) -> MetadataLayout {
        let checkpoint_bytes = (entries * ENTRY_BYTES).next_multiple_of(BLOCK) + BLOCK;
        let journal_bytes = checkpoint_bytes.next_multiple_of(BLOCK).clamp(SMALLEST_JOURNAL, LARGEST_JOURNAL);
        let end = BLOCK + journal_bytes + 2 * checkpoint_bytes;
        MetadataLayout { journal_bytes, checkpoint_bytes, data_at: Bytes(end.next_multiple_of(DATA_ALIGNMENT)) }
    }

    /// What a device needs for `data` bytes of data.
    pub(crate) fn device_bytes(&self, data: Bytes) -> Bytes {
        self.data_at + data + Bytes(BLOCK)
    }

    fn journal_at(&self, used: u64) -> Bytes {
        Bytes(BLOCK + used)
    }

    fn checkpoint_at(&self, which: u64) -> Bytes {
        Bytes(BLOCK + self.journal_bytes + which * self.checkpoint_bytes)
    }
}

/// Who waits for a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A host flush.
    Flush(RequestIndex),
    /// A move that must not go on before its map update is durable.
    Move(u32),
}

/// A place that the map no longer points to, but the durable map may.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freed {
    pub(crate) place: Place,
    /// The host discarded it: the device may be told.
    pub(crate) discarded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    FlushingData { left: u32 },
    WritingJournal,
    FlushingJournal,
}

/// What one commit makes durable.
#[derive(Debug, Default)]
struct Batch {
    updates: u64,
    freed: Vec<Freed>,
    waiters: Vec<Waiter>,
    /// When its first update came.
    since: Option<Nanos>,
}

impl Batch {
    fn append(&mut self, other: &mut Batch) {
        self.updates += std::mem::take(&mut other.updates);
        self.freed.append(&mut other.freed);
        self.waiters.append(&mut other.waiters);
        self.since = match (self.since, other.since.take()) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
    }
}

/// A checkpoint under way.
#[derive(Clone, Copy, Debug)]
struct Checkpoint {
    /// Bytes written so far, and chunks in flight, on the fast and the slow device.
    written: [u64; 2],
    in_flight: u32,
    failed: bool,
}

/// What a finished commit hands back.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    pub(crate) freed: Vec<Freed>,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) failed: bool,
}

#[derive(Debug)]
pub(crate) struct Journal {
    layout: MetadataLayout,
    fast: DeviceId,
    slow: DeviceId,
    phase: Phase,
    gathering: Batch,
    /// Updates that say that the slow device now has what the fast one had. They wait until the slow device is flushed,
    /// and a host flush alone does not flush it for them: until then the fast device keeps the data. The journal records
    /// the state of an extent, not the change, so that one that is updated again meanwhile is simply later.
    homebound: Batch,
    committing: Batch,
    failed: bool,
    /// Another commit has to follow the one under way, or the next has to take the homebound updates along.
    wanted: bool,
    wanted_all: bool,
    /// Bytes of the ring written since the last checkpoint, and where the next block goes.
    used: u64,
    next: u64,
    checkpoint: Option<Checkpoint>,
    /// Which of A and B the next checkpoint overwrites.
    checkpoint_turn: u64,
}

impl Journal {
    pub(crate) fn new(layout: MetadataLayout, fast: DeviceId, slow: DeviceId) -> Journal {
        Journal {
            layout,
            fast,
            slow,
            phase: Phase::Idle,
            gathering: Batch::default(),
            homebound: Batch::default(),
            committing: Batch::default(),
            failed: false,
            wanted: false,
            wanted_all: false,
            used: 0,
            next: 0,
            checkpoint: None,
            checkpoint_turn: 0,
        }
    }

    /// The map has changed. `homebound`: because the slow device has the extent's data now.
    #[inline]
    pub(crate) fn update(&mut self, core: &mut Core, now: Nanos, homebound: bool) {
        let batch = if homebound { &mut self.homebound } else { &mut self.gathering };
        batch.updates += 1;
        if batch.since.is_none() {
            batch.since = Some(now);
            core.due(now.saturating_add(core.tuning.commit_interval));
        }
    }

    /// The map no longer points to this place.
    #[inline]
    pub(crate) fn free(&mut self, freed: Freed, homebound: bool) {
        let batch = if homebound { &mut self.homebound } else { &mut self.gathering };
        batch.freed.push(freed);
    }

    /// Freed places that are not yet free for reuse.
    pub(crate) fn limbo(&self) -> impl Iterator<Item = &Freed> {
        self.gathering.freed.iter().chain(&self.homebound.freed).chain(&self.committing.freed)
    }

    /// Freed places that the next commit can free.
    pub(crate) fn waiting(&self) -> usize {
        self.gathering.freed.len() + self.homebound.freed.len()
    }

    pub(crate) fn has_limbo(&self) -> bool {
        self.waiting() > 0 || !self.committing.freed.is_empty()
    }

    /// Whether the next commit should not wait: a block is full.
    pub(crate) fn block_is_full(&self) -> bool {
        self.gathering.updates + self.homebound.updates >= UPDATES_PER_BLOCK
    }

    /// Whether the whole map is being written out.
    #[inline]
    pub(crate) fn is_checkpointing(&self) -> bool {
        self.checkpoint.is_some()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle && self.checkpoint.is_none() && !self.wanted
    }

    /// Joins the next commit.
    pub(crate) fn wait(&mut self, waiter: Waiter) {
        self.gathering.waiters.push(waiter);
    }

    /// Commits what has been gathered, now or right after the commit under way: with `all`, the homebound updates too.
    pub(crate) fn commit(&mut self, core: &mut Core, all: bool, out: &mut Commands) -> Option<Committed> {
        self.wanted_all |= all;
        if self.phase != Phase::Idle || self.ring_is_full() {
            self.wanted = true;
            return None;
        }
        debug_assert!(self.committing.freed.is_empty() && self.committing.waiters.is_empty());
        self.wanted = false;
        self.failed = false;
        self.committing = std::mem::take(&mut self.gathering);
        // Data before map: what the updates point to must be durable before they are.
        let flushes_slow = self.wanted_all || core.is_unflushed_by_host(self.slow);
        if flushes_slow {
            self.committing.append(&mut self.homebound);
            self.wanted_all = false;
        }
        let mut left = u32::from(core.flush_if_needed(self.fast, Purpose::Commit, out));
        left += u32::from(flushes_slow && core.flush_if_needed(self.slow, Purpose::Commit, out));
        self.phase = Phase::FlushingData { left };
        if left == 0 { self.write_journal(core, out) } else { None }
    }

    /// A command of the commit under way has completed.
    pub(crate) fn step(&mut self, core: &mut Core, failed: bool, out: &mut Commands) -> Option<Committed> {
        self.failed |= failed;
        match self.phase {
            Phase::FlushingData { left } if left > 1 => {
                self.phase = Phase::FlushingData { left: left - 1 };
                None
            }
            Phase::FlushingData { .. } if self.failed => Some(self.end(core)),
            Phase::FlushingData { .. } => self.write_journal(core, out),
            Phase::WritingJournal if self.failed => Some(self.end(core)),
            Phase::WritingJournal => {
                self.phase = Phase::FlushingJournal;
                if core.flush_if_needed(self.fast, Purpose::Commit, out) { None } else { Some(self.end(core)) }
            }
            Phase::FlushingJournal => Some(self.end(core)),
            Phase::Idle => unreachable!("a commit step completed while no commit was under way"),
        }
    }

    fn write_journal(&mut self, core: &mut Core, out: &mut Commands) -> Option<Committed> {
        if self.committing.updates == 0 {
            return Some(self.end(core));
        }
        self.phase = Phase::WritingJournal;
        let len = self.committing.updates.div_ceil(UPDATES_PER_BLOCK) * BLOCK;
        let len = len.min(self.layout.journal_bytes);
        if self.next + len > self.layout.journal_bytes {
            self.next = 0;
        }
        let at = self.layout.journal_at(self.next);
        self.next += len;
        self.used += len;
        core.write((self.fast, at), Bytes(len), Buffer::Metadata, Purpose::Commit, Cause::Metadata, out);
        None
    }

    fn end(&mut self, core: &mut Core) -> Committed {
        self.phase = Phase::Idle;
        let mut batch = std::mem::take(&mut self.committing);
        if !self.failed {
            core.ledger.commits += u64::from(batch.updates > 0);
            core.ledger.map_updates += batch.updates;
            return Committed { freed: batch.freed, waiters: batch.waiters, failed: false };
        }
        // Nothing of it is durable: it all goes into the next commit. Host flushes are told; moves wait on. Which of it
        // was homebound is forgotten, so the next commit flushes the slow device.
        self.wanted_all = true;
        let (flushes, moves) = batch.waiters.drain(..).partition(|waiter| matches!(waiter, Waiter::Flush(_)));
        batch.waiters = moves;
        self.gathering.append(&mut batch);
        Committed { freed: Vec::new(), waiters: flushes, failed: true }
    }

    /// Whether the ring has no room until the checkpoint under way is done.
    fn ring_is_full(&self) -> bool {
        let updates = self.gathering.updates + self.homebound.updates;
        let len = updates.div_ceil(UPDATES_PER_BLOCK) * BLOCK;
        self.checkpoint.is_some() && self.used + len > self.layout.journal_bytes
    }

    /// Whether another commit has to follow at once.
    pub(crate) fn commit_again(&self) -> bool {
        self.phase == Phase::Idle && !self.ring_is_full() && (self.wanted || !self.gathering.waiters.is_empty())
    }

    /// Whether the oldest gathered update has waited long enough; otherwise declares when it will have.
    pub(crate) fn commit_is_due(&self, core: &mut Core, now: Nanos) -> bool {
        let since = [self.gathering.since, self.homebound.since].into_iter().flatten().min();
        let Some(since) = since else { return false };
        let due = since.saturating_add(core.tuning.commit_interval);
        if due > now {
            core.due(due);
        }
        due <= now
    }

    /// After a failed commit, tries again only after another interval.
    pub(crate) fn postpone(&mut self, core: &mut Core, now: Nanos) {
        self.wanted = false;
        self.gathering.since = Some(now);
        core.due(now.saturating_add(core.tuning.commit_interval));
    }

    // Checkpoints.

    /// Starts writing the whole map out if half of the ring is used.
    pub(crate) fn checkpoint_if_needed(&mut self, core: &mut Core, out: &mut Commands) {
        if self.checkpoint.is_none() && self.used * 2 > self.layout.journal_bytes {
            self.checkpoint = Some(Checkpoint { written: [0, 0], in_flight: 0, failed: false });
            for device in 0..2 {
                self.next_chunk(device, core, out);
            }
        }
    }

    fn next_chunk(&mut self, device: usize, core: &mut Core, out: &mut Commands) {
        let total = self.layout.checkpoint_bytes;
        let checkpoint = self.checkpoint.as_mut().expect("a chunk is written only while a checkpoint is under way");
        let len = CHECKPOINT_CHUNK.min(total - checkpoint.written[device]);
        if len == 0 || checkpoint.failed {
            return;
        }
        let at = self.layout.checkpoint_at(self.checkpoint_turn) + Bytes(checkpoint.written[device]);
        checkpoint.written[device] += len;
        checkpoint.in_flight += 1;
        let id = [self.fast, self.slow][device];
        core.write((id, at), Bytes(len), Buffer::Metadata, Purpose::Checkpoint, Cause::Metadata, out);
    }

    /// A chunk has been written. The ring is free again once all are and the flush of the next commit covers them.
    pub(crate) fn checkpoint_step(&mut self, core: &mut Core, device: DeviceId, failed: bool, out: &mut Commands) {
        let checkpoint = self.checkpoint.as_mut().expect("a chunk completes only while a checkpoint is under way");
        checkpoint.in_flight -= 1;
        checkpoint.failed |= failed;
        self.next_chunk(usize::from(device == self.slow), core, out);
        let checkpoint = self.checkpoint.as_ref().expect("still under way");
        if checkpoint.in_flight == 0 {
            if !checkpoint.failed {
                self.used = 0;
                self.checkpoint_turn ^= 1;
                core.ledger.checkpoints += 1;
            }
            self.checkpoint = None;
        }
    }
}

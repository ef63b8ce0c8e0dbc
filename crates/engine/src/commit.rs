//! The commit phase: map updates are gathered, and made durable together in an order that never lets the map point to
//! data that is not there, nor a place be reused while the durable map still points to it.
//!
//! A commit runs `Idle → FlushingData → WritingJournal → FlushingJournal → Idle`. The journal is a ring, as a rule the
//! same on both devices; when half of it is used, the whole map as it is durable is written out as a checkpoint, again on both, so
//! that either can tell what was where. A checkpoint runs `Entries → FlushingEntries → Header → FlushingHeader` beside the
//! commits, and the part of the ring that it covers is free after that.

mod checkpoints;
mod deaths;

use peryton_format::{
    block::BLOCK,
    checkpoint::{self, CheckpointHeader},
    entry::MapEntry,
    journal::{self, CommitLabel, RECORDS_PER_BLOCK, commit_bytes},
    layout::MetadataLayout,
    mutation::{self, Mutation},
    notice::Notice,
    superblock::VolumeId,
};
use peryton_units::{Bytes, Nanos};
use rustc_hash::{FxHashMap, FxHashSet};

use checkpoints::Checkpoint;

use crate::{
    command::{Buffer, Cause, Commands, DeviceId},
    core::{Core, InFlight, Purpose, RequestIndex},
    extent_map::Place,
};

/// A commit or a checkpoint that failed is tried again after this time. Host flushes wait meanwhile: a device that
/// goes on failing is given up soon.
const RETRY: Nanos = Nanos::from_ms(250);

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
    WritingJournal { left: u32 },
    FlushingJournal { left: u32 },
}

/// A change of the map: the state of an extent, not the step to it.
#[derive(Clone, Copy, Debug)]
struct Update {
    extent: u32,
    entry: MapEntry,
    /// Counts updates.
    sequence: u64,
}

/// What one commit makes durable.
#[derive(Debug, Default)]
struct Batch {
    updates: Vec<Update>,
    freed: Vec<Freed>,
    waiters: Vec<Waiter>,
    /// When its first update came.
    since: Option<Nanos>,
}

impl Batch {
    /// Drops updates that a later one of the same extent overtook.
    fn keep_the_latest(&mut self) {
        let mut seen = FxHashSet::default();
        self.updates.reverse();
        self.updates.retain(|update| seen.insert(update.extent));
        self.updates.reverse();
    }

    /// Adds what came later.
    fn append(&mut self, other: &mut Batch) {
        self.updates.append(&mut other.updates);
        self.freed.append(&mut other.freed);
        self.waiters.append(&mut other.waiters);
        self.since = match (self.since, other.since.take()) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
    }
}

/// Whether commits have to wait because a device has died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bar {
    Open,
    /// What is under way ends, then the survivor gets the whole map.
    Draining,
    /// It has it.
    Ready,
}

/// What a finished commit hands back.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    pub(crate) freed: Vec<Freed>,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) failed: bool,
}

/// What is known of the volume on the devices; a simulated one has none.
#[derive(Debug)]
pub(crate) struct Durable {
    pub(crate) volume: VolumeId,
    pub(crate) image: Vec<MapEntry>,
}

#[derive(Debug)]
pub(crate) struct Journal {
    layout: MetadataLayout,
    fast: DeviceId,
    slow: DeviceId,
    /// How many entries the map has.
    entries: u32,
    durable: Option<Durable>,
    phase: Phase,
    gathering: Batch,
    /// Updates that say that the slow device now has what the fast one had. They wait until the slow device is flushed,
    /// and a host flush alone does not flush it for them: until then the fast device keeps the data.
    homebound: Batch,
    /// For each extent in `homebound` its latest update of either kind: one that was overtaken must not be committed
    /// after the one that overtook it.
    latest: FxHashMap<u32, u64>,
    committing: Batch,
    failed: bool,
    /// Which devices the commit under way goes to, the fast and the slow one, and what it tells the latter.
    to: [bool; 2],
    telling: Notice,
    told: Notice,
    /// Which of the two are not dead.
    alive: [bool; 2],
    bar: Bar,
    /// Something failed: nothing is tried before this time.
    retry_at: Nanos,
    /// A flush of a journal block made something of the host's durable on the slow device: for the map to find it, the
    /// homebound updates are due as if the host's flush had flushed that device.
    slow_was_flushed: bool,
    /// Another commit has to follow the one under way, or the next has to take the homebound updates along.
    wanted: bool,
    wanted_all: bool,
    /// Counts updates.
    sequence: u64,
    /// The number of the next commit, and how often it has been tried.
    next_commit: u64,
    attempt: u32,
    last_commit: u64,
    /// Bytes of the ring that are needed until the next checkpoint, and where the next commit goes.
    used: u64,
    next: u64,
    checkpoint: Option<Checkpoint>,
    /// The number of the last checkpoint.
    checkpoint_number: u64,
}

impl Journal {
    pub(crate) fn new(layout: MetadataLayout, [fast, slow]: [DeviceId; 2], entries: u32) -> Journal {
        Journal {
            layout,
            fast,
            slow,
            entries,
            durable: None,
            phase: Phase::Idle,
            gathering: Batch::default(),
            homebound: Batch::default(),
            latest: FxHashMap::default(),
            committing: Batch::default(),
            failed: false,
            to: [true; 2],
            telling: Notice::default(),
            told: Notice::default(),
            alive: [true; 2],
            bar: Bar::Open,
            retry_at: Nanos::ZERO,
            slow_was_flushed: false,
            wanted: false,
            wanted_all: false,
            sequence: 0,
            next_commit: 1,
            attempt: 0,
            last_commit: 0,
            used: 0,
            next: 0,
            checkpoint: None,
            checkpoint_number: 0,
        }
    }

    /// Goes on where the volume was left: right after the checkpoint with this header, which holds `durable`.
    pub(crate) fn resume(&mut self, durable: Durable, header: &CheckpointHeader) {
        self.durable = Some(durable);
        self.next_commit = header.first_commit;
        self.last_commit = header.last_commit;
        self.next = header.journal_at;
        self.checkpoint_number = header.number;
        self.told = header.notice;
    }

    /// What the slow device's metadata is taken to say from the start.
    pub(crate) fn tells(&mut self, told: Notice) {
        self.told = told;
    }

    /// The header of a checkpoint that is written now, with no commit under way.
    pub(crate) fn next_header(&self, mirrors: bool) -> CheckpointHeader {
        CheckpointHeader {
            notice: Notice { alone: !mirrors && self.alive == [true; 2], ..self.told },
            number: self.checkpoint_number + 1,
            last_commit: self.last_commit,
            first_commit: self.next_commit,
            journal_at: self.next,
            entries: self.entries,
        }
    }

    /// The map has changed. `homebound`: because the slow device has the extent's data now.
    #[inline]
    pub(crate) fn update(&mut self, core: &mut Core, now: Nanos, extent: u32, entry: MapEntry, homebound: bool) {
        self.sequence += 1;
        let update = Update { extent, entry, sequence: self.sequence };
        let batch = if homebound {
            self.latest.insert(extent, self.sequence);
            &mut self.homebound
        } else {
            if !self.latest.is_empty()
                && let Some(latest) = self.latest.get_mut(&extent)
            {
                *latest = self.sequence;
            }
            &mut self.gathering
        };
        batch.updates.push(update);
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

    /// Whether an update waits which says that the slow device has the extent's data.
    #[inline]
    pub(crate) fn is_homebound(&self, extent: u32) -> bool {
        self.latest.contains_key(&extent)
    }

    /// The next commit takes the homebound updates along, whatever it is for.
    pub(crate) fn takes_all_next(&mut self) {
        self.wanted_all = true;
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
        (self.gathering.updates.len() + self.homebound.updates.len()) as u64 >= RECORDS_PER_BLOCK
    }

    /// Whether the whole map is being written out.
    #[inline]
    pub(crate) fn is_checkpointing(&self) -> bool {
        self.checkpoint.is_some()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle && self.checkpoint.is_none() && !self.wanted && self.gathering.waiters.is_empty()
    }

    /// Whether nothing may be committed for now.
    fn is_held(&self, core: &Core) -> bool {
        self.bar != Bar::Open || core.now < self.retry_at
    }

    /// Joins the next commit.
    pub(crate) fn wait(&mut self, waiter: Waiter) {
        self.gathering.waiters.push(waiter);
    }

    /// Commits what has been gathered, now or right after the commit under way: with `all`, the homebound updates too.
    pub(crate) fn commit(&mut self, core: &mut Core, all: bool, out: &mut Commands) -> Option<Committed> {
        self.wanted_all |= all;
        if self.alive == [false; 2] {
            return self.give_up();
        }
        if self.phase != Phase::Idle || self.ring_is_full() || self.is_held(core) {
            self.wanted |= core.now >= self.retry_at;
            // One that failed is tried again when somebody needs the room.
            self.checkpoint_if_needed(core, out);
            return None;
        }
        debug_assert!(self.committing.freed.is_empty() && self.committing.waiters.is_empty());
        self.wanted = false;
        self.failed = false;
        self.committing = std::mem::take(&mut self.gathering);
        // Data before map: what the updates point to must be durable before they are.
        let flushes_slow =
            self.wanted_all || self.slow_was_flushed || self.alive != [true; 2] || core.is_unflushed_by_host(self.slow);
        if flushes_slow || mutation::is(Mutation::HomeboundUnflushed) {
            let latest = &self.latest;
            if !mutation::is(Mutation::KeepOvertaken) {
                self.homebound.updates.retain(|update| latest.get(&update.extent) == Some(&update.sequence));
            }
            self.latest.clear();
            self.committing.append(&mut self.homebound);
            (self.wanted_all, self.slow_was_flushed) = (false, false);
        }
        if commit_bytes(self.committing.updates.len() as u64) * 4 > self.layout.journal_bytes {
            self.committing.keep_the_latest();
        }
        let flushes_slow = flushes_slow && self.alive[1] && !mutation::is(Mutation::SkipSlowDataFlush);
        let flushes_fast = self.alive[0] && !mutation::is(Mutation::SkipFastDataFlush);
        let mut left = u32::from(flushes_fast && core.flush_if_needed(self.fast, Purpose::Commit, out));
        left += u32::from(flushes_slow && core.flush_if_needed(self.slow, Purpose::Commit, out));
        self.phase = Phase::FlushingData { left };
        if left == 0 { self.write_journal(core, out) } else { None }
    }

    /// A command of the commit under way has completed.
    pub(crate) fn step(&mut self, core: &mut Core, failed: bool, out: &mut Commands) -> Option<Committed> {
        self.failed |= failed;
        let left = match &mut self.phase {
            Phase::FlushingData { left } | Phase::WritingJournal { left } | Phase::FlushingJournal { left } => left,
            Phase::Idle => unreachable!("a commit step completed while no commit was under way"),
        };
        *left -= 1;
        if *left > 0 {
            return None;
        }
        match self.phase {
            _ if self.failed => Some(self.end(core)),
            Phase::FlushingData { .. } => self.write_journal(core, out),
            Phase::WritingJournal { .. } if mutation::is(Mutation::SkipJournalFlush) => Some(self.end(core)),
            Phase::WritingJournal { .. } => {
                if self.to[0] {
                    core.flush(self.fast, Purpose::Commit, out);
                }
                if self.to[1] {
                    self.slow_was_flushed |=
                        core.is_unflushed_by_host(self.slow) && !mutation::is(Mutation::ForgetSlowWasFlushed);
                    core.flush(self.slow, Purpose::Commit, out);
                }
                self.phase = Phase::FlushingJournal { left: self.copies() };
                None
            }
            _ => Some(self.end(core)),
        }
    }

    fn write_journal(&mut self, core: &mut Core, out: &mut Commands) -> Option<Committed> {
        if self.committing.updates.is_empty() {
            return Some(self.end(core));
        }
        let len = commit_bytes(self.committing.updates.len() as u64);
        let (at, wasted) = self.place(len);
        if self.used + wasted + len > self.layout.journal_bytes {
            // More came together than the ring holds until the next checkpoint: that comes first.
            self.take_back();
            return Some(Committed { failed: true, ..Committed::default() });
        }
        self.attempt += 1;
        self.address(core.tuning.mirror_journal);
        for (device, to) in [self.fast, self.slow].into_iter().zip(self.to) {
            if to {
                let place = (device, self.layout.journal_at(at));
                core.write(place, Bytes(len), Buffer::Metadata, Purpose::Commit, Cause::Metadata, out);
            }
        }
        self.phase = Phase::WritingJournal { left: self.copies() };
        None
    }

    /// Settles which devices the commit under way goes to. The slow one is told before commits begin to be on the fast
    /// one alone, and before one of those says that something on the fast device is newer than its home.
    fn address(&mut self, mirrors: bool) {
        self.telling = self.told;
        self.to = self.alive;
        if self.alive != [true; 2] {
            return;
        }
        self.telling.home &=
            !self.committing.updates.iter().any(|update| update.entry.is_dirty() || update.entry.is_lost());
        self.telling.alone |= !mirrors;
        // A checkpoint under way was begun with the settings of then: once its header is there, what the slow device was told
        // before counts no longer.
        let unsaid = |checkpoint: &Checkpoint| self.telling.alone && !checkpoint.header.notice.alone;
        self.to[1] = mirrors || self.telling != self.told || self.checkpoint.as_ref().is_some_and(unsaid);
    }

    fn copies(&self) -> u32 {
        self.to.into_iter().map(u32::from).sum()
    }

    /// Where in the ring a commit of `len` bytes goes, and how much of the ring's end is left unused by that.
    fn place(&self, len: u64) -> (u64, u64) {
        let rest = self.layout.journal_bytes - self.next;
        if len <= rest { (self.next, 0) } else { (0, rest) }
    }

    fn end(&mut self, core: &mut Core) -> Committed {
        self.phase = Phase::Idle;
        if !self.failed {
            let batch = std::mem::take(&mut self.committing);
            core.is_durable();
            if !batch.updates.is_empty() {
                self.told = self.telling;
                let len = commit_bytes(batch.updates.len() as u64);
                let (at, wasted) = self.place(len);
                self.next = at + len;
                self.used += wasted + len;
                self.last_commit = self.next_commit;
                self.next_commit += 1;
                self.attempt = 0;
                core.ledger.commits += 1;
                core.ledger.map_updates += batch.updates.len() as u64;
            }
            if let Some(durable) = &mut self.durable {
                for update in &batch.updates {
                    durable.image[update.extent as usize] = update.entry;
                }
            }
            return Committed { freed: batch.freed, waiters: batch.waiters, failed: false };
        }
        self.take_back();
        // One that a death has interrupted is not to wait.
        if self.bar == Bar::Open {
            self.pause(core);
        }
        Committed { failed: true, ..Committed::default() }
    }

    /// Nothing of the commit under way is known to be durable: it all goes into the next one, which has the same number,
    /// before what has come since. Which of it was homebound is forgotten, so the next commit flushes the slow device.
    fn take_back(&mut self) {
        self.phase = Phase::Idle;
        self.wanted_all = true;
        let mut batch = std::mem::take(&mut self.committing);
        batch.append(&mut self.gathering);
        self.gathering = batch;
    }

    /// Something failed, and is tried again in a while.
    #[cold]
    fn pause(&mut self, core: &mut Core) {
        self.wanted = false;
        self.retry_at = core.now.saturating_add(RETRY);
        core.due(self.retry_at);
    }

    /// Whether the ring has no room until a checkpoint is done.
    fn ring_is_full(&self) -> bool {
        let len = commit_bytes((self.gathering.updates.len() + self.homebound.updates.len()) as u64);
        let (_, wasted) = self.place(len);
        self.used > 0 && self.used + wasted + len > self.layout.journal_bytes
    }

    /// Whether another commit has to follow at once.
    pub(crate) fn commit_again(&self, core: &Core) -> bool {
        self.phase == Phase::Idle
            && !self.ring_is_full()
            && !self.is_held(core)
            && (self.wanted || !self.gathering.waiters.is_empty())
    }

    /// Whether the oldest gathered update has waited long enough; otherwise declares when it will have.
    pub(crate) fn commit_is_due(&mut self, core: &mut Core, now: Nanos) -> bool {
        let since = [self.gathering.since, self.homebound.since].into_iter().flatten().min();
        let due = match since {
            // After a failure somebody may be waiting.
            _ if self.retry_at > Nanos::ZERO => self.retry_at,
            Some(since) => since.saturating_add(core.tuning.commit_interval),
            None => return false,
        };
        if due <= now {
            self.retry_at = Nanos::ZERO;
        } else {
            core.due(due);
        }
        due <= now
    }

    // What goes to the devices.

    /// Encodes what a command in flight writes. Entries of a checkpoint are those of now: the commits that they are ahead
    /// of its header are in the journal after it.
    pub(crate) fn encode(&self, command: &InFlight, into: &mut [u8]) {
        let durable = self.durable.as_ref().expect("only a volume that was opened from its devices is encoded");
        match command.purpose {
            Purpose::Commit => {
                let mut records: Vec<_> =
                    self.committing.updates.iter().map(|update| (update.extent, update.entry)).collect();
                if mutation::is(Mutation::MirrorWrongCopy) && command.device == self.slow {
                    let last = records.len() - 1;
                    records[last] = (records[last].0, MapEntry::default());
                }
                journal::encode(
                    records.into_iter(),
                    &CommitLabel {
                        number: self.next_commit,
                        attempt: self.attempt,
                        mirrored: self.to == [true; 2],
                        notice: self.telling,
                    },
                    durable.volume,
                    into,
                );
            }
            Purpose::Checkpoint => {
                let checkpoint = self.checkpoint.as_ref().expect("a checkpoint is under way");
                let header = &checkpoint.header;
                let within = command.at.0 - self.layout.checkpoint_at(header.which()).0;
                match within.checked_sub(BLOCK) {
                    None => header.encode(durable.volume, into),
                    Some(entries) => {
                        let first = entries / BLOCK;
                        checkpoint::encode_entries(&durable.image, header.number, first, durable.volume, into);
                    }
                }
            }
            purpose => unreachable!("{purpose:?} writes no metadata"),
        }
    }
}

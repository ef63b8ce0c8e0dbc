//! What the commits of a map record: updates are gathered, and made durable together in an order that never lets the map
//! point to data that is not there, nor a place be reused while the durable map still points to it.
//!
//! The order itself is that of every group commit (`crate::journal`). The journal is a ring, as a rule the same on both
//! devices; when half of it is used, the whole map as it is durable is written out as a checkpoint, again on both, so that
//! either can tell what was where. The part of the ring that a checkpoint covers is free after that.

mod checkpoints;
mod fencing;

use peryton_format::{
    block::BLOCK,
    checkpoint::{self, CheckpointHeader},
    entry::MapEntry,
    journal::{CommitLabel, RECORDS_PER_BLOCK, commit_bytes, encode},
    layout::MetadataLayout,
    mutation::{self, Mutation},
    notice::Notice,
    superblock::VolumeId,
};
use peryton_units::{Bytes, Nanos};
use rustc_hash::{FxHashMap, FxHashSet};

use super::step::{Core, InFlight, Step};
use crate::{
    command::{Buffer, Cause, Commands, DeviceId},
    extent_map::Place,
    io::RequestIndex,
    journal::{self, Commits, Group, Outcome, Ring, Setback, Target, Written},
};

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
pub(crate) struct Batch {
    updates: Vec<Update>,
    pub(super) freed: Vec<Freed>,
    pub(super) waiters: Vec<Waiter>,
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
}

impl journal::Batch for Batch {
    fn append(&mut self, mut later: Batch) {
        self.updates.append(&mut later.updates);
        self.freed.append(&mut later.freed);
        self.waiters.append(&mut later.waiters);
        self.since = match (self.since, later.since) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
    }

    fn take_flushes(&mut self) -> Vec<RequestIndex> {
        let mut flushes = Vec::new();
        self.waiters.retain(|waiter| match waiter {
            Waiter::Flush(request) => {
                flushes.push(*request);
                false
            }
            Waiter::Move(_) => true,
        });
        flushes
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

/// What is known of the volume on the devices; a simulated one has none.
#[derive(Debug)]
pub(crate) struct Durable {
    pub(crate) volume: VolumeId,
    pub(crate) image: Vec<MapEntry>,
}

#[derive(Debug)]
pub(crate) struct Journal {
    group: Group<Batch>,
    ring: Ring,
    layout: MetadataLayout,
    fast: DeviceId,
    slow: DeviceId,
    /// How many entries the map has.
    entries: u32,
    durable: Option<Durable>,
    /// Updates that say that the slow device now has what the fast one had. They wait until the slow device is flushed,
    /// and a host flush alone does not flush it for them: until then the fast device keeps the data.
    homebound: Batch,
    /// For each extent in `homebound` its latest update of either kind: one that was overtaken must not be committed
    /// after the one that overtook it.
    latest: FxHashMap<u32, u64>,
    /// Which devices the commit under way goes to, the fast and the slow one, and what it tells the latter.
    to: [bool; 2],
    telling: Notice,
    told: Notice,
    bar: Bar,
    /// A flush of a journal block made something of the host's durable on the slow device: for the map to find it, the
    /// homebound updates are due as if the host's flush had flushed that device.
    slow_was_flushed: bool,
    /// The next commit has to take the homebound updates along.
    wanted_all: bool,
    /// Counts updates.
    sequence: u64,
    /// The number of the next commit, and how often it has been tried.
    next_commit: u64,
    attempt: u32,
    last_commit: u64,
    checkpoint: Option<journal::Checkpoint<CheckpointHeader>>,
    /// The number of the last checkpoint.
    checkpoint_number: u64,
}

impl Journal {
    pub(crate) fn new(layout: MetadataLayout, [fast, slow]: [DeviceId; 2], entries: u32) -> Journal {
        Journal {
            group: Group::new(),
            ring: Ring::new(layout.journal_bytes),
            layout,
            fast,
            slow,
            entries,
            durable: None,
            homebound: Batch::default(),
            latest: FxHashMap::default(),
            to: [true; 2],
            telling: Notice::default(),
            told: Notice::default(),
            bar: Bar::Open,
            slow_was_flushed: false,
            wanted_all: false,
            sequence: 0,
            next_commit: 1,
            attempt: 0,
            last_commit: 0,
            checkpoint: None,
            checkpoint_number: 0,
        }
    }

    /// Goes on where the volume was left: right after the checkpoint with this header, which holds `durable`.
    pub(crate) fn resume(&mut self, durable: Durable, header: &CheckpointHeader) {
        self.durable = Some(durable);
        self.next_commit = header.first_commit;
        self.last_commit = header.last_commit;
        self.ring.resume(header.journal_at, 0);
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
            notice: Notice { alone: !mirrors && self.group.alive == [true; 2], ..self.told },
            number: self.checkpoint_number + 1,
            last_commit: self.last_commit,
            first_commit: self.next_commit,
            journal_at: self.ring.next(),
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
            &mut self.group.gathering
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
        let batch = if homebound { &mut self.homebound } else { &mut self.group.gathering };
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
        self.group.gathering.freed.iter().chain(&self.homebound.freed).chain(&self.group.committing.freed)
    }

    /// Freed places that the next commit can free.
    pub(crate) fn waiting(&self) -> usize {
        self.group.gathering.freed.len() + self.homebound.freed.len()
    }

    pub(crate) fn has_limbo(&self) -> bool {
        self.waiting() > 0 || !self.group.committing.freed.is_empty()
    }

    /// Whether the next commit should not wait: a block is full.
    pub(crate) fn block_is_full(&self) -> bool {
        (self.group.gathering.updates.len() + self.homebound.updates.len()) as u64 >= RECORDS_PER_BLOCK
    }

    /// Whether the whole map is being written out.
    #[inline]
    pub(crate) fn is_checkpointing(&self) -> bool {
        self.checkpoint.is_some()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.group.is_idle()
            && self.checkpoint.is_none()
            && !self.group.wanted
            && self.group.gathering.waiters.is_empty()
    }

    /// Whether nothing may be committed for now.
    fn is_held(&self, core: &Core) -> bool {
        self.bar != Bar::Open || self.group.is_paused(core.now)
    }

    /// Joins the next commit.
    pub(crate) fn wait(&mut self, waiter: Waiter) {
        self.group.gathering.waiters.push(waiter);
    }

    /// Commits what has been gathered, now or right after the commit under way: with `all`, the homebound updates too.
    pub(crate) fn commit(&mut self, core: &mut Core, all: bool, out: &mut Commands) -> Option<Outcome<Batch>> {
        self.wanted_all |= all;
        if !self.group.is_idle() || self.ring_is_full() || self.is_held(core) {
            self.group.wanted |= !self.group.is_paused(core.now);
            // One that failed is tried again when somebody needs the room.
            self.checkpoint_if_needed(core, out);
            return None;
        }
        self.group.wanted = false;
        self.start(core, out)
    }

    /// Settles which devices the commit under way goes to. The slow one is told before commits begin to be on the fast
    /// one alone, and before one of those says that something on the fast device is newer than its home.
    fn address(&mut self, mirrors: bool) {
        self.telling = self.told;
        self.to = self.group.alive;
        if self.group.alive != [true; 2] {
            return;
        }
        self.telling.home &=
            !self.group.committing.updates.iter().any(|update| update.entry.is_dirty() || update.entry.is_lost());
        self.telling.alone |= !mirrors;
        // A checkpoint under way was begun with the settings of then: once its header is there, what the slow device was told
        // before counts no longer.
        let unsaid =
            |checkpoint: &journal::Checkpoint<CheckpointHeader>| self.telling.alone && !checkpoint.header.notice.alone;
        self.to[1] = mirrors || self.telling != self.told || self.checkpoint.as_ref().is_some_and(unsaid);
    }

    fn copies(&self) -> u32 {
        self.to.into_iter().map(u32::from).sum()
    }

    /// Whether the ring has no room until a checkpoint is done.
    fn ring_is_full(&self) -> bool {
        let len = commit_bytes((self.group.gathering.updates.len() + self.homebound.updates.len()) as u64);
        self.ring.used() > 0 && !self.ring.has_room(self.ring.span(len))
    }

    /// Whether another commit has to follow at once.
    pub(crate) fn commit_again(&self, core: &Core) -> bool {
        self.group.is_idle()
            && !self.ring_is_full()
            && !self.is_held(core)
            && (self.group.wanted || !self.group.gathering.waiters.is_empty())
    }

    /// Whether the oldest gathered update has waited long enough, or a commit that failed may be tried again; otherwise
    /// declares when.
    pub(crate) fn commit_is_due(&mut self, core: &mut Core) -> bool {
        if let Some(due) = self.group.retry_is_due(core) {
            return due;
        }
        let since = [self.group.gathering.since, self.homebound.since].into_iter().flatten().min();
        since.is_some_and(|since| Group::<Batch>::is_due(core, since))
    }

    fn target(&self) -> Target {
        Target { devices: [self.fast, self.slow], alive: self.group.alive }
    }

    // What goes to the devices.

    /// Encodes what a command in flight writes. Entries of a checkpoint are those of now: the commits that they are ahead
    /// of its header are in the journal after it.
    pub(crate) fn encode(&self, command: &InFlight, step: Step, into: &mut [u8]) {
        let durable = self.durable.as_ref().expect("only a volume that was opened from its devices is encoded");
        match step {
            Step::Commit => {
                let mut records: Vec<_> =
                    self.group.committing.updates.iter().map(|update| (update.extent, update.entry)).collect();
                if mutation::is(Mutation::MirrorWrongCopy) && command.device == self.slow {
                    let last = records.len() - 1;
                    records[last] = (records[last].0, MapEntry::default());
                }
                encode(
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
            Step::Checkpoint => {
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
            step => unreachable!("{step:?} writes no metadata"),
        }
    }
}

impl Commits for Journal {
    type Step = Step;
    type Batch = Batch;

    fn group(&mut self) -> &mut Group<Batch> {
        &mut self.group
    }

    /// Data before map: what the updates point to must be durable before they are.
    fn flush_before(&mut self, core: &mut Core, out: &mut Commands) -> u32 {
        let alive = self.group.alive;
        let flushes_slow =
            self.wanted_all || self.slow_was_flushed || alive != [true; 2] || core.is_unflushed_by_host(self.slow);
        if flushes_slow || mutation::is(Mutation::HomeboundUnflushed) {
            let latest = &self.latest;
            if !mutation::is(Mutation::KeepOvertaken) {
                self.homebound.updates.retain(|update| latest.get(&update.extent) == Some(&update.sequence));
            }
            self.latest.clear();
            journal::Batch::append(&mut self.group.committing, std::mem::take(&mut self.homebound));
            (self.wanted_all, self.slow_was_flushed) = (false, false);
        }
        if commit_bytes(self.group.committing.updates.len() as u64) * 4 > self.layout.journal_bytes {
            self.group.committing.keep_the_latest();
        }
        let flushes_slow = flushes_slow && alive[1] && !mutation::is(Mutation::SkipSlowDataFlush);
        let flushes_fast = alive[0] && !mutation::is(Mutation::SkipFastDataFlush);
        let left = u32::from(flushes_fast && core.flush_if_needed(self.fast, Step::Commit, out));
        left + u32::from(flushes_slow && core.flush_if_needed(self.slow, Step::Commit, out))
    }

    fn write_record(&mut self, core: &mut Core, out: &mut Commands) -> Written {
        if self.group.committing.updates.is_empty() {
            return Written::Nothing;
        }
        let len = commit_bytes(self.group.committing.updates.len() as u64);
        let span = self.ring.span(len);
        if !self.ring.has_room(span) {
            // More came together than the ring holds until the next checkpoint: that comes first.
            return Written::NoRoom;
        }
        self.attempt += 1;
        self.address(core.tuning.mirror_journal);
        for (device, to) in [self.fast, self.slow].into_iter().zip(self.to) {
            if to {
                let place = (device, self.layout.journal_at(span.at));
                core.write(place, Bytes(len), Buffer::Metadata, Step::Commit, Cause::Metadata, out);
            }
        }
        Written::InFlight(self.copies())
    }

    fn flush_after(&mut self, core: &mut Core, out: &mut Commands) -> u32 {
        if mutation::is(Mutation::SkipJournalFlush) {
            return 0;
        }
        if self.to[0] {
            core.flush(self.fast, Step::Commit, out);
        }
        if self.to[1] {
            self.slow_was_flushed |=
                core.is_unflushed_by_host(self.slow) && !mutation::is(Mutation::ForgetSlowWasFlushed);
            core.flush(self.slow, Step::Commit, out);
        }
        self.copies()
    }

    fn is_durable(&mut self, core: &mut Core, batch: &Batch) {
        if !batch.updates.is_empty() {
            self.told = self.telling;
            self.ring.take(self.ring.span(commit_bytes(batch.updates.len() as u64)));
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
    }

    /// The next commit has the same number. Which of the updates was homebound is forgotten, so it flushes the slow
    /// device.
    fn is_taken_back(&mut self, core: &mut Core, why: Setback) {
        self.wanted_all = true;
        // A commit that fencing has interrupted is not to wait.
        if why == Setback::Failure && self.bar == Bar::Open {
            self.pause(core);
        }
    }
}

//! What the commits of a map record: updates are gathered, and made durable together in an order that never lets the map
//! point to data that is not there, nor a place be reused while the durable map still points to it.
//!
//! The order itself is that of every group commit (`crate::journal`). The journal is a ring, as a rule the same on both
//! devices; when half of it is used, the whole map as it is durable is written out as a checkpoint, again on both, so that
//! either can tell what was where. The part of the ring that a checkpoint covers is free after that.

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

use crate::{
    api::command::{Buffer, Cause, Commands, DeviceId},
    cache::map::extent::Place,
    cache::step::{CacheCommand, CacheIo, CacheStep},
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
    /// The host discarded it: the device may discard it, too.
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
pub(crate) struct MapBatch {
    updates: Vec<Update>,
    pub(in crate::cache) freed: Vec<Freed>,
    pub(in crate::cache) waiters: Vec<Waiter>,
    /// When its first update came.
    since: Option<Nanos>,
}

impl MapBatch {
    /// Drops updates that a later one of the same extent overtook.
    fn keep_the_latest(&mut self) {
        let mut seen = FxHashSet::default();
        self.updates.reverse();
        self.updates.retain(|update| seen.insert(update.extent));
        self.updates.reverse();
    }
}

impl journal::Batch for MapBatch {
    fn append(&mut self, later: &mut MapBatch) {
        self.updates.append(&mut later.updates);
        self.freed.append(&mut later.freed);
        self.waiters.append(&mut later.waiters);
        self.since = match (self.since, later.since.take()) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
    }

    fn clear(&mut self) {
        self.updates.clear();
        self.freed.clear();
        self.waiters.clear();
        self.since = None;
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
pub(in crate::cache) enum Bar {
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
pub(crate) struct MapJournal {
    pub(in crate::cache) group: Group<MapBatch>,
    pub(in crate::cache) ring: Ring,
    pub(in crate::cache) layout: MetadataLayout,
    pub(in crate::cache) fast: DeviceId,
    pub(in crate::cache) slow: DeviceId,
    /// How many entries the map has.
    pub(in crate::cache) entries: u32,
    pub(in crate::cache) durable: Option<Durable>,
    /// Updates that say that the slow device now has what the fast one had. They wait until the slow device is flushed,
    /// and a host flush alone does not flush it for them: until then the fast device keeps the data.
    pub(in crate::cache) awaiting_slow_flush: MapBatch,
    /// For each extent in `awaiting_slow_flush` its latest update of either kind: one that was overtaken must not be committed
    /// after the one that overtook it.
    pub(in crate::cache) latest: FxHashMap<u32, u64>,
    /// Which devices the commit under way goes to, the fast and the slow one, and what it tells the latter.
    pub(in crate::cache) to: [bool; 2],
    pub(in crate::cache) notifying: Notice,
    pub(in crate::cache) notified: Notice,
    pub(in crate::cache) bar: Bar,
    /// A flush of a journal block made something of the host's durable on the slow device: for the map to find it, the
    /// awaiting_slow_flush updates are due as if the host's flush had flushed that device.
    pub(in crate::cache) slow_was_flushed: bool,
    /// The next commit has to take the awaiting_slow_flush updates along.
    pub(in crate::cache) wanted_all: bool,
    /// Counts updates.
    pub(in crate::cache) sequence: u64,
    /// The number of the next commit, and how often it has been tried.
    pub(in crate::cache) next_commit: u64,
    pub(in crate::cache) attempt: u32,
    pub(in crate::cache) last_commit: u64,
    pub(in crate::cache) checkpoint: Option<journal::Checkpoint<CheckpointHeader>>,
    /// The number of the last checkpoint.
    pub(in crate::cache) checkpoint_number: u64,
}

impl MapJournal {
    pub(crate) fn new(layout: MetadataLayout, [fast, slow]: [DeviceId; 2], entries: u32) -> MapJournal {
        MapJournal {
            group: Group::new(),
            ring: Ring::new(layout.journal_bytes),
            layout,
            fast,
            slow,
            entries,
            durable: None,
            awaiting_slow_flush: MapBatch::default(),
            latest: FxHashMap::default(),
            to: [true; 2],
            notifying: Notice::default(),
            notified: Notice::default(),
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
        self.notified = header.notice;
    }

    /// What the slow device's metadata is taken to say from the start.
    pub(crate) fn has_notified(&mut self, notified: Notice) {
        self.notified = notified;
    }

    /// The header of a checkpoint that is written now, with no commit under way.
    pub(crate) fn next_header(&self, mirrors: bool) -> CheckpointHeader {
        CheckpointHeader {
            notice: Notice { alone: !mirrors && self.group.alive == [true; 2], ..self.notified },
            number: self.checkpoint_number + 1,
            last_commit: self.last_commit,
            first_commit: self.next_commit,
            journal_at: self.ring.next(),
            entries: self.entries,
        }
    }

    /// The map has changed. `awaiting_slow_flush`: because the slow device has the extent's data now.
    #[inline]
    pub(crate) fn update(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        extent: u32,
        entry: MapEntry,
        awaiting_slow_flush: bool,
    ) {
        self.sequence += 1;
        let update = Update { extent, entry, sequence: self.sequence };
        let batch = if awaiting_slow_flush {
            self.latest.insert(extent, self.sequence);
            &mut self.awaiting_slow_flush
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
            io.due(now.saturating_add(io.tuning.commit_interval));
        }
    }

    /// The map no longer points to this place.
    #[inline]
    pub(crate) fn free(&mut self, freed: Freed, awaiting_slow_flush: bool) {
        let batch = if awaiting_slow_flush { &mut self.awaiting_slow_flush } else { &mut self.group.gathering };
        batch.freed.push(freed);
    }

    /// Whether an update waits which says that the slow device has the extent's data.
    #[inline]
    pub(crate) fn awaits_slow_flush(&self, extent: u32) -> bool {
        self.latest.contains_key(&extent)
    }

    /// The next commit takes the awaiting_slow_flush updates along, whatever it is for.
    pub(crate) fn takes_all_next(&mut self) {
        self.wanted_all = true;
    }

    /// Freed places that are not yet free for reuse.
    pub(crate) fn pending_free(&self) -> impl Iterator<Item = &Freed> {
        self.group.gathering.freed.iter().chain(&self.awaiting_slow_flush.freed).chain(&self.group.committing.freed)
    }

    /// Freed places that the next commit can free.
    pub(crate) fn waiting(&self) -> usize {
        self.group.gathering.freed.len() + self.awaiting_slow_flush.freed.len()
    }

    /// Takes the batch of a commit that is over, for its allocations.
    pub(in crate::cache) fn recycle(&mut self, batch: MapBatch) {
        self.group.recycle(batch);
    }

    pub(crate) fn has_pending_free(&self) -> bool {
        self.waiting() > 0 || !self.group.committing.freed.is_empty()
    }

    /// Whether the next commit should not wait: a block is full.
    pub(crate) fn block_is_full(&self) -> bool {
        (self.group.gathering.updates.len() + self.awaiting_slow_flush.updates.len()) as u64 >= RECORDS_PER_BLOCK
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
    pub(in crate::cache) fn is_held(&self, io: &CacheIo) -> bool {
        self.bar != Bar::Open || self.group.is_paused(io.now)
    }

    /// Joins the next commit.
    pub(crate) fn wait(&mut self, waiter: Waiter) {
        self.group.gathering.waiters.push(waiter);
    }

    /// Commits what has been gathered, now or right after the commit under way: with `all`, the awaiting_slow_flush updates too.
    pub(crate) fn commit(&mut self, io: &mut CacheIo, all: bool, out: &mut Commands) -> Option<Outcome<MapBatch>> {
        self.wanted_all |= all;
        if !self.group.is_idle() || self.ring_is_full() || self.is_held(io) {
            self.group.wanted |= !self.group.is_paused(io.now);
            // A checkpoint that failed is tried again when its room is needed.
            self.checkpoint_if_needed(io, out);
            return None;
        }
        self.group.wanted = false;
        self.start(io, out)
    }

    /// Settles which devices the commit under way goes to. The slow one is notified before commits begin to be on the fast
    /// one alone, and before one of those says that something on the fast device is newer than its home.
    pub(in crate::cache) fn address(&mut self, mirrors: bool) {
        self.notifying = self.notified;
        self.to = self.group.alive;
        if self.group.alive != [true; 2] {
            return;
        }
        self.notifying.home &=
            !self.group.committing.updates.iter().any(|update| update.entry.is_dirty() || update.entry.is_lost());
        self.notifying.alone |= !mirrors;
        // A checkpoint under way was begun with the settings of then: once its header is there, what the slow device was notified of
        // before counts no longer.
        let unsaid = |checkpoint: &journal::Checkpoint<CheckpointHeader>| {
            self.notifying.alone && !checkpoint.header.notice.alone
        };
        self.to[1] = mirrors || self.notifying != self.notified || self.checkpoint.as_ref().is_some_and(unsaid);
    }

    pub(in crate::cache) fn copies(&self) -> u32 {
        self.to.into_iter().map(u32::from).sum()
    }

    /// Whether the ring has no room until a checkpoint is done.
    pub(in crate::cache) fn ring_is_full(&self) -> bool {
        let len = commit_bytes((self.group.gathering.updates.len() + self.awaiting_slow_flush.updates.len()) as u64);
        self.ring.used() > 0 && !self.ring.has_room(self.ring.span(len))
    }

    /// Whether another commit has to follow at once.
    pub(crate) fn commit_again(&self, io: &CacheIo) -> bool {
        self.group.is_idle()
            && !self.ring_is_full()
            && !self.is_held(io)
            && (self.group.wanted || !self.group.gathering.waiters.is_empty())
    }

    /// Whether the oldest gathered update has waited long enough, or a commit that failed may be tried again; otherwise
    /// declares when.
    pub(crate) fn commit_is_due(&mut self, io: &mut CacheIo) -> bool {
        if let Some(due) = self.group.retry_is_due(io) {
            return due;
        }
        let since = [self.group.gathering.since, self.awaiting_slow_flush.since].into_iter().flatten().min();
        since.is_some_and(|since| Group::<MapBatch>::is_due(io, since))
    }

    pub(in crate::cache) fn target(&self) -> Target {
        Target { devices: [self.fast, self.slow], alive: self.group.alive }
    }

    // What goes to the devices.

    /// Encodes what a command in flight writes. Entries of a checkpoint are those of now: the commits that they are ahead
    /// of its header are in the journal after it.
    pub(crate) fn encode(&self, command: &CacheCommand, step: CacheStep, into: &mut [u8]) {
        let durable = self.durable.as_ref().expect("only a volume that was opened from its devices is encoded");
        match step {
            CacheStep::Commit => {
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
                        notice: self.notifying,
                    },
                    durable.volume,
                    into,
                );
            }
            CacheStep::Checkpoint => {
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

impl Commits for MapJournal {
    type Step = CacheStep;
    type Batch = MapBatch;

    fn group(&mut self) -> &mut Group<MapBatch> {
        &mut self.group
    }

    /// Data before map: what the updates point to must be durable before they are.
    fn flush_before(&mut self, io: &mut CacheIo, out: &mut Commands) -> u32 {
        let alive = self.group.alive;
        let flushes_slow =
            self.wanted_all || self.slow_was_flushed || alive != [true; 2] || io.is_unflushed_by_host(self.slow);
        if flushes_slow || mutation::is(Mutation::HomeboundUnflushed) {
            let latest = &self.latest;
            if !mutation::is(Mutation::KeepOvertaken) {
                self.awaiting_slow_flush.updates.retain(|update| latest.get(&update.extent) == Some(&update.sequence));
            }
            self.latest.clear();
            journal::Batch::append(&mut self.group.committing, &mut self.awaiting_slow_flush);
            (self.wanted_all, self.slow_was_flushed) = (false, false);
        }
        if commit_bytes(self.group.committing.updates.len() as u64) * 4 > self.layout.journal_bytes {
            self.group.committing.keep_the_latest();
        }
        let flushes_slow = flushes_slow && alive[1] && !mutation::is(Mutation::SkipSlowDataFlush);
        let flushes_fast = alive[0] && !mutation::is(Mutation::SkipFastDataFlush);
        let left = u32::from(flushes_fast && io.flush_if_needed(self.fast, CacheStep::Commit, out));
        left + u32::from(flushes_slow && io.flush_if_needed(self.slow, CacheStep::Commit, out))
    }

    fn write_record(&mut self, io: &mut CacheIo, out: &mut Commands) -> Written {
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
        self.address(io.tuning.mirror_journal);
        for (device, to) in [self.fast, self.slow].into_iter().zip(self.to) {
            if to {
                let place = (device, self.layout.journal_at(span.at));
                io.write(place, Bytes(len), Buffer::Metadata, CacheStep::Commit, Cause::Metadata, out);
            }
        }
        Written::InFlight(self.copies())
    }

    fn flush_after(&mut self, io: &mut CacheIo, out: &mut Commands) -> u32 {
        if mutation::is(Mutation::SkipJournalFlush) {
            return 0;
        }
        if self.to[0] {
            io.flush(self.fast, CacheStep::Commit, out);
        }
        if self.to[1] {
            self.slow_was_flushed |=
                io.is_unflushed_by_host(self.slow) && !mutation::is(Mutation::ForgetSlowWasFlushed);
            io.flush(self.slow, CacheStep::Commit, out);
        }
        self.copies()
    }

    fn is_durable(&mut self, io: &mut CacheIo, batch: &MapBatch) {
        if !batch.updates.is_empty() {
            self.notified = self.notifying;
            self.ring.take(self.ring.span(commit_bytes(batch.updates.len() as u64)));
            self.last_commit = self.next_commit;
            self.next_commit += 1;
            self.attempt = 0;
            io.stats.commits += 1;
            io.stats.map_updates += batch.updates.len() as u64;
        }
        if let Some(durable) = &mut self.durable {
            for update in &batch.updates {
                durable.image[update.extent as usize] = update.entry;
            }
        }
    }

    /// The next commit has the same number. Which of the updates was awaiting_slow_flush is forgotten, so it flushes the slow
    /// device.
    fn is_taken_back(&mut self, io: &mut CacheIo, why: Setback) {
        self.wanted_all = true;
        // A commit that fencing has interrupted is not to wait.
        if why == Setback::Failure && self.bar == Bar::Open {
            self.pause(io);
        }
    }
}

//! The commits of a map. Updates are gathered and made durable together. The order ensures that the durable map never
//! points to data that is not there, and that no place is reused while the durable map still points to it.
//!
//! The order of the steps is that of every group commit (`crate::journal`). The journal is a ring, as a rule with the
//! same content on both devices. When half of it is used, what has changed of the durable map is written out as a checkpoint, again
//! on both devices, so that each device alone can say where everything was. The part of the ring that a checkpoint
//! covers is free after that.

use peryton_format::{
    block::BLOCK,
    blocks::Masks,
    checkpoint::{CheckpointHeader, Contents, Shape},
    entry::MapEntry,
    journal::{CommitLabel, MapRecord, encode, name_regions},
    layout::MetadataLayout,
    map,
    mutation::{self, Mutation},
    notice::Notice,
    superblock::VolumeId,
};
use peryton_units::Bytes;
use rustc_hash::FxHashMap;

use crate::{
    api::command::{Buffer, Cause, DeviceId},
    api::config::{Journal, Tuning},
    cache::journal::batch::{Freed, MapBatch, Update, Waiter},
    cache::journal::checkpoint_blocks::CheckpointBlocks,
    cache::journal::names::Names,
    cache::journal::preflush::{Needs, Preflush},
    cache::map::extent::Place,
    cache::step::{CacheCall, CacheCommand, CacheIo, CacheStep},
    journal::{self, Commits, Group, Outcome, Ring, Setback, Target, Written},
};

/// This many blocks of updates are committed together, at least, unless something waits for them or the commit interval is over. The slow
/// device has then one write and one flush for all of them.
const FULL_COMMIT_BLOCKS: u64 = 8;
/// Such a commit takes no more than one in this many parts of the journal.
const FULL_COMMIT_PART: u64 = 8;

/// The number of updates that are committed without waiting.
fn full_commit(layout: &MetadataLayout) -> usize {
    let blocks = (layout.journal_bytes / BLOCK / FULL_COMMIT_PART).clamp(1, FULL_COMMIT_BLOCKS);
    (blocks * layout.records_per_block()) as usize
}

/// The condition that commits wait for, because a device was fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum CommitHold {
    None,
    /// Commits wait until everything under way has ended and the survivor has the whole map.
    Draining,
    /// The survivor has the whole map; commits wait until its superblocks record the fencing.
    AwaitingSuperblocks,
}

/// The durable state of the volume; a simulated drive has none.
#[derive(Debug)]
pub(crate) struct Durable {
    pub(crate) volume: VolumeId,
    pub(crate) image: Vec<MapEntry>,
    /// The masks of each place of the fast device, if places have masks.
    pub(crate) masks: Vec<Masks>,
}

impl Durable {
    /// The durable state of an extent: its entry, and the masks of the place that the entry names.
    pub(in crate::cache) fn of(&self, extent: u32) -> (MapEntry, Masks) {
        let entry = self.image[extent as usize];
        (entry, map::masks_of(entry, &self.masks))
    }
}

/// What is known of an extent with updates that wait for a flush of the slow device.
#[derive(Clone, Copy, Debug)]
pub(in crate::cache) struct Awaiting {
    /// The number of its latest update of either kind: an update must not be committed after a later one that replaced it.
    latest: u64,
    /// Where it was after the latest of those that wait.
    place: Option<Place>,
    /// Whether one of those before had it elsewhere.
    moved: bool,
}

#[derive(Debug)]
pub(crate) struct MapJournal {
    pub(in crate::cache) group: Group<MapBatch>,
    pub(in crate::cache) ring: Ring,
    pub(in crate::cache) layout: MetadataLayout,
    pub(in crate::cache) fast: DeviceId,
    pub(in crate::cache) slow: DeviceId,
    /// This many updates are committed without waiting for the commit interval.
    full_commit: usize,
    /// Number of entries of the map.
    pub(in crate::cache) entries: u32,
    has_origins: bool,
    pub(in crate::cache) durable: Option<Durable>,
    /// Updates which say that the slow device has data that the fast device had. They wait until the slow device is
    /// flushed. A host flush alone does not flush it for them, because the fast device keeps the data until then.
    pub(in crate::cache) awaiting_slow_flush: MapBatch,
    /// Extents of which an update in `awaiting_slow_flush` was dropped for a later one, which does not say that the slow device has their data.
    /// The map may say so, until the flush that the dropped one needed is done.
    pub(in crate::cache) superseded: Vec<u32>,
    /// The extents in `awaiting_slow_flush`.
    pub(in crate::cache) awaiting: FxHashMap<u32, Awaiting>,
    /// Whether the commit under way goes to the fast and to the slow device.
    pub(in crate::cache) to: [bool; 2],
    /// Whether the block of the commit under way is flushed on the slow device after it is written.
    postflush_slow: bool,
    /// The notice that the slow device records with the commit under way, and the one that it has recorded.
    pub(in crate::cache) notifying: Notice,
    pub(in crate::cache) notified: Notice,
    /// The regions that may be newer on the fast device, according to the slow device.
    pub(in crate::cache) names: Names,
    /// The regions that the commit under way names.
    naming: Vec<u32>,
    pub(in crate::cache) hold: CommitHold,
    /// Whether a flush of a journal block made host data on the slow device durable. The updates in
    /// `awaiting_slow_flush` that point to this data must then be in the next commit.
    pub(in crate::cache) slow_was_flushed: bool,
    /// The next commit must include the updates in `awaiting_slow_flush`: data would be at risk otherwise.
    pub(in crate::cache) must_flush_slow: bool,
    /// The next commit shall include the updates in `awaiting_slow_flush`: the places that they give up are needed.
    wants_all: bool,
    /// Caching without write-back: no copy was newer than its origin since the volume was opened, and none will be by a write.
    /// After a crash all copies are dropped then, so no flush of the host needs more than the slow device's.
    pub(in crate::cache) never_dirty: bool,
    /// Number of updates so far.
    sequence: u64,
    /// How many changes the host had been told of ([`Io::changes_answered`](crate::io::Io::changes_answered)) when the last commit began that
    /// made all of them durable, and when the one under way did.
    pub(in crate::cache) covered: u64,
    covering: u64,
    /// The origins were flushed for the host, and the map was not committed: what it has of copies may be older than what the host flushed.
    pub(in crate::cache) trails_origins: bool,
    /// A commit has called copies clean since the slow device was flushed last, so their origins may not be durable.
    pub(in crate::cache) clean_before_slow_flush: bool,
    /// The flushes under way are of the slow device too.
    flushes_origins: bool,
    /// The number of the next commit, and how often it has been tried.
    pub(in crate::cache) next_commit: u64,
    pub(in crate::cache) attempt: u32,
    pub(in crate::cache) last_commit: u64,
    /// A commit has become durable since the records for the next server said which is the last.
    is_settled: bool,
    /// The last commit that is durable on the slow device as well.
    pub(in crate::cache) last_on_slow: u64,
    pub(in crate::cache) checkpoint: Option<journal::Checkpoint<CheckpointHeader>>,
    /// The number of the last checkpoint.
    pub(in crate::cache) checkpoint_number: u64,
    /// The blocks that a checkpoint has to write.
    pub(in crate::cache) blocks: CheckpointBlocks,
}

impl MapJournal {
    /// `has_origins`: whether extents have an origin on the slow device.
    pub(crate) fn new(
        layout: MetadataLayout,
        [fast, slow]: [DeviceId; 2],
        (entries, has_origins): (u32, bool),
    ) -> MapJournal {
        MapJournal {
            has_origins,
            group: Group::new(),
            ring: Ring::new(layout.journal_bytes),
            full_commit: full_commit(&layout),
            layout,
            fast,
            slow,
            entries,
            durable: None,
            awaiting_slow_flush: MapBatch::default(),
            superseded: Vec::new(),
            awaiting: FxHashMap::default(),
            to: [true; 2],
            postflush_slow: true,
            notifying: Notice::default(),
            notified: Notice::default(),
            names: Names::new(entries, std::iter::empty()),
            naming: Vec::new(),
            hold: CommitHold::None,
            slow_was_flushed: false,
            must_flush_slow: false,
            wants_all: false,
            never_dirty: false,
            sequence: 0,
            covered: 0,
            covering: 0,
            trails_origins: false,
            clean_before_slow_flush: false,
            flushes_origins: false,
            next_commit: 1,
            attempt: 0,
            last_commit: 0,
            is_settled: false,
            last_on_slow: 0,
            checkpoint: None,
            checkpoint_number: 0,
            blocks: CheckpointBlocks::new(Shape { entries, masks: layout.masks }),
        }
    }

    /// Restores the state after the volume was opened: `header` is the newest checkpoint, which holds `durable`.
    pub(crate) fn resume(&mut self, durable: Durable, header: &CheckpointHeader) {
        let is_newer = |extent: &u32| {
            let (entry, masks) = durable.of(*extent);
            map::is_newer(entry, masks)
        };
        self.names = Names::new(self.entries, (0..durable.image.len() as u32).filter(is_newer));
        self.durable = Some(durable);
        self.next_commit = header.first_commit;
        (self.last_commit, self.last_on_slow) = (header.last_commit, header.last_commit);
        self.ring.resume(header.journal_at, 0);
        self.checkpoint_number = header.number;
        self.blocks.resume(header);
        self.notified = header.notice;
    }

    /// The number of the last durable commit, if that has changed since the last time.
    #[inline]
    pub(in crate::cache) fn take_settled(&mut self) -> Option<u64> {
        std::mem::take(&mut self.is_settled).then_some(self.last_commit)
    }

    /// Sets what the slow device's metadata records at the start.
    pub(crate) fn has_notified(&mut self, notified: Notice) {
        self.notified = notified;
    }

    /// Whether commits go to the slow device only where an extent of a further region becomes newer. Where extents have no origin, the slow device has
    /// to know where they are; and if there is one device, it has everything.
    pub(in crate::cache) fn names_newer(&self, tuning: &Tuning) -> bool {
        tuning.journal == Journal::Named && self.has_origins && self.group.alive == [true; 2]
    }

    /// Builds the header of a checkpoint that is written while no commit is under way.
    pub(crate) fn next_header(&self, tuning: &Tuning) -> CheckpointHeader {
        CheckpointHeader {
            notice: Notice { write_intent: self.names_newer(tuning), ..self.notified },
            number: self.checkpoint_number + 1,
            last_commit: self.last_commit,
            first_commit: self.next_commit,
            journal_at: self.ring.next(),
            entries: self.entries,
            layout: self.layout.number,
        }
    }

    /// Queues a map update: the state of all blocks of an extent. `awaiting_slow_flush`: it says that the slow device has the extent's data.
    ///
    /// If an update waits for the slow device's flush because it says that blocks are at their origin, a later one must not say so without
    /// that flush: it says that all blocks are newer than their origins, which is safe. If the extent is in another place by now, the
    /// blocks that are not there are nowhere else, so the next commit flushes the slow device.
    #[inline(always)]
    pub(crate) fn update(
        &mut self,
        io: &mut CacheIo,
        extent: u32,
        (mut entry, mut masks): (MapEntry, Masks),
        awaiting_slow_flush: bool,
    ) {
        self.sequence += 1;
        let batch = if awaiting_slow_flush {
            let moved = self.awaits_elsewhere(extent, entry.place());
            self.awaiting.insert(extent, Awaiting { latest: self.sequence, place: entry.place(), moved });
            &mut self.awaiting_slow_flush
        } else {
            if !self.awaiting.is_empty()
                && let Some(awaiting) = self.awaiting.get_mut(&extent)
            {
                awaiting.latest = self.sequence;
                if self.has_origins && entry.place().is_some() && !mutation::is(Mutation::CleanWithoutSlowFlush) {
                    if awaiting.place == entry.place() {
                        masks = masks.all_dirty();
                        entry = MapEntry::new(entry.place(), masks.dirty() != 0, entry.is_lost());
                    } else {
                        self.must_flush_slow = true;
                    }
                }
            }
            &mut self.group.gathering
        };
        batch.updates.push(Update { record: MapRecord { extent, entry, masks }, sequence: self.sequence });
        if batch.since.is_none() {
            batch.since = Some(io.now);
            io.due_in(io.tuning.commit_interval);
        }
    }

    /// Queues a place that the map no longer points to.
    #[inline]
    pub(crate) fn free(&mut self, freed: Freed, awaiting_slow_flush: bool) {
        let batch = if awaiting_slow_flush { &mut self.awaiting_slow_flush } else { &mut self.group.gathering };
        batch.freed.push(freed);
    }

    /// Whether an update that waits for a flush of the slow device has the extent in another place than this.
    pub(in crate::cache) fn awaits_elsewhere(&self, extent: u32, place: Option<Place>) -> bool {
        self.awaiting.get(&extent).is_some_and(|awaiting| awaiting.moved || awaiting.place != place)
    }

    /// Makes the next commit include the updates in `awaiting_slow_flush`.
    pub(crate) fn takes_all_next(&mut self) {
        self.must_flush_slow = true;
    }

    /// Freed places that may not be reused yet.
    pub(crate) fn pending_free(&self) -> impl Iterator<Item = &Freed> {
        self.group.gathering.freed.iter().chain(&self.awaiting_slow_flush.freed).chain(&self.group.committing.freed)
    }

    /// Number of freed places that the next commit can free.
    pub(crate) fn waiting(&self) -> usize {
        self.group.gathering.freed.len() + self.awaiting_slow_flush.freed.len()
    }

    pub(crate) fn has_pending_free(&self) -> bool {
        self.waiting() > 0 || !self.group.committing.freed.is_empty()
    }

    /// Whether so many updates are gathered that the next commit should not wait.
    #[inline]
    pub(crate) fn commit_is_full(&self) -> bool {
        self.group.gathering.updates.len() + self.awaiting_slow_flush.updates.len() >= self.full_commit
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
        self.hold != CommitHold::None || self.group.is_paused(io.now)
    }

    /// Adds a waiter to the next commit.
    pub(crate) fn wait(&mut self, waiter: Waiter) {
        self.group.gathering.waiters.push(waiter);
    }

    /// Commits the gathered changes, now or right after the commit under way. `all`: also the updates in
    /// `awaiting_slow_flush`.
    pub(crate) fn commit(&mut self, io: &mut CacheCall, all: bool) -> Option<Outcome<MapBatch>> {
        self.wants_all |= all;
        if !self.group.is_idle() || self.ring_is_full() || self.is_held(io) {
            self.group.wanted |= !self.group.is_paused(io.now);
            // If a checkpoint failed, this is when it is tried again: its room is needed.
            self.checkpoint_if_needed(io);
            return None;
        }
        self.group.wanted = false;
        self.start(io)
    }

    /// Drops the updates in `awaiting_slow_flush` that a later one replaced.
    fn drop_superseded(&mut self) {
        if mutation::is(Mutation::KeepOvertaken) {
            return;
        }
        let MapJournal { awaiting, superseded, .. } = self;
        self.awaiting_slow_flush.updates.retain(|update| {
            let extent = update.record.extent;
            let stays = awaiting.get(&extent).is_some_and(|awaiting| awaiting.latest == update.sequence);
            if !stays {
                superseded.push(extent);
            }
            stays
        });
    }

    /// Leaves what has no room even in an empty ring to the next commit.
    fn take_what_has_room(&mut self) {
        let most = (self.ring.longest() / BLOCK * self.layout.records_per_block()) as usize;
        let group = &mut self.group;
        if group.committing.updates.len() > most && !mutation::is(Mutation::CommitAllOrNothing) {
            group.committing.leave_after(most, &mut group.gathering);
            // The remaining updates may need the flush of the slow device that this commit had.
            (self.must_flush_slow, group.wanted) = (true, true);
            // They may be changes that were answered.
            self.covering = self.covered;
        }
    }

    /// Chooses the devices that the commit under way goes to. The slow device must record that commits go to the fast device alone
    /// before the first of them does, and before such a commit says that data on the fast device is newer than its origin.
    pub(in crate::cache) fn choose_targets(&mut self, tuning: &Tuning) {
        self.notifying = self.notified;
        self.to = self.group.alive;
        if self.group.alive != [true; 2] {
            return;
        }
        let names_newer = self.names_newer(tuning);
        self.notifying.slow_current &= !self.group.committing.updates.iter().any(|update| update.newer().1);
        self.notifying.write_intent |= names_newer;
        // A checkpoint under way has the settings of its start. Once its header is written, it replaces what the slow
        // device recorded before.
        let unsaid = |checkpoint: &journal::Checkpoint<CheckpointHeader>| {
            self.notifying.write_intent && !checkpoint.header.notice.write_intent
        };
        let updates = || self.group.committing.updates.iter().map(Update::newer);
        // The slow device may have a part of a failed commit that the next attempt replaces.
        let names = || self.attempt > 1 || !self.names.cover(updates());
        self.to[1] = !names_newer
            || self.notifying != self.notified
            || self.checkpoint.as_ref().is_some_and(unsaid)
            || !mutation::is(Mutation::NameNothing) && names();
        self.naming.clear();
        if self.to[1] && names_newer {
            let updates = self.group.committing.updates.iter().map(Update::newer);
            let room = self.layout.names_behind(updates.len() as u64);
            self.naming = self.names.choose(updates, room);
        }
    }

    /// Whether the commit under way has to be durable on the slow device too. While the slow device has all data, recovery does not need
    /// what the commit records about copies. Its flush, for which writes of the host would wait, is then left to the next flush of the host.
    fn slow_has_to_record(&self) -> bool {
        !self.never_dirty || self.must_flush_slow || self.notifying != self.notified || self.group.alive != [true; 2]
    }

    /// The number of devices that the commit under way goes to.
    pub(in crate::cache) fn target_count(&self) -> u32 {
        self.to.into_iter().map(u32::from).sum()
    }

    /// Whether the ring has no room until a checkpoint is done.
    pub(in crate::cache) fn ring_is_full(&self) -> bool {
        let len = self
            .layout
            .commit_bytes((self.group.gathering.updates.len() + self.awaiting_slow_flush.updates.len()) as u64);
        self.ring.used() > 0 && !self.ring.has_room(self.ring.span(len))
    }

    /// Whether another commit must follow immediately.
    pub(crate) fn commit_again(&self, io: &CacheIo) -> bool {
        self.group.is_idle()
            && !self.ring_is_full()
            && !self.is_held(io)
            && (self.group.wanted || !self.group.gathering.waiters.is_empty())
    }

    /// Whether the oldest gathered update has waited for the commit interval, or a failed commit may be tried again; if
    /// not, asks to be called when that is so.
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

    // Encoding.

    /// Encodes the data of a write command in flight. A checkpoint's entries are the current ones: the commits by which
    /// they are newer than its header are in the journal after it.
    pub(crate) fn encode(&self, command: &CacheCommand, step: CacheStep, into: &mut [u8]) {
        let durable = self.durable.as_ref().expect("only a volume that was opened from its devices is encoded");
        match step {
            CacheStep::Commit => {
                let updates = &self.group.committing.updates;
                let mut records: Vec<_> = updates.iter().map(|update| update.record).collect();
                if mutation::is(Mutation::MirrorWrongCopy) && command.device == self.slow {
                    let last = records.len() - 1;
                    records[last].entry = MapEntry::default();
                }
                let label = CommitLabel {
                    number: self.next_commit,
                    attempt: self.attempt,
                    // Otherwise recovery must not expect the commit on the slow device.
                    mirrored: self.to == [true; 2] && self.postflush_slow,
                    notice: self.notifying,
                };
                encode(records.into_iter(), &label, (&self.layout, durable.volume), into);
                if !mutation::is(Mutation::NameNoRegions) {
                    name_regions(&self.naming, durable.volume, into);
                }
            }
            CacheStep::Checkpoint => {
                let checkpoint = self.checkpoint.as_ref().expect("a checkpoint is under way");
                let header = &checkpoint.header;
                let within = command.at.0 - self.layout.checkpoint_at(header.which()).0;
                let Durable { volume, image, masks } = durable;
                match within {
                    0 => header.encode(*volume, into),
                    _ => Contents { entries: image, masks, numbers: self.blocks.numbers(header) }.encode(
                        header.number,
                        within,
                        *volume,
                        into,
                    ),
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

    /// Flushes data before the map: what the updates point to must be durable before the updates are.
    fn preflush(&mut self, io: &mut CacheCall) -> u32 {
        let alive = self.group.alive;
        let preflush = Needs {
            never_dirty: self.never_dirty,
            must_flush_slow: self.must_flush_slow,
            wants_all: std::mem::take(&mut self.wants_all),
            slow_was_flushed: self.slow_was_flushed,
            slow_is_unflushed: io.is_unflushed_by_host(self.slow),
            degraded: alive != [true; 2],
            host_flushes: self.group.committing.host_flushes(),
        }
        .preflush();
        if preflush == Preflush::OriginsAlone {
            self.group.committing.leave_map_to(&mut self.group.gathering);
            (self.slow_was_flushed, self.trails_origins) = (true, true);
            self.covering = io.changes_answered();
            self.flushes_origins = true;
            let flushes = !mutation::is(Mutation::SkipSlowDataFlush);
            return u32::from(flushes && io.flush_if_needed(self.slow, CacheStep::Commit));
        }
        let preflush_slow = preflush == Preflush::Both;
        if preflush != Preflush::Fast || mutation::is(Mutation::CommitWithoutSlowFlush) {
            self.drop_superseded();
            self.awaiting.clear();
            journal::Batch::append(&mut self.group.committing, &mut self.awaiting_slow_flush);
            (self.must_flush_slow, self.slow_was_flushed) = (false, false);
        }
        if self.group.committing.updates.len() as u64 > self.layout.records_per_block() {
            self.group.committing.keep_the_latest();
        }
        self.flushes_origins = preflush_slow;
        self.clean_before_slow_flush |= preflush == Preflush::FastWithAll;
        // Without the slow device's flush, writes of the host to it are not durable.
        self.covering = if preflush == Preflush::FastWithAll { self.covered } else { io.changes_answered() };
        let preflush_slow = preflush_slow && alive[1] && !mutation::is(Mutation::SkipSlowDataFlush);
        let preflush_fast = alive[0] && !mutation::is(Mutation::SkipFastDataFlush);
        let left = u32::from(preflush_fast && io.flush_if_needed(self.fast, CacheStep::Commit));
        left + u32::from(preflush_slow && io.flush_if_needed(self.slow, CacheStep::Commit))
    }

    fn on_preflushed(&mut self) {
        self.clean_before_slow_flush &= !self.flushes_origins;
        self.superseded.clear();
    }

    fn write_record(&mut self, io: &mut CacheCall) -> Written {
        if self.group.committing.updates.is_empty() {
            return Written::Nothing;
        }
        if self.ring.used() == 0 {
            self.take_what_has_room();
        }
        let len = self.layout.commit_bytes(self.group.committing.updates.len() as u64);
        let span = self.ring.span(len);
        if !self.ring.has_room(span) {
            // The gathered updates exceed the room that is left before the next checkpoint, so the checkpoint must come
            // first.
            return Written::NoRoom;
        }
        self.attempt += 1;
        self.choose_targets(&io.tuning);
        self.postflush_slow = self.to[1] && self.slow_has_to_record();
        for (device, to) in [self.fast, self.slow].into_iter().zip(self.to) {
            if to {
                let place = (device, self.layout.journal_at(span.at));
                io.write(place, Bytes(len), Buffer::Metadata, CacheStep::Commit, Cause::Metadata);
            }
        }
        Written::InFlight(self.target_count())
    }

    fn postflush(&mut self, io: &mut CacheCall) -> u32 {
        if mutation::is(Mutation::SkipJournalFlush) {
            return 0;
        }
        if self.to[0] {
            io.flush(self.fast, CacheStep::Commit);
        }
        if self.postflush_slow {
            self.slow_was_flushed |=
                io.is_unflushed_by_host(self.slow) && !mutation::is(Mutation::ForgetSlowWasFlushed);
            io.flush(self.slow, CacheStep::Commit);
        }
        u32::from(self.to[0]) + u32::from(self.postflush_slow)
    }

    fn on_durable(&mut self, io: &mut CacheIo, batch: &MapBatch) {
        self.covered = self.covering;
        if !batch.updates.is_empty() {
            // A commit may have left a part of its updates to the next one.
            self.trails_origins &= !self.group.gathering.updates.is_empty();
            let updates = batch.updates.iter().map(Update::newer);
            self.names.are_durable(updates, self.postflush_slow.then_some(&self.naming));
            self.notified = self.notifying;
            self.ring.take(self.ring.span(self.layout.commit_bytes(batch.updates.len() as u64)));
            self.last_commit = self.next_commit;
            self.is_settled = true;
            if self.postflush_slow {
                self.last_on_slow = self.next_commit;
            }
            self.next_commit += 1;
            self.attempt = 0;
            batch.updates.iter().for_each(|update| self.blocks.change(&update.record));
            io.stats.commits += 1;
            io.stats.map_updates += batch.updates.len() as u64;
        }
        if let Some(durable) = &mut self.durable {
            for update in &batch.updates {
                update.record.apply(&mut durable.image, &mut durable.masks).expect("the map has the extent");
            }
        }
    }

    /// Keeps the number of the commit for the next attempt. That attempt flushes the slow device, because the batch no
    /// longer records which of its updates needed that.
    fn on_taken_back(&mut self, io: &mut CacheIo, why: Setback) {
        self.must_flush_slow = true;
        // A commit that fencing interrupted is repeated without a pause.
        if why == Setback::Failure && self.hold == CommitHold::None {
            self.pause(io);
        }
    }
}

//! What the cache does after a device has failed a flush. Everything that was written to the device since its last
//! successful flush may be lost, and the device reports this only once: its next flush succeeds without the data. The
//! slow device of a cache that dies takes everything with it: an extent that was written back to it is in doubt in the same way,
//! as long as no commit has given up its copy.
//!
//! The data that the durable map points to are still there, because a place is not free for reuse before the commit that
//! gave it up is durable. An extent is in doubt if the map has moved it since the last successful flush, or calls it clean
//! because of a write since then. The engine returns it to a state whose data are durable. Which state that is depends on
//! the placement, on the device that failed the flush, and on the extent:
//!
//! ```text
//! tiering, the extent is on that device: its durable place (none, if it has none yet)
//! ```
//!
//! Where the slow device has died, what only it had is lost: a copy counts again only if nothing went past it since.
//!
//! In caching this is decided for each block:
//!
//! ```text
//! the slow device failed:    the copy is at least as new as the origin, so each of its blocks becomes dirty (if no copy was ever
//!                            dirty, the copy is dropped); blocks that the slot has given up, and that the durable map calls
//!                            dirty there, come back
//! the fast device failed:    only blocks that the durable map calls dirty in the same slot stay; of the others, those are lost
//!                            that the durable map calls lost and that were not written back since
//! both devices failed:       only blocks that the durable map calls dirty stay
//! ```
//!
//! Data that the host wrote in place since its own last flush may have no other copy. The host learns of that loss because
//! a flush of its fails: one that waits now, or else its next one.
//!
//! Two lists say which extents are in doubt: the journal's updates, and the extents that were written through to both devices, of
//! which at most [`MOST_REMEMBERED`] are remembered. After commits that did not wait for the slow device's
//! flush, as those without write-back, every copy is in doubt if that flush fails.

use peryton_format::{
    blocks::Masks,
    entry::MapEntry,
    mutation::{self, Mutation},
};
use peryton_policy::ReplacementPolicy;
use rustc_hash::FxHashMap;

use crate::{
    api::command::DeviceId,
    api::config::WritePolicy,
    cache::access::{Mode, Release},
    cache::drive::CacheDrive,
    cache::interpret::State,
    cache::map::changed::NoRecord,
    cache::map::extent::Place,
    cache::movers::table::{Drained, Kind, Move, Phase},
    cache::step::{CacheCall, CacheIo},
};

/// The most writes to both devices that are remembered by extent. Beyond that number every clean copy counts as
/// written.
const MOST_REMEMBERED: usize = 4096;

/// The devices that may have lost data of an extent.
#[derive(Clone, Copy, Debug, Default)]
struct Doubt {
    fast: bool,
    slow: bool,
    /// A move was under way, which may have copied to the other device data that are now lost.
    moved: bool,
}

impl Doubt {
    /// Whether a write has replaced the data in doubt. Reads in flight may still return data from before the lost write.
    fn is_over(self) -> bool {
        !self.fast && !self.slow
    }
}

/// A write to both devices, with the stamp of each device at the time.
#[derive(Clone, Copy, Debug)]
struct WrittenThrough {
    extent: u32,
    stamps: [u64; 2],
}

/// The data that failed flushes have put in doubt.
#[derive(Debug, Default)]
pub(in crate::cache) struct Doubts {
    /// Extents in doubt. Each is settled once nothing is under way for it.
    extents: FxHashMap<u32, Doubt>,
    /// Whether data of the host may be lost, so that one of its flushes has to fail.
    notify_host: bool,
    /// Clean copies that were written and may not be durable.
    written: Vec<WrittenThrough>,
    /// The stamps of the latest write, once there are more writes than `written` remembers.
    more: Option<[u64; 2]>,
}

impl Doubts {
    #[inline]
    pub(in crate::cache) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    pub(in crate::cache) fn contains(&self, extent: u32) -> bool {
        self.extents.contains_key(&extent)
    }
}

impl CacheDrive {
    /// A write has reached the copy and the origin of an extent.
    pub(in crate::cache) fn wrote_through(&mut self, io: &CacheIo, extent: u32) {
        let devices = [self.layout.fast, self.layout.slow];
        let stamps = devices.map(|device| io.stamp(device));
        let is_durable =
            |stamps: [u64; 2]| devices.iter().zip(stamps).all(|(device, stamp)| io.is_flushed(*device, stamp));
        let Doubts { written, more, .. } = &mut self.doubts;
        if more.is_some_and(is_durable) {
            *more = None;
        }
        if more.is_some() {
            *more = Some(stamps);
            return;
        }
        if written.len() >= MOST_REMEMBERED {
            written.retain(|write| !is_durable(write.stamps));
            // A list that stays more than half full would be scanned too often, so it is given up instead.
            if written.len() > MOST_REMEMBERED / 2 {
                written.clear();
                *more = Some(stamps);
                return;
            }
        }
        written.push(WrittenThrough { extent, stamps });
    }

    /// A flush of the device has failed.
    #[cold]
    pub(in crate::cache) fn doubt(&mut self, io: &mut CacheIo, device: DeviceId) {
        if mutation::is(Mutation::TrustFailedFlush) {
            return;
        }
        let slow = device == self.layout.slow;
        let mut extents = self.journal.flush_failed(slow);
        io.in_doubt = true;
        self.doubts.notify_host |= io.take_host_doubt(device);
        self.moves_in_doubt(device, &mut extents);
        // Copies whose origin is gone stay.
        if self.mode == Mode::Caching && !self.gone.slow {
            self.copies_in_doubt(io, device, &mut extents);
        }
        if self.journal.durable.is_none() {
            // A simulated drive has no durable map to return to.
            extents.clear();
        }
        for extent in &extents {
            let doubt = self.doubts.extents.entry(*extent).or_default();
            doubt.slow |= slow;
            doubt.fast |= !slow;
        }
        for extent in extents {
            self.look_at_doubt(io, extent);
        }
        self.ready.move_ended();
    }

    /// Adds the extents whose copy and origin were written together, if one of the two writes may be lost.
    fn copies_in_doubt(&self, io: &CacheIo, device: DeviceId, extents: &mut Vec<u32>) {
        let which = usize::from(device == self.layout.slow);
        let Doubts { written, more, .. } = &self.doubts;
        let all = more.is_some_and(|stamps| !io.is_flushed(device, stamps[which]))
            || device == self.layout.slow && self.journal.clean_before_slow_flush;
        let unsure = written.iter().filter(|write| !io.is_flushed(device, write.stamps[which]));
        extents.extend(unsure.map(|write| write.extent));
        extents.extend(self.through_in_flight.iter().map(|write| self.through[*write].fragment.extent));
        if all {
            extents.extend(self.map.entries().filter(|(_, entry)| entry.place().is_some()).map(|(extent, _)| extent));
        }
    }

    /// Adds the extents that are being moved.
    fn moves_in_doubt(&self, device: DeviceId, extents: &mut Vec<u32>) {
        // A move has read data from before the loss, so its copy may differ from its source. Of blocks that are not
        // adjacent, some may have been written before the flush, and others may be under way.
        let may_differ = |row: &Move| match row.kind {
            Kind::Promotion | Kind::Fill => device == self.layout.slow || row.phase == Phase::Writing,
            // A write past the copy is already on the slow device, and the copy is about to be dropped.
            Kind::Drain(Drained::Stale) => device == self.layout.slow,
            Kind::WriteBack | Kind::Eviction => true,
            Kind::Demotion => device == self.layout.fast,
            _ => false,
        };
        let under_way = self
            .moves
            .all()
            .filter(|(index, row)| may_differ(row) && self.map.entry(row.extent).moving() == Some(*index));
        extents.extend(under_way.map(|(_, row)| row.extent));
    }

    /// Settles an extent if it is in doubt: now, or once its move and its accesses in flight have ended.
    #[cold]
    pub(in crate::cache) fn look_at_doubt(&mut self, io: &mut CacheIo, extent: u32) {
        let Some(doubt) = self.doubts.extents.get(&extent).copied() else { return };
        let entry = self.map.entry(extent);
        let Some(index) = entry.moving() else {
            let (sure, masks) = self.sure(io, extent, doubt);
            let is_sure = sure == entry.entry() && masks == self.map.masks_of(extent);
            if doubt.is_over() || is_sure && entry.in_flight == 0 {
                self.notify_of_copy_given_up(extent, doubt);
                self.end_doubt(extent);
                self.mark_lost(io, extent);
            } else if entry.in_flight > 0 {
                // This also applies if the entry stays the same. A read of the origin may have been in flight because
                // the copy could not be read; if the origin has lost that write, the read is repeated.
                self.start(Kind::Drain(Drained::Revert), Phase::Draining, extent, None, None);
            } else {
                self.settle_doubt(io, extent);
            }
            return;
        };
        let row = &mut self.moves[index];
        match row.kind {
            // The move waits for a commit, and the commit waits for this extent. No access is in flight.
            _ if row.phase == Phase::Committing => return self.settle_doubt(io, extent),
            // The move may have read data from before the loss; these must not be written to the origin.
            Kind::Eviction | Kind::WriteBack => row.is_void = true,
            // The data that the move reads are discarded, and no request is served from its buffer.
            Kind::Promotion | Kind::Fill if matches!(row.phase, Phase::Reading | Phase::Draining) => row.failed = true,
            Kind::Demotion => row.accessed = true,
            Kind::Drain(Drained::Revert) => return,
            _ => {}
        }
        // The extent is settled when the move ends.
        self.doubts.extents.entry(extent).or_default().moved = true;
    }

    /// Ends the doubt about an extent, and returns the doubt. Commits go on once no extent is in doubt.
    fn end_doubt(&mut self, extent: u32) -> Option<Doubt> {
        self.ready.move_ended();
        self.doubts.extents.remove(&extent)
    }

    /// Whether one of these extents is in doubt.
    #[cold]
    pub(in crate::cache) fn may_be_lost(&self, first: u32, count: u32) -> bool {
        !mutation::is(Mutation::ReadInDoubt) && (first..first + count).any(|extent| self.doubts.contains(extent))
    }

    /// The map entry of an extent whose data are sure to be durable, and the masks of its place if places have masks.
    fn sure(&self, io: &CacheIo, extent: u32, doubt: Doubt) -> (MapEntry, Masks) {
        match self.mode {
            Mode::Caching => self.sure_part(io, extent, doubt),
            Mode::Tiering => (self.sure_whole(extent, doubt), Masks::default()),
        }
    }

    /// Whether the cache writes back, or has done so since it was opened. Then the origin may have lost data that a flush had made durable on
    /// the fast device, so copies stay, even if the host's writes go to both devices now. Where no copy was ever dirty, the origin can lose
    /// only the host's own writes since its last flush, and the host is told.
    fn writes_origin(&self, io: &CacheIo) -> bool {
        let through = mutation::is(Mutation::DropCopiesOfThrough) || self.journal.never_dirty;
        io.tuning.write == WritePolicy::Back || self.controller.is_some() || !through
    }

    /// The blocks that the durable map calls dirty, and that are newer on the slow device by now. What the slow device has of
    /// them may never have been flushed there.
    pub(in crate::cache) fn blocks_outdated(&self, extent: u32) -> u16 {
        let Some(durable) = &self.journal.durable else { return 0 };
        let (entry, dirty) = (self.map.entry(extent), durable.of(extent).1.dirty());
        match entry.place() {
            Some(_) => dirty & !self.map.masks_of(extent).valid(),
            None if entry.is_outdated() => dirty,
            None => 0,
        }
    }

    /// Whether an extent is in another place than in the durable map.
    pub(in crate::cache) fn has_moved(&self, extent: u32) -> bool {
        let now = self.map.entry(extent).place();
        self.journal.durable.as_ref().is_some_and(|durable| durable.of(extent).0.place() != now)
    }

    fn sure_part(&self, io: &CacheIo, extent: u32, doubt: Doubt) -> (MapEntry, Masks) {
        let (now, masks) = (self.map.entry(extent).entry(), self.map.masks_of(extent));
        let (written, durable) = self.journal.durable.as_ref().map_or((now, masks), |durable| durable.of(extent));
        let entry = |place: Option<Place>, masks: Masks, lost: bool| {
            let place = place.filter(|_| !masks.is_empty());
            let durable = State { entry: MapEntry::new(place, masks.dirty() != 0, lost), masks };
            let State { entry, masks } = self.interpret(&self.recovery_rules(), durable);
            (entry, masks)
        };
        let same_place = written.place().is_some() && written.place() == now.place();
        // A block that only the place records as lost is not at the origin.
        let lost = if same_place { masks.lost() } else { durable.lost() };
        let back = Masks::new(durable.dirty() & !lost, durable.dirty() | lost);
        match (doubt.fast, doubt.slow) {
            // What a dead device alone had is lost. Data older than that are never read in its place.
            (false, true) if self.gone.slow && (now.place().is_some() || self.blocks_outdated(extent) != 0) => {
                entry(now.place(), Masks::new(masks.valid(), masks.valid() | masks.lost()), now.is_lost())
            }
            // A write has replaced the data in doubt.
            (false, false) => (now, masks),
            (true, true) => entry(written.place(), back, written.is_lost()),
            (false, true) if written.is_lost() => entry(written.place(), back, true),
            (false, true) if now.place().is_some() && (same_place || !written.is_dirty()) => {
                let stay = if self.writes_origin(io) { masks.valid() } else { 0 };
                // Blocks that the copy has given up since then are at the origin alone, and their write-back may be
                // lost there. Their place in the slot still has the old data.
                let given_up = if same_place { durable.dirty() & !masks.valid() & !masks.lost() } else { 0 };
                let given_up = if mutation::is(Mutation::LoseBlocksGivenUp) { 0 } else { given_up };
                let stay = stay | given_up;
                entry(now.place(), Masks::new(stay, stay | masks.lost()), now.is_lost())
            }
            (false, true) if written.is_dirty() => entry(written.place(), back, written.is_lost()),
            (false, true) => (now, masks),
            (true, false) if now.place().is_none() => (now, masks),
            (true, false) => {
                // Only blocks that the durable map calls dirty were flushed on this device. A write to both devices may
                // have overwritten blocks that the map calls clean, and their origin has the flushed data. The slow
                // device's next failure may lose data that were written back since the last commit.
                let stay = if same_place { masks.valid() & durable.dirty() } else { 0 };
                let stay = if mutation::is(Mutation::RevertNewCopies) { masks.dirty() } else { stay };
                // Blocks that were lost until this device had them have no valid origin. (A write that replaces a lost
                // extent is also written back before its answer, so this only matters if that write-back failed.)
                let were_lost = if written.is_lost() { u16::MAX } else { durable.lost() };
                let lost_again = masks.dirty() & !stay & were_lost;
                entry(now.place(), Masks::new(stay, stay | masks.lost() | lost_again), now.is_lost())
            }
        }
    }

    /// A copy that no commit called dirty was written back and given up. The write-back may be lost, and no record
    /// leads back to the copy.
    fn notify_of_copy_given_up(&mut self, extent: u32, doubt: Doubt) {
        let gave_up = self.map.entry(extent).place().is_none() || self.gave_up_part(extent);
        self.doubts.notify_host |= self.mode == Mode::Caching && doubt.slow && gave_up;
    }

    /// Whether an extent may have had blocks on the fast device since the last commit that are now at
    /// the origin alone: it was in another place, or blocks were given up in the same place.
    fn gave_up_part(&self, extent: u32) -> bool {
        let Some(blocks) = self.layout.blocks else { return false };
        let not_here = blocks.all & !self.map.masks_of(extent).valid();
        self.has_moved(extent) || not_here != 0 && !mutation::is(Mutation::ForgetBlocksGivenUp)
    }

    /// The durable map entry of an extent in doubt, for tiering (as [`CacheDrive::sure`]).
    fn sure_whole(&self, extent: u32, doubt: Doubt) -> MapEntry {
        let now = self.map.entry(extent).entry();
        let written = self.journal.durable.as_ref().map_or(now, |durable| durable.image[extent as usize]);
        let is_fast = |place: Place| self.layout.fast_slot(place).is_some();
        let here = now.place().is_some_and(|place| if is_fast(place) { doubt.fast } else { doubt.slow });
        let durable = State { entry: written, masks: Masks::default() };
        if here || doubt.moved { self.interpret(&self.recovery_rules(), durable).entry } else { now }
    }

    /// Changes the map entry of an extent in doubt to the one that is sure. Nothing may be under way for the extent.
    #[cold]
    pub(in crate::cache) fn settle_doubt(&mut self, io: &mut CacheIo, extent: u32) {
        let Some(doubt) = self.end_doubt(extent) else { return };
        self.return_to_sure(io, extent, doubt);
        self.mark_lost(io, extent);
    }

    fn return_to_sure(&mut self, io: &mut CacheIo, extent: u32, doubt: Doubt) {
        let gave_up_part = self.gave_up_part(extent);
        let (before, (sure, masks)) = (*self.map.entry(extent), self.sure(io, extent, doubt));
        if sure == before.entry() && masks == self.map.masks_of(extent) {
            return self.notify_of_copy_given_up(extent, doubt);
        }
        if sure.place() != before.place() {
            if let Some(place) = before.place() {
                self.map.set_clean(extent).and(self.map.unmap(extent)).needs_no_record(NoRecord::GivenUpNext);
                self.give_up(place, Release::Detached);
            }
            if let Some(place) = sure.place() {
                self.journal.reclaim(place);
                self.map.set_place(extent, Some(place)).needs_no_record(NoRecord::GivenUpNext);
                if let Some(slot) = self.layout.fast_slot(place) {
                    self.map.occupy(slot, extent);
                    self.policy.inserted(slot, extent, 1);
                }
            }
            // The place that is given up may have held the only copy of data that the host wrote.
            self.doubts.notify_host |=
                before.is_dirty() || doubt.slow || self.mode == Mode::Tiering || sure.place().is_some();
        }
        if self.mode == Mode::Caching {
            // Blocks that are given up may have been the only copy of data that the host wrote.
            let gives_up = sure.place() == before.place() && self.map.masks_of(extent).dirty() & !masks.dirty() != 0;
            self.doubts.notify_host |= gives_up || doubt.slow && (doubt.fast || gave_up_part);
            if sure.is_dirty() {
                self.set_never_dirty(false);
            }
            if sure.place().is_some() {
                self.map.set_masks(extent, masks, io.now).needs_no_record(NoRecord::GivenUpNext);
            }
        }
        let changed = self.map.set_lost(extent, sure.is_lost());
        self.record(io, changed, self.mode == Mode::Caching && sure.place().is_none());
        if sure.is_dirty() {
            io.due_in(io.tuning.writeback_delay);
        }
    }

    /// A write that passed the copy covers the whole extent, so it has replaced the data that were in doubt. The extent stays in
    /// doubt until the copy is dropped, because reads of the copy are still in flight.
    #[inline]
    pub(in crate::cache) fn past_is_sure(&mut self, index: u32, extent: u32) {
        let row = &mut self.moves[index];
        if row.kind == Kind::Drain(Drained::Revert) {
            row.kind = Kind::Drain(Drained::Stale);
            if let Some(doubt) = self.doubts.extents.get_mut(&extent) {
                *doubt = Doubt::default();
            }
        }
    }

    /// Once no extent is in doubt: fails a flush of the host if data of the host may be lost, and resumes commits.
    #[cold]
    pub(in crate::cache) fn go_on_after_doubts(&mut self, io: &mut CacheCall) {
        if !self.journal.in_doubt || !self.doubts.is_empty() {
            return;
        }
        let notify_host = std::mem::take(&mut self.doubts.notify_host) && !mutation::is(Mutation::KeepFailedFlush);
        self.journal.doubts_are_settled(io);
        io.in_doubt = io.owes_error;
        if notify_host {
            // A write that arrived after the failed flush may have written to a place that was given up only now.
            io.doubt_writes();
            if !self.flushes_fail(io) {
                io.owe_error();
            }
        }
        if self.journal.commit_again(io) {
            self.ready.commit();
        }
    }

    /// Fails the flushes of the host that wait. Returns whether there were any.
    #[cold]
    pub(in crate::cache) fn flushes_fail(&mut self, io: &mut CacheCall) -> bool {
        let mut flushes = self.journal.group.take_flushes();
        flushes.extend(std::mem::take(&mut self.flushes).into_iter().map(|(request, _)| request));
        let fails = !flushes.is_empty();
        for request in flushes {
            io.flush_fails(request);
        }
        fails
    }
}

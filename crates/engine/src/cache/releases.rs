//! Changes of the map with what follows from them for the journal and the policy: entries are noted for the next commit, slots are given
//! out, and places are given up.

use peryton_format::{
    blocks::Masks,
    mutation::{self, Mutation},
};
use peryton_policy::{ReplacementPolicy, replacement::SlotIndex};
use peryton_units::{Bytes, Op};

use crate::{
    cache::access::{Mode, Release},
    cache::drive::CacheDrive,
    cache::journal::batch::Freed,
    cache::map::changed::NoRecord,
    cache::map::extent::{Loss, Place},
    cache::step::{CacheCommand, CacheIo},
};

impl CacheDrive {
    /// Gives up a slot: immediately if the durable map never pointed to it, otherwise after the next commit.
    pub(in crate::cache) fn release_slot(&mut self, slot: SlotIndex, why: Release) {
        let extent = self.map.tenant(slot).expect("only a slot in use is released");
        let evicted = why == Release::Evicted;
        self.policy.removed(slot, extent, evicted);
        self.map.vacate(slot);
        self.release_place(Place(slot.0), why);
    }

    /// Gives up a place on either device.
    pub(in crate::cache) fn give_up(&mut self, place: Place, why: Release) {
        match self.layout.fast_slot(place) {
            Some(slot) => self.release_slot(slot, why),
            None => self.release_place(place, why),
        }
    }

    pub(in crate::cache) fn release_place(&mut self, place: Place, why: Release) {
        self.map.set_stale(place, true);
        match why {
            Release::NeverUsed => self.map.free(place),
            _ if mutation::is(Mutation::ReuseBeforeCommit) => self.map.free(place),
            why => {
                // A copy in a cache may be given up only when its origin is durable, and a demoted extent's old place
                // only when its new place is durable. A place on the slow device that is given up for one on the fast
                // device needs no flush of the slow device.
                let awaiting_slow_flush = self.mode == Mode::Caching || why == Release::Evicted;
                // MixedStore discards unneeded places on the flash (section 5.3).
                let discarded = why == Release::Discarded || self.controller.is_some();
                self.journal.free(Freed { place, discarded }, awaiting_slow_flush);
            }
        }
    }

    /// Number of fast extents that are free, or will be when the moves under way are done. After a crash a cache can
    /// hold more extents than it may use: a commit that did not flush the slow device recorded promotions, but not the
    /// evictions before them.
    pub(in crate::cache) fn free_soon(&self) -> u32 {
        (self.map.usable() + self.demoting).saturating_sub(self.map.resident())
    }

    /// Drops a clean copy; its slot is free after the next commit.
    pub(in crate::cache) fn drop_clean(&mut self, io: &mut CacheIo, extent: u32, why: Release) {
        self.drop_copy(io, extent, why, true);
    }

    /// Drops a clean copy. `awaiting_slow_flush`: the map update may wait for a flush of the slow device.
    pub(in crate::cache) fn drop_copy(
        &mut self,
        io: &mut CacheIo,
        extent: u32,
        why: Release,
        awaiting_slow_flush: bool,
    ) {
        let entry = self.map.entry(extent);
        debug_assert!(!entry.is_dirty() && entry.in_flight == 0, "extent {extent} is in use or dirty");
        let slot = entry.slot().expect("only a cached extent is dropped");
        let outdated = self.was_elsewhere(extent) || self.blocks_outdated(extent) != 0;
        let changed = self.map.unmap(extent);
        self.map.entry_mut(extent).set_outdated(outdated);
        self.release_slot(slot, why);
        self.record(io, changed, awaiting_slow_flush);
    }

    /// After a failure, copy and origin of these blocks differ: the origin counts for those that are not dirty.
    pub(in crate::cache) fn drop_blocks(&mut self, io: &mut CacheIo, extent: u32, touched: u16) {
        let masks = self.map.masks_of(extent);
        let left = Masks::new(masks.valid() & !(touched & !masks.differs_from_origin()), masks.differs_from_origin());
        if left.is_empty() {
            return self.drop_clean(io, extent, Release::Detached);
        }
        let changed = self.map.set_masks(extent, left, io.now);
        self.record(io, changed, false);
    }

    /// Drops a copy that is older than the origin.
    pub(in crate::cache) fn drop_stale(&mut self, io: &mut CacheIo, extent: u32) {
        self.map.set_clean(extent).and(self.map.set_loss(extent, Loss::None)).needs_no_record(NoRecord::GivenUpNext);
        self.drop_copy(io, extent, Release::Detached, false);
        self.map.entry_mut(extent).set_outdated(true);
    }

    /// Handles a device failure while an extent was leaving. Another extent is tried next, after a pause, because what
    /// is unreadable may stay so.
    pub(in crate::cache) fn cannot_leave(&mut self, io: &mut CacheIo, extent: u32) {
        let entry = self.map.entry_mut(extent);
        entry.access(io.now);
        if let Some(slot) = entry.place().and_then(|place| self.layout.fast_slot(place)) {
            self.was_accessed(slot);
        }
        self.room_pauses_until = io.now.saturating_add(self.cleaner.failures.pause_of_room());
        io.due(self.room_pauses_until);
    }

    /// Whether the place is on a device that is gone.
    pub(in crate::cache) fn is_on_gone(&self, place: Place) -> bool {
        if self.layout.fast_slot(place).is_some() { self.gone.fast } else { self.gone.slow }
    }

    /// Marks as lost the data of an extent that only a dead device had, if nothing can save them: a move may.
    #[cold]
    pub(in crate::cache) fn mark_lost(&mut self, io: &mut CacheIo, extent: u32) {
        let (entry, now) = (*self.map.entry(extent), self.state(extent));
        let survives = entry.place().is_some_and(|place| !self.is_on_gone(place));
        if survives || !self.gone.any() || entry.moving().is_some() || self.held.is_some() {
            return;
        }
        let outdated = self.gone.slow && self.blocks_outdated(extent) != 0;
        let loss = match outdated {
            true => Loss::Newest,
            false => self.loss(self.interpret(&self.recovery_rules(), now).entry),
        };
        if let Some(place) = entry.place() {
            self.map.set_clean(extent).and(self.map.unmap(extent)).needs_no_record(NoRecord::MeansTheSame);
            // The place is never used again, so the durable map may keep pointing to it.
            self.give_up(place, Release::NeverUsed);
        }
        if loss != Loss::None && !entry.is_lost() && !mutation::is(Mutation::ForgetLost) {
            let changed = self.map.set_loss(extent, loss);
            match outdated {
                true => self.record(io, changed, false),
                false => changed.needs_no_record(NoRecord::MeansTheSame),
            }
            io.stats.lost_extents += 1;
            if let Some(place) = entry.place() {
                self.map.leave_behind(extent, place, now.masks);
            }
        }
    }

    /// A lost extent is good again once a write that covers it has succeeded; a failed one may have left some of what was
    /// there before the loss.
    #[cold]
    pub(in crate::cache) fn found_again(&mut self, io: &mut CacheIo, extent: u32, command: &CacheCommand) {
        let entry = self.map.entry(extent);
        let Some(place) = entry.place().or((self.mode == Mode::Caching).then(|| self.layout.slow_place(extent))) else {
            return;
        };
        let (device, at) = self.layout.at(place);
        let covered = command.at <= at && command.at + command.len >= at + Bytes(self.layout.extent_bytes);
        // A discard of a lost extent is carried out as zeroing, so it restores the extent too.
        let restores = command.op == Op::Write || command.op == Op::Discard && command.zeroes;
        if restores && command.device == device && covered {
            let changed = self.map.set_loss(extent, Loss::None);
            self.record(io, changed, false);
        }
    }

    /// Points the map to the new place; the old one is free after the next commit.
    #[inline(always)]
    pub(in crate::cache) fn settle(&mut self, io: &mut CacheIo, extent: u32, to: Place) {
        let before = self.map.entry(extent).place();
        let changed = self.map.set_place(extent, Some(to));
        self.map.entry_mut(extent).misses = 0;
        self.record(io, changed, self.layout.fast_slot(to).is_none());
        if let Some(place) = before {
            let is_fast = self.layout.fast_slot(place).is_some();
            self.give_up(place, if is_fast { Release::Evicted } else { Release::Detached });
        }
    }

    /// Whether the extent is to leave its slot.
    pub(in crate::cache) fn has_to_leave(&self, extent: u32) -> bool {
        let Some(emptying) = &self.emptying else { return false };
        self.map.entry(extent).place().is_some_and(|place| (emptying.from..self.layout.fast_slots).contains(&place.0))
    }
}

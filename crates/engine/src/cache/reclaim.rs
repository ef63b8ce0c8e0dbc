//! Makes room on the fast device: demotion and eviction in the background between LT and HT (GreenDM, section 2.3).

use peryton_policy::ReplacementPolicy;
use peryton_policy::replacement::SlotIndex;
use peryton_units::{Nanos, prefetch};

use crate::{
    api::command::Commands,
    cache::access::{Mode, Release},
    cache::drive::CacheDrive,
    cache::step::CacheIo,
    cache::victims::ForeseenVictims,
};

/// The most dirty evictions in flight for promotions that need a slot immediately.
const MOST_LEAVING: u32 = 8;
/// The most extents that leave for one that comes in: more than one where those that are there have claimed room since the last one.
const MOST_LEAVING_FOR_ONE: u32 = 2;
/// After a failure, no extent is moved off the fast device for this long.
const PAUSE_FAILED: Nanos = Nanos::from_ms(10);

/// How many victims ahead data are prefetched.
const VICTIMS_AHEAD: u32 = 8;
/// After so many victims the next ones are found again from the last one: some may have been used meanwhile.
const MOST_STEPS: u32 = 32;

impl CacheDrive {
    /// Reserves a slot for an extent that is to be promoted, if slots share frames one that has room for these blocks.
    #[inline(always)]
    pub(in crate::cache) fn slot_for_promotion(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        (extent, blocks): (u32, u16),
        out: &mut Commands,
    ) -> Option<SlotIndex> {
        if self.gone.any() {
            return None;
        }
        self.policy.admitting(extent);
        if self.map.fast_is_full() {
            // With HT 0, a clean victim is dropped when its slot is needed, which costs nothing. Otherwise victims
            // leave in the background.
            let on_demand = self.mode == Mode::Caching && io.tuning.demotion_high == 0;
            // What leaves a frame that is to be one extent's own takes its neighbour along.
            let most = if self.map.shares_frames() { MOST_LEAVING_FOR_ONE } else { 1 };
            let leaving = self.map.lacks().min(most);
            if !on_demand || !(0..leaving).all(|_| self.drop_one(io, now, out)) {
                self.making_room = true;
                self.make_room(io, now, out);
            }
        }
        self.reserve_slot(io, now, (extent, blocks), out)
    }

    /// Drops the first clean extent that the policy chooses. The dirty extents that it chooses before that are evicted
    /// in the background, so that they are not chosen again.
    fn drop_one(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) -> bool {
        loop {
            let may_write_back = self.leaving < MOST_LEAVING && self.copying < io.tuning.max_moves;
            let Some(victim) = self.victim(io, now, !may_write_back) else { return false };
            let clean = !self.map.entry(victim).is_dirty();
            self.evict(io, now, victim, out);
            if clean {
                return true;
            }
        }
    }

    /// Prefetches what will be read of the victims after this one: of the farthest that is foreseen the slot, which leads to the map entry;
    /// of the one before it the entry; and of the next one the entries of its neighbours, if it is dirty, because they may go home with it.
    #[inline]
    pub(in crate::cache) fn prefetch_victims(&mut self, last: SlotIndex) {
        let Some(next) = self.policy.likely_next(last) else { return };
        let was_foreseen = last == std::mem::replace(&mut self.foreseen.next, next);
        // The device may have fewer slots since.
        if self.foreseen.steps == 0 || !was_foreseen || self.foreseen.farthest.0 >= self.layout.fast_slots {
            return self.foresee_victims(next);
        }
        self.foreseen.steps -= 1;
        let before = self.foreseen.farthest;
        let Some(farthest) = self.policy.likely_next(before) else {
            self.foreseen.steps = 0;
            return;
        };
        self.map.prefetch_tenant(farthest);
        self.policy.prefetch(farthest);
        self.foreseen.farthest = farthest;
        self.prefetch_entry_in(before);
        self.prefetch_neighbours(next);
    }

    /// Begins to foresee victims with this one.
    fn foresee_victims(&mut self, next: SlotIndex) {
        self.foreseen.steps = 0;
        let mut at = next;
        for _ in 1..VICTIMS_AHEAD {
            self.prefetch_entry_in(at);
            let Some(after) = self.policy.likely_next(at) else { return };
            at = after;
        }
        self.map.prefetch_tenant(at);
        self.policy.prefetch(at);
        self.foreseen = ForeseenVictims { next, farthest: at, steps: MOST_STEPS };
        self.prefetch_neighbours(next);
    }

    #[inline]
    fn prefetch_entry_in(&self, slot: SlotIndex) {
        if let Some(extent) = self.map.tenant(slot) {
            prefetch(self.map.entry(extent));
        }
    }

    #[inline]
    fn prefetch_neighbours(&self, slot: SlotIndex) {
        if let Some(extent) = self.map.tenant(slot)
            && self.map.entry(extent).is_dirty()
        {
            // Two entries are in one line of the processor's cache.
            let beyond = if extent.is_multiple_of(2) { extent.wrapping_sub(1) } else { extent + 1 };
            if let Some(neighbour) = self.map.get(beyond) {
                prefetch(neighbour);
            }
        }
    }

    /// Starts as many demotions or evictions as LT, HT and MCML ask for.
    #[inline(always)]
    pub(in crate::cache) fn make_room(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) {
        let (low, high) = (io.tuning.demotion_low, io.tuning.demotion_high);
        self.making_room |= high > 0 && self.free_soon() <= low;
        if self.making_room {
            self.start_leaving(io, now, out);
        }
    }

    /// Does so if room is to be made.
    #[inline(never)]
    fn start_leaving(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) {
        let high = io.tuning.demotion_high;
        if self.rests || self.gone.any() {
            return;
        }
        // A partitioned drive can send a write that finds no room to the slow device. Moving another extent out of the
        // way would cost the slow device more than the write itself, so that waits until the host is idle.
        if self.controller.is_some() && !self.tidying {
            return;
        }
        if now < self.room_pauses_until {
            return io.due(self.room_pauses_until);
        }
        // A promotion that found the device full needs one extent even if HT is zero.
        let target = high.max(1);
        // Where slots share frames, an extent may leave one in which there is no room for another.
        let mut most = target.saturating_mul(MOST_LEAVING_FOR_ONE);
        while self.free_soon() < target && most > 0 {
            most -= 1;
            if self.copying >= io.tuning.max_moves {
                return;
            }
            let Some(victim) = self.victim(io, now, false) else {
                // Every extent is in use. The end of the next access or move tries again.
                return;
            };
            let left = match self.mode {
                Mode::Tiering => self.demote(io, now, victim, out),
                Mode::Caching => {
                    self.evict(io, now, victim, out);
                    true
                }
            };
            if !left {
                return;
            }
        }
        self.making_room = false;
    }

    /// Handles a device failure while an extent was leaving. Another extent is tried next, after a pause, because what
    /// is unreadable may stay so.
    pub(in crate::cache) fn cannot_leave(&mut self, io: &mut CacheIo, now: Nanos, extent: u32) {
        let entry = self.map.entry_mut(extent);
        entry.access(now);
        if let Some(slot) = entry.place().and_then(|place| self.layout.fast_slot(place)) {
            self.was_accessed(slot);
        }
        self.room_pauses_until = now.saturating_add(PAUSE_FAILED);
        io.due(self.room_pauses_until);
    }

    fn demote(&mut self, io: &mut CacheIo, now: Nanos, victim: u32, out: &mut Commands) -> bool {
        match self.map.take_slow() {
            Some(to) => {
                self.start_demotion(io, victim, to, out);
                true
            }
            None => {
                io.stats.moves.cancelled.slow_full += 1;
                // Promotions under way free places on the slow device when they are committed.
                if self.journal.has_pending_free() {
                    self.commit(io, now, true, out);
                } else {
                    self.making_room = false;
                }
                false
            }
        }
    }

    /// Evicts an extent that shares its frame, unless it has to stay.
    pub(in crate::cache) fn make_leave(&mut self, io: &mut CacheIo, now: Nanos, extent: u32, out: &mut Commands) {
        let (entry, masks) = (self.map.entry(extent), self.map.masks_of(extent));
        let is_busy = entry.in_flight > 0 || entry.moving().is_some() || entry.slot().is_none();
        if is_busy || masks.lost() != 0 || self.rests || self.gone.any() {
            return;
        }
        if !entry.is_dirty() {
            io.stats.moves.demotions += 1;
            self.drop_clean(io, now, extent, Release::Evicted);
        } else if self.copying < io.tuning.max_moves {
            self.start_dirty_eviction(io, now, extent, out);
        }
    }

    pub(in crate::cache) fn evict(&mut self, io: &mut CacheIo, now: Nanos, victim: u32, out: &mut Commands) {
        let entry = self.map.entry(victim);
        self.contention.leaves(now.saturating_sub(entry.last_access));
        let slot = entry.slot();
        if entry.is_dirty() {
            self.start_dirty_eviction(io, now, victim, out);
        } else {
            io.stats.moves.demotions += 1;
            self.drop_clean(io, now, victim, Release::Evicted);
        }
        // Once frames are not shared any more, one has room only when both extents have left.
        if self.layout.shares_frames()
            && !self.map.shares_frames()
            && let Some(neighbour) = slot.and_then(|slot| self.map.neighbour(slot))
        {
            self.make_leave(io, now, neighbour, out);
        }
    }
}

//! Makes room on the fast device: demotion and eviction in the background between LT and HT (GreenDM, section 2.3).

use peryton_policy::ReplacementPolicy;
use peryton_policy::replacement::SlotIndex;
use peryton_units::{Nanos, prefetch};

use crate::{
    cache::access::{Mode, Release},
    cache::drive::CacheDrive,
    cache::step::{CacheCall, CacheIo},
};

/// The most dirty evictions in flight for promotions that need a slot immediately.
const MOST_LEAVING: u32 = 8;

/// How many dirty extents are passed over in search of a clean victim. Long runs of them would otherwise be walked through at each miss.
const PASSED_OVER: u32 = 32;
/// After a search in vain, this many victims are taken as the policy names them.
const AS_THEY_COME: u32 = 16;

impl CacheDrive {
    /// Reserves a slot for an extent that is to be promoted.
    #[inline(always)]
    pub(in crate::cache) fn slot_for_promotion(&mut self, io: &mut CacheCall, extent: u32) -> Option<SlotIndex> {
        if self.gone.any() {
            return None;
        }
        self.policy.admitting(extent, 1);
        if self.map.fast_is_full() {
            // With HT 0, a clean victim is dropped when its slot is needed, which costs no I/O. Otherwise victims
            // leave in the background.
            let on_demand = self.mode == Mode::Caching && io.tuning.demotion_high == 0;
            if !on_demand || !self.drop_one(io) {
                self.making_room = true;
                self.make_room(io);
            }
        }
        self.reserve_slot(extent)
    }

    /// Drops the first clean extent that the policy chooses. The dirty extents that it chooses before that are evicted
    /// in the background, so that they are not chosen again.
    fn drop_one(&mut self, io: &mut CacheCall) -> bool {
        loop {
            let may_write_back = self.demoting < MOST_LEAVING && self.copying < io.tuning.max_moves;
            let Some(victim) = self.victim(io, !may_write_back) else { return false };
            let clean = !self.map.entry(victim).is_dirty();
            self.evict(io, victim);
            if clean {
                return true;
            }
        }
    }

    /// Prefetches the data of the next victims: the slot of one far ahead, which leads to its map entry; the map entry
    /// of a nearer one; and, if the next one is dirty, the entries of its neighbours, which may be written back with
    /// it.
    #[inline]
    pub(in crate::cache) fn prefetch_victims(&mut self, last: SlotIndex) {
        let CacheDrive { map, policy, foreseen, layout, .. } = self;
        let entry_in = |slot: SlotIndex| {
            if let Some(extent) = map.tenant(slot) {
                prefetch(map.entry(extent));
            }
        };
        if let Some(next) = foreseen.after(policy, last, layout.fast_slots, entry_in, |slot| map.prefetch_tenant(slot))
        {
            self.prefetch_neighbours(next);
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
    pub(in crate::cache) fn make_room(&mut self, io: &mut CacheCall) {
        let (low, high) = (io.tuning.demotion_low, io.tuning.demotion_high);
        self.making_room |= high > 0 && self.free_soon() <= low;
        if self.making_room {
            self.start_leaving(io);
        }
    }

    /// Starts these demotions or evictions, if room is to be made.
    #[inline(never)]
    fn start_leaving(&mut self, io: &mut CacheCall) {
        let high = io.tuning.demotion_high;
        if io.rests || self.gone.any() || self.held.is_some() {
            return;
        }
        // A partitioned drive can send a write that finds no room to the slow device. Moving another extent out of the
        // way would cost the slow device more than the write itself, so that waits until the host is idle.
        if self.controller.is_some() && !self.tidying {
            return;
        }
        if io.now < self.room_pauses_until {
            return io.due(self.room_pauses_until);
        }
        // A promotion that found the device full needs one extent even if HT is zero.
        let target = high.max(1);
        let most = if self.tidying { io.tuning.most_idle_moves() } else { io.tuning.max_moves };
        while self.free_soon() < target {
            if self.copying >= most {
                return;
            }
            let Some(victim) = self.victim(io, false) else {
                // Every extent is in use. The end of the next access or move tries again.
                return;
            };
            let left = match self.mode {
                Mode::Tiering => self.demote(io, victim),
                Mode::Caching => {
                    self.evict(io, victim);
                    true
                }
            };
            if !left {
                return;
            }
        }
        self.making_room = false;
    }

    fn demote(&mut self, io: &mut CacheCall, victim: u32) -> bool {
        match self.map.take_slow() {
            Some(to) => {
                self.start_demotion(io, victim, to);
                true
            }
            None => {
                io.stats.moves.cancelled.slow_full += 1;
                // Promotions under way free places on the slow device when they are committed.
                if self.journal.has_pending_free() {
                    self.ready.commit();
                } else {
                    self.making_room = false;
                }
                false
            }
        }
    }

    pub(in crate::cache) fn evict(&mut self, io: &mut CacheCall, victim: u32) {
        let entry = self.map.entry(victim);
        if entry.is_dirty() {
            self.start_dirty_eviction(io, victim);
        } else {
            io.stats.moves.demotions += 1;
            self.drop_clean(io, victim, Release::Evicted);
        }
    }

    /// The extent that is to leave the fast device. `clean_only`: none that is dirty.
    pub(in crate::cache) fn victim(&mut self, io: &CacheIo, clean_only: bool) -> Option<u32> {
        let window = io.tuning.promotion_window;
        // A mostly empty dirty extent costs the slow device a write and frees little room, so other extents leave
        // first.
        let clean = if self.mode == Mode::Caching && !clean_only { self.clean_victim(io.now, window) } else { None };
        let pass_over = if clean_only { u32::MAX } else { 0 };
        let slot = clean.or_else(|| self.policy.victim(&mut self.map.candidates(io.now, window, pass_over)))?;
        self.prefetch_victims(slot);
        self.map.tenant(slot)
    }

    /// A clean extent among the oldest, unless a search has just been in vain.
    #[inline]
    fn clean_victim(&mut self, now: Nanos, window: Nanos) -> Option<SlotIndex> {
        if self.victims_as_they_come > 0 {
            self.victims_as_they_come -= 1;
            return None;
        }
        let found = self.policy.victim(&mut self.map.candidates(now, window, PASSED_OVER));
        let clean = found.filter(|slot| self.map.masks(*slot).dirty() == 0);
        if clean.is_none() {
            self.victims_as_they_come = AS_THEY_COME;
        }
        clean
    }

    /// Reserves a slot of the fast device for `extent`. Returns `None` if no slot is free; a commit that frees some is
    /// then started where that is possible.
    #[inline(always)]
    pub(in crate::cache) fn reserve_slot(&mut self, extent: u32) -> Option<SlotIndex> {
        if self.map.fast_is_full() || self.gone.fast {
            return None;
        }
        let slot = self.map.take_slot();
        // A commit frees the slots that wait for it. It is worth its flushes when these outnumber the free slots.
        if self.journal.waiting() > self.map.free_slots() as usize {
            self.ready.commit();
        }
        let slot = slot?;
        self.map.occupy(slot, extent);
        self.policy.inserted(slot, extent, 1);
        self.warm.changed = self.warm.changed.saturating_add(1);
        Some(slot)
    }
}

//! Making room on the fast device: demotion and eviction in the background between LT and HT (GreenDM, section 2.3).

use peryton_policy::ReplacementPolicy;
use peryton_policy::replacement::SlotIndex;
use peryton_units::{Nanos, prefetch};

use crate::{
    api::command::Commands,
    cache::access::{Mode, Release},
    cache::drive::CacheDrive,
    cache::step::CacheIo,
};

/// Dirty evictions in flight on behalf of promotions that need a slot at once.
const MOST_LEAVING: u32 = 8;
/// After a failure no extent is taken off the fast device for this long.
const PAUSE_FAILED: Nanos = Nanos::from_ms(10);

impl CacheDrive {
    /// A slot for an extent that is to be promoted.
    pub(in crate::cache) fn slot_for_promotion(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        extent: u32,
        out: &mut Commands,
    ) -> Option<SlotIndex> {
        if self.gone.any() {
            return None;
        }
        self.policy.admitting(extent);
        if self.map.fast_is_full() {
            // HT 0: a clean victim leaves at once, which costs nothing; all others in the background.
            let on_demand = self.mode == Mode::Caching && io.tuning.demotion_high == 0;
            if !on_demand || !self.drop_one(io, now, out) {
                self.making_room = true;
                self.make_room(io, now, out);
            }
        }
        self.reserve_slot(io, now, extent, out)
    }

    /// Drops the first clean extent that the policy gives up. The dirty ones that it names before are on their way out
    /// from now on, so that they do not stand before the next.
    fn drop_one(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) -> bool {
        loop {
            let may_write_back = self.leaving < MOST_LEAVING && self.copying < io.tuning.max_moves;
            let Some(victim) = self.victim(io, now, !may_write_back) else { return false };
            let clean = !self.map.entry(victim).is_dirty();
            self.evict(io, now, victim, out);
            if clean {
                self.prefetch_victims();
                return true;
            }
        }
    }

    /// The next victims are known now and looked at only when the next promotions need their slots: of the next one the
    /// map entry will be needed, of the one after it what leads to that.
    #[inline]
    fn prefetch_victims(&self) {
        let Some((next, after)) = self.policy.likely_victims() else { return };
        if let Some(extent) = self.map.tenant(next) {
            prefetch(self.map.entry(extent));
        }
        self.map.prefetch_tenant(after);
        self.policy.prefetch(after);
    }

    /// Starts as many demotions or evictions as LT, HT and MCML call for.
    pub(in crate::cache) fn make_room(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) {
        let (low, high) = (io.tuning.demotion_low, io.tuning.demotion_high);
        self.making_room |= high > 0 && self.free_soon() <= low;
        if !self.making_room || self.gone.any() {
            return;
        }
        // A partitioned drive has another place for a write that finds no room. To move something else out of its way would
        // cost the slow device more than to take the write itself, so that waits until the host is idle.
        if self.controller.is_some() && !self.tidying {
            return;
        }
        if now < self.room_pauses_until {
            return io.due(self.room_pauses_until);
        }
        // A promotion that found the device full needs one extent even where HT asks for none.
        let target = high.max(1);
        while self.free_soon() < target {
            if self.copying >= io.tuning.max_moves {
                return;
            }
            let Some(victim) = self.victim(io, now, false) else {
                // Everything is in use. The next access or move that ends tries again.
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

    /// A device failed while an extent was to leave. It is not the next victim, and the next one does not come at once:
    /// what cannot be read may stay so.
    pub(in crate::cache) fn cannot_leave(&mut self, io: &mut CacheIo, now: Nanos, extent: u32) {
        let entry = self.map.entry_mut(extent);
        entry.access(now);
        if let Some(slot) = entry.place().and_then(|place| self.layout.fast_slot(place)) {
            self.policy.accessed(slot);
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
                // Promotions under way free places on the slow device, once committed.
                if self.journal.has_pending_free() {
                    self.commit(io, now, true, out);
                } else {
                    self.making_room = false;
                }
                false
            }
        }
    }

    pub(in crate::cache) fn evict(&mut self, io: &mut CacheIo, now: Nanos, victim: u32, out: &mut Commands) {
        if self.map.entry(victim).is_dirty() {
            self.start_writeback(io, victim, true, out);
        } else {
            io.stats.moves.demotions += 1;
            self.drop_clean(io, now, victim, Release::Evicted);
        }
    }
}

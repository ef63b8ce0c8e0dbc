//! Tiering (GreenDM, section 2.3): the fast device is primary storage; an extent is on one device or the other.

use peryton_policy::ReplacementPolicy;
use peryton_units::Op;

use crate::{
    api::error::RequestError,
    cache::access::{Fragment, Mode, Route},
    cache::drive::CacheDrive,
    cache::map::changed::NoRecord,
    cache::map::extent::Place,
    cache::movers::table::Drained,
    cache::step::CacheCall,
};

impl CacheDrive {
    #[inline]
    pub(in crate::cache) fn route_tiering(&mut self, io: &mut CacheCall, fragment: Fragment) -> Route {
        let extent = self.map.entry(fragment.extent);
        let Some(place) = extent.place() else {
            if fragment.op == Op::Discard {
                io.part_done(fragment.request, Ok(()));
                return Route::Taken;
            }
            return self.allocate(io, fragment);
        };
        if fragment.op == Op::Discard {
            if self.covers_extent(fragment) {
                self.start_drain(fragment, Drained::Unmap);
                return Route::Taken;
            }
            return self.direct(io.now, fragment, place);
        }
        if let Some(slot) = self.layout.fast_slot(place) {
            self.count_access(io, fragment, slot);
            return self.direct(io.now, fragment, place);
        }
        if fragment.is_new && self.bypass_miss(io, fragment) {
            io.stats.fast_misses += 1;
        } else if self.misses_and_promotes(io, fragment) {
            return Route::Taken;
        }
        self.direct(io.now, fragment, place)
    }

    /// Counts a miss. Above the threshold the extent is promoted, and the fragment waits for that.
    pub(in crate::cache) fn misses_and_promotes(&mut self, io: &mut CacheCall, fragment: Fragment) -> bool {
        if !fragment.is_new {
            return false;
        }
        io.stats.fast_misses += 1;
        let misses = self.map.entry_mut(fragment.extent).miss(io.now, io.tuning.promotion_window);
        misses > io.tuning.promotion_threshold && self.try_promote(io, fragment)
    }

    /// Allocates the lowest free place on first access, on the fast device if it has one.
    fn allocate(&mut self, io: &mut CacheCall, fragment: Fragment) -> Route {
        let place = match self.reserve_slot(fragment.extent) {
            Some(slot) => Some(Place(slot.0)),
            None if self.gone.slow => None,
            None => self.map.take_slow(),
        };
        let Some(place) = place else {
            // All free places still wait for the commit that freed them.
            if self.journal.has_pending_free() {
                self.wait_for_commit(fragment);
            } else if self.copying > 0 || self.discarding > 0 {
                // The last places are reserved by moves, each of which gives one back when it ends, or are being
                // discarded by a device.
                self.wait_for_place(fragment);
            } else {
                io.part_done(fragment.request, Err(RequestError::NoSpace));
            }
            return Route::Taken;
        };
        io.stats.allocations += 1;
        let on_fast = self.layout.fast_slot(place).is_some();
        if fragment.is_new {
            io.stats.fast_hits += u64::from(on_fast);
            io.stats.fast_misses += u64::from(!on_fast);
        }
        let stale = self.map.is_stale(place);
        let extent = self.map.entry_mut(fragment.extent);
        if !on_fast {
            extent.miss(io.now, io.tuning.promotion_window);
        }
        let route = if !stale {
            let changed = self.map.set_place(fragment.extent, Some(place));
            self.record(io, changed, false);
            self.direct(io.now, fragment, place)
        } else {
            // An earlier tenant's data must not be exposed: the map points to the place only when it holds other data.
            extent.access(io.now);
            if fragment.op == Op::Write && self.covers_extent(fragment) {
                self.start_overwrite(io, fragment, place);
            } else {
                self.start_zero(io, fragment, place);
            }
            Route::Taken
        };
        self.make_room(io);
        route
    }
}

impl CacheDrive {
    /// Maps every extent, as long use would. The fast device is full except for HT extents. Its extents are spread evenly over the volume, so
    /// that a trace finds its share there at any address.
    pub(crate) fn prefill_map(&mut self, tuning: &crate::api::config::Tuning) {
        if self.mode == Mode::Caching {
            return;
        }
        let stay_free = tuning.demotion_high.min(self.layout.spare).min(self.layout.fast_usable - 1);
        let (on_fast, all) = (u64::from(self.layout.fast_usable - stay_free), u64::from(self.layout.extents));
        for index in 0..self.layout.extents {
            if self.map.entry(index).place().is_some() {
                continue;
            }
            let before = u64::from(index) * on_fast / all;
            let is_fast = (u64::from(index) + 1) * on_fast / all > before && u64::from(self.map.resident()) < on_fast;
            let slot = if is_fast { self.map.take_slot() } else { None };
            let place = match slot {
                Some(slot) => {
                    self.map.occupy(slot, index);
                    self.policy.inserted(slot, index, 1);
                    Place(slot.0)
                }
                None => match self.map.take_slow() {
                    Some(place) => place,
                    None => return,
                },
            };
            self.map.set_place(index, Some(place)).needs_no_record(NoRecord::WholeMap);
        }
    }
}

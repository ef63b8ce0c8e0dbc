//! Tiering (GreenDM, section 2.3): the fast device is primary storage; an extent is on one device or the other.

use peryton_policy::{ReplacementPolicy, replacement::SlotIndex};
use peryton_units::{Nanos, Op};

use super::{Fragment, Hybrid, Route, drain::Drained};
use crate::{command::Commands, error::RequestError, extent_map::Place, hybrid::step::Core};

impl Hybrid {
    #[inline]
    pub(super) fn route_tiering(
        &mut self,
        core: &mut Core,
        now: Nanos,
        fragment: Fragment,
        out: &mut Commands,
    ) -> Route {
        let extent = &self.extents[fragment.extent as usize];
        let Some(place) = extent.place() else {
            if fragment.op == Op::Discard {
                core.part_done(fragment.request, Ok(()), out);
                return Route::Taken;
            }
            return self.allocate(core, now, fragment, out);
        };
        if fragment.op == Op::Discard {
            if self.covers_extent(fragment) {
                self.start_drain(core, now, fragment, Drained::Unmap, out);
                return Route::Taken;
            }
            return self.direct(now, fragment, place);
        }
        if let Some(slot) = self.layout.fast_slot(place) {
            self.count_access(core, fragment, slot);
            return self.direct(now, fragment, place);
        }
        if self.misses_and_promotes(core, now, fragment, out) {
            return Route::Taken;
        }
        self.direct(now, fragment, place)
    }

    /// Counts a miss; past the threshold the extent is promoted, and the fragment waits for that.
    pub(super) fn misses_and_promotes(
        &mut self,
        core: &mut Core,
        now: Nanos,
        fragment: Fragment,
        out: &mut Commands,
    ) -> bool {
        if !fragment.first {
            return false;
        }
        core.ledger.fast_misses += 1;
        let misses = self.extents[fragment.extent as usize].miss(now, core.tuning.promotion_window);
        misses > core.tuning.promotion_threshold && self.try_promote(core, now, fragment, out)
    }

    /// First access: the lowest free place, the fast device first.
    fn allocate(&mut self, core: &mut Core, now: Nanos, fragment: Fragment, out: &mut Commands) -> Route {
        let place = match self.reserve_slot(core, now, fragment.extent, out) {
            Some(slot) => Some(Place(slot.0)),
            None if self.gone.slow => None,
            None => self.slow_free.take_lowest().map(|slot| self.layout.slow_place(slot)),
        };
        let Some(place) = place else {
            // Everything that is free still waits for the commit that freed it.
            if self.journal.has_limbo() {
                self.wait_for_commit(core, now, fragment, out);
            } else if self.copying > 0 || self.discarding > 0 {
                // The last places are where extents are being moved to, and each such move gives one back when it ends;
                // or a device is being told that they are empty.
                self.wait_for_place(fragment);
            } else {
                core.part_done(fragment.request, Err(RequestError::NoSpace), out);
            }
            return Route::Taken;
        };
        core.ledger.allocations += 1;
        let on_fast = self.layout.fast_slot(place).is_some();
        if fragment.first {
            core.ledger.fast_hits += u64::from(on_fast);
            core.ledger.fast_misses += u64::from(!on_fast);
        }
        let stale = self.is_stale(place);
        let extent = &mut self.extents[fragment.extent as usize];
        if !on_fast {
            extent.miss(now, core.tuning.promotion_window);
        }
        let route = if !stale {
            extent.set_place(Some(place));
            self.note(core, now, fragment.extent, false);
            self.direct(now, fragment, place)
        } else {
            // An earlier tenant's data must not show: the map points here only once something else does.
            extent.access(now);
            if fragment.op == Op::Write && self.covers_extent(fragment) {
                self.start_fill(core, fragment, place, out);
            } else {
                self.start_zero(core, fragment, place, out);
            }
            Route::Taken
        };
        self.make_room(core, now, out);
        route
    }
}

impl Hybrid {
    /// Maps every extent as a scan of the whole volume would have left it: the lowest addresses were placed on the
    /// fast device until HT extents had to stay free, the rest on the slow one.
    pub(super) fn fill_places(&mut self, tuning: &crate::config::Tuning) {
        if self.mode == super::Mode::Caching {
            return;
        }
        let stay_free = tuning.demotion_high.min(self.layout.spare).min(self.layout.fast_usable - 1);
        let on_fast = self.layout.fast_usable - stay_free;
        for index in 0..self.layout.extents {
            if self.extents[index as usize].place().is_some() {
                continue;
            }
            let slot = (self.resident < on_fast).then(|| self.fast_free.take_lowest()).flatten();
            let place = match slot {
                Some(slot) => {
                    self.resident += 1;
                    self.slots[slot as usize] = index + 1;
                    self.policy.inserted(SlotIndex(slot), index);
                    Place(slot)
                }
                None => match self.slow_free.take_lowest() {
                    Some(slot) => self.layout.slow_place(slot),
                    None => return,
                },
            };
            self.extents[index as usize].set_place(Some(place));
        }
    }
}

//! Caching (GreenDM, section 2.3): every extent has its home on the slow device; the fast device holds copies.

use peryton_policy::admission::Access;
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    api::command::Commands,
    api::config::WritePolicy,
    cache::access::{Fragment, Release, Route},
    cache::drive::CacheDrive,
    cache::map::extent::Place,
    cache::movers::table::Drained,
    cache::step::CacheIo,
};

impl CacheDrive {
    /// The place of an extent's home on the slow device.
    #[inline]
    pub(in crate::cache) fn home(&self, extent: u32) -> Place {
        self.layout.slow_place(extent)
    }

    #[inline]
    pub(in crate::cache) fn route_caching(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        fragment: Fragment,
        out: &mut Commands,
    ) -> Route {
        if fragment.first && !self.gate.is_open() && fragment.op != Op::Discard {
            self.show_to_admission(io, now, fragment.miss(), Bytes(u64::from(fragment.len)));
        }
        let extent = *self.map.entry(fragment.extent);
        let Some(slot) = extent.slot() else {
            let home = self.home(fragment.extent);
            if self.may_come_in(io, now, fragment) && self.misses_and_promotes(io, now, fragment, out) {
                return Route::Taken;
            }
            return self.direct(now, fragment, home);
        };
        match fragment.op {
            Op::Read => {}
            Op::Write if self.may_bypass(fragment) && !self.admits(io, fragment) => {
                io.stats.fast_misses += 1;
                let then = match self.map.entry(fragment.extent).is_dirty() {
                    true => Drained::Supersede,
                    false => Drained::Invalidate,
                };
                self.start_drain(io, now, fragment, then, out);
                return Route::Taken;
            }
            Op::Discard if self.covers_extent(fragment) => {
                self.start_drain(io, now, fragment, Drained::Discard, out);
                return Route::Taken;
            }
            Op::Discard => {
                // A discard of a part of a cached extent is ignored: it is only a hint, and it would cost a discard of
                // both copy and home.
                io.part_done(fragment.request, Ok(()), out);
                return Route::Taken;
            }
            Op::Write if io.tuning.write == WritePolicy::Through => {
                self.count_access(io, fragment, slot);
                self.write_through(io, now, fragment, slot, out);
                return Route::Taken;
            }
            Op::Write if !extent.is_dirty() && self.is_full_of_dirty() => {
                self.throttle(io, now, fragment);
                self.count_access(io, fragment, slot);
                self.write_through(io, now, fragment, slot, out);
                return Route::Taken;
            }
            Op::Write if io.tuning.write == WritePolicy::Around && !extent.is_dirty() => {
                io.stats.fast_misses += u64::from(fragment.first);
                self.start_drain(io, now, fragment, Drained::Invalidate, out);
                return Route::Taken;
            }
            // A dirty copy is newer than its home, whatever the policy is now: it takes the write and is written back
            // later.
            Op::Write => self.became_dirty(io, now, fragment.extent),
            Op::Flush => unreachable!("a flush has no extent"),
        }
        self.count_access(io, fragment, slot);
        self.direct(now, fragment, Place(slot.0))
    }

    /// Whether an extent that is not cached may come in for this access. If not, the access goes to the home, and is counted.
    #[inline(always)]
    pub(in crate::cache) fn may_come_in(&mut self, io: &mut CacheIo, now: Nanos, fragment: Fragment) -> bool {
        if fragment.op == Op::Discard {
            return false;
        }
        if fragment.first && self.goes_past(io, fragment) {
            io.stats.fast_misses += 1;
            return false;
        }
        // Without write-back a write that misses goes home alone: bringing its extent in first would make it wait for a
        // read. With write-through it counts as a miss, so that a later read brings the extent in. Nor does a write
        // promote its extent that must not make it dirty.
        let around = fragment.op == Op::Write && io.tuning.write != WritePolicy::Back;
        if around && fragment.first && io.tuning.write == WritePolicy::Through {
            self.map.entry_mut(fragment.extent).miss(now, io.tuning.promotion_window);
        }
        let throttled = fragment.op == Op::Write && self.is_full_of_dirty();
        if throttled {
            self.throttle(io, now, fragment);
        }
        if !around && !throttled && self.admits(io, fragment) {
            return true;
        }
        io.stats.fast_misses += u64::from(fragment.first);
        false
    }

    /// Whether a write to a cached extent may bypass the cache: the admission rule judges such writes, and dropping the
    /// copy loses no data. A dirty copy that the write does not cover stays, and so does a copy that is being written
    /// home.
    #[inline]
    pub(in crate::cache) fn may_bypass(&self, fragment: Fragment) -> bool {
        let entry = self.map.entry(fragment.extent);
        fragment.first
            && self.gate.judges_write_hits()
            && entry.moving().is_none()
            && (!entry.is_dirty() || self.covers_extent(fragment))
    }

    /// Whether the admission rule lets a miss, or a write that is judged like one, use the cache.
    #[inline(always)]
    pub(in crate::cache) fn admits(&mut self, io: &mut CacheIo, fragment: Fragment) -> bool {
        if self.gate.is_open() || !fragment.first {
            return true;
        }
        let admitted = self.gate.admits(fragment.miss());
        io.stats.bypassed += u64::from(!admitted);
        admitted
    }

    #[inline]
    pub(in crate::cache) fn show_to_admission(&mut self, io: &CacheIo, now: Nanos, access: Access, len: Bytes) {
        if let Some(frame) = self.gate.observe(now, access, len) {
            let costs = self.admission_costs(io);
            self.gate.end_frame(frame, costs);
        }
    }

    /// Drops a clean copy; its slot is free after the next commit.
    pub(in crate::cache) fn drop_clean(&mut self, io: &mut CacheIo, now: Nanos, extent: u32, why: Release) {
        self.drop_copy(io, now, extent, why, true);
    }

    /// Drops a clean copy. `awaiting_slow_flush`: the map update may wait for a flush of the slow device.
    pub(in crate::cache) fn drop_copy(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        extent: u32,
        why: Release,
        awaiting_slow_flush: bool,
    ) {
        let entry = self.map.entry(extent);
        debug_assert!(!entry.is_dirty() && entry.in_flight == 0, "extent {extent} is in use or dirty");
        let slot = entry.slot().expect("only a cached extent is dropped");
        self.map.unmap(extent);
        self.release_slot(slot, why);
        self.note(io, now, extent, awaiting_slow_flush);
    }
}

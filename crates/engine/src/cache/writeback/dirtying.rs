//! Which blocks a slot has, and which writes make an extent dirty. At the limit of dirty extents no further one becomes dirty: a write to
//! a clean copy goes to copy and origin, and a write to an uncached extent goes to the origin. So the host writes at the speed of the slow
//! device, and no write waits in a queue.

use peryton_format::{
    blocks::Masks,
    mutation::{self, Mutation},
};
use peryton_units::Nanos;

use crate::{
    api::config::WritePolicy, cache::access::Fragment, cache::drive::CacheDrive, cache::map::changed::NoRecord,
    cache::step::CacheIo,
};

/// The drive reports that it throttles writes until this time after the last throttled write.
pub(super) const THROTTLED_FOR: Nanos = Nanos::from_s(1);

impl CacheDrive {
    /// Notes that the cached copy is, or is about to be, newer than its origin.
    pub(in crate::cache) fn became_dirty(&mut self, io: &mut CacheIo, now: Nanos, extent: u32) {
        self.became_dirty_in(io, now, extent, u16::MAX);
    }

    /// Notes that a write of these blocks is about to begin. The blocks among them that the fast device has become dirty now: if the write
    /// is cut short, they differ from their origin. Blocks that it lacks become dirty at the write's end ([`CacheDrive::allocating_done`]).
    pub(in crate::cache) fn became_dirty_in(&mut self, io: &mut CacheIo, now: Nanos, extent: u32, touched: u16) {
        let masks = self.map.masks_of(extent);
        let dirties = touched & masks.valid() & !masks.differs_from_origin();
        if dirties == 0 {
            if self.map.entry(extent).is_dirty() {
                self.map.rewrite(extent);
            }
            return;
        }
        let was_dirty = self.map.entry(extent).is_dirty();
        self.set_never_dirty(false);
        let dirty = Masks::new(masks.valid(), masks.differs_from_origin() | dirties);
        let changed = self.map.set_masks(extent, dirty, now);
        if was_dirty {
            self.map.rewrite(extent);
        }
        match mutation::is(Mutation::LoseDirtyFlag) {
            true => changed.needs_no_record(NoRecord::Mistake),
            false => self.record(io, now, changed, false),
        }
        self.dirt_was_added(io, now);
    }

    /// Notes that the fast device has these blocks from now on. `dirty`: the blocks that are newer than their origins.
    pub(in crate::cache) fn is_there(&mut self, io: &mut CacheIo, now: Nanos, extent: u32, blocks: u16, dirty: u16) {
        let before = self.map.masks_of(extent);
        let valid = before.valid() | blocks;
        // A block that was lost has new data.
        let differs_from_origin = before.dirty() | before.lost() & !blocks | dirty & valid;
        let masks = Masks::new(valid, differs_from_origin);
        if masks == before {
            if self.map.entry(extent).is_dirty() && dirty != 0 {
                self.map.rewrite(extent);
            }
            return;
        }
        if dirty != 0 {
            self.set_never_dirty(false);
        }
        let changed = self.map.set_masks(extent, masks, now);
        self.record(io, now, changed, false);
        if dirty != 0 {
            self.dirt_was_added(io, now);
        }
    }

    /// Has the cleaner look for extents to write back when their time comes.
    pub(in crate::cache) fn dirt_was_added(&self, io: &mut CacheIo, now: Nanos) {
        // A partitioned drive keeps dirty extents on the fast device until they are cold.
        if self.controller.is_none() && !self.gone.any() {
            match self.dirty_extents_weighted() >= self.crowded_from {
                true => self.clean_soon(io, now),
                false => io.due(now.saturating_add(io.tuning.writeback_delay)),
            }
        }
    }

    /// Adapts the bound on dirty extents to the tuning.
    pub(in crate::cache) fn bound_dirty(&mut self, io: &CacheIo) {
        let bounded = self.controller.is_none() && io.tuning.write == WritePolicy::Back;
        let most = io.tuning.cleaning.most_dirty(self.layout.fast_usable).filter(|_| bounded);
        self.most_dirty = most.unwrap_or(u32::MAX);
        self.crowded_from = self.most_dirty - self.most_dirty / 8;
        self.most_dirty_in_part = self.most_dirty / 4 + self.layout.fast_usable / 4 * 3;
        self.cleaner.decides_again();
    }

    /// Whether a write must not make another extent dirty. Writes in flight that will make one dirty count as well.
    #[inline]
    pub(in crate::cache) fn is_full_of_dirty(&self) -> bool {
        self.dirty_extents_weighted().saturating_add(self.allocating_writes) >= self.most_dirty && !self.gone.any()
    }

    /// How many extents count as dirty against `most_dirty`: the dirty bytes in whole extents, or the dirty extents if these are near their own
    /// bound, `most_dirty_in_part`. That bound leaves a quarter of the slots that may be clean without anything dirty, because an extent
    /// that is dirty in part cannot give up its slot either.
    #[inline]
    pub(in crate::cache) fn dirty_extents_weighted(&self) -> u32 {
        let count = self.map.dirty().count();
        if self.most_dirty == u32::MAX {
            return count;
        }
        let extents = u64::from(count) * u64::from(self.most_dirty) / u64::from(self.most_dirty_in_part.max(1));
        (self.map.dirty_bytes().div_ceil(self.layout.extent_bytes)).max(extents) as u32
    }

    /// Counts a write that goes to the slow device because no further extent may become dirty.
    pub(in crate::cache) fn throttle(&mut self, io: &mut CacheIo, now: Nanos, fragment: Fragment) {
        if fragment.is_new {
            io.stats.bypasses.dirty_target += 1;
        }
        self.cleaner.throttled = Some(now);
        self.clean_soon(io, now);
    }

    /// Has the cleaner look at once for extents to write back, unless the end of one of its commands does that soon.
    fn clean_soon(&self, io: &mut CacheIo, now: Nanos) {
        if self.cleaner.commands == 0 {
            io.due(now);
        }
    }
}

//! The rule which writes may make an extent dirty. At the limit of dirty extents no further one becomes dirty: a write
//! to a clean copy goes to copy and origin, and a write to an uncached extent goes to the origin. So the host writes at
//! the speed of the slow device, and no write waits in a queue.

use peryton_units::Nanos;

use crate::{api::config::WritePolicy, cache::access::Fragment, cache::drive::CacheDrive, cache::step::CacheIo};

/// The drive reports that it throttles writes until this time after the last throttled write.
pub(super) const THROTTLED_FOR: Nanos = Nanos::from_s(1);

impl CacheDrive {
    /// Has the cleaner look for extents to write back when their time comes.
    pub(in crate::cache) fn dirt_was_added(&self, io: &mut CacheIo) {
        // A partitioned drive keeps dirty extents on the fast device until they are cold.
        if self.controller.is_none() && !self.gone.any() {
            match self.dirty_extents_weighted() >= self.crowded_from {
                true => self.clean_soon(io),
                false => io.due_in(io.tuning.writeback_delay),
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
    pub(in crate::cache) fn throttle(&mut self, io: &mut CacheIo, fragment: Fragment) {
        if fragment.is_new {
            io.stats.bypasses.dirty_target += 1;
        }
        self.cleaner.throttled = Some(io.now);
        self.clean_soon(io);
    }

    /// Has the cleaner look at once for extents to write back, unless the end of one of its commands does that soon.
    fn clean_soon(&self, io: &mut CacheIo) {
        if self.cleaner.commands == 0 {
            io.due_in(Nanos::ZERO);
        }
    }
}

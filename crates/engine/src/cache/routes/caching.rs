//! Caching (GreenDM, section 2.3): every extent has its origin on the slow device; the fast device holds copies.

use peryton_policy::admission::Access;
use peryton_units::{Bytes, Nanos, Op};

use crate::{api::config::WritePolicy, cache::access::Fragment, cache::drive::CacheDrive, cache::step::CacheIo};

impl CacheDrive {
    /// Whether an extent that is not cached may come in for this access. If not, the access goes to the origin, and is counted.
    #[inline(always)]
    pub(in crate::cache) fn may_come_in(&mut self, io: &mut CacheIo, now: Nanos, fragment: Fragment) -> bool {
        if fragment.op == Op::Discard {
            return false;
        }
        if fragment.first && self.goes_past(io, fragment) {
            io.stats.fast_misses += 1;
            return false;
        }
        // Without write-back a write that misses goes to the origin alone: bringing its extent in first would make it wait for a
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
    /// back.
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
}

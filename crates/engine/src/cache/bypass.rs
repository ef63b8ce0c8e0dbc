//! Misses that bypass the fast device: sequential streams, and all misses while the fast device is slower than the slow one. Hits are
//! served by the fast device all the same, because it may have the only newest copy.

use peryton_units::{Bytes, Nanos, Op};

use crate::{
    cache::access::Fragment,
    cache::drive::CacheDrive,
    cache::step::CacheIo,
    cache::streams::{Followed, Position},
};

/// A device that answers within these times is not congested, however fast the other one is (reads, writes).
const NEVER_SLOW: [Nanos; 2] = [Nanos::from_ms(2), Nanos::from_ms(20)];
/// While the fast device is congested, one miss of this many uses it, to measure it.
const PROBE_ONE_IN: u64 = 16;

impl CacheDrive {
    /// Decides whether a miss bypasses the fast device, and counts it if so.
    #[inline(always)]
    pub(in crate::cache) fn bypass_miss(&mut self, io: &mut CacheIo, fragment: Fragment) -> bool {
        // The slow device would write whole units, one for each such write.
        if self.is_part_of_unit(fragment) {
            return false;
        }
        let bypass = io.tuning.bypass;
        if let Some(longest) = bypass.sequential {
            let (map, layout) = (&self.map, &self.layout);
            let is_cached = |extent| map.entry(extent).place().is_some_and(|place| layout.fast_slot(place).is_some());
            let Fragment { extent, within, len, .. } = fragment;
            let place = Position { extent, within, len, extent_bytes: self.layout.extent_bytes as u32 };
            let Followed { bytes, enters } = self.streams.follow(fragment.op, place, is_cached);
            // A request that is long enough is a stream from its start on.
            let more = fragment.request_len - fragment.offset - Bytes(u64::from(fragment.len));
            if bytes + more >= longest && !self.comes_again(io, extent, enters) {
                io.stats.bypasses.sequential += 1;
                return true;
            }
        }
        if bypass.congested && self.fast_is_congested(io, fragment.op) {
            self.congested_misses += 1;
            if !self.congested_misses.is_multiple_of(PROBE_ONE_IN) {
                io.stats.bypasses.congested += 1;
                return true;
            }
        }
        false
    }

    /// Whether the misses of a long stream may promote this extent. They may if the extent was used lately, before the
    /// stream reached it. That ends when streams have touched many times as many extents as the cache has slots. Data
    /// that are used again and again are worth caching if a good part of them fits.
    #[cold]
    #[inline(never)]
    fn comes_again(&mut self, io: &CacheIo, extent: u32, enters: bool) -> bool {
        if enters {
            self.streams.passes(io.now, self.layout.fast_usable);
        }
        let since = self.streams.horizon().max(io.now.saturating_sub(io.tuning.promotion_window));
        let entry = self.map.entry_mut(extent);
        let lately = entry.uses > 0 && entry.last_access >= since;
        if enters && !lately {
            entry.misses = 0;
        }
        // While a stream stays in an extent, the decision at its first access holds. Counted misses show that decision.
        lately && (enters || entry.misses > 0)
    }

    /// Whether the fast device has lately been slower than the slow one.
    #[inline(always)]
    fn fast_is_congested(&self, io: &CacheIo, op: Op) -> bool {
        let which = usize::from(op == Op::Write);
        let fast = io.latency(self.layout.fast)[which];
        fast >= NEVER_SLOW[which] && {
            let slow = io.latency(self.layout.slow)[which];
            slow > Nanos::ZERO && fast > slow
        }
    }
}

//! The extent map: for each extent of the volume where it is, how it is used, and what is under way for it
//! (GreenDM, section 2.3, "Mapping table" and "Cache entry").

use peryton_format::entry::MapEntry;
use peryton_policy::replacement::SlotIndex;
use peryton_units::Nanos;

pub(crate) use peryton_format::entry::Place;

/// One extent of the volume. 32 bytes, so that a lookup touches one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(crate) struct Extent {
    /// The latest access.
    pub(crate) last_access: Nanos,
    /// The place plus one; zero where there is none (tiering: unmapped; caching: not cached).
    place: u32,
    /// Accesses in all.
    pub(crate) uses: u32,
    /// Misses that came within the time window of each other.
    pub(crate) misses: u32,
    /// Host accesses in flight.
    pub(crate) in_flight: u32,
    /// The index of the move under way, plus one; zero for none.
    moving: u32,
    /// Accessed since the clock hand passed.
    pub(crate) referenced: bool,
    /// Newer than its home on the slow device (caching).
    dirty: bool,
    /// In the write-back queue (caching).
    pub(crate) queued: bool,
    /// The only copy was lost to a device failure.
    lost: bool,
}

impl Extent {
    #[inline]
    pub(crate) fn place(&self) -> Option<Place> {
        self.place.checked_sub(1).map(Place)
    }

    /// The place as a slot of the fast device, in a drive where the map holds nothing else.
    #[inline]
    pub(crate) fn slot(&self) -> Option<SlotIndex> {
        self.place.checked_sub(1).map(SlotIndex)
    }

    /// What the durable map keeps of the extent.
    #[inline]
    pub(crate) fn entry(&self) -> MapEntry {
        MapEntry::new(self.place(), self.dirty, self.lost)
    }

    /// Newer than its home on the slow device (caching).
    #[inline]
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// The only copy was lost to a device failure.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Returns what it was before.
    #[inline]
    pub(super) fn set_dirty(&mut self, dirty: bool) -> bool {
        std::mem::replace(&mut self.dirty, dirty)
    }

    /// Returns what it was before.
    #[inline]
    pub(super) fn set_lost(&mut self, lost: bool) -> bool {
        std::mem::replace(&mut self.lost, lost)
    }

    #[inline]
    pub(super) fn set_place(&mut self, place: Option<Place>) {
        self.place = place.map_or(0, |place| place.0 + 1);
    }

    #[inline]
    pub(crate) fn moving(&self) -> Option<u32> {
        self.moving.checked_sub(1)
    }

    #[inline]
    pub(crate) fn set_moving(&mut self, index: Option<u32>) {
        self.moving = index.map_or(0, |index| index + 1);
    }

    #[inline]
    pub(crate) fn access(&mut self, now: Nanos) {
        self.last_access = now;
        self.uses = self.uses.saturating_add(1);
        self.referenced = true;
    }

    /// Counts a miss: misses further apart than the window count from one. Returns the count. To be called before
    /// [`Extent::access`], which moves the time stamp.
    #[inline]
    pub(crate) fn miss(&mut self, now: Nanos, window: Nanos) -> u32 {
        let within = self.misses > 0 && now.saturating_sub(self.last_access) <= window;
        self.misses = if within { self.misses.saturating_add(1) } else { 1 };
        self.misses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_fills_half_a_cache_line() {
        // 1 TiB at 1 MiB extents is a million entries: 32 MiB.
        assert!(size_of::<Extent>() <= 64);
    }

    #[test]
    fn misses_outside_the_window_start_anew() {
        let mut extent = Extent::default();
        let window = Nanos::from_s(60);
        for (at, count) in [(0, 1), (60, 2), (61, 3), (122, 1)] {
            assert_eq!(extent.miss(Nanos::from_s(at), window), count, "at {at}s");
            extent.access(Nanos::from_s(at));
        }
    }
}

//! A map entry in memory: where an extent of the volume is, how it is used, and what is under way for it (GreenDM,
//! section 2.3, "Mapping table" and "Cache entry").

use bytemuck::Zeroable;
use peryton_format::{blocks::Masks, entry::MapEntry};
use peryton_policy::replacement::SlotIndex;
use peryton_units::Nanos;

pub(crate) use peryton_format::entry::Place;

/// One extent of the volume. 32 bytes, so that a lookup touches one cache line. One that was never accessed is all zeros.
#[derive(Clone, Copy, Debug, Default, Zeroable)]
pub(crate) struct Extent {
    /// Time of the latest access.
    pub(crate) last_access: Nanos,
    /// The place plus one; zero for none (tiering: unmapped; caching: not cached).
    place: u32,
    /// Number of accesses.
    pub(crate) uses: u32,
    /// Number of misses, each within the time window of the one before. In a slot: reads of blocks that it lacks.
    pub(crate) misses: u32,
    /// Host accesses in flight.
    pub(crate) in_flight: u32,
    /// The index of the move under way plus one; zero for none.
    moving: u32,
    /// Whether it was accessed since the clock hand last passed.
    pub(crate) referenced: bool,
    flags: u8,
    /// The sweep of the cleaning in which it was last written again (caching): see `ExtentMap::is_rewritten`.
    pub(super) rewritten: u8,
}

/// The valid one of a copy and its origin where the two may differ (caching).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Valid {
    Copy,
    Origin,
}

impl Valid {
    /// The masks of a slot whose clean blocks may differ from their origin: all its blocks count as dirty, or only the dirty ones stay.
    pub(in crate::cache) fn masks_after_crash(self, masks: Masks) -> Masks {
        match self {
            Valid::Copy => masks.all_dirty(),
            Valid::Origin => Masks::new(masks.dirty(), masks.differs_from_origin()),
        }
    }
}

/// Some of the copy is newer than its origin on the slow device (caching).
const DIRTY: u8 = 1;
/// Its data were lost with a device.
const LOST: u8 = 2;
/// The fast device has all blocks of the extent, and all of them are dirty (caching). Then the masks of its slot, which are elsewhere in
/// memory, need not be read.
const WHOLE: u8 = 4;
const WHOLLY_DIRTY: u8 = 8;
/// It is lost because its origin is gone, and for no other reason (caching).
const LOST_WITH_ORIGIN: u8 = 32;
/// Its place in the durable map may hold older data than where it is now (caching; only kept for an extent in no slot).
const OUTDATED: u8 = 16;

/// Why the data of an extent cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Loss {
    None,
    /// Its origin has them, and is gone (caching). The durable map does not say so: the superblocks say what is gone.
    WithOrigin,
    /// The newest data are lost.
    Newest,
}

impl Extent {
    #[inline]
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Sets a flag and returns its previous value.
    #[inline]
    fn set(&mut self, flag: u8, is: bool) -> bool {
        let before = self.has(flag);
        self.flags = if is { self.flags | flag } else { self.flags & !flag };
        before
    }

    #[inline]
    pub(crate) fn place(&self) -> Option<Place> {
        self.place.checked_sub(1).map(Place)
    }

    /// The slot of the fast device that the extent is in; for drives whose map holds no other places.
    #[inline]
    pub(crate) fn slot(&self) -> Option<SlotIndex> {
        self.place.checked_sub(1).map(SlotIndex)
    }

    /// The part of the entry that the durable map keeps.
    #[inline]
    pub(crate) fn entry(&self) -> MapEntry {
        MapEntry::new(self.place(), self.is_dirty(), self.is_lost() && !self.has(LOST_WITH_ORIGIN))
    }

    /// Whether the copy is newer than its origin on the slow device (caching).
    #[inline]
    pub(crate) fn is_dirty(&self) -> bool {
        self.has(DIRTY)
    }

    /// Whether the fast device has all blocks (caching), and whether all of them are dirty.
    #[inline]
    pub(crate) fn is_whole(&self, dirty: bool) -> bool {
        self.has(if dirty { WHOLLY_DIRTY } else { WHOLE })
    }

    /// Sets the flags by the masks of its slot. `all`: the mask of all blocks.
    #[inline]
    pub(super) fn sync_flags_with_masks(&mut self, masks: Masks, all: u16) {
        self.set(DIRTY, masks.dirty() != 0);
        self.set(WHOLE, masks.valid() == all);
        self.set(WHOLLY_DIRTY, masks.dirty() == all);
    }

    /// Whether its data were lost with a device, whichever.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.has(LOST)
    }

    fn loss(&self) -> Loss {
        match (self.has(LOST), self.has(LOST_WITH_ORIGIN)) {
            (false, _) => Loss::None,
            (true, true) => Loss::WithOrigin,
            (true, false) => Loss::Newest,
        }
    }

    /// Says why it is lost, and returns what was said before. An entry that says so already is not written: its page may never have been.
    #[inline]
    pub(super) fn set_loss(&mut self, loss: Loss) -> Loss {
        let before = self.loss();
        if before != loss {
            self.set(LOST, loss != Loss::None);
            self.set(LOST_WITH_ORIGIN, loss == Loss::WithOrigin);
        }
        before
    }

    /// Whether the place in the durable map may hold older data. Says nothing of an extent that is in a slot.
    pub(in crate::cache) fn is_outdated(&self) -> bool {
        self.has(OUTDATED)
    }

    #[inline]
    pub(in crate::cache) fn set_outdated(&mut self, outdated: bool) {
        self.set(OUTDATED, outdated);
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

    /// Counts a miss and returns the count. After a gap longer than the window the count starts at one. Must be called
    /// before [`Extent::access`], which changes the time stamp.
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
        // At 32 bytes an entry, 1 TiB at 1 MiB extents (a million entries) takes 32 MiB.
        assert_eq!(size_of::<Extent>(), 32);
    }

    #[test]
    fn misses_outside_the_window_count_from_one() {
        let mut extent = Extent::default();
        let window = Nanos::from_s(60);
        for (at, count) in [(0, 1), (60, 2), (61, 3), (122, 1)] {
            assert_eq!(extent.miss(Nanos::from_s(at), window), count, "at {at}s");
            extent.access(Nanos::from_s(at));
        }
    }
}

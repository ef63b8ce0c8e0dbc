//! The map as it is durable, one word an extent.

use crate::extent_map::{Extent, Place};

/// What the format knows of one extent: its place, and whether it is dirty or lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) u32);

const DIRTY: u32 = 1 << 31;
const LOST: u32 = 1 << 30;
const PLACE: u32 = LOST - 1;

impl Entry {
    pub(crate) fn new(place: Option<Place>, dirty: bool, lost: bool) -> Entry {
        let place = place.map_or(0, |place| place.0 + 1);
        debug_assert!(place <= PLACE);
        Entry(place | if dirty { DIRTY } else { 0 } | if lost { LOST } else { 0 })
    }

    pub(crate) fn place(self) -> Option<Place> {
        (self.0 & PLACE).checked_sub(1).map(Place)
    }

    pub(crate) fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    pub(crate) fn is_lost(self) -> bool {
        self.0 & LOST != 0
    }
}

impl Extent {
    /// What the format keeps of it.
    #[inline]
    pub(crate) fn entry(&self) -> Entry {
        Entry::new(self.place(), self.dirty, self.lost)
    }
}

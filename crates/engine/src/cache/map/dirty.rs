//! The dirty extents of a cache: in the order of their homes, which is the order in which a sweep writes them home, and in
//! the order in which they became dirty. Both have room for every slot of the fast device, so no dirty extent is forgotten.

use peryton_policy::{Queues, replacement::SlotIndex};
use peryton_units::Nanos;

use crate::cache::map::index_set::IndexSet;

#[derive(Debug)]
pub(in crate::cache) struct DirtyIndex {
    /// The extents.
    by_address: IndexSet,
    /// Their slots, the one that became dirty first at the old end.
    by_age: Queues<1>,
    /// For each slot whose extent is dirty, the time when it became so.
    since: Vec<Nanos>,
}

impl DirtyIndex {
    /// Makes an empty index for `extents` extents in `slots` slots.
    pub(super) fn new(extents: u32, slots: u32) -> DirtyIndex {
        DirtyIndex {
            by_address: IndexSet::empty(extents),
            by_age: Queues::new(slots),
            since: vec![Nanos::ZERO; slots as usize],
        }
    }

    pub(super) fn insert(&mut self, extent: u32, slot: SlotIndex, now: Nanos) {
        self.by_address.put(extent);
        self.by_age.push(0, slot);
        self.since[slot.index()] = now;
    }

    pub(super) fn remove(&mut self, extent: u32, slot: SlotIndex) {
        self.by_address.take(extent);
        self.by_age.unlink(slot);
    }

    /// Number of dirty extents.
    #[inline]
    pub(in crate::cache) fn count(&self) -> u32 {
        self.by_address.count()
    }

    pub(in crate::cache) fn contains(&self, extent: u32) -> bool {
        self.by_address.contains(extent)
    }

    /// The first dirty extent that is not before this one.
    pub(in crate::cache) fn next_from(&self, extent: u32) -> Option<u32> {
        self.by_address.next_from(extent)
    }

    /// Since when the extent that has been dirty longest is so; `None` if none is.
    pub(in crate::cache) fn oldest(&self) -> Option<Nanos> {
        self.by_age.oldest(0, |_| true).map(|slot| self.since(slot))
    }

    /// Since when the extent in this slot, which is dirty, has been so.
    pub(in crate::cache) fn since(&self, slot: SlotIndex) -> Nanos {
        self.since[slot.index()]
    }
}

//! The dirty extents of a cache: in the order of their homes, which is the order in which a sweep writes them home, and in
//! the order in which they became dirty. Both have room for every slot of the fast device, so no dirty extent is forgotten.

use peryton_policy::{Queues, replacement::SlotIndex};
use peryton_units::Nanos;

use crate::cache::map::index_set::IndexSet;

#[derive(Debug)]
pub(in crate::cache) struct DirtyIndex {
    /// The extents.
    by_address: IndexSet,
    /// Those that were not written again lately.
    cold: IndexSet,
    /// Those that were, and some that are clean by now.
    rewritten: Vec<u32>,
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
            cold: IndexSet::empty(extents),
            rewritten: Vec::new(),
            by_age: Queues::new(slots),
            since: vec![Nanos::ZERO; slots as usize],
        }
    }

    pub(super) fn insert(&mut self, extent: u32, slot: SlotIndex, now: Nanos) {
        self.by_address.put(extent);
        self.cold.put(extent);
        self.by_age.push(0, slot);
        self.since[slot.index()] = now;
    }

    pub(super) fn remove(&mut self, extent: u32, slot: SlotIndex) {
        self.by_address.take(extent);
        self.cold.take_if_free(extent);
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

    /// Notes that a dirty extent, which is cold, was written again. Returns whether there is no room for more such notes: then
    /// [`DirtyIndex::take_rewritten`] is called.
    pub(super) fn rewrite(&mut self, extent: u32) -> bool {
        self.cold.take_if_free(extent);
        self.rewritten.push(extent);
        self.rewritten.len() >= self.since.len()
    }

    /// Hands out the extents that were written again, and with them some that are clean by now.
    pub(super) fn take_rewritten(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.rewritten)
    }

    /// Notes that dirty extents were not written again lately. `list` is what [`DirtyIndex::take_rewritten`] has handed out.
    pub(super) fn cool(&mut self, mut list: Vec<u32>) {
        for extent in list.drain(..) {
            self.cold.put(extent);
        }
        self.rewritten = list;
    }

    /// The first dirty extent that is not before this one; `cold`: and was not written again lately.
    pub(in crate::cache) fn next_from(&self, extent: u32, cold: bool) -> Option<u32> {
        if cold { self.cold.next_from(extent) } else { self.by_address.next_from(extent) }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const EXTENTS: u32 = 200;

    proptest! {
        #[test]
        fn cold_extents_are_the_dirty_ones_without_those_written_again(
            steps in prop::collection::vec((0u32..5, 0u32..EXTENTS), 0..600),
        ) {
            let mut index = DirtyIndex::new(EXTENTS, EXTENTS);
            let (mut dirty, mut rewritten) = (BTreeSet::new(), BTreeSet::new());
            let mut forgotten = 0;
            for (step, extent) in steps {
                let slot = SlotIndex(extent);
                let full = match step {
                    0 | 1 if dirty.insert(extent) => {
                        index.insert(extent, slot, Nanos::ZERO);
                        false
                    }
                    2 if dirty.remove(&extent) => {
                        index.remove(extent, slot);
                        rewritten.remove(&extent);
                        false
                    }
                    3 if dirty.contains(&extent) && rewritten.insert(extent) => index.rewrite(extent),
                    4 => extent < 10,
                    _ => false,
                };
                if full {
                    // What the map does: the list may name an extent twice, or one that is clean or cold by now.
                    let mut list = index.take_rewritten();
                    prop_assert!(list.len() <= EXTENTS as usize);
                    list.retain(|extent| rewritten.remove(extent));
                    prop_assert!(rewritten.is_empty(), "each of them is in the list");
                    index.cool(list);
                    forgotten += 1;
                }
                prop_assert_eq!(index.count() as usize, dirty.len());
            }
            for from in 0..EXTENTS {
                let next = |cold: bool| dirty.range(from..).copied().find(|extent| !cold || !rewritten.contains(extent));
                prop_assert_eq!(index.next_from(from, false), next(false));
                prop_assert_eq!(index.next_from(from, true), next(true), "forgotten {} times", forgotten);
            }
        }
    }
}

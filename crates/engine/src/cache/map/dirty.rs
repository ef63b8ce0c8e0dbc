//! The dirty extents of a cache: in the order of their homes, which is the order in which a sweep writes them home, and in
//! the order in which they became dirty. Both have room for every slot of the fast device, so no dirty extent is forgotten.

use peryton_policy::{Queues, replacement::SlotIndex};
use peryton_units::Nanos;

use crate::cache::map::index_set::IndexSet;

#[derive(Debug)]
pub(in crate::cache) struct DirtyIndex {
    /// The extents that were not written again lately.
    cold: IndexSet,
    /// Those that were.
    rewritten: IndexSet,
    /// The slots of both, the one that became dirty first at the old end.
    by_age: Queues<1>,
    /// For each slot whose extent is dirty, the time when it became so.
    since: Vec<Nanos>,
}

impl DirtyIndex {
    /// Makes an empty index for `extents` extents in `slots` slots.
    pub(super) fn new(extents: u32, slots: u32) -> DirtyIndex {
        DirtyIndex {
            cold: IndexSet::empty(extents),
            rewritten: IndexSet::empty(extents),
            by_age: Queues::new(slots),
            since: vec![Nanos::ZERO; slots as usize],
        }
    }

    pub(super) fn insert(&mut self, extent: u32, slot: SlotIndex, now: Nanos) {
        self.cold.put(extent);
        self.since[slot.index()] = now;
        self.by_age.push(0, slot);
    }

    pub(super) fn remove(&mut self, extent: u32, slot: SlotIndex) {
        if !self.cold.take_if_free(extent) {
            self.rewritten.take(extent);
        }
        self.by_age.unlink(slot);
    }

    /// Number of dirty extents.
    #[inline]
    pub(in crate::cache) fn count(&self) -> u32 {
        self.cold.count() + self.rewritten.count()
    }

    pub(in crate::cache) fn contains(&self, extent: u32) -> bool {
        self.cold.contains(extent) || self.rewritten.contains(extent)
    }

    /// Notes that a dirty extent, which is cold, was written again.
    pub(super) fn rewrite(&mut self, extent: u32) {
        self.cold.take(extent);
        self.rewritten.put(extent);
    }

    /// Counts all dirty extents as cold.
    pub(super) fn cool(&mut self) {
        self.cold.append(&mut self.rewritten);
    }

    /// The first dirty extent that is not before this one; `cold`: and was not written again lately.
    pub(in crate::cache) fn next_from(&self, extent: u32, cold: bool) -> Option<u32> {
        let first = self.cold.next_from(extent);
        if cold || self.rewritten.count() == 0 {
            return first;
        }
        let rewritten = self.rewritten.next_from(extent);
        first.min(rewritten).or(first).or(rewritten)
    }

    /// Since when the extent that has been dirty longest is so; `None` if none is.
    pub(in crate::cache) fn oldest(&self) -> Option<Nanos> {
        self.by_age.oldest(0, |_| true).map(|slot| self.since(slot))
    }

    /// The slots of the dirty extents, in the order in which they became dirty: all, or those after this one if it is among
    /// them.
    pub(super) fn by_age(&self, after: Option<SlotIndex>) -> impl Iterator<Item = SlotIndex> {
        let first = match after.filter(|slot| self.by_age.queue_of(*slot).is_some()) {
            Some(slot) => self.by_age.newer(slot),
            None => self.by_age.oldest(0, |_| true),
        };
        std::iter::successors(first, |slot| self.by_age.newer(*slot))
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
            let (mut dirty, mut rewritten, mut since) = (BTreeSet::new(), BTreeSet::new(), [0; EXTENTS as usize]);
            for (now, (step, extent)) in (0..).zip(steps) {
                // Some become dirty at one moment.
                let now = now / 2;
                match step {
                    0 | 1 if dirty.insert(extent) => {
                        index.insert(extent, SlotIndex(extent), Nanos(now));
                        since[extent as usize] = now;
                    }
                    2 if dirty.remove(&extent) => {
                        index.remove(extent, SlotIndex(extent));
                        rewritten.remove(&extent);
                    }
                    3 if dirty.contains(&extent) && rewritten.insert(extent) => index.rewrite(extent),
                    4 if extent < 10 => {
                        index.cool();
                        rewritten.clear();
                    }
                    _ => {}
                }
                prop_assert_eq!(index.count() as usize, dirty.len());
                prop_assert_eq!(index.contains(extent), dirty.contains(&extent));
                let oldest = dirty.iter().map(|extent| Nanos(since[*extent as usize])).min();
                prop_assert_eq!(index.oldest(), oldest);
            }
            for from in 0..EXTENTS {
                let next = |cold: bool| dirty.range(from..).copied().find(|extent| !cold || !rewritten.contains(extent));
                prop_assert_eq!(index.next_from(from, false), next(false));
                prop_assert_eq!(index.next_from(from, true), next(true));
            }
        }
    }
}

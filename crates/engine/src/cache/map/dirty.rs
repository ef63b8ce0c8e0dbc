//! The dirty extents of a cache: in the order of their homes, which is the order in which a sweep writes them home, and in
//! the order in which they became dirty. Both have room for every slot of the fast device, so no dirty extent is forgotten.

use peryton_policy::replacement::SlotIndex;
use peryton_units::Nanos;

use crate::cache::map::index_set::IndexSet;

/// No slot.
const NONE: u32 = u32::MAX;
/// In place of the older neighbour: the slot's extent is not dirty.
const CLEAN: u32 = u32::MAX - 1;

/// A slot in the order of age. All that is kept of it is beside each other, because a slot that becomes dirty or clean is
/// rarely in the processor's cache.
#[derive(Clone, Copy, Debug)]
struct Aged {
    newer: u32,
    older: u32,
    /// When its extent became dirty.
    since: Nanos,
}

#[derive(Debug)]
pub(in crate::cache) struct DirtyIndex {
    /// The extents that were not written again lately.
    cold: IndexSet,
    /// Those that were.
    rewritten: IndexSet,
    /// Each slot of the cache. The dirty ones are a list, the one that became dirty first at the old end.
    slots: Vec<Aged>,
    newest: u32,
    oldest: u32,
}

impl DirtyIndex {
    /// Makes an empty index for `extents` extents in `slots` slots.
    pub(super) fn new(extents: u32, slots: u32) -> DirtyIndex {
        assert!(slots < CLEAN, "{slots} slots");
        DirtyIndex {
            cold: IndexSet::empty(extents),
            rewritten: IndexSet::empty(extents),
            slots: vec![Aged { newer: NONE, older: CLEAN, since: Nanos::ZERO }; slots as usize],
            newest: NONE,
            oldest: NONE,
        }
    }

    #[inline]
    pub(super) fn insert(&mut self, extent: u32, slot: SlotIndex, now: Nanos) {
        self.cold.put(extent);
        let aged = &mut self.slots[slot.index()];
        debug_assert_eq!(aged.older, CLEAN, "slot {slot:?} is dirty twice");
        *aged = Aged { newer: NONE, older: self.newest, since: now };
        match self.newest {
            NONE => self.oldest = slot.0,
            newest => self.slots[newest as usize].newer = slot.0,
        }
        self.newest = slot.0;
    }

    /// Removes an extent; `rewritten`: it was probably written again lately.
    #[inline]
    pub(super) fn remove(&mut self, extent: u32, slot: SlotIndex, rewritten: bool) {
        let (first, second) = match rewritten {
            true => (&mut self.rewritten, &mut self.cold),
            false => (&mut self.cold, &mut self.rewritten),
        };
        if !first.take_if_free(extent) {
            second.take(extent);
        }
        let aged = &mut self.slots[slot.index()];
        let Aged { newer, older, .. } = *aged;
        debug_assert_ne!(older, CLEAN, "slot {slot:?} is not dirty");
        aged.older = CLEAN;
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }

    /// Prefetches what the other calls read of this extent and its neighbours into the processor's cache.
    #[inline]
    pub(in crate::cache) fn prefetch(&self, extent: u32) {
        self.cold.prefetch(extent);
        self.rewritten.prefetch(extent);
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
    #[inline]
    pub(in crate::cache) fn oldest(&self) -> Option<Nanos> {
        slot(self.oldest).map(|slot| self.since(slot))
    }

    /// The slots of the dirty extents, in the order in which they became dirty: all, or those after this one if it is among
    /// them.
    pub(super) fn by_age(&self, after: Option<SlotIndex>) -> impl Iterator<Item = SlotIndex> {
        let newer = |of: SlotIndex| slot(self.slots[of.index()].newer);
        let first = match after.filter(|slot| self.slots[slot.index()].older != CLEAN) {
            Some(slot) => newer(slot),
            None => slot(self.oldest),
        };
        std::iter::successors(first, move |slot| newer(*slot))
    }

    /// Since when the extent in this slot, which is dirty, has been so.
    #[inline]
    pub(in crate::cache) fn since(&self, slot: SlotIndex) -> Nanos {
        self.slots[slot.index()].since
    }
}

fn slot(link: u32) -> Option<SlotIndex> {
    (link != NONE).then_some(SlotIndex(link))
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
                        // A wrong guess removes it all the same.
                        index.remove(extent, SlotIndex(extent), now % 3 == 0);
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

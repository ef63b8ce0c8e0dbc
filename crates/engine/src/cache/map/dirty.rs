//! The dirty extents of a cache: in the order of their origins, which is the order in which a sweep writes them back, and in
//! the order in which they became dirty. Both have room for every slot of the fast device, so no dirty extent is forgotten.
//!
//! A write to a clean copy must not wait for memory: each of the two orders is far larger than the processor's caches. So
//! changes of the order of origins are noted, and carried out together, so that their memory is fetched at the same time.
//! In the order of age a clean entry stays until all entries before it are clean, or until half of all entries are.

use std::collections::VecDeque;

use peryton_policy::replacement::SlotIndex;
use peryton_units::Nanos;

use crate::cache::map::index_set::IndexSet;

/// The most changes that are noted before they are carried out.
const MOST_NOTED: usize = 128;

/// Clean entries are removed from the order of age when it has this many entries more than twice the number of dirty extents.
const MOST_STALE: usize = 1024;

#[derive(Clone, Copy, Debug)]
enum Change {
    Dirtied,
    Rewritten,
    Cleaned,
}

#[derive(Debug)]
pub(in crate::cache) struct DirtyIndex {
    count: u32,
    /// The extents that were not written again lately, except for the noted changes.
    cold: IndexSet,
    /// The extents that were written again lately, except for the noted changes.
    rewritten: IndexSet,
    /// Changes of these two sets that are still to be carried out, in their order.
    noted: Vec<(u32, Change)>,
    /// The slots, and when they became dirty, in that order. An entry counts if `since` says the same of the slot.
    by_age: VecDeque<(SlotIndex, Nanos)>,
    /// The number of entries that have been removed from the front of `by_age`: the position of the first remaining one.
    removed: u64,
    /// For each slot, when its extent became dirty, plus one; zero if it is clean.
    since: Vec<u64>,
}

/// Where an entry is in the order of age. It grows when entries behind this one are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) struct AgePosition(u64);

impl DirtyIndex {
    /// Makes an empty index for `extents` extents in `slots` slots.
    pub(super) fn new(extents: u32, slots: u32) -> DirtyIndex {
        DirtyIndex {
            count: 0,
            cold: IndexSet::empty(extents),
            rewritten: IndexSet::empty(extents),
            noted: Vec::with_capacity(MOST_NOTED),
            by_age: VecDeque::new(),
            removed: 0,
            since: vec![0; slots as usize],
        }
    }

    pub(super) fn insert(&mut self, extent: u32, slot: SlotIndex, now: Nanos) {
        self.count += 1;
        self.note(extent, Change::Dirtied);
        if self.by_age.len() >= 2 * self.count as usize + MOST_STALE {
            let since = &self.since;
            let before = self.by_age.len();
            self.by_age.retain(|entry| is_so(since, *entry));
            self.removed += (before - self.by_age.len()) as u64;
        }
        self.since[slot.index()] = now.0.saturating_add(1);
        self.by_age.push_back((slot, now));
    }

    pub(super) fn remove(&mut self, extent: u32, slot: SlotIndex) {
        self.count -= 1;
        self.note(extent, Change::Cleaned);
        self.since[slot.index()] = 0;
    }

    /// Number of dirty extents.
    #[inline]
    pub(in crate::cache) fn count(&self) -> u32 {
        self.count
    }

    /// Whether the index has this extent: for checks of the index, since the extent's own entry says it as well, and sooner.
    pub(in crate::cache) fn contains(&self, extent: u32) -> bool {
        match self.noted.iter().rev().find(|(noted, _)| *noted == extent) {
            Some((_, change)) => !matches!(change, Change::Cleaned),
            None => self.cold.contains(extent) || self.rewritten.contains(extent),
        }
    }

    /// Notes that a dirty extent, which is cold, was written again.
    pub(super) fn rewrite(&mut self, extent: u32) {
        self.note(extent, Change::Rewritten);
    }

    #[inline]
    fn note(&mut self, extent: u32, change: Change) {
        if self.noted.len() == MOST_NOTED {
            self.carry_out();
        }
        self.noted.push((extent, change));
    }

    /// Carries out the noted changes.
    fn carry_out(&mut self) {
        for (extent, _) in &self.noted {
            self.cold.prefetch(*extent);
            self.rewritten.prefetch(*extent);
        }
        for (extent, change) in self.noted.drain(..) {
            match change {
                Change::Dirtied => self.cold.put(extent),
                Change::Rewritten => {
                    self.cold.take(extent);
                    self.rewritten.put(extent);
                }
                Change::Cleaned if self.cold.take_if_free(extent) => {}
                Change::Cleaned => self.rewritten.take(extent),
            }
        }
    }

    /// Counts all dirty extents as cold.
    pub(super) fn cool(&mut self) {
        self.carry_out();
        self.cold.append(&mut self.rewritten);
    }

    /// The first dirty extent that is not before this one; `cold`: and was not written again lately.
    pub(super) fn next_from(&mut self, extent: u32, cold: bool) -> Option<u32> {
        self.carry_out();
        let first = self.cold.next_from(extent);
        if cold || self.rewritten.count() == 0 {
            return first;
        }
        let rewritten = self.rewritten.next_from(extent);
        first.min(rewritten).or(first).or(rewritten)
    }

    /// When the extent that has been dirty longest became dirty; `None` if none is dirty.
    pub(in crate::cache) fn oldest(&self) -> Option<Nanos> {
        self.by_age.iter().find(|entry| is_so(&self.since, **entry)).map(|(_, since)| *since)
    }

    /// Removes clean entries at the old end, so that [`DirtyIndex::oldest`] finds the oldest dirty one at once.
    pub(super) fn forget_clean(&mut self) {
        while let Some(entry) = self.by_age.front()
            && !is_so(&self.since, *entry)
        {
            self.by_age.pop_front();
            self.removed += 1;
        }
    }

    /// The slots of the dirty extents, in the order in which they became dirty: all, or those after this position. Slots from
    /// before it may come again if clean entries were removed in between; none is left out.
    pub(super) fn by_age(&self, after: Option<AgePosition>) -> impl Iterator<Item = (AgePosition, SlotIndex)> {
        let first = after.map_or(0, |AgePosition(last)| (last + 1).saturating_sub(self.removed));
        let entries = self.by_age.range((first as usize).min(self.by_age.len())..).copied();
        let dirty = (self.removed + first..).zip(entries).filter(|(_, entry)| is_so(&self.since, *entry));
        dirty.map(|(position, (slot, _))| (AgePosition(position), slot))
    }

    /// When the dirty extent in this slot became dirty.
    pub(in crate::cache) fn since(&self, slot: SlotIndex) -> Nanos {
        Nanos(self.since[slot.index()].saturating_sub(1))
    }
}

/// Whether an entry in the order of age is still valid.
#[inline]
fn is_so(since: &[u64], (slot, at): (SlotIndex, Nanos)) -> bool {
    since[slot.index()] == at.0.saturating_add(1)
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
                if now % 3 == 0 {
                    index.forget_clean();
                    prop_assert_eq!(index.oldest(), oldest);
                }
                // In the order of age, and each once, unless it was clean and dirty again at one moment.
                let mut listed = index.by_age(None).map(|(_, slot)| slot.0).collect::<Vec<_>>();
                prop_assert!(listed.is_sorted_by_key(|slot| since[*slot as usize]));
                let (first, rest) = (listed.first().copied(), index.by_age(index.by_age(None).next().map(|(at, _)| at)));
                prop_assert_eq!(rest.map(|(_, slot)| slot.0).collect::<Vec<_>>(), listed.get(1..).unwrap_or_default());
                prop_assert_eq!(first.is_some(), !dirty.is_empty());
                listed.sort_unstable();
                listed.dedup();
                prop_assert_eq!(listed, dirty.iter().copied().collect::<Vec<_>>());
            }
            for from in 0..EXTENTS {
                let next = |cold: bool| dirty.range(from..).copied().find(|extent| !cold || !rewritten.contains(extent));
                prop_assert_eq!(index.next_from(from, false), next(false));
                prop_assert_eq!(index.next_from(from, true), next(true));
            }
        }
    }
}

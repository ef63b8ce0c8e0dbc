//! Slots in the order of a rank, for policies that evict what ranks lowest.

use std::collections::BTreeSet;

use crate::{
    PerSlot,
    replacement::SlotIndex,
    saving::{Saving, halves, whole},
    search::{OLDEST, Search},
};

/// A rank, and the number of the access that gave it: of two equal ranks the older one is lower.
type Rank = (u64, u64);
/// A place in the order, with the slot.
type Place = (u64, u64, u32);
const END: Place = (u64::MAX, u64::MAX, u32::MAX);

/// Slots with a rank each. Ranks are numbers from 0 on, which compare as their bits do.
#[derive(Clone, Debug)]
pub struct Ranks {
    order: BTreeSet<Place>,
    search: Search<Place>,
    ranks: PerSlot<Option<Rank>>,
    accesses: u64,
}

impl Ranks {
    /// No slot has a rank.
    pub fn new(slots: u32) -> Ranks {
        Ranks { order: BTreeSet::new(), search: Search::new(END), ranks: PerSlot::new(slots), accesses: 0 }
    }

    /// How often [`Ranks::put`] was called.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Gives a slot a rank in place of the one that it has, if it has one.
    pub fn put(&mut self, slot: SlotIndex, rank: f64) {
        self.accesses += 1;
        self.set(slot, (rank.max(0.0).to_bits(), self.accesses));
    }

    fn set(&mut self, slot: SlotIndex, rank: Rank) {
        self.take(slot);
        self.ranks.set(slot, Some(rank));
        self.order.insert((rank.0, rank.1, slot.0));
    }

    /// The rank of a slot.
    pub fn rank(&self, slot: SlotIndex) -> Option<f64> {
        self.ranks.get(slot).copied().flatten().map(|(rank, _)| f64::from_bits(rank))
    }

    /// Takes the rank of a slot away.
    pub fn take(&mut self, slot: SlotIndex) -> Option<f64> {
        let (rank, access) = self.ranks.get(slot).copied().flatten()?;
        self.ranks[slot] = None;
        self.order.remove(&(rank, access, slot.0));
        Some(f64::from_bits(rank))
    }

    /// The slot that ranks lowest of those that may leave; `None` if a bounded search finds none. The next one goes on there
    /// ([`Queues::oldest`](crate::Queues::oldest)).
    pub fn lowest(&mut self, may_leave: impl FnMut(SlotIndex) -> bool) -> Option<SlotIndex> {
        self.lowest_from(0.0, may_leave)
    }

    /// The slot that ranks lowest of those that may leave and rank no lower than this.
    pub fn lowest_from(&mut self, rank: f64, mut may_leave: impl FnMut(SlotIndex) -> bool) -> Option<SlotIndex> {
        let order = &self.order;
        let mut walk = |from: Place, end: Place, most: usize| {
            let mut places = order.range(from..).take_while(|place| **place < end);
            let found = places.by_ref().take(most).find(|(_, _, slot)| may_leave(SlotIndex(*slot)));
            found.map(|place| (SlotIndex(place.2), *place)).ok_or_else(|| places.next().copied().unwrap_or(end))
        };
        match walk((rank.to_bits(), 0, 0), END, OLDEST) {
            Ok((slot, _)) => Some(slot),
            Err(END) => None,
            Err(next) => {
                // An earlier search may have been from a lower rank.
                self.search.again = self.search.again.max(next);
                self.search.beyond = self.search.beyond.max(next);
                self.search.go_on(next, END, walk)
            }
        }
    }

    /// The lowest rank that is no lower than this.
    pub fn least_from(&self, rank: f64) -> Option<f64> {
        self.order.range((rank.to_bits(), 0, 0)..).next().map(|(rank, ..)| f64::from_bits(*rank))
    }

    /// Saves the ranks in items of five words; returns whether that is complete.
    pub(crate) fn save(&self, list: u8, to: &mut Saving<'_>) -> bool {
        let extent_in = to.extent_in();
        to.slots(list, self.ranks.len(), |slot| {
            let (rank, access) = self.ranks[slot]?;
            let ([a, b], [c, d]) = (halves(rank), halves(access));
            Some([extent_in(slot)?, a, b, c, d])
        })
    }

    /// Takes an item back.
    pub(crate) fn load(&mut self, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        let [extent, a, b, c, d] = *item else { return };
        let (rank, access) = (whole([a, b]), whole([c, d]) & u64::MAX >> 1);
        let number = f64::from_bits(rank);
        let Some(slot) = slot_of(extent).filter(|_| number >= 0.0 && number.is_finite()) else { return };
        self.accesses = self.accesses.max(access);
        self.set(slot, (rank, access));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_row_that_may_not_leave_is_passed_in_some_searches_and_then_no_more() {
        let mut ranks = Ranks::new(4_000);
        (0..4_000).for_each(|slot| ranks.put(SlotIndex(slot), f64::from(slot)));
        let may_leave = |slot: SlotIndex| slot.0 >= 3_000;
        let in_vain = (0..200).take_while(|_| ranks.lowest(may_leave).is_none()).count();
        assert!((60..100).contains(&in_vain), "{in_vain} searches");
        for slot in (3_000..3_900).map(SlotIndex) {
            assert_eq!(ranks.lowest(may_leave), Some(slot));
            ranks.take(slot);
        }
        // From a higher rank on, nothing lower is found, wherever the last search ended.
        let found = ranks.lowest_from(3_950.0, may_leave);
        assert_eq!(found, Some(SlotIndex(3_950)));
    }
}

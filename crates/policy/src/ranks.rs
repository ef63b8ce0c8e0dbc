//! Slots in the order of a rank, for policies that evict what ranks lowest.

use std::collections::BTreeSet;

use crate::{
    PerSlot,
    replacement::SlotIndex,
    saving::{Saving, halves, whole},
};

/// The most slots that a search for a victim examines.
const MOST_EXAMINED: usize = 128;

/// A rank, and the number of the access that gave it: of two equal ranks the older one is lower.
type Rank = (u64, u64);

/// Slots with a rank each. Ranks are numbers from 0 on, which compare as their bits do.
#[derive(Clone, Debug)]
pub struct Ranks {
    order: BTreeSet<(u64, u64, u32)>,
    ranks: PerSlot<Option<Rank>>,
    accesses: u64,
}

impl Ranks {
    /// No slot has a rank.
    pub fn new(slots: u32) -> Ranks {
        Ranks { order: BTreeSet::new(), ranks: PerSlot::new(slots), accesses: 0 }
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

    /// The slot that ranks lowest of those that may leave; `None` if there is none among the first 128.
    pub fn lowest(&self, mut may_leave: impl FnMut(SlotIndex) -> bool) -> Option<SlotIndex> {
        let slots = self.order.iter().take(MOST_EXAMINED).map(|(_, _, slot)| SlotIndex(*slot));
        slots.into_iter().find(|slot| may_leave(*slot))
    }

    /// The slot that ranks lowest of those that may leave and rank no lower than this.
    pub fn lowest_from(&self, rank: f64, mut may_leave: impl FnMut(SlotIndex) -> bool) -> Option<SlotIndex> {
        let from = self.order.range((rank.to_bits(), 0, 0)..).take(MOST_EXAMINED);
        from.map(|(_, _, slot)| SlotIndex(*slot)).find(|slot| may_leave(*slot))
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

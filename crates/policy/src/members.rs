//! The occupied slots in a list from which any can be drawn, for policies that sample.

use peryton_units::SplitMix64;

use crate::{
    PerSlot,
    replacement::SlotIndex,
    saving::{Saving, halves, whole},
};

/// The numbers of lists where the state is saved.
const MEMBERS: u8 = 0;
const RANDOM: u8 = 1;

/// Slots, in no order.
#[derive(Clone, Debug)]
pub(crate) struct Members {
    slots: Vec<SlotIndex>,
    /// The place of each slot in the list.
    places: PerSlot<Option<u32>>,
}

impl Members {
    pub(crate) fn new(slots: u32) -> Members {
        Members { slots: Vec::with_capacity(slots as usize), places: PerSlot::new(slots) }
    }

    pub(crate) fn contains(&self, slot: SlotIndex) -> bool {
        self.places.get(slot).is_some_and(Option::is_some)
    }

    pub(crate) fn add(&mut self, slot: SlotIndex) {
        if !self.contains(slot) {
            self.places.set(slot, Some(self.slots.len() as u32));
            self.slots.push(slot);
        }
    }

    pub(crate) fn remove(&mut self, slot: SlotIndex) {
        let Some(place) = self.places.get(slot).copied().flatten() else { return };
        self.places[slot] = None;
        self.slots.swap_remove(place as usize);
        if let Some(moved) = self.slots.get(place as usize) {
            self.places[*moved] = Some(place);
        }
    }

    /// Any slot.
    pub(crate) fn draw(&self, random: &mut SplitMix64) -> Option<SlotIndex> {
        (!self.slots.is_empty()).then(|| self.slots[random.below(self.slots.len() as u64) as usize])
    }

    /// The first slot that may leave.
    pub(crate) fn first(&self, mut may_leave: impl FnMut(SlotIndex) -> bool) -> Option<SlotIndex> {
        self.slots.iter().copied().take(128).find(|slot| may_leave(*slot))
    }

    /// Saves the list in its order, and the state of the generator; returns whether that is complete.
    pub(crate) fn save(&self, random: &SplitMix64, to: &mut Saving<'_>) -> bool {
        let extent_in = to.extent_in();
        let complete =
            to.slots(MEMBERS, self.slots.len() as u32, |place| Some([extent_in(self.slots[place.index()])?]));
        if complete {
            to.put(RANDOM, &halves(random.state()));
        }
        complete
    }

    pub(crate) fn load(
        &mut self,
        random: &mut SplitMix64,
        list: u8,
        item: &[u32],
        slot_of: &dyn Fn(u32) -> Option<SlotIndex>,
    ) {
        match (list, item) {
            (MEMBERS, [extent]) => {
                if let Some(slot) = slot_of(*extent) {
                    self.add(slot);
                }
            }
            (RANDOM, [low, high]) => *random = SplitMix64::new(whole([*low, *high])),
            _ => {}
        }
    }
}

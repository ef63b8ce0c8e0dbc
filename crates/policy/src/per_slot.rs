//! What a policy keeps for each slot.

use std::ops::{Index, IndexMut};

use peryton_units::prefetch;

use crate::replacement::SlotIndex;

/// A value for each slot. A slot that is [set](PerSlot::set) for the first time may lie behind the others: a cache of objects has
/// as many slots as it happens to hold objects.
#[derive(Clone, Debug, Default)]
pub struct PerSlot<T>(Vec<T>);

impl<T: Clone + Default> PerSlot<T> {
    /// The value of each of the slots from 0 to `slots` - 1 is the default.
    pub fn new(slots: u32) -> PerSlot<T> {
        PerSlot(vec![T::default(); slots as usize])
    }

    /// Sets the value of a slot, which may be a new one.
    #[inline]
    pub fn set(&mut self, slot: SlotIndex, value: T) {
        if slot.index() >= self.0.len() {
            self.extend(slot);
        }
        self.0[slot.index()] = value;
    }

    #[cold]
    fn extend(&mut self, slot: SlotIndex) {
        let room = (slot.index() + 1).max(2 * self.0.len());
        self.0.resize(room, T::default());
    }

    /// Number of slots.
    pub fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a slot, if there is such a slot.
    #[inline]
    pub fn get(&self, slot: SlotIndex) -> Option<&T> {
        self.0.get(slot.index())
    }

    /// Fetches the value into the processor's cache.
    #[inline]
    pub fn prefetch(&self, slot: SlotIndex) {
        if let Some(value) = self.get(slot) {
            prefetch(value);
        }
    }
}

impl<T> Index<SlotIndex> for PerSlot<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: SlotIndex) -> &T {
        &self.0[slot.index()]
    }
}

impl<T> IndexMut<SlotIndex> for PerSlot<T> {
    #[inline]
    fn index_mut(&mut self, slot: SlotIndex) -> &mut T {
        &mut self.0[slot.index()]
    }
}

//! What must hold between any two calls; checked by the tests after every step.

use std::collections::HashMap;

use crate::{cache::access::Mode, cache::drive::CacheDrive};

impl CacheDrive {
    /// Panics with what is wrong. `quiet`: no command is in flight.
    pub(in crate::cache) fn check_tables(&self, quiet: bool) {
        let mut resident = 0;
        let dirty = self.extents.iter().filter(|extent| extent.dirty).count();
        assert_eq!(dirty, self.dirty as usize, "the count of dirty extents is off");
        let mut owner: HashMap<u32, u32> = HashMap::new();
        for (index, extent) in self.extents.iter().enumerate() {
            let index = index as u32;
            assert!(!extent.dirty || self.mode == Mode::Caching, "extent {index} is dirty without a home");
            assert!(!extent.dirty || extent.place().is_some(), "extent {index} is dirty but not cached");
            if let Some(moving) = extent.moving() {
                assert_eq!(self.moves[moving].extent, index, "extent {index} is moved by a stranger");
            }
            let Some(place) = extent.place() else { continue };
            assert_eq!(owner.insert(place.0, index), None, "place {} has two tenants", place.0);
            match self.layout.fast_slot(place) {
                Some(slot) => {
                    assert_eq!(self.slots[slot.0 as usize], index + 1, "slot {} points elsewhere", slot.0);
                    assert!(!self.fast_free.contains(slot.0), "slot {} is in use and free", slot.0);
                }
                None => {
                    assert_eq!(self.mode, Mode::Tiering, "the cache maps extent {index} to its home");
                    let slot = self.layout.slow_slot(place);
                    assert!(!self.slow_free.contains(slot), "slow slot {slot} is in use and free");
                }
            }
        }
        for (slot, tenant) in self.slots.iter().enumerate() {
            if *tenant == 0 {
                continue;
            }
            resident += 1;
            assert!(!self.fast_free.contains(slot as u32), "slot {slot} is reserved and free");
            let extent = &self.extents[*tenant as usize - 1];
            let here = extent.place().is_some_and(|place| place.0 == slot as u32);
            assert!(here || extent.moving().is_some(), "slot {slot} is reserved for nobody");
        }
        assert_eq!(resident, self.resident, "the count of resident extents is off");
        for freed in self.journal.pending_free() {
            assert!(!owner.contains_key(&freed.place.0), "place {} is in use and pending free", freed.place.0);
            let free = match self.layout.fast_slot(freed.place) {
                Some(slot) => self.fast_free.contains(slot.0),
                None => self.slow_free.contains(self.layout.slow_slot(freed.place)),
            };
            assert!(!free, "place {} is free before its commit", freed.place.0);
        }
        let free = self.fast_free.count();
        let pending =
            self.journal.pending_free().filter(|freed| self.layout.fast_slot(freed.place).is_some()).count() as u32;
        // The rest is being discarded; with nothing in flight there is none.
        let known = free + pending + resident;
        assert!(known <= self.layout.fast_slots, "a slot of the fast device is counted twice");
        assert!(!quiet || known == self.layout.fast_slots, "slots of the fast device have leaked");
    }
}

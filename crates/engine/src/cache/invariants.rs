//! The invariants that hold between any two calls; tests check them after every step.

use std::collections::HashMap;

use peryton_policy::replacement::SlotIndex;

use crate::cache::{access::Mode, blocks::FULL, drive::CacheDrive, map::extent::Place};

impl CacheDrive {
    /// Panics with a description of the first violation. `quiet`: no command is in flight.
    pub(in crate::cache) fn check_tables(&self, quiet: bool) {
        assert!(self.ready.is_empty(), "something is ready and was not carried out");
        let dirty = self.map.entries().filter(|(_, entry)| entry.is_dirty()).count();
        assert_eq!(dirty, self.map.dirty().count() as usize, "the count of dirty extents is off");
        for (index, extent) in self.map.entries() {
            let known = self.mode == Mode::Caching && self.map.dirty().contains(index);
            assert_eq!(known, extent.is_dirty(), "the index of dirty extents is wrong about extent {index}");
        }
        if let Some(blocks) = self.layout.blocks {
            let bytes = self.map.all_masks().iter().map(|masks| blocks.bytes(masks.dirty())).sum::<u64>();
            assert_eq!(bytes, self.map.dirty_bytes(), "the count of dirty bytes is off");
            let mut full = [0; FULL as usize + 1];
            let all = self.map.all_masks().iter().filter(|masks| masks.dirty() != 0 && self.units.any());
            all.for_each(|masks| full[self.units.fullness(masks.dirty()) as usize] += 1);
            assert_eq!(full, *self.map.full(), "the counts of full units are off");
        }
        let lost = self.map.entries().filter(|(_, entry)| entry.is_lost()).count();
        assert_eq!(lost, self.map.lost() as usize, "the count of lost extents is off");
        let mut owner: HashMap<u32, u32> = HashMap::new();
        for (index, extent) in self.map.entries() {
            assert!(!extent.is_dirty() || self.mode == Mode::Caching, "extent {index} is dirty without an origin");
            assert!(!extent.is_dirty() || extent.place().is_some(), "extent {index} is dirty but not cached");
            let begins_anew = extent.is_lost() && extent.place().is_some();
            assert!(!begins_anew || self.mode == Mode::Tiering, "extent {index} is lost, and has a place");
            if let Some(moving) = extent.moving() {
                assert_eq!(self.moves[moving].extent, index, "extent {index} is moved by another extent's move");
            }
            let Some(place) = extent.place() else { continue };
            if let Some(blocks) = self.layout.blocks {
                let masks = self.map.masks_of(index);
                let says = [extent.is_dirty(), extent.is_whole(false), extent.is_whole(true)];
                let is = [masks.dirty() != 0, masks.valid() == blocks.all, masks.dirty() == blocks.all];
                assert_eq!(says, is, "the masks of extent {index} say otherwise");
                assert_eq!(
                    (masks.valid() | masks.differs_from_origin()) & !blocks.all,
                    0,
                    "extent {index} has no such blocks"
                );
            }
            assert_eq!(owner.insert(place.0, index), None, "place {} has two tenants", place.0);
            assert!(!self.map.is_free(place), "place {} is in use and free", place.0);
            match self.layout.fast_slot(place) {
                Some(slot) => assert_eq!(self.map.tenant(slot), Some(index), "slot {} points elsewhere", slot.0),
                None => assert_eq!(self.mode, Mode::Tiering, "the cache maps extent {index} to its origin"),
            }
        }
        let mut resident = 0;
        for slot in 0..self.layout.fast_slots {
            let Some(tenant) = self.map.tenant(SlotIndex(slot)) else { continue };
            resident += 1;
            assert!(!self.map.is_free(Place(slot)), "slot {slot} is reserved and free");
            let extent = self.map.entry(tenant);
            let here = extent.place() == Some(Place(slot));
            assert!(here || extent.moving().is_some(), "slot {slot} is reserved for nothing");
        }
        assert_eq!(resident, self.map.resident(), "the count of resident extents is off");
        for freed in self.journal.pending_free() {
            assert!(!owner.contains_key(&freed.place.0), "place {} is in use and pending free", freed.place.0);
            let free = self.map.is_free(freed.place);
            assert!(!free, "place {} is free before its commit", freed.place.0);
        }
        let free = self.map.free_slots() + self.map.withheld_slots();
        let pending =
            self.journal.pending_free().filter(|freed| self.layout.fast_slot(freed.place).is_some()).count() as u32;
        // The remaining places are being discarded; with no command in flight there are none.
        let known = free + pending + resident;
        assert!(known <= self.layout.fast_slots, "a slot of the fast device is counted twice");
        assert!(!quiet || known == self.layout.fast_slots, "slots of the fast device have leaked");
    }
}

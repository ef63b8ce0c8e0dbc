//! The sole owner of extents, slots and free places.

use peryton_format::{
    entry::MapEntry,
    mutation::{self, Mutation},
};
use peryton_policy::replacement::SlotIndex;
use peryton_units::{Nanos, prefetch};

use crate::cache::{
    layout::CacheLayout,
    map::{
        candidates::MapCandidates,
        extent::{Extent, Place},
        free::FreeMap,
    },
};

/// What is where.
#[derive(Debug)]
pub(in crate::cache) struct ExtentMap {
    layout: CacheLayout,
    extents: Vec<Extent>,
    /// For each slot of the fast device the extent in it plus one, zero for none.
    slots: Vec<u32>,
    fast_free: FreeMap,
    /// Tiering only; caching has a home for each extent.
    slow_free: FreeMap,
    /// Places that may hold an earlier tenant's data, by index; a fresh device reads as zeros.
    stale: Vec<u64>,
    /// Slots of the fast device that the map uses or a move has reserved.
    resident: u32,
    /// Extents of the cache that are newer than their homes.
    dirty: u32,
    /// Extents whose only copy is lost.
    lost: u32,
}

impl ExtentMap {
    /// An empty map. `slow_slots`: how many slots of the slow device it gives out.
    pub(in crate::cache) fn new(layout: CacheLayout, slow_slots: u32) -> ExtentMap {
        let places = layout.fast_slots as usize + layout.slow_slots as usize;
        ExtentMap {
            layout,
            extents: vec![Extent::default(); layout.extents as usize],
            slots: vec![0; layout.fast_slots as usize],
            fast_free: FreeMap::full(layout.fast_slots),
            slow_free: FreeMap::full(slow_slots),
            stale: vec![0; places.div_ceil(64)],
            resident: 0,
            dirty: 0,
            lost: 0,
        }
    }

    // Extents.

    #[inline]
    pub(in crate::cache) fn entry(&self, extent: u32) -> &Extent {
        &self.extents[extent as usize]
    }

    /// For what is noted of the use of an extent; its place, and what counts it, are changed with the methods below.
    #[inline]
    pub(in crate::cache) fn entry_mut(&mut self, extent: u32) -> &mut Extent {
        &mut self.extents[extent as usize]
    }

    /// The entry, if the extent is there at all.
    #[inline]
    pub(in crate::cache) fn get(&self, extent: u32) -> Option<&Extent> {
        self.extents.get(extent as usize)
    }

    pub(in crate::cache) fn len(&self) -> usize {
        self.extents.len()
    }

    pub(in crate::cache) fn entries(&self) -> impl Iterator<Item = (u32, &Extent)> {
        (0..).zip(&self.extents)
    }

    #[inline]
    pub(in crate::cache) fn set_place(&mut self, extent: u32, place: Option<Place>) {
        self.extents[extent as usize].set_place(place);
    }

    /// The extent is in no place from now on. Its misses count from zero.
    pub(in crate::cache) fn unmap(&mut self, extent: u32) {
        let entry = &mut self.extents[extent as usize];
        entry.set_place(None);
        entry.misses = 0;
    }

    pub(in crate::cache) fn set_dirty(&mut self, extent: u32, dirty: bool) {
        match (self.extents[extent as usize].set_dirty(dirty), dirty) {
            (false, true) => self.dirty += 1,
            (true, false) => self.dirty -= 1,
            _ => {}
        }
    }

    pub(in crate::cache) fn set_lost(&mut self, extent: u32, lost: bool) {
        match (self.extents[extent as usize].set_lost(lost), lost) {
            (false, true) => self.lost += 1,
            (true, false) => self.lost -= 1,
            _ => {}
        }
    }

    /// Extents of the cache that are newer than their homes.
    pub(in crate::cache) fn dirty(&self) -> u32 {
        self.dirty
    }

    /// Extents whose only copy is lost.
    pub(in crate::cache) fn lost(&self) -> u32 {
        self.lost
    }

    /// The map as the journal has it.
    pub(in crate::cache) fn image(&self) -> Vec<MapEntry> {
        self.extents.iter().map(Extent::entry).collect()
    }

    // Slots of the fast device.

    /// The extent that a slot holds, or is reserved for.
    #[inline]
    pub(in crate::cache) fn tenant(&self, slot: SlotIndex) -> Option<u32> {
        self.slots[slot.index()].checked_sub(1)
    }

    /// Slots of the fast device that the map uses or a move has reserved.
    #[inline]
    pub(in crate::cache) fn resident(&self) -> u32 {
        self.resident
    }

    /// Whether the fast device holds as many extents as it may.
    #[inline]
    pub(in crate::cache) fn fast_is_full(&self) -> bool {
        self.resident >= self.layout.fast_usable
    }

    pub(in crate::cache) fn free_slots(&self) -> u32 {
        self.fast_free.count()
    }

    /// Takes the lowest free slot, which is to be occupied.
    pub(in crate::cache) fn take_slot(&mut self) -> Option<SlotIndex> {
        self.fast_free.take_lowest().map(SlotIndex)
    }

    pub(in crate::cache) fn occupy(&mut self, slot: SlotIndex, extent: u32) {
        self.resident += 1;
        self.slots[slot.index()] = extent + 1;
    }

    /// Nothing is in the slot any more. It is not free yet.
    pub(in crate::cache) fn vacate(&mut self, slot: SlotIndex) {
        self.slots[slot.index()] = 0;
        self.resident -= 1;
    }

    /// Asks the processor for what [`ExtentMap::tenant`] reads.
    #[inline]
    pub(in crate::cache) fn prefetch_tenant(&self, slot: SlotIndex) {
        prefetch(&self.slots[slot.index()]);
    }

    /// What a replacement policy sees of the map. `clean_only`: dirty extents are no victims this time.
    pub(in crate::cache) fn candidates(&mut self, now: Nanos, window: Nanos, clean_only: bool) -> MapCandidates<'_> {
        MapCandidates { now, window, slots: &self.slots, extents: &mut self.extents, clean_only }
    }

    // Places.

    /// Takes the lowest free place of the slow device (tiering).
    pub(in crate::cache) fn take_slow(&mut self) -> Option<Place> {
        self.slow_free.take_lowest().map(|slot| self.layout.slow_place(slot))
    }

    /// The place is free for reuse.
    pub(in crate::cache) fn free(&mut self, place: Place) {
        match self.layout.fast_slot(place) {
            Some(slot) => self.fast_free.put(slot.0),
            None => self.slow_free.put(self.layout.slow_slot(place)),
        }
    }

    pub(in crate::cache) fn is_free(&self, place: Place) -> bool {
        match self.layout.fast_slot(place) {
            Some(slot) => self.fast_free.contains(slot.0),
            None => self.slow_free.contains(self.layout.slow_slot(place)),
        }
    }

    /// Puts the extent where a durable map says it is; says whether the place was free.
    pub(in crate::cache) fn adopt(&mut self, extent: u32, place: Place) -> bool {
        self.set_place(extent, Some(place));
        let slot = self.layout.fast_slot(place);
        let free = match slot {
            Some(slot) => self.fast_free.take_if_free(slot.0),
            None => self.slow_free.take_if_free(self.layout.slow_slot(place)),
        };
        if let Some(slot) = slot.filter(|_| free) {
            self.occupy(slot, extent);
        }
        free
    }

    /// Whether an earlier tenant's data may show in the place.
    pub(in crate::cache) fn is_stale(&self, place: Place) -> bool {
        self.stale[place.0 as usize / 64] >> (place.0 % 64) & 1 == 1 && !mutation::is(Mutation::ShowStale)
    }

    pub(in crate::cache) fn set_stale(&mut self, place: Place, stale: bool) {
        let bit = 1 << (place.0 % 64);
        let word = &mut self.stale[place.0 as usize / 64];
        *word = if stale { *word | bit } else { *word & !bit };
    }
}

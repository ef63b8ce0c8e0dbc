//! The only owner of extents, slots and free places.

use std::collections::BTreeMap;

use bytemuck::zeroed_vec;
use peryton_format::{
    blocks::Masks,
    entry::MapEntry,
    handoff::Record,
    mutation::{self, Mutation},
};
use peryton_policy::replacement::SlotIndex;
use peryton_units::{Nanos, prefetch};
use rustc_hash::FxHashMap;

use crate::cache::{
    blocks::{FULL, Units},
    layout::CacheLayout,
    map::{
        candidates::MapCandidates,
        changed::{Changed, NoRecord},
        dirty::{AgePosition, DirtyIndex},
        extent::{Extent, Loss, Place, Valid},
        index_set::IndexSet,
    },
};

/// The extents, and the places that they are in.
#[derive(Debug)]
pub(in crate::cache) struct ExtentMap {
    layout: CacheLayout,
    /// Pages of it that are never accessed take no memory.
    extents: Vec<Extent>,
    /// For each slot of the fast device, the extent in it plus one; zero for none.
    slots: Vec<u32>,
    fast_free: IndexSet,
    /// How many slots may be used.
    usable: u32,
    /// The slots that are withheld from use.
    withheld: Option<Withheld>,
    /// The free places of the slow device (tiering only; caching has an origin for each extent).
    slow_free: IndexSet,
    /// A bit for each place that may hold an earlier tenant's data; a place never written reads as zeros.
    stale: Vec<u64>,
    /// Number of fast slots that the map uses or a move has reserved.
    resident: u32,
    /// The extents that are newer than their origins (caching); tiering has none.
    dirty: DirtyIndex,
    /// Extents that have been dirty since this time count as dirty because of a crash, and may be clean. They leave in the policy's order,
    /// as clean ones do.
    taken_for_dirty: Option<Nanos>,
    /// The number of the present sweep of the cleaning, from 1 to 255.
    sweep: u8,
    /// Number of extents that are lost.
    lost: u32,
    /// The place and the blocks of data that were lost with a gone device, so that the device can come back.
    left_behind: BTreeMap<u32, (Place, Masks)>,
    /// For each slot, which blocks of its extent it has; empty if it has whole extents.
    masks: Vec<Masks>,
    /// Bytes that are newer than their origins, if slots have masks.
    dirty_bytes: u64,
    /// The units of the slow device, and for each fullness ([`Units::fullness`]) the number of dirty extents, if there are units.
    units: Units,
    full: [u32; FULL as usize + 1],
    /// Extents whose entries have changed since the last [`ExtentMap::take_changed`], if a handoff or an observer needs them.
    changed: Option<Vec<u32>>,
    /// A handoff is kept: a reply needs its changes recorded first.
    answers_rest_on_changed: bool,
    /// Extents with a copy of which writes may have reached the copy or the origin alone. Only kept with a handoff.
    may_differ: FxHashMap<u32, Differing>,
}

/// Copy and origin of an extent may differ although the map calls the copy clean.
#[derive(Clone, Copy, Debug)]
struct Differing {
    valid: Valid,
    /// Writes that have not reached both: those in flight, and those that one device has failed.
    writes: u32,
}

/// The slots from a slot on, which are withheld from use.
#[derive(Debug)]
struct Withheld {
    from: u32,
    /// The empty ones, which would be free.
    free: IndexSet,
    /// How many hold an extent, or are reserved for one.
    residents: u32,
}

impl ExtentMap {
    /// Makes an empty map. `caches`: extents have origins on the slow device, of which the map allocates nothing.
    pub(in crate::cache) fn new(layout: CacheLayout, caches: bool) -> ExtentMap {
        let slow_slots = if caches { 1 } else { layout.slow_slots };
        let places = layout.fast_slots as usize + layout.slow_slots as usize;
        ExtentMap {
            layout,
            extents: zeroed_vec(layout.extents as usize),
            slots: vec![0; layout.fast_slots as usize],
            fast_free: IndexSet::full(layout.fast_slots),
            usable: layout.fast_usable,
            withheld: None,
            slow_free: IndexSet::full(slow_slots),
            stale: vec![0; places.div_ceil(64)],
            resident: 0,
            dirty: DirtyIndex::new(if caches { layout.extents } else { 0 }, if caches { layout.fast_slots } else { 0 }),
            taken_for_dirty: None,
            sweep: 1,
            lost: 0,
            left_behind: BTreeMap::new(),
            masks: zeroed_vec(layout.metadata.masks as usize),
            dirty_bytes: 0,
            units: Units::default(),
            full: [0; FULL as usize + 1],
            changed: None,
            answers_rest_on_changed: false,
            may_differ: FxHashMap::default(),
        }
    }

    // Extents.

    #[inline]
    pub(in crate::cache) fn entry(&self, extent: u32) -> &Extent {
        &self.extents[extent as usize]
    }

    /// The entry of an extent, for changes of its usage data; its place and its flags have methods of their own below.
    #[inline]
    pub(in crate::cache) fn entry_mut(&mut self, extent: u32) -> &mut Extent {
        &mut self.extents[extent as usize]
    }

    /// The entry of an extent, or `None` if the volume has no such extent.
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
    pub(in crate::cache) fn set_place(&mut self, extent: u32, place: Option<Place>) -> Changed {
        self.extents[extent as usize].set_place(place);
        self.has_changed(extent);
        Changed::of(extent)
    }

    /// From now on [`ExtentMap::take_changed`] says what has changed, to an observer.
    pub(in crate::cache) fn watch_changed(&mut self) {
        self.changed = Some(Vec::new());
    }

    /// From now on [`ExtentMap::take_changed`] says what has changed, and no reply may go before its changes are recorded.
    pub(in crate::cache) fn keep_changed(&mut self) {
        self.watch_changed();
        self.answers_rest_on_changed = true;
    }

    /// Whether replies need their changes recorded first.
    #[inline]
    pub(in crate::cache) fn keeps_changed(&self) -> bool {
        self.answers_rest_on_changed
    }

    /// Hands out the entries that have changed since the last time.
    #[inline]
    pub(in crate::cache) fn take_changed(&mut self, mut take: impl FnMut(Record)) {
        let ExtentMap { changed: Some(changed), extents, masks, may_differ, .. } = self else { return };
        for extent in changed.drain(..) {
            let entry = extents[extent as usize].entry();
            // Before an entry names a place, the masks of the place are those of its extent.
            if !masks.is_empty()
                && let Some(place) = entry.place()
            {
                let masks = masks[place.0 as usize];
                let differs = if may_differ.is_empty() { None } else { may_differ.get(&extent) };
                let masks = differs.map_or(masks, |differing| differing.valid.masks_after_crash(masks));
                take(Record::Masks { place: place.0, masks });
            }
            take(Record::Entry { extent, entry });
        }
    }

    /// Notes that a write to the copy or the origin of an extent begins, and which of the two is valid if only one of them gets it. They may
    /// differ until [that is over](Self::differs_no_more), or the copy is given up.
    #[inline]
    pub(in crate::cache) fn may_write_one(&mut self, extent: u32, valid: Valid) {
        if self.answers_rest_on_changed && !mutation::is(Mutation::ForgetOriginWrites) {
            let differing = self.may_differ.entry(extent).or_insert(Differing { valid, writes: 0 });
            let changes = differing.writes == 0 || differing.valid != valid;
            *differing = Differing { valid, writes: differing.writes + 1 };
            if changes {
                self.has_changed(extent);
            }
        }
    }

    /// One of the writes that [may have written one](Self::may_write_one) has reached both, or its blocks are no longer in the copy.
    #[inline]
    pub(in crate::cache) fn differs_no_more(&mut self, extent: u32) {
        let Some(differing) = self.may_differ.get_mut(&extent) else { return };
        differing.writes -= 1;
        if differing.writes == 0 || mutation::is(Mutation::ForgetFailedCopies) {
            self.may_differ.remove(&extent);
            self.has_changed(extent);
        }
    }

    #[inline]
    fn has_changed(&mut self, extent: u32) {
        if let Some(changed) = &mut self.changed
            && !mutation::is(Mutation::KeepNothing)
        {
            changed.push(extent);
        }
    }

    /// Removes an extent from its place. Its count of misses starts again at zero.
    pub(in crate::cache) fn unmap(&mut self, extent: u32) -> Changed {
        let entry = &mut self.extents[extent as usize];
        entry.set_place(None);
        entry.sync_flags_with_masks(Masks::default(), u16::MAX);
        entry.misses = 0;
        self.may_differ.remove(&extent);
        self.has_changed(extent);
        Changed::of(extent)
    }

    /// The masks of a slot, if slots have parts of extents.
    #[inline]
    pub(in crate::cache) fn masks(&self, slot: SlotIndex) -> Masks {
        self.masks[slot.index()]
    }

    /// The masks of the slot of an extent; empty ones if it is in none, or if slots have whole extents.
    pub(in crate::cache) fn masks_of(&self, extent: u32) -> Masks {
        let slot = self.entry(extent).slot().filter(|_| self.has_parts());
        slot.map_or(Masks::default(), |slot| self.masks(slot))
    }

    /// Whether slots have masks.
    #[inline]
    pub(in crate::cache) fn has_parts(&self) -> bool {
        !self.masks.is_empty()
    }

    /// Changes the masks of the slot that an extent is in, and with them whether the extent is dirty.
    pub(in crate::cache) fn set_masks(&mut self, extent: u32, masks: Masks, now: Nanos) -> Changed {
        let slot = self.entry(extent).slot().expect("only a cached extent has masks");
        let before = std::mem::replace(&mut self.masks[slot.index()], masks);
        if before == masks {
            return Changed::of(extent);
        }
        let blocks = self.layout.blocks.expect("a volume with masks has blocks");
        self.dirty_bytes = self.dirty_bytes + blocks.bytes(masks.dirty()) - blocks.bytes(before.dirty());
        if self.units.any() {
            self.count_full(before.dirty(), u32::wrapping_sub);
            self.count_full(masks.dirty(), u32::wrapping_add);
        }
        let entry = &mut self.extents[extent as usize];
        entry.sync_flags_with_masks(masks, blocks.all);
        match (before.dirty() != 0, masks.dirty() != 0) {
            (false, true) => {
                entry.rewritten = 0;
                self.dirty.insert(extent, slot, now);
            }
            (true, false) => self.dirty.remove(extent, slot),
            _ => {}
        }
        self.has_changed(extent);
        Changed::of(extent)
    }

    fn count_full(&mut self, dirty: u16, change: fn(u32, u32) -> u32) {
        if dirty != 0 {
            let count = &mut self.full[self.units.fullness(dirty) as usize];
            *count = change(*count, 1);
        }
    }

    /// Counts dirty extents by the fullness of their units, from now on with these units.
    pub(in crate::cache) fn count_fullness(&mut self, units: Units) {
        (self.units, self.full) = (units, [0; FULL as usize + 1]);
        if units.any() {
            for slot in 0..self.masks.len() {
                self.count_full(self.masks[slot].dirty(), u32::wrapping_add);
            }
        }
    }

    /// For each fullness ([`Units::fullness`]), the number of dirty extents.
    pub(in crate::cache) fn full(&self) -> &[u32; FULL as usize + 1] {
        &self.full
    }

    /// The masks of all slots.
    pub(in crate::cache) fn all_masks(&self) -> &[Masks] {
        &self.masks
    }

    /// Bytes that are newer than their origins.
    pub(in crate::cache) fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Notes that the origin is as new as the copy, or that the copy does not count any more.
    pub(in crate::cache) fn set_clean(&mut self, extent: u32) -> Changed {
        match self.extents[extent as usize].is_dirty() {
            true => self.set_masks(extent, self.masks_of(extent).clean(), Nanos::ZERO),
            false => Changed::of(extent),
        }
    }

    pub(in crate::cache) fn set_loss(&mut self, extent: u32, loss: Loss) -> Changed {
        let before = self.extents[extent as usize].set_loss(loss);
        if before == loss {
            return Changed::of(extent);
        }
        if before == Loss::None {
            self.lost += 1;
        }
        if loss == Loss::None {
            self.lost -= 1;
            self.left_behind.remove(&extent);
        }
        self.has_changed(extent);
        Changed::of(extent)
    }

    /// Notes where the device that is gone had a lost extent, or a part of it.
    pub(in crate::cache) fn leave_behind(&mut self, extent: u32, place: Place, masks: Masks) {
        if self.has_parts() && self.layout.fast_slot(place).is_some() {
            self.left_behind.insert(extent, (place, masks));
        }
    }

    /// The blocks of a lost extent that the gone device had in this place; `None` if they are not known.
    pub(in crate::cache) fn left_behind(&self, extent: u32, place: Place) -> Option<Masks> {
        self.left_behind.get(&extent).filter(|(at, _)| *at == place).map(|(_, masks)| *masks)
    }

    /// Notes that a dirty extent was written again.
    #[inline]
    pub(in crate::cache) fn rewrite(&mut self, extent: u32) {
        let entry = &mut self.extents[extent as usize];
        if std::mem::replace(&mut entry.rewritten, self.sweep) != self.sweep {
            self.dirty.rewrite(extent);
        }
    }

    /// Whether a dirty extent was written again since it became dirty, and since [`ExtentMap::forget_rewritten`].
    #[inline]
    pub(in crate::cache) fn is_rewritten(&self, extent: &Extent) -> bool {
        extent.rewritten == self.sweep
    }

    /// Counts all dirty extents as not written again.
    pub(in crate::cache) fn forget_rewritten(&mut self) {
        // An extent that was last written again 255 sweeps ago counts as written again in this sweep. It is then
        // written back alone, without its neighbours.
        self.sweep = self.sweep.checked_add(1).unwrap_or(1);
        self.dirty.cool();
    }

    /// The extents of the cache that are newer than their origins.
    #[inline]
    pub(in crate::cache) fn dirty(&self) -> &DirtyIndex {
        &self.dirty
    }

    /// The first dirty extent that is not before this one; `cold`: and was not written again lately.
    pub(in crate::cache) fn next_dirty(&mut self, extent: u32, cold: bool) -> Option<u32> {
        self.dirty.next_from(extent, cold)
    }

    /// When the extent that has been dirty longest became dirty; `None` if none is dirty.
    pub(in crate::cache) fn oldest_dirty(&mut self) -> Option<Nanos> {
        self.dirty.forget_clean();
        self.dirty.oldest()
    }

    /// Lists the extents that have been dirty longest, `most` at most, of those that were dirty at `before`: from the oldest
    /// on, or from the one after `after`. Returns where the last one is if there may be more.
    pub(in crate::cache) fn dirty_since(
        &self,
        before: Nanos,
        most: usize,
        after: Option<AgePosition>,
        list: &mut Vec<u32>,
    ) -> Option<AgePosition> {
        let old = self.dirty.by_age(after).take_while(|(_, slot)| self.dirty.since(*slot) <= before);
        let mut last = None;
        for (position, slot) in old.take(most) {
            list.extend(self.tenant(slot));
            last = Some(position);
        }
        last.filter(|_| list.len() == most)
    }

    /// Number of extents whose only copy is lost.
    pub(in crate::cache) fn lost(&self) -> u32 {
        self.lost
    }

    /// The map in the form that the journal keeps, with the masks of places. What was lost with a device that is gone stays where
    /// the device had it, which means the same as long as it is gone.
    pub(in crate::cache) fn image(&self) -> (Vec<MapEntry>, Vec<Masks>) {
        let mut masks = self.masks.clone();
        let mut entries: Vec<MapEntry> = zeroed_vec(self.extents.len());
        // Pages of only unmapped extents are not written, and take no memory.
        for (entry, now) in entries.iter_mut().zip(self.extents.iter().map(Extent::entry)) {
            if !now.is_empty() {
                *entry = now;
            }
        }
        for (extent, (place, had)) in &self.left_behind {
            entries[*extent as usize] = MapEntry::new(Some(*place), had.dirty() != 0, true);
            masks[place.0 as usize] = *had;
        }
        (entries, masks)
    }

    // Slots of the fast device.

    /// The extent that a slot holds or is reserved for.
    #[inline]
    pub(in crate::cache) fn tenant(&self, slot: SlotIndex) -> Option<u32> {
        self.slots[slot.index()].checked_sub(1)
    }

    /// Number of fast slots that the map uses or a move has reserved.
    #[inline]
    pub(in crate::cache) fn resident(&self) -> u32 {
        self.resident
    }

    /// Whether the fast device holds as many extents as it may.
    #[inline]
    pub(in crate::cache) fn fast_is_full(&self) -> bool {
        self.room() == 0
    }

    /// How many more extents the fast device may hold.
    #[inline]
    pub(in crate::cache) fn room(&self) -> u32 {
        self.usable.saturating_sub(self.resident)
    }

    /// How many slots may be used.
    pub(in crate::cache) fn usable(&self) -> u32 {
        self.usable
    }

    /// Withholds the slots from this one on. Of the slots before it at most `usable` are used.
    pub(in crate::cache) fn withhold(&mut self, from: u32, usable: u32) {
        let mut free = IndexSet::empty(self.layout.fast_slots);
        let mut residents = 0;
        for slot in from..self.layout.fast_slots {
            if self.fast_free.take_if_free(slot) {
                free.put(slot);
            }
            residents += u32::from(self.slots[slot as usize] > 0);
        }
        self.withheld = Some(Withheld { from, free, residents });
        self.usable = usable;
    }

    /// Ends the withholding of slots.
    pub(in crate::cache) fn withhold_nothing(&mut self) {
        let Some(Withheld { from, free, .. }) = self.withheld.take() else { return };
        (from..self.layout.fast_slots).filter(|slot| free.contains(*slot)).for_each(|slot| self.fast_free.put(slot));
        self.usable = self.layout.fast_usable;
    }

    /// The number of withheld slots that hold an extent, or are reserved for one.
    pub(in crate::cache) fn beyond(&self) -> u32 {
        self.withheld.as_ref().map_or(0, |withheld| withheld.residents)
    }

    pub(in crate::cache) fn free_slots(&self) -> u32 {
        self.fast_free.count()
    }

    /// Number of withheld slots that are empty.
    pub(in crate::cache) fn withheld_slots(&self) -> u32 {
        self.withheld.as_ref().map_or(0, |withheld| withheld.free.count())
    }

    /// Reserves the lowest free slot; the caller must occupy it.
    pub(in crate::cache) fn take_slot(&mut self) -> Option<SlotIndex> {
        self.fast_free.take_lowest().map(SlotIndex)
    }

    pub(in crate::cache) fn occupy(&mut self, slot: SlotIndex, extent: u32) {
        self.resident += 1;
        self.slots[slot.index()] = extent + 1;
        if let Some(withheld) = self.withheld.as_mut().filter(|withheld| slot.0 >= withheld.from) {
            withheld.residents += 1;
        }
    }

    /// Empties a slot. It is not free for reuse yet.
    pub(in crate::cache) fn vacate(&mut self, slot: SlotIndex) {
        self.slots[slot.index()] = 0;
        self.resident -= 1;
        if let Some(withheld) = self.withheld.as_mut().filter(|withheld| slot.0 >= withheld.from) {
            withheld.residents -= 1;
        }
        if let Some(masks) = self.masks.get_mut(slot.index()) {
            *masks = Masks::default();
        }
    }

    /// Prefetches into the processor's cache what [`ExtentMap::tenant`] reads, and the masks.
    #[inline]
    pub(in crate::cache) fn prefetch_tenant(&self, slot: SlotIndex) {
        prefetch(&self.slots[slot.index()]);
        if let Some(masks) = self.masks.get(slot.index()) {
            prefetch(masks);
        }
    }

    /// The view of the map for a replacement policy, which may choose a dirty extent once this many were passed over.
    pub(in crate::cache) fn candidates(&mut self, now: Nanos, window: Nanos, pass_over: u32) -> MapCandidates<'_> {
        let ExtentMap { slots, extents, masks, dirty, taken_for_dirty, .. } = self;
        MapCandidates { now, window, slots, extents, masks, dirty, taken_for_dirty: *taken_for_dirty, pass_over }
    }

    /// Notes that the extents that are dirty now only count as dirty because of a crash.
    pub(in crate::cache) fn takes_for_dirty(&mut self, now: Nanos) {
        self.taken_for_dirty = Some(now);
    }

    // Places.

    /// Reserves the lowest free place of the slow device (tiering).
    pub(in crate::cache) fn take_slow(&mut self) -> Option<Place> {
        self.slow_free.take_lowest().map(|slot| self.layout.slow_place(slot))
    }

    /// Frees a place for reuse.
    pub(in crate::cache) fn free(&mut self, place: Place) {
        match self.layout.fast_slot(place) {
            Some(slot) => match &mut self.withheld {
                Some(withheld) if slot.0 >= withheld.from => withheld.free.put(slot.0),
                _ => self.fast_free.put(slot.0),
            },
            None => self.slow_free.put(self.layout.slow_slot(place)),
        }
    }

    pub(in crate::cache) fn is_free(&self, place: Place) -> bool {
        match self.layout.fast_slot(place) {
            Some(slot) => {
                let withheld = self.withheld.as_ref().is_some_and(|withheld| withheld.free.contains(slot.0));
                withheld || self.fast_free.contains(slot.0)
            }
            None => self.slow_free.contains(self.layout.slow_slot(place)),
        }
    }

    /// Restores an extent to the place that the durable map gives; returns whether the place was free.
    pub(in crate::cache) fn adopt(&mut self, extent: u32, place: Place) -> bool {
        self.set_place(extent, Some(place)).needs_no_record(NoRecord::WholeMap);
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

    /// Whether the place may hold an earlier tenant's data.
    pub(in crate::cache) fn is_stale(&self, place: Place) -> bool {
        self.stale[place.0 as usize / 64] >> (place.0 % 64) & 1 == 1 && !mutation::is(Mutation::ShowStale)
    }

    pub(in crate::cache) fn set_stale(&mut self, place: Place, stale: bool) {
        let bit = 1 << (place.0 % 64);
        let word = &mut self.stale[place.0 as usize / 64];
        *word = if stale { *word | bit } else { *word & !bit };
    }
}

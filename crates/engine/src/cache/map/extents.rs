//! The entries of extents. An extent that is on the fast device has its entry in the slot's record, and one that is in use or was accessed
//! lately has one of a bounded number of others. Of all the rest only the place is kept, so memory follows what the fast device has.

use bytemuck::zeroed_vec;
use peryton_format::entry::MapEntry;
use peryton_policy::replacement::SlotIndex;
use peryton_units::prefetch;

use crate::cache::map::extent::{Extent, Place};

/// How many extents that are not on the fast device are remembered, for each of its slots: they count accesses and misses.
const REMEMBERED_PER_SLOT: u32 = 4;
const LEAST_REMEMBERED: u32 = 1 << 16;
const MOST_REMEMBERED: u32 = 1 << 20;

/// Where the entry of an extent is, in a word: the index of its record, or the whole entry of an extent that has none.
#[derive(Clone, Copy, Debug)]
enum At {
    Record(u32),
    Nowhere(MapEntry),
}

/// An entry without a record is never dirty, so this bit tells the two apart.
const RECORD: u32 = 1 << 31;

impl At {
    #[inline]
    fn of(word: u32) -> At {
        if word & RECORD != 0 { At::Record(word & !RECORD) } else { At::Nowhere(MapEntry::from_word(word)) }
    }

    #[inline]
    fn word(self) -> u32 {
        match self {
            At::Record(index) => RECORD | index,
            At::Nowhere(entry) => entry.word(),
        }
    }
}

/// The entries of all extents.
#[derive(Debug)]
pub(super) struct Extents {
    /// For each extent, an [`At`]. Pages of it that are never accessed take no memory.
    at: Vec<u32>,
    /// First a record for each slot of the fast device, all zeros if no extent has its place there; then the remembered ones.
    records: Vec<Extent>,
    /// For each remembered record, the extent that it is of plus one; zero for none.
    remembered: Vec<u32>,
    /// The number of slots.
    slots: u32,
    /// The most remembered records, unless more are in use at the same time.
    most: u32,
    /// The remembered record that is examined next when one is needed.
    hand: u32,
}

impl Extents {
    pub(super) fn new(extents: u32, slots: u32) -> Extents {
        let most = slots.saturating_mul(REMEMBERED_PER_SLOT).clamp(LEAST_REMEMBERED, MOST_REMEMBERED);
        Extents::with_most(extents, slots, most)
    }

    fn with_most(extents: u32, slots: u32, most: u32) -> Extents {
        let records = zeroed_vec(slots as usize);
        Extents { at: zeroed_vec(extents as usize), records, remembered: Vec::new(), slots, most, hand: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.at.len()
    }

    /// The entry of an extent.
    #[inline]
    pub(super) fn entry(&self, extent: u32) -> Extent {
        match At::of(self.at[extent as usize]) {
            At::Record(index) => self.records[index as usize],
            At::Nowhere(entry) => Extent::not_accessed(entry),
        }
    }

    /// The entry of an extent, to be changed. It is remembered from now on.
    #[inline]
    pub(super) fn entry_mut(&mut self, extent: u32) -> &mut Extent {
        let index = match At::of(self.at[extent as usize]) {
            At::Record(index) => index,
            At::Nowhere(entry) => self.remember(extent, Extent::not_accessed(entry)),
        };
        &mut self.records[index as usize]
    }

    /// The slot that an extent has its place in, and its entry.
    #[inline]
    pub(super) fn resident(&mut self, extent: u32) -> Option<(SlotIndex, &mut Extent)> {
        match At::of(self.at[extent as usize]) {
            At::Record(slot) if slot < self.slots => Some((SlotIndex(slot), &mut self.records[slot as usize])),
            _ => None,
        }
    }

    /// The records of the slots. One is all zeros if no extent has its place in the slot.
    #[inline]
    pub(super) fn in_slots(&mut self) -> &mut [Extent] {
        &mut self.records[..self.slots as usize]
    }

    /// The remembered extents that are not on the fast device, from this record on, and how many records there are.
    pub(super) fn remembered(&self, from: u32, to: u32) -> impl Iterator<Item = (u32, &Extent)> {
        let records = &self.records[self.slots as usize..];
        let range = from as usize..records.len().min(to as usize);
        let all = self.remembered[range.clone()].iter().zip(&records[range]);
        all.filter_map(|(extent, record)| Some((extent.checked_sub(1)?, record)))
    }

    pub(super) fn remembered_len(&self) -> u32 {
        self.remembered.len() as u32
    }

    pub(super) fn set_place(&mut self, extent: u32, place: Option<Place>) {
        let slot = place.filter(|place| place.0 < self.slots);
        match (At::of(self.at[extent as usize]), slot) {
            (At::Nowhere(entry), None) => {
                self.at[extent as usize] = At::Nowhere(MapEntry::new(place, false, entry.is_lost())).word();
            }
            (At::Record(index), None) if index >= self.slots => self.records[index as usize].set_place(place),
            (at, slot) => {
                let mut entry = match at {
                    At::Record(index) => self.forget(index),
                    At::Nowhere(entry) => Extent::not_accessed(entry),
                };
                entry.set_place(place);
                match slot {
                    Some(slot) => {
                        self.records[slot.0 as usize] = entry;
                        self.at[extent as usize] = At::Record(slot.0).word();
                    }
                    None => {
                        self.remember(extent, entry);
                    }
                }
            }
        }
    }

    /// Notes whether the only copy of an extent is lost, and returns what was noted before.
    pub(super) fn set_lost(&mut self, extent: u32, lost: bool) -> bool {
        match At::of(self.at[extent as usize]) {
            At::Record(index) => self.records[index as usize].set_lost(lost),
            At::Nowhere(entry) => {
                self.at[extent as usize] = At::Nowhere(MapEntry::new(entry.place(), false, lost)).word();
                entry.is_lost()
            }
        }
    }

    /// Prefetches into the processor's cache where the entry of an extent is.
    #[inline]
    pub(super) fn prefetch(&self, extent: u32) {
        if let Some(at) = self.at.get(extent as usize) {
            prefetch(at);
        }
    }

    /// Prefetches the entry of an extent, and returns its slot if it is in one.
    #[inline]
    pub(super) fn prefetch_record(&self, extent: u32) -> Option<SlotIndex> {
        let At::Record(index) = At::of(*self.at.get(extent as usize)?) else { return None };
        prefetch(&self.records[index as usize]);
        (index < self.slots).then_some(SlotIndex(index))
    }

    /// Prefetches the entry of the extent in a slot.
    #[inline]
    pub(super) fn prefetch_slot(&self, slot: SlotIndex) {
        prefetch(&self.records[slot.index()]);
    }

    /// Takes an entry out of its record.
    fn forget(&mut self, index: u32) -> Extent {
        if let Some(remembered) = index.checked_sub(self.slots) {
            self.remembered[remembered as usize] = 0;
        }
        std::mem::take(&mut self.records[index as usize])
    }

    /// Gives an extent that is not on the fast device a record, and returns its index.
    fn remember(&mut self, extent: u32, entry: Extent) -> u32 {
        let remembered = self.free_record();
        let index = self.slots + remembered;
        self.remembered[remembered as usize] = extent + 1;
        self.records[index as usize] = entry;
        self.at[extent as usize] = At::Record(index).word();
        index
    }

    /// A remembered record without an extent: the next of the oldest whose extent is not in use is taken from it.
    fn free_record(&mut self) -> u32 {
        let count = self.remembered.len() as u32;
        if count >= self.most {
            for _ in 0..count {
                let index = self.hand;
                self.hand = if index + 1 < count { index + 1 } else { 0 };
                let record = self.records[(self.slots + index) as usize];
                if record.in_flight > 0 || record.moving().is_some() {
                    continue;
                }
                if let Some(extent) = self.remembered[index as usize].checked_sub(1) {
                    self.at[extent as usize] = At::Nowhere(record.entry()).word();
                }
                return index;
            }
        }
        self.remembered.push(0);
        self.records.push(Extent::default());
        count
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXTENTS: u32 = 40;
    const SLOTS: u32 = 6;
    const MOST: u32 = 5;

    proptest! {
        #[test]
        fn places_and_what_is_in_use_are_never_forgotten(
            steps in prop::collection::vec((0u32..5, 0..EXTENTS, 0u32..SLOTS + 10), 0..300),
        ) {
            let mut extents = Extents::with_most(EXTENTS, SLOTS, MOST);
            let mut places: Vec<Option<Place>> = vec![None; EXTENTS as usize];
            let mut in_flight = [0; EXTENTS as usize];
            let mut lost = [false; EXTENTS as usize];
            let mut most_in_use = 0;
            for (step, extent, place) in steps {
                let at = extent as usize;
                match step {
                    // A place has one extent.
                    0 if !places.contains(&Some(Place(place))) => {
                        extents.set_place(extent, Some(Place(place)));
                        places[at] = Some(Place(place));
                    }
                    1 => {
                        extents.set_place(extent, None);
                        places[at] = None;
                    }
                    2 => {
                        extents.entry_mut(extent).in_flight += 1;
                        in_flight[at] += 1;
                    }
                    3 if in_flight[at] > 0 => {
                        extents.entry_mut(extent).in_flight -= 1;
                        in_flight[at] -= 1;
                    }
                    4 => {
                        let was = extents.set_lost(extent, place % 2 == 0);
                        prop_assert_eq!(std::mem::replace(&mut lost[at], place % 2 == 0), was);
                    }
                    _ => {}
                }
                for extent in 0..EXTENTS {
                    let (entry, at) = (extents.entry(extent), extent as usize);
                    let is = (entry.place(), entry.in_flight, entry.is_lost());
                    prop_assert_eq!(is, (places[at], in_flight[at], lost[at]), "extent {}", extent);
                    let slot = places[at].filter(|place| place.0 < SLOTS).map(|place| SlotIndex(place.0));
                    prop_assert_eq!(extents.resident(extent).map(|(slot, _)| slot), slot);
                }
                most_in_use = most_in_use.max(in_flight.iter().filter(|count| **count > 0).count() as u32);
                prop_assert!(extents.remembered_len() <= MOST.max(most_in_use + 1));
            }
        }
    }

    #[test]
    fn the_oldest_that_is_not_in_use_is_forgotten_first() {
        let mut extents = Extents::with_most(EXTENTS, SLOTS, 3);
        for extent in 0..3 {
            extents.entry_mut(extent).uses = extent + 10;
        }
        extents.entry_mut(0).in_flight = 1;
        extents.entry_mut(3).uses = 13;
        assert_eq!([0, 1, 2, 3].map(|extent| extents.entry(extent).uses), [10, 0, 12, 13]);
    }
}

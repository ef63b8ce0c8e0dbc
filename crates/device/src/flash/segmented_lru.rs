use std::ops::Range;

/// The value for no entry.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    unit: u32,
    older: u32,
    newer: u32,
    protected: bool,
}

/// A list of entries from newest to oldest.
#[derive(Clone, Copy, Debug)]
struct Segment {
    newest: u32,
    oldest: u32,
    len: u32,
}

/// The entries of the map that are in RAM: segmented LRU (Karedla, Love and Wherry 1994), as in DFTL. A new entry is on
/// probation; an entry that is used again becomes protected, up to half of the cache, and the oldest protected one
/// returns to probation.
#[derive(Clone, Debug)]
pub(super) struct SegmentedLru {
    /// Index of the entry of each unit, plus one; zeroed memory costs nothing until it is touched.
    entry_of: Vec<u32>,
    entries: Vec<Entry>,
    /// One bit for each unit whose cached entry was changed.
    dirty: Vec<u64>,
    free: Vec<u32>,
    capacity: u32,
    probation: Segment,
    protected: Segment,
}

impl SegmentedLru {
    pub fn new(units: u32, capacity: u32) -> SegmentedLru {
        let empty = Segment { newest: NONE, oldest: NONE, len: 0 };
        SegmentedLru {
            entry_of: vec![0; units as usize],
            entries: Vec::new(),
            dirty: vec![0; (units as usize).div_ceil(64)],
            free: Vec::new(),
            capacity: capacity.max(1),
            probation: empty,
            protected: empty,
        }
    }

    #[inline]
    fn index(&self, unit: u32) -> Option<u32> {
        self.entry_of[unit as usize].checked_sub(1)
    }

    #[inline]
    pub fn contains(&self, unit: u32) -> bool {
        self.entry_of[unit as usize] != 0
    }

    pub fn is_dirty(&self, unit: u32) -> bool {
        self.dirty[unit as usize / 64] >> (unit % 64) & 1 == 1
    }

    /// # Panics
    /// If the entry is not cached.
    pub fn set_dirty(&mut self, unit: u32) {
        assert!(self.contains(unit), "only a cached entry changes in RAM");
        self.dirty[unit as usize / 64] |= 1 << (unit % 64);
    }

    /// Marks the entries of `units` as clean; passes those that were dirty to `was_dirty`.
    pub fn clean(&mut self, units: Range<u32>, mut was_dirty: impl FnMut(u32)) {
        let mut from = units.start;
        while from < units.end {
            let word = from as usize / 64;
            let end = (from / 64 + 1).saturating_mul(64).min(units.end);
            let all = u64::MAX >> (64 - (end - from)) << (from % 64);
            let mut bits = self.dirty[word] & all;
            self.dirty[word] &= !all;
            while bits != 0 {
                was_dirty(word as u32 * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
            from = end;
        }
    }

    /// Uses the entry; returns whether it is cached.
    pub fn touch(&mut self, unit: u32) -> bool {
        let Some(index) = self.index(unit) else { return false };
        self.unlink(index);
        if !self.entries[index as usize].protected && self.protected.len >= self.capacity / 2 {
            // If there is room for only one entry, none is protected.
            let oldest = self.protected.oldest;
            if oldest == NONE {
                self.push(index, false);
                return true;
            }
            self.unlink(oldest);
            self.push(oldest, false);
        }
        self.push(index, true);
        true
    }

    /// The entry that must leave before another can be inserted; `None` if there is room.
    pub fn victim(&self) -> Option<u32> {
        if self.probation.len + self.protected.len < self.capacity {
            return None;
        }
        let oldest = if self.probation.oldest == NONE { self.protected.oldest } else { self.probation.oldest };
        Some(self.entries[oldest as usize].unit)
    }

    /// # Panics
    /// If there is no room, or the entry is already cached.
    pub fn insert(&mut self, unit: u32) {
        assert!(self.victim().is_none() && !self.contains(unit), "entry {unit} comes in once and finds room");
        let entry = Entry { unit, older: NONE, newer: NONE, protected: false };
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.entry_of[unit as usize] = index + 1;
        self.push(index, false);
    }

    pub fn remove(&mut self, unit: u32) {
        let Some(index) = self.index(unit) else { return };
        self.unlink(index);
        self.entry_of[unit as usize] = 0;
        self.dirty[unit as usize / 64] &= !(1 << (unit % 64));
        self.free.push(index);
    }

    fn unlink(&mut self, index: u32) {
        let Entry { older, newer, protected, .. } = self.entries[index as usize];
        let segment = if protected { &mut self.protected } else { &mut self.probation };
        segment.len -= 1;
        match newer {
            NONE => segment.newest = older,
            _ => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => segment.oldest = newer,
            _ => self.entries[older as usize].newer = newer,
        }
    }

    fn push(&mut self, index: u32, protected: bool) {
        let segment = if protected { &mut self.protected } else { &mut self.probation };
        let older = std::mem::replace(&mut segment.newest, index);
        segment.len += 1;
        if older == NONE {
            segment.oldest = index;
        } else {
            self.entries[older as usize].newer = index;
        }
        let entry = &mut self.entries[index as usize];
        (entry.older, entry.newer, entry.protected) = (older, NONE, protected);
    }

    /// Number of cached entries.
    pub fn len(&self) -> u32 {
        self.probation.len + self.protected.len
    }

    pub fn capacity(&self) -> u32 {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A simple reference implementation: two lists, newest first.
    #[derive(Default)]
    struct Plain {
        probation: Vec<u32>,
        protected: Vec<u32>,
    }

    proptest! {
        #[test]
        fn it_is_segmented_lru(capacity in 1u32..12, asked in prop::collection::vec((0u32..20, 0u8..8), 1..400)) {
            let mut cache = SegmentedLru::new(20, capacity);
            let mut plain = Plain::default();
            for (unit, what) in asked {
                if what == 0 {
                    cache.remove(unit);
                    plain.probation.retain(|&u| u != unit);
                    plain.protected.retain(|&u| u != unit);
                    continue;
                }
                let there = plain.probation.contains(&unit) || plain.protected.contains(&unit);
                prop_assert_eq!(cache.touch(unit), there);
                if there {
                    let was_protected = plain.protected.contains(&unit);
                    plain.probation.retain(|&u| u != unit);
                    plain.protected.retain(|&u| u != unit);
                    if was_protected || capacity > 1 {
                        if !was_protected && plain.protected.len() as u32 >= capacity / 2 {
                            let back = plain.protected.pop().unwrap();
                            plain.probation.insert(0, back);
                        }
                        plain.protected.insert(0, unit);
                    } else {
                        plain.probation.insert(0, unit);
                    }
                    continue;
                }
                let full = (plain.probation.len() + plain.protected.len()) as u32 == capacity;
                let leaves = full.then(|| plain.probation.pop().or_else(|| plain.protected.pop()).unwrap());
                prop_assert_eq!(cache.victim(), leaves);
                if let Some(victim) = leaves {
                    cache.remove(victim);
                }
                cache.insert(unit);
                plain.probation.insert(0, unit);
                prop_assert!(cache.len() <= capacity);
            }
        }
    }
}

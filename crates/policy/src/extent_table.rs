//! A number for each of some extents, such as the place where more is known of it.

use peryton_units::prefetch;

/// 8 bytes, so that a look-up is one line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
struct Entry {
    extent: u32,
    number: u32,
}

const NONE: u32 = u32::MAX;
const EMPTY: Entry = Entry { extent: 0, number: NONE };
const FIRST_BITS: u32 = 4;

/// A hash table from extents to numbers below 2^32 - 1. What it will need can be fetched before.
///
/// ```
/// use peryton_policy::ExtentTable;
///
/// let mut places = ExtentTable::default();
/// places.insert(700, 3);
/// assert_eq!((places.get(700), places.remove(700), places.get(700)), (Some(3), Some(3), None));
/// ```
#[derive(Clone, Debug)]
pub struct ExtentTable {
    /// A power of two of entries, at most five eighths in use; an extent is at its hash, or behind it without a gap.
    entries: Vec<Entry>,
    len: usize,
    shift: u32,
}

impl Default for ExtentTable {
    fn default() -> ExtentTable {
        ExtentTable { entries: vec![EMPTY; 1 << FIRST_BITS], len: 0, shift: 64 - FIRST_BITS }
    }
}

impl ExtentTable {
    /// How many extents have a number.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn home(&self, extent: u32) -> usize {
        (u64::from(extent).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// Where an extent is, or where it would be.
    #[inline]
    fn at(&self, extent: u32) -> usize {
        let mask = self.entries.len() - 1;
        let mut at = self.home(extent);
        while self.entries[at].number != NONE && self.entries[at].extent != extent {
            at = (at + 1) & mask;
        }
        at
    }

    /// Fetches what a call for this extent will need.
    #[inline]
    pub fn prefetch(&self, extent: u32) {
        prefetch(&self.entries[self.home(extent)]);
    }

    /// The number of an extent.
    #[inline]
    pub fn get(&self, extent: u32) -> Option<u32> {
        let number = self.entries[self.at(extent)].number;
        (number != NONE).then_some(number)
    }

    /// Gives an extent a number; returns the one that it had.
    #[inline]
    pub fn insert(&mut self, extent: u32, number: u32) -> Option<u32> {
        assert!(number != NONE, "a number is below 2^32 - 1");
        let at = self.at(extent);
        let before = std::mem::replace(&mut self.entries[at], Entry { extent, number }).number;
        if before != NONE {
            return Some(before);
        }
        self.len += 1;
        if self.len > self.entries.len() / 8 * 5 {
            self.grow();
        }
        None
    }

    /// Takes the number of an extent away.
    #[inline]
    pub fn remove(&mut self, extent: u32) -> Option<u32> {
        let mask = self.entries.len() - 1;
        let mut gap = self.at(extent);
        let number = self.entries[gap].number;
        if number == NONE {
            return None;
        }
        // What is behind it moves up, unless it is at its hash or behind that.
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let entry = self.entries[at];
            if entry.number == NONE {
                break;
            }
            let behind = |place: usize| at.wrapping_sub(place) & mask;
            if behind(self.home(entry.extent)) >= behind(gap) {
                self.entries[gap] = entry;
                gap = at;
            }
        }
        self.entries[gap] = EMPTY;
        self.len -= 1;
        Some(number)
    }

    #[cold]
    fn grow(&mut self) {
        let room = self.entries.len() * 2;
        let before = std::mem::replace(&mut self.entries, vec![EMPTY; room]);
        self.shift -= 1;
        for entry in before.into_iter().filter(|entry| entry.number != NONE) {
            let at = self.at(entry.extent);
            self.entries[at] = entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use peryton_units::SplitMix64;

    use super::*;

    /// Few extents in a small table, so that rows without a gap are long and go round its end.
    #[test]
    fn it_does_as_a_map_does() {
        let (mut table, mut model, mut random) = (ExtentTable::default(), HashMap::new(), SplitMix64::new(1));
        for step in 0..400_000u32 {
            let reach = if step < 200_000 { 12 } else { 5_000 };
            let extent = (random.below(reach) as u32).wrapping_mul(0x0100_0001).wrapping_sub(3);
            assert_eq!(table.get(extent), model.get(&extent).copied());
            match random.below(2) {
                0 => assert_eq!(table.insert(extent, step), model.insert(extent, step)),
                _ => assert_eq!(table.remove(extent), model.remove(&extent)),
            }
            assert_eq!(table.len(), model.len());
        }
        assert!(model.iter().all(|(extent, number)| table.get(*extent) == Some(*number)));
    }
}

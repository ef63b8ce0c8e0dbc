//! A set of places or extents, as a bitmap with summaries. It finds the lowest index, or the next one from an index on, in a
//! few steps, however large the device is (GreenDM, section 2.3: the search for a free extent starts from the lower
//! addresses, and an in-memory list makes it quick).

use peryton_units::prefetch;

/// A set of indices below a fixed bound.
#[derive(Clone, Debug)]
pub(crate) struct IndexSet {
    /// `levels[0]` has a bit per index; a bit of `levels[n + 1]` says whether a word of `levels[n]` is not zero.
    levels: Vec<Vec<u64>>,
    count: u32,
}

impl IndexSet {
    /// Makes a set of all indices in `0..size`.
    pub(crate) fn full(size: u32) -> IndexSet {
        let mut levels = Vec::new();
        let mut bits = size as usize;
        loop {
            let mut level = vec![u64::MAX; bits / 64];
            if !bits.is_multiple_of(64) {
                level.push((1 << (bits % 64)) - 1);
            }
            bits = level.len();
            levels.push(level);
            if bits <= 1 {
                return IndexSet { levels, count: size };
            }
        }
    }

    /// Makes an empty set for the indices in `0..size`.
    pub(crate) fn empty(size: u32) -> IndexSet {
        let words = |bits: usize| bits.div_ceil(64);
        let sizes = std::iter::successors(Some(words(size as usize)), |below| (*below > 1).then(|| words(*below)));
        IndexSet { levels: sizes.map(|words| vec![0; words]).collect(), count: 0 }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    #[inline]
    pub(crate) fn contains(&self, index: u32) -> bool {
        self.levels[0][index as usize / 64] >> (index % 64) & 1 == 1
    }

    /// Prefetches the word that says whether the index is in the set.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        prefetch(&self.levels[0][index as usize / 64]);
    }

    /// Removes and returns the lowest index.
    #[inline]
    pub(crate) fn take_lowest(&mut self) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let mut index = 0;
        for level in self.levels.iter().rev() {
            index = index * 64 + level[index].trailing_zeros() as usize;
        }
        let index = index as u32;
        self.take(index);
        Some(index)
    }

    /// The lowest index that is not below `from`.
    pub(crate) fn next_from(&self, from: u32) -> Option<u32> {
        let mut at = from as usize;
        for height in 0..self.levels.len() {
            // Above the lowest level, the word that contains `at` was examined below.
            let (word, bit) = (at / 64, at % 64);
            let here = self.levels[height].get(word)? & (u64::MAX << bit);
            if here != 0 {
                let mut index = word * 64 + here.trailing_zeros() as usize;
                for level in self.levels[..height].iter().rev() {
                    index = index * 64 + level[index].trailing_zeros() as usize;
                }
                return Some(index as u32);
            }
            at = word + 1;
        }
        None
    }

    /// Removes this index if it is in the set; returns whether it was.
    pub(crate) fn take_if_free(&mut self, index: u32) -> bool {
        let free = self.contains(index);
        if free {
            self.take(index);
        }
        free
    }

    /// Removes this index, which must be in the set.
    #[inline(always)]
    pub(crate) fn take(&mut self, index: u32) {
        assert!(self.contains(index), "index {index} is taken twice");
        self.count -= 1;
        let mut index = index as usize;
        for level in &mut self.levels {
            let word = &mut level[index / 64];
            *word &= !(1 << (index % 64));
            if *word != 0 {
                return;
            }
            index /= 64;
        }
    }

    /// Adds this index, which must not be in the set.
    #[inline]
    pub(crate) fn put(&mut self, index: u32) {
        assert!(!self.contains(index), "index {index} is added twice");
        self.count += 1;
        let mut index = index as usize;
        for level in &mut self.levels {
            let word = &mut level[index / 64];
            let known = *word != 0;
            *word |= 1 << (index % 64);
            if known {
                return;
            }
            index /= 64;
        }
    }

    /// Adds this index, unless it is in the set.
    pub(crate) fn insert(&mut self, index: u32) {
        if !self.contains(index) {
            self.put(index);
        }
    }

    /// Moves all indices of another set of the same size here. The two have none in common. Takes time for what the other
    /// one has, and little for its size.
    pub(crate) fn append(&mut self, other: &mut IndexSet) {
        self.count += std::mem::take(&mut other.count);
        for height in 0..self.levels.len() {
            let (lower, higher) = other.levels.split_at_mut(height + 1);
            let (into, from) = (&mut self.levels[height], &mut lower[height]);
            let Some(summary) = higher.first() else {
                into.iter_mut().zip(from).for_each(|(into, from)| *into |= std::mem::take(from));
                return;
            };
            for (at, bits) in summary.iter().enumerate() {
                let mut bits = *bits;
                while bits != 0 {
                    let word = at * 64 + bits.trailing_zeros() as usize;
                    into[word] |= std::mem::take(&mut from[word]);
                    bits &= bits - 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_sorted_set(size in 1u32..10_000, steps in prop::collection::vec((any::<bool>(), any::<u32>()), 0..400)) {
            let mut map = IndexSet::full(size);
            let mut set: BTreeSet<u32> = (0..size).collect();
            for (take, pick) in steps {
                if take {
                    prop_assert_eq!(map.take_lowest(), set.pop_first());
                } else {
                    let index = pick % size;
                    if set.insert(index) {
                        map.put(index);
                    } else {
                        set.remove(&index);
                        map.take(index);
                    }
                }
                prop_assert_eq!(map.count() as usize, set.len());
            }
            for index in 0..size {
                prop_assert_eq!(map.contains(index), set.contains(&index));
                prop_assert_eq!(map.next_from(index), set.range(index..).next().copied());
            }
            prop_assert_eq!(map.next_from(size), None);
            let mut rest = IndexSet::empty(size);
            (0..size).filter(|index| !set.contains(index)).for_each(|index| rest.put(index));
            rest.append(&mut map);
            prop_assert_eq!((rest.levels, rest.count), (IndexSet::full(size).levels, size));
            prop_assert_eq!((map.levels, map.count), (IndexSet::empty(size).levels, 0));
            prop_assert_eq!(IndexSet::empty(size).next_from(0), None);
        }
    }
}

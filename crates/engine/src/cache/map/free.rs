//! The free extents of a device, as a bitmap with summaries. It finds the lowest free one in a few steps, however large
//! the device is (GreenDM, section 2.3: the search starts from the lower addresses, and an in-memory list makes it
//! quick).

/// A set of indices below a fixed bound.
#[derive(Clone, Debug)]
pub(crate) struct FreeMap {
    /// `levels[0]` has a bit per index; a bit of `levels[n + 1]` says whether a word of `levels[n]` is not zero.
    levels: Vec<Vec<u64>>,
    count: u32,
}

impl FreeMap {
    /// Makes a set of all indices in `0..size`.
    pub(crate) fn full(size: u32) -> FreeMap {
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
                return FreeMap { levels, count: size };
            }
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    #[inline]
    pub(crate) fn contains(&self, index: u32) -> bool {
        self.levels[0][index as usize / 64] >> (index % 64) & 1 == 1
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

    /// Removes this index if it is in the set; returns whether it was.
    pub(crate) fn take_if_free(&mut self, index: u32) -> bool {
        let free = self.contains(index);
        if free {
            self.take(index);
        }
        free
    }

    /// Removes this index, which must be in the set.
    #[inline]
    pub(crate) fn take(&mut self, index: u32) {
        assert!(self.contains(index), "extent {index} is allocated twice");
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
        assert!(!self.contains(index), "extent {index} is freed twice");
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
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_sorted_set(size in 1u32..10_000, steps in prop::collection::vec((any::<bool>(), any::<u32>()), 0..400)) {
            let mut map = FreeMap::full(size);
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
            }
        }
    }
}

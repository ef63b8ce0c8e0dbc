//! Decides which chunks may not be in flight together: two chunks that change the same bytes of a device, one of which
//! reads the blocks before it writes them. Such chunks are carried out in the order in which they arrived.
//!
//! An index finds overlapping ranges. It is ordered by device, class of length, start, and number. All ranges of a
//! class have about the same length, so the ranges that can reach a place begin within a bounded distance before it.

use std::collections::BTreeMap;

/// A range of a device that a chunk changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) device: u8,
    pub(super) from: u64,
    pub(super) to: u64,
    /// Whether the chunk reads the blocks before it writes them.
    pub(super) exclusive: bool,
    /// The chunk's number in the order of arrival.
    pub(super) number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    device: u8,
    exclusive: bool,
    class: u8,
    from: u64,
    number: u64,
}

impl Range {
    fn class(&self) -> u8 {
        (self.to - self.from).max(1).ilog2() as u8
    }

    fn key(&self) -> Key {
        let Range { device, from, exclusive, number, .. } = *self;
        Key { device, exclusive, class: self.class(), from, number }
    }

    fn overlaps(&self, from: u64, to: u64) -> bool {
        self.from < to && from < self.to
    }
}

/// The ranges of chunks in flight and of chunks that wait for them.
#[derive(Debug, Default)]
pub(super) struct Locks {
    /// The end of each range, and its chunk.
    ranges: BTreeMap<Key, (u64, u32)>,
    /// The number of ranges in each class, plain ones and exclusive ones: 64 classes each.
    classes: [Vec<u32>; 2],
}

impl Locks {
    pub(super) fn insert(&mut self, range: Range, slot: u32) {
        let classes = &mut self.classes[usize::from(range.exclusive)];
        classes.resize(64, 0);
        classes[usize::from(range.class())] += 1;
        let before = self.ranges.insert(range.key(), (range.to, slot));
        debug_assert!(before.is_none(), "a chunk is listed once");
    }

    pub(super) fn remove(&mut self, range: &Range) -> bool {
        let found = self.ranges.remove(&range.key()).is_some();
        if found {
            self.classes[usize::from(range.exclusive)][usize::from(range.class())] -= 1;
        }
        found
    }

    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.classes.iter_mut().for_each(|classes| classes.fill(0));
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// An earlier chunk that must end before this one may begin; if several begin at one place, the last of them.
    pub(super) fn blocker(&self, range: &Range) -> Option<u32> {
        let plain_too = range.exclusive.then_some(false);
        for exclusive in [Some(true), plain_too].into_iter().flatten() {
            for (class, count) in self.classes[usize::from(exclusive)].iter().enumerate() {
                if *count == 0 {
                    continue;
                }
                let class = class as u8;
                // Ranges that begin earlier than this distance end before the range begins.
                let reach = 2_u64.checked_shl(u32::from(class)).unwrap_or(u64::MAX);
                let key = |from, number| Key { device: range.device, exclusive, class, from, number };
                let near = key(range.from.saturating_sub(reach), 0)..key(range.to, 0);
                let found = self.ranges.range(near).rev().find(|(key, (to, _))| {
                    let other = Range { device: key.device, from: key.from, to: *to, exclusive, number: key.number };
                    other.number < range.number && other.overlaps(range.from, range.to)
                });
                if let Some((_, (_, slot))) = found {
                    return Some(*slot);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges() -> impl Strategy<Value = Vec<(Range, bool)>> {
        let len = prop_oneof![Just(512_u64), Just(4096), 1..40_000_u64, Just(1 << 20)];
        let range = (0..2_u8, 0..64_u64, len, any::<bool>(), prop::bool::weighted(0.3));
        prop::collection::vec(range, 1..100).prop_map(|ranges| {
            let ranges = ranges.into_iter().enumerate();
            let range = |(number, (device, block, len, exclusive, remove))| {
                let from = block * 4096;
                (Range { device, from, to: from + len, exclusive, number: number as u64 }, remove)
            };
            ranges.map(range).collect()
        })
    }

    proptest! {
        /// The index gives the same answer as a search through all ranges.
        #[test]
        fn a_blocker_is_found_where_there_is_one(ranges in ranges()) {
            let mut locks = Locks::default();
            let mut there: Vec<Range> = Vec::new();
            for (range, remove) in ranges {
                let meets = |other: &Range| {
                    other.device == range.device && other.number < range.number
                        && (other.exclusive || range.exclusive) && other.overlaps(range.from, range.to)
                };
                let found = locks.blocker(&range);
                prop_assert_eq!(found.is_some(), there.iter().any(meets));
                if let Some(slot) = found {
                    prop_assert!(there.iter().any(|other| other.number == u64::from(slot) && meets(other)));
                }
                locks.insert(range, range.number as u32);
                there.push(range);
                if remove {
                    let gone = there.swap_remove(range.number as usize % there.len());
                    prop_assert!(locks.remove(&gone));
                }
            }
        }
    }
}

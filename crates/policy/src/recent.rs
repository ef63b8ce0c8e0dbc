//! A bounded memory of extents that drops the oldest; policies keep ghosts in it.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// Extents with a value each, in the order in which they were last added.
///
/// ```
/// use peryton_policy::Recent;
///
/// let mut ghosts = Recent::default();
/// for (extent, hits) in [(7, 1), (8, 2), (9, 3)] {
///     ghosts.put(extent, hits, 2, |hits| assert_eq!(hits, 1)); // At most two stay, so 7 leaves.
/// }
/// assert_eq!((ghosts.take(7), ghosts.take(8), ghosts.len()), (None, Some(2), 1));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Recent<V> {
    /// The value, and when it was added, so that superseded entries of `order` are recognised.
    present: FxHashMap<u32, (V, u64)>,
    order: VecDeque<(u32, u64)>,
    clock: u64,
}

impl<V: Copy> Recent<V> {
    /// Number of extents.
    pub fn len(&self) -> usize {
        self.present.len()
    }

    /// Whether there is no extent.
    pub fn is_empty(&self) -> bool {
        self.present.is_empty()
    }

    /// Whether the extent is in the memory.
    pub fn contains(&self, extent: u32) -> bool {
        self.present.contains_key(&extent)
    }

    /// Removes the extent and returns its value.
    pub fn take(&mut self, extent: u32) -> Option<V> {
        self.present.remove(&extent).map(|(value, _)| value)
    }

    /// Drops the oldest extent and returns its value.
    pub fn drop_oldest(&mut self) -> Option<V> {
        while let Some((oldest, came)) = self.order.pop_front() {
            if let Some((value, latest)) = self.present.get(&oldest).copied()
                && latest == came
            {
                self.present.remove(&oldest);
                return Some(value);
            }
        }
        None
    }

    /// The extents that were added after this number, the oldest first, each with the number of its addition. Those that were added
    /// again later have no value.
    pub(crate) fn since(&self, after: u64) -> impl Iterator<Item = (u32, Option<V>, u64)> + '_ {
        let from = self.order.partition_point(|(_, came)| *came <= after);
        self.order.range(from..).map(|(extent, came)| {
            let value = self.present.get(extent).filter(|(_, latest)| latest == came);
            (*extent, value.map(|(value, _)| *value), *came)
        })
    }

    /// Adds the extent as the newest, and drops the oldest beyond `most`. Calls `forgotten` with the values of those.
    pub fn put(&mut self, extent: u32, value: V, most: usize, mut forgotten: impl FnMut(V)) {
        self.clock += 1;
        self.present.insert(extent, (value, self.clock));
        self.order.push_back((extent, self.clock));
        while self.present.len() > most
            && let Some(value) = self.drop_oldest()
        {
            forgotten(value);
        }
        // Superseded entries must not let the order grow without bound.
        if self.order.len() > 2 * most + 16 {
            self.order.retain(|(extent, came)| self.present.get(extent).is_some_and(|(_, latest)| latest == came));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_latest_are_kept_and_the_rest_forgotten(
            steps in prop::collection::vec((any::<bool>(), 0u32..50), 0..500),
            most in 0usize..20,
        ) {
            let mut recent = Recent::default();
            let mut model: Vec<(u32, u32)> = Vec::new();
            for (step, (put, extent)) in (0u32..).zip(steps) {
                let before = model.iter().position(|(other, _)| *other == extent).map(|index| model.remove(index).1);
                prop_assert_eq!(recent.take(extent), before);
                if put {
                    let mut gone = Vec::new();
                    recent.put(extent, step, most, |value| gone.push(value));
                    model.push((extent, step));
                    let excess = model.len().saturating_sub(most);
                    let expected: Vec<u32> = model.drain(..excess).map(|(_, value)| value).collect();
                    prop_assert_eq!(gone, expected);
                }
                let kept = |extent| model.iter().any(|(other, _)| *other == extent);
                let agree = (0..50).all(|extent| recent.contains(extent) == kept(extent));
                prop_assert!(agree);
                prop_assert!(recent.order.len() <= 2 * most + 17);
            }
        }
    }
}

//! Ghosts: what has left a cache of late, in `N` lists; policies decide by them about what comes again.

use peryton_units::prefetch;

use crate::{ExtentTable, Queues, replacement::SlotIndex, saving::Saving};

/// Extents (or objects) that have left, each in one of `N` lists, the oldest of each list first.
///
/// One that comes again is [recognised](Ghosts::admitting) before another one makes room for it. Otherwise the ghost of that other
/// one could push it out in the same moment.
///
/// ```
/// use peryton_policy::Ghosts;
///
/// let mut ghosts = Ghosts::<1>::default();
/// for extent in [7, 8, 9] {
///     ghosts.put(0, extent, 1, 2); // At most two stay, so 7 leaves.
/// }
/// assert_eq!([7, 8, 9].map(|extent| ghosts.take(extent)), [None, Some(0), Some(0)]);
/// ```
#[derive(Clone, Debug)]
pub struct Ghosts<const N: usize> {
    nodes: ExtentTable,
    lists: Queues<N>,
    /// The extent of each node.
    extents: Vec<u32>,
    free: Vec<u32>,
    /// The ghost that is about to be given a slot: extent, list, size.
    returning: Option<(u32, usize, u32)>,
}

impl<const N: usize> Default for Ghosts<N> {
    fn default() -> Ghosts<N> {
        Ghosts {
            nodes: ExtentTable::default(),
            lists: Queues::new(0),
            extents: Vec::new(),
            free: Vec::new(),
            returning: None,
        }
    }
}

impl<const N: usize> Ghosts<N> {
    /// Fetches what a call for this extent will need.
    #[inline]
    pub fn prefetch(&self, extent: u32) {
        self.nodes.prefetch(extent);
    }

    /// Number of ghosts in a list.
    #[inline]
    pub fn len(&self, list: usize) -> u32 {
        self.lists.len(list)
    }

    /// The sum of their sizes.
    #[inline]
    pub fn size(&self, list: usize) -> u64 {
        self.lists.size(list)
    }

    /// The sum of the sizes of all ghosts.
    #[inline]
    pub fn all_sizes(&self) -> u64 {
        self.lists.all_sizes()
    }

    /// The list in which an extent is.
    #[inline]
    pub fn list_of(&self, extent: u32) -> Option<usize> {
        let node = self.nodes.get(extent)?;
        self.lists.queue_of(SlotIndex(node))
    }

    /// Records that an extent is about to be given a slot; returns the list in which it was.
    #[inline]
    pub fn admitting(&mut self, extent: u32) -> Option<usize> {
        // A drive may do other things between the two, and give up one of them.
        if let Some((before, list, size)) = self.returning.take() {
            self.insert(list, before, size);
        }
        let (list, size) = self.remove(extent)?;
        self.returning = Some((extent, list, size));
        Some(list)
    }

    /// The list in which the extent was that was given a slot; it is no ghost any more.
    #[inline]
    pub fn take(&mut self, extent: u32) -> Option<usize> {
        if let Some((returning, list, _)) = self.returning
            && returning == extent
        {
            self.returning = None;
            return Some(list);
        }
        self.remove(extent).map(|(list, _)| list)
    }

    fn remove(&mut self, extent: u32) -> Option<(usize, u32)> {
        let node = self.nodes.remove(extent)?;
        let (list, size) = (self.lists.queue_of(SlotIndex(node))?, self.lists.size_of(SlotIndex(node)));
        self.lists.unlink(SlotIndex(node));
        self.free.push(node);
        Some((list, size))
    }

    /// Adds an extent of this size that has left as the newest of a list, and drops the oldest of the list until their sizes are
    /// at most `most` together.
    #[inline]
    pub fn put(&mut self, list: usize, extent: u32, size: u32, most: u64) {
        if u64::from(size) > most {
            self.take(extent);
            return;
        }
        while self.lists.size(list) + u64::from(size) > most && self.drop_oldest(list).is_some() {}
        self.insert(list, extent, size);
    }

    fn insert(&mut self, list: usize, extent: u32, size: u32) {
        if let Some(node) = self.nodes.get(extent) {
            self.lists.unlink(SlotIndex(node));
            return self.lists.push_sized(list, SlotIndex(node), size);
        }
        let node = self.free.pop().unwrap_or_else(|| {
            self.extents.push(0);
            self.extents.len() as u32 - 1
        });
        self.extents[node as usize] = extent;
        self.nodes.insert(extent, node);
        self.lists.push_sized(list, SlotIndex(node), size);
    }

    /// Drops the oldest extent of a list.
    #[inline]
    pub fn drop_oldest(&mut self, list: usize) -> Option<u32> {
        let node = self.lists.first(list)?;
        let extent = self.extents[node.index()];
        self.nodes.remove(extent);
        self.lists.unlink(node);
        self.free.push(node.0);
        // The next one is old, and in none of the processor's caches; what is fetched of it are the places that its extent says.
        if let Some(next) = self.lists.first(list) {
            self.nodes.prefetch(self.extents[next.index()]);
            if let Some(after) = self.lists.newer(next) {
                self.lists.prefetch(after);
                prefetch(&self.extents[after.index()]);
            }
        }
        Some(extent)
    }

    /// Saves a list, of which this is item list `as_list`; returns whether that is complete.
    pub(crate) fn save(&mut self, list: usize, as_list: u8, to: &mut Saving<'_>) -> bool {
        let Ghosts { lists, extents, .. } = self;
        let complete = to.queue(as_list, lists, list, |node| Some([extents[node.index()]]));
        if complete
            && let Some((extent, of, _)) = self.returning
            && of == list
        {
            to.put(as_list, &[extent]);
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_extent_that_makes_room_does_not_push_out_the_one_that_comes() {
        let mut ghosts = Ghosts::<1>::default();
        ghosts.put(0, 1, 1, 2);
        ghosts.put(0, 2, 1, 2);
        ghosts.admitting(1);
        ghosts.put(0, 3, 1, 2);
        assert_eq!(ghosts.take(1), Some(0));
        assert_eq!([1, 2, 3].map(|extent| ghosts.take(extent)), [None, Some(0), Some(0)]);
    }

    #[test]
    fn an_extent_that_was_not_given_its_slot_stays_a_ghost() {
        let mut ghosts = Ghosts::<1>::default();
        ghosts.put(0, 1, 1, 2);
        ghosts.admitting(1);
        ghosts.admitting(5);
        assert_eq!((ghosts.take(5), ghosts.take(1)), (None, Some(0)));
    }

    proptest! {
        #[test]
        fn the_latest_are_kept_by_their_sizes_and_the_rest_forgotten(
            steps in prop::collection::vec((any::<bool>(), 0usize..2, 0u32..50, 1u32..9), 0..500),
            most in 0u64..60,
        ) {
            let mut ghosts = Ghosts::<2>::default();
            let mut model: Vec<(usize, u32, u32)> = Vec::new();
            for (put, list, extent, size) in steps {
                let before = model.iter().position(|(_, other, _)| *other == extent).map(|index| model.remove(index).0);
                prop_assert_eq!(ghosts.take(extent), before);
                if put {
                    ghosts.put(list, extent, size, most);
                    if u64::from(size) <= most {
                        model.push((list, extent, size));
                    }
                    let held = |model: &[(usize, u32, u32)]| -> u64 {
                        model.iter().filter(|(of, ..)| *of == list).map(|(.., size)| u64::from(*size)).sum()
                    };
                    while held(&model) > most {
                        let oldest = model.iter().position(|(of, ..)| *of == list).expect("there is one");
                        model.remove(oldest);
                    }
                    prop_assert_eq!(ghosts.size(list), held(&model));
                }
                let of = |extent| model.iter().find(|(_, other, _)| *other == extent).map(|(list, ..)| *list);
                prop_assert!((0..50).all(|extent| ghosts.list_of(extent) == of(extent)));
                prop_assert!(ghosts.extents.len() <= 51);
            }
        }
    }
}

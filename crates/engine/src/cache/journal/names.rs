//! The write-intent set: the regions that may be newer on the fast device, according to the slow device's metadata. A
//! commit goes to the slow device only if an extent of an unnamed region becomes newer; all other commits go to the
//! fast device alone.
//!
//! Without the fast device, only the slow device's metadata count: its newest checkpoint, its commits after that, and
//! every extent of each region that these name. So a region stays named until a checkpoint replaces the commit that
//! names it. From the start of a checkpoint on, the slow device may have that one or the one before. A region that a
//! later commit names is named with either.

use peryton_format::regions::Regions;
use rustc_hash::FxHashMap;

/// The content of the slow device's metadata. Each table has at most one row for each region of the volume.
#[derive(Debug)]
pub(in crate::cache) struct Names {
    regions: Regions,
    /// The regions that commits name since the newest checkpoint was begun, and whether an extent of each became newer since.
    named: FxHashMap<u32, bool>,
    /// Regions with newer extents before that: the next commit on the slow device names them again, as far as it has room.
    lately: Vec<u32>,
}

impl Names {
    /// The names of a volume of this many extents, whose newest checkpoint says that these extents are newer.
    pub(super) fn new(extents: u32, newer: impl Iterator<Item = u32>) -> Names {
        let regions = Regions::of_extents(extents);
        let mut lately: Vec<u32> = newer.map(|extent| regions.region(extent)).collect();
        lately.dedup();
        Names { regions, named: FxHashMap::default(), lately }
    }

    fn is_named(&self, extent: u32) -> bool {
        self.named.contains_key(&self.regions.region(extent))
    }

    /// Whether the slow device can do without a commit of these updates: each is an extent, and whether it is newer on the fast device.
    pub(super) fn cover(&self, mut updates: impl Iterator<Item = (u32, bool)>) -> bool {
        updates.all(|(extent, newer)| !newer || self.is_named(extent))
    }

    /// The regions that a commit of these updates names on the slow device, at most `room`: those of its newer extents, and those that
    /// were named lately.
    pub(super) fn choose(&mut self, updates: impl Iterator<Item = (u32, bool)>, room: usize) -> Vec<u32> {
        let newer = updates.filter(|(extent, newer)| *newer && !self.is_named(*extent));
        let mut chosen: Vec<u32> = newer.map(|(extent, _)| self.regions.region(extent)).collect();
        chosen.sort_unstable();
        chosen.dedup();
        let fresh = chosen.len();
        while chosen.len() < room
            && let Some(region) = self.lately.pop()
        {
            if !self.named.contains_key(&region) && chosen[..fresh].binary_search(&region).is_err() {
                chosen.push(region);
            }
        }
        chosen.truncate(room);
        chosen
    }

    /// Notes that a commit is durable. `named`: the regions that the slow device has from it, if it has the commit.
    pub(super) fn are_durable(&mut self, updates: impl Iterator<Item = (u32, bool)>, named: Option<&[u32]>) {
        for region in named.into_iter().flatten() {
            self.named.entry(*region).or_insert(false);
        }
        for (extent, _) in updates.filter(|(_, newer)| *newer) {
            if let Some(is_used) = self.named.get_mut(&self.regions.region(extent)) {
                *is_used = true;
            }
        }
    }

    pub(super) fn checkpoint_begins(&mut self) {
        self.lately = self.named.drain().filter_map(|(region, is_used)| is_used.then_some(region)).collect();
        // The order in a hash table depends on its history.
        self.lately.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of regions of 128 extents.
    fn names() -> Names {
        Names::new(10_000, std::iter::empty())
    }

    /// Makes a commit of these extents durable where it has to be; returns the regions that it names.
    fn commit(names: &mut Names, newer: &[u32], room: usize) -> Vec<u32> {
        let updates = || newer.iter().map(|extent| (*extent, true));
        let on_slow = !names.cover(updates());
        let named = if on_slow { names.choose(updates(), room) } else { Vec::new() };
        names.are_durable(updates(), on_slow.then_some(&named));
        named
    }

    #[test]
    fn only_a_newer_extent_of_a_further_region_needs_the_slow_device() {
        let mut names = names();
        assert!(names.cover([(1, false)].into_iter()) && !names.cover([(1, false), (2, true)].into_iter()));
        assert_eq!(commit(&mut names, &[2, 300, 5], 10), [0, 2]);
        assert!(names.cover([(127, true), (256, true), (9_999, false)].into_iter()));
        assert!(!names.cover([(128, true)].into_iter()));
    }

    #[test]
    fn a_region_for_which_a_commit_has_no_room_stays_unnamed() {
        let mut names = names();
        assert_eq!(commit(&mut names, &[0, 200, 300], 2), [0, 1]);
        assert!(names.cover([(200, true)].into_iter()) && !names.cover([(300, true)].into_iter()));
    }

    #[test]
    fn a_region_is_named_again_once_a_checkpoint_has_begun() {
        let mut names = names();
        commit(&mut names, &[0, 200, 300], 10);
        names.checkpoint_begins();
        assert!(!names.cover([(0, true)].into_iter()), "the checkpoint may say that it is at its origin");
        let mut named = commit(&mut names, &[1_000], 10);
        named.sort_unstable();
        assert_eq!(named, [0, 1, 2, 7], "with those that were named before");
        assert!(names.cover([(0, true), (300, true)].into_iter()));
        // Only one of these regions is written to, so the others are left out after the next checkpoint.
        assert_eq!(commit(&mut names, &[201], 10), [0; 0]);
        names.checkpoint_begins();
        assert_eq!(commit(&mut names, &[2_000], 10), [15, 7, 1]);
    }

    #[test]
    fn what_a_commit_names_that_the_slow_device_may_not_have_does_not_count() {
        let mut names = names();
        names.are_durable([(1, true)].into_iter(), None);
        assert!(!names.cover([(1, true)].into_iter()));
    }

    #[test]
    fn regions_of_extents_that_a_checkpoint_calls_newer_are_named_with_the_first_commit() {
        let mut names = Names::new(10_000, [3, 4, 500].into_iter());
        assert!(!names.cover([(3, true)].into_iter()));
        assert_eq!(commit(&mut names, &[9_000], 10), [70, 3, 0]);
    }
}

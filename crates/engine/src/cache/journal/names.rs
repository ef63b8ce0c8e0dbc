//! Which extents the slow device's metadata say may be newer on the fast device. With `journal = "named"` a commit goes to the slow
//! device only where it says so of a further extent; all others go to the fast device alone.
//!
//! Without the fast device, only the slow device's metadata count: its newest checkpoint, and for each extent its last commit after
//! that. An extent that they name as newer on the fast device is lost. A commit on the fast device alone changes nothing of that, so
//! an extent stays named until a commit on the slow device or a checkpoint says otherwise.

use rustc_hash::FxHashSet;

/// The most extents that a commit names in advance.
const MOST_AHEAD: usize = 64;
/// As many extents are named behind a run as it has, but no more than this.
const LONGEST_RUN: u32 = 16;
/// The most extents that are remembered because the newest checkpoint names them no more.
const MOST_LATELY: usize = 256;

/// What the slow device's metadata say.
#[derive(Debug)]
pub(in crate::cache) struct Names {
    /// The extents that are known to be named: at most those that were dirty at the last checkpoint, and one for each update in the
    /// ring since then.
    named: FxHashSet<u32>,
    /// Those of the named extents that are clean by now. The next checkpoint no longer names them.
    settled: FxHashSet<u32>,
    /// Those of the settled extents that were named ahead, and have not become newer since.
    ahead: FxHashSet<u32>,
    /// Extents that the last checkpoint no longer names, although they became newer since the checkpoint before it: they may become newer again.
    lately: Vec<u32>,
    /// Whether a checkpoint is under way, or has failed and is to be tried again. The slow device may have it or the one before, and an
    /// extent has to be named with either.
    checkpointing: bool,
    /// Extents that were clean at some time since the checkpoint under way was begun, so that it may not name them.
    wavering: FxHashSet<u32>,
    /// Extents that a commit on the slow device has named since that checkpoint was begun, or tried again.
    since: FxHashSet<u32>,
}

impl Names {
    /// Makes the names of a map without dirty extents: none.
    pub(super) fn new() -> Names {
        Names {
            named: FxHashSet::default(),
            settled: FxHashSet::default(),
            ahead: FxHashSet::default(),
            lately: Vec::new(),
            checkpointing: false,
            wavering: FxHashSet::default(),
            since: FxHashSet::default(),
        }
    }

    /// Begins with a checkpoint on both devices that names these extents.
    pub(super) fn begin_with(&mut self, named: impl Iterator<Item = u32>) {
        *self = Names { named: named.collect(), ..Names::new() };
    }

    /// Whether the slow device can do without a commit of these updates: each is an extent, and whether it is newer on the fast device.
    pub(super) fn cover(&self, mut updates: impl Iterator<Item = (u32, bool)>) -> bool {
        updates.all(|(extent, newer)| !newer || self.is_named(extent))
    }

    fn is_named(&self, extent: u32) -> bool {
        let with_next = !self.wavering.contains(&extent) || self.since.contains(&extent);
        self.named.contains(&extent) && (with_next || !self.checkpointing)
    }

    /// Chooses extents that a commit on the slow device names as well, because they may become newer soon: those that follow a run of
    /// extents which have, and those that a checkpoint no longer names. At most `room`, of a volume of `extents`.
    pub(super) fn choose_ahead(
        &mut self,
        updates: impl Iterator<Item = (u32, bool)>,
        extents: u32,
        room: usize,
    ) -> Vec<u32> {
        let room = room.min(MOST_AHEAD);
        let mut updated: Vec<(u32, bool)> = updates.collect();
        updated.sort_unstable();
        let is_updated = |extent: u32| updated.binary_search_by_key(&extent, |(extent, _)| *extent).is_ok();
        let mut chosen = Vec::new();
        let fresh =
            updated.iter().filter(|(extent, newer)| *newer && !self.is_named(*extent)).map(|(extent, _)| *extent);
        for extent in fresh {
            let is_part = |before: &u32| self.named.contains(before) || is_updated(*before);
            let run = (1..=LONGEST_RUN).map_while(|back| extent.checked_sub(back)).take_while(is_part).count() as u32;
            let behind = extent.saturating_add(1)..extent.saturating_add(1 + run).min(extents);
            for next in behind {
                if chosen.len() < room && !is_updated(next) && !self.is_named(next) && !chosen.contains(&next) {
                    chosen.push(next);
                }
            }
        }
        while chosen.len() < room
            && let Some(extent) = self.lately.pop()
        {
            if !is_updated(extent) && !self.is_named(extent) && !chosen.contains(&extent) {
                chosen.push(extent);
            }
        }
        chosen
    }

    /// Notes that a commit is durable on the fast device, and on the slow one as well if `on_slow`. `keeps`: whether what is named
    /// will be asked for. `ahead`: what it names besides.
    pub(super) fn are_durable(
        &mut self,
        updates: impl Iterator<Item = (u32, bool)>,
        ahead: &[u32],
        on_slow: bool,
        keeps: bool,
    ) {
        if on_slow && !keeps {
            // The slow device has the whole commit. To forget which extents it names is safe: they are then named again.
            self.forget();
            return;
        }
        if on_slow {
            self.are_named_ahead(ahead);
        }
        for (extent, newer) in updates {
            match (on_slow, newer) {
                (true, true) => {
                    self.named.insert(extent);
                    self.settled.remove(&extent);
                    self.ahead.remove(&extent);
                    if self.checkpointing {
                        self.since.insert(extent);
                    }
                }
                (true, false) => {
                    self.named.remove(&extent);
                    self.settled.remove(&extent);
                    self.ahead.remove(&extent);
                    self.since.remove(&extent);
                }
                (false, newer) if self.named.contains(&extent) => {
                    if newer {
                        self.settled.remove(&extent);
                        self.ahead.remove(&extent);
                    } else {
                        self.settled.insert(extent);
                        if self.checkpointing {
                            self.wavering.insert(extent);
                        }
                    }
                }
                // The extent becomes newer, and there is no slow device to name it.
                (false, _) => {}
            }
        }
    }

    /// Notes extents that are clean, although a commit on the slow device names them as possibly newer.
    fn are_named_ahead(&mut self, ahead: &[u32]) {
        for &extent in ahead {
            if self.named.insert(extent) {
                self.settled.insert(extent);
                self.ahead.insert(extent);
            }
            if self.checkpointing {
                self.wavering.insert(extent);
                self.since.insert(extent);
            }
        }
    }

    pub(super) fn checkpoint_begins(&mut self) {
        self.checkpointing = true;
        self.wavering.extend(&self.settled);
        self.since.clear();
    }

    /// The slow device has the checkpoint that was begun last.
    pub(super) fn checkpoint_is_durable(&mut self) {
        self.checkpointing = false;
        self.wavering.clear();
        self.since.clear();
        self.lately.clear();
        for extent in self.settled.drain() {
            self.named.remove(&extent);
            if !self.ahead.remove(&extent) && self.lately.len() < MOST_LATELY {
                self.lately.push(extent);
            }
        }
    }

    fn forget(&mut self) {
        self.named.clear();
        self.settled.clear();
        self.ahead.clear();
        self.lately.clear();
        self.wavering.clear();
        self.since.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_further_extent_that_is_newer_needs_the_slow_device() {
        let mut names = Names::new();
        assert!(names.cover([(1, false)].into_iter()) && !names.cover([(1, false), (2, true)].into_iter()));
        names.are_durable([(2, true)].into_iter(), &[], true, true);
        assert!(names.cover([(2, true), (3, false)].into_iter()) && !names.cover([(3, true)].into_iter()));
        // It stays named although it is clean, until a checkpoint leaves it out.
        names.are_durable([(2, false)].into_iter(), &[], false, true);
        assert!(names.cover([(2, true)].into_iter()));
        names.checkpoint_begins();
        assert!(!names.cover([(2, true)].into_iter()), "the checkpoint may say that it is at home");
        names.checkpoint_is_durable();
        assert!(!names.cover([(2, true)].into_iter()));
    }

    #[test]
    fn during_a_checkpoint_an_extent_is_named_with_it_and_with_the_one_before() {
        let mut names = Names::new();
        names.are_durable([(1, true), (2, true), (3, true)].into_iter(), &[], true, true);
        names.checkpoint_begins();
        assert!(names.cover([(1, true), (2, true)].into_iter()), "they are dirty, and the checkpoint says so");
        // Clean for a while, in which the checkpoint may have been written.
        names.are_durable([(1, false)].into_iter(), &[], false, true);
        assert!(!names.cover([(1, true)].into_iter()));
        names.are_durable([(1, true)].into_iter(), &[], true, true);
        assert!(names.cover([(1, true)].into_iter()), "a commit after the checkpoint names it");
        names.are_durable([(3, false)].into_iter(), &[], false, true);
        // The checkpoint fails, and is tried again: it begins after that commit, but has the extent.
        names.checkpoint_begins();
        assert!(!names.cover([(1, true)].into_iter()) && names.cover([(2, true)].into_iter()));
        names.checkpoint_is_durable();
        assert!(names.cover([(1, true), (2, true)].into_iter()) && !names.cover([(3, true)].into_iter()));
    }

    #[test]
    fn what_is_named_stays_so_when_commits_go_to_the_fast_device_during_a_checkpoint() {
        let mut names = Names::new();
        names.are_durable([(1, true)].into_iter(), &[], true, true);
        names.checkpoint_begins();
        names.are_durable([(1, true), (2, false)].into_iter(), &[], false, true);
        names.checkpoint_is_durable();
        assert!(names.cover([(1, true)].into_iter()));
    }

    fn ahead(names: &mut Names, updates: &[(u32, bool)], room: usize) -> Vec<u32> {
        let ahead = names.choose_ahead(updates.iter().copied(), 100, room);
        names.are_durable(updates.iter().copied(), &ahead, true, true);
        ahead
    }

    #[test]
    fn as_many_extents_are_named_behind_a_run_as_it_has() {
        let mut names = Names::new();
        assert_eq!(ahead(&mut names, &[(10, true)], 50), [0; 0]);
        assert_eq!(ahead(&mut names, &[(20, true), (11, true), (21, true), (12, false)], 50), [22]);
        assert_eq!(ahead(&mut names, &[(13, true)], 50), [0; 0], "the one before it is at home");
        assert!(names.cover([(22, true)].into_iter()) && !names.cover([(23, true)].into_iter()));
        assert_eq!(ahead(&mut names, &[(23, true)], 2), [24, 25], "there is no room for more");
        assert_eq!(ahead(&mut names, &[(97, true), (98, true), (99, true)], 50), [0; 0], "the volume ends");
        for extent in 40..60 {
            ahead(&mut names, &[(extent, true)], 50);
        }
        assert!(names.cover((60..71).map(|extent| (extent, true))) && !names.cover([(71, true)].into_iter()));
        assert!(names.ahead.is_subset(&names.settled) && names.settled.is_subset(&names.named));
    }

    #[test]
    fn what_a_checkpoint_no_longer_names_is_named_ahead_once() {
        let checkpoint = |names: &mut Names| {
            names.checkpoint_begins();
            names.checkpoint_is_durable();
        };
        let mut names = Names::new();
        ahead(&mut names, &[(5, true), (50, true), (51, true)], 50);
        names.are_durable([(5, false), (51, false)].into_iter(), &[], false, true);
        checkpoint(&mut names);
        assert!(!names.cover([(5, true)].into_iter()) && names.cover([(50, true)].into_iter()));
        let mut found = ahead(&mut names, &[(70, true)], 50);
        found.sort_unstable();
        assert_eq!(found, [5, 51], "but not 52, which never was newer");
        assert!(names.cover([(5, true), (51, true)].into_iter()));
        // One of them becomes newer, and goes to the origin again; the other does not.
        names.are_durable([(51, true)].into_iter(), &[], false, true);
        names.are_durable([(51, false)].into_iter(), &[], false, true);
        checkpoint(&mut names);
        assert_eq!(ahead(&mut names, &[(80, true)], 50), [51]);
    }

    #[test]
    fn during_a_checkpoint_names_ahead_hold_with_it_and_with_the_one_before() {
        let mut names = Names::new();
        ahead(&mut names, &[(1, true), (2, true)], 50);
        assert!(names.cover([(3, true)].into_iter()));
        names.checkpoint_begins();
        assert!(!names.cover([(3, true)].into_iter()), "the checkpoint says that it is at home");
        assert_eq!(ahead(&mut names, &[(3, true)], 50), [4, 5], "they are named behind the checkpoint");
        assert!(names.cover([(3, true), (5, true)].into_iter()));
        names.checkpoint_is_durable();
        assert!(names.cover([(3, true)].into_iter()));
    }
}

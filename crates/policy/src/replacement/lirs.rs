//! LIRS (Jiang and Zhang, SIGMETRICS 2002): extents whose last two accesses lie close together (LIR) stay; the others (HIR)
//! pass through a small queue. Stack S orders extents by their last access, down to the LIR extent that was not accessed for
//! the longest time. HIR extents in it become LIR at their next access, also those that have left the cache.

use rustc_hash::FxHashMap;

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::Queues;

/// The queue Q: resident HIR extents.
const HIR: usize = 0;
const NONE: u32 = u32::MAX;
/// HIR extents have this part of the cache (section 3.3: 1 %), at least one slot.
const HIR_PART: u32 = 100;
/// Stack S remembers at most this many times the cache's size of extents that have left. The paper has no bound.
const GHOSTS: u32 = 2;
/// The most slots from either end of the lists that a search for a victim examines.
const MOST_EXAMINED: u32 = 128;

/// A place in stack S: of a slot, or of an extent that has left.
#[derive(Clone, Copy, Debug)]
struct Node {
    above: u32,
    below: u32,
    stacked: bool,
}

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Lirs {
    /// Of each slot, and behind these of each ghost.
    nodes: Vec<Node>,
    top: u32,
    bottom: u32,
    is_lir: Vec<bool>,
    lirs: u32,
    most_lirs: u32,
    hirs: Queues<1>,
    slots: u32,
    /// The ghost of an extent, and the extent of each ghost.
    ghosts: FxHashMap<u32, u32>,
    ghost_extents: Vec<u32>,
    /// Ghosts in the order in which they left; the oldest makes room for the next.
    ghost_order: Queues<1>,
    free_ghosts: Vec<u32>,
}

impl Lirs {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> Lirs {
        let Capacity { slots, usable } = capacity;
        let ghosts = usable.saturating_mul(GHOSTS);
        let hirs = (usable / HIR_PART).max(1);
        let node = Node { above: NONE, below: NONE, stacked: false };
        Lirs {
            nodes: vec![node; slots as usize + ghosts as usize],
            top: NONE,
            bottom: NONE,
            is_lir: vec![false; slots as usize],
            lirs: 0,
            most_lirs: usable.saturating_sub(hirs).max(1),
            hirs: Queues::new(slots),
            slots,
            ghosts: FxHashMap::default(),
            ghost_extents: vec![0; ghosts as usize],
            ghost_order: Queues::new(ghosts),
            free_ghosts: (0..ghosts).rev().collect(),
        }
    }

    fn push(&mut self, node: u32) {
        self.nodes[node as usize] = Node { above: NONE, below: self.top, stacked: true };
        match self.top {
            NONE => self.bottom = node,
            top => self.nodes[top as usize].above = node,
        }
        self.top = node;
    }

    fn unstack(&mut self, node: u32) {
        let Node { above, below, .. } = self.nodes[node as usize];
        match above {
            NONE => self.top = below,
            above => self.nodes[above as usize].below = below,
        }
        match below {
            NONE => self.bottom = above,
            below => self.nodes[below as usize].above = above,
        }
        self.nodes[node as usize].stacked = false;
    }

    /// Puts another node in the place of this one.
    fn replace(&mut self, node: u32, by: u32) {
        let Node { above, below, .. } = self.nodes[node as usize];
        self.nodes[by as usize] = Node { above, below, stacked: true };
        match above {
            NONE => self.top = by,
            above => self.nodes[above as usize].below = by,
        }
        match below {
            NONE => self.bottom = by,
            below => self.nodes[below as usize].above = by,
        }
        self.nodes[node as usize].stacked = false;
    }

    fn forget(&mut self, ghost: u32) {
        self.ghosts.remove(&self.ghost_extents[ghost as usize]);
        self.ghost_order.unlink(SlotIndex(ghost));
        self.free_ghosts.push(ghost);
        self.unstack(self.slots + ghost);
    }

    /// Takes away what lies below the lowest LIR extent ("stack pruning").
    fn prune(&mut self) {
        while self.bottom != NONE {
            let node = self.bottom;
            match node.checked_sub(self.slots) {
                Some(ghost) => self.forget(ghost),
                None if self.is_lir[node as usize] => return,
                None => self.unstack(node),
            }
        }
    }

    /// Makes the lowest LIR extents HIR until there are no more than there may be.
    fn demote(&mut self) {
        self.prune();
        while self.lirs > self.most_lirs && self.bottom != NONE {
            let slot = self.bottom;
            self.unstack(slot);
            self.is_lir[slot as usize] = false;
            self.lirs -= 1;
            self.hirs.push(HIR, SlotIndex(slot));
            self.prune();
        }
    }

    fn becomes_lir(&mut self, slot: SlotIndex) {
        self.is_lir[slot.index()] = true;
        self.lirs += 1;
        self.demote();
    }
}

impl ReplacementPolicy for Lirs {
    fn inserted(&mut self, slot: SlotIndex, extent: u32) {
        let known = self.ghosts.get(&extent).copied();
        if let Some(ghost) = known {
            self.forget(ghost);
        }
        self.push(slot.0);
        // The first extents are LIR until there are enough of them.
        if known.is_some() || self.lirs < self.most_lirs {
            self.becomes_lir(slot);
        } else {
            self.hirs.push(HIR, slot);
        }
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        peryton_units::prefetch(&self.nodes[slot.index()]);
    }

    fn accessed(&mut self, slot: SlotIndex) {
        let stacked = self.nodes[slot.index()].stacked;
        if stacked {
            self.unstack(slot.0);
        }
        self.push(slot.0);
        if self.is_lir[slot.index()] {
            self.prune();
        } else if stacked {
            self.hirs.unlink(slot);
            self.becomes_lir(slot);
        } else {
            self.hirs.renew(HIR, slot);
        }
    }

    fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool) {
        let lir = std::mem::take(&mut self.is_lir[slot.index()]);
        match lir {
            true => self.lirs -= 1,
            false => self.hirs.unlink(slot),
        }
        if !self.nodes[slot.index()].stacked {
            return;
        }
        if lir || !evicted {
            self.unstack(slot.0);
            return self.prune();
        }
        if self.free_ghosts.is_empty()
            && let Some(oldest) = self.ghost_order.oldest(0, |_| true)
        {
            self.forget(oldest.0);
        }
        match self.free_ghosts.pop() {
            Some(ghost) => {
                self.replace(slot.0, self.slots + ghost);
                self.ghosts.insert(extent, ghost);
                self.ghost_extents[ghost as usize] = extent;
                self.ghost_order.push(0, SlotIndex(ghost));
            }
            None => self.unstack(slot.0),
        }
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        if let Some(slot) = self.hirs.oldest(HIR, |slot| candidates.may_leave(slot)) {
            return Some(slot);
        }
        // No HIR extent may leave: the LIR extent lowest in the stack that may.
        let mut node = self.bottom;
        for _ in 0..MOST_EXAMINED {
            if node == NONE {
                return None;
            }
            if node < self.slots && self.is_lir[node as usize] && candidates.may_leave(SlotIndex(node)) {
                return Some(SlotIndex(node));
            }
            node = self.nodes[node as usize].above;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::Nanos;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use crate::{BareCache, Replacement};

    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        Lir,
        Hir,
        Gone,
    }

    /// The algorithm as the paper gives it (section 3.2), on lists.
    #[derive(Default)]
    struct Plain {
        /// The stack, bottom first.
        stack: Vec<(u32, Kind)>,
        queue: Vec<u32>,
    }

    impl Plain {
        fn prune(&mut self) {
            let lowest = self.stack.iter().position(|(_, kind)| *kind == Kind::Lir);
            self.stack.drain(..lowest.unwrap_or(self.stack.len()));
        }

        fn access(&mut self, extent: u32, size: usize) -> bool {
            let most_lirs = size.saturating_sub((size / 100).max(1)).max(1);
            let lirs = |stack: &[(u32, Kind)]| stack.iter().filter(|(_, kind)| *kind == Kind::Lir).count();
            let place = self.stack.iter().position(|(other, _)| *other == extent);
            let queued = self.queue.iter().position(|other| *other == extent);
            let was = place.map(|place| self.stack.remove(place).1);
            let hit = was == Some(Kind::Lir) || queued.is_some();
            // A miss takes a place: of the first in the queue, which stays in the stack if it is there.
            if !hit && lirs(&self.stack) + self.queue.len() == size {
                let victim = self.queue.remove(0);
                if let Some(entry) = self.stack.iter_mut().find(|(other, _)| *other == victim) {
                    entry.1 = Kind::Gone;
                }
            }
            let queued = self.queue.iter().position(|other| *other == extent);
            let lir = match was {
                Some(_) => true,
                None => !hit && lirs(&self.stack) < most_lirs,
            };
            self.stack.push((extent, if lir { Kind::Lir } else { Kind::Hir }));
            if let Some(queued) = queued {
                self.queue.remove(queued);
            }
            if !lir {
                self.queue.push(extent);
            }
            self.prune();
            if lirs(&self.stack) > most_lirs {
                let (demoted, _) = self.stack.remove(0);
                self.queue.push(demoted);
                self.prune();
            }
            hit
        }
    }

    #[test]
    fn hits_and_misses_are_those_of_the_paper() {
        let mut random = StdRng::seed_from_u64(7);
        for size in [2usize, 3, 10, 60, 250] {
            let (mut plain, mut cache) = (Plain::default(), BareCache::new(Replacement::Lirs, size as u32, Nanos(1)));
            for step in 0..20_000u64 {
                // So many extents that the bound of the ghosts never counts.
                let drawn: f64 = random.random();
                let extent = (drawn * drawn * 2.5 * size as f64) as u32;
                let (want, got) = (plain.access(extent, size), cache.access(Nanos(step), extent));
                assert_eq!(want, got, "step {step} of {size} entries: extent {extent}");
            }
        }
    }
}

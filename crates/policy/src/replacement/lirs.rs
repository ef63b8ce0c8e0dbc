//! LIRS (Jiang and Zhang, SIGMETRICS 2002): extents whose last two accesses lie close together (LIR) stay; the others (HIR)
//! pass through a small queue. Stack S orders extents by their last access, down to the LIR extent that was not accessed for
//! the longest time. HIR extents in it become LIR at their next access, also those that have left the cache.

use rustc_hash::FxHashMap;

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{Queues, saving::Saving};

/// The queue Q: resident HIR extents.
const HIR: usize = 0;
/// The only queue of the stack.
const STACK: usize = 0;
/// The numbers of lists where the state is saved: the stack, the queue, and ghosts in the order in which they left.
const STACKED: u8 = 0;
const QUEUED: u8 = 1;
const LEFT: u8 = 2;
/// What an extent of the saved stack is: resident HIR, LIR, or a ghost.
const RESIDENT: u32 = 0;
const LIR: u32 = 1;
const GHOST: u32 = 2;
/// HIR extents have this part of the cache (section 3.3: 1 %), at least one slot.
const HIR_PART: u32 = 100;
/// Stack S remembers at most this many times the cache's size of extents that have left. The paper has no bound.
const GHOSTS: u32 = 2;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Lirs {
    /// Stack S: the slots, and behind them the ghosts. The newest is at its top.
    stack: Queues<1>,
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
        Lirs {
            stack: Queues::new(slots + ghosts),
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

    /// The place in the stack of a ghost.
    fn ghost_node(&self, ghost: u32) -> SlotIndex {
        SlotIndex(self.slots + ghost)
    }

    fn bottom(&self) -> Option<SlotIndex> {
        self.stack.oldest(STACK, |_| true)
    }

    fn is_stacked(&self, slot: SlotIndex) -> bool {
        self.stack.queue_of(slot).is_some()
    }

    fn forget(&mut self, ghost: u32) {
        self.ghosts.remove(&self.ghost_extents[ghost as usize]);
        self.ghost_order.unlink(SlotIndex(ghost));
        self.free_ghosts.push(ghost);
        self.stack.unlink(self.ghost_node(ghost));
    }

    /// Takes away what lies below the lowest LIR extent ("stack pruning").
    fn prune(&mut self) {
        while let Some(node) = self.bottom() {
            match node.0.checked_sub(self.slots) {
                Some(ghost) => self.forget(ghost),
                None if self.is_lir[node.index()] => return,
                None => self.stack.unlink(node),
            }
        }
    }

    /// Makes the lowest LIR extents HIR until there are no more than there may be.
    fn demote(&mut self) {
        self.prune();
        while self.lirs > self.most_lirs
            && let Some(slot) = self.bottom()
        {
            self.stack.unlink(slot);
            self.is_lir[slot.index()] = false;
            self.lirs -= 1;
            self.hirs.push(HIR, slot);
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
        self.stack.push(STACK, slot);
        // The first extents are LIR until there are enough of them.
        if known.is_some() || self.lirs < self.most_lirs {
            self.becomes_lir(slot);
        } else {
            self.hirs.push(HIR, slot);
        }
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        self.stack.prefetch(slot);
    }

    fn accessed(&mut self, slot: SlotIndex) {
        let stacked = self.is_stacked(slot);
        if stacked {
            self.stack.renew(STACK, slot);
        } else {
            self.stack.push(STACK, slot);
        }
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
        if !self.is_stacked(slot) {
            return;
        }
        if lir || !evicted {
            self.stack.unlink(slot);
            return self.prune();
        }
        if self.free_ghosts.is_empty()
            && let Some(oldest) = self.ghost_order.oldest(0, |_| true)
        {
            self.forget(oldest.0);
        }
        match self.free_ghosts.pop() {
            Some(ghost) => {
                self.stack.replace(slot, self.ghost_node(ghost));
                self.ghosts.insert(extent, ghost);
                self.ghost_extents[ghost as usize] = extent;
                self.ghost_order.push(0, SlotIndex(ghost));
            }
            None => self.stack.unlink(slot),
        }
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        if let Some(slot) = self.hirs.oldest(HIR, |slot| candidates.may_leave(slot)) {
            return Some(slot);
        }
        // No HIR extent may leave: the LIR extent lowest in the stack that may.
        let Lirs { stack, is_lir, .. } = self;
        let is_lir = |node: SlotIndex| is_lir.get(node.index()).is_some_and(|is_lir| *is_lir);
        stack.oldest(STACK, |node| is_lir(node) && candidates.may_leave(node))
    }

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        let extent_in = to.extent_in();
        loop {
            let complete = match to.part() {
                0 => to.queue(STACKED, &mut self.stack, STACK, |node| match node.0.checked_sub(self.slots) {
                    Some(ghost) => Some([self.ghost_extents[ghost as usize], GHOST]),
                    None => Some([extent_in(node)?, if self.is_lir[node.index()] { LIR } else { RESIDENT }]),
                }),
                1 => to.queue(QUEUED, &mut self.hirs, HIR, |slot| Some([extent_in(slot)?])),
                2 => to.queue(LEFT, &mut self.ghost_order, 0, |ghost| Some([self.ghost_extents[ghost.index()]])),
                _ => return true,
            };
            if !to.next_if(complete) {
                return false;
            }
        }
    }

    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        match (list, item) {
            (STACKED, [extent, GHOST]) => {
                if slot_of(*extent).is_some_and(|slot| self.is_stacked(slot)) {
                    return;
                }
                let known = self.ghosts.get(extent).copied();
                let Some(ghost) = known.or_else(|| self.free_ghosts.pop()) else { return };
                self.ghosts.insert(*extent, ghost);
                self.ghost_extents[ghost as usize] = *extent;
                self.stack.put(STACK, self.ghost_node(ghost));
                self.ghost_order.put(0, SlotIndex(ghost));
            }
            (STACKED, [extent, status]) => {
                let Some(slot) = slot_of(*extent) else { return };
                if let Some(ghost) = self.ghosts.get(extent).copied() {
                    self.forget(ghost);
                }
                self.stack.put(STACK, slot);
                let lir = *status == LIR;
                let before = std::mem::replace(&mut self.is_lir[slot.index()], lir);
                self.lirs = self.lirs + u32::from(lir) - u32::from(before);
            }
            (QUEUED, [extent]) => {
                if let Some(slot) = slot_of(*extent).filter(|slot| !self.is_lir[slot.index()]) {
                    self.hirs.put(HIR, slot);
                }
            }
            (LEFT, [extent]) => {
                if let Some(ghost) = self.ghosts.get(extent) {
                    self.ghost_order.put(0, SlotIndex(*ghost));
                }
            }
            _ => {}
        }
    }

    /// Each extent is LIR or in the queue, whatever has become of the others meanwhile.
    fn loaded(&mut self) {
        let mut node = self.bottom();
        while let Some(slot) = node {
            node = self.stack.newer(slot);
            if slot.0 < self.slots && !self.is_lir[slot.index()] && self.hirs.queue_of(slot).is_none() {
                self.hirs.push(HIR, slot);
            }
        }
        self.demote();
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.is_lir[slot.index()] || self.hirs.queue_of(slot).is_some()
    }
}

#[cfg(test)]
mod tests {
    use crate::replacement::{Replacement, bare::agrees_with};

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
        // So many extents that the bound of the ghosts never counts.
        agrees_with(
            Replacement::Lirs,
            &[2, 3, 10, 60, 250],
            |size| 2.5 * size as f64,
            |_| Plain::default(),
            Plain::access,
        );
    }
}

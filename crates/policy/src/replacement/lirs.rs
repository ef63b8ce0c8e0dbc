//! LIRS (Jiang and Zhang, SIGMETRICS 2002): extents whose last two accesses lie close together (LIR) stay; the others (HIR)
//! pass through a small queue. Stack S orders extents by their last access, down to the LIR extent that was not accessed for
//! the longest time. HIR extents in it become LIR at their next access, also those that have left the cache.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{ExtentTable, Millionths, PerSlot, Queues, saving::Saving};

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

parameters! {
    hir: 10_000 in 0..=1_000_000, "The share of the cache that HIR extents have (section 3.3).";
    ghosts: 10_000_000 in 0..=1_000_000_000, "The most extents that have left and that stack S remembers, for each that is cached. The \
        paper has no bound: that is 0.";
}

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Lirs {
    /// Stack S: slots have the even numbers, ghosts the odd ones. The newest is at its top.
    stack: Queues<1>,
    is_lir: PerSlot<bool>,
    /// The sum of the sizes of LIR extents.
    lirs: u64,
    most_lirs: u64,
    hirs: Queues<1>,
    /// The ghost of an extent, and the extent of each ghost.
    ghosts: ExtentTable,
    ghost_extents: Vec<u32>,
    /// Ghosts in the order in which they left; the oldest makes room for the next.
    ghost_order: Queues<1>,
    free_ghosts: Vec<u32>,
    /// Extents that are cached, and the most ghosts for each of them.
    cached: u64,
    most_ghosts: Option<Millionths>,
}

/// The place in the stack of a slot.
fn slot_node(slot: SlotIndex) -> SlotIndex {
    SlotIndex(slot.0 * 2)
}

/// The place in the stack of a ghost.
fn ghost_node(ghost: u32) -> SlotIndex {
    SlotIndex(ghost * 2 + 1)
}

/// What is at a place in the stack.
enum Node {
    Slot(SlotIndex),
    Ghost(u32),
}

fn at(node: SlotIndex) -> Node {
    if node.0 & 1 == 1 { Node::Ghost(node.0 / 2) } else { Node::Slot(SlotIndex(node.0 / 2)) }
}

impl Lirs {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity, parameters: Parameters) -> Lirs {
        let Capacity { slots, size } = capacity;
        let hirs = parameters.hir.of(size).max(1);
        Lirs {
            stack: Queues::new(slots * 2),
            is_lir: PerSlot::new(slots),
            lirs: 0,
            most_lirs: size.saturating_sub(hirs).max(1),
            hirs: Queues::new(slots),
            ghosts: ExtentTable::default(),
            ghost_extents: Vec::new(),
            ghost_order: Queues::new(0),
            free_ghosts: Vec::new(),
            cached: 0,
            most_ghosts: Some(parameters.ghosts).filter(|most| most.0 > 0),
        }
    }

    fn free_ghost(&mut self) -> u32 {
        self.free_ghosts.pop().unwrap_or_else(|| {
            self.ghost_extents.push(0);
            self.ghost_extents.len() as u32 - 1
        })
    }

    fn has_room_for_ghosts(&self, more: u64) -> bool {
        self.most_ghosts.is_none_or(|most| self.ghosts.len() as u64 + more <= most.of(self.cached).max(1))
    }

    fn bottom(&self) -> Option<SlotIndex> {
        self.stack.first(STACK)
    }

    fn is_stacked(&self, slot: SlotIndex) -> bool {
        self.stack.queue_of(slot_node(slot)).is_some()
    }

    fn forget(&mut self, ghost: u32) {
        self.ghosts.remove(self.ghost_extents[ghost as usize]);
        self.ghost_order.unlink(SlotIndex(ghost));
        self.free_ghosts.push(ghost);
        self.stack.unlink(ghost_node(ghost));
    }

    /// Takes away what lies below the lowest LIR extent ("stack pruning").
    fn prune(&mut self) {
        while let Some(node) = self.bottom() {
            match at(node) {
                Node::Ghost(ghost) => self.forget(ghost),
                Node::Slot(slot) if self.is_lir[slot] => return,
                Node::Slot(_) => self.stack.unlink(node),
            }
        }
    }

    /// Makes the lowest LIR extents HIR until there are no more than there may be.
    fn demote(&mut self) {
        self.prune();
        while self.lirs > self.most_lirs
            && let Some(node) = self.bottom()
            && let Node::Slot(slot) = at(node)
        {
            let size = self.stack.size_of(node);
            self.stack.unlink(node);
            self.is_lir[slot] = false;
            self.lirs -= u64::from(size);
            self.hirs.push_sized(HIR, slot, size);
            self.prune();
        }
    }

    fn becomes_lir(&mut self, slot: SlotIndex) {
        self.is_lir[slot] = true;
        self.lirs += u64::from(self.stack.size_of(slot_node(slot)));
        self.demote();
    }
}

impl ReplacementPolicy for Lirs {
    const LOOKS_AT_USES: bool = false;

    fn inserted(&mut self, slot: SlotIndex, extent: u32, size: u32) {
        let known = self.ghosts.get(extent);
        if let Some(ghost) = known {
            self.forget(ghost);
        }
        self.cached += 1;
        self.is_lir.set(slot, false);
        self.stack.push_sized(STACK, slot_node(slot), size);
        // The first extents are LIR until there are enough of them.
        if known.is_some() || self.lirs + u64::from(size) <= self.most_lirs {
            self.becomes_lir(slot);
        } else {
            self.hirs.push_sized(HIR, slot, size);
        }
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        self.stack.prefetch(slot_node(slot));
    }

    fn accessed(&mut self, slot: SlotIndex) {
        let stacked = self.is_stacked(slot);
        if stacked {
            self.stack.renew(STACK, slot_node(slot));
        } else {
            self.stack.push_sized(STACK, slot_node(slot), self.hirs.size_of(slot));
        }
        if self.is_lir[slot] {
            self.prune();
        } else if stacked {
            self.hirs.unlink(slot);
            self.becomes_lir(slot);
        } else {
            self.hirs.renew(HIR, slot);
        }
    }

    fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool) {
        let lir = std::mem::take(&mut self.is_lir[slot]);
        self.cached = self.cached.saturating_sub(1);
        match lir {
            true => self.lirs -= u64::from(self.stack.size_of(slot_node(slot))),
            false => self.hirs.unlink(slot),
        }
        if !self.is_stacked(slot) {
            return;
        }
        if lir || !evicted {
            self.stack.unlink(slot_node(slot));
            return self.prune();
        }
        // The extent that leaves counts as cached: its room is for the one that comes.
        self.cached += 1;
        while !self.has_room_for_ghosts(1)
            && let Some(oldest) = self.ghost_order.first(0)
        {
            self.forget(oldest.0);
        }
        self.cached -= 1;
        let ghost = self.free_ghost();
        self.stack.replace(slot_node(slot), ghost_node(ghost));
        self.ghosts.insert(extent, ghost);
        self.ghost_extents[ghost as usize] = extent;
        self.ghost_order.push(0, SlotIndex(ghost));
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        if let Some(slot) = self.hirs.oldest(HIR, |slot| candidates.may_leave(slot)) {
            return Some(slot);
        }
        // No HIR extent may leave: the LIR extent lowest in the stack that may.
        let Lirs { stack, is_lir, .. } = self;
        let lir = |node: SlotIndex| match at(node) {
            Node::Slot(slot) if is_lir[slot] => Some(slot),
            _ => None,
        };
        stack.oldest(STACK, |node| lir(node).is_some_and(|slot| candidates.may_leave(slot))).and_then(lir)
    }

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        let extent_in = to.extent_in();
        loop {
            let complete = match to.part() {
                0 => to.queue(STACKED, &mut self.stack, STACK, |node| match at(node) {
                    Node::Ghost(ghost) => Some([self.ghost_extents[ghost as usize], GHOST]),
                    Node::Slot(slot) => Some([extent_in(slot)?, if self.is_lir[slot] { LIR } else { RESIDENT }]),
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
                let known = self.ghosts.get(*extent);
                if known.is_none() && !self.has_room_for_ghosts(1) {
                    return;
                }
                let ghost = known.unwrap_or_else(|| self.free_ghost());
                self.ghosts.insert(*extent, ghost);
                self.ghost_extents[ghost as usize] = *extent;
                self.stack.put(STACK, ghost_node(ghost));
                self.ghost_order.put(0, SlotIndex(ghost));
            }
            (STACKED, [extent, status]) => {
                let Some(slot) = slot_of(*extent) else { return };
                if let Some(ghost) = self.ghosts.get(*extent) {
                    self.forget(ghost);
                }
                self.cached += u64::from(!self.knows(slot) && !self.is_stacked(slot));
                self.stack.put(STACK, slot_node(slot));
                let lir = *status == LIR;
                let before = std::mem::replace(&mut self.is_lir[slot], lir);
                self.lirs = self.lirs + u64::from(lir) - u64::from(before);
            }
            (QUEUED, [extent]) => {
                if let Some(slot) = slot_of(*extent).filter(|slot| !self.is_lir[*slot]) {
                    self.cached += u64::from(!self.knows(slot) && !self.is_stacked(slot));
                    self.hirs.put(HIR, slot);
                }
            }
            (LEFT, [extent]) => {
                if let Some(ghost) = self.ghosts.get(*extent) {
                    self.ghost_order.put(0, SlotIndex(ghost));
                }
            }
            _ => {}
        }
    }

    /// Each extent is LIR or in the queue, whatever has become of the others meanwhile.
    fn loaded(&mut self) {
        let mut node = self.bottom();
        while let Some(here) = node {
            node = self.stack.newer(here);
            if let Node::Slot(slot) = at(here)
                && !self.is_lir[slot]
                && self.hirs.queue_of(slot).is_none()
            {
                self.hirs.push(HIR, slot);
            }
        }
        self.demote();
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.is_lir.get(slot).is_some_and(|lir| *lir) || self.hirs.queue_of(slot).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::Parameters;
    use crate::{
        Millionths,
        replacement::{Replacement, bare::agrees_with},
    };

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
        agrees_with(
            Replacement::Lirs(Parameters { ghosts: Millionths(0), ..Parameters::DEFAULT }),
            &[2, 3, 10, 60, 250],
            |size| 12.0 * size as f64,
            |_| Plain::default(),
            Plain::access,
        );
    }
}

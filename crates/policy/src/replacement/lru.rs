//! Least recently used.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex, VICTIMS_AHEAD};
use crate::Queues;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Lru {
    queue: Queues<1>,
}

impl Lru {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> Lru {
        Lru { queue: Queues::new(capacity.slots) }
    }
}

impl ReplacementPolicy for Lru {
    #[inline]
    fn inserted(&mut self, slot: SlotIndex, _extent: u32) {
        self.queue.push(0, slot);
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        self.queue.prefetch(slot);
    }

    #[inline]
    fn accessed(&mut self, slot: SlotIndex) {
        self.queue.renew(0, slot);
    }

    #[inline]
    fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
        self.queue.unlink(slot);
    }

    #[inline]
    fn likely_victims(&self, last: SlotIndex) -> Option<[SlotIndex; VICTIMS_AHEAD]> {
        self.queue.newer_ones(last)
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        self.queue.oldest(0, |slot| candidates.may_leave(slot))
    }
}

//! 2Q, the full version (Johnson and Shasha, VLDB 1994, section 3): new extents pass through a FIFO queue. Only those
//! that are accessed again soon after they left it enter the LRU queue.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{Queues, Recent};

const IN: usize = 0;
const MAIN: usize = 1;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct TwoQueue {
    queues: Queues<2>,
    out: Recent<()>,
    /// Kin and Kout of the paper: a quarter and half of the cache.
    most_in: u32,
    most_out: usize,
}

impl TwoQueue {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> TwoQueue {
        let Capacity { slots, usable } = capacity;
        TwoQueue {
            queues: Queues::new(slots),
            out: Recent::default(),
            most_in: (usable / 4).max(1),
            most_out: (usable / 2) as usize,
        }
    }
}

impl ReplacementPolicy for TwoQueue {
    fn inserted(&mut self, slot: SlotIndex, extent: u32) {
        let queue = if self.out.take(extent).is_some() { MAIN } else { IN };
        self.queues.push(queue, slot);
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        self.queues.prefetch(slot);
    }

    #[inline]
    fn accessed(&mut self, slot: SlotIndex) {
        // Accesses while an extent is in the FIFO queue are correlated references, which do not count.
        if self.queues.queue_of(slot) == Some(MAIN) {
            self.queues.renew(MAIN, slot);
        }
    }

    fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool) {
        if evicted && self.queues.queue_of(slot) == Some(IN) {
            self.out.put(extent, (), self.most_out, |()| {});
        }
        self.queues.unlink(slot);
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        let order = if self.queues.len(IN) > self.most_in { [IN, MAIN] } else { [MAIN, IN] };
        order.into_iter().find_map(|queue| self.queues.oldest(queue, |slot| candidates.may_leave(slot)))
    }
}

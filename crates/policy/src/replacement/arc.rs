//! ARC (Megiddo and Modha, FAST 2003): two LRU queues, for extents seen once and more than once. Their shares follow
//! the hits on ghosts. The names in this file are those of the paper's Figure 4: c is the size of the cache, T1 and T2 are the
//! queues, B1 and B2 their ghosts, p is the target length of T1.
//!
//! In a cache that evicts once for each extent that it takes in, this is the paper's algorithm to the hit. A drive may evict
//! earlier or later than that; then the bounds of the ghosts hold all the same.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{Queues, Recent};

/// T1 and T2; `ghosts` are B1 and B2.
const ONCE: usize = 0;
const OFTEN: usize = 1;

/// What the extent that is about to be inserted was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Incoming {
    /// A ghost of T1, or unknown.
    Other,
    /// A ghost of T2 (case III).
    Often,
    /// Unknown, while T1 fills the cache and has no ghosts: its oldest leaves without becoming one (case IV).
    Fills,
}

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Arc {
    queues: Queues<2>,
    ghosts: [Recent<()>; 2],
    /// The target length of T1. It is not a whole number, because its steps are quotients of lengths.
    target: f64,
    size: u32,
    incoming: Incoming,
}

impl Arc {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> Arc {
        Arc {
            queues: Queues::new(capacity.slots),
            ghosts: [Recent::default(), Recent::default()],
            target: 0.0,
            size: capacity.usable,
            incoming: Incoming::Other,
        }
    }
}

impl ReplacementPolicy for Arc {
    /// An extent missed and is about to be given a slot: the target follows the ghosts (cases II and III), or a ghost makes
    /// room for the one that follows (case IV).
    fn admitting(&mut self, extent: u32) {
        let [once, often] = [ONCE, OFTEN].map(|queue| self.ghosts[queue].len());
        self.incoming = Incoming::Other;
        if self.ghosts[ONCE].contains(extent) {
            let step = (often as f64 / once as f64).max(1.0);
            self.target = (self.target + step).min(f64::from(self.size));
            return;
        }
        if self.ghosts[OFTEN].contains(extent) {
            let step = (once as f64 / often as f64).max(1.0);
            self.target = (self.target - step).max(0.0);
            self.incoming = Incoming::Often;
            return;
        }
        let size = self.size as usize;
        let [recent, frequent] = [ONCE, OFTEN].map(|queue| self.queues.len(queue) as usize);
        if recent + once >= size {
            if recent < size {
                self.ghosts[ONCE].drop_oldest();
            } else {
                self.incoming = Incoming::Fills;
            }
        } else if recent + frequent + once + often >= 2 * size {
            self.ghosts[OFTEN].drop_oldest();
        }
    }

    fn inserted(&mut self, slot: SlotIndex, extent: u32) {
        let ghost = self.ghosts[ONCE].take(extent).is_some() | self.ghosts[OFTEN].take(extent).is_some();
        self.queues.push(if ghost { OFTEN } else { ONCE }, slot);
        self.incoming = Incoming::Other;
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        self.queues.prefetch(slot);
    }

    #[inline]
    fn accessed(&mut self, slot: SlotIndex) {
        if self.queues.queue_of(slot) == Some(ONCE) {
            self.queues.unlink(slot);
            self.queues.push(OFTEN, slot);
        } else {
            self.queues.renew(OFTEN, slot);
        }
    }

    fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool) {
        let queue = self.queues.queue_of(slot);
        self.queues.unlink(slot);
        let (true, Some(queue)) = (evicted, queue) else { return };
        if queue == ONCE && self.incoming == Incoming::Fills {
            return;
        }
        // |T1| + |B1| ≤ c, and all four lists ≤ 2c.
        let size = self.size as usize;
        let resident = (self.queues.len(ONCE) + self.queues.len(OFTEN)) as usize;
        let most = match queue {
            ONCE => size.saturating_sub(self.queues.len(ONCE) as usize),
            _ => (2 * size).saturating_sub(resident + self.ghosts[ONCE].len()),
        };
        self.ghosts[queue].put(extent, (), most, |()| {});
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        let once = f64::from(self.queues.len(ONCE));
        let from_once = match self.incoming {
            Incoming::Fills => true,
            Incoming::Often => once >= self.target,
            Incoming::Other => once > self.target,
        };
        let order = if once > 0.0 && from_once { [ONCE, OFTEN] } else { [OFTEN, ONCE] };
        order.into_iter().find_map(|queue| self.queues.oldest(queue, |slot| candidates.may_leave(slot)))
    }
}

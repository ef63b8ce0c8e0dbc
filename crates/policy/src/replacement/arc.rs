//! ARC (Megiddo and Modha, FAST 2003): two LRU queues, for extents seen once and more than once. Their shares follow
//! the hits on ghosts.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{Queues, Recent};

/// T1 and T2 of the paper; `ghosts` are B1 and B2.
const ONCE: usize = 0;
const OFTEN: usize = 1;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Arc {
    queues: Queues<2>,
    ghosts: [Recent<()>; 2],
    /// `p` of the paper: the target length of T1.
    target: u32,
    size: u32,
    /// The extent that is about to be inserted, and whether it was a ghost of T2.
    incoming: Option<(u32, bool)>,
}

impl Arc {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> Arc {
        Arc {
            queues: Queues::new(capacity.slots),
            ghosts: [Recent::default(), Recent::default()],
            target: 0,
            size: capacity.usable,
            incoming: None,
        }
    }
}

impl ReplacementPolicy for Arc {
    /// An extent missed and is about to be given a slot: the target follows the ghosts (Figure 4, cases II and III).
    fn admitting(&mut self, extent: u32) {
        let (once, often) = (self.ghosts[ONCE].len() as u32, self.ghosts[OFTEN].len() as u32);
        if self.ghosts[ONCE].contains(extent) {
            let step = (often / once.max(1)).max(1);
            self.target = self.target.saturating_add(step).min(self.size);
        } else if self.ghosts[OFTEN].contains(extent) {
            let step = (once / often.max(1)).max(1);
            self.target = self.target.saturating_sub(step);
        }
        self.incoming = Some((extent, self.ghosts[OFTEN].contains(extent)));
    }

    fn inserted(&mut self, slot: SlotIndex, extent: u32) {
        let ghost = self.ghosts[ONCE].take(extent).is_some() | self.ghosts[OFTEN].take(extent).is_some();
        self.queues.push(if ghost { OFTEN } else { ONCE }, slot);
        self.incoming = None;
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
        let once = self.queues.len(ONCE);
        let tie = matches!(self.incoming, Some((_, true))) && once == self.target;
        let order = if once > 0 && (once > self.target || tie) { [ONCE, OFTEN] } else { [OFTEN, ONCE] };
        order.into_iter().find_map(|queue| self.queues.oldest(queue, |slot| candidates.may_leave(slot)))
    }
}

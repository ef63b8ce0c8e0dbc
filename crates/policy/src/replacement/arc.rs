//! ARC (Megiddo and Modha, FAST 2003): two LRU queues, for extents seen once and more than once. Their shares follow
//! the hits on ghosts. The names in this file are those of the paper's Figure 4: c is the size of the cache, T1 and T2 are the
//! queues, B1 and B2 their ghosts, p is the target length of T1.
//!
//! In a cache that evicts once for each extent that it takes in, this is the paper's algorithm to the hit. A drive may evict
//! earlier or later than that; then the bounds of the ghosts hold all the same.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{
    Queues, Recent,
    saving::{Saving, halves, whole},
};

/// T1 and T2; `ghosts` are B1 and B2.
const ONCE: usize = 0;
const OFTEN: usize = 1;
/// The numbers of lists where the state is saved: those of the queues are theirs.
const GHOSTS: u8 = 2;
const TARGET: u8 = 10;

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

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        let extent_in = to.extent_in();
        loop {
            let complete = match to.part() {
                0 => {
                    to.put(TARGET, &halves(self.target.to_bits()));
                    true
                }
                part @ 1..3 => {
                    let queue = part as usize - 1;
                    to.queue(queue as u8, &mut self.queues, queue, |slot| Some([extent_in(slot)?]))
                }
                part @ 3..5 => {
                    let queue = part as usize - 3;
                    to.recent(GHOSTS + queue as u8, &self.ghosts[queue], |extent, ()| [extent])
                }
                _ => return true,
            };
            if !to.next_if(complete) {
                return false;
            }
        }
    }

    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        match (list, item) {
            (TARGET, [low, high]) => {
                let target = f64::from_bits(whole([*low, *high]));
                self.target = if target >= 0.0 { target.min(f64::from(self.size)) } else { 0.0 };
            }
            (0 | 1, [extent]) => {
                if let Some(slot) = slot_of(*extent) {
                    self.queues.put(usize::from(list), slot);
                }
            }
            (GHOSTS | 3, [extent]) => {
                let queue = usize::from(list - GHOSTS) & 1;
                self.ghosts[1 - queue].take(*extent);
                self.ghosts[queue].put(*extent, (), 2 * self.size as usize, |()| {});
            }
            _ => {}
        }
    }

    /// The bounds hold, whatever has become of the extents meanwhile.
    fn loaded(&mut self) {
        let size = self.size as usize;
        let [recent, frequent] = [ONCE, OFTEN].map(|queue| self.queues.len(queue) as usize);
        while recent + self.ghosts[ONCE].len() > size && self.ghosts[ONCE].drop_oldest().is_some() {}
        let others = recent + frequent + self.ghosts[ONCE].len();
        while others + self.ghosts[OFTEN].len() > 2 * size && self.ghosts[OFTEN].drop_oldest().is_some() {}
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.queues.queue_of(slot).is_some()
    }
}

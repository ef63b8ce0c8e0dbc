//! ARC (Megiddo and Modha, FAST 2003): two LRU queues, for extents seen once and more than once. Their shares follow
//! the hits on ghosts. The names in this file are those of the paper's Figure 4: c is the size of the cache, T1 and T2 are the
//! queues, B1 and B2 their ghosts, p is the target length of T1.
//!
//! In a cache that evicts only for an extent that it takes in, this is the paper's algorithm to the hit. With the sizes of objects, |L|
//! is the sum of sizes in L, as in libCacheSim, and case IV is decided again for each object that leaves. A drive may evict earlier or
//! later than that; then the bounds of the ghosts hold all the same.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{
    Ghosts, Queues,
    saving::{Saving, halves, whole},
};

/// T1 and T2; as lists of ghosts, B1 and B2.
const ONCE: usize = 0;
const OFTEN: usize = 1;
/// The numbers of lists where the state is saved: those of the queues are theirs.
const GHOSTS: u8 = 2;
const TARGET: u8 = 10;

/// What the extent that is about to be inserted was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Incoming {
    /// Nothing is about to be inserted: what leaves does so for the drive's sake.
    Nothing,
    /// A ghost of T1 (case II) or of T2 (case III).
    Ghost(usize),
    /// Unknown (case IV), of this size.
    Unknown(u32),
}

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Arc {
    queues: Queues<2>,
    ghosts: Ghosts<2>,
    /// The target length of T1. It is not a whole number, because its steps are quotients of lengths.
    target: f64,
    size: u64,
    incoming: Incoming,
}

impl Arc {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> Arc {
        Arc {
            queues: Queues::new(capacity.slots),
            ghosts: Ghosts::default(),
            target: 0.0,
            size: capacity.size,
            incoming: Incoming::Nothing,
        }
    }

    /// Whether T1 and its ghosts fill the cache, so that an unknown extent costs one of them (case IV A).
    fn once_is_full(&self, size: u32) -> bool {
        self.queues.size(ONCE) + self.ghosts.size(ONCE) + u64::from(size) > self.size
    }
}

impl ReplacementPolicy for Arc {
    const LOOKS_AT_USES: bool = false;

    /// An extent missed and is about to be given a slot: the target follows the ghosts (cases II and III).
    fn admitting(&mut self, extent: u32, size: u32) {
        let (once, often) = (self.ghosts.size(ONCE) as f64, self.ghosts.size(OFTEN) as f64);
        self.incoming = match self.ghosts.admitting(extent) {
            Some(list) => Incoming::Ghost(list),
            None => Incoming::Unknown(size),
        };
        match self.incoming {
            Incoming::Ghost(ONCE) => self.target = (self.target + (often / once).max(1.0)).min(self.size as f64),
            Incoming::Ghost(_) => self.target = (self.target - (once / often).max(1.0)).max(0.0),
            _ => {}
        }
    }

    fn inserted(&mut self, slot: SlotIndex, extent: u32, size: u32) {
        let queue = if self.ghosts.take(extent).is_some() { OFTEN } else { ONCE };
        self.queues.push_sized(queue, slot, size);
        self.incoming = Incoming::Nothing;
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        self.queues.prefetch(slot);
    }

    #[inline]
    fn prefetch_extent(&self, extent: u32) {
        self.ghosts.prefetch(extent);
    }

    #[inline]
    fn likely_next(&self, victim: SlotIndex) -> Option<SlotIndex> {
        self.queues.newer(victim)
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
        let size = self.queues.size_of(slot);
        let most = match (evicted, self.incoming, queue) {
            (false, ..) | (_, _, None) => None,
            // |T1| + |B1| ≤ c, and all four lists ≤ 2c.
            (_, Incoming::Nothing, Some(ONCE)) => {
                Some(self.size.saturating_sub(self.queues.size(ONCE) - u64::from(size)))
            }
            (_, Incoming::Nothing, _) => {
                let others = self.queues.all_sizes() - u64::from(size);
                Some((2 * self.size).saturating_sub(others + self.ghosts.size(ONCE)))
            }
            (_, Incoming::Ghost(_), _) => Some(u64::MAX),
            (_, Incoming::Unknown(incoming), _) if self.once_is_full(incoming) => {
                self.ghosts.drop_oldest(ONCE).map(|_| u64::MAX)
            }
            (_, Incoming::Unknown(_), _) => {
                let all = self.queues.all_sizes() + self.ghosts.all_sizes();
                if all >= 2 * self.size {
                    self.ghosts.drop_oldest(OFTEN);
                }
                Some(u64::MAX)
            }
        };
        self.queues.unlink(slot);
        if let (Some(most), Some(queue)) = (most, queue) {
            self.ghosts.put(queue, extent, size, most);
        }
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        let once = self.queues.size(ONCE) as f64;
        let from_once = match self.incoming {
            // T1 alone fills the cache: its oldest leaves without becoming a ghost.
            Incoming::Unknown(size) if self.once_is_full(size) && self.ghosts.len(ONCE) == 0 => true,
            Incoming::Ghost(OFTEN) => once >= self.target,
            _ => once > self.target,
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
                    self.ghosts.save(queue, GHOSTS + queue as u8, to)
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
                self.target = if target >= 0.0 { target.min(self.size as f64) } else { 0.0 };
            }
            (0 | 1, [extent]) => {
                if let Some(slot) = slot_of(*extent) {
                    self.queues.put(usize::from(list), slot);
                }
            }
            (GHOSTS | 3, [extent]) if slot_of(*extent).is_none_or(|slot| !self.knows(slot)) => {
                self.ghosts.put(usize::from(list - GHOSTS) & 1, *extent, 1, 2 * self.size);
            }
            _ => {}
        }
    }

    /// The bounds hold, whatever has become of the extents meanwhile.
    fn loaded(&mut self) {
        let [once, often] = [ONCE, OFTEN].map(|queue| self.queues.size(queue));
        while once + self.ghosts.size(ONCE) > self.size && self.ghosts.drop_oldest(ONCE).is_some() {}
        let others = once + often + self.ghosts.size(ONCE);
        while others + self.ghosts.size(OFTEN) > 2 * self.size && self.ghosts.drop_oldest(OFTEN).is_some() {}
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.queues.queue_of(slot).is_some()
    }
}

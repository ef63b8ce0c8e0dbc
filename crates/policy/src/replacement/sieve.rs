//! SIEVE (Zhang et al., NSDI 2024): a FIFO queue in which a hit only sets a mark. A hand moves from the oldest towards
//! the newest extent and clears marks; the first extent without a mark leaves.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{PerSlot, Queues, saving::Saving};

/// The most marks that the hand clears in search of one victim, where a request waits for it. After that it takes the next extent
/// that may leave.
const MOST_SPARED: u32 = 1024;
/// The most extents in use that the hand passes after that.
const MOST_IN_USE: u32 = 128;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Sieve {
    queue: Queues<1>,
    marked: PerSlot<bool>,
    /// The place of the hand; `None` for the oldest extent.
    hand: Option<SlotIndex>,
}

impl Sieve {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> Sieve {
        Sieve { queue: Queues::new(capacity.slots), marked: PerSlot::new(capacity.slots), hand: None }
    }
}

impl ReplacementPolicy for Sieve {
    const LOOKS_AT_USES: bool = false;

    fn inserted(&mut self, slot: SlotIndex, _extent: u32, size: u32) {
        self.marked.set(slot, false);
        self.queue.push_sized(0, slot, size);
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        self.marked.prefetch(slot);
    }

    #[inline]
    fn accessed(&mut self, slot: SlotIndex) {
        self.marked[slot] = true;
    }

    fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
        if self.hand == Some(slot) {
            self.hand = self.queue.newer(slot);
        }
        self.queue.unlink(slot);
    }

    #[inline]
    fn likely_next(&self, victim: SlotIndex) -> Option<SlotIndex> {
        self.queue.newer(victim)
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        // Where nothing waits, the hand goes round once at most: then no mark is left.
        let most_spared = if candidates.is_awaited() { MOST_SPARED } else { self.queue.len(0).saturating_add(1) };
        // An extent that may not leave now keeps its place and its mark.
        for step in 0..most_spared.saturating_add(MOST_IN_USE) {
            let slot = self.hand.or_else(|| self.queue.first(0))?;
            let spared = |marked: &mut bool| std::mem::take(marked) && step < most_spared;
            if candidates.may_leave(slot) && !spared(&mut self.marked[slot]) {
                self.hand = Some(slot);
                return Some(slot);
            }
            self.hand = self.queue.newer(slot);
        }
        None
    }

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        let extent_in = to.extent_in();
        to.queue(0, &mut self.queue, 0, |slot| {
            let flags = u32::from(self.marked[slot]) | u32::from(self.hand == Some(slot)) << 1;
            Some([extent_in(slot)?, flags])
        })
    }

    fn load(&mut self, _list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        let [extent, flags] = *item else { return };
        let Some(slot) = slot_of(extent) else { return };
        self.queue.put(0, slot);
        self.marked[slot] = flags & 1 == 1;
        if flags & 2 == 2 {
            self.hand = Some(slot);
        }
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.queue.queue_of(slot).is_some()
    }
}

#[cfg(test)]
mod tests {
    use crate::replacement::{Replacement, bare::agrees_with};

    /// The algorithm as the paper gives it (section 3.1), on a list.
    #[derive(Default)]
    struct Plain {
        /// The queue, oldest first.
        queue: Vec<(u32, bool)>,
        hand: usize,
    }

    impl Plain {
        fn access(&mut self, extent: u32, size: usize) -> bool {
            if let Some(entry) = self.queue.iter_mut().find(|entry| entry.0 == extent) {
                entry.1 = true;
                return true;
            }
            if self.queue.len() == size {
                while std::mem::take(&mut self.queue[self.hand].1) {
                    self.hand = (self.hand + 1) % size;
                }
                self.queue.remove(self.hand);
            }
            self.queue.push((extent, false));
            // After the newest extent the hand returns to the oldest.
            if self.hand == size - 1 && self.queue.len() == size {
                self.hand = 0;
            }
            false
        }
    }

    #[test]
    fn hits_and_misses_are_those_of_the_paper() {
        agrees_with(Replacement::Sieve, &[1, 2, 7, 60], |_| 200.0, |_| Plain::default(), Plain::access);
    }
}

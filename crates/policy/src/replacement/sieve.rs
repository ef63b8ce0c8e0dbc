//! SIEVE (Zhang et al., NSDI 2024): a FIFO queue in which a hit leaves a mark and nothing else. A hand goes from the
//! oldest towards the newest, takes the marks of those that have one, and the first without one leaves.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::Queues;

/// How many marks the hand takes at most in search of one victim, so that no request waits for a long search; it then
/// settles for the next that may leave.
const MOST_SPARED: u32 = 1024;
/// How many of those that may not leave now it passes after that.
const MOST_IN_USE: u32 = 128;

/// The policy's state.
#[derive(Clone, Debug)]
pub struct Sieve {
    queue: Queues<1>,
    marked: Vec<bool>,
    /// Where the hand goes on; at the oldest if nowhere.
    hand: Option<SlotIndex>,
}

impl Sieve {
    /// An empty cache of this capacity.
    pub fn new(capacity: Capacity) -> Sieve {
        Sieve { queue: Queues::new(capacity.slots), marked: vec![false; capacity.slots as usize], hand: None }
    }
}

impl ReplacementPolicy for Sieve {
    fn inserted(&mut self, slot: SlotIndex, _extent: u32) {
        self.marked[slot.0 as usize] = false;
        self.queue.push(0, slot);
    }

    #[inline]
    fn accessed(&mut self, slot: SlotIndex) {
        self.marked[slot.0 as usize] = true;
    }

    fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
        if self.hand == Some(slot) {
            self.hand = self.queue.newer(slot);
        }
        self.queue.unlink(slot);
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        // An extent that may not leave now keeps its place and its mark.
        for step in 0..MOST_SPARED + MOST_IN_USE {
            let slot = self.hand.or_else(|| self.queue.oldest(0, |_| true))?;
            let spared = |marked: &mut bool| std::mem::take(marked) && step < MOST_SPARED;
            if candidates.may_leave(slot) && !spared(&mut self.marked[slot.0 as usize]) {
                self.hand = Some(slot);
                return Some(slot);
            }
            self.hand = self.queue.newer(slot);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::Nanos;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use crate::{BareCache, Replacement};

    /// The algorithm as the paper gives it (section 3.1), on a list.
    #[derive(Default)]
    struct Plain {
        /// Oldest first.
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
            // Behind the newest the hand goes back to the oldest.
            if self.hand == size - 1 && self.queue.len() == size {
                self.hand = 0;
            }
            false
        }
    }

    #[test]
    fn hits_and_misses_are_those_of_the_paper() {
        let mut random = StdRng::seed_from_u64(7);
        for size in [1usize, 2, 7, 60] {
            let (mut plain, mut cache) = (Plain::default(), BareCache::new(Replacement::Sieve, size as u32, Nanos(1)));
            for step in 0..20_000u64 {
                let drawn: f64 = random.random();
                let extent = (drawn * drawn * 200.0) as u32;
                let (want, got) = (plain.access(extent, size), cache.access(Nanos(step), extent));
                assert_eq!(want, got, "step {step} of {size} entries: extent {extent}");
            }
        }
    }
}

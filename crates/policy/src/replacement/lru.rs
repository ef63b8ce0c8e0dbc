//! Least recently used.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{Queues, saving::Saving};

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
    const LOOKS_AT_USES: bool = false;

    #[inline]
    fn inserted(&mut self, slot: SlotIndex, _extent: u32, size: u32) {
        self.queue.push_sized(0, slot, size);
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
    fn likely_next(&self, victim: SlotIndex) -> Option<SlotIndex> {
        self.queue.newer(victim)
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        self.queue.oldest(0, |slot| candidates.may_leave(slot))
    }

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        let extent_in = to.extent_in();
        to.queue(0, &mut self.queue, 0, |slot| Some([extent_in(slot)?]))
    }

    fn load(&mut self, _list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        let [extent] = *item else { return };
        if let Some(slot) = slot_of(extent) {
            self.queue.put(0, slot);
        }
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.queue.queue_of(slot).is_some()
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::Nanos;

    use super::*;
    use crate::replacement::{Candidate, wsclock::Wsclock};

    /// Slots whose extents may all leave.
    struct All([bool; 12]);

    impl Candidates for All {
        fn now(&self) -> Nanos {
            Nanos::from_s(100)
        }

        fn window(&self) -> Nanos {
            Nanos::from_s(1)
        }

        fn candidate(&mut self, slot: SlotIndex) -> Option<Candidate<'_>> {
            Some(Candidate { last_access: Nanos::ZERO, referenced: &mut self.0[slot.index()] })
        }
    }

    fn names_what_it_has_announced(mut policy: impl ReplacementPolicy) {
        let mut candidates = All([false; 12]);
        (0..12).for_each(|slot| policy.inserted(SlotIndex(slot), slot, 1));
        policy.accessed(SlotIndex(2));
        let mut announced = None;
        for _ in 0..11 {
            let slot = policy.victim(&mut candidates).expect("all may leave");
            assert!(announced.is_none_or(|announced| announced == slot), "{announced:?}, but {slot:?}");
            announced = policy.likely_next(slot);
            assert!(announced.is_some(), "after {slot:?}");
            policy.removed(slot, slot.0, true);
        }
    }

    #[test]
    fn the_victims_are_those_that_were_announced() {
        let capacity = Capacity { slots: 12, size: 12 };
        names_what_it_has_announced(Lru::new(capacity));
        names_what_it_has_announced(Wsclock::new(capacity));
    }
}

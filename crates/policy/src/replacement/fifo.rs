//! First in, first out: a hit changes nothing. Equal to the hit with libCacheSim's FIFO.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{Queues, saving::Saving};

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Fifo {
    queue: Queues<1>,
}

impl Fifo {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> Fifo {
        Fifo { queue: Queues::new(capacity.slots) }
    }
}

impl ReplacementPolicy for Fifo {
    const LOOKS_AT_USES: bool = false;

    fn inserted(&mut self, slot: SlotIndex, _extent: u32, size: u32) {
        self.queue.push_sized(0, slot, size);
    }

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

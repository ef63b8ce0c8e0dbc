//! CLOCK (Corbató 1968), which is FIFO with second chances: a hit sets a mark, and the oldest extent leaves unless it has one; then it
//! loses the mark and becomes the newest. With `bits`, a hit counts up to 2^bits - 1, and each round takes one. Equal to the hit with
//! libCacheSim's Clock.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{PerSlot, Queues, saving::Saving};

parameters! {
    bits: 1_000_000 in 1_000_000..=7_000_000, "Bits of the counter of hits.";
}

/// The most marks that a search for a victim takes, where a request waits for it; after that the oldest leaves.
const MOST_SPARED: u32 = 1024;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Clock {
    queue: Queues<1>,
    hits: PerSlot<u8>,
    most_hits: u8,
}

impl Clock {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity, parameters: Parameters) -> Clock {
        let most_hits = (1u8 << parameters.bits.whole()) - 1;
        Clock { queue: Queues::new(capacity.slots), hits: PerSlot::new(capacity.slots), most_hits }
    }
}

impl ReplacementPolicy for Clock {
    const LOOKS_AT_USES: bool = false;

    fn inserted(&mut self, slot: SlotIndex, _extent: u32, size: u32) {
        self.hits.set(slot, 0);
        self.queue.push_sized(0, slot, size);
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        self.hits.prefetch(slot);
    }

    #[inline]
    fn accessed(&mut self, slot: SlotIndex) {
        let hits = &mut self.hits[slot];
        *hits = (*hits + 1).min(self.most_hits);
    }

    fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
        self.queue.unlink(slot);
    }

    #[inline]
    fn likely_next(&self, victim: SlotIndex) -> Option<SlotIndex> {
        self.queue.newer(victim)
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        let all = self.queue.len(0).saturating_mul(u32::from(self.most_hits) + 1);
        let most = if candidates.is_awaited() { MOST_SPARED } else { all };
        for _ in 0..most {
            let slot = self.queue.oldest(0, |slot| candidates.may_leave(slot))?;
            if self.hits[slot] == 0 {
                return Some(slot);
            }
            self.hits[slot] -= 1;
            self.queue.renew(0, slot);
        }
        self.queue.oldest(0, |slot| candidates.may_leave(slot))
    }

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        let extent_in = to.extent_in();
        to.queue(0, &mut self.queue, 0, |slot| Some([extent_in(slot)?, u32::from(self.hits[slot])]))
    }

    fn load(&mut self, _list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        let [extent, hits] = *item else { return };
        if let Some(slot) = slot_of(extent) {
            self.queue.put(0, slot);
            self.hits.set(slot, hits.min(u32::from(self.most_hits)) as u8);
        }
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.queue.queue_of(slot).is_some()
    }
}

//! Segmented LRU (Karedla, Love and Wherry, IEEE Computer 27(3), 1994) of four segments: a hit moves an extent up by one segment, and
//! what a segment has no room for moves down. Equal to the hit with libCacheSim's SLRU, where all objects have one size. With others,
//! the lowest segment may have more than its share here; libCacheSim evicts from it on a hit then.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{Queues, saving::Saving};

/// Segments; the last one is the highest.
const SEGMENTS: usize = 4;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Slru {
    segments: Queues<SEGMENTS>,
    /// The most of the cache that a segment has.
    most: u64,
}

impl Slru {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> Slru {
        Slru { segments: Queues::new(capacity.slots), most: capacity.size / SEGMENTS as u64 }
    }

    /// Moves down what segments from this one on have no room for.
    fn cool(&mut self, from: usize) {
        for segment in (1..=from).rev() {
            while self.segments.size(segment) > self.most
                && let Some(oldest) = self.segments.first(segment)
            {
                self.segments.renew(segment - 1, oldest);
            }
        }
    }
}

impl ReplacementPolicy for Slru {
    const LOOKS_AT_USES: bool = false;

    fn takes(&self, size: u32) -> bool {
        u64::from(size) <= self.most.max(1)
    }

    fn inserted(&mut self, slot: SlotIndex, _extent: u32, size: u32) {
        let has_room = |segment: &usize| self.segments.size(*segment) + u64::from(size) <= self.most;
        let segment = (0..SEGMENTS).find(has_room).unwrap_or(0);
        self.segments.push_sized(segment, slot, size);
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        self.segments.prefetch(slot);
    }

    fn accessed(&mut self, slot: SlotIndex) {
        if let Some(segment) = self.segments.queue_of(slot) {
            let next = (segment + 1).min(SEGMENTS - 1);
            self.segments.renew(next, slot);
            self.cool(next);
        }
    }

    fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
        self.segments.unlink(slot);
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        (0..SEGMENTS).find_map(|segment| self.segments.oldest(segment, |slot| candidates.may_leave(slot)))
    }

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        let extent_in = to.extent_in();
        loop {
            let segment = to.part() as usize;
            if segment == SEGMENTS {
                return true;
            }
            let complete = to.queue(segment as u8, &mut self.segments, segment, |slot| Some([extent_in(slot)?]));
            if !to.next_if(complete) {
                return false;
            }
        }
    }

    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        let [extent] = *item else { return };
        if let Some(slot) = slot_of(extent).filter(|_| usize::from(list) < SEGMENTS) {
            self.segments.put(usize::from(list), slot);
        }
    }

    fn loaded(&mut self) {
        self.cool(SEGMENTS - 1);
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.segments.queue_of(slot).is_some()
    }
}

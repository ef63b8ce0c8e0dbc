//! LFU: the extent that was accessed least often since it came leaves; of several, the one that has been accessed so often for the
//! longest time. Equal to the hit with libCacheSim's LFU.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{Ranks, saving::Saving};

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Lfu {
    /// How often each was accessed.
    accesses: Ranks,
}

impl Lfu {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> Lfu {
        Lfu { accesses: Ranks::new(capacity.slots) }
    }
}

impl ReplacementPolicy for Lfu {
    const LOOKS_AT_USES: bool = false;

    fn inserted(&mut self, slot: SlotIndex, _extent: u32, _size: u32) {
        self.accesses.put(slot, 1.0);
    }

    fn accessed(&mut self, slot: SlotIndex) {
        let before = self.accesses.rank(slot).unwrap_or(0.0);
        self.accesses.put(slot, before + 1.0);
    }

    fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
        self.accesses.take(slot);
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        self.accesses.lowest(|slot| candidates.may_leave(slot))
    }

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        self.accesses.save(0, to)
    }

    fn load(&mut self, _list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        self.accesses.load(item, slot_of);
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.accesses.rank(slot).is_some()
    }
}

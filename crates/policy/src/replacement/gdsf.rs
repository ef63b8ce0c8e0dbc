//! GreedyDual-Size-Frequency (Cherkasova, HP Labs 1998): the object with the least (frequency / size), plus the value of what left last
//! when it was accessed, leaves. With extents of one size it is LFU with dynamic aging, equal to the hit with libCacheSim's GDSF. With
//! others, a newcomer may be the first to leave, as the paper says; libCacheSim makes room before.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{
    PerSlot, Ranks,
    saving::{Saving, halves, whole},
};

/// The numbers of lists where the state is saved.
const RANKS: u8 = 0;
const COUNTS: u8 = 1;
const AGE: u8 = 2;
/// The unit of values, as in libCacheSim.
const UNIT: f64 = 1e6;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Gdsf {
    values: Ranks,
    /// How often each was accessed, and its size.
    counts: PerSlot<(u32, u32)>,
    /// The value of what left last.
    age: f64,
}

impl Gdsf {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> Gdsf {
        Gdsf { values: Ranks::new(capacity.slots), counts: PerSlot::new(capacity.slots), age: 0.0 }
    }

    fn value(&mut self, slot: SlotIndex) {
        let (accesses, size) = self.counts[slot];
        self.values.put(slot, self.age + f64::from(accesses) * UNIT / f64::from(size.max(1)));
    }
}

impl ReplacementPolicy for Gdsf {
    const LOOKS_AT_USES: bool = false;
    const INSERTS_FIRST: bool = true;

    fn inserted(&mut self, slot: SlotIndex, _extent: u32, size: u32) {
        self.counts.set(slot, (1, size));
        self.value(slot);
    }

    fn accessed(&mut self, slot: SlotIndex) {
        self.counts[slot].0 = self.counts[slot].0.saturating_add(1);
        self.value(slot);
    }

    fn removed(&mut self, slot: SlotIndex, _extent: u32, evicted: bool) {
        let value = self.values.take(slot);
        if evicted && let Some(value) = value {
            self.age = value;
        }
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        self.values.lowest(|slot| candidates.may_leave(slot))
    }

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        let extent_in = to.extent_in();
        loop {
            let complete = match to.part() {
                0 => {
                    to.put(AGE, &halves(self.age.to_bits()));
                    true
                }
                1 => self.values.save(RANKS, to),
                2 => to.slots(COUNTS, self.counts.len(), |slot| Some([extent_in(slot)?, self.counts[slot].0])),
                _ => return true,
            };
            if !to.next_if(complete) {
                return false;
            }
        }
    }

    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        match (list, item) {
            (RANKS, item) => self.values.load(item, slot_of),
            (COUNTS, [extent, accesses]) => {
                if let Some(slot) = slot_of(*extent) {
                    self.counts.set(slot, ((*accesses).max(1), 1));
                }
            }
            (AGE, [low, high]) => {
                let age = f64::from_bits(whole([*low, *high]));
                self.age = if age >= 0.0 && age.is_finite() { age } else { 0.0 };
            }
            _ => {}
        }
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.values.rank(slot).is_some()
    }
}

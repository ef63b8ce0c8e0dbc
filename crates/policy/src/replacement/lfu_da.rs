//! LFU with dynamic aging (Arlitt et al., Performance Evaluation Review 27(4), 2000), as libCacheSim has it, to the hit: newcomers
//! begin one above the age of the cache, which is the frequency of what left last, and a hit adds the age. (The paper adds one.)

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{
    Ranks,
    saving::{Saving, halves, whole},
};

/// The numbers of lists where the state is saved.
const RANKS: u8 = 0;
const AGE: u8 = 1;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct LfuDa {
    frequencies: Ranks,
    age: f64,
}

impl LfuDa {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> LfuDa {
        LfuDa { frequencies: Ranks::new(capacity.slots), age: 0.0 }
    }

    /// Where no extent has the age as its frequency any more, the age is the next higher frequency.
    fn grow_older(&mut self) {
        if let Some(least) = self.frequencies.least_from(self.age) {
            self.age = least;
        }
    }
}

impl ReplacementPolicy for LfuDa {
    const LOOKS_AT_USES: bool = false;

    fn inserted(&mut self, slot: SlotIndex, _extent: u32, _size: u32) {
        self.frequencies.put(slot, self.age + 1.0);
    }

    fn accessed(&mut self, slot: SlotIndex) {
        let before = self.frequencies.take(slot).unwrap_or(0.0);
        let now = before + self.age;
        if before == self.age {
            self.grow_older();
        }
        self.frequencies.put(slot, now);
    }

    fn removed(&mut self, slot: SlotIndex, _extent: u32, evicted: bool) {
        let frequency = self.frequencies.take(slot);
        if evicted && let Some(frequency) = frequency {
            self.age = frequency;
            self.grow_older();
        }
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        let oldest = self.frequencies.lowest_from(self.age, |slot| candidates.may_leave(slot));
        oldest.or_else(|| self.frequencies.lowest(|slot| candidates.may_leave(slot)))
    }

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        if to.part() == 0 {
            to.put(AGE, &halves(self.age.to_bits()));
            to.next_if(true);
        }
        self.frequencies.save(RANKS, to)
    }

    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        match (list, item) {
            (RANKS, item) => self.frequencies.load(item, slot_of),
            (AGE, [low, high]) => {
                let age = f64::from_bits(whole([*low, *high]));
                self.age = if age >= 0.0 && age.is_finite() { age } else { 0.0 };
            }
            _ => {}
        }
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.frequencies.rank(slot).is_some()
    }
}

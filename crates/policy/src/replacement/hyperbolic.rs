//! Hyperbolic caching (Blankstein, Sen and Freedman, USENIX ATC 2017): of a random sample, the extent that was accessed least often for
//! the time that it is cached leaves. Time is counted in accesses, as in libCacheSim's Hyperbolic.

use peryton_units::SplitMix64;

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{
    Millionths, PerSlot,
    members::Members,
    saving::{Saving, halves, whole},
};

parameters! {
    sample: 64_000_000 in 1_000_000..=1_024_000_000, "Extents that are drawn for each victim.";
    seed: 1_000_000 in 0..=1_000_000_000_000, "The seed of the draws.";
}

/// The numbers of lists where the state is saved, besides those of the members.
const CLOCK: u8 = 8;
const COUNTS: u8 = 9;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Hyperbolic {
    members: Members,
    random: SplitMix64,
    sample: u64,
    /// Accesses so far.
    clock: u64,
    /// How often each extent was accessed, and when it came.
    counts: PerSlot<(u32, u64)>,
}

impl Hyperbolic {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity, parameters: Parameters) -> Hyperbolic {
        let Millionths(seed) = parameters.seed;
        Hyperbolic {
            members: Members::new(capacity.slots),
            random: SplitMix64::new(seed),
            sample: parameters.sample.whole(),
            clock: 0,
            counts: PerSlot::new(capacity.slots),
        }
    }
}

impl ReplacementPolicy for Hyperbolic {
    const LOOKS_AT_USES: bool = false;

    fn inserted(&mut self, slot: SlotIndex, _extent: u32, _size: u32) {
        self.clock += 1;
        self.members.add(slot);
        self.counts.set(slot, (1, self.clock));
    }

    fn accessed(&mut self, slot: SlotIndex) {
        self.clock += 1;
        self.counts[slot].0 = self.counts[slot].0.saturating_add(1);
    }

    fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
        self.members.remove(slot);
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        let mut lowest: Option<(f64, SlotIndex)> = None;
        for _ in 0..self.sample {
            let slot = self.members.draw(&mut self.random)?;
            let (accesses, came) = self.counts[slot];
            let priority = f64::from(accesses) / (self.clock + 1).saturating_sub(came).max(1) as f64;
            if lowest.is_none_or(|(least, _)| priority < least) && candidates.may_leave(slot) {
                lowest = Some((priority, slot));
            }
        }
        lowest.map(|(_, slot)| slot).or_else(|| self.members.first(|slot| candidates.may_leave(slot)))
    }

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        if to.part() == 0 {
            to.put(CLOCK, &halves(self.clock));
            to.next_if(true);
        }
        if to.part() == 1 {
            let extent_in = to.extent_in();
            let complete = to.slots(COUNTS, self.counts.len(), |slot| {
                let (accesses, came) = self.counts[slot];
                let [low, high] = halves(came);
                Some([extent_in(slot)?, accesses, low, high])
            });
            if !to.next_if(complete) {
                return false;
            }
        }
        self.members.save(&self.random, to)
    }

    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        match (list, item) {
            (CLOCK, [low, high]) => self.clock = whole([*low, *high]) & u64::MAX >> 1,
            (COUNTS, [extent, accesses, low, high]) => {
                if let Some(slot) = slot_of(*extent) {
                    self.counts.set(slot, (*accesses, whole([*low, *high])));
                }
            }
            _ => self.members.load(&mut self.random, list, item, slot_of),
        }
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.members.contains(slot)
    }
}

//! Random replacement: any extent leaves, with the same probability.

use peryton_units::SplitMix64;

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{Millionths, members::Members, saving::Saving};

parameters! {
    seed: 1_000_000 in 0..=1_000_000_000_000, "The seed of the draws.";
}

/// The most draws for a slot that may leave; after that the next one that may.
const MOST_DRAWS: u32 = 32;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Random {
    members: Members,
    random: SplitMix64,
}

impl Random {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity, parameters: Parameters) -> Random {
        let Millionths(seed) = parameters.seed;
        Random { members: Members::new(capacity.slots), random: SplitMix64::new(seed) }
    }
}

impl ReplacementPolicy for Random {
    const LOOKS_AT_USES: bool = false;

    fn inserted(&mut self, slot: SlotIndex, _extent: u32, _size: u32) {
        self.members.add(slot);
    }

    fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
        self.members.remove(slot);
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        let drawn = (0..MOST_DRAWS).find_map(|_| {
            let slot = self.members.draw(&mut self.random)?;
            candidates.may_leave(slot).then_some(slot)
        });
        drawn.or_else(|| self.members.first(|slot| candidates.may_leave(slot)))
    }

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        self.members.save(&self.random, to)
    }

    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        self.members.load(&mut self.random, list, item, slot_of);
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.members.contains(slot)
    }
}

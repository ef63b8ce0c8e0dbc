//! LRFU (Lee et al., IEEE Transactions on Computers 50(12), 2001): the extent with the smallest combined recency and frequency
//! (CRF) leaves. Each access counts with a weight that halves after 1 / λ accesses to the cache; λ near 0 is LFU, λ = 1 is LRU.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{
    Ranks,
    saving::{Saving, halves, whole},
};

parameters! {
    lambda: 1_000 in 1..=1_000_000, "The weight of an access halves after 1 / lambda further accesses. The paper's best values lie \
        between 0.0001 and 0.01 for most sizes and traces (section 5).";
}

/// The numbers of lists where the state is saved, and the latest time that is taken back.
const TIME: u8 = 0;
const SUMS: u8 = 1;
const MOST_TIME: u64 = (1 << 52) - 1;

/// The state of the policy.
///
/// A CRF of F at time t is F · 2^(-λ (now - t)) now. So the sum log2 F + λ t orders extents at any time, and does not change
/// between accesses. (Sums are never negative: F is at least 1.)
#[derive(Clone, Debug)]
pub struct Lrfu {
    /// Accesses so far.
    time: u64,
    lambda: f64,
    sums: Ranks,
}

impl Lrfu {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity, parameters: Parameters) -> Lrfu {
        Lrfu { time: 0, lambda: parameters.lambda.number(), sums: Ranks::new(capacity.slots) }
    }
}

impl ReplacementPolicy for Lrfu {
    const LOOKS_AT_USES: bool = false;

    fn inserted(&mut self, slot: SlotIndex, _extent: u32, _size: u32) {
        self.time += 1;
        self.sums.put(slot, self.lambda * self.time as f64);
    }

    fn accessed(&mut self, slot: SlotIndex) {
        self.time += 1;
        let now = self.lambda * self.time as f64;
        let before = self.sums.rank(slot).unwrap_or(f64::NEG_INFINITY);
        // F(now) = 1 + F(then) · 2^(-λ (now - then)).
        self.sums.put(slot, (1.0 + (before - now).exp2()).log2() + now);
    }

    fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
        self.sums.take(slot);
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        self.sums.lowest(|slot| candidates.may_leave(slot))
    }

    fn saved_version(&self) -> u32 {
        2
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        if to.part() == 0 {
            to.put(TIME, &halves(self.time));
            to.next_if(true);
        }
        self.sums.save(SUMS, to)
    }

    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        match (list, item) {
            (TIME, [low, high]) => self.time = whole([*low, *high]) & MOST_TIME,
            (SUMS, item) => self.sums.load(item, slot_of),
            _ => {}
        }
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.sums.rank(slot).is_some()
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::Nanos;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::Parameters;
    use crate::{BareCache, Replacement};

    /// The definition (section 2.1): every access of each extent, with its weight.
    #[test]
    fn the_smallest_combined_recency_and_frequency_leaves() {
        let mut random = StdRng::seed_from_u64(7);
        for size in [1usize, 2, 7, 40] {
            let mut cached: Vec<(u32, Vec<u64>)> = Vec::new();
            let mut cache = BareCache::new(Replacement::Lrfu(Parameters::DEFAULT), size as u32, Nanos(1));
            for step in 1..=3_000u64 {
                let drawn: f64 = random.random();
                let extent = (drawn * drawn * 3.0 * size as f64) as u32;
                let hit = match cached.iter_mut().find(|(other, _)| *other == extent) {
                    Some((_, accesses)) => {
                        accesses.push(step);
                        true
                    }
                    None => {
                        if cached.len() == size {
                            let crf = |accesses: &Vec<u64>| -> f64 {
                                accesses.iter().map(|at| 0.5f64.powf(0.001 * (step - at) as f64)).sum()
                            };
                            let least = (0..size).min_by(|a, b| crf(&cached[*a].1).total_cmp(&crf(&cached[*b].1)));
                            cached.remove(least.expect("it is full"));
                        }
                        cached.push((extent, vec![step]));
                        false
                    }
                };
                assert_eq!(cache.access(Nanos(step), extent), hit, "step {step} of {size} entries: extent {extent}");
            }
        }
    }
}

//! LRFU (Lee et al., IEEE Transactions on Computers 50(12), 2001): the extent with the smallest combined recency and frequency
//! (CRF) leaves. Each access counts with a weight that halves after 1 / λ accesses to the cache; λ near 0 is LFU, λ = 1 is LRU.

use std::{collections::BTreeSet, ops::Bound};

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::saving::{Saving, halves, whole};

/// λ: the paper's best values lie between 0.0001 and 0.01 for most sizes and traces (section 5).
const LAMBDA: f64 = 0.001;
/// The most slots that a search for a victim examines.
const MOST_EXAMINED: usize = 128;
/// The numbers of lists where the state is saved, and the latest time that is taken back.
const TIME: u8 = 0;
const SUMS: u8 = 1;
const MOST_TIME: u64 = (1 << 52) - 1;

/// The state of the policy.
///
/// A CRF of F at time t is F · 2^(-λ (now - t)) now. So the sum log2 F + λ t orders extents at any time, and does not change
/// between accesses.
#[derive(Clone, Debug)]
pub struct Lrfu {
    /// Accesses so far.
    time: u64,
    /// The sum of each slot, and its place in the order; not a number for an empty slot.
    sums: Vec<f64>,
    order: BTreeSet<(u64, u32)>,
}

/// Orders numbers from zero on as the numbers do. (Sums are never negative: F is at least 1.)
fn key(sum: f64) -> u64 {
    sum.to_bits()
}

impl Lrfu {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> Lrfu {
        Lrfu { time: 0, sums: vec![f64::NAN; capacity.slots as usize], order: BTreeSet::new() }
    }

    fn put(&mut self, slot: SlotIndex, sum: f64) {
        self.sums[slot.index()] = sum;
        self.order.insert((key(sum), slot.0));
    }

    fn take(&mut self, slot: SlotIndex) -> f64 {
        let sum = std::mem::replace(&mut self.sums[slot.index()], f64::NAN);
        self.order.remove(&(key(sum), slot.0));
        sum
    }
}

impl ReplacementPolicy for Lrfu {
    fn inserted(&mut self, slot: SlotIndex, _extent: u32) {
        self.time += 1;
        self.put(slot, LAMBDA * self.time as f64);
    }

    fn accessed(&mut self, slot: SlotIndex) {
        self.time += 1;
        let before = self.take(slot);
        let now = LAMBDA * self.time as f64;
        // F(now) = 1 + F(then) · 2^(-λ (now - then)).
        self.put(slot, (1.0 + (before - now).exp2()).log2() + now);
    }

    fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
        self.take(slot);
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        let slots = self.order.iter().take(MOST_EXAMINED).map(|(_, slot)| SlotIndex(*slot));
        slots.into_iter().find(|slot| candidates.may_leave(*slot))
    }

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        let extent_in = to.extent_in();
        if to.part() == 0 {
            to.put(TIME, &halves(self.time));
            to.next_if(true);
        }
        for entry in self.order.range((to.after(), Bound::Unbounded)) {
            if to.is_full() {
                return false;
            }
            to.is_at(*entry);
            let (sum, slot) = *entry;
            if let Some(extent) = extent_in(SlotIndex(slot)) {
                let [low, high] = halves(sum);
                to.put(SUMS, &[extent, low, high]);
            }
        }
        true
    }

    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        match (list, item) {
            (TIME, [low, high]) => self.time = whole([*low, *high]) & MOST_TIME,
            (SUMS, [extent, low, high]) => {
                let sum = f64::from_bits(whole([*low, *high]));
                let Some(slot) = slot_of(*extent).filter(|_| sum >= 0.0 && sum.is_finite()) else { return };
                if self.knows(slot) {
                    self.take(slot);
                }
                self.put(slot, sum);
            }
            _ => {}
        }
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        !self.sums[slot.index()].is_nan()
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::Nanos;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::LAMBDA;
    use crate::{BareCache, Replacement};

    /// The definition (section 2.1): every access of each extent, with its weight.
    #[test]
    fn the_smallest_combined_recency_and_frequency_leaves() {
        let mut random = StdRng::seed_from_u64(7);
        for size in [1usize, 2, 7, 40] {
            let mut cached: Vec<(u32, Vec<u64>)> = Vec::new();
            let mut cache = BareCache::new(Replacement::Lrfu, size as u32, Nanos(1));
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
                                accesses.iter().map(|at| 0.5f64.powf(LAMBDA * (step - at) as f64)).sum()
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

//! OPT (Belady, IBM Systems Journal 5(2), 1966; also called MIN): the extent whose next access lies furthest in the future
//! leaves. No cache that takes in every miss has fewer misses (Mattson et al., IBM Systems Journal 9(2), 1970). It needs to know
//! the future, so it is a bound for curves and no policy of a drive.

use std::collections::BinaryHeap;

/// The next access of an extent that is not accessed again.
pub const NEVER: u32 = u32::MAX;

/// Superseded entries beyond twice the cached extents, before they are cleared away.
const MOST_SUPERSEDED: usize = 64;

/// A cache without data that knows the future.
///
/// # Examples
///
/// ```
/// use peryton_policy::replacement::{NEVER, OptimalCache};
///
/// // The extents, and at which access each of them is accessed again.
/// let accesses = [(7, 3), (8, 4), (9, NEVER), (7, NEVER), (8, NEVER)];
/// let mut cache = OptimalCache::new(2);
/// let hits = accesses.map(|(extent, next)| cache.access(extent, next));
/// // 9 took the place of 8, which was needed later than 7.
/// assert_eq!(hits, [false, false, false, true, false]);
/// ```
#[derive(Clone, Debug)]
pub struct OptimalCache {
    size: usize,
    cached: usize,
    /// Accesses so far.
    now: u32,
    /// A bit for each extent: whether it is cached.
    present: Vec<u64>,
    /// The next access of each cached extent, the latest first. An entry that was superseded is about an access in the past, so
    /// it never comes first.
    next_accesses: BinaryHeap<(u32, u32)>,
}

impl OptimalCache {
    /// An empty cache of `size` extents, at least one.
    pub fn new(size: u32) -> OptimalCache {
        let size = size.max(1) as usize;
        OptimalCache { size, cached: 0, now: 0, present: Vec::new(), next_accesses: BinaryHeap::new() }
    }

    /// Accesses an extent; returns whether it was cached. It is cached from now on. `next` is the number of its next access,
    /// counted from 0 over all calls, or [`NEVER`]. The memory is proportional to the cache's size, with a bit for each extent
    /// up to the highest.
    #[inline]
    pub fn access(&mut self, extent: u32, next: u32) -> bool {
        let now = self.now;
        self.now += 1;
        let (word, bit) = (extent as usize / 64, 1u64 << (extent % 64));
        if self.present.len() <= word {
            self.present.resize((word + 1).next_power_of_two(), 0);
        }
        let hit = self.present[word] & bit != 0;
        if !hit {
            if self.cached < self.size {
                self.cached += 1;
            } else if let Some((_, victim)) = self.next_accesses.pop() {
                self.present[victim as usize / 64] &= !(1 << (victim % 64));
            }
            self.present[word] |= bit;
        }
        self.next_accesses.push((next, extent));
        if self.next_accesses.len() > 2 * self.cached + MOST_SUPERSEDED {
            self.next_accesses.retain(|(next, _)| *next > now);
        }
        hit
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use peryton_units::Nanos;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::{BareCache, Replacement};

    /// The number of the next access of each access's extent.
    fn next_accesses(trace: &[u32]) -> Vec<u32> {
        let after = |(index, extent): (usize, &u32)| {
            let next = trace[index + 1..].iter().position(|other| other == extent);
            next.map_or(NEVER, |distance| (index + 1 + distance) as u32)
        };
        trace.iter().enumerate().map(after).collect()
    }

    fn misses(trace: &[u32], size: u32) -> usize {
        let mut cache = OptimalCache::new(size);
        trace.iter().zip(next_accesses(trace)).filter(|(extent, next)| !cache.access(**extent, *next)).count()
    }

    /// The fewest misses of any sequence of victims: every choice is tried.
    fn fewest_misses(
        trace: &[u32],
        size: usize,
        cached: BTreeSet<u32>,
        known: &mut HashMap<(usize, BTreeSet<u32>), usize>,
    ) -> usize {
        let Some((extent, rest)) = trace.split_first() else { return 0 };
        if cached.contains(extent) {
            return fewest_misses(rest, size, cached, known);
        }
        let key = (trace.len(), cached);
        if let Some(fewest) = known.get(&key) {
            return *fewest;
        }
        let cached = &key.1;
        let choices: Vec<BTreeSet<u32>> = match cached.len() < size {
            true => vec![cached.clone()],
            false => {
                cached.iter().map(|victim| cached.iter().copied().filter(|other| other != victim).collect()).collect()
            }
        };
        let after = |mut cached: BTreeSet<u32>| {
            cached.insert(*extent);
            fewest_misses(rest, size, cached, known)
        };
        let fewest = 1 + choices.into_iter().map(after).min().unwrap_or(0);
        known.insert(key, fewest);
        fewest
    }

    proptest! {
        #[test]
        fn no_choice_of_victims_has_fewer_misses(
            trace in prop::collection::vec(0u32..7, 0..30),
            size in 1u32..5,
        ) {
            let fewest = fewest_misses(&trace, size as usize, BTreeSet::new(), &mut HashMap::new());
            prop_assert_eq!(misses(&trace, size), fewest);
        }
    }

    #[test]
    fn no_policy_has_fewer_misses() {
        let mut random = StdRng::seed_from_u64(11);
        for size in [1u32, 2, 10, 100, 250] {
            let draw = |step: u32| match step % 3_000 {
                // A loop that is a little larger than the cache, and skewed accesses.
                0..1_000 => step % (size + size / 4 + 1),
                _ => (random.random::<f64>().powi(3) * 5.0 * f64::from(size)) as u32,
            };
            let trace: Vec<u32> = (0..10_000).map(draw).collect();
            let fewest = misses(&trace, size);
            for (name, policy) in Replacement::ALL {
                let mut cache = BareCache::new(policy, size, Nanos::from_ms(1));
                let of = |(step, extent): &(u64, &u32)| !cache.access(Nanos::from_us(*step), **extent);
                let missed = (0u64..).zip(&trace).filter(of).count();
                assert!(fewest <= missed, "{name} of {size} extents misses {missed} times, OPT {fewest} times");
            }
        }
    }

    #[test]
    fn memory_does_not_grow_with_the_number_of_accesses() {
        let mut cache = OptimalCache::new(10);
        for step in 0..100_000u32 {
            cache.access(step % 10, step + 10);
        }
        assert!(cache.next_accesses.len() <= 2 * 10 + MOST_SUPERSEDED);
        assert_eq!(cache.present.len(), 1);
    }
}

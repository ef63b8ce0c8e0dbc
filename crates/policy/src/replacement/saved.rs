//! Tests of what policies save and take back.

use peryton_units::Nanos;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{BareCache, BuiltInPolicy, Capacity, Replacement, ReplacementPolicy, SlotIndex};

/// Accesses to a cache: the lower extents more often, and a loop now and then.
struct Accesses {
    random: StdRng,
    reach: f64,
    step: u64,
}

impl Accesses {
    fn new(seed: u64, size: u32) -> Accesses {
        Accesses { random: StdRng::seed_from_u64(seed), reach: 4.0 * f64::from(size), step: 0 }
    }

    fn next(&mut self) -> (Nanos, u32) {
        self.step += 1;
        let drawn: f64 = self.random.random();
        let extent = match self.step % 500 {
            0..100 => (self.step % (self.reach as u64 / 3 + 1)) as u32,
            _ => (drawn * drawn * self.reach) as u32,
        };
        (Nanos(self.step), extent)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever policy it is: with what was saved it decides as the one that was never interrupted.
    #[test]
    fn a_policy_that_takes_back_what_was_saved_decides_as_if_nothing_had_happened(
        size in 1u32..300,
        seed in any::<u64>(),
        before in 0u32..4_000,
    ) {
        for (name, policy) in Replacement::ALL {
            let mut cache = BareCache::new(policy, size, Nanos(200));
            let mut accesses = Accesses::new(seed, size);
            for _ in 0..before {
                let (now, extent) = accesses.next();
                cache.access(now, extent);
            }
            let mut reopened = cache.reopened(policy, |_| {});
            for step in 0..3_000 {
                let (now, extent) = accesses.next();
                let (want, got) = (cache.access(now, extent), reopened.access(now, extent));
                prop_assert_eq!(want, got, "{} of {}: step {} after the saving", name, size, step);
            }
        }
    }

    /// What changes while it is saved makes no nonsense, and neither does what does not belong together.
    #[test]
    fn what_changes_while_it_is_saved_is_taken_back_all_the_same(size in 1u32..200, seed in any::<u64>()) {
        for (_, policy) in Replacement::ALL {
            let mut cache = BareCache::new(policy, size, Nanos(200));
            let mut accesses = Accesses::new(seed, size);
            let run = |cache: &mut BareCache, accesses: &mut Accesses, steps| {
                for _ in 0..steps {
                    let (now, extent) = accesses.next();
                    cache.access(now, extent);
                }
            };
            run(&mut cache, &mut accesses, 2_000);
            let mut reopened = cache.reopened(policy, |cache| {
                run(cache, &mut accesses, 25);
                cache.shrink(Nanos(3));
            });
            prop_assert_eq!(reopened.len(), cache.len());
            run(&mut reopened, &mut accesses, 3_000);
            while !reopened.is_empty() {
                reopened.shrink(Nanos(u64::MAX / 2));
            }
        }
    }

    #[test]
    fn nonsense_is_ignored(items in prop::collection::vec((0u8..20, prop::collection::vec(any::<u32>(), 1..15)), 0..200)) {
        for (_, policy) in Replacement::ALL {
            let mut policy = BuiltInPolicy::new(policy, Capacity::of_cache(20));
            for (list, item) in &items {
                let item: Vec<u32> = item.iter().map(|word| if word % 3 == 0 { word % 40 } else { *word }).collect();
                policy.load(*list, &item, &|extent| (extent < 20).then_some(SlotIndex(extent)));
            }
            policy.loaded();
            for slot in (0..20).map(SlotIndex) {
                if !policy.knows(slot) {
                    policy.inserted(slot, slot.0, 1);
                }
            }
            (0..20).map(SlotIndex).for_each(|slot| policy.accessed(slot));
            (0..20).map(SlotIndex).for_each(|slot| policy.removed(slot, slot.0, slot.0 % 2 == 0));
        }
    }
}

/// While it is in use, a saved state is about as good as one that was saved at rest: the hits after it are nearly the same.
#[test]
fn a_state_that_was_saved_while_in_use_is_as_good() {
    for (name, policy) in Replacement::ALL {
        let size = 1_000;
        let mut cache = BareCache::new(policy, size, Nanos(20_000));
        let mut accesses = Accesses::new(3, size);
        for _ in 0..40_000 {
            let (now, extent) = accesses.next();
            cache.access(now, extent);
        }
        let mut reopened = cache.reopened(policy, |cache| {
            for _ in 0..30 {
                let (now, extent) = accesses.next();
                cache.access(now, extent);
            }
        });
        let mut hits = [0i32; 2];
        for _ in 0..5_000 {
            let (now, extent) = accesses.next();
            hits[0] += i32::from(cache.access(now, extent));
            hits[1] += i32::from(reopened.access(now, extent));
        }
        assert!((hits[0] - hits[1]).abs() < 100, "{name}: {hits:?} of 5000");
    }
}

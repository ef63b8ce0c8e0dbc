use super::random::mix;

/// A random-looking permutation of `0..len` without a table: a Feistel network over the next power of two, repeated
/// until the value is in range (Black and Rogaway 2002). It scatters popular ranks over a volume.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    len: u64,
    /// Bits of the left and of the right half.
    left: u32,
    right: u32,
    keys: [u64; ROUNDS],
}

const ROUNDS: usize = 4;

impl Permutation {
    pub(super) fn new(len: u64, seed: u64) -> Permutation {
        assert!(len > 0, "there is nothing to permute");
        let bits = (u64::BITS - (len - 1).leading_zeros()).max(2);
        let keys = std::array::from_fn(|round| mix(&[seed, round as u64]) | 1);
        Permutation { len, left: bits / 2, right: bits - bits / 2, keys }
    }

    pub(super) fn at(&self, rank: u64) -> u64 {
        debug_assert!(rank < self.len);
        let mut value = rank;
        loop {
            value = self.round_trip(value);
            // The power of two is less than twice `len`, so two steps are enough on average.
            if value < self.len {
                return value;
            }
        }
    }

    fn round_trip(&self, value: u64) -> u64 {
        let (left_mask, right_mask) = ((1u64 << self.left) - 1, (1u64 << self.right) - 1);
        let (mut a, mut b) = (value >> self.right, value & right_mask);
        // Each half is changed by the other in turn, so that unequal halves need no swap.
        for pair in self.keys.chunks_exact(2) {
            a = (a ^ scramble(b, pair[0])) & left_mask;
            b = (b ^ scramble(a, pair[1])) & right_mask;
        }
        a << self.right | b
    }
}

/// The upper bits of a product depend on all bits of the factors.
fn scramble(half: u64, key: u64) -> u64 {
    let product = (half ^ (key >> 32)).wrapping_add(1).wrapping_mul(key);
    product >> 32 ^ product >> 53
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_taken_once() {
        for len in [1, 2, 3, 5, 8, 100, 1000, 1023, 1024, 1025, 65_537] {
            for seed in 0..4 {
                let permutation = Permutation::new(len, seed);
                let mut places: Vec<u64> = (0..len).map(|rank| permutation.at(rank)).collect();
                places.sort_unstable();
                assert!(places.into_iter().eq(0..len), "len {len}, seed {seed}");
            }
        }
    }

    #[test]
    fn neighbours_are_scattered_and_seeds_differ() {
        let len = 1_000_000;
        let (one, two) = (Permutation::new(len, 1), Permutation::new(len, 2));
        let distance = |rank: u64| one.at(rank).abs_diff(one.at(rank + 1)) as f64;
        // Two independent uniform places are a third of the range apart on average.
        let mean = (0..10_000).map(distance).sum::<f64>() / 10_000.0 / len as f64;
        assert!((mean - 1.0 / 3.0).abs() < 0.02, "{mean}");
        let same = (0..10_000).filter(|&rank| one.at(rank) == two.at(rank)).count();
        assert!(same < 10, "{same}");
        let low_half = (0..1000).filter(|&rank| one.at(rank) < len / 2).count();
        assert!((400..600).contains(&low_half), "{low_half}");
    }
}

//! One mixer of bits and one generator of numbers, for samples and draws that must be the same on every machine.

/// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a bijection in which every bit depends on all others.
///
/// ```
/// assert_eq!(peryton_units::mixed(0), 0xe220_a839_7b1d_cdaf); // The first output of SplitMix64 from the seed 0.
/// ```
#[inline]
pub const fn mixed(word: u64) -> u64 {
    let z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A hash of a block, uniform over all 64-bit numbers. The blocks below a threshold are a sample by address; of two
/// such samples, the one with the lower threshold is part of the other.
#[inline]
pub const fn block_hash(volume: u32, block: u64) -> u64 {
    mixed(block ^ mixed(volume as u64))
}

/// SplitMix64: a small generator, for draws that need no more than uniform numbers.
///
/// ```
/// use peryton_units::SplitMix64;
///
/// let mut random = SplitMix64::new(0);
/// assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
/// assert!((0..1000).all(|_| random.below(6) < 6 && random.unit() < 1.0));
/// ```
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator with this seed.
    pub const fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// The seed of a generator that goes on from here.
    pub const fn state(&self) -> u64 {
        self.0
    }

    /// The next number, uniform over all 64-bit numbers.
    #[inline]
    pub const fn next(&mut self) -> u64 {
        let z = mixed(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z
    }

    /// The next number below `end`, which is not zero.
    #[inline]
    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.next() as u128 * end as u128) >> 64) as u64
    }

    /// The next number from 0 to below 1.
    #[inline]
    pub const fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

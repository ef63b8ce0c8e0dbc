/// The sample of a trace's blocks: all, or those whose hash begins with a number of zero bits. A sample by address has
/// every access of its blocks, so intervals and overwrites in it are correct (SHARDS, Waldspurger et al. 2015).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    bits: u32,
}

impl Sample {
    pub(crate) fn contains(self, volume: u32, block: u64) -> bool {
        block_hash(volume, block).leading_zeros() >= self.bits
    }

    /// Halves the sample.
    pub(crate) fn halve(&mut self) {
        assert!(self.bits < 60, "that many blocks would not fit a 64-bit address space");
        self.bits += 1;
    }

    /// The share of blocks in the sample.
    pub(crate) fn share(self) -> f64 {
        1.0 / self.weight() as f64
    }

    /// Number of blocks that each sampled block represents.
    pub(crate) fn weight(self) -> u64 {
        1 << self.bits
    }
}

/// A hash of a block, uniform over all 64-bit numbers. The blocks below a threshold are a sample by address; of two
/// such samples, the one with the lower threshold is part of the other.
pub fn block_hash(volume: u32, block: u64) -> u64 {
    mixed(block ^ mixed(u64::from(volume)))
}

/// The finalizer of SplitMix64, so that a sample by address does not depend on patterns of addresses.
#[inline]
pub(crate) fn mixed(word: u64) -> u64 {
    let z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

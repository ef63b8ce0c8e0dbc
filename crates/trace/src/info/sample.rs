/// Which blocks of a trace are followed: all, or those whose hash begins with so many zero bits. A sample by address
/// keeps every access of the blocks that it has, so that intervals and overwrites within it are true (SHARDS, Waldspurger et al. 2015).
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

    /// The share of blocks that is followed.
    pub(crate) fn share(self) -> f64 {
        1.0 / self.weight() as f64
    }

    /// How many blocks each one followed stands for.
    pub(crate) fn weight(self) -> u64 {
        1 << self.bits
    }
}

/// A number for each block that looks drawn evenly from all 64-bit numbers. Blocks below a threshold are a sample by
/// address, and of two such samples the one with the lower threshold is part of the other.
pub fn block_hash(volume: u32, block: u64) -> u64 {
    mixed(block ^ mixed(u64::from(volume)))
}

/// The finalizer of SplitMix64: a sample by address must not follow any pattern of addresses.
fn mixed(word: u64) -> u64 {
    let z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

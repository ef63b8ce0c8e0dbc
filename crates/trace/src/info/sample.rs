use peryton_units::block_hash;

/// The sample of a trace's blocks: all, or those whose hash begins with a number of zero bits. A sample by address has
/// every access of its blocks, so intervals and overwrites in it are correct (SHARDS, Waldspurger et al. 2015).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    bits: u32,
}

impl Sample {
    pub(crate) fn contains(self, volume: u32, block: u64) -> bool {
        self.bits == 0 || block_hash(volume, block).leading_zeros() >= self.bits
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

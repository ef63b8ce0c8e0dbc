use super::{
    array::Operations,
    blocks::{Blocks, State},
    parameters::Geometry,
};

/// No block, slot, or log.
pub(super) const NONE: u32 = u32::MAX;

/// The physical blocks of the layers that map whole blocks. Addresses are striped over the dies; on each die a logical
/// block is the run of addresses that fill one physical block.
#[derive(Clone, Debug)]
pub(super) struct BlockPool {
    pub g: Geometry,
    pub logical_per_die: u32,
    valid: Vec<u64>,
    pub blocks: Blocks,
    /// The erased blocks of each die.
    free: Vec<Vec<u32>>,
}

impl BlockPool {
    pub fn new(g: Geometry) -> BlockPool {
        let free = (0..g.dies).map(|die| {
            let first = die * g.blocks_per_die;
            (first..first + g.blocks_per_die).rev().collect()
        });
        BlockPool {
            g,
            logical_per_die: g.units.div_ceil(g.dies * g.block_units),
            valid: vec![0; (g.slots() as usize).div_ceil(64)],
            blocks: Blocks::new(g.blocks()),
            free: free.collect(),
        }
    }

    /// The number of logical blocks on all dies.
    pub fn logical(&self) -> u32 {
        self.logical_per_die * self.g.dies
    }

    /// The blocks of a die that hold neither data in place nor are kept for a merge and its result.
    pub fn spare_per_die(&self) -> u32 {
        self.g.blocks_per_die - self.logical_per_die - 2
    }

    /// Die, logical block (counted over all dies) and unit within it.
    #[inline]
    pub fn place(&self, unit: u32) -> (u32, u32, u32) {
        let stripe = unit / self.g.stripe_units;
        let die = stripe % self.g.dies;
        let on_die = stripe / self.g.dies * self.g.stripe_units + unit % self.g.stripe_units;
        (die, die * self.logical_per_die + on_die / self.g.block_units, on_die % self.g.block_units)
    }

    #[inline]
    pub fn is_valid(&self, slot: u32) -> bool {
        self.valid[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    pub fn set_valid(&mut self, slot: u32) {
        debug_assert!(!self.is_valid(slot), "slot {slot} is written once between erases");
        self.valid[slot as usize / 64] |= 1 << (slot % 64);
        self.blocks.add_valid(slot / self.g.block_units, 1);
    }

    pub fn invalidate(&mut self, slot: u32) {
        self.valid[slot as usize / 64] &= !(1 << (slot % 64));
        self.blocks.remove_valid(self.g.block_of(slot), 1);
    }

    pub fn die_of(&self, slot: u32) -> u32 {
        slot / (self.g.block_units * self.g.blocks_per_die)
    }

    /// Copies the units at `sources` (`NONE`: no unit) to the places from `first` on in block `target`, whole stripes at
    /// a time; returns the number of units copied.
    pub fn copy(&mut self, die: u32, first: u32, sources: &[u32], target: u32, flash: &mut impl Operations) -> u32 {
        let (mut in_stripe, mut copied) = (0, 0);
        let end = first + sources.len() as u32;
        for (offset, &old) in (first..end).zip(sources) {
            if old != NONE {
                self.invalidate(old);
                self.set_valid(target * self.g.block_units + offset);
                in_stripe += 1;
            }
            if in_stripe > 0 && ((offset + 1).is_multiple_of(self.g.stripe_units) || offset + 1 == end) {
                flash.fetch(die, in_stripe);
                flash.program_moved(die, in_stripe);
                copied += in_stripe;
                in_stripe = 0;
            }
        }
        copied
    }

    /// Erases a block without valid data.
    pub fn release(&mut self, die: u32, block: u32, flash: &mut impl Operations) {
        self.blocks.set_state(block, State::Victim);
        self.blocks.erase(block);
        flash.erase(die);
        self.free[die as usize].push(block);
    }

    /// The least worn free block.
    pub fn take_free(&mut self, die: u32) -> u32 {
        let free = &mut self.free[die as usize];
        let least = free.iter().enumerate().rev().min_by_key(|&(_, &block)| self.blocks.erase_count(block));
        let index = least.expect("logs are few enough to leave a block for a merge").0;
        let block = free.swap_remove(index);
        self.blocks.open(block);
        block
    }

    /// Panics if the counts are wrong, or if there are not `live` valid units.
    pub fn check(&self, live: u64) {
        let bits: u64 = self.valid.iter().map(|word| u64::from(word.count_ones())).sum();
        assert_eq!(bits, live, "every valid slot belongs to one unit");
        let counted: u64 = (0..self.g.blocks()).map(|block| u64::from(self.blocks.valid(block))).sum();
        assert_eq!(counted, live, "the counts of the blocks");
        for &block in self.free.iter().flatten() {
            assert_eq!(self.blocks.state(block), State::Free, "block {block} is on the free list");
            assert_eq!(self.blocks.valid(block), 0, "free block {block} holds no data");
        }
    }
}

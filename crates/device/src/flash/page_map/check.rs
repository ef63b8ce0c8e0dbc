//! The consistency check of the map.

use super::{PageMap, State};

impl PageMap {
    /// Panics if a unit is lost, duplicated, or counted wrong. For tests; takes time in proportion to the device.
    pub fn check(&self) {
        let mut valid_in_block = vec![0u32; self.g.blocks() as usize];
        let mut live = 0u64;
        for unit in 0..self.g.units {
            let Some(slot) = self.locate(unit) else { continue };
            assert_eq!(self.unit_at(slot), unit, "unit {unit} and slot {slot} name each other");
            assert_eq!(self.valid[slot as usize / 64] >> (slot % 64) & 1, 1, "slot {slot} of unit {unit} is valid");
            valid_in_block[(slot / self.g.block_units) as usize] += 1;
            live += 1;
        }
        let bits: u64 = self.valid.iter().map(|word| u64::from(word.count_ones())).sum();
        assert_eq!(bits, live, "no slot is valid without a unit");
        assert_eq!(u64::from(self.live), live, "valid count of all dies");
        for (block, &valid) in valid_in_block.iter().enumerate() {
            assert_eq!(self.blocks.valid(block as u32), valid, "valid count of block {block}");
        }
        for (index, die) in self.dies.iter().enumerate() {
            let first = index * self.g.blocks_per_die as usize;
            let valid: u32 = valid_in_block[first..first + self.g.blocks_per_die as usize].iter().sum();
            assert_eq!(die.valid, valid, "valid count of die {index}");
            for &block in &die.free {
                assert_eq!(self.blocks.state(block), State::Free, "block {block} is on the free list");
                assert_eq!(valid_in_block[block as usize], 0, "free block {block} holds no data");
                assert!(
                    self.blocks.erase_count(block) >= die.least_erased,
                    "free block {block} is less worn than the least"
                );
            }
        }
    }
}

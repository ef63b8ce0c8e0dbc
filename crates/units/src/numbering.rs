//! Dense numbers for blocks or objects, in the order in which they first come.

use crate::prefetch;

/// An entry of the table: a block, and its number plus one. 16 bytes, so that a look-up is one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(16))]
struct Entry {
    block: u64,
    volume: u32,
    number: u32,
}

/// Numbers blocks (or objects) from zero on. What is kept for each of them is then in plain tables.
///
/// ```
/// use peryton_units::Numbering;
///
/// let mut numbering = Numbering::default();
/// let numbers = [(0, 800), (1, 800), (0, 800)].map(|(volume, block)| numbering.number(volume, block));
/// assert_eq!((numbers, numbering.len()), ([0, 1, 0], 2));
/// ```
#[derive(Clone, Debug)]
pub struct Numbering {
    /// A power of two of entries, at most five eighths in use; a block is at its hash, or behind it.
    entries: Vec<Entry>,
    len: u32,
    shift: u32,
}

const FIRST_BITS: u32 = 6;
/// How many blocks ahead the table is fetched.
const AHEAD: usize = 32;

impl Default for Numbering {
    fn default() -> Numbering {
        Numbering { entries: vec![Entry::default(); 1 << FIRST_BITS], len: 0, shift: 64 - FIRST_BITS }
    }
}

impl Numbering {
    /// The most numbers.
    pub const MOST: u32 = u32::MAX - 1;

    /// How many numbers there are.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether nothing was numbered.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn home(&self, volume: u32, block: u64) -> usize {
        (Numbering::hash(volume, block) >> self.shift) as usize
    }

    #[inline]
    fn hash(volume: u32, block: u64) -> u64 {
        // Both halves of a product: patterns of addresses do not fill one part of the table.
        let word = block ^ u64::from(volume).rotate_left(40);
        let product = u128::from(word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
        (product as u64 ^ (product >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Fetches what [`Numbering::number`] will need.
    #[inline]
    pub fn prefetch(&self, volume: u32, block: u64) {
        prefetch(&self.entries[self.home(volume, block)]);
    }

    /// The number of a block: a new one if it has none.
    ///
    /// # Panics
    /// There are [`Numbering::MOST`] numbers.
    #[inline]
    pub fn number(&mut self, volume: u32, block: u64) -> u32 {
        self.number_hashed(Numbering::hash(volume, block), volume, block)
    }

    /// Adds the numbers of some blocks, in their order, and fetches what is needed before.
    ///
    /// # Panics
    /// There are [`Numbering::MOST`] numbers.
    pub fn number_all(&mut self, blocks: &[(u32, u64)], numbers: &mut Vec<u32>) {
        // Hashes of the blocks whose entries are being fetched.
        let mut ahead = [0; AHEAD];
        let fetch = |numbering: &Numbering, (volume, block): (u32, u64)| {
            let hash = Numbering::hash(volume, block);
            prefetch(&numbering.entries[(hash >> numbering.shift) as usize]);
            hash
        };
        for (hash, block) in ahead.iter_mut().zip(blocks) {
            *hash = fetch(self, *block);
        }
        numbers.reserve(blocks.len());
        for (index, (volume, block)) in blocks.iter().enumerate() {
            let place = &mut ahead[index % AHEAD];
            let hash = *place;
            if let Some(block) = blocks.get(index + AHEAD) {
                *place = fetch(self, *block);
            }
            numbers.push(self.number_hashed(hash, *volume, *block));
        }
    }

    #[inline]
    fn number_hashed(&mut self, hash: u64, volume: u32, block: u64) -> u32 {
        let mask = self.entries.len() - 1;
        let mut at = (hash >> self.shift) as usize;
        loop {
            let entry = &mut self.entries[at & mask];
            if entry.number == 0 {
                return self.give(at & mask, volume, block);
            }
            if entry.block == block && entry.volume == volume {
                return entry.number - 1;
            }
            at += 1;
        }
    }

    /// The number of a block, if it has one.
    #[inline]
    pub fn known(&self, volume: u32, block: u64) -> Option<u32> {
        let mask = self.entries.len() - 1;
        let mut at = self.home(volume, block);
        loop {
            let entry = &self.entries[at & mask];
            if entry.number == 0 {
                return None;
            }
            if entry.block == block && entry.volume == volume {
                return Some(entry.number - 1);
            }
            at += 1;
        }
    }

    /// Each block that has a number: its volume, itself, the number. They come in no order.
    pub fn blocks(&self) -> impl Iterator<Item = (u32, u64, u32)> {
        let numbered = self.entries.iter().filter(|entry| entry.number != 0);
        numbered.map(|entry| (entry.volume, entry.block, entry.number - 1))
    }

    #[inline(never)]
    fn give(&mut self, at: usize, volume: u32, block: u64) -> u32 {
        assert!(self.len < Numbering::MOST, "there are no more numbers");
        self.len += 1;
        self.entries[at] = Entry { block, volume, number: self.len };
        let number = self.len - 1;
        if self.len as usize > self.entries.len() / 8 * 5 {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        let room = self.entries.len() * 2;
        let before = std::mem::replace(&mut self.entries, vec![Entry::default(); room]);
        self.shift -= 1;
        let mask = self.entries.len() - 1;
        for entry in before.into_iter().filter(|entry| entry.number != 0) {
            let mut at = self.home(entry.volume, entry.block);
            while self.entries[at & mask].number != 0 {
                at += 1;
            }
            self.entries[at & mask] = entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn each_block_keeps_its_number() {
        let (mut numbering, mut model) = (Numbering::default(), HashMap::new());
        let mut random = crate::SplitMix64::new(3);
        for step in 0..200_000u64 {
            let volume = random.below(3) as u32;
            let block = match step % 3 {
                0 => step / 7,
                1 => random.below(5_000) << 32,
                _ => random.below(1_000).wrapping_mul(u64::MAX / 1_000),
            };
            let next = model.len() as u32;
            let known = model.get(&(volume, block)).copied();
            assert_eq!(numbering.known(volume, block), known);
            assert_eq!(numbering.number(volume, block), *model.entry((volume, block)).or_insert(next));
        }
        assert_eq!(numbering.len(), model.len() as u32);
    }
}

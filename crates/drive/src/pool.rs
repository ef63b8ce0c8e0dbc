//! The buffers of host requests: one arena of fixed size, managed by a buddy allocator. When it is used up, clients
//! wait; it never grows.

use std::io;

use crate::arena::{Arena, Memory, PAGE};

/// A buffer of the pool. Return it with [`Pool::free`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    page: u32,
    order: u8,
}

/// The state of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The page lies within a block, after its first page.
    Inside,
    Used,
    /// The page is the first of a free block; with its position in the list of its order.
    Free {
        order: u8,
        position: u32,
    },
}

#[derive(Debug)]
pub(crate) struct Pool {
    arena: Arena,
    pages: Vec<State>,
    /// The first pages of the free blocks of 2^order pages.
    free: Vec<Vec<u32>>,
    free_pages: usize,
}

impl Pool {
    /// Makes a pool of `bytes`, rounded down to pages.
    pub(crate) fn new(bytes: usize) -> io::Result<Pool> {
        let count = (bytes / PAGE).max(1);
        let arena = Arena::new(count * PAGE)?;
        let orders = count.ilog2() as usize + 1;
        let mut pool =
            Pool { arena, pages: vec![State::Inside; count], free: vec![Vec::new(); orders], free_pages: count };
        // The largest blocks that fit are taken from the start; the rest is a sum of smaller powers of two.
        let mut page = 0;
        for order in (0..orders).rev() {
            if count & (1 << order) != 0 {
                pool.push(page, order as u8);
                page += 1 << order;
            }
        }
        Ok(pool)
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The length of the longest possible buffer.
    #[cfg(test)]
    pub(crate) fn longest(&self) -> usize {
        PAGE << (self.free.len() - 1)
    }

    pub(crate) fn free_bytes(&self) -> usize {
        self.free_pages * PAGE
    }

    /// Takes a buffer of at least `len` bytes; `None` if none is free.
    pub(crate) fn take(&mut self, len: usize) -> Option<Block> {
        let order = order_of(len);
        let found = (usize::from(order)..self.free.len()).find(|order| !self.free[*order].is_empty())?;
        let page = *self.free[found].last().expect("it was just seen");
        self.remove(page);
        // A block that is too large is halved; the upper halves stay free.
        for half in (order..found as u8).rev() {
            self.push(page + (1 << half), half);
        }
        self.pages[page as usize] = State::Used;
        self.free_pages -= 1 << order;
        Some(Block { page, order })
    }

    /// Takes the longest free buffer of at most `len` bytes, rounded up. It can be shorter than `len` if large blocks
    /// have been divided. `None` if no page is free.
    pub(crate) fn take_some(&mut self, len: usize) -> Option<Block> {
        if let Some(block) = self.take(len) {
            return Some(block);
        }
        let order =
            (0..usize::from(order_of(len)).min(self.free.len())).rev().find(|order| !self.free[*order].is_empty())?;
        self.take(PAGE << order)
    }

    /// The length of a buffer in bytes.
    pub(crate) fn bytes(block: &Block) -> usize {
        PAGE << block.order
    }

    /// The length of the buffer that holds this many bytes.
    pub(crate) fn rounded(len: usize) -> usize {
        PAGE << order_of(len)
    }

    /// Returns a buffer; free halves are merged.
    pub(crate) fn free(&mut self, block: Block) {
        let Block { mut page, mut order } = block;
        assert_eq!(self.pages[page as usize], State::Used, "a buffer was given back twice");
        self.free_pages += 1 << order;
        self.pages[page as usize] = State::Inside;
        loop {
            let other = page ^ (1 << order);
            match self.pages.get(other as usize) {
                Some(State::Free { order: free, .. }) if *free == order => self.remove(other),
                _ => break,
            }
            page &= !(1 << order);
            order += 1;
        }
        self.push(page, order);
    }

    /// The memory of a buffer, to the end of its last page.
    pub(crate) fn memory(&self, block: &Block) -> Memory {
        self.arena.at(block.page as usize * PAGE).first(PAGE << block.order)
    }

    fn push(&mut self, page: u32, order: u8) {
        let list = &mut self.free[usize::from(order)];
        self.pages[page as usize] = State::Free { order, position: list.len() as u32 };
        list.push(page);
    }

    fn remove(&mut self, page: u32) {
        let State::Free { order, position } = self.pages[page as usize] else {
            unreachable!("page {page} is not free")
        };
        let list = &mut self.free[usize::from(order)];
        list.swap_remove(position as usize);
        if let Some(moved) = list.get(position as usize) {
            self.pages[*moved as usize] = State::Free { order, position };
        }
        self.pages[page as usize] = State::Inside;
    }
}

fn order_of(len: usize) -> u8 {
    len.div_ceil(PAGE).max(1).next_power_of_two().ilog2() as u8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Two clients must never share a byte, and returned buffers must be available again, however they were
        /// divided.
        #[test]
        fn buffers_never_overlap_and_all_come_back(
            pages in 1_usize..200,
            steps in prop::collection::vec((any::<bool>(), 1_usize..300_000), 1..200),
        ) {
            let mut pool = Pool::new(pages * PAGE).unwrap();
            let longest = pool.longest();
            let mut held: Vec<(Block, usize)> = Vec::new();
            for (take, number) in steps {
                if take || held.is_empty() {
                    let before = pool.free_bytes();
                    // Every other time a shorter buffer is accepted.
                    let taken = if number % 2 == 0 { pool.take(number) } else { pool.take_some(number) };
                    let number = taken.as_ref().map_or(number, |block| number.min(Pool::bytes(block)));
                    match taken {
                        Some(block) => {
                            let start = pool.memory(&block).address();
                            let end = start + number;
                            prop_assert!(end <= pool.arena().at(pages * PAGE).address());
                            for (other, len) in &held {
                                let from = pool.memory(other).address();
                                prop_assert!(end <= from || from + len <= start);
                            }
                            held.push((block, number));
                        }
                        None => {
                            prop_assert_eq!(before, pool.free_bytes());
                            prop_assert!(number % 2 == 0 || before == 0, "a page was free");
                        }
                    }
                } else {
                    let (block, _) = held.swap_remove(number % held.len());
                    pool.free(block);
                }
            }
            for (block, _) in held {
                pool.free(block);
            }
            prop_assert_eq!(pool.free_bytes(), pages * PAGE);
            let whole = pool.take(longest);
            prop_assert!(whole.is_some());
        }
    }
}

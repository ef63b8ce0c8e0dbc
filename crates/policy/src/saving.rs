//! What a policy knows, in a form that lasts: a policy writes it as items of a few words each, a bounded number at a time, and
//! takes it back item by item. So a cache that is opened again decides as if it had not been closed.
//!
//! A state may be saved while it changes. What has changed behind the cursor is then saved as it was, and what has moved before it
//! may be saved twice; the later item counts.

use crate::{Queues, Recent, replacement::SlotIndex};

/// The most words of an item.
pub const MOST_WORDS: usize = 15;

/// How far a state has been saved.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    part: u32,
    has_begun: bool,
    at: u64,
    /// Items of this part so far.
    count: u64,
}

/// Where a policy saves what it knows: a part of it with each call, in the order of its parts.
pub struct Saving<'a> {
    cursor: &'a mut Cursor,
    left: u32,
    extent_in: &'a dyn Fn(SlotIndex) -> Option<u32>,
    put: &'a mut dyn FnMut(u8, &[u32]),
}

impl<'a> Saving<'a> {
    /// Goes on at the cursor, for about `most` items. `extent_in`: the extent in a slot; `put` takes items, each with the number of
    /// its list.
    pub fn new(
        cursor: &'a mut Cursor,
        most: u32,
        extent_in: &'a dyn Fn(SlotIndex) -> Option<u32>,
        put: &'a mut dyn FnMut(u8, &[u32]),
    ) -> Saving<'a> {
        Saving { cursor, left: most, extent_in, put }
    }

    /// The extent in a slot.
    pub fn extent_in(&self) -> &'a dyn Fn(SlotIndex) -> Option<u32> {
        self.extent_in
    }

    /// The number of the part to be saved now, from 0.
    pub fn part(&self) -> u32 {
        self.cursor.part
    }

    /// Goes on with the next part if this one is complete. Returns whether it is.
    pub fn next_if(&mut self, complete: bool) -> bool {
        if complete {
            *self.cursor = Cursor { part: self.cursor.part + 1, ..Cursor::default() };
        }
        complete
    }

    /// Saves an item of at most [`MOST_WORDS`] words.
    pub fn put(&mut self, list: u8, item: &[u32]) {
        debug_assert!((1..=MOST_WORDS).contains(&item.len()), "an item of {} words", item.len());
        self.left = self.left.saturating_sub(1);
        (self.put)(list, item);
    }

    /// Saves a queue, the oldest slot first. Returns whether it is complete.
    pub fn queue<const N: usize, const W: usize>(
        &mut self,
        list: u8,
        queues: &mut Queues<N>,
        queue: usize,
        item: impl Fn(SlotIndex) -> Option<[u32; W]>,
    ) -> bool {
        if !std::mem::replace(&mut self.cursor.has_begun, true) {
            queues.begin_to_read(queue);
        }
        // Slots that move to the new end all the time must not keep this from ending.
        let most = 2 * queues.slots() as u64;
        while self.left > 0 && self.cursor.count < most {
            let Some(slot) = queues.read() else { return true };
            self.cursor.count += 1;
            match item(slot) {
                Some(item) => self.put(list, &item),
                None => self.left -= 1,
            }
        }
        self.cursor.count >= most
    }

    /// Saves a memory of extents, the oldest first. Returns whether it is complete.
    pub fn recent<V: Copy, const W: usize>(
        &mut self,
        list: u8,
        recent: &Recent<V>,
        item: impl Fn(u32, V) -> [u32; W],
    ) -> bool {
        let after = self.cursor.at;
        for (extent, value, came) in recent.since(after) {
            if self.left == 0 {
                return false;
            }
            self.cursor.at = came;
            match value {
                Some(value) => self.put(list, &item(extent, value)),
                None => self.left -= 1,
            }
        }
        true
    }

    /// Saves rows, an item each, until they have `most` words in all. The first word of an item says what the others are, and does not
    /// count; a row without others is not saved. Returns whether that is complete.
    pub fn rows(&mut self, list: u8, rows: u64, most: u64, item: impl Fn(u64) -> Vec<u32>) -> bool {
        while self.cursor.at < rows && self.cursor.count < most {
            if self.left == 0 {
                return false;
            }
            let item = item(self.cursor.at);
            self.cursor.at += 1;
            self.cursor.count += item.len() as u64 - 1;
            if item.len() > 1 {
                self.put(list, &item);
            } else {
                self.left -= 1;
            }
        }
        true
    }

    /// Saves what is kept for each of the first `slots` slots. Returns whether it is complete.
    pub fn slots<const W: usize>(
        &mut self,
        list: u8,
        slots: u32,
        item: impl Fn(SlotIndex) -> Option<[u32; W]>,
    ) -> bool {
        while self.cursor.at < u64::from(slots) {
            if self.left == 0 {
                return false;
            }
            let slot = SlotIndex(self.cursor.at as u32);
            self.cursor.at += 1;
            match item(slot) {
                Some(item) => self.put(list, &item),
                None => self.left -= 1,
            }
        }
        true
    }
}

/// The lower and the higher half of a word.
pub(crate) fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// The word of two halves.
pub(crate) fn whole([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

//! The pages in the host's memory: what is there of each, what of it is newer than on the drive, and which leaves next.
//!
//! Two lists decide what leaves, as in Linux: a page comes into the inactive list, its second use while it is there moves it to the
//! active one, and the inactive list is kept at least as long as the active one. Pages leave from the end of the inactive list, if
//! they are clean and nothing is under way for them.

use std::collections::BTreeMap;

use peryton_policy::{Queues, replacement::SlotIndex};
use peryton_units::Nanos;
use rustc_hash::FxHashMap;

const INACTIVE: usize = 0;
const ACTIVE: usize = 1;

/// A page of the cache, with a bit for each of its sectors in the masks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    /// The page's number and its volume, as one number.
    pub(super) key: u64,
    /// Sectors that are there.
    pub(super) present: u8,
    /// Sectors that are newer than on the drive, and that no command is writing.
    pub(super) dirty: u8,
    /// Sectors that are being read, by the newest of the commands that read this page.
    pub(super) reading: u8,
    /// The newest command that reads this page.
    pub(super) command: u32,
    /// Number of commands that read it, and requests that are about to use it.
    pub(super) holds: u16,
    /// Number of commands that write it.
    pub(super) writes: u16,
    /// Its place in the order in which pages became dirty.
    pub(super) number: u64,
    /// When it became dirty.
    pub(super) since: Nanos,
    used_again: bool,
}

impl Page {
    /// Whether it may leave.
    fn is_idle(&self) -> bool {
        self.dirty == 0 && self.holds == 0 && self.writes == 0
    }
}

/// The pages, at most a given number of them.
#[derive(Debug)]
pub(super) struct Pages {
    most: usize,
    index: FxHashMap<u64, u32>,
    pages: Vec<Page>,
    unused: Vec<u32>,
    lists: Queues<2>,
    /// The dirty pages of each volume, in the order in which they became dirty.
    dirty: Vec<BTreeMap<u64, u32>>,
    dirty_count: usize,
    number: u64,
    /// Number of pages with writes under way.
    writing: usize,
    /// Number of pages that may leave.
    idle: usize,
}

impl Pages {
    pub(super) fn new(most: usize, volumes: usize) -> Pages {
        Pages {
            most,
            index: FxHashMap::default(),
            pages: Vec::new(),
            unused: Vec::new(),
            lists: Queues::new(0),
            dirty: vec![BTreeMap::new(); volumes],
            dirty_count: 0,
            number: 0,
            writing: 0,
            idle: 0,
        }
    }

    pub(super) fn find(&self, key: u64) -> Option<u32> {
        self.index.get(&key).copied()
    }

    pub(super) fn page(&self, slot: u32) -> &Page {
        &self.pages[slot as usize]
    }

    pub(super) fn volumes(&self) -> usize {
        self.dirty.len()
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// All pages in the order of their keys.
    pub(super) fn all_sorted(&self) -> Vec<(u64, u32)> {
        let mut all: Vec<(u64, u32)> = self.index.iter().map(|(key, slot)| (*key, *slot)).collect();
        all.sort_unstable();
        all
    }

    /// Number of pages that are free or may leave.
    pub(super) fn room(&self) -> usize {
        self.most - self.index.len() + self.idle
    }

    pub(super) fn dirty_count(&self) -> usize {
        self.dirty_count
    }

    /// Dirty pages and those that are being written.
    pub(super) fn dirty_or_writing(&self) -> usize {
        self.dirty_count + self.writing
    }

    /// The number of the page that became dirty last.
    pub(super) fn last_number(&self) -> u64 {
        self.number
    }

    /// The dirty pages of a volume, the oldest first.
    pub(super) fn dirty_of(&self, volume: usize) -> impl Iterator<Item = &Page> {
        self.dirty[volume].values().map(|slot| &self.pages[*slot as usize])
    }

    /// The volume whose oldest dirty page is the oldest of all.
    pub(super) fn oldest_volume(&self) -> Option<usize> {
        let first = |volume: &usize| self.dirty[*volume].first_key_value().map(|(number, _)| *number);
        (0..self.dirty.len()).filter(|volume| first(volume).is_some()).min_by_key(|volume| first(volume))
    }

    /// The oldest dirty page of a volume.
    pub(super) fn oldest(&self, volume: usize) -> Option<&Page> {
        self.dirty_of(volume).next()
    }

    /// Changes a page, and keeps the count of those that may leave.
    fn change<T>(&mut self, slot: u32, change: impl FnOnce(&mut Page) -> T) -> T {
        let page = &mut self.pages[slot as usize];
        let before = page.is_idle();
        let done = change(page);
        match (before, page.is_idle()) {
            (true, false) => self.idle -= 1,
            (false, true) => self.idle += 1,
            _ => {}
        }
        done
    }

    pub(super) fn hold(&mut self, slot: u32) {
        self.change(slot, |page| page.holds += 1);
    }

    pub(super) fn release(&mut self, slot: u32) {
        self.change(slot, |page| page.holds -= 1);
    }

    /// A command begins to read these sectors.
    pub(super) fn begin_read(&mut self, slot: u32, sectors: u8, command: u32) {
        self.change(slot, |page| {
            page.holds += 1;
            page.reading |= sectors;
            page.command = command;
        });
    }

    pub(super) fn end_read(&mut self, slot: u32, sectors: u8) {
        self.change(slot, |page| {
            page.holds -= 1;
            page.reading &= !sectors;
            page.present |= sectors;
        });
    }

    /// Puts a page that is not there into the inactive list, with nothing in it; there must be room. It is held.
    pub(super) fn add(&mut self, key: u64) -> u32 {
        if self.index.len() == self.most {
            self.evict_one();
        }
        let page = Page {
            key,
            present: 0,
            dirty: 0,
            reading: 0,
            command: 0,
            holds: 1,
            writes: 0,
            number: 0,
            since: Nanos::ZERO,
            used_again: true,
        };
        let slot = match self.unused.pop() {
            Some(slot) => {
                self.pages[slot as usize] = page;
                slot
            }
            None => {
                self.pages.push(page);
                self.lists.add_slot().0
            }
        };
        self.index.insert(key, slot);
        self.lists.push(INACTIVE, SlotIndex(slot));
        slot
    }

    /// Notes the use of a page that was there.
    pub(super) fn used(&mut self, slot: u32) {
        let page = &mut self.pages[slot as usize];
        if page.used_again && self.lists.queue_of(SlotIndex(slot)) == Some(INACTIVE) {
            page.used_again = false;
            self.lists.renew(ACTIVE, SlotIndex(slot));
        } else {
            page.used_again = true;
        }
    }

    /// Marks sectors as there and newer than on the drive; returns those of them that were already so.
    pub(super) fn write(&mut self, slot: u32, sectors: u8, volume: usize, now: Nanos) -> u8 {
        let number = self.number + 1;
        let (old, became_dirty) = self.change(slot, |page| {
            let old = page.dirty & sectors;
            let became_dirty = page.dirty == 0;
            page.present |= sectors;
            page.dirty |= sectors;
            if became_dirty {
                (page.number, page.since) = (number, now);
            }
            (old, became_dirty)
        });
        if became_dirty {
            self.number = number;
            self.dirty[volume].insert(number, slot);
            self.dirty_count += 1;
        }
        old
    }

    /// These dirty sectors are as on the drive, or not wanted any more.
    pub(super) fn clean(&mut self, slot: u32, sectors: u8, volume: usize) {
        let (number, became_clean) = self.change(slot, |page| {
            let was_dirty = page.dirty != 0;
            page.dirty &= !sectors;
            (page.number, was_dirty && page.dirty == 0)
        });
        if became_clean {
            self.dirty[volume].remove(&number);
            self.dirty_count -= 1;
        }
    }

    /// A command begins to write sectors of the page.
    pub(super) fn begin_write(&mut self, slot: u32) {
        self.writing += usize::from(self.pages[slot as usize].writes == 0);
        self.change(slot, |page| page.writes += 1);
    }

    pub(super) fn end_write(&mut self, slot: u32) {
        self.change(slot, |page| page.writes -= 1);
        self.writing -= usize::from(self.pages[slot as usize].writes == 0);
    }

    /// Forgets sectors; the page leaves if nothing is left of it and nothing is under way for it.
    pub(super) fn forget(&mut self, slot: u32, sectors: u8, volume: usize) {
        self.clean(slot, sectors, volume);
        self.change(slot, |page| page.present &= !sectors);
        let page = &self.pages[slot as usize];
        if page.present == 0 && page.holds == 0 && page.writes == 0 {
            self.remove(slot);
        }
    }

    fn remove(&mut self, slot: u32) {
        self.lists.unlink(SlotIndex(slot));
        self.index.remove(&self.pages[slot as usize].key);
        self.idle -= 1;
        self.unused.push(slot);
    }

    /// Lets the page go that is next; there must be one that may.
    fn evict_one(&mut self) {
        debug_assert!(self.idle > 0, "a page may leave");
        // Pages that may not leave now go to the other end, so that each is looked at once.
        let mut looked_at = 0;
        loop {
            if self.lists.len(ACTIVE) > self.lists.len(INACTIVE) {
                self.lists.renew(INACTIVE, self.last(ACTIVE));
            }
            // With none in the inactive list, the oldest of the active one.
            let list = if looked_at < self.lists.len(INACTIVE) { INACTIVE } else { ACTIVE };
            let slot = self.last(list);
            if self.pages[slot.index()].is_idle() {
                return self.remove(slot.0);
            }
            looked_at += 1;
            self.lists.renew(INACTIVE, slot);
        }
    }

    /// The page at the end of a list.
    fn last(&self, list: usize) -> SlotIndex {
        self.lists.first(list).expect("a page may leave, so one list has it")
    }

    /// Whether counts and lists are those of the pages.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let all: Vec<&Page> = self.index.values().map(|slot| &self.pages[*slot as usize]).collect();
        assert!(all.len() <= self.most);
        let count = |of: fn(&Page) -> bool| all.iter().filter(|page| of(page)).count();
        assert_eq!(self.idle, count(Page::is_idle));
        assert_eq!(self.dirty_count, count(|page| page.dirty != 0));
        assert_eq!(self.dirty_count, self.dirty.iter().map(BTreeMap::len).sum::<usize>());
        assert_eq!(self.writing, count(|page| page.writes != 0));
        assert!(all.iter().all(|page| page.dirty & !page.present == 0));
        assert_eq!((self.lists.len(INACTIVE) + self.lists.len(ACTIVE)) as usize, all.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pages: &mut Pages, key: u64) {
        match pages.find(key) {
            Some(slot) => pages.used(slot),
            None => {
                let slot = pages.add(key);
                pages.change(slot, |page| page.present = 0xff);
                pages.release(slot);
            }
        }
        pages.check();
    }

    #[test]
    fn what_is_used_again_survives_a_scan() {
        let mut pages = Pages::new(64, 1);
        (0..16).for_each(|key| read(&mut pages, key));
        (0..16).for_each(|key| read(&mut pages, key));
        (1_000..1_500).for_each(|key| read(&mut pages, key));
        assert!((0..16).all(|key| pages.find(key).is_some()));
        assert!(pages.find(1_400).is_none() && pages.find(1_499).is_some());
    }

    #[test]
    fn dirty_and_held_pages_stay() {
        let mut pages = Pages::new(8, 1);
        for key in 0..3 {
            read(&mut pages, key);
        }
        let (dirty, held) = (pages.find(0).unwrap(), pages.find(1).unwrap());
        assert_eq!(pages.write(dirty, 0b11, 0, Nanos(5)), 0);
        assert_eq!(pages.write(dirty, 0b110, 0, Nanos(9)), 0b10, "one of them was dirty already");
        assert_eq!(pages.oldest(0).unwrap().since, Nanos(5));
        pages.hold(held);
        (10..40).for_each(|key| read(&mut pages, key));
        assert!(pages.find(0).is_some() && pages.find(1).is_some() && pages.find(2).is_none());
        pages.clean(dirty, 0xff, 0);
        pages.release(held);
        (50..90).for_each(|key| read(&mut pages, key));
        assert!(pages.find(0).is_none() && pages.find(1).is_none());
    }
}

use super::{array::Operations, counts::MappingStats, parameters::Geometry};

const NONE: u32 = u32::MAX;

/// The blocks of the translation pages on one die. A page always stays on its die.
#[derive(Clone, Debug)]
struct Die {
    /// Number of pages in each block that are the newest copy.
    valid: Vec<u32>,
    erased: Vec<u32>,
    free: Vec<u32>,
    open: u32,
    /// The next place in the open block.
    next: u32,
    /// The page in each place.
    page_in: Vec<u32>,
}

/// Translation pages on flash, written as a log on each die and cleaned greedily, with the directory of their places
/// (DFTL's global translation directory).
#[derive(Clone, Debug)]
pub(super) struct TranslationPages {
    dies: Vec<Die>,
    /// Place of each page on its die, plus one; 0 if the page was never written because it has no entries.
    place_of: Vec<u32>,
    /// Number of pages in one block.
    block_pages: u32,
    /// Number of flash units that a page takes.
    page_units: u32,
}

impl TranslationPages {
    /// Makes room for `pages` translation pages, in blocks in addition to those of the data.
    pub fn new(pages: u32, spare: f64, g: &Geometry) -> TranslationPages {
        let block_pages = g.block_units / g.page_units;
        let per_die = pages.div_ceil(g.dies);
        // One block is being written and one is kept for cleaning; with less, cleaning might have to choose a wholly
        // valid block.
        let blocks = (f64::from(per_die) * (1.0 + spare) / f64::from(block_pages)).ceil() as u32;
        let blocks = blocks.max(per_die.div_ceil(block_pages)) + 2;
        let die = || Die {
            valid: vec![0; blocks as usize],
            erased: vec![0; blocks as usize],
            free: (0..blocks - 1).rev().collect(),
            open: blocks - 1,
            next: 0,
            page_in: vec![NONE; (blocks * block_pages) as usize],
        };
        TranslationPages {
            dies: (0..g.dies).map(|_| die()).collect(),
            place_of: vec![0; pages as usize],
            block_pages,
            page_units: g.page_units,
        }
    }

    pub fn die_of(&self, page: u32) -> u32 {
        page % self.dies.len() as u32
    }

    pub fn exists(&self, page: u32) -> bool {
        self.place_of[page as usize] != 0
    }

    /// Removes a page that has no entries any more.
    pub fn drop_page(&mut self, page: u32) {
        if let Some(place) = self.place_of[page as usize].checked_sub(1) {
            let at = self.die_of(page) as usize;
            self.dies[at].valid[(place / self.block_pages) as usize] -= 1;
            self.dies[at].page_in[place as usize] = NONE;
            self.place_of[page as usize] = 0;
        }
    }

    /// Writes a page again, after reading the part that has not changed.
    pub fn write(&mut self, page: u32, flash: &mut impl Operations, counts: &mut MappingStats) {
        let at = self.die_of(page);
        if self.exists(page) {
            flash.fetch(at, self.page_units);
            counts.reads += 1;
            self.drop_page(page);
        }
        if self.dies[at as usize].next == self.block_pages {
            self.make_room(at, flash, counts);
        }
        self.append(at, page, flash, counts);
    }

    fn append(&mut self, at: u32, page: u32, flash: &mut impl Operations, counts: &mut MappingStats) {
        let die = &mut self.dies[at as usize];
        let place = die.open * self.block_pages + die.next;
        die.next += 1;
        die.page_in[place as usize] = page;
        die.valid[die.open as usize] += 1;
        self.place_of[page as usize] = place + 1;
        flash.program_moved(at, self.page_units);
        counts.writes += 1;
    }

    /// Opens a block. If only one is left, it first gets the pages of the block with the least valid data.
    fn make_room(&mut self, at: u32, flash: &mut impl Operations, counts: &mut MappingStats) {
        let die = &mut self.dies[at as usize];
        let least = die.free.iter().enumerate().rev().min_by_key(|&(_, &block)| die.erased[block as usize]);
        let index = least.expect("a block is kept for cleaning").0;
        let target = die.free.swap_remove(index);
        (die.open, die.next) = (target, 0);
        if !die.free.is_empty() {
            return;
        }
        let full = (0..die.valid.len() as u32).filter(|&block| block != target);
        let victim = full.min_by_key(|&block| die.valid[block as usize]).expect("there are three blocks at least");
        assert!(die.valid[victim as usize] < self.block_pages, "the spare leaves a block that is not all valid");
        for place in victim * self.block_pages..(victim + 1) * self.block_pages {
            let page = self.dies[at as usize].page_in[place as usize];
            if page == NONE {
                continue;
            }
            flash.fetch(at, self.page_units);
            counts.reads += 1;
            self.drop_page(page);
            self.append(at, page, flash, counts);
            counts.moves += 1;
        }
        let die = &mut self.dies[at as usize];
        assert_eq!(die.valid[victim as usize], 0, "an erase must not lose a translation page");
        die.erased[victim as usize] += 1;
        die.free.push(victim);
        flash.erase(at);
        counts.erases += 1;
    }

    /// Number of blocks of all dies.
    pub fn blocks(&self) -> u32 {
        self.dies.iter().map(|die| die.valid.len() as u32).sum()
    }

    /// Erase counts of the least and the most worn block.
    pub fn wear(&self) -> (u32, u32) {
        let all = || self.dies.iter().flat_map(|die| die.erased.iter().copied());
        (all().min().unwrap_or(0), all().max().unwrap_or(0))
    }

    pub fn forget_wear(&mut self) {
        self.dies.iter_mut().for_each(|die| die.erased.fill(0));
    }

    /// Panics if a page or a block is lost, duplicated or counted wrong. For tests.
    pub fn check(&self) {
        let mut live = vec![0u32; self.dies.len()];
        for (page, place) in self.place_of.iter().enumerate() {
            let Some(place) = place.checked_sub(1) else { continue };
            let at = self.die_of(page as u32) as usize;
            live[at] += 1;
            assert_eq!(
                self.dies[at].page_in[place as usize] as usize, page,
                "page {page} and its place name each other"
            );
        }
        for (index, die) in self.dies.iter().enumerate() {
            assert!(!die.free.is_empty(), "die {index} keeps a block for cleaning");
            assert_eq!(die.valid.iter().sum::<u32>(), live[index], "valid translation pages of die {index}");
            let held = die.page_in.iter().filter(|&&page| page != NONE).count();
            assert_eq!(held as u32, live[index], "no place of die {index} holds a page that is elsewhere");
            assert!(!die.free.contains(&die.open), "the open block of die {index} is not free");
            for &block in &die.free {
                assert_eq!(die.valid[block as usize], 0, "free block {block} of die {index} holds nothing");
            }
        }
    }
}

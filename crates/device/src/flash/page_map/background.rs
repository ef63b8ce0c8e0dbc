//! What the page map does in idle time: it cleans ahead, and levels wear.

use super::{Cleaning, Operations, PageMap, Victim};

impl PageMap {
    /// Completes preconditioning after [`PageMap::fill_block`].
    pub fn settle(&mut self) {
        self.want_background();
    }

    pub(super) fn want_background(&mut self) {
        self.dies.iter_mut().for_each(|die| die.wants_background = true);
        self.wanting = self.dies.len() as u32;
    }

    /// Whether background work may find something to do.
    pub fn background_wanted(&self) -> bool {
        self.wanting > 0
    }

    /// Whether background work may find something to do on this die.
    pub fn wants_background(&self, at: u32) -> bool {
        self.dies[at as usize].wants_background
    }

    pub fn cleaning(&self) -> Cleaning {
        let open_in = |die: &super::Die| {
            let open = [&die.host, &die.moved].map(|stream| u64::from(self.g.block_units.saturating_sub(stream.next)));
            die.free.len() as u64 * u64::from(self.g.block_units) + open.iter().sum::<u64>()
        };
        let stripes = self.clock.wrapping_sub(self.counted_from);
        Cleaning {
            free: self.dies.iter().map(open_in).sum(),
            // Half of each of the open blocks.
            free_at_rest: u64::from(self.g.dies) * u64::from(self.gc_high + 1) * u64::from(self.g.block_units),
            written: u64::from(stripes) * u64::from(self.g.stripe_units),
            moved: self.moved,
            erased: self.erased,
        }
    }

    /// Does one step of work in idle time on a die that wants it; returns whether another is wanted. Steps are small,
    /// so that they hardly delay a command that arrives meanwhile.
    /// `ahead`: free blocks to provide beside those that the die needs.
    pub fn collect_in_background(&mut self, at: u32, ahead: u32, flash: &mut impl Operations) -> bool {
        let free = self.gc_high + ahead;
        let worked = if self.has_fewer(free, at) {
            self.take_victim(at, |map| map.choose_victim(at, true, flash.now()))
        } else if self.leveller.owes(at) {
            // A wear-levelling move that a burst delayed.
            let found = self.take_victim(at, |map| map.worth_levelling(at).map(|block| map.chosen(block, true)));
            if !found {
                self.leveller.settled(at);
            }
            found
        } else {
            false
        };
        if worked {
            self.empty(at, u64::from(self.g.stripe_units), flash);
        }
        let more = worked && (self.has_fewer(free, at) || self.leveller.owes(at));
        if !more && std::mem::take(&mut self.dies[at as usize].wants_background) {
            self.wanting -= 1;
        }
        more
    }

    /// Whether a die has fewer free blocks than this.
    fn has_fewer(&self, free: u32, at: u32) -> bool {
        self.dies[at as usize].free.len() < free as usize
    }

    /// Makes sure that the die has a victim, with `choose` if it has none; returns whether it has one.
    fn take_victim(&mut self, at: u32, choose: impl FnOnce(&mut PageMap) -> Option<Victim>) -> bool {
        if self.dies[at as usize].victim.is_none() {
            self.dies[at as usize].victim = choose(self);
        }
        self.dies[at as usize].victim.is_some()
    }

    /// Static wear-levelling: returns the least worn full block of a die, if a free block is more worn by more than the
    /// gap. (Only free blocks are compared, because moving cold data to a less worn block would have no effect.)
    pub(super) fn worth_levelling(&self, at: u32) -> Option<u32> {
        if self.wear_gap == u32::MAX {
            return None;
        }
        let free = self.dies[at as usize].free.iter().map(|&block| self.blocks.erase_count(block));
        let least = free.max()?.checked_sub(self.wear_gap)?;
        self.blocks.coldest(self.blocks_of(at)).filter(|&coldest| self.blocks.erase_count(coldest) < least)
    }
}

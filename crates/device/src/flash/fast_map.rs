use std::{collections::VecDeque, ops::Range};

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::{
    array::{Operations, Untimed},
    block_pool::{BlockPool, NONE},
    counts::{FtlStats, Merges},
    layer::TranslationLayer,
    open_stripe::{OpenStripe, Programmed, both},
    parameters::{FlashParameters, Geometry, Precondition},
};

/// The log of a die that takes a stream of overwrites: unit i is in slot i.
#[derive(Clone, Debug)]
struct Sequential {
    logical: u32,
    block: u32,
    /// The next slot.
    next: u32,
}

/// A log that takes overwrites of any logical block.
#[derive(Clone, Debug)]
struct Shared {
    block: u32,
    /// The unit that each slot was written for, as an index into `FastMap::logged`.
    units: Vec<u32>,
}

/// The logs of a die.
#[derive(Clone, Debug, Default)]
struct Logs {
    sequential: Option<Sequential>,
    /// The oldest first; all but the last are full.
    shared: VecDeque<Shared>,
}

/// The layer FAST (Lee, Park, Chung, Lee, Park and Song 2007), which maps whole blocks and shares its logs among all of
/// them.
///
/// * Each die has one sequential log. An overwrite of a logical block's first unit begins it, and overwrites that follow
///   in order are appended to it. When another stream begins, or when a unit of this block is overwritten out of order,
///   the log becomes the data block: a switch if it has all live units, or a partial merge that copies the others.
/// * All other overwrites are appended to the shared logs. When they are full, the oldest is emptied: each logical block
///   that has a live unit in it is copied into a new block (a full merge for each).
///
/// The paper gives the number of logs for the whole device; here `log_blocks` is the share of a die's data blocks, as for
/// BAST, and the sequential log comes on top.
#[derive(Clone, Debug)]
pub(super) struct FastMap {
    pool: BlockPool,
    /// Physical block of each logical block.
    data: Vec<u32>,
    /// The first unit of each logical block that can still be appended to its data block.
    next: Vec<u32>,
    /// The slot of each unit whose live copy is in a shared log, by logical block and unit within it.
    logged: Vec<u32>,
    logs: Vec<Logs>,
    shared_per_die: usize,
    open: OpenStripe,
    /// Programmed ahead of time because a merge needed it.
    early: Programmed,
    merges: Merges,
    /// The slots that a copy reads.
    sources: Vec<u32>,
}

impl FastMap {
    fn index(&self, logical: u32, offset: u32) -> usize {
        (logical * self.pool.g.block_units + offset) as usize
    }

    fn find(&self, die: u32, logical: u32, offset: u32) -> Option<u32> {
        let logged = self.logged[self.index(logical, offset)];
        if logged != NONE {
            return Some(logged);
        }
        let units = self.pool.g.block_units;
        let sequential = self.logs[die as usize].sequential.as_ref().filter(|log| log.logical == logical);
        let places = [sequential.map(|log| log.block), Some(self.data[logical as usize])];
        let slots = places.into_iter().flatten().filter(|&block| block != NONE).map(|block| block * units + offset);
        slots.into_iter().find(|&slot| self.pool.is_valid(slot))
    }

    /// The copy of a unit at `slot` is no longer its live one.
    fn give_up(&mut self, logical: u32, offset: u32, slot: u32) {
        self.pool.invalidate(slot);
        let index = self.index(logical, offset);
        self.logged[index] = NONE;
    }

    /// The slot that the next copy of a unit goes to, and whether it is in a shared log.
    fn slot_for(&mut self, die: u32, logical: u32, offset: u32, flash: &mut impl Operations) -> (u32, bool) {
        let units = self.pool.g.block_units;
        if self.data[logical as usize] == NONE {
            self.data[logical as usize] = self.pool.take_free(die);
            self.next[logical as usize] = 0;
        }
        let own = self.logs[die as usize].sequential.as_mut().filter(|log| log.logical == logical);
        // The log has passed this unit, so it cannot go in place any more either: the log becomes the data block.
        let passed = own.as_ref().is_some_and(|log| offset < log.next);
        if let Some(log) = own
            && log.next == offset
        {
            log.next += 1;
            return (log.block * units + offset, false);
        }
        if !passed && offset >= self.next[logical as usize] {
            self.next[logical as usize] = offset + 1;
            return (self.data[logical as usize] * units + offset, false);
        }
        if offset == 0 {
            self.end_sequential(die, flash);
            let block = self.pool.take_free(die);
            self.logs[die as usize].sequential = Some(Sequential { logical, block, next: 1 });
            return (block * units, false);
        }
        if self.logs[die as usize].sequential.as_ref().is_some_and(|log| log.logical == logical) {
            // The rest of the stream does not follow, and the block may have room in place afterwards.
            self.end_sequential(die, flash);
            return self.slot_for(die, logical, offset, flash);
        }
        let shared = &self.logs[die as usize].shared;
        if shared.back().is_none_or(|log| log.units.len() == units as usize) {
            if shared.len() == self.shared_per_die {
                self.empty_oldest(die, flash);
                return self.slot_for(die, logical, offset, flash);
            }
            let block = self.pool.take_free(die);
            self.logs[die as usize].shared.push_back(Shared { block, units: Vec::with_capacity(units as usize) });
        }
        let index = self.index(logical, offset) as u32;
        let log = self.logs[die as usize].shared.back_mut().expect("there is a log with room");
        log.units.push(index);
        (log.block * units + log.units.len() as u32 - 1, true)
    }

    /// Copies the live units of a logical block from `from` on to their places in `target`; returns the end of the live
    /// units and the number of those copied.
    fn gather(&mut self, die: u32, logical: u32, from: u32, target: u32, flash: &mut impl Operations) -> (u32, u32) {
        let live = (from..self.pool.g.block_units).rev().find(|&offset| self.find(die, logical, offset).is_some());
        let end = live.map_or(from, |last| last + 1);
        let mut sources = std::mem::take(&mut self.sources);
        sources.clear();
        sources.extend((from..end).map(|offset| self.find(die, logical, offset).unwrap_or(NONE)));
        let copied = self.pool.copy(die, from, &sources, target, flash);
        self.merges.units_copied += u64::from(copied);
        self.sources = sources;
        let (first, end_index) = (self.index(logical, from), self.index(logical, from) + (end - from) as usize);
        self.logged[first..end_index].fill(NONE);
        (end, copied)
    }

    /// `block` becomes the data block of a logical block, whose former one has no live unit any more.
    fn replace_data(&mut self, die: u32, logical: u32, block: u32, next: u32, flash: &mut impl Operations) {
        let old = std::mem::replace(&mut self.data[logical as usize], block);
        self.next[logical as usize] = next;
        if old != NONE {
            self.pool.release(die, old, flash);
        }
    }

    /// Makes the sequential log, if there is one, the data block of its logical block.
    fn end_sequential(&mut self, die: u32, flash: &mut impl Operations) {
        let Some(Sequential { logical, block, next }) = self.logs[die as usize].sequential.clone() else { return };
        // Buffered units may belong to a block that is about to be erased.
        self.early = both(self.early.take(), self.open.flush(flash));
        let (end, copied) = self.gather(die, logical, next, block, flash);
        let count = if copied > 0 { &mut self.merges.partial } else { &mut self.merges.switches };
        *count += 1;
        self.logs[die as usize].sequential = None;
        self.replace_data(die, logical, block, end, flash);
    }

    /// Empties the oldest shared log by a full merge of each logical block that has a live unit in it.
    fn empty_oldest(&mut self, die: u32, flash: &mut impl Operations) {
        self.early = both(self.early.take(), self.open.flush(flash));
        let oldest = self.logs[die as usize].shared.pop_front().expect("the shared logs are full");
        let units = self.pool.g.block_units;
        for (slot, &index) in (oldest.block * units..).zip(&oldest.units) {
            if self.logged[index as usize] == slot {
                self.merge_fully(die, index / units, flash);
            }
        }
        self.pool.release(die, oldest.block, flash);
    }

    fn merge_fully(&mut self, die: u32, logical: u32, flash: &mut impl Operations) {
        self.merges.full += 1;
        let target = self.pool.take_free(die);
        let (end, _) = self.gather(die, logical, 0, target, flash);
        let sequential = &mut self.logs[die as usize].sequential;
        if let Some(log) = sequential.take_if(|log| log.logical == logical) {
            self.pool.release(die, log.block, flash);
        }
        self.replace_data(die, logical, target, end, flash);
    }
}

impl TranslationLayer for FastMap {
    fn new(p: &FlashParameters, g: Geometry) -> FastMap {
        let pool = BlockPool::new(g);
        let logical = pool.logical() as usize;
        let wanted = (f64::from(pool.logical_per_die) * p.log_blocks).ceil() as u32;
        FastMap {
            data: vec![NONE; logical],
            next: vec![0; logical],
            logged: vec![NONE; logical * g.block_units as usize],
            logs: vec![Logs::default(); g.dies as usize],
            shared_per_die: wanted.clamp(1, pool.spare_per_die()) as usize,
            pool,
            open: OpenStripe::default(),
            early: None,
            merges: Merges::default(),
            sources: Vec::new(),
        }
    }

    #[inline]
    fn locate(&self, unit: u32) -> Option<u32> {
        let (die, logical, offset) = self.pool.place(unit);
        self.find(die, logical, offset)
    }

    #[inline]
    fn is_open(&self, slot: u32) -> bool {
        self.open.holds(slot)
    }

    #[inline]
    fn die_of(&self, slot: u32) -> u32 {
        self.pool.die_of(slot)
    }

    #[inline]
    fn pending(&self) -> u32 {
        self.open.pending()
    }

    fn write(&mut self, unit: u32, flash: &mut impl Operations) -> Programmed {
        let (die, logical, offset) = self.pool.place(unit);
        if self.find(die, logical, offset).is_some_and(|slot| self.open.holds(slot)) {
            return None;
        }
        let (slot, shared) = self.slot_for(die, logical, offset, flash);
        // The old place is given up only now, because a merge above may have moved it.
        if let Some(old) = self.find(die, logical, offset) {
            self.give_up(logical, offset, old);
        }
        if shared {
            let index = self.index(logical, offset);
            self.logged[index] = slot;
        }
        self.pool.set_valid(slot);
        let early = self.early.take();
        both(early, self.open.write(die, slot, self.pool.g.stripe_units, flash))
    }

    fn flush(&mut self, flash: &mut impl Operations) -> Programmed {
        self.open.flush(flash)
    }

    fn discard(&mut self, units: Range<u32>, _: &mut impl Operations) {
        for unit in units {
            let (die, logical, offset) = self.pool.place(unit);
            if let Some(slot) = self.find(die, logical, offset) {
                self.give_up(logical, offset, slot);
            }
        }
    }

    fn wear(&self) -> (u32, u32) {
        self.pool.blocks.wear()
    }

    fn forget_wear(&mut self) {
        self.pool.blocks.forget_wear();
    }

    fn stats(&self) -> FtlStats {
        let fragmentation = Some(self.pool.blocks.fragmentation(self.pool.g.block_units));
        FtlStats { fragmentation, merges: Some(self.merges), ..FtlStats::default() }
    }

    fn reset_counts(&mut self) {
        self.merges = Merges::default();
    }

    fn precondition(&mut self, state: Precondition, g: &Geometry, random: &mut Pcg64Mcg) {
        (0..g.units).for_each(|unit| {
            self.write(unit, &mut Untimed);
        });
        if state == Precondition::Random {
            // Fills the shared logs, and empties about one on each die.
            let slots = (self.shared_per_die as u64 + 1) * u64::from(g.dies * g.block_units);
            for _ in 0..slots {
                self.write(random.random_range(0..g.units), &mut Untimed);
            }
        }
    }

    fn check(&self) {
        let units = self.pool.g.block_units;
        let live = (0..self.pool.g.units).filter(|&unit| self.locate(unit).is_some()).count();
        self.pool.check(live as u64);
        let mut logged = 0;
        for (die, logs) in self.logs.iter().enumerate() {
            assert!(logs.shared.len() <= self.shared_per_die);
            for (place, log) in logs.shared.iter().enumerate() {
                assert!(place + 1 == logs.shared.len() || log.units.len() == units as usize, "only the last has room");
                let mine = (log.block * units..).zip(&log.units);
                logged += mine.filter(|&(slot, &index)| self.logged[index as usize] == slot).count();
            }
            if let Some(log) = &logs.sequential {
                assert_eq!(log.logical / self.pool.logical_per_die, die as u32, "a log is on the die of its block");
                assert!((0..log.next).all(|offset| self.logged[self.index(log.logical, offset)] == NONE));
            }
        }
        let named = self.logged.iter().filter(|&&slot| slot != NONE).count();
        assert_eq!(named, logged, "what is in a shared log is named there once");
    }
}

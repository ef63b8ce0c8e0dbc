use std::ops::Range;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::{
    array::{Operations, Untimed},
    block_pool::{BlockPool, NONE},
    counts::{Fragmentation, FtlStats, Merges},
    layer::TranslationLayer,
    open_stripe::{OpenStripe, Programmed, both},
    parameters::{FlashParameters, Geometry, Mapping, Precondition},
};

/// A block that takes the overwrites of one logical block until they are merged.
#[derive(Clone, Debug)]
struct Log {
    /// The logical block on this die.
    logical: u32,
    block: u32,
    /// The next slot.
    next: u32,
    /// Slot i holds unit i, for all i before `next`.
    in_order: bool,
    used_at: u64,
    /// The slot of each unit of the logical block in this log.
    slots: Vec<u32>,
}

/// Two layers that map whole blocks, in which a log belongs to one logical block.
///
/// * Block-mapped: a unit has one place in its block. A unit that cannot be appended there goes to a replacement block,
///   together with the units before it and, at the merge, those after it. A random write costs a block.
/// * Log-block (BAST; Kim et al. 2002): overwrites are appended to a log block in any order. At the merge, a log that
///   is in order becomes the data block (switch, or partial merge); any other is combined with it in a new block (full
///   merge).
#[derive(Clone, Debug)]
pub(super) struct BlockMap {
    pool: BlockPool,
    in_any_order: bool,
    /// Physical block of each logical block, by die.
    data: Vec<u32>,
    /// The first unit of each logical block that can still be appended to its data block.
    next: Vec<u32>,
    /// The log of each logical block, as an index into its die's.
    log_of: Vec<u32>,
    /// The logs of each die.
    logs: Vec<Vec<Log>>,
    logs_per_die: usize,
    open: OpenStripe,
    clock: u64,
    unused_logs: Vec<Vec<u32>>,
    /// The slots that a copy reads.
    sources: Vec<u32>,
    /// Programmed ahead of time because a merge needed it.
    early: Programmed,
    merges: Merges,
}

impl BlockMap {
    pub fn new(p: &FlashParameters, g: Geometry) -> BlockMap {
        let pool = BlockPool::new(g);
        let logical = pool.logical() as usize;
        let in_any_order = p.ftl == Mapping::LogBlock;
        let wanted = if in_any_order { (f64::from(pool.logical_per_die) * p.log_blocks).ceil() as u32 } else { 2 };
        let logs = wanted.clamp(1, pool.spare_per_die());
        BlockMap {
            pool,
            in_any_order,
            data: vec![NONE; logical],
            next: vec![0; logical],
            log_of: vec![NONE; logical],
            logs: (0..g.dies).map(|_| Vec::with_capacity(logs as usize)).collect(),
            logs_per_die: logs as usize,
            open: OpenStripe::default(),
            clock: 0,
            unused_logs: Vec::new(),
            sources: Vec::new(),
            early: None,
            merges: Merges::default(),
        }
    }

    fn log(&self, die: u32, logical: u32) -> Option<&Log> {
        match self.log_of[logical as usize] {
            NONE => None,
            index => Some(&self.logs[die as usize][index as usize]),
        }
    }

    fn find(&self, die: u32, logical: u32, offset: u32) -> Option<u32> {
        let logged = self.log(die, logical).map_or(NONE, |log| log.slots[offset as usize]);
        if logged != NONE && self.pool.is_valid(logged) {
            return Some(logged);
        }
        let data = self.data[logical as usize];
        let slot = (data != NONE).then(|| data * self.pool.g.block_units + offset)?;
        self.pool.is_valid(slot).then_some(slot)
    }

    pub fn locate(&self, unit: u32) -> Option<u32> {
        let (die, logical, offset) = self.pool.place(unit);
        self.find(die, logical, offset)
    }

    pub fn is_open(&self, slot: u32) -> bool {
        self.open.holds(slot)
    }

    pub fn die_of(&self, slot: u32) -> u32 {
        self.pool.die_of(slot)
    }

    pub fn pending(&self) -> u32 {
        self.open.pending()
    }

    pub fn flush(&mut self, flash: &mut impl Operations) -> Programmed {
        self.open.flush(flash)
    }

    pub fn discard(&mut self, unit: u32) {
        let (die, logical, offset) = self.pool.place(unit);
        if let Some(slot) = self.find(die, logical, offset) {
            self.pool.invalidate(slot);
        }
    }

    pub fn write(&mut self, unit: u32, flash: &mut impl Operations) -> Programmed {
        let (die, logical, offset) = self.pool.place(unit);
        let old = self.find(die, logical, offset);
        if old.is_some_and(|slot| self.open.holds(slot)) {
            return None;
        }
        self.clock += 1;
        let slot = self.slot_for(die, logical, offset, flash);
        // The old place is given up only now, because the merge above may have moved it.
        if let Some(old) = self.find(die, logical, offset) {
            self.pool.invalidate(old);
        }
        let index = self.log_of[logical as usize];
        if index != NONE {
            let log = &mut self.logs[die as usize][index as usize];
            if slot / self.pool.g.block_units == log.block {
                log.slots[offset as usize] = slot;
            }
        }
        self.pool.set_valid(slot);
        let early = self.early.take();
        both(early, self.open.write(die, slot, self.pool.g.stripe_units, flash))
    }

    /// The slot that the next copy of a unit goes to.
    fn slot_for(&mut self, die: u32, logical: u32, offset: u32, flash: &mut impl Operations) -> u32 {
        let units = self.pool.g.block_units;
        if self.log_of[logical as usize] == NONE {
            if self.data[logical as usize] == NONE {
                self.data[logical as usize] = self.pool.take_free(die);
                self.next[logical as usize] = 0;
            }
            if offset >= self.next[logical as usize] {
                self.next[logical as usize] = offset + 1;
                return self.data[logical as usize] * units + offset;
            }
        }
        if let Some(log) = self.log(die, logical) {
            let full = if self.in_any_order { log.next == units } else { offset < log.next };
            if full {
                self.merge(die, logical, flash);
                return self.slot_for(die, logical, offset, flash);
            }
        } else {
            self.open_log(die, logical, flash);
        }
        if !self.in_any_order {
            self.copy_into_log(die, logical, offset, flash);
        }
        let index = self.log_of[logical as usize] as usize;
        let log = &mut self.logs[die as usize][index];
        log.used_at = self.clock;
        let slot = if self.in_any_order { log.next } else { offset };
        log.in_order &= slot == offset;
        log.next = slot + 1;
        log.block * units + slot
    }

    fn open_log(&mut self, die: u32, logical: u32, flash: &mut impl Operations) {
        if self.logs[die as usize].len() == self.logs_per_die {
            let oldest = self.logs[die as usize].iter().min_by_key(|log| log.used_at);
            let oldest = oldest.expect("there is room for at least one log").logical;
            self.merge(die, oldest, flash);
        }
        let block = self.pool.take_free(die);
        let mut slots = self.unused_logs.pop().unwrap_or_else(|| vec![NONE; self.pool.g.block_units as usize]);
        slots.fill(NONE);
        self.log_of[logical as usize] = self.logs[die as usize].len() as u32;
        let log = Log { logical, block, next: 0, in_order: true, used_at: self.clock, slots };
        self.logs[die as usize].push(log);
    }

    /// Copies the units of the data block from the log's end to `until` into the log, each to its own place.
    fn copy_into_log(&mut self, die: u32, logical: u32, until: u32, flash: &mut impl Operations) {
        let index = self.log_of[logical as usize] as usize;
        let log = &self.logs[die as usize][index];
        let (from, block) = (log.next, log.block);
        let data = self.data[logical as usize];
        self.copy(
            die,
            from..until,
            |map, offset| {
                let old = (data != NONE).then(|| data * map.pool.g.block_units + offset);
                old.filter(|&slot| map.pool.is_valid(slot))
            },
            block,
            flash,
        );
        let log = &mut self.logs[die as usize][index];
        for offset in from..until {
            let slot = block * self.pool.g.block_units + offset;
            if self.pool.is_valid(slot) {
                log.slots[offset as usize] = slot;
            }
        }
        log.next = log.next.max(until);
    }

    /// Copies units to their places in `target`, whole stripes at a time.
    fn copy(
        &mut self,
        die: u32,
        offsets: Range<u32>,
        source: impl Fn(&BlockMap, u32) -> Option<u32>,
        target: u32,
        flash: &mut impl Operations,
    ) {
        let mut sources = std::mem::take(&mut self.sources);
        sources.clear();
        sources.extend(offsets.clone().map(|offset| source(self, offset).unwrap_or(NONE)));
        let copied = self.pool.copy(die, offsets.start, &sources, target, flash);
        self.merges.units_copied += u64::from(copied);
        self.sources = sources;
    }

    /// Makes one data block of a logical block's data and log.
    fn merge(&mut self, die: u32, logical: u32, flash: &mut impl Operations) {
        // Buffered units may belong to a block that is about to be erased.
        self.early = both(self.early.take(), self.open.flush(flash));
        let units = self.pool.g.block_units;
        let index = self.log_of[logical as usize] as usize;
        let old_data = self.data[logical as usize];
        let (in_order, block) = {
            let log = &self.logs[die as usize][index];
            (log.in_order, log.block)
        };
        let last = (0..units).rev().find(|&offset| self.find(die, logical, offset).is_some());
        let end = last.map_or(0, |last| last + 1);
        let kept = if in_order {
            let before = self.merges.units_copied;
            self.copy_into_log(die, logical, end, flash);
            let copied = self.merges.units_copied > before;
            let count = if copied { &mut self.merges.partial } else { &mut self.merges.switches };
            *count += 1;
            block
        } else {
            self.merges.full += 1;
            let target = self.pool.take_free(die);
            self.copy(die, 0..end, |map, offset| map.find(die, logical, offset), target, flash);
            self.pool.release(die, block, flash);
            target
        };
        let next = if in_order { self.logs[die as usize][index].next } else { end };
        if old_data != NONE {
            self.pool.release(die, old_data, flash);
        }
        self.data[logical as usize] = kept;
        self.next[logical as usize] = next;
        self.log_of[logical as usize] = NONE;
        let logs = &mut self.logs[die as usize];
        let log = logs.swap_remove(index);
        if let Some(moved) = logs.get(index) {
            self.log_of[moved.logical as usize] = index as u32;
        }
        self.unused_logs.push(log.slots);
    }

    pub fn fragmentation(&self) -> Fragmentation {
        self.pool.blocks.fragmentation(self.pool.g.block_units)
    }

    pub fn merges(&self) -> Merges {
        self.merges
    }

    /// A new account; wear stays.
    pub fn reset_counts(&mut self) {
        self.merges = Merges::default();
    }

    pub fn forget_wear(&mut self) {
        self.pool.blocks.forget_wear();
    }

    /// Panics if a unit is lost, doubled, or counted wrong. For tests.
    pub fn check(&self) {
        let mut live = 0;
        for unit in 0..self.pool.g.units {
            live += u64::from(self.locate(unit).is_some());
        }
        self.pool.check(live);
        for logs in &self.logs {
            for (index, log) in logs.iter().enumerate() {
                assert_eq!(
                    self.log_of[log.logical as usize] as usize, index,
                    "logs and logical blocks name each other"
                );
            }
        }
    }
}

impl TranslationLayer for BlockMap {
    fn new(p: &FlashParameters, g: Geometry) -> BlockMap {
        BlockMap::new(p, g)
    }

    #[inline]
    fn locate(&self, unit: u32) -> Option<u32> {
        BlockMap::locate(self, unit)
    }

    #[inline]
    fn is_open(&self, slot: u32) -> bool {
        BlockMap::is_open(self, slot)
    }

    #[inline]
    fn die_of(&self, slot: u32) -> u32 {
        BlockMap::die_of(self, slot)
    }

    #[inline]
    fn pending(&self) -> u32 {
        BlockMap::pending(self)
    }

    #[inline]
    fn write(&mut self, unit: u32, flash: &mut impl Operations) -> Programmed {
        BlockMap::write(self, unit, flash)
    }

    fn flush(&mut self, flash: &mut impl Operations) -> Programmed {
        BlockMap::flush(self, flash)
    }

    fn discard(&mut self, units: Range<u32>, _: &mut impl Operations) {
        units.for_each(|unit| BlockMap::discard(self, unit));
    }

    fn wear(&self) -> (u32, u32) {
        self.pool.blocks.wear()
    }

    fn forget_wear(&mut self) {
        BlockMap::forget_wear(self)
    }

    fn stats(&self) -> FtlStats {
        let (fragmentation, merges) = (Some(self.fragmentation()), Some(self.merges()));
        FtlStats { fragmentation, merges, ..FtlStats::default() }
    }

    fn reset_counts(&mut self) {
        BlockMap::reset_counts(self)
    }

    fn precondition(&mut self, state: Precondition, g: &Geometry, random: &mut Pcg64Mcg) {
        (0..g.units).for_each(|unit| {
            BlockMap::write(self, unit, &mut Untimed);
        });
        if state == Precondition::Random {
            // Each costs a block, and twice the number of blocks takes every log.
            for _ in 0..u64::from(g.blocks()) * 2 {
                BlockMap::write(self, random.random_range(0..g.units), &mut Untimed);
            }
        }
    }

    fn check(&self) {
        BlockMap::check(self)
    }
}

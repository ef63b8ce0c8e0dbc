mod background;
mod check;
mod in_order;

use std::ops::Range;

use in_order::InOrder;
use peryton_units::prefetch;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{
    array::Operations,
    blocks::{Blocks, State},
    counts::{Fragmentation, Levelling},
    levelling::Leveller,
    open_stripe::Programmed,
    parameters::{Collection, FlashParameters, Geometry, Placement},
};

/// The value for an empty place.
const NONE: u32 = u32::MAX;
/// A die that is written to may have less free space than the mean, by at most one part in this many.
const UNEVEN: u32 = 4;
/// Units that collection moves at a time.
const STEP: usize = 64;
/// Number of entries of a list of units in a line of the processor's cache.
const UNITS_OF_LINE: u32 = 16;

/// Seed of the draws of `d_choices`.
const CHOICES_SEED: u64 = 1;

/// Sets or clears the bits of these slots.
#[inline]
fn mark(bits: &mut [u64], slots: Range<u32>, value: bool) {
    let mut from = slots.start;
    while from < slots.end {
        let count = (64 - from % 64).min(slots.end - from);
        let mask = u64::MAX >> (64 - count) << (from % 64);
        let word = &mut bits[from as usize / 64];
        *word = if value { *word | mask } else { *word & !mask };
        from += count;
    }
}

/// A block that is being filled, front to back.
#[derive(Clone, Copy, Debug)]
struct Stream {
    block: u32,
    /// The next slot, counted from the block's start; `block_units` if the block is full (or there is none yet).
    next: u32,
    /// Units since the last program.
    pending: u32,
}

/// A block that is being emptied.
#[derive(Clone, Copy, Debug)]
struct Victim {
    block: u32,
    /// All valid slots before this one have been moved.
    cursor: u32,
    /// The number of valid units when it was chosen.
    cost: u64,
    /// The number of units gained by erasing it, at that time.
    gain: u64,
    /// Outstanding work: it grows with the host's writes, so that the block is empty before its space is needed.
    debt: u64,
}

#[derive(Clone, Debug)]
struct Die {
    host: Stream,
    moved: Stream,
    free: Vec<u32>,
    /// A lower bound on the erase counts of the free blocks.
    least_erased: u32,
    victim: Option<Victim>,
    valid: u32,
    /// Whether background work may find something to do on this die.
    wants_background: bool,
}

/// The page-mapped layer: a full table from logical units to slots. Data is written as logs (one for the host's data
/// and one for moved data on each die), stripe after stripe over the dies.
#[derive(Clone, Debug)]
pub(super) struct PageMap {
    g: Geometry,
    /// Slot + 1 of each logical unit; 0 is where it was in the beginning (zeroed memory costs nothing until it is touched), `NONE` is discarded.
    slot_of: Vec<u32>,
    /// Logical unit + 1 in each slot, 0 the one that was there in the beginning; defined only for slots that are set in `valid`.
    unit_in: Vec<u32>,
    /// Where units were in the beginning; none on a drive that was never written.
    order: Option<InOrder>,
    /// One bit for each slot.
    valid: Vec<u64>,
    blocks: Blocks,
    dies: Vec<Die>,
    /// Number of valid units on all dies.
    live: u32,
    /// The die whose stripe the host is filling.
    current: u32,
    placement: Placement,
    at_once: bool,
    collection: Collection,
    /// Blocks to draw for a victim, and what draws them.
    choices: (u32, Pcg64Mcg),
    gc_low: u32,
    gc_high: u32,
    wear_gap: u32,
    leveller: Leveller,
    /// Number of stripes that the host has written, for the age of blocks.
    clock: u32,
    /// Number of dies that want background work.
    wanting: u32,
    /// Since counts were reset: units that cleaning moved, blocks that it erased, and the clock at that time.
    moved: u64,
    erased: u64,
    counted_from: u32,
}

/// What cleaning has done since counts were reset, in units but for blocks, and what is free.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cleaning {
    /// What can be written before anything has to be cleaned.
    pub free: u64,
    /// The same of a drive that has done its idle work.
    pub free_at_rest: u64,
    /// What the host has written since counts were reset, in whole stripes.
    pub written: u64,
    /// What cleaning has moved since then.
    pub moved: u64,
    /// Blocks that it has erased since then.
    pub erased: u64,
}

impl PageMap {
    pub fn new(p: &FlashParameters, g: Geometry) -> PageMap {
        let dies = (0..g.dies)
            .map(|die| {
                let first = die * g.blocks_per_die;
                let closed = Stream { block: NONE, next: g.block_units, pending: 0 };
                // Blocks are taken from the end, so the lowest block is the first.
                let free = (first..first + g.blocks_per_die).rev().collect();
                Die {
                    host: closed,
                    moved: closed,
                    free,
                    least_erased: 0,
                    victim: None,
                    valid: 0,
                    wants_background: false,
                }
            })
            .collect();
        let spare = g.blocks_per_die - g.units.div_ceil(g.dies * g.block_units);
        let gc_low = p.gc_low.min(spare.saturating_sub(1)).max(1);
        PageMap {
            g,
            slot_of: vec![0; g.units as usize],
            unit_in: vec![0; g.slots() as usize],
            order: None,
            valid: vec![0; (g.slots() as usize).div_ceil(64)],
            blocks: Blocks::new(g.blocks()),
            dies,
            live: 0,
            current: g.dies - 1,
            placement: p.placement,
            at_once: p.collect_at_once,
            collection: p.collection,
            choices: (p.gc_choices, Pcg64Mcg::seed_from_u64(CHOICES_SEED)),
            gc_low,
            gc_high: (p.gc_low + g.blocks_ahead).min(spare.saturating_sub(1)).max(gc_low),
            wear_gap: p.wear_gap.unwrap_or(u32::MAX),
            leveller: Leveller::new(p, &g),
            clock: 0,
            wanting: 0,
            moved: 0,
            erased: 0,
            counted_from: 0,
        }
    }

    /// The slot of a unit; `None` if it was never written or was discarded.
    #[inline]
    pub fn locate(&self, unit: u32) -> Option<u32> {
        match self.slot_of[unit as usize] {
            0 => self.order.map(|order| order.slot(unit)),
            NONE => None,
            slot => Some(slot - 1),
        }
    }

    /// The unit in a slot that is valid.
    #[inline]
    fn unit_at(&self, slot: u32) -> u32 {
        match (self.unit_in[slot as usize], &self.order) {
            (0, Some(order)) => order.unit(slot),
            (unit, _) => unit.wrapping_sub(1),
        }
    }

    /// The die of a slot.
    #[inline]
    pub fn die_of(&self, slot: u32) -> u32 {
        self.g.die_of_block(self.g.block_of(slot))
    }

    /// Whether the slot is in the stripe that is still being filled in the buffer.
    #[inline]
    pub fn is_open(&self, slot: u32) -> bool {
        let host = &self.dies[self.current as usize].host;
        // A stream that was never opened has no pending units.
        let end = host.block.wrapping_mul(self.g.block_units).wrapping_add(host.next);
        slot.wrapping_sub(end.wrapping_sub(host.pending)) < host.pending
    }

    /// Number of units that were written but not yet programmed.
    pub fn pending(&self) -> u32 {
        self.dies[self.current as usize].host.pending
    }

    /// Writes a unit; returns what was programmed if this unit completed a stripe.
    #[inline]
    pub fn write(&mut self, unit: u32, flash: &mut impl Operations) -> Programmed {
        if let Some(old) = self.locate(unit) {
            if self.is_open(old) {
                return None;
            }
            self.invalidate(old);
        }
        if self.dies[self.current as usize].host.pending == 0 {
            self.begin_stripe(unit, flash);
        }
        let current = self.current as usize;
        let die = &mut self.dies[current];
        let slot = die.host.block * self.g.block_units + die.host.next;
        die.host.next += 1;
        die.host.pending += 1;
        die.valid += 1;
        self.live += 1;
        let stripe_full = self.g.begins_stripe(die.host.next);
        let block = die.host.block;
        self.place(unit, slot, block);
        stripe_full.then(|| self.end_stripe(flash))
    }

    #[inline]
    fn place(&mut self, unit: u32, slot: u32, block: u32) {
        self.slot_of[unit as usize] = slot + 1;
        self.unit_in[slot as usize] = unit + 1;
        self.valid[slot as usize / 64] |= 1 << (slot % 64);
        self.blocks.add_valid(block, 1);
    }

    #[inline]
    fn invalidate(&mut self, slot: u32) {
        debug_assert!(self.valid[slot as usize / 64] >> (slot % 64) & 1 == 1, "slot {slot} was valid");
        self.valid[slot as usize / 64] &= !(1 << (slot % 64));
        let block = self.g.block_of(slot);
        self.blocks.remove_valid(block, 1);
        self.dies[self.g.die_of_block(block) as usize].valid -= 1;
        self.live -= 1;
    }

    /// Marks the unit as no longer needed.
    pub fn discard(&mut self, unit: u32) {
        if let Some(slot) = self.locate(unit) {
            self.slot_of[unit as usize] = if self.order.is_some() { NONE } else { 0 };
            self.invalidate(slot);
        }
    }

    /// Programs all pending units; the rest of their last page stays empty.
    pub fn flush(&mut self, flash: &mut impl Operations) -> Programmed {
        let host = &mut self.dies[self.current as usize].host;
        if host.pending == 0 {
            return None;
        }
        host.next = host.next.next_multiple_of(self.g.page_units);
        Some(self.end_stripe(flash))
    }

    fn end_stripe(&mut self, flash: &mut impl Operations) -> (u64, u32) {
        let host = &mut self.dies[self.current as usize].host;
        let units = std::mem::take(&mut host.pending);
        if host.next == self.g.block_units {
            self.blocks.close(host.block, self.clock);
        }
        (flash.program(self.current, units), units)
    }

    /// Chooses the die of the next stripe: the next in turn that has free space, and not much less than the others. By
    /// design or by chance, the host overwrites the data of one die more often than that of another, and a die with
    /// little free space would clean far more per stripe than the drive does on average. Chance hardly matters on a
    /// whole drive, but it does on a small part of one.
    fn begin_stripe(&mut self, unit: u32, flash: &mut impl Operations) {
        self.clock = self.clock.wrapping_add(1);
        let begun = &self.dies[self.current as usize].host;
        if !self.g.begins_stripe(begun.next) {
            return; // A flush ended within this stripe, whose other pages are next.
        }
        match self.placement {
            Placement::Turns => self.take_turn(),
            Placement::Address => self.current = unit % self.g.dies,
        }
        self.make_room(flash);
    }

    fn take_turn(&mut self) {
        let room = (self.g.blocks_per_die - 2) * self.g.block_units - self.g.stripe_units;
        // The least full die is not fuller than the mean, so a die is always found.
        let mean = self.live.div_ceil(self.g.dies);
        let room = room.min(mean + room.saturating_sub(mean) / UNEVEN);
        loop {
            self.current = if self.current + 1 == self.g.dies { 0 } else { self.current + 1 };
            if self.dies[self.current as usize].valid <= room {
                break;
            }
        }
    }

    /// Makes sure that the die in turn has an open block, and cleans for it.
    fn make_room(&mut self, flash: &mut impl Operations) {
        let at = self.current;
        if self.dies[at as usize].host.next == self.g.block_units {
            while self.dies[at as usize].free.len() <= 1 {
                // Only the block reserved for collection itself is left, so the host waits.
                self.collect_block(at, flash);
            }
            let block = self.take_free(at, false);
            self.dies[at as usize].host = Stream { block, next: 0, pending: 0 };
            self.want_background();
        }
        if self.at_once {
            while self.dies[at as usize].free.len() <= self.gc_low as usize && self.has_victim(at) {
                self.collect_block(at, flash);
            }
        } else if self.dies[at as usize].free.len() <= self.gc_low as usize {
            self.collect_share(at, flash);
        }
    }

    /// Whether any block of a die has something to gain.
    fn has_victim(&self, at: u32) -> bool {
        let gains = |block| self.blocks.state(block) == State::Full && self.blocks.valid(block) < self.g.block_units;
        self.dies[at as usize].victim.is_some() || self.blocks_of(at).any(gains)
    }

    /// Dynamic wear-levelling: takes the least worn free block, or for cold data the most worn one.
    fn take_free(&mut self, at: u32, most_worn: bool) -> u32 {
        let die = &mut self.dies[at as usize];
        let erased = |block: &u32| self.blocks.erase_count(*block);
        let chosen = if most_worn {
            die.free.iter().enumerate().max_by_key(|(_, block)| erased(block)).map(|(index, _)| index)
        } else {
            // Fresh flash has thousands of free blocks, so the search stops at the first block with the least erase
            // count.
            let least = die.least_erased;
            die.free.iter().rposition(|block| erased(block) == least).or_else(|| {
                let (index, block) = die.free.iter().enumerate().rev().min_by_key(|(_, block)| erased(block))?;
                die.least_erased = erased(block);
                Some(index)
            })
        };
        let index = chosen.expect("a free block is held back for this");
        let block = die.free.swap_remove(index);
        self.blocks.open(block);
        block
    }

    /// Moves units in proportion to one stripe of the host, so that a victim is empty by the time the host has written
    /// as much as erasing it gains.
    fn collect_share(&mut self, at: u32, flash: &mut impl Operations) {
        let mut left = None;
        while self.dies[at as usize].free.len() <= self.gc_low as usize {
            let chosen = self.dies[at as usize].victim;
            let Some(mut victim) = chosen.or_else(|| self.choose_victim(at, true, flash.now())) else { return };
            let moves = left.unwrap_or_else(|| {
                victim.debt += u64::from(self.g.stripe_units) * victim.cost;
                let moves = victim.debt / victim.gain.max(1);
                victim.debt -= moves * victim.gain;
                moves
            });
            self.dies[at as usize].victim = Some(victim);
            let rest = self.empty(at, moves, flash);
            if rest == 0 {
                return;
            }
            left = Some(rest);
        }
    }

    /// Empties and erases one block.
    fn collect_block(&mut self, at: u32, flash: &mut impl Operations) {
        if self.dies[at as usize].victim.is_none() {
            // Space is needed now, so wear-levelling waits.
            let victim =
                self.choose_victim(at, false, flash.now()).expect("a die with room has a block that is not all valid");
            self.dies[at as usize].victim = Some(victim);
        }
        self.empty(at, u64::MAX, flash);
    }

    fn blocks_of(&self, die: u32) -> Range<u32> {
        let first = die * self.g.blocks_per_die;
        first..first + self.g.blocks_per_die
    }

    fn choose_victim(&mut self, at: u32, level_wear: bool, now: u64) -> Option<Victim> {
        self.leveller.observe(now, self.clock);
        let cold = if level_wear { self.worth_levelling(at) } else { None };
        if let Some(block) = cold.filter(|_| self.leveller.may(at)) {
            return Some(self.chosen(block, true));
        }
        let range = self.blocks_of(at);
        let choices = (self.choices.0, &mut self.choices.1);
        let block = self.blocks.victim(range, self.collection, self.g.block_units, self.clock, choices)?;
        Some(self.chosen(block, false))
    }

    fn chosen(&mut self, block: u32, cold: bool) -> Victim {
        if cold {
            self.blocks.set_cold(block);
        }
        self.blocks.set_state(block, State::Victim);
        let cost = u64::from(self.blocks.valid(block));
        let gain = u64::from(self.g.block_units) - cost;
        Victim { block, cursor: 0, cost, gain, debt: 0 }
    }

    /// Does the same as [`PageMap::move_valid`], and adds to the counts of wear-levelling.
    fn empty(&mut self, at: u32, moves: u64, flash: &mut impl Operations) -> u64 {
        let cold = self.dies[at as usize].victim.filter(|victim| self.blocks.is_cold(victim.block));
        let Some(victim) = cold else { return self.move_valid(at, moves, flash) };
        let (begin, valid) = (flash.free_at(at).max(flash.now()), self.blocks.valid(victim.block));
        let rest = self.move_valid(at, moves, flash);
        let erased = self.dies[at as usize].victim.is_none();
        let moved = valid - if erased { 0 } else { self.blocks.valid(victim.block) };
        self.leveller.moved(moved, flash.free_at(at).saturating_sub(begin), erased);
        rest
    }

    /// Moves up to `moves` valid units of the victim of a die, erases it when none are left, and returns the number of
    /// unused moves.
    fn move_valid(&mut self, at: u32, mut moves: u64, flash: &mut impl Operations) -> u64 {
        let Some(mut victim) = self.dies[at as usize].victim else { return moves };
        let base = victim.block * self.g.block_units;
        let mut left = self.blocks.valid(victim.block);
        while moves > 0 && left > 0 {
            let most = u64::from(left).min(moves).min(STEP as u64) as u32;
            victim.cursor = self.move_some(at, victim.block, base + victim.cursor, most, flash) - base;
            moves -= u64::from(most);
            left -= most;
        }
        if left > 0 {
            self.dies[at as usize].victim = Some(victim);
            // The next step begins here. This block was filled long ago, so its list of units is not in the processor's
            // cache.
            for ahead in [0, UNITS_OF_LINE] {
                if let Some(units) = self.unit_in.get((base + victim.cursor + ahead) as usize) {
                    prefetch(units);
                }
            }
            return 0;
        }
        flash.erase(at);
        self.erased += 1;
        self.blocks.erase(victim.block);
        let die = &mut self.dies[at as usize];
        die.free.push(victim.block);
        die.least_erased = die.least_erased.min(self.blocks.erase_count(victim.block));
        die.victim = None;
        moves
    }

    /// Moves the next `count` valid units from this slot on, which must exist, and returns the slot after the last.
    fn move_some(&mut self, at: u32, victim: u32, from: u32, count: u32, flash: &mut impl Operations) -> u32 {
        let mut slots = [0; STEP];
        let mut units = [0; STEP];
        let (slots, units) = (&mut slots[..count as usize], &mut units[..count as usize]);
        let mut word = from as usize / 64;
        let mut bits = self.valid[word] & (u64::MAX << (from % 64));
        for (slot, unit) in slots.iter_mut().zip(units.iter_mut()) {
            while bits == 0 {
                word += 1;
                bits = self.valid[word];
            }
            *slot = (word * 64) as u32 + bits.trailing_zeros();
            bits &= bits - 1;
            *unit = self.unit_at(*slot);
            // The map's entries are scattered in memory, so all of them are prefetched before the first is used.
            prefetch(&self.slot_of[*unit as usize]);
        }
        let next = slots[count as usize - 1] + 1;
        mark(&mut self.valid, from..next, false);
        self.blocks.remove_valid(victim, count);
        let mut done = 0;
        while done < slots.len() {
            let stripe = self.g.stripe_of(slots[done]);
            let fetched = slots[done..].iter().take_while(|slot| self.g.stripe_of(**slot) == stripe).count();
            flash.fetch(at, fetched as u32);
            self.append_moved(at, victim, &units[done..done + fetched], flash);
            done += fetched;
        }
        next
    }

    /// Appends units that were read from a victim to the moved data.
    fn append_moved(&mut self, at: u32, victim: u32, mut units: &[u32], flash: &mut impl Operations) {
        let mut to = self.dies[at as usize].moved;
        while !units.is_empty() {
            if to.next == self.g.block_units {
                let worn = self.wear_gap != u32::MAX && self.blocks.is_cold(victim);
                to = Stream { block: self.take_free(at, worn), next: 0, pending: 0 };
            }
            let count = (units.len() as u32).min(self.g.stripe_units - to.pending);
            let (here, rest) = units.split_at(count as usize);
            units = rest;
            let first = to.block * self.g.block_units + to.next;
            for (target, &unit) in (first..).zip(here) {
                self.slot_of[unit as usize] = target + 1;
                self.unit_in[target as usize] = unit + 1;
                flash.moved(unit, target);
            }
            mark(&mut self.valid, first..first + count, true);
            self.blocks.add_valid(to.block, count);
            to.next += count;
            to.pending += count;
            if to.pending == self.g.stripe_units {
                to.pending = 0;
                if to.next == self.g.block_units {
                    self.blocks.close(to.block, self.clock);
                }
                flash.program_moved(at, self.g.stripe_units);
                self.moved += u64::from(self.g.stripe_units);
            }
        }
        self.dies[at as usize].moved = to;
    }

    /// Number of blocks of a die that a device in steady state fills with this many live units: all but those that
    /// cleaning keeps free and the two that are being filled.
    pub fn blocks_to_fill(&self, live: u32) -> u32 {
        (self.g.blocks_per_die - self.gc_low - 2).max(live.div_ceil(self.g.block_units))
    }

    /// Fills the next free block of a die, `valid` of its slots with live units and the others with dead ones.
    pub fn fill_block(&mut self, at: u32, valid: u32, mut unit: impl FnMut() -> u32, random: &mut Pcg64Mcg) {
        let block = self.take_free(at, false);
        let base = block * self.g.block_units;
        let mut left = valid;
        for offset in 0..self.g.block_units {
            if left > 0 && random.random_range(0..self.g.block_units - offset) < left {
                left -= 1;
                self.place(unit(), base + offset, block);
            }
        }
        self.dies[at as usize].valid += valid;
        self.live += valid;
        // Older blocks were closed earlier, at least one stripe of the host apart.
        self.clock = self.clock.wrapping_add(1);
        self.blocks.close(block, self.clock);
    }

    /// Whether the address of a unit decides on its die.
    pub fn by_address(&self) -> bool {
        self.placement == Placement::Address
    }

    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub fn fragmentation(&self) -> Fragmentation {
        self.blocks.fragmentation(self.g.block_units)
    }

    /// The cost of static wear-levelling; `None` if the device does none.
    pub fn levelling(&self) -> Option<Levelling> {
        (self.wear_gap != u32::MAX).then(|| self.leveller.counts())
    }

    /// Resets the statistics, except wear.
    pub fn reset_counts(&mut self) {
        self.leveller.reset_counts();
        (self.moved, self.erased, self.counted_from) = (0, 0, self.clock);
    }

    /// Restarts the count of wear at zero.
    pub fn forget_wear(&mut self) {
        self.blocks.forget_wear();
        self.dies.iter_mut().for_each(|die| die.least_erased = 0);
    }
}

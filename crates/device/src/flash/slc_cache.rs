//! The part of a client drive's flash that is written in single-level mode: fast until it is full, and folded into the
//! usual mode when there is time.
//!
//! It is separate from the map, which has no modes: it determines which programs are fast, how much must be folded, and
//! the cost of that. A cell in single-level mode stores only one of its `bits`, so the cache shrinks as the drive
//! fills, down to its own cells.

use peryton_units::{Bytes, Nanos};
use serde::Deserialize;

use super::parameters::Geometry;
use crate::BuildError;

/// The `[flash.slc_cache]` table of a profile.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SlcParameters {
    /// Size of the cache on an empty drive.
    pub size: Bytes,
    /// The part of it that remains even if the drive is full.
    #[serde(default)]
    pub fixed: Bytes,
    /// Bits that a cell of the cache stores in its usual mode.
    #[serde(default = "three")]
    pub bits: u32,
    /// Time to program one page of every plane of a die in single-level mode.
    pub program: Nanos,
    /// Program-erase cycles of a cell in single-level mode. Drives that use all of their TLC in this mode are rated for 91,000 (D7-P5810) and
    /// 109,500 (60 drive writes a day for five years: Pascari X200Z); makers of clients' drives state none.
    #[serde(default = "thirty_thousand")]
    pub cycles: u32,
}

fn three() -> u32 {
    3
}
fn thirty_thousand() -> u32 {
    30_000
}

impl SlcParameters {
    pub(super) fn check(&self, capacity: Bytes) -> Result<(), BuildError> {
        let range = |key, found: String, expected| Err(BuildError::Range { key, found, expected });
        if self.size == Bytes::ZERO || self.size > capacity {
            return range("slc_cache.size", self.size.to_string(), "above 0, at most the drive's capacity");
        }
        if self.fixed > self.size {
            return range("slc_cache.fixed", self.fixed.to_string(), "at most slc_cache.size");
        }
        if !(2..=8).contains(&self.bits) {
            return range("slc_cache.bits", self.bits.to_string(), "2 to 8");
        }
        if self.cycles == 0 {
            return range("slc_cache.cycles", "0".to_owned(), "1 or more");
        }
        if self.program == Nanos::ZERO || self.program > Nanos::from_s(1) {
            return range("slc_cache.program", self.program.to_string(), "above 0, at most 1s");
        }
        Ok(())
    }
}

/// The mode in which a stripe of the host is programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// In single-level mode.
    Cache,
    /// In the usual mode of the other cells.
    Direct,
    /// Not before a part of the cache has been folded.
    None,
}

/// The work of one step of folding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fold {
    /// Live units that are read and programmed.
    pub live: u32,
    /// Blocks that are empty afterwards and are erased.
    pub erases: u32,
}

/// The state of the cache; counts are in mapping units.
#[derive(Clone, Debug)]
pub(super) struct SlcCache {
    pub program: u64,
    /// What a cycle in single-level mode wears, of one in the usual mode.
    wear: f64,
    bits: u64,
    size: u64,
    fixed: u64,
    /// Capacity of all cells except the spare in their usual mode.
    cells: u64,
    block_units: u64,
    /// Live units on the drive, in either mode.
    held: u64,
    /// Units written in single-level mode and not folded, including overwritten ones.
    used: u64,
    /// The part of `used` that was not overwritten or discarded.
    live: u64,
    /// The set of these units.
    cached: Vec<u64>,
    /// Units of the stripe that is being filled.
    open: Vec<u32>,
    /// The next unit to fold; folding goes through the units in turn.
    hand: usize,
    /// Cells folded since the last erase, as units in their usual mode.
    freed: u64,
}

impl SlcCache {
    /// Makes the cache of a part of a drive, which has its share. `held` units are there already.
    pub fn new(p: &SlcParameters, g: &Geometry, share: f64, (held, cycles): (u64, u32)) -> SlcCache {
        let units = |bytes: Bytes| (bytes.0 as f64 * share / g.unit as f64) as u64;
        SlcCache {
            program: p.program.0,
            wear: f64::from(cycles) / f64::from(p.cycles),
            bits: u64::from(p.bits),
            size: units(p.size),
            fixed: units(p.fixed),
            cells: u64::from(g.units),
            block_units: u64::from(g.block_units),
            held,
            used: 0,
            live: 0,
            cached: vec![0; (g.units as usize).div_ceil(64)],
            open: Vec::with_capacity(2 * g.stripe_units as usize),
            hand: 0,
            freed: 0,
        }
    }

    /// Number of units in cells of the usual mode.
    fn usual(&self) -> u64 {
        self.held - self.live
    }

    /// The present capacity of the cache.
    fn limit(&self) -> u64 {
        let left = self.cells.saturating_sub(self.usual()) / self.bits;
        self.fixed + left.min(self.size - self.fixed)
    }

    /// The mode for the next `units` of the host.
    pub fn room(&self, units: u32) -> Room {
        let units = u64::from(units);
        if self.used + units <= self.limit() {
            Room::Cache
        } else if self.usual() + units + self.bits * self.used.saturating_sub(self.fixed) <= self.cells
            || self.used == 0
        {
            Room::Direct
        } else {
            Room::None
        }
    }

    /// Records that the host writes a unit, which existed before if `was`; [`SlcCache::programmed`] is called for its
    /// stripe.
    pub fn written(&mut self, unit: u32, was: bool) {
        self.forget(unit);
        self.held += u64::from(!was);
        self.open.push(unit);
    }

    /// Records that the open stripe was programmed, in the cache or not.
    pub fn programmed(&mut self, units: u32, in_cache: bool) {
        let open = std::mem::take(&mut self.open);
        if in_cache {
            self.used += u64::from(units);
            for &unit in &open {
                let (word, bit) = (unit as usize / 64, 1 << (unit % 64));
                self.live += u64::from(self.cached[word] & bit == 0);
                self.cached[word] |= bit;
            }
        }
        self.open = open;
        self.open.clear();
    }

    /// Removes a unit that is overwritten, or that cleaning has moved to cells of the usual mode.
    pub fn forget(&mut self, unit: u32) {
        let (word, bit) = (unit as usize / 64, 1 << (unit % 64));
        self.live -= u64::from(self.cached[word] & bit != 0);
        self.cached[word] &= !bit;
    }

    /// Records that a unit of the drive is discarded.
    pub fn discarded(&mut self, unit: u32) {
        if self.cached[unit as usize / 64] >> (unit % 64) & 1 == 1 {
            self.forget(unit);
        } else {
            self.open.retain(|&open| open != unit);
        }
        self.held -= 1;
    }

    /// Whether there are units to fold.
    pub fn wants_folding(&self) -> bool {
        self.used > 0
    }

    /// Removes one stripe of units from the cache, or all if there are fewer.
    pub fn fold(&mut self, stripe_units: u32) -> Fold {
        let live = self.live.min(u64::from(stripe_units));
        // Dead units leave with the live ones, distributed evenly over them.
        let gone = if self.live == 0 { self.used } else { (self.used * live).div_ceil(self.live).min(self.used) };
        let mut left = live;
        while left > 0 {
            let word = &mut self.cached[self.hand];
            while *word != 0 && left > 0 {
                *word &= *word - 1;
                left -= 1;
            }
            if *word == 0 {
                self.hand = if self.hand + 1 == self.cached.len() { 0 } else { self.hand + 1 };
            }
        }
        self.live -= live;
        self.used -= gone;
        self.freed += gone * self.bits;
        let erases = self.freed / self.block_units;
        self.freed -= erases * self.block_units;
        Fold { live: live as u32, erases: erases as u32 }
    }

    /// The part of `units` programmed in single-level mode, and of the `erases` of such blocks, that does not count as wear of the usual
    /// mode. Such units take `bits` times as many cells, and each cell wears little.
    pub fn spared(&self, units: u64, erases: u64) -> (i64, u64) {
        let worn = |count: u64, cells: f64| (count as f64 * cells * self.wear).round() as u64;
        (units as i64 - worn(units, self.bits as f64) as i64, erases.saturating_sub(worn(erases, 1.0)))
    }

    /// The size of the units that are not folded yet, in bytes.
    pub fn used(&self) -> u64 {
        self.used
    }
}

use std::ops::Range;

use super::{
    array::Operations,
    layer::TranslationLayer,
    open_stripe::{OpenStripe, Programmed},
    parameters::{FlashParameters, Geometry},
};

/// The layer that never copies: every unit has its own place, and one block is erased for each block of data written.
///
/// It is the lower bound on erases of any layer (Griffin, section 6.3), and the layer of media that are written in
/// place.
#[derive(Clone, Debug)]
pub(super) struct Ideal {
    g: Geometry,
    written: Vec<u64>,
    open: OpenStripe,
    /// Units written on each die since its last erase.
    since_erase: Vec<u32>,
    erases: Vec<u32>,
}

impl TranslationLayer for Ideal {
    fn new(_: &FlashParameters, g: Geometry) -> Ideal {
        Ideal {
            g,
            written: vec![0; (g.units as usize).div_ceil(64)],
            open: OpenStripe::default(),
            since_erase: vec![0; g.dies as usize],
            erases: vec![0; g.dies as usize],
        }
    }

    #[inline]
    fn locate(&self, unit: u32) -> Option<u32> {
        (self.written[unit as usize / 64] >> (unit % 64) & 1 == 1).then_some(unit)
    }

    #[inline]
    fn is_open(&self, slot: u32) -> bool {
        self.open.holds(slot)
    }

    #[inline]
    fn die_of(&self, slot: u32) -> u32 {
        slot / self.g.stripe_units % self.g.dies
    }

    fn pending(&self) -> u32 {
        self.open.pending()
    }

    #[inline]
    fn write(&mut self, unit: u32, flash: &mut impl Operations) -> Programmed {
        self.written[unit as usize / 64] |= 1 << (unit % 64);
        if self.open.holds(unit) {
            return None;
        }
        let die = self.die_of(unit);
        self.since_erase[die as usize] += 1;
        if self.since_erase[die as usize] == self.g.block_units {
            self.since_erase[die as usize] = 0;
            self.erases[die as usize] += 1;
            flash.erase(die);
        }
        self.open.write(die, unit, self.g.stripe_units, flash)
    }

    fn flush(&mut self, flash: &mut impl Operations) -> Programmed {
        self.open.flush(flash)
    }

    fn discard(&mut self, units: Range<u32>, _: &mut impl Operations) {
        for unit in units {
            self.written[unit as usize / 64] &= !(1 << (unit % 64));
        }
    }

    /// Erase counts of the least and the most worn block, if writes spread evenly over the blocks of a die.
    fn wear(&self) -> (u32, u32) {
        let blocks = self.g.blocks_per_die;
        let least = self.erases.iter().map(|count| count / blocks).min().unwrap_or(0);
        let most = self.erases.iter().map(|count| count.div_ceil(blocks)).max().unwrap_or(0);
        (least, most)
    }

    fn forget_wear(&mut self) {
        self.erases.fill(0);
    }
}

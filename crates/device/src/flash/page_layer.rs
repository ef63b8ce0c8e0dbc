//! The page map as a translation layer.

use std::ops::Range;

use rand_pcg::Pcg64Mcg;

use super::{
    array::Operations,
    counts::FtlStats,
    layer::TranslationLayer,
    open_stripe::Programmed,
    page_map::{Cleaning, PageMap},
    parameters::{FlashParameters, Geometry, Precondition},
    precondition::overwritten,
};

impl TranslationLayer for PageMap {
    fn new(p: &FlashParameters, g: Geometry) -> PageMap {
        PageMap::new(p, g)
    }

    #[inline]
    fn locate(&self, unit: u32) -> Option<u32> {
        PageMap::locate(self, unit)
    }

    #[inline]
    fn is_open(&self, slot: u32) -> bool {
        PageMap::is_open(self, slot)
    }

    #[inline]
    fn die_of(&self, slot: u32) -> u32 {
        PageMap::die_of(self, slot)
    }

    #[inline]
    fn pending(&self) -> u32 {
        PageMap::pending(self)
    }

    #[inline]
    fn write(&mut self, unit: u32, flash: &mut impl Operations) -> Programmed {
        PageMap::write(self, unit, flash)
    }

    fn flush(&mut self, flash: &mut impl Operations) -> Programmed {
        PageMap::flush(self, flash)
    }

    fn discard(&mut self, units: Range<u32>, _: &mut impl Operations) {
        units.for_each(|unit| PageMap::discard(self, unit));
    }

    fn wear(&self) -> (u32, u32) {
        self.blocks().wear()
    }

    fn forget_wear(&mut self) {
        PageMap::forget_wear(self)
    }

    #[inline]
    fn background_wanted(&self) -> bool {
        PageMap::background_wanted(self)
    }

    fn wants_background(&self, die: u32) -> bool {
        PageMap::wants_background(self, die)
    }

    fn collect_in_background(&mut self, die: u32, ahead: u32, flash: &mut impl Operations) -> bool {
        PageMap::collect_in_background(self, die, ahead, flash)
    }

    fn cleaning(&self) -> Cleaning {
        PageMap::cleaning(self)
    }

    fn stats(&self) -> FtlStats {
        let fragmentation = Some(self.fragmentation());
        FtlStats { fragmentation, levelling: self.levelling(), ..FtlStats::default() }
    }

    fn reset_counts(&mut self) {
        PageMap::reset_counts(self)
    }

    fn precondition(&mut self, state: Precondition, g: &Geometry, random: &mut Pcg64Mcg) {
        match state {
            Precondition::Random => overwritten(self, g, self.by_address(), random),
            Precondition::Sequential | Precondition::Fresh => self.fill_in_order(),
        }
    }

    fn check(&self) {
        PageMap::check(self)
    }
}

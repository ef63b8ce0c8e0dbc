//! What a translation layer is, and which there are. `docs/adding-a-translation-layer.md` shows how to add one.

use std::ops::Range;

use rand_pcg::Pcg64Mcg;

use super::{
    array::{Operations, Untimed},
    block_map::BlockMap,
    cached_map::CachedMap,
    counts::FtlStats,
    ideal::Ideal,
    open_stripe::Programmed,
    page_map::PageMap,
    parameters::{FlashParameters, Geometry, Mapping, Precondition},
};

/// A translation layer: it decides where units of the address space lie on the flash, and what has to be read, programmed
/// and erased for that. It keeps no data and no time; it asks [`Operations`] for what costs time.
///
/// A unit is what one entry of the map covers. A slot is the place of a unit; `stripe_units` slots in a row are a stripe,
/// which one program fills, and which lies on one die.
pub(super) trait TranslationLayer: Sized {
    /// The layer of an empty device.
    fn new(p: &FlashParameters, g: Geometry) -> Self;

    /// Where a unit is: a slot of the flash, or one of a stripe that is still in RAM (`is_open`); none if it was
    /// never written or was discarded.
    fn locate(&self, unit: u32) -> Option<u32>;

    /// Whether a slot belongs to a stripe that is not given to the flash yet.
    fn is_open(&self, slot: u32) -> bool;

    /// The die of a slot.
    fn die_of(&self, slot: u32) -> u32;

    /// Units written but not yet given to the flash.
    fn pending(&self) -> u32;

    /// Writes a unit; returns what was programmed because of it. Whatever the layer has to do first (cleaning,
    /// merging) it asks of `flash` here.
    fn write(&mut self, unit: u32, flash: &mut impl Operations) -> Programmed;

    /// Programs what has been begun.
    fn flush(&mut self, flash: &mut impl Operations) -> Programmed;

    /// The units are no longer needed.
    fn discard(&mut self, units: Range<u32>, flash: &mut impl Operations);

    /// Erase counts of the least and the most worn block.
    fn wear(&self) -> (u32, u32);

    /// Wear counts from here on.
    fn forget_wear(&mut self);

    /// When the entries of `units` units from `first` on are known, if asked for at `at`: later than `at` only if the
    /// map is not in RAM as a whole.
    #[inline]
    fn translate(&mut self, _first: u32, _units: u32, at: u64, _flash: &mut impl Operations) -> u64 {
        at
    }

    /// Whether idle time could be put to use.
    #[inline]
    fn background_wanted(&self) -> bool {
        false
    }

    /// Whether it could on this die.
    fn wants_background(&self, _die: u32) -> bool {
        false
    }

    /// A step of work in the idle time of a die; returns whether it wants another.
    fn collect_in_background(&mut self, _die: u32, _flash: &mut impl Operations) -> bool {
        false
    }

    /// Blocks beyond those of the geometry.
    fn extra_blocks(&self) -> u32 {
        0
    }

    /// What the layer has done of its own, and the state that it is in.
    fn stats(&self) -> FtlStats {
        FtlStats::default()
    }

    /// A new account; wear stays.
    fn reset_counts(&mut self) {}

    /// Brings the layer into the state of a device in use, without time passing; never called for a fresh device.
    fn precondition(&mut self, _state: Precondition, g: &Geometry, _random: &mut Pcg64Mcg) {
        (0..g.units).for_each(|unit| {
            self.write(unit, &mut Untimed);
        });
    }

    /// Panics if a unit is lost, doubled, or counted wrong.
    fn check(&self) {}
}

macro_rules! layers {
    ($($layer:ident($map:ty) = $($mapping:ident)|+;)*) => {
        /// The translation layers.
        #[derive(Clone, Debug)]
        pub(super) enum Layer {
            $($layer(Box<$map>),)*
        }

        impl Layer {
            pub fn new(p: &FlashParameters, g: Geometry) -> Layer {
                match p.ftl {
                    $($(Mapping::$mapping)|+ => Layer::$layer(Box::new(TranslationLayer::new(p, g))),)*
                }
            }

            /// Where the flash holds a unit; none if it needs no access: never written, or still in RAM.
            #[inline]
            pub fn locate(&self, unit: u32) -> Option<u32> {
                match self {
                    $(Layer::$layer(map) => {
                        let slot = TranslationLayer::locate(&**map, unit);
                        slot.filter(|&slot| !TranslationLayer::is_open(&**map, slot))
                    })*
                }
            }

            /// Whether the unit was written and not discarded since.
            pub fn holds(&self, unit: u32) -> bool {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::locate(&**map, unit).is_some(),)*
                }
            }

            #[inline]
            pub fn die_of(&self, slot: u32) -> u32 {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::die_of(&**map, slot),)*
                }
            }

            #[inline]
            pub fn pending(&self) -> u32 {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::pending(&**map),)*
                }
            }

            #[inline]
            pub fn write(&mut self, unit: u32, flash: &mut impl Operations) -> Programmed {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::write(&mut **map, unit, flash),)*
                }
            }

            pub fn flush(&mut self, flash: &mut impl Operations) -> Programmed {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::flush(&mut **map, flash),)*
                }
            }

            pub fn discard(&mut self, units: Range<u32>, flash: &mut impl Operations) {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::discard(&mut **map, units, flash),)*
                }
            }

            pub fn wear(&self) -> (u32, u32) {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::wear(&**map),)*
                }
            }

            pub fn forget_wear(&mut self) {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::forget_wear(&mut **map),)*
                }
            }

            #[inline]
            pub fn translate(&mut self, first: u32, units: u32, at: u64, flash: &mut impl Operations) -> u64 {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::translate(&mut **map, first, units, at, flash),)*
                }
            }

            #[inline]
            pub fn background_wanted(&self) -> bool {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::background_wanted(&**map),)*
                }
            }

            pub fn wants_background(&self, die: u32) -> bool {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::wants_background(&**map, die),)*
                }
            }

            pub fn collect_in_background(&mut self, die: u32, flash: &mut impl Operations) -> bool {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::collect_in_background(&mut **map, die, flash),)*
                }
            }

            pub fn extra_blocks(&self) -> u32 {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::extra_blocks(&**map),)*
                }
            }

            pub fn stats(&self) -> FtlStats {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::stats(&**map),)*
                }
            }

            pub fn reset_counts(&mut self) {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::reset_counts(&mut **map),)*
                }
            }

            pub fn precondition(&mut self, state: Precondition, g: &Geometry, random: &mut Pcg64Mcg) {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::precondition(&mut **map, state, g, random),)*
                }
            }

            pub fn check(&self) {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::check(&**map),)*
                }
            }
        }
    };
}

// The layer, and the values of `ftl` in a profile that ask for it.
layers! {
    Page(PageMap) = Page;
    Cached(CachedMap) = DemandCached;
    Ideal(Ideal) = Ideal;
    Block(BlockMap) = BlockMapped | LogBlock;
}

//! The trait of a translation layer, and the list of layers. `docs/extending.md` shows how to add one.

use std::ops::Range;

use rand_pcg::Pcg64Mcg;

use super::{
    array::{Operations, Untimed},
    block_map::BlockMap,
    cached_map::CachedMap,
    counts::FtlStats,
    fast_map::FastMap,
    ideal::Ideal,
    open_stripe::Programmed,
    page_map::{Cleaning, PageMap},
    parameters::{FlashParameters, Geometry, Mapping, Precondition},
};

/// A translation layer: it decides where units of the address space are placed on the flash, and which reads, programs
/// and erases that requires. It keeps neither data nor time; operations that take time are requests to [`Operations`].
///
/// A unit is the data of one map entry. A slot is the place of a unit; `stripe_units` consecutive slots form a stripe,
/// which is on one die and filled by one program operation.
pub(super) trait TranslationLayer: Sized {
    /// The layer of an empty device.
    fn new(p: &FlashParameters, g: Geometry) -> Self;

    /// The slot of a unit, on the flash or in a stripe that is still in RAM (`is_open`); `None` if the unit was never
    /// written or was discarded.
    fn locate(&self, unit: u32) -> Option<u32>;

    /// Whether a slot belongs to a stripe that is still in RAM.
    fn is_open(&self, slot: u32) -> bool;

    /// The die of a slot.
    fn die_of(&self, slot: u32) -> u32;

    /// Number of units that were written but not yet programmed.
    fn pending(&self) -> u32;

    /// Writes a unit; returns the resulting program operations. Work that the layer has to do first (cleaning, merging)
    /// is requested from `flash` here.
    fn write(&mut self, unit: u32, flash: &mut impl Operations) -> Programmed;

    /// Programs all units that are still in RAM.
    fn flush(&mut self, flash: &mut impl Operations) -> Programmed;

    /// The units are no longer needed.
    fn discard(&mut self, units: Range<u32>, flash: &mut impl Operations);

    /// Erase counts of the least and the most worn block.
    fn wear(&self) -> (u32, u32);

    /// Restarts the count of wear at zero.
    fn forget_wear(&mut self);

    /// The time when the entries of `units` units from `first` on are known, for a request at `at`: later than `at`
    /// only if part of the map is not in RAM. `continues`: they belong to the command of the last call, in ascending order, so that what
    /// was read of the map for that is at hand.
    #[inline]
    fn translate(&mut self, _first: u32, _units: u32, _continues: bool, at: u64, _flash: &mut impl Operations) -> u64 {
        at
    }

    /// Whether the layer has work for idle time.
    #[inline]
    fn background_wanted(&self) -> bool {
        false
    }

    /// Whether the layer has work for idle time of this die.
    fn wants_background(&self, _die: u32) -> bool {
        false
    }

    /// What its cleaning has done since counts were reset, if the layer works in idle time.
    fn cleaning(&self) -> Cleaning {
        Cleaning::default()
    }

    /// Does a step of work in the idle time of a die; returns whether another is wanted. `ahead`: free blocks to provide beside those that the
    /// die needs.
    fn collect_in_background(&mut self, _die: u32, _ahead: u32, _flash: &mut impl Operations) -> bool {
        false
    }

    /// Number of blocks in addition to those of the geometry.
    fn extra_blocks(&self) -> u32 {
        0
    }

    /// The counts of the layer's own work, and its state.
    fn stats(&self) -> FtlStats {
        FtlStats::default()
    }

    /// Resets the counts, except wear.
    fn reset_counts(&mut self) {}

    /// Brings the layer into the state of a used device, in no time; never called for a fresh device.
    fn precondition(&mut self, _state: Precondition, g: &Geometry, _random: &mut Pcg64Mcg) {
        (0..g.units).for_each(|unit| {
            self.write(unit, &mut Untimed);
        });
    }

    /// Panics if a unit is lost, duplicated, or counted wrong.
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

            /// The slot of a unit on the flash; `None` if a read needs no access, because the unit was never written or
            /// is still in RAM.
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
            pub fn translate(
                &mut self,
                first: u32,
                units: u32,
                continues: bool,
                at: u64,
                flash: &mut impl Operations,
            ) -> u64 {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::translate(&mut **map, first, units, continues, at, flash),)*
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

            pub fn collect_in_background(&mut self, die: u32, ahead: u32, flash: &mut impl Operations) -> bool {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::collect_in_background(&mut **map, die, ahead, flash),)*
                }
            }

            pub fn cleaning(&self) -> Cleaning {
                match self {
                    $(Layer::$layer(map) => TranslationLayer::cleaning(&**map),)*
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

// Each layer, with the values of `ftl` in a profile that select it.
layers! {
    Page(PageMap) = Page;
    Cached(CachedMap) = DemandCached;
    Ideal(Ideal) = Ideal;
    Block(BlockMap) = BlockMapped | LogBlock;
    Fast(FastMap) = SharedLog;
}

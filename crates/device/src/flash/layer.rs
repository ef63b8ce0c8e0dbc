use std::ops::Range;

use super::{
    array::Operations,
    block_map::BlockMap,
    cached_map::CachedMap,
    counts::FtlStats,
    ideal::Ideal,
    open_stripe::Programmed,
    page_map::PageMap,
    parameters::{Geometry, Mapping, Parameters},
};

/// The translation layers.
#[derive(Clone, Debug)]
pub(super) enum Layer {
    Page(Box<PageMap>),
    Cached(Box<CachedMap>),
    Ideal(Box<Ideal>),
    Block(Box<BlockMap>),
}

/// What can be asked of all alike; of a demand-cached map, the one within answers.
macro_rules! each {
    ($layer:expr, $map:ident => $body:expr) => {
        match $layer {
            Layer::Page($map) => $body,
            Layer::Cached(cached) => {
                let $map = cached.map();
                $body
            }
            Layer::Ideal($map) => $body,
            Layer::Block($map) => $body,
        }
    };
}
macro_rules! each_mut {
    ($layer:expr, $map:ident => $body:expr) => {
        match $layer {
            Layer::Page($map) => $body,
            Layer::Cached($map) => $body,
            Layer::Ideal($map) => $body,
            Layer::Block($map) => $body,
        }
    };
}

impl Layer {
    pub fn new(p: &Parameters, g: Geometry) -> Layer {
        match p.ftl {
            Mapping::Page => Layer::Page(Box::new(PageMap::new(p, g))),
            Mapping::DemandCached => Layer::Cached(Box::new(CachedMap::new(p, g))),
            Mapping::Ideal => Layer::Ideal(Box::new(Ideal::new(g))),
            Mapping::BlockMapped | Mapping::LogBlock => Layer::Block(Box::new(BlockMap::new(p, g))),
        }
    }

    /// Where the flash holds a unit; none if it needs no access: never written, or still in RAM.
    #[inline]
    pub fn locate(&self, unit: u32) -> Option<u32> {
        each!(self, map => map.locate(unit).filter(|&slot| !map.is_open(slot)))
    }

    /// When the entries of `units` units from `first` on are known, if asked for at `at`.
    #[inline]
    pub fn translate(&mut self, first: u32, units: u32, at: u64, flash: &mut impl Operations) -> u64 {
        match self {
            Layer::Cached(map) => map.translate(first, units, at, flash),
            _ => at,
        }
    }

    /// Whether the unit was written and not discarded since.
    pub fn holds(&self, unit: u32) -> bool {
        each!(self, map => map.locate(unit).is_some())
    }

    /// The die of a slot.
    #[inline]
    pub fn die_of(&self, slot: u32) -> u32 {
        each!(self, map => map.die_of(slot))
    }

    /// Units written but not yet given to the flash.
    #[inline]
    pub fn pending(&self) -> u32 {
        each!(self, map => map.pending())
    }

    /// Writes a unit; returns what was programmed because of it.
    #[inline]
    pub fn write(&mut self, unit: u32, flash: &mut impl Operations) -> Programmed {
        each_mut!(self, map => map.write(unit, flash))
    }

    /// Programs what has been begun.
    pub fn flush(&mut self, flash: &mut impl Operations) -> Programmed {
        each_mut!(self, map => map.flush(flash))
    }

    /// The units are no longer needed.
    pub fn discard(&mut self, units: Range<u32>, flash: &mut impl Operations) {
        match self {
            Layer::Page(map) => units.for_each(|unit| map.discard(unit)),
            Layer::Cached(map) => map.discard(units, flash),
            Layer::Ideal(map) => units.for_each(|unit| map.discard(unit)),
            Layer::Block(map) => units.for_each(|unit| map.discard(unit)),
        }
    }

    /// Whether idle time could be put to use. The other layers merge only when they must.
    #[inline]
    pub fn background_wanted(&self) -> bool {
        match self {
            Layer::Page(map) => map.background_wanted(),
            Layer::Cached(map) => map.map().background_wanted(),
            Layer::Ideal(_) | Layer::Block(_) => false,
        }
    }

    /// Whether it could on this die.
    pub fn wants_background(&self, die: u32) -> bool {
        match self {
            Layer::Page(map) => map.wants_background(die),
            Layer::Cached(map) => map.map().wants_background(die),
            Layer::Ideal(_) | Layer::Block(_) => false,
        }
    }

    /// A step of work in the idle time of a die; returns whether it wants another.
    pub fn collect_in_background(&mut self, die: u32, flash: &mut impl Operations) -> bool {
        match self {
            Layer::Page(map) => map.collect_in_background(die, flash),
            Layer::Cached(map) => map.collect_in_background(die, flash),
            Layer::Ideal(_) | Layer::Block(_) => false,
        }
    }

    /// Erase counts of the least and the most worn block.
    pub fn wear(&self) -> (u32, u32) {
        match self {
            Layer::Page(map) => map.blocks().wear(),
            Layer::Cached(map) => map.wear(),
            Layer::Ideal(map) => map.wear(),
            Layer::Block(map) => map.blocks().wear(),
        }
    }

    /// Wear counts from here on.
    pub fn forget_wear(&mut self) {
        each_mut!(self, map => map.forget_wear());
    }

    /// Blocks beyond those of the geometry.
    pub fn extra_blocks(&self) -> u32 {
        if let Layer::Cached(map) = self { map.translation_blocks() } else { 0 }
    }

    /// What the layer has done of its own, and the state that it is in.
    pub fn stats(&self) -> FtlStats {
        let none = FtlStats::default();
        match self {
            Layer::Page(map) => {
                FtlStats { fragmentation: Some(map.fragmentation()), levelling: map.levelling(), ..none }
            }
            Layer::Cached(map) => FtlStats {
                fragmentation: Some(map.map().fragmentation()),
                levelling: map.map().levelling(),
                mapping: Some(map.counts()),
                ..none
            },
            Layer::Ideal(_) => none,
            Layer::Block(map) => {
                FtlStats { fragmentation: Some(map.fragmentation()), merges: Some(map.merges()), ..none }
            }
        }
    }

    /// A new account; wear stays.
    pub fn reset_counts(&mut self) {
        each_mut!(self, map => map.reset_counts());
    }

    /// Panics if a unit is lost, doubled, or counted wrong.
    pub fn check(&self) {
        match self {
            Layer::Page(map) => map.check(),
            Layer::Cached(map) => map.check(),
            Layer::Ideal(_) => {}
            Layer::Block(map) => map.check(),
        }
    }
}

use super::{
    array::Operations,
    page_map::PageMap,
    parameters::{Geometry, Mapping, Parameters},
};

/// The translation layers. A demand-cached map will be one more of them.
#[derive(Clone, Debug)]
pub(super) enum Layer {
    Page(Box<PageMap>),
}

impl Layer {
    pub fn new(p: &Parameters, g: Geometry) -> Layer {
        match p.ftl {
            Mapping::Page => Layer::Page(Box::new(PageMap::new(p, g))),
        }
    }

    /// Where the flash holds a unit; none if it needs no access: never written, or still in RAM.
    #[inline]
    pub fn locate(&self, unit: u32) -> Option<u32> {
        match self {
            Layer::Page(map) => map.locate(unit).filter(|&slot| !map.is_open(slot)),
        }
    }

    #[inline]
    pub fn die_of(&self, slot: u32) -> u32 {
        match self {
            Layer::Page(map) => map.die_of(slot),
        }
    }

    /// Units written but not yet given to the flash.
    #[inline]
    pub fn pending(&self) -> u32 {
        match self {
            Layer::Page(map) => map.pending(),
        }
    }

    /// Writes a unit; returns the end of a program if this unit completed a stripe.
    #[inline]
    pub fn write(&mut self, unit: u32, flash: &mut impl Operations) -> Option<u64> {
        match self {
            Layer::Page(map) => map.write(unit, flash),
        }
    }

    pub fn flush(&mut self, flash: &mut impl Operations) -> Option<u64> {
        match self {
            Layer::Page(map) => map.flush(flash),
        }
    }

    pub fn discard(&mut self, unit: u32) {
        match self {
            Layer::Page(map) => map.discard(unit),
        }
    }

    #[inline]
    pub fn background_wanted(&self) -> bool {
        match self {
            Layer::Page(map) => map.background_wanted(),
        }
    }

    pub fn collect_in_background<F: Operations>(&mut self, die: u32, flash: &mut F, more: impl Fn(&F) -> bool) -> bool {
        match self {
            Layer::Page(map) => map.collect_in_background(die, flash, more),
        }
    }

    pub fn background_done(&mut self) {
        match self {
            Layer::Page(map) => map.background_done(),
        }
    }

    /// Erase counts of the least and the most worn block.
    pub fn wear(&self) -> (u32, u32) {
        match self {
            Layer::Page(map) => map.blocks().wear(),
        }
    }

    pub fn forget_wear(&mut self) {
        match self {
            Layer::Page(map) => map.forget_wear(),
        }
    }

    pub fn check(&self) {
        match self {
            Layer::Page(map) => map.check(),
        }
    }
}

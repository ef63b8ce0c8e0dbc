use super::{
    array::Operations,
    block_map::BlockMap,
    ideal::Ideal,
    open_stripe::Programmed,
    page_map::PageMap,
    parameters::{Geometry, Mapping, Parameters},
};

/// The translation layers. A demand-cached map will be one more of them.
#[derive(Clone, Debug)]
pub(super) enum Layer {
    Page(Box<PageMap>),
    Ideal(Box<Ideal>),
    Block(Box<BlockMap>),
}

macro_rules! each {
    ($layer:expr, $map:ident => $body:expr) => {
        match $layer {
            Layer::Page($map) => $body,
            Layer::Ideal($map) => $body,
            Layer::Block($map) => $body,
        }
    };
}

impl Layer {
    pub fn new(p: &Parameters, g: Geometry) -> Layer {
        match p.ftl {
            Mapping::Page => Layer::Page(Box::new(PageMap::new(p, g))),
            Mapping::Ideal => Layer::Ideal(Box::new(Ideal::new(g))),
            Mapping::BlockMapped | Mapping::LogBlock => Layer::Block(Box::new(BlockMap::new(p, g))),
        }
    }

    /// Where the flash holds a unit; none if it needs no access: never written, or still in RAM.
    #[inline]
    pub fn locate(&self, unit: u32) -> Option<u32> {
        each!(self, map => map.locate(unit).filter(|&slot| !map.is_open(slot)))
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
        each!(self, map => map.write(unit, flash))
    }

    /// Programs what has been begun.
    pub fn flush(&mut self, flash: &mut impl Operations) -> Programmed {
        each!(self, map => map.flush(flash))
    }

    /// The unit is no longer needed.
    pub fn discard(&mut self, unit: u32) {
        each!(self, map => map.discard(unit));
    }

    /// Whether idle time could be put to use. The other layers merge only when they must.
    #[inline]
    pub fn background_wanted(&self) -> bool {
        matches!(self, Layer::Page(map) if map.background_wanted())
    }

    /// Idle time of a die, for as long as there is `more`; returns whether it has done all there is to do.
    pub fn collect_in_background<F: Operations>(&mut self, die: u32, flash: &mut F, more: impl Fn(&F) -> bool) -> bool {
        match self {
            Layer::Page(map) => map.collect_in_background(die, flash, more),
            Layer::Ideal(_) | Layer::Block(_) => true,
        }
    }

    /// All dies have done all there is to do.
    pub fn background_done(&mut self) {
        if let Layer::Page(map) = self {
            map.background_done();
        }
    }

    /// Erase counts of the least and the most worn block.
    pub fn wear(&self) -> (u32, u32) {
        match self {
            Layer::Page(map) => map.blocks().wear(),
            Layer::Ideal(map) => map.wear(),
            Layer::Block(map) => map.blocks().wear(),
        }
    }

    /// Wear counts from here on.
    pub fn forget_wear(&mut self) {
        each!(self, map => map.forget_wear());
    }

    /// Panics if a unit is lost, doubled, or counted wrong.
    pub fn check(&self) {
        match self {
            Layer::Page(map) => map.check(),
            Layer::Ideal(_) => {}
            Layer::Block(map) => map.check(),
        }
    }
}

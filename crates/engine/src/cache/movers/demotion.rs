//! Demotions (tiering) move an extent from the fast device to the slow one.

use peryton_units::Nanos;

use crate::{
    api::command::{Cause, Commands},
    cache::drive::CacheDrive,
    cache::map::extent::Place,
    cache::movers::table::{Kind, Phase},
    cache::step::CacheIo,
};

impl CacheDrive {
    pub(in crate::cache) fn start_demotion(&mut self, io: &mut CacheIo, extent: u32, to: Place, out: &mut Commands) {
        let from = self.current_place(extent);
        let index = self.start(Kind::Demotion, Phase::Reading, extent, Some(to), None);
        self.move_read(io, index, from, Cause::Demotion, out);
    }

    pub(in crate::cache) fn demoted(&mut self, io: &mut CacheIo, now: Nanos, index: u32, out: &mut Commands) {
        let row = &self.moves[index];
        let (extent, to) = (row.extent, row.to.expect("a demotion has a destination"));
        io.stats.moves.demotions += 1;
        self.settle(io, now, extent, to);
        self.end(io, now, index, out);
    }
}

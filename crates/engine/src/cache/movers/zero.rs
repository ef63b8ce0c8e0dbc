//! Zeroing: a reused place must not expose an earlier tenant's data.

use peryton_units::{Bytes, Nanos};

use crate::{
    api::command::Commands,
    api::error::RequestError,
    cache::access::{Fragment, Release},
    cache::drive::CacheDrive,
    cache::map::extent::Place,
    cache::movers::table::{Kind, Phase},
    cache::step::{CacheIo, CacheStep},
};

impl CacheDrive {
    pub(in crate::cache) fn start_zero(
        &mut self,
        io: &mut CacheIo,
        fragment: Fragment,
        place: Place,
        out: &mut Commands,
    ) {
        let index = self.start(Kind::Zero, Phase::Writing, fragment.extent, Some(place), None);
        self.moves[index].waiters.push(fragment);
        self.moves[index].pending = 1;
        io.zero(self.layout.at(place), Bytes(self.layout.extent_bytes), CacheStep::Move { index }, out);
    }

    pub(in crate::cache) fn zeroed(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        index: u32,
        failed: bool,
        out: &mut Commands,
    ) {
        let row = &mut self.moves[index];
        let (extent, to) = (row.extent, row.to.expect("a place to zero"));
        if failed {
            // With a device gone, the accesses may be routed to another place.
            let waiters = if self.gone.any() { Vec::new() } else { std::mem::take(&mut row.waiters) };
            for fragment in waiters {
                io.part_done(fragment.request, Err(RequestError::Device), out);
            }
            match self.layout.fast_slot(to) {
                Some(slot) => self.release_slot(slot, Release::NeverUsed),
                None => self.release_place(to, Release::NeverUsed),
            }
        } else {
            self.map.set_stale(to, false);
            let changed = self.map.set_place(extent, Some(to));
            self.record(io, now, changed, false);
        }
        self.end(io, now, index, out);
    }
}

//! Fills (tiering): a write that covers its whole extent goes directly to a new place.

use peryton_units::{Bytes, Nanos};

use crate::{
    api::command::{Buffer, Cause, Commands},
    api::error::RequestError,
    cache::access::{Fragment, Release},
    cache::drive::CacheDrive,
    cache::map::changed::NoRecord,
    cache::map::extent::Place,
    cache::movers::table::{Kind, Phase},
    cache::step::{CacheIo, CacheStep},
};

impl CacheDrive {
    /// Starts a write that covers its whole extent at the new place; nothing is read first.
    pub(in crate::cache) fn start_fill(&mut self, io: &mut CacheIo, fragment: Fragment, to: Place, out: &mut Commands) {
        let index = self.start(Kind::Fill, Phase::Writing, fragment.extent, Some(to), Some(fragment));
        self.moves[index].pending = 1;
        let buffer = Buffer::Request { id: io.id_of(fragment.request), offset: fragment.offset };
        let len = Bytes(u64::from(fragment.len));
        io.write(self.layout.at(to), len, buffer, CacheStep::Move { index }, Cause::Host, out);
    }

    pub(in crate::cache) fn filled(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        index: u32,
        failed: bool,
        out: &mut Commands,
    ) {
        let row = &mut self.moves[index];
        let (extent, to) = (row.extent, row.to.expect("a fill has a destination"));
        let fragment = row.trigger.take().expect("a fill answers the write that began it");
        if failed {
            match self.layout.fast_slot(to) {
                Some(slot) => self.release_slot(slot, Release::NeverUsed),
                None => self.release_place(to, Release::NeverUsed),
            }
            // If the write can go to another place, it does.
            if self.map.entry(extent).place().is_some() || self.gone.any() {
                self.moves[index].waiters.insert(0, fragment);
            } else {
                io.part_done(fragment.request, Err(RequestError::Device), out);
            }
        } else {
            self.map.set_lost(extent, false).needs_no_record(NoRecord::GivenUpNext);
            io.stats.moves.promotions += u64::from(self.layout.fast_slot(to).is_some());
            self.settle(io, now, extent, to);
            io.part_done(fragment.request, Ok(()), out);
        }
        self.end(io, now, index, out);
    }
}

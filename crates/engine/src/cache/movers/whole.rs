//! Moves of whole extents to new places (tiering). Overwrites: a write that covers its whole extent goes directly to a new place. Demotions: an
//! extent moves from the fast device to the slow one. Zeroing: a reused place must not expose an earlier tenant's data.

use peryton_units::Bytes;

use crate::{
    api::command::{Buffer, Cause},
    api::error::RequestError,
    cache::access::{Fragment, Release},
    cache::drive::CacheDrive,
    cache::map::changed::NoRecord,
    cache::map::extent::{Loss, Place},
    cache::movers::table::{Kind, Phase},
    cache::step::{CacheCall, CacheStep},
};

impl CacheDrive {
    /// Starts a write that covers its whole extent at the new place; nothing is read first.
    pub(in crate::cache) fn start_overwrite(&mut self, io: &mut CacheCall, fragment: Fragment, to: Place) {
        let index = self.start(Kind::Overwrite, Phase::Writing, fragment.extent, Some(to), Some(fragment));
        self.moves[index].pending = 1;
        let buffer = Buffer::Request { id: io.id_of(fragment.request), offset: fragment.offset };
        let len = Bytes(u64::from(fragment.len));
        io.write(self.layout.at(to), len, buffer, CacheStep::Move { index }, Cause::Host);
    }

    pub(in crate::cache) fn overwritten(&mut self, io: &mut CacheCall, index: u32, failed: bool) {
        let row = &mut self.moves[index];
        let (extent, to) = (row.extent, row.to.expect("an overwrite has a destination"));
        let fragment = row.trigger.take().expect("an overwrite answers the write that began it");
        if failed {
            self.give_up(to, Release::NeverUsed);
            // If the write can go to another place, it does.
            if self.map.entry(extent).place().is_some() || self.gone.any() {
                self.moves[index].waiters.insert(0, fragment);
            } else {
                io.part_done(fragment.request, Err(RequestError::Device));
            }
        } else {
            self.map.set_loss(extent, Loss::None).needs_no_record(NoRecord::GivenUpNext);
            io.stats.moves.promotions += u64::from(self.layout.fast_slot(to).is_some());
            self.settle(io, extent, to);
            io.part_done(fragment.request, Ok(()));
        }
        self.end(io, index);
    }

    pub(in crate::cache) fn start_demotion(&mut self, io: &mut CacheCall, extent: u32, to: Place) {
        let from = self.current_place(extent);
        let index = self.start(Kind::Demotion, Phase::Reading, extent, Some(to), None);
        self.move_read(io, index, from, Cause::Demotion);
    }

    pub(in crate::cache) fn demoted(&mut self, io: &mut CacheCall, index: u32) {
        let row = &self.moves[index];
        let (extent, to) = (row.extent, row.to.expect("a demotion has a destination"));
        io.stats.moves.demotions += 1;
        self.cleaner.failures.ended(false);
        self.settle(io, extent, to);
        self.end(io, index);
    }

    pub(in crate::cache) fn start_zero(&mut self, io: &mut CacheCall, fragment: Fragment, place: Place) {
        let index = self.start(Kind::Zero, Phase::Writing, fragment.extent, Some(place), None);
        self.moves[index].waiters.push(fragment);
        self.moves[index].pending = 1;
        io.zero(self.layout.at(place), Bytes(self.layout.extent_bytes), CacheStep::Move { index });
    }

    pub(in crate::cache) fn zeroed(&mut self, io: &mut CacheCall, index: u32, failed: bool) {
        let row = &mut self.moves[index];
        let (extent, to) = (row.extent, row.to.expect("a place to zero"));
        if failed {
            // With a device gone, the accesses may be routed to another place.
            let waiters = if self.gone.any() { Vec::new() } else { std::mem::take(&mut row.waiters) };
            for fragment in waiters {
                io.part_done(fragment.request, Err(RequestError::Device));
            }
            self.give_up(to, Release::NeverUsed);
        } else {
            self.map.set_stale(to, false);
            let changed = self.map.set_place(extent, Some(to));
            self.record(io, changed, false);
        }
        self.end(io, index);
    }
}

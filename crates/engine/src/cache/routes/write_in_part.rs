//! Accesses to extents that have a slot with some of their blocks (caching, partitioned). With write-back, a write goes to the slot,
//! whichever other blocks are there; `route_part` has the exceptions. Its end is `allocating_done` if the slot lacked a
//! block, and otherwise `host_done` in `host.rs`. Reads are in `read_in_part.rs`.

use peryton_format::mutation::{self, Mutation};
use peryton_policy::replacement::SlotIndex;
use peryton_units::{Bytes, Op};

use crate::{
    api::command::{Buffer, Cause},
    api::config::WritePolicy,
    api::error::RequestError,
    cache::access::{Fragment, Route},
    cache::blocks::runs,
    cache::drive::CacheDrive,
    cache::map::extent::Place,
    cache::movers::table::Drained,
    cache::step::{CacheCall, CacheCommand, CacheIo, CacheStep},
    io::RequestIndex,
};

impl CacheDrive {
    /// Routes an access to an extent that is in a slot.
    pub(super) fn route_part(&mut self, io: &mut CacheCall, fragment: Fragment, slot: SlotIndex) -> Route {
        let entry = *self.map.entry(fragment.extent);
        let masks = self.map.masks(slot);
        let (touched, origin) = (self.touched(fragment), self.origin_of(fragment.extent));
        let has_lost = masks.lost() != 0;
        let nothing_here = touched & (masks.valid() | masks.lost()) == 0;
        match fragment.op {
            Op::Read => {
                if fragment.is_new && touched & !masks.valid() != 0 {
                    io.stats.fast_misses += 1;
                    self.was_accessed(slot);
                }
                let fills = touched & !masks.valid() != 0
                    && fragment.is_new
                    && (entry.moving().is_none() || self.being_read(&entry) != 0)
                    && !self.bypass_miss(io, fragment)
                    && self.admit(io, fragment);
                return self.read_in_part(io, fragment, slot, fills);
            }
            Op::Discard if self.covers_extent(fragment) => {
                self.start_drain(fragment, Drained::Discard);
                return Route::Taken;
            }
            Op::Discard => {
                // As with whole extents, the discard of a part is a hint that is not worth its cost.
                io.part_done(fragment.request, Ok(()));
                return Route::Taken;
            }
            // Lost blocks are recorded by the slot alone: such a write always goes to the slot.
            Op::Write if has_lost => {}
            Op::Write if self.may_bypass(fragment) && !self.admit(io, fragment) => {
                io.stats.fast_misses += 1;
                let then = if entry.is_dirty() { Drained::Supersede } else { Drained::Invalidate };
                self.start_drain(fragment, then);
                return Route::Taken;
            }
            Op::Write
                if io.tuning.write == WritePolicy::Through
                    || touched & !masks.dirty() != 0 && self.is_full_of_dirty() =>
            {
                if io.tuning.write != WritePolicy::Through {
                    self.throttle(io, fragment);
                }
                if nothing_here {
                    io.stats.fast_misses += u64::from(fragment.is_new);
                    return self.direct(io.now, fragment, origin);
                }
                self.count_access(io, fragment, slot);
                if let Some(follow) = self.bring_from_write(io, fragment, touched & masks.valid()) {
                    return self.direct_then(io.now, fragment, origin, follow);
                }
                self.write_through(io, fragment, slot);
                return Route::Taken;
            }
            Op::Write if io.tuning.write == WritePolicy::Around && !entry.is_dirty() => {
                io.stats.fast_misses += u64::from(fragment.is_new);
                if nothing_here {
                    return self.direct(io.now, fragment, origin);
                }
                self.start_drain(fragment, Drained::Invalidate);
                return Route::Taken;
            }
            Op::Write => {}
            Op::Flush => unreachable!("a flush has no extent"),
        }
        self.count_access(io, fragment, slot);
        self.write_to_part(io, fragment, slot)
    }

    /// Writes to the slot of an extent.
    pub(in crate::cache) fn write_to_part(&mut self, io: &mut CacheCall, fragment: Fragment, slot: SlotIndex) -> Route {
        let masks = self.map.masks(slot);
        let (touched, covered) = (self.touched(fragment), self.covered(fragment));
        let missing = touched & !masks.valid();
        // Blocks that the write covers in part, and that the slot lacks.
        let edges = missing & !covered;
        if edges & self.lost_blocks(fragment.extent) != 0 {
            io.part_done(fragment.request, Err(RequestError::Lost));
            return Route::Taken;
        }
        if edges != 0 {
            // A write of a part of a block would wait until the slow device has read the rest; a write to the slow
            // device does not.
            if io.tuning.promotion_threshold > 0 && self.controller.is_none() && !self.units.any() {
                if touched & (masks.valid() | masks.lost()) == 0 {
                    return self.direct(io.now, fragment, self.origin_of(fragment.extent));
                }
                return self.write_around_edges(io, fragment, (slot, edges));
            }
            let run = runs(missing & !masks.lost()).find(|run| run & edges != 0).expect("edges are missing");
            if fragment.is_new && !self.gone.any() && self.start_fill(io, fragment.extent, run) {
                let index = self.map.entry(fragment.extent).moving().expect("it has just begun");
                self.wait_behind(index, fragment);
                return Route::Taken;
            }
            return self.write_around_edges(io, fragment, (slot, edges));
        }
        self.became_dirty_in(io, fragment.extent, touched);
        if missing == 0 {
            return self.direct(io.now, fragment, Place(slot.0));
        }
        if mutation::is(Mutation::ValidBeforeData) {
            self.now_has(io, fragment.extent, covered, touched);
        }
        self.allocating_writes += 1;
        let Route::Direct(device, at, _) = self.direct(io.now, fragment, Place(slot.0)) else {
            unreachable!("a slot is a place")
        };
        let buffer = Buffer::Request { id: io.id_of(fragment.request), offset: fragment.offset };
        let step = CacheStep::Allocating { request: fragment.request, extent: fragment.extent };
        io.write((device, at), Bytes(u64::from(fragment.len)), buffer, step, Cause::Host);
        Route::Taken
    }

    /// Writes the edges, which belong to blocks that stay on the slow device, to that device, and the rest to the slot.
    fn write_around_edges(
        &mut self,
        io: &mut CacheCall,
        fragment: Fragment,
        (slot, at_origin): (SlotIndex, u16),
    ) -> Route {
        let touched = self.touched(fragment);
        if touched == at_origin {
            return self.direct(io.now, fragment, self.origin_of(fragment.extent));
        }
        let mut pieces = 0;
        for goes_to_origin in [true, false] {
            let blocks = if goes_to_origin { at_origin } else { touched & !at_origin };
            for run in runs(blocks) {
                let piece = self.split_off(io, fragment, run, &mut pieces);
                let route = match goes_to_origin {
                    true => self.direct(io.now, piece, self.origin_of(piece.extent)),
                    false => self.write_to_part(io, piece, slot),
                };
                self.carry_out(io, piece, route);
            }
        }
        Route::Taken
    }

    /// Handles a completed write of blocks that the fast device may not have had: from now on it has them, and they are dirty. The answer
    /// comes after that, because the record of the change must come before the answer.
    pub(in crate::cache) fn allocating_done(
        &mut self,
        io: &mut CacheCall,
        command: &CacheCommand,
        (request, extent): (RequestIndex, u32),
        failed: bool,
    ) {
        self.allocating_writes -= 1;
        let kept = !failed && self.first_is_there(io, extent, command);
        if kept && self.map.entry(extent).is_lost() {
            self.found_again(io, extent, command);
        }
        io.part_done(request, if kept { Ok(()) } else { Err(RequestError::Device) });
        self.access_ended(extent);
    }

    /// Returns false if the slot was lost with its device.
    fn first_is_there(&mut self, io: &mut CacheIo, extent: u32, command: &CacheCommand) -> bool {
        let (Some(slot), Some(blocks)) = (self.map.entry(extent).slot(), self.layout.blocks) else { return false };
        let Some(within) = command.at.0.checked_sub(self.layout.fast_at(slot).0) else { return false };
        if command.device != self.layout.fast || within + command.len.0 > self.layout.extent_bytes {
            return false;
        }
        let (within, len) = (within as u32, command.len.0 as u32);
        self.now_has(io, extent, blocks.covered(within, len), blocks.touched(within, len));
        true
    }
}

//! Reads of extents of which the fast device may have a part: which blocks are read from each device, and which are copied to the slot.

use peryton_format::{
    blocks::Masks,
    mutation::{self, Mutation},
};
use peryton_policy::replacement::SlotIndex;
use peryton_units::Nanos;

use crate::{
    api::error::RequestError,
    cache::access::{Follow, Fragment, Route, Then},
    cache::blocks::{between, first_run, runs},
    cache::drive::CacheDrive,
    cache::map::extent::Place,
    cache::movers::promotion::PATIENCE,
    cache::ready::Ready,
    cache::step::{CacheCall, CacheIo},
};

impl CacheDrive {
    /// Reads the blocks of the slot from there, and the rest from the slow device. `fills`: the rest is also copied to the slot.
    pub(in crate::cache) fn read_in_part(
        &mut self,
        io: &mut CacheCall,
        fragment: Fragment,
        slot: SlotIndex,
        fills: bool,
    ) -> Route {
        let mut valid = self.map.masks(slot).valid();
        if mutation::is(Mutation::ReadInvalid) {
            valid = u16::MAX;
        }
        let (touched, extent) = (self.touched(fragment), fragment.extent);
        let missing = touched & !valid;
        if missing == 0 {
            self.count_access(io, fragment, slot);
            return self.direct(io.now, fragment, Place(slot.0));
        }
        if touched & self.lost_blocks(extent) != 0 {
            io.part_done(fragment.request, Err(RequestError::Lost));
            return Route::Taken;
        }
        let mut at_origin = self.blocks_from_origin(io, slot, missing);
        let (mut filling, mut follow) = (0, Follow::NOTHING);
        if fills {
            (filling, follow) = self.bring_for_read(io, fragment, slot, (touched, missing, at_origin));
            if filling != 0 {
                at_origin = missing & !filling;
            }
        }
        if at_origin == touched {
            // Reads of neighbouring extents can join this command.
            let follow = self.then_newer(slot, extent, at_origin, follow);
            return self.direct_then(io.now, fragment, self.origin_of(extent), follow);
        }
        debug_assert_eq!(follow, Follow::NOTHING, "a read that brings what it covers is one command");
        let mut pieces = 0;
        for (blocks, device_has) in
            [(touched & filling, None), (touched & !at_origin & !filling, Some(true)), (at_origin, Some(false))]
        {
            for run in runs(blocks) {
                let piece = self.split_off(io, fragment, run, &mut pieces);
                let place = match device_has {
                    None => {
                        let index = self.map.entry(extent).moving().expect("it has just begun");
                        self.wait_behind(index, piece);
                        continue;
                    }
                    Some(true) => Place(slot.0),
                    Some(false) => self.origin_of(extent),
                };
                let follow = match device_has {
                    Some(false) => self.then_newer(slot, extent, run, Follow::NOTHING),
                    _ => Follow::NOTHING,
                };
                let route = self.direct_then(io.now, piece, place, follow);
                self.carry_out(io, piece, route);
            }
        }
        Route::Taken
    }

    /// Adds the second read: of the blocks that are read from the slow device, the slot has some newer, which are read over them.
    fn then_newer(&mut self, slot: SlotIndex, extent: u32, at_origin: u16, follow: Follow) -> Follow {
        let newer = at_origin & self.map.masks(slot).differs_from_origin();
        if newer == 0 || mutation::is(Mutation::ReadOverDirty) {
            return follow;
        }
        self.follows.add(extent, Then::Overlay(newer), follow)
    }

    /// Begins a fill of blocks that a read misses, at least of the first of several gaps. Returns the blocks for which the read has to wait, or
    /// what follows the read's end. `at_origin`: the blocks that the read takes from the slow device.
    fn bring_for_read(
        &mut self,
        io: &mut CacheCall,
        fragment: Fragment,
        slot: SlotIndex,
        (touched, missing, at_origin): (u16, u16, u16),
    ) -> (u16, Follow) {
        let (extent, masks) = (fragment.extent, self.map.masks(slot));
        let run = self.blocks_to_bring(extent, touched, masks);
        let entry = self.map.entry(extent);
        // The neighbouring blocks may be on their way already.
        let (under_way, in_use) = (self.being_read(entry), entry.in_flight > 0);
        let run = if run & under_way == 0 { run } else { first_run(missing) };
        let opens = under_way == 0 && masks.valid() & !masks.differs_from_origin() == 0;
        self.readahead.saw(extent, opens);
        let misses = self.map.entry_mut(extent).miss(io.now, io.tuning.promotion_window);
        // As for a promotion: then accesses wait until those in flight have ended.
        let waits = misses > PATIENCE;
        // The host's own read can bring what it covers.
        let reads_all = at_origin == touched && self.covered(fragment) == touched && run & !touched == 0;
        if reads_all && (!in_use || under_way != 0) {
            return (0, self.bring_with(io, fragment, missing));
        }
        if (!in_use || waits) && self.start_fill(io, extent, run) {
            return (run, Follow::NOTHING);
        }
        (0, Follow::NOTHING)
    }

    /// The blocks that a read takes from the slow device: those that the slot does not have, and what lies between them, because its
    /// transfer costs less than a further command. Where the slot has newer blocks between them, these are read over it afterwards,
    /// if the fast device is the faster one.
    fn blocks_from_origin(&self, io: &CacheIo, slot: SlotIndex, missing: u16) -> u16 {
        let masks = self.map.masks(slot);
        let between = between(missing) & !missing;
        if between == 0 {
            return missing;
        }
        let ([fast, _], [slow, _]) = (io.latency(self.layout.fast), io.latency(self.layout.slow));
        let newer_too = Nanos::ZERO < fast && fast < slow;
        let takes = if newer_too { masks.valid() } else { masks.valid() & !masks.differs_from_origin() };
        runs(between).filter(|gap| gap & !takes == 0).fold(missing, |all, gap| all | gap)
    }

    /// A part of a read of the slow device has ended: reads the slot's newer blocks over it.
    pub(in crate::cache) fn read_over(&mut self, io: &mut CacheIo, part: Fragment, newer: u16) {
        for run in runs(newer) {
            io.add_part(part.request);
            self.ready.push(Ready::Access(self.piece(part, run)));
        }
    }

    /// The neighbouring blocks to bring in for a read of `touched`. Lost blocks stay lost: their origin is older.
    fn blocks_to_bring(&self, extent: u32, touched: u16, masks: Masks) -> u16 {
        let asked = first_run(touched & !masks.valid());
        let all = self.layout.blocks.map_or(0, |blocks| blocks.all);
        if mutation::is(Mutation::FillOverDirty) {
            return all;
        }
        if !self.readahead.reads_ahead(extent) {
            return asked;
        }
        let lost = if mutation::is(Mutation::FillOverLost) { 0 } else { masks.lost() };
        runs(all & !masks.valid() & !lost).find(|run| run & asked == asked).unwrap_or(asked)
    }
}

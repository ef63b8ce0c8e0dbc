//! Accesses to extents of which the fast device may have a part (caching, partitioned). A write takes a slot and goes there,
//! whatever else of the extent is there. A read of what is not there comes from the slow device, and brings it in.

use peryton_format::mutation::{self, Mutation};
use peryton_policy::{partition::Way, replacement::SlotIndex};
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    api::command::{Buffer, Cause, Commands},
    api::config::WritePolicy,
    api::error::RequestError,
    cache::access::{Fragment, Route},
    cache::blocks::{first_run, runs},
    cache::drive::CacheDrive,
    cache::follow::Follow,
    cache::map::changed::NoRecord,
    cache::map::extent::Place,
    cache::movers::table::Drained,
    cache::step::{CacheIo, CacheStep},
};

/// The most extents of which blocks wait to be copied to the fast device; further ones are dropped until they are read again.
const MOST_CANDIDATES: usize = 1024;

impl CacheDrive {
    pub(in crate::cache) fn route_caching(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        fragment: Fragment,
        out: &mut Commands,
    ) -> Route {
        if fragment.first && !self.gate.is_open() && fragment.op != Op::Discard {
            self.show_to_admission(io, now, fragment.miss(), Bytes(u64::from(fragment.len)));
        }
        if let Some(slot) = self.map.entry(fragment.extent).slot() {
            return self.route_part(io, now, fragment, slot, out);
        }
        let home = self.home(fragment.extent);
        if self.may_come_in(io, now, fragment) && fragment.first {
            io.stats.fast_misses += 1;
            let misses = self.map.entry_mut(fragment.extent).miss(now, io.tuning.promotion_window);
            if misses > self.threshold(io, fragment)
                && self.can_bring(io, fragment)
                && let Some(slot) = self.take_slot_for(io, now, fragment.extent, out)
            {
                let route = match fragment.op {
                    Op::Write => self.write_to_part(io, now, fragment, slot, out),
                    _ => self.read_in_part(io, now, fragment, slot, true, out),
                };
                // Only now does something hold the extent in its slot.
                self.make_room(io, now, out);
                return route;
            }
        }
        self.direct(now, fragment, home)
    }

    /// Whether what a fragment accesses can come in now: what is read takes a move, and without one an extent has no use for a slot.
    fn can_bring(&self, io: &mut CacheIo, fragment: Fragment) -> bool {
        let can = fragment.op == Op::Write || self.copying < io.tuning.max_moves;
        io.stats.moves.cancelled.move_limit += u64::from(!can);
        can
    }

    /// How often an extent that has no slot must have missed to be given one.
    fn threshold(&self, io: &CacheIo, fragment: Fragment) -> u32 {
        if self.is_part_of_unit(fragment) {
            return 0;
        }
        let usual = io.tuning.promotion_threshold;
        // A write that would first have to read goes to the slow device, unless everything is to come in at its first miss.
        if fragment.op == Op::Write && usual > 0 && self.covered(fragment) != self.touched(fragment) {
            return u32::MAX;
        }
        let displaces = self.map.room() <= io.tuning.demotion_high;
        if io.tuning.comes_in_early && (!displaces || self.is_waited_for(io, fragment)) { 0 } else { usual }
    }

    /// Whether the host waits for a write of whole blocks. Where every write goes to the slow device, it waits for that in any case.
    fn is_waited_for(&self, io: &CacheIo, fragment: Fragment) -> bool {
        fragment.op == Op::Write
            && io.tuning.write == WritePolicy::Back
            && self.waited_for.are_waited_for(io)
            && self.covered(fragment) == self.touched(fragment)
    }

    /// Gives an extent a slot, which has nothing of it yet. Returns `None` if a condition forbids it; each refusal is counted.
    pub(in crate::cache) fn take_slot_for(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        extent: u32,
        out: &mut Commands,
    ) -> Option<SlotIndex> {
        let cancelled = &mut io.stats.moves.cancelled;
        if self.journal.is_checkpointing() {
            cancelled.metadata_flush += 1;
            return None;
        }
        if self.map.entry(extent).is_lost() || self.gone.any() {
            cancelled.device_error += 1;
            return None;
        }
        let Some(slot) = self.slot_for_promotion(io, now, extent, out) else {
            io.stats.moves.cancelled.fast_full += 1;
            return None;
        };
        io.stats.moves.promotions += 1;
        self.map.set_place(extent, Some(Place(slot.0))).needs_no_record(NoRecord::NothingThereYet);
        self.map.entry_mut(extent).misses = 0;
        Some(slot)
    }

    /// Routes an access to an extent that is in a slot.
    fn route_part(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        fragment: Fragment,
        slot: SlotIndex,
        out: &mut Commands,
    ) -> Route {
        let entry = *self.map.entry(fragment.extent);
        let masks = self.map.masks(slot);
        let (touched, home) = (self.touched(fragment), self.home(fragment.extent));
        // Where blocks are lost, nothing may take the extent out of its slot, which alone records it.
        let has_lost = masks.lost() != 0;
        let nothing_here = touched & (masks.valid() | masks.lost()) == 0;
        match fragment.op {
            Op::Read => {
                if fragment.first && touched & !masks.valid() != 0 {
                    io.stats.fast_misses += 1;
                    self.was_accessed(slot);
                }
                let fills = touched & !masks.valid() != 0
                    && fragment.first
                    && (entry.moving().is_none() || self.being_read(&entry) != 0)
                    && !self.goes_past(io, fragment)
                    && self.admits(io, fragment);
                return self.read_in_part(io, now, fragment, slot, fills, out);
            }
            Op::Discard if self.covers_extent(fragment) => {
                self.start_drain(fragment, Drained::Discard);
                return Route::Taken;
            }
            Op::Discard => {
                // As with whole extents, the discard of a part is a hint that is not worth its cost.
                io.part_done(fragment.request, Ok(()), out);
                return Route::Taken;
            }
            Op::Write if has_lost => {}
            Op::Write if self.may_bypass(fragment) && !self.admits(io, fragment) => {
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
                    self.throttle(io, now, fragment);
                }
                if nothing_here {
                    io.stats.fast_misses += u64::from(fragment.first);
                    return self.direct(now, fragment, home);
                }
                self.count_access(io, fragment, slot);
                if let Some(follow) = self.bring_from_write(io, now, fragment, touched & masks.valid()) {
                    return self.direct_then(now, fragment, home, follow);
                }
                self.write_through(io, now, fragment, slot, out);
                return Route::Taken;
            }
            Op::Write if io.tuning.write == WritePolicy::Around && !entry.is_dirty() => {
                io.stats.fast_misses += u64::from(fragment.first);
                if nothing_here {
                    return self.direct(now, fragment, home);
                }
                self.start_drain(fragment, Drained::Invalidate);
                return Route::Taken;
            }
            Op::Write => {}
            Op::Flush => unreachable!("a flush has no extent"),
        }
        self.count_access(io, fragment, slot);
        self.write_to_part(io, now, fragment, slot, out)
    }

    /// The routes of a partitioned drive: a write goes to the device that is predicted to answer sooner.
    pub(in crate::cache) fn route_partitioned(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        fragment: Fragment,
        out: &mut Commands,
    ) -> Route {
        let entry = *self.map.entry(fragment.extent);
        let (home, covers) = (self.home(fragment.extent), self.covers_extent(fragment));
        let way = match &self.controller {
            Some(controller) if fragment.first => controller.way,
            _ => Way::Fast,
        };
        let touched = self.touched(fragment);
        let Some(slot) = entry.slot() else {
            match fragment.op {
                Op::Write if way == Way::Fast && fragment.first && self.covered(fragment) == touched => {
                    if let Some(slot) = self.take_slot_for(io, now, fragment.extent, out) {
                        io.stats.fast_hits += 1;
                        let route = self.write_to_part(io, now, fragment, slot, out);
                        self.make_room(io, now, out);
                        return route;
                    }
                }
                Op::Read => self.read_at_home(io, now, fragment),
                _ => {}
            }
            io.stats.fast_misses += u64::from(fragment.first && fragment.op != Op::Discard);
            return self.direct(now, fragment, home);
        };
        let masks = self.map.masks(slot);
        match fragment.op {
            Op::Write if way == Way::Slow && covers && entry.moving().is_none() => {
                io.stats.fast_misses += 1;
                self.map.set_may_differ(fragment.extent, Some(self.valid(io)));
                self.direct_then(now, fragment, home, Follow::PAST)
            }
            Op::Write if way == Way::Slow && touched & (masks.valid() | masks.lost()) == 0 => {
                io.stats.fast_misses += 1;
                self.direct(now, fragment, home)
            }
            Op::Write => {
                self.count_access(io, fragment, slot);
                self.write_to_part(io, now, fragment, slot, out)
            }
            Op::Discard if covers && entry.is_dirty() && entry.moving().is_none() => {
                self.became_dirty(io, now, fragment.extent);
                self.zero_copy(io, now, fragment, Place(slot.0), out);
                Route::Taken
            }
            Op::Discard if covers => {
                self.start_drain(fragment, Drained::Discard);
                Route::Taken
            }
            Op::Discard => {
                io.part_done(fragment.request, Ok(()), out);
                Route::Taken
            }
            _ => {
                if touched & !masks.valid() != 0 {
                    io.stats.fast_misses += u64::from(fragment.first);
                    self.read_at_home(io, now, fragment);
                }
                self.read_in_part(io, now, fragment, slot, false, out)
            }
        }
    }

    /// Brings blocks that are read often to the fast device while the host is idle (partitioned).
    pub(in crate::cache) fn bring_idle(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        extent: u32,
        blocks: u16,
        out: &mut Commands,
    ) {
        let entry = self.map.entry(extent);
        if entry.in_flight > 0 || entry.moving().is_some() || entry.is_lost() {
            return;
        }
        if entry.place().is_none() && (self.map.fast_is_full() || self.take_slot_for(io, now, extent, out).is_none()) {
            return;
        }
        let masks = self.map.masks_of(extent);
        let run = first_run(blocks & !(masks.valid() | masks.lost()));
        if run != 0 && self.start_part_fill(io, extent, run, out) {
            io.stats.partition_mut().promoted_idle += 1;
        }
    }

    /// Writes to the slot of an extent.
    pub(in crate::cache) fn write_to_part(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        fragment: Fragment,
        slot: SlotIndex,
        out: &mut Commands,
    ) -> Route {
        let masks = self.map.masks(slot);
        let (touched, covered) = (self.touched(fragment), self.covered(fragment));
        let missing = touched & !masks.valid();
        // Blocks of which the rest is not there.
        let edges = missing & !covered;
        if edges & self.lost_blocks(fragment.extent) != 0 {
            io.part_done(fragment.request, Err(RequestError::Lost), out);
            return Route::Taken;
        }
        if edges != 0 {
            // A write that first has to read waits for the slow device; one that goes there does not.
            if io.tuning.promotion_threshold > 0 && self.controller.is_none() && !self.units.any() {
                if touched & (masks.valid() | masks.lost()) == 0 {
                    return self.direct(now, fragment, self.home(fragment.extent));
                }
                return self.write_around_edges(io, now, fragment, (slot, edges), out);
            }
            let run = runs(missing).find(|run| run & edges != 0).expect("edges are missing");
            if fragment.first && !self.gone.any() && self.start_part_fill(io, fragment.extent, run, out) {
                let index = self.map.entry(fragment.extent).moving().expect("it has just begun");
                self.wait_behind(index, fragment);
                return Route::Taken;
            }
            return self.write_around_edges(io, now, fragment, (slot, edges), out);
        }
        self.became_dirty_in(io, now, fragment.extent, touched);
        if missing == 0 {
            return self.direct(now, fragment, Place(slot.0));
        }
        if mutation::is(Mutation::ValidBeforeData) {
            self.is_there(io, now, fragment.extent, covered, touched);
        }
        self.first_writes += 1;
        let Route::Direct(device, at, _) = self.direct(now, fragment, Place(slot.0)) else {
            unreachable!("a slot is a place")
        };
        let buffer = Buffer::Request { id: io.id_of(fragment.request), offset: fragment.offset };
        let step = CacheStep::First { request: fragment.request, extent: fragment.extent };
        io.write((device, at), Bytes(u64::from(fragment.len)), buffer, step, Cause::Host, out);
        Route::Taken
    }

    /// Writes to the slow device what belongs to the blocks that are to stay there, and the rest to the slot.
    fn write_around_edges(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        fragment: Fragment,
        (slot, at_home): (SlotIndex, u16),
        out: &mut Commands,
    ) -> Route {
        let touched = self.touched(fragment);
        if touched == at_home {
            return self.direct(now, fragment, self.home(fragment.extent));
        }
        let mut pieces = 0;
        for goes_home in [true, false] {
            let blocks = if goes_home { at_home } else { touched & !at_home };
            for run in runs(blocks) {
                let piece = self.split_off(io, fragment, run, &mut pieces);
                let route = match goes_home {
                    true => self.direct(now, piece, self.home(piece.extent)),
                    false => self.write_to_part(io, now, piece, slot, out),
                };
                self.carry_out(io, piece, route, out);
            }
        }
        Route::Taken
    }

    /// Notes extents with small frequent reads, to be copied to the fast device when the host is idle.
    pub(in crate::cache) fn read_at_home(&mut self, io: &CacheIo, now: Nanos, fragment: Fragment) {
        let tuning = &io.tuning.partition;
        if !fragment.first || tuning.promote_reads == 0 || fragment.request_len > tuning.small {
            return;
        }
        let entry = self.map.entry_mut(fragment.extent);
        let reads = entry.miss(now, io.tuning.promotion_window);
        if reads == tuning.promote_reads && self.candidates.len() < MOST_CANDIDATES {
            self.candidates.push_back((fragment.extent, self.touched(fragment)));
        }
    }
}

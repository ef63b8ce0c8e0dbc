//! Accesses to extents of which the fast device may have a part (caching, partitioned). A write takes a slot and goes there,
//! whatever else of the extent is there. A read of what is not there comes from the slow device, and brings it in.

use peryton_format::mutation::{self, Mutation};
use peryton_policy::{partition::Way, replacement::SlotIndex};
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    api::command::{Buffer, Cause, Commands},
    api::config::{FlushedThreshold, WritePolicy},
    api::error::RequestError,
    cache::access::{Fragment, Route, Run},
    cache::blocks::{first_run, runs},
    cache::drive::CacheDrive,
    cache::map::extent::Place,
    cache::movers::table::{Drained, Phase},
    cache::step::{CacheIo, CacheStep},
};

impl CacheDrive {
    pub(in crate::cache) fn route_in_part(
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
            let entry = self.map.entry_mut(fragment.extent);
            let unused = if entry.uses > 0 { now.saturating_sub(entry.last_access) } else { Nanos::MAX };
            let misses = entry.miss(now, io.tuning.promotion_window);
            let waited = self.is_waited_for(io, fragment);
            if io.tuning.flushed_threshold == FlushedThreshold::Adaptive {
                self.contention.is_missed(unused);
                if waited {
                    self.contention.is_waited_for(fragment.extent, misses, now);
                }
            }
            if misses > self.threshold(io, fragment, waited)
                && self.can_bring(io, fragment)
                && let Some(slot) = self.take_slot_for(io, now, (fragment.extent, self.touched(fragment)), out)
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

    /// How often an extent that has no slot must have missed to be given one. `waited`: the host waits for this write.
    fn threshold(&self, io: &CacheIo, fragment: Fragment, waited: bool) -> u32 {
        if self.is_part_of_unit(fragment) {
            return 0;
        }
        let usual = io.tuning.promotion_threshold;
        // A write that would first have to read goes to the slow device, unless everything is to come in at its first miss.
        if fragment.op == Op::Write && usual > 0 && self.covered(fragment) != self.touched(fragment) {
            return u32::MAX;
        }
        let has_room = self.map.room() > io.tuning.demotion_high;
        let in_room = io.tuning.room_threshold.filter(|_| has_room);
        let flushed = match io.tuning.flushed_threshold {
            FlushedThreshold::Fixed(threshold) if waited => Some(threshold),
            // Nothing is displaced.
            FlushedThreshold::Adaptive if waited && has_room => Some(0),
            FlushedThreshold::Adaptive if waited => Some(self.contention.threshold(fragment.extent)),
            _ => None,
        };
        in_room.unwrap_or(usual).min(flushed.unwrap_or(usual))
    }

    /// Whether the host waits for a write of whole blocks. Where every write goes to the slow device, it waits for that in any case.
    fn is_waited_for(&self, io: &CacheIo, fragment: Fragment) -> bool {
        fragment.op == Op::Write
            && io.tuning.write == WritePolicy::Back
            && self.waited_for.are_waited_for(io)
            && self.covered(fragment) == self.touched(fragment)
    }

    /// Gives an extent a slot, which has nothing of it yet, and room for these blocks. Returns `None` if a condition forbids it; each refusal is counted.
    pub(in crate::cache) fn take_slot_for(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        (extent, blocks): (u32, u16),
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
        let Some(slot) = self.slot_for_promotion(io, now, (extent, blocks), out) else {
            io.stats.moves.cancelled.fast_full += 1;
            return None;
        };
        io.stats.moves.promotions += 1;
        self.map.set_place(extent, Some(Place(slot.0)));
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
                self.start_drain(io, now, fragment, Drained::Discard, out);
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
                self.start_drain(io, now, fragment, then, out);
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
                if self.bring_from_write(io, now, fragment, touched & masks.valid()) {
                    return self.direct(now, fragment, home);
                }
                self.write_through(io, now, fragment, slot, out);
                return Route::Taken;
            }
            Op::Write if io.tuning.write == WritePolicy::Around && !entry.is_dirty() => {
                io.stats.fast_misses += u64::from(fragment.first);
                if nothing_here {
                    return self.direct(now, fragment, home);
                }
                self.start_drain(io, now, fragment, Drained::Invalidate, out);
                return Route::Taken;
            }
            Op::Write => {}
            Op::Flush => unreachable!("a flush has no extent"),
        }
        self.count_access(io, fragment, slot);
        self.write_to_part(io, now, fragment, slot, out)
    }

    /// The routes of a partitioned drive: a write goes to the device that is predicted to answer sooner.
    pub(in crate::cache) fn route_partitioned_in_part(
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
                    if let Some(slot) = self.take_slot_for(io, now, (fragment.extent, self.touched(fragment)), out) {
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
                match self.direct(now, fragment, home) {
                    Route::Direct(_, at) => Route::Past(at),
                    other => other,
                }
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
                self.start_drain(io, now, fragment, Drained::Discard, out);
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
        if entry.place().is_none()
            && (self.map.fast_is_full() || self.take_slot_for(io, now, (extent, blocks), out).is_none())
        {
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
        if missing != 0 && !self.claim(io, now, slot, missing, out) {
            // What another extent has the room of goes home.
            if self.gone.slow {
                io.part_done(fragment.request, Err(RequestError::Lost), out);
                return Route::Taken;
            }
            let beside = missing & self.map.claimed_beside(slot);
            return self.write_around_edges(io, now, fragment, (slot, beside), out);
        }
        self.became_dirty_in(io, now, fragment.extent, touched);
        if missing == 0 {
            return self.direct(now, fragment, Place(slot.0));
        }
        if mutation::is(Mutation::ValidBeforeData) {
            self.is_there(io, now, fragment.extent, covered, touched);
        }
        self.first_writes += 1;
        let Route::Direct(device, at) = self.direct(now, fragment, Place(slot.0)) else {
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
            return self.write_home(io, now, fragment, out);
        }
        let mut pieces = 0;
        for goes_home in [true, false] {
            let blocks = if goes_home { at_home } else { touched & !at_home };
            for run in runs(blocks) {
                let piece = self.split_off(io, fragment, run, &mut pieces);
                let route = match goes_home {
                    true => self.write_home(io, now, piece, out),
                    false => self.write_to_part(io, now, piece, slot, out),
                };
                self.carry_out(io, piece, route, out);
            }
        }
        Route::Taken
    }

    /// Writes blocks home that the slot of their extent does not have.
    fn write_home(&mut self, io: &mut CacheIo, now: Nanos, fragment: Fragment, out: &mut Commands) -> Route {
        let home = self.home(fragment.extent);
        let lost = self.map.masks_of(fragment.extent).lost() & self.touched(fragment) != 0;
        let route = self.direct(now, fragment, home);
        let Route::Direct(device, at) = route else { return route };
        if !lost {
            return route;
        }
        // Once it is written, its blocks are not lost any more.
        self.first_writes += 1;
        self.cleaner.slow_used = now;
        let buffer = Buffer::Request { id: io.id_of(fragment.request), offset: fragment.offset };
        let step = CacheStep::First { request: fragment.request, extent: fragment.extent };
        io.write((device, at), Bytes(u64::from(fragment.len)), buffer, step, Cause::Host, out);
        Route::Taken
    }

    /// The part of a fragment in these blocks, which are neighbours.
    pub(in crate::cache) fn piece(&self, fragment: Fragment, run: u16) -> Fragment {
        let (within, len) = self.layout.blocks.expect("only extents in part have pieces").span(run);
        let from = within.max(fragment.within);
        let end = (within + len).min(fragment.within + fragment.len);
        let offset = fragment.offset + Bytes(u64::from(from - fragment.within));
        Fragment { within: from, len: end - from, offset, first: false, ..fragment }
    }

    /// The same, as one more of so many pieces in which the fragment is answered.
    pub(in crate::cache) fn split_off(
        &self,
        io: &mut CacheIo,
        fragment: Fragment,
        run: u16,
        pieces: &mut u32,
    ) -> Fragment {
        *pieces += 1;
        if *pieces > 1 {
            io.add_part(fragment.request);
        }
        self.piece(fragment, run)
    }

    pub(in crate::cache) fn carry_out(&mut self, io: &mut CacheIo, piece: Fragment, route: Route, out: &mut Commands) {
        if let Route::Direct(device, at) = route {
            let len = Bytes(u64::from(piece.len));
            self.issue(io, Run { fragment: piece, device, at, len, extents: 1, past: false }, out);
        }
    }

    /// Claims blocks of the frame of an extent's slot. If one of them belongs to the other extent in the frame, that one leaves, and this
    /// returns false.
    pub(in crate::cache) fn claim(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        slot: SlotIndex,
        blocks: u16,
        out: &mut Commands,
    ) -> bool {
        let claimed = self.map.claim(slot, blocks);
        if !claimed {
            io.stats.moves.cancelled.fast_full += 1;
            if let Some(neighbour) = self.map.neighbour(slot) {
                self.make_leave(io, now, neighbour, out);
            }
        }
        claimed
    }

    /// Whether an access goes on while blocks of its extent are brought in: it needs no other move. A write may be to some of these blocks,
    /// as long as they are being read, or if it goes home; then they are not brought in.
    pub(in crate::cache) fn passes_fill(&self, io: &CacheIo, index: u32, fragment: Fragment) -> bool {
        let (row, touched) = (&self.moves[index], self.touched(fragment));
        // Two writes of a block of the slot are never in flight together.
        let may_write_slot = row.phase == Phase::Reading || touched & row.blocks == 0;
        match (fragment.op, row.phase) {
            (_, Phase::Draining) => false,
            (Op::Read, _) => touched & row.blocks_to_bring() == 0,
            (Op::Write, phase) => {
                let joins = phase == Phase::Reading
                    && io.tuning.write == WritePolicy::Through
                    && self.controller.is_none()
                    && self.may_follow_its_home(fragment);
                joins || self.stays_at_home(io, fragment) || may_write_slot && self.stays_in_slot(io, fragment)
            }
            (Op::Discard | Op::Flush, _) => false,
        }
    }

    /// Whether a write to an extent that has a slot goes home alone, because the slot has nothing of what it touches.
    fn stays_at_home(&self, io: &CacheIo, fragment: Fragment) -> bool {
        let masks = self.map.masks_of(fragment.extent);
        let goes_home = match io.tuning.write {
            WritePolicy::Through => true,
            WritePolicy::Around => masks.dirty() == 0,
            WritePolicy::Back => false,
        };
        goes_home && self.controller.is_none() && masks.lost() == 0 && self.touched(fragment) & masks.valid() == 0
    }

    /// Whether a write to an extent that has a slot goes there alone.
    pub(in crate::cache) fn stays_in_slot(&self, io: &CacheIo, fragment: Fragment) -> bool {
        let (masks, touched) = (self.map.masks_of(fragment.extent), self.touched(fragment));
        let is_plain =
            self.controller.is_some() || io.tuning.write == WritePolicy::Back && !self.gate.judges_write_hits();
        let may_dirty = touched & !masks.dirty() == 0 || !self.is_full_of_dirty();
        let missing = touched & !masks.valid();
        let beside = self.map.entry(fragment.extent).slot().map_or(0, |slot| self.map.claimed_beside(slot));
        is_plain && may_dirty && missing & (!self.covered(fragment) | beside) == 0
    }
}

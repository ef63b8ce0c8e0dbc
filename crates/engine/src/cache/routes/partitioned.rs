//! Partitioned (MixedStore, section 5). Every extent has its origin on the slow device, and each write goes to the device
//! that is predicted to answer sooner. Data on the fast device is either newer than its origin or a copy made for reads.
//! Reads go to where the data is.
//!
//! A write for which the fast device has no room goes to the slow one. Room is made while the host is idle.
//!
//! A write that covers an extent may bypass the copy on the fast device: it goes to the origin, and the copy is given up when
//! the write has completed. A write that covers an extent in part goes to the device that has the rest.

use peryton_policy::{
    partition::{Controller, Way},
    replacement::SlotIndex,
};
use peryton_units::{Nanos, Op};

use crate::{
    api::command::Request,
    cache::access::{Follow, Fragment, Route},
    cache::blocks::first_run,
    cache::drive::CacheDrive,
    cache::map::changed::NoRecord,
    cache::map::extent::{Loss, Place},
    cache::movers::table::{Drained, Kind, Phase},
    cache::step::{CacheCall, CacheCommand, CacheIo},
    io::RequestIndex,
};

/// The most extents of which blocks wait to be copied to the fast device; further ones are dropped until they are read again.
const MOST_CANDIDATES: usize = 1024;

/// The interval between attempts at background work.
const TIDY_EVERY: Nanos = Nanos::from_ms(1);

impl CacheDrive {
    /// The routes of a partitioned drive: a write goes to the device that is predicted to answer sooner.
    pub(in crate::cache) fn route_partitioned(&mut self, io: &mut CacheCall, fragment: Fragment) -> Route {
        let entry = *self.map.entry(fragment.extent);
        let (origin, covers) = (self.origin_of(fragment.extent), self.covers_extent(fragment));
        let way = match &self.controller {
            Some(controller) if fragment.is_new => controller.way,
            _ => Way::Fast,
        };
        let touched = self.touched(fragment);
        let Some(slot) = entry.slot() else {
            match fragment.op {
                Op::Write if way == Way::Fast && fragment.is_new && self.covered(fragment) == touched => {
                    if let Some(slot) = self.take_slot_for(io, fragment.extent) {
                        io.stats.fast_hits += 1;
                        let route = self.write_to_part(io, fragment, slot);
                        self.make_room(io);
                        return route;
                    }
                }
                Op::Read => self.note_small_read(io, fragment),
                _ => {}
            }
            io.stats.fast_misses += u64::from(fragment.is_new && fragment.op != Op::Discard);
            return self.direct(io.now, fragment, origin);
        };
        let masks = self.map.masks(slot);
        match fragment.op {
            Op::Write if way == Way::Slow && covers && entry.moving().is_none() => {
                io.stats.fast_misses += 1;
                self.map.may_write_one(fragment.extent, self.valid(io));
                self.direct_then(io.now, fragment, origin, Follow::PAST)
            }
            Op::Write if way == Way::Slow && touched & (masks.valid() | masks.lost()) == 0 => {
                io.stats.fast_misses += 1;
                self.direct(io.now, fragment, origin)
            }
            Op::Discard if covers && (!entry.is_dirty() || entry.moving().is_some()) => {
                self.start_drain(fragment, Drained::Discard);
                Route::Taken
            }
            _ => {
                if fragment.op == Op::Read && touched & !masks.valid() != 0 {
                    io.stats.fast_misses += u64::from(fragment.is_new);
                    self.note_small_read(io, fragment);
                }
                self.serve_from_slot(io, fragment, slot)
            }
        }
    }

    /// The slot serves an access: it keeps its extent, takes what is written, and lets the slow device serve reads of what it lacks.
    pub(in crate::cache) fn serve_from_slot(
        &mut self,
        io: &mut CacheCall,
        fragment: Fragment,
        slot: SlotIndex,
    ) -> Route {
        match fragment.op {
            Op::Read => return self.read_in_part(io, fragment, slot, false),
            Op::Discard if self.covers_extent(fragment) => {
                self.became_dirty(io, fragment.extent);
                self.zero_copy(io, fragment, Place(slot.0));
            }
            Op::Discard => io.part_done(fragment.request, Ok(())),
            _ => {
                self.count_access(io, fragment, slot);
                return self.write_to_part(io, fragment, slot);
            }
        }
        Route::Taken
    }

    /// Brings blocks that are read often to the fast device while the host is idle (partitioned).
    pub(in crate::cache) fn bring_idle(&mut self, io: &mut CacheCall, extent: u32, blocks: u16) {
        let entry = self.map.entry(extent);
        if entry.in_flight > 0 || entry.moving().is_some() || entry.is_lost() {
            return;
        }
        if entry.place().is_none() && (self.map.fast_is_full() || self.take_slot_for(io, extent).is_none()) {
            return;
        }
        let masks = self.map.masks_of(extent);
        let run = first_run(blocks & !(masks.valid() | masks.lost()));
        if run != 0 && self.start_fill(io, extent, run) {
            io.stats.partition_mut().promoted_idle += 1;
        }
    }

    /// Notes extents with small frequent reads, to be copied to the fast device when the host is idle.
    pub(in crate::cache) fn note_small_read(&mut self, io: &CacheIo, fragment: Fragment) {
        let tuning = &io.tuning.partition;
        if !fragment.is_new || tuning.promote_reads == 0 || fragment.request_len > tuning.small {
            return;
        }
        let entry = self.map.entry_mut(fragment.extent);
        let reads = entry.miss(io.now, io.tuning.promotion_window);
        if reads == tuning.promote_reads && self.candidates.len() < MOST_CANDIDATES {
            self.candidates.push_back((fragment.extent, self.touched(fragment)));
        }
    }

    /// Records the arrival of a request for the prediction.
    pub(in crate::cache) fn partition_arrived(&mut self, io: &mut CacheIo, index: RequestIndex, asked: Request) {
        let Some(controller) = &mut self.controller else { return };
        let stats = io.stats.partition_mut();
        controller.arrived(io.now, index.index(), (asked.op, asked.offset, asked.len), stats);
        io.due_in(io.tuning.partition.idle_after);
    }

    /// Records a completed command that read or wrote for the host.
    #[inline]
    pub(crate) fn partition_served(&mut self, now: Nanos, command: &CacheCommand) {
        if let Some(controller) = &mut self.controller
            && matches!(command.op, Op::Read | Op::Write)
            && matches!(command.buffer, crate::api::command::Buffer::Request { .. })
        {
            let by = if command.device == self.layout.fast { Way::Fast } else { Way::Slow };
            controller.served(now, by, command.op, command.took(now));
        }
    }

    /// Records that requests have been answered.
    pub(crate) fn partition_answered(&mut self, io: &mut CacheIo) {
        while let Some(index) = io.next_answered() {
            if let Some(controller) = &mut self.controller {
                controller.answered(io.now, index.index(), io.stats.partition_mut());
            }
        }
    }

    /// Handles a completed write that bypassed the fast device's copy. The write is answered after the copy is given
    /// up; otherwise a flush after the answer could leave the map pointing to the copy.
    pub(in crate::cache) fn past_done(&mut self, io: &mut CacheCall, fragment: Fragment, failed: bool) {
        let extent = fragment.extent;
        self.access_ended(extent);
        let entry = self.map.entry(extent);
        if entry.place().is_none() {
            // The copy was lost meanwhile; the origin has all of the data now.
            if entry.is_lost() && !failed {
                let changed = self.map.set_loss(extent, Loss::None);
                self.record(io, changed, false);
            }
            return;
        }
        let detaching = if failed {
            // The origin may have part of the data. The copy is complete and will be written back again.
            return self.became_dirty(io, extent);
        } else if let Some(index) = entry.moving() {
            // The copy is being detached; it must not count as the valid one after that.
            self.map.set_clean(extent).needs_no_record(NoRecord::GivenUpNext);
            index
        } else if entry.in_flight > 0 {
            self.start(Kind::Drain(Drained::Stale), Phase::Draining, extent, None, None)
        } else {
            return self.drop_stale(io, extent);
        };
        io.add_part(fragment.request);
        self.answer_at_end(io, detaching, fragment);
    }

    /// Does background work while the host is idle: cold extents are written back, frequently read ones are copied in.
    pub(in crate::cache) fn tick_partition(&mut self, io: &mut CacheCall) {
        let Some(controller) = self.controller.as_ref().filter(|_| !self.gone.any()) else { return };
        if let Err(due) = controller.idle(io.now, &io.tuning.partition) {
            return io.due(due);
        }
        if !io.is_idle_for_host() {
            return io.due_in(TIDY_EVERY);
        }
        while self.copying < io.tuning.most_idle_moves()
            && let Some((extent, blocks)) = self.candidates.pop_front()
        {
            self.bring_idle(io, extent, blocks);
        }
        // Extents that found no room while the host was busy can be given some now.
        self.tidying = true;
        self.make_room(io);
        self.tidying = false;
        let goes_on = self.defragment(io);
        if goes_on || self.making_room || !self.candidates.is_empty() {
            io.due_in(TIDY_EVERY);
        }
    }

    /// Defragmentation (section 5.3, "fragmentation busting"): the least recently used extents leave, and the fast
    /// device discards their places. Returns whether there is more to do now.
    fn defragment(&mut self, io: &mut CacheCall) -> bool {
        let Some(after) = io.tuning.partition.bust_after else { return false };
        let free = u64::from(self.layout.fast_usable) * u64::from(io.tuning.partition.bust_free) / 1_000_000;
        let most = self.layout.fast_usable - free as u32;
        while self.map.resident() > most && self.copying < io.tuning.most_idle_moves() {
            let Some(victim) = self.victim(io, false) else { return false };
            let entry = self.map.entry(victim);
            let due = entry.last_access.saturating_add(after);
            if due > io.now {
                io.due(due);
                return false;
            }
            if entry.in_flight > 0 || entry.moving().is_some() {
                return true;
            }
            self.evict(io, victim);
            io.stats.partition_mut().busted += 1;
        }
        self.map.resident() > most
    }

    /// Adapts the controller after the tuning has changed.
    pub(in crate::cache) fn retune_partition(&mut self, io: &CacheIo) {
        if let Some(before) = &self.controller {
            let mut controller = Controller::new(&io.tuning.partition);
            controller.resume(before);
            self.controller = Some(controller);
        }
    }
}

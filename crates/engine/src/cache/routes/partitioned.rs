//! Partitioned (MixedStore, section 5): every extent has its home on the slow device, and each write goes to whichever
//! device is predicted to answer sooner. What is on the fast device is newer than its home, or a copy that reads put
//! there; reads go to where the data is.
//!
//! What the fast device has no room for goes to the slow one. Room is made while the host is idle.
//!
//! A write that covers an extent may pass the copy that the fast device has: it goes home, and the copy is given up once
//! it is there. One that covers an extent in part stays where the rest is.

use peryton_policy::partition::{Controller, Way};
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    api::command::{Commands, Request},
    cache::access::{Fragment, Release, Route},
    cache::drive::CacheDrive,
    cache::map::extent::Place,
    cache::movers::table::{Drained, Kind, Phase},
    cache::step::{CacheCommand, CacheIo, CacheStep},
    io::RequestIndex,
};

/// Extents that wait to be brought to the fast device; more are forgotten, and come again.
const MOST_CANDIDATES: usize = 1024;
/// While there is something to tidy up, it is looked at so often.
const TIDY_EVERY: Nanos = Nanos::from_ms(1);

impl CacheDrive {
    /// A request has come in.
    pub(in crate::cache) fn partition_arrived(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        index: RequestIndex,
        asked: Request,
    ) {
        let Some(controller) = &mut self.controller else { return };
        let stats = io.stats.partition_mut();
        controller.arrived(now, index.index(), (asked.op, asked.offset, asked.len), stats);
        io.due(now.saturating_add(io.tuning.partition.idle_after));
    }

    /// A command has completed that read or wrote for the host.
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

    /// Requests have been answered.
    pub(crate) fn partition_answered(&mut self, io: &mut CacheIo, now: Nanos) {
        while let Some(index) = io.next_answered() {
            if let Some(controller) = &mut self.controller {
                controller.answered(now, index.index(), io.stats.partition_mut());
            }
        }
    }

    #[inline]
    pub(in crate::cache) fn route_partitioned(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        fragment: Fragment,
        out: &mut Commands,
    ) -> Route {
        let entry = *self.map.entry(fragment.extent);
        let (home, covers) = (self.home(fragment.extent), self.covers_extent(fragment));
        // One that has waited goes where the data is.
        let way = match &self.controller {
            Some(controller) if fragment.first => controller.way,
            _ => Way::Fast,
        };
        let Some(slot) = entry.slot() else {
            match fragment.op {
                Op::Write if way == Way::Fast && covers && fragment.first && entry.in_flight == 0 => {
                    if let Some(slot) = self.slot_for_promotion(io, now, fragment.extent, out) {
                        io.stats.fast_hits += 1;
                        self.map.entry_mut(fragment.extent).access(now);
                        self.start_fill(io, fragment, Place(slot.0), out);
                        self.make_room(io, now, out);
                        return Route::Taken;
                    }
                }
                Op::Read => self.read_at_home(io, now, fragment),
                _ => {}
            }
            io.stats.fast_misses += u64::from(fragment.first && fragment.op != Op::Discard);
            return self.direct(now, fragment, home);
        };
        match fragment.op {
            Op::Write if way == Way::Slow && covers && entry.moving().is_none() => {
                io.stats.fast_misses += 1;
                return match self.direct(now, fragment, home) {
                    Route::Direct(_, at) => Route::Past(at),
                    other => other,
                };
            }
            Op::Write => self.became_dirty(io, now, fragment.extent),
            // Zeros on the fast device cost less than zeros at home, which is what giving the copy up would take.
            Op::Discard if covers && entry.is_dirty() && entry.moving().is_none() => {
                self.zero_copy(io, now, fragment, Place(slot.0), out);
                return Route::Taken;
            }
            Op::Discard if covers => {
                self.start_drain(io, now, fragment, Drained::Discard, out);
                return Route::Taken;
            }
            Op::Discard => {
                io.part_done(fragment.request, Ok(()), out);
                return Route::Taken;
            }
            _ => {}
        }
        self.count_access(io, fragment, slot);
        self.direct(now, fragment, Place(slot.0))
    }

    pub(in crate::cache) fn zero_copy(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        fragment: Fragment,
        place: Place,
        out: &mut Commands,
    ) {
        let entry = self.map.entry_mut(fragment.extent);
        entry.access(now);
        entry.in_flight += 1;
        let purpose = CacheStep::Host { request: fragment.request, first: fragment.extent, count: 1 };
        io.zero(self.layout.at(place), Bytes(u64::from(fragment.len)), purpose, out);
    }

    /// Small data that is often read has a place on the fast device when there is time.
    fn read_at_home(&mut self, io: &CacheIo, now: Nanos, fragment: Fragment) {
        let tuning = &io.tuning.partition;
        if !fragment.first || tuning.promote_reads == 0 || fragment.request_len > tuning.small {
            return;
        }
        let entry = self.map.entry_mut(fragment.extent);
        let reads = entry.miss(now, io.tuning.promotion_window);
        if reads == tuning.promote_reads && self.candidates.len() < MOST_CANDIDATES {
            self.candidates.push_back(fragment.extent);
        }
    }

    /// A write that passed the fast device's copy has completed. It is answered once the copy is given up, or a flush
    /// that comes then could leave the map pointing to the copy.
    pub(crate) fn past_done(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        extent: u32,
        request: RequestIndex,
        failed: bool,
        out: &mut Commands,
    ) {
        self.access_ended(io, now, extent, out);
        let entry = self.map.entry(extent);
        if entry.place().is_none() {
            // The copy died meanwhile; the home has all of it now.
            if entry.is_lost() && !failed {
                self.map.set_lost(extent, false);
                self.note(io, now, extent, false);
            }
            return;
        }
        let detaching = if failed {
            // The home may have some of it. The copy is whole, and goes home again.
            return self.became_dirty(io, now, extent);
        } else if let Some(index) = entry.moving() {
            // It is being detached; it must not outlast that as the truth.
            self.map.set_dirty(extent, false);
            index
        } else if entry.in_flight > 0 {
            self.start(Kind::Drain(Drained::Stale), Phase::Draining, extent, None, None)
        } else {
            return self.drop_stale(io, now, extent);
        };
        io.add_part(request);
        self.answer_at_end(io, detaching, request, out);
    }

    /// The copy is older than the home.
    pub(in crate::cache) fn drop_stale(&mut self, io: &mut CacheIo, now: Nanos, extent: u32) {
        self.map.set_dirty(extent, false);
        self.map.set_lost(extent, false);
        self.drop_copy(io, now, extent, Release::Detached, false);
    }

    /// Tidies up while the host is idle: cold extents go home, often-read ones come in.
    pub(in crate::cache) fn tick_partition(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) {
        let Some(controller) = self.controller.as_ref().filter(|_| !self.gone.any()) else { return };
        if let Err(due) = controller.idle(now, &io.tuning.partition) {
            return io.due(due);
        }
        if !io.is_idle_for_host() {
            return io.due(now.saturating_add(TIDY_EVERY));
        }
        while self.copying < io.tuning.max_moves
            && let Some(extent) = self.candidates.pop_front()
        {
            self.promote_idle(io, now, extent, out);
        }
        // What found no room while the host was busy will find some.
        self.tidying = true;
        self.make_room(io, now, out);
        self.tidying = false;
        let goes_on = self.defragment(io, now, out);
        if goes_on || self.making_room || !self.candidates.is_empty() {
            io.due(now.saturating_add(TIDY_EVERY));
        }
    }

    fn promote_idle(&mut self, io: &mut CacheIo, now: Nanos, extent: u32, out: &mut Commands) {
        let entry = self.map.entry(extent);
        if entry.place().is_some() || entry.in_flight > 0 || entry.moving().is_some() || entry.is_lost() {
            return;
        }
        // Not at the cost of something else.
        if self.map.fast_is_full() {
            return;
        }
        if let Some(slot) = self.slot_for_promotion(io, now, extent, out) {
            self.start_idle_promotion(io, extent, Place(slot.0), out);
            io.stats.partition_mut().promoted_idle += 1;
        }
    }

    /// Defragmentation (section 5.3, "fragmentation busting"): the extents that were not used for longest leave, and the
    /// fast device discards their places. Says whether there is more to do at once.
    fn defragment(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) -> bool {
        let Some(after) = io.tuning.partition.bust_after else { return false };
        let free = u64::from(self.layout.fast_usable) * u64::from(io.tuning.partition.bust_free) / 1_000_000;
        let most = self.layout.fast_usable - free as u32;
        while self.map.resident() > most && self.copying < io.tuning.max_moves {
            let Some(victim) = self.victim(io, now, false) else { return false };
            let entry = self.map.entry(victim);
            let due = entry.last_access.saturating_add(after);
            if due > now {
                io.due(due);
                return false;
            }
            if entry.in_flight > 0 || entry.moving().is_some() {
                return true;
            }
            self.evict(io, now, victim, out);
            io.stats.partition_mut().busted += 1;
        }
        self.map.resident() > most
    }

    /// To be called when the tuning has changed.
    pub(in crate::cache) fn retune_partition(&mut self, io: &CacheIo) {
        if self.controller.is_some() {
            self.controller = Some(Controller::new(&io.tuning.partition));
        }
    }
}

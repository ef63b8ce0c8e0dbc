//! Partitioned (MixedStore, section 5): every extent has its home on the slow device, and each write goes to whichever
//! device is predicted to answer sooner. What is on the fast device is newer than its home, or a copy that reads put
//! there; reads go to where the data is.
//!
//! What the fast device has no room for goes to the slow one. Room is made while the host is idle.
//!
//! A write that covers an extent may pass the copy that the fast device has: it goes home, and the copy is given up once
//! it is there. One that covers an extent in part stays where the rest is.

use peryton_units::{Bytes, Nanos, Op};

use super::{
    Fragment, Hybrid, Release, Route,
    drain::Drained,
    moves::{Kind, Phase},
};
use crate::{
    command::{Commands, Request},
    core::{Core, InFlight, Purpose, RequestIndex},
    extent_map::Place,
    partition::{Controller, Way},
};

/// Extents that wait to be brought to the fast device; more are forgotten, and come again.
const MOST_CANDIDATES: usize = 1024;
/// While there is something to tidy up, it is looked at so often.
const TIDY_EVERY: Nanos = Nanos::from_ms(1);

impl Hybrid {
    /// A request has come in.
    pub(super) fn partition_arrived(&mut self, core: &mut Core, now: Nanos, index: RequestIndex, asked: Request) {
        let Some(controller) = &mut self.controller else { return };
        let books = core.ledger.partition_mut();
        controller.arrived(now, index, (asked.op, asked.offset, asked.len), books);
        core.due(now.saturating_add(core.tuning.partition.idle_after));
    }

    /// A command has completed that read or wrote for the host.
    #[inline]
    pub(crate) fn partition_served(&mut self, now: Nanos, command: &InFlight) {
        if let Some(controller) = &mut self.controller
            && matches!(command.op, Op::Read | Op::Write)
            && matches!(command.buffer, crate::command::Buffer::Request { .. })
        {
            controller.served(now, command.device, command.op, command.took(now));
        }
    }

    /// Requests have been answered.
    pub(crate) fn partition_answered(&mut self, core: &mut Core, now: Nanos) {
        while let Some(index) = core.next_answered() {
            if let Some(controller) = &mut self.controller {
                controller.answered(now, index, core.ledger.partition_mut());
            }
        }
    }

    #[inline]
    pub(super) fn route_partitioned(
        &mut self,
        core: &mut Core,
        now: Nanos,
        fragment: Fragment,
        out: &mut Commands,
    ) -> Route {
        let entry = self.extents[fragment.extent as usize];
        let (home, covers) = (self.home(fragment.extent), self.covers_extent(fragment));
        // One that has waited goes where the data is.
        let way = match &self.controller {
            Some(controller) if fragment.first => controller.way,
            _ => Way::Fast,
        };
        let Some(slot) = entry.slot() else {
            match fragment.op {
                Op::Write if way == Way::Fast && covers && fragment.first && entry.in_flight == 0 => {
                    if let Some(slot) = self.slot_for_promotion(core, now, fragment.extent, out) {
                        core.ledger.fast_hits += 1;
                        self.extents[fragment.extent as usize].access(now);
                        self.start_fill(core, fragment, Place(slot.0), out);
                        self.make_room(core, now, out);
                        return Route::Taken;
                    }
                }
                Op::Read => self.read_at_home(core, now, fragment),
                _ => {}
            }
            core.ledger.fast_misses += u64::from(fragment.first && fragment.op != Op::Discard);
            return self.direct(now, fragment, home);
        };
        match fragment.op {
            Op::Write if way == Way::Slow && covers && entry.moving().is_none() => {
                core.ledger.fast_misses += 1;
                return match self.direct(now, fragment, home) {
                    Route::Direct(_, at) => Route::Past(at),
                    other => other,
                };
            }
            Op::Write => self.became_dirty(core, now, fragment.extent),
            // Zeros on the fast device cost less than zeros at home, which is what giving the copy up would take.
            Op::Discard if covers && entry.dirty && entry.moving().is_none() => {
                self.zero_copy(core, now, fragment, Place(slot.0), out);
                return Route::Taken;
            }
            Op::Discard if covers => {
                self.start_drain(core, now, fragment, Drained::Discard, out);
                return Route::Taken;
            }
            Op::Discard => {
                core.part_done(fragment.request, Ok(()), out);
                return Route::Taken;
            }
            _ => {}
        }
        self.count_access(core, fragment, slot);
        self.direct(now, fragment, Place(slot.0))
    }

    pub(super) fn zero_copy(
        &mut self,
        core: &mut Core,
        now: Nanos,
        fragment: Fragment,
        place: Place,
        out: &mut Commands,
    ) {
        let entry = &mut self.extents[fragment.extent as usize];
        entry.access(now);
        entry.in_flight += 1;
        let purpose = Purpose::Host { request: fragment.request, first: fragment.extent, count: 1 };
        core.zero(self.layout.at(place), Bytes(u64::from(fragment.len)), purpose, out);
    }

    /// Small data that is often read has a place on the fast device when there is time.
    fn read_at_home(&mut self, core: &Core, now: Nanos, fragment: Fragment) {
        let tuning = &core.tuning.partition;
        if !fragment.first || tuning.promote_reads == 0 || fragment.request_len > tuning.small {
            return;
        }
        let entry = &mut self.extents[fragment.extent as usize];
        let reads = entry.miss(now, core.tuning.promotion_window);
        if reads == tuning.promote_reads && self.candidates.len() < MOST_CANDIDATES {
            self.candidates.push_back(fragment.extent);
        }
    }

    /// A write that passed the fast device's copy has completed. It is answered once the copy is given up, or a flush
    /// that comes then could leave the map pointing to the copy.
    pub(crate) fn past_done(
        &mut self,
        core: &mut Core,
        now: Nanos,
        extent: u32,
        request: RequestIndex,
        failed: bool,
        out: &mut Commands,
    ) {
        self.access_ended(core, now, extent, out);
        let entry = &self.extents[extent as usize];
        if entry.place().is_none() {
            // The copy died meanwhile; the home has all of it now.
            if entry.lost && !failed {
                self.set_lost(extent, false);
                self.note(core, now, extent, false);
            }
            return;
        }
        let detaching = if failed {
            // The home may have some of it. The copy is whole, and goes home again.
            return self.became_dirty(core, now, extent);
        } else if let Some(index) = entry.moving() {
            // It is being detached; it must not outlast that as the truth.
            self.set_dirty(extent, false);
            index
        } else if entry.in_flight > 0 {
            self.start(Kind::Drain(Drained::Stale), Phase::Draining, extent, None, None)
        } else {
            return self.drop_stale(core, now, extent);
        };
        core.add_part(request);
        self.answer_at_end(core, detaching, request, out);
    }

    /// The copy is older than the home.
    pub(super) fn drop_stale(&mut self, core: &mut Core, now: Nanos, extent: u32) {
        self.set_dirty(extent, false);
        self.set_lost(extent, false);
        self.drop_copy(core, now, extent, Release::Detached, false);
    }

    /// Tidies up while the host is idle: cold extents go home, often-read ones come in.
    pub(super) fn tick_partition(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        let Some(controller) = self.controller.as_ref().filter(|_| !self.gone.any()) else { return };
        if let Err(due) = controller.idle(now, &core.tuning.partition) {
            return core.due(due);
        }
        if !core.is_idle_for_host() {
            return core.due(now.saturating_add(TIDY_EVERY));
        }
        while self.copying < core.tuning.max_moves
            && let Some(extent) = self.candidates.pop_front()
        {
            self.promote_idle(core, now, extent, out);
        }
        // What found no room while the host was busy will find some.
        self.tidying = true;
        self.make_room(core, now, out);
        self.tidying = false;
        let busts = self.bust(core, now, out);
        if busts || self.making_room || !self.candidates.is_empty() {
            core.due(now.saturating_add(TIDY_EVERY));
        }
    }

    fn promote_idle(&mut self, core: &mut Core, now: Nanos, extent: u32, out: &mut Commands) {
        let entry = &self.extents[extent as usize];
        if entry.place().is_some() || entry.in_flight > 0 || entry.moving().is_some() || entry.lost {
            return;
        }
        // Not at the cost of something else.
        if self.resident >= self.layout.fast_usable {
            return;
        }
        if let Some(slot) = self.slot_for_promotion(core, now, extent, out) {
            self.start_idle_promotion(core, extent, Place(slot.0), out);
            core.ledger.partition_mut().promoted_idle += 1;
        }
    }

    /// Fragmentation busting (section 5.3): the extents that were not used for longest leave, and the fast device is
    /// told. Says whether there is more to do at once.
    fn bust(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) -> bool {
        let Some(after) = core.tuning.partition.bust_after else { return false };
        let free = u64::from(self.layout.fast_usable) * u64::from(core.tuning.partition.bust_free) / 1_000_000;
        let most = self.layout.fast_usable - free as u32;
        while self.resident > most && self.copying < core.tuning.max_moves {
            let Some(victim) = self.victim(core, now, false) else { return false };
            let entry = &self.extents[victim as usize];
            let due = entry.last_access.saturating_add(after);
            if due > now {
                core.due(due);
                return false;
            }
            if entry.in_flight > 0 || entry.moving().is_some() {
                return true;
            }
            self.evict(core, now, victim, out);
            core.ledger.partition_mut().busted += 1;
        }
        self.resident > most
    }

    /// To be called when the tuning has changed.
    pub(super) fn retune_partition(&mut self, core: &Core) {
        if self.controller.is_some() {
            self.controller = Some(Controller::new(self.layout.fast, &core.tuning.partition));
        }
    }
}

//! Two unlike devices and a map between them: what tiering and caching share.
//!
//! `tiering.rs`, `caching.rs` and `partitioned.rs` say where an access goes; `moves.rs` is the state machine that carries
//! extents from one device to the other, `drain.rs` the one that detaches them; `room.rs` chooses who leaves;
//! `writeback.rs` and `through.rs` are caching's write policies; `restore.rs` makes all of it from the durable map;
//! `degraded.rs` goes on with one device when the other is dead.

mod caching;
mod degraded;
mod drain;
mod host;
mod invariants;
mod layout;
mod moves;
mod partitioned;
mod restore;
mod room;
mod through;
mod tiering;
mod writeback;

use std::collections::VecDeque;

use peryton_units::{Bytes, Nanos, Op};

use crate::{
    admission::{AdaptiveView, AdmissionCosts, Gate, Miss, Programs, Wear},
    command::{Buffer, Commands, DeviceId, Request},
    commit::{Committed, Freed, Journal, Waiter},
    config::Tuning,
    core::{Core, Purpose, RequestIndex},
    error::TuningError,
    extent_map::{Extent, Place},
    free_map::FreeMap,
    mutation::{self, Mutation},
    partition::Controller,
    replacement::{Policy, Replaces, SlotIndex, View},
    slab::Slab,
};
pub(crate) use degraded::Gone;
use degraded::Router;
pub(crate) use layout::{Layout, spare_extents};
use moves::Move;
use through::ThroughWrite;

/// Which of the two ways to use the fast device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Tiering,
    Caching,
}

/// The part of a host request that falls into one extent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment {
    request: RequestIndex,
    op: Op,
    extent: u32,
    /// Offset within the extent, and length.
    within: u32,
    len: u32,
    /// Offset within the request's buffer, and the length of the whole request.
    offset: Bytes,
    request_len: Bytes,
    /// It has not been routed before: it counts in the ledger, and it may promote.
    first: bool,
}

impl Fragment {
    fn miss(&self) -> Miss {
        Miss { extent: self.extent, op: self.op, request_len: self.request_len }
    }
}

/// Where a fragment goes.
enum Route {
    /// To this place on this device, as a plain command.
    Direct(DeviceId, Bytes),
    /// The same, to its home past the copy that the fast device has.
    Past(Bytes),
    /// It waits, is under way by other means, or has been answered.
    Taken,
}

/// Why a place is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    /// The durable map never pointed to it: a move that came to nothing.
    NeverUsed,
    /// Its extent made room for others.
    Evicted,
    /// Its extent is elsewhere now, or its copy is no longer good.
    Detached,
    /// The host discarded its extent: the device may be told.
    Discarded,
}

/// Neighbouring fragments that became neighbours on a device: one command.
#[derive(Clone, Copy, Debug)]
struct Run {
    fragment: Fragment,
    device: DeviceId,
    at: Bytes,
    len: Bytes,
    extents: u32,
    /// It passes copies on the fast device.
    past: bool,
}

fn new_gate(layout: &Layout, tuning: &Tuning) -> Gate {
    Gate::new(&tuning.admission, layout.fast_usable, Bytes(layout.extent_bytes))
}

/// A tiering or caching drive.
#[derive(Debug)]
pub(crate) struct Hybrid {
    pub(crate) mode: Mode,
    router: Router,
    pub(crate) gone: Gone,
    pub(crate) layout: Layout,
    extents: Vec<Extent>,
    /// For each slot of the fast device the extent in it plus one, zero for none.
    slots: Vec<u32>,
    policy: Policy,
    gate: Gate,
    fast_free: FreeMap,
    /// Tiering only; caching has a home for each extent.
    slow_free: FreeMap,
    /// Places that may hold an earlier tenant's data, by index; a fresh device reads as zeros.
    stale: Vec<u64>,
    moves: Slab<Move>,
    waiter_lists: Vec<Vec<Fragment>>,
    /// Moves whose buffers hold acknowledged writes.
    volatile: Vec<u32>,
    /// Copying moves in flight (MCML counts these), and those of them that empty the fast device.
    copying: u32,
    leaving: u32,
    /// Move buffers that are not in use.
    buffers: Vec<u32>,
    buffer_count: u32,
    /// Slots of the fast device that the map uses or a move has reserved.
    resident: u32,
    /// Extents of the cache that are newer than their homes.
    pub(crate) dirty: u32,
    /// Extents whose only copy is lost.
    pub(crate) lost: u32,
    /// Between LT and HT: extents are being taken off the fast device.
    making_room: bool,
    /// Partitioned: the host is idle, and what is dirty may leave the fast device to make room.
    tidying: bool,
    /// What the devices say that they have programmed (adaptive admission).
    programs: Programs,
    /// A device failed: the next victim waits until then.
    room_pauses_until: Nanos,
    /// Places that the device is being told about before they are free.
    discarding: u32,
    /// Allocations that wait for a place to become free.
    starving: Vec<u32>,
    writebacks: VecDeque<(u32, Nanos)>,
    writing_back: u32,
    through: Slab<ThroughWrite>,
    through_in_flight: Vec<u32>,
    journal: Journal,
    /// Decides where writes go (partitioned).
    pub(crate) controller: Option<Controller>,
    /// Extents that reads want on the fast device (partitioned).
    candidates: VecDeque<u32>,
    /// Host flushes that wait for moves whose writes were acknowledged from RAM: with the sequence up to which they
    /// wait.
    flushes: Vec<(RequestIndex, u64)>,
    /// Counts moves, so that a flush knows which came before it.
    sequence: u64,
}

impl Hybrid {
    pub(crate) fn new(mode: Mode, layout: Layout, tuning: &Tuning) -> Hybrid {
        let slow_free = if mode == Mode::Tiering { layout.slow_slots } else { 1 };
        let places = layout.fast_slots as usize + layout.slow_slots as usize;
        Hybrid {
            mode,
            router: if mode == Mode::Tiering { Router::Tiering } else { Router::Caching },
            gone: Gone::default(),
            layout,
            extents: vec![Extent::default(); layout.extents as usize],
            slots: vec![0; layout.fast_slots as usize],
            policy: Policy::new(tuning.replacement, layout.fast_slots, layout.fast_usable),
            gate: new_gate(&layout, tuning),
            fast_free: FreeMap::full(layout.fast_slots),
            slow_free: FreeMap::full(slow_free),
            stale: vec![0; places.div_ceil(64)],
            moves: Slab::new(),
            waiter_lists: Vec::new(),
            volatile: Vec::new(),
            copying: 0,
            leaving: 0,
            buffers: Vec::new(),
            buffer_count: 0,
            resident: 0,
            dirty: 0,
            lost: 0,
            making_room: false,
            tidying: false,
            programs: Programs::default(),
            room_pauses_until: Nanos::ZERO,
            discarding: 0,
            starving: Vec::new(),
            writebacks: VecDeque::new(),
            writing_back: 0,
            through: Slab::new(),
            through_in_flight: Vec::new(),
            journal: Journal::new(layout.metadata, [layout.fast, layout.slow], layout.extents),
            controller: None,
            candidates: VecDeque::new(),
            flushes: Vec::new(),
            sequence: 0,
        }
    }

    /// The same, with a controller that says where writes go.
    pub(crate) fn partitioned(mode: Mode, layout: Layout, tuning: &Tuning) -> Hybrid {
        let controller = Some(Controller::new(layout.fast, &tuning.partition));
        Hybrid { controller, router: Router::Partitioned, ..Hybrid::new(mode, layout, tuning) }
    }

    pub(crate) fn check(&self, tuning: &Tuning) -> Result<(), TuningError> {
        self.layout.check(self.mode, tuning)
    }

    /// To be called after the tuning in `core` has changed.
    pub(crate) fn retuned(&mut self, core: &mut Core, before: &Tuning, now: Nanos, out: &mut Commands) {
        if core.tuning.replacement != before.replacement {
            self.policy = Policy::new(core.tuning.replacement, self.layout.fast_slots, self.layout.fast_usable);
            // The new policy learns the residents from the least to the most recently used.
            let mut residents: Vec<(Nanos, u32)> = (0..self.layout.fast_slots)
                .filter_map(|slot| {
                    let extent = self.slots[slot as usize].checked_sub(1)?;
                    Some((self.extents[extent as usize].last_access, slot))
                })
                .collect();
            residents.sort_unstable();
            for (_, slot) in residents {
                self.policy.inserted(SlotIndex(slot), self.slots[slot as usize] - 1);
            }
        }
        if self.gate.differs(&core.tuning.admission) {
            self.gate = new_gate(&self.layout, &core.tuning);
        }
        if core.tuning.partition != before.partition {
            self.retune_partition(core);
        }
        core.due(now);
        self.make_room(core, now, out);
        self.pump_writebacks(core, now, out);
    }

    pub(crate) fn move_buffers(&self, tuning: &Tuning) -> u32 {
        // A promotion is under MCML when it asks for a slot, and the evictions that begin for it may reach MCML.
        self.buffer_count.max(tuning.max_moves + 1)
    }

    // Buffers and places.

    fn take_buffer(&mut self) -> u32 {
        self.buffers.pop().unwrap_or_else(|| {
            self.buffer_count += 1;
            self.buffer_count - 1
        })
    }

    fn is_stale(&self, place: Place) -> bool {
        self.stale[place.0 as usize / 64] >> (place.0 % 64) & 1 == 1 && !mutation::is(Mutation::ShowStale)
    }

    fn set_stale(&mut self, place: Place, stale: bool) {
        let bit = 1 << (place.0 % 64);
        let word = &mut self.stale[place.0 as usize / 64];
        *word = if stale { *word | bit } else { *word & !bit };
    }

    /// Fast extents that are free, or will be once what is under way is done. After a crash a cache can hold more than it
    /// uses: a commit that did not wait for the slow device has the promotions, and not the evictions before them.
    fn free_soon(&self) -> u32 {
        (self.layout.fast_usable + self.leaving).saturating_sub(self.resident)
    }

    /// Takes a slot of the fast device for `extent`. None if there is none: then a commit that frees some is under way
    /// where one can help.
    fn reserve_slot(&mut self, core: &mut Core, now: Nanos, extent: u32, out: &mut Commands) -> Option<SlotIndex> {
        if self.resident >= self.layout.fast_usable || self.gone.fast {
            return None;
        }
        let slot = self.fast_free.take_lowest();
        // A commit frees what waits for it: worth its flushes once that is more than is free.
        if self.journal.waiting() > self.fast_free.count() as usize {
            self.commit(core, now, true, out);
        }
        let slot = SlotIndex(slot?);
        self.resident += 1;
        self.slots[slot.0 as usize] = extent + 1;
        self.policy.inserted(slot, extent);
        Some(slot)
    }

    /// Gives up a slot: at once if the durable map never pointed to it, else after the next commit.
    fn release_slot(&mut self, slot: SlotIndex, why: Release) {
        let extent = self.slots[slot.0 as usize] - 1;
        let evicted = why == Release::Evicted;
        self.policy.removed(slot, extent, evicted);
        self.slots[slot.0 as usize] = 0;
        self.resident -= 1;
        self.release_place(Place(slot.0), why);
    }

    fn release_place(&mut self, place: Place, why: Release) {
        self.set_stale(place, true);
        match why {
            Release::NeverUsed => self.free_now(place),
            _ if mutation::is(Mutation::ReuseBeforeCommit) => self.free_now(place),
            why => {
                // A cache's copy may only go once its home is durable, and what is demoted once its new place is. A place
                // on the slow device that is given up for one on the fast device needs neither.
                let homebound = self.mode == Mode::Caching || why == Release::Evicted;
                // MixedStore tells the flash what it need not keep (section 5.3).
                let discarded = why == Release::Discarded || self.controller.is_some();
                self.journal.free(Freed { place, discarded }, homebound);
            }
        }
    }

    /// The device has been told that nothing is left in a place.
    pub(crate) fn place_discarded(&mut self, core: &mut Core, now: Nanos, place: Place, out: &mut Commands) {
        self.discarding -= 1;
        self.free_now(place);
        self.feed_starving(core, now, out);
    }

    fn free_now(&mut self, place: Place) {
        match self.layout.fast_slot(place) {
            Some(slot) => self.fast_free.put(slot.0),
            None => self.slow_free.put(self.layout.slow_slot(place)),
        }
    }

    // Commits.

    /// The map entry of the extent has changed. `homebound`: because the slow device has the extent's data now.
    #[inline]
    fn note(&mut self, core: &mut Core, now: Nanos, extent: u32, homebound: bool) {
        let entry = self.extents[extent as usize].entry();
        // A clean copy says that its home has the same: what was written home, and came back before the slow device was
        // flushed, is in one place only.
        let says_home = self.mode == Mode::Caching && entry.place().is_some() && !entry.is_dirty();
        if says_home && !homebound && self.journal.is_homebound(extent) {
            self.journal.takes_all_next();
        }
        self.journal.update(core, now, extent, entry, homebound);
    }

    /// Commits what has been gathered; `all`, also what needs the slow device flushed for no other reason.
    fn commit(&mut self, core: &mut Core, now: Nanos, all: bool, out: &mut Commands) {
        let mut committed = self.journal.commit(core, all, out);
        // A commit with nothing to write is done at once; those who joined meanwhile want another.
        while let Some(done) = committed {
            committed = self.committed(core, now, done, out);
        }
    }

    pub(crate) fn commit_step(&mut self, core: &mut Core, now: Nanos, failed: bool, out: &mut Commands) {
        let mut committed = self.journal.step(core, failed, out);
        while let Some(done) = committed {
            committed = self.committed(core, now, done, out);
        }
    }

    fn committed(&mut self, core: &mut Core, now: Nanos, done: Committed, out: &mut Commands) -> Option<Committed> {
        for Freed { place, discarded } in &done.freed {
            if *discarded && !core.is_dead(self.layout.at(*place).0) {
                // The device is told, and the place is not reused before it has answered: the order of a discard and a
                // later write is not the device's to choose.
                let len = Bytes(self.layout.extent_bytes);
                self.discarding += 1;
                core.discard(self.layout.at(*place), len, Purpose::Discarded { place: *place }, out);
            } else {
                self.free_now(*place);
            }
        }
        let mut waiters = done.waiters;
        if mutation::is(Mutation::ForgetWaiter) && waiters.len() > 1 && matches!(waiters.last(), Some(Waiter::Flush(_)))
        {
            waiters.pop();
        }
        for waiter in waiters {
            match waiter {
                Waiter::Flush(request) => {
                    let result = if done.failed { Err(crate::error::RequestError::Device) } else { Ok(()) };
                    core.part_done(request, result, out);
                }
                Waiter::Move(index) => self.move_committed(core, now, index, out),
            }
        }
        self.journal.checkpoint_if_needed(core, out);
        if done.failed {
            return None;
        }
        if self.making_room {
            self.make_room(core, now, out);
        }
        if self.journal.commit_again(core) { self.journal.commit(core, false, out) } else { None }
    }

    pub(crate) fn checkpoint_step(
        &mut self,
        core: &mut Core,
        now: Nanos,
        device: DeviceId,
        failed: bool,
        out: &mut Commands,
    ) {
        self.journal.checkpoint_step(core, device, failed, out);
        if !self.journal.is_checkpointing() && self.journal.commit_again(core) {
            self.commit(core, now, false, out);
        }
    }

    /// A host flush: first the moves whose writes were acknowledged from RAM, then a commit, which flushes the devices
    /// and the map.
    pub(crate) fn flush(&mut self, core: &mut Core, now: Nanos, request: RequestIndex, out: &mut Commands) {
        if mutation::is(Mutation::AnswerFlushAtOnce) {
            return core.part_done(request, Ok(()), out);
        }
        self.flushes.push((request, self.sequence));
        self.flushes_may_go(core, now, out);
    }

    fn flushes_may_go(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        if self.flushes.is_empty() {
            return;
        }
        let oldest = self.oldest_volatile_move();
        let mut joined = false;
        for (request, sequence) in std::mem::take(&mut self.flushes) {
            if oldest.is_some_and(|oldest| oldest <= sequence) {
                self.flushes.push((request, sequence));
            } else {
                self.journal.wait(Waiter::Flush(request));
                joined = true;
            }
        }
        if joined {
            self.commit(core, now, false, out);
        }
    }

    // Timers.

    pub(crate) fn tick(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        if self.journal.block_is_full() || self.journal.commit_is_due(core, now) {
            self.commit(core, now, true, out);
        }
        if self.making_room {
            self.make_room(core, now, out);
        }
        self.pump_writebacks(core, now, out);
        self.tick_partition(core, now, out);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.moves.len() == 0 && self.flushes.is_empty() && self.journal.is_idle() && self.through_in_flight.is_empty()
    }

    fn victim(&mut self, core: &Core, now: Nanos, clean_only: bool) -> Option<u32> {
        let (slots, extents) = (&self.slots, &mut self.extents);
        let mut view = View { now, window: core.tuning.promotion_window, slots, extents, clean_only };
        let slot = self.policy.victim(&mut view)?;
        Some(self.slots[slot.0 as usize] - 1)
    }

    /// Which device's programs the adaptive threshold would like to know.
    pub(crate) fn admission_asks_what_was_programmed(&mut self, core: &Core, now: Nanos) -> Option<DeviceId> {
        let wears =
            |device: DeviceId| core.tuning.admission.programmable.get(device.index()).is_some_and(Option::is_some);
        if !self.gate.adapts() || !wears(self.layout.fast) && !wears(self.layout.slow) {
            return None;
        }
        self.programs.asks(now, [self.layout.fast, self.layout.slow]).filter(|device| wears(*device))
    }

    /// What a device has programmed, and all that was written to it.
    pub(crate) fn programmed(&mut self, device: DeviceId, bytes: Bytes, written: Bytes) {
        self.programs.told(device, bytes, written);
    }

    pub(crate) fn adaptive_admission(&self) -> Option<AdaptiveView> {
        self.gate.view()
    }

    /// What admission weighs: the latencies of late, and what the devices can still be written.
    fn admission_costs(&self, core: &Core) -> AdmissionCosts {
        let ([fast_read, fast_write], [slow_read, slow_write]) =
            (core.latency(self.layout.fast), core.latency(self.layout.slow));
        let wear = |device: DeviceId| {
            let limit = |of: &[Option<Bytes>]| of.get(device.index()).copied().flatten();
            let written = core.ledger.devices[device.index()].bytes_written.iter().sum();
            let rated = limit(&core.tuning.admission.endurance).map(|limit| limit.saturating_sub(Bytes(written)));
            let physical =
                limit(&core.tuning.admission.programmable).map(|limit| self.programs.left(device, limit, written));
            Wear { left: [rated, physical].into_iter().flatten().min() }
        };
        AdmissionCosts {
            latency: [fast_read, fast_write, slow_read, slow_write],
            wear: [wear(self.layout.fast), wear(self.layout.slow)],
            energy: [self.layout.fast, self.layout.slow]
                .map(|device| core.tuning.admission.energy.get(device.index()).copied().flatten().unwrap_or_default()),
        }
    }

    fn move_buffer(&self, index: u32) -> Buffer {
        Buffer::Move { index: self.moves[index].buffer, offset: Bytes::ZERO }
    }
}

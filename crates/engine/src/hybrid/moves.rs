//! Moves: the small state machines that carry an extent from one place to another.
//!
//! ```text
//! promotion   [Draining →] Reading → (waiters served from RAM) → Writing → done   a failed write: → WritingHome → done
//! fill        Writing → done                                            the host's own data covers the extent
//! demotion    Reading → Writing → done                                  an access cancels it
//! eviction    Reading → Writing → done                                  dirty extents of the cache; an access cancels
//! write-back  Reading → Writing → done                                  a write leaves the extent dirty
//! zero        Writing → done                                            a reused place must not show its last tenant
//! drain       Draining → (Writing | Committing) → done                  waits for accesses in flight, then detaches
//! ```
//! Map updates are gathered by the journal as moves end; what a move frees is free for reuse only after the commit.
//! `waiters.rs` has what becomes of accesses meanwhile.

mod waiters;

use peryton_units::{Bytes, Nanos, Op};

use super::{Fragment, Hybrid, Mode, Release, drain::Drained};
use crate::{
    command::{Buffer, Cause, Commands},
    config::WritePolicy,
    error::RequestError,
    extent_map::Place,
    hybrid::step::{Core, Step},
    io::RequestIndex,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Promotion,
    Fill,
    Demotion,
    Eviction,
    WriteBack,
    Zero,
    Drain(Drained),
    /// An allocation that found every free place waiting for its commit.
    Allocation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Reading,
    Writing,
    WritingHome,
    Draining,
    Committing,
}

#[derive(Debug)]
pub(super) struct Move {
    pub(super) kind: Kind,
    pub(super) phase: Phase,
    pub(super) extent: u32,
    to: Option<Place>,
    /// The move buffer, for kinds that copy.
    pub(super) buffer: u32,
    /// Commands in flight.
    pub(super) pending: u32,
    failed: bool,
    /// The host accessed the extent meanwhile; for `rewritten`, with a write.
    accessed: bool,
    rewritten: bool,
    /// The buffer holds writes that the host has been told are done.
    ram_dirty: bool,
    sequence: u64,
    /// The fragment that began it, where it has to be answered by the move itself.
    pub(super) trigger: Option<Fragment>,
    waiters: Vec<Fragment>,
    /// Requests of which a part is answered when the move has ended.
    answers: Vec<RequestIndex>,
}

const NO_BUFFER: u32 = u32::MAX;
/// Empty lists of waiters that are kept for moves to come.
const MOST_WAITER_LISTS: usize = 1024;

/// GreenDM gives a promotion up while its extent is accessed (section 2.6). So do we, this many times in a row; then the
/// promotion begins, and new accesses wait until those in flight have ended.
const PATIENCE: u32 = 8;

impl Hybrid {
    pub(super) fn start(
        &mut self,
        kind: Kind,
        phase: Phase,
        extent: u32,
        to: Option<Place>,
        trigger: Option<Fragment>,
    ) -> u32 {
        let copies = matches!(kind, Kind::Promotion | Kind::Fill | Kind::Demotion | Kind::Eviction | Kind::WriteBack);
        let needs_buffer = copies && kind != Kind::Fill;
        self.copying += u32::from(copies);
        self.leaving += u32::from(matches!(kind, Kind::Demotion | Kind::Eviction));
        self.writing_back += u32::from(kind == Kind::WriteBack);
        self.sequence += 1;
        let buffer = if needs_buffer { self.take_buffer() } else { NO_BUFFER };
        let index = self.moves.insert(Move {
            kind,
            phase,
            extent,
            to,
            buffer,
            pending: 0,
            failed: false,
            accessed: false,
            rewritten: false,
            ram_dirty: false,
            sequence: self.sequence,
            trigger,
            waiters: self.waiter_lists.pop().unwrap_or_default(),
            answers: Vec::new(),
        });
        let entry = &mut self.extents[extent as usize];
        assert!(entry.moving().is_none(), "extent {extent} is moved twice at once");
        entry.set_moving(Some(index));
        index
    }

    /// The move is over: its extent is free for others, and those who waited go on.
    pub(super) fn end(&mut self, core: &mut Core, now: Nanos, index: u32, out: &mut Commands) {
        let row = &mut self.moves[index];
        let (kind, extent, buffer, mut waiters) = (row.kind, row.extent, row.buffer, std::mem::take(&mut row.waiters));
        let answers = std::mem::take(&mut row.answers);
        debug_assert!(row.pending == 0 && row.trigger.is_none());
        let was_volatile = std::mem::take(&mut row.ram_dirty);
        self.moves.remove(index);
        self.extents[extent as usize].set_moving(None);
        if self.gone.any() {
            self.strand(core, extent);
        }
        if buffer != NO_BUFFER {
            self.buffers.push(buffer);
        }
        let copied = matches!(kind, Kind::Promotion | Kind::Fill | Kind::Demotion | Kind::Eviction | Kind::WriteBack);
        self.copying -= u32::from(copied);
        self.leaving -= u32::from(matches!(kind, Kind::Demotion | Kind::Eviction));
        self.writing_back -= u32::from(kind == Kind::WriteBack);
        for request in answers {
            core.part_done(request, Ok(()), out);
        }
        for fragment in waiters.drain(..) {
            self.resume(core, now, fragment, out);
        }
        // The next move needs no memory of its own.
        if waiters.capacity() > 0 && self.waiter_lists.len() < MOST_WAITER_LISTS {
            self.waiter_lists.push(waiters);
        }
        if was_volatile {
            self.volatile.retain(|volatile| *volatile != index);
            self.flushes_may_go(core, now, out);
        }
        if copied && !self.starving.is_empty() {
            self.feed_starving(core, now, out);
        }
        if self.making_room {
            self.make_room(core, now, out);
        }
        if !self.writebacks.is_empty() {
            self.pump_writebacks(core, now, out);
        }
        if self.journal.block_is_full() {
            self.commit(core, now, true, out);
        }
    }

    pub(super) fn oldest_volatile_move(&self) -> Option<u64> {
        self.volatile.iter().map(|index| self.moves[*index].sequence).min()
    }

    fn move_read(&mut self, core: &mut Core, index: u32, place: Place, cause: Cause, out: &mut Commands) {
        let buffer = self.move_buffer(index);
        self.moves[index].pending += 1;
        let len = Bytes(self.layout.extent_bytes);
        core.read(self.layout.at(place), len, buffer, Step::Move { index }, cause, out);
    }

    fn move_write(&mut self, core: &mut Core, index: u32, place: Place, cause: Cause, out: &mut Commands) {
        let buffer = self.move_buffer(index);
        self.moves[index].pending += 1;
        let len = Bytes(self.layout.extent_bytes);
        core.ledger.moves.bytes += len;
        core.write(self.layout.at(place), len, buffer, Step::Move { index }, cause, out);
    }

    // Beginnings.

    /// Promotes the extent of a fragment that missed; the fragment waits for it. Refused under GreenDM's conditions
    /// (section 2.3), each counted.
    pub(super) fn try_promote(&mut self, core: &mut Core, now: Nanos, fragment: Fragment, out: &mut Commands) -> bool {
        let extent = fragment.extent;
        let cancelled = &mut core.ledger.moves.cancelled;
        if self.journal.is_checkpointing() {
            cancelled.metadata_flush += 1;
            return false;
        }
        let entry = &self.extents[extent as usize];
        let in_use = entry.in_flight > 0;
        let fills = !in_use
            && fragment.op == Op::Write
            && self.covers_extent(fragment)
            && (self.mode == Mode::Tiering || core.tuning.write == WritePolicy::Back);
        // What is lost may have something older at home: only what replaces all of it comes in.
        if entry.lost && !fills || self.gone.any() {
            cancelled.device_error += 1;
            return false;
        }
        if in_use {
            cancelled.in_use += 1;
            // With many requests in flight the hottest extents are never idle: they would never be promoted.
            if entry.misses <= core.tuning.promotion_threshold.saturating_add(PATIENCE) {
                return false;
            }
        }
        if self.copying >= core.tuning.max_moves {
            cancelled.move_limit += 1;
            return false;
        }
        let Some(slot) = self.slot_for_promotion(core, now, extent, out) else {
            core.ledger.moves.cancelled.fast_full += 1;
            return false;
        };
        let to = Place(slot.0);
        self.extents[extent as usize].access(now);
        if fills {
            self.start_fill(core, fragment, to, out);
        } else {
            let phase = if in_use { Phase::Draining } else { Phase::Reading };
            let index = self.start(Kind::Promotion, phase, extent, Some(to), None);
            self.moves[index].waiters.push(fragment);
            if !in_use {
                self.move_read(core, index, self.current_place(extent), Cause::Promotion, out);
            }
        }
        self.make_room(core, now, out);
        true
    }

    /// Brings an extent in that nobody waits for.
    pub(super) fn start_idle_promotion(&mut self, core: &mut Core, extent: u32, to: Place, out: &mut Commands) {
        let index = self.start(Kind::Promotion, Phase::Reading, extent, Some(to), None);
        self.move_read(core, index, self.current_place(extent), Cause::Promotion, out);
    }

    /// The accesses that a promotion waited for have ended.
    pub(super) fn promotion_drained(&mut self, core: &mut Core, index: u32, out: &mut Commands) {
        let row = &mut self.moves[index];
        row.phase = Phase::Reading;
        let extent = row.extent;
        self.move_read(core, index, self.current_place(extent), Cause::Promotion, out);
    }

    /// Where an extent's data is: in its place, or in caching, when not cached, at home.
    fn current_place(&self, extent: u32) -> Place {
        match self.extents[extent as usize].place() {
            Some(place) => place,
            None => self.home(extent),
        }
    }

    /// A write that covers its whole extent goes straight to the new place: nothing has to be read first.
    pub(super) fn start_fill(&mut self, core: &mut Core, fragment: Fragment, to: Place, out: &mut Commands) {
        let index = self.start(Kind::Fill, Phase::Writing, fragment.extent, Some(to), Some(fragment));
        self.moves[index].pending = 1;
        let buffer = Buffer::Request { id: core.id_of(fragment.request), offset: fragment.offset };
        let len = Bytes(u64::from(fragment.len));
        core.write(self.layout.at(to), len, buffer, Step::Move { index }, Cause::Host, out);
    }

    pub(super) fn start_demotion(&mut self, core: &mut Core, extent: u32, to: Place, out: &mut Commands) {
        let from = self.current_place(extent);
        let index = self.start(Kind::Demotion, Phase::Reading, extent, Some(to), None);
        self.move_read(core, index, from, Cause::Demotion, out);
    }

    /// Copies a dirty extent home; an eviction then drops it.
    pub(super) fn start_writeback(&mut self, core: &mut Core, extent: u32, evict: bool, out: &mut Commands) {
        let from = self.current_place(extent);
        let kind = if evict { Kind::Eviction } else { Kind::WriteBack };
        let index = self.start(kind, Phase::Reading, extent, Some(self.home(extent)), None);
        self.move_read(core, index, from, kind.cause(), out);
    }

    pub(super) fn start_zero(&mut self, core: &mut Core, fragment: Fragment, place: Place, out: &mut Commands) {
        let index = self.start(Kind::Zero, Phase::Writing, fragment.extent, Some(place), None);
        self.moves[index].waiters.push(fragment);
        self.moves[index].pending = 1;
        core.zero(self.layout.at(place), Bytes(self.layout.extent_bytes), Step::Move { index }, out);
    }

    // Steps.

    /// A command of the move has completed.
    pub(crate) fn move_step(&mut self, core: &mut Core, now: Nanos, index: u32, failed: bool, out: &mut Commands) {
        let row = &mut self.moves[index];
        row.failed |= failed;
        row.pending -= 1;
        debug_assert_eq!(row.pending, 0, "every step of a move is one command");
        if failed {
            core.ledger.moves.cancelled.device_error += 1;
        }
        match (row.kind, row.phase, row.failed) {
            (Kind::Promotion, Phase::Reading, false) if self.gone.fast => self.abort_promotion(core, now, index, out),
            (Kind::Promotion, Phase::Reading, false) => self.serve_from_ram(core, index, out),
            (Kind::Promotion, Phase::Reading, true) => self.abort_promotion(core, now, index, out),
            (Kind::Promotion, Phase::Writing, false) => self.promoted(core, now, index, out),
            (Kind::Promotion, Phase::Writing, true) if row.ram_dirty => {
                // The host was told that these writes are done: their home must have them.
                row.phase = Phase::WritingHome;
                row.failed = false;
                let from = self.current_place(self.moves[index].extent);
                self.move_write(core, index, from, Cause::Promotion, out);
            }
            (Kind::Promotion, Phase::Writing, true) => self.abort_promotion(core, now, index, out),
            (Kind::Promotion, Phase::WritingHome, failed) => {
                if failed {
                    core.ledger.lost_extents += 1;
                    let extent = row.extent;
                    self.set_lost(extent, true);
                    self.note(core, now, extent, false);
                }
                self.abort_promotion(core, now, index, out);
            }
            (Kind::Fill, Phase::Writing, failed) => self.filled(core, now, index, failed, out),
            (Kind::Demotion, Phase::Reading, false) if !row.accessed => {
                row.phase = Phase::Writing;
                let to = row.to.expect("a demotion has a destination");
                self.move_write(core, index, to, Cause::Demotion, out);
            }
            (Kind::Demotion, Phase::Writing, false) if !row.accessed => self.demoted(core, now, index, out),
            (Kind::Demotion, _, failed) => {
                core.ledger.moves.cancelled.accessed += u64::from(!failed);
                let (extent, to) = (row.extent, row.to.expect("a demotion has a destination"));
                if failed {
                    self.cannot_leave(core, now, extent);
                }
                self.release_place(to, Release::NeverUsed);
                self.end(core, now, index, out);
            }
            (Kind::Eviction | Kind::WriteBack, Phase::Reading, false) if !row.rewritten => {
                row.phase = Phase::Writing;
                let (to, cause) = (row.to.expect("a write-back has a home"), row.kind.cause());
                self.move_write(core, index, to, cause, out);
            }
            (Kind::Eviction | Kind::WriteBack, _, failed) => self.written_back(core, now, index, failed, out),
            (Kind::Zero, Phase::Writing, failed) => self.zeroed(core, now, index, failed, out),
            (Kind::Drain(Drained::Discard), Phase::Writing, failed) => self.discarded(core, now, index, failed, out),
            (Kind::Drain(Drained::Supersede), Phase::Writing, failed) => {
                self.superseded(core, now, index, failed, out);
            }
            (kind, phase, _) => unreachable!("a {kind:?} has no step in {phase:?}"),
        }
    }

    fn promoted(&mut self, core: &mut Core, now: Nanos, index: u32, out: &mut Commands) {
        let row = &self.moves[index];
        let (extent, to, dirty) = (row.extent, row.to.expect("a promotion has a destination"), row.ram_dirty);
        core.ledger.moves.promotions += 1;
        self.settle(core, now, extent, to);
        if dirty && self.mode == Mode::Caching {
            self.became_dirty(core, now, extent);
        }
        self.end(core, now, index, out);
    }

    /// The map points to the new place from now on; the old one is free after the next commit.
    fn settle(&mut self, core: &mut Core, now: Nanos, extent: u32, to: Place) {
        let entry = &mut self.extents[extent as usize];
        let before = entry.place();
        entry.set_place(Some(to));
        entry.misses = 0;
        self.note(core, now, extent, self.layout.fast_slot(to).is_none());
        if let Some(place) = before {
            match self.layout.fast_slot(place) {
                Some(slot) => self.release_slot(slot, Release::Evicted),
                None => self.release_place(place, Release::Detached),
            }
        }
    }

    fn abort_promotion(&mut self, core: &mut Core, now: Nanos, index: u32, out: &mut Commands) {
        let to = self.moves[index].to.expect("a promotion has a destination");
        let slot = self.layout.fast_slot(to).expect("a promotion goes to the fast device");
        self.release_slot(slot, Release::NeverUsed);
        self.end(core, now, index, out);
    }

    fn filled(&mut self, core: &mut Core, now: Nanos, index: u32, failed: bool, out: &mut Commands) {
        let row = &mut self.moves[index];
        let (extent, to) = (row.extent, row.to.expect("a fill has a destination"));
        let fragment = row.trigger.take().expect("a fill answers the write that began it");
        if failed {
            match self.layout.fast_slot(to) {
                Some(slot) => self.release_slot(slot, Release::NeverUsed),
                None => self.release_place(to, Release::NeverUsed),
            }
            // Where there is another place, the write goes there.
            if self.mode == Mode::Caching || self.extents[extent as usize].place().is_some() || self.gone.any() {
                self.moves[index].waiters.insert(0, fragment);
            } else {
                core.part_done(fragment.request, Err(RequestError::Device), out);
            }
        } else {
            self.set_lost(extent, false);
            core.ledger.moves.promotions += u64::from(self.layout.fast_slot(to).is_some());
            self.settle(core, now, extent, to);
            if self.mode == Mode::Caching {
                self.became_dirty(core, now, extent);
            }
            core.part_done(fragment.request, Ok(()), out);
        }
        self.end(core, now, index, out);
    }

    fn demoted(&mut self, core: &mut Core, now: Nanos, index: u32, out: &mut Commands) {
        let row = &self.moves[index];
        let (extent, to) = (row.extent, row.to.expect("a demotion has a destination"));
        core.ledger.moves.demotions += 1;
        self.settle(core, now, extent, to);
        self.end(core, now, index, out);
    }

    fn written_back(&mut self, core: &mut Core, now: Nanos, index: u32, failed: bool, out: &mut Commands) {
        let row = &self.moves[index];
        let (kind, extent, accessed, rewritten) = (row.kind, row.extent, row.accessed, row.rewritten);
        let copied = !failed && !rewritten;
        if copied {
            core.ledger.moves.writebacks += 1;
            self.set_dirty(extent, false);
            self.note(core, now, extent, true);
        } else if !failed {
            core.ledger.moves.cancelled.accessed += 1;
        }
        if kind == Kind::Eviction {
            if copied && !accessed {
                core.ledger.moves.demotions += 1;
                self.drop_clean(core, now, extent, Release::Evicted);
            } else if copied {
                core.ledger.moves.cancelled.accessed += 1;
            }
        }
        if !copied {
            self.queue_writeback(core, now, extent, failed);
        }
        if failed && kind == Kind::Eviction {
            self.cannot_leave(core, now, extent);
        }
        self.end(core, now, index, out);
    }

    fn zeroed(&mut self, core: &mut Core, now: Nanos, index: u32, failed: bool, out: &mut Commands) {
        let row = &mut self.moves[index];
        let (extent, to) = (row.extent, row.to.expect("a place to zero"));
        if failed {
            // With a device gone there may be another place.
            let waiters = if self.gone.any() { Vec::new() } else { std::mem::take(&mut row.waiters) };
            for fragment in waiters {
                core.part_done(fragment.request, Err(RequestError::Device), out);
            }
            match self.layout.fast_slot(to) {
                Some(slot) => self.release_slot(slot, Release::NeverUsed),
                None => self.release_place(to, Release::NeverUsed),
            }
        } else {
            self.set_stale(to, false);
            self.extents[extent as usize].set_place(Some(to));
            self.note(core, now, extent, false);
        }
        self.end(core, now, index, out);
    }

    /// The commit that the move waited for is durable.
    pub(super) fn move_committed(&mut self, core: &mut Core, now: Nanos, index: u32, out: &mut Commands) {
        let row = &mut self.moves[index];
        assert_eq!(row.phase, Phase::Committing, "a {:?} did not wait for a commit", row.kind);
        if let Some(fragment) = row.trigger.take() {
            row.waiters.insert(0, fragment);
        }
        self.end(core, now, index, out);
    }
}

impl Kind {
    fn cause(self) -> Cause {
        match self {
            Kind::Promotion => Cause::Promotion,
            Kind::Demotion | Kind::Eviction => Cause::Demotion,
            Kind::WriteBack => Cause::WriteBack,
            Kind::Fill | Kind::Zero | Kind::Drain(_) | Kind::Allocation => Cause::Host,
        }
    }
}

//! Moves: small state machines that move an extent from one place to another.
//!
//! ```text
//! promotion   [Draining →] Reading → (waiters served from RAM) → Writing → done   a failed write: → WritingHome → done
//! fill        Writing → done                                            the host's own data covers the extent
//! part fill   [Draining →] Reading → (waiters served from RAM) → Writing → done    blocks of an extent that has a slot
//! demotion    Reading → Writing → done                                  an access cancels it
//! eviction    Reading → Writing → done                                  dirty extents of the cache; an access cancels
//! write-back  [Draining →] Reading → Writing → done                     a write leaves the extent dirty, or waits
//! zero        Writing → done                                            a reused place must not show its last tenant
//! drain       Draining → (Writing | Committing) → done                  waits for accesses in flight, then detaches
//! ```
//! The journal gathers the map update when a move ends; the places that a move frees may be reused only after the
//! commit. One file a kind; `waiters.rs` handles accesses during a move.

use peryton_units::{Bytes, Nanos, Op};

use crate::{
    api::command::{Cause, Commands},
    api::error::RequestError,
    cache::access::{Fragment, Release},
    cache::blocks::runs,
    cache::drive::CacheDrive,
    cache::map::extent::Place,
    cache::movers::table::{Drained, InRun, Kind, Move, NO_BUFFER, Phase},
    cache::step::{CacheIo, CacheStep},
};

/// The most empty waiter lists that are kept for later moves.
const MOST_WAITER_LISTS: usize = 1024;

impl CacheDrive {
    pub(in crate::cache) fn start(
        &mut self,
        kind: Kind,
        phase: Phase,
        extent: u32,
        to: Option<Place>,
        trigger: Option<Fragment>,
    ) -> u32 {
        let needs_buffer =
            matches!(kind, Kind::Promotion | Kind::PartFill | Kind::Demotion | Kind::Eviction | Kind::WriteBack);
        let buffer = if needs_buffer { self.take_buffer() } else { NO_BUFFER };
        self.start_with(kind, phase, extent, to, trigger, buffer)
    }

    /// Starts a write-back or an eviction that is part of a run.
    pub(in crate::cache) fn start_in_run(&mut self, kind: Kind, extent: u32, to: Place, place: InRun) -> u32 {
        let index = self.start_with(kind, Phase::Reading, extent, Some(to), None, NO_BUFFER);
        self.moves[index].run = Some(place);
        index
    }

    /// Starts a move, compiled into the caller, where the kind is mostly known.
    #[inline(always)]
    pub(in crate::cache) fn start_with(
        &mut self,
        kind: Kind,
        phase: Phase,
        extent: u32,
        to: Option<Place>,
        trigger: Option<Fragment>,
        buffer: u32,
    ) -> u32 {
        let copies = kind.copies();
        self.copying += u32::from(copies);
        self.leaving += u32::from(matches!(kind, Kind::Demotion | Kind::Eviction));
        self.writing_back += u32::from(kind == Kind::WriteBack);
        self.fills += u32::from(kind == Kind::Fill);
        self.sequence += 1;
        let index = self.moves.claim();
        let row = &mut self.moves[index];
        (row.kind, row.phase, row.extent, row.to, row.buffer) = (kind, phase, extent, to, buffer);
        (row.run, row.blocks, row.rewritten_blocks, row.missing, row.holds_until) = (None, 0, 0, 0, None);
        (row.pending, row.failed, row.accessed, row.rewritten, row.ram_dirty) = (0, false, false, false, false);
        (row.sequence, row.trigger, row.is_written) = (self.sequence, trigger, false);
        debug_assert!(row.waiters.is_empty() && row.answers.is_empty(), "what waits is taken before a move ends");
        if row.waiters.capacity() == 0
            && let Some(list) = self.waiter_lists.pop()
        {
            row.waiters = list;
        }
        let entry = self.map.entry_mut(extent);
        assert!(entry.moving().is_none(), "extent {extent} is moved twice at once");
        entry.set_moving(Some(index));
        index
    }

    /// Ends the move: its extent is free for others, and the accesses that waited are routed.
    pub(in crate::cache) fn end(&mut self, io: &mut CacheIo, now: Nanos, index: u32, out: &mut Commands) {
        let row = &mut self.moves[index];
        let (kind, extent, buffer, run) = (row.kind, row.extent, row.buffer, row.run);
        // An empty list stays in its row, so that the next move there allocates nothing.
        let mut waiters = if row.waiters.is_empty() { Vec::new() } else { std::mem::take(&mut row.waiters) };
        let answers = if row.answers.is_empty() { Vec::new() } else { std::mem::take(&mut row.answers) };
        debug_assert!(row.pending == 0 && row.trigger.is_none() && row.brought_by.is_empty());
        let was_volatile = std::mem::take(&mut row.ram_dirty);
        self.moves.remove(index);
        self.map.entry_mut(extent).set_moving(None);
        if self.gone.any() {
            self.mark_lost(io, extent);
        }
        if !self.doubts.is_empty() {
            self.look_at_doubt(io, now, extent);
        }
        if buffer != NO_BUFFER {
            self.buffers.push(buffer);
        }
        let copied = kind.copies();
        self.copying -= u32::from(copied);
        self.leaving -= u32::from(matches!(kind, Kind::Demotion | Kind::Eviction));
        self.writing_back -= u32::from(kind == Kind::WriteBack);
        self.fills -= u32::from(kind == Kind::Fill);
        match run {
            Some(place) => self.left_run(now, place),
            None if kind == Kind::WriteBack => self.cleaner.is_over(now),
            None => {}
        }
        for request in answers {
            io.part_done(request, Ok(()), out);
        }
        if !waiters.is_empty() {
            for fragment in waiters.drain(..) {
                self.resume(io, now, fragment, out);
            }
            // The next move in a row without a list takes this one.
            if self.waiter_lists.len() < MOST_WAITER_LISTS {
                self.waiter_lists.push(waiters);
            }
        }
        if was_volatile {
            self.volatile.retain(|volatile| *volatile != index);
            self.flushes_may_go(io, now, out);
        }
        if self.journal.in_doubt {
            self.go_on_after_doubts(io, now, out);
        }
        if copied && !self.allocation_waiters.is_empty() {
            self.serve_allocation_waiters(io, now, out);
        }
        if self.making_room {
            self.make_room(io, now, out);
        }
        if self.emptying.is_some() {
            self.go_on_emptying(io, now, out);
        }
        if self.map.dirty().count() > 0 {
            self.clean(io, now, out);
        }
        if self.journal.commit_is_full() {
            self.commit(io, now, true, out);
        }
    }

    pub(in crate::cache) fn oldest_volatile_move(&self) -> Option<u64> {
        self.volatile.iter().map(|index| self.moves[*index].sequence).min()
    }

    pub(in crate::cache) fn move_read(
        &mut self,
        io: &mut CacheIo,
        index: u32,
        place: Place,
        cause: Cause,
        out: &mut Commands,
    ) {
        self.move_read_in_line(io, index, place, cause, out);
    }

    /// Does the same, compiled into the caller, where the cause is known.
    #[inline(always)]
    pub(in crate::cache) fn move_read_in_line(
        &mut self,
        io: &mut CacheIo,
        index: u32,
        place: Place,
        cause: Cause,
        out: &mut Commands,
    ) {
        if cause == Cause::Promotion {
            self.cleaner.slow_used = io.now;
        }
        if self.layout.blocks.is_some() {
            return self.move_blocks(io, (index, Op::Read), place, cause, out);
        }
        let buffer = self.move_buffer(index);
        self.moves[index].pending += 1;
        let len = Bytes(self.layout.extent_bytes);
        io.read(self.layout.at(place), len, buffer, CacheStep::Move { index }, cause, out);
    }

    pub(in crate::cache) fn move_write(
        &mut self,
        io: &mut CacheIo,
        index: u32,
        place: Place,
        cause: Cause,
        out: &mut Commands,
    ) {
        self.move_write_in_line(io, index, place, cause, out);
    }

    /// Does the same, compiled into the caller, where the cause is known.
    #[inline(always)]
    pub(in crate::cache) fn move_write_in_line(
        &mut self,
        io: &mut CacheIo,
        index: u32,
        place: Place,
        cause: Cause,
        out: &mut Commands,
    ) {
        if self.layout.blocks.is_some() {
            return self.move_blocks(io, (index, Op::Write), place, cause, out);
        }
        let buffer = self.move_buffer(index);
        self.moves[index].pending += 1;
        let len = Bytes(self.layout.extent_bytes);
        io.stats.moves.bytes += len;
        io.write(self.layout.at(place), len, buffer, CacheStep::Move { index }, cause, out);
    }

    /// Reads or writes the blocks of a move, with a command for each run of neighbours.
    #[inline(never)]
    fn move_blocks(
        &mut self,
        io: &mut CacheIo,
        (index, op): (u32, Op),
        place: Place,
        cause: Cause,
        out: &mut Commands,
    ) {
        let blocks = self.layout.blocks.expect("only extents in part have blocks");
        let (device, at) = self.layout.at(place);
        let Move { blocks: mut has, missing, extent, .. } = self.moves[index];
        if missing != 0 && op == Op::Read {
            self.read_missing(io, (index, extent), missing, out);
            has &= !missing;
        }
        debug_assert!(has != 0, "a move of no blocks has no command that ends it");
        for run in runs(has) {
            let (within, len) = blocks.span(run);
            let (within, len) = (Bytes(u64::from(within)), Bytes(u64::from(len)));
            let buffer = self.move_buffer(index).plus(within);
            self.moves[index].pending += 1;
            if op == Op::Read {
                io.read((device, at + within), len, buffer, CacheStep::Move { index }, cause, out);
            } else {
                io.stats.moves.bytes += len;
                io.write((device, at + within), len, buffer, CacheStep::Move { index }, cause, out);
            }
        }
    }

    /// The place of an extent's data: its place in the map, or its home if it is not cached.
    #[inline(always)]
    pub(in crate::cache) fn current_place(&self, extent: u32) -> Place {
        match self.map.entry(extent).place() {
            Some(place) => place,
            None => self.home(extent),
        }
    }

    /// Handles a completed command of the move.
    pub(in crate::cache) fn move_step(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        index: u32,
        failed: bool,
        out: &mut Commands,
    ) {
        let row = &mut self.moves[index];
        row.failed |= failed;
        row.pending -= 1;
        if failed {
            io.stats.moves.cancelled.device_error += 1;
        }
        if row.pending > 0 {
            // A step has several commands if blocks are moved that are not neighbours.
            return;
        }
        match (row.kind, row.phase, row.failed) {
            (Kind::Promotion, Phase::Reading, false) if self.gone.fast => self.abort_promotion(io, now, index, out),
            (Kind::Promotion, Phase::Reading, false) => self.serve_from_ram(io, index, out),
            (Kind::Promotion, Phase::Reading, true) => self.abort_promotion(io, now, index, out),
            (Kind::Promotion, Phase::Writing, false) => self.promoted(io, now, index, out),
            (Kind::Promotion, Phase::Writing, true) if row.ram_dirty => {
                // The buffer holds writes that were acknowledged to the host, so they must reach the home.
                row.phase = Phase::WritingHome;
                row.failed = false;
                let from = self.current_place(self.moves[index].extent);
                self.move_write(io, index, from, Cause::Promotion, out);
            }
            (Kind::Promotion, Phase::Writing, true) => self.abort_promotion(io, now, index, out),
            (Kind::Promotion, Phase::WritingHome, failed) => {
                if failed {
                    io.stats.lost_extents += 1;
                    let extent = row.extent;
                    self.map.set_lost(extent, true);
                    self.note(io, now, extent, false);
                    for request in std::mem::take(&mut self.moves[index].answers) {
                        io.part_done(request, Err(RequestError::Device), out);
                    }
                }
                self.abort_promotion(io, now, index, out);
            }
            (Kind::PartFill, Phase::Reading, false) if !self.gone.any() => self.part_was_read(io, now, index, out),
            (Kind::PartFill, Phase::Reading, _) => self.end(io, now, index, out),
            (Kind::PartFill, Phase::Writing, failed) => self.part_filled(io, now, index, failed, out),
            (Kind::Fill, Phase::Writing, failed) => self.filled(io, now, index, failed, out),
            (Kind::Demotion, Phase::Reading, false) if !row.accessed => {
                row.phase = Phase::Writing;
                let to = row.to.expect("a demotion has a destination");
                self.move_write(io, index, to, Cause::Demotion, out);
            }
            (Kind::Demotion, Phase::Writing, false) if !row.accessed => self.demoted(io, now, index, out),
            (Kind::Demotion, _, failed) => {
                io.stats.moves.cancelled.accessed += u64::from(!failed);
                let (extent, to) = (row.extent, row.to.expect("a demotion has a destination"));
                if failed {
                    self.cannot_leave(io, now, extent);
                }
                self.release_place(to, Release::NeverUsed);
                self.end(io, now, index, out);
            }
            (Kind::Eviction | Kind::WriteBack, Phase::Reading, _) if let Some(place) = row.run => {
                self.run_was_read(io, now, place, out);
            }
            (Kind::Eviction | Kind::WriteBack, Phase::Reading, false) if !row.rewritten => {
                row.phase = Phase::Writing;
                if self.layout.blocks.is_some() {
                    row.blocks &= !row.rewritten_blocks;
                    if row.blocks == 0 {
                        return self.written_back(io, now, index, false, out);
                    }
                }
                let (to, cause) = (row.to.expect("a write-back has a home"), row.kind.cause());
                self.move_write(io, index, to, cause, out);
            }
            (Kind::Eviction | Kind::WriteBack, Phase::Writing, true) if row.missing != 0 && !self.gone.any() => {
                self.write_without_missing(io, now, index, out);
            }
            (Kind::Eviction | Kind::WriteBack, _, failed) => self.written_back(io, now, index, failed, out),
            (Kind::Zero, Phase::Writing, failed) => self.zeroed(io, now, index, failed, out),
            (Kind::Drain(Drained::Discard), Phase::Writing, failed) => self.discarded(io, now, index, failed, out),
            (Kind::Drain(Drained::Supersede), Phase::Writing, failed) => {
                self.superseded(io, now, index, failed, out);
            }
            (kind, phase, _) => unreachable!("a {kind:?} has no step in {phase:?}"),
        }
    }

    /// Points the map to the new place; the old one is free after the next commit.
    #[inline(always)]
    pub(in crate::cache) fn settle(&mut self, io: &mut CacheIo, now: Nanos, extent: u32, to: Place) {
        let before = self.map.entry(extent).place();
        self.map.set_place(extent, Some(to));
        self.map.entry_mut(extent).misses = 0;
        self.note(io, now, extent, self.layout.fast_slot(to).is_none());
        if let Some(place) = before {
            match self.layout.fast_slot(place) {
                Some(slot) => self.release_slot(slot, Release::Evicted),
                None => self.release_place(place, Release::Detached),
            }
        }
    }

    /// Continues a move whose commit is durable.
    pub(in crate::cache) fn move_committed(&mut self, io: &mut CacheIo, now: Nanos, index: u32, out: &mut Commands) {
        let row = &mut self.moves[index];
        assert_eq!(row.phase, Phase::Committing, "a {:?} did not wait for a commit", row.kind);
        if let Some(fragment) = row.trigger.take() {
            row.waiters.insert(0, fragment);
        }
        self.end(io, now, index, out);
    }
}

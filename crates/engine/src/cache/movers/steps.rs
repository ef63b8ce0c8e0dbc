//! The start, the end and the commands of a move.

use peryton_units::{Bytes, Op};

use crate::{
    api::command::Cause,
    cache::access::Fragment,
    cache::blocks::runs,
    cache::drive::CacheDrive,
    cache::map::extent::Place,
    cache::movers::table::{InRun, Kind, Move, NO_BUFFER, Phase},
    cache::step::{CacheCall, CacheStep},
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
            matches!(kind, Kind::Promotion | Kind::Fill | Kind::Demotion | Kind::Eviction | Kind::WriteBack);
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
        self.demoting += u32::from(matches!(kind, Kind::Demotion | Kind::Eviction));
        self.writing_back += u32::from(kind == Kind::WriteBack);
        self.sequence += 1;
        let index = self.moves.claim();
        let row = &mut self.moves[index];
        (row.kind, row.phase, row.extent, row.to, row.buffer) = (kind, phase, extent, to, buffer);
        (row.run, row.blocks, row.rewritten_blocks, row.missing, row.holds_until) = (None, 0, 0, 0, None);
        (row.pending, row.failed, row.accessed, row.ram_dirty) = (0, false, false, false);
        (row.sequence, row.trigger) = (self.sequence, trigger);
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

    /// Ends the move: other moves of its extent may begin, and the accesses that waited are routed.
    pub(in crate::cache) fn end(&mut self, io: &mut CacheCall, index: u32) {
        let row = &mut self.moves[index];
        let (kind, extent, buffer, run) = (row.kind, row.extent, row.buffer, row.run);
        // An empty list stays in its row, so that the next move there allocates nothing.
        let mut waiters = if row.waiters.is_empty() { Vec::new() } else { std::mem::take(&mut row.waiters) };
        let answers = if row.answers.is_empty() { Vec::new() } else { std::mem::take(&mut row.answers) };
        debug_assert!(row.pending == 0 && row.trigger.is_none());
        let was_volatile = std::mem::take(&mut row.ram_dirty);
        self.moves.remove(index);
        self.map.entry_mut(extent).set_moving(None);
        if self.gone.any() {
            self.mark_lost(io, extent);
        }
        if buffer != NO_BUFFER {
            self.buffers.push(buffer);
        }
        let copied = kind.copies();
        self.copying -= u32::from(copied);
        self.demoting -= u32::from(matches!(kind, Kind::Demotion | Kind::Eviction));
        self.writing_back -= u32::from(kind == Kind::WriteBack);
        match run {
            Some(place) => self.cleaner.left_run(io.now, place),
            None if kind == Kind::WriteBack => self.cleaner.command_ended(io.now),
            None => {}
        }
        for fragment in answers {
            io.part_done(fragment.request, Ok(()));
        }
        if !waiters.is_empty() {
            self.ready.accesses(waiters.drain(..));
            // The next move in a row without a list takes this one.
            if self.waiter_lists.len() < MOST_WAITER_LISTS {
                self.waiter_lists.push(waiters);
            }
        }
        if was_volatile {
            self.volatile.retain(|volatile| *volatile != index);
            // Commits that have begun do not cover the writes that were answered from its buffer.
            io.count_change();
        }
        if copied {
            self.ready.place_freed();
        }
        self.ready.move_ended();
    }

    pub(in crate::cache) fn oldest_volatile_move(&self) -> Option<u64> {
        self.volatile.iter().map(|index| self.moves[*index].sequence).min()
    }

    pub(in crate::cache) fn move_read(&mut self, io: &mut CacheCall, index: u32, place: Place, cause: Cause) {
        if cause == Cause::Promotion {
            self.cleaner.slow_used = io.now;
        }
        if self.layout.blocks.is_some() {
            return self.move_blocks(io, (index, Op::Read), place, cause);
        }
        let buffer = self.move_buffer(index);
        self.moves[index].pending += 1;
        let len = Bytes(self.layout.extent_bytes);
        io.read(self.layout.at(place), len, buffer, CacheStep::Move { index }, cause);
    }

    pub(in crate::cache) fn move_write(&mut self, io: &mut CacheCall, index: u32, place: Place, cause: Cause) {
        if self.layout.blocks.is_some() {
            return self.move_blocks(io, (index, Op::Write), place, cause);
        }
        let buffer = self.move_buffer(index);
        self.moves[index].pending += 1;
        let len = Bytes(self.layout.extent_bytes);
        io.stats.moves.bytes += len;
        io.write(self.layout.at(place), len, buffer, CacheStep::Move { index }, cause);
    }

    /// Reads or writes the blocks of a move, with a command for each run of neighbours.
    #[inline(never)]
    fn move_blocks(&mut self, io: &mut CacheCall, (index, op): (u32, Op), place: Place, cause: Cause) {
        let blocks = self.layout.blocks.expect("only extents in part have blocks");
        let (device, at) = self.layout.at(place);
        let Move { blocks: mut has, missing, extent, .. } = self.moves[index];
        if missing != 0 && op == Op::Read {
            self.read_missing(io, (index, extent), missing);
            has &= !missing;
        }
        debug_assert!(has != 0, "a move of no blocks has no command that ends it");
        for run in runs(has) {
            let (within, len) = blocks.span(run);
            let (within, len) = (Bytes(u64::from(within)), Bytes(u64::from(len)));
            let buffer = self.move_buffer(index).plus(within);
            self.moves[index].pending += 1;
            if op == Op::Read {
                io.read((device, at + within), len, buffer, CacheStep::Move { index }, cause);
            } else {
                io.stats.moves.bytes += len;
                io.write((device, at + within), len, buffer, CacheStep::Move { index }, cause);
            }
        }
    }
}

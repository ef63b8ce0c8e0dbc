//! Write-backs and evictions of dirty extents (caching): the copy is written back; an eviction then drops it.

use peryton_format::{
    blocks::Masks,
    mutation::{self, Mutation},
};
use peryton_units::{Bytes, Nanos};

use crate::{
    cache::access::Release,
    cache::blocks::{between, first_run, runs},
    cache::drive::CacheDrive,
    cache::movers::table::{Kind, Move, Phase},
    cache::step::{CacheCall, CacheIo},
};

/// The longest time for which a write waits for a write-back of its extent.
const LONGEST_HOLD: Nanos = Nanos::from_s(1);

impl CacheDrive {
    /// Starts to copy a dirty extent back; with `evict`, the copy is dropped after that.
    pub(in crate::cache) fn start_writeback(&mut self, io: &mut CacheCall, extent: u32, evict: bool) {
        let from = self.current_place(extent);
        let kind = if evict { Kind::Eviction } else { Kind::WriteBack };
        let index = self.start(kind, Phase::Reading, extent, Some(self.origin_of(extent)), None);
        self.take_blocks_to_origin(index);
        self.move_read(io, index, from, kind.cause());
    }

    /// Starts to copy a dirty extent back that has been dirty for too long. Accesses that arrive wait until those in flight
    /// have ended, and writes until the copy is at the origin: no load can keep the extent dirty. If the slow device does not answer,
    /// they wait for [`LONGEST_HOLD`], and the extent stays dirty.
    pub(in crate::cache) fn start_held_writeback(&mut self, io: &mut CacheCall, extent: u32) {
        self.cleaner.begins(io.now);
        let index = self.start(Kind::WriteBack, Phase::Draining, extent, Some(self.origin_of(extent)), None);
        if self.map.entry(extent).in_flight == 0 {
            self.writeback_drained(io, index);
        }
    }

    /// Reads the extent after the accesses in flight have ended, and lets waiting reads go on.
    pub(in crate::cache) fn writeback_drained(&mut self, io: &mut CacheCall, index: u32) {
        let until = io.now.saturating_add(LONGEST_HOLD);
        let row = &mut self.moves[index];
        (row.phase, row.holds_until) = (Phase::Reading, Some(until));
        let extent = row.extent;
        self.take_blocks_to_origin(index);
        if self.moves[index].blocks == 0 {
            // Nothing is dirty any more.
            return self.written_back(io, index, false);
        }
        self.cleaner.releases_at = self.cleaner.releases_at.min(until);
        io.due(until);
        self.move_read(io, index, self.current_place(extent), Kind::WriteBack.cause());
        self.waiters_go_on(index);
    }

    /// The dirty blocks, and the blocks that complete their units.
    pub(in crate::cache) fn blocks_to_write_back(&self, kind: Kind, extent: u32) -> u16 {
        let masks = self.map.masks_of(extent);
        if kind == Kind::Eviction && mutation::is(Mutation::EvictFirstRun) {
            return first_run(masks.dirty());
        }
        // Clean blocks between two dirty ones are written with them, in one command.
        let between = runs(masks.valid()).map(|run| between(run & masks.dirty())).fold(0, |all, run| all | run);
        self.units.completed(between, masks.lost())
    }

    /// Blocks were written back. Returns whether nothing of the extent is dirty any more.
    fn blocks_are_at_origin(&mut self, io: &mut CacheIo, index: u32, failed: bool) -> bool {
        let row = &self.moves[index];
        let extent = row.extent;
        let rewritten = if mutation::is(Mutation::CleanRewrittenBlock) { 0 } else { row.rewritten_blocks };
        let mut origin = if failed { 0 } else { row.blocks & !rewritten };
        let masks = self.map.masks_of(extent);
        if row.kind == Kind::Eviction && mutation::is(Mutation::EvictFirstRun) {
            origin = masks.dirty();
        }
        if origin & masks.dirty() != 0 {
            io.stats.moves.writebacks += 1;
            let written = self.layout.blocks.map_or(0, |blocks| blocks.bytes(origin));
            self.cleaner.wrote_origin(io.now, Bytes(written));
            let left = Masks::new(masks.valid(), masks.differs_from_origin() & !(origin & masks.valid()));
            let changed = self.map.set_masks(extent, left, io.now);
            self.record(io, changed, true);
        }
        !failed && !self.map.entry(extent).is_dirty() && self.map.entry(extent).place().is_some()
    }

    /// Writes have waited for long enough: they go on, and leave their extents dirty.
    pub(in crate::cache) fn release_held(&mut self, io: &mut CacheIo) {
        if io.now < self.cleaner.releases_at {
            return;
        }
        let mut next = Nanos(u64::MAX);
        let mut released = Vec::new();
        for (index, row) in self.moves.all() {
            match row.holds_until {
                Some(until) if until <= io.now => released.push(index),
                Some(until) => next = next.min(until),
                None => {}
            }
        }
        self.cleaner.releases_at = next;
        for index in released {
            self.moves[index].holds_until = None;
            self.waiters_go_on(index);
        }
        if next < Nanos(u64::MAX) {
            io.due(next);
        }
    }

    /// Routes the accesses that wait for this move once more. Some of them may have to wait again.
    fn waiters_go_on(&mut self, index: u32) {
        self.ready.accesses(std::mem::take(&mut self.moves[index].waiters));
    }

    pub(in crate::cache) fn written_back(&mut self, io: &mut CacheCall, index: u32, failed: bool) {
        let row = &self.moves[index];
        let (kind, extent, accessed) = (row.kind, row.extent, row.accessed);
        let copied = self.blocks_are_at_origin(io, index, failed);
        if !copied && !failed {
            io.stats.moves.cancelled.accessed += 1;
        }
        if kind == Kind::Eviction {
            if copied && !accessed {
                io.stats.moves.demotions += 1;
                self.drop_clean(io, extent, Release::Evicted);
            } else if copied {
                io.stats.moves.cancelled.accessed += 1;
            }
        }
        if kind == Kind::WriteBack && copied && self.has_to_leave(extent) && self.map.entry(extent).in_flight == 0 {
            io.stats.moves.demotions += 1;
            self.drop_clean(io, extent, Release::Evicted);
        }
        self.cleaner.failures.ended(failed);
        if failed && kind == Kind::Eviction {
            self.cannot_leave(io, extent);
        }
        self.end(io, index);
    }

    /// Whole units could not be written. The completing blocks may be the unwritable ones, so the dirty blocks are tried alone.
    pub(in crate::cache) fn write_without_missing(&mut self, io: &mut CacheCall, index: u32) {
        let dirty = self.map.masks_of(self.moves[index].extent).dirty();
        let row = &mut self.moves[index];
        (row.missing, row.blocks) = (0, row.blocks & dirty & !row.rewritten_blocks);
        if row.blocks == 0 {
            return self.written_back(io, index, true);
        }
        row.failed = false;
        let (to, cause) = (row.to.expect("a write-back has an origin"), row.kind.cause());
        self.move_write(io, index, to, cause);
    }

    /// Sets the blocks that a write-back copies, and which of them it reads from the slow device.
    pub(in crate::cache) fn take_blocks_to_origin(&mut self, index: u32) {
        let Move { kind, extent, .. } = self.moves[index];
        let blocks = self.blocks_to_write_back(kind, extent);
        let missing = blocks & !self.map.masks_of(extent).valid();
        let row = &mut self.moves[index];
        (row.blocks, row.missing) = (blocks, missing);
    }
}

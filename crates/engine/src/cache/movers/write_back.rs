//! Write-backs and evictions of dirty extents (caching): the copy is written home; an eviction then drops it.

use peryton_format::mutation::{self, Mutation};
use peryton_units::{Bytes, Nanos};

use crate::{
    api::command::Commands,
    cache::access::Release,
    cache::drive::CacheDrive,
    cache::movers::table::{Kind, Phase},
    cache::step::CacheIo,
};

/// The longest time for which a write waits for a write-back of its extent.
const LONGEST_HOLD: Nanos = Nanos::from_s(1);

impl CacheDrive {
    /// Starts to copy a dirty extent home; with `evict`, the copy is dropped after that.
    pub(in crate::cache) fn start_writeback(&mut self, io: &mut CacheIo, extent: u32, evict: bool, out: &mut Commands) {
        let from = self.current_place(extent);
        let kind = if evict { Kind::Eviction } else { Kind::WriteBack };
        let index = self.start(kind, Phase::Reading, extent, Some(self.home(extent)), None);
        self.move_read(io, index, from, kind.cause(), out);
    }

    /// Starts to copy a dirty extent home that has been dirty for too long. Accesses that arrive wait until those in flight
    /// have ended, and writes until the copy is home: no load can keep the extent dirty. If the slow device does not answer,
    /// they wait for [`LONGEST_HOLD`], and the extent stays dirty.
    pub(in crate::cache) fn start_held_writeback(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        extent: u32,
        out: &mut Commands,
    ) {
        self.cleaner.begins(now);
        let index = self.start(Kind::WriteBack, Phase::Draining, extent, Some(self.home(extent)), None);
        if self.map.entry(extent).in_flight == 0 {
            self.writeback_drained(io, now, index, out);
        }
    }

    /// Reads the extent after the accesses that were in flight have ended, and lets those go on that do not write.
    pub(in crate::cache) fn writeback_drained(&mut self, io: &mut CacheIo, now: Nanos, index: u32, out: &mut Commands) {
        let until = now.saturating_add(LONGEST_HOLD);
        let row = &mut self.moves[index];
        (row.phase, row.holds_until) = (Phase::Reading, Some(until));
        let extent = row.extent;
        self.cleaner.releases_at = self.cleaner.releases_at.min(until);
        io.due(until);
        self.move_read(io, index, self.current_place(extent), Kind::WriteBack.cause(), out);
        self.waiters_go_on(io, now, index, out);
    }

    /// Writes have waited for long enough: they go on, and leave their extents dirty.
    pub(in crate::cache) fn release_held(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) {
        if now < self.cleaner.releases_at {
            return;
        }
        let mut next = Nanos(u64::MAX);
        let mut released = Vec::new();
        for (index, row) in self.moves.all() {
            match row.holds_until {
                Some(until) if until <= now => released.push(index),
                Some(until) => next = next.min(until),
                None => {}
            }
        }
        self.cleaner.releases_at = next;
        for index in released {
            self.moves[index].holds_until = None;
            self.waiters_go_on(io, now, index, out);
        }
        if next < Nanos(u64::MAX) {
            io.due(next);
        }
    }

    /// Routes what waits for this move once more; what still has to wait does.
    fn waiters_go_on(&mut self, io: &mut CacheIo, now: Nanos, index: u32, out: &mut Commands) {
        for fragment in std::mem::take(&mut self.moves[index].waiters) {
            self.resume(io, now, fragment, out);
        }
    }

    pub(in crate::cache) fn written_back(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        index: u32,
        failed: bool,
        out: &mut Commands,
    ) {
        let row = &self.moves[index];
        let (kind, extent, accessed, rewritten) = (row.kind, row.extent, row.accessed, row.rewritten);
        let in_run = row.run.is_some();
        let copied = !failed && (!rewritten || in_run && mutation::is(Mutation::SweepRewritten));
        if copied {
            io.stats.moves.writebacks += 1;
            self.map.set_clean(extent);
            self.cleaner.wrote_home(now, Bytes(self.layout.extent_bytes));
            self.note(io, now, extent, true);
        } else if !failed {
            io.stats.moves.cancelled.accessed += 1;
        }
        if kind == Kind::Eviction {
            if copied && !accessed {
                io.stats.moves.demotions += 1;
                self.drop_clean(io, now, extent, Release::Evicted);
            } else if copied {
                io.stats.moves.cancelled.accessed += 1;
            }
        }
        self.cleaner.failed |= failed;
        if failed && kind == Kind::Eviction {
            self.cannot_leave(io, now, extent);
        }
        self.end(io, now, index, out);
    }
}

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

impl CacheDrive {
    /// Starts to copy a dirty extent home; with `evict`, the copy is dropped after that.
    pub(in crate::cache) fn start_writeback(&mut self, io: &mut CacheIo, extent: u32, evict: bool, out: &mut Commands) {
        let from = self.current_place(extent);
        let kind = if evict { Kind::Eviction } else { Kind::WriteBack };
        let index = self.start(kind, Phase::Reading, extent, Some(self.home(extent)), None);
        self.move_read(io, index, from, kind.cause(), out);
    }

    /// Starts to copy a dirty extent home that has been dirty for too long. Accesses that arrive wait until those in flight
    /// have ended, and writes until the copy is home: no load can keep the extent dirty.
    pub(in crate::cache) fn start_held_writeback(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        extent: u32,
        out: &mut Commands,
    ) {
        self.cleaner.begins(now);
        let index = self.start(Kind::WriteBack, Phase::Draining, extent, Some(self.home(extent)), None);
        self.moves[index].holds = true;
        if self.map.entry(extent).in_flight == 0 {
            self.writeback_drained(io, index, out);
        }
    }

    /// Reads the extent after the accesses that were in flight have ended.
    pub(in crate::cache) fn writeback_drained(&mut self, io: &mut CacheIo, index: u32, out: &mut Commands) {
        let row = &mut self.moves[index];
        row.phase = Phase::Reading;
        let extent = row.extent;
        self.move_read(io, index, self.current_place(extent), Kind::WriteBack.cause(), out);
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

//! Write-backs and evictions of dirty extents (caching): the copy is written home; an eviction then drops it.

use peryton_units::Nanos;

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
        let copied = !failed && !rewritten;
        if copied {
            io.stats.moves.writebacks += 1;
            self.map.set_dirty(extent, false);
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
        if !copied {
            self.queue_writeback(io, now, extent, failed);
        }
        if failed && kind == Kind::Eviction {
            self.cannot_leave(io, now, extent);
        }
        self.end(io, now, index, out);
    }
}

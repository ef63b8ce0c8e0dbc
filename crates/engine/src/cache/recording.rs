//! Changes of what the fast device has of an extent, and their record: each queues an update of the map for the next commit.

use peryton_format::{
    blocks::Masks,
    mutation::{self, Mutation},
};

use crate::{
    cache::drive::CacheDrive,
    cache::map::changed::{Changed, NoRecord},
    cache::step::CacheIo,
};

impl CacheDrive {
    /// Notes that the cached copy is, or is about to be, newer than its origin.
    pub(in crate::cache) fn became_dirty(&mut self, io: &mut CacheIo, extent: u32) {
        self.became_dirty_in(io, extent, u16::MAX);
    }

    /// Notes that a write of these blocks is about to begin. The blocks among them that the fast device has become dirty now: if the write
    /// is cut short, they differ from their origin. Blocks that it lacks become dirty at the write's end ([`CacheDrive::allocating_done`]).
    pub(in crate::cache) fn became_dirty_in(&mut self, io: &mut CacheIo, extent: u32, touched: u16) {
        let masks = self.map.masks_of(extent);
        let dirties = touched & masks.valid() & !masks.differs_from_origin();
        if dirties == 0 {
            if self.map.entry(extent).is_dirty() {
                self.map.rewrite(extent);
            }
            return;
        }
        let was_dirty = self.map.entry(extent).is_dirty();
        self.set_never_dirty(false);
        let dirty = Masks::new(masks.valid(), masks.differs_from_origin() | dirties);
        let changed = self.map.set_masks(extent, dirty, io.now);
        if was_dirty {
            self.map.rewrite(extent);
        }
        match mutation::is(Mutation::LoseDirtyFlag) {
            true => changed.needs_no_record(NoRecord::Mistake),
            false => self.record(io, changed, false),
        }
        self.dirt_was_added(io);
    }

    /// Notes that the fast device has these blocks from now on. `dirty`: the blocks that are newer than their origins.
    pub(in crate::cache) fn now_has(&mut self, io: &mut CacheIo, extent: u32, blocks: u16, dirty: u16) {
        let before = self.map.masks_of(extent);
        let valid = before.valid() | blocks;
        // A block that was lost has new data.
        let differs_from_origin = before.dirty() | before.lost() & !blocks | dirty & valid;
        let masks = Masks::new(valid, differs_from_origin);
        if masks == before {
            if self.map.entry(extent).is_dirty() && dirty != 0 {
                self.map.rewrite(extent);
            }
            return;
        }
        if dirty != 0 {
            self.set_never_dirty(false);
        }
        let changed = self.map.set_masks(extent, masks, io.now);
        self.record(io, changed, false);
        if dirty != 0 {
            self.dirt_was_added(io);
        }
    }

    /// Notes whether the slow device has all data, and every write goes there. When that ends, the next commit includes all updates that
    /// earlier commits left out for this reason.
    pub(in crate::cache) fn set_never_dirty(&mut self, never_dirty: bool) {
        if self.journal.never_dirty && !never_dirty {
            self.journal.takes_all_next();
        }
        self.journal.never_dirty = never_dirty;
    }

    /// Queues the changed map entry, and the masks, of an extent for commit. `awaiting_slow_flush`: the change says that the slow device
    /// has the extent's data.
    #[inline]
    pub(in crate::cache) fn record(&mut self, io: &mut CacheIo, changed: Changed, awaiting_slow_flush: bool) {
        let extent = changed.into_record();
        let state = (self.map.entry(extent).entry(), self.map.masks_of(extent));
        self.journal.update(io, extent, state, awaiting_slow_flush);
    }
}

//! Drains: an extent is detached once no access to it is in flight; those who come meanwhile wait.

use peryton_units::{Bytes, Nanos};

use crate::{
    api::command::{Buffer, Cause, Commands},
    api::error::RequestError,
    cache::access::{Fragment, Release},
    cache::drive::CacheDrive,
    cache::journal::map_journal::Waiter,
    cache::movers::table::{Drained, Kind, Phase},
    cache::step::{CacheIo, CacheStep},
};

impl CacheDrive {
    pub(in crate::cache) fn start_drain(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        fragment: Fragment,
        then: Drained,
        out: &mut Commands,
    ) {
        let extent = fragment.extent;
        let index = self.start(Kind::Drain(then), Phase::Draining, extent, None, Some(fragment));
        if self.map.entry(extent).in_flight == 0 {
            self.drained(io, now, index, out);
        }
    }

    /// The last access to the extent has ended.
    pub(in crate::cache) fn drained(&mut self, io: &mut CacheIo, now: Nanos, index: u32, out: &mut Commands) {
        let row = &mut self.moves[index];
        let then = match (row.kind, row.phase) {
            (Kind::Drain(then), Phase::Draining) => then,
            (Kind::Promotion, Phase::Draining) => return self.promotion_drained(io, index, out),
            _ => return,
        };
        let extent = row.extent;
        match then {
            // The copy was about to go because its home is the truth, but there is no home any more.
            Drained::Invalidate | Drained::Drop(_) if self.gone.slow => {
                let fragment = row.trigger.take().expect("a write is answered when its copy is settled");
                match then {
                    Drained::Drop(result) => io.part_done(fragment.request, result, out),
                    _ => self.wait_behind(index, fragment),
                }
                self.end(io, now, index, out);
            }
            Drained::Unmap => {
                let fragment = row.trigger.take().expect("a discard is answered when it is done");
                let place = self.map.entry(extent).place().expect("only a mapped extent is unmapped");
                self.map.unmap(extent);
                self.map.set_lost(extent, false);
                match self.layout.fast_slot(place) {
                    Some(slot) => self.release_slot(slot, Release::Discarded),
                    None => self.release_place(place, Release::Discarded),
                }
                self.note(io, now, extent, false);
                io.part_done(fragment.request, Ok(()), out);
                self.end(io, now, index, out);
            }
            Drained::Discard => {
                row.phase = Phase::Writing;
                row.pending = 1;
                let (at, len) = (self.layout.at(self.home(extent)), Bytes(self.layout.extent_bytes));
                // A dirty copy is newer than its home: without the copy the home must not come to light again.
                if self.map.entry(extent).is_dirty() {
                    io.zero(at, len, CacheStep::Move { index }, out);
                } else {
                    io.discard(at, len, CacheStep::Move { index }, out);
                }
            }
            Drained::Invalidate => {
                row.phase = Phase::Committing;
                self.drop_clean(io, now, extent, Release::Detached);
                self.journal.wait(Waiter::Move(index));
                self.commit(io, now, true, out);
            }
            Drained::Supersede => {
                row.phase = Phase::Writing;
                row.pending = 1;
                let fragment = row.trigger.expect("a superseding write is answered when it is done");
                let buffer = Buffer::Request { id: io.id_of(fragment.request), offset: fragment.offset };
                let (at, len) = (self.layout.at(self.home(extent)), Bytes(u64::from(fragment.len)));
                io.write(at, len, buffer, CacheStep::Move { index }, Cause::Host, out);
            }
            Drained::Stale => {
                self.drop_stale(io, now, extent);
                self.end(io, now, index, out);
            }
            Drained::Drop(result) => {
                let fragment = row.trigger.take().expect("a failed write is answered when its copy is gone");
                self.drop_clean(io, now, extent, Release::Detached);
                // The slow device may have been flushed since it has the write: a host flush need not flush it again, but
                // has to make known that the copy counts no longer.
                self.journal.takes_all_next();
                io.part_done(fragment.request, result, out);
                self.end(io, now, index, out);
            }
        }
    }

    /// A write past a dirty copy has reached the home. A host flush has to make that known, so the update is not one that
    /// waits for write-backs; and after a failure the dirty copy stays the truth.
    pub(in crate::cache) fn superseded(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        index: u32,
        failed: bool,
        out: &mut Commands,
    ) {
        let row = &mut self.moves[index];
        let extent = row.extent;
        let fragment = row.trigger.take().expect("a superseding write is answered when it is done");
        if !failed {
            self.map.set_dirty(extent, false);
            self.map.set_lost(extent, false);
            self.drop_copy(io, now, extent, Release::Detached, false);
        }
        let result = if failed { Err(RequestError::Device) } else { Ok(()) };
        io.part_done(fragment.request, result, out);
        self.end(io, now, index, out);
    }

    /// The home of a discarded extent has been discarded or zeroed.
    pub(in crate::cache) fn discarded(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        index: u32,
        failed: bool,
        out: &mut Commands,
    ) {
        let row = &mut self.moves[index];
        let extent = row.extent;
        let fragment = row.trigger.take().expect("a discard is answered when it is done");
        let entry = self.map.entry_mut(extent);
        // After a failure the home may be gone in part. A dirty copy stays the truth; a clean one no longer agrees with
        // its home and goes all the same.
        if !failed || !entry.is_dirty() {
            self.map.set_dirty(extent, false);
            self.map.set_lost(extent, false);
            self.drop_clean(io, now, extent, Release::Discarded);
        }
        let result = if failed { Err(RequestError::Device) } else { Ok(()) };
        io.part_done(fragment.request, result, out);
        self.end(io, now, index, out);
    }
}

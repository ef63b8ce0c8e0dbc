//! A drain detaches an extent once no access to it is in flight; accesses that arrive meanwhile wait.

use peryton_format::mutation::{self, Mutation};
use peryton_units::Bytes;

use crate::{
    api::command::{Buffer, Cause},
    api::error::RequestError,
    cache::access::{Fragment, Release},
    cache::drive::CacheDrive,
    cache::journal::batch::Waiter,
    cache::map::changed::NoRecord,
    cache::map::extent::Loss,
    cache::movers::table::{Drained, Kind, Phase},
    cache::ready::Ready,
    cache::step::{CacheCall, CacheStep},
};

impl CacheDrive {
    pub(in crate::cache) fn start_drain(&mut self, fragment: Fragment, then: Drained) {
        let extent = fragment.extent;
        let index = self.start(Kind::Drain(then), Phase::Draining, extent, None, Some(fragment));
        if self.map.entry(extent).in_flight == 0 {
            self.ready.push(Ready::Drained(index));
        }
    }

    /// Handles a completed write that bypassed a dirty copy. A host flush must make the map update durable, so the
    /// update does not wait for a flush of the slow device. If the write failed, the dirty copy stays valid.
    pub(in crate::cache) fn superseded(&mut self, io: &mut CacheCall, index: u32, failed: bool) {
        let extent = self.moves[index].extent;
        if !failed {
            self.drop_stale(io, extent);
        } else if !mutation::is(Mutation::KeepCleanPastFailure) {
            // Blocks that are not dirty may differ from their origin now, so they are dropped.
            self.drop_blocks(io, extent, u16::MAX);
            self.journal.takes_all_next();
        }
        let result = if failed { Err(RequestError::Device) } else { Ok(()) };
        self.answer(io, index, result);
    }

    /// Answers the request that began the move, which has ended.
    pub(in crate::cache) fn answer(&mut self, io: &mut CacheCall, index: u32, result: Result<(), RequestError>) {
        let fragment = self.moves[index].trigger.take().expect("a request has begun it");
        io.part_done(fragment.request, result);
        self.end(io, index);
    }

    /// Handles the completed discard or zeroing of a discarded extent's origin.
    pub(in crate::cache) fn discarded(&mut self, io: &mut CacheCall, index: u32, failed: bool) {
        let extent = self.moves[index].extent;
        let keeps = self.map.entry(extent).is_dirty() || self.map.masks_of(extent).lost() != 0;
        // After a failure, part of the origin may be discarded. A dirty copy stays valid; a clean one may differ from its
        // origin and is dropped anyway.
        if !failed || !keeps {
            self.map
                .set_clean(extent)
                .and(self.map.set_loss(extent, Loss::None))
                .needs_no_record(NoRecord::GivenUpNext);
            self.drop_clean(io, extent, Release::Discarded);
            // What the copy had is older than what was read at the origin since.
            self.map.entry_mut(extent).set_outdated(true);
        } else {
            // Blocks that are not dirty may differ from their origin now, so they are dropped.
            self.drop_blocks(io, extent, u16::MAX);
            self.journal.takes_all_next();
        }
        let result = if failed { Err(RequestError::Device) } else { Ok(()) };
        self.answer(io, index, result);
    }

    /// Detaches the extent after its last access has ended.
    pub(in crate::cache) fn detach(&mut self, io: &mut CacheCall, index: u32, then: Drained) {
        let row = &mut self.moves[index];
        let extent = row.extent;
        match then {
            // Writes that were in flight have made blocks dirty, so the copy stays, and takes the write.
            // The copy also stays if its origin is gone by now: then it is the only one.
            Drained::Invalidate if self.map.masks_of(extent).differs_from_origin() != 0 || self.gone.slow => {
                let fragment = row.trigger.take().expect("a write is answered when its copy is settled");
                self.wait_behind(index, fragment);
                self.end(io, index);
            }
            Drained::Drop(result) if !self.gone.slow => {
                let fragment = row.trigger.expect("a failed write is answered when its copy is gone");
                // Only the copy of dirty blocks is valid, and it may lack the write.
                let newer = self.touched(fragment) & self.map.masks_of(extent).dirty() != 0;
                let result = if newer { Err(RequestError::Device) } else { result };
                self.drop_blocks(io, extent, self.touched(fragment));
                self.map.differs_no_more(extent);
                self.journal.takes_all_next();
                self.answer(io, index, result);
            }
            // The device of the origin is gone, so the copy stays, and a write that only the origin has is lost.
            Drained::Drop(_) => self.answer(io, index, Err(RequestError::Device)),
            Drained::Unmap => {
                let place = self.map.entry(extent).place().expect("only a mapped extent is unmapped");
                let changed = self.map.unmap(extent).and(self.map.set_loss(extent, Loss::None));
                self.map.entry_mut(extent).set_outdated(true);
                self.give_up(place, Release::Discarded);
                self.record(io, changed, false);
                self.answer(io, index, Ok(()));
            }
            Drained::Discard => {
                self.map.may_write_one(extent, self.valid(io));
                let row = &mut self.moves[index];
                row.phase = Phase::Writing;
                row.pending = 1;
                let (at, len) = (self.layout.at(self.origin_of(extent)), Bytes(self.layout.extent_bytes));
                // A dirty copy is newer than its origin: after the copy is dropped, the old data of the origin must not
                // reappear.
                if self.map.entry(extent).is_dirty() || self.map.masks_of(extent).lost() != 0 {
                    io.zero(at, len, CacheStep::Move { index });
                } else {
                    io.discard(at, len, CacheStep::Move { index });
                }
            }
            Drained::Invalidate => {
                row.phase = Phase::Committing;
                self.drop_clean(io, extent, Release::Detached);
                if self.journal.never_dirty {
                    // After a crash no copy counts, so the write need not wait until the removal of this one is durable.
                    return self.ready.push(Ready::Committed(index));
                }
                self.journal.wait(Waiter::Move(index));
                self.ready.commit();
            }
            Drained::Supersede => {
                self.map.may_write_one(extent, self.valid(io));
                let row = &mut self.moves[index];
                row.phase = Phase::Writing;
                row.pending = 1;
                let fragment = row.trigger.expect("a superseding write is answered when it is done");
                let buffer = Buffer::Request { id: io.id_of(fragment.request), offset: fragment.offset };
                let (at, len) = (self.layout.at(self.origin_of(extent)), Bytes(u64::from(fragment.len)));
                io.write(at, len, buffer, CacheStep::Move { index }, Cause::Host);
            }
            Drained::Stale => {
                self.drop_stale(io, extent);
                self.end(io, index);
            }
        }
    }
}

//! Drains: an extent is detached once no access to it is in flight; those who come meanwhile wait.

use peryton_units::{Bytes, Nanos};

use super::{
    Fragment, Hybrid, Release,
    moves::{Kind, Phase},
};
use crate::{
    command::{Buffer, Cause, Commands},
    error::RequestError,
    hybrid::journal::Waiter,
    hybrid::step::{Core, Step},
};

/// What happens to an extent once no access to it is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drained {
    /// Tiering: the host discarded it; the mapping goes.
    Unmap,
    /// Caching: the host discarded it; home and copy go.
    Discard,
    /// Caching: its home is about to be written around the copy; the copy goes first, durably.
    Invalidate,
    /// Caching: a write past the cache covers the extent of a dirty copy. Until it is home the copy is the truth.
    Supersede,
    /// Partitioned: a write has passed the copy.
    Stale,
    /// Caching: copy and home may differ after a failure; the copy goes, and the write is answered with this.
    Drop(Result<(), RequestError>),
}

impl Hybrid {
    pub(super) fn start_drain(
        &mut self,
        core: &mut Core,
        now: Nanos,
        fragment: Fragment,
        then: Drained,
        out: &mut Commands,
    ) {
        let extent = fragment.extent;
        let index = self.start(Kind::Drain(then), Phase::Draining, extent, None, Some(fragment));
        if self.extents[extent as usize].in_flight == 0 {
            self.drained(core, now, index, out);
        }
    }

    /// The last access to the extent has ended.
    pub(super) fn drained(&mut self, core: &mut Core, now: Nanos, index: u32, out: &mut Commands) {
        let row = &mut self.moves[index];
        let then = match (row.kind, row.phase) {
            (Kind::Drain(then), Phase::Draining) => then,
            (Kind::Promotion, Phase::Draining) => return self.promotion_drained(core, index, out),
            _ => return,
        };
        let extent = row.extent;
        match then {
            // The copy was about to go because its home is the truth, but there is no home any more.
            Drained::Invalidate | Drained::Drop(_) if self.gone.slow => {
                let fragment = row.trigger.take().expect("a write is answered when its copy is settled");
                match then {
                    Drained::Drop(result) => core.part_done(fragment.request, result, out),
                    _ => self.wait_behind(index, fragment),
                }
                self.end(core, now, index, out);
            }
            Drained::Unmap => {
                let fragment = row.trigger.take().expect("a discard is answered when it is done");
                let entry = &mut self.extents[extent as usize];
                let place = entry.place().expect("only a mapped extent is unmapped");
                entry.set_place(None);
                entry.misses = 0;
                self.set_lost(extent, false);
                match self.layout.fast_slot(place) {
                    Some(slot) => self.release_slot(slot, Release::Discarded),
                    None => self.release_place(place, Release::Discarded),
                }
                self.note(core, now, extent, false);
                core.part_done(fragment.request, Ok(()), out);
                self.end(core, now, index, out);
            }
            Drained::Discard => {
                row.phase = Phase::Writing;
                row.pending = 1;
                let (at, len) = (self.layout.at(self.home(extent)), Bytes(self.layout.extent_bytes));
                // A dirty copy is newer than its home: without the copy the home must not come to light again.
                if self.extents[extent as usize].dirty {
                    core.zero(at, len, Step::Move { index }, out);
                } else {
                    core.discard(at, len, Step::Move { index }, out);
                }
            }
            Drained::Invalidate => {
                row.phase = Phase::Committing;
                self.drop_clean(core, now, extent, Release::Detached);
                self.journal.wait(Waiter::Move(index));
                self.commit(core, now, true, out);
            }
            Drained::Supersede => {
                row.phase = Phase::Writing;
                row.pending = 1;
                let fragment = row.trigger.expect("a superseding write is answered when it is done");
                let buffer = Buffer::Request { id: core.id_of(fragment.request), offset: fragment.offset };
                let (at, len) = (self.layout.at(self.home(extent)), Bytes(u64::from(fragment.len)));
                core.write(at, len, buffer, Step::Move { index }, Cause::Host, out);
            }
            Drained::Stale => {
                self.drop_stale(core, now, extent);
                self.end(core, now, index, out);
            }
            Drained::Drop(result) => {
                let fragment = row.trigger.take().expect("a failed write is answered when its copy is gone");
                self.drop_clean(core, now, extent, Release::Detached);
                // The slow device may have been flushed since it has the write: a host flush need not flush it again, but
                // has to make known that the copy counts no longer.
                self.journal.takes_all_next();
                core.part_done(fragment.request, result, out);
                self.end(core, now, index, out);
            }
        }
    }

    /// A write past a dirty copy has reached the home. A host flush has to make that known, so the update is not one that
    /// waits for write-backs; and after a failure the dirty copy stays the truth.
    pub(super) fn superseded(&mut self, core: &mut Core, now: Nanos, index: u32, failed: bool, out: &mut Commands) {
        let row = &mut self.moves[index];
        let extent = row.extent;
        let fragment = row.trigger.take().expect("a superseding write is answered when it is done");
        if !failed {
            self.set_dirty(extent, false);
            self.set_lost(extent, false);
            self.drop_copy(core, now, extent, Release::Detached, false);
        }
        let result = if failed { Err(RequestError::Device) } else { Ok(()) };
        core.part_done(fragment.request, result, out);
        self.end(core, now, index, out);
    }

    /// The home of a discarded extent has been told.
    pub(super) fn discarded(&mut self, core: &mut Core, now: Nanos, index: u32, failed: bool, out: &mut Commands) {
        let row = &mut self.moves[index];
        let extent = row.extent;
        let fragment = row.trigger.take().expect("a discard is answered when it is done");
        let entry = &mut self.extents[extent as usize];
        // After a failure the home may be gone in part. A dirty copy stays the truth; a clean one no longer agrees with
        // its home and goes all the same.
        if !failed || !entry.dirty {
            self.set_dirty(extent, false);
            self.set_lost(extent, false);
            self.drop_clean(core, now, extent, Release::Discarded);
        }
        let result = if failed { Err(RequestError::Device) } else { Ok(()) };
        core.part_done(fragment.request, result, out);
        self.end(core, now, index, out);
    }
}

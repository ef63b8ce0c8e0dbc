//! Allocations that find no free place wait for a commit that frees some, or for a move that gives one back.

use peryton_units::Nanos;

use crate::{
    api::command::Commands,
    cache::access::Fragment,
    cache::drive::CacheDrive,
    cache::journal::batch::Waiter,
    cache::movers::table::{Kind, Phase},
    cache::step::CacheIo,
};

impl CacheDrive {
    pub(in crate::cache) fn wait_for_commit(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        fragment: Fragment,
        out: &mut Commands,
    ) {
        let index = self.start(Kind::Allocation, Phase::Committing, fragment.extent, None, None);
        self.moves[index].waiters.push(fragment);
        self.journal.wait(Waiter::Move(index));
        self.commit(io, now, true, out);
    }

    pub(in crate::cache) fn wait_for_place(&mut self, fragment: Fragment) {
        let index = self.start(Kind::Allocation, Phase::Committing, fragment.extent, None, None);
        self.moves[index].waiters.push(fragment);
        self.allocation_waiters.push(index);
    }

    /// Serves waiting allocations when a place is free; starts a commit if one would free some.
    pub(in crate::cache) fn serve_allocation_waiters(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) {
        for index in std::mem::take(&mut self.allocation_waiters) {
            if self.journal.has_pending_free() {
                self.journal.wait(Waiter::Move(index));
                self.commit(io, now, true, out);
            } else {
                self.move_committed(io, now, index, out);
            }
        }
    }
}

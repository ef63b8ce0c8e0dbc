//! Allocations that find no free place wait for a commit that frees some, or for a move that gives one back.

use crate::{
    cache::access::Fragment,
    cache::drive::CacheDrive,
    cache::journal::batch::Waiter,
    cache::movers::table::{Kind, Phase},
    cache::ready::Ready,
};

impl CacheDrive {
    pub(in crate::cache) fn wait_for_commit(&mut self, fragment: Fragment) {
        let index = self.start(Kind::Allocation, Phase::Committing, fragment.extent, None, None);
        self.moves[index].waiters.push(fragment);
        self.journal.wait(Waiter::Move(index));
        self.ready.commit(true);
    }

    pub(in crate::cache) fn wait_for_place(&mut self, fragment: Fragment) {
        let index = self.start(Kind::Allocation, Phase::Committing, fragment.extent, None, None);
        self.moves[index].waiters.push(fragment);
        self.allocation_waiters.push(index);
    }

    /// Serves waiting allocations when a place is free; starts a commit if one would free some.
    pub(in crate::cache) fn serve_allocation_waiters(&mut self) {
        for index in std::mem::take(&mut self.allocation_waiters) {
            if self.journal.has_pending_free() {
                self.journal.wait(Waiter::Move(index));
                self.ready.commit(true);
            } else {
                self.ready.push(Ready::Committed(index));
            }
        }
    }
}

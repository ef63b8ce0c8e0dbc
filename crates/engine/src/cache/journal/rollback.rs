//! The journal after a device has failed a flush: it abandons what is under way, and forgets what is not durable.

use peryton_units::Nanos;

use crate::{
    cache::journal::batch::Waiter,
    cache::journal::map_journal::{CommitHold, MapJournal},
    cache::map::extent::Place,
    cache::step::CacheIo,
};

/// After a rollback commits pause for so long at most, however long accesses were held for it.
const LONGEST_PAUSE: Nanos = Nanos::from_s(10);

impl MapJournal {
    /// Abandons the commit and the checkpoint under way.
    #[cold]
    pub(in crate::cache) fn flush_failed(&mut self) {
        self.must_flush_slow = true;
        self.group.flush_failed();
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.abandon();
        }
    }

    /// The map is rolled back; accesses were held for this long. If each flush fails, accesses have as long before the next one, since it
    /// has them carried out again.
    #[cold]
    pub(in crate::cache) fn rolled_back(&mut self, io: &mut CacheIo, held_for: Nanos) {
        if self.hold == CommitHold::None {
            self.group.pause_at_least(io, held_for.min(LONGEST_PAUSE));
        }
    }

    /// The extents with updates that are not durable.
    pub(in crate::cache) fn updated(&self) -> impl Iterator<Item = u32> {
        let batches = [&self.group.committing, &self.group.gathering, &self.awaiting_slow_flush];
        let updates = batches.into_iter().flat_map(|batch| &batch.updates);
        updates.map(|update| update.record.extent).chain(self.superseded.iter().copied())
    }

    /// No move waits for a commit any more.
    #[cold]
    pub(in crate::cache) fn forget_moves(&mut self) {
        for batch in [&mut self.group.gathering, &mut self.awaiting_slow_flush] {
            batch.waiters.retain(|waiter| matches!(waiter, Waiter::Flush(_)));
        }
    }

    /// Forgets the updates that are not durable; no commit is under way. Places that were given up stay so until the next commit, because a
    /// commit that has failed may be on a device, and may name any of them.
    #[cold]
    pub(in crate::cache) fn forget_updates(&mut self) {
        self.group.gathering.updates.clear();
        self.awaiting_slow_flush.updates.clear();
        self.awaiting.clear();
        self.superseded.clear();
    }

    /// Withdraws a place from those that become free with the next commits, because the map points to it again.
    #[cold]
    pub(in crate::cache) fn reclaim(&mut self, place: Place) {
        let mut found = false;
        for batch in [&mut self.group.committing, &mut self.group.gathering, &mut self.awaiting_slow_flush] {
            let at = batch.freed.iter().position(|freed| freed.place == place);
            found |= at.map(|at| batch.freed.swap_remove(at)).is_some();
        }
        assert!(found, "place {} was given up and may be in use", place.0);
    }
}

//! What the journal does when a flush has failed: the commit and the checkpoint under way come to nothing, and no commit begins
//! until the map says again only what a device is sure to hold.

use rustc_hash::FxHashSet;

use crate::journal::Batch as _;
use crate::{
    cache::journal::map_journal::MapJournal, cache::map::extent::Place, cache::step::CacheIo, io::RequestIndex,
};

impl MapJournal {
    /// A flush has failed. Extents with updates that are not durable and whose data the last good flush of the device may not
    /// have covered, each once.
    #[cold]
    pub(in crate::cache) fn flush_failed(&mut self, slow: bool) -> Vec<u32> {
        self.in_doubt = true;
        self.wanted_all = true;
        self.group.flush_failed();
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.abandon();
        }
        let flushed = self.flushed[usize::from(slow)];
        let batches = [&self.group.committing, &self.group.gathering, &self.awaiting_slow_flush];
        let mut seen = FxHashSet::default();
        let updates = batches.into_iter().flat_map(|batch| &batch.updates);
        let unsure = updates.filter(|update| update.sequence > flushed);
        unsure.map(|update| update.extent).filter(|extent| seen.insert(*extent)).collect()
    }

    /// The map points to a place again that it had given up: it is not free after the next commit.
    #[cold]
    pub(in crate::cache) fn reclaim(&mut self, place: Place) {
        let batches = [&mut self.group.committing, &mut self.group.gathering, &mut self.awaiting_slow_flush];
        let mut found = false;
        for batch in batches {
            let at = batch.freed.iter().position(|freed| freed.place == place);
            found |= at.map(|at| batch.freed.swap_remove(at)).is_some();
        }
        assert!(found, "place {} was given up and may be in use", place.0);
    }

    /// What was in doubt is settled: commits go on. `tells`: the host flushes that wait have to fail; returns them.
    #[cold]
    pub(in crate::cache) fn doubts_are_settled(&mut self, io: &CacheIo, tells: bool) -> Vec<RequestIndex> {
        self.in_doubt = false;
        // A commit that has failed may still wait for its last command.
        self.group.wanted |= !self.group.is_paused(io.now);
        if !tells {
            return Vec::new();
        }
        let mut flushes = self.group.committing.take_flushes();
        flushes.append(&mut self.group.gathering.take_flushes());
        flushes
    }
}

//! The journal after a device has failed a flush, or has died: it abandons the commit and the checkpoint under way, and begins no
//! other commit until every entry of the map points to data that are certainly durable.

use rustc_hash::FxHashSet;

use crate::{cache::journal::map_journal::MapJournal, cache::map::extent::Place, cache::step::CacheIo};

impl MapJournal {
    /// Abandons the commit and the checkpoint under way, because a flush has failed. Returns, each once, the extents whose
    /// update is not durable and whose data the last successful flush of the device may not have covered; no flush of a dead
    /// device has. Extents whose update was replaced are among them.
    #[cold]
    pub(in crate::cache) fn flush_failed(&mut self, slow: bool) -> Vec<u32> {
        self.in_doubt = true;
        self.must_flush_slow = true;
        self.group.flush_failed();
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.abandon();
        }
        let which = usize::from(slow);
        let flushed = if self.group.alive[which] { self.flushed[which] } else { 0 };
        let batches = [&self.group.committing, &self.group.gathering, &self.awaiting_slow_flush];
        let mut seen = FxHashSet::default();
        let updates = batches.into_iter().flat_map(|batch| &batch.updates);
        let unsure = updates.filter(|update| update.sequence > flushed).map(|update| update.record.extent);
        // The slow device's flush may still be under way when one of the fast device fails.
        let superseded_in_flush = if slow { std::mem::take(&mut self.superseded_in_flush) } else { Vec::new() };
        unsure.chain(superseded_in_flush).filter(|extent| seen.insert(*extent)).collect()
    }

    /// Withdraws a place from those that become free with the next commits, because the map points to it again.
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

    /// Resumes commits once no extent is in doubt.
    #[cold]
    pub(in crate::cache) fn doubts_are_settled(&mut self, io: &CacheIo) {
        self.in_doubt = false;
        // The commit that failed may still wait for the completion of its last command.
        self.group.wanted |= !self.group.is_paused(io.now);
    }
}

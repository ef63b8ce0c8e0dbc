//! The changes that one commit of a map makes durable: changed entries, places that are given up, and the requests and
//! moves that wait for both.

use peryton_format::{journal::MapRecord, map};
use peryton_units::Nanos;
use rustc_hash::FxHashSet;

use crate::{cache::journal::preflush::HostFlushes, cache::map::extent::Place, io::RequestIndex, journal};

/// A request or move that waits for a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A host flush.
    Flush(RequestIndex),
    /// A move that may continue only when its map update is durable.
    Move(u32),
}

/// A place that the map no longer points to, while the durable map still may.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freed {
    pub(crate) place: Place,
    /// Whether the host discarded its extent, so that the device may discard the place.
    pub(crate) discarded: bool,
}

/// A changed map entry: the new state of an extent.
#[derive(Clone, Copy, Debug)]
pub(in crate::cache) struct Update {
    pub(in crate::cache) record: MapRecord,
    /// Counts updates.
    pub(in crate::cache) sequence: u64,
}

/// The changes that one commit makes durable.
#[derive(Debug, Default)]
pub(crate) struct MapBatch {
    pub(in crate::cache) updates: Vec<Update>,
    pub(in crate::cache) freed: Vec<Freed>,
    pub(in crate::cache) waiters: Vec<Waiter>,
    /// When the first update was added.
    pub(super) since: Option<Nanos>,
}

impl Update {
    /// The extent, and whether it is newer on the fast device than on the slow one, or lost.
    pub(super) fn newer(&self) -> (u32, bool) {
        (self.record.extent, map::is_newer(self.record.entry, self.record.masks))
    }
}

impl MapBatch {
    /// The host flushes that wait for this batch.
    pub(super) fn host_flushes(&self) -> HostFlushes {
        let flushes = self.waiters.iter().filter(|waiter| matches!(waiter, Waiter::Flush(_))).count();
        match flushes {
            0 => HostFlushes::None,
            all if all == self.waiters.len() => HostFlushes::Alone,
            _ => HostFlushes::AmongOthers,
        }
    }

    /// Moves the changes of the map to the next batch, which is empty. The waiters stay in this one.
    pub(super) fn leave_map_to(&mut self, next: &mut MapBatch) {
        std::mem::swap(&mut self.updates, &mut next.updates);
        std::mem::swap(&mut self.freed, &mut next.freed);
        std::mem::swap(&mut self.since, &mut next.since);
    }

    /// Moves the changes after the first `count`, and what waits for them, to the start of the next batch.
    pub(super) fn leave_after(&mut self, count: usize, next: &mut MapBatch) {
        let (freed, waiters) = (std::mem::take(&mut self.freed), std::mem::take(&mut self.waiters));
        let mut left = MapBatch { updates: self.updates.split_off(count), freed, waiters, since: self.since };
        journal::Batch::append(&mut left, next);
        *next = left;
    }

    /// Drops each update that a later one of the same extent replaced.
    pub(super) fn keep_the_latest(&mut self) {
        let mut seen = FxHashSet::default();
        self.updates.reverse();
        self.updates.retain(|update| seen.insert(update.record.extent));
        self.updates.reverse();
    }
}

impl journal::Batch for MapBatch {
    fn append(&mut self, later: &mut MapBatch) {
        self.updates.append(&mut later.updates);
        self.freed.append(&mut later.freed);
        self.waiters.append(&mut later.waiters);
        self.since = match (self.since, later.since.take()) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
    }

    fn clear(&mut self) {
        self.updates.clear();
        self.freed.clear();
        self.waiters.clear();
        self.since = None;
    }

    fn take_flushes(&mut self) -> Vec<RequestIndex> {
        let mut flushes = Vec::new();
        self.waiters.retain(|waiter| match waiter {
            Waiter::Flush(request) => {
                flushes.push(*request);
                false
            }
            Waiter::Move(_) => true,
        });
        flushes
    }
}

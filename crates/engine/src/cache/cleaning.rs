//! Write-back (caching). Dirty extents are copied home in the background, each once however often it was written
//! (GreenDM, section 2.3: an asynchronous, deduplicated, bounded queue).

use peryton_format::mutation::{self, Mutation};
use peryton_policy::replacement::SlotIndex;
use peryton_units::{Nanos, prefetch};

use crate::{api::command::Commands, cache::drive::CacheDrive, cache::step::CacheIo};

/// The pauses before another attempt to write back an extent that is being accessed, or whose write-back failed.
const RETRY_IN_USE: Nanos = Nanos::from_ms(10);
const RETRY_FAILED: Nanos = Nanos::from_s(1);

impl CacheDrive {
    /// Notes that the cached copy is, or is about to be, newer than its home.
    pub(in crate::cache) fn became_dirty(&mut self, io: &mut CacheIo, now: Nanos, extent: u32) {
        if !self.map.entry(extent).is_dirty() {
            self.map.set_dirty(extent, true);
            if !mutation::is(Mutation::LoseDirtyFlag) {
                self.note(io, now, extent, false);
            }
        }
        // A partitioned drive keeps dirty extents on the fast device until they are cold.
        if !self.map.entry(extent).queued && self.controller.is_none() && !self.gone.any() {
            let delay = io.tuning.writeback_delay;
            self.enqueue(io, extent, now.saturating_add(delay));
        }
    }

    /// When the queue is empty and all dirty extents are to leave, queues those that did not fit before.
    fn queue_all_dirty(&mut self, io: &mut CacheIo, now: Nanos) {
        for slot in 0..self.layout.fast_slots {
            if self.writebacks.len() >= io.tuning.writeback_queue as usize {
                return;
            }
            if let Some(extent) = self.map.tenant(SlotIndex(slot)) {
                let entry = self.map.entry(extent);
                if entry.is_dirty() && !entry.queued && entry.moving().is_none() {
                    self.enqueue(io, extent, now);
                }
            }
        }
    }

    /// Writes all dirty extents home, without delay, until [`CacheDrive::dirty`] is zero.
    pub(in crate::cache) fn write_back_all(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) {
        for (_, due) in &mut self.writebacks {
            *due = now.min(*due);
        }
        if self.writebacks.is_empty() {
            self.queue_all_dirty(io, now);
        }
        self.pump_writebacks(io, now, out);
    }

    pub(in crate::cache) fn queue_writeback(&mut self, io: &mut CacheIo, now: Nanos, extent: u32, failed: bool) {
        let delay = if failed { RETRY_FAILED } else { io.tuning.writeback_delay.max(RETRY_IN_USE) };
        let entry = self.map.entry(extent);
        if entry.is_dirty() && !entry.queued && !self.gone.any() {
            self.enqueue(io, extent, now.saturating_add(delay));
        }
    }

    /// Queues an extent. If the queue is full, the extent stays dirty and is written back when it is evicted.
    fn enqueue(&mut self, io: &mut CacheIo, extent: u32, due: Nanos) {
        if self.writebacks.len() < io.tuning.writeback_queue as usize {
            self.map.entry_mut(extent).queued = true;
            self.writebacks.push_back((extent, due));
            io.due(due);
        }
    }

    /// Starts the write-backs that are due. They take at most half of MCML, so that promotions can proceed.
    pub(in crate::cache) fn pump_writebacks(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) {
        if self.gone.any() {
            // Nothing is dirty, or there is no home to write to.
            return;
        }
        let most = (io.tuning.max_moves / 2).max(1);
        // Examines each entry once: an extent in use goes to the back of the queue with a later time.
        for _ in 0..self.writebacks.len() {
            let Some((extent, due)) = self.writebacks.front().copied() else { return };
            if due > now {
                io.due(due);
                // The entry was last used when it was written, a write-back delay ago, and has left the processor's
                // cache.
                prefetch(self.map.entry(extent));
                return;
            }
            if self.writing_back >= most || self.copying >= io.tuning.max_moves {
                return;
            }
            self.writebacks.pop_front();
            let entry = self.map.entry_mut(extent);
            if !entry.is_dirty() || entry.place().is_none() {
                entry.queued = false;
            } else if entry.in_flight > 0 || entry.moving().is_some() {
                let due = now.saturating_add(RETRY_IN_USE);
                self.writebacks.push_back((extent, due));
                io.due(due);
            } else {
                entry.queued = false;
                self.start_writeback(io, extent, false, out);
            }
        }
    }
}

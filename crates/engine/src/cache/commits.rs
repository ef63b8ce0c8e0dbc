//! Commits of the map, and the places that become free when a commit is durable.

use peryton_format::{
    blocks::Masks,
    mutation::{self, Mutation},
};
use peryton_policy::ReplacementPolicy;
use peryton_policy::replacement::SlotIndex;
use peryton_units::{Bytes, Nanos};

use crate::journal::Commits as _;
use crate::{
    api::command::{Commands, DeviceId},
    api::error::RequestError,
    cache::access::{Mode, Release},
    cache::blocks::first_run,
    cache::drive::CacheDrive,
    cache::journal::batch::{Freed, MapBatch, Waiter},
    cache::map::extent::Place,
    cache::step::{CacheIo, CacheStep},
    io::RequestIndex,
    journal::Outcome,
};

impl CacheDrive {
    /// Notes whether the slow device has all data, and will have. Once it has not, the next commit includes everything that
    /// was left to later ones while it had.
    pub(in crate::cache) fn set_only_copies(&mut self, only_copies: bool) {
        if self.only_copies && !only_copies {
            self.journal.takes_all_next();
        }
        self.only_copies = only_copies;
        self.journal.only_copies = only_copies;
    }

    /// Queues the changed map entry of an extent for commit. `awaiting_slow_flush`: the change says that the slow
    /// device has the extent's data.
    #[inline]
    pub(in crate::cache) fn note(&mut self, io: &mut CacheIo, now: Nanos, extent: u32, awaiting_slow_flush: bool) {
        if self.map.has_parts() {
            return self.note_part(io, now, extent, awaiting_slow_flush);
        }
        let entry = self.map.entry(extent).entry();
        // A clean copy asserts that the home has the same data. After a write-back whose data was not yet flushed, the
        // extent may have been cached again: then that data is durable nowhere, and the commit has to flush the slow
        // device.
        let says_home = self.mode == Mode::Caching && entry.place().is_some() && !entry.is_dirty();
        if says_home && !awaiting_slow_flush && self.journal.awaits_slow_flush(extent) {
            self.journal.takes_all_next();
        }
        self.journal.update(io, now, extent, (entry, Masks::default()), awaiting_slow_flush);
    }

    /// Commits the gathered changes. `all`: also those that require a flush of the slow device.
    pub(in crate::cache) fn commit(&mut self, io: &mut CacheIo, now: Nanos, all: bool, out: &mut Commands) {
        if self.journal.is_over() {
            return self.give_up_commits(io, now, out);
        }
        let mut outcome = self.journal.commit(io, all, out);
        // A commit with nothing to write is done immediately; requests that joined meanwhile need another commit.
        while let Some(done) = outcome {
            outcome = self.committed(io, now, done, out);
        }
    }

    pub(in crate::cache) fn commit_step(&mut self, io: &mut CacheIo, now: Nanos, failed: bool, out: &mut Commands) {
        let mut outcome = self.journal.commit_step(io, failed, out);
        while let Some(done) = outcome {
            outcome = self.committed(io, now, done, out);
        }
    }

    /// Fails all that waits for a commit, because both devices are fenced.
    #[cold]
    pub(in crate::cache) fn give_up_commits(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) {
        if let Some(batch) = self.journal.give_up() {
            self.settle_batch(io, now, batch, Err(RequestError::Device), out);
            self.journal.checkpoint_if_needed(io, out);
        }
    }

    /// Frees the places of a batch and continues what waited for it.
    pub(in crate::cache) fn settle_batch(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        mut batch: MapBatch,
        result: Result<(), RequestError>,
        out: &mut Commands,
    ) {
        for Freed { place, discarded } in &batch.freed {
            let (device, at) = self.layout.at(*place);
            match self.discards(*place) {
                Some((within, len)) if *discarded && !io.is_fenced(device) => {
                    // The device discards the place, and the place is not reused before the device has answered:
                    // a device may reorder a discard and a later write.
                    self.discarding += 1;
                    io.discard((device, at + within), len, CacheStep::Discarded { place: *place }, out);
                }
                _ => self.map.free(*place),
            }
        }
        let waiters = &mut batch.waiters;
        if mutation::is(Mutation::ForgetWaiter) && waiters.len() > 1 && matches!(waiters.last(), Some(Waiter::Flush(_)))
        {
            waiters.pop();
        }
        for waiter in waiters.drain(..) {
            match waiter {
                Waiter::Flush(request) => io.part_done(request, result, out),
                Waiter::Move(index) => self.move_committed(io, now, index, out),
            }
        }
        self.journal.recycle(batch);
    }

    /// What can be discarded of a place that is given up, if anything: where another extent may be in its frame, neighbouring blocks that it
    /// is not in.
    fn discards(&self, place: Place) -> Option<(Bytes, Bytes)> {
        let shared = self.layout.fast_slot(place).filter(|_| self.layout.shares_frames());
        let (Some(slot), Some(blocks)) = (shared, self.layout.blocks) else {
            return Some((Bytes::ZERO, Bytes(self.layout.extent_bytes)));
        };
        let claimed = if mutation::is(Mutation::DiscardFrame) { blocks.all } else { self.map.claimed(slot) };
        let run = first_run(claimed);
        let (within, len) = (run != 0).then(|| blocks.span(run))?;
        Some((Bytes(u64::from(within)), Bytes(u64::from(len))))
    }

    /// Handles the end of a commit. Returns the outcome of a further commit that was started, if it is already done.
    pub(in crate::cache) fn committed(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        outcome: Outcome<MapBatch>,
        out: &mut Commands,
    ) -> Option<Outcome<MapBatch>> {
        let durable = match outcome {
            Outcome::Durable(batch) => {
                self.settle_batch(io, now, batch, Ok(()), out);
                true
            }
            Outcome::Failed => false,
        };
        self.journal.checkpoint_if_needed(io, out);
        if !durable {
            return None;
        }
        if self.making_room {
            self.make_room(io, now, out);
        }
        if self.journal.commit_again(io) { self.journal.commit(io, false, out) } else { None }
    }

    pub(in crate::cache) fn checkpoint_step(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        device: DeviceId,
        failed: bool,
        out: &mut Commands,
    ) {
        self.journal.checkpoint_step(io, device, failed, out);
        if !self.journal.is_checkpointing() && self.journal.commit_again(io) {
            self.commit(io, now, false, out);
        }
    }

    /// Handles a host flush: waits for moves whose writes were acknowledged from RAM, then commits, which flushes the
    /// devices and the map.
    pub(in crate::cache) fn flush_host(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        request: RequestIndex,
        out: &mut Commands,
    ) {
        if mutation::is(Mutation::AnswerFlushAtOnce) {
            return io.part_done(request, Ok(()), out);
        }
        self.waited_for.flushed(io);
        self.flushes.push((request, self.sequence));
        self.flushes_may_go(io, now, out);
    }

    pub(in crate::cache) fn flushes_may_go(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) {
        if self.flushes.is_empty() {
            return;
        }
        let oldest = self.oldest_volatile_move();
        let mut joined = false;
        for (request, sequence) in std::mem::take(&mut self.flushes) {
            if oldest.is_some_and(|oldest| oldest <= sequence) {
                self.flushes.push((request, sequence));
            } else {
                self.journal.wait(Waiter::Flush(request));
                joined = true;
            }
        }
        if joined {
            self.commit(io, now, false, out);
        }
    }

    /// Gives up a slot: immediately if the durable map never pointed to it, otherwise after the next commit.
    pub(in crate::cache) fn release_slot(&mut self, slot: SlotIndex, why: Release) {
        let extent = self.map.tenant(slot).expect("only a slot in use is released");
        let evicted = why == Release::Evicted;
        self.policy.removed(slot, extent, evicted);
        self.map.vacate(slot);
        self.release_place_now(Place(slot.0), why);
    }

    pub(in crate::cache) fn release_place(&mut self, place: Place, why: Release) {
        self.release_place_now(place, why);
    }

    /// Does the same, compiled into the caller.
    #[inline(always)]
    fn release_place_now(&mut self, place: Place, why: Release) {
        self.map.set_stale(place, true);
        match why {
            Release::NeverUsed => self.map.free(place),
            _ if mutation::is(Mutation::ReuseBeforeCommit) => self.map.free(place),
            why => {
                // A copy in a cache may be given up only when its home is durable, and a demoted extent's old place
                // only when its new place is durable. A place on the slow device that is given up for one on the fast
                // device needs no flush of the slow device.
                let awaiting_slow_flush = self.mode == Mode::Caching || why == Release::Evicted;
                // MixedStore discards unneeded places on the flash (section 5.3).
                let discarded = why == Release::Discarded || self.controller.is_some();
                self.journal.free(Freed { place, discarded }, awaiting_slow_flush);
            }
        }
    }

    /// Frees a place that the device has finished discarding.
    pub(in crate::cache) fn place_discarded(&mut self, io: &mut CacheIo, now: Nanos, place: Place, out: &mut Commands) {
        self.discarding -= 1;
        self.map.free(place);
        self.serve_allocation_waiters(io, now, out);
    }

    /// Reserves a slot of the fast device for `extent`. Returns `None` if no slot is free; a commit that frees some is
    /// then started where that is possible.
    #[inline(always)]
    pub(in crate::cache) fn reserve_slot(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        (extent, blocks): (u32, u16),
        out: &mut Commands,
    ) -> Option<SlotIndex> {
        if self.map.fast_is_full() || self.gone.fast {
            return None;
        }
        let slot = self.map.take_slot(blocks);
        // A commit frees the slots that wait for it. It is worth its flushes when these outnumber the free slots.
        if self.journal.waiting() > self.map.available() as usize {
            self.commit(io, now, true, out);
        }
        let slot = slot?;
        self.map.occupy(slot, extent);
        self.policy.inserted(slot, extent);
        self.warm.changed = self.warm.changed.saturating_add(1);
        Some(slot)
    }

    /// Number of fast extents that are free, or will be when the moves under way are done. After a crash a cache can
    /// hold more extents than it may use: a commit that did not flush the slow device recorded promotions, but not the
    /// evictions before them.
    pub(in crate::cache) fn free_soon(&self) -> u32 {
        if self.layout.shares_frames() {
            return self.map.room() + self.leaving;
        }
        (self.map.usable() + self.leaving).saturating_sub(self.map.resident())
    }
}

//! Commits of the map, and the places that become free when a commit is durable. The order of a commit's steps is in `crate::journal`
//! (`group.rs`), and what each step does in `journal/map_journal.rs`; here a commit begins and ends.

use peryton_format::mutation::{self, Mutation};
use peryton_units::Bytes;

use crate::journal::Commits as _;
use crate::{
    api::command::DeviceId,
    api::error::RequestError,
    cache::drive::CacheDrive,
    cache::journal::batch::{Freed, MapBatch, Waiter},
    cache::map::extent::Place,
    cache::ready::Ready,
    cache::step::{CacheCall, CacheStep},
    io::RequestIndex,
    journal::Outcome,
};

impl CacheDrive {
    /// Handles a host flush: waits for moves whose writes were acknowledged from RAM, then commits, which flushes the
    /// devices and the map.
    pub(in crate::cache) fn flush_host(&mut self, io: &mut CacheCall, request: RequestIndex) {
        if mutation::is(Mutation::AnswerFlushAtOnce) {
            return io.part_done(request, Ok(()));
        }
        self.sync_writer.flushed(io);
        self.flushes.push((request, self.sequence));
        self.release_flushes(io);
    }

    /// Joins the flushes whose moves have ended to the next commit, and commits.
    pub(in crate::cache) fn release_flushes(&mut self, io: &mut CacheCall) {
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
            self.commit(io, false);
        }
    }

    /// Commits the gathered changes. `all`: also those that require a flush of the slow device.
    pub(in crate::cache) fn commit(&mut self, io: &mut CacheCall, all: bool) {
        if self.held.is_some() && !mutation::is(Mutation::CommitInDoubt) {
            return;
        }
        if self.journal.is_over() {
            return self.give_up_commits(io);
        }
        let mut outcome = self.journal.commit(io, all);
        // A commit with nothing to write is done immediately; requests that joined meanwhile need another commit.
        while let Some(done) = outcome {
            outcome = self.committed(io, done);
        }
    }

    pub(in crate::cache) fn commit_step(&mut self, io: &mut CacheCall, failed: bool) {
        let mut outcome = self.journal.commit_step(io, failed);
        while let Some(done) = outcome {
            outcome = self.committed(io, done);
        }
    }

    /// Fails all flushes and moves that wait for a commit, because both devices are fenced.
    #[cold]
    pub(in crate::cache) fn give_up_commits(&mut self, io: &mut CacheCall) {
        if let Some(batch) = self.journal.give_up() {
            self.settle_batch(io, batch, Err(RequestError::Device));
            self.journal.checkpoint_if_needed(io);
        }
    }

    /// Frees the places of a batch and continues what waited for it.
    pub(in crate::cache) fn settle_batch(
        &mut self,
        io: &mut CacheCall,
        mut batch: MapBatch,
        result: Result<(), RequestError>,
    ) {
        for Freed { place, discarded } in &batch.freed {
            let (device, at) = self.layout.at(*place);
            if *discarded && !io.is_fenced(device) {
                // The device discards the place, and the place is not reused before the device has answered:
                // a device may reorder a discard and a later write.
                self.discarding += 1;
                let len = Bytes(self.layout.extent_bytes);
                io.discard((device, at), len, CacheStep::Discarded { place: *place });
            } else {
                self.map.free(*place);
            }
        }
        let waiters = &mut batch.waiters;
        if mutation::is(Mutation::ForgetWaiter) && waiters.len() > 1 && matches!(waiters.last(), Some(Waiter::Flush(_)))
        {
            waiters.pop();
        }
        for waiter in waiters.drain(..) {
            match waiter {
                Waiter::Flush(request) => io.part_done(request, result),
                Waiter::Move(index) => self.ready.push(Ready::Committed(index)),
            }
        }
        self.journal.group.recycle(batch);
    }

    /// Handles the end of a commit. Returns the outcome of a further commit that was started, if it is already done.
    pub(in crate::cache) fn committed(
        &mut self,
        io: &mut CacheCall,
        outcome: Outcome<MapBatch>,
    ) -> Option<Outcome<MapBatch>> {
        let durable = match outcome {
            Outcome::Durable(batch) => {
                self.settle_batch(io, batch, Ok(()));
                true
            }
            Outcome::Failed => false,
        };
        self.journal.checkpoint_if_needed(io);
        if !durable {
            return None;
        }
        if self.making_room {
            self.make_room(io);
        }
        if self.journal.commit_again(io) { self.journal.commit(io, false) } else { None }
    }

    pub(in crate::cache) fn checkpoint_step(&mut self, io: &mut CacheCall, device: DeviceId, failed: bool) {
        self.journal.checkpoint_step(io, device, failed);
        if !self.journal.is_checkpointing() && self.journal.commit_again(io) {
            self.commit(io, false);
        }
    }

    /// Frees a place that the device has finished discarding.
    pub(in crate::cache) fn place_discarded(&mut self, place: Place) {
        self.discarding -= 1;
        self.map.free(place);
        self.ready.place_freed();
    }
}

//! The ready queue. The end of a command, move or commit puts here the work that may now go on. The loop of the drive, which runs at the
//! end of each call, carries it out. So no function that starts, continues or ends a move or an access calls itself through others.

use std::collections::VecDeque;

use crate::{cache::access::Fragment, cache::drive::CacheDrive, cache::step::CacheCall};

/// Something that waited and may go on.
#[derive(Clone, Copy, Debug)]
pub(in crate::cache) enum Ready {
    /// An access of the host is routed again.
    Access(Fragment),
    /// The accesses that a move waited for have ended.
    Drained(u32),
    /// The commit that a move waited for is durable, or is not needed.
    Committed(u32),
    /// A command of a move has ended, or the command of a request that brings blocks of it; and whether it failed.
    Step(u32, bool),
}

/// The work that may go on. The queue is empty between two calls of the driver, and bounded by the requests and moves in flight.
#[derive(Debug, Default)]
pub(in crate::cache) struct ReadyQueue {
    queue: VecDeque<Ready>,
    /// A move has ended: work that waits for any move is tried again.
    move_ended: bool,
    /// A place may have become free: waiting allocations are tried again. (The end of an allocation that waited for a place frees none.)
    place_freed: bool,
    /// A commit is to be made, with the updates that need a flush of the slow device.
    commit: bool,
}

impl ReadyQueue {
    #[inline]
    pub(in crate::cache) fn is_empty(&self) -> bool {
        self.queue.is_empty() && !self.move_ended && !self.place_freed && !self.commit
    }

    pub(in crate::cache) fn push(&mut self, ready: Ready) {
        self.queue.push_back(ready);
    }

    /// These accesses are routed again, in this order.
    pub(in crate::cache) fn accesses(&mut self, accesses: impl IntoIterator<Item = Fragment>) {
        self.queue.extend(accesses.into_iter().map(Ready::Access));
    }

    pub(in crate::cache) fn move_ended(&mut self) {
        self.move_ended = true;
    }

    pub(in crate::cache) fn place_freed(&mut self) {
        self.place_freed = true;
    }

    pub(in crate::cache) fn commit(&mut self) {
        self.commit = true;
    }

    /// Forgets everything but the accesses, and returns these.
    pub(in crate::cache) fn take_accesses(&mut self) -> impl Iterator<Item = Fragment> {
        let access = |ready| if let Ready::Access(fragment) = ready { Some(fragment) } else { None };
        std::mem::take(self).queue.into_iter().filter_map(access)
    }
}

impl CacheDrive {
    /// Carries out ready work, until none is left.
    #[inline]
    pub(in crate::cache) fn go_on(&mut self, io: &mut CacheCall) {
        if self.held.is_some() {
            self.roll_back_if_quiet(io);
        }
        if !self.ready.is_empty() {
            self.carry_out_ready(io);
        }
    }

    #[inline(never)]
    fn carry_out_ready(&mut self, io: &mut CacheCall) {
        loop {
            if let Some(ready) = self.ready.queue.pop_front() {
                match ready {
                    Ready::Access(fragment) => self.resume(io, fragment),
                    Ready::Drained(index) => self.drained(io, index),
                    Ready::Committed(index) => self.move_committed(io, index),
                    Ready::Step(index, failed) => self.move_step(io, index, failed),
                }
            } else if std::mem::take(&mut self.ready.place_freed) {
                self.serve_allocation_waiters();
            } else if std::mem::take(&mut self.ready.move_ended) {
                self.after_moves(io);
            } else if std::mem::take(&mut self.ready.commit) {
                self.commit(io, true);
            } else {
                return;
            }
        }
    }

    /// A move has ended: flushes, room and cleaning may have waited for it.
    fn after_moves(&mut self, io: &mut CacheCall) {
        self.release_flushes(io);
        if self.making_room {
            self.make_room(io);
        }
        self.go_on_emptying(io);
        if self.map.dirty().count() > 0 {
            self.clean(io);
        }
        if self.journal.commit_is_full() {
            self.ready.commit();
        }
    }
}

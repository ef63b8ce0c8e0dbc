//! Flushes of the host that wait, for moves or for a commit. `settle_batch` in `commits.rs` answers them.

use peryton_format::mutation::{self, Mutation};
use peryton_units::Nanos;

use crate::{
    api::command::Commands,
    cache::{drive::CacheDrive, journal::batch::Waiter, step::CacheIo},
    io::RequestIndex,
};

impl CacheDrive {
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
        self.sync_writer.flushed(io);
        self.flushes.push((request, self.sequence));
        self.release_flushes(io, now, out);
    }

    /// Joins the flushes whose moves have ended to the next commit, and commits.
    pub(in crate::cache) fn release_flushes(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) {
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
}

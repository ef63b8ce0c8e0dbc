//! Flushes of the host that wait, for moves or for a commit.

use crate::{
    api::command::Commands,
    cache::{drive::CacheDrive, step::CacheIo},
};

impl CacheDrive {
    /// Fails the flushes of the host that wait. Returns whether there were any.
    #[cold]
    pub(in crate::cache) fn flushes_fail(&mut self, io: &mut CacheIo, out: &mut Commands) -> bool {
        let mut flushes = self.journal.group.take_flushes();
        flushes.extend(std::mem::take(&mut self.flushes).into_iter().map(|(request, _)| request));
        let fails = !flushes.is_empty();
        for request in flushes {
            io.flush_fails(request, out);
        }
        fails
    }
}

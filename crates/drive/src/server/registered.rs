//! The memory that the kernel knows, so that commands need not look it up.

use super::Server;

/// The longest part of memory that is registered with io_uring at once: its limit, and a bound on what is pinned.
const PINNED_AT_MOST: usize = 1 << 30;

impl Server {
    /// Registers the memory that is used most with the kernel; only a bounded part, because it is pinned.
    pub(crate) fn register(&mut self) {
        let pool = self.front.pool.arena();
        let mut memory = vec![(pool.at(0), pool.len())];
        memory.extend(self.block_device_memory);
        memory.extend(self.volume.backend.arenas().iter().map(|arena| (arena.at(0), arena.len())));
        memory.extend(self.volume.buffers());
        memory.retain(|(_, len)| *len <= PINNED_AT_MOST);
        self.front.kernel.register(&memory);
    }
}

//! The journal's part in fencing a device: nothing is committed until the other device has the whole map and its
//! superblocks record the fencing; then the journal continues with one device.

use crate::journal::Batch as _;
use crate::{
    api::command::DeviceId,
    cache::journal::batch::MapBatch,
    cache::journal::map_journal::{CommitHold, MapJournal},
    cache::step::CacheCall,
};

impl MapJournal {
    /// Stops commits until the fencing of the device is durable.
    #[cold]
    pub(crate) fn fence(&mut self, device: DeviceId) {
        self.group.fence(usize::from(device == self.slow));
        self.hold = CommitHold::Draining;
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.abandon();
        }
    }

    /// Starts without this device, because the volume was opened without it.
    pub(crate) fn without(&mut self, device: DeviceId) {
        self.group.alive[usize::from(device == self.slow)] = false;
    }

    /// Whether everything under way has ended and the surviving device has the whole map. Starts the checkpoint that it
    /// needs.
    #[cold]
    pub(crate) fn is_ready_to_fence(&mut self, io: &mut CacheCall) -> bool {
        if !self.group.is_idle() || self.checkpoint.is_some() {
            return false;
        }
        if self.hold == CommitHold::Draining && self.group.alive != [false; 2] {
            self.checkpoint_if_needed(io);
            self.group.declare_retry(io);
            return false;
        }
        true
    }

    /// Resumes commits.
    #[cold]
    pub(crate) fn lift_bar(&mut self) {
        self.hold = CommitHold::None;
        self.group.forget_failure();
    }

    /// Whether both devices are fenced, so that nothing becomes durable any more.
    pub(crate) fn is_over(&self) -> bool {
        self.group.alive == [false; 2]
    }

    /// Returns all gathered changes when both devices are fenced, so that what waits for them can fail. `None` while a
    /// commit is under way or if nothing waits.
    #[cold]
    pub(crate) fn give_up(&mut self) -> Option<MapBatch> {
        if !self.group.is_idle() {
            return None;
        }
        self.group.wanted = false;
        let mut all = std::mem::take(&mut self.group.gathering);
        all.append(&mut self.awaiting_slow_flush);
        self.awaiting.clear();
        let nothing = all.freed.is_empty() && all.waiters.is_empty();
        (!nothing).then_some(all)
    }
}

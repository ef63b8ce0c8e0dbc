//! What the journal does when a device is fenced: nothing is committed until the other one has the whole map, and its
//! superblocks say so; then the journal goes on with one device.

use crate::journal::Batch as _;
use crate::{
    api::command::{Commands, DeviceId},
    cache::journal::map_journal::{Bar, MapBatch, MapJournal},
    cache::step::CacheIo,
    io::RequestIndex,
};

impl MapJournal {
    /// A device is fenced: nothing is committed until the other one knows.
    #[cold]
    pub(crate) fn fence(&mut self, device: DeviceId) {
        self.group.fence(usize::from(device == self.slow));
        self.bar = Bar::Draining;
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.fence();
        }
    }

    /// Goes on without this device from the start.
    pub(crate) fn without(&mut self, device: DeviceId) {
        self.group.alive[usize::from(device == self.slow)] = false;
    }

    /// Whether all that was under way has come to its end, and the survivor has the whole map. Sees to it.
    #[cold]
    pub(crate) fn is_ready_to_fence(&mut self, io: &mut CacheIo, out: &mut Commands) -> bool {
        if !self.group.is_idle() || self.checkpoint.is_some() {
            return false;
        }
        if self.bar == Bar::Draining && self.group.alive != [false; 2] {
            self.checkpoint_if_needed(io, out);
            self.group.declare_retry(io);
            return false;
        }
        true
    }

    /// Commits go on. `fails`: host flushes that wait have to fail, because something is lost; returns them.
    #[cold]
    pub(crate) fn lift_bar(&mut self, fails: bool) -> Vec<RequestIndex> {
        self.bar = Bar::Open;
        self.group.forget_failure();
        if fails { self.group.gathering.take_flushes() } else { Vec::new() }
    }

    /// Whether both devices are fenced: nothing becomes durable any more.
    pub(crate) fn is_over(&self) -> bool {
        self.group.alive == [false; 2]
    }

    /// Both devices are fenced: nothing is durable any more, and nothing waits for it. `None` while a commit is under way.
    #[cold]
    pub(crate) fn give_up(&mut self) -> Option<MapBatch> {
        if !self.group.is_idle() {
            return None;
        }
        self.group.wanted = false;
        let mut all = std::mem::take(&mut self.group.gathering);
        all.append(&mut self.awaiting_slow_flush);
        self.latest.clear();
        let nothing = all.freed.is_empty() && all.waiters.is_empty();
        (!nothing).then_some(all)
    }
}

//! What the journal does when a device dies: nothing is committed until the other one has the whole map, and its
//! superblocks say that the device is gone; then it goes on with one.

use super::{Bar, Committed, Journal, Phase, Waiter};
use crate::{
    command::{Commands, DeviceId},
    core::{Core, RequestIndex},
};
use peryton_units::Nanos;

impl Journal {
    /// A device is dead: nothing is committed until the other one knows.
    #[cold]
    pub(crate) fn device_died(&mut self, device: DeviceId) {
        self.alive[usize::from(device == self.slow)] = false;
        self.bar = Bar::Draining;
        self.retry_at = Nanos::ZERO;
        self.failed |= self.phase != Phase::Idle;
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.failed = true;
        }
    }

    /// Goes on without this device from the start.
    pub(crate) fn without(&mut self, device: DeviceId) {
        self.alive[usize::from(device == self.slow)] = false;
    }

    /// Whether all that was under way has come to its end, and the survivor has the whole map. Sees to it.
    #[cold]
    pub(crate) fn is_ready_to_bury(&mut self, core: &mut Core, out: &mut Commands) -> bool {
        if self.phase != Phase::Idle || self.checkpoint.is_some() {
            return false;
        }
        if self.bar == Bar::Draining && self.alive != [false; 2] {
            self.checkpoint_if_needed(core, out);
            core.due(self.retry_at);
            return false;
        }
        true
    }

    /// Commits go on. `fails`: host flushes that wait are to be told that something is lost; returns them.
    #[cold]
    pub(crate) fn lift_bar(&mut self, fails: bool) -> Vec<RequestIndex> {
        (self.bar, self.retry_at) = (Bar::Open, Nanos::ZERO);
        let mut failed = Vec::new();
        if fails {
            self.gathering.waiters.retain(|waiter| match waiter {
                Waiter::Flush(request) => {
                    failed.push(*request);
                    false
                }
                Waiter::Move(_) => true,
            });
        }
        failed
    }

    /// Both devices are dead: nothing is durable any more, and nobody waits for it.
    #[cold]
    pub(super) fn give_up(&mut self) -> Option<Committed> {
        if self.phase != Phase::Idle {
            return None;
        }
        self.wanted = false;
        let mut all = std::mem::take(&mut self.gathering);
        all.append(&mut std::mem::take(&mut self.homebound));
        self.latest.clear();
        let nothing = all.freed.is_empty() && all.waiters.is_empty();
        (!nothing).then_some(Committed { freed: all.freed, waiters: all.waiters, failed: true })
    }
}

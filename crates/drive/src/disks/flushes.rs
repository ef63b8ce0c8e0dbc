//! Flushes of one device that are under way at the same time.
//!
//! The kernel reports a loss once. After a flush that failed, a later one may therefore succeed although data are lost. The two answers may
//! arrive in either order, since each comes from its own thread. Two rules follow. The success of a flush is reported to the engine after the
//! answers of all flushes of the device that began before it. If one flush fails, all that are in flight count as failed.

use peryton_engine::{DeviceError, DeviceId};

use super::Disks;

/// A flush that was asked for and is not reported yet.
#[derive(Debug)]
pub(super) struct Flushing {
    slot: u32,
    device: DeviceId,
    /// Another flush that was in flight at the same time has failed, and may have lost data that this one should have covered.
    lost: bool,
    /// The flush has succeeded, and waits for the answers of earlier ones.
    has_succeeded: bool,
}

impl Disks {
    pub(super) fn flush_begins(&mut self, slot: u32, device: DeviceId) {
        self.flushes.push(Flushing { slot, device, lost: false, has_succeeded: false });
    }

    /// Whether two devices share a file: the displaced part of one lies on the other.
    fn share(&self, one: DeviceId, other: DeviceId) -> bool {
        let both =
            |map: peryton_engine::Displaced| [one, other].iter().all(|device| [map.device, map.home].contains(device));
        one == other || self.divided.is_some_and(|divided| both(divided.map))
    }

    /// The kernel has failed a flush: the others in flight may not cover the lost data.
    pub(super) fn flush_has_lost(&mut self, slot: u32) {
        let Some(device) = self.flushes.iter().find(|flush| flush.slot == slot).map(|flush| flush.device) else {
            return;
        };
        for index in 0..self.flushes.len() {
            self.flushes[index].lost |= self.share(device, self.flushes[index].device);
        }
    }

    /// A flush has ended: the result that is to be reported, or `None` if it has to wait for those before it.
    pub(super) fn flush_ends(&mut self, slot: u32, result: Result<(), DeviceError>) -> Option<Result<(), DeviceError>> {
        let index = self.flushes.iter().position(|flush| flush.slot == slot).expect("a flush that ends has begun");
        let Flushing { device, lost, .. } = self.flushes[index];
        if result.is_ok() && !lost && self.flushes[..index].iter().any(|before| self.share(device, before.device)) {
            self.flushes[index].has_succeeded = true;
            return None;
        }
        self.flushes.remove(index);
        if result.is_ok() && lost {
            let error = "a flush of the device that was under way at the same time failed";
            let operation = self.jobs[slot as usize].as_ref().expect("it ends now").operation;
            self.note_error(operation, error.to_owned());
            return Some(Err(DeviceError));
        }
        Some(result)
    }

    /// A flush that has succeeded and need not wait any longer.
    pub(super) fn flush_to_report(&self) -> Option<u32> {
        let is_free = |(index, flush): &(usize, &Flushing)| {
            let waits = || self.flushes[..*index].iter().any(|before| self.share(flush.device, before.device));
            flush.has_succeeded && (flush.lost || !waits())
        };
        self.flushes.iter().enumerate().find(is_free).map(|(_, flush)| flush.slot)
    }
}

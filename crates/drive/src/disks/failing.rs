//! Handles commands that the kernel, or a drill, has failed.

use std::io;

use super::{Ask, Disks, Doubt, INTERRUPTIONS, outage::Class};
use crate::backend::{Action, Operation};

impl Disks {
    /// Handles the failure of a kernel command: issues it again, carries it out in another way, makes it wait, or reports it.
    ///
    /// A flush that failed is not issued again. When the kernel could not write data back, it reports this once, drops the
    /// pages, and answers the next flush with success. Only the engine can know which data have to be written again.
    pub(super) fn failed(&mut self, slot: u32, errno: i32) {
        let job = self.jobs[slot as usize].as_mut().expect("the kernel answers what it was asked");
        let device = job.operation.device.index();
        let health = &mut self.health[device];
        let is_flush = job.chunk.ask() == Ask::Sync;
        let passes = match errno {
            // The kernel did not begin the command.
            libc::EINTR => true,
            // The kernel may also report a lost write-back with these errors.
            libc::EAGAIN | libc::ENOMEM => !is_flush,
            _ => false,
        };
        if passes && job.interruptions < INTERRUPTIONS {
            job.interruptions += 1;
            return self.issue(slot);
        }
        let unsupported = matches!(errno, libc::EOPNOTSUPP | libc::ENOSYS | libc::ENODEV | libc::EINVAL);
        match job.chunk.ask() {
            Ask::ZeroRange if unsupported => {
                self.abilities[device].zero_range = false;
                return self.next_chunk(slot);
            }
            Ask::Punch if unsupported => {
                self.abilities[device].punch = false;
                return self.next_chunk(slot);
            }
            _ => {}
        }
        let (class, enough) = (Class::of(errno), job.has_failed_enough());
        let vanished = class == Class::Vanished;
        if !enough && class != Class::Full && !vanished && !is_flush {
            health.retries += 1;
            return self.issue(slot);
        }
        let device_id = job.operation.device;
        if self.outages.take_probe(slot) {
            self.probe_ended(device_id, false);
            return self.finish_quietly(slot);
        }
        if job.operation.action != Action::Discard && self.waits_out(slot, errno) {
            return;
        }
        let job = self.jobs[slot as usize].as_ref().expect("it has just failed");
        let error = io::Error::from_raw_os_error(errno);
        let Operation { action, at, len, .. } = job.operation;
        if action == Action::Discard {
            tracing::debug!(device, at, len, %error, "a discard failed; it is only a hint");
            return self.finish(slot, Ok(()));
        }
        let operation = job.operation;
        self.vanished |= u32::from(vanished) << self.asked(slot).index();
        if is_flush {
            self.doubts[device] = Doubt::Lasting;
            self.flush_has_lost(slot);
        }
        self.give_up(slot, operation, error.to_string());
    }

    /// The error with which a drill answers in place of the kernel.
    #[inline]
    pub(super) fn refusal(&mut self, slot: u32) -> Option<i32> {
        if !self.faults.refuses() {
            return None;
        }
        let job = self.jobs[slot as usize].as_ref()?;
        self.faults.refusal(&job.operation)
    }

    /// Handles the answer of a drill in place of the kernel. A flush that a drill refused has lost nothing.
    #[cold]
    pub(super) fn refused(&mut self, slot: u32, errno: i32) {
        let operation = self.jobs[slot as usize].as_ref().expect("a job that is issued exists").operation;
        if operation.action != Action::Flush {
            return self.failed(slot, errno);
        }
        let error = io::Error::from_raw_os_error(errno).to_string();
        self.note_failure(&operation, &error);
        self.give_up(slot, operation, error);
    }
}

//! What a log does after a device has failed a flush. Everything that was written to the device since its last successful
//! flush may be lost, and the device reports this only once: its next flush succeeds without the data.
//!
//! The log cannot continue, for three reasons. If an append is lost, its place holds older data of the segment, which reads
//! would return and which a migration would write over the primary. Recovery stops at the first append that is missing, so
//! later appends would be lost as well, even after a flush has made them durable. And data that had migrated may be missing
//! on the primary, while the block map no longer knows where the log has them. But the devices still hold everything that
//! was flushed before, in the order that recovery expects.
//!
//! So the log stops: every request fails, the log commits nothing, migrates nothing and gives no segment up, and the volume
//! cannot be closed. The device is flushed again until a flush succeeds. Then the driver opens the volume again, which
//! recovers it as after a power loss. If a device is fenced meanwhile, the log continues without it.

use peryton_format::mutation::{self, Mutation};
use peryton_units::Nanos;

use crate::{
    api::command::DeviceId,
    api::error::RequestError,
    log::{
        drive::LogDrive,
        ready::Turn,
        step::{LogCall, LogIo, LogStep},
    },
};

/// How long after a failed flush the device is flushed again. A device that keeps failing is fenced, and the log continues
/// without it.
const CHECK: Nanos = Nanos::from_ms(250);

/// Whether the log has stopped, and which devices have failed a flush.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::log) struct Stopped {
    /// One bit each.
    devices: u32,
    /// The device that is to be flushed again, and when.
    check: Option<(DeviceId, Nanos)>,
    /// Whether that flush is in flight.
    checking: bool,
}

impl Stopped {
    #[inline]
    pub(in crate::log) fn any(self) -> bool {
        self.devices != 0
    }

    /// Whether the device that failed a flush has been flushed again.
    pub(in crate::log) fn is_settled(self) -> bool {
        self.any() && !self.checking && self.check.is_none()
    }

    /// The device has been flushed again, with this result.
    #[cold]
    pub(in crate::log) fn checked(&mut self, failed: bool, io: &mut LogIo) {
        self.checking = false;
        let due = io.now.saturating_add(CHECK);
        self.check = self.check.filter(|_| failed).map(|(device, _)| (device, due));
        io.due(due);
    }
}

impl LogDrive {
    /// Stops the log, because the device has failed a flush.
    #[cold]
    pub(in crate::log) fn stop(&mut self, io: &mut LogCall, device: DeviceId) {
        if mutation::is(Mutation::TrustFailedFlush) {
            return;
        }
        if mutation::is(Mutation::LogGoesOn) {
            io.owe_error();
            return self.commit.group.flush_failed();
        }
        self.stopped.devices |= 1 << device.index();
        if !self.stopped.checking {
            self.stopped.check = Some((device, io.now.saturating_add(CHECK)));
            io.due_in(CHECK);
        }
        io.stopped = true;
        // The host's next flush fails, even if the volume is opened again before that.
        io.owe_error();
        self.commit.group.flush_failed();
        self.give_up_commits(io);
        self.ready.push(Turn::Pieces);
        self.ready.push(Turn::Migration);
    }

    /// Flushes the device again when that is due, to find out whether it goes on failing.
    #[inline]
    pub(in crate::log) fn check_stopped(&mut self, io: &mut LogCall) {
        let Some((device, due)) = self.stopped.check.filter(|_| !self.stopped.checking) else { return };
        if io.now < due {
            return io.due(due);
        }
        self.stopped.checking = true;
        io.flush_besides(device, LogStep::Check);
    }

    /// Continues if the device has been fenced: its data count as lost then, and reads of them fail.
    #[cold]
    pub(in crate::log) fn go_on_if_fenced(&mut self, io: &mut LogIo, device: DeviceId) {
        self.stopped.devices &= !(1 << device.index());
        self.stopped.check = self.stopped.check.filter(|(checked, _)| *checked != device);
        io.stopped = self.stopped.any();
    }

    /// The log commits no more, so the host flushes that wait for a commit fail.
    #[cold]
    pub(in crate::log) fn give_up_commits(&mut self, io: &mut LogCall) {
        let group = &mut self.commit.group;
        group.wanted = false;
        for batch in [&mut group.gathering, &mut group.committing] {
            batch.index = false;
        }
        self.flushes_fail(io);
    }

    /// Fails the host flushes that wait for a commit.
    #[cold]
    pub(in crate::log) fn flushes_fail(&mut self, io: &mut LogCall) {
        for flush in self.commit.group.take_flushes() {
            io.flush_fails(flush);
        }
    }

    /// The answer to a request, or to a part of one, that no device has failed.
    #[inline]
    pub(in crate::log) fn answer(&self) -> Result<(), RequestError> {
        if self.stopped.any() { Err(RequestError::Device) } else { Ok(()) }
    }
}

//! A flush has failed: everything that was written to the device since its last good flush may be lost, and no later flush says
//! so again.
//!
//! A log cannot continue after that. An append that is lost lies nowhere else: reads would return what its segment held
//! before, a migration would write that over the primary, and a recovery would stop before it and miss later appends that
//! were flushed. A migrated copy that the primary has lost cannot be found either, because the map has forgotten where the
//! log has it. But all that was flushed before is on the devices, in the order that a recovery expects.
//!
//! So the log stops: every request fails, nothing is committed, migrated or given up, and the volume cannot be closed. The
//! device is flushed again until that succeeds; then the driver opens the volume again, which recovers it as after a power
//! loss. A device that is fenced meanwhile ends the stop: the log continues without it.

use peryton_format::mutation::{self, Mutation};
use peryton_units::Nanos;

use crate::{
    api::command::{Commands, DeviceId},
    api::error::RequestError,
    log::{
        drive::LogDrive,
        step::{LogIo, LogStep},
    },
};

/// The device is flushed again after this time: one that goes on failing is dead, and the log goes on without it.
const CHECK: Nanos = Nanos::from_ms(250);

/// Whether, and since which device failed a flush, nothing goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::log) struct Stopped {
    primary: bool,
    log: bool,
    /// The device that is to be checked, and when.
    check: Option<(DeviceId, Nanos)>,
    checking: bool,
}

impl Stopped {
    #[inline]
    pub(in crate::log) fn any(self) -> bool {
        self.primary || self.log
    }

    /// Whether the device that failed a flush has been flushed again.
    pub(in crate::log) fn is_settled(self) -> bool {
        self.any() && !self.checking && self.check.is_none()
    }

    /// The device has been flushed again.
    #[cold]
    pub(in crate::log) fn checked(&mut self, failed: bool, io: &mut LogIo) {
        self.checking = false;
        let due = io.now.saturating_add(CHECK);
        self.check = self.check.filter(|_| failed).map(|(device, _)| (device, due));
        io.due(due);
    }
}

impl LogDrive {
    /// A flush of either device has failed.
    #[cold]
    pub(in crate::log) fn stop(&mut self, io: &mut LogIo, now: Nanos, device: DeviceId, out: &mut Commands) {
        if mutation::is(Mutation::TrustFailedFlush) {
            return;
        }
        if mutation::is(Mutation::LogGoesOn) {
            io.owe_error();
            return self.commit.group.flush_failed();
        }
        self.stopped.primary |= device == self.primary;
        self.stopped.log |= device == self.log_device;
        if !self.stopped.checking {
            self.stopped.check = Some((device, now.saturating_add(CHECK)));
            io.due(now.saturating_add(CHECK));
        }
        io.stopped = true;
        // The host's next flush fails, even if the volume is opened again before that.
        io.owe_error();
        self.commit.group.flush_failed();
        self.fail_flushes(io, out);
        self.retry_deferred(io, now, out);
        self.pump_migration(io, now, out);
    }

    /// Looks whether a device that has failed a flush goes on failing.
    #[inline]
    pub(in crate::log) fn check_stopped(&mut self, io: &mut LogIo, now: Nanos, out: &mut Commands) {
        let Some((device, due)) = self.stopped.check.filter(|_| !self.stopped.checking) else { return };
        if now < due {
            return io.due(due);
        }
        self.stopped.checking = true;
        io.flush_besides(device, LogStep::Check, out);
    }

    /// The device is fenced: what it may have lost is lost, and named.
    #[cold]
    pub(in crate::log) fn go_on_if_fenced(&mut self, io: &mut LogIo, device: DeviceId) {
        self.stopped.primary &= device != self.primary;
        self.stopped.log &= device != self.log_device;
        self.stopped.check = self.stopped.check.filter(|(checked, _)| *checked != device);
        io.stopped = self.stopped.any();
    }

    /// What waits for a commit waits in vain.
    #[cold]
    pub(in crate::log) fn fail_flushes(&mut self, io: &mut LogIo, out: &mut Commands) {
        let group = &mut self.commit.group;
        group.wanted = false;
        let mut flushes = std::mem::take(&mut group.gathering.flushes);
        flushes.append(&mut group.committing.flushes);
        for batch in [&mut group.gathering, &mut group.committing] {
            batch.index = false;
        }
        for flush in flushes {
            io.told();
            io.part_done(flush, Err(RequestError::Device), out);
        }
    }

    /// What a request or a part of it is answered with that the devices have not failed.
    #[inline]
    pub(in crate::log) fn answer(&self) -> Result<(), RequestError> {
        if self.stopped.any() { Err(RequestError::Device) } else { Ok(()) }
    }
}

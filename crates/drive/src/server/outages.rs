//! Reports outages to the engine, in events and in the log, and finds the outage that keeps a volume from being closed.

use peryton_engine::{DeviceId, Excuse, Excuses, RequestError};
use peryton_units::Nanos;

use super::{
    Server,
    admin::{MOST_TOLD, ranges},
    say::Kind,
};
use crate::{
    events::What,
    open::{Device, Place},
    serve_error::ServeError,
};

/// How often devices are looked at.
const LOOK_EVERY: Nanos = Nanos::from_s(1);

/// What is said of a device whose file is not at its path.
fn displaced(place: Place) -> Option<&'static str> {
    match place {
        Place::AtItsPath => None,
        Place::Elsewhere => Some(
            "its file is not at its path any more: move it back, or set its path in the design, before the next server is started",
        ),
        Place::Nowhere => Some(
            "its file was deleted, and its data end with this server: peryton replace copies them to another device",
        ),
    }
}

/// The error that a client is told. A full device can be read, so a failed read never lacks space.
#[inline]
pub(super) fn as_told(error: RequestError, is_read: bool) -> RequestError {
    if is_read && error == RequestError::NoSpace { RequestError::Device } else { error }
}

impl Server {
    /// Sets how long the volume waits for devices that fail.
    pub(crate) fn apply_patience(&mut self) {
        let patience = self.volume.engine().tuning().patience;
        self.volume.backend.set_patience(patience);
    }

    /// Notifies the engine which devices may come back, or can be read.
    #[inline]
    pub(super) fn excuse(&mut self) {
        let excuses = self.volume.backend.excuses();
        if excuses != self.outages.excuses {
            let before = std::mem::replace(&mut self.outages.excuses, excuses);
            self.volume.engine_mut().excuse(excuses);
            let takes_reads = |excuses: Excuses, device| excuses.of(device) == Some(Excuse::TakesReads);
            let home = self.volume.engine().placement().stands_alone();
            let mut others = (0..self.about.names.len() as u8).map(DeviceId).filter(|device| Some(*device) != home);
            if home.is_some() && others.any(|device| takes_reads(excuses, device) && !takes_reads(before, device)) {
                // Data that only this device has are written back while it can still be read. This fails if the placement has no write-back.
                let _ = self.clean();
            }
        }
    }

    /// The error of a request that a device failed, where a device has no space left: that is what its client is told. The engine knows that
    /// a command failed, and not why.
    #[inline]
    pub(super) fn for_lack_of_space(&self, error: RequestError) -> RequestError {
        match error {
            RequestError::Device if self.volume.backend.is_full() => RequestError::NoSpace,
            other => other,
        }
    }

    #[inline]
    pub(super) fn report_outages(&mut self) {
        let now = self.volume.backend.in_outage();
        if now != self.outages.reported || self.volume.engine().gone() != self.outages.ended {
            self.outages_changed(now);
        }
    }

    #[cold]
    fn outages_changed(&mut self, now: u32) {
        self.excuse();
        let gone = self.volume.engine().gone();
        for index in 0..self.about.names.len() {
            let (bit, device) = (1 << index, self.about.names[index].clone());
            if gone & bit & !self.outages.ended != 0 {
                self.volume.backend.end_waiting(DeviceId(index as u8));
                self.volume.backend.lose_home(DeviceId(index as u8));
            }
            if now & bit & !self.outages.reported & !gone != 0
                && let Some(outage) = self.volume.backend.outage(index)
            {
                self.outages.since[index] = outage.since;
                self.outages.count[index] += 1;
                self.outages.failing &= !bit;
                let (error, patience_s) = (outage.error, outage.patience_left.as_s_f64());
                self.watchdog.notifier.status(&format!("waiting for device {device}, which fails: {error}"));
                tracing::warn!(
                    device,
                    error,
                    patience_s,
                    full = outage.full,
                    "the device fails; waiting for it to come back"
                );
                self.about.events.report(What::Outage { device, error, patience_s, full: outage.full });
            } else if self.outages.reported & bit & !now & !gone != 0 {
                let lasted_s = self.now.saturating_sub(self.outages.since[index]).as_s_f64();
                tracing::warn!(device, lasted_s, "the device is back");
                self.about.events.report(What::OutageOver { device, lasted_s });
            }
        }
        if now & !gone == 0 && self.outages.reported != 0 {
            self.watchdog.notifier.goes_on();
        }
        (self.outages.reported, self.outages.ended) = (now, gone);
    }

    /// Reports that a flush has failed and what it should have covered is in doubt, and the end of that.
    #[inline]
    pub(super) fn report_doubt(&mut self) {
        let engine = self.volume.engine();
        let now = (engine.is_in_doubt(), engine.has_stopped());
        if now != self.outages.reported_doubt {
            self.doubt_changed(now);
        }
        let damaged_bytes = self.volume.engine().stats().logging.as_ref().map_or(0, |log| log.damaged_bytes);
        if damaged_bytes != self.outages.reported_damage {
            self.damage_found(damaged_bytes);
        }
    }

    /// Reports data of a log that was found to be damaged when it was read.
    #[cold]
    fn damage_found(&mut self, damaged_bytes: u64) {
        let more = damaged_bytes > self.outages.reported_damage;
        self.outages.reported_damage = damaged_bytes;
        if more && self.limits.allow(Kind::Devices, self.now) {
            let lost = self.volume.engine().losses(MOST_TOLD);
            tracing::error!(
                lost_bytes = lost.bytes.0,
                "data in the log is damaged: reads of it fail until it is written or discarded; see the status"
            );
            self.about.events.report(What::Damage { lost: ranges(&lost) });
        }
    }

    #[cold]
    fn doubt_changed(&mut self, (in_doubt, stopped): (bool, bool)) {
        self.outages.reported_doubt = (in_doubt, stopped);
        if !in_doubt {
            tracing::warn!("the doubt after a failed flush is settled");
            return self.about.events.report(What::DoubtOver);
        }
        let names = self.about.names.iter().zip(self.volume.backend.health());
        let devices: Vec<String> =
            names.filter(|(_, health)| health.failed_flushes > 0).map(|(name, _)| name.clone()).collect();
        match stopped {
            true => tracing::error!(
                ?devices,
                "a flush failed, and the log has stopped: every request fails until the device can be flushed again"
            ),
            false => tracing::warn!(?devices, "a flush failed: writes since the last good flush may be lost"),
        }
        self.about.events.report(What::InDoubt { devices, stopped });
    }

    /// The kernel's answer to a command that failed or to a flush; or that the disk has gone, if it was taken out. Linux answers as if such
    /// a disk had no size: reads end before their first byte, writes lack space, flushes fail. The disk does not come back by itself.
    /// The same holds for a disk or file that has become smaller than the volume needs: what was at its end is lost.
    pub(super) fn unless_removed(&self, slot: u32, result: i32) -> i32 {
        let device = self.volume.backend.device_in_question(slot, result);
        if device.is_some_and(|device| self.is_cut_off(device.index())) { -libc::ENXIO } else { result }
    }

    fn is_cut_off(&self, index: usize) -> bool {
        let Some(device) = self.about.devices.get(index).and_then(Option::as_ref) else { return false };
        let used = match self.changing.away() {
            None => device.used(self.volume.engine().device_bytes()[index]),
            Some(_) => device.size,
        };
        device.is_smaller_than(used.min(device.size))
    }

    /// Gives up devices that have become smaller than the volume needs, before a write at their end makes a file long again, with zeros.
    pub(super) fn give_up_cut_off(&mut self) {
        for index in 0..self.about.names.len() {
            let device = DeviceId(index as u8);
            if !self.volume.engine().is_gone(device) && self.is_cut_off(index) {
                tracing::error!(
                    device = self.about.names[index],
                    "the device has become smaller than the volume needs"
                );
                self.volume.device_failed(self.now, device);
            }
        }
    }

    /// The same, and reports files that were renamed or deleted.
    pub(super) fn look_at_devices(&mut self) {
        self.outages.next_look = self.now.saturating_add(LOOK_EVERY);
        self.give_up_cut_off();
        for (index, device) in self.about.devices.iter().enumerate() {
            let place = device.as_ref().map_or(Place::AtItsPath, Device::place);
            let before = std::mem::replace(&mut self.outages.places[index], place);
            if let Some(error) = displaced(place).filter(|_| place != before) {
                let (device, error) = (self.about.names[index].clone(), error.to_owned());
                tracing::error!(device, "{error}");
                let action = "look".to_owned();
                self.about.events.report(What::DeviceError { device, action, at: 0, len: 0, error });
            }
        }
    }

    /// The device whose outage keeps the volume from becoming idle, if there is one.
    pub(super) fn outage_at_the_end(&self) -> Option<ServeError> {
        let gone = self.volume.engine().gone();
        let devices = self.about.devices.iter().enumerate();
        let mut devices = devices.filter(|(index, _)| gone >> index & 1 == 0);
        devices.find_map(|(index, device)| {
            let (device, outage) = (device.as_ref()?, self.volume.backend.outage(index)?);
            Some(ServeError::Outage { name: device.name.clone(), path: device.path.clone(), error: outage.error })
        })
    }
}

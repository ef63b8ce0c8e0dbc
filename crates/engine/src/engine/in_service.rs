//! Devices that fail, return, are evacuated, replaced, grown or shrunk while the volume is served.

use peryton_format::storage::Storage;
use peryton_format::superblock::Superblock;
use peryton_units::{Bytes, Nanos};

use super::Engine;
use crate::{
    api::command::{Commands, DeviceId},
    api::config::{Config, Tuning},
    api::error::{OpenError, ReadmitError, ReplaceError},
    api::evacuation::EvacuationError,
    api::excuses::Excuses,
    api::location::{Losses, MapPart},
    api::logging::LogPart,
    api::opened::Opened,
    api::resizing::{Resize, ResizeEnd, ResizeError, ResizePlan},
    api::succession::{Succession, SuccessionEnd, SuccessionError, SuccessionPlan},
    lifecycle::{self, Sizes, Without, with_drive},
};

impl Engine {
    // Failing devices.

    /// Reports that a device is dead: it has been removed, or answers only with errors. The engine sends it no more
    /// commands. Commands in flight on it must still be completed, and count as failed.
    #[cold]
    pub fn device_failed(&mut self, now: Nanos, device: DeviceId, out: &mut Commands) {
        mirrored!(self, drive, out => drive.device_failed(now, device, out));
    }

    /// Excuses devices whose commands fail.
    pub fn excuse(&mut self, excuses: Excuses) {
        drive!(mut self, drive => drive.io.excuses = excuses);
    }

    /// Whether a flush of a device has failed, and this is not settled. It is settled when a flush of the host has failed for it,
    /// or when the data that it should have covered were written again. Until then, data written since the last flush may
    /// read as they were before, and the volume cannot be closed.
    pub fn is_in_doubt(&self) -> bool {
        drive!(self, drive => drive.io.is_in_doubt())
    }

    /// Whether every request fails until the volume is opened again ([`Engine::open_again`]): a flush of a log has failed.
    pub fn has_stopped(&self) -> bool {
        drive!(self, drive => drive.io.stopped)
    }

    /// Whether nothing goes on before [`Engine::open_again`]: a flush of a log has failed, every request fails since, nothing is in
    /// flight any more, and the device that failed can be flushed again.
    pub fn waits_to_be_reopened(&self) -> bool {
        self.drive.log().is_some_and(|drive| drive.placed.waits_to_be_reopened() && drive.is_idle())
    }

    /// Checks that the volume can do without the device once nothing is on it alone.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn can_evacuate(&self, device: DeviceId) -> Result<(), EvacuationError> {
        drive!(self, drive => lifecycle::can_evacuate(drive, device))
    }

    /// The tuning with which a cache is emptied: nothing comes in, and no write makes a copy newer than its origin. `slowly`: nothing is
    /// written back but for [`Engine::write_all_back`].
    pub fn leaving_tuning(&self, slowly: bool) -> Tuning {
        lifecycle::leaving_tuning(self.tuning(), slowly)
    }

    /// Ends what [`Engine::write_all_back`] has begun; what is under way is written.
    pub fn pause_writing_back(&mut self) {
        if let Some(drive) = self.drive.cache_mut() {
            drive.placed.pause_writing_back();
        }
    }

    /// Checks, with nothing in flight, that the device holds nothing which the others lack, so that the volume can go on without it
    /// ([`Engine::open_again`]).
    ///
    /// # Errors
    /// What it still has.
    pub fn is_evacuated(&self, device: DeviceId) -> Result<(), EvacuationError> {
        drive!(self, drive => drive.is_evacuated(device))
    }

    /// Checks by what a device says of itself whether it may come back ([`Engine::take_back`]), which then looks at the rest.
    ///
    /// # Errors
    /// It is not the one that was given up, or holds what the volume does not know.
    pub fn can_take_back(&self, says: &Superblock, device: DeviceId) -> Result<(), ReadmitError> {
        drive!(self, drive => lifecycle::can_take_back(drive, says, device))
    }

    /// The volume as it is now, for [`closed`](crate::closed).
    pub fn config(&self) -> Config {
        drive!(self, drive => drive.config())
    }

    /// Takes a device back ([`closed::readmit`](crate::closed::readmit)) that was given up by this volume, which was closed; [`Engine::open_again`] follows in any
    /// case.
    ///
    /// # Errors
    /// Those of [`closed::readmit`](crate::closed::readmit).
    pub fn take_back(
        &self,
        storage: &mut dyn Storage,
        device: DeviceId,
    ) -> Result<lifecycle::Readmitted, ReadmitError> {
        lifecycle::closed::readmit(drive!(self, drive => drive.config()), storage, device)
    }

    /// Makes an empty device part of this volume ([`closed::replace`](crate::closed::replace)), which was closed; [`Engine::open_again`] follows in any case.
    ///
    /// # Errors
    /// Those of [`closed::replace`](crate::closed::replace).
    pub fn take_in(&self, storage: &mut dyn Storage, device: DeviceId) -> Result<Opened, ReplaceError> {
        lifecycle::closed::replace(drive!(self, drive => drive.config()), storage, device, false)
    }

    /// Checks whether an empty device may take the place of this one, which is gone, while the volume is served. Returns how much of it
    /// the volume uses, where the data begin, and the room for snapshots behind it.
    ///
    /// # Errors
    /// No map says what is lost with the device.
    pub fn can_take_in(&self, device: DeviceId) -> Result<(Bytes, Bytes, Bytes), ReplaceError> {
        drive!(self, drive => lifecycle::can_take_in(drive, device))
    }

    /// Opens a volume again that was closed, or whose closing was not completed, or that has stopped ([`Engine::waits_to_be_reopened`]),
    /// with the devices that its superblocks name, except `without`: some may be new, or back. One that has stopped is as after a power loss:
    /// what a flush of the host had made durable is there. If data may be lost that no flush of the host has failed for, the next one fails.
    /// Tuning, statistics and time go on; [`Engine::keep_records`] is to be called again.
    ///
    /// # Errors
    /// Those of [`Engine::open`]. The engine is unchanged, and this can be tried again.
    pub fn open_again(&mut self, storage: &mut dyn Storage, without: Without) -> Result<Opened, OpenError> {
        let (drive, opened) = drive!(self, drive => lifecycle::open_again(drive, storage, without))?;
        self.drive = drive;
        Ok(opened)
    }

    /// The devices that were evacuated, and without which the volume is what it was, one bit each.
    pub fn evacuated_devices(&self) -> u32 {
        drive!(self, drive => drive.evacuated())
    }

    /// Whether the device was evacuated, and the volume is without it.
    pub fn was_evacuated(&self, device: DeviceId) -> bool {
        self.evacuated_devices() >> device.index() & 1 == 1
    }

    /// Whether the device is dead, or the volume was opened without it.
    pub fn is_gone(&self, device: DeviceId) -> bool {
        drive!(self, drive => drive.io.is_fenced(device))
    }

    /// The devices that are gone, one bit each.
    #[inline]
    pub fn gone(&self) -> u32 {
        drive!(self, drive => drive.io.fenced)
    }

    /// Whether the survivors have recorded durably that the device is gone, so that it is refused if it comes back. Never true
    /// of devices that were given up when no other was left: no flush has succeeded since, and all of them may come back.
    pub fn is_durably_gone(&self, device: DeviceId) -> bool {
        drive!(self, drive => drive.io.recorded >> device.index() & 1 == 1)
    }

    /// How often answered data of the host may have been lost, so that a flush of the host has to fail.
    pub fn errors_owed(&self) -> u64 {
        drive!(self, drive => drive.io.errors_owed)
    }

    /// Whether the device is gone and what follows from that is done: the survivors have recorded it, or none is left.
    pub fn is_given_up(&self, device: DeviceId) -> bool {
        drive!(self, drive => drive.io.is_fenced(device) && !drive.io.fencing)
    }

    /// Number of lost extents.
    pub fn lost_extents(&self) -> u32 {
        self.drive.cache().map_or(0, |drive| drive.placed.lost_extents())
    }

    /// The lost data, with at most `most` of its ranges. Walks the map if any data is lost.
    pub fn losses(&self, most: usize) -> Losses {
        drive!(self, drive => drive.losses(most))
    }

    /// The entries of the map from an offset on: of so many extents, or blocks of a log.
    pub fn map_part(&self, from: Bytes, most: u32) -> MapPart {
        drive!(self, drive => drive.map_part(from, most))
    }

    /// Logging: the parts of the volume that the primaries have. Without a log there are none.
    pub fn log_parts(&self) -> Vec<LogPart> {
        self.drive.log().map_or_else(Vec::new, |drive| drive.placed.parts())
    }

    /// Logging: the age of the oldest logged write that has not migrated to the primary. With the log gone, how old the
    /// primary's image of the lost data can be at most. `None` if the log has, or had, no such data.
    pub fn log_age(&self, now: Nanos) -> Option<Nanos> {
        self.drive.log().and_then(|drive| drive.placed.age(now))
    }

    // A device that is replaced while the volume is served.

    /// Begins to copy a device to another one, which is to take its place. The driver has the new device under the number behind the last
    /// device of the volume, and carries out commands to it like all others; there is a buffer for them ([`Engine::copy_buffer_bytes`]).
    /// The new device need not be empty. See `docs/operate.md`.
    ///
    /// # Errors
    /// It cannot be done with this volume or to this device. Nothing has changed.
    pub fn replace_in_service(
        &mut self,
        now: Nanos,
        plan: SuccessionPlan,
        out: &mut Commands,
    ) -> Result<(), SuccessionError> {
        drive!(mut self, drive => drive.replace_in_service(now, plan, out))
    }

    /// Checks whether a device can be replaced.
    ///
    /// # Errors
    /// Those of [`Engine::replace_in_service`].
    pub fn can_replace_in_service(&self, plan: SuccessionPlan) -> Result<(), SuccessionError> {
        drive!(self, drive => drive.can_replace_in_service(plan).map(|_| ()))
    }

    /// The length of the buffer through which a device is copied ([`Buffer::Copy`](crate::Buffer::Copy)); zero if none is.
    pub fn copy_buffer_bytes(&self) -> Bytes {
        drive!(self, drive => drive.copy_buffer_bytes())
    }

    /// How far the replacement of a device is, with at most `most` ranges of what cannot be read; `None` if none is being replaced.
    pub fn succession(&self, most: usize) -> Option<Succession> {
        drive!(self, drive => drive.succession(most))
    }

    /// How the last replacement came to its end, once.
    pub fn take_succession_end(&mut self) -> Option<SuccessionEnd> {
        drive!(mut self, drive => drive.ended.take())
    }

    /// Puts the new device in charge, to which everything was copied. Superblocks that the driver writes itself
    /// ([`Engine::store_notes`]) have to wait until that is done. The engine says by
    /// [`Command::Succeed`](crate::Command::Succeed) from when on the new device has the number of the old one.
    ///
    /// # Errors
    /// No device is being replaced, or not everything is copied.
    pub fn succeed(&mut self, now: Nanos, out: &mut Commands) -> Result<(), SuccessionError> {
        drive!(mut self, drive => drive.succeed(now, out))
    }

    /// Ends the replacement of a device, unless the new one is about to be in charge. The old one stays.
    pub fn stop_replacing(&mut self, now: Nanos, out: &mut Commands) {
        drive!(mut self, drive => drive.stop_replacing(now, out));
    }

    // A device that is grown or shrunk while the volume is served.

    /// Begins to grow or shrink a device. What is beyond the new end of one that shrinks is emptied while requests go on; then
    /// ([`ResizeStage::Ready`](crate::ResizeStage::Ready)) the driver stops submitting requests, says so ([`Engine::rest`]), completes what
    /// is under way, and calls [`Engine::resize_now`] as soon as [`Engine::can_resize_now`]. See `docs/operate.md`.
    ///
    /// # Errors
    /// It cannot be done with this volume or to this device. Nothing has changed.
    pub fn resize(&mut self, now: Nanos, plan: ResizePlan, out: &mut Commands) -> Result<(), ResizeError> {
        mirrored!(self, drive, out => drive.resize(now, plan, out))
    }

    /// Checks whether a device can be resized. Returns the sizes of the volume after that.
    ///
    /// # Errors
    /// Those of [`Engine::resize`].
    pub fn can_resize(&self, plan: ResizePlan) -> Result<Sizes, ResizeError> {
        drive!(self, drive => drive.can_resize(plan).map(|target| target.sizes))
    }

    /// How many bytes of data a device could have if it were so large.
    pub fn largest(&self, device: DeviceId, room: Bytes) -> Bytes {
        drive!(self, drive => lifecycle::largest(drive, device, room))
    }

    /// The bytes of data on each device, as in the configuration.
    pub fn data_bytes(&self) -> &[Bytes] {
        drive!(self, drive => &drive.data_bytes)
    }

    /// How far the resizing of a device is; `None` if none is being resized.
    pub fn resizing(&self) -> Option<Resize> {
        drive!(self, drive => drive.resizing())
    }

    /// How the last resizing came to its end, once.
    pub fn take_resize_end(&mut self) -> Option<ResizeEnd> {
        drive!(mut self, drive => drive.resize_ended.take())
    }

    /// Says that the driver submits no requests until [`Engine::resize_now`]: nothing is begun that can wait. Or that it submits some again.
    pub fn rest(&mut self, now: Nanos, rests: bool, out: &mut Commands) {
        mirrored!(self, drive, out => drive.rest(now, rests, out));
    }

    /// Ends the resizing of a device, unless the volume is closed for it. The device has its old size.
    pub fn stop_resizing(&mut self, now: Nanos) {
        drive!(mut self, drive => drive.stop_resizing(now));
    }

    /// Whether [`Engine::resize_now`] can be called.
    pub fn can_resize_now(&self) -> bool {
        drive!(self, drive => drive.can_switch())
    }

    /// Closes the volume and opens it with the new size of a device. Tuning, statistics and, if there is room for snapshots, what was learnt
    /// stay; [`Engine::keep_records`] is to be called again.
    ///
    /// # Errors
    /// A device has failed. No request can be served, and this has to be called again.
    ///
    /// # Panics
    /// If [`Engine::can_resize_now`] is false.
    pub fn resize_now(&mut self, storage: &mut dyn Storage) -> Result<Opened, OpenError> {
        assert!(self.can_resize_now(), "a volume is opened with another size only while nothing is under way");
        let (drive, opened) = drive!(mut self, drive => lifecycle::resize_now(drive, storage))?;
        self.drive = drive;
        Ok(opened)
    }
}

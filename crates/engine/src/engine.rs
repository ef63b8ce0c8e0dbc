//! The engine's face: what a driver calls. Each call goes to the drive of the placement, with static dispatch.

use std::ops::Range;

use peryton_format::{storage::Storage, superblock::VolumeState};
use peryton_policy::{AdaptiveView, ClimbView};
use peryton_units::{Bytes, Nanos};

use crate::{
    api::command::{Buffers, Commands, DeviceId, IoId, Request, RequestId},
    api::config::{Config, Tuning},
    api::error::{
        ConfigError, DetachError, DeviceError, DriverError, FormatError, OpenError, ReplaceError, TuningError,
    },
    api::location::{Location, Losses},
    api::opened::{Formatting, Opened, Trust},
    api::stats::Stats,
    lifecycle::{self, AnyDrive, Detached, Inspection, with_drive},
    placement::PlacementOps,
};

/// A hybrid drive.
#[derive(Debug)]
pub struct Engine {
    drive: AnyDrive,
}

/// Does the same whatever the placement is. This is where the engine tells placements apart, and the only place.
macro_rules! drive {
    ($engine:ident, $drive:ident => $body:expr) => {
        with_drive!(&$engine.drive, $drive => $body)
    };
    (mut $engine:ident, $drive:ident => $body:expr) => {
        with_drive!(&mut $engine.drive, $drive => $body)
    };
}

impl Engine {
    /// An empty, freshly formatted drive on devices that read as zeros.
    ///
    /// # Errors
    /// A configuration that cannot work, with the design key and the remedy.
    pub fn new(config: Config) -> Result<Engine, ConfigError> {
        Ok(Engine { drive: AnyDrive::new(config, None)? })
    }

    /// The size of the volume that the host sees.
    pub fn volume_size(&self) -> Bytes {
        drive!(self, drive => drive.volume_size)
    }

    /// How much of each device the volume occupies: data, spare extents and metadata.
    pub fn device_bytes(&self) -> &[Bytes] {
        drive!(self, drive => &drive.device_bytes)
    }

    /// How many move buffers (each [`Engine::move_buffer_bytes`] long) a driver must own. Grows when `max_moves` is raised.
    pub fn move_buffers(&self) -> u32 {
        drive!(self, drive => drive.placed.move_buffers(&drive.io.tuning))
    }

    /// How long each move buffer is: an extent, or the longest append of a log.
    pub fn move_buffer_bytes(&self) -> Bytes {
        drive!(self, drive => drive.move_buffer_bytes)
    }

    /// A request for this offset will come soon: `near` if it is among the next few. Changes nothing but what the
    /// processor has at hand; calls with `near` are of use only after one without.
    #[inline]
    pub fn prefetch(&self, offset: Bytes, near: bool) {
        drive!(self, drive => drive.placed.prefetch(offset, near));
    }

    /// A request from the host. Pushes what has to be done onto `out`.
    ///
    /// The id is the driver's, and the engine never looks inside it: if the driver uses one twice at a time the engine's
    /// tables are none the worse for it, but the driver cannot tell the replies apart.
    #[inline]
    pub fn submit(&mut self, now: Nanos, id: RequestId, request: Request, out: &mut Commands) {
        drive!(mut self, drive => drive.submit(now, id, request, out));
    }

    /// A command that the driver has carried out, or failed to.
    ///
    /// # Errors
    /// The command is not in flight: it has been completed before, or the engine never gave that id. Then nothing has
    /// changed, and the driver can go on; but it should say so, for it may have completed the wrong one of two.
    #[inline]
    pub fn complete(
        &mut self,
        now: Nanos,
        io: IoId,
        result: Result<(), DeviceError>,
        out: &mut Commands,
    ) -> Result<(), DriverError> {
        drive!(mut self, drive => drive.complete(now, io, result, out))
    }

    /// The id of the command in flight with this [index](IoId::index), for drivers whose queues name commands by that.
    #[inline]
    pub fn id_at(&self, index: usize) -> Option<IoId> {
        drive!(self, drive => drive.io.id_at(index))
    }

    /// Timers: spin-down, write-back delay, commit interval. Cheap when nothing is due. Returns the next deadline.
    pub fn tick(&mut self, now: Nanos, out: &mut Commands) -> Option<Nanos> {
        drive!(mut self, drive => drive.tick(now, out))
    }

    /// The next deadline, without doing anything: never later than the true one.
    #[inline]
    pub fn deadline(&self) -> Option<Nanos> {
        drive!(self, drive => drive.deadline())
    }

    /// Encodes the metadata that a write command with [`Buffer::Metadata`](crate::Buffer::Metadata) writes, unless that
    /// needs data (a log's: see [`Engine::encode_with`]); `into` is as long as the command says. To be called when the
    /// command is taken from the list.
    ///
    /// # Errors
    /// The command is not in flight, or it writes no metadata.
    ///
    /// # Panics
    /// If `into` is shorter than the command says, or the volume was not opened from its devices.
    pub fn encode_metadata(&self, io: IoId, into: &mut [u8]) -> Result<(), DriverError> {
        drive!(self, drive => drive.encode(io, into, None))
    }

    /// The same for any command that writes metadata, [`Command::Encode`](crate::Command::Encode) included: where the
    /// metadata has checksums of data, they are made of what `buffers` holds now.
    ///
    /// # Errors
    /// Those of [`Engine::encode_metadata`].
    ///
    /// # Panics
    /// Where [`Engine::encode_metadata`] does.
    pub fn encode_with(&self, io: IoId, into: &mut [u8], buffers: &dyn Buffers) -> Result<(), DriverError> {
        drive!(self, drive => drive.encode(io, into, Some(buffers)))
    }

    /// Whether a driver that can read what a device programs, its own moves included, should say so now
    /// ([`Engine::programmed`]), and of which device. To be asked after a tick; a device that does not say is asked again
    /// some seconds later.
    pub fn asks_what_was_programmed(&mut self, now: Nanos) -> Option<DeviceId> {
        drive!(mut self, drive => {
            let now = drive.io.advance(now);
            drive.placed.asks_what_was_programmed(now)
        })
    }

    /// What a device has programmed so far, as it counts itself. What makes a device last (write regulation, MixedStore,
    /// section 5.4; caps of hill climbing; adaptive admission) then need not rely on the write
    /// amplification of the settings.
    pub fn programmed(&mut self, device: DeviceId, bytes: Bytes) {
        drive!(mut self, drive => {
            let written = drive.io.stats.devices.get(device.index()).map_or(0, |of| of.bytes_written.iter().sum());
            drive.placed.programmed(device, bytes, Bytes(written));
        });
    }

    /// Whether a driver that can measure what all devices have drawn should say so now ([`Engine::drew`]). To be asked after
    /// a tick; it is for caps on power.
    pub fn asks_what_was_drawn(&self) -> bool {
        drive!(self, drive => drive.placed.asks_what_was_drawn())
    }

    /// What all devices together have drawn since some time, in microjoules. Less than before means since another time.
    pub fn drew(&mut self, microjoules: u64) {
        drive!(mut self, drive => drive.placed.drew(microjoules));
    }

    /// Where hill climbing stands; `None` where nothing climbs.
    pub fn climbing(&self) -> Option<ClimbView> {
        drive!(self, drive => drive.placed.climbing(&drive.io.tuning))
    }

    /// Where the adaptive admission threshold stands; `None` where it is fixed or there is no admission.
    pub fn adaptive_admission(&self) -> Option<AdaptiveView> {
        drive!(self, drive => drive.placed.adaptive_admission())
    }

    /// Live re-tuning; everything but what the format fixed.
    ///
    /// # Errors
    /// A setting that cannot work. The engine is as it was.
    pub fn retune(&mut self, now: Nanos, tuning: Tuning, out: &mut Commands) -> Result<(), TuningError> {
        drive!(mut self, drive => drive.retune(now, tuning, out))
    }

    /// The present tuning.
    pub fn tuning(&self) -> &Tuning {
        drive!(self, drive => &drive.io.tuning)
    }

    /// Everything counted so far.
    pub fn stats(&self) -> &Stats {
        drive!(self, drive => &drive.io.stats)
    }

    /// Starts counting from zero, as after a warm-up.
    pub fn reset_stats(&mut self) {
        drive!(mut self, drive => drive.reset_statistics());
    }

    /// Fills the map as a scan of the whole volume would, without I/O (GreenDM, section 3.3): tiering maps every
    /// extent, lowest addresses to the fast device first. The other placements have nothing to fill.
    pub fn fill(&mut self) {
        drive!(mut self, drive => drive.placed.fill(&drive.io.tuning));
    }

    /// Extents of the cache that are newer than their homes (caching, write-back).
    pub fn dirty_extents(&self) -> u32 {
        drive!(self, drive => drive.placed.dirty_extents())
    }

    /// Writes everything that only the fast device has home, without delay. To be called again, as completions come,
    /// until [`Engine::dirty_extents`] is zero; what the host writes meanwhile counts as well. What a log has goes to the
    /// primary.
    pub fn write_all_back(&mut self, now: Nanos, out: &mut Commands) {
        drive!(mut self, drive => drive.write_all_back(now, out));
    }

    /// Where the volume's byte at `offset` is, and for how many bytes from there that holds; `None` past the end.
    pub fn location(&self, offset: Bytes) -> Option<Location> {
        drive!(self, drive => drive.location(offset))
    }

    /// Whether nothing is in flight and nothing waits: no request, no move, no commit.
    pub fn is_idle(&self) -> bool {
        drive!(self, drive => drive.is_idle())
    }

    /// Panics if the engine's own tables do not agree. For tests: it walks the whole map.
    pub fn check_invariants(&self) {
        drive!(self, drive => drive.placed.check_invariants(drive.io.is_idle()));
    }

    /// A hint that the host has dropped the range from its own cache, and will read it from here next time: what the log
    /// has of it migrates (Griffin, section 7). Placements without a log ignore it.
    pub fn evict(&mut self, now: Nanos, range: Range<Bytes>, out: &mut Commands) {
        drive!(mut self, drive => {
            let now = drive.io.advance(now);
            drive.placed.evict(&mut drive.io, now, range, out);
        });
    }

    // Devices that die.

    /// The device is dead, says the driver: it is not there any more, or answers nothing but errors. Nothing is asked of
    /// it from now on; what is in flight on it is still to be completed, and counts as failed.
    #[cold]
    pub fn device_failed(&mut self, now: Nanos, device: DeviceId, out: &mut Commands) {
        drive!(mut self, drive => drive.device_failed(now, device, out));
    }

    /// Whether the device is dead, or the volume was opened without it.
    pub fn is_gone(&self, device: DeviceId) -> bool {
        drive!(self, drive => drive.io.is_fenced(device))
    }

    /// All that are gone, a bit each.
    #[inline]
    pub fn gone(&self) -> u32 {
        drive!(self, drive => drive.io.fenced)
    }

    /// Whether the survivors know that the device is gone, so that it is refused should it come back.
    pub fn is_durably_gone(&self, device: DeviceId) -> bool {
        drive!(self, drive => drive.io.is_fenced(device) && !drive.io.fencing)
    }

    /// Extents that are lost.
    pub fn lost_extents(&self) -> u32 {
        drive!(self, drive => drive.placed.lost_extents())
    }

    /// What is lost, with at most `most` ranges of it. Walks the map if there is anything.
    pub fn losses(&self, most: usize) -> Losses {
        drive!(self, drive => drive.placed.losses(&drive.io, most))
    }

    /// Logging: how long ago the oldest write was logged that has not migrated to the primary since. Once the log is
    /// gone, how old the primary's image of what is lost can be at most. `None` where the log has, or had, nothing.
    pub fn log_age(&self, now: Nanos) -> Option<Nanos> {
        drive!(self, drive => drive.placed.log_age(now))
    }

    // A volume on real devices.

    /// Makes a new, empty volume on devices whose content is given up.
    ///
    /// # Errors
    /// The configuration cannot work, a device is missing, too small, or has failed.
    pub fn format(config: &Config, new: Formatting, storage: &mut dyn Storage) -> Result<(), FormatError> {
        lifecycle::format(config, new, storage)
    }

    /// Opens a volume as it was left, whether by [`Engine::close`] or by a crash, and begins a new generation. A crash
    /// meanwhile changes nothing: opening begins again.
    ///
    /// # Errors
    /// The devices are not all there is of one volume, or something on them cannot be read that is needed.
    pub fn open(config: Config, storage: &mut dyn Storage) -> Result<(Engine, Opened), OpenError> {
        Engine::open_without(config, storage, &[])
    }

    /// The same without some of the devices, which need not be there and are not looked at: what only they had is lost
    /// ([`Engine::losses`]), and they are no longer part of the volume. See `docs/failures.md`.
    ///
    /// # Errors
    /// Those of [`Engine::open`]; and if the device that is left cannot tell what the other one had.
    pub fn open_without(
        config: Config,
        storage: &mut dyn Storage,
        without: &[DeviceId],
    ) -> Result<(Engine, Opened), OpenError> {
        let (drive, opened) = lifecycle::open(config, storage, Trust::Nobody, without)?;
        Ok((Engine { drive }, opened))
    }

    /// Closes a volume on which nothing is in flight, so that opening it needs no recovery.
    ///
    /// # Errors
    /// A device has failed. Opening the volume recovers it.
    ///
    /// # Panics
    /// If the engine is not idle, or was not opened from devices.
    pub fn close(&mut self, storage: &mut dyn Storage) -> Result<(), DeviceError> {
        drive!(mut self, drive => drive.close(VolumeState::Clean, storage))
    }

    /// Keeps a text for the driver, at most 3,584 bytes, which [`Opened`] hands back.
    ///
    /// # Errors
    /// The text is too long, or a device has failed.
    pub fn store_notes(&mut self, notes: &str, storage: &mut dyn Storage) -> Result<(), FormatError> {
        drive!(mut self, drive => drive.store_notes(notes, storage))
    }

    /// Where data begins on a device: what a file system's offset is once the volume is detached.
    pub fn data_at(&self, device: DeviceId) -> Bytes {
        drive!(self, drive => drive.placed.data_at(device))
    }

    /// Looks at everything that the volume keeps on its devices. `whole`: also lists the journal and the map.
    /// `without`: as the volume would be without these devices.
    ///
    /// # Errors
    /// The configuration cannot work. What is wrong with the devices is part of the result.
    pub fn inspect(
        config: Config,
        storage: &mut dyn Storage,
        whole: bool,
        without: &[DeviceId],
    ) -> Result<Inspection, ConfigError> {
        lifecycle::inspect(config, storage, whole, without)
    }

    /// Opens a volume and closes it again, which makes good what a crash or a damaged copy left behind. `trust` settles
    /// which device is right where another program has written to one.
    ///
    /// # Errors
    /// Those of [`Engine::open_without`].
    pub fn repair(
        config: Config,
        storage: &mut dyn Storage,
        trust: Trust,
        without: &[DeviceId],
    ) -> Result<Opened, OpenError> {
        lifecycle::repair(config, storage, trust, without)
    }

    /// Takes a volume apart, so that one device has everything and can be used without Peryton: what only the cache has
    /// or the log has is written home. The volume cannot be opened after that.
    ///
    /// # Errors
    /// No device of this placement can stand alone, something is lost or cannot be written home, or a device has failed.
    pub fn detach(config: Config, storage: &mut dyn Storage) -> Result<Detached, DetachError> {
        lifecycle::detach(config, storage)
    }

    /// Whether the device could be replaced: the others can be opened without it, and if something is lost that nothing
    /// could tell from what is not, that is accepted. Nothing is written.
    ///
    /// # Errors
    /// The others cannot be opened without it, or something would be lost unnoticed.
    pub fn can_replace(
        config: &Config,
        storage: &mut dyn Storage,
        device: DeviceId,
        accept_loss: bool,
    ) -> Result<(), ReplaceError> {
        lifecycle::can_replace(config, storage, device, accept_loss)
    }

    /// Whether a device that replaces this one has to read as zeros where data goes: there is no map that says what of
    /// it was written.
    pub fn replaces_with_zeros(config: &Config, device: DeviceId) -> bool {
        lifecycle::replaces_with_zeros(config, device)
    }

    /// Makes an empty device part of the volume, in the place of one that is gone, or is given up with this
    /// ([`Engine::replaces_with_zeros`] says how empty). `accept_loss`: though nothing will be able to tell what is lost.
    /// A crash meanwhile leaves the volume without it.
    ///
    /// # Errors
    /// Those of [`Engine::can_replace`]; or a device is too small or has failed.
    pub fn replace(
        config: Config,
        storage: &mut dyn Storage,
        device: DeviceId,
        accept_loss: bool,
    ) -> Result<Opened, ReplaceError> {
        lifecycle::replace(config, storage, device, accept_loss)
    }
}

//! The public interface of the engine. Each call goes to the drive of the placement, with static dispatch.

use std::ops::Range;

use peryton_format::{
    storage::Storage,
    superblock::{Superblock, VolumeState},
    takeover::{Label, Record},
};
use peryton_policy::{AdaptiveView, ClimbView};
use peryton_units::{Bytes, Nanos};

use crate::{
    api::cleaning::CleaningReport,
    api::command::{Buffers, Commands, DeviceId, IoId, Request, RequestId},
    api::config::{Config, Tuning},
    api::error::{
        ConfigError, DetachError, DeviceError, DriverError, FormatError, OpenError, ReadmitError, ReplaceError,
        TuningError,
    },
    api::evacuation::EvacuationError,
    api::location::{Location, Losses},
    api::opened::{Formatting, Opened, Trust},
    api::resizing::{Resize, ResizeEnd, ResizeError, ResizePlan},
    api::stats::Stats,
    api::succession::{Succession, SuccessionEnd, SuccessionError, SuccessionPlan},
    api::verification::Verification,
    api::warmth::Warmth,
    lifecycle::{self, AnyDrive, Detached, Inspection, Sizes, with_drive},
    placement::PlacementOps,
};

/// A hybrid drive.
///
/// The [crate's page](crate) has the driver's contract, and a driver with data. This one has no data, as a simulator's:
/// it hands in a request and reports each command as carried out.
///
/// ```
/// use peryton_engine::{Command, Config, DeviceId, Engine, Placement, Request, RequestId, Tuning};
/// use peryton_units::{Bytes, Nanos, Op};
///
/// let placement = Placement::Single { device: DeviceId(0) };
/// let mut engine = Engine::new(Config { devices: vec![Bytes::gib(1)], placement, tuning: Tuning::default() })?;
/// assert_eq!(engine.volume_size(), Bytes::gib(1));
///
/// let (now, mut out) = (Nanos::ZERO, Vec::new());
/// let read = Request { op: Op::Read, offset: Bytes::mib(5), len: Bytes::kib(4) };
/// engine.submit(now, RequestId(7), read, &mut out);
/// let [Command::Read { io, device: DeviceId(0), len, .. }] = out[..] else { panic!("{out:?}") };
/// assert_eq!(len, Bytes::kib(4));
///
/// out.clear();
/// engine.complete(Nanos::from_us(90), io, Ok(()), &mut out)?;
/// assert_eq!(out, [Command::Reply { id: RequestId(7), result: Ok(()) }]);
/// assert!(engine.is_idle());
/// // An id is completed once.
/// assert!(engine.complete(Nanos::from_us(90), io, Ok(()), &mut out).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Engine {
    drive: AnyDrive,
}

/// Evaluates the same expression for every placement. Only this module distinguishes the placements.
macro_rules! drive {
    ($engine:ident, $drive:ident => $body:expr) => {
        with_drive!(&$engine.drive, $drive => $body)
    };
    (mut $engine:ident, $drive:ident => $body:expr) => {
        with_drive!(&mut $engine.drive, $drive => {
            // The next request finds out whether anything has changed that its path has to ask for.
            $drive.usual = false;
            $body
        })
    };
    // The same for a call that changes nothing of that without saying so.
    (hot $engine:ident, $drive:ident => $body:expr) => {
        with_drive!(&mut $engine.drive, $drive => $body)
    };
}

/// The same for a call that may ask for commands: a device that is being replaced may have a part in them.
macro_rules! heeded {
    ($engine:ident, $drive:ident, $out:ident => $body:expr) => {
        drive!(mut $engine, $drive => {
            let from = $out.len();
            let done = $body;
            $drive.heed_successor(from, $out);
            done
        })
    };
}

impl Engine {
    /// Makes a new, empty drive on devices that read as zeros.
    ///
    /// # Errors
    /// The configuration cannot work. The error names the design key and the remedy.
    pub fn new(config: Config) -> Result<Engine, ConfigError> {
        Ok(Engine { drive: AnyDrive::new(config, None)? })
    }

    /// The size in bytes of the volume that the host sees.
    pub fn volume_size(&self) -> Bytes {
        drive!(self, drive => drive.volume_size)
    }

    /// The bytes that the volume occupies on each device: data, spare extents and metadata.
    pub fn device_bytes(&self) -> &[Bytes] {
        drive!(self, drive => &drive.device_bytes)
    }

    /// The number of move buffers, each [`Engine::move_buffer_bytes`] long, that a driver must have. It grows when
    /// `max_moves` is raised.
    pub fn move_buffers(&self) -> u32 {
        drive!(self, drive => drive.placed.move_buffers(&drive.io.tuning))
    }

    /// The length of each move buffer: an extent, or the longest append of a log.
    pub fn move_buffer_bytes(&self) -> Bytes {
        drive!(self, drive => drive.move_buffer_bytes)
    }

    /// Announces a request for this offset; `near`: it is among the next few. Only prefetches into the processor's
    /// cache. A call with `near` is useful only after one without.
    #[inline]
    pub fn prefetch(&self, offset: Bytes, near: bool) {
        drive!(self, drive => drive.placed.prefetch(offset, near));
    }

    /// Submits a request of the host. Appends the commands to carry out to `out`.
    ///
    /// The driver chooses the id, and the engine does not interpret it. If the driver uses one id for two requests at a
    /// time, the engine's tables stay correct, but the driver cannot tell the replies apart.
    #[inline]
    pub fn submit(&mut self, now: Nanos, id: RequestId, request: Request, out: &mut Commands) {
        drive!(hot self, drive => drive.submit(now, id, request, out));
    }

    /// Reports that the driver has carried out a command, or failed to.
    ///
    /// # Errors
    /// The command is not in flight: it has been completed before, or the engine never issued this id. The engine is
    /// unchanged and can continue, but the driver should report the error, because it may have completed the wrong one
    /// of two commands.
    #[inline]
    pub fn complete(
        &mut self,
        now: Nanos,
        io: IoId,
        result: Result<(), DeviceError>,
        out: &mut Commands,
    ) -> Result<(), DriverError> {
        drive!(hot self, drive => drive.complete(now, io, result, out))
    }

    /// Compares what a read has brought with its checksums, if it is data that has to be verified. To be called before a read is
    /// reported as carried out ([`Engine::complete`]); what it returns goes to [`Engine::verified`] before that. Without it,
    /// data that has to be verified counts as what the device could not read. A driver that keeps no data need not call it.
    #[inline]
    pub fn verify(&self, io: IoId, buffers: &dyn Buffers) -> Option<Verification> {
        drive!(self, drive => drive.verify(io, buffers))
    }

    /// Takes the result of [`Engine::verify`].
    #[cold]
    pub fn verified(&mut self, result: Verification) {
        drive!(mut self, drive => drive.placed.is_verified(result));
    }

    /// The id of the command in flight with this [index](IoId::index), for drivers whose queues name commands by index.
    #[inline]
    pub fn id_at(&self, index: usize) -> Option<IoId> {
        drive!(self, drive => drive.io.id_at(index))
    }

    /// Runs timers: spin-down, write-back delay, commit interval. Quick if none is due. Returns the next deadline.
    pub fn tick(&mut self, now: Nanos, out: &mut Commands) -> Option<Nanos> {
        drive!(mut self, drive => {
            let from = out.len();
            // What a successor waits for is a timer, too.
            drive.tick(now, out);
            drive.heed_successor(from, out);
            drive.usual = drive.is_usual();
            drive.deadline()
        })
    }

    /// The next deadline, or an earlier time. Changes nothing.
    #[inline]
    pub fn deadline(&self) -> Option<Nanos> {
        drive!(self, drive => drive.deadline())
    }

    /// Encodes the metadata of a write command with [`Buffer::Metadata`](crate::Buffer::Metadata). `into` must be as
    /// long as the command's data. Call it when the command is taken from the list. Metadata that needs data, as a
    /// log's does, requires [`Engine::encode_with`].
    ///
    /// # Errors
    /// The command is not in flight, or writes no metadata.
    ///
    /// # Panics
    /// If `into` is shorter than the command's data, or the volume was not opened from its devices.
    pub fn encode_metadata(&self, io: IoId, into: &mut [u8]) -> Result<(), DriverError> {
        drive!(self, drive => drive.encode(io, into, None))
    }

    /// Encodes the metadata of any command, [`Command::Encode`](crate::Command::Encode) included. Checksums of data in
    /// it are computed from the present content of `buffers`.
    ///
    /// # Errors
    /// Those of [`Engine::encode_metadata`].
    ///
    /// # Panics
    /// Under the conditions of [`Engine::encode_metadata`].
    pub fn encode_with(&self, io: IoId, into: &mut [u8], buffers: &dyn Buffers) -> Result<(), DriverError> {
        drive!(self, drive => drive.encode(io, into, Some(buffers)))
    }

    /// Returns a device whose programmed bytes the engine wants to know now ([`Engine::programmed`]), if a driver can
    /// read how much the device has programmed, its internal moves included. Call it after a tick. If the driver does
    /// not report, the engine asks again some seconds later.
    pub fn asks_what_was_programmed(&mut self, now: Nanos) -> Option<DeviceId> {
        drive!(mut self, drive => {
            let now = drive.io.advance(now);
            drive.placed.asks_what_was_programmed(now)
        })
    }

    /// Reports how many bytes a device has programmed so far, as the device counts them. Rules that extend a device's
    /// life (write regulation, MixedStore, section 5.4; caps of hill climbing; adaptive admission) then do not rely on
    /// the write amplification in the settings.
    pub fn programmed(&mut self, device: DeviceId, bytes: Bytes) {
        drive!(mut self, drive => {
            let written = drive.io.stats.devices.get(device.index()).map_or(0, |of| of.bytes_written.iter().sum());
            drive.placed.programmed(device, bytes, Bytes(written));
        });
    }

    /// Reports the share of a device's life that is used up, in parts per million, and how long it has been in use, both as the device
    /// says itself. Bounds on wear (write regulation, adaptive admission) then spend the rest of its life in the rest of its time, in
    /// place of a new device's.
    pub fn worn(&mut self, device: DeviceId, used_ppm: u32, age: Option<Nanos>) {
        drive!(mut self, drive => {
            let written = drive.io.stats.devices.get(device.index()).map_or(0, |of| of.bytes_written.iter().sum());
            drive.placed.worn(device, used_ppm, age, Bytes(written));
        });
    }

    /// Whether the engine wants to know the energy that all devices have drawn ([`Engine::drew`]), if a driver can
    /// measure it. Call it after a tick. Caps on power use it.
    pub fn asks_what_was_drawn(&self) -> bool {
        drive!(self, drive => drive.placed.asks_what_was_drawn())
    }

    /// Reports the energy that all devices together have drawn since any fixed time, in microjoules. A value below the
    /// last one means that the time has changed.
    pub fn drew(&mut self, microjoules: u64) {
        drive!(mut self, drive => drive.placed.drew(microjoules));
    }

    /// The state of hill climbing; `None` if it is off.
    pub fn climbing(&self) -> Option<ClimbView> {
        drive!(self, drive => drive.placed.climbing(&drive.io.tuning))
    }

    /// How the cache keeps what it has learnt; `None` if the placement learns nothing that could be kept.
    pub fn warmth(&self) -> Option<Warmth> {
        drive!(self, drive => drive.placed.warmth())
    }

    /// Says what the time is, in seconds since 1970, for the date of snapshots of what the cache has learnt.
    pub fn tell_time(&mut self, now: Nanos, unix_s: u64) {
        drive!(mut self, drive => {
            drive.io.advance(now);
            drive.placed.tell_time(&drive.io, unix_s);
        });
    }

    /// The state of the adaptive admission threshold; `None` if the threshold is fixed or there is no admission rule.
    pub fn adaptive_admission(&self) -> Option<AdaptiveView> {
        drive!(self, drive => drive.placed.adaptive_admission())
    }

    /// Changes the tuning while the drive runs: every setting that the format does not fix.
    ///
    /// # Errors
    /// A setting cannot work. The tuning is unchanged.
    pub fn retune(&mut self, now: Nanos, tuning: Tuning, out: &mut Commands) -> Result<(), TuningError> {
        heeded!(self, drive, out => drive.retune(now, tuning, out))
    }

    /// The present tuning.
    pub fn tuning(&self) -> &Tuning {
        drive!(self, drive => &drive.io.tuning)
    }

    /// The counts so far.
    pub fn stats(&self) -> &Stats {
        drive!(self, drive => &drive.io.stats)
    }

    /// Resets all counts to zero, for example after a warm-up.
    pub fn reset_stats(&mut self) {
        drive!(mut self, drive => drive.reset_statistics());
    }

    /// Fills the map as a scan of the whole volume would, without I/O (GreenDM, section 3.3). Tiering maps every
    /// extent, the lowest addresses to the fast device first. Other placements are unchanged.
    pub fn fill(&mut self) {
        drive!(mut self, drive => drive.placed.fill(&drive.io.tuning));
    }

    /// Number of extents in the cache that are newer than their homes (caching, write-back).
    pub fn dirty_extents(&self) -> u32 {
        drive!(self, drive => drive.placed.dirty_extents())
    }

    /// The buffers for neighbours that are written home together ([`Buffer::Run`](crate::Buffer::Run)) that a driver must
    /// have: their number and the length of each. Neither changes.
    pub fn run_buffers(&self) -> (u32, Bytes) {
        drive!(self, drive => drive.placed.run_buffers())
    }

    /// What is dirty in a cache, for how long, and until when; `None` if the placement has no homes for data.
    pub fn cleaning(&self, now: Nanos) -> Option<CleaningReport> {
        drive!(self, drive => drive.placed.cleaning(&drive.io, drive.io.at(now)))
    }

    /// Bytes whose only valid copy is on the fast device (caching, partitioned; whole extents) or in the log (data that has not
    /// migrated).
    pub fn dirty_bytes(&self) -> Bytes {
        drive!(self, drive => drive.placed.dirty_bytes())
    }

    /// Writes all data home that only the fast device has, without delay; a log migrates to the primary. Call it again
    /// as completions come, until [`Engine::dirty_extents`] is zero. What the host writes meanwhile counts as well.
    pub fn write_all_back(&mut self, now: Nanos, out: &mut Commands) {
        heeded!(self, drive, out => drive.write_all_back(now, out));
    }

    /// The place of the volume's byte at `offset`, and for how many bytes it applies; `None` past the end.
    pub fn location(&self, offset: Bytes) -> Option<Location> {
        drive!(self, drive => drive.location(offset))
    }

    /// Whether no request, move or commit is in flight or waits.
    pub fn is_idle(&self) -> bool {
        drive!(self, drive => drive.is_idle())
    }

    /// Checks that the engine's tables agree, and panics if they do not. For tests: it walks the whole map.
    pub fn check_invariants(&self) {
        drive!(self, drive => drive.placed.check_invariants(drive.io.is_idle()));
    }

    /// Hints that the host has dropped the range from its own cache and will read it from this drive next time: the
    /// log's copy of it migrates (Griffin, section 7). Placements without a log ignore the hint.
    pub fn evict(&mut self, now: Nanos, range: Range<Bytes>, out: &mut Commands) {
        heeded!(self, drive, out => {
            let now = drive.io.advance(now);
            drive.placed.evict(&mut drive.io, now, range, out);
        });
    }

    // Failing devices.

    /// Reports that a device is dead: it has been removed, or answers only with errors. The engine sends it no more
    /// commands. Commands in flight on it must still be completed, and count as failed.
    #[cold]
    pub fn device_failed(&mut self, now: Nanos, device: DeviceId, out: &mut Commands) {
        heeded!(self, drive, out => drive.device_failed(now, device, out));
    }

    /// Excuses these devices, one bit each, because the driver knows that they may come back. Their failures are not counted
    /// from now on, so the engine does not give them up.
    pub fn excuse(&mut self, devices: u32) {
        drive!(mut self, drive => drive.io.excused = devices);
    }

    /// Whether a flush of a device has failed, and the data that it should have covered have neither been written again nor
    /// been reported to the host by the failure of one of its flushes. Until then, data written since the last flush may
    /// read as they were before, and the volume cannot be closed.
    pub fn is_in_doubt(&self) -> bool {
        drive!(self, drive => drive.io.is_in_doubt())
    }

    /// Whether every request fails until the volume is opened again ([`Engine::reopen`]): a flush of a log has failed.
    pub fn has_stopped(&self) -> bool {
        drive!(self, drive => drive.io.stopped)
    }

    /// Whether nothing goes on before [`Engine::reopen`]: a flush of a log has failed, every request fails since, nothing is in
    /// flight any more, and the device that failed can be flushed again.
    pub fn waits_to_be_reopened(&self) -> bool {
        drive!(self, drive => drive.placed.waits_to_be_reopened() && drive.is_idle())
    }

    /// Opens a volume that has stopped ([`Engine::waits_to_be_reopened`]) again, as after a power loss: what a flush of the
    /// host had made durable is there. If no flush of the host has failed meanwhile, the next one does. Tuning and
    /// statistics stay; [`Engine::keep_records`] is to be called again.
    ///
    /// # Errors
    /// Those of [`Engine::open`]. The engine is unchanged, and this can be tried again.
    pub fn reopen(&mut self, storage: &mut dyn Storage) -> Result<Opened, OpenError> {
        let (drive, opened) = drive!(self, drive => lifecycle::reopen(drive, storage))?;
        self.drive = drive;
        Ok(opened)
    }

    /// The devices of the volume that were evacuated, one bit each: it opens without them by itself, and they need not be there.
    pub fn evacuated(config: &Config, storage: &mut dyn Storage) -> u32 {
        lifecycle::sizes_in_force(config, storage).map_or(0, |sizes| lifecycle::evacuated(&sizes.devices, storage))
    }

    /// Checks that the volume can do without the device once nothing is on it alone.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn can_evacuate(&self, device: DeviceId) -> Result<(), EvacuationError> {
        drive!(self, drive => lifecycle::can_evacuate(drive, device))
    }

    /// The tuning with which a cache is emptied: nothing comes in, and no write makes a copy newer than its home. `slowly`: nothing is
    /// written home but for [`Engine::write_all_back`].
    pub fn leaving_tuning(&self, slowly: bool) -> Tuning {
        lifecycle::leaving_tuning(self.tuning(), slowly)
    }

    /// Ends what [`Engine::write_all_back`] has begun; what is under way is written.
    pub fn pause_writing_back(&mut self) {
        drive!(mut self, drive => drive.placed.pause_writing_back());
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

    /// Takes a device back ([`Engine::readmit`]) that was given up by this volume, which was closed; [`Engine::open_again`] follows in any
    /// case.
    ///
    /// # Errors
    /// Those of [`Engine::readmit`].
    pub fn take_back(
        &self,
        storage: &mut dyn Storage,
        device: DeviceId,
    ) -> Result<lifecycle::Readmitted, ReadmitError> {
        lifecycle::readmit(drive!(self, drive => drive.config()), storage, device)
    }

    /// Makes an empty device part of this volume ([`Engine::replace`]), which was closed; [`Engine::open_again`] follows in any case.
    ///
    /// # Errors
    /// Those of [`Engine::replace`].
    pub fn take_in(&self, storage: &mut dyn Storage, device: DeviceId) -> Result<Opened, ReplaceError> {
        lifecycle::replace(drive!(self, drive => drive.config()), storage, device, false)
    }

    /// Checks whether an empty device may take the place of this one, which is gone, while the volume is served. Returns how much of it
    /// the volume uses, where the data begin, and the room for snapshots behind it.
    ///
    /// # Errors
    /// No map says what is lost with the device.
    pub fn can_take_in(&self, device: DeviceId) -> Result<(Bytes, Bytes, Bytes), ReplaceError> {
        drive!(self, drive => lifecycle::can_take_in(drive, device))
    }

    /// Opens a volume again that was closed, with the devices that its superblocks name: some may be new, or back. `leaving`: goes on
    /// without this one, which holds nothing that the others lack ([`Engine::is_evacuated`]), and records that. Tuning, statistics and
    /// time go on; [`Engine::keep_records`] is to be called again.
    ///
    /// # Errors
    /// Those of [`Engine::open`]. The engine is unchanged, and this can be tried again.
    pub fn open_again(&mut self, storage: &mut dyn Storage, leaving: Option<DeviceId>) -> Result<Opened, OpenError> {
        let (drive, opened) = drive!(self, drive => lifecycle::open_again(drive, storage, leaving))?;
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

    /// Whether the device is gone and what follows from that is done: the survivors have recorded it, or none is left.
    pub fn is_given_up(&self, device: DeviceId) -> bool {
        drive!(self, drive => drive.io.is_fenced(device) && !drive.io.fencing)
    }

    /// Number of lost extents.
    pub fn lost_extents(&self) -> u32 {
        drive!(self, drive => drive.placed.lost_extents())
    }

    /// The lost data, with at most `most` of its ranges. Walks the map if any data is lost.
    pub fn losses(&self, most: usize) -> Losses {
        drive!(self, drive => drive.losses(most))
    }

    /// Logging: the age of the oldest logged write that has not migrated to the primary. With the log gone, how old the
    /// primary's image of the lost data can be at most. `None` if the log has, or had, no such data.
    pub fn log_age(&self, now: Nanos) -> Option<Nanos> {
        drive!(self, drive => drive.placed.log_age(now))
    }

    // A device that is replaced while the volume is served.

    /// Begins to copy a device to another one, which is to take its place. The driver has the new device under the number behind the last
    /// device of the volume, and carries out commands to it like all others; there is a buffer for them ([`Engine::copy_buffer_bytes`]).
    /// The new device need not be empty. See `docs/in-service.md`.
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
    /// is under way, and calls [`Engine::resize_now`] as soon as [`Engine::can_resize_now`]. See `docs/in-service.md`.
    ///
    /// # Errors
    /// It cannot be done with this volume or to this device. Nothing has changed.
    pub fn resize(&mut self, now: Nanos, plan: ResizePlan, out: &mut Commands) -> Result<(), ResizeError> {
        heeded!(self, drive, out => drive.resize(now, plan, out))
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
        heeded!(self, drive, out => drive.rest(now, rests, out));
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

    /// What a volume uses of its devices that is not open: what its superblocks say, or else what a new one would.
    ///
    /// # Errors
    /// The configuration cannot work.
    pub fn sizes_in_force(config: &Config, storage: &mut dyn Storage) -> Result<Sizes, ConfigError> {
        lifecycle::sizes_in_force(config, storage)
    }

    // A volume on real devices.

    /// Makes a new, empty volume; the devices' content is given up.
    ///
    /// # Errors
    /// The configuration cannot work, or a device is missing, too small, or has failed.
    pub fn format(config: &Config, new: Formatting, storage: &mut dyn Storage) -> Result<(), FormatError> {
        lifecycle::format(config, new, storage)
    }

    /// Opens a volume after [`Engine::close`] or after a crash, and begins a new generation. A crash meanwhile changes
    /// nothing: the next call starts again.
    ///
    /// # Errors
    /// The devices are not all devices of one volume, or needed metadata cannot be read.
    pub fn open(config: Config, storage: &mut dyn Storage) -> Result<(Engine, Opened), OpenError> {
        Engine::open_without(config, storage, &[])
    }

    /// Opens a volume without some of its devices, which need not be there and are not read. Data that only they have
    /// is lost ([`Engine::losses`]), and they are no longer part of the volume. See `docs/failures.md`.
    ///
    /// # Errors
    /// Those of [`Engine::open`]; or the remaining device has no record of what the other one had.
    pub fn open_without(
        config: Config,
        storage: &mut dyn Storage,
        without: &[DeviceId],
    ) -> Result<(Engine, Opened), OpenError> {
        let (drive, opened) = lifecycle::open_or_upgrade(config, storage, Trust::Nobody, without)?;
        Ok((Engine { drive }, opened))
    }

    /// Closes a volume with nothing in flight, so that the next opening needs no recovery.
    ///
    /// # Errors
    /// A device has failed, now or when it was flushed last ([`Engine::is_in_doubt`]). Opening the volume recovers it.
    ///
    /// # Panics
    /// If the engine is not idle, or was not opened from devices.
    pub fn close(&mut self, storage: &mut dyn Storage) -> Result<(), DeviceError> {
        drive!(mut self, drive => drive.close(VolumeState::Clean, storage))
    }

    /// From now on hands out what a server that is opened after this one was killed has to know
    /// ([`Engine::take_records`]), so that everything that was answered survives the death of the process. To be called
    /// when the volume was opened, before the first request.
    pub fn keep_records(&mut self) {
        drive!(mut self, drive => drive.keep_records());
    }

    /// The label of the memory that records go to, but for the machine and the devices, which only the driver knows; `None`
    /// if nothing of the placement is in memory alone.
    ///
    /// # Panics
    /// If the volume was not opened from its devices.
    pub fn label_of_records(&self) -> Option<Label> {
        drive!(self, drive => drive.label_of_records())
    }

    /// Hands out what has changed since the last time. To be called after each call that pushes commands, and before any of
    /// these is carried out: the answers among them rest on it. Cheap when nothing has changed.
    #[inline]
    pub fn take_records(&mut self, take: impl FnMut(Record)) {
        drive!(hot self, drive => drive.take_records(take));
    }

    /// From now on keeps which extents' entries in the map change ([`Engine::take_changed_extents`]), for an observer. It changes
    /// nothing else; an engine that keeps records is not watched.
    pub fn watch_extents(&mut self) {
        drive!(mut self, drive => drive.watch_extents());
    }

    /// Hands out each extent whose entry in the map has changed since the last time: its number, whether it has a place that the map
    /// names (a cache: a copy on the fast device), and whether that is newer than its home.
    pub fn take_changed_extents(&mut self, take: impl FnMut(u32, bool, bool)) {
        drive!(mut self, drive => drive.take_changed_extents(take));
    }

    /// Stores the driver's notes, at most 3,584 bytes, which [`Opened`] returns.
    ///
    /// # Errors
    /// The text is too long, or a device has failed.
    pub fn store_notes(&mut self, notes: &str, storage: &mut dyn Storage) -> Result<(), FormatError> {
        drive!(mut self, drive => drive.store_notes(notes, storage))
    }

    /// The offset of the data on a device: the offset of a file system once the volume is detached.
    pub fn data_at(&self, device: DeviceId) -> Bytes {
        drive!(self, drive => drive.placed.data_at(device))
    }

    /// Inspects all metadata of the volume. `whole`: also lists the journal and the map. `without`: reports the volume
    /// as it would be without these devices.
    ///
    /// # Errors
    /// The configuration cannot work. Faults of the devices are part of the result.
    pub fn inspect(
        config: Config,
        storage: &mut dyn Storage,
        whole: bool,
        without: &[DeviceId],
    ) -> Result<Inspection, ConfigError> {
        lifecycle::inspect(config, storage, whole, without)
    }

    /// Opens a volume and closes it again, which repairs what a crash or a damaged copy left behind. `trust` says which
    /// device is right if another program has written to one.
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

    /// Writes all data to one device, which can then be used without Peryton: data that only the cache or the log has
    /// is written home. The volume cannot be opened after that.
    ///
    /// # Errors
    /// No device of this placement can have all data, data is lost or cannot be written home, or a device has failed.
    pub fn detach(config: Config, storage: &mut dyn Storage) -> Result<Detached, DetachError> {
        lifecycle::detach(config, storage, &mut |_| ())
    }

    /// The same; `left` is called with the number of extents (of a log: blocks) that are still to be written, again and
    /// again.
    ///
    /// # Errors
    /// Those of [`Engine::detach`].
    pub fn detach_watched(
        config: Config,
        storage: &mut dyn Storage,
        left: &mut dyn FnMut(u64),
    ) -> Result<Detached, DetachError> {
        lifecycle::detach(config, storage, left)
    }

    /// Takes a device back that was given up, with what it holds. What was written without it stays; what is lost without it
    /// is part of the volume again, if the device has everything that it had when it was given up. A crash meanwhile leaves
    /// the volume without it, and the device as it was.
    ///
    /// # Errors
    /// The others cannot be opened without it; it is not the one that was given up, or has not everything that it had.
    pub fn readmit(
        config: Config,
        storage: &mut dyn Storage,
        device: DeviceId,
    ) -> Result<lifecycle::Readmitted, ReadmitError> {
        lifecycle::readmit(config, storage, device)
    }

    /// Checks whether the device can be replaced: the others can be opened without it, and a loss that no metadata can
    /// name is accepted. Writes nothing.
    ///
    /// # Errors
    /// The others cannot be opened without it, or data would be lost that no metadata names.
    pub fn can_replace(
        config: &Config,
        storage: &mut dyn Storage,
        device: DeviceId,
        accept_loss: bool,
    ) -> Result<(), ReplaceError> {
        lifecycle::can_replace(config, storage, device, accept_loss)
    }

    /// Whether the replacement of this device must read as zeros where data goes, because no map says which of its data
    /// was written.
    pub fn replaces_with_zeros(config: &Config, device: DeviceId) -> bool {
        lifecycle::replaces_with_zeros(config, device)
    }

    /// Makes an empty device part of the volume, in place of a device that is gone, or that is given up with this call.
    /// [`Engine::replaces_with_zeros`] says whether it must read as zeros. `accept_loss`: allow a loss that no metadata
    /// can name. A crash meanwhile leaves the volume without the device.
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

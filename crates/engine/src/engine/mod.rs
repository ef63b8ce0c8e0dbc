//! The public interface of the engine. Each call goes to the drive of the placement, with static dispatch.

use std::ops::Range;

use peryton_format::handoff::{Label, Record};
use peryton_format::storage::Storage;
use peryton_format::superblock::VolumeState;
use peryton_policy::{AdaptiveView, ClimbView};
use peryton_units::{Bytes, Nanos};

use crate::{
    api::cleaning::CleaningReport,
    api::command::{Buffers, Commands, DeviceId, IoId, Request, RequestId},
    api::config::{Config, Placement, Tuning},
    api::error::{ConfigError, DeviceError, DriverError, FormatError, OpenError, TuningError},
    api::location::{Location, Source},
    api::opened::{Formatting, Opened},
    api::stats::Stats,
    api::verification::Verification,
    api::warmth::Warmth,
    lifecycle::{self, AnyDrive, with_drive},
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

/// Evaluates the same expression for every placement.
macro_rules! drive {
    ($engine:ident, $drive:ident => $body:expr) => {
        with_drive!(&$engine.drive, $drive => $body)
    };
    (mut $engine:ident, $drive:ident => $body:expr) => {
        with_drive!(&mut $engine.drive, $drive => $body)
    };
}

/// The same for a call that may ask for commands: a device that is being replaced may have a part in them.
macro_rules! mirrored {
    ($engine:ident, $drive:ident, $out:ident => $body:expr) => {
        drive!(mut $engine, $drive => {
            let from = $out.len();
            let done = $body;
            $drive.mirror_to_successor(from, $out);
            done
        })
    };
}

mod in_service;

impl Engine {
    /// Makes a new, empty drive on devices that read as zeros.
    ///
    /// # Errors
    /// The configuration cannot work. The error names the design key and the remedy.
    pub fn new(config: Config) -> Result<Engine, ConfigError> {
        Ok(Engine { drive: AnyDrive::new(config, None)? })
    }

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
        let (drive, opened) = lifecycle::open(config, storage, lifecycle::Opening::without(without))?;
        Ok((Engine { drive }, opened))
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
        if let Some(drive) = self.drive.cache() {
            drive.placed.prefetch_entry(offset, near);
        }
    }

    /// Submits a request of the host. Appends the commands to carry out to `out`.
    ///
    /// The driver chooses the id, and the engine does not interpret it. If the driver uses one id for two requests at a
    /// time, the engine's tables stay correct, but the driver cannot tell the replies apart.
    #[inline(always)]
    pub fn submit(&mut self, now: Nanos, id: RequestId, request: Request, out: &mut Commands) {
        drive!(mut self, drive => drive.submit(now, id, request, out));
    }

    /// Reports that the driver has carried out a command, or failed to.
    ///
    /// # Errors
    /// The command is not in flight: it has been completed before, or the engine never issued this id. The engine is
    /// unchanged and can continue, but the driver should report the error, because it may have completed the wrong one
    /// of two commands.
    #[inline(always)]
    pub fn complete(
        &mut self,
        now: Nanos,
        io: IoId,
        result: Result<(), DeviceError>,
        out: &mut Commands,
    ) -> Result<(), DriverError> {
        drive!(mut self, drive => drive.complete(now, io, result, out))
    }

    /// Compares what a read has brought with its checksums, if it is data that has to be verified. To be called before a read is
    /// reported as carried out ([`Engine::complete`]); what it returns goes to [`Engine::verified`] before that. Without it,
    /// data that has to be verified counts as what the device could not read. A driver that keeps no data need not call it.
    #[inline]
    pub fn verify(&self, io: IoId, buffers: &dyn Buffers) -> Option<Verification> {
        self.drive.log().and_then(|drive| drive.verify(io, buffers))
    }

    /// Takes the result of [`Engine::verify`].
    #[cold]
    pub fn verified(&mut self, result: Verification) {
        drive!(mut self, drive => drive.placed.verified(result));
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
            drive.mirror_to_successor(from, out);
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
        let drive = self.drive.cache_mut()?;
        drive.placed.asks_what_was_programmed(drive.io.advance(now))
    }

    /// Reports how many bytes a device has programmed so far, as the device counts them. Rules that extend a device's
    /// life (write regulation, MixedStore, section 5.4; caps of hill climbing; adaptive admission) then do not rely on
    /// the write amplification in the settings.
    pub fn programmed(&mut self, device: DeviceId, bytes: Bytes) {
        let Some(drive) = self.drive.cache_mut() else { return };
        let written = drive.io.stats.written_to(device);
        drive.placed.programmed(device, bytes, written);
    }

    /// Reports the share of a device's life that is used up, in parts per million, and how long it has been in use, both as the device
    /// says itself. Bounds on wear (write regulation, adaptive admission) then spend the rest of its life in the rest of its time, in
    /// place of a new device's.
    pub fn worn(&mut self, device: DeviceId, used_ppm: u32, age: Option<Nanos>) {
        let Some(drive) = self.drive.cache_mut() else { return };
        let written = drive.io.stats.written_to(device);
        drive.placed.worn(device, used_ppm, age, written);
    }

    /// Whether the engine wants to know the energy that all devices have drawn ([`Engine::drew`]), if a driver can
    /// measure it. Call it after a tick. Caps on power use it.
    pub fn asks_what_was_drawn(&self) -> bool {
        self.drive.cache().is_some_and(|drive| drive.placed.asks_what_was_drawn())
    }

    /// Reports the energy that all devices together have drawn since any fixed time, in microjoules. A value below the
    /// last one means that the time has changed.
    pub fn drew(&mut self, microjoules: u64) {
        if let Some(drive) = self.drive.cache_mut() {
            drive.placed.drew(microjoules);
        }
    }

    /// The state of hill climbing; `None` if it is off.
    pub fn climbing(&self) -> Option<ClimbView> {
        self.drive.cache().and_then(|drive| drive.placed.climbing(&drive.io.tuning))
    }

    /// How the cache keeps what it has learnt; `None` if the placement learns nothing that could be kept.
    pub fn warmth(&self) -> Option<Warmth> {
        drive!(self, drive => drive.placed.warmth())
    }

    /// Says from where on the host has never written anything, which closing the volume records ([`Opened::written_to`](crate::Opened)).
    pub fn tell_written_to(&mut self, to: Bytes) {
        drive!(mut self, drive => drive.written_to = Some(to));
    }

    /// Says what the time is, in seconds since 1970, for the date of snapshots of what the cache has learnt.
    pub fn tell_time(&mut self, now: Nanos, unix_s: u64) {
        let Some(drive) = self.drive.cache_mut() else { return };
        drive.io.advance(now);
        drive.placed.tell_time(&drive.io, unix_s);
    }

    /// The state of the adaptive admission threshold; `None` if the threshold is fixed or there is no admission rule.
    pub fn adaptive_admission(&self) -> Option<AdaptiveView> {
        self.drive.cache().and_then(|drive| drive.placed.adaptive_admission())
    }

    /// Changes the tuning while the drive runs: every setting that the format does not fix.
    ///
    /// # Errors
    /// A setting cannot work. The tuning is unchanged.
    pub fn retune(&mut self, now: Nanos, tuning: Tuning, out: &mut Commands) -> Result<(), TuningError> {
        mirrored!(self, drive, out => drive.retune(now, tuning, out))
    }

    /// How data are placed.
    pub fn placement(&self) -> Placement {
        drive!(self, drive => drive.placement.clone())
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
    /// extent, those on the fast device evenly over the volume. Other placements are unchanged.
    pub fn prefill_map(&mut self) {
        if let Some(drive) = self.drive.cache_mut() {
            drive.placed.prefill_map(&drive.io.tuning);
        }
    }

    /// Number of extents in the cache that are newer than their origins (caching, write-back).
    pub fn dirty_extents(&self) -> u32 {
        self.drive.cache().map_or(0, |drive| drive.placed.dirty_extents())
    }

    /// The buffers for neighbours that are written back together ([`Buffer::Run`](crate::Buffer::Run)) that a driver must
    /// have: their number and the length of each. Neither changes.
    pub fn run_buffers(&self) -> (u32, Bytes) {
        self.drive.cache().map_or((0, Bytes::ZERO), |drive| drive.placed.run_buffers())
    }

    /// What is dirty in a cache, for how long, and until when; `None` if the placement has no origins for data.
    pub fn cleaning(&self, now: Nanos) -> Option<CleaningReport> {
        drive!(self, drive => drive.placed.cleaning(&drive.io, drive.io.at(now)))
    }

    /// Bytes whose only valid copy is on the fast device (caching, partitioned; whole extents) or in the log (data that has not
    /// migrated).
    pub fn dirty_bytes(&self) -> Bytes {
        drive!(self, drive => drive.placed.dirty_bytes())
    }

    /// Writes back all data that only the fast device has, without delay; a log migrates to the primary. Call it again
    /// as completions come, until [`Engine::dirty_extents`] is zero. What the host writes meanwhile counts as well.
    pub fn write_all_back(&mut self, now: Nanos, out: &mut Commands) {
        mirrored!(self, drive, out => drive.write_all_back(now, out));
    }

    /// The place of the volume's byte at `offset`, and for how many bytes it applies; `None` past the end.
    pub fn location(&self, offset: Bytes) -> Option<Location> {
        drive!(self, drive => drive.location(offset))
    }

    /// From where the volume's bytes at `offset` can be read, and for how many bytes that applies; `None` past the end. It holds for an
    /// engine that has taken no request since it was opened.
    pub fn source(&self, offset: Bytes) -> Option<Source> {
        drive!(self, drive => drive.source(offset))
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
    pub fn host_dropped(&mut self, now: Nanos, range: Range<Bytes>, out: &mut Commands) {
        let AnyDrive::Log(drive) = &mut self.drive else { return };
        let from = out.len();
        drive.io.advance(now);
        drive.placed.host_dropped(&mut drive.io.call(out), range);
        drive.mirror_to_successor(from, out);
    }

    /// Closes a volume with nothing in flight, so that the next opening needs no recovery.
    ///
    /// # Errors
    /// A device has failed, now or when it was flushed last ([`Engine::is_in_doubt`]). Opening the volume recovers it.
    ///
    /// # Panics
    /// If the engine is not idle, or was not opened from devices.
    pub fn close(&mut self, storage: &mut dyn Storage) -> Result<(), DeviceError> {
        drive!(mut self, drive => drive.close(VolumeState::Clean, storage)).map_err(|_| DeviceError)
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
        drive!(mut self, drive => drive.take_records(take));
    }

    /// From now on keeps which extents' entries in the map change ([`Engine::take_changed_extents`]), for an observer. It changes
    /// nothing else; an engine that keeps records is not watched.
    pub fn watch_extents(&mut self) {
        if let Some(drive) = self.drive.cache_mut() {
            drive.placed.watch_extents();
        }
    }

    /// Hands out each extent whose entry in the map has changed since the last time: its number, whether it has a place that the map
    /// names (a cache: a copy on the fast device), and whether that is newer than its origin.
    pub fn take_changed_extents(&mut self, mut take: impl FnMut(u32, bool, bool)) {
        if let Some(drive) = self.drive.cache_mut() {
            drive
                .placed
                .take_changed_extents(&mut |extent, entry| take(extent, entry.place().is_some(), entry.is_dirty()));
        }
    }

    /// Stores the driver's notes, at most 3,584 bytes, which [`Opened`](crate::Opened) returns.
    ///
    /// # Errors
    /// The text is too long, or a device has failed.
    pub fn store_notes(&mut self, notes: &str, storage: &mut dyn Storage) -> Result<(), FormatError> {
        drive!(mut self, drive => drive.store_notes(notes, storage))
    }

    /// The offset of the data on a device: the offset of a file system once the volume is detached.
    pub fn data_at(&self, device: DeviceId) -> Bytes {
        drive!(self, drive => drive.data_at[device.index()])
    }
}

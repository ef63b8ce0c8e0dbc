//! The hybrid drive as a pure state machine: no I/O, no clock, no threads.
//!
//! A driver passes host requests ([`Engine::submit`]), completions ([`Engine::complete`]) and the time
//! ([`Engine::tick`]) to an [`Engine`], and carries out the [`Command`]s that it returns. The engine does not know
//! whether a completion comes from a device model or from a device: the simulator and the served drive run the same code.
//!
//! # The driver's contract
//!
//! *Calls.* The driver makes one call at a time, with the time and a list that the engine appends commands to. It takes
//! commands from the list in their order. It may call the engine again before the list is empty, if it carries out the
//! new commands after the old ones.
//!
//! *Order.* [`Command::Copy`], [`Command::Clear`] and [`Command::Encode`] are carried out when they are taken from the
//! list, because later commands name the same buffers. The same applies to encoding a write from [`Buffer::Metadata`]
//! ([`Engine::encode_with`]): metadata describes the present state, and is encoded once. Reads, writes, flushes,
//! discards and zeroings may be carried out in any order and all at the same time: if one must wait for another, the
//! engine issues it only after the other has completed. [`Command::Power`] takes effect immediately and is not
//! reported.
//!
//! *Verification.* Before it reports a read as carried out, a driver that keeps data calls [`Engine::verify`], and passes
//! what that returns to [`Engine::verified`]: a log has checksums of what it held when it was opened.
//!
//! *Buffers.* A request's buffer must stay from [`Engine::submit`] until its [`Command::Reply`], and its content must
//! not change while it is being written. The driver owns [`Engine::move_buffers`] buffers of
//! [`Engine::move_buffer_bytes`], and asks for their number again after each [`Engine::retune`]. It also owns the
//! [`Engine::run_buffers`], whose number does not change. A buffer for metadata is needed from the command to its completion.
//!
//! *Ids.* The driver chooses a [`RequestId`], and may reuse it after its reply. The engine does not interpret it; if
//! one id is used for two requests at a time, both are answered and the driver cannot tell the replies apart. The
//! engine chooses an [`IoId`], which names one command and is never reused; its [index](IoId::index) is small, names
//! one command at a time, and is reused after the command has been completed. Each command with an `io` is completed
//! exactly once: a second completion, or one of an id that the engine never issued, is refused with a [`DriverError`]
//! and changes nothing.
//!
//! *Time* never goes back. The engine treats an earlier time than the latest as the latest: nothing breaks, but no
//! timer fires before the clock has caught up. [`Engine::tick`] must be called at [`Engine::deadline`], and may be
//! called at any other time.
//!
//! *Completions.* `Ok` for a read: the buffer holds the data. For a write, a discard or a zeroing: every later read
//! sees it, and it is durable after the next flush that *began* after this completion was reported. For a flush:
//! everything that was reported before the flush was issued is durable. `Err` means that the content of the range is
//! unknown: a failed write may have reached the device in part, or not at all. **A failed flush has made nothing
//! durable, and what it should have covered may be lost.** The driver reports it as failed and must not repeat it,
//! because on many systems the second flush succeeds without the data. The engine then fails the host's flushes, or
//! writes again the data that it still has, and fences a device that keeps failing. The flush may also have lost writes
//! that the device had carried out and not completed yet: when such a write completes, the engine issues it again.
//! Several flushes of a device may be in flight. The success of one is reported after the results of those that were
//! issued before it. The system may report a loss to only one of them. If one fails, the driver therefore reports those of
//! the device that are in flight as failed too (`peryton-drive` does so in `disks/flushes.rs`).
//!
//! *Records.* A driver whose memory outlives its process calls [`Engine::keep_records`] once. From then on, after each call that
//! appends commands and before it carries out any of them, it calls [`Engine::take_records`] and stores what that hands out. Replies rest
//! on it: without the records a kill of the process loses writes that were acknowledged and not flushed.
//!
//! *Zeroing, discards and replacements.* [`Command::Zero`] has to make the range read as zeros; [`Command::Discard`] is a hint, after which
//! the range may read as anything that it held. [`Command::Succeed`] exchanges a device and its replacement
//! from this command on.
//!
//! *Devices.* The driver reports a device that has been removed with [`Engine::device_failed`]; commands in flight on
//! it must still be completed. Data does not move by itself from one [`DeviceId`] to another, and reads as zeros at
//! first unless the volume was [formatted](Engine::format) and [opened](Engine::open).
//!
//! # Example
//!
//! A cache of 1 MiB before 8 MiB, against two arrays in memory:
//!
//! ```
//! use std::collections::HashMap;
//!
//! use peryton_engine::{
//!     Buffer, Buffers, Command, Commands, Config, DeviceError, DeviceId, Engine, Formatting, Hybrid, Placement, Request,
//!     RequestId, Storage, Tuning,
//! };
//! use peryton_units::{Bytes, Nanos, Op};
//!
//! /// The devices: two arrays.
//! struct Arrays([Vec<u8>; 2]);
//!
//! impl Storage for Arrays {
//!     fn size(&self, device: DeviceId) -> Option<Bytes> {
//!         Some(Bytes(self.0[device.index()].len() as u64))
//!     }
//!     fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
//!         into.copy_from_slice(&self.0[device.index()][at.0 as usize..][..into.len()]);
//!         Ok(())
//!     }
//!     fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
//!         self.0[device.index()][at.0 as usize..][..from.len()].copy_from_slice(from);
//!         Ok(())
//!     }
//!     fn flush(&mut self, _: DeviceId) -> Result<(), DeviceError> {
//!         Ok(())
//!     }
//! }
//!
//! /// The buffers that commands name: those of requests by their ids, those of moves and of runs by their indexes.
//! #[derive(Default)]
//! struct Memory(HashMap<(char, u64), Vec<u8>>);
//!
//! impl Memory {
//!     fn part(&mut self, buffer: Buffer, len: Bytes) -> &mut [u8] {
//!         let (key, offset) = match buffer {
//!             Buffer::Request { id, offset } => (('r', id.0), offset.0 as usize),
//!             Buffer::Move { index, offset } => (('m', index.into()), offset.0 as usize),
//!             Buffer::Run { index, offset } => (('n', index.into()), offset.0 as usize),
//!             Buffer::Copy { offset } => (('c', 0), offset.0 as usize),
//!             Buffer::Metadata => unreachable!("metadata is encoded"),
//!         };
//!         let bytes = self.0.entry(key).or_default();
//!         bytes.resize(bytes.len().max(offset + len.0 as usize), 0);
//!         &mut bytes[offset..offset + len.0 as usize]
//!     }
//! }
//!
//! impl Buffers for Memory {
//!     fn bytes(&self, _: Buffer, _: Bytes) -> &[u8] {
//!         unreachable!("only a log has checksums of data")
//!     }
//! }
//!
//! /// Carries out everything, and what follows from it, until nothing is left to do.
//! fn carry_out(engine: &mut Engine, arrays: &mut Arrays, memory: &mut Memory, now: Nanos, mut out: Commands) {
//!     let mut next = 0;
//!     while let Some(command) = out.get(next).copied() {
//!         next += 1;
//!         let (io, result) = match command {
//!             Command::Read { io, device, at, len, buffer, .. } => (io, arrays.read(device, at, memory.part(buffer, len))),
//!             Command::Write { io, device, at, len, buffer: Buffer::Metadata, .. } => {
//!                 let mut bytes = vec![0; len.0 as usize];
//!                 engine.encode_with(io, &mut bytes, memory).expect("it is in flight");
//!                 (io, arrays.write(device, at, &bytes))
//!             }
//!             Command::Write { io, device, at, len, buffer, .. } => (io, arrays.write(device, at, memory.part(buffer, len))),
//!             Command::Zero { io, device, at, len } => (io, arrays.write(device, at, &vec![0; len.0 as usize])),
//!             Command::Discard { io, .. } => (io, Ok(())),
//!             Command::Flush { io, device } => (io, arrays.flush(device)),
//!             Command::Copy { from, to, len } => {
//!                 let bytes = memory.part(from, len).to_vec();
//!                 memory.part(to, len).copy_from_slice(&bytes);
//!                 continue;
//!             }
//!             Command::Clear { buffer, len } => {
//!                 memory.part(buffer, len).fill(0);
//!                 continue;
//!             }
//!             Command::Reply { result, .. } => {
//!                 result.expect("arrays do not fail");
//!                 continue;
//!             }
//!             Command::Encode { .. } | Command::Power { .. } => continue,
//!             Command::Succeed { .. } => unreachable!("no device is replaced"),
//!         };
//!         if let Some(verified) = engine.verify(io, memory) {
//!             engine.verified(verified);
//!         }
//!         engine.complete(now, io, result, &mut out).expect("each command is completed once");
//!     }
//! }
//!
//! let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: Bytes::kib(64) };
//! let tuning = Tuning { promotion_threshold: 0, demotion_low: 0, demotion_high: 0, ..Tuning::default() };
//! let config = Config { devices: vec![Bytes::mib(1), Bytes::mib(8)], placement: Placement::Caching(pair), tuning };
//! // Metadata comes on top of the data.
//! let sizes = config.sizes()?.devices;
//! let mut arrays = Arrays([vec![0; sizes[0].0 as usize], vec![0; sizes[1].0 as usize]]);
//! Engine::format(&config, Formatting { zeroed: true, ..Formatting::default() }, &mut arrays)?;
//! let (mut engine, _) = Engine::open(config.clone(), &mut arrays)?;
//!
//! let mut memory = Memory::default();
//! let (write, flush, read) = (RequestId(1), RequestId(2), RequestId(3));
//! let (offset, len) = (Bytes::kib(100), Bytes(5));
//! memory.part(Buffer::Request { id: write, offset: Bytes::ZERO }, len).copy_from_slice(b"hello");
//! for (id, op) in [(write, Op::Write), (flush, Op::Flush), (read, Op::Read)] {
//!     let (now, mut out) = (Nanos::from_ms(id.0), Commands::new());
//!     engine.submit(now, id, Request { op, offset, len }, &mut out);
//!     carry_out(&mut engine, &mut arrays, &mut memory, now, out);
//! }
//! assert_eq!(memory.part(Buffer::Request { id: read, offset: Bytes::ZERO }, len), b"hello");
//! assert_eq!(engine.location(offset).and_then(|at| at.device), Some(DeviceId(0)), "it is in the cache");
//! // The engine is dropped without being closed, as in a crash: the flush has made the write durable.
//! let (engine, opened) = Engine::open(config, &mut arrays)?;
//! assert!(!opened.clean && engine.location(offset).is_some_and(|at| at.dirty), "still in the cache, and newer than its origin");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod api;
mod cache;
mod engine;
mod io;
mod journal;
mod lifecycle;
mod linear;
mod log;
mod placement;

pub use api::{
    cleaning::{Cleaning, CleaningReport, CleaningState},
    command::{Buffer, Buffers, Cause, Command, Commands, DeviceId, IoId, Power, Request, RequestId},
    config::{
        Bypass, Config, Hybrid, Journal, LARGEST_MIGRATED_UNIT, MOST_EXTENTS, MOST_MOVES, Placement, PlacementKind,
        Tuning, WRITE_UNITS, WritePolicy,
    },
    endurance,
    error::{
        ConfigError, DetachError, DeviceError, DriverError, FormatError, OpenError, ReadmitError, ReplaceError,
        RequestError, TuningError,
    },
    evacuation::EvacuationError,
    excuses::{Excuse, Excuses},
    location::{BlocksRow, Location, Losses, MapOf, MapPart, MapRow, Origin, Source},
    logging::{LogCaching, LogPart, Logging, LoggingTuning, MOST_GATHERED, MOST_PRIMARIES, Primaries, Triggers},
    opened::{Formatting, Opened, Trust},
    resizing::{Resize, ResizeEnd, ResizeError, ResizePlan, ResizeStage},
    stats::{Bypasses, Cancelled, DeviceTraffic, LoggingStats, Migrations, Moves, PastLog, Stats},
    succession::{Succession, SuccessionEnd, SuccessionError, SuccessionPlan, SuccessionStage},
    verification::Verification,
    warmth::{SnapshotTaken, WarmStart, Warmth},
};
pub use engine::Engine;
pub use lifecycle::{
    CheckpointReport, CommitReport, Detached, DeviceReport, DisplacedReport, Forgone, Inspection, Lost, Metadata,
    Overlay, Readmitted, Sizes, SnapshotReport, SuperblockReport, Without,
};
pub use lifecycle::{adoption, closed};
pub use log::{AppendReport, IndexReport, LogRecord, LogReport, SegmentReport, WriteReport};
pub use peryton_format::handoff;
#[cfg(feature = "mutants")]
pub use peryton_format::mutation;
pub use peryton_format::{
    displaced::Displaced,
    storage::{METADATA_BLOCK, Storage},
    superblock::{GivenUp, VolumeId},
    translated::Translated,
};
pub use peryton_policy::{
    AccessEnergy, Adaptive, AdaptiveView, Admission, AdmitBy, BareCache, Climb, ClimbView, Objective, Partition,
    PartitionStats, Predict, Regulation, Replacement, Threshold, WearBudget, WriteHits, admission::Unit,
};

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

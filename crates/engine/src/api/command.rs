//! The input and output of the engine: the host's requests, and the commands that a driver carries out.

pub use peryton_format::storage::DeviceId;
use peryton_units::{Bytes, Op};

use crate::api::error::RequestError;

/// The driver's id of a host request in flight. The engine returns it in [`Command::Reply`] and in [`Buffer::Request`],
/// and does not interpret it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// The engine's id of a command in flight. It is unique (until one row of the engine's table has been used two thousand
/// million times), so that the engine can refuse a second completion.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
// One word: a processor that reads eight bytes just after they were written as two halves waits for both.
pub struct IoId(u64);

impl IoId {
    /// Makes an id that no engine issued, for tests of drivers and for operations of their own: the `nth` of its index,
    /// counted from zero. An engine refuses it unless it has issued the same one.
    pub fn new(index: u32, nth: u32) -> IoId {
        IoId::of(index, nth << 1 | 1)
    }

    /// `generation`: odd for every id that an engine issues.
    #[inline(always)]
    pub(crate) fn of(index: u32, generation: u32) -> IoId {
        IoId(u64::from(generation) << 32 | u64::from(index))
    }

    /// An index for the driver's tables with a row per command in flight: small, and reused once the command has been
    /// completed. [`Engine::id_at`](crate::Engine::id_at) returns the id that belongs to it.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as u32 as usize
    }

    #[inline(always)]
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl std::fmt::Debug for IoId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IoId({}#{})", self.index(), self.generation() >> 1)
    }
}

/// A request of the host.
///
/// ```
/// use peryton_engine::{Command, Config, DeviceId, Engine, Placement, Request, RequestError, RequestId, Tuning};
/// use peryton_units::{Bytes, Nanos, Op};
///
/// let placement = Placement::Single { device: DeviceId(0) };
/// let mut engine = Engine::new(Config { devices: vec![Bytes::mib(1)], placement, tuning: Tuning::default() })?;
/// let mut out = Vec::new();
/// // Any offset and length are allowed, up to the end of the volume.
/// let inside = Request { op: Op::Write, offset: Bytes(1000), len: Bytes(3) };
/// let past_the_end = Request { op: Op::Read, offset: Bytes::mib(1) - Bytes(1), len: Bytes(2) };
/// engine.submit(Nanos::ZERO, RequestId(1), inside, &mut out);
/// engine.submit(Nanos::ZERO, RequestId(2), past_the_end, &mut out);
/// assert!(matches!(out[0], Command::Write { len: Bytes(3), .. }));
/// assert_eq!(out[1], Command::Reply { id: RequestId(2), result: Err(RequestError::OutOfRange) });
/// # Ok::<(), peryton_engine::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The operation.
    pub op: Op,
    /// Offset on the volume in bytes; ignored for a flush.
    pub offset: Bytes,
    /// Length in bytes, of any size and alignment. A request of length zero is answered immediately.
    pub len: Bytes,
}

/// The name of a buffer. Data never passes through the engine: it names buffers, and the driver keeps their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// The buffer of a host request, `offset` bytes from its start. The driver keeps it until the reply.
    Request {
        /// The request.
        id: RequestId,
        /// Bytes from the start of its buffer.
        offset: Bytes,
    },
    /// A move buffer. Each is [`Engine::move_buffer_bytes`](crate::Engine::move_buffer_bytes) long, and `index` is
    /// below [`Engine::move_buffers`](crate::Engine::move_buffers).
    Move {
        /// The index of the move buffer.
        index: u32,
        /// Bytes from the start of the buffer.
        offset: Bytes,
    },
    /// A buffer for neighbours that are written back together. Each is as long as
    /// [`Engine::run_buffers`](crate::Engine::run_buffers) says, and `index` is below their number.
    Run {
        /// The index of the buffer.
        index: u32,
        /// Bytes from the start of the buffer.
        offset: Bytes,
    },
    /// The buffer through which a device is copied that is being replaced ([`Engine::replace_in_service`](crate::Engine::replace_in_service)).
    /// It is as long as [`Engine::copy_buffer_bytes`](crate::Engine::copy_buffer_bytes) says.
    Copy {
        /// Bytes from the start of the buffer.
        offset: Bytes,
    },
    /// The metadata of this command, which the driver lets the engine encode.
    Metadata,
}

impl Buffer {
    /// The place this many bytes further on in the same buffer.
    pub(crate) fn plus(self, bytes: Bytes) -> Buffer {
        match self {
            Buffer::Request { id, offset } => Buffer::Request { id, offset: offset + bytes },
            Buffer::Move { index, offset } => Buffer::Move { index, offset: offset + bytes },
            Buffer::Run { index, offset } => Buffer::Run { index, offset: offset + bytes },
            Buffer::Copy { offset } => Buffer::Copy { offset: offset + bytes },
            Buffer::Metadata => Buffer::Metadata,
        }
    }
}

/// The driver's buffers, for metadata that has checksums of the data that it describes.
pub trait Buffers {
    /// Returns the `len` bytes from the place that `buffer` names.
    fn bytes(&self, buffer: Buffer, len: Bytes) -> &[u8];
}

/// The purpose of a device access; the statistics count each purpose separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Cause {
    /// A host request.
    Host = 0,
    /// A promotion (tiering) or prefetch (caching).
    Promotion = 1,
    /// A demotion (tiering) or dirty eviction (caching).
    Demotion = 2,
    /// A dirty extent of the cache copied to its origin while it stays cached.
    WriteBack = 3,
    /// Journal and checkpoints; headers, indexes and commits of a log.
    Metadata = 4,
}

/// The power states that the engine requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Power {
    /// Spin down, or the lowest-power idle state. The device wakes by itself when a command reaches it.
    Standby,
}

/// What the driver must do. Commands with an `io` may be carried out in any order and are reported with
/// [`Engine::complete`](crate::Engine::complete); the others take effect immediately, in the given order.
///
/// ```
/// use peryton_engine::{Command, Config, DeviceId, Engine, Hybrid, Placement, Request, RequestId, Tuning};
/// use peryton_units::{Bytes, Nanos, Op};
///
/// let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: Bytes::kib(64) };
/// let tuning = Tuning { promotion_threshold: 0, demotion_low: 0, demotion_high: 0, ..Tuning::default() };
/// let devices = vec![Bytes::mib(1), Bytes::mib(8)];
/// let mut engine = Engine::new(Config { devices, placement: Placement::Caching(pair), tuning })?;
/// let mut out = Vec::new();
/// let read = Request { op: Op::Read, offset: Bytes::ZERO, len: Bytes::kib(4) };
/// engine.submit(Nanos::ZERO, RequestId(1), read, &mut out);
/// // The first read of an extent misses the cache. The reply comes before the copy is written.
/// let (mut seen, mut next) = (Vec::new(), 0);
/// while let Some(command) = out.get(next).copied() {
///     next += 1;
///     let io = match command {
///         Command::Read { io, device, len, .. } => {
///             seen.push(format!("read {len} of device {}", device.0));
///             io
///         }
///         Command::Write { io, device, len, .. } => {
///             seen.push(format!("write {len} to device {}", device.0));
///             io
///         }
///         Command::Flush { io, .. } | Command::Discard { io, .. } | Command::Zero { io, .. } => io,
///         Command::Reply { .. } => {
///             seen.push("reply".to_owned());
///             continue;
///         }
///         Command::Copy { .. } | Command::Clear { .. } | Command::Encode { .. } | Command::Power { .. } | Command::Succeed { .. } => continue,
///     };
///     engine.complete(Nanos::from_ms(1), io, Ok(()), &mut out)?;
/// }
/// assert_eq!(seen[..3], ["read 4KiB of device 1", "reply", "write 4KiB to device 0"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// In reads and writes `at` and `len` are not adjacent: a driver that reads both with one load, just after they were written
// with two stores, waits for all stores before.
pub enum Command {
    /// Read from a device into a buffer.
    Read {
        /// Offset on the device.
        at: Bytes,
        /// Id of the command.
        io: IoId,
        /// Length.
        len: Bytes,
        /// The device.
        device: DeviceId,
        /// Destination of the data.
        buffer: Buffer,
        /// The purpose.
        cause: Cause,
    },
    /// Write to a device from a buffer.
    Write {
        /// Offset on the device.
        at: Bytes,
        /// Id of the command.
        io: IoId,
        /// Length.
        len: Bytes,
        /// The device.
        device: DeviceId,
        /// Source of the data.
        buffer: Buffer,
        /// The purpose.
        cause: Cause,
    },
    /// Encode metadata into the start of a buffer that is written next, immediately, with
    /// [`Engine::encode_with`](crate::Engine::encode_with). A driver that keeps no data ignores the command.
    Encode {
        /// Id of the write that follows.
        io: IoId,
        /// The buffer.
        into: Buffer,
        /// Length in bytes.
        len: Bytes,
    },
    /// Make everything durable that the device completed before.
    Flush {
        /// Id of the command.
        io: IoId,
        /// The device.
        device: DeviceId,
    },
    /// Discard a range that is no longer needed. It may then read as any data that it ever held, or as zeros.
    Discard {
        /// Id of the command.
        io: IoId,
        /// The device.
        device: DeviceId,
        /// Offset on the device.
        at: Bytes,
        /// Length.
        len: Bytes,
    },
    /// Make a range read as zeros from now on.
    Zero {
        /// Id of the command.
        io: IoId,
        /// The device.
        device: DeviceId,
        /// Offset on the device.
        at: Bytes,
        /// Length.
        len: Bytes,
    },
    /// Copy between two buffers, immediately.
    Copy {
        /// Source.
        from: Buffer,
        /// Destination.
        to: Buffer,
        /// Length.
        len: Bytes,
    },
    /// Fill a buffer with zeros, immediately.
    Clear {
        /// The buffer.
        buffer: Buffer,
        /// Length.
        len: Bytes,
    },
    /// Exchange two devices, immediately: from this command on, what is for `device` goes to what was `successor`, and the reverse.
    /// Flushes that are in flight may end on either.
    Succeed {
        /// The device.
        device: DeviceId,
        /// The number behind the last device of the volume, under which its successor was filled.
        successor: DeviceId,
    },
    /// Change a device's power state. Its completion is not reported.
    Power {
        /// The device.
        device: DeviceId,
        /// The state.
        state: Power,
    },
    /// The answer to a host request. Its buffer and its id belong to the driver again.
    Reply {
        /// The request.
        id: RequestId,
        /// The result of the request.
        result: Result<(), RequestError>,
    },
}

/// A list of commands. The engine appends to it; the driver removes commands and keeps the allocation.
pub type Commands = Vec<Command>;

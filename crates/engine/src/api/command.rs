//! What goes in and out of the engine: the host's requests, and the commands that a driver carries out.

pub use peryton_format::storage::DeviceId;
use peryton_units::{Bytes, Op};

use crate::api::error::RequestError;

/// The driver's name for a host request in flight. The engine gives it back in [`Command::Reply`] and in
/// [`Buffer::Request`]; it never looks inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// The engine's name for a command in flight. No other command has it, before or after (until one row of the engine's
/// table has been used two thousand million times), so that the engine can refuse a completion that comes twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IoId {
    pub(crate) index: u32,
    /// Odd.
    pub(crate) generation: u32,
}

impl IoId {
    /// An id that no engine gave out, for tests of drivers and for operations of their own: the nth of its index, counted
    /// from zero. An engine refuses it unless it has given the same one.
    pub fn new(index: u32, nth: u32) -> IoId {
        IoId { index, generation: nth << 1 | 1 }
    }

    /// For tables of the driver with a row per command in flight: small, and free for reuse once the command has been
    /// completed. [`Engine::id_at`](crate::Engine::id_at) leads back.
    #[inline]
    pub fn index(self) -> usize {
        self.index as usize
    }
}

impl std::fmt::Debug for IoId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IoId({}#{})", self.index, self.generation >> 1)
    }
}

/// A request from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub op: Op,
    /// Where on the volume; ignored for a flush.
    pub offset: Bytes,
    /// How much; any size, any alignment. Zero is answered at once.
    pub len: Bytes,
}

/// Data never passes through the engine: a buffer is named, and the driver keeps the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// The buffer of a host request, `offset` bytes from its start. The driver keeps it until the reply.
    Request {
        /// The request.
        id: RequestId,
        /// Bytes from the start of its buffer.
        offset: Bytes,
    },
    /// The buffer of a move: one extent long, and one for each value of `index` that the engine uses. The engine
    /// bounds `index` by [`Engine::move_buffers`](crate::Engine::move_buffers).
    Move {
        /// Which.
        index: u32,
        /// Bytes from the start of the buffer.
        offset: Bytes,
    },
    /// Metadata that the engine encoded.
    Metadata,
}

/// The driver's buffers, where metadata has checksums of the data that it is about.
pub trait Buffers {
    /// The `len` bytes from where the buffer's name points.
    fn bytes(&self, buffer: Buffer, len: Bytes) -> &[u8];
}

/// Why a device is asked to read or write: the columns of the stats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Cause {
    /// A host request.
    Host = 0,
    /// A promotion (tiering) or prefetch (caching).
    Promotion = 1,
    /// A demotion (tiering) or dirty eviction (caching).
    Demotion = 2,
    /// A dirty extent of the cache copied to its home while it stays cached.
    WriteBack = 3,
    /// Journal and checkpoints.
    Metadata = 4,
}

/// The power states that the engine asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Power {
    /// Spin down, or the lowest-power idle state. The device wakes by itself when a command reaches it.
    Standby,
}

/// What the driver has to do. Commands with an `io` are carried out in any order and reported with
/// [`Engine::complete`](crate::Engine::complete); the others take effect at once, in the order given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read from a device into a buffer.
    Read {
        /// Names the command.
        io: IoId,
        /// The device.
        device: DeviceId,
        /// Offset on the device.
        at: Bytes,
        /// Length.
        len: Bytes,
        /// Where the data goes.
        buffer: Buffer,
        /// Why.
        cause: Cause,
    },
    /// Write to a device from a buffer.
    Write {
        /// Names the command.
        io: IoId,
        /// The device.
        device: DeviceId,
        /// Offset on the device.
        at: Bytes,
        /// Length.
        len: Bytes,
        /// Where the data comes from.
        buffer: Buffer,
        /// Why.
        cause: Cause,
    },
    /// Encode metadata into the start of a buffer that is written next, now: with
    /// [`Engine::encode_with`](crate::Engine::encode_with). A driver without data does nothing.
    Encode {
        /// Names the write that follows.
        io: IoId,
        /// Where it goes.
        into: Buffer,
        /// Length.
        len: Bytes,
    },
    /// Make everything that the device completed before durable.
    Flush {
        /// Names the command.
        io: IoId,
        /// The device.
        device: DeviceId,
    },
    /// The range is no longer needed; it may read as anything that it ever held, or as zeros.
    Discard {
        /// Names the command.
        io: IoId,
        /// The device.
        device: DeviceId,
        /// Offset on the device.
        at: Bytes,
        /// Length.
        len: Bytes,
    },
    /// The range must read as zeros from now on.
    Zero {
        /// Names the command.
        io: IoId,
        /// The device.
        device: DeviceId,
        /// Offset on the device.
        at: Bytes,
        /// Length.
        len: Bytes,
    },
    /// Copy between two buffers, now.
    Copy {
        /// Source.
        from: Buffer,
        /// Destination.
        to: Buffer,
        /// Length.
        len: Bytes,
    },
    /// Fill a buffer with zeros, now.
    Clear {
        /// The buffer.
        buffer: Buffer,
        /// Length.
        len: Bytes,
    },
    /// Change a device's power state. Not reported back.
    Power {
        /// The device.
        device: DeviceId,
        /// The state.
        state: Power,
    },
    /// The answer to a host request. Its buffer and its name are the driver's again.
    Reply {
        /// The request.
        id: RequestId,
        /// How it went.
        result: Result<(), RequestError>,
    },
}

/// Where the engine puts its commands. The driver takes them out and keeps the allocation.
pub type Commands = Vec<Command>;

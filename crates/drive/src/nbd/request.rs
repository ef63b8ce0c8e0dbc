//! What a client may ask for once the handshake is over, and what it may be told.

use peryton_units::Bytes;
use thiserror::Error;

/// The client's name for a request; it comes back in the reply and is never looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cookie(pub u64);

/// A request that is in order: known, within the export, aligned, allowed. Answer it once, in any order, with one of
/// the `reply_` methods of the connection that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's name for it.
    pub cookie: Cookie,
    /// What is asked.
    pub command: Command,
    /// Where; zero for a flush.
    pub offset: Bytes,
    /// How much; zero for a flush, never zero for anything else.
    pub length: Bytes,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read `length` bytes.
    Read {
        /// In one piece: at most one data chunk, and no hole.
        unfragmented: bool,
    },
    /// Write the `length` bytes that follow in the stream.
    Write {
        /// Answer when it is durable.
        fua: bool,
    },
    /// Make durable whatever was answered before on any connection.
    Flush,
    /// The range is no longer needed.
    Trim {
        /// Answer when it is durable.
        fua: bool,
    },
    /// Make the range read as zeros.
    WriteZeroes {
        /// Answer when it is durable.
        fua: bool,
        /// Keep room for it, so that a later write cannot fail for want of space.
        no_hole: bool,
        /// Refuse at once with [`Errno::NotSupported`], and change nothing, unless it is faster than writing zeros.
        fast: bool,
    },
    /// The range will be needed soon.
    Cache,
    /// Which parts of the range are allocated, and where: [`Connection::reply_status`](super::Connection::reply_status).
    Status {
        /// The first run only.
        one: bool,
    },
}

impl Request {
    /// How many bytes of payload follow the request in the stream.
    pub fn payload(&self) -> Bytes {
        match self.command {
            Command::Write { .. } => self.length,
            _ => Bytes::ZERO,
        }
    }
}

/// The errors that the protocol knows ("Error values").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// Not permitted: a write to a read-only export.
    NotPermitted = 1,
    /// The device failed.
    Io = 5,
    /// Out of memory; better to wait than to answer so.
    NoMemory = 12,
    /// Unknown, misaligned or out of range.
    Invalid = 22,
    /// No room, or a write beyond the end.
    NoSpace = 28,
    /// Longer than allowed.
    Overflow = 75,
    /// Zeroing would not be fast.
    NotSupported = 95,
    /// The server is shutting down.
    Shutdown = 108,
}

/// A client that breaks the protocol, or that asks for what can only be refused by hanging up. Close its connection;
/// nothing more can be understood or answered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// The client's handshake flags have bits that were not offered.
    #[error("NBD client sent handshake flags {0:#x}; 0x1 (fixed newstyle) and 0x2 (no zeroes) were offered")]
    ClientFlags(u32),
    /// An option does not begin with `IHAVEOPT`.
    #[error("NBD client sent {0:#018x} where an option should begin with 0x49484156454f5054")]
    OptionMagic(u64),
    /// A request does not begin with the request magic.
    #[error("NBD client sent {0:#010x} where a request should begin with 0x25609513")]
    RequestMagic(u32),
    /// Options without the fixed newstyle handshake.
    #[error("NBD client sent option {0} without fixed newstyle; it may choose an export only")]
    NotFixed(u32),
    /// More options than any client needs.
    #[error("NBD client sent more than {0} options")]
    TooManyOptions(u32),
    /// An option longer than any client needs.
    #[error("NBD client sent option {option} with {length} bytes")]
    OptionTooLong {
        /// Which option.
        option: u32,
        /// What it claims to be long.
        length: u32,
    },
    /// `NBD_OPT_EXPORT_NAME` for an export that is not here; the option has no other refusal.
    #[error("NBD client asked for export {0:?}, which is not served here")]
    UnknownExport(String),
    /// `NBD_OPT_EXPORT_NAME` before TLS; the option has no other refusal.
    #[error("NBD client wants the export without TLS, which is required")]
    TlsRequired,
    /// `NBD_OPT_EXPORT_NAME` while the server shuts down; the option has no other refusal.
    #[error("NBD client wants the export while the server shuts down")]
    ShuttingDown,
    /// A write longer than any that can be skipped politely.
    #[error("NBD client sent a write of {0} bytes")]
    WriteTooLong(u32),
}

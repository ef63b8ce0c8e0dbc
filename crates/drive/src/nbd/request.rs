//! The requests of clients after the handshake, and the errors that they may be answered with.

use peryton_units::Bytes;
use thiserror::Error;

/// The client's id of a request. The reply carries it back; the server does not interpret it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cookie(pub u64);

/// A valid request: known, within the export, aligned, allowed. Answer it once, in any order, with one of the `reply_`
/// methods of the connection that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's id of the request.
    pub cookie: Cookie,
    /// The kind of request.
    pub command: Command,
    /// Offset on the server's volume; zero for a flush.
    pub offset: Bytes,
    /// Length; zero for a flush, and only for a flush.
    pub length: Bytes,
}

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read `length` bytes.
    Read {
        /// Whether to answer with at most one data chunk and no hole.
        unfragmented: bool,
    },
    /// Write the `length` bytes that follow in the stream.
    Write {
        /// Whether to answer only when the write is durable (FUA).
        fua: bool,
    },
    /// Make everything durable that was answered before, on any connection.
    Flush,
    /// The range is no longer needed.
    Trim {
        /// Whether to answer only when the trim is durable (FUA).
        fua: bool,
    },
    /// Make the range read as zeros.
    WriteZeroes {
        /// Whether to answer only when the zeros are durable (FUA).
        fua: bool,
        /// Whether to keep space allocated, so that a later write cannot fail for lack of it.
        no_hole: bool,
        /// Whether to refuse with [`Errno::NotSupported`], changing nothing, unless this is faster than writing zeros.
        fast: bool,
    },
    /// The range will be needed soon.
    Cache,
    /// Which parts of the range are allocated, and where: [`Connection::reply_status`](super::Connection::reply_status).
    Status {
        /// Whether only the first run is wanted.
        one: bool,
    },
}

impl Request {
    /// Number of payload bytes that follow the request in the stream.
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
    /// Out of memory; the server waits instead of answering this.
    NoMemory = 12,
    /// Unknown, misaligned or out of range.
    Invalid = 22,
    /// No space left, or a write beyond the end.
    NoSpace = 28,
    /// Longer than allowed.
    Overflow = 75,
    /// Zeroing would not be fast.
    NotSupported = 95,
    /// The server is shutting down.
    Shutdown = 108,
}

/// A client that violates the protocol, or whose request can be refused only by closing the connection. Close it;
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
        /// The number of the option.
        option: u32,
        /// The length that its header claims.
        length: u32,
    },
    /// `NBD_OPT_EXPORT_NAME` for an unknown export; the option has no other refusal.
    #[error("NBD client asked for export {0:?}, which is not served here")]
    UnknownExport(String),
    /// `NBD_OPT_EXPORT_NAME` before TLS; the option has no other refusal.
    #[error("NBD client wants the export without TLS, which is required")]
    TlsRequired,
    /// `NBD_OPT_EXPORT_NAME` while the server shuts down; the option has no other refusal.
    #[error("NBD client wants the export while the server shuts down")]
    ShuttingDown,
    /// A write that is longer than what the server skips when it refuses a write.
    #[error("NBD client sent a write of {0} bytes")]
    WriteTooLong(u32),
}

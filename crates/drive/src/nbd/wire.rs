//! The protocol's constants, and our own bounds. All numbers on the wire are big-endian.

use peryton_units::Bytes;

/// `NBDMAGIC`, the first bytes that a server sends.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`, which follows it, and precedes every option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Precedes every option reply.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Precedes every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Precedes every simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Precedes every chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// The longest string of the protocol ("Values": names, messages), in bytes.
pub const MAX_STRING: usize = 4096;
/// The longest option that is parsed, in bytes: two names and a few queries. A longer one is skipped and answered with
/// `NBD_REP_ERR_TOO_BIG`.
pub const MAX_OPTION: u32 = 16 << 10;
/// The longest option that is skipped; a longer one closes the connection.
pub const MAX_SKIPPED_OPTION: u32 = 1 << 20;
/// The most options that a client may send. libnbd sends about six.
pub const MAX_OPTIONS: u32 = 128;
/// The longest payload that is skipped when a write is refused ("any payload not exceeding 2^25 bytes SHOULD NOT be
/// considered a denial of service attack"), and so the largest `maximum` of an export.
pub const MAX_PAYLOAD: Bytes = Bytes::mib(64);
/// While this many bytes of the protocol's own replies (options, refused requests) wait, no input is read.
pub const MAX_OWN_OUTPUT: usize = 64 << 10;
/// The longest block status reply, in runs for each context; clients ask again from its end. The protocol allows 2^20.
pub const MAX_RUNS: usize = 4096;

/// Handshake flags of the server and of the client.
pub mod handshake {
    /// Fixed newstyle.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// No 124 zeroes after `NBD_OPT_EXPORT_NAME`.
    pub const NO_ZEROES: u16 = 2;
}

/// Options.
#[allow(missing_docs)] // their names are the protocol's
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options.
#[allow(missing_docs)] // their names are the protocol's
pub mod option_reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERR_UNSUP: u32 = 1 << 31 | 1;
    pub const ERR_POLICY: u32 = 1 << 31 | 2;
    pub const ERR_INVALID: u32 = 1 << 31 | 3;
    pub const ERR_TLS_REQD: u32 = 1 << 31 | 5;
    pub const ERR_UNKNOWN: u32 = 1 << 31 | 6;
    pub const ERR_SHUTDOWN: u32 = 1 << 31 | 7;
    pub const ERR_TOO_BIG: u32 = 1 << 31 | 9;
}

/// Items of information in the replies to `NBD_OPT_INFO` and `NBD_OPT_GO`.
#[allow(missing_docs)] // their names are the protocol's
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags.
#[allow(missing_docs)] // their names are the protocol's
pub mod flag {
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const ROTATIONAL: u16 = 1 << 4;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_CACHE: u16 = 1 << 10;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Commands.
#[allow(missing_docs)] // their names are the protocol's
pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// Command flags.
#[allow(missing_docs)] // their names are the protocol's
pub mod command_flag {
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Chunks of a structured reply, and their flag.
#[allow(missing_docs)] // their names are the protocol's
pub mod chunk {
    pub const DONE: u16 = 1;
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const OFFSET_HOLE: u16 = 2;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = 1 << 15 | 1;
    pub const ERROR_OFFSET: u16 = 1 << 15 | 2;
}

/// Flags of `base:allocation`.
pub mod allocation {
    /// No space is allocated.
    pub const HOLE: u32 = 1;
    /// The range reads as zeros.
    pub const ZERO: u32 = 2;
}

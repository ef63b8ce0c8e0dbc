//! The content of the log device of a volume with a log.
//!
//! The log device holds a superblock, a ring of commits ([`ring`]), the segments, and another superblock; [`layout`]
//! divides it. Segments hold appends, each of which is a header ([`header`]) and the data that the header lists. Now
//! and then an append is an index. It lists the content of many earlier appends, so that a reader need not read their
//! headers. A commit says which segments are in use, and what the headers cannot say; [`recorded`] combines the
//! commits. [`scan`] finds appends and indexes. `docs/format.md` describes every byte.

pub mod header;
pub mod layout;
pub mod recorded;
pub mod ring;
pub mod scan;

/// Length of an append's header in bytes, and the unit in which appends are aligned.
pub const HEADER: u64 = 4096;
/// Length of the longest append in bytes.
pub const LONGEST_APPEND: u64 = 256 << 10;
/// Data is placed in the log in units of this many bytes.
pub const SECTOR: u64 = 512;
/// The exclusive limit of a log's length in bytes: a place in it takes 40 bits.
pub const MOST_LOG_BYTES: u64 = 1 << PLACE_BITS;
/// The sequence of the first append of a new volume.
pub const FIRST_SEQUENCE: u64 = 1;
/// The exclusive limit of sequences.
pub const MOST_SEQUENCE: u64 = 1 << 62;
/// The value that stands for no place in the log.
pub const NOWHERE: u64 = u64::MAX;

/// Number of bits of a place in the log.
const PLACE_BITS: u32 = 40;

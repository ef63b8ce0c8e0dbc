//! The log of a volume that has one: what lies on the log device.
//!
//! The log device holds a superblock, a ring of commits ([`ring`]), the segments, and another superblock; [`layout`] divides
//! it. A segment is filled with appends: each is a header ([`header`]) and the data that the header lists. Now and then an
//! append is an index, which lists what many appends before it hold, so that a reader need not look at their headers. A
//! commit says which segments are in use, and what the headers cannot say. [`scan`] finds appends and indexes again.
//! `docs/format-logging.md` draws every byte.

pub mod header;
pub mod layout;
pub mod ring;
pub mod scan;

/// How long the header of an append is, and the unit in which appends are aligned.
pub const HEADER: u64 = 4096;
/// How long the longest append is.
pub const LONGEST_APPEND: u64 = 256 << 10;
/// Data is placed in the log in units of this size.
pub const SECTOR: u64 = 512;
/// A log is shorter than this: a place in it takes 40 bits.
pub const MOST_LOG_BYTES: u64 = 1 << PLACE_BITS;
/// The sequence of the first append of a new volume.
pub const FIRST_SEQUENCE: u64 = 1;
/// Appends have sequences below this one.
pub const MOST_SEQUENCE: u64 = 1 << 62;
/// Stands for no place in the log.
pub const NOWHERE: u64 = u64::MAX;

/// How many bits a place in the log takes.
const PLACE_BITS: u32 = 40;

//! A log before a primary (Griffin). Writes are appended to the log device and migrate to the primary later: once,
//! however often they were overwritten meanwhile.
//!
//! `segments.rs` allocates space, `appending.rs` gathers writes and appends them, `block_map.rs` holds the place of
//! each newest copy, `migrating.rs` empties the log when `triggers.rs` says so, `writing_through.rs` writes to the
//! primary what cannot or should not be logged (`outrun.rs` decides when that is because the log is behind), and `commits.rs` makes durable what the log's headers cannot say. Each
//! of them has its table in a file of its own: `append.rs`, `direct.rs`, `deferred.rs`, `migration.rs`, `index.rs`,
//! `journal.rs`.
//!
//! None of them calls another that might call it again: `ready.rs` carries out what follows from what has ended.
//!
//! `layout.rs` divides the devices, and `primaries.rs` says which primary has which part of the volume. `fenced.rs` continues without a device,
//! and `beside_gone.rs` keeps what a primary may lack that comes back.
//!
//! The format on disk and its scan are in `peryton_format::log`. `indexing.rs` writes indexes for a quick restart,
//! `restore.rs` makes a running drive of what the scan finds, and `report.rs` makes a report of it.
//!
//! These rules keep the newest copy the newest:
//! * Appends take effect in the order in which they lie in the log, so that a replay of the log builds the same map and
//!   may stop at the first gap: everything that a flush covered lies before it. An append that fails is written to the
//!   primary instead, and a commit records that it is absent.
//! * A write to the primary waits for appends and migrations in flight of the same range, and appends wait for it.
//! * A segment is reused only after four things. The primary was flushed. The log was flushed too, because it may hold
//!   the data that superseded the segment's content. Then a commit that frees the segment became durable, and no read of
//!   it is in flight. Segments are emptied oldest first; if a failed device leaves data behind, the commit lists it.
//! * A discard of a range that the log holds zeroes the primary before the log's copy is given up, because the primary's
//!   data there is older.

mod append;
mod appending;
mod beside_gone;
mod block_map;
mod commits;
mod completing;
mod damage;
mod deferred;
mod direct;
mod doubts;
mod drive;
mod fenced;
mod found;
mod index;
mod indexing;
mod invariants;
mod journal;
mod kept;
mod layout;
mod migrating;
mod migration;
mod mode;
mod outrun;
mod placement;
mod primaries;
mod ready;
mod report;
mod restore;
mod segments;
mod selective;
mod step;
mod taking_back;
mod triggers;
mod unverified;
mod verifying;
mod window;
mod writing_through;

pub(crate) use drive::LogDrive;
pub(crate) use layout::{BUFFER, lay_out};

pub use report::{AppendReport, IndexReport, LogRecord, LogReport, SegmentReport, WriteReport};

//! A log before a primary (Griffin): writes are appended to the log device, and migrate to the primary later, once
//! however often they were overwritten meanwhile.
//!
//! `segments.rs` gives out space, `appending.rs` gathers writes and appends them, `block_map.rs` knows the newest copies,
//! `migrating.rs` empties the log when `triggers.rs` says so, `writing_through.rs` writes to the primary what cannot or
//! should not be logged, and `commits.rs` makes durable what the log's own records do not say. The tables that they use
//! are in files of their own: `append.rs`, `direct.rs`, `deferred.rs`, `migration.rs`, `index.rs`, `journal.rs`.
//!
//! `layout.rs` divides the devices; `fenced.rs` goes on with one of the two devices.
//!
//! The format on disk, and the scan that finds it again, are `peryton_format::log`. `indexing.rs` lists for a restart what was
//! appended, `restore.rs` makes a running drive of what the scan finds, and `report.rs` a list.
//!
//! What keeps the newest copy the newest:
//! * Appends take effect in the order in which they lie in the log, so that a replay of the log comes to the same map,
//!   and stops at the first hole: all that a flush covered comes before it. An append that fails is written to the
//!   primary instead, and a commit says that it is absent.
//! * A write to the primary waits for appends and migrations in flight of the same range, and appends wait for it.
//! * A segment is used again only after the primary was flushed, and the log, which may hold what superseded its content;
//!   after that a commit that says so is durable; and no read of it is in flight. Segments are emptied oldest first; where a failed device leaves something behind, the commit lists it.
//! * A discard of what the log holds zeroes the primary before the log's copy is given up, for what lies beneath is
//!   older.

mod append;
mod appending;
mod block_map;
mod commits;
mod deferred;
mod direct;
mod drive;
mod fenced;
mod found;
mod index;
mod indexing;
mod invariants;
mod journal;
mod layout;
mod migrating;
mod migration;
mod mode;
mod placement;
mod report;
mod restore;
mod segments;
mod selective;
mod step;
mod triggers;
mod window;
mod writing_through;

pub(crate) use drive::LogDrive;
pub(crate) use layout::{BUFFER, lay_out};

pub use report::{AppendReport, IndexReport, LogRecord, LogReport, SegmentReport, WriteReport};

//! A fast and a slow device with a map between them: tiering, caching and partitioned.
//!
//! `map/` holds the place of each extent. `routes/` decide where an access goes, and `host.rs` cuts requests into
//! accesses and answers them. `movers/` move extents from one device to the other; `reclaim.rs` chooses which extents
//! leave the fast device, and `writeback/` which are written back. `through.rs` writes to both devices,
//! and `bypass.rs` keeps streams out. `commits.rs`
//! and `journal/` make the map durable; `recovery.rs` and `interpret.rs` make a running drive from the durable map.
//! `blocks.rs` is for extents of which the fast device has a part.
//! `rollback.rs` and `settling.rs` return to the durable map after a flush that failed.
//! `emptying.rs` and `reshape.rs` are for a device that becomes larger or smaller.
//! `tuner.rs` adjusts settings while the drive runs, and `warm/` keeps what the policies have learnt.
//!
//! # Where this departs from the papers
//!
//! GreenDM:
//! - An extent is promoted when its misses exceed PT; section 2.3 says both "exceeds" and "is reached". With PT 0 this is a plain cache.
//! - Reads are served from memory while a promoted extent is written to the fast device; the paper suspends them.
//! - A write that covers its extent is promoted without a read.
//! - The map is committed in order with the data; the paper flushes it periodically.
//! - A promotion is given up while its extent is in use, eight times in a row at most. Then new accesses wait for it.
//! - Write-backs wait to gather overwrites (`writeback/`); in the paper they begin at once.
//! - A write that misses a write-through cache goes to the origin alone; in the paper it may be promoted.
//!
//! "Mixed SSD arrays" judges misses in section IV-B and all requests in section VI-A: `admission.write_hits` offers both. Its sampled
//! caches hold data; these hold none, and count their wear by access.

mod access;
mod blocks;
mod bypass;
mod commits;
mod drive;
mod emptying;
mod host;
mod interpret;
mod invariants;
mod issuing;
mod journal;
mod layout;
mod locks;
mod map;
mod movers;
mod placement;
mod readmit;
mod ready;
mod reclaim;
mod recording;
mod recovery;
mod releases;
mod reshape;
mod rollback;
mod routes;
mod rows;
mod settling;
mod step;
mod streams;
mod through;
mod timers;
mod tuner;
mod warm;
mod writeback;

pub(crate) use access::Mode;
pub(crate) use drive::CacheDrive;
pub(crate) use layout::CacheLayout;
pub(crate) use reshape::Reshape;
pub(crate) use rows::SavedUses;
pub(crate) use warm::restoring::on_device as snapshots_on_device;

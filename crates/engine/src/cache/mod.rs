//! A fast and a slow device with a map between them: tiering, caching and partitioned.
//!
//! `map/` holds the place of each extent. `routes/` decide where an access goes, and `host.rs` cuts requests into
//! accesses and answers them. `movers/` move extents from one device to the other; `reclaim.rs` chooses which extents
//! leave the fast device, and `cleaning/` which are written home. `through.rs` writes to both devices,
//! and `bypass.rs` keeps streams out. `commits.rs`
//! and `journal/` make the map durable; `recovery.rs` and `restore.rs` make a running drive from the durable map.
//! `blocks.rs` and `parts.rs` are for extents of which the fast device has a part.
//! `emptying.rs` and `reshape.rs` are for a device that becomes larger or smaller.
//! `tuner.rs` adjusts settings while the drive runs, and `warm/` keeps what the policies have learnt.

mod access;
mod blocks;
mod bypass;
mod cleaning;
mod commits;
mod doubts;
mod drive;
mod emptying;
mod host;
mod invariants;
mod issuing;
mod journal;
mod layout;
mod locks;
mod map;
mod movers;
mod parts;
mod placement;
mod readmit;
mod ready;
mod reclaim;
mod recovery;
mod releases;
mod reshape;
mod restore;
mod routes;
mod step;
mod streams;
mod through;
mod timers;
mod tuner;
mod victims;
mod warm;

pub(crate) use access::Mode;
pub(crate) use drive::CacheDrive;
pub(crate) use layout::CacheLayout;
pub(crate) use reshape::Reshape;
pub(crate) use warm::restoring::on_device as snapshots_on_device;

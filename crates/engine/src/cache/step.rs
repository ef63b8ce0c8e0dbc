//! The purpose of a command of a tiering, caching or partitioned drive, and the function that its end leads to (`step` in `placement.rs`).

use crate::{
    cache::access::Follow,
    cache::map::extent::Place,
    io::{self, RequestIndex},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheStep {
    /// A plain access of a host request to `count` extents from `first_extent`, and what follows its end:
    /// `host_done` in `host.rs`, or `past_done` in `routes/partitioned.rs`.
    Host { request: RequestIndex, first_extent: u32, count: u32, follow: Follow },
    /// A write, or the zeroing, of blocks of an extent of which the fast device has not all yet: `allocating_done` in `routes/write_in_part.rs`.
    Allocating { request: RequestIndex, extent: u32 },
    /// One half of a write to both devices: `through_step` in `through.rs`.
    Through { write: u32 },
    /// A command of a move: `move_step` in `movers/dispatch.rs`.
    Move { index: u32 },
    /// The read of what a write-back takes from the slow device, so that it can write whole units.
    Missing { index: u32 },
    /// The write of `count` extents of a run from place `first` on.
    Run { run: u32, first: u32, count: u32 },
    /// A command of the commit under way: `commit_step` in `commits.rs`, which goes on in `crate::journal`.
    Commit,
    /// A command of the checkpoint under way: `checkpoint_step` in `commits.rs`, and of the same name in
    /// `journal/checkpoints.rs`.
    Checkpoint,
    /// A piece of a snapshot of what was learnt.
    Snapshot,
    /// The discard of a place that holds no valid data.
    Discarded { place: Place },
}

impl io::Step for CacheStep {
    #[inline]
    fn flushes_itself(&self) -> bool {
        // No request waits until a snapshot is durable.
        matches!(self, CacheStep::Commit | CacheStep::Checkpoint | CacheStep::Snapshot)
    }

    fn is_metadata(&self) -> bool {
        matches!(self, CacheStep::Commit | CacheStep::Checkpoint)
    }

    fn is_encoded(&self) -> bool {
        matches!(self, CacheStep::Commit | CacheStep::Checkpoint | CacheStep::Snapshot)
    }
}

/// The I/O state of such a drive.
pub(crate) type CacheIo = io::Io<CacheStep>;
pub(crate) type CacheCall<'a> = io::Call<'a, CacheStep>;
pub(crate) type CacheCommand = io::InFlight<CacheStep>;

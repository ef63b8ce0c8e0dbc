//! What a command of a tiering or caching drive is part of.

use crate::{
    cache::map::extent::Place,
    io::{self, RequestIndex},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheStep {
    /// Part of a host request, over `count` extents from `first`.
    Host { request: RequestIndex, first: u32, count: u32 },
    /// The same, of a write that passes the copies that the fast device has of these extents (partitioned).
    HostPast { request: RequestIndex, first: u32, count: u32 },
    /// One half of a write to both devices.
    Through { write: u32 },
    /// A step of a move.
    Move { index: u32 },
    /// A step of the commit in flight.
    Commit,
    /// A chunk of a checkpoint.
    Checkpoint,
    /// The device discards this place, which holds nothing any more.
    Discarded { place: Place },
}

impl io::Step for CacheStep {
    #[inline]
    fn flushes_itself(&self) -> bool {
        matches!(self, CacheStep::Commit | CacheStep::Checkpoint)
    }

    fn is_metadata(&self) -> bool {
        matches!(self, CacheStep::Commit | CacheStep::Checkpoint)
    }

    fn is_encoded(&self) -> bool {
        matches!(self, CacheStep::Commit | CacheStep::Checkpoint)
    }
}

/// What such a drive needs of the devices.
pub(crate) type CacheIo = io::Io<CacheStep>;
pub(crate) type CacheCommand = io::InFlight<CacheStep>;

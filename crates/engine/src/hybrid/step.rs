//! What a command of a tiering or caching drive is part of.

use crate::{extent_map::Place, io, io::RequestIndex};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
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
    /// The device has been told that nothing is left in this place.
    Discarded { place: Place },
}

impl io::Step for Step {
    #[inline]
    fn flushes_itself(&self) -> bool {
        matches!(self, Step::Commit | Step::Checkpoint)
    }

    fn is_metadata(&self) -> bool {
        matches!(self, Step::Commit | Step::Checkpoint)
    }

    fn is_encoded(&self) -> bool {
        matches!(self, Step::Commit | Step::Checkpoint)
    }
}

/// What such a drive needs of the devices.
pub(crate) type Core = io::Io<Step>;
pub(crate) type InFlight = io::InFlight<Step>;

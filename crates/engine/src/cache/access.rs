//! The part of a request that falls into one extent, the routes it can take, and the reasons for giving a place up.

use peryton_policy::admission::Access;
use peryton_units::{Bytes, Op};

use crate::{
    api::command::{Buffer, DeviceId},
    cache::follow::Follow,
    io::RequestIndex,
};

/// The two ways to use the fast device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Tiering,
    Caching,
}

/// The rules that accesses are routed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Router {
    Tiering,
    Caching,
    Partitioned,
    /// One device is gone.
    Degraded,
}

/// Which of the two devices are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cache) struct Fenced {
    pub(in crate::cache) fast: bool,
    pub(in crate::cache) slow: bool,
}

impl Fenced {
    pub(in crate::cache) fn any(self) -> bool {
        self.fast || self.slow
    }
}

/// The part of a host request that falls into one extent.
#[derive(Clone, Copy, Debug)]
pub(in crate::cache) struct Fragment {
    pub(in crate::cache) request: RequestIndex,
    pub(in crate::cache) op: Op,
    pub(in crate::cache) extent: u32,
    /// Offset within the extent, and length, in bytes.
    pub(in crate::cache) within: u32,
    pub(in crate::cache) len: u32,
    /// Offset within the request's buffer, and the length of the whole request.
    pub(in crate::cache) offset: Bytes,
    pub(in crate::cache) request_len: Bytes,
    /// Whether the fragment is routed for the first time. Only then does it count in the statistics, and may promote its extent.
    pub(in crate::cache) is_new: bool,
}

impl Fragment {
    pub(in crate::cache) fn miss(&self) -> Access {
        Access { extent: self.extent, op: self.op, request_len: self.request_len }
    }
}

/// The result of routing a fragment.
pub(in crate::cache) enum Route {
    /// A plain command to this place on this device, and what follows the end of the command.
    Direct(DeviceId, Bytes, Follow),
    /// The fragment waits, is being handled by a move, or has been answered.
    Taken,
}

/// Why a place is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Release {
    /// The durable map never pointed to it: a move failed or was cancelled.
    NeverUsed,
    /// Its extent was evicted to make room.
    Evicted,
    /// Its extent is in another place now, or the copy is no longer valid.
    Detached,
    /// The host discarded its extent; the device may discard the place.
    Discarded,
}

/// What a command reads or writes of one extent.
#[derive(Clone, Copy)]
pub(in crate::cache) struct Part {
    pub(in crate::cache) extent: u32,
    /// Offset within the extent.
    pub(in crate::cache) within: u32,
    pub(in crate::cache) len: Bytes,
    pub(in crate::cache) buffer: Buffer,
}

impl Part {
    /// The fragment with which a part of a host's read is routed again.
    pub(in crate::cache) fn read_by(self, request: RequestIndex, request_len: Bytes) -> Fragment {
        let Part { extent, within, len, buffer } = self;
        let Buffer::Request { offset, .. } = buffer else { unreachable!("a host read goes into the request's buffer") };
        Fragment { request, op: Op::Read, extent, within, len: len.0 as u32, offset, request_len, is_new: false }
    }
}

/// Fragments that are neighbours on the volume and on a device, merged into one command.
#[derive(Clone, Copy, Debug)]
pub(in crate::cache) struct Run {
    pub(in crate::cache) fragment: Fragment,
    pub(in crate::cache) device: DeviceId,
    pub(in crate::cache) at: Bytes,
    pub(in crate::cache) len: Bytes,
    pub(in crate::cache) extents: u32,
    /// What follows the end of the command.
    pub(in crate::cache) follow: Follow,
}

#[derive(Debug)]
pub(in crate::cache) struct ThroughWrite {
    pub(in crate::cache) fragment: Fragment,
    pub(in crate::cache) pending: u32,
    pub(in crate::cache) fast_failed: bool,
    pub(in crate::cache) slow_failed: bool,
    /// Later writes that overlap this one.
    pub(in crate::cache) waiters: Vec<Fragment>,
}

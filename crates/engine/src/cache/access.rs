//! An access on its way: the part of a request that falls into one extent, where it goes, and what becomes of places.

use peryton_policy::admission::Access;
use peryton_units::{Bytes, Op};

use crate::{api::command::DeviceId, io::RequestIndex};

/// Which of the two ways to use the fast device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Tiering,
    Caching,
}

/// Where accesses are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Router {
    Tiering,
    Caching,
    Partitioned,
    /// A device is dead.
    Degraded,
}

/// Which of the two devices are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cache) struct CacheFenced {
    pub(in crate::cache) fast: bool,
    pub(in crate::cache) slow: bool,
}

impl CacheFenced {
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
    /// Offset within the extent, and length.
    pub(in crate::cache) within: u32,
    pub(in crate::cache) len: u32,
    /// Offset within the request's buffer, and the length of the whole request.
    pub(in crate::cache) offset: Bytes,
    pub(in crate::cache) request_len: Bytes,
    /// It has not been routed before: it counts in the statistics, and it may promote.
    pub(in crate::cache) first: bool,
}

impl Fragment {
    pub(in crate::cache) fn miss(&self) -> Access {
        Access { extent: self.extent, op: self.op, request_len: self.request_len }
    }
}

/// Where a fragment goes.
pub(in crate::cache) enum Route {
    /// To this place on this device, as a plain command.
    Direct(DeviceId, Bytes),
    /// The same, to its home past the copy that the fast device has.
    Past(Bytes),
    /// It waits, is under way by other means, or has been answered.
    Taken,
}

/// Why a place is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Release {
    /// The durable map never pointed to it: a move that came to nothing.
    NeverUsed,
    /// Its extent made room for others.
    Evicted,
    /// Its extent is elsewhere now, or its copy is no longer good.
    Detached,
    /// The host discarded its extent: the device may discard the place.
    Discarded,
}

/// Neighbouring fragments that became neighbours on a device: one command.
#[derive(Clone, Copy, Debug)]
pub(in crate::cache) struct Run {
    pub(in crate::cache) fragment: Fragment,
    pub(in crate::cache) device: DeviceId,
    pub(in crate::cache) at: Bytes,
    pub(in crate::cache) len: Bytes,
    pub(in crate::cache) extents: u32,
    /// It passes copies on the fast device.
    pub(in crate::cache) past: bool,
}

#[derive(Debug)]
pub(in crate::cache) struct ThroughWrite {
    pub(in crate::cache) fragment: Fragment,
    pub(in crate::cache) pending: u32,
    pub(in crate::cache) fast_failed: bool,
    pub(in crate::cache) slow_failed: bool,
    /// Overlapping writes that came later.
    pub(in crate::cache) waiters: Vec<Fragment>,
}

//! The part of a request that falls into one extent, the routes it can take, and the reasons for giving a place up. A
//! host command carries the work that follows its completion ([`Follow`]), so that no table is searched for it.

use peryton_policy::admission::Access;
use peryton_units::{Bytes, Op};

use crate::{
    api::command::{Buffer, DeviceId},
    io::RequestIndex,
    io::slab::Slab,
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

/// The part of one extent that a command reads or writes.
#[derive(Clone, Copy)]
pub(in crate::cache) struct Part {
    pub(in crate::cache) extent: u32,
    /// Offset within the extent.
    pub(in crate::cache) within: u32,
    pub(in crate::cache) len: Bytes,
    pub(in crate::cache) buffer: Buffer,
}

impl Part {
    /// The fragment with which the part of a host's command is routed again.
    pub(in crate::cache) fn again(self, request: RequestIndex, op: Op, request_len: Bytes) -> Fragment {
        let Part { extent, within, len, buffer } = self;
        let offset = match buffer {
            Buffer::Request { offset, .. } => offset,
            // A discard has no data.
            _ => Bytes::ZERO,
        };
        Fragment { request, op, extent, within, len: len.0 as u32, offset, request_len, is_new: false }
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
    /// The work that follows the completion of the command.
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

/// Work that follows the end of an access to one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Then {
    /// The access has read these blocks from the slow device, although the slot has newer ones: the newer ones are read over them.
    Overlay(u16),
    /// The access's buffer has the data of this fill, which counts the command as one of its own.
    Feed(u32),
}

#[derive(Clone, Copy, Debug)]
struct Row {
    extent: u32,
    then: Then,
    next: Follow,
}

/// The work that follows one command: a list in the order of its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Follow(u32);

impl Follow {
    pub(in crate::cache) const NOTHING: Follow = Follow(u32::MAX);
    /// A write of whole extents has gone to their origins past their copies, which are given up (partitioned).
    pub(in crate::cache) const PAST: Follow = Follow(u32::MAX - 1);
}

/// The work that follows the host commands in flight. Most commands have none.
#[derive(Debug)]
pub(in crate::cache) struct Follows {
    rows: Slab<Row>,
}

impl Follows {
    pub(in crate::cache) fn new() -> Follows {
        Follows { rows: Slab::new() }
    }

    pub(in crate::cache) fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// Adds `then` for the end of an access to the extent, in front of the list `next`.
    pub(in crate::cache) fn add(&mut self, extent: u32, then: Then, next: Follow) -> Follow {
        Follow(self.rows.insert(Row { extent, then, next }))
    }

    /// Joins the work of two accesses whose commands become one.
    pub(in crate::cache) fn join(&mut self, first: Follow, second: Follow) -> Follow {
        if first == Follow::NOTHING || first == Follow::PAST {
            return second;
        }
        let mut last = first;
        while self.rows[last.0].next != Follow::NOTHING {
            last = self.rows[last.0].next;
        }
        self.rows[last.0].next = second;
        first
    }

    /// Takes the next item of the list, if it concerns this extent.
    pub(in crate::cache) fn take(&mut self, follow: &mut Follow, extent: u32) -> Option<Then> {
        if *follow == Follow::NOTHING || self.rows[follow.0].extent != extent {
            return None;
        }
        let Row { then, next, .. } = self.rows[follow.0];
        self.rows.remove(follow.0);
        *follow = next;
        Some(then)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_become_one_own_what_each_did() {
        let mut follows = Follows::new();
        let first = follows.add(3, Then::Overlay(1), Follow::NOTHING);
        let first = follows.add(3, Then::Feed(7), first);
        let second = follows.add(5, Then::Overlay(2), Follow::NOTHING);
        let mut other = follows.add(3, Then::Overlay(4), Follow::NOTHING);
        let mut all = follows.join(first, Follow::NOTHING);
        all = follows.join(Follow::NOTHING, all);
        all = follows.join(all, second);
        let mut taken = Vec::new();
        for extent in 3..7 {
            while let Some(then) = follows.take(&mut all, extent) {
                taken.push((extent, then));
            }
        }
        assert_eq!(taken, [(3, Then::Feed(7)), (3, Then::Overlay(1)), (5, Then::Overlay(2))]);
        assert_eq!((all, follows.is_empty()), (Follow::NOTHING, false), "what another command owns stays");
        assert_eq!(follows.take(&mut other, 3), Some(Then::Overlay(4)));
        assert!(follows.is_empty());
    }
}

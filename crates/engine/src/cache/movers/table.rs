//! The table of moves: what kinds there are, and how far each is.

use crate::{
    api::command::Cause, api::error::RequestError, cache::access::Fragment, cache::map::extent::Place, io::RequestIndex,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Kind {
    Promotion,
    Fill,
    Demotion,
    Eviction,
    WriteBack,
    Zero,
    Drain(Drained),
    /// An allocation that found every free place waiting for its commit.
    Allocation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Phase {
    Reading,
    Writing,
    WritingHome,
    Draining,
    Committing,
}

#[derive(Debug)]
pub(in crate::cache) struct Move {
    pub(in crate::cache) kind: Kind,
    pub(in crate::cache) phase: Phase,
    pub(in crate::cache) extent: u32,
    pub(in crate::cache) to: Option<Place>,
    /// The move buffer, for kinds that copy.
    pub(in crate::cache) buffer: u32,
    /// Commands in flight.
    pub(in crate::cache) pending: u32,
    pub(in crate::cache) failed: bool,
    /// The host accessed the extent meanwhile; for `rewritten`, with a write.
    pub(in crate::cache) accessed: bool,
    pub(in crate::cache) rewritten: bool,
    /// The buffer holds writes that were acknowledged to the host.
    pub(in crate::cache) ram_dirty: bool,
    pub(in crate::cache) sequence: u64,
    /// The fragment that began it, where it has to be answered by the move itself.
    pub(in crate::cache) trigger: Option<Fragment>,
    pub(in crate::cache) waiters: Vec<Fragment>,
    /// Requests of which a part is answered when the move has ended.
    pub(in crate::cache) answers: Vec<RequestIndex>,
}

pub(in crate::cache) const NO_BUFFER: u32 = u32::MAX;

/// What happens to an extent once no access to it is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Drained {
    /// Tiering: the host discarded it; the mapping goes.
    Unmap,
    /// Caching: the host discarded it; home and copy go.
    Discard,
    /// Caching: its home is about to be written around the copy; the copy goes first, durably.
    Invalidate,
    /// Caching: a write past the cache covers the extent of a dirty copy. Until it is home the copy is the truth.
    Supersede,
    /// Partitioned: a write has passed the copy.
    Stale,
    /// Caching: copy and home may differ after a failure; the copy goes, and the write is answered with this.
    Drop(Result<(), RequestError>),
}

impl Kind {
    pub(in crate::cache) fn cause(self) -> Cause {
        match self {
            Kind::Promotion => Cause::Promotion,
            Kind::Demotion | Kind::Eviction => Cause::Demotion,
            Kind::WriteBack => Cause::WriteBack,
            Kind::Fill | Kind::Zero | Kind::Drain(_) | Kind::Allocation => Cause::Host,
        }
    }
}

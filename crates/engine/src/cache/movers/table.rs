//! The table of moves: their kinds and their phases.

use peryton_format::mutation::{self, Mutation};
use peryton_units::Nanos;

use crate::{api::command::Cause, api::error::RequestError, cache::access::Fragment, cache::map::extent::Place};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cache) enum Kind {
    #[default]
    Promotion,
    /// A write of the host covers the extent, which is in a place of its own from then on: nothing is read (dm-cache: overwrite).
    Overwrite,
    /// Blocks of an extent that has a slot are copied to the slot.
    Fill,
    Demotion,
    Eviction,
    WriteBack,
    Zero,
    Drain(Drained),
    /// An allocation for which every free place waited for its commit.
    Allocation,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cache) enum Phase {
    #[default]
    Reading,
    Writing,
    WritingOrigin,
    Draining,
    Committing,
}

#[derive(Debug, Default)]
pub(in crate::cache) struct Move {
    pub(in crate::cache) kind: Kind,
    pub(in crate::cache) phase: Phase,
    pub(in crate::cache) extent: u32,
    pub(in crate::cache) to: Option<Place>,
    /// The move buffer, for kinds that copy.
    pub(in crate::cache) buffer: u32,
    /// The run that it is part of, whose buffer it uses (write-backs and evictions).
    pub(in crate::cache) run: Option<InRun>,
    /// The blocks that the move copies, and the blocks that the host wrote meanwhile (fills, write-backs and evictions).
    pub(in crate::cache) blocks: u16,
    pub(in crate::cache) rewritten_blocks: u16,
    /// The blocks that a write-back reads from the slow device, because the fast one lacks them.
    pub(in crate::cache) missing: u16,
    /// Writes of the host to the extent wait until the move has ended, or until this time (write-backs).
    pub(in crate::cache) holds_until: Option<Nanos>,
    /// Commands in flight for this move; those of the host that bring blocks count.
    pub(in crate::cache) pending: u32,
    pub(in crate::cache) failed: bool,
    /// Whether the host accessed the extent during the move.
    pub(in crate::cache) accessed: bool,
    /// Whether the buffer holds writes that were acknowledged to the host.
    pub(in crate::cache) ram_dirty: bool,
    pub(in crate::cache) sequence: u64,
    /// The fragment that started the move, if the move itself must answer it.
    pub(in crate::cache) trigger: Option<Fragment>,
    pub(in crate::cache) waiters: Vec<Fragment>,
    /// Fragments that are carried out, and are answered when the move has ended.
    pub(in crate::cache) answers: Vec<Fragment>,
}

impl Move {
    /// The blocks that a fill still has to copy. The host has written newer data to the rest.
    pub(in crate::cache) fn blocks_to_bring(&self) -> u16 {
        if mutation::is(Mutation::FillOverRewritten) { self.blocks } else { self.blocks & !self.rewritten_blocks }
    }
}

/// A place in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) struct InRun {
    pub(in crate::cache) run: u32,
    pub(in crate::cache) place: u32,
}

pub(in crate::cache) const NO_BUFFER: u32 = u32::MAX;

/// The reason why an extent is detached once no access to it is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Drained {
    /// Tiering: the host discarded it. The mapping is removed.
    Unmap,
    /// Caching: the host discarded it. Origin and copy are discarded.
    Discard,
    /// Caching: a write is about to bypass the copy. The copy's removal must be durable first.
    Invalidate,
    /// Caching: a write that bypasses the cache covers the whole extent of a dirty copy. Until it completes, the copy
    /// is valid.
    Supersede,
    /// Partitioned: a write has bypassed the copy.
    Stale,
    /// Caching: copy and origin may differ after a failure. The copy is dropped, and the write is answered with this
    /// result.
    Drop(Result<(), RequestError>),
}

impl Kind {
    /// Whether moves of this kind copy, so that they count among those that MCML bounds.
    pub(in crate::cache) fn copies(self) -> bool {
        match self {
            Kind::Promotion | Kind::Overwrite | Kind::Fill | Kind::Demotion | Kind::Eviction | Kind::WriteBack => true,
            Kind::Zero | Kind::Drain(_) | Kind::Allocation => false,
        }
    }

    pub(in crate::cache) fn cause(self) -> Cause {
        match self {
            Kind::Promotion | Kind::Fill => Cause::Promotion,
            Kind::Demotion | Kind::Eviction => Cause::Demotion,
            Kind::WriteBack => Cause::WriteBack,
            Kind::Overwrite | Kind::Zero | Kind::Drain(_) | Kind::Allocation => Cause::Host,
        }
    }
}

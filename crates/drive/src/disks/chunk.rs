//! Divides an operation into chunks that a device can carry out each with one command.

use super::{Ability, Ask, BOUNCE, ZEROS};
use crate::{
    arena::Memory,
    backend::{Action, Operation},
};

/// The longest transfer of one system call, which counts in 31 bits.
const LONGEST: u64 = 256 << 20;

/// The stage of a bounced chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Reads all of it; after that the data is copied out.
    Read,
    /// Reads the first block, a part of which must stay as it is.
    Head,
    /// Reads the last block, a part of which must stay as it is.
    Tail,
    /// Writes all of it.
    Write,
}

/// A part of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// Nothing yet.
    None,
    /// A flush.
    Flush,
    /// A flush of the device that has the displaced part of this one ([`divided`](super::divided)).
    FlushHome,
    /// Goes directly to the device. `advances`: how many bytes of the operation it finishes (a discard skips the
    /// edges).
    Direct { ask: Ask, at: u64, len: u64, advances: u64 },
    /// Transfers bytes `begin..end` through a buffer that holds the blocks `from..to`.
    Bounced { from: u64, to: u64, begin: u64, end: u64, block: u64, stage: Stage },
}

impl Chunk {
    /// Plans the next chunk of an operation of which `done` bytes are finished; `memory` is the place of the remaining
    /// data. Returns `None` if nothing remains.
    #[inline]
    pub(super) fn plan(operation: &Operation, done: u64, ability: &Ability, memory: Memory) -> Option<Chunk> {
        let Ability { block, .. } = *ability;
        let (at, end) = (operation.at + done, operation.at + operation.len);
        let down = |n: u64| n - n % block;
        let ask = match operation.action {
            Action::Flush => return Some(Chunk::Flush),
            _ if operation.len == 0 => return None,
            Action::Discard => {
                let (from, to) = (at.next_multiple_of(block), down(end));
                let some = ability.punch && from < to;
                return some.then(|| Chunk::Direct {
                    ask: Ask::Punch,
                    at: from,
                    len: to - from,
                    advances: operation.len,
                });
            }
            Action::Read => Ask::Read,
            Action::Write | Action::Zero | Action::ZeroAllocated => Ask::Write,
        };
        let zero = matches!(operation.action, Action::Zero | Action::ZeroAllocated);
        let may_punch = ability.punch && operation.action == Action::Zero;
        if at.is_multiple_of(block) && down(end) > at {
            let len = down(end) - at;
            if zero && (ability.zero_range || may_punch) {
                // Zeros then take no room in a sparse file, and a device may unmap them.
                let ask = if may_punch { Ask::Punch } else { Ask::ZeroRange };
                return Some(Chunk::Direct { ask, at, len, advances: len });
            }
            if (memory.address() as u64).is_multiple_of(ability.memory) {
                let longest = if zero { ZEROS } else { LONGEST };
                let len = len.min(longest - longest % block);
                return Some(Chunk::Direct { ask, at, len, advances: len });
            }
        }
        let from = down(at);
        let border = from + block;
        // If the rest can go directly to the device, only the edge is bounced.
        let rest = memory.address() as u64 + (border - at);
        let stop = if zero || rest.is_multiple_of(ability.memory) && at > from { border } else { from + BOUNCE };
        let stop = stop.min(end);
        let to = stop.next_multiple_of(block);
        let stage = match ask {
            Ask::Read => Stage::Read,
            _ if at > from => Stage::Head,
            _ if stop < to => Stage::Tail,
            _ => Stage::Write,
        };
        Some(Chunk::Bounced { from, to, begin: at, end: stop, block, stage })
    }

    /// The kind of the next kernel command.
    #[inline]
    pub(super) fn ask(&self) -> Ask {
        match *self {
            Chunk::None | Chunk::Flush | Chunk::FlushHome => Ask::Sync,
            Chunk::Direct { ask, .. } => ask,
            Chunk::Bounced { stage: Stage::Write, .. } => Ask::Write,
            Chunk::Bounced { .. } => Ask::Read,
        }
    }

    /// How many bytes of its operation the chunk finishes.
    #[inline]
    pub(super) fn advances(&self) -> u64 {
        match *self {
            Chunk::None | Chunk::Flush | Chunk::FlushHome => 0,
            Chunk::Direct { advances, .. } => advances,
            Chunk::Bounced { begin, end, .. } => end - begin,
        }
    }

    /// The stage after the first block of a write has been read.
    pub(super) fn after_head(from: u64, to: u64, end: u64, block: u64) -> Stage {
        if end < to && to - block > from { Stage::Tail } else { Stage::Write }
    }

    pub(super) fn bounces(&self) -> bool {
        matches!(self, Chunk::Bounced { .. })
    }

    /// Whether the chunk reads blocks in order to change parts of them.
    #[inline]
    pub(super) fn is_exclusive(&self) -> bool {
        match *self {
            Chunk::Bounced { from, to, begin, end, stage, .. } => stage != Stage::Read && (begin > from || end < to),
            _ => false,
        }
    }

    /// The range of bytes that the chunk changes.
    #[inline]
    pub(super) fn changes(&self) -> Option<(u64, u64)> {
        match *self {
            Chunk::None | Chunk::Flush | Chunk::FlushHome | Chunk::Direct { ask: Ask::Read | Ask::Sync, .. } => None,
            Chunk::Direct { at, len, .. } => Some((at, at + len)),
            Chunk::Bounced { stage: Stage::Read, .. } => None,
            Chunk::Bounced { from, to, .. } => Some((from, to)),
        }
    }
}

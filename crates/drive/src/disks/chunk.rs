//! How an operation is divided into what a device can do at once.

use super::{Ability, Ask, BOUNCE, ZEROS};
use crate::{
    arena::Memory,
    backend::{Action, Operation},
};

/// The longest transfer that is asked of the kernel at once, which counts in 31 bits.
const LONGEST: u64 = 256 << 20;

/// What a bounced chunk is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Reading all of it; then it is copied out.
    Read,
    /// Reading the first block, of which a part stays.
    Head,
    /// Reading the last block, of which a part stays.
    Tail,
    /// Writing all of it.
    Write,
}

/// A part of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// Nothing yet.
    None,
    /// A flush.
    Flush,
    /// As it is; `advances` the operation by so many bytes (a discard leaves edges alone).
    Direct { ask: Ask, at: u64, len: u64, advances: u64 },
    /// Bytes `begin..end` by way of the blocks `from..to`.
    Bounced { from: u64, to: u64, begin: u64, end: u64, block: u64, stage: Stage },
}

impl Chunk {
    /// The next chunk of an operation of which `done` bytes are finished; `memory` is where the rest of its data is.
    /// `None`: there is nothing to do.
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
            Action::Write | Action::Zero => Ask::Write,
        };
        let zero = operation.action == Action::Zero;
        if at.is_multiple_of(block) && down(end) > at {
            let len = down(end) - at;
            if zero && (ability.zero_range || ability.punch) {
                let ask = if ability.zero_range { Ask::ZeroRange } else { Ask::Punch };
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
        // Where the rest can go straight to the device, only the edge is bounced.
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

    /// What the kernel is asked for.
    #[inline]
    pub(super) fn ask(&self) -> Ask {
        match *self {
            Chunk::None | Chunk::Flush => Ask::Sync,
            Chunk::Direct { ask, .. } => ask,
            Chunk::Bounced { stage: Stage::Write, .. } => Ask::Write,
            Chunk::Bounced { .. } => Ask::Read,
        }
    }

    /// By how much it advances its operation.
    #[inline]
    pub(super) fn advances(&self) -> u64 {
        match *self {
            Chunk::None | Chunk::Flush => 0,
            Chunk::Direct { advances, .. } => advances,
            Chunk::Bounced { begin, end, .. } => end - begin,
        }
    }

    /// What comes after the first block of a write has been read.
    pub(super) fn after_head(from: u64, to: u64, end: u64, block: u64) -> Stage {
        if end < to && to - block > from { Stage::Tail } else { Stage::Write }
    }

    pub(super) fn bounces(&self) -> bool {
        matches!(self, Chunk::Bounced { .. })
    }

    /// Whether it reads blocks in order to change a part of them.
    #[inline]
    pub(super) fn is_exclusive(&self) -> bool {
        match *self {
            Chunk::Bounced { from, to, begin, end, stage, .. } => stage != Stage::Read && (begin > from || end < to),
            _ => false,
        }
    }

    /// The bytes that it changes.
    #[inline]
    pub(super) fn changes(&self) -> Option<(u64, u64)> {
        match *self {
            Chunk::None | Chunk::Flush | Chunk::Direct { ask: Ask::Read | Ask::Sync, .. } => None,
            Chunk::Direct { at, len, .. } => Some((at, at + len)),
            Chunk::Bounced { stage: Stage::Read, .. } => None,
            Chunk::Bounced { from, to, .. } => Some((from, to)),
        }
    }
}

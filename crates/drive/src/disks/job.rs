//! An operation that is carried out: how far it is, and what it waits for.

use peryton_units::Nanos;

use super::{
    Ask, BOUNCE,
    chunk::{Chunk, Stage},
    locks::Range,
};
use crate::{
    arena::{Arena, Memory},
    backend::{Action, Operation},
};

#[derive(Debug)]
pub(super) struct Job {
    pub(super) operation: Operation,
    /// When it was given to this.
    pub(super) began: Nanos,
    /// Bytes of the operation that are finished.
    pub(super) done: u64,
    pub(super) chunk: Chunk,
    /// Bytes of the kernel command in flight that have been transferred.
    pub(super) moved: u64,
    pub(super) attempts: u8,
    pub(super) interruptions: u8,
    /// The number of outages in which it waited because it had failed itself.
    pub(super) rounds: u8,
    /// When it failed first and began to wait for its device. Its patience lasts from then on, however many outages there are.
    pub(super) waits_since: Option<Nanos>,
    pub(super) bounce: Option<u32>,
    /// The range that the chunk changes.
    pub(super) range: Option<Range>,
    /// Jobs whose chunk waits for the end of this chunk.
    pub(super) waiters: Vec<u32>,
}

impl Job {
    pub(super) fn new(operation: Operation, now: Nanos) -> Job {
        Job {
            operation,
            began: now,
            done: 0,
            chunk: Chunk::None,
            moved: 0,
            attempts: 0,
            interruptions: 0,
            rounds: 0,
            waits_since: None,
            bounce: None,
            range: None,
            waiters: Vec::new(),
        }
    }

    /// The memory of the operation's data from byte `done` on; zeros share one place.
    pub(super) fn memory_at(&self, done: u64, zeros: &Arena) -> Memory {
        match self.operation.action {
            Action::Zero | Action::ZeroAllocated => zeros.at(0),
            _ => self.operation.memory.add(done as usize),
        }
    }

    /// The kernel command of the chunk's stage, or the rest of it.
    #[inline]
    pub(super) fn raw(&self, bounces: &Arena, zeros: &Arena) -> (Ask, u64, u64, Memory) {
        let (at, len, memory) = match self.chunk {
            Chunk::None | Chunk::Flush | Chunk::FlushHome => (0, 0, Memory::NONE),
            Chunk::Direct { at, len, .. } => (at, len, self.memory_at(self.done, zeros)),
            Chunk::Bounced { from, to, block, stage, .. } => {
                let start = u64::from(self.bounce.expect("a bounced chunk in flight has a buffer")) * BOUNCE;
                let (at, len) = match stage {
                    Stage::Head => (from, block),
                    Stage::Tail => (to - block, block),
                    Stage::Read | Stage::Write => (from, to - from),
                };
                (at, len, bounces.at((start + at - from) as usize))
            }
        };
        let ask = self.chunk.ask();
        let memory = if matches!(ask, Ask::Read | Ask::Write) { memory.add(self.moved as usize) } else { memory };
        (ask, at + self.moved, len - self.moved, memory)
    }
}

//! Commands of the host that are served in several parts.

use std::{cmp::Reverse, collections::BinaryHeap};

use peryton_units::Nanos;

use crate::{Accepted, Tag};

/// A command in service.
#[derive(Clone, Copy, Debug)]
struct Join {
    tag: Tag,
    arrived: u64,
    left: u32,
    end: u64,
}

/// Commands in service, and those that have ended and are not reported. There are as many as the host has in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct Joins {
    slots: Vec<Join>,
    free: Vec<u32>,
    done: BinaryHeap<Reverse<(u64, u32)>>,
    in_service: u32,
}

impl Joins {
    /// Adds a command of this many parts; returns its number, which identifies it for its parts.
    pub fn open(&mut self, tag: Tag, arrived: u64, parts: u32) -> u32 {
        let join = Join { tag, arrived, left: parts, end: arrived };
        self.in_service += 1;
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = join;
                slot
            }
            None => {
                self.slots.push(join);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Adds parts to a command.
    pub fn more(&mut self, slot: u32, parts: u32) {
        self.slots[slot as usize].left += parts;
    }

    /// Records a disk's answer to a part.
    pub fn accepted(&mut self, slot: u32, accepted: Accepted) -> Option<(u64, u64)> {
        match accepted {
            Accepted::At(end) => self.part_done(slot, end.0),
            Accepted::Queued => None,
        }
    }

    /// Records the end of a part; if it was the last, returns the arrival and the end of the command.
    pub fn part_done(&mut self, slot: u32, end: u64) -> Option<(u64, u64)> {
        let join = &mut self.slots[slot as usize];
        join.left -= 1;
        join.end = join.end.max(end);
        if join.left > 0 {
            return None;
        }
        let join = *join;
        self.free.push(slot);
        self.in_service -= 1;
        self.done.push(Reverse((join.end, join.tag.0)));
        Some((join.arrived, join.end))
    }

    /// Number of commands that have not ended.
    pub fn in_service(&self) -> u32 {
        self.in_service
    }

    /// The time of the next report of a command.
    pub fn next_report(&self) -> Option<u64> {
        self.done.peek().map(|Reverse((end, _))| *end)
    }

    /// Reports the commands that ended by `now`, in order of time.
    pub fn report(&mut self, now: u64, completed: &mut Vec<(Tag, Nanos)>) {
        while let Some(&Reverse((end, tag))) = self.done.peek()
            && end <= now
        {
            self.done.pop();
            completed.push((Tag(tag), Nanos(end)));
        }
    }
}

//! The queue of commands among which the disk chooses the next one.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use peryton_units::{Nanos, Op};

use super::{
    Disk,
    geometry::Place,
    parameters::{Queue, Scheduler},
};
use crate::{Io, Tag};

#[derive(Clone, Copy, Debug)]
struct Waiting {
    tag: Tag,
    io: Io,
    arrived: u64,
    sector: u64,
    /// Its place on the surface, once there is a choice.
    place: Option<Place>,
}

/// At most `depth` commands are visible to the scheduler; the rest wait outside in their order of arrival.
#[derive(Clone, Debug)]
pub(super) struct CommandQueue {
    depth: usize,
    scheduler: Scheduler,
    patience: u64,
    visible: Vec<Waiting>,
    outside: VecDeque<Waiting>,
    done: BinaryHeap<Reverse<(u64, u32)>>,
    /// When the next command can be started.
    next: u64,
    /// Whether standby was requested while commands were waiting.
    pub sleep_wanted: bool,
}

impl CommandQueue {
    pub fn new(parameters: &Queue) -> CommandQueue {
        CommandQueue {
            depth: parameters.depth as usize,
            scheduler: parameters.scheduler,
            patience: parameters.patience.0,
            visible: Vec::new(),
            outside: VecDeque::new(),
            done: BinaryHeap::new(),
            next: 0,
            sleep_wanted: false,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.visible.is_empty()
    }

    /// Arrival of the command that has waited longest; commands are in the order of arrival.
    pub fn oldest_arrival(&self) -> Option<u64> {
        self.visible.first().map(|waiting| waiting.arrived)
    }

    #[inline]
    pub fn next_event(&self) -> Option<u64> {
        let done = self.done.peek().map(|Reverse((at, _))| *at);
        if self.visible.is_empty() {
            return done;
        }
        Some(done.map_or(self.next, |done| done.min(self.next)))
    }

    pub fn report(&mut self, now: u64, completed: &mut Vec<(Tag, Nanos)>) {
        while let Some(&Reverse((at, tag))) = self.done.peek()
            && at <= now
        {
            self.done.pop();
            completed.push((Tag(tag), Nanos(at)));
        }
    }

    fn add(&mut self, waiting: Waiting) {
        if self.visible.len() < self.depth {
            self.visible.push(waiting);
        } else {
            self.outside.push_back(waiting);
        }
    }
}

impl Disk {
    /// Queues a command. If the disk has no other work, the command is served immediately, because there is no choice
    /// to wait for.
    pub(super) fn enqueue(&mut self, now: u64, tag: Tag, io: Io) {
        self.serve_until(now);
        let ready = self.wake(now);
        let sector = (io.at.0 >> self.sector_shift).min(self.mechanics.geometry.sectors - 1);
        let Some(queue) = &mut self.queue else { return };
        queue.sleep_wanted = false;
        queue.next = queue.next.max(ready);
        if queue.is_idle() && queue.next <= now {
            self.background(now);
            self.serve(now, tag, now, io);
        } else {
            queue.add(Waiting { tag, io, arrived: now, sector, place: None });
        }
    }

    /// Serves a command from `at` on, after finishing background work; returns when it is answered.
    fn serve(&mut self, at: u64, tag: Tag, arrived: u64, io: Io) -> u64 {
        let before = self.free;
        let answered = self.execute(at, at - arrived, io);
        self.account.busy(arrived, answered);
        let mechanical = self.free > before && io.op == Op::Read;
        let next = if mechanical { self.free.min(answered) } else { answered };
        if let Some(queue) = &mut self.queue {
            queue.next = next.max(at);
            queue.done.push(Reverse((answered, tag.0)));
        }
        answered
    }

    /// Takes up commands until `now`.
    pub(super) fn serve_until(&mut self, now: u64) {
        while let Some(queue) = &mut self.queue
            && !queue.visible.is_empty()
        {
            let at = queue.next.max(queue.visible[0].arrived);
            if at > now {
                break;
            }
            let choice = queue.visible.len() > 1;
            if choice && queue.scheduler == Scheduler::Sptf {
                let geometry = &self.mechanics.geometry;
                for waiting in &mut queue.visible {
                    waiting.place.get_or_insert_with(|| geometry.locate(waiting.sector));
                }
            }
            // The choice hangs on where the arm is by then.
            self.background(at);
            let chosen = if choice { self.choose(at) } else { 0 };
            let Some(queue) = &mut self.queue else { break };
            // Their order of arrival is kept: a flush, and fairness among equals, rely on it.
            let waiting = queue.visible.remove(chosen);
            if let Some(outside) = queue.outside.pop_front() {
                queue.visible.push(outside);
            }
            let answered = self.serve(at, waiting.tag, waiting.arrived, waiting.io);
            let Some(queue) = &mut self.queue else { break };
            if queue.sleep_wanted && queue.visible.is_empty() {
                queue.sleep_wanted = false;
                self.sleep(answered);
            }
        }
    }

    /// The time until a command can begin: zero for a read that the buffer holds or is about to hold, and for a write
    /// that fits the cache. A write that finds the cache full waits for a range to leave, which takes about as long as
    /// writing it would.
    fn cost(&self, free: u64, waiting: &Waiting) -> u64 {
        let write = waiting.io.op == Op::Write;
        let count = waiting.io.len.0 >> self.sector_shift;
        match &self.write_cache {
            Some(cache) if write && cache.fits(count, free) => 0,
            _ if !write && self.is_at_hand(waiting.sector) => 0,
            _ => {
                let place = waiting.place.as_ref().expect("every candidate has been located");
                self.mechanics.positioning(free, place, write)
            }
        }
    }

    /// The index of the command to serve next. A flush waits until it is the oldest, and delays later commands.
    fn choose(&self, at: u64) -> usize {
        let Some(queue) = &self.queue else { return 0 };
        // No command waits for ever: they are in the order of arrival.
        if queue.visible[0].arrived.saturating_add(queue.patience) < at {
            return 0;
        }
        let barrier = queue.visible.iter().position(|waiting| waiting.io.op == Op::Flush);
        let candidates = match barrier {
            Some(0) => return 0,
            Some(index) => &queue.visible[..index],
            None => &queue.visible[..],
        };
        // Writes enter the write cache in their order of arrival: only the oldest is a candidate.
        let mut writes = 0;
        let arrived = candidates.iter().enumerate().filter(|(_, waiting)| {
            writes += u32::from(waiting.io.op == Op::Write);
            waiting.arrived <= at && (self.write_cache.is_none() || waiting.io.op != Op::Write || writes == 1)
        });
        let best = match queue.scheduler {
            Scheduler::Fcfs => return 0,
            Scheduler::Elevator => arrived.min_by_key(|(_, waiting)| (waiting.sector < self.arm, waiting.sector)),
            Scheduler::Sptf => {
                let free = self.free.max(at);
                arrived.min_by_key(|(_, waiting)| self.cost(free, waiting))
            }
        };
        best.map_or(0, |(index, _)| index)
    }
}

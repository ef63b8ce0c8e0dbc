//! Carries out operations of any alignment on devices that require whole blocks; repeats failed commands; applies
//! faults on demand. This is a state machine: it issues kernel commands ([`Raw`]) and is given their results.
//!
//! An operation is carried out as a sequence of chunks, one in flight at a time. A chunk whose offset, length and
//! memory suit the device goes directly to it. The edges go through a bounce buffer: a read reads whole blocks and
//! copies the part out; a write reads the blocks, changes them, and writes them back. While such a write is under way
//! no other chunk may write its blocks, because the write-back would undo that.

mod chunk;
mod divided;
mod failing;
pub(crate) mod fault;
mod flushes;
mod health;
mod job;
mod locks;
mod measured;
mod outage;
mod rest;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, io, sync::Arc};

use peryton_engine::{DeviceError, DeviceId, IoId};
use peryton_recording::DeviceFigures;
use peryton_units::Nanos;

use self::{
    chunk::{Chunk, Stage},
    divided::Divided,
    fault::{Effect, Faults},
    flushes::Flushing,
    job::Job,
    locks::{Locks, Range},
    outage::Outages,
};
pub(crate) use self::{
    health::{Doubt, Failure, Health},
    outage::{is_full, may_pass},
    rest::Rests,
};
use crate::{
    arena::{Arena, Memory},
    backend::{Action, Backend, Operation},
    wear::Meter,
};

/// The size of a bounce buffer in bytes.
const BOUNCE: u64 = 32 << 10;
/// The number of bounce buffers. An operation that finds none free waits.
const BOUNCES: u32 = 64;
/// The longest write of zeros at once, in bytes.
pub(crate) const ZEROS: u64 = 1 << 20;
/// How often a command is issued before it waits for its device to come back ([`outage`]). If it fails after that too, its
/// failure is reported to the engine. A flush is issued once: see [`Disks::failed`].
const ATTEMPTS: u8 = 3;
/// How often a command is issued again that was interrupted, or for which the kernel had no resources.
const INTERRUPTIONS: u8 = 100;

/// The kinds of kernel commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Read,
    Write,
    Sync,
    /// Deallocate a range; it then reads as zeros.
    Punch,
    /// Zero a range and keep it allocated.
    ZeroRange,
}

/// A command for the kernel, identified by `slot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raw {
    pub(crate) slot: u32,
    pub(crate) device: DeviceId,
    pub(crate) ask: Ask,
    pub(crate) at: u64,
    pub(crate) len: u64,
    pub(crate) memory: Memory,
}

/// What a device requires and supports, and the meter of its wear.
#[derive(Clone, Debug)]
pub(crate) struct Ability {
    /// Offsets and lengths must be multiples of this.
    pub(crate) block: u64,
    /// Memory must be aligned to this.
    pub(crate) memory: u64,
    pub(crate) punch: bool,
    pub(crate) zero_range: bool,
    pub(crate) wear: Arc<Meter>,
}

impl Ability {
    /// Those of an absent device, which gets no commands.
    pub(crate) fn absent() -> Ability {
        Ability { block: 1, memory: 1, punch: false, zero_range: false, wear: Arc::default() }
    }
}

/// The most failures that are kept until they are reported as events.
const MOST_FAILURES: usize = 64;

/// The devices of a volume above the kernel.
#[derive(Debug)]
pub(crate) struct Disks {
    abilities: Vec<Ability>,
    health: Vec<Health>,
    doubts: Vec<Doubt>,
    jobs: Vec<Option<Job>>,
    free: Vec<u32>,
    in_flight: u32,
    bounces: Arena,
    free_bounces: Vec<u32>,
    zeros: Arena,
    /// Read-modify-write chunks in flight or waiting. While there are none, no conflicts are possible and no ranges are
    /// listed.
    exclusive: u32,
    locks: Locks,
    /// The number of the next chunk that changes data.
    numbers: u64,
    /// Jobs whose next chunk waits for a bounce buffer.
    short: VecDeque<u32>,
    /// Flushes that are not reported yet, in the order in which they began. The engine bounds their number.
    flushes: Vec<Flushing>,
    faults: Faults,
    outages: Outages,
    /// The number behind the last device, for one that is to take the place of another; see [`Disks::succeed`].
    spare: usize,
    /// Devices that have changed places since the kernel was notified.
    exchanged: Option<(DeviceId, DeviceId)>,
    /// The device that had data before, if one had.
    divided: Option<Divided>,
    now: Nanos,
    /// How long the operations of each device took, if that is to be measured.
    measured: Vec<DeviceFigures>,
    /// Commands for the kernel that have not been taken yet.
    pub(crate) raw: Vec<Raw>,
    /// Results for the engine that have not been taken yet.
    pub(crate) finished: Vec<(IoId, Result<(), DeviceError>)>,
    /// The result of the server's own operation.
    pub(crate) own_finished: Option<Result<(), DeviceError>>,
    /// The slot of the server's own operation while it is in flight.
    own: Option<u32>,
    /// Operations of the engine that touch what the server's own operation touches, or flush what it writes.
    behind_own: VecDeque<u32>,
    /// Devices with a failed flush that the server requested and that was not yet reported to the engine, one bit each.
    unreported: u32,
    /// Failures that have not been reported as events yet.
    pub(crate) failures: Vec<Failure>,
    /// Devices that have vanished, one bit each.
    pub(crate) vanished: u32,
    /// Flushes that have failed, of any device.
    failed_flushes: u64,
    pub(crate) rests: Rests,
}

impl Disks {
    /// Has one place more than there are devices.
    pub(crate) fn new(mut abilities: Vec<Ability>) -> io::Result<Disks> {
        let spare = abilities.len();
        abilities.push(Ability::absent());
        Ok(Disks {
            spare,
            exchanged: None,
            health: vec![Health::default(); abilities.len()],
            doubts: vec![Doubt::None; abilities.len()],
            rests: Rests::new(abilities.len()),
            faults: Faults::default(),
            outages: Outages::new(spare)?,
            divided: None,
            abilities,
            jobs: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            bounces: Arena::new((u64::from(BOUNCES) * BOUNCE) as usize)?,
            free_bounces: (0..BOUNCES).rev().collect(),
            zeros: Arena::new(ZEROS as usize)?,
            exclusive: 0,
            locks: Locks::default(),
            numbers: 0,
            short: VecDeque::new(),
            flushes: Vec::new(),
            now: Nanos::ZERO,
            measured: Vec::new(),
            raw: Vec::new(),
            finished: Vec::new(),
            own_finished: None,
            own: None,
            behind_own: VecDeque::new(),
            unreported: 0,
            failures: Vec::new(),
            vanished: 0,
            failed_flushes: 0,
        })
    }

    /// Memory that kernel commands will use often.
    pub(crate) fn arenas(&self) -> [&Arena; 2] {
        [&self.bounces, &self.zeros]
    }

    /// How many flushes have failed so far, of any device.
    pub(crate) fn failed_flushes(&self) -> u64 {
        self.failed_flushes
    }

    pub(crate) fn health(&self) -> &[Health] {
        &self.health
    }

    /// Ends all doubts: the volume was opened again, and recovery used durable data only.
    pub(crate) fn trust(&mut self) {
        self.doubts.fill(Doubt::None);
    }

    /// For each device, whether acknowledged data may be lost.
    pub(crate) fn doubts(&self) -> &[Doubt] {
        &self.doubts[..self.spare]
    }

    /// Adds a device that is to take the place of another one.
    pub(crate) fn add_spare(&mut self, ability: Ability) {
        self.abilities[self.spare] = ability;
        self.health[self.spare] = Health::default();
    }

    /// Another device has this number now, or the same one after it was away; `None`: there is none. Nothing is in flight on it.
    pub(crate) fn set_device(&mut self, device: DeviceId, ability: Option<Ability>) {
        let index = device.index();
        self.health[index] = Health::default();
        self.doubts[index] = Doubt::None;
        self.vanished &= !(1 << index);
        // Drills were for the device before.
        self.faults.forget(device);
        self.faults.set_absent(index, ability.is_none());
        self.abilities[index] = ability.unwrap_or_else(Ability::absent);
        self.outages.end_all_of(index);
    }

    /// The devices that have changed places, once, for the kernel to be notified before anything else.
    pub(crate) fn take_exchanged(&mut self) -> Option<(DeviceId, DeviceId)> {
        self.exchanged.take()
    }

    /// Sets the time; what is due is started by [`Disks::tick`].
    #[inline]
    pub(crate) fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    pub(crate) fn faults_mut(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// Sets the time and starts delayed commands that are due. Returns when the next one is due.
    pub(crate) fn tick(&mut self, now: Nanos) -> Option<Nanos> {
        self.now = now;
        while let Some(slot) = self.faults.due(now) {
            self.next_chunk(slot);
        }
        if self.outages_due().is_some() {
            self.tick_outages();
        }
        self.next_due()
    }

    /// Ends all drills; delayed commands continue now.
    pub(crate) fn heal(&mut self) {
        self.faults.clear();
        self.tick(self.now);
    }

    /// Ends all delays because the volume is about to be closed.
    pub(crate) fn end_drills(&mut self) {
        self.faults.end_lags();
        self.tick(self.now);
    }

    /// When the next command is due that a drill delays, or that waits for a device.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        [self.faults.next_due(), self.outages_due()].into_iter().flatten().min()
    }

    /// The device of a command, if the kernel's answer means that it failed, or that it was flushed. A flush succeeds also after the
    /// device was cut off, and writes make a file longer again.
    pub(crate) fn device_in_question(&self, slot: u32, result: i32) -> Option<DeviceId> {
        let job = self.jobs[slot as usize].as_ref().expect("the kernel answers what it was asked");
        let asks = matches!(job.chunk.ask(), Ask::Read | Ask::Write | Ask::Sync);
        (result < 0 || result == 0 && asks).then(|| self.asked(slot))
    }

    /// Handles the kernel's answer: the number of bytes transferred, or a negative error number.
    pub(crate) fn answered(&mut self, slot: u32, result: i32) {
        let asked = self.asked(slot);
        let job = self.jobs[slot as usize].as_mut().expect("the kernel answers what it was asked");
        let (ask, at, len, _) = job.raw(&self.bounces, &self.zeros);
        let transferred = u64::try_from(result).unwrap_or(0).min(len);
        match ask {
            Ask::Read => self.abilities[asked.index()].wear.read(at, transferred),
            Ask::Write => self.abilities[asked.index()].wear.wrote(at, transferred),
            // The device stores zeroes, whoever makes them. What it may give up programs nothing.
            Ask::ZeroRange if result >= 0 => self.abilities[asked.index()].wear.wrote(at, len),
            Ask::Sync | Ask::Punch | Ask::ZeroRange => {}
        }
        let transfers = matches!(ask, Ask::Read | Ask::Write);
        match result {
            0 if transfers => return self.failed(slot, libc::EIO),
            result if result < 0 => return self.failed(slot, -result),
            _ if transfers => {
                let block = self.abilities[job.operation.device.index()].block;
                if transferred < len && transferred < block {
                    return self.failed(slot, libc::EIO);
                }
                // A transfer that stops within a block continues from the block's start.
                job.moved += if transferred < len { transferred - transferred % block } else { transferred };
                if transferred < len {
                    return self.issue(slot);
                }
            }
            _ => {}
        }
        let device = job.operation.device;
        self.works(device, ask);
        self.step(slot);
    }

    /// The drives of a device were put into standby: it has stopped, and starts again when it is used.
    pub(crate) fn rested(&mut self, device: DeviceId) {
        if self.rests.rested(self.now, device) {
            self.abilities[device.index()].wear.stopped();
        }
    }

    /// Ends a job whose result no one waits for.
    fn finish_quietly(&mut self, slot: u32) {
        self.end_chunk(slot);
        self.jobs[slot as usize] = None;
        self.free.push(slot);
        self.in_flight -= 1;
    }

    /// Reports a failed operation to the engine, and as an event.
    fn give_up(&mut self, slot: u32, operation: Operation, error: String) {
        self.note_error(operation, error);
        self.finish(slot, Err(DeviceError));
    }

    /// Counts a failed operation, and keeps it to be reported as an event.
    fn note_error(&mut self, operation: Operation, error: String) {
        let health = &mut self.health[operation.device.index()];
        health.errors += 1;
        health.failed_flushes += u64::from(operation.action == Action::Flush);
        self.failed_flushes += u64::from(operation.action == Action::Flush);
        health.last_error = Some(error.clone());
        if self.failures.len() < MOST_FAILURES {
            self.failures.push(Failure { operation, error });
        }
    }

    /// Ends a job and reports its result.
    fn finish(&mut self, slot: u32, result: Result<(), DeviceError>) {
        if self.outages.take_probe(slot) {
            let device = self.jobs[slot as usize].as_ref().expect("a probe ends once").operation.device;
            self.probe_ended(device, result.is_ok());
            return self.finish_quietly(slot);
        }
        let is_flush = self.jobs[slot as usize].as_ref().is_some_and(|job| job.operation.action == Action::Flush);
        let ended = if is_flush { self.flush_ends(slot, result) } else { Some(result) };
        let Some(result) = ended else { return };
        self.end_chunk(slot);
        let job = self.jobs[slot as usize].take().expect("a job finishes once");
        self.outages.forget(slot, job.operation.device);
        if is_flush {
            let doubt = &mut self.doubts[job.operation.device.index()];
            *doubt = match *doubt {
                Doubt::Lasting => Doubt::Lasting,
                _ if result.is_ok() => Doubt::None,
                _ => Doubt::UntilFlushed,
            };
        }
        self.note_time(&job, result.is_ok());
        self.free.push(slot);
        self.in_flight -= 1;
        if self.own == Some(slot) {
            self.unreported |= u32::from(is_flush && result.is_err()) << job.operation.device.index();
            self.own = None;
            self.own_finished = Some(result);
            for slot in std::mem::take(&mut self.behind_own) {
                self.begin_operation(slot);
            }
        } else {
            self.finished.push((job.operation.io, result));
        }
        if is_flush && let Some(next) = self.flush_to_report() {
            self.finish(next, Ok(()));
        }
    }

    /// Starts an operation of the server's own, one at a time. Its result will be in `own_finished`.
    pub(crate) fn start_own(&mut self, operation: Operation) {
        debug_assert!(self.own.is_none() && self.own_finished.is_none(), "one at a time");
        let slot = self.add(operation);
        self.own = Some(slot);
        self.begin_operation(slot);
    }

    /// Starts an operation unless a fault affects it.
    #[inline]
    fn begin_operation(&mut self, slot: u32) {
        let operation = self.jobs[slot as usize].as_ref().expect("it was added").operation;
        let device = operation.device.index();
        if operation.action == Action::Flush && self.unreported >> device & 1 == 1 && self.own != Some(slot) {
            // The kernel reports a lost write-back once, and it has reported this one to the server's own flush.
            self.unreported &= !(1 << device);
            return self.give_up(slot, operation, "a flush before this one failed".to_owned());
        }
        let own = self.faults.effect(&operation);
        let effect = if own.is_none() { self.effect_at_home(&operation) } else { own };
        if own.is_none() && effect == Some(Effect::Gone) {
            return self.home_vanished(slot, operation);
        }
        match effect {
            // These two take effect when the command is issued to the kernel.
            None | Some(Effect::Outage | Effect::Full) => self.next_chunk(slot),
            Some(Effect::Fail) => {
                let error = "a failure that was asked for";
                self.note_failure(&operation, error);
                self.give_up(slot, operation, error.to_owned());
            }
            Some(Effect::Gone) => self.failed(slot, libc::ENXIO),
            Some(Effect::Lag { lag_us }) => {
                let lag = Nanos(lag_us.saturating_mul(1000));
                self.faults.hold(slot, self.now.saturating_add(lag));
            }
        }
    }

    fn add(&mut self, operation: Operation) -> u32 {
        let job = Job::new(operation, self.now);
        self.in_flight += 1;
        self.rests.wake(self.now, operation.device);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() as u32 - 1
        });
        self.jobs[slot as usize] = Some(job);
        if operation.action == Action::Flush {
            self.flush_begins(slot, operation.device);
        }
        slot
    }

    /// Whether an operation of the engine must wait for the server's own one, which writes the same blocks.
    fn meets_own(&self, operation: &Operation) -> bool {
        let Some(own) = self.own.and_then(|own| self.jobs[own as usize].as_ref()) else { return false };
        let own = &own.operation;
        let writes = !matches!(operation.action, Action::Read | Action::Flush);
        let overlaps = operation.at < own.at + own.len && own.at < operation.at + operation.len;
        writes && own.action == Action::Write && own.device == operation.device && overlaps
    }

    /// Continues a job whose kernel command is done: with the next command of its chunk, or with the next chunk.
    fn step(&mut self, slot: u32) {
        let job = self.jobs[slot as usize].as_mut().expect("a job that is stepped exists");
        job.moved = 0;
        (job.attempts, job.interruptions) = (0, 0);
        if let Chunk::Bounced { from, to, begin, end, block, stage } = job.chunk {
            let bounce = job.bounce.expect("a bounced chunk in flight has a buffer");
            let inner = self.bounces.at((u64::from(bounce) * BOUNCE + begin - from) as usize);
            let len = (end - begin) as usize;
            let data = job.memory_at(job.done, &self.zeros);
            let next = match stage {
                Stage::Read => {
                    // SAFETY: the bounce buffer is this job's, and the operation's memory is its too; both have `len`
                    // bytes there, and no command on them is in flight.
                    unsafe { data.slice_mut(len).copy_from_slice(inner.slice(len)) };
                    None
                }
                Stage::Head => Some(Chunk::after_head(from, to, end, block)),
                Stage::Tail => Some(Stage::Write),
                Stage::Write => None,
            };
            if next == Some(Stage::Write) {
                // SAFETY: as above.
                unsafe { inner.slice_mut(len).copy_from_slice(data.slice(len)) };
            }
            if let Some(stage) = next {
                job.chunk = Chunk::Bounced { from, to, begin, end, block, stage };
                return self.issue(slot);
            }
        }
        if job.chunk == Chunk::Flush && self.has_home_to_flush(slot) {
            return self.flush_home(slot);
        }
        let job = self.jobs[slot as usize].as_mut().expect("a job that is stepped exists");
        job.done += job.chunk.advances();
        if job.done >= job.operation.len {
            return self.finish(slot, Ok(()));
        }
        self.next_chunk(slot);
    }

    /// Plans the next chunk of a job and starts it unless it must wait.
    fn next_chunk(&mut self, slot: u32) {
        self.end_chunk(slot);
        let Some(chunk) = self.plan(slot) else { return self.finish(slot, Ok(())) };
        let job = self.jobs[slot as usize].as_mut().expect("a job that goes on exists");
        job.chunk = chunk;
        job.moved = 0;
        self.numbers += 1;
        let device = job.operation.device.0;
        let exclusive = chunk.is_exclusive();
        let range = chunk.changes().map(|(from, to)| Range { device, from, to, exclusive, number: self.numbers });
        job.range = range;
        if exclusive {
            self.exclusive += 1;
            if self.exclusive == 1 {
                self.list_ranges(slot);
            }
        }
        if self.exclusive > 0
            && let Some(range) = range
        {
            self.locks.insert(range, slot);
        }
        self.begin_if_free(slot);
    }

    /// Starts to track conflicts: lists the ranges of all chunks in flight except this job's.
    fn list_ranges(&mut self, but: u32) {
        for (slot, job) in self.jobs.iter().enumerate() {
            if slot as u32 != but
                && let Some(range) = job.as_ref().and_then(|job| job.range)
            {
                self.locks.insert(range, slot as u32);
            }
        }
    }

    /// Ends the job's chunk and releases its blocks and its bounce buffer.
    fn end_chunk(&mut self, slot: u32) {
        let job = self.jobs[slot as usize].as_mut().expect("a job whose chunk ends exists");
        if let Some(bounce) = job.bounce.take() {
            self.free_bounces.push(bounce);
        }
        if let Some(range) = job.range.take()
            && self.exclusive > 0
        {
            self.locks.remove(&range);
            self.exclusive -= u32::from(range.exclusive);
            if self.exclusive == 0 {
                self.locks.clear();
            }
        }
        for waiter in std::mem::take(&mut job.waiters) {
            self.begin_if_free(waiter);
        }
        self.feed_short();
    }

    /// Begins what waited for a bounce buffer, as far as there are some.
    fn feed_short(&mut self) {
        while !self.short.is_empty() && !self.free_bounces.is_empty() {
            let slot = self.short.pop_front().expect("there is one");
            self.begin(slot);
        }
    }

    /// Starts the planned chunk unless an earlier one has to end first or no bounce buffer is free.
    fn begin_if_free(&mut self, slot: u32) {
        let job = self.jobs[slot as usize].as_ref().expect("a job that begins exists");
        let blocker = job.range.filter(|_| self.exclusive > 0).and_then(|range| self.locks.blocker(&range));
        if let Some(blocker) = blocker {
            let blocker = self.jobs[blocker as usize].as_mut().expect("a job that is listed exists");
            blocker.waiters.push(slot);
        } else if job.chunk.bounces() && (self.free_bounces.is_empty() || !self.short.is_empty()) {
            self.short.push_back(slot);
        } else {
            self.begin(slot);
        }
    }

    /// Gives the chunk its bounce buffer and issues its first command.
    fn begin(&mut self, slot: u32) {
        if self.is_held(slot) {
            return;
        }
        let job = self.jobs[slot as usize].as_mut().expect("a job that begins exists");
        if let Chunk::Bounced { from, begin, end, stage, .. } = job.chunk {
            let bounce = self.free_bounces.pop().expect("a chunk begins when there is a buffer for it");
            job.bounce = Some(bounce);
            if stage == Stage::Write {
                // Whole blocks whose memory the device cannot use directly.
                let inner = self.bounces.at((u64::from(bounce) * BOUNCE + begin - from) as usize);
                let (data, len) = (job.memory_at(job.done, &self.zeros), (end - begin) as usize);
                // SAFETY: the bounce buffer is free, the operation's memory is its own.
                unsafe { inner.slice_mut(len).copy_from_slice(data.slice(len)) };
            }
        }
        self.issue(slot);
    }

    /// Issues the kernel command that the chunk needs next, from where the last one stopped.
    #[inline]
    fn issue(&mut self, slot: u32) {
        if self.is_held(slot) {
            return;
        }
        if let Some(errno) = self.refusal(slot) {
            return self.refused(slot, errno);
        }
        let job = self.jobs[slot as usize].as_ref().expect("a job that is issued exists");
        let (ask, at, len, memory) = job.raw(&self.bounces, &self.zeros);
        let Some((device, at)) = self.target(slot, at) else { return self.failed(slot, libc::ENODATA) };
        self.raw.push(Raw { slot, device, ask, at, len, memory });
    }
}

impl Backend for Disks {
    #[inline]
    fn start(&mut self, operation: Operation) {
        let slot = self.add(operation);
        if self.own.is_some() && self.meets_own(&operation) {
            return self.behind_own.push_back(slot);
        }
        self.begin_operation(slot);
    }

    fn standby(&mut self, device: DeviceId) {
        self.rests.ask(device);
    }

    fn succeed(&mut self, device: DeviceId, successor: DeviceId) {
        debug_assert_eq!(successor.index(), self.spare, "there is one place for a successor");
        self.abilities.swap(device.index(), successor.index());
        self.health.swap(device.index(), successor.index());
        // Drills were for the old device. What waits for it goes on with the next try, which reaches the new one.
        self.faults.forget(device);
        self.exchanged = Some((device, successor));
    }
}

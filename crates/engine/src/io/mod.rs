//! What every placement needs: host requests in flight, commands in flight, the health and flush state of the devices,
//! and the clock. This module has no knowledge of placements; a [`Step`] of the placement says what a command is for.

mod aside;
mod commands;
mod devices;
mod requests;
pub(crate) mod slab;

use std::ops::{Deref, DerefMut};

use peryton_format::{
    block::BLOCK,
    mutation::{self, Mutation},
};
use peryton_policy::ResponseTimes;
use peryton_units::{Bytes, Nanos, Op};

pub(crate) use commands::{InFlight, Purpose, Step};
pub(crate) use requests::RequestIndex;

use crate::{
    api::command::{Buffer, Cause, Command, Commands, DeviceId, IoId, Power, RequestId},
    api::config::Tuning,
    api::error::RequestError,
    api::excuses::{Excuse, Excuses},
    api::stats::Stats,
};
use commands::Table;
pub(crate) use devices::Verdict;
use devices::{Device, MOST_FAILURES, MOST_STRIKES, PATIENCE};
use requests::Requests;

/// A device that would rest if nothing were overdue is looked at again after this long at the earliest.
const OVERDUE_AGAIN: Nanos = Nanos::from_ms(100);

/// The pause after a commit, a checkpoint or a superblock that could not be written. Host flushes wait through it; a device
/// that keeps failing is fenced soon.
const RETRY: Nanos = Nanos::from_ms(250);

#[derive(Debug)]
pub(crate) struct Io<S> {
    pub(crate) tuning: Tuning,
    pub(crate) stats: Stats,
    requests: Requests,
    commands: Table<S>,
    devices: Vec<Device>,
    /// The fenced devices, one bit each. They get no commands, and what they still complete counts as failed.
    pub(crate) fenced: u32,
    pub(crate) excuses: Excuses,
    /// Devices on which nothing becomes durable for now, one bit each.
    pub(crate) refusing: u32,
    /// Whether a device was fenced and the superblocks do not say so durably yet.
    pub(crate) fencing: bool,
    /// The fenced devices of which the superblocks of a survivor say so durably, one bit each.
    pub(crate) recorded: u32,
    /// Whether answered data may be lost with a fenced device. The host's next flush then fails.
    pub(crate) owes_error: bool,
    /// How often it has come to that.
    pub(crate) errors_owed: u64,
    /// Whether a flush of a device has failed, and the data that it should have covered have neither been written again nor
    /// reported to the host as lost.
    pub(crate) in_doubt: bool,
    /// The same as long as the map has yet to be rolled back, whatever the host is told meanwhile.
    pub(crate) rolls_back: bool,
    /// Devices that hold only copies of data that other devices hold too, one bit each: if they fail a flush, no data of the
    /// host are lost.
    pub(crate) redundant_devices: u32,
    /// A log has stopped: data are in doubt until the volume is opened again.
    pub(crate) stopped: bool,
    /// The time of the call that is being served: the latest that any call has named.
    pub(crate) now: Nanos,
    /// A time not later than the next timer.
    deadline: Nanos,
    /// How far this clock is ahead of the driver's: it goes on from an earlier process.
    ahead: Nanos,
    /// `ahead` is set at the next tick.
    pub(crate) continues: bool,
    /// Nothing that can wait is begun, so that the drive becomes idle.
    pub(crate) rests: bool,
}

impl<S: Step> Io<S> {
    pub(crate) fn new(devices: usize, tuning: Tuning) -> Io<S> {
        Io {
            tuning,
            stats: Stats::new(devices),
            requests: Requests::new(),
            commands: Table::new(),
            devices: vec![Device::default(); devices],
            fenced: 0,
            excuses: Excuses::default(),
            refusing: 0,
            fencing: false,
            recorded: 0,
            owes_error: false,
            errors_owed: 0,
            in_doubt: false,
            rolls_back: false,
            redundant_devices: 0,
            stopped: false,
            now: Nanos::ZERO,
            deadline: Nanos::ZERO,
            ahead: Nanos::ZERO,
            continues: false,
            rests: false,
        }
    }

    /// The call that is being served: it asks for commands behind those in `out`.
    #[inline(always)]
    pub(crate) fn call<'a>(&'a mut self, out: &'a mut Commands) -> Call<'a, S> {
        Call { io: self, out }
    }

    /// Sets the time of the current call. Time never goes back: an earlier time counts as the latest so far.
    #[inline(always)]
    pub(crate) fn advance(&mut self, now: Nanos) -> Nanos {
        self.now = self.now.max(self.at(now));
        self.now
    }

    /// The time here at a time of the driver's.
    #[inline(always)]
    pub(crate) fn at(&self, now: Nanos) -> Nanos {
        now.saturating_add(self.ahead)
    }

    /// The time of the driver at a time here.
    #[inline(always)]
    pub(crate) fn of_driver(&self, time: Nanos) -> Nanos {
        time.saturating_sub(self.ahead)
    }

    /// The clock goes on from this time, whatever the driver's clock says at its first tick: what happened before is as long ago as
    /// it was then.
    pub(crate) fn continue_from(&mut self, now: Nanos) {
        (self.now, self.continues) = (self.now.max(now), true);
        self.devices.iter_mut().for_each(|state| state.idle_since = state.idle_since.max(now));
    }

    /// The first tick after [`Io::continue_from`].
    #[cold]
    pub(crate) fn set_ahead(&mut self, now: Nanos) {
        self.continues = false;
        self.ahead = self.now.saturating_sub(now);
    }

    // Host requests.

    /// Registers a request with one part. The caller ends that part ([`Call::part_done`]) after it has split the request.
    #[inline]
    pub(crate) fn begin(&mut self, id: RequestId, op: Op) -> RequestIndex {
        self.requests.begin(self.now, id, op)
    }

    #[inline]
    pub(crate) fn add_part(&mut self, request: RequestIndex) {
        self.requests.add_part(request);
    }

    #[inline]
    pub(crate) fn id_of(&self, request: RequestIndex) -> RequestId {
        self.requests.id_of(request)
    }

    /// A request has failed, or a write was answered of which a part may be lost.
    #[cold]
    fn answered_badly(&mut self) {
        if self.requests.take_answered_in_doubt() {
            self.owe_error();
        } else {
            self.stats.failed_requests += 1;
        }
    }

    /// Lets [`Io::next_answered`] report the requests that are answered from now on.
    pub(crate) fn report_answers(&mut self) {
        self.requests.reports_answers = true;
    }

    #[inline]
    pub(crate) fn reports_answers(&self) -> bool {
        self.requests.reports_answers
    }

    pub(crate) fn next_answered(&mut self) -> Option<RequestIndex> {
        self.requests.next_answered()
    }

    /// The response times since they were last cleared; recording starts with the first call.
    pub(crate) fn responses_mut(&mut self) -> &mut ResponseTimes {
        self.requests.responses_mut()
    }

    /// The response times of the host since they were last cleared, for the cleaning of a cache; recording starts with the
    /// first call.
    pub(crate) fn foreground(&mut self) -> &mut ResponseTimes {
        self.requests.foreground()
    }

    /// Whether no host request is in flight.
    pub(crate) fn is_idle_for_host(&self) -> bool {
        self.requests.len() == 0
    }

    // Commands.

    #[inline(always)]
    fn start(
        &mut self,
        purpose: Purpose<S>,
        op: Op,
        (device, at): (DeviceId, Bytes),
        len: Bytes,
        buffer: Buffer,
        cause: Cause,
    ) -> IoId {
        let state = &mut self.devices[device.index()];
        state.in_flight += 1;
        state.standby = false;
        let (began, zeroes, again) = (self.now, false, false);
        let command = InFlight { purpose, device, op, at, len, buffer, began, cause, zeroes, again };
        state.demotion_writes += u32::from(command.leaves());
        self.commands.insert(command)
    }

    /// Returns the command with this id if it is in flight.
    #[inline(always)]
    pub(crate) fn in_flight(&self, id: IoId) -> Option<&InFlight<S>> {
        self.commands.get(id)
    }

    /// Returns the id of the command in flight with this index.
    pub(crate) fn id_at(&self, index: usize) -> Option<IoId> {
        self.commands.id_at(index)
    }

    /// Whether a command other than a demotion's or a write-back's completed on the device since its last flush began.
    pub(crate) fn is_unflushed_by_host(&self, device: DeviceId) -> bool {
        self.devices[device.index()].unflushed
    }

    /// Removes a completed command from the table. It must be in flight: see [`Io::in_flight`].
    #[inline(always)]
    pub(crate) fn finish(&mut self, id: IoId, command: &InFlight<S>, failed: bool) {
        self.commands.remove(id);
        let state = &mut self.devices[command.device.index()];
        state.in_flight -= 1;
        state.demotion_writes -= u32::from(command.leaves());
        if let Op::Read | Op::Write = command.op {
            state.measure(command.op as usize, command.took(self.now));
        }
        match command.op {
            Op::Read => {}
            // Commits and checkpoints flush their own writes.
            Op::Write if command.purpose.flushes_itself() => {}
            Op::Write if command.leaves() => state.unflushed_moves = true,
            Op::Write | Op::Discard => state.unflushed = true,
            Op::Flush if !failed => state.flushed = state.flushed.max(command.at.0),
            // A failed flush covers nothing.
            Op::Flush => {
                let is_redundant = self.redundant_devices >> command.device.index() & 1 == 1;
                let fenced = self.fenced >> command.device.index() & 1 == 1;
                if !fenced && !is_redundant && !mutation::is(Mutation::ForgetWritesInFlight) {
                    self.requests.flush_failed();
                }
                state.unflushed |= state.host_flush > state.flushed;
                state.host_doubt |= state.unflushed && !is_redundant;
                state.unflushed_moves = true;
            }
        }
        if failed {
            self.stats.devices[command.device.index()].errors += 1;
            state.count_failure(self.now, command.purpose.is_metadata());
        } else if state.failures > 0 {
            state.failures = 0;
        }
        if state.in_flight == 0 {
            self.becomes_idle(command.device);
        }
    }

    /// Does what [`Io::finish`] does for a read, write or discard of the host that succeeded, without a copy of its row.
    #[inline(always)]
    pub(crate) fn finish_plain(&mut self, id: IoId) {
        let command = self.commands.remove(id);
        debug_assert!(command.op != Op::Flush && !command.leaves());
        let device = command.device;
        let state = &mut self.devices[device.index()];
        state.in_flight -= 1;
        if let Op::Read | Op::Write = command.op {
            state.measure(command.op as usize, command.took(self.now));
        }
        state.unflushed |= command.op != Op::Read;
        state.failures = 0;
        if state.in_flight == 0 {
            self.becomes_idle(device);
        }
    }

    /// Nothing is in flight on the device any more.
    #[inline(always)]
    fn becomes_idle(&mut self, device: DeviceId) {
        self.devices[device.index()].idle_since = self.now;
        if let Some(Some(after)) = self.tuning.spin_down_after.get(device.index()) {
            let due = self.now.saturating_add(*after);
            self.due(due);
        }
    }

    /// Whether commands are in flight on the device that do not move data off the fast device.
    pub(crate) fn is_busy_for_host(&self, device: DeviceId) -> bool {
        let state = &self.devices[device.index()];
        state.in_flight > state.demotion_writes
    }

    /// Whether the device was put to standby.
    pub(crate) fn sleeps(&self, device: DeviceId) -> bool {
        self.devices[device.index()].standby
    }

    // Flushes that fail.

    /// A number that shows later whether the commands that have completed on the device by now are durable.
    pub(crate) fn stamp(&self, device: DeviceId) -> u64 {
        self.devices[device.index()].flushes
    }

    /// Whether the commands that had completed on the device when this stamp was taken are durable.
    pub(crate) fn is_flushed(&self, device: DeviceId, stamp: u64) -> bool {
        self.devices[device.index()].flushed > stamp
    }

    /// Whether a flush of the device has failed that should have made data of the host durable. Returns true once for each.
    #[cold]
    pub(crate) fn take_host_doubt(&mut self, device: DeviceId) -> bool {
        std::mem::take(&mut self.devices[device.index()].host_doubt)
    }

    /// The number of the host's writes and discards that were answered.
    pub(crate) fn changes_answered(&self) -> u64 {
        self.requests.changes_answered
    }

    /// Counts a change that was answered when memory had it, because a device has it now.
    pub(crate) fn count_change(&mut self) {
        self.requests.changes_answered += 1;
    }

    /// Whether a command is in flight that reads or writes data.
    #[cold]
    pub(crate) fn has_data_in_flight(&self) -> bool {
        let moves = |purpose| matches!(purpose, Purpose::Step(step) if !S::is_encoded(&step));
        self.commands.ids().any(|id| self.commands.get(id).is_some_and(|command| moves(command.purpose)))
    }

    /// Whether a flush has failed and the host has not been notified of the data lost with it.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt || self.rolls_back || self.stopped || self.requests.is_in_doubt()
    }

    /// A flush of the device has failed. It may have lost writes that it had carried out and had yet to complete, so they are carried
    /// out again when they complete. Metadata is not: the commit that it belongs to is abandoned.
    #[cold]
    pub(crate) fn write_again_later(&mut self, device: DeviceId) {
        let of_placement = |purpose| matches!(purpose, Purpose::Step(step) if !S::is_encoded(&step));
        for command in self.commands.all_mut().filter(|command| command.device == device) {
            command.again = matches!(command.op, Op::Write | Op::Discard) && of_placement(command.purpose);
        }
    }

    /// Whether the flush of the host that arrives now has to fail. If so, its failure counts as reported.
    pub(crate) fn takes_error(&mut self) -> bool {
        let fails = self.owes_error;
        if fails {
            self.error_reported();
        }
        fails
    }

    /// Makes the next flush of the host fail, because data of the host may be lost.
    #[cold]
    pub(crate) fn owe_error(&mut self) {
        self.in_doubt = true;
        self.owe_error_of_fenced();
    }

    /// The same where a device was fenced: that it has failed is known, and nothing is in doubt.
    #[cold]
    pub(crate) fn owe_error_of_fenced(&mut self) {
        self.owes_error = true;
        self.errors_owed += 1;
    }

    /// Notes that a flush of the host fails, which notifies the host of the data that may be lost.
    #[cold]
    pub(crate) fn error_reported(&mut self) {
        (self.owes_error, self.in_doubt) = (false, false);
    }

    /// The mean time that recent reads and writes of a device took.
    pub(crate) fn latency(&self, device: DeviceId) -> [Nanos; 2] {
        self.devices[device.index()].latency
    }

    // Failing devices.

    #[inline]
    pub(crate) fn is_fenced(&self, device: DeviceId) -> bool {
        self.fenced >> device.index() & 1 == 1
    }

    /// Stops sending commands to the device.
    pub(crate) fn fence(&mut self, device: DeviceId) {
        self.fenced |= 1 << device.index();
    }

    /// Resets the count of failed metadata commands, because a commit or checkpoint is durable on all its devices.
    pub(crate) fn on_durable(&mut self) {
        self.devices.iter_mut().for_each(|state| state.strikes = 0);
        self.refusing = 0;
    }

    /// Whether the device refuses writes, and can be read.
    pub(crate) fn is_refusing(&self, device: DeviceId) -> bool {
        self.refusing & !self.fenced & 1 << device.index() != 0 && self.excuses.of(device) == Some(Excuse::TakesReads)
    }

    /// Handles the successful completion of a probe.
    #[cold]
    pub(crate) fn answered_probe(&mut self, device: DeviceId) {
        self.devices[device.index()].probed = false;
    }

    // Timers.

    /// Asks for a call of `tick` at `time` at the latest.
    #[inline]
    pub(crate) fn due(&mut self, time: Nanos) {
        self.deadline = self.deadline.min(time);
    }

    /// The same, so long after now.
    #[inline]
    pub(crate) fn due_in(&mut self, span: Nanos) {
        self.due(self.now.saturating_add(span));
    }

    /// When metadata that could not be written is written again. Asks to be called then.
    #[cold]
    pub(crate) fn retries_at(&mut self) -> Nanos {
        self.due_in(RETRY);
        self.now.saturating_add(RETRY)
    }

    pub(crate) fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// Forgets the deadline; the timers of the caller then set it again.
    pub(crate) fn clear_deadline(&mut self) {
        self.deadline = Nanos::MAX;
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.requests.len() == 0 && self.commands.len() == 0
    }
}

/// A call of the driver: the state of I/O, and the commands that are asked for in the call.
#[derive(Debug)]
pub(crate) struct Call<'a, S> {
    io: &'a mut Io<S>,
    pub(crate) out: &'a mut Commands,
}

impl<S> Deref for Call<'_, S> {
    type Target = Io<S>;

    #[inline(always)]
    fn deref(&self) -> &Io<S> {
        self.io
    }
}

impl<S> DerefMut for Call<'_, S> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Io<S> {
        self.io
    }
}

impl<S: Step> Call<'_, S> {
    /// Ends a part of the request; the last one sends the reply.
    #[inline]
    pub(crate) fn part_done(&mut self, request: RequestIndex, result: Result<(), RequestError>) {
        let Call { io, out } = self;
        if io.requests.part_done(io.now, request, result, out) {
            io.answered_badly();
        }
    }

    /// A part of the request has failed; says whether that answered the request.
    #[cold]
    pub(crate) fn part_failed(&mut self, request: RequestIndex) -> bool {
        let before = self.stats.failed_requests;
        self.part_done(request, Err(RequestError::Device));
        self.stats.failed_requests > before
    }

    #[inline(always)]
    pub(crate) fn read(&mut self, (device, at): (DeviceId, Bytes), len: Bytes, buffer: Buffer, step: S, cause: Cause) {
        self.stats.read(device, len, cause);
        let io = self.start(Purpose::Step(step), Op::Read, (device, at), len, buffer, cause);
        self.out.push(Command::Read { io, device, at, len, buffer, cause });
    }

    #[inline(always)]
    pub(crate) fn write(&mut self, place: (DeviceId, Bytes), len: Bytes, buffer: Buffer, step: S, cause: Cause) {
        self.write_for(place, len, buffer, Purpose::Step(step), cause);
    }

    /// Writes a copy of a superblock, for fencing or a succession.
    pub(crate) fn write_superblock(&mut self, place: (DeviceId, Bytes), purpose: Purpose<S>) {
        self.write_for(place, Bytes(BLOCK), Buffer::Metadata, purpose, Cause::Metadata);
    }

    #[inline(always)]
    fn write_for(
        &mut self,
        (device, at): (DeviceId, Bytes),
        len: Bytes,
        buffer: Buffer,
        purpose: Purpose<S>,
        cause: Cause,
    ) {
        self.stats.wrote(device, len, cause);
        let io = self.start(purpose, Op::Write, (device, at), len, buffer, cause);
        self.out.push(Command::Write { io, device, at, len, buffer, cause });
    }

    pub(crate) fn discard(&mut self, place: (DeviceId, Bytes), len: Bytes, step: S) {
        self.discard_for(place, len, Purpose::Step(step), false);
    }

    pub(crate) fn zero(&mut self, place: (DeviceId, Bytes), len: Bytes, step: S) {
        self.discard_for(place, len, Purpose::Step(step), true);
    }

    fn discard_for(&mut self, (device, at): (DeviceId, Bytes), len: Bytes, purpose: Purpose<S>, zeroes: bool) {
        self.stats.devices[device.index()].discards += 1;
        let io = self.start(purpose, Op::Discard, (device, at), len, Buffer::Metadata, Cause::Host);
        if zeroes {
            self.commands.get_mut(io).zeroes = true;
            self.out.push(Command::Zero { io, device, at, len });
        } else {
            self.out.push(Command::Discard { io, device, at, len });
        }
    }

    /// Flushes the device if any command completed on it since its last flush began; returns whether it did. A flush
    /// already in flight is not counted: the caller must wait for it if it needs what that flush covers.
    pub(crate) fn flush_if_needed(&mut self, device: DeviceId, step: S) -> bool {
        let state = &self.devices[device.index()];
        let needed = state.unflushed || state.unflushed_moves;
        if needed {
            self.flush(device, step);
        }
        needed
    }

    /// Flushes everything that has completed on the device so far.
    pub(crate) fn flush(&mut self, device: DeviceId, step: S) {
        // This flush does not cover commands that complete from now on.
        let state = &mut self.devices[device.index()];
        if state.unflushed {
            state.host_flush = state.flushes + 1;
        }
        (state.unflushed, state.unflushed_moves) = (false, false);
        self.flush_besides(device, step);
    }

    /// Flushes the device, but leaves it marked as unflushed.
    pub(crate) fn flush_besides(&mut self, device: DeviceId, step: S) {
        self.flush_for(device, Purpose::Step(step));
    }

    /// Flushes the device for this purpose, but leaves it marked as unflushed.
    pub(crate) fn flush_for(&mut self, device: DeviceId, purpose: Purpose<S>) {
        self.stats.devices[device.index()].flushes += 1;
        let state = &mut self.devices[device.index()];
        state.flushes += 1;
        // A flush has no place on the device, so this field holds its number.
        let number = Bytes(state.flushes);
        let io = self.start(purpose, Op::Flush, (device, number), Bytes::ZERO, Buffer::Metadata, Cause::Metadata);
        self.out.push(Command::Flush { io, device });
    }

    /// Carries out again a command that has completed.
    #[cold]
    pub(crate) fn write_again(&mut self, id: IoId, command: &InFlight<S>) {
        self.finish(id, command, false);
        let InFlight { purpose, device, op, at, len, buffer, cause, zeroes, .. } = *command;
        match op {
            Op::Write => self.write_for((device, at), len, buffer, purpose, cause),
            _ => self.discard_for((device, at), len, purpose, zeroes),
        }
    }

    /// Fails a flush of the host that waits.
    #[cold]
    pub(crate) fn flush_fails(&mut self, request: RequestIndex) {
        self.error_reported();
        self.part_done(request, Err(RequestError::Device));
    }

    /// What follows from the failure of a command. A device that fails every command is probed before it counts as dead, because an
    /// unreadable place may be just a bad sector.
    #[cold]
    pub(crate) fn verdict(&mut self, command: &InFlight<S>) -> Verdict {
        let device = command.device;
        let is_probe = command.purpose == Purpose::Probe;
        let io = &mut *self.io;
        let state = &mut io.devices[device.index()];
        state.probed &= !is_probe;
        let refuses = is_probe || command.purpose.is_metadata() && state.strikes >= MOST_STRIKES;
        let long = io.now.saturating_sub(state.failing_since) >= PATIENCE;
        if io.fenced >> device.index() & 1 == 1 {
            return Verdict::Passes;
        }
        match io.excuses.of(device) {
            Some(Excuse::MayComeBack) => return Verdict::Passes,
            Some(Excuse::LacksSpace) if command.purpose.is_metadata() => return Verdict::Refuses,
            Some(Excuse::LacksSpace) => return Verdict::Passes,
            Some(Excuse::TakesReads) if refuses => {
                io.refusing |= 1 << device.index();
                return Verdict::Refuses;
            }
            None if refuses => return Verdict::Dead,
            Some(Excuse::TakesReads) | None => {}
        }
        if state.failures >= MOST_FAILURES && long && !state.probed {
            state.probed = true;
            self.flush_for(device, Purpose::Probe);
        }
        Verdict::Passes
    }

    /// Spins idle devices down (GreenDM, section 2.4), unless dirty data are overdue.
    pub(crate) fn tick_power(&mut self, is_overdue: bool) {
        let Call { io, out } = self;
        for index in 0..io.devices.len() {
            let Some(Some(after)) = io.tuning.spin_down_after.get(index).copied() else { continue };
            let state = &mut io.devices[index];
            if state.standby || state.in_flight > 0 {
                continue;
            }
            let due = state.idle_since.saturating_add(after);
            if due <= io.now && is_overdue {
                io.due_in(after.max(OVERDUE_AGAIN));
            } else if due <= io.now {
                state.standby = true;
                io.stats.devices[index].spin_downs += 1;
                out.push(Command::Power { device: DeviceId(index as u8), state: Power::Standby });
            } else {
                io.due(due);
            }
        }
    }
}

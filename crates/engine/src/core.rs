//! What every placement needs: host requests in flight, commands in flight, the state of the devices, the ledger.

use peryton_policy::ResponseTimes;
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    command::{Buffer, Cause, Command, Commands, DeviceId, IoId, Power, RequestId},
    config::Tuning,
    error::RequestError,
    extent_map::Place,
    ledger::Ledger,
    slab::Slab,
};

/// A host request in flight.
#[derive(Clone, Copy, Debug)]
struct HostRequest {
    id: RequestId,
    began: Nanos,
    /// Parts not yet answered, and one more while the request is being split.
    parts: u32,
    error: Option<RequestError>,
}

/// The engine's own name for a host request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestIndex(pub(crate) u32);

impl RequestIndex {
    /// For tables with a row per request in flight.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What it means that a command has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Part of a host request, over `count` extents from `first` (none for placements without extents).
    Host { request: RequestIndex, first: u32, count: u32 },
    /// The same, of a write that passes the copies that the fast device has of these extents (partitioned).
    HostPast { request: RequestIndex, first: u32, count: u32 },
    /// One half of a write to both devices.
    Through { write: u32 },
    /// A step of a move.
    Move { index: u32 },
    /// A step of the commit in flight.
    Commit,
    /// A chunk of a checkpoint.
    Checkpoint,
    /// A flush of a device on a placement without metadata.
    HostFlush,
    /// The device has been told that nothing is left in this place.
    Discarded { place: Place },
    /// A flush that shows whether a device answers at all.
    Probe,
    /// A superblock that says which devices are gone.
    Burial,
    /// A step of a logging drive.
    Log(crate::logging::Step),
}

/// A command in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) purpose: Purpose,
    pub(crate) device: DeviceId,
    pub(crate) op: Op,
    pub(crate) at: Bytes,
    pub(crate) len: Bytes,
    pub(crate) buffer: Buffer,
    began: Nanos,
    /// It empties the fast device.
    leaving: bool,
}

impl InFlight {
    /// How long it has been under way.
    pub(crate) fn took(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.began)
    }
}

#[derive(Clone, Copy, Debug)]
struct DeviceState {
    in_flight: u32,
    idle_since: Nanos,
    standby: bool,
    /// Something completed that no flush has covered yet.
    unflushed: bool,
    /// The same for what demotions and write-backs wrote: the host's flush need not wait for it, because the fast device
    /// keeps the data until the map update that lets it go is durable.
    unflushed_moves: bool,
    /// Mean time of a read and of a write, the latest weighing most.
    latency: [Nanos; 2],
    /// Commands in a row that failed, and when the first of them did.
    failures: u32,
    failing_since: Nanos,
    /// A probe is in flight.
    probed: bool,
    /// Commands for metadata that failed since the last commit that was durable.
    strikes: u32,
}

/// A device that failed so many commands in a row, over so long, is probed; if that fails as well, it is dead.
const MOST_FAILURES: u32 = 16;
const PATIENCE: Nanos = Nanos::from_s(2);
/// So is one that failed so many commands for metadata with no commit between them: nothing can be made durable on it.
const MOST_STRIKES: u32 = 8;

/// The weight of the newest sample of a mean latency is 2 to the power of minus this.
const LATENCY_SHIFT: u32 = 6;

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) tuning: Tuning,
    pub(crate) ledger: Ledger,
    requests: Slab<HostRequest>,
    in_flight: Slab<InFlight>,
    devices: Vec<DeviceState>,
    /// Devices that are dead, a bit each: nothing is asked of them, and what they still answer counts as failed.
    pub(crate) dead: u32,
    /// A device has died, and it is not yet durable that it has.
    pub(crate) burying: bool,
    /// Something that was answered may be lost with a dead device: the next flush of the host says so.
    pub(crate) owes_error: bool,
    /// Requests answered since [`Core::next_answered`] was asked, where somebody wants to know.
    answered: Vec<RequestIndex>,
    pub(crate) tells_answers: bool,
    /// Where somebody judges by them.
    responses: Option<Box<ResponseTimes>>,
    /// The time of the call that is being served.
    pub(crate) now: Nanos,
    /// Never later than the next moment at which a timer is due.
    deadline: Nanos,
}

impl Core {
    pub(crate) fn new(devices: usize, tuning: Tuning) -> Core {
        let state = DeviceState {
            in_flight: 0,
            idle_since: Nanos::ZERO,
            standby: false,
            unflushed: false,
            unflushed_moves: false,
            latency: [Nanos::ZERO; 2],
            failures: 0,
            failing_since: Nanos::ZERO,
            probed: false,
            strikes: 0,
        };
        Core {
            tuning,
            ledger: Ledger::new(devices),
            requests: Slab::new(),
            in_flight: Slab::new(),
            devices: vec![state; devices],
            dead: 0,
            burying: false,
            owes_error: false,
            answered: Vec::new(),
            tells_answers: false,
            responses: None,
            now: Nanos::ZERO,
            deadline: Nanos::ZERO,
        }
    }

    // Host requests.

    /// Takes a request in with one part, which the caller gives up ([`Core::part_done`]) when it has split it.
    #[inline]
    pub(crate) fn begin(&mut self, id: RequestId) -> RequestIndex {
        RequestIndex(self.requests.insert(HostRequest { id, began: self.now, parts: 1, error: None }))
    }

    #[inline]
    pub(crate) fn add_part(&mut self, request: RequestIndex) {
        self.requests[request.0].parts += 1;
    }

    #[inline]
    pub(crate) fn id_of(&self, request: RequestIndex) -> RequestId {
        self.requests[request.0].id
    }

    /// A part of the request is answered; the last one sends the reply.
    #[inline]
    pub(crate) fn part_done(&mut self, request: RequestIndex, result: Result<(), RequestError>, out: &mut Commands) {
        let row = &mut self.requests[request.0];
        if let Err(error) = result {
            row.error.get_or_insert(error);
        }
        assert!(row.parts > 0, "a request was answered twice");
        row.parts -= 1;
        if row.parts == 0 {
            let result = row.error.map_or(Ok(()), Err);
            out.push(Command::Reply { id: row.id, result });
            self.ledger.failed_requests += u64::from(result.is_err());
            if let Some(responses) = &mut self.responses {
                responses.record(self.now.saturating_sub(row.began).0);
            }
            self.requests.remove(request.0);
            if self.tells_answers {
                self.answered.push(request);
            }
        }
    }

    pub(crate) fn next_answered(&mut self) -> Option<RequestIndex> {
        self.answered.pop()
    }

    /// The response times since they were cleared; recorded from the first call on.
    pub(crate) fn responses_mut(&mut self) -> &mut ResponseTimes {
        self.responses.get_or_insert_with(|| Box::new(ResponseTimes::new()))
    }

    /// Whether no host request is in flight.
    pub(crate) fn is_idle_for_host(&self) -> bool {
        self.requests.len() == 0
    }

    // Commands.

    #[inline(always)]
    fn start(
        &mut self,
        purpose: Purpose,
        op: Op,
        (device, at): (DeviceId, Bytes),
        len: Bytes,
        buffer: Buffer,
        leaving: bool,
    ) -> IoId {
        let state = &mut self.devices[device.index()];
        state.in_flight += 1;
        state.standby = false;
        IoId(self.in_flight.insert(InFlight { purpose, device, op, at, len, buffer, began: self.now, leaving }))
    }

    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        (device, at): (DeviceId, Bytes),
        len: Bytes,
        buffer: Buffer,
        purpose: Purpose,
        cause: Cause,
        out: &mut Commands,
    ) {
        self.ledger.read(device, len, cause);
        let io = self.start(purpose, Op::Read, (device, at), len, buffer, false);
        out.push(Command::Read { io, device, at, len, buffer, cause });
    }

    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        (device, at): (DeviceId, Bytes),
        len: Bytes,
        buffer: Buffer,
        purpose: Purpose,
        cause: Cause,
        out: &mut Commands,
    ) {
        self.ledger.wrote(device, len, cause);
        let leaving = matches!(cause, Cause::Demotion | Cause::WriteBack);
        let io = self.start(purpose, Op::Write, (device, at), len, buffer, leaving);
        out.push(Command::Write { io, device, at, len, buffer, cause });
    }

    pub(crate) fn discard(
        &mut self,
        (device, at): (DeviceId, Bytes),
        len: Bytes,
        purpose: Purpose,
        out: &mut Commands,
    ) {
        self.ledger.devices[device.index()].discards += 1;
        let io = self.start(purpose, Op::Discard, (device, at), len, Buffer::Metadata, false);
        out.push(Command::Discard { io, device, at, len });
    }

    pub(crate) fn zero(&mut self, (device, at): (DeviceId, Bytes), len: Bytes, purpose: Purpose, out: &mut Commands) {
        self.ledger.devices[device.index()].discards += 1;
        let io = self.start(purpose, Op::Discard, (device, at), len, Buffer::Metadata, false);
        out.push(Command::Zero { io, device, at, len });
    }

    /// Flushes the device if anything completed on it since its last flush began; says whether it did. What a flush in
    /// flight covers is the caller's to wait for.
    pub(crate) fn flush_if_needed(&mut self, device: DeviceId, purpose: Purpose, out: &mut Commands) -> bool {
        let state = &self.devices[device.index()];
        let needed = state.unflushed || state.unflushed_moves;
        if needed {
            self.flush(device, purpose, out);
        }
        needed
    }

    /// Flushes the device, with everything that completed on it before.
    pub(crate) fn flush(&mut self, device: DeviceId, purpose: Purpose, out: &mut Commands) {
        // What completes from now on is not covered by this flush.
        let state = &mut self.devices[device.index()];
        (state.unflushed, state.unflushed_moves) = (false, false);
        self.flush_besides(device, purpose, out);
    }

    /// Flushes the device without counting on it for what else is unflushed.
    pub(crate) fn flush_besides(&mut self, device: DeviceId, purpose: Purpose, out: &mut Commands) {
        self.ledger.devices[device.index()].flushes += 1;
        let none = Bytes::ZERO;
        let io = self.start(purpose, Op::Flush, (device, none), none, Buffer::Metadata, false);
        out.push(Command::Flush { io, device });
    }

    /// The command in flight.
    pub(crate) fn in_flight(&self, io: IoId) -> &InFlight {
        &self.in_flight[io.0]
    }

    /// Whether something other than demotions and write-backs completed on the device since its last flush began.
    pub(crate) fn is_unflushed_by_host(&self, device: DeviceId) -> bool {
        self.devices[device.index()].unflushed
    }

    /// Takes a completed command off the table.
    #[inline(always)]
    pub(crate) fn finish(&mut self, now: Nanos, io: IoId, failed: bool) -> InFlight {
        let command = self.in_flight[io.0];
        self.in_flight.remove(io.0);
        let state = &mut self.devices[command.device.index()];
        assert!(state.in_flight > 0, "command {} completed twice", io.0);
        state.in_flight -= 1;
        if let Op::Read | Op::Write = command.op {
            let mean = &mut state.latency[command.op as usize].0;
            let took = now.saturating_sub(command.began).0;
            *mean = if *mean == 0 { took } else { *mean - (*mean >> LATENCY_SHIFT) + (took >> LATENCY_SHIFT) };
        }
        match command.op {
            Op::Read => {}
            // Commits and checkpoints flush what they write themselves.
            Op::Write if matches!(command.purpose, Purpose::Commit | Purpose::Checkpoint | Purpose::Burial) => {}
            Op::Write | Op::Discard if command.leaving => state.unflushed_moves = true,
            Op::Write | Op::Discard => state.unflushed = true,
            // A failed flush covers nothing.
            Op::Flush => {
                state.unflushed |= failed;
                state.unflushed_moves |= failed;
            }
        }
        if failed {
            self.ledger.devices[command.device.index()].errors += 1;
            Core::count_failure(state, now, command.purpose);
        } else if state.failures > 0 {
            state.failures = 0;
        }
        if state.in_flight == 0 {
            state.idle_since = now;
            if let Some(Some(after)) = self.tuning.spin_down_after.get(command.device.index()) {
                let due = now.saturating_add(*after);
                self.due(due);
            }
        }
        command
    }

    /// Mean time that reads and writes of a device take of late.
    pub(crate) fn latency(&self, device: DeviceId) -> [Nanos; 2] {
        self.devices[device.index()].latency
    }

    // Devices that fail.

    pub(crate) fn is_dead(&self, device: DeviceId) -> bool {
        self.dead >> device.index() & 1 == 1
    }

    #[cold]
    fn count_failure(state: &mut DeviceState, now: Nanos, purpose: Purpose) {
        if state.failures == 0 {
            state.failing_since = now;
        }
        state.failures = state.failures.saturating_add(1);
        let metadata = matches!(purpose, Purpose::Commit | Purpose::Checkpoint | Purpose::Burial)
            || purpose == Purpose::Log(crate::logging::Step::Commit);
        state.strikes += u32::from(metadata);
    }

    /// Something has become durable on all devices that it was meant for.
    pub(crate) fn is_durable(&mut self) {
        self.devices.iter_mut().for_each(|state| state.strikes = 0);
    }

    /// Whether the device, which has just failed a command, has to be given up. A device that fails everything is
    /// probed first: what cannot be read may be a bad sector.
    #[cold]
    pub(crate) fn is_lost_cause(&mut self, now: Nanos, command: &InFlight, out: &mut Commands) -> bool {
        let device = command.device;
        if self.is_dead(device) {
            return false;
        }
        let state = &mut self.devices[device.index()];
        if command.purpose == Purpose::Probe || state.strikes >= MOST_STRIKES {
            state.probed = false;
            return true;
        }
        let long = now.saturating_sub(state.failing_since) >= PATIENCE;
        if state.failures >= MOST_FAILURES && long && !state.probed {
            state.probed = true;
            self.flush_besides(device, Purpose::Probe, out);
        }
        false
    }

    /// The device has answered a probe.
    #[cold]
    pub(crate) fn answered_probe(&mut self, device: DeviceId) {
        self.devices[device.index()].probed = false;
    }

    // Timers.

    /// Something is due at `time`.
    #[inline]
    pub(crate) fn due(&mut self, time: Nanos) {
        self.deadline = self.deadline.min(time);
    }

    pub(crate) fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// Forgets the deadline; the caller's timers declare theirs again.
    pub(crate) fn clear_deadline(&mut self) {
        self.deadline = Nanos::MAX;
    }

    /// Spins idle devices down (GreenDM, section 2.4).
    pub(crate) fn tick_power(&mut self, now: Nanos, out: &mut Commands) {
        for index in 0..self.devices.len() {
            let Some(Some(after)) = self.tuning.spin_down_after.get(index).copied() else { continue };
            let state = &mut self.devices[index];
            if state.standby || state.in_flight > 0 {
                continue;
            }
            let due = state.idle_since.saturating_add(after);
            if due <= now {
                state.standby = true;
                self.ledger.devices[index].spin_downs += 1;
                out.push(Command::Power { device: DeviceId(index as u8), state: Power::Standby });
            } else {
                self.due(due);
            }
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.requests.len() == 0 && self.in_flight.len() == 0
    }
}

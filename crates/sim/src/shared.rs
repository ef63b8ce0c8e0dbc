//! Several volumes, each with a primary of its own, before one log device (Griffin, section 7: one disk as the write
//! cache of several SSDs). Each volume is an engine with a region of the log device; the model of that device sees the
//! appends of all of them as they come, and pays for the seeks between the regions.
//!
//! The order of events is that of `simulator.rs`; at one moment the volumes go in the order of their numbers.

use peryton_device::{Accepted, DeviceStats, Io, PowerState, Tag};
use peryton_engine::{Command, Commands, Engine, IoId, LoggingStats, Power, Request, RequestId, Stats};
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    Options, Replay, SimError,
    array::Array,
    feed::Feed,
    ftl_bounds::FtlBounds,
    host_cache::HostCache,
    latency::ResponseTimes,
    queue::Completions,
    simulator::{MOST_IN_FLIGHT, MOST_TICKS, Outcome, Pending},
};

/// One volume of the drive.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) engine: Engine,
    pub(crate) primary: Array,
    /// Whether zeroing a range of the primary takes a write.
    pub(crate) zero_by_writing: bool,
    pub(crate) bounds: FtlBounds,
    pub(crate) host: Option<HostCache>,
}

/// Volumes that share a log device.
#[derive(Debug)]
pub(crate) struct SharedMachine {
    pub(crate) volumes: Vec<Volume>,
    pub(crate) log: Array,
    pub(crate) log_zero_by_writing: bool,
    /// Which of an engine's two devices is the log.
    pub(crate) log_index: usize,
    /// How much of the log device each volume has.
    pub(crate) region: Bytes,
    /// Every volume gets every request of the trace; otherwise each those of its own.
    pub(crate) same_requests: bool,
}

/// What one volume did.
#[derive(Debug)]
pub(crate) struct VolumeOutcome {
    pub(crate) answered: u64,
    pub(crate) times: ResponseTimes,
    pub(crate) ledger: Stats,
    /// The books after the log had been emptied.
    pub(crate) emptied: LoggingStats,
    pub(crate) bounds: FtlBounds,
}

/// A volume at work.
struct Running {
    volume: Volume,
    requests: Vec<Pending>,
    free: Vec<u32>,
    in_flight: u32,
    ticks: u32,
    /// It has asked for the log device to be put to standby, and has not used it since.
    lets_log_rest: bool,
    outcome: VolumeOutcome,
}

struct Shared<'a> {
    running: Vec<Running>,
    log: Array,
    log_zero_by_writing: bool,
    log_index: usize,
    region: Bytes,
    same_requests: bool,
    feed: Feed<'a>,
    replay: Replay,
    now: Nanos,
    commands: Commands,
    completions: Completions,
    device_event: Nanos,
    finished: Vec<(Tag, Nanos)>,
    warm_up_left: u64,
    since: Nanos,
    last_arrival: Nanos,
    last_reply: Nanos,
    answered: u64,
    bytes: u128,
    deepest: u32,
}

/// Replays the trace; returns the whole and its parts.
pub(crate) fn simulate(
    machine: SharedMachine,
    feed: Feed<'_>,
    options: &Options,
) -> Result<(Outcome, Vec<VolumeOutcome>), SimError> {
    let start = |volume: Volume| {
        let outcome = VolumeOutcome {
            answered: 0,
            times: ResponseTimes::new(),
            ledger: Stats::default(),
            emptied: LoggingStats::default(),
            bounds: volume.bounds,
        };
        Running { volume, requests: vec![], free: vec![], in_flight: 0, ticks: 0, lets_log_rest: false, outcome }
    };
    let mut shared = Shared {
        running: machine.volumes.into_iter().map(start).collect(),
        log: machine.log,
        log_zero_by_writing: machine.log_zero_by_writing,
        log_index: machine.log_index,
        region: machine.region,
        same_requests: machine.same_requests,
        feed,
        replay: options.replay,
        now: Nanos::ZERO,
        commands: Commands::new(),
        completions: Completions::default(),
        device_event: Nanos::MAX,
        finished: Vec::new(),
        warm_up_left: options.warm_up_requests,
        since: Nanos::ZERO,
        last_arrival: Nanos::ZERO,
        last_reply: Nanos::ZERO,
        answered: 0,
        bytes: 0,
        deepest: 0,
    };
    shared.replay()?;
    if shared.warm_up_left > 0 {
        return Err(SimError::WarmUpTooLong { wanted: options.warm_up_requests, answered: shared.answered });
    }
    if shared.answered == 0 {
        return Err(SimError::NoRequests { skipped: shared.feed.skipped });
    }
    let idle = shared.feed.volumes_seen();
    if !shared.same_requests && idle < shared.running.len() {
        return Err(SimError::TooFewVolumes { found: idle, wanted: shared.running.len() });
    }
    shared.outcome()
}

impl Shared<'_> {
    fn in_flight(&self) -> u32 {
        self.running.iter().map(|running| running.in_flight).sum()
    }

    fn replay(&mut self) -> Result<(), SimError> {
        loop {
            let arrival = self.admit()?;
            if self.feed.peek().is_none() && self.in_flight() == 0 {
                return Ok(());
            }
            let deadline = self.running.iter().filter_map(|r| r.volume.engine.deadline()).min().unwrap_or(Nanos::MAX);
            let next = self.completions.next().min(self.device_event).min(deadline).min(arrival);
            if next == Nanos::MAX {
                return Err(SimError::Stalled { at: self.now, in_flight: self.in_flight() });
            }
            self.now = self.now.max(next);
            self.settle();
            if deadline <= self.now {
                self.tick()?;
            }
        }
    }

    fn settle(&mut self) {
        if self.device_event <= self.now {
            self.advance_devices();
        }
        while self.completions.next() <= self.now {
            let tag = self.completions.pop().expect("it was just seen");
            let (index, io) = self.named(tag);
            let engine = &mut self.running[index].volume.engine;
            engine.complete(self.now, io, Ok(()), &mut self.commands).expect("it is in flight");
            self.carry_out(index);
        }
    }

    /// Commands of all volumes have names of their own on the shared device.
    fn tag(&self, index: usize, io: IoId) -> u32 {
        let count = self.running.len() as u32;
        u32::try_from(io.index())
            .ok()
            .and_then(|io| io.checked_mul(count))
            .and_then(|tag| tag.checked_add(index as u32))
            .expect("an engine has few commands in flight")
    }

    fn named(&self, tag: u32) -> (usize, IoId) {
        let count = self.running.len() as u32;
        let index = (tag % count) as usize;
        let io = self.running[index].volume.engine.id_at((tag / count) as usize);
        (index, io.expect("a device finishes each command once"))
    }

    fn tick(&mut self) -> Result<(), SimError> {
        for index in 0..self.running.len() {
            let running = &mut self.running[index];
            let Some(deadline) = running.volume.engine.deadline().filter(|deadline| *deadline <= self.now) else {
                continue;
            };
            let next = running.volume.engine.tick(self.now, &mut self.commands);
            let again = deadline == self.now && next.is_some_and(|next| next <= self.now);
            running.ticks = if again { running.ticks + 1 } else { 0 };
            if running.ticks > MOST_TICKS {
                return Err(SimError::Stalled { at: self.now, in_flight: self.in_flight() });
            }
            self.carry_out(index);
        }
        Ok(())
    }

    fn advance_devices(&mut self) {
        let mut finished = std::mem::take(&mut self.finished);
        for running in &mut self.running {
            if running.volume.primary.next_event().is_some_and(|at| at <= self.now) {
                running.volume.primary.advance(self.now, &mut finished);
            }
        }
        if self.log.next_event().is_some_and(|at| at <= self.now) {
            self.log.advance(self.now, &mut finished);
        }
        for (tag, at) in finished.drain(..) {
            self.completions.push(at.max(self.now), tag.0);
        }
        self.finished = finished;
        self.look_for_device_event();
    }

    fn look_for_device_event(&mut self) {
        let primaries = self.running.iter().filter_map(|running| running.volume.primary.next_event());
        self.device_event = primaries.chain(self.log.next_event()).min().unwrap_or(Nanos::MAX);
    }

    /// Lets requests in that are due. A closed loop keeps its depth on each volume; the trace is not reordered, so that
    /// a volume may wait for the turn of another.
    fn admit(&mut self) -> Result<Nanos, SimError> {
        let (depth, speed) = match self.replay {
            Replay::Sync => (1, None),
            Replay::Depth(depth) => (depth, None),
            Replay::Timed { speed } => (MOST_IN_FLIGHT, Some(speed)),
        };
        while let Some(next) = self.feed.peek().copied() {
            let targets = if self.same_requests { 0..self.running.len() } else { 0..0 };
            let targets = if targets.is_empty() { next.volume as usize..next.volume as usize + 1 } else { targets };
            if self.running[targets.clone()].iter().any(|running| running.in_flight >= depth) {
                return Ok(Nanos::MAX);
            }
            let arrival = match speed {
                None => self.now,
                Some(1.0) => next.at,
                Some(speed) => Nanos((next.at.0 as f64 / speed) as u64),
            };
            if arrival > self.now {
                return Ok(arrival);
            }
            let request = self.feed.take()?.expect("it was just seen");
            for index in targets {
                self.submit(index, arrival, Request { op: request.op, offset: request.offset, len: request.len });
            }
        }
        Ok(Nanos::MAX)
    }

    fn submit(&mut self, index: usize, arrived: Nanos, request: Request) {
        let running = &mut self.running[index];
        let id = running.free.pop().unwrap_or(running.requests.len() as u32);
        let pending = Pending { arrived, op: request.op, len: request.len, covered: running.outcome.times.covered() };
        match running.requests.get_mut(id as usize) {
            Some(row) => *row = pending,
            None => running.requests.push(pending),
        }
        running.in_flight += 1;
        self.last_arrival = arrived;
        if request.op == Op::Write {
            running.outcome.bounds.host_wrote(request.offset, request.len);
        }
        running.volume.engine.submit(self.now, RequestId(u64::from(id)), request, &mut self.commands);
        if let Some(host) = &mut running.volume.host {
            host.touch(request.op, request.offset, request.len);
            for range in host.hints() {
                running.volume.engine.evict(self.now, range, &mut self.commands);
            }
        }
        self.deepest = self.deepest.max(self.in_flight());
        self.carry_out(index);
    }

    fn carry_out(&mut self, index: usize) {
        let mut commands = std::mem::take(&mut self.commands);
        for command in commands.drain(..) {
            let (io, device, op, at, len) = match command {
                Command::Read { io, device, at, len, .. } => (io, device, Op::Read, at, len),
                Command::Write { io, device, at, len, .. } => (io, device, Op::Write, at, len),
                Command::Reply { id, result } => {
                    self.reply(index, id, result.is_err());
                    continue;
                }
                Command::Copy { .. } | Command::Clear { .. } | Command::Encode { .. } => continue,
                Command::Flush { io, device } => (io, device, Op::Flush, Bytes::ZERO, Bytes::ZERO),
                Command::Discard { io, device, at, len } => (io, device, Op::Discard, at, len),
                Command::Zero { io, device, at, len } => {
                    let shared = device.index() == self.log_index;
                    let write =
                        if shared { self.log_zero_by_writing } else { self.running[index].volume.zero_by_writing };
                    (io, device, if write { Op::Write } else { Op::Discard }, at, len)
                }
                Command::Power { device, state: Power::Standby } => {
                    self.rest(index, device.index());
                    continue;
                }
            };
            let tag = Tag(self.tag(index, io));
            let accepted = if device.index() == self.log_index {
                self.running[index].lets_log_rest = false;
                let at = if op == Op::Flush { at } else { at + self.region * index as u64 };
                self.log.submit(self.now, tag, Io { op, at, len })
            } else {
                let running = &mut self.running[index];
                if op == Op::Write {
                    running.outcome.bounds.device_wrote(at, len);
                }
                running.volume.primary.submit(self.now, tag, Io { op, at, len })
            };
            match accepted {
                Accepted::At(end) => self.completions.push(end, tag.0),
                Accepted::Queued => self.look_for_device_event(),
            }
        }
        self.commands = commands;
    }

    /// A volume lets a device rest; the shared one does when all do.
    fn rest(&mut self, index: usize, device: usize) {
        if device == self.log_index {
            self.running[index].lets_log_rest = true;
            if self.running.iter().all(|running| running.lets_log_rest) {
                self.log.set_power(self.now, PowerState::Standby);
            }
        } else {
            self.running[index].volume.primary.set_power(self.now, PowerState::Standby);
        }
        self.look_for_device_event();
    }

    fn reply(&mut self, index: usize, id: RequestId, failed: bool) {
        let running = &mut self.running[index];
        let Pending { arrived, op, len, covered } = running.requests[id.0 as usize];
        running.free.push(id.0 as u32);
        running.in_flight -= 1;
        let outcome = &mut running.outcome;
        outcome.answered += 1;
        outcome.times.answered(op, arrived, covered, self.now, failed);
        self.last_reply = self.now;
        self.answered += 1;
        if matches!(op, Op::Read | Op::Write) {
            self.bytes += u128::from(len.0);
        }
        if self.warm_up_left > 0 {
            self.warm_up_left -= 1;
            if self.warm_up_left == 0 {
                self.start_anew();
            }
        }
    }

    fn start_anew(&mut self) {
        for Running { volume, outcome, .. } in &mut self.running {
            volume.engine.reset_stats();
            volume.primary.reset_stats(self.now);
            outcome.bounds.reset();
            outcome.answered = 0;
            outcome.times.clear();
        }
        self.log.reset_stats(self.now);
        (self.answered, self.bytes, self.since) = (0, 0, self.now);
    }

    fn drain(&mut self) {
        loop {
            let next = self.completions.next().min(self.device_event);
            if next == Nanos::MAX {
                return;
            }
            self.now = self.now.max(next);
            self.settle();
        }
    }

    /// As in `simulator.rs`: what the logs still hold goes to the primaries, after the measured span.
    fn empty_logs(&mut self) -> Result<(), SimError> {
        self.drain();
        for index in 0..self.running.len() {
            let engine = &mut self.running[index].volume.engine;
            let whole = Bytes::ZERO..engine.volume_size();
            engine.evict(self.now, whole, &mut self.commands);
            self.carry_out(index);
        }
        self.drain();
        loop {
            let busy = self.running.iter().map(|running| &running.volume.engine).filter(|engine| !engine.is_idle());
            let Some(deadline) = busy.filter_map(Engine::deadline).min() else { return Ok(()) };
            self.now = self.now.max(deadline);
            self.tick()?;
            self.drain();
        }
    }

    fn outcome(mut self) -> Result<(Outcome, Vec<VolumeOutcome>), SimError> {
        let now = self.now;
        let span = self.last_reply - self.since;
        let mut measured = Vec::new();
        for running in &mut self.running {
            measured.push((running.volume.engine.stats().clone(), running.volume.primary.stats(now)));
        }
        let log_stats = self.log.stats(now);
        self.empty_logs()?;
        let mut primaries: Vec<DeviceStats> = Vec::new();
        let mut volumes: Vec<VolumeOutcome> = Vec::new();
        let mut emptied = LoggingStats::default();
        for (mut running, (ledger, stats)) in self.running.into_iter().zip(measured) {
            primaries.extend(stats);
            running.outcome.ledger = ledger;
            running.outcome.emptied = running.volume.engine.stats().logging.clone().unwrap_or_default();
            emptied.add(&running.outcome.emptied);
            volumes.push(running.outcome);
        }
        let mut devices = vec![log_stats];
        devices.insert(1 - self.log_index, primaries);
        let mut books = LoggingStats::default();
        let mut ledger = Stats::new(devices.len());
        let mut times = ResponseTimes::new();
        let mut bounds = volumes[0].bounds;
        bounds.reset();
        for volume in &volumes {
            if let Some(of_volume) = &volume.ledger.logging {
                books.add(of_volume);
            }
            ledger.failed_requests += volume.ledger.failed_requests;
            times.add(&volume.times);
            bounds.add(&volume.bounds);
        }
        ledger.logging = Some(books);
        let drained = Stats { logging: Some(emptied), ..ledger.clone() };
        let outcome = Outcome {
            span,
            answered: self.answered,
            bytes: self.bytes,
            times,
            behind: self.last_reply.saturating_sub(self.last_arrival),
            hash: self.feed.hash(),
            touched: None,
            drained: (drained, devices.clone()),
            ledger,
            devices,
            wrapped: self.feed.wrapped,
            skipped: self.feed.skipped,
            adaptive: None,
            climb: None,
            bounds: Some(bounds),
            deepest: self.deepest,
        };
        Ok((outcome, volumes))
    }
}

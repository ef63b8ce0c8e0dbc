//! The event loop: a trace, an engine and device models on one clock.
//!
//! What happens at one moment happens in this order: device events, completions (in the order in which they were
//! promised), timers, arrivals. Nothing else decides an order, so that a run gives the same bytes each time.

#[cfg(test)]
mod tests;

use peryton_device::{Accepted, DeviceStats, Io, PowerState, Tag};
use peryton_engine::{Command, Commands, Engine, Power, Request, RequestId, Stats};
use peryton_trace::RequestHash;
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    Options, Replay, SimError, array::Array, feed::Feed, ftl_bounds::FtlBounds, host_cache::HostCache,
    latency::ResponseTimes, observe::Moment, observe::Watch, queue::Completions, touched::Touched,
};

/// How many requests a timed replay lets into the drive at once; those that arrive while so many are unanswered wait
/// outside, and their response time counts from their arrival all the same. It bounds memory where a drive cannot keep
/// up with its trace.
pub(crate) const MOST_IN_FLIGHT: u32 = 65_536;
/// How many requests ahead the engine is told of what will come: far enough to be there in time, near enough to be there
/// still.
const FAR: usize = 10;
const NEAR: usize = 4;
/// An engine that has as many timers due in a row at one moment is not getting anywhere.
pub(crate) const MOST_TICKS: u32 = 1_000;

/// A drive to be simulated.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) engine: Engine,
    pub(crate) devices: Vec<Array>,
    /// For each device, whether zeroing a range takes a write (disks) or is a hint to its map (flash).
    pub(crate) zero_by_writing: Vec<bool>,
    /// Sees what goes into the engine, and what comes out.
    pub(crate) watch: Watch,
    /// Counts what is written to the primary of a log, which has this index.
    pub(crate) bounds: Option<(usize, FtlBounds)>,
    /// The host's own cache, where its hints are modelled.
    pub(crate) host: Option<HostCache>,
    /// What of the volume was used, by extents.
    pub(crate) touched: Option<Touched>,
}

/// What was measured, from the first request (or the end of the warm-up) to the last reply.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) span: Nanos,
    pub(crate) answered: u64,
    pub(crate) bytes: u128,
    pub(crate) times: ResponseTimes,
    /// From the last arrival to the last answer.
    pub(crate) behind: Nanos,
    /// Of the requests read from the trace.
    pub(crate) hash: RequestHash,
    /// What of the volume was used, by extents.
    pub(crate) touched: Option<Touched>,
    pub(crate) ledger: Stats,
    pub(crate) devices: Vec<Vec<DeviceStats>>,
    pub(crate) wrapped: u64,
    pub(crate) skipped: u64,
    /// Where an adaptive admission threshold stood at the end.
    pub(crate) adaptive: Option<peryton_engine::AdaptiveView>,
    /// Where hill climbing stood at the end.
    pub(crate) climb: Option<peryton_engine::ClimbView>,
    pub(crate) bounds: Option<FtlBounds>,
    /// Most requests in flight at once.
    pub(crate) deepest: u32,
    /// The accounts after the moves that were under way at the last reply had ended, and a log had been emptied.
    pub(crate) drained: (Stats, Vec<Vec<DeviceStats>>),
}

/// A host request in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) arrived: Nanos,
    pub(crate) op: Op,
    pub(crate) len: Bytes,
    /// Of a flush: how many writes had been answered when it was submitted.
    pub(crate) covered: u64,
}

struct Simulator<'a> {
    machine: Machine,
    feed: Feed<'a>,
    replay: Replay,
    now: Nanos,
    commands: Commands,
    completions: Completions,
    /// When the first of the devices that decide later has something to do.
    device_event: Nanos,
    finished: Vec<(Tag, Nanos)>,
    /// Indexed by request id.
    requests: Vec<Pending>,
    free: Vec<u32>,
    in_flight: u32,
    deepest: u32,
    ticks: u32,
    /// Replies until the accounts start anew.
    warm_up_left: u64,
    since: Nanos,
    last_arrival: Nanos,
    last_reply: Nanos,
    answered: u64,
    bytes: u128,
    times: ResponseTimes,
}

/// Replays the trace and returns what was measured.
pub(crate) fn simulate(machine: Machine, feed: Feed<'_>, options: &Options) -> Result<Outcome, SimError> {
    let mut simulator = Simulator {
        machine,
        feed,
        replay: options.replay,
        now: Nanos::ZERO,
        commands: Commands::new(),
        completions: Completions::default(),
        device_event: Nanos::MAX,
        finished: Vec::new(),
        requests: Vec::new(),
        free: Vec::new(),
        in_flight: 0,
        deepest: 0,
        ticks: 0,
        warm_up_left: options.warm_up_requests,
        since: Nanos::ZERO,
        last_arrival: Nanos::ZERO,
        last_reply: Nanos::ZERO,
        answered: 0,
        bytes: 0,
        times: ResponseTimes::new(),
    };
    simulator.replay()?;
    if simulator.warm_up_left > 0 {
        return Err(SimError::WarmUpTooLong { wanted: options.warm_up_requests, answered: simulator.answered });
    }
    if simulator.answered == 0 {
        return Err(SimError::NoRequests { skipped: simulator.feed.skipped });
    }
    simulator.outcome()
}

impl Simulator<'_> {
    fn replay(&mut self) -> Result<(), SimError> {
        loop {
            let arrival = self.admit()?;
            if self.in_flight == 0 && self.feed.peek().is_none() {
                return Ok(());
            }
            let deadline = self.machine.engine.deadline().unwrap_or(Nanos::MAX);
            let next = self.completions.next().min(self.device_event).min(deadline).min(arrival);
            if next == Nanos::MAX {
                return Err(SimError::Stalled { at: self.now, in_flight: self.in_flight });
            }
            // A timer may be overdue, since it is only looked at between events.
            self.now = self.now.max(next);
            self.settle();
            if deadline <= self.now {
                self.tick(deadline)?;
            }
        }
    }

    /// Carries out everything that devices have finished by now.
    #[inline]
    fn settle(&mut self) {
        if self.device_event <= self.now {
            self.advance_devices();
        }
        while self.completions.next() <= self.now {
            let tag = self.completions.pop().expect("it was just seen");
            let io = self.machine.engine.id_at(tag as usize).expect("a device finishes each command once");
            self.machine.watch.see(self.now, || Moment::Completed(io));
            self.machine.engine.complete(self.now, io, Ok(()), &mut self.commands).expect("it is in flight");
            self.carry_out();
        }
    }

    #[cold]
    fn tick(&mut self, deadline: Nanos) -> Result<(), SimError> {
        self.machine.watch.see(self.now, || Moment::Ticked);
        let next = self.machine.engine.tick(self.now, &mut self.commands);
        self.carry_out();
        self.tell_wear();
        self.tell_energy();
        self.ticks = if deadline == self.now && next.is_some_and(|next| next <= self.now) { self.ticks + 1 } else { 0 };
        if self.ticks > MOST_TICKS {
            return Err(SimError::Stalled { at: self.now, in_flight: self.in_flight });
        }
        Ok(())
    }

    /// Flash knows what it programs.
    fn tell_wear(&mut self) {
        let Some(device) = self.machine.engine.asks_what_was_programmed(self.now) else { return };
        let stats = self.machine.devices[device.index()].stats(self.now);
        let bytes = stats.iter().map(|member| member.nand_bytes_written.map(|bytes| bytes.0)).sum::<Option<u64>>();
        if let Some(bytes) = bytes.map(Bytes) {
            self.machine.watch.see(self.now, || Moment::Programmed(device, bytes));
            self.machine.engine.programmed(device, bytes);
        }
    }

    /// The models know what they draw.
    fn tell_energy(&mut self) {
        if self.machine.engine.asks_what_was_drawn() {
            let joules: f64 = self.stats().iter().flatten().map(|member| member.energy_j).sum();
            let microjoules = (joules * 1e6) as u64;
            self.machine.watch.see(self.now, || Moment::Drew(microjoules));
            self.machine.engine.drew(microjoules);
        }
    }

    fn advance_devices(&mut self) {
        let mut finished = std::mem::take(&mut self.finished);
        for device in &mut self.machine.devices {
            if device.next_event().is_some_and(|at| at <= self.now) {
                device.advance(self.now, &mut finished);
            }
        }
        for (tag, at) in finished.drain(..) {
            self.completions.push(at.max(self.now), tag.0);
        }
        self.finished = finished;
        self.look_for_device_event();
    }

    fn look_for_device_event(&mut self) {
        self.device_event = self.machine.devices.iter().filter_map(Array::next_event).min().unwrap_or(Nanos::MAX);
    }

    /// Lets requests in that are due, and says when the next one is.
    #[inline]
    fn admit(&mut self) -> Result<Nanos, SimError> {
        let (depth, speed) = match self.replay {
            Replay::Sync => (1, None),
            Replay::Depth(depth) => (depth, None),
            Replay::Timed { speed } => (MOST_IN_FLIGHT, Some(speed)),
        };
        while self.in_flight < depth {
            let Some(next) = self.feed.peek() else { break };
            let arrival = match speed {
                None => self.now,
                Some(1.0) => next.at,
                Some(speed) => Nanos((next.at.0 as f64 / speed) as u64),
            };
            if arrival > self.now {
                return Ok(arrival);
            }
            let request = self.feed.take()?.expect("it was just seen");
            let (offset, len) = (request.offset, request.len);
            for (distance, near) in [(FAR, false), (NEAR, true)] {
                if let Some(later) = self.feed.ahead(distance) {
                    self.machine.engine.prefetch(later.offset, near);
                }
            }
            self.submit(arrival, Request { op: request.op, offset, len });
        }
        Ok(Nanos::MAX)
    }

    #[inline]
    fn submit(&mut self, arrived: Nanos, request: Request) {
        let pending = Pending { arrived, op: request.op, len: request.len, covered: self.times.covered() };
        let id = match self.free.pop() {
            Some(id) => {
                self.requests[id as usize] = pending;
                id
            }
            None => {
                self.requests.push(pending);
                self.requests.len() as u32 - 1
            }
        };
        self.in_flight += 1;
        self.deepest = self.deepest.max(self.in_flight);
        if let Some((_, bounds)) = &mut self.machine.bounds
            && request.op == Op::Write
        {
            bounds.host_wrote(request.offset, request.len);
        }
        if let Some(touched) = &mut self.machine.touched {
            touched.touch(request.op, request.offset, request.len);
        }
        self.last_arrival = arrived;
        self.machine.watch.see(self.now, || Moment::Submitted(RequestId(u64::from(id)), request));
        self.machine.engine.submit(self.now, RequestId(u64::from(id)), request, &mut self.commands);
        if let Some(host) = &mut self.machine.host {
            host.touch(request.op, request.offset, request.len);
            for range in host.hints() {
                self.machine.watch.see(self.now, || Moment::Hinted(range.start, range.end));
                self.machine.engine.evict(self.now, range, &mut self.commands);
            }
        }
        self.carry_out();
    }

    /// Gives the engine's commands to the devices.
    #[inline]
    fn carry_out(&mut self) {
        // By index, since none are added meanwhile: a list that is moved, or a command copied whole, right after it was
        // written waits until all of it has reached the cache.
        for index in 0..self.commands.len() {
            self.machine.watch.see(self.now, || Moment::Commanded(self.commands[index]));
            let (io, device, op, at, len) = match self.commands[index] {
                Command::Read { io, device, at, len, .. } => (io, device, Op::Read, at, len),
                Command::Write { io, device, at, len, .. } => {
                    if let Some((primary, bounds)) = &mut self.machine.bounds
                        && *primary == device.index()
                    {
                        bounds.device_wrote(at, len);
                    }
                    (io, device, Op::Write, at, len)
                }
                Command::Reply { id, result } => {
                    self.reply(id, result.is_err());
                    continue;
                }
                // Memory is fast against any device here.
                Command::Copy { .. } | Command::Clear { .. } | Command::Encode { .. } => continue,
                Command::Flush { io, device } => (io, device, Op::Flush, Bytes::ZERO, Bytes::ZERO),
                Command::Discard { io, device, at, len } => (io, device, Op::Discard, at, len),
                Command::Zero { io, device, at, len } => {
                    let write = self.machine.zero_by_writing[device.index()];
                    (io, device, if write { Op::Write } else { Op::Discard }, at, len)
                }
                Command::Power { device, state: Power::Standby } => {
                    self.machine.devices[device.index()].set_power(self.now, PowerState::Standby);
                    self.look_for_device_event();
                    continue;
                }
            };
            let tag = Tag(io.index() as u32);
            match self.machine.devices[device.index()].submit(self.now, tag, Io { op, at, len }) {
                Accepted::At(end) => self.completions.push(end, tag.0),
                Accepted::Queued => self.look_for_device_event(),
            }
        }
        self.commands.clear();
    }

    #[inline]
    fn reply(&mut self, id: RequestId, failed: bool) {
        let Pending { arrived, op, len, covered } = self.requests[id.0 as usize];
        self.free.push(id.0 as u32);
        self.in_flight -= 1;
        self.last_reply = self.now;
        self.times.answered(op, arrived, covered, self.now, failed);
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

    /// The warm-up is over.
    #[cold]
    fn start_anew(&mut self) {
        self.machine.engine.reset_stats();
        for device in &mut self.machine.devices {
            device.reset_stats(self.now);
        }
        self.times.clear();
        if let Some((_, bounds)) = &mut self.machine.bounds {
            bounds.reset();
        }
        if let Some(touched) = &mut self.machine.touched {
            touched.reset();
        }
        (self.answered, self.bytes, self.since) = (0, 0, self.now);
    }

    fn stats(&mut self) -> Vec<Vec<DeviceStats>> {
        let now = self.now;
        self.machine.devices.iter_mut().map(|device| device.stats(now)).collect()
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

    /// What a log still holds has been spared nothing yet: it goes to the primary, after the measured span.
    fn empty_log(&mut self) -> Result<(), SimError> {
        let whole = Bytes::ZERO..self.machine.engine.volume_size();
        self.machine.watch.see(self.now, || Moment::Hinted(whole.start, whole.end));
        self.machine.engine.evict(self.now, whole, &mut self.commands);
        self.carry_out();
        self.drain();
        while !self.machine.engine.is_idle()
            && let Some(deadline) = self.machine.engine.deadline()
        {
            self.now = self.now.max(deadline);
            self.tick(deadline)?;
            self.drain();
        }
        Ok(())
    }

    fn outcome(mut self) -> Result<Outcome, SimError> {
        let ledger = self.machine.engine.stats().clone();
        let devices = self.stats();
        // Moves that are under way go on to their end, unmeasured: an engine that cannot finish them is wrong.
        self.drain();
        if self.machine.bounds.is_some() {
            self.empty_log()?;
        }
        let bounds = self.machine.bounds.map(|(_, bounds)| bounds);
        let drained = (self.machine.engine.stats().clone(), self.stats());
        Ok(Outcome {
            span: self.last_reply - self.since,
            answered: self.answered,
            bytes: self.bytes,
            times: self.times,
            behind: self.last_reply.saturating_sub(self.last_arrival),
            hash: self.feed.hash(),
            touched: self.machine.touched,
            ledger,
            devices,
            wrapped: self.feed.wrapped,
            skipped: self.feed.skipped,
            adaptive: self.machine.engine.adaptive_admission(),
            climb: self.machine.engine.climbing(),
            bounds,
            deepest: self.deepest,
            drained,
        })
    }
}

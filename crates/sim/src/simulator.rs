//! The event loop: a trace, one engine or several, and device models on one clock.
//!
//! Events of equal time are handled in this order: device events, completions (in the order in which they were
//! scheduled), timers, arrivals; within each, the volumes in the order of their numbers. The order depends on nothing
//! else, so a run gives the same bytes each time.

mod above;
mod apart;
mod changes;
mod lanes;
mod measuring;
#[cfg(test)]
mod tests;
mod whole_run;

use std::sync::Arc;

use peryton_device::{Accepted, DeviceStats, Io, PowerState, Tag};
use peryton_engine::{Command, Commands, IoId, Power, Request, RequestId, Stats, Tuning};
use peryton_units::{Bytes, Nanos, Op};

pub(crate) use self::whole_run::simulate;
use self::{above::Above, lanes::Lanes, measuring::Uses};
use crate::{
    AsRecorded, Options, SimError,
    intervals::Intervals,
    latency::ResponseTimes,
    machine::{Machine, Volume},
    observe::Moment,
    outcome::{Outcome, VolumeOutcome, together},
    parts::Parts,
    queue::Completions,
    request_source::RequestSource,
    wear_parts::WearParts,
};

/// The most requests of a timed replay that are in flight on a volume. Later arrivals wait in the simulator, and their
/// response time still counts from their arrival. This bounds memory if a drive is slower than its trace.
pub(crate) const MOST_IN_FLIGHT: u32 = 65_536;
/// The number of requests that the engine sees ahead for prefetching: far enough that the prefetch completes in time,
/// near enough that its data is still in the processor's cache.
const FAR: usize = 10;
const NEAR: usize = 4;
/// The most timers of an engine that may be due in a row at one moment; more mean that it makes no progress. A log that is emptied
/// looks at 65,536 blocks of its volume with each: this is enough for 244 TiB.
const MOST_TICKS: u32 = 1_000_000;
/// The latest arrival: half of what the clock has, some 290 years.
const LATEST: u64 = u64::MAX / 2;

/// A host request in flight.
#[derive(Clone, Copy, Debug)]
struct Pending {
    arrived: Nanos,
    op: Op,
    len: Bytes,
    /// The last 32 bits of the number of requests that arrived before.
    number: u32,
    /// For a flush: the number of writes that had been answered when it was submitted.
    covered: u64,
}

/// The requests of the host to one volume, and their response times.
struct Host {
    /// Indexed by request id.
    requests: Vec<Pending>,
    /// Ids that are not in flight.
    free: Vec<u32>,
    /// Number of timers in a row that were due at one moment.
    ticks: u32,
    times: ResponseTimes,
    /// Who waits for replies, in a closed loop with think time.
    lanes: Option<Box<Lanes>>,
}

impl Host {
    fn new(lanes: Option<Box<Lanes>>) -> Host {
        Host { requests: Vec::new(), free: Vec::new(), ticks: 0, times: ResponseTimes::new(), lanes }
    }

    #[inline]
    fn in_flight(&self) -> u32 {
        (self.requests.len() - self.free.len()) as u32
    }
}

/// The event loop, compiled three times: for one volume of which only the report is wanted, the usual case; for one of which more is
/// wanted (`whole_run.rs`); and for several volumes. The usual case must not be slower because of the others.
struct Simulator<'a, const SEVERAL: bool, const WATCHED: bool> {
    machine: Machine,
    /// The state of the host for each volume.
    hosts: Vec<Host>,
    /// Number of low bits in a device's tag that hold the number of the volume; the others are the engine's id of the
    /// command.
    volume_bits: u32,
    source: RequestSource<'a>,
    /// The most requests in flight on a volume.
    depth: u32,
    /// How often faster than in the trace requests arrive; `None`: as soon as they may.
    speed: Option<f64>,
    now: Nanos,
    commands: Commands,
    completions: Completions,
    /// The engine's id of each command in flight, by its tag on the device.
    ids: Vec<IoId>,
    /// The time when the first device with a later event has something to do.
    device_event: Nanos,
    finished: Vec<(Tag, Nanos)>,
    in_flight: u32,
    deepest: u32,
    /// Number of replies until the measured span begins.
    warm_up_left: u64,
    since: Nanos,
    last_arrival: Nanos,
    last_reply: Nanos,
    bytes: u128,
    /// Wear over time.
    wear: WearParts,
    /// What is counted in each interval, if that was asked for: of intervals of equal length, and of the course for a page.
    intervals: Vec<Intervals>,
    /// Number of requests that have arrived.
    arrivals: u64,
    /// The measured requests in parts, if precision was asked for.
    parts: Option<Box<Parts>>,
    /// What is noted of the parts of the volumes, if that was asked for.
    uses: Option<Box<Uses>>,
    /// The host's page cache, if the design has one.
    above: Option<Box<Above>>,
    /// The end of the interval that ends first; without intervals, the last time that an event can have.
    interval_end: Nanos,
    /// The run goes on until this time.
    until: Nanos,
    /// What a recording says besides its requests.
    recorded: Option<Arc<AsRecorded>>,
    /// Settings that come into force, the next one last, and the time of that.
    changes: Vec<(Nanos, Tuning)>,
    next_change: Nanos,
    /// Whether a reply is part of the warm-up or of an interval.
    replies_count: bool,
}

/// What became of the next request.
enum Admitted {
    /// It was submitted to this volume, the last one of those that get it.
    To { volume: usize },
    /// It is not due before this time, or not before a reply.
    NoneBefore(Nanos),
}

impl<const SEVERAL: bool, const WATCHED: bool> Simulator<'_, SEVERAL, WATCHED> {
    fn replay(&mut self) -> Result<(), SimError> {
        // Until when nothing is due, as of the last time that the clock was set.
        let (mut deadline, mut of_cache) = (Nanos::MAX, Nanos::MAX);
        let mut completes = false;
        loop {
            // What an event commands is carried out in one place, which is compiled into this loop.
            let volume = if completes && self.completions.next() <= self.now {
                self.complete_next::<WATCHED>()
            } else {
                if std::mem::take(&mut completes) {
                    if deadline <= self.now {
                        self.tick()?;
                    }
                    if of_cache <= self.now {
                        self.tick_cache();
                    }
                }
                match self.admit()? {
                    Admitted::To { volume } => volume,
                    Admitted::NoneBefore(arrival) => {
                        let mut end = Nanos::MAX;
                        if self.in_flight == 0 && self.source.peek().is_none() {
                            if self.until <= self.now {
                                return Ok(());
                            }
                            end = self.until;
                        }
                        deadline = self.machine.deadline();
                        if WATCHED {
                            of_cache = self.above.as_ref().map_or(Nanos::MAX, |above| above.deadline());
                        }
                        let due = deadline.min(of_cache);
                        let next = self.completions.next().min(self.device_event).min(due).min(arrival).min(end);
                        // One comparison for both, so that intervals cost nothing unless they are asked for.
                        if WATCHED && next > self.interval_end {
                            self.end_intervals_before(next)?;
                        }
                        // A timer may be overdue, because timers run only between events.
                        self.now = self.now.max(next);
                        self.look_at_devices();
                        completes = true;
                        continue;
                    }
                }
            };
            self.carry_out_here(volume);
        }
    }

    #[inline(always)]
    fn look_at_devices(&mut self) {
        if self.device_event <= self.now {
            self.advance_devices();
        }
    }

    /// Completes the next command; what the volume that is returned commands then is still to be carried out. `APART`: by a call that
    /// is not compiled into the caller.
    #[inline(always)]
    fn complete_next<const APART: bool>(&mut self) -> usize {
        let tag = self.completions.pop();
        let (volume, io) = (self.volume_of(tag), self.ids[tag.0 as usize]);
        if WATCHED {
            self.machine.watch.see(self.now, volume, || Moment::Completed(io));
        }
        let engine = &mut self.machine.volumes[volume].engine;
        if APART {
            apart::complete(engine, self.now, io, &mut self.commands);
        } else {
            engine.complete(self.now, io, Ok(()), &mut self.commands).expect("it is in flight");
        }
        volume
    }

    /// The tag of a command on a device, which several volumes may share.
    #[inline]
    fn tag(&self, volume: usize, io: IoId) -> Tag {
        if !SEVERAL {
            return Tag(io.index() as u32);
        }
        let index = io.index() as u32;
        debug_assert!(index <= u32::MAX >> self.volume_bits, "an engine has few commands in flight");
        Tag(index << self.volume_bits | volume as u32)
    }

    /// The volume of a command.
    #[inline]
    fn volume_of(&self, tag: Tag) -> usize {
        if SEVERAL { (tag.0 & !(u32::MAX << self.volume_bits)) as usize } else { 0 }
    }

    /// Keeps the engine's id of a command that is given to a device.
    #[inline]
    fn keep_id(&mut self, tag: Tag, io: IoId) {
        match self.ids.get_mut(tag.0 as usize) {
            Some(id) => *id = io,
            None => self.ids.resize(tag.0 as usize + 1, io),
        }
    }

    /// Ticks each engine that has a timer due.
    #[cold]
    fn tick(&mut self) -> Result<(), SimError> {
        for volume in 0..self.hosts.len() {
            let engine = &mut self.machine.volumes[volume].engine;
            let Some(deadline) = engine.deadline().filter(|deadline| *deadline <= self.now) else { continue };
            self.machine.watch.see(self.now, volume, || Moment::Ticked);
            let next = engine.tick(self.now, &mut self.commands);
            self.carry_out(volume);
            self.report_wear(volume);
            self.report_energy(volume);
            let again = deadline == self.now && next.is_some_and(|next| next <= self.now);
            let ticks = &mut self.hosts[volume].ticks;
            *ticks = if again { *ticks + 1 } else { 0 };
            if *ticks > MOST_TICKS {
                return Err(SimError::Stalled { at: self.now, in_flight: self.in_flight });
            }
        }
        Ok(())
    }

    /// Reports to the engine how much flash has programmed.
    fn report_wear(&mut self, volume: usize) {
        let now = self.now;
        let Some(device) = self.machine.volumes[volume].engine.asks_what_was_programmed(now) else { return };
        if let Some(bytes) = self.machine.programmed(now, volume, device) {
            self.machine.watch.see(now, volume, || Moment::Programmed(device, bytes));
            self.machine.volumes[volume].engine.programmed(device, bytes);
        }
    }

    /// Reports to the engine how much energy the devices have drawn.
    fn report_energy(&mut self, volume: usize) {
        if self.machine.volumes[volume].engine.asks_what_was_drawn() {
            let microjoules = self.machine.drawn(self.now, volume);
            self.machine.watch.see(self.now, volume, || Moment::Drew(microjoules));
            self.machine.volumes[volume].engine.drew(microjoules);
        }
    }

    fn advance_devices(&mut self) {
        let mut next = Nanos::MAX;
        for device in &mut self.machine.devices {
            let model = &mut device.model;
            if model.next_event().is_some_and(|at| at <= self.now) {
                model.advance(self.now, &mut self.finished);
            }
            next = next.min(model.next_event().unwrap_or(Nanos::MAX));
        }
        self.device_event = next;
        for (tag, at) in self.finished.drain(..) {
            self.completions.push(at.max(self.now), tag);
        }
    }

    /// Admits the next request if it is due. A closed loop keeps its depth on each volume. The trace is not reordered, so a
    /// volume may wait for the turn of another.
    #[inline(always)]
    fn admit(&mut self) -> Result<Admitted, SimError> {
        if !SEVERAL && self.in_flight >= self.depth {
            return Ok(Admitted::NoneBefore(Nanos::MAX));
        }
        let Some(&next) = self.source.peek() else { return Ok(Admitted::NoneBefore(Nanos::MAX)) };
        let volumes = self.addressed(next.volume);
        if SEVERAL && self.hosts[volumes.clone()].iter().any(|host| host.in_flight() >= self.depth) {
            return Ok(Admitted::NoneBefore(Nanos::MAX));
        }
        let arrival = match self.speed {
            None if WATCHED => {
                let lanes = self.hosts[volumes.clone()].iter().filter_map(|host| host.lanes.as_ref());
                lanes.filter_map(|lanes| lanes.arrival(next.at)).fold(self.now, Nanos::max)
            }
            None => self.now,
            Some(1.0) => next.at,
            Some(speed) => {
                let at = next.at.0 as f64 / speed;
                if at > LATEST as f64 {
                    return Err(SimError::TooSlow { speed });
                }
                Nanos(at as u64)
            }
        };
        if arrival > self.now {
            return Ok(Admitted::NoneBefore(arrival));
        }
        if WATCHED && arrival >= self.next_change {
            self.change_settings(arrival)?;
        }
        self.source.pass()?;
        for (distance, near) in [(FAR, false), (NEAR, true)] {
            if let Some(later) = self.source.ahead(distance) {
                let (volumes, offset) = (self.addressed(later.volume), later.offset);
                for volume in volumes {
                    let Volume { engine, touched, .. } = &self.machine.volumes[volume];
                    engine.prefetch(offset, near);
                    if WATCHED
                        && near
                        && let Some(touched) = touched
                    {
                        touched.prefetch(offset);
                    }
                }
            }
        }
        let last = volumes.end - 1;
        for volume in volumes {
            let request = Request { op: next.op, offset: next.offset, len: next.len };
            self.submit(volume, (arrival, next.at), request);
            if SEVERAL && volume != last {
                self.carry_out(volume);
            }
        }
        Ok(Admitted::To { volume: last })
    }

    /// The volumes of the drive that get a request of this volume of the trace.
    #[inline]
    fn addressed(&self, volume: u32) -> std::ops::Range<usize> {
        if !SEVERAL {
            0..1
        } else if self.machine.same_requests {
            0..self.hosts.len()
        } else {
            volume as usize..volume as usize + 1
        }
    }

    /// Submits a request, with when it arrived and when it does in the trace; what the volume commands then is still to be carried out.
    #[inline(always)]
    fn submit(&mut self, volume: usize, (arrived, recorded): (Nanos, Nanos), request: Request) {
        if WATCHED && self.parts.is_some() {
            self.count_arrival();
        }
        let number = self.arrivals as u32;
        self.arrivals += 1;
        let host = &mut self.hosts[volume];
        let pending = Pending { arrived, op: request.op, len: request.len, number, covered: host.times.covered() };
        let id = match host.free.pop() {
            Some(id) => {
                host.requests[id as usize] = pending;
                id
            }
            None => {
                host.requests.push(pending);
                host.requests.len() as u32 - 1
            }
        };
        if WATCHED && let Some(lanes) = &mut host.lanes {
            let took = self.recorded.as_ref().and_then(|known| known.took.get(number as usize));
            lanes.submitted(id, recorded + took.copied().unwrap_or_default());
        }
        self.in_flight += 1;
        self.deepest = self.deepest.max(self.in_flight);
        self.last_arrival = arrived;
        if WATCHED && self.above.is_some() {
            return self.ask_cache(volume, id, request);
        }
        self.hand_in(volume, id, request);
    }

    /// Hands a request to an engine; what that commands then is still to be carried out.
    #[inline(always)]
    fn hand_in(&mut self, volume: usize, id: u32, request: Request) {
        let Volume { engine, bounds, host, touched, .. } = &mut self.machine.volumes[volume];
        if WATCHED
            && let Some((_, bounds)) = bounds
            && request.op == Op::Write
        {
            bounds.host_wrote(request.offset, request.len);
        }
        if WATCHED {
            if let Some(touched) = touched {
                touched.touch(request.op, request.offset, request.len);
            }
            if let Some(uses) = &mut self.uses {
                uses.counts.used(self.now, volume, request.op, request.offset, request.len);
            }
            self.machine.watch.see(self.now, volume, || Moment::Submitted(RequestId(u64::from(id)), request));
        }
        if WATCHED {
            apart::submit(engine, self.now, RequestId(u64::from(id)), request, &mut self.commands);
        } else {
            engine.submit(self.now, RequestId(u64::from(id)), request, &mut self.commands);
        }
        if WATCHED && let Some(host) = host {
            host.touch(request.op, request.offset, request.len);
            for range in host.hints() {
                self.machine.watch.see(self.now, volume, || Moment::Hinted(range.start, range.end));
                engine.host_dropped(self.now, range, &mut self.commands);
            }
        }
    }

    /// Gives the commands of a volume's engine to the devices, by a call that is not compiled into the caller.
    #[inline(never)]
    fn carry_out(&mut self, volume: usize) {
        self.carry_out_here(volume);
    }

    /// Gives the commands of a volume's engine to the devices, compiled into the caller.
    #[inline(always)]
    fn carry_out_here(&mut self, volume: usize) {
        let volume = if SEVERAL { volume } else { 0 };
        if WATCHED && self.uses.is_some() {
            self.count_moves(volume);
        }
        // Accessed by index, because no command is added meanwhile. To move the list, or to copy a whole command right
        // after it was written, would wait until all of it has reached the cache.
        for index in 0..self.commands.len() {
            if WATCHED {
                self.machine.watch.see(self.now, volume, || Moment::Commanded(self.commands[index]));
            }
            let (io, device, op, at, len) = match self.commands[index] {
                Command::Read { io, device, at, len, .. } => (io, device, Op::Read, at, len),
                Command::Write { io, device, at, len, .. } => {
                    if WATCHED
                        && let Some((primary, bounds)) = &mut self.machine.volumes[volume].bounds
                        && *primary == device.index()
                    {
                        bounds.device_wrote(at, len);
                    }
                    (io, device, Op::Write, at, len)
                }
                Command::Reply { id, result } => {
                    if WATCHED && self.above.is_some() {
                        self.answer_cache(id, result.is_err());
                    } else {
                        self.reply(volume, id, result.is_err());
                    }
                    continue;
                }
                Command::Succeed { .. } => unreachable!("no device is replaced in a simulation"),
                // The time of copies in memory is negligible compared with any device.
                Command::Copy { .. } | Command::Clear { .. } | Command::Encode { .. } => continue,
                Command::Flush { io, device } => (io, device, Op::Flush, Bytes::ZERO, Bytes::ZERO),
                Command::Discard { io, device, at, len } => (io, device, Op::Discard, at, len),
                Command::Zero { io, device, at, len } => {
                    let write = self.machine.zeroes_by_writing(volume, device);
                    (io, device, if write { Op::Write } else { Op::Discard }, at, len)
                }
                Command::Power { device, state: Power::Standby } => {
                    self.rest(volume, device.index());
                    continue;
                }
            };
            let tag = self.tag(volume, io);
            self.keep_id(tag, io);
            let (mut device, mut at) = (device.index(), at);
            if SEVERAL {
                let place = &mut self.machine.volumes[volume].places[device];
                place.lets_rest = false;
                device = place.device;
                at = if op == Op::Flush { at } else { at + place.from };
            }
            let (device, io) = (&mut self.machine.devices[device].model, Io { op, at, len });
            let accepted =
                if SEVERAL { apart::carry_out(device, self.now, tag, io) } else { device.submit(self.now, tag, io) };
            match accepted {
                Accepted::At(end) => self.completions.push(end, tag),
                Accepted::Queued => self.device_event = self.machine.next_device_event(),
            }
        }
        self.commands.clear();
        if WATCHED && self.above.is_some() {
            self.carry_out_cache();
        }
    }

    /// A volume puts a device to standby; a shared device sleeps when all of its volumes have done so.
    fn rest(&mut self, volume: usize, device: usize) {
        let place = &mut self.machine.volumes[volume].places[device];
        place.lets_rest = true;
        let device = place.device;
        if self.machine.may_rest(device) {
            self.machine.devices[device].model.set_power(self.now, PowerState::Standby);
        }
        self.device_event = self.machine.next_device_event();
    }

    #[inline(always)]
    fn reply(&mut self, volume: usize, id: RequestId, failed: bool) {
        let host = &mut self.hosts[volume];
        let Pending { arrived, op, len, number, covered } = host.requests[id.0 as usize];
        host.free.push(id.0 as u32);
        if WATCHED && let Some(lanes) = &mut host.lanes {
            lanes.answered(id.0 as u32, self.now);
        }
        self.in_flight -= 1;
        self.last_reply = self.now;
        if self.wear.due(self.now) {
            self.wear.take(self.now, self.machine.wear());
        }
        host.times.answered(op, arrived, covered, self.now, failed);
        if matches!(op, Op::Read | Op::Write) {
            self.bytes += u128::from(len.0);
        }
        if WATCHED && self.replies_count {
            self.count_reply(number, op, self.now - arrived, len);
        }
    }

    /// The statistics of each device of the design, over all volumes.
    fn stats(&mut self) -> Vec<Vec<DeviceStats>> {
        let now = self.now;
        let mut of_device = |device: usize| self.machine.devices[device].model.stats(now);
        let volumes = &self.machine.volumes;
        (0..volumes[0].places.len())
            .map(|index| {
                let mut places: Vec<usize> = volumes.iter().map(|volume| volume.places[index].device).collect();
                places.dedup();
                places.into_iter().flat_map(&mut of_device).collect()
            })
            .collect()
    }

    /// Completes all commands that devices work on, outside of the hot path.
    #[cold]
    fn drain(&mut self) {
        loop {
            let next = self.completions.next().min(self.device_event);
            if next == Nanos::MAX {
                return;
            }
            self.now = self.now.max(next);
            self.look_at_devices();
            while self.completions.next() <= self.now {
                let volume = self.complete_next::<true>();
                self.carry_out(volume);
            }
        }
    }

    /// Empties the logs after the measured span, because data still in a log has not been saved.
    fn empty_logs(&mut self) -> Result<(), SimError> {
        for volume in 0..self.hosts.len() {
            let engine = &mut self.machine.volumes[volume].engine;
            let whole = Bytes::ZERO..engine.volume_size();
            self.machine.watch.see(self.now, volume, || Moment::Hinted(whole.start, whole.end));
            engine.host_dropped(self.now, whole, &mut self.commands);
            self.carry_out(volume);
        }
        self.drain();
        loop {
            let busy = self.machine.volumes.iter().filter(|volume| !volume.engine.is_idle());
            let Some(deadline) = busy.filter_map(|volume| volume.engine.deadline()).min() else { return Ok(()) };
            self.now = self.now.max(deadline);
            self.tick()?;
            self.drain();
        }
    }

    fn outcome(mut self, answered: u64, options: &Options) -> Result<Outcome, SimError> {
        self.last_reply = self.last_reply.max(self.until);
        let page_cache = self.above.as_mut().map(|above| {
            above.end();
            above.report()
        });
        self.end_last_interval();
        let picture = options.picture.then(|| self.intervals.pop().map_or_else(Vec::new, Intervals::into_rows));
        let uses = self.uses.take().map(|uses| uses.counts.report(self.last_reply));
        let picture = picture.zip(uses);
        let ledgers: Vec<Stats> = self.machine.volumes.iter().map(|volume| volume.engine.stats().clone()).collect();
        let (worn, now) = (self.machine.wear(), self.now);
        self.machine.devices.iter_mut().for_each(|device| device.model.settle(now));
        self.wear.settled(&worn, &self.machine.wear());
        let devices = self.stats();
        let (arrays, drives) = (self.machine.array_writes(), self.machine.drives());
        // Moves in flight continue to their end without being measured; an engine that cannot finish them has a defect.
        self.drain();
        if self.machine.volumes.iter().any(|volume| volume.bounds.is_some()) {
            self.empty_logs()?;
        }
        let drained = self.stats();
        let part = |((volume, host), stats): ((Volume, Host), Stats)| VolumeOutcome {
            times: host.times,
            touched: volume.touched,
            stats,
            drained: volume.engine.stats().clone(),
            adaptive: volume.engine.adaptive_admission(),
            climb: volume.engine.climbing(),
            bounds: volume.bounds.map(|(_, bounds)| bounds.whole()),
        };
        let mut parts: Vec<VolumeOutcome> =
            self.machine.volumes.into_iter().zip(self.hosts).zip(ledgers).map(part).collect();
        let (whole, volumes) = match parts.len() {
            1 => (parts.remove(0), Vec::new()),
            _ => (together(&parts), parts),
        };
        Ok(Outcome {
            span: self.last_reply - self.since,
            answered,
            bytes: self.bytes,
            times: whole.times,
            behind: self.last_reply.saturating_sub(self.last_arrival),
            hash: self.source.hash(),
            account: self.source.account(),
            touched: whole.touched,
            stats: whole.stats,
            devices,
            arrays,
            drives,
            wear: self.wear,
            intervals: self.intervals.pop().map_or_else(Vec::new, Intervals::into_rows),
            picture,
            parts: self.parts,
            wrapped: self.source.wrapped(),
            skipped: self.source.skipped(),
            empty: self.source.empty(),
            adaptive: whole.adaptive,
            climb: whole.climb,
            bounds: whole.bounds,
            deepest: self.deepest,
            page_cache,
            drained: (whole.drained, drained),
            volumes,
        })
    }
}

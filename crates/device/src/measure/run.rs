//! Carries out the program on a device.

use peryton_units::{Bytes, Nanos, Op};

use super::{
    About, Block, Course, FLUSHES, Flushes, Interval, MOST_REQUESTS, Measurement, Requests, Step, Subject,
    step::{Addresses, Order},
};
use crate::{Io, validate::Measured};

/// Time that is spent.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// All of it.
    pub whole: Nanos,
    /// Bytes that sustained writes may write at most, so that a small drive is not worn by being measured.
    pub most_written: Bytes,
}

/// The share of the time for sustained writes, where there are any: one part in so many.
const COURSES: u64 = 4;
/// The length of an interval of a sustained write.
const INTERVAL: Nanos = Nanos::from_ms(100);
/// A step has at least this long, so that a command that takes long is seen.
const LEAST_SLICE: Nanos = Nanos::from_ms(20);
/// Random reads whose latencies show whether it is a disk.
const PROBES: u32 = 48;

/// What is being done.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The step that has ended.
    pub step: &'a Step,
    /// The round that it belongs to, from 0; none for a sustained write.
    pub round: Option<u32>,
    /// The number of the step in its round, from 0.
    pub number: usize,
    /// How many requests it had, or how many bytes a sustained write wrote.
    pub requests: u64,
    /// Their mean latency.
    pub mean: Nanos,
}

/// Carries out what of the program has not been done yet. It ends early, without an error, when `stop` says so, after the requests that
/// are in flight. `tell` hears of each step that has ended, and `rounds` of what there is after each round.
///
/// # Errors
/// The device fails; one line.
pub fn measure(
    subject: &mut dyn Subject,
    measurement: &mut Measurement,
    budget: Budget,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(Progress<'_>),
    after_round: &mut dyn FnMut(&Measurement),
) -> Result<(), String> {
    measurement.keep_complete_rounds();
    let first = measurement.complete_rounds();
    // Times in the measurement go on after those of rounds that were measured earlier.
    let last = measurement.blocks.iter().flat_map(|block| block.requests.0.last());
    let offset = last.map(|request| request.at.0 + request.latency.0).max().unwrap_or(0);
    let begun = subject.now();
    let left = budget.whole.0.saturating_sub(begun.0);
    let blocks = u64::from(measurement.rounds - first) * measurement.steps.len() as u64;
    let pause = measurement.device.settles();
    let slice = Nanos((left / blocks.max(1)).saturating_sub(pause.0)).max(LEAST_SLICE);
    for round in first..measurement.rounds {
        for (number, step) in measurement.steps.clone().iter().enumerate() {
            if stop() || measurement.requests() + step.most as usize > MOST_REQUESTS {
                return Ok(());
            }
            // What the step before has left to be done in the background is done.
            subject.rest(pause);
            let seed = measurement.seed ^ (u64::from(round) << 32 | (number as u64 + 1) << 8);
            let mut requests = block(subject, step, &measurement.device, (seed, slice), stop)?;
            for request in &mut requests {
                request.at = Nanos(request.at.0.saturating_sub(begun.0) + offset);
            }
            let sum: u64 = requests.iter().map(|request| request.latency.0).sum();
            let mean = Nanos(sum / (requests.len() as u64).max(1));
            tell(Progress { step, round: Some(round), number, requests: requests.len() as u64, mean });
            if stop() {
                // Part of a step is another mix than the whole.
                return Ok(());
            }
            measurement.blocks.push(Block { step: number as u32, round, requests: Requests(requests) });
        }
        if measurement.device.written {
            let seed = measurement.seed ^ (u64::from(round) << 32);
            let latencies = flushes(subject, &measurement.device, (seed, slice), stop)?;
            measurement.flushes.push(Flushes { round, latencies });
        }
        after_round(measurement);
    }
    Ok(())
}

/// Small writes, one at a time, with a flush after each: what the flushes took.
fn flushes(
    subject: &mut dyn Subject,
    device: &About,
    (seed, limit): (u64, Nanos),
    stop: &dyn Fn() -> bool,
) -> Result<Vec<u64>, String> {
    let size = Bytes(4096).max(device.block);
    let write = Step { order: Order::Random, reads: 0, size, depth: 1, rest: 0, most: FLUSHES as u32 };
    let mut addresses = Addresses::new(&write, device, seed);
    let (mut took, mut done) = (Vec::with_capacity(FLUSHES), Vec::new());
    let end = Nanos(subject.now().0.saturating_add(limit.0));
    while took.len() < FLUSHES && subject.now() < end && !stop() {
        let flush = Io { op: Op::Flush, at: Bytes::ZERO, len: Bytes::ZERO };
        let mut began = Nanos::ZERO;
        for io in [addresses.next(), flush] {
            began = subject.now();
            subject.begin(0, io)?;
            done.clear();
            subject.wait(&mut done)?;
        }
        took.extend(done.first().map(|&(_, now)| now.0.saturating_sub(began.0)));
    }
    Ok(took)
}

/// Writes without pause for a quarter of the time, first in order and then at random, and returns the rates. A scratch file is always
/// written whole, because reads of unwritten parts would not reach the device.
///
/// # Errors
/// The device fails; one line.
pub fn sustain(
    subject: &mut dyn Subject,
    device: &About,
    (seed, budget): (u64, Budget),
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<Vec<Course>, String> {
    let mut courses = Vec::new();
    for (order, size) in [(Order::Sequential, Bytes::kib(128)), (Order::Random, Bytes::kib(4))] {
        let what = Step { order, reads: 0, size: size.max(device.block), depth: 32, rest: 0, most: 1 };
        if !device.written || stop() || what.size.saturating_mul(64) > device.size {
            continue;
        }
        let least = if device.scratch && order == Order::Sequential { device.size } else { Bytes::ZERO };
        let limit = Nanos(budget.whole.0 / COURSES / 2);
        let writer = Sustained { what: &what, limit, least, most: Bytes(budget.most_written.0 / 2).max(least) };
        let intervals = writer.run(subject, device, seed, stop)?;
        let sum = |value: fn(&Interval) -> u64| intervals.iter().map(value).sum::<u64>();
        let mean = Nanos(sum(|interval| interval.latencies) / sum(|interval| interval.commands).max(1));
        let bytes = sum(|interval| interval.written);
        tell(Progress { step: &what, round: None, number: courses.len(), requests: bytes, mean });
        courses.push(Course { what, intervals });
    }
    Ok(courses)
}

/// Some random reads, one at a time, for [`crate::fit::Kind::of`].
///
/// # Errors
/// The device fails; one line.
pub fn probe(subject: &mut dyn Subject, device: &About, stop: &dyn Fn() -> bool) -> Result<Vec<Measured>, String> {
    let size = Bytes(4096).max(device.block);
    let step = Step { order: Order::Random, reads: 100, size, depth: 1, rest: 0, most: PROBES };
    block(subject, &step, device, (0, Nanos::from_s(2)), stop)
}

/// The requests of one step in one round, in the order in which they began.
fn block(
    subject: &mut dyn Subject,
    step: &Step,
    device: &About,
    (seed, limit): (u64, Nanos),
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Measured>, String> {
    let mut addresses = Addresses::new(step, device, seed);
    let mut requests: Vec<Measured> = Vec::with_capacity(step.most as usize);
    let end = Nanos(subject.now().0.saturating_add(limit.0));
    let mut free: Vec<u32> = (0..step.depth).rev().collect();
    let mut of_slot = vec![0usize; step.depth as usize];
    let mut done = Vec::new();
    loop {
        let goes_on = |begun: usize, now: Nanos| begun < step.most as usize && (now < end || begun < 2) && !stop();
        if step.rest > 0 && free.len() == step.depth as usize && goes_on(requests.len(), subject.now()) {
            subject.rest(Nanos(step.rest));
        }
        while let Some(&slot) = free.last() {
            let now = subject.now();
            if !goes_on(requests.len(), now) {
                break;
            }
            free.pop();
            let io = addresses.next();
            of_slot[slot as usize] = requests.len();
            requests.push(Measured { at: now, io, latency: Nanos::ZERO });
            subject.begin(slot, io)?;
        }
        if free.len() == step.depth as usize {
            return Ok(requests);
        }
        subject.wait(&mut done)?;
        for (slot, now) in done.drain(..) {
            let request = &mut requests[of_slot[slot as usize]];
            request.latency = Nanos(now.0.saturating_sub(request.at.0));
            free.push(slot);
        }
    }
}

/// Writes that go on and on.
struct Sustained<'a> {
    what: &'a Step,
    limit: Nanos,
    least: Bytes,
    most: Bytes,
}

impl Sustained<'_> {
    fn run(
        &self,
        subject: &mut dyn Subject,
        device: &About,
        seed: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Interval>, String> {
        let step = self.what;
        let mut addresses = Addresses::new(step, device, seed);
        // A file is written from its beginning, without a hole.
        let mut next = 0;
        let mut from_start = || -> Io {
            let at = if next + step.size.0 > device.size.0 { 0 } else { next };
            next = at + step.size.0;
            Io { op: Op::Write, at: Bytes(at), len: step.size }
        };
        let began = subject.now();
        let mut begun_bytes = 0u64;
        let mut intervals = Vec::new();
        let mut interval = Interval { took: 0, written: 0, commands: 0, latencies: 0, longest: 0 };
        let mut since = began;
        let mut free: Vec<u32> = (0..step.depth).rev().collect();
        let mut begun_at = vec![Nanos::ZERO; step.depth as usize];
        let mut done = Vec::new();
        loop {
            while let Some(&slot) = free.last() {
                let now = subject.now();
                let over = now.0 - began.0 >= self.limit.0 || begun_bytes >= self.most.0;
                if stop() || (over && begun_bytes >= self.least.0) {
                    break;
                }
                free.pop();
                let io = if step.order == Order::Sequential { from_start() } else { addresses.next() };
                begun_bytes += io.len.0;
                begun_at[slot as usize] = now;
                subject.begin(slot, io)?;
            }
            if free.len() == step.depth as usize {
                break;
            }
            subject.wait(&mut done)?;
            for (slot, now) in done.drain(..) {
                let latency = now.0.saturating_sub(begun_at[slot as usize].0);
                interval.commands += 1;
                interval.written += step.size.0;
                interval.latencies += latency;
                interval.longest = interval.longest.max(latency);
                free.push(slot);
                if now.0 - since.0 >= INTERVAL.0 {
                    interval.took = now.0 - since.0;
                    since = now;
                    intervals.push(interval);
                    interval = Interval { took: 0, written: 0, commands: 0, latencies: 0, longest: 0 };
                }
            }
        }
        let now = subject.now();
        if interval.commands > 0 && now > since {
            interval.took = now.0 - since.0;
            intervals.push(interval);
        }
        Ok(intervals)
    }
}

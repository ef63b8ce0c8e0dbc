//! Measures a device with a program of steps, and keeps what was measured.
//!
//! The steps are data ([`Step`]); the device is anything that takes commands and says when they are done ([`Subject`]), so that a model
//! can be measured like a drive. The program runs in rounds: each round has all steps for a short time. Rounds with an even number
//! are fitted and the others are only scored ([`crate::fit::fit_measurement`]), so that disturbances of the machine fall on both halves.

mod columns;
mod run;
mod step;
mod summary;
mod synthetic;

use peryton_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use columns::Requests;
pub use run::{Budget, Progress, measure, probe, sustain};
pub use step::{Order, Step, ZONES, program};
pub use summary::{Distribution, Summary};
pub use synthetic::Synthetic;

use crate::{Io, kind::Kind};

/// What [`Measurement::format`] says.
pub const FORMAT: &str = "peryton-measurement-1";
/// Requests in a measurement at most: it bounds memory and the file.
pub const MOST_REQUESTS: usize = 2_000_000;
/// Steps of a program, rounds, and commands in flight at most.
pub const MOST_STEPS: usize = 256;
/// See [`MOST_STEPS`].
pub const MOST_ROUNDS: u32 = 64;
/// See [`MOST_STEPS`].
pub const MOST_DEPTH: u32 = 256;
/// Flushes in a round at most.
pub const FLUSHES: usize = 16;
/// The fewest flushes that say something.
const LEAST_FLUSHES: usize = 8;
/// Means leave out the slowest of this many requests, as the fit does.
pub(crate) const SLOWEST: usize = 200;
/// The largest transfer of a step.
pub const MOST_SIZE: Bytes = Bytes::mib(1);

/// A device that can be measured. Its clock begins anywhere and never goes back.
pub trait Subject {
    /// The time.
    fn now(&mut self) -> Nanos;

    /// Begins a command in a slot that has none.
    ///
    /// # Errors
    /// The device cannot take it; one line.
    fn begin(&mut self, slot: u32, io: Io) -> Result<(), String>;

    /// Waits until at least one command is done, and says of which slots, each with the time at which that was seen.
    ///
    /// # Errors
    /// A command failed; one line.
    fn wait(&mut self, done: &mut Vec<(u32, Nanos)>) -> Result<(), String>;

    /// Lets time pass without a command in flight.
    fn rest(&mut self, time: Nanos);
}

/// The device that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// Its path.
    pub path: String,
    /// What its maker calls it, if Linux knows.
    pub model: Option<String>,
    /// Whether it is a disk or flash, by the latencies of some random reads, or as it was given.
    pub kind: Kind,
    /// Whether Linux says that seeks are slow on it.
    pub rotational: Option<bool>,
    /// Bytes that were measured: the device's, or the scratch file's.
    #[serde(rename = "size_bytes")]
    pub size: Bytes,
    /// Bytes of the device, or of the device beneath the scratch file where Linux knows that.
    #[serde(rename = "capacity_bytes")]
    pub capacity: Option<Bytes>,
    /// Commands begin at and have a multiple of this.
    #[serde(rename = "block_bytes")]
    pub block: Bytes,
    /// Whether it was a file made for this.
    pub scratch: bool,
    /// Whether it was written.
    pub written: bool,
    /// Whether the page cache was bypassed.
    pub direct: bool,
}

impl About {
    /// The pause between two steps.
    fn settles(&self) -> Nanos {
        if self.kind == Kind::Disk { Nanos::from_ms(200) } else { Nanos::from_ms(50) }
    }
}

/// The requests of one step in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// The step, counted from 0.
    pub step: u32,
    /// The round, counted from 0.
    pub round: u32,
    /// The requests, in the order of their times.
    pub requests: Requests,
}

/// An interval of a sustained write.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Its length.
    #[serde(rename = "took_ns")]
    pub took: u64,
    /// Bytes that were written in it.
    #[serde(rename = "written_bytes")]
    pub written: u64,
    /// Commands that ended in it, and the sum and the largest of their latencies.
    pub commands: u64,
    /// The sum of the latencies.
    #[serde(rename = "latencies_ns")]
    pub latencies: u64,
    /// The largest latency.
    #[serde(rename = "longest_ns")]
    pub longest: u64,
}

/// Writes that go on and on: how fast they are over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Course {
    /// What was written.
    pub what: Step,
    /// The intervals, one after the other.
    pub intervals: Vec<Interval>,
}

/// What flushes took in a round, each after a small write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flushes {
    /// The round, counted from 0.
    pub round: u32,
    /// How long each took, after the write had ended.
    #[serde(rename = "latencies_ns")]
    pub latencies: Vec<u64>,
}

/// What was measured on a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// [`FORMAT`].
    pub format: String,
    /// The device.
    pub device: About,
    /// The seed of addresses and operations.
    pub seed: u64,
    /// Rounds that the program has.
    pub rounds: u32,
    /// The program.
    pub steps: Vec<Step>,
    /// What was measured, in the order in which it was.
    pub blocks: Vec<Block>,
    /// Sustained writes, which came before the rounds.
    pub courses: Vec<Course>,
    /// Flushes, which came after the steps of a round, where the device was written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flushes: Vec<Flushes>,
}

/// Why a measurement cannot be used: one line.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct BadMeasurement(String);

impl Measurement {
    /// A measurement that has its program and no request yet.
    pub fn new(device: About, seed: u64, rounds: u32) -> Measurement {
        let steps = program(&device);
        let rounds = rounds.clamp(2, MOST_ROUNDS);
        let (blocks, courses, flushes) = (Vec::new(), Vec::new(), Vec::new());
        Measurement { format: FORMAT.to_owned(), device, seed, rounds, steps, blocks, courses, flushes }
    }

    /// Checks what comes from a file.
    ///
    /// # Errors
    /// What is wrong first.
    pub fn check(&self) -> Result<(), BadMeasurement> {
        let bad = |what: String| Err(BadMeasurement(what));
        if self.format != FORMAT {
            return bad(format!("the format is '{:.40}': expected '{FORMAT}'", self.format));
        }
        if self.device.size.0 > 1 << 60 || !self.device.block.0.is_power_of_two() || self.device.block > MOST_SIZE {
            return bad("the device's size or block is out of range".to_owned());
        }
        if self.device.capacity.is_some_and(|capacity| capacity < self.device.size || capacity.0 > 1 << 60) {
            return bad("the device's capacity is less than what was measured, or out of range".to_owned());
        }
        if self.steps.is_empty() || self.steps.len() > MOST_STEPS || !(2..=MOST_ROUNDS).contains(&self.rounds) {
            return bad(format!("expected 1 to {MOST_STEPS} steps and 2 to {MOST_ROUNDS} rounds"));
        }
        for step in self.steps.iter().chain(self.courses.iter().map(|course| &course.what)) {
            step.check().map_err(|what| BadMeasurement(format!("step '{}': {what}", step.name())))?;
        }
        let rounds = self.flushes.windows(2).all(|two| two[0].round < two[1].round);
        let alike = self.flushes.iter().all(|flushes| {
            flushes.round < self.rounds
                && flushes.latencies.len() <= FLUSHES
                && flushes.latencies.iter().all(|&took| took <= columns::LONGEST)
        });
        if !rounds || !alike {
            return bad(format!(
                "flushes: expected at most {FLUSHES} in a round, each less than a day, round by round"
            ));
        }
        let mut requests = 0;
        for block in &self.blocks {
            let place = || format!("step {} of round {}", block.step, block.round);
            if block.step as usize >= self.steps.len() || block.round >= self.rounds {
                return bad(format!("{}: the program has no such step", place()));
            }
            requests += block.requests.0.len();
            if requests > MOST_REQUESTS {
                return bad(format!("more than {MOST_REQUESTS} requests"));
            }
            let end = self.device.size;
            let inside = |request: &crate::validate::Measured| {
                request.io.len > Bytes::ZERO
                    && request.io.len <= MOST_SIZE
                    && request.io.at.checked_add(request.io.len).is_some_and(|last| last <= end)
            };
            if let Some(outside) = block.requests.0.iter().find(|request| !inside(request)) {
                let (at, len) = (outside.io.at.0, outside.io.len.0);
                return bad(format!("{}: {len} bytes at {at} are not inside the device", place()));
            }
        }
        Ok(())
    }

    /// The number of rounds that are complete.
    pub fn complete_rounds(&self) -> u32 {
        let has = |round: u32| {
            (0..self.steps.len() as u32).all(|step| self.blocks.iter().any(|b| (b.round, b.step) == (round, step)))
        };
        (0..self.rounds).take_while(|&round| has(round)).count() as u32
    }

    /// Leaves out the rounds that are not complete, so that they can be measured again.
    pub fn keep_complete_rounds(&mut self) {
        let complete = self.complete_rounds();
        self.blocks.retain(|block| block.round < complete);
        self.flushes.retain(|flushes| flushes.round < complete);
    }

    /// The mean time of a flush after a small write, without the slowest of every 200, and the number of flushes: of the rounds that are
    /// fitted (even numbers), or of the others. None if there are too few.
    pub fn flush(&self, fitted: bool) -> Option<(Nanos, usize)> {
        let of = self.flushes.iter().filter(|flushes| (flushes.round % 2 == 0) == fitted);
        let mut all: Vec<u64> = of.flat_map(|flushes| flushes.latencies.iter().copied()).collect();
        all.sort_unstable();
        let count = all.len();
        all.truncate(count - count.div_ceil(SLOWEST));
        let mean = all.iter().sum::<u64>() / (all.len() as u64).max(1);
        (count >= LEAST_FLUSHES).then_some((Nanos(mean), count))
    }

    /// The number of requests in all blocks.
    pub fn requests(&self) -> usize {
        self.blocks.iter().map(|block| block.requests.0.len()).sum()
    }
}

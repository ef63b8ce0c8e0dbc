//! The steps of a measurement, as data, and the programs of them for disks and for other devices.

use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::{About, MOST_DEPTH, MOST_SIZE};
use crate::{Io, kind::Kind};

/// The order of a step's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Anywhere.
    Random,
    /// One after the other, from somewhere on.
    Sequential,
    /// One before the other, from somewhere on: a disk waits for nearly a whole turn each time.
    Backward,
    /// At distances of every order of magnitude.
    Jumps,
    /// Runs at places that are spread evenly over the device, from its beginning to its end.
    Zones,
}

/// Places of [`Order::Zones`].
pub const ZONES: u64 = 16;
/// The most requests in one step of one round.
pub const MOST_IN_BLOCK: u32 = 10_000;

/// Requests of one kind, each begun as soon as one of those in flight has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The order of the addresses.
    pub order: Order,
    /// Reads in a hundred requests; the others are writes.
    pub reads: u32,
    /// Bytes of each.
    #[serde(rename = "size_bytes")]
    pub size: Bytes,
    /// Requests in flight.
    pub depth: u32,
    /// Idle time before each request.
    #[serde(rename = "rest_ns")]
    pub rest: u64,
    /// Requests in a round at most.
    pub most: u32,
}

impl Step {
    fn of(order: Order, reads: u32, kib: u64, depth: u32, most: u32) -> Step {
        Step { order, reads, size: Bytes::kib(kib), depth, rest: 0, most }
    }

    /// What people call it.
    pub fn name(&self) -> String {
        let what = match self.reads {
            100 => "reads".to_owned(),
            0 => "writes".to_owned(),
            reads => format!("{reads} % reads, {} % writes", 100 - reads.min(100)),
        };
        let order = match self.order {
            Order::Random => "random",
            Order::Sequential => "sequential",
            Order::Backward => "backward",
            Order::Jumps => "jumping",
            Order::Zones => "zone by zone",
        };
        let rest = if self.rest > 0 { format!(", after {} of rest", Nanos(self.rest)) } else { String::new() };
        format!("{order} {what}, {}, {} in flight{rest}", self.size, self.depth)
    }

    /// Whether it only reads.
    pub fn only_reads(&self) -> bool {
        self.reads >= 100
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.reads > 100 || self.size == Bytes::ZERO || self.size > MOST_SIZE {
            return Err(format!("expected 0 to 100 % reads of at most {MOST_SIZE}"));
        }
        if !(1..=MOST_DEPTH).contains(&self.depth) || !(1..=MOST_IN_BLOCK).contains(&self.most) {
            return Err(format!("expected 1 to {MOST_DEPTH} in flight and 1 to {MOST_IN_BLOCK} requests"));
        }
        if self.rest > 1_000_000_000 {
            return Err("expected at most 1s of rest".to_owned());
        }
        Ok(())
    }
}

/// The program for a device. What does not fit into it is left out.
pub fn program(device: &About) -> Vec<Step> {
    let mut steps = match device.kind {
        Kind::Disk => disk(),
        Kind::Flash | Kind::Fixed => quick(),
    };
    steps.retain(|step| device.written || step.only_reads());
    for step in &mut steps {
        step.size = Bytes(step.size.0.next_multiple_of(device.block.0)).min(MOST_SIZE);
    }
    steps.retain(|step| step.size.saturating_mul(u64::from(step.depth) * 2) <= device.size);
    steps.dedup();
    steps
}

fn disk() -> Vec<Step> {
    use Order::{Backward, Jumps, Random, Sequential, Zones};
    vec![
        Step::of(Random, 100, 4, 1, 120),
        Step::of(Jumps, 100, 4, 1, 160),
        Step::of(Backward, 100, 4, 1, 60),
        Step::of(Zones, 100, 256, 2, 256),
        Step::of(Sequential, 100, 4, 1, 400),
        Step::of(Sequential, 100, 64, 1, 200),
        Step::of(Random, 100, 256, 1, 60),
        Step::of(Random, 100, 4, 8, 160),
        Step::of(Random, 100, 4, 32, 200),
        Step::of(Random, 0, 4, 1, 120),
        Step::of(Sequential, 0, 64, 1, 200),
        Step::of(Random, 0, 4, 16, 160),
        Step::of(Random, 70, 4, 1, 120),
        Step::of(Random, 70, 16, 8, 160),
    ]
}

fn quick() -> Vec<Step> {
    use Order::{Random, Sequential};
    let after = |rest_us: u64, most| Step { rest: rest_us * 1000, ..Step::of(Random, 100, 4, 1, most) };
    vec![
        Step::of(Random, 100, 4, 1, 400),
        Step::of(Random, 100, 16, 1, 300),
        Step::of(Random, 100, 64, 1, 200),
        Step::of(Random, 100, 256, 1, 120),
        Step::of(Random, 100, 4, 4, 600),
        Step::of(Random, 100, 4, 16, 800),
        Step::of(Random, 100, 4, 64, 1200),
        Step::of(Random, 100, 64, 8, 400),
        Step::of(Sequential, 100, 4, 1, 300),
        Step::of(Sequential, 100, 128, 1, 200),
        Step::of(Sequential, 100, 128, 8, 400),
        after(500, 80),
        after(2_000, 40),
        after(6_000, 20),
        after(20_000, 12),
        Step::of(Random, 0, 4, 1, 400),
        Step::of(Random, 0, 64, 1, 200),
        Step::of(Random, 0, 4, 16, 800),
        Step::of(Random, 0, 64, 8, 300),
        Step::of(Sequential, 0, 128, 8, 300),
        Step::of(Random, 70, 4, 1, 400),
        Step::of(Random, 70, 4, 16, 800),
        Step::of(Random, 70, 64, 4, 300),
    ]
}

/// The requests of a step in a round: the same seed gives the same.
pub(super) struct Addresses {
    random: Pcg64Mcg,
    step: Step,
    block: u64,
    /// Bytes of the device, in whole blocks.
    end: u64,
    last: u64,
    count: u64,
}

impl Addresses {
    pub fn new(step: &Step, device: &About, seed: u64) -> Addresses {
        let block = device.block.0;
        let end = device.size.0 / block * block;
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let room = end.saturating_sub(step.size.0) / block + 1;
        let last = random.random::<u64>() % room * block;
        Addresses { random, step: step.clone(), block, end, last, count: 0 }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.random::<u64>() % n.max(1)
    }

    /// A place where a request fits, in whole blocks. Small requests are aligned to their size, as those of file systems are.
    fn anywhere(&mut self) -> u64 {
        let align = if self.step.size.0.is_power_of_two() { self.step.size.0 } else { self.block };
        self.below((self.end - self.step.size.0) / align + 1) * align
    }

    pub fn next(&mut self) -> Io {
        let size = self.step.size.0;
        let at = match self.step.order {
            Order::Random => self.anywhere(),
            Order::Sequential => {
                if self.count > 0 {
                    self.last + size
                } else {
                    self.last / size * size
                }
            }
            Order::Backward => {
                if self.count > 0 {
                    self.last.wrapping_sub(size)
                } else {
                    self.last
                }
            }
            Order::Jumps => {
                let orders = (self.end / size).max(2).ilog2();
                let order = self.below(u64::from(orders));
                let far = (size << order) + self.below(size << order) / self.block * self.block;
                if self.below(2) == 0 { self.last + far } else { self.last.wrapping_sub(far) }
            }
            Order::Zones => {
                let run = u64::from(self.step.most) / ZONES;
                let (zone, place) = (self.count / run.max(1) % ZONES, self.count % run.max(1));
                let first = (self.end - run * size) / (ZONES - 1) * zone / self.block * self.block;
                first + place * size
            }
        };
        // What runs over an end goes on somewhere else.
        let fits = at.checked_add(size).is_some_and(|end| end <= self.end);
        self.last = if fits { at } else { self.anywhere() };
        self.count += 1;
        let op = if self.below(100) < u64::from(self.step.reads) { Op::Read } else { Op::Write };
        Io { op, at: Bytes(self.last), len: self.step.size }
    }
}

//! A host and a plain array to check the engine against. Data is one number per cell of 128 bytes; commands complete in
//! random order, and fail at random where the run asks for it.
#![allow(dead_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Deref, DerefMut, Range},
};

use peryton_crash::{Asked, Disks, Driver, Effect, random_tuning};
use peryton_engine::{Command, Commands, Config, DeviceError, DeviceId, Engine, Request, RequestId, Tuning};
use peryton_units::{Bytes, Nanos, Op};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub const CELL: u64 = 128;

/// Devices that keep what they are given, but for metadata: nothing is ever opened again.
pub struct Cells {
    devices: Vec<Vec<u64>>,
    /// Every command of this device fails, without any effect.
    pub dead: Option<DeviceId>,
}

impl Disks for Cells {
    type Cell = u64;
    type Payload = Vec<u64>;
    const CELL: u64 = CELL;
    const ZERO: u64 = 0;
    const UNSET: u64 = u64::MAX;
    const KEEPS_METADATA: bool = false;

    fn data(cells: &[u64]) -> Vec<u64> {
        cells.to_vec()
    }

    fn is_still(payload: &Vec<u64>, cells: &[u64]) -> bool {
        payload == cells
    }

    fn to_bytes(_: &[u64]) -> Vec<u8> {
        unreachable!("no metadata is encoded")
    }

    fn from_bytes(_: &[u8]) -> Vec<u64> {
        unreachable!("no metadata is encoded")
    }

    fn metadata(&self, _: DeviceId, _: Bytes, _: Vec<u8>) -> Vec<u64> {
        unreachable!("no metadata is encoded")
    }

    fn is_dead(&self, device: DeviceId) -> bool {
        self.dead == Some(device)
    }

    fn read(&self, device: DeviceId, at: Bytes, into: &mut [u64]) -> Result<(), DeviceError> {
        into.copy_from_slice(&self.devices[device.index()][(at.0 / CELL) as usize..][..into.len()]);
        Ok(())
    }

    fn write(&mut self, device: DeviceId, at: Bytes, payload: Vec<u64>, effect: Effect, rng: &mut Pcg64Mcg) {
        let cells = &mut self.devices[device.index()][(at.0 / CELL) as usize..];
        for (cell, value) in cells.iter_mut().zip(payload) {
            if effect == Effect::Whole || rng.random_bool(0.5) {
                *cell = value;
            }
        }
    }

    fn mark(&self, _: DeviceId) -> u64 {
        0
    }

    fn flushed(&mut self, _: DeviceId, _: u64) {}
}

/// What a request may read, or writes.
struct Expected {
    request: Request,
    /// What a write writes.
    values: Vec<u64>,
    /// For a read, for each cell, what it may return.
    allowed: Vec<BTreeSet<u64>>,
    /// For each cell, whether a write of it was in flight at some time meanwhile.
    contended: Vec<bool>,
}

pub struct World {
    driver: Driver<Cells>,
    pub rng: Pcg64Mcg,
    /// One in so many commands fails; zero for none.
    pub fail_one_in: u32,
    /// Flushes fail as well. A log stops at one.
    pub flushes_fail: bool,
    /// Failed reads and writes that have not been looked at: those of a device that is dead.
    pub failed: Vec<Request>,
    extent_cells: usize,
    expected: BTreeMap<RequestId, Expected>,
    /// The plain array: what each cell may hold.
    model: Vec<BTreeSet<u64>>,
    next_value: u64,
    pub replies: u64,
    pub failures: u64,
    pub reads_checked: u64,
}

impl Deref for World {
    type Target = Driver<Cells>;

    fn deref(&self) -> &Driver<Cells> {
        &self.driver
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Driver<Cells> {
        &mut self.driver
    }
}

impl World {
    pub fn new(config: Config, extent: Bytes, seed: u64) -> World {
        let engine = Engine::new(config).expect("the test's configuration is sound");
        let devices = engine.device_bytes().iter().map(|bytes| vec![0; bytes.0.div_ceil(CELL) as usize]).collect();
        let cells = engine.volume_size().0 / CELL;
        World {
            driver: Driver::new(engine, Cells { devices, dead: None }),
            rng: Pcg64Mcg::seed_from_u64(seed),
            fail_one_in: 0,
            flushes_fail: true,
            failed: Vec::new(),
            extent_cells: (extent.0 / CELL) as usize,
            expected: BTreeMap::new(),
            model: vec![BTreeSet::from([0]); cells as usize],
            next_value: 1,
            replies: 0,
            failures: 0,
            reads_checked: 0,
        }
    }

    pub fn in_flight(&self) -> usize {
        self.requests.len()
    }

    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    fn is_inside(&self, request: &Request) -> bool {
        let end = request.offset.0.checked_add(request.len.0);
        end.is_some_and(|end| end <= self.engine.volume_size().0)
    }

    /// The cells that a request is about, if it lies within the volume.
    fn range(&self, request: &Request) -> Range<usize> {
        if self.is_inside(request) { Driver::<Cells>::span(request) } else { 0..0 }
    }

    pub fn submit(&mut self, request: Request) -> RequestId {
        let range = self.range(&request);
        let changes = matches!(request.op, Op::Write | Op::Discard);
        let mut values = vec![0; range.len()];
        if request.op == Op::Write {
            values.fill_with(|| {
                self.next_value += 1;
                self.next_value - 1
            });
        }
        let mut allowed = if request.op == Op::Read { self.model[range.clone()].to_vec() } else { Vec::new() };
        let mut contended = vec![false; range.len()];
        for other in self.expected.values_mut() {
            let theirs = if other.contended.is_empty() { 0..0 } else { Driver::<Cells>::span(&other.request) };
            let they_change = matches!(other.request.op, Op::Write | Op::Discard);
            for cell in range.start.max(theirs.start)..range.end.min(theirs.end) {
                let (ours, theirs) = (cell - range.start, cell - theirs.start);
                other.contended[theirs] |= changes;
                contended[ours] |= they_change;
                if changes && other.request.op == Op::Read {
                    other.allowed[theirs].insert(values[ours]);
                }
                if they_change && request.op == Op::Read {
                    allowed[ours].insert(other.values[theirs]);
                }
            }
        }
        let id = self.driver.submit(request, 0, values.clone());
        self.expected.insert(id, Expected { request, values, allowed, contended });
        self.answers();
        id
    }

    /// Makes one access and completes it.
    pub fn access(&mut self, op: Op, offset: Bytes, len: Bytes) {
        self.submit(Request { op, offset, len });
        self.complete_all();
    }

    pub fn random_request(&mut self, most_cells: u64) {
        let total = self.engine.volume_size().0 / CELL;
        let op = match self.rng.random_range(0..100) {
            0..45 => Op::Read,
            45..90 => Op::Write,
            90..97 => Op::Discard,
            _ => Op::Flush,
        };
        // Half of the requests go to a few extents, so that there is something to promote.
        let hot = (self.extent_cells as u64 * 4).min(total);
        let start = if self.rng.random_bool(0.5) {
            self.rng.random_range(0..hot)
        } else {
            self.rng.random_range(0..total + self.extent_cells as u64 / 8)
        };
        let (mut start, mut len) = (start, self.rng.random_range(0..=most_cells));
        if self.rng.random_bool(0.2) {
            start -= start % self.extent_cells as u64;
            len = self.extent_cells as u64 * self.rng.random_range(1..3);
        }
        self.submit(Request { op, offset: Bytes(start * CELL), len: Bytes(len * CELL) });
    }

    fn answers(&mut self) {
        for (id, asked, result) in std::mem::take(&mut self.driver.answered) {
            let expected = self.expected.remove(&id).expect("it was expected");
            self.replied(asked, expected, result.is_ok());
        }
    }

    fn replied(&mut self, asked: Asked<u64>, expected: Expected, ok: bool) {
        self.replies += 1;
        self.failures += u64::from(!ok);
        let Asked { request, data, .. } = asked;
        let Expected { allowed, contended, .. } = expected;
        if !ok && self.disks.dead.is_some() {
            self.failed.push(request);
        }
        if request.op != Op::Flush && !self.is_inside(&request) {
            assert!(!ok, "a request past the end was accepted");
            return;
        }
        if request.op == Op::Flush || request.len.0 == 0 {
            return;
        }
        let range = self.range(&request);
        match request.op {
            Op::Read if ok => {
                self.reads_checked += 1;
                for (cell, index) in range.clone().zip(0..) {
                    assert!(
                        allowed[index].contains(&data[index]),
                        "cell {cell} read {} but may only hold {:?} ({request:?})",
                        data[index],
                        allowed[index]
                    );
                }
                // With no write about, what was read once is what it is.
                for (cell, index) in range.zip(0..) {
                    if !contended[index] {
                        self.model[cell] = BTreeSet::from([data[index]]);
                    }
                }
            }
            Op::Write => {
                for (cell, index) in range.zip(0..) {
                    if ok && !contended[index] {
                        self.model[cell] = BTreeSet::from([data[index]]);
                    } else {
                        self.model[cell].insert(data[index]);
                    }
                }
            }
            Op::Discard => {
                for cell in range {
                    self.model[cell].insert(0);
                }
            }
            _ => {}
        }
    }

    /// Completes one command, chosen at random.
    pub fn complete_one(&mut self) {
        if !self.pending.is_empty() {
            let index = self.driver.pending.len();
            let index = self.rng.random_range(0..index);
            self.complete_at(index);
        }
    }

    /// The commands under way, oldest first as long as only [`World::complete_at`] is used.
    pub fn commands(&self) -> Vec<Command> {
        self.pending.iter().map(|pending| pending.command).collect()
    }

    /// Completes the oldest command, and those that follow from it, until none is under way.
    pub fn complete_all(&mut self) {
        while !self.pending.is_empty() {
            self.complete_at(0);
        }
    }

    /// Completes one command.
    pub fn complete_at(&mut self, index: usize) {
        let dead = self.disks.is_dead(self.pending[index].device());
        let fails = !dead && self.fail_one_in > 0 && self.rng.random_range(0..self.fail_one_in) == 0;
        let is_flush = matches!(self.pending[index].command, Command::Flush { .. });
        let fails = fails && (self.flushes_fail || !is_flush);
        self.driver.complete_at(index, fails, &mut self.rng);
        self.answers();
    }

    /// A command fails.
    pub fn driver_fails(&mut self, index: usize) {
        self.driver.complete_at(index, true, &mut self.rng);
        self.answers();
    }

    /// The driver asks for everything to be written back.
    pub fn driver_cleans(&mut self) {
        self.driver.call(|engine, now, out| engine.write_all_back(now, out));
        self.answers();
    }

    /// The driver says that the device is dead.
    pub fn device_failed(&mut self, device: DeviceId) {
        self.driver.device_failed(device);
        self.answers();
    }

    pub fn tick(&mut self, span: Nanos) {
        self.driver.tick(span);
        self.answers();
    }

    pub fn retune(&mut self, tuning: Tuning) {
        self.driver.retune(tuning);
        self.answers();
    }

    /// One random thing: a request where fewer than `depth` are under way, a completion, or time that passes. Now and then
    /// other settings.
    pub fn step(&mut self, depth: usize, most_cells: u64, tuning: impl FnOnce(&mut World) -> Tuning) {
        if self.in_flight() < depth && self.chance(2) {
            self.random_request(most_cells);
        } else if self.has_pending() && !self.chance(10) {
            self.complete_one();
        } else {
            let span = Nanos(self.any() % 200_000_000);
            self.tick(span);
        }
        if self.chance(100) {
            let tuning = tuning(self);
            self.retune(tuning);
        }
        self.engine.check_invariants();
    }

    /// Completes all that is under way, letting time pass where only a timer is left.
    pub fn settle(&mut self) {
        for _ in 0..1_000_000 {
            if self.pending.is_empty() {
                if self.requests.is_empty() && self.engine.is_idle() {
                    return;
                }
                self.tick(Nanos::from_ms(500));
            } else {
                self.complete_one();
            }
        }
        panic!("{} requests were never answered, engine idle: {}", self.requests.len(), self.engine.is_idle());
    }

    /// Reads the whole volume and checks it.
    pub fn read_all(&mut self) {
        self.settle();
        let size = self.engine.volume_size().0;
        let step = self.extent_cells as u64 * CELL;
        for offset in (0..size).step_by(step as usize) {
            self.submit(Request { op: Op::Read, offset: Bytes(offset), len: Bytes(step.min(size - offset)) });
            self.settle();
        }
    }

    pub fn random_tuning(&mut self, fast_extents: u32) -> Tuning {
        random_tuning(fast_extents, &mut self.rng)
    }

    /// A hint for a random range.
    pub fn evict(&mut self) {
        let size = self.engine.volume_size().0;
        let (from, to) = (self.rng.random_range(0..=size), self.rng.random_range(0..=size));
        self.evict_range(Bytes(from.min(to))..Bytes(from.max(to)));
    }

    /// A hint for this range.
    pub fn evict_range(&mut self, range: Range<Bytes>) {
        self.driver.call(|engine, now, out| engine.host_dropped(now, range, out));
        self.answers();
    }

    /// Takes commands that the test got from the engine itself.
    pub fn carry_out(&mut self, commands: Commands) {
        self.driver.call(|_, _, out| out.extend(commands));
        self.answers();
    }

    pub fn chance(&mut self, one_in: u32) -> bool {
        self.rng.random_range(0..one_in) == 0
    }

    pub fn any(&mut self) -> u64 {
        self.rng.next_u64()
    }
}

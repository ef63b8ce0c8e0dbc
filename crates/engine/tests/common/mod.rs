//! A host, devices and a plain array to check the engine against. Data is one number per cell of 128 bytes. Commands
//! complete in random order, and some fail if the run asks for it.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use peryton_engine::{
    Buffer, Command, Commands, Config, DeviceError, DeviceId, Engine, IoId, Request, RequestId, Tuning,
};
use peryton_engine::{LogCaching, LoggingTuning, Partition, Predict, Regulation, Triggers, WearBudget};
use peryton_units::{Bytes, Nanos, Op};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub const CELL: u64 = 128;

struct Asked {
    request: Request,
    /// What a write writes, or what a read has returned so far.
    data: Vec<u64>,
    /// For a read, the values that each cell may return.
    allowed: Vec<BTreeSet<u64>>,
    /// For each cell, whether a write of it was in flight at any time during the request.
    contended: Vec<bool>,
}

struct Pending {
    command: Command,
    /// The content of a write's buffer when the write was issued; it must not change until completion.
    snapshot: Vec<u64>,
}

pub struct World {
    pub engine: Engine,
    pub now: Nanos,
    pub rng: Pcg64Mcg,
    /// One command in this many fails; zero for none.
    pub fail_one_in: u32,
    /// Every command of this device fails, without any effect.
    pub dead: Option<DeviceId>,
    /// Failed reads and writes that the test has not examined yet.
    pub failed: Vec<Request>,
    /// The number of move buffers that the engine asked for when it was made or re-tuned.
    buffers: u32,
    devices: Vec<Vec<u64>>,
    move_buffers: HashMap<u32, Vec<u64>>,
    extent_cells: usize,
    requests: BTreeMap<RequestId, Asked>,
    pending: Vec<Pending>,
    out: Commands,
    /// The plain array: the values that each cell may hold.
    model: Vec<BTreeSet<u64>>,
    next_id: u64,
    next_value: u64,
    pub replies: u64,
    pub failures: u64,
    pub reads_checked: u64,
}

impl World {
    pub fn new(config: Config, extent: Bytes, seed: u64) -> World {
        let engine = Engine::new(config).expect("the test's configuration is sound");
        let devices = engine.device_bytes().iter().map(|bytes| vec![0; bytes.0.div_ceil(CELL) as usize]).collect();
        let cells = engine.volume_size().0 / CELL;
        let buffers = engine.move_buffers();
        World {
            engine,
            now: Nanos::ZERO,
            rng: Pcg64Mcg::seed_from_u64(seed),
            fail_one_in: 0,
            dead: None,
            failed: Vec::new(),
            buffers,
            devices,
            move_buffers: HashMap::new(),
            extent_cells: (extent.0 / CELL) as usize,
            requests: BTreeMap::new(),
            pending: Vec::new(),
            out: Vec::new(),
            model: vec![BTreeSet::from([0]); cells as usize],
            next_id: 0,
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

    fn cells(request: &Request) -> std::ops::Range<usize> {
        (request.offset.0 / CELL) as usize..((request.offset.0 + request.len.0) / CELL) as usize
    }

    pub fn submit(&mut self, request: Request) -> RequestId {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        let inside = request.op != Op::Flush
            && request.offset.0.checked_add(request.len.0).is_some_and(|end| end <= self.engine.volume_size().0);
        let range = if inside { Self::cells(&request) } else { 0..0 };
        let mut asked = Asked { request, data: vec![0; range.len()], allowed: Vec::new(), contended: Vec::new() };
        let changes = matches!(request.op, Op::Write | Op::Discard);
        asked.contended = vec![false; range.len()];
        if request.op == Op::Write {
            for cell in &mut asked.data {
                *cell = self.next_value;
                self.next_value += 1;
            }
        }
        if request.op == Op::Read {
            asked.allowed = self.model[range.clone()].to_vec();
        }
        for other in self.requests.values_mut() {
            let theirs = if other.contended.is_empty() { 0..0 } else { Self::cells(&other.request) };
            let they_change = matches!(other.request.op, Op::Write | Op::Discard);
            for cell in range.start.max(theirs.start)..range.end.min(theirs.end) {
                let (ours, theirs) = (cell - range.start, cell - theirs.start);
                other.contended[theirs] |= changes;
                asked.contended[ours] |= they_change;
                if changes && other.request.op == Op::Read {
                    other.allowed[theirs].insert(asked.data[ours]);
                }
                if they_change && request.op == Op::Read {
                    asked.allowed[ours].insert(other.data[theirs]);
                }
            }
        }
        self.requests.insert(id, asked);
        let mut out = std::mem::take(&mut self.out);
        self.engine.submit(self.now, id, request, &mut out);
        self.obey(out);
        id
    }

    pub fn random_request(&mut self, most_cells: u64) {
        let total = self.engine.volume_size().0 / CELL;
        let op = match self.rng.random_range(0..100) {
            0..45 => Op::Read,
            45..90 => Op::Write,
            90..97 => Op::Discard,
            _ => Op::Flush,
        };
        // Half of the requests go to a few extents, so that some are promoted.
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

    fn buffer(&mut self, buffer: Buffer, len: Bytes) -> &mut [u64] {
        let cells = (len.0 / CELL) as usize;
        match buffer {
            Buffer::Request { id, offset } => {
                let asked = self.requests.get_mut(&id).expect("the engine used the buffer of an answered request");
                let start = (offset.0 / CELL) as usize;
                &mut asked.data[start..start + cells]
            }
            Buffer::Move { index, offset } => {
                assert!(index < self.buffers, "move buffer {index} is beyond the bound");
                let whole = (self.engine.move_buffer_bytes().0 / CELL) as usize;
                let start = (offset.0 / CELL) as usize;
                let bytes = self.move_buffers.entry(index).or_insert_with(|| vec![u64::MAX; whole]);
                &mut bytes[start..start + cells]
            }
            Buffer::Metadata => &mut [],
        }
    }

    fn obey(&mut self, mut out: Commands) {
        for command in out.drain(..) {
            match command {
                Command::Copy { from, to, len } => {
                    let data = self.buffer(from, len).to_vec();
                    self.buffer(to, len).copy_from_slice(&data);
                }
                Command::Clear { buffer, len } => self.buffer(buffer, len).fill(0),
                Command::Encode { .. } | Command::Power { .. } => {}
                Command::Reply { id, result } => {
                    let asked = self.requests.remove(&id).expect("a request is answered once");
                    self.replied(asked, result.is_ok());
                }
                Command::Write { buffer, len, .. } => {
                    let snapshot = self.buffer(buffer, len).to_vec();
                    self.pending.push(Pending { command, snapshot });
                }
                _ => self.pending.push(Pending { command, snapshot: Vec::new() }),
            }
        }
        self.out = out;
    }

    fn replied(&mut self, asked: Asked, ok: bool) {
        self.replies += 1;
        self.failures += u64::from(!ok);
        let Asked { request, data, allowed, contended } = asked;
        if !ok && self.dead.is_some() {
            self.failed.push(request);
        }
        let end = request.offset.0.checked_add(request.len.0);
        if request.op != Op::Flush && end.is_none_or(|end| end > self.engine.volume_size().0) {
            assert!(!ok, "a request past the end was accepted");
            return;
        }
        if request.op == Op::Flush || request.len.0 == 0 {
            return;
        }
        let range = Self::cells(&request);
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
                // If no write overlaps the read, the value read is the content of the cell.
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
            let index = self.rng.random_range(0..self.pending.len());
            self.complete_at(index);
        }
    }

    /// The commands in flight, oldest first as long as only [`World::complete_at`] is used.
    pub fn commands(&self) -> Vec<Command> {
        self.pending.iter().map(|pending| pending.command).collect()
    }

    /// Completes the commands in flight, oldest first, and those that follow, until none is left.
    pub fn complete_all(&mut self) {
        while !self.pending.is_empty() {
            self.complete_at(0);
        }
    }

    /// Completes one command.
    pub fn complete_at(&mut self, index: usize) {
        let Pending { command, snapshot } = self.pending.remove(index);
        let dead = self.dead.is_some_and(|dead| touches(&command, dead));
        let failed = dead || self.fail_one_in > 0 && self.rng.random_range(0..self.fail_one_in) == 0;
        let span = |at: Bytes, len: Bytes| (at.0 / CELL) as usize..((at.0 + len.0) / CELL) as usize;
        let io = match command {
            Command::Read { io, device, at, len, buffer, .. } => {
                if !failed {
                    let data = self.devices[device.index()][span(at, len)].to_vec();
                    if buffer != Buffer::Metadata {
                        self.buffer(buffer, len).copy_from_slice(&data);
                    }
                }
                io
            }
            Command::Write { io, device, at, len, buffer, .. } => {
                assert_eq!(self.buffer(buffer, len), snapshot, "a buffer changed while it was written: {command:?}");
                for (cell, value) in span(at, len).zip(&snapshot) {
                    if !failed || !dead && self.rng.random_bool(0.5) {
                        self.devices[device.index()][cell] = *value;
                    }
                }
                io
            }
            Command::Zero { io, device, at, len } => {
                for cell in span(at, len) {
                    if !failed || !dead && self.rng.random_bool(0.5) {
                        self.devices[device.index()][cell] = 0;
                    }
                }
                io
            }
            Command::Discard { io, device, at, len } => {
                for cell in span(at, len) {
                    if self.rng.random_bool(0.5) {
                        self.devices[device.index()][cell] = 0;
                    }
                }
                io
            }
            Command::Flush { io, .. } => io,
            Command::Copy { .. }
            | Command::Clear { .. }
            | Command::Encode { .. }
            | Command::Power { .. }
            | Command::Reply { .. } => unreachable!("done at once"),
        };
        self.now += Nanos(self.rng.random_range(0..2_000_000));
        self.complete(io, failed);
    }

    fn complete(&mut self, io: IoId, failed: bool) {
        let mut out = std::mem::take(&mut self.out);
        let result = if failed { Err(DeviceError) } else { Ok(()) };
        self.engine.complete(self.now, io, result, &mut out).expect("it is in flight");
        self.obey(out);
    }

    /// Reports to the engine that the device is dead.
    pub fn device_failed(&mut self, device: DeviceId) {
        let mut out = std::mem::take(&mut self.out);
        self.engine.device_failed(self.now, device, &mut out);
        self.obey(out);
    }

    pub fn tick(&mut self, span: Nanos) {
        self.now += span;
        let mut out = std::mem::take(&mut self.out);
        self.engine.tick(self.now, &mut out);
        self.obey(out);
        self.report_programs();
    }

    /// Reports that the devices program three times what is written to them.
    fn report_programs(&mut self) {
        let Some(device) = self.engine.asks_what_was_programmed(self.now) else { return };
        let written: u64 = self.engine.stats().devices[device.index()].bytes_written.iter().sum();
        self.engine.programmed(device, Bytes(3 * written));
    }

    pub fn retune(&mut self, tuning: Tuning) {
        let mut out = std::mem::take(&mut self.out);
        let before = self.engine.tuning().clone();
        if self.engine.retune(self.now, tuning, &mut out).is_err() {
            assert_eq!(self.engine.tuning(), &before, "a refused tuning changed something");
        }
        self.buffers = self.buffers.max(self.engine.move_buffers());
        self.obey(out);
    }

    /// Does one random thing: a request if fewer than `depth` are in flight, a completion, or an advance of the clock.
    /// Now and then it changes the settings.
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

    /// Completes everything in flight; advances the clock when only a timer is left to wait for.
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
        use peryton_engine::{
            Adaptive, Admission, AdmitBy, Climb, Objective, Replacement, Threshold, WriteHits, WritePolicy,
        };
        let rng = &mut self.rng;
        let high = rng.random_range(0..fast_extents.max(2) + 1);
        Tuning {
            promotion_threshold: rng.random_range(0..3),
            promotion_window: Nanos::from_ms(rng.random_range(0..10_000)),
            demotion_low: rng.random_range(0..=high),
            demotion_high: high,
            max_moves: rng.random_range(1..9),
            write: [WritePolicy::Back, WritePolicy::Through, WritePolicy::Around][rng.random_range(0..3)],
            replacement: Replacement::ALL[rng.random_range(0..Replacement::ALL.len())].1,
            admission: {
                let by = [AdmitBy::All, AdmitBy::Size, AdmitBy::Hotness, AdmitBy::Probability][rng.random_range(0..4)];
                let adaptive = Adaptive {
                    rate: 0.5,
                    caches: rng.random_range(2..5),
                    target_latency: rng.random_bool(0.5).then_some(Nanos::from_ms(1)),
                    frame: Nanos::from_ms(rng.random_range(1..100)),
                    smoothing: 0.8,
                    objective: Objective::default(),
                };
                let threshold = match (by, rng.random_bool(0.5)) {
                    (AdmitBy::All, _) => Threshold::Fixed(1.0),
                    (_, true) => Threshold::Adaptive(adaptive),
                    (AdmitBy::Size, false) => Threshold::Fixed(8192.0),
                    (_, false) => Threshold::Fixed(0.5),
                };
                let bypass = matches!(by, AdmitBy::Size | AdmitBy::Probability) && rng.random_bool(0.5);
                Admission {
                    by,
                    threshold,
                    seed: rng.random_range(0..9),
                    endurance: vec![Some(Bytes::gib(1)), None],
                    programmable: vec![Some(Bytes::gib(2)), None],
                    energy: Vec::new(),
                    write_hits: if bypass { WriteHits::Bypass } else { WriteHits::Cache },
                }
            },
            writeback_queue: rng.random_range(0..20),
            writeback_delay: Nanos::from_ms(rng.random_range(0..50)),
            commit_interval: Nanos::from_ms(rng.random_range(1..3_000)),
            mirror_journal: rng.random_bool(0.5),
            spin_down_after: vec![None, Some(Nanos::from_ms(rng.random_range(0..100)))],
            read_effect: Some(10),
            logging: random_logging(rng),
            partition: random_partition(rng),
            climb: (high % 3 == 0).then(|| Climb { every: Nanos::from_ms(5), requests: 3, ..Climb::default() }),
        }
    }

    /// Sends a hint for a random range.
    pub fn evict(&mut self) {
        let size = self.engine.volume_size().0;
        let (from, to) = (self.rng.random_range(0..=size), self.rng.random_range(0..=size));
        let mut out = std::mem::take(&mut self.out);
        self.engine.evict(self.now, Bytes(from.min(to))..Bytes(from.max(to)), &mut out);
        self.obey(out);
    }

    /// Carries out commands that the test got from the engine directly.
    pub fn carry_out(&mut self, out: Commands) {
        self.obey(out);
    }

    pub fn chance(&mut self, one_in: u32) -> bool {
        self.rng.random_range(0..one_in) == 0
    }

    pub fn any(&mut self) -> u64 {
        self.rng.next_u64()
    }
}

fn wear_budget(rng: &mut Pcg64Mcg) -> WearBudget {
    let endurance = Bytes::mib(rng.random_range(1..10));
    WearBudget { endurance, programmable: Some(endurance * 2), lifetime: Nanos::from_s(60), amplification: 1_000 }
}

fn random_partition(rng: &mut Pcg64Mcg) -> Partition {
    Partition {
        predict: match rng.random_range(0..4) {
            0 => Predict::Off,
            1 => Predict::LastValue,
            2 => Predict::Linear { window: rng.random_range(1..20), training: rng.random_range(0..50) },
            _ => Predict::Linear { window: 16, training: 0 },
        },
        regulation: match rng.random_range(0..4) {
            0 => Regulation::Off,
            1 => Regulation::Share(rng.random_range(0..1_000_000)),
            2 => Regulation::ShareBeyond { share: rng.random_range(0..1_000_000), budget: wear_budget(rng) },
            _ => Regulation::Lifetime(wear_budget(rng)),
        },
        idle_after: Nanos::from_ms(rng.random_range(0..50)),
        bust_after: rng.random_bool(0.6).then(|| Nanos::from_ms(rng.random_range(0..200))),
        bust_free: if rng.random_bool(0.5) { 1_000_000 } else { rng.random_range(0..1_000_000) },
        promote_reads: rng.random_range(0..3),
        small: Bytes::kib(rng.random_range(1..32)),
        seed: rng.random_range(0..9),
    }
}

fn random_logging(rng: &mut Pcg64Mcg) -> LoggingTuning {
    let some = |rng: &mut Pcg64Mcg| rng.random_bool(0.4);
    LoggingTuning {
        caching: match rng.random_range(0..3) {
            0 => LogCaching::Selective { overwrite_ratio_ppm: rng.random_range(0..900_000) },
            _ => LogCaching::Full,
        },
        triggers: Triggers {
            timeout: some(rng).then(|| Nanos::from_ms(rng.random_range(1..2_000))),
            read_share_ppm: some(rng).then(|| rng.random_range(0..200_000)),
            size: some(rng).then(|| Bytes(rng.random_range(1..200_000))),
            log_used_ppm: if some(rng) { rng.random_range(1..=1_000_000) } else { 1_000_000 },
        },
        gather_bytes: Bytes(rng.random_range(0..40_000)),
        gather_delay: if rng.random_bool(0.5) { Nanos::ZERO } else { Nanos::from_ms(rng.random_range(0..30)) },
        checkpoint_interval: Nanos::from_ms(rng.random_range(1..2_000)),
        migration_memory: Bytes::kib(256 * rng.random_range(0..6)),
    }
}

fn touches(command: &Command, dead: DeviceId) -> bool {
    match command {
        Command::Read { device, .. }
        | Command::Write { device, .. }
        | Command::Flush { device, .. }
        | Command::Discard { device, .. }
        | Command::Zero { device, .. } => *device == dead,
        _ => false,
    }
}

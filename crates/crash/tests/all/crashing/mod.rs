//! Disks with a volatile cache that loses, reorders and tears what was not flushed, and a host that knows what may be
//! read after that.
#![allow(dead_code, unused_imports)]

mod disks;
mod runs;

use std::ops::{Deref, DerefMut, Range};

pub use disks::{Disk, Disks, Interrupted, flip, forge};
pub use runs::{Sum, run};

use peryton_crash::{Disks as FakeDisks, Driver, Effect, Pending};
use peryton_engine::{
    Cause, Command, Config, DeviceId, Engine, Formatting, Logging, OpenError, Placement, ReadmitError, Request,
    RequestError, RequestId, Tuning, VolumeId, closed,
};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub const PRIMARY: DeviceId = DeviceId(0);
pub const LOG: DeviceId = DeviceId(1);
const SECTOR: usize = 512;

pub fn config(primary: u64, log: u64, block: u64) -> Config {
    let placement = Placement::Logging(Logging { primaries: PRIMARY.into(), log: LOG, block: Bytes(block) });
    Config { devices: vec![Bytes(primary), Bytes(log)], placement, tuning: Tuning::default() }
}

pub fn blank(config: &Config) -> Disks {
    let engine = Engine::new(config.clone()).unwrap();
    let disk = |size: &Bytes| Some(Disk::new(size.0 as usize));
    Disks(engine.device_bytes().iter().map(disk).collect())
}

pub fn formatted(config: &Config) -> Disks {
    let mut disks = blank(config);
    let new = Formatting { volume: VolumeId(0xabc), unix_s: 1, zeroed: true, notes: "max_moves=3".to_string() };
    Engine::format(config, new, &mut disks).unwrap();
    disks
}

pub fn open(config: &Config, disks: Disks) -> Result<Machine, OpenError> {
    Machine::open(config.clone(), disks, 1)
}

/// An engine on such disks, and a host.
pub struct Machine {
    pub driver: Driver<Disks>,
    rng: Pcg64Mcg,
    fail_one_in: u32,
}

impl Deref for Machine {
    type Target = Driver<Disks>;

    fn deref(&self) -> &Driver<Disks> {
        &self.driver
    }
}

impl DerefMut for Machine {
    fn deref_mut(&mut self) -> &mut Driver<Disks> {
        &mut self.driver
    }
}

impl Machine {
    fn open(config: Config, mut disks: Disks, seed: u64) -> Result<Machine, OpenError> {
        let (engine, _) = Engine::open(config, &mut disks)?;
        Ok(Machine::with(engine, disks, seed))
    }

    pub fn with(engine: Engine, disks: Disks, seed: u64) -> Machine {
        let mut driver = Driver::new(engine, disks);
        driver.most_latency = Nanos::ZERO;
        Machine { driver, rng: Pcg64Mcg::seed_from_u64(seed), fail_one_in: 0 }
    }

    fn submit(&mut self, op: Op, offset: u64, bytes: Vec<u8>, len: u64) -> RequestId {
        self.driver.submit(Request { op, offset: Bytes(offset), len: Bytes(len) }, 0, bytes)
    }

    fn carry_out(&mut self, index: usize) {
        // A flush that fails stops a log: see `failed_flush.rs`.
        let is_flush = matches!(self.pending[index].command, Command::Flush { .. });
        let fails = self.fail_one_in > 0 && self.rng.random_range(0..self.fail_one_in) == 0 && !is_flush;
        self.driver.complete_at(index, fails, &mut self.rng);
    }

    /// Carries the oldest command out, which may be made to fail.
    pub fn carry_out_or_fail(&mut self, fails: bool) {
        self.driver.complete_at(0, fails, &mut self.rng);
    }

    /// Carries one command out, whichever.
    pub fn carry_out_at(&mut self, index: usize) {
        self.driver.complete_at(index, false, &mut self.rng);
    }

    /// Carries out what there is and what follows, but the commands that are held. The first flush of `fails`, if a device is given, fails.
    /// Says whether one did.
    pub fn carry_out_but(&mut self, held: impl Fn(&Command) -> bool, mut fails: Option<DeviceId>) -> bool {
        let asked = fails.is_some();
        while let Some(at) = self.pending.iter().position(|pending| !held(&pending.command)) {
            let is_it = matches!(&self.pending[at].command, Command::Flush { device, .. } if Some(*device) == fails);
            if is_it {
                fails = None;
            }
            self.driver.complete_at(at, is_it, &mut self.rng);
        }
        asked && fails.is_none()
    }

    /// Submits a request that need not succeed.
    pub fn ask(&mut self, op: Op, offset: u64, bytes: Vec<u8>) -> RequestId {
        let len = bytes.len() as u64;
        self.submit(op, offset, bytes, len)
    }

    pub fn carry_out_all(&mut self) {
        while !self.pending.is_empty() {
            self.carry_out(0);
        }
    }

    /// The device fails for good, and the host flushes until a flush succeeds. What it holds is returned.
    pub fn dies(&mut self, device: DeviceId) -> Option<Disk> {
        let disk = self.driver.disks.0[device.index()].take();
        self.device_failed(device);
        for _ in 0..3 {
            self.carry_out_all();
            self.ask(Op::Flush, 0, Vec::new());
        }
        self.carry_out_all();
        self.driver.answered.clear();
        assert!(self.engine.is_durably_gone(device));
        disk
    }

    /// Empties the log.
    pub fn migrate(&mut self) {
        self.driver.call(|engine, now, out| engine.write_all_back(now, out));
        self.settle();
    }

    /// Empties the log, as far as the first write to the primary; then the primary dies, while it is to discard something.
    /// Then the host flushes. No time passes, so that no index is due.
    pub fn primary_dies_in_migration(&mut self, discards: Range<u64>) {
        self.driver.call(|engine, now, out| engine.write_all_back(now, out));
        let migrates = |command: &Command| matches!(command, Command::Write { cause: Cause::WriteBack, .. });
        while !self.pending.iter().any(|pending| migrates(&pending.command)) {
            self.carry_out(0);
        }
        self.submit(Op::Discard, discards.start, Vec::new(), discards.end - discards.start);
        let primary = self.disks.0[PRIMARY.index()].take();
        self.device_failed(PRIMARY);
        for _ in 0..3 {
            self.carry_out_all();
            self.submit(Op::Flush, 0, Vec::new(), 0);
        }
        self.disks.0[PRIMARY.index()] = primary;
    }

    fn crash(mut self) -> Disks {
        for Pending { command, payload, .. } in std::mem::take(&mut self.driver.pending) {
            if let Command::Write { device, at, .. } | Command::Zero { device, at, .. } = command
                && self.rng.random_bool(0.5)
            {
                let payload = payload.expect("it writes");
                FakeDisks::write(&mut self.driver.disks, device, at, payload, Effect::Failed, &mut self.rng);
            }
        }
        self.driver.disks.crash(&mut self.rng);
        self.driver.disks
    }

    /// One request by itself.
    pub fn request(&mut self, op: Op, offset: u64, bytes: Vec<u8>) -> Vec<u8> {
        let len = bytes.len() as u64;
        let id = self.submit(op, offset, bytes, len);
        self.tick(Nanos::from_ms(100));
        self.carry_out_all();
        let answered = std::mem::take(&mut self.driver.answered).into_iter().find(|(other, ..)| *other == id);
        let (_, asked, result) = answered.expect("it is answered");
        result.expect("nothing fails");
        asked.data
    }

    pub fn settle(&mut self) {
        self.request(Op::Flush, 0, Vec::new());
        for _ in 0..200 {
            self.tick(Nanos::from_s(1));
            self.carry_out_all();
        }
        assert!(self.engine.is_idle());
    }

    pub fn close(&mut self) {
        self.driver.engine.close(&mut self.driver.disks).unwrap();
    }
}

/// A primary that may lack what its log has given up for it is not taken back, and nothing is written.
pub fn refuses_the_primary(config: Config, mut disks: Disks, device: DeviceId) {
    let before = disks.clone();
    let done = closed::readmit(config, &mut disks, device);
    assert_eq!(done.unwrap_err(), ReadmitError::PrimaryOfLog { device: device.index() });
    assert!(disks.0 == before.0, "a refusal has written something");
}

/// Writes all over the volume, flushing now and then, and returns what it holds.
pub fn use_it(machine: &mut Machine, rounds: u64, seed: u64) -> Vec<u8> {
    let size = machine.engine.volume_size().0;
    let mut model = machine.request(Op::Read, 0, vec![0; size as usize]);
    for round in 0..rounds {
        let number = round + seed * 1000;
        let offset = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (size - 5000) / 512 * 512;
        let bytes = vec![(number % 251) as u8 + 1; 512 + (number % 9 * 512) as usize];
        model[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
        machine.request(Op::Write, offset, bytes);
        if round % 17 == 0 {
            machine.request(Op::Flush, 0, Vec::new());
        }
    }
    model
}

pub fn check_all(machine: &mut Machine, model: &[u8]) {
    for (index, expected) in model.chunks(4096).enumerate() {
        let found = machine.request(Op::Read, index as u64 * 4096, vec![0xcc; expected.len()]);
        assert!(found == expected, "block {index} differs");
    }
    machine.engine.check_invariants();
}

/// The blocks that are lost, and named; all others are as they must be.
pub fn check_unless_lost(machine: &mut Machine, model: &[u8]) -> Vec<u64> {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let mut lost = Vec::new();
    for (block, expected) in (0..).zip(model.chunks(4096)) {
        let range = block as usize * 4096..(block as usize + 1) * 4096;
        match machine.driver.read_now(range, &mut rng) {
            Ok(found) => assert!(found == expected, "block {block} reads {}, not {}", found[0], expected[0]),
            Err(error) => {
                assert_eq!(error, RequestError::Lost);
                lost.push(block);
            }
        }
    }
    machine.engine.check_invariants();
    let losses = machine.engine.losses(1000).ranges;
    let named =
        |block: &u64| losses.iter().any(|range| range.start.0 < (block + 1) * 4096 && block * 4096 < range.end.0);
    assert!(lost.iter().all(named), "of {lost:?} only {losses:?} is named");
    lost
}

/// Which seeds to run; `CRASH_SEEDS=from..to` asks for others.
pub fn seeds(first: u64, count: u64) -> Range<u64> {
    let asked = std::env::var("CRASH_SEEDS").ok();
    let range = asked.as_deref().and_then(|text| text.split_once(".."));
    let range = range.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    range.unwrap_or(first..first + count)
}

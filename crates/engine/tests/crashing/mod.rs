//! Disks with a volatile cache that loses, reorders and tears unflushed writes, and a host that knows what may be read
//! after that.
#![allow(dead_code, unused_imports)]

mod disks;
mod runs;

use std::{collections::HashMap, ops::Range};

use disks::Disk;
pub use disks::{Disks, Interrupted, flip, forge};
pub use runs::{Sum, run};

use peryton_engine::{
    Buffer, Buffers, Cause, Command, Commands, Config, DeviceError, DeviceId, Engine, Formatting, IoId, LogCaching,
    Logging, LoggingTuning, OpenError, Placement, Request, RequestId, Storage, Triggers, Tuning, VolumeId,
};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub const PRIMARY: DeviceId = DeviceId(0);
pub const LOG: DeviceId = DeviceId(1);
const SECTOR: usize = 512;

pub fn config(primary: u64, log: u64, block: u64) -> Config {
    let placement = Placement::Logging(Logging { primary: PRIMARY, log: LOG, block: Bytes(block) });
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

/// The content of the buffers.
#[derive(Default)]
struct Memory {
    host: HashMap<RequestId, Vec<u8>>,
    moves: HashMap<u32, Vec<u8>>,
    whole: usize,
}

impl Memory {
    fn bytes_mut(&mut self, buffer: Buffer, len: Bytes) -> &mut [u8] {
        let (bytes, at) = match buffer {
            Buffer::Request { id, offset } => (self.host.get_mut(&id).unwrap(), offset),
            Buffer::Move { index, offset } => (self.moves.entry(index).or_insert_with(|| vec![0; self.whole]), offset),
            Buffer::Metadata => unreachable!("metadata is encoded"),
        };
        &mut bytes[at.0 as usize..(at.0 + len.0) as usize]
    }
}

impl Buffers for Memory {
    fn bytes(&self, buffer: Buffer, len: Bytes) -> &[u8] {
        let (bytes, at) = match buffer {
            Buffer::Request { id, offset } => (&self.host[&id], offset),
            Buffer::Move { index, offset } => (&self.moves[&index], offset),
            Buffer::Metadata => unreachable!("metadata is encoded"),
        };
        &bytes[at.0 as usize..(at.0 + len.0) as usize]
    }
}

fn is_for(command: &Command, dead: DeviceId) -> bool {
    let (Command::Read { device, .. }
    | Command::Write { device, .. }
    | Command::Zero { device, .. }
    | Command::Discard { device, .. }
    | Command::Flush { device, .. }) = command
    else {
        return false;
    };
    *device == dead
}

struct InFlight {
    command: Command,
    /// The data that is written.
    bytes: Vec<u8>,
}

pub struct Machine {
    pub engine: Engine,
    pub disks: Disks,
    pub now: Nanos,
    memory: Memory,
    in_flight: Vec<InFlight>,
    replies: Vec<(RequestId, bool)>,
    next_id: u64,
    rng: Pcg64Mcg,
    fail_one_in: u32,
    dead: Option<DeviceId>,
}

impl Machine {
    fn open(config: Config, mut disks: Disks, seed: u64) -> Result<Machine, OpenError> {
        let (engine, _) = Engine::open(config, &mut disks)?;
        Ok(Machine::with(engine, disks, seed))
    }

    fn with(engine: Engine, disks: Disks, seed: u64) -> Machine {
        let memory = Memory { whole: engine.move_buffer_bytes().0 as usize, ..Memory::default() };
        Machine {
            engine,
            disks,
            now: Nanos::ZERO,
            memory,
            in_flight: Vec::new(),
            replies: Vec::new(),
            next_id: 0,
            rng: Pcg64Mcg::seed_from_u64(seed),
            fail_one_in: 0,
            dead: None,
        }
    }

    fn take(&mut self, out: Commands) {
        for command in out {
            let mut bytes = Vec::new();
            match command {
                Command::Write { io, len, buffer: Buffer::Metadata, .. } => {
                    bytes = vec![0; len.0 as usize];
                    self.engine.encode_with(io, &mut bytes, &self.memory).expect("it is in flight");
                }
                Command::Write { buffer, len, .. } => bytes = self.memory.bytes_mut(buffer, len).to_vec(),
                Command::Zero { len, .. } => bytes = vec![0; len.0 as usize],
                Command::Encode { io, into, len } => {
                    let mut block = vec![0; len.0 as usize];
                    self.engine.encode_with(io, &mut block, &self.memory).expect("it is in flight");
                    self.memory.bytes_mut(into, len).copy_from_slice(&block);
                    continue;
                }
                Command::Copy { from, to, len } => {
                    let bytes = self.memory.bytes_mut(from, len).to_vec();
                    self.memory.bytes_mut(to, len).copy_from_slice(&bytes);
                    continue;
                }
                Command::Clear { buffer, len } => {
                    self.memory.bytes_mut(buffer, len).fill(0);
                    continue;
                }
                Command::Power { .. } => continue,
                Command::Reply { id, result } => {
                    self.replies.push((id, result.is_ok()));
                    continue;
                }
                _ => {}
            }
            self.in_flight.push(InFlight { command, bytes });
        }
    }

    fn submit(&mut self, op: Op, offset: u64, bytes: Vec<u8>, len: u64) -> RequestId {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.memory.host.insert(id, bytes);
        let mut out = Commands::new();
        self.engine.submit(self.now, id, Request { op, offset: Bytes(offset), len: Bytes(len) }, &mut out);
        self.take(out);
        id
    }

    fn tick(&mut self, span: Nanos) {
        self.now += span;
        let mut out = Commands::new();
        self.engine.tick(self.now, &mut out);
        self.take(out);
    }

    fn carry_out(&mut self, index: usize) {
        let InFlight { command, bytes } = self.in_flight.remove(index);
        let failed = self.fail_one_in > 0 && self.rng.random_range(0..self.fail_one_in) == 0
            || self.dead.is_some_and(|dead| is_for(&command, dead));
        let io: IoId = match command {
            Command::Read { io, device, at, len, buffer, .. } => {
                if !failed {
                    self.disks.read(device, at, self.memory.bytes_mut(buffer, len)).unwrap();
                }
                io
            }
            Command::Write { io, device, at, .. } | Command::Zero { io, device, at, .. } => {
                self.put(device, at, &bytes, failed);
                io
            }
            Command::Discard { io, device, at, len } => {
                for sector in (0..len.0).step_by(SECTOR) {
                    if self.rng.random_bool(0.5) {
                        self.disks.write(device, at + Bytes(sector), &[0; SECTOR]).unwrap();
                    }
                }
                io
            }
            Command::Flush { io, device } => {
                if !failed {
                    self.disks.flush(device).unwrap();
                }
                io
            }
            other => unreachable!("{other:?} is done at once"),
        };
        let mut out = Commands::new();
        let result = if failed { Err(DeviceError) } else { Ok(()) };
        self.engine.complete(self.now, io, result, &mut out).expect("it is in flight");
        self.take(out);
    }

    /// Puts a write on a disk. If it failed or was in flight at a crash (`in_part`), any part of it may be there.
    fn put(&mut self, device: DeviceId, at: Bytes, bytes: &[u8], in_part: bool) {
        let all = !in_part || self.rng.random_bool(0.3);
        for (sector, from) in bytes.chunks_exact(SECTOR).zip((0..).step_by(SECTOR)) {
            if all || self.rng.random_bool(0.5) {
                self.disks.write(device, at + Bytes(from), sector).unwrap();
            }
        }
    }

    /// Empties the log.
    pub fn migrate(&mut self) {
        let mut out = Commands::new();
        self.engine.write_all_back(self.now, &mut out);
        self.take(out);
        self.settle();
    }

    /// Empties the log up to the first write to the primary. Then the primary dies while it is to discard a range, and
    /// the host flushes. The clock stands still, so that no index is due.
    pub fn primary_dies_in_migration(&mut self, discards: Range<u64>) {
        let mut out = Commands::new();
        self.engine.write_all_back(self.now, &mut out);
        self.take(out);
        let migrates = |flight: &InFlight| matches!(flight.command, Command::Write { cause: Cause::WriteBack, .. });
        while !self.in_flight.iter().any(migrates) {
            self.carry_out(0);
        }
        self.submit(Op::Discard, discards.start, Vec::new(), discards.end - discards.start);
        self.dead = Some(PRIMARY);
        let mut out = Commands::new();
        self.engine.device_failed(self.now, PRIMARY, &mut out);
        self.take(out);
        for _ in 0..3 {
            while !self.in_flight.is_empty() {
                self.carry_out(0);
            }
            self.submit(Op::Flush, 0, Vec::new(), 0);
        }
    }

    fn crash(mut self) -> Disks {
        for InFlight { command, bytes } in std::mem::take(&mut self.in_flight) {
            if let Command::Write { device, at, .. } | Command::Zero { device, at, .. } = command
                && self.rng.random_bool(0.5)
            {
                self.put(device, at, &bytes, true);
            }
        }
        self.disks.crash(&mut self.rng);
        self.disks
    }

    /// Carries out one request alone.
    pub fn request(&mut self, op: Op, offset: u64, bytes: Vec<u8>) -> Vec<u8> {
        let len = bytes.len() as u64;
        let id = self.submit(op, offset, bytes, len);
        self.tick(Nanos::from_ms(100));
        while !self.in_flight.is_empty() {
            self.carry_out(0);
        }
        assert!(std::mem::take(&mut self.replies).contains(&(id, true)));
        self.memory.host.remove(&id).unwrap()
    }

    pub fn settle(&mut self) {
        self.request(Op::Flush, 0, Vec::new());
        for _ in 0..200 {
            self.tick(Nanos::from_s(1));
            while !self.in_flight.is_empty() {
                self.carry_out(0);
            }
        }
        assert!(self.engine.is_idle());
    }

    pub fn close(&mut self) {
        self.engine.close(&mut self.disks).unwrap();
    }
}

/// Writes all over the volume, flushing now and then; returns the content of the volume.
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

/// The seeds to run; `CRASH_SEEDS=from..to` chooses others.
pub fn seeds(first: u64, count: u64) -> Range<u64> {
    let asked = std::env::var("CRASH_SEEDS").ok();
    let range = asked.as_deref().and_then(|text| text.split_once(".."));
    let range = range.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    range.unwrap_or(first..first + count)
}

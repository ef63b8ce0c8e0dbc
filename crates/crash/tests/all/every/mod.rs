//! Storage that fails, or is left alone, at its Nth write or flush; and what a volume may hold after that.
#![allow(dead_code, clippy::unwrap_used)] // no user uses all of it

use std::ops::Range;

use peryton_crash::Memory;
use peryton_engine::{
    Cleaning, Config, DeviceError, DeviceId, Engine, Hybrid, LogCaching, Logging, LoggingTuning, OpenError, Placement,
    Storage, Tuning, VolumeId, WritePolicy, handoff::Found,
};
use peryton_units::{Bytes, Nanos, Op};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::crashing::{Disks, Machine, formatted};

pub const FAST: DeviceId = DeviceId(0);
pub const SLOW: DeviceId = DeviceId(1);
const EXTENT: Bytes = Bytes::kib(4);
const SECTOR: usize = 512;

/// What happens at the Nth write or flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails, and the next ones succeed.
    FailsOnce,
    /// The device fails it and all that follow.
    FailsOn,
    /// The process is killed: nothing more happens, and the devices keep what was completed.
    Kill,
    /// The power goes: nothing more happens, and of what was not flushed anything may be lost.
    Power,
}

impl Fault {
    pub const ALL: [Fault; 4] = [Fault::FailsOnce, Fault::FailsOn, Fault::Kill, Fault::Power];

    fn ends_all(self) -> bool {
        matches!(self, Fault::Kill | Fault::Power)
    }
}

/// The devices with a fault at the write or flush after `left` others.
pub struct Faulty<'a> {
    pub disks: &'a mut Disks,
    pub memory: &'a mut Option<Memory>,
    pub fault: Fault,
    pub left: u32,
    pub rng: Pcg64Mcg,
    /// The device that failed, once one has.
    struck: Option<DeviceId>,
    /// A flush has failed and may have lost what it should have covered.
    pub flush_failed: bool,
}

impl<'a> Faulty<'a> {
    pub fn new(disks: &'a mut Disks, memory: &'a mut Option<Memory>, fault: Fault, left: u32, seed: u64) -> Faulty<'a> {
        let rng = Pcg64Mcg::seed_from_u64(seed);
        Faulty { disks, memory, fault, left, rng, struck: None, flush_failed: false }
    }

    pub fn has_struck(&self) -> bool {
        self.struck.is_some()
    }

    /// Whether this operation is the one, or comes after it; and whether it is the one.
    fn strikes(&mut self, device: DeviceId) -> (bool, bool) {
        if let Some(struck) = self.struck {
            return (self.fault.ends_all() || self.fault == Fault::FailsOn && struck == device, false);
        }
        if self.left > 0 {
            self.left -= 1;
            return (false, false);
        }
        self.struck = Some(device);
        (true, true)
    }
}

impl Storage for Faulty<'_> {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        self.disks.size(device)
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        match self.struck {
            Some(_) if self.fault.ends_all() => Err(DeviceError),
            _ => self.disks.read(device, at, into),
        }
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        let (fails, first) = self.strikes(device);
        if !fails {
            return self.disks.write(device, at, from);
        }
        if first {
            // Any part of it may be there.
            self.disks.write_in_part(device, at, from, &mut self.rng);
        }
        Err(DeviceError)
    }

    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError> {
        let (fails, _) = self.strikes(device);
        if !fails {
            return self.disks.flush(device);
        }
        if !self.fault.ends_all() {
            self.flush_failed = true;
            self.disks.flush_loses(device, &mut self.rng);
        }
        Err(DeviceError)
    }

    fn left_in_memory(&mut self, volume: VolumeId, _clean: bool) -> Option<Found> {
        self.memory.as_ref().and_then(|memory| memory.found(volume))
    }

    fn forget_memory(&mut self, _: VolumeId) {
        // A process that was killed does nothing more.
        if self.struck.is_none() || !self.fault.ends_all() {
            *self.memory = None;
        }
    }
}

/// What each sector of the volume may hold: the versions since the last flush, oldest first.
#[derive(Clone)]
pub struct Model {
    sectors: Vec<Vec<[u8; SECTOR]>>,
    /// Of each, which version is the newest whose write was answered.
    sure: Vec<usize>,
}

impl Model {
    pub fn new(size: Bytes) -> Model {
        let sectors = size.0 as usize / SECTOR;
        Model { sectors: vec![vec![[0; SECTOR]]; sectors], sure: vec![0; sectors] }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.begins(offset, bytes);
        self.ends(offset, bytes.len());
    }

    /// A write was answered.
    pub fn ends(&mut self, offset: u64, len: usize) {
        for sector in offset as usize / SECTOR..(offset as usize + len) / SECTOR {
            self.sure[sector] = self.sectors[sector].len() - 1;
        }
    }

    /// A flush has failed: what was written since the last one is there, or not, and stays so.
    pub fn host_is_notified(&mut self) {
        self.sure.fill(0);
    }

    /// A write is under way.
    pub fn begins(&mut self, offset: u64, bytes: &[u8]) {
        for (versions, bytes) in self.sectors[offset as usize / SECTOR..].iter_mut().zip(bytes.as_chunks().0) {
            versions.push(*bytes);
        }
    }

    fn must_allow(&self, sector: usize, found: &[u8], all: bool) -> Result<(), String> {
        if self.allows(sector, found, all) {
            return Ok(());
        }
        let versions: Vec<u8> = self.sectors[sector].iter().map(|version| version[0]).collect();
        Err(format!("sector {sector} holds {}, but may hold {versions:?} (all: {all})", found[0]))
    }

    pub fn size(&self) -> Bytes {
        Bytes((self.sectors.len() * SECTOR) as u64)
    }

    /// Whether these are the bytes of the volume.
    pub fn holds(&self, bytes: &[u8], all: bool) -> Result<(), String> {
        let wrong = (0..self.sectors.len()).find(|at| !self.allows(*at, &bytes[at * SECTOR..(at + 1) * SECTOR], all));
        wrong.map_or(Ok(()), |sector| Err(format!("sector {sector} of the device that stands alone is wrong")))
    }

    pub fn flush(&mut self) {
        for (versions, sure) in self.sectors.iter_mut().zip(&mut self.sure) {
            versions.drain(..std::mem::take(sure));
        }
    }

    /// Whether the sector may be this, `all`: everything that was answered is there.
    fn allows(&self, sector: usize, found: &[u8], all: bool) -> bool {
        let versions = &self.sectors[sector];
        let from = if all { self.sure[sector] } else { 0 };
        versions[from..].iter().any(|version| version[..] == *found)
    }
}

/// A volume between two operations.
#[derive(Clone)]
pub struct Volume {
    pub config: Config,
    pub disks: Disks,
    pub memory: Option<Memory>,
    pub model: Model,
    /// Whether everything that was answered is there.
    pub answered: bool,
}

/// The placements, each with a name.
pub fn placements() -> Vec<(&'static str, Config)> {
    let pair = Hybrid { fast: FAST, slow: SLOW, extent: EXTENT };
    let tuning = Tuning {
        promotion_threshold: 0,
        demotion_low: 1,
        demotion_high: 2,
        writeback_delay: Nanos::from_s(3600),
        cleaning: Cleaning::UNBOUNDED,
        commit_interval: Nanos::from_s(3600),
        ..Tuning::default()
    };
    let devices = vec![EXTENT * 8, EXTENT * 24];
    let with =
        |placement, write| Config { devices: devices.clone(), placement, tuning: Tuning { write, ..tuning.clone() } };
    let log = |caching| Config {
        devices: vec![Bytes::kib(96), Bytes::kib(96)],
        placement: Placement::Logging(Logging { log: FAST, primaries: SLOW.into(), block: Bytes::kib(4) }),
        tuning: Tuning { logging: LoggingTuning { caching, ..LoggingTuning::default() }, ..tuning.clone() },
    };
    vec![
        ("linear", with(Placement::Linear { devices: vec![FAST, SLOW] }, WritePolicy::Back)),
        ("tiering", with(Placement::Tiering(pair), WritePolicy::Back)),
        ("caching, back", with(Placement::Caching(pair), WritePolicy::Back)),
        ("caching, through", with(Placement::Caching(pair), WritePolicy::Through)),
        ("caching, around", with(Placement::Caching(pair), WritePolicy::Around)),
        ("partitioned", with(Placement::Partitioned(pair), WritePolicy::Back)),
        ("logging", log(LogCaching::Full)),
        ("logging, selective", log(LogCaching::Selective { overwrite_ratio_ppm: 300_000 })),
    ]
}

/// A machine that keeps what a killed process has to leave.
pub fn open(volume: &Volume) -> Result<Machine, OpenError> {
    let mut disks = volume.disks.clone();
    let mut memory = volume.memory.clone();
    let mut storage = Faulty::new(&mut disks, &mut memory, Fault::Kill, u32::MAX, 0);
    let (engine, _) = Engine::open(volume.config.clone(), &mut storage)?;
    let mut machine = Machine::with(engine, disks, 1);
    machine.driver.keep_in_memory();
    Ok(machine)
}

/// Writes all over the volume, and flushes where asked.
pub fn write(machine: &mut Machine, model: &mut Model, rounds: Range<u64>) {
    let size = machine.engine.volume_size().0;
    for round in rounds {
        let offset = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (size - 5000) / 512 * 512;
        let len = 512 + round % 9 * 512;
        let bytes: Vec<u8> = (0..len / 512).flat_map(|part| [(round * 7 + part) as u8 | 1; SECTOR]).collect();
        model.write(offset, &bytes);
        machine.request(Op::Write, offset, bytes);
        if round % 3 == 0 {
            machine.request(Op::Read, round * 4096 % size / 4096 * 4096, vec![0; 4096.min(size as usize)]);
        }
    }
}

pub fn flush(machine: &mut Machine, model: &mut Model) {
    machine.request(Op::Flush, 0, Vec::new());
    model.flush();
}

impl Volume {
    pub fn new(config: &Config) -> Volume {
        let disks = formatted(config);
        let size = Engine::new(config.clone()).unwrap().volume_size();
        Volume { config: config.clone(), disks, memory: None, model: Model::new(size), answered: true }
    }

    /// With data in place, some of it answered and not flushed, as a process leaves it that is killed.
    pub fn killed(config: &Config) -> Volume {
        let mut volume = Volume::new(config);
        let mut machine = open(&volume).unwrap();
        write(&mut machine, &mut volume.model, 0..40);
        flush(&mut machine, &mut volume.model);
        write(&mut machine, &mut volume.model, 100..130);
        Volume { memory: machine.driver.memory.clone(), disks: machine.driver.disks, ..volume }
    }

    /// The same, as the power leaves it: nothing that was not flushed is there.
    pub fn after_power_loss(config: &Config) -> Volume {
        let mut volume = Volume::killed(config);
        volume.disks.lose_everything();
        volume.memory = None;
        volume.answered = false;
        volume
    }

    /// With data in place, closed in good order.
    pub fn closed(config: &Config) -> Volume {
        let mut volume = Volume::killed(config);
        let mut machine = open(&volume).unwrap();
        flush(&mut machine, &mut volume.model);
        machine.settle();
        machine.close();
        Volume { disks: machine.driver.disks, memory: None, ..volume }
    }
}

/// Which sectors of the volume cannot be read.
pub type Unreadable = Vec<usize>;

/// Reads everything. `all`: what was answered is there; otherwise what was flushed.
pub fn check(machine: &mut Machine, model: &Model, all: bool) -> Result<Unreadable, String> {
    machine.engine.check_invariants();
    let mut unreadable = Vec::new();
    let mut rng = Pcg64Mcg::seed_from_u64(5);
    for from in (0..model.sectors.len()).step_by(8) {
        let sectors = from..(from + 8).min(model.sectors.len());
        let mut read =
            |sectors: &Range<usize>| machine.driver.read_now(sectors.start * SECTOR..sectors.end * SECTOR, &mut rng);
        if let Ok(found) = read(&sectors) {
            for (sector, found) in sectors.zip(found.chunks_exact(SECTOR)) {
                model.must_allow(sector, found, all)?;
            }
            continue;
        }
        for sector in sectors {
            match read(&(sector..sector + 1)) {
                Ok(found) => model.must_allow(sector, &found, all)?,
                Err(_) => unreadable.push(sector),
            }
        }
    }
    Ok(unreadable)
}

/// Opens the volume, reads everything, and again after one more power loss.
pub fn opens(volume: &Volume, all: bool) -> Result<Unreadable, String> {
    let mut machine = open(volume).map_err(|error| format!("refused: {error}"))?;
    let unreadable = check(&mut machine, &volume.model, all)?;
    let mut disks = machine.driver.disks;
    disks.lose_everything();
    let again = Volume { disks, memory: None, ..volume.clone() };
    let mut machine = open(&again).map_err(|error| format!("refused after one more power loss: {error}"))?;
    check(&mut machine, &volume.model, false)?;
    Ok(unreadable)
}

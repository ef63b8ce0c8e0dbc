//! Random runs: a host that knows what may be read, power losses, and counts of what happened.

use std::{collections::HashMap, ops::Range};

use peryton_engine::{Config, Engine, LogCaching, LoggingTuning, RequestId, Triggers, Tuning};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{Disks, Interrupted, Machine, SECTOR, config, formatted};

/// The values that a sector may hold, oldest first. The first is durable; the last is what a read returns if nothing
/// fails.
#[derive(Clone, Debug)]
struct Sector {
    versions: Vec<Version>,
}

#[derive(Clone, Copy, Debug)]
struct Version {
    value: u64,
    /// Whether it is certain to replace older values: an acknowledged write, not a discard or an error.
    sure: bool,
}

struct Asked {
    op: Op,
    sectors: Range<usize>,
    /// For a flush: how many versions of each sector were acknowledged when it was submitted.
    covers: Vec<usize>,
}

struct Host {
    sectors: Vec<Sector>,
    asked: HashMap<RequestId, Asked>,
    next_value: u64,
    /// Number of versions of each sector that were dropped from the front.
    dropped: Vec<usize>,
}

fn sector(value: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    bytes.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
    bytes
}

impl Host {
    fn new(sectors: usize) -> Host {
        let sector = Sector { versions: vec![Version { value: 0, sure: true }] };
        let sectors = vec![sector; sectors];
        Host { dropped: vec![0; sectors.len()], sectors, asked: HashMap::new(), next_value: 1 }
    }

    fn is_busy(&self, range: &Range<usize>) -> bool {
        self.asked.values().any(|asked| asked.sectors.start < range.end && range.start < asked.sectors.end)
    }

    fn ask(&mut self, machine: &mut Machine, op: Op, range: Range<usize>) {
        let mut bytes = vec![0; range.len() * SECTOR];
        match op {
            Op::Write => {
                for (index, into) in range.clone().zip(bytes.chunks_exact_mut(SECTOR)) {
                    into.copy_from_slice(&sector(self.next_value));
                    self.sectors[index].versions.push(Version { value: self.next_value, sure: false });
                    self.next_value += 1;
                }
            }
            Op::Discard => {
                for index in range.clone() {
                    self.sectors[index].versions.push(Version { value: 0, sure: false });
                }
            }
            Op::Read | Op::Flush => {}
        }
        let covers = match op {
            Op::Flush => {
                // The last version that certainly replaced older ones.
                let last = |sector: &Sector| sector.versions.iter().rposition(|version| version.sure).unwrap_or(0);
                self.sectors.iter().zip(&self.dropped).map(|(sector, dropped)| dropped + last(sector)).collect()
            }
            _ => Vec::new(),
        };
        let sectors = if op == Op::Flush { 0..0 } else { range.clone() };
        let (at, len) = ((range.start * SECTOR) as u64, (range.len() * SECTOR) as u64);
        let bytes = if op == Op::Discard { Vec::new() } else { bytes };
        let id = machine.submit(op, if op == Op::Flush { 0 } else { at }, bytes, len);
        self.asked.insert(id, Asked { op, sectors, covers });
        self.answers(machine);
    }

    /// Checks the answers since the last call.
    fn answers(&mut self, machine: &mut Machine) {
        for (id, answered, result) in std::mem::take(&mut machine.driver.answered) {
            let Asked { op, sectors, covers } = self.asked.remove(&id).unwrap();
            let (bytes, ok) = (answered.data, result.is_ok());
            match op {
                Op::Read if ok => {
                    for (index, bytes) in sectors.zip(bytes.chunks_exact(SECTOR)) {
                        self.check(index, bytes);
                    }
                }
                Op::Write if ok => {
                    for index in sectors {
                        self.sectors[index].versions.last_mut().unwrap().sure = true;
                    }
                }
                Op::Flush if ok => {
                    for (index, covered) in covers.into_iter().enumerate() {
                        let surplus = covered.saturating_sub(self.dropped[index]);
                        self.sectors[index].versions.drain(..surplus);
                        self.dropped[index] += surplus;
                    }
                }
                _ => {}
            }
        }
    }

    /// A read must return the last acknowledged value, or that of an uncertain write since.
    fn check(&mut self, index: usize, bytes: &[u8]) {
        let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes == sector(value), "sector {index} is torn");
        let versions = &self.sectors[index].versions;
        let newest = versions.iter().rposition(|version| version.sure).unwrap_or(0);
        let fits = versions[newest..].iter().any(|version| version.value == value);
        assert!(fits, "sector {index} reads {value}, but may only hold {:?}", &versions[newest..]);
    }

    /// After a crash, any version from the last durable one on may be read; the one that is read then stays.
    fn pin(&mut self, machine: &mut Machine) {
        let size = self.sectors.len() * SECTOR;
        for from in (0..size).step_by(64 << 10) {
            let len = (64 << 10).min(size - from);
            let bytes = machine.request(Op::Read, from as u64, vec![0xcc; len]);
            for (index, bytes) in (from / SECTOR..).zip(bytes.chunks_exact(SECTOR)) {
                let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                assert!(bytes == sector(value), "sector {index} is torn");
                let versions = &mut self.sectors[index].versions;
                let fits = versions.iter().any(|version| version.value == value);
                assert!(fits, "sector {index} is {value} after a crash, but may only be {versions:?}");
                *versions = vec![Version { value, sure: true }];
                self.dropped[index] = 0;
            }
        }
    }
}

/// Counts of what happened, so that the test can check that enough did.
#[derive(Debug, Default)]
pub struct Sum {
    crashes: u64,
    replayed: u64,
    interrupted: u64,
    closed: u64,
    migrated: u64,
    direct: u64,
    indexes: u64,
    absent: u64,
    commits: u64,
    died: u64,
}

impl Sum {
    pub fn add(&mut self, other: Sum) {
        self.crashes += other.crashes;
        self.replayed += other.replayed;
        self.interrupted += other.interrupted;
        self.closed += other.closed;
        self.migrated += other.migrated;
        self.direct += other.direct;
        self.indexes += other.indexes;
        self.absent += other.absent;
        self.commits += other.commits;
        self.died += other.died;
    }

    pub fn check(&self) {
        let Sum { crashes, replayed, interrupted, closed, migrated, direct, indexes, commits, .. } = *self;
        let counts = [crashes, replayed, interrupted, closed, migrated, direct, indexes, commits];
        assert!(counts.iter().all(|count| *count > 50), "too little happened: {self:?}");
    }
}

fn random_tuning(rng: &mut Pcg64Mcg) -> Tuning {
    let logging = LoggingTuning {
        caching: match rng.random_range(0..3) {
            0 => LogCaching::Selective { overwrite_ratio_ppm: rng.random_range(1..900_000) },
            _ => LogCaching::Full,
        },
        triggers: Triggers {
            timeout: rng.random_bool(0.3).then(|| Nanos::from_ms(rng.random_range(1..3_000))),
            read_share_ppm: None,
            size: rng.random_bool(0.3).then(|| Bytes(rng.random_range(1..200_000))),
            log_used_ppm: if rng.random_bool(0.5) { rng.random_range(1..=1_000_000) } else { 1_000_000 },
        },
        gather_bytes: Bytes(rng.random_range(0..40_000)),
        gather_delay: if rng.random_bool(0.5) { Nanos::ZERO } else { Nanos::from_ms(rng.random_range(0..30)) },
        most_behind: rng.random_bool(0.5).then(|| Nanos::from_us(rng.random_range(0..20_000))),
        checkpoint_interval: Nanos::from_ms(rng.random_range(1..2_000)),
        migration_memory: Bytes::kib(256 * rng.random_range(0..3)),
    };
    Tuning { commit_interval: Nanos::from_ms(rng.random_range(1..3_000)), logging, ..Tuning::default() }
}

/// Opens a volume; the opening may be interrupted.
fn reopen(config: &Config, mut disks: Disks, rng: &mut Pcg64Mcg, sum: &mut Sum) -> Machine {
    while rng.random_bool(0.3) {
        let left = rng.random_range(0..14);
        let done = Engine::open(config.clone(), &mut Interrupted { disks: &mut disks, left }).is_ok();
        if !done {
            sum.interrupted += 1;
        }
        disks.crash(rng);
    }
    let seed = rng.random_range(0..u64::MAX);
    let (engine, opened) = Engine::open(config.clone(), &mut disks).expect("what a crash left can be opened");
    sum.replayed += opened.mapped;
    Machine::with(engine, disks, seed)
}

pub fn run(seed: u64, failures: bool) -> Sum {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let rng = &mut rng;
    let mut sum = Sum::default();
    let block = 512 << rng.random_range(0..5);
    let primary = (block * rng.random_range(2..60u64)).next_multiple_of(4096);
    let log = ((32 << 10) * [1, 2, 3, 8, 40][rng.random_range(0..5)]).max(block * 8);
    let mut config = config(primary, log, block);
    config.tuning = random_tuning(rng);
    let mut disks = formatted(&config);
    let mut host = Host::new((primary / SECTOR as u64) as usize);
    for _ in 0..rng.random_range(2..6) {
        config.tuning = random_tuning(rng);
        let mut machine = reopen(&config, disks, rng, &mut sum);
        machine.engine.check_invariants();
        host.pin(&mut machine);
        if failures {
            machine.fail_one_in = rng.random_range(5..100);
        }
        for _ in 0..rng.random_range(0..300) {
            step(&mut machine, &mut host, rng);
        }
        let stats = machine.engine.stats();
        let logged = stats.logging.as_ref().unwrap();
        sum.migrated += logged.bytes_migrated;
        sum.direct += logged.direct_writes;
        sum.indexes += logged.checkpoints;
        sum.absent += logged.failed_appends;
        sum.commits += stats.commits;
        if machine.engine.gone() != 0 {
            // This many failures in a row make a device count as dead, which loses its data. Another test covers that.
            sum.died += 1;
            return sum;
        }
        if rng.random_bool(0.2) {
            machine.fail_one_in = 0;
            settle(&mut machine, &mut host);
            sum.closed += 1;
            let left = if rng.random_bool(0.5) { u32::MAX } else { rng.random_range(0..14) };
            let done = machine.driver.engine.close(&mut Interrupted { disks: &mut machine.driver.disks, left }).is_ok();
            disks = machine.driver.disks;
            if !done {
                disks.crash(rng);
            }
        } else {
            sum.crashes += 1;
            disks = machine.crash();
        }
        host.asked.clear();
    }
    sum
}

fn step(machine: &mut Machine, host: &mut Host, rng: &mut Pcg64Mcg) {
    let total = host.sectors.len();
    if host.asked.len() < 8 && rng.random_bool(0.4) {
        let op = match rng.random_range(0..100) {
            0..20 => Op::Read,
            20..85 => Op::Write,
            85..92 => Op::Discard,
            _ => Op::Flush,
        };
        let start = if rng.random_bool(0.5) { rng.random_range(0..total.min(24)) } else { rng.random_range(0..total) };
        let range = start..(start + rng.random_range(1..24)).min(total);
        if op == Op::Flush {
            host.ask(machine, op, 0..0);
        } else if !host.is_busy(&range) {
            host.ask(machine, op, range);
        }
    } else if !machine.pending.is_empty() && rng.random_bool(0.9) {
        let index = rng.random_range(0..machine.pending.len());
        machine.carry_out(index);
    } else {
        machine.tick(Nanos(rng.random_range(0..200_000_000)));
    }
    if rng.random_bool(0.005) {
        let size = machine.engine.volume_size();
        let from = Bytes(rng.random_range(0..size.0));
        machine.driver.call(|engine, now, out| engine.host_dropped(now, from..size, out));
    }
    machine.engine.check_invariants();
    host.answers(machine);
}

/// Completes everything, flushes, and reads the whole volume.
fn settle(machine: &mut Machine, host: &mut Host) {
    for _ in 0..2_000 {
        machine.carry_out_all();
        host.answers(machine);
        if host.asked.is_empty() && machine.engine.is_idle() {
            break;
        }
        machine.tick(Nanos::from_ms(500));
    }
    assert!(host.asked.is_empty() && machine.engine.is_idle(), "something is never answered");
    host.ask(machine, Op::Flush, 0..0);
    while !host.asked.is_empty() {
        machine.carry_out_all();
        host.answers(machine);
        // A commit that failed before is repeated only after a pause.
        machine.tick(Nanos::from_ms(500));
    }
    machine.carry_out_all();
    host.pin(machine);
}

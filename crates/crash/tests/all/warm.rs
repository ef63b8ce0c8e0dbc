//! Guards against a drive that has forgotten after a restart what it had learnt: the hits of the first minute are compared with
//! those of the last minute before.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use peryton_engine::{
    Buffer, Bypass, Cleaning, Command, Commands, Config, DeviceError, DeviceId, Engine, Formatting, Hybrid, Partition,
    Placement, Predict, Regulation, Replacement, Request, RequestId, Storage, Tuning, VolumeId, Warmth, WearBudget,
};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const EXTENT: Bytes = Bytes::kib(64);
/// Extents of the cache, and of the disk.
const FAST: u64 = 8_000;
const SLOW: u64 = 80_000;
/// Requests in a minute.
const A_MINUTE: u64 = 10_000;
/// So many extents are popular at a time.
const POPULAR: u64 = 3_500;
/// As by default.
const INTERVAL: Nanos = Nanos::from_s(300);

/// The metadata on devices; data are not kept.
#[derive(Clone, Default)]
struct Devices {
    sizes: Vec<Bytes>,
    blocks: HashMap<(DeviceId, u64), Vec<u8>>,
}

impl Storage for Devices {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        self.sizes.get(device.index()).copied()
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        for (block, into) in (at.0 / 4096..).zip(into.chunks_mut(4096)) {
            match self.blocks.get(&(device, block)) {
                Some(block) => into.copy_from_slice(&block[..into.len()]),
                None => into.fill(0),
            }
        }
        Ok(())
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        for (block, from) in (at.0 / 4096..).zip(from.chunks(4096)) {
            self.blocks.insert((device, block), from.to_vec());
        }
        Ok(())
    }

    fn flush(&mut self, _: DeviceId) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// What the host asks for: extents that are popular for a while, some by Zipf's law, and others that come once.
#[derive(Clone)]
struct Host {
    rng: Pcg64Mcg,
    asked: u64,
}

impl Host {
    fn new() -> Host {
        Host { rng: Pcg64Mcg::seed_from_u64(5), asked: 0 }
    }

    fn next(&mut self) -> Request {
        self.asked += 1;
        let extent = match self.asked % 10 {
            // One of those that are popular now; every hundredth request another one takes the place of the oldest.
            0..6 => (self.asked / 100 + self.rng.random_range(0..POPULAR)) * 7919 % 40_000,
            // By Zipf's law: the probability is in inverse proportion to the rank.
            6 => 30_000f64.powf(self.rng.random()) as u64 * 104_729 % 40_000,
            // Something that was not asked for lately.
            _ => 40_000 + self.asked * 7919 % (SLOW - 40_000),
        };
        let op = if self.rng.random_bool(0.2) { Op::Write } else { Op::Read };
        Request { op, offset: Bytes(extent * EXTENT.0), len: Bytes::kib(4) }
    }
}

struct Drive {
    engine: Engine,
    devices: Devices,
    now: Nanos,
    out: Commands,
}

impl Drive {
    fn config(replacement: Replacement, interval: Option<Nanos>) -> Config {
        let tuning = Tuning {
            replacement,
            promotion_threshold: 0,
            demotion_low: 0,
            demotion_high: 0,
            bypass: Bypass { sequential: None, congested: false },
            cleaning: Cleaning::default(),
            snapshot_interval: interval,
            ..Tuning::default()
        };
        let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: EXTENT };
        Config { devices: vec![EXTENT * FAST, EXTENT * SLOW], placement: Placement::Caching(pair), tuning }
    }

    fn format(replacement: Replacement) -> Devices {
        Drive::formatted(&Drive::config(replacement, Some(INTERVAL)))
    }

    fn formatted(config: &Config) -> Devices {
        let sizes = config.sizes().unwrap();
        let whole = sizes.devices.iter().zip(&sizes.behind).map(|(used, behind)| *used + *behind);
        let mut devices = Devices { sizes: whole.collect(), blocks: HashMap::new() };
        let new = Formatting { volume: VolumeId(7), zeroed: true, ..Formatting::default() };
        Engine::format(config, new, &mut devices).unwrap();
        devices
    }

    fn open(replacement: Replacement, interval: Option<Nanos>, devices: Devices) -> Drive {
        Drive::opened(Drive::config(replacement, interval), devices)
    }

    fn opened(config: Config, mut devices: Devices) -> Drive {
        let (engine, _) = Engine::open(config, &mut devices).unwrap();
        Drive { engine, devices, now: Nanos::ZERO, out: Vec::new() }
    }

    fn close(mut self) -> Devices {
        while !self.engine.is_idle() {
            self.now += Nanos::from_ms(1);
            self.engine.tick(self.now, &mut self.out);
            self.carry_out();
        }
        self.engine.close(&mut self.devices).unwrap();
        self.devices
    }

    /// Every command takes no time.
    fn carry_out(&mut self) {
        while !self.out.is_empty() {
            for command in std::mem::take(&mut self.out) {
                let io = match command {
                    Command::Write { io, device, at, len, buffer: Buffer::Metadata, .. } => {
                        let mut bytes = vec![0; len.0 as usize];
                        self.engine.encode_metadata(io, &mut bytes).unwrap();
                        self.devices.write(device, at, &bytes).unwrap();
                        io
                    }
                    Command::Read { io, .. }
                    | Command::Write { io, .. }
                    | Command::Flush { io, .. }
                    | Command::Discard { io, .. }
                    | Command::Zero { io, .. } => io,
                    _ => continue,
                };
                self.engine.complete(self.now, io, Ok(()), &mut self.out).unwrap();
            }
        }
    }

    /// Serves requests for so long; returns the share of hits in percent.
    fn minutes(&mut self, host: &mut Host, minutes: f64) -> f64 {
        let before = (self.engine.stats().fast_hits, self.engine.stats().fast_misses);
        for _ in 0..(A_MINUTE as f64 * minutes) as u64 {
            self.now += Nanos(60_000_000_000 / A_MINUTE);
            while self.engine.deadline().is_some_and(|deadline| deadline <= self.now) {
                self.engine.tick(self.now, &mut self.out);
                self.carry_out();
            }
            self.engine.submit(self.now, RequestId(0), host.next(), &mut self.out);
            self.carry_out();
        }
        let stats = self.engine.stats();
        let (hits, misses) = ((stats.fast_hits - before.0) as f64, (stats.fast_misses - before.1) as f64);
        hits * 100.0 / (hits + misses)
    }

    fn warmth(&self) -> Warmth {
        self.engine.warmth().unwrap()
    }
}

/// The hits in percent of the minute before a restart, and of the minute after: without the restart, after a clean end, after a kill,
/// and after a clean end without a snapshot.
fn hits(replacement: Replacement) -> [f64; 5] {
    let mut host = Host::new();
    let mut drive = Drive::open(replacement, Some(INTERVAL), Drive::format(replacement));
    drive.minutes(&mut host, 9.7);
    let before = drive.minutes(&mut host, 1.0);
    assert!(drive.warmth().taken >= 15, "{:?}", drive.warmth());
    let left = drive.devices.clone();
    let then = host.clone();
    let went_on = drive.minutes(&mut host, 1.0);
    // The same once more, as far as the restart.
    host = Host::new();
    let mut drive = Drive::open(replacement, Some(INTERVAL), Drive::format(replacement));
    drive.minutes(&mut host, 10.7);
    let closed = drive.close();
    let after = |mut drive: Drive| drive.minutes(&mut then.clone(), 1.0);
    let warm = Drive::open(replacement, Some(INTERVAL), closed.clone());
    let began = warm.warmth().began.unwrap();
    assert!(began.has_policy && began.unknown == 0 && began.restored > FAST * 9 / 10, "{began:?}");
    let killed = Drive::open(replacement, Some(INTERVAL), left);
    let began = killed.warmth().began.unwrap();
    assert!(began.has_policy && began.restored > FAST / 4 && began.unknown > 10, "{began:?}");
    let cold = Drive::open(replacement, None, closed);
    assert_eq!(cold.warmth().began, None);
    [before, went_on, after(warm), after(killed), after(cold)]
}

#[test]
fn the_first_minute_after_a_restart_hits_as_often_as_the_last_one_before() {
    for (name, replacement) in Replacement::ALL {
        let all @ [before, went_on, warm, killed, cold] = hits(replacement);
        println!("{name}: {all:.1?}");
        // Which extents `random` draws depends on when the drive cleans, which a restart begins again.
        let apart = if matches!(replacement, Replacement::Random(_)) { 3.0 } else { 0.2 };
        assert!((went_on - warm).abs() < apart, "{name}: {warm:.1} % after a restart, {went_on:.1} % without");
        assert!(before - warm <= 2.0, "{name}: {warm:.1} % after a restart, {before:.1} % before");
        assert!(before - killed <= 5.0, "{name}: {killed:.1} % after a kill, {before:.1} % before");
        // The map is there without a snapshot as well, so that what is lost is the order in which extents leave.
        let costs = match replacement {
            // With a good part of the cache dirty, a clock has little to say: clean extents leave first.
            Replacement::Wsclock => 0.2,
            Replacement::Lru | Replacement::Lrfu(_) => 2.0,
            Replacement::Lirs(_) | Replacement::ClockPro | Replacement::Sieve => 1.0,
            Replacement::TwoQueue(_) | Replacement::S3fifo(_) | Replacement::Arc | Replacement::WTinyLfu(_) => 6.0,
            // Of the others no bound is known: for some, what is lost is little.
            _ => f64::NEG_INFINITY,
        };
        assert!(
            warm - cold > costs,
            "{name}: {cold:.1} % without a snapshot, {warm:.1} % with one: the test shows little"
        );
    }
}

/// The fear: whoever restarts the drive often enough wears its flash out: what was written beyond the budget is forgotten at each start.
#[test]
fn what_was_written_beyond_the_budget_is_owed_after_a_restart() {
    // 10,000 writes of 4 KiB a minute, ten times the budget.
    let rate = A_MINUTE as f64 * 4096.0 / 60.0 / 10.0;
    let lifetime = Nanos::from_s(1_000_000);
    let endurance = Bytes((rate * lifetime.as_s_f64()) as u64);
    let budget = WearBudget { endurance, programmable: None, lifetime, amplification: 1_000 };
    let config = || {
        let mut config = Drive::config(Replacement::Lru, Some(INTERVAL));
        let partition =
            Partition { predict: Predict::Off, regulation: Regulation::Lifetime(budget), ..Partition::default() };
        config.tuning.partition = partition;
        let Placement::Caching(pair) = config.placement else { unreachable!("it is a cache") };
        config.placement = Placement::Partitioned(pair);
        config
    };
    let write_for = |drive: &mut Drive, seconds: u64| {
        let before = drive.engine.stats().partition.as_ref().map_or(0, |stats| stats.regulated);
        for index in 0..seconds * A_MINUTE / 60 {
            drive.now += Nanos(60_000_000_000 / A_MINUTE);
            while drive.engine.deadline().is_some_and(|deadline| deadline <= drive.now) {
                drive.engine.tick(drive.now, &mut drive.out);
                drive.carry_out();
            }
            let offset = Bytes(index % 1000 * EXTENT.0);
            drive.engine.submit(
                drive.now,
                RequestId(0),
                Request { op: Op::Write, offset, len: Bytes::kib(4) },
                &mut drive.out,
            );
            drive.carry_out();
        }
        drive.engine.stats().partition.as_ref().map_or(0, |stats| stats.regulated) - before
    };
    let mut drive = Drive::opened(config(), Drive::formatted(&config()));
    assert_eq!(write_for(&mut drive, 9), 0, "nothing is known before the first ten seconds are over");
    let writes = 5 * A_MINUTE / 60;
    write_for(&mut drive, 3);
    // The disk is tried now and then anyway.
    let nearly_all = writes - 2..=writes;
    let regulated = write_for(&mut drive, 5);
    assert!(nearly_all.contains(&regulated), "{regulated}: writes go to the disk until the debt is paid");
    let now = drive.now;
    let mut again = Drive::opened(config(), drive.close());
    again.now = now;
    // A drive that owes nothing diverts no write in its first ten seconds.
    assert!(write_for(&mut again, 5) > 0, "the debt is forgotten");
}

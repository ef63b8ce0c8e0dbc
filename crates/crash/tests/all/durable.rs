//! A volume on devices that keep all writes: format, open, use, close or crash, open again.

#![allow(clippy::unwrap_used)]

use crate::crashing;

use crashing::{Disks, Machine, blank, check_all, formatted, open, use_it};
use peryton_crash::commit_numbers;
use peryton_engine::{
    Cause, Cleaning, Command, Config, ConfigError, DetachError, DeviceError, DeviceId, Engine, Formatting, Hybrid,
    Inspection, Journal, Logging, Metadata, OpenError, Placement, Replacement, Request, Storage, Trust, Tuning,
    VolumeId, closed,
};
use peryton_format::checkpoint::Shape;
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const EXTENT: Bytes = Bytes::kib(4);

fn config(caching: bool) -> Config {
    let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: EXTENT };
    let placement = if caching { Placement::Caching(pair) } else { Placement::Tiering(pair) };
    let tuning = Tuning { promotion_threshold: 0, demotion_low: 2, demotion_high: 4, ..Tuning::default() };
    Config { devices: vec![EXTENT * 16, EXTENT * 64], placement, tuning }
}

/// Changes of the map that exceed its journal are committed in parts.
#[test]
fn a_discard_of_more_than_the_journal_holds_is_answered() {
    let mut config = config(false);
    config.devices[1] = Bytes::mib(16);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let volume = machine.driver.engine.volume_size();
    let mut commits = Vec::new();
    for op in [Op::Write, Op::Discard] {
        let data = vec![7; volume.0 as usize];
        machine.driver.submit(Request { op, offset: Bytes::ZERO, len: volume }, 0, data);
        machine.driver.submit(Request { op: Op::Flush, offset: Bytes::ZERO, len: Bytes::ZERO }, 0, Vec::new());
        machine.settle();
        commits.push(machine.driver.engine.stats().commits);
    }
    assert!(commits[1] >= commits[0] + 2, "the journal has four blocks: {commits:?}");
}

/// A commit of two blocks of which power loss leaves the first stays in the journal. If a later commit had its number, the first block
/// of one and the second of the other would pass for a whole commit.
#[test]
fn no_commit_has_the_number_of_a_torn_one() {
    let mut config = config(false);
    config.devices[1] = Bytes::mib(16);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let volume = machine.driver.engine.volume_size();
    machine.request(Op::Write, 0, vec![7; volume.0 as usize]);
    machine.request(Op::Flush, 0, Vec::new());
    let numbers = |disks: &Disks| commit_numbers(&inspected(&config, &mut disks.clone())).unwrap();
    machine.driver.submit(Request { op: Op::Discard, offset: Bytes::ZERO, len: volume }, 0, Vec::new());
    machine.driver.submit(Request { op: Op::Flush, offset: Bytes::ZERO, len: Bytes::ZERO }, 0, Vec::new());
    let torn = loop {
        let next = machine.driver.pending.first().expect("the discard of the whole volume is committed");
        let (mut disks, next) = (machine.driver.disks.clone(), next.command);
        machine.carry_out_or_fail(false);
        if let Command::Write { device, at, len, cause: Cause::Metadata, .. } = next
            && len > Bytes::kib(4)
        {
            let (before, _) = numbers(&disks);
            let mut first = vec![0; 4096];
            machine.driver.disks.read(device, at, &mut first).unwrap();
            disks.write(device, at, &first).unwrap();
            if numbers(&disks).0 > before {
                break disks;
            }
        }
    };
    let (number, _) = numbers(&torn);
    let machine = open(&config, torn).unwrap();
    let (in_rings, next) = numbers(&machine.driver.disks);
    assert!(in_rings == number && next > number, "{in_rings} {number}, then {next}");
}

#[test]
fn a_volume_that_was_closed_comes_back_as_it_was() {
    for caching in [false, true] {
        let config = config(caching);
        let mut storage = formatted(&config);
        let mut model = Vec::new();
        for generation in 1..4 {
            let mut machine = open(&config, storage).unwrap();
            if !model.is_empty() {
                check_all(&mut machine, &model);
            }
            model = use_it(&mut machine, 400, 0);
            machine.settle();
            machine.driver.engine.close(&mut machine.driver.disks).unwrap();
            storage = machine.driver.disks;
            let (_, opened) = Engine::open(config.clone(), &mut storage.clone()).unwrap();
            assert!(opened.clean && opened.generation == generation + 1, "{opened:?}");
            assert_eq!(opened.notes, "max_moves=3");
        }
    }
}

#[test]
fn a_volume_that_was_dropped_after_a_flush_comes_back_as_it_was() {
    for caching in [false, true] {
        let config = config(caching);
        let mut storage = formatted(&config);
        let mut commits = 0;
        for rounds in [1, 12, 40, 41, 400, 3000] {
            let mut machine = open(&config, storage).unwrap();
            let model = use_it(&mut machine, rounds, 0);
            machine.request(Op::Flush, 0, Vec::new());
            storage = machine.driver.disks;
            let (_, opened) = Engine::open(config.clone(), &mut storage.clone()).unwrap();
            assert!(!opened.clean);
            commits += opened.commits;
            let mut again = open(&config, storage.clone()).unwrap();
            check_all(&mut again, &model);
        }
        assert!(commits > 3, "nothing was ever replayed");
    }
}

fn opened_with(config: &Config, storage: &Disks) -> Result<(), OpenError> {
    Engine::open(config.clone(), &mut storage.clone()).map(|_| ())
}

#[test]
fn devices_that_are_not_the_volume_are_refused_by_name() {
    let config = config(true);
    let good = formatted(&config);
    assert_eq!(opened_with(&config, &good), Ok(()));

    assert_eq!(opened_with(&config, &blank(&config)), Err(OpenError::NotFormatted { device: 0 }));

    let mut missing = good.clone();
    missing.0[1] = None;
    assert_eq!(opened_with(&config, &missing), Err(OpenError::Missing { device: 1 }));

    let mut foreign = blank(&config);
    let new = Formatting { volume: VolumeId(9), unix_s: 1, zeroed: true, notes: String::new() };
    Engine::format(&config, new, &mut foreign).unwrap();
    let mixed = Disks(vec![good.0[0].clone(), foreign.0[1].clone()]);
    assert!(matches!(opened_with(&config, &mixed), Err(OpenError::Foreign { .. })));

    let mut other = config.clone();
    other.devices[1] = EXTENT * 32;
    assert!(matches!(opened_with(&other, &good), Err(OpenError::Mismatch { .. })));

    let mut written = good.clone();
    let data_at = Engine::new(config.clone()).unwrap().data_at(DeviceId(1)).0 as usize;
    written.0[1].as_mut().unwrap().contents_mut()[data_at + 1024] ^= 1;
    assert_eq!(opened_with(&config, &written), Err(OpenError::Changed { device: 1 }));
}

/// Its last superblock might be what another program has written.
#[test]
fn nothing_is_written_to_a_device_that_another_program_has_written_to() {
    let config =
        Config { devices: vec![EXTENT * 64], placement: Placement::Single { device: DeviceId(0) }, ..config(true) };
    let mut written = formatted(&config);
    let data_at = Engine::new(config.clone()).unwrap().data_at(DeviceId(0)).0 as usize;
    let bytes = written.0[0].as_mut().unwrap().contents_mut();
    let end = bytes.len() - 4096;
    bytes[data_at + 1024] ^= 1;
    bytes[end..].fill(0x77);
    let before = bytes.to_vec();
    assert_eq!(Engine::open(config, &mut written).err(), Some(OpenError::Changed { device: 0 }));
    assert!(written.0[0].as_mut().unwrap().contents_mut() == before);
}

#[test]
fn an_older_copy_of_a_device_is_refused_whenever_it_was_made() {
    for caching in [false, true] {
        let mut config = config(caching);
        config.tuning.journal = Journal::Mirrored;
        let mut machine = open(&config, formatted(&config)).unwrap();
        use_it(&mut machine, 50, 0);
        let early = machine.driver.disks.clone();
        use_it(&mut machine, 600, 0);
        machine.request(Op::Flush, 0, Vec::new());
        let late = machine.driver.disks.clone();
        for device in 0..2 {
            // The two devices are copies from the same generation.
            let mut mixed = late.clone();
            mixed.0[device] = early.0[device].clone();
            assert!(matches!(opened_with(&config, &mixed), Err(OpenError::Behind { device: at, .. }) if at == device));
            // The copy is from the previous generation.
            let mut next = late.clone();
            Engine::open(config.clone(), &mut next).unwrap();
            next.0[device] = late.0[device].clone();
            assert!(matches!(opened_with(&config, &next), Err(OpenError::Stale { device: at, .. }) if at == device));
        }
    }
}

#[test]
fn a_copy_of_the_slow_device_from_before_it_named_a_region_is_refused() {
    // So large that no checkpoint is due meanwhile.
    let config = Config { devices: vec![EXTENT * 2500, EXTENT * 5000], ..config(true) };
    let mut machine = open(&config, formatted(&config)).unwrap();
    let mut write = |extents: &[u64]| {
        for extent in extents {
            machine.request(Op::Write, extent * 4096, vec![1; 4096]);
            machine.request(Op::Flush, 0, Vec::new());
        }
        machine.driver.disks.clone()
    };
    let early = write(&[0]);
    // Regions have 128 extents. The newest commit is on the fast device alone.
    let late = write(&[300, 301, 1]);
    let with = |slow: &Disks| opened_with(&config, &Disks(vec![late.0[0].clone(), slow.0[1].clone()]));
    assert!(matches!(with(&early), Err(OpenError::Behind { device: 1, .. })), "{:?}", with(&early));
    assert!(with(&late).is_ok());
}

#[test]
fn metadata_that_one_device_lost_is_restored_from_the_other() {
    for caching in [false, true] {
        let config = config(caching);
        let mut machine = open(&config, formatted(&config)).unwrap();
        let model = use_it(&mut machine, 600, 0);
        machine.request(Op::Flush, 0, Vec::new());
        let data_at = machine.engine.data_at(DeviceId(0)).0 as usize;
        for device in 0..2 {
            let mut hurt = machine.driver.disks.clone();
            let bytes = hurt.0[device].as_mut().unwrap().contents_mut();
            // One bit of every sector that holds anything, in all of the metadata but the second superblock.
            for sector in bytes[..data_at].chunks_mut(512) {
                if sector.iter().any(|byte| *byte != 0) {
                    sector[300] ^= 4;
                }
            }
            let (_, opened) = Engine::open(config.clone(), &mut hurt.clone()).unwrap();
            assert!(opened.repaired > 0);
            let mut again = open(&config, hurt).unwrap();
            check_all(&mut again, &model);
        }
    }
}

fn inspected(config: &Config, storage: &mut Disks) -> Inspection {
    let before = storage.clone();
    let inspection = closed::inspect(config.clone(), storage, true, &[]).unwrap();
    assert!(before.0 == storage.0, "a look changed something");
    inspection
}

#[test]
fn inspecting_reports_the_condition_and_changes_nothing() {
    for caching in [false, true] {
        let config = config(caching);
        let mut storage = formatted(&config);
        assert_eq!(inspected(&config, &mut storage).metadata, Metadata::Whole);

        let mut machine = open(&config, storage).unwrap();
        use_it(&mut machine, 300, 0);
        machine.request(Op::Flush, 0, Vec::new());
        let mut crashed = machine.driver.disks.clone();
        let inspection = inspected(&config, &mut crashed);
        assert_eq!(inspection.metadata, Metadata::Repairable);
        assert!(!inspection.map.is_empty());
        for row in &inspection.map {
            let now = machine.engine.location(Bytes(row.offset)).unwrap();
            // A flush leaves updates that wait for a flush of the slow device to a later commit.
            if !caching && now.device.is_some_and(|device| device.index() == 0) {
                assert_eq!(now.device.map(DeviceId::index), row.device, "{row:?} {now:?}");
            }
        }

        machine.settle();
        machine.driver.engine.close(&mut machine.driver.disks).unwrap();
        let mut closed = machine.driver.disks.clone();
        let inspection = inspected(&config, &mut closed);
        assert_eq!(inspection.metadata, Metadata::Whole, "{:?}", inspection.findings);
        for row in &inspection.map {
            let now = machine.engine.location(Bytes(row.offset)).unwrap();
            assert_eq!((now.device.map(DeviceId::index), now.dirty), (row.device, row.dirty));
        }

        let mut hurt = closed.clone();
        hurt.0[1].as_mut().unwrap().contents_mut()[100] ^= 1;
        assert_eq!(inspected(&config, &mut hurt).metadata, Metadata::Repairable);
        let mut gone = closed.clone();
        gone.0[1] = None;
        assert_eq!(inspected(&config, &mut gone).metadata, Metadata::Unseen);
    }
}

#[test]
fn everything_can_be_written_home_without_delay() {
    let mut config = config(true);
    config.tuning.cleaning = Cleaning::UNBOUNDED;
    config.tuning.writeback_delay = Nanos::from_s(3600);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let model = use_it(&mut machine, 60, 0);
    assert!(machine.engine.dirty_extents() > 2);
    for _ in 0..100 {
        machine.now += Nanos::from_ms(100);
        machine.driver.call(|engine, now, out| engine.write_all_back(now, out));
        machine.carry_out_all();
    }
    assert_eq!(machine.engine.dirty_extents(), 0);
    let at = machine.engine.data_at(DeviceId(1)).0 as usize;
    assert!(
        machine.driver.disks.0[1].as_ref().unwrap().contents()[at..at + model.len()] == model[..],
        "the slow device stands alone"
    );
}

#[test]
fn a_detached_device_stands_alone_and_the_volume_is_gone() {
    let config = config(true);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let model = use_it(&mut machine, 500, 0);
    machine.request(Op::Flush, 0, Vec::new());
    // Not even closed in good order.
    let mut storage = machine.driver.disks;
    let detached =
        closed::detach(config.clone(), &mut storage, peryton_engine::Forgone::default(), &mut |_| ()).unwrap();
    assert!(detached.written_back > 0);
    let from = detached.at.0 as usize;
    assert!(
        storage.0[detached.device.index()].as_ref().unwrap().contents()[from..from + detached.len.0 as usize]
            == model[..]
    );
    assert!(matches!(opened_with(&config, &storage), Err(OpenError::Detached { .. })));
    let mut tiering = formatted(&self::config(false));
    assert_eq!(
        closed::detach(self::config(false), &mut tiering, peryton_engine::Forgone::default(), &mut |_| ()),
        Err(DetachError::Divided)
    );
}

#[test]
fn after_a_foreign_write_the_user_says_which_device_is_right() {
    let config = config(true);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let mut model = use_it(&mut machine, 500, 0);
    machine.settle();
    machine.driver.engine.close(&mut machine.driver.disks).unwrap();
    let at = machine.engine.data_at(DeviceId(1)).0 as usize;
    let mut changed = machine.driver.disks;
    changed.0[1].as_mut().unwrap().contents_mut()[at..at + 4096].fill(0x77);
    assert_eq!(opened_with(&config, &changed), Err(OpenError::Changed { device: 1 }));
    assert_eq!(inspected(&config, &mut changed).metadata, Metadata::Damaged);

    closed::repair(config.clone(), &mut changed, Trust::Slow, &[]).unwrap();
    assert_eq!(inspected(&config, &mut changed).metadata, Metadata::Whole);
    model[..4096].fill(0x77);
    check_all(&mut open(&config, changed).unwrap(), &model);
}

fn on_fast(machine: &Machine, offset: u64) -> bool {
    machine.engine.location(Bytes(offset)).is_some_and(|at| at.device == Some(DeviceId(0)))
}

/// Evictions wait for a flush of the slow device, promotions do not. So after a crash the fast device can hold more
/// extents than the map may use, and the engine must reduce them.
#[test]
fn a_cache_recovered_with_too_many_extents_makes_room() {
    for (_, replacement) in Replacement::ALL {
        let mut config = config(true);
        config.devices = vec![EXTENT * 64, EXTENT * 200];
        config.tuning = Tuning { demotion_low: 0, demotion_high: 0, replacement, ..config.tuning };
        let mut machine = open(&config, formatted(&config)).unwrap();
        let read = |machine: &mut Machine, extents: std::ops::Range<u64>| {
            for extent in extents {
                machine.request(Op::Read, extent * EXTENT.0, vec![0; 512]);
            }
        };
        // Without a dirty extent that was committed, no copy would count after a crash.
        machine.request(Op::Write, 0, vec![1; EXTENT.0 as usize]);
        machine.request(Op::Flush, 0, Vec::new());
        read(&mut machine, 0..64);
        machine.settle();
        read(&mut machine, 64..70);
        machine.request(Op::Flush, 0, Vec::new());
        let mut back = open(&config, machine.driver.disks).unwrap();
        back.engine.check_invariants();
        let resident = |machine: &Machine| (0..200).filter(|at| on_fast(machine, at * EXTENT.0)).count();
        assert!(resident(&back) > 64, "{replacement:?}: nothing to put right");
        read(&mut back, 100..160);
        back.settle();
        assert!(resident(&back) <= 64, "{replacement:?}: still fuller than full");
        back.engine.check_invariants();
    }
}

/// A storage that loses power at a write.
struct Cut<'a> {
    storage: &'a mut Disks,
    left: u32,
}

impl Storage for Cut<'_> {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        self.storage.size(device)
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        self.storage.read(device, at, into)
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        if self.left == 0 {
            return Err(DeviceError);
        }
        self.left -= 1;
        self.storage.write(device, at, if self.left == 0 { &from[..512] } else { from })
    }

    fn flush(&mut self, _: DeviceId) -> Result<(), DeviceError> {
        if self.left == 0 { Err(DeviceError) } else { Ok(()) }
    }
}

/// The header of a checkpoint can be newer than its entries if writing it failed and was begun again.
#[test]
fn the_only_checkpoint_that_can_be_read_is_not_the_next_to_be_overwritten() {
    for caching in [false, true] {
        let config = config(caching);
        let mut machine = open(&config, formatted(&config)).unwrap();
        let model = use_it(&mut machine, 300, 0);
        machine.request(Op::Flush, 0, Vec::new());
        let mut storage = open(&config, machine.driver.disks).unwrap().driver.disks;
        for disk in storage.0.iter_mut().flatten() {
            let bytes = disk.contents_mut();
            let number = |block: &[u8]| u64::from_le_bytes(block[8..16].try_into().unwrap());
            let headers = bytes.chunks_exact(4096).enumerate().filter(|(_, block)| block[4..8] == *b"PYch");
            let (at, _) = headers.max_by_key(|(_, block)| number(block)).unwrap();
            bytes[(at + 1) * 4096 + 100] ^= 1;
        }
        for writes in 1..12 {
            let mut storage = storage.clone();
            let cut = Engine::open(config.clone(), &mut Cut { storage: &mut storage, left: writes });
            assert!(cut.is_err() || writes > 6, "only {writes} writes");
            check_all(&mut open(&config, storage).unwrap(), &model);
        }
    }
}

/// A forged superblock may claim any device size.
#[test]
fn devices_larger_than_any_are_refused() {
    let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: EXTENT };
    let logging = Logging { primaries: DeviceId(1).into(), log: DeviceId(0), block: EXTENT };
    for placement in [
        Placement::Tiering(pair),
        Placement::Caching(pair),
        Placement::Logging(logging),
        Placement::Single { device: DeviceId(1) },
        Placement::Linear { devices: vec![DeviceId(0), DeviceId(1)] },
    ] {
        for devices in [[u64::MAX, u64::MAX], [u64::MAX, 1 << 30], [1 << 30, u64::MAX - 4095], [1 << 30, 1 << 63]] {
            let config = Config {
                devices: devices.map(Bytes).to_vec(),
                placement: placement.clone(),
                tuning: Tuning::default(),
            };
            assert!(matches!(Engine::new(config), Err(ConfigError::TooLarge { .. })), "{placement:?}");
        }
    }
}

/// A map of several blocks, of which a checkpoint writes those that changed. Each is found where some earlier checkpoint wrote it, also
/// after checkpoints that failed midway.
#[test]
fn a_checkpoint_writes_what_changed_and_recovery_finds_the_rest_in_earlier_ones() {
    for (caching, seed) in [(true, 1), (true, 2), (true, 3), (false, 4), (false, 5)] {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let config = Config { devices: vec![EXTENT * 2500, EXTENT * 5000], ..config(caching) };
        let mut machine = open(&config, formatted(&config)).unwrap();
        let mut model = machine.request(Op::Read, 0, vec![0; machine.engine.volume_size().0 as usize]);
        let extents = model.len() / 4096;
        let mut checkpoints = 0;
        for round in 1..=600 {
            // Most writes go to one part of the volume, which wanders.
            let part = round / 60 * (extents / 10);
            let extent =
                if rng.random_range(0..8) == 0 { rng.random_range(0..extents) } else { part + rng.random_range(0..60) };
            let extent = extent % extents;
            model[extent * 4096..(extent + 1) * 4096].fill(round as u8);
            machine.ask(Op::Write, extent as u64 * 4096, vec![round as u8; 4096]);
            machine.carry_out_all();
            machine.ask(Op::Flush, 0, Vec::new());
            while let Some(next) = machine.driver.pending.first() {
                let is_map = matches!(next.command, Command::Write { cause: Cause::Metadata, .. });
                let fails = is_map && rng.random_range(0..50) == 0;
                machine.carry_out_or_fail(fails);
            }
            machine.driver.tick(Nanos::from_s(2));
            machine.carry_out_all();
            if round % 50 == 0 {
                machine.request(Op::Flush, 0, Vec::new());
                checkpoints = machine.engine.stats().checkpoints;
                let mut disks = machine.driver.disks.clone();
                disks.lose_everything();
                check_all(&mut open(&config, disks).unwrap(), &model);
            }
        }
        assert!(checkpoints > 15, "{checkpoints}");
        // The first one after the start is whole.
        let stats = machine.engine.stats();
        let of_map = stats.devices[0].bytes_written[Cause::Metadata as usize];
        let whole = Shape { entries: extents as u32, masks: 0 }.bytes();
        assert!(of_map < whole + (stats.commits + 6 * checkpoints) * 4096 * 2, "{of_map} {stats:?}");
    }
}

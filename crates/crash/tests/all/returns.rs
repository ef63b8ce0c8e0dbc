//! The fear: a device that comes back while the volume is served brings old data with it, or one that was evacuated is needed or
//! believed afterwards, whenever the power goes or the process dies.

#![allow(clippy::unwrap_used)]

use super::{
    crashing::{Disks, Machine, blank, check_all, formatted, open},
    every::{FAST, Fault, Faulty, SLOW},
};
use peryton_crash::{Ends, Kind, Options, torture};
use peryton_engine::{Cleaning, Command, Config, DeviceId, Engine, Hybrid, Placement, Tuning, WritePolicy, closed};
use peryton_units::{Bytes, Nanos, Op};
use rand::RngExt;

/// Returns how many devices came back, and how many were evacuated.
fn must_pass(seeds: std::ops::Range<u64>, options: &Options) -> (u64, u64) {
    let options = Options { returns: Some(true), ..*options };
    let result = torture(seeds, &options, None, 1, |_| {});
    if let Some((seed, error)) = result.failures.first() {
        panic!("seed {seed} of {options:?} fails: {error}");
    }
    (result.outcome.returns, result.outcome.evacuations)
}

#[test]
fn a_device_that_died_comes_back_with_nothing_old() {
    for kind in [Kind::Tiering, Kind::Caching, Kind::Partitioned, Kind::Linear] {
        let options = Options { kind: Some(kind), faults: Some(true), ..Options::default() };
        let (returns, _) = must_pass(0..90, &options);
        assert!(returns > 3, "{kind:?}: {returns} devices came back: the test tests nothing");
    }
}

#[test]
fn a_device_that_was_evacuated_is_not_needed_and_not_believed() {
    for kind in [Kind::Caching, Kind::Partitioned] {
        for ends in Ends::ALL {
            let options = Options { kind: Some(kind), faults: Some(false), ends: Some(ends), ..Options::default() };
            let (returns, evacuations) = must_pass(0..35, &options);
            assert!(evacuations > 5 && returns > 3, "{kind:?}: {evacuations} evacuated, {returns} back");
        }
    }
}

/// The device is given up; the host may hear of that by one flush that fails.
fn gives_up(machine: &mut Machine, device: DeviceId) {
    machine.device_failed(device);
    for _ in 0..4 {
        machine.ask(Op::Flush, 0, Vec::new());
        machine.carry_out_all();
        machine.tick(Nanos::from_ms(500));
        machine.carry_out_all();
    }
}

/// A write-back cache of 16 extents before 64, which commits and cleans only when asked.
fn patient_cache(extent: Bytes) -> Config {
    let pair = Hybrid { fast: FAST, slow: SLOW, extent };
    let tuning = Tuning {
        promotion_threshold: 0,
        demotion_low: 6,
        demotion_high: 12,
        write: WritePolicy::Back,
        cleaning: Cleaning::UNBOUNDED,
        writeback_delay: Nanos::from_s(3600),
        commit_interval: Nanos::from_s(3600),
        ..Tuning::default()
    };
    Config { devices: vec![extent * 16, extent * 64], placement: Placement::Caching(pair), tuning }
}

/// Extents were written back and dropped, and the slow device died before it was flushed and before a commit said so. The
/// copies that the durable map still pointed to were given up, and the slow device came back with what it had held before.
#[test]
fn a_copy_that_was_written_back_survives_the_slow_device_that_never_flushed_it() {
    for extent in [Bytes::kib(4), Bytes::kib(16)] {
        let config = patient_cache(extent);
        let mut machine = open(&config, formatted(&config)).unwrap();
        let mut model = vec![0; extent.0 as usize * 64];
        for at in (0..8).map(|index| index * extent.0) {
            model[at as usize..][..4096].fill(1);
            machine.request(Op::Write, at, vec![1; 4096]);
        }
        machine.request(Op::Flush, 0, Vec::new());
        machine.call(|engine, now, out| engine.write_all_back(now, out));
        machine.carry_out_but(|command| matches!(command, Command::Flush { device: SLOW, .. }), None);
        // Further extents make room necessary.
        for at in (16..20).map(|index| index * extent.0) {
            machine.ask(Op::Read, at, vec![0; extent.0 as usize]);
            machine.carry_out_but(|command| matches!(command, Command::Flush { device: SLOW, .. }), None);
        }
        let copies = |machine: &Machine| {
            let here = |index: &u64| machine.engine.location(extent * *index).unwrap().device == Some(FAST);
            (0..8).filter(here).count()
        };
        assert!(copies(&machine) < 8, "no copy was dropped: the test tests nothing");

        let slow = machine.disks.0[SLOW.index()].take();
        let mut slow = Disks(vec![slow]);
        slow.lose_everything();
        gives_up(&mut machine, SLOW);
        assert_eq!(copies(&machine), 8, "a copy was given up");
        for at in (0..8).map(|index| index * extent.0) {
            assert_eq!(machine.request(Op::Read, at, vec![0; 4096]), [1; 4096], "{extent:?}");
        }
        let mut disks = machine.driver.disks;
        disks.lose_everything();
        disks.0[SLOW.index()] = slow.0.remove(0);
        closed::readmit(config.clone(), &mut disks, SLOW).unwrap();
        check_all(&mut open(&config, disks).unwrap(), &model);
    }
}

/// A block is lost until it is written: neither the next death of its device nor its return bring older data back.
#[test]
fn a_lost_block_stays_lost_when_its_device_dies_and_comes_back_again() {
    const BLOCKS: u64 = 160;
    let extent = Bytes::kib(16);
    let pair = Hybrid { fast: FAST, slow: SLOW, extent };
    let tuning = Tuning {
        promotion_threshold: 0,
        demotion_low: 0,
        demotion_high: 0,
        writeback_delay: Nanos::from_ms(300),
        ..Tuning::default()
    };
    let config = Config { devices: vec![extent * 64, extent * 128], placement: Placement::Caching(pair), tuning };
    let mut stayed = 0;
    for seed in 0..20 {
        let mut rng = rand_pcg::Pcg64Mcg::new(seed);
        let mut machine = open(&config, formatted(&config)).unwrap();
        let mut lost = std::collections::BTreeSet::new();
        for round in 0..12 {
            for _ in 0..60 {
                let block = rng.random_range(0..BLOCKS);
                let id = machine.ask(Op::Write, block << 12, vec![rng.random_range(1..9); 4096]);
                if rng.random_bool(0.05) {
                    machine.ask(Op::Flush, 0, Vec::new());
                }
                machine.tick(Nanos::from_ms(rng.random_range(0..30)));
                machine.carry_out_all();
                if machine.answered.iter().any(|(other, _, result)| *other == id && result.is_ok()) {
                    lost.remove(&block);
                }
            }
            let fast = machine.disks.0[FAST.index()].take();
            gives_up(&mut machine, FAST);
            let mut check = |machine: &mut Machine, when: &str, notes: bool| {
                for block in 0..BLOCKS {
                    let found = machine.driver.read_now((block as usize) << 12..(block as usize + 1) << 12, &mut rng);
                    assert!(
                        found.is_err() || !lost.contains(&block),
                        "seed {seed}, round {round}: block {block} is read {when}"
                    );
                    if notes && found.is_err() {
                        lost.insert(block);
                    }
                }
            };
            check(&mut machine, "without the device", false);
            machine.close();
            let mut disks = machine.driver.disks;
            disks.0[FAST.index()] = fast;
            closed::readmit(config.clone(), &mut disks, FAST).unwrap();
            machine = open(&config, disks).unwrap();
            check(&mut machine, "with it again", true);
            stayed += lost.len();
        }
    }
    assert!(stayed > 100, "{stayed}");
}

/// Zeros replaced what a commit calls newer on the fast device, and the slow device died before it was flushed. Its return must not bring
/// back what it held before, whether the server goes on meanwhile, or is killed and finds the slow device missing. Nothing else is lost.
#[test]
fn what_was_discarded_is_not_what_the_slow_device_held_before() {
    for (extent, is_killed) in [(4, false), (16, false), (4, true), (16, true)] {
        let extent = Bytes::kib(extent);
        let config = patient_cache(extent);
        let mut machine = open(&config, formatted(&config)).unwrap();
        machine.driver.keep_in_memory();
        let len = extent.0 as usize;
        for byte in [1, 2] {
            for index in 0..4 {
                machine.request(Op::Write, extent.0 * index, vec![byte; len]);
            }
            machine.request(Op::Flush, 0, Vec::new());
            if byte == 1 {
                machine.call(|engine, now, out| engine.write_all_back(now, out));
                machine.carry_out_all();
                machine.tick(Nanos::from_s(3600));
                machine.carry_out_all();
            }
        }
        machine.ask(Op::Discard, 0, vec![0; len]);
        machine.carry_out_but(|command| matches!(command, Command::Flush { device: SLOW, .. }), None);
        assert_eq!(machine.answered.len(), 1, "the discard is answered before the slow device is flushed");

        let mut memory = machine.driver.memory.clone();
        let slow = machine.disks.0[SLOW.index()].take();
        let mut slow = Disks(vec![slow]);
        slow.lose_everything();
        if is_killed {
            let mut storage = Faulty::new(&mut machine.driver.disks, &mut memory, Fault::FailsOnce, u32::MAX, 1);
            Engine::open_without(config.clone(), &mut storage, &[SLOW]).unwrap();
        } else {
            gives_up(&mut machine, SLOW);
        }
        let mut disks = machine.driver.disks;
        disks.0[SLOW.index()] = slow.0.remove(0);
        closed::readmit(config.clone(), &mut disks, SLOW).unwrap();
        let mut machine = open(&config, disks).unwrap();
        let lost = machine.engine.losses(2);
        assert_eq!(lost.ranges, [Bytes::ZERO..extent], "{extent:?}, killed: {is_killed}");
        for index in 1..4 {
            assert_eq!(machine.request(Op::Read, extent.0 * index, vec![0; len]), vec![2; len]);
        }
    }
}

/// The fear: an empty device is to take the place of the slow one, the server is killed, the old device is found to work, and all its data count
/// as lost, because the map of the fast device said so first.
#[test]
fn the_slow_device_comes_back_whole_until_another_has_its_place() {
    let extent = Bytes::kib(16);
    let config = patient_cache(extent);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let mut model = vec![0; extent.0 as usize * 64];
    for at in (0..40).map(|index| index * extent.0) {
        model[at as usize..][..4096].fill(1);
        machine.request(Op::Write, at, vec![1; 4096]);
    }
    machine.request(Op::Flush, 0, Vec::new());
    machine.settle();
    let slow = machine.disks.0[SLOW.index()].take();
    gives_up(&mut machine, SLOW);
    machine.close();
    let (mut came_back, mut took_place) = (0, 0);
    for at in 0.. {
        let mut disks = machine.driver.disks.clone();
        disks.0[SLOW.index()] = blank(&config).0.swap_remove(SLOW.index());
        let mut memory = None;
        let mut storage = Faulty::new(&mut disks, &mut memory, Fault::Kill, at, u64::from(at));
        let replaced = closed::replace(config.clone(), &mut storage, SLOW, true);
        if !storage.has_struck() {
            replaced.unwrap();
            break;
        }
        let mut old = disks.clone();
        old.0[SLOW.index()] = slow.clone();
        match closed::readmit(config.clone(), &mut old, SLOW) {
            Ok(_) => {
                came_back += 1;
                check_all(&mut open(&config, old).unwrap(), &model);
            }
            Err(error) => {
                took_place += 1;
                let machine = open(&config, disks).unwrap_or_else(|other| panic!("{at}: {error}; {other}"));
                assert!(machine.engine.losses(0).bytes > extent * 20, "{at}: {error}");
            }
        }
    }
    assert!(came_back > 10 && took_place > 0, "{came_back} came back, {took_place} took its place");
}

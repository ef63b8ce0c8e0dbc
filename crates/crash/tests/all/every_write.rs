//! Every write and every flush of each operation on a volume fails in turn, or is the last one before the process is killed
//! or the power goes. After that the volume opens with all that it must have, or the message says what to do, and that helps;
//! and an operation that failed succeeds when it is run again.

#![allow(clippy::unwrap_used)]

use crate::crashing;
use crate::every;

use crashing::Machine;
use every::{FAST, Fault, Faulty, Model, SLOW, Unreadable, Volume, check, flush, open, opens, placements, write};
use peryton_engine::{Config, DeviceId, Engine, Formatting, OpenError, Placement, Storage, Trust, VolumeId, closed};
use peryton_units::Nanos;

/// No operation here makes more writes and flushes than this.
const MOST: u32 = 4_000;

/// All of the first dozen, and of the rest a third for each fault: other thirds for other faults. With `EVERY=1` all.
fn is_sampled(fault: Fault, at: u32) -> bool {
    at < 12 || (at + fault as u32).is_multiple_of(3) || std::env::var_os("EVERY").is_some()
}

/// What came of an operation with a fault.
struct Struck {
    volume: Volume,
    result: Result<(), String>,
    struck: bool,
    /// Everything that was answered has to be there.
    all: bool,
}

/// Runs an operation with a fault at its Nth write or flush.
fn strike(
    volume: &Volume,
    (fault, at, seed): (Fault, u32, u64),
    run: &dyn Fn(&Config, &mut dyn Storage) -> Result<(), String>,
) -> Struck {
    let mut volume = volume.clone();
    let mut storage = Faulty::new(&mut volume.disks, &mut volume.memory, fault, at, seed);
    let result = run(&volume.config, &mut storage);
    let (struck, flush_failed, mut rng) = (storage.has_struck(), storage.flush_failed, storage.rng);
    if fault == Fault::Power {
        volume.disks.crash(&mut rng);
        volume.memory = None;
    }
    let all = volume.answered && fault != Fault::Power && !flush_failed;
    Struck { volume, result, struck, all }
}

/// Strikes at the first write or flush of an operation, at the second, and so on until it passes untouched.
fn at_every(
    name: &str,
    volume: &Volume,
    run: &dyn Fn(&Config, &mut dyn Storage) -> Result<(), String>,
    after: &dyn Fn(&Volume, bool) -> Result<(), String>,
    done: &dyn Fn(&Volume) -> Result<(), String>,
) {
    for fault in Fault::ALL {
        for at in (0..).filter(|at| is_sampled(fault, *at)) {
            assert!(at < MOST, "{name}: it never passes untouched");
            let context = format!("{name}, {fault:?} at {at}");
            let Struck { volume: left, result, struck, all } = strike(volume, (fault, at, u64::from(at)), run);
            if !struck {
                result.unwrap_or_else(|error| panic!("{context}: untouched it fails: {error}"));
                done(&left).unwrap_or_else(|error| panic!("{context}: {error}"));
                break;
            }
            if result.is_ok() {
                done(&left).unwrap_or_else(|error| panic!("{context}, tolerated: {error}"));
                continue;
            }
            after(&left, all).unwrap_or_else(|error| panic!("{context}: {error}"));
            let again = strike(&left, (Fault::Kill, u32::MAX, 0), run);
            again.result.unwrap_or_else(|error| panic!("{context}: it fails when it is run again: {error}"));
            done(&again.volume).unwrap_or_else(|error| panic!("{context}, run again: {error}"));
        }
    }
}

fn has_all(volume: &Volume, all: bool) -> Result<(), String> {
    match opens(volume, all)? {
        unreadable if unreadable.is_empty() => Ok(()),
        unreadable => Err(format!("sectors {unreadable:?} cannot be read")),
    }
}

fn text<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| error.to_string())
}

#[test]
fn every_write_of_open_may_fail() {
    for (name, config) in placements() {
        for (state, volume) in [
            ("closed", Volume::closed(&config)),
            ("killed", Volume::killed(&config)),
            ("after a power loss", Volume::after_power_loss(&config)),
        ] {
            let run = |config: &Config, storage: &mut dyn Storage| text(Engine::open(config.clone(), storage));
            let name = format!("open, {name}, {state}");
            at_every(&name, &volume, &run, &has_all, &|left| has_all(left, false));
        }
    }
}

/// A volume that was closed, whose slow device has lost both its superblocks.
fn without_superblocks(config: &Config) -> Volume {
    let mut volume = Volume::closed(config);
    let bytes = volume.disks.0[SLOW.index()].as_mut().unwrap().contents_mut();
    let end = bytes.len() - 4096;
    bytes[..4096].fill(0);
    bytes[end..].fill(0);
    volume
}

/// A log as a power loss leaves it, with damage in data that was flushed and is the newest.
fn with_damage(config: &Config) -> Volume {
    let mut volume = Volume::new(config);
    let mut machine = open(&volume).unwrap();
    // Selective logging logs what is overwritten.
    for round in [0..20, 0..20] {
        write(&mut machine, &mut volume.model, round);
    }
    flush(&mut machine, &mut volume.model);
    // The log rests, and says what was flushed.
    for _ in 0..2 {
        machine.tick(Nanos::from_ms(150));
        machine.carry_out_all();
    }
    volume.disks = machine.driver.disks;
    volume.disks.lose_everything();
    let bytes = volume.disks.0[FAST.index()].as_ref().unwrap().contents();
    let blocks = bytes.chunks_exact(4096).zip((0..).step_by(4096));
    let appends: Vec<u64> = blocks.filter(|(block, _)| block[4..8] == *b"PYla").map(|(_, at)| at).collect();
    let hurt = |at: &u64| {
        let mut hurt = volume.clone();
        crashing::flip(&mut hurt.disks, FAST, at + 4096 + 100, 1);
        let repaired = closed::repair(config.clone(), &mut hurt.disks.clone(), Trust::None, &[]);
        (matches!(open(&hurt), Err(OpenError::DamagedData { .. })) && repaired.is_ok_and(|opened| opened.lost > 0))
            .then_some(hurt)
    };
    appends.iter().find_map(hurt).expect("something that was flushed is the newest in the log")
}

/// Some sectors cannot be read, and all others are right.
fn misses_some(volume: &Volume) -> Result<(), String> {
    match opens(volume, false)? {
        unreadable if unreadable.is_empty() => Err("what was lost is not named".to_string()),
        _ => Ok(()),
    }
}

#[test]
fn every_write_of_repair_may_fail() {
    for (name, config) in placements() {
        let mut states = vec![("closed", Volume::closed(&config)), ("killed", Volume::killed(&config))];
        if !matches!(config.placement, Placement::Linear { .. } | Placement::Logging(_)) {
            states.push(("without superblocks", without_superblocks(&config)));
        }
        let damaged = matches!(config.placement, Placement::Logging(_)).then(|| with_damage(&config));
        states.extend(damaged.map(|volume| ("with damage", volume)));
        for (state, volume) in states {
            let run = |config: &Config, storage: &mut dyn Storage| {
                text(closed::repair(config.clone(), storage, Trust::None, &[]))
            };
            let name = format!("repair, {name}, {state}");
            let after = |left: &Volume, all: bool| match open(left) {
                // The message says that repair writes them again, which is what is run next.
                Err(OpenError::NoSuperblocks { .. }) if state == "without superblocks" => Ok(()),
                Err(OpenError::DamagedData { .. }) if state == "with damage" => Ok(()),
                Ok(_) if state == "with damage" => misses_some(left),
                _ => has_all(left, all),
            };
            let done = |left: &Volume| if state == "with damage" { misses_some(left) } else { has_all(left, false) };
            at_every(&name, &volume, &run, &after, &done);
        }
    }
}

/// Runs an operation of a volume that is open, with each fault at each of its writes and flushes. `then` follows where the
/// fault has struck. `ends`: after the operation nothing in memory counts.
fn at_every_of_open(
    operation: &str,
    run: impl Fn(&mut Engine, &mut dyn Storage) -> bool,
    then: impl Fn(&mut Machine, Fault, &str),
    ends: bool,
) {
    for (name, config) in placements() {
        let volume = Volume::killed(&config);
        for fault in Fault::ALL {
            for at in 0.. {
                let context = format!("{operation}, {name}, {fault:?} at {at}");
                let mut left = volume.clone();
                let mut machine = open(&left).unwrap();
                write(&mut machine, &mut left.model, 200..220);
                machine.settle();
                left.model.flush();
                let mut memory = machine.driver.memory.clone();
                let driver = &mut machine.driver;
                let mut storage = Faulty::new(&mut driver.disks, &mut memory, fault, at, u64::from(at));
                let succeeds = run(&mut driver.engine, &mut storage);
                let (struck, mut rng) = (storage.has_struck(), storage.rng);
                assert_eq!(!succeeds, struck, "{context}");
                if struck {
                    then(&mut machine, fault, &context);
                }
                let mut disks = machine.driver.disks;
                if fault == Fault::Power {
                    disks.crash(&mut rng);
                }
                if fault == Fault::Power || ends && !struck {
                    memory = None;
                }
                let left = Volume { disks, memory, ..left };
                has_all(&left, true).unwrap_or_else(|error| panic!("{context}: {error}"));
                if !struck {
                    break;
                }
            }
        }
    }
}

#[test]
fn every_write_of_close_may_fail() {
    let again = |machine: &mut Machine, _: Fault, context: &str| {
        let again = machine.driver.engine.close(&mut machine.driver.disks);
        assert!(again.is_err(), "{context}: a second close believes the first");
    };
    at_every_of_open("close", |engine, storage| engine.close(storage).is_ok(), again, true);
}

#[test]
fn every_write_of_set_may_fail() {
    const NOTES: &str = "max_moves=5";
    let again = |machine: &mut Machine, fault: Fault, _: &str| {
        if matches!(fault, Fault::FailsOnce | Fault::FailsOn) {
            machine.driver.engine.store_notes(NOTES, &mut machine.driver.disks).unwrap();
        }
    };
    at_every_of_open("set", |engine, storage| engine.store_notes(NOTES, storage).is_ok(), again, false);
}

/// Formats over a volume with data: what is there meanwhile is that volume, or none, or the new one.
#[test]
fn every_write_of_format_may_fail() {
    for (name, config) in placements() {
        let volume = Volume::closed(&config);
        let run = |config: &Config, storage: &mut dyn Storage| {
            let new = Formatting { volume: VolumeId(0xdef), unix_s: 2, zeroed: false, notes: String::new() };
            text(Engine::format(config, new, storage))
        };
        let empty = |volume: &Volume| {
            let volume = Volume { model: Model::new(volume.model.size()), memory: None, ..volume.clone() };
            has_all(&volume, true)
        };
        let after = |left: &Volume, _: bool| match open(left) {
            Err(OpenError::NotFormatted { .. } | OpenError::Foreign { .. }) => Ok(()),
            Err(OpenError::NoSuperblocks { .. }) => {
                let mut mended = left.clone();
                closed::repair(mended.config.clone(), &mut mended.disks, Trust::None, &[])
                    .map_err(|error| error.to_string())?;
                if name == "tiering" { has_all(&mended, true).or_else(|_| empty(&mended)) } else { Ok(()) }
            }
            // Without a map, a device that was to be formatted can be taken for one that has lost its superblocks.
            Err(OpenError::NoSuperblocksUncertain { .. }) if name == "linear" || name.starts_with("logging") => {
                let mut mended = left.clone();
                let done = closed::repair(mended.config.clone(), &mut mended.disks, Trust::AsItIs, &[]);
                done.map(drop).map_err(|error| error.to_string())
            }
            Err(error) => Err(format!("refused: {error}")),
            Ok(_) if name == "tiering" => has_all(left, true).or_else(|_| empty(left)),
            Ok(_) => Ok(()),
        };
        let done = |left: &Volume| match name {
            "tiering" => empty(left),
            // Data at home shows what was there before: `zeroed: false` promises nothing else.
            _ => text(open(left).map(drop)),
        };
        at_every(&format!("format, {name}"), &volume, &run, &after, &done);
    }
}

fn device_can_be_replaced(config: &Config, device: DeviceId) -> bool {
    !matches!(config.placement, Placement::Single { .. }) && device.index() < config.devices.len()
}

#[test]
fn every_write_of_replace_may_fail() {
    for (name, config) in placements() {
        for device in [FAST, SLOW] {
            if !device_can_be_replaced(&config, device) {
                continue;
            }
            let mut volume = Volume::closed(&config);
            // An empty device is at the path of one that is lost.
            volume.disks.empty(device);
            // What is older without the log, or reads as zeros, is what was accepted.
            let accepted = matches!(config.placement, Placement::Linear { .. } | Placement::Logging(_));
            let lost = match accepted {
                true => Unreadable::new(),
                false => check(&mut open_without(&volume, device), &volume.model, true).unwrap(),
            };
            let run = |config: &Config, storage: &mut dyn Storage| {
                text(closed::replace(config.clone(), storage, device, accepted))
            };
            let as_lost = |found: Unreadable| match found == lost {
                true => Ok(()),
                false => Err(format!("sectors {found:?} cannot be read, and {lost:?} are lost")),
            };
            let done = |left: &Volume| match accepted {
                true => text(open(left).map(drop)),
                false => as_lost(opens(left, true)?),
            };
            let after = |left: &Volume, _: bool| match open(left) {
                Ok(_) => done(left),
                Err(
                    OpenError::LeftOut { device: named, .. }
                    | OpenError::NotFormatted { device: named }
                    | OpenError::Damaged { device: named, .. }
                    | OpenError::NoSuperblocks { device: named }
                    // A log that was replaced gives the volume another name, which the primary gets last.
                    | OpenError::Foreign { device: named, .. },
                ) if named == device.index() => {
                    let mut machine = open_without(left, device);
                    if accepted { Ok(()) } else { as_lost(check(&mut machine, &left.model, true)?) }
                }
                Err(error) => Err(format!("refused: {error}")),
            };
            at_every(&format!("replace {device:?}, {name}"), &volume, &run, &after, &done);
        }
    }
}

fn open_without(volume: &Volume, device: DeviceId) -> crashing::Machine {
    let mut disks = volume.disks.clone();
    let (engine, _) = Engine::open_without(volume.config.clone(), &mut disks, &[device]).unwrap();
    crashing::Machine::with(engine, disks, 3)
}

#[test]
fn every_write_of_detach_may_fail() {
    for (name, config) in placements() {
        if matches!(config.placement, Placement::Tiering(_) | Placement::Linear { .. }) {
            continue;
        }
        for (state, volume) in [("closed", Volume::closed(&config)), ("killed", Volume::killed(&config))] {
            // A detached volume is not detached twice: it is done.
            let run = |config: &Config, storage: &mut dyn Storage| match closed::detach(
                config.clone(),
                storage,
                peryton_engine::Forgone::default(),
                &mut |_| (),
            ) {
                Err(peryton_engine::DetachError::Open(OpenError::Detached { .. })) => Ok(()),
                other => text(other),
            };
            let alone = |left: &Volume, all: bool| {
                let at = Engine::new(left.config.clone()).unwrap().data_at(SLOW).0 as usize;
                let bytes = &left.disks.0[SLOW.index()].as_ref().unwrap().contents()[at..];
                left.model.holds(bytes, all)
            };
            let after = |left: &Volume, all: bool| match open(left) {
                Ok(_) => has_all(left, all),
                Err(OpenError::Detached { .. }) => alone(left, all),
                Err(error) => Err(format!("refused: {error}")),
            };
            at_every(&format!("detach, {name}, {state}"), &volume, &run, &after, &|left| alone(left, false));
        }
    }
}

#[test]
fn every_write_of_readmit_may_fail() {
    for (name, config) in placements() {
        if matches!(config.placement, Placement::Logging(_)) {
            continue;
        }
        for device in [FAST, SLOW] {
            // The device is given up while the volume rests, and the volume is used without it.
            let mut volume = Volume::killed(&config);
            let mut machine = open(&volume).unwrap();
            flush(&mut machine, &mut volume.model);
            machine.settle();
            machine.device_failed(device);
            for _ in 0..8 {
                machine.carry_out_all();
                machine.tick(Nanos::from_s(1));
            }
            // One flush says that something may be lost.
            machine.ask(peryton_units::Op::Flush, 0, Vec::new());
            machine.carry_out_all();
            machine.driver.answered.clear();
            machine.settle();
            let lost = check(&mut machine, &volume.model, true).unwrap();
            machine.settle();
            machine.close();
            volume.disks = machine.driver.disks;
            volume.memory = None;
            let run =
                |config: &Config, storage: &mut dyn Storage| match closed::readmit(config.clone(), storage, device) {
                    Err(peryton_engine::ReadmitError::NotGone { .. }) => text(Engine::open(config.clone(), storage)),
                    other => text(other),
                };
            let done = |left: &Volume| has_all(left, true);
            let after = |left: &Volume, _: bool| match open(left) {
                Ok(_) => done(left),
                Err(OpenError::LeftOut { device: named, .. } | OpenError::Stale { device: named, .. })
                    if named == device.index() =>
                {
                    let mut machine = open_without(left, device);
                    match check(&mut machine, &left.model, true)? {
                        found if found.iter().all(|sector| lost.contains(sector)) => Ok(()),
                        found => Err(format!("sectors {found:?} cannot be read, and {lost:?} are lost")),
                    }
                }
                Err(error) => Err(format!("refused: {error}")),
            };
            at_every(&format!("readmit {device:?}, {name}"), &volume, &run, &after, &done);
        }
    }
}

//! The fear: one of several primaries of a log goes, and with it something of the others, or it comes back and something is older than it was.

#![allow(clippy::unwrap_used)]

use crate::crashing;

use crashing::{Disks, LOG, Machine, PRIMARY, check_all, formatted, open, refuses_the_primary};
use peryton_engine::{
    Config, DeviceId, Engine, Logging, OpenError, Placement, Primaries, RequestError, Tuning, closed,
};
use peryton_units::{Bytes, Nanos, Op};

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
const LOG_BYTES: u64 = 8 * MIB;
/// The second primary. The volume begins with the first one's part.
const OTHER: DeviceId = DeviceId(2);

fn config() -> Config {
    let primaries = Primaries::new(&[PRIMARY, OTHER]).unwrap();
    let placement = Placement::Logging(Logging { primaries, log: LOG, block: Bytes(BLOCK) });
    Config { devices: vec![Bytes(MIB), Bytes(LOG_BYTES), Bytes(MIB)], placement, tuning: Tuning::default() }
}

fn write(machine: &mut Machine, model: &mut [u8], block: u64, value: u8) {
    machine.request(Op::Write, block * BLOCK, vec![value; BLOCK as usize]);
    model[(block * BLOCK) as usize..][..BLOCK as usize].fill(value);
}

/// Both primaries have the first round, and the log has the second one of every fourth block.
fn two_rounds(config: &Config) -> (Machine, Vec<u8>) {
    let mut machine = open(config, formatted(config)).unwrap();
    let mut model = vec![0; 2 * MIB as usize];
    assert_eq!(machine.engine.volume_size(), Bytes(2 * MIB));
    for block in 0..2 * MIB / BLOCK {
        write(&mut machine, &mut model, block, block as u8 | 1);
    }
    machine.migrate();
    for block in (0..2 * MIB / BLOCK).step_by(4) {
        write(&mut machine, &mut model, block, !(block as u8) | 1);
    }
    machine.request(Op::Flush, 0, Vec::new());
    (machine, model)
}

/// What can be read is as it must be, and what is lost is of this range and not in the log.
fn check(machine: &mut Machine, model: &[u8], lost: std::ops::Range<u64>) {
    let found = crashing::check_unless_lost(machine, model);
    let expected: Vec<u64> = (lost.start / BLOCK..lost.end / BLOCK).filter(|block| block % 4 > 0).collect();
    assert_eq!(found, expected);
}

#[test]
fn one_primary_goes_and_comes_back_while_the_others_are_served() {
    for (gone, part) in [(PRIMARY, 0..MIB), (OTHER, MIB..2 * MIB)] {
        let config = config();
        let (mut machine, mut model) = two_rounds(&config);
        let disk = machine.dies(gone);
        check(&mut machine, &model, part.clone());
        let parts = machine.engine.log_parts();
        let lost: Vec<(bool, Bytes)> = parts.iter().map(|part| (part.gone, part.lost)).collect();
        let (there, without) = ((false, Bytes::ZERO), (true, Bytes(MIB / 4 * 3)));
        assert_eq!(lost, if gone == PRIMARY { [without, there] } else { [there, without] });
        // The log is used again and again for the other one, and takes no writes for this one.
        machine.ask(Op::Write, part.start, vec![1; BLOCK as usize]);
        machine.carry_out_all();
        let answered = std::mem::take(&mut machine.driver.answered);
        assert!(answered.iter().all(|(_, _, result)| *result == Err(RequestError::Device)) && answered.len() == 1);
        let first = if gone == PRIMARY { MIB / BLOCK } else { 0 };
        for round in 0..20_u8 {
            for block in first..first + MIB / BLOCK {
                write(&mut machine, &mut model, block, round ^ block as u8 | 1);
            }
            machine.migrate();
        }
        let logging = machine.engine.stats().logging.clone().unwrap();
        assert_eq!(logging.direct_writes, 0, "the log has had room");
        assert!(logging.bytes_appended > 2 * LOG_BYTES && logging.bytes_migrated > LOG_BYTES, "{logging:?}");
        check(&mut machine, &model, part.clone());
        machine.request(Op::Flush, 0, Vec::new());
        machine.driver.disks.lose_everything();
        let mut disks = machine.driver.disks;
        assert!(
            matches!(Engine::open(config.clone(), &mut disks.clone()), Err(OpenError::Missing { device }) if device == gone.index())
        );
        let (engine, _) = Engine::open_without(config.clone(), &mut disks, &[gone]).unwrap();
        let mut machine = Machine::with(engine, disks, 1);
        check(&mut machine, &model, part.clone());
        write(&mut machine, &mut model, first + 1, 77);
        machine.settle();
        machine.close();
        let mut disks = machine.driver.disks;
        disks.0[gone.index()] = disk;
        assert!(
            matches!(Engine::open(config.clone(), &mut disks.clone()), Err(OpenError::LeftOut { device, .. }) if device == gone.index())
        );
        closed::readmit(config.clone(), &mut disks, gone).unwrap();
        let mut machine = open(&config, disks).unwrap();
        check_all(&mut machine, &model);
        machine.migrate();
        check_all(&mut machine, &model);
        assert_eq!(machine.engine.losses(9).bytes, Bytes::ZERO);
        machine.driver.disks.lose_everything();
        check_all(&mut open(&config, machine.driver.disks).unwrap(), &model);
    }
}

/// It goes while data migrate to it, which it may lose with its cache. The log still has them.
#[test]
fn a_primary_that_goes_in_a_migration_may_lack_what_migrated() {
    let config = config();
    let (mut machine, model) = two_rounds(&config);
    machine.driver.call(|engine, now, out| engine.write_all_back(now, out));
    while machine.engine.stats().logging.clone().unwrap().bytes_migrated < 2 * MIB + MIB / 2 {
        machine.carry_out_at(0);
    }
    machine.carry_out_but(|command| matches!(command, peryton_engine::Command::Flush { .. }), None);
    let mut lost = Disks(vec![machine.dies(OTHER)]);
    lost.lose_everything();
    for _ in 0..5 {
        machine.tick(Nanos::from_s(1));
        machine.carry_out_all();
    }
    machine.settle();
    machine.close();
    let mut disks = machine.driver.disks;
    disks.0[OTHER.index()] = lost.0.remove(0);
    closed::readmit(config.clone(), &mut disks, OTHER).unwrap();
    check_all(&mut open(&config, disks).unwrap(), &model);
}

#[test]
fn a_primary_that_may_lack_a_write_past_the_log_is_refused() {
    let config = config();
    let (mut machine, _) = two_rounds(&config);
    // It zeroes what the log has, and no commit records that yet.
    machine.request(Op::Discard, MIB, vec![0; BLOCK as usize]);
    let disk = machine.dies(OTHER);
    machine.settle();
    machine.close();
    let mut disks = machine.driver.disks;
    disks.0[OTHER.index()] = disk;
    refuses_the_primary(config, disks, OTHER);
}

/// The second one goes after a restart, when only the superblocks know of the first one that it may come back.
#[test]
fn both_primaries_go_one_after_the_other_and_come_back() {
    let config = config();
    let (mut machine, model) = two_rounds(&config);
    let other = machine.dies(OTHER);
    machine.settle();
    machine.close();
    let mut disks = machine.driver.disks;
    let (engine, _) = Engine::open_without(config.clone(), &mut disks, &[OTHER]).unwrap();
    let mut machine = Machine::with(engine, disks, 1);
    let first = machine.dies(PRIMARY);
    machine.settle();
    machine.close();
    let mut disks = machine.driver.disks;
    for (device, disk) in [(PRIMARY, first), (OTHER, other)] {
        disks.0[device.index()] = disk;
        closed::readmit(config.clone(), &mut disks, device).unwrap();
    }
    check_all(&mut open(&config, disks).unwrap(), &model);
}

//! The fear: a device of a log that was given up comes back, and something is older than it was.

#![allow(clippy::unwrap_used)]

use crate::crashing;

use crashing::{LOG, Machine, PRIMARY, check_all, config, formatted, open, refuses_the_primary};
use peryton_engine::{Config, DeviceId, Engine, ReadmitError, closed};
use peryton_units::{Bytes, Op};

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;

/// The primary has the first round, the log the second, all of it flushed.
fn two_rounds(config: &Config) -> (Machine, Vec<u8>) {
    let mut machine = open(config, formatted(config)).unwrap();
    let mut model = vec![0; MIB as usize];
    for round in 1..=2_u8 {
        for block in 0..100_u64 {
            let value = block as u8 ^ (round * 0x55);
            machine.request(Op::Write, block * 2 * BLOCK, vec![value; BLOCK as usize]);
            model[(block * 2 * BLOCK) as usize..][..BLOCK as usize].fill(value);
        }
        machine.request(Op::Flush, 0, Vec::new());
        if round == 1 {
            machine.migrate();
        }
    }
    machine.driver.disks.lose_everything();
    (machine, model)
}

/// The device fails for good, and answers again once it is given up.
fn dies(machine: &mut Machine, device: DeviceId) {
    let disk = machine.dies(device);
    machine.driver.disks.0[device.index()] = disk;
}

/// The primary may have lost a write past the log, for which the log has given up its copy.
#[test]
fn a_primary_with_a_write_in_doubt_is_refused_and_nothing_is_written() {
    let config = config(MIB, 8 * MIB, BLOCK);
    let (mut machine, _) = two_rounds(&config);
    machine.request(Op::Discard, 0, vec![0; BLOCK as usize]);
    dies(&mut machine, PRIMARY);
    machine.request(Op::Write, 0, vec![9; BLOCK as usize]);
    machine.settle();
    machine.close();
    refuses_the_primary(config, machine.driver.disks, PRIMARY);
}

/// The log has kept what migrates, and the primary has the rest.
#[test]
fn a_primary_comes_back_with_what_it_holds() {
    let config = config(MIB, 8 * MIB, BLOCK);
    let (mut machine, mut model) = two_rounds(&config);
    dies(&mut machine, PRIMARY);
    machine.request(Op::Write, 0, vec![9; BLOCK as usize]);
    model[..BLOCK as usize].fill(9);
    machine.settle();
    machine.close();
    let mut disks = machine.driver.disks;
    assert_eq!(closed::readmit(config.clone(), &mut disks, PRIMARY).unwrap().opened.gone, 0);
    let mut machine = open(&config, disks).unwrap();
    check_all(&mut machine, &model);
    machine.migrate();
    check_all(&mut machine, &model);
}

#[test]
fn a_log_returns_only_if_it_has_nothing_that_the_primary_lacks() {
    let config = config(MIB, 8 * MIB, BLOCK);
    for (emptied, again) in [(false, false), (true, false), (true, true)] {
        let (mut machine, mut model) = two_rounds(&config);
        if emptied {
            machine.settle();
            machine.migrate();
        }
        dies(&mut machine, LOG);
        for block in 0..50_u64 {
            machine.request(Op::Write, block * 2 * BLOCK, vec![9; BLOCK as usize]);
            model[(block * 2 * BLOCK) as usize..][..BLOCK as usize].fill(9);
        }
        machine.settle();
        machine.driver.disks.lose_everything();
        let mut disks = machine.driver.disks;
        if again {
            let (engine, _) = Engine::open_without(config.clone(), &mut disks, &[LOG]).unwrap();
            let mut machine = Machine::with(engine, disks, 1);
            machine.request(Op::Write, 0, vec![17; BLOCK as usize]);
            model[..BLOCK as usize].fill(17);
            machine.settle();
            machine.close();
            disks = machine.driver.disks;
        }
        let before = disks.clone();
        let done = closed::readmit(config.clone(), &mut disks, LOG);
        if !emptied {
            // A hundred blocks are in the log, and nothing says that some of them were written since.
            let bytes = Bytes(100 * BLOCK);
            assert_eq!(done.unwrap_err(), ReadmitError::LogIsNewer { device: 1, bytes });
            assert!(disks.0 == before.0, "a refusal has written something");
            continue;
        }
        assert_eq!(done.unwrap().opened.gone, 0);
        let mut machine = open(&config, disks).unwrap();
        check_all(&mut machine, &model);
        machine.request(Op::Write, 7 * BLOCK, vec![3; BLOCK as usize]);
        model[7 * BLOCK as usize..][..BLOCK as usize].fill(3);
        machine.request(Op::Flush, 0, Vec::new());
        machine.driver.disks.lose_everything();
        check_all(&mut open(&config, machine.driver.disks).unwrap(), &model);
    }
}

/// The fear: a volume whose log is gone says that nothing is lost, and reads old blocks without an error.
#[test]
fn without_its_log_a_volume_says_that_it_cannot_know_what_is_older() {
    let config = config(MIB, 8 * MIB, BLOCK);
    let (mut machine, model) = two_rounds(&config);
    assert!(!machine.engine.losses(1).unknown);
    // While the engine runs it knows what the log had.
    dies(&mut machine, LOG);
    let lost = machine.engine.losses(usize::MAX);
    assert_eq!((lost.bytes, lost.unknown), (Bytes(100 * BLOCK), false));
    machine.driver.disks.lose_everything();
    let disks = machine.driver.disks;
    let found = closed::inspect(config.clone(), &mut disks.clone(), false, &[LOG]).unwrap();
    assert!(found.lost.unknown, "{:?}", found.lost);
    let (engine, _) = Engine::open_without(config.clone(), &mut disks.clone(), &[LOG]).unwrap();
    assert!(engine.losses(1).unknown);
    // And it does read older blocks.
    let mut machine = Machine::with(engine, disks, 1);
    let read = machine.request(Op::Read, 0, vec![0; BLOCK as usize]);
    assert!(read != model[..BLOCK as usize], "what only the log had is gone");
}

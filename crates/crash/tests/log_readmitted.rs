//! The fear: a device of a log that was given up comes back, and something that was flushed is older than it was.

#![allow(clippy::unwrap_used)]

mod crashing;

use crashing::{Disks, LOG, Machine, PRIMARY, check_all, config, formatted, open};
use peryton_engine::{Config, Engine, LogCaching, ReadmitError};
use peryton_units::{Bytes, Nanos, Op};

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

/// The device fails for good, and the host flushes until a flush succeeds.
fn dies(machine: &mut Machine, device: peryton_engine::DeviceId) {
    let disk = machine.driver.disks.0[device.index()].take();
    machine.device_failed(device);
    for _ in 0..3 {
        machine.carry_out_all();
        machine.ask(Op::Flush, 0, Vec::new());
    }
    machine.carry_out_all();
    machine.driver.answered.clear();
    machine.driver.disks.0[device.index()] = disk;
    assert!(machine.engine.is_durably_gone(device));
}

fn back(config: &Config, mut disks: Disks) -> Machine {
    let done = Engine::readmit(config.clone(), &mut disks, PRIMARY).unwrap();
    assert_eq!(done.opened.gone, 0);
    open(config, disks).unwrap()
}

/// Whatever part of a migration, and of writes and discards that pass the log, the primary has done and not made durable.
#[test]
fn what_was_flushed_is_there_when_a_primary_returns_without_its_cache() {
    let mut config = config(MIB, 8 * MIB, BLOCK);
    let mut reached = 0;
    for (passes, keeps) in [(false, false), (true, false), (true, true)] {
        for done in (0..400).step_by(5) {
            config.tuning.logging.caching = LogCaching::Full;
            let (mut machine, mut model) = two_rounds(&config);
            let mut doubtful = Vec::new();
            if passes {
                let mut tuning = machine.engine.tuning().clone();
                tuning.logging.caching = LogCaching::Selective { overwrite_ratio_ppm: 1_000_000 };
                assert!(machine.driver.retune(tuning));
                for block in [3_u64, 50, 99] {
                    machine.ask(Op::Write, block * 2 * BLOCK, vec![0xee; BLOCK as usize]);
                    machine.ask(Op::Discard, (block - 1) * 2 * BLOCK, vec![0; BLOCK as usize]);
                    doubtful.extend([block * 2, (block - 1) * 2]);
                }
            }
            machine.driver.call(|engine, now, out| engine.write_all_back(now, out));
            let mut left = done;
            while left > 0 && !machine.pending.is_empty() {
                machine.carry_out_at(0);
                left -= 1;
            }
            reached += usize::from(left == 0);
            dies(&mut machine, PRIMARY);
            // What is written without it is in the log.
            for block in (0..100_u64).step_by(9) {
                machine.request(Op::Write, block * 2 * BLOCK, vec![9; BLOCK as usize]);
                model[(block * 2 * BLOCK) as usize..][..BLOCK as usize].fill(9);
            }
            machine.ask(Op::Flush, 0, Vec::new());
            machine.tick(Nanos::from_s(1));
            machine.carry_out_all();
            if !keeps {
                machine.driver.disks.lose_everything();
            }
            let mut machine = back(&config, machine.driver.disks);
            for block in doubtful {
                // What was not flushed may be there or not.
                let (from, len) = (block * BLOCK, BLOCK as usize);
                let found = machine.request(Op::Read, from, vec![0; len]);
                let may_be = [model[from as usize], 0xee, 0, 9];
                assert!(may_be.contains(&found[0]), "block {block} is {}, {done}", found[0]);
                model[from as usize..][..len].copy_from_slice(&found);
            }
            check_all(&mut machine, &model);
            machine.settle();
            machine.migrate();
            check_all(&mut machine, &model);
            machine.close();
            check_all(&mut open(&config, machine.driver.disks).unwrap(), &model);
        }
    }
    assert!(reached > 20, "a migration has more steps than {reached}");
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
        let done = Engine::readmit(config.clone(), &mut disks, LOG);
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

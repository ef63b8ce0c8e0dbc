//! The fear: after the death of the process, with the machine still running, something is gone that was answered.

#![allow(clippy::unwrap_used)]

use peryton_crash::{Ends, Kind, Options, run, torture};
use peryton_engine::{Command, Config, Engine, Hybrid, Placement, Tuning, WritePolicy};
use peryton_units::{Bytes, Op};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::{
    crashing::{Machine, formatted},
    every::{FAST, Fault, Faulty, SLOW},
};

/// As these seeds drew when they failed; `succession.rs` has the rest.
const OLD: Options = Options { replaces: Some(false), resizes: Some(false), ..Options::DRAWN };

fn must_pass(seeds: std::ops::Range<u64>, options: &Options, least_deaths: u64) {
    let result = torture(seeds, options, None, 1, |_| {});
    if let Some((seed, error)) = result.failures.first() {
        panic!("seed {seed} of {options:?} fails: {error}");
    }
    let deaths = result.outcome.process_deaths;
    assert!(deaths >= least_deaths, "only {deaths} deaths of the process: the test tests nothing");
}

#[test]
fn what_was_answered_survives_the_process() {
    for kind in Kind::ALL {
        let seeds = if kind == Kind::Logging { 0..12 } else { 0..40 };
        must_pass(seeds, &Options { kind: Some(kind), ends: Some(Ends::Process), ..OLD }, 1_000);
    }
}

#[test]
fn deaths_and_power_losses_alternate() {
    must_pass(1_000..1_150, &Options { ends: Some(Ends::Both), ..OLD }, 5_000);
}

#[test]
fn what_once_lost_a_map_does_not_any_more() {
    // A recovery that was killed had left a checkpoint that was not flushed; the next one relied on it, wrote over the last one
    // that was durable, and lost power.
    for seed in [2_236, 2_452] {
        let options = Options { ends: Some(Ends::Both), ..OLD };
        assert_eq!(run(seed, &options).map(|_| ()), Ok(()), "seed {seed}");
    }
}

#[test]
fn what_came_back_older_than_the_answer_does_not_any_more() {
    // The fast device died with an extent that no commit had. Its map, when it came back, had no copy of that extent, and the
    // extent was taken to be at its home, which was older than what had been answered.
    let options = Options { ends: Some(Ends::Both), ..OLD };
    assert_eq!(run(12_598, &options).map(|_| ()), Ok(()));
}

#[test]
fn a_log_opens_after_two_recoveries_that_were_killed() {
    // The first had joined ranges of absent appends in its commit; the second found the first of them hidden by a part of it that
    // memory still had, and took what lay beyond for damage.
    assert_eq!(run(3_697, &OLD).map(|_| ()), Ok(()));
}

#[test]
fn what_was_clean_is_clean_after_the_process_and_dirty_after_the_power() {
    let pair = Hybrid { fast: FAST, slow: SLOW, extent: Bytes::kib(16) };
    let tuning = Tuning { promotion_threshold: 0, demotion_low: 1, demotion_high: 2, ..Tuning::default() };
    let config = Config { devices: vec![Bytes::mib(1), Bytes::mib(4)], placement: Placement::Caching(pair), tuning };
    let mut disks = formatted(&config);
    let (engine, _) = Engine::open(config.clone(), &mut disks).unwrap();
    let mut machine = Machine::with(engine, disks, 1);
    machine.driver.keep_in_memory();
    for extent in 0..20 {
        machine.request(Op::Write, extent * 16_384, vec![extent as u8 + 1; 8_192]);
    }
    machine.driver.call(|engine, now, out| engine.write_all_back(now, out));
    machine.settle();
    assert_eq!(machine.engine.dirty_extents(), 0);
    // These are dirty, and the last one is in flight.
    machine.request(Op::Write, 3 * 16_384, vec![77; 4_096]);
    machine.ask(Op::Write, 5 * 16_384, vec![78; 4_096]);
    for (memory, dirty) in [(machine.driver.memory.clone(), 2), (None, 20)] {
        let (mut disks, mut memory) = (machine.driver.disks.clone(), memory);
        let mut storage = Faulty::new(&mut disks, &mut memory, Fault::FailsOnce, u32::MAX, 1);
        let (_, opened) = Engine::open(config.clone(), &mut storage).unwrap();
        assert_eq!((opened.mapped, opened.dirty), (20, dirty));
    }
}

/// The fear: devices that were set back to an earlier copy are taken for those that the killed server wrote, and slots are read that have
/// nothing of what the records say.
#[test]
fn records_of_a_killed_server_do_not_fit_devices_that_are_older() {
    let pair = Hybrid { fast: FAST, slow: SLOW, extent: Bytes::kib(16) };
    let tuning = Tuning { promotion_threshold: 0, demotion_low: 1, demotion_high: 2, ..Tuning::default() };
    for placement in [Placement::Caching(pair), Placement::Tiering(pair)] {
        let config = Config { devices: vec![Bytes::mib(1), Bytes::mib(4)], placement, tuning: tuning.clone() };
        let mut disks = formatted(&config);
        let closed = disks.clone();
        let (engine, _) = Engine::open(config.clone(), &mut disks).unwrap();
        let mut machine = Machine::with(engine, disks, 1);
        machine.driver.keep_in_memory();
        let write = |machine: &mut Machine, extents: std::ops::Range<u64>| {
            for extent in extents {
                machine.request(Op::Write, extent * 16_384, vec![extent as u8 + 1; 16_384]);
            }
            machine.request(Op::Flush, 0, Vec::new());
        };
        write(&mut machine, 0..4);
        let older = machine.driver.disks.clone();
        write(&mut machine, 4..20);
        let memory = machine.driver.memory.clone();
        for (disks, fit) in [(&closed, false), (&older, false), (&machine.driver.disks, true)] {
            let opened = |mut memory| {
                let mut disks = disks.clone();
                let mut storage = Faulty::new(&mut disks, &mut memory, Fault::FailsOnce, u32::MAX, 1);
                Engine::open(config.clone(), &mut storage).map(|(_, opened)| opened.taken_over)
            };
            match opened(memory.clone()) {
                Ok(taken_over) => assert!(fit && taken_over.is_some(), "{taken_over:?}"),
                Err(error) => assert!(!fit && error.to_string().contains("older than the records"), "{error}"),
            }
            assert!(matches!(opened(None), Ok(None)), "without the records they are as after a power loss");
        }
    }
}

/// A cache that writes through, and whose records outlive it.
fn writing_through(extent: Bytes) -> (Config, Machine) {
    let pair = Hybrid { fast: FAST, slow: SLOW, extent };
    let tuning = Tuning {
        promotion_threshold: 0,
        demotion_low: 1,
        demotion_high: 2,
        write: WritePolicy::Through,
        ..Tuning::default()
    };
    let config = Config { devices: vec![Bytes::mib(1), Bytes::mib(4)], placement: Placement::Caching(pair), tuning };
    let mut disks = formatted(&config);
    let (engine, _) = Engine::open(config.clone(), &mut disks).unwrap();
    let mut machine = Machine::with(engine, disks, 1);
    machine.driver.keep_in_memory();
    (config, machine)
}

#[test]
fn a_cache_that_writes_through_is_clean_and_warm_after_the_process() {
    let (config, mut machine) = writing_through(Bytes::kib(16));
    for extent in 0..3 {
        machine.request(Op::Read, extent * 16_384, vec![0; 16_384]);
    }
    machine.settle();
    // Parts of blocks go to both devices before they are answered; this one reaches the copy alone.
    machine.ask(Op::Write, 16_384 + 512, vec![78; 512]);
    let copy = machine
        .pending
        .iter()
        .position(|pending| matches!(pending.command, Command::Write { device, .. } if device == FAST));
    machine.carry_out_at(copy.expect("the copy is written"));
    let (mut disks, mut memory) = (machine.driver.disks.clone(), machine.driver.memory.clone());
    let mut storage = Faulty::new(&mut disks, &mut memory, Fault::FailsOnce, u32::MAX, 1);
    let (engine, opened) = Engine::open(config.clone(), &mut storage).unwrap();
    assert_eq!((opened.mapped, opened.dirty), (2, 0), "the home counts, and the copies that equal theirs stay");
    let mut machine = Machine::with(engine, disks, 1);
    assert_eq!(machine.request(Op::Read, 16_384, vec![1; 16_384]), vec![0; 16_384]);
    assert_eq!(machine.engine.losses(1).bytes, Bytes::ZERO);
}

#[test]
fn a_write_that_the_copy_missed_stays_known_beside_one_that_reached_both() {
    let (config, mut machine) = writing_through(Bytes::kib(64));
    machine.request(Op::Read, 0, vec![0; 65_536]);
    machine.settle();
    // The read keeps the copy in use, so that it cannot be given up yet.
    machine.ask(Op::Read, 0, vec![0; 65_536]);
    machine.ask(Op::Write, 512, vec![78; 512]);
    machine.ask(Op::Write, 32_768 + 512, vec![79; 512]);
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    for within in [512, 32_768 + 512] {
        for device in [SLOW, FAST] {
            let write = machine.pending.iter().position(|pending| {
                matches!(pending.command, Command::Write { device: to, at, len, .. }
                    if to == device && at.0 % 65_536 == within && len.0 == 512)
            });
            let fails = device == FAST && within == 512;
            machine.driver.complete_at(write.expect("it is written to both devices"), fails, &mut rng);
        }
    }
    let (mut disks, mut memory) = (machine.driver.disks.clone(), machine.driver.memory.clone());
    let mut storage = Faulty::new(&mut disks, &mut memory, Fault::FailsOnce, u32::MAX, 1);
    let (engine, opened) = Engine::open(config, &mut storage).unwrap();
    assert_eq!(opened.mapped, 0, "the copy lacks what its origin has");
    let mut machine = Machine::with(engine, disks, 1);
    assert_eq!(machine.request(Op::Read, 512, vec![1; 512]), vec![78; 512]);
}

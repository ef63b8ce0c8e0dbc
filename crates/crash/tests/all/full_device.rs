//! The fear: a device lacks space for longer than one waits, and a flush is never answered, or the device is given up, or what was
//! written is not there once it has space again.

#![allow(clippy::unwrap_used)]

use crate::crashing;

use crashing::{LOG, Machine, PRIMARY, formatted, open};
use peryton_engine::{
    Cleaning, Command, Config, DeviceId, Excuse, Excuses, Hybrid, Logging, Placement, RequestError, RequestId, Tuning,
};
use peryton_units::{Bytes, Nanos, Op};

const FAST: DeviceId = DeviceId(0);
const SLOW: DeviceId = DeviceId(1);
const EXTENT: Bytes = Bytes::kib(4);
/// The most commands in a second to a device that lacks space, while nothing is written.
const MOST_TRIES: usize = 40;

fn config(placement: Placement) -> Config {
    let tuning = Tuning {
        promotion_threshold: 0,
        demotion_low: 0,
        demotion_high: 0,
        writeback_delay: Nanos::from_s(3600),
        cleaning: Cleaning::UNBOUNDED,
        ..Tuning::default()
    };
    let devices = match placement {
        Placement::Logging(_) => vec![EXTENT * 64, Bytes::mib(4)],
        _ => vec![EXTENT * 16, EXTENT * 64],
    };
    Config { devices, placement, tuning }
}

/// Each placement with journals, and each of its devices.
fn cases() -> Vec<(Config, DeviceId)> {
    let pair = Hybrid { fast: FAST, slow: SLOW, extent: EXTENT };
    let log = Logging { primaries: PRIMARY.into(), log: LOG, block: EXTENT };
    let placements =
        [Placement::Caching(pair), Placement::Tiering(pair), Placement::Partitioned(pair), Placement::Logging(log)];
    let cases = placements.into_iter().flat_map(|placement| [(placement.clone(), FAST), (placement, SLOW)]);
    cases.map(|(placement, device)| (config(placement), device)).collect()
}

/// Carries out everything but writes to a device that lacks space, which fail. Says how many did.
fn without_space(machine: &mut Machine, full: DeviceId) -> usize {
    let mut failed = 0;
    while let Some(pending) = machine.driver.pending.first() {
        let needs_space = match pending.command {
            Command::Write { device, .. } | Command::Zero { device, .. } => device == full,
            _ => false,
        };
        failed += usize::from(needs_space);
        machine.carry_out_or_fail(needs_space);
    }
    failed
}

fn take_result(machine: &mut Machine, id: RequestId) -> Option<Result<(), RequestError>> {
    let at = machine.driver.answered.iter().position(|(other, ..)| *other == id)?;
    Some(machine.driver.answered.swap_remove(at).2)
}

fn excuse(machine: &mut Machine, device: DeviceId, excuse: Option<Excuse>) {
    let mut excuses = Excuses::default();
    excuses.set(device, excuse);
    machine.driver.engine.excuse(excuses);
}

#[test]
fn a_flush_of_a_device_that_lacks_space_is_answered_and_nothing_is_lost() {
    let mut refused = 0;
    for (config, full) in cases() {
        let mut machine = open(&config, formatted(&config)).unwrap();
        machine.request(Op::Write, 0, vec![1; 8192]);
        machine.request(Op::Flush, 0, Vec::new());
        machine.request(Op::Write, 4096, vec![2; 8192]);
        excuse(&mut machine, full, Some(Excuse::LacksSpace));
        let id = machine.ask(Op::Flush, 0, Vec::new());
        let mut result = None;
        for second in 0..30 {
            let mut tries = 0;
            for _ in 0..100 {
                tries += without_space(&mut machine, full);
                machine.driver.tick(Nanos::from_ms(10));
            }
            assert!(second == 0 || tries <= MOST_TRIES, "{config:?}, {full:?}: {tries} tries in a second");
            result = result.or_else(|| take_result(&mut machine, id));
        }
        assert!(!machine.engine.is_gone(full), "{config:?}: {full:?} is given up");
        let result = result.unwrap_or_else(|| panic!("{config:?}, {full:?}: the flush is not answered"));
        refused += usize::from(result == Err(RequestError::Device));
        // It has space again.
        excuse(&mut machine, full, None);
        machine.settle();
        machine.driver.disks.lose_everything();
        let mut again = open(&config, machine.driver.disks).unwrap();
        assert_eq!(
            again.request(Op::Read, 0, vec![0; 12288]),
            [[1; 4096], [2; 4096], [2; 4096]].concat(),
            "{config:?}"
        );
    }
    assert!(refused >= 4, "{refused} flushes failed");
}

/// The fear: a slow device that lacks space for hours is tried with everything that is dirty each second, which wears on all else.
#[test]
fn a_slow_device_that_lacks_space_is_tried_less_and_less() {
    const EXTENTS: u64 = 400;
    let placement = Placement::Caching(Hybrid { fast: FAST, slow: SLOW, extent: EXTENT });
    let Config { tuning, .. } = config(placement.clone());
    let tuning = Tuning { writeback_delay: Nanos::ZERO, cleaning: Cleaning::default(), ..tuning };
    let config = Config { devices: vec![EXTENT * EXTENTS, EXTENT * EXTENTS], placement, tuning };
    let mut machine = open(&config, formatted(&config)).unwrap();
    for extent in 0..EXTENTS {
        machine.ask(Op::Write, EXTENT.0 * extent, vec![1; 4096]);
        without_space(&mut machine, SLOW);
    }
    let dirty = machine.engine.dirty_extents();
    assert!(dirty > 100, "{dirty}");
    let mut tries = 0;
    excuse(&mut machine, SLOW, Some(Excuse::LacksSpace));
    for _ in 0..60_000 {
        tries += without_space(&mut machine, SLOW);
        machine.driver.tick(Nanos::from_ms(10));
    }
    assert!((60..6_000).contains(&tries), "{tries} tries in ten minutes");
    excuse(&mut machine, SLOW, None);
    for _ in 0..1_500 {
        machine.carry_out_all();
        machine.driver.tick(Nanos::from_ms(10));
    }
    assert_eq!(machine.engine.dirty_extents(), 0, "it has space again for 15 s");
}

//! The fear: a flush of a device fails, has lost what it should have covered, and says so once. Later flushes succeed, and
//! something that was durable is given up for what is not there, or the host is never notified.

#![allow(clippy::unwrap_used)]

use crate::crashing;

use std::ops::Range;

use crashing::{Interrupted, LOG, Machine, PRIMARY, check_all, formatted, open};
use peryton_crash::{Driver, Failing, Kind, Options, run, torture};
use peryton_engine::{
    AdmitBy, Cause, Cleaning, Command, Config, DeviceId, Engine, Excuse, Excuses, Hybrid, Journal, Metadata, Placement,
    RequestError, RequestId, Tuning, Without, WritePolicy, closed,
};
use peryton_units::{Bytes, Nanos, Op};

const FAST: DeviceId = DeviceId(0);
const SLOW: DeviceId = DeviceId(1);
const EXTENT: Bytes = Bytes::kib(4);

fn config(placement: Placement, write: WritePolicy) -> Config {
    let tuning = Tuning {
        promotion_threshold: 0,
        demotion_low: 0,
        demotion_high: 0,
        write,
        writeback_delay: Nanos::from_s(3600),
        cleaning: Cleaning::UNBOUNDED,
        commit_interval: Nanos::from_s(3600),
        ..Tuning::default()
    };
    let devices = match placement {
        Placement::Single { .. } => vec![EXTENT * 64],
        _ => vec![EXTENT * 16, EXTENT * 64],
    };
    Config { devices, placement, tuning }
}

fn pair() -> Hybrid {
    Hybrid { fast: FAST, slow: SLOW, extent: EXTENT }
}

fn is_flush_of(command: &Command, of: DeviceId) -> bool {
    matches!(command, Command::Flush { device, .. } if *device == of)
}

/// Carries everything out; the first flush of `device` fails, and loses all that the device has not flushed. Says whether
/// one did.
fn fail_flush(machine: &mut Machine, device: DeviceId) -> bool {
    let mut failed = false;
    while let Some(pending) = machine.driver.pending.first() {
        let fails = !failed && is_flush_of(&pending.command, device);
        failed |= fails;
        machine.carry_out_or_fail(fails);
    }
    failed
}

fn result_of(machine: &mut Machine, id: RequestId) -> Result<(), RequestError> {
    for _ in 0..8 {
        let at = machine.driver.answered.iter().position(|(other, ..)| *other == id);
        if let Some(at) = at {
            return machine.driver.answered.swap_remove(at).2;
        }
        machine.driver.tick(Nanos::from_ms(300));
        machine.carry_out_all();
    }
    panic!("never answered");
}

fn flush(machine: &mut Machine) -> Result<(), RequestError> {
    let id = machine.ask(Op::Flush, 0, Vec::new());
    machine.carry_out_all();
    result_of(machine, id)
}

/// Writes, flushes, writes again; the second flush fails and loses what was written second. The host is notified once.
fn is_notified_once(config: &Config, device: DeviceId) {
    let mut machine = open(config, formatted(config)).unwrap();
    machine.request(Op::Write, 0, vec![1; 4096]);
    machine.request(Op::Flush, 0, Vec::new());
    machine.request(Op::Write, 0, vec![2; 4096]);
    let id = machine.ask(Op::Flush, 0, Vec::new());
    assert!(fail_flush(&mut machine, device), "{config:?}: nothing was flushed");
    assert_eq!(result_of(&mut machine, id), Err(RequestError::Device), "{config:?}");
    assert_eq!(flush(&mut machine), Ok(()), "{config:?}");
    let found = machine.request(Op::Read, 0, vec![0; 4096]);
    assert!(found == [1; 4096] || found == [2; 4096], "{config:?}: {:?}", &found[..4]);
    // What is there now stays.
    machine.driver.disks.lose_everything();
    let mut again = open(config, machine.driver.disks).unwrap();
    assert_eq!(again.request(Op::Read, 0, vec![0; 4096]), found, "{config:?}");
}

#[test]
fn the_host_is_notified_once_and_finds_what_was_flushed_before() {
    is_notified_once(&config(Placement::Single { device: FAST }, WritePolicy::Back), FAST);
    is_notified_once(&config(Placement::Linear { devices: vec![FAST, SLOW] }, WritePolicy::Back), FAST);
    for write in [WritePolicy::Back, WritePolicy::Through, WritePolicy::Around] {
        for placement in [Placement::Tiering(pair()), Placement::Caching(pair()), Placement::Partitioned(pair())] {
            let through = write != WritePolicy::Back && matches!(placement, Placement::Caching(_));
            is_notified_once(&config(placement, write), if through { SLOW } else { FAST });
        }
    }
}

/// A cache that writes through holds copies only, until its home is gone: from then on it has the only copy of what is written.
#[test]
fn a_cache_that_writes_through_notifies_the_host_once_its_home_is_gone() {
    for write in [WritePolicy::Through, WritePolicy::Around] {
        let config = config(Placement::Caching(pair()), write);
        let mut machine = open(&config, formatted(&config)).unwrap();
        machine.request(Op::Read, 0, vec![0; 4096]);
        machine.carry_out_all();
        machine.driver.disks.0[SLOW.index()] = None;
        machine.driver.device_failed(SLOW);
        machine.carry_out_all();
        assert!(machine.engine.is_gone(SLOW));
        machine.request(Op::Write, 0, vec![1; 4096]);
        // The first flush may fail because of what the dead device had.
        let _ = flush(&mut machine);
        assert_eq!(flush(&mut machine), Ok(()));
        machine.request(Op::Write, 0, vec![2; 4096]);
        let id = machine.ask(Op::Flush, 0, Vec::new());
        assert!(fail_flush(&mut machine, FAST), "{write:?}: nothing was flushed");
        assert_eq!(result_of(&mut machine, id), Err(RequestError::Device), "{write:?}");
        assert_eq!(flush(&mut machine), Ok(()), "{write:?}");
    }
}

/// 80 of 320 extents that an earlier flush had made durable went this way: written home, the flush of the home failed, the next
/// one succeeded, and the copy was given up.
#[test]
fn what_was_written_home_stays_in_the_cache_until_the_home_has_it() {
    let mut config = config(Placement::Caching(pair()), WritePolicy::Back);
    config.tuning.commit_interval = Nanos::from_ms(100);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let mut model = machine.request(Op::Read, 0, vec![0; 64 << 12]);
    for extent in 0..8_u8 {
        let at = usize::from(extent) << 12;
        model[at..at + 4096].fill(extent + 1);
        machine.request(Op::Write, at as u64, vec![extent + 1; 4096]);
    }
    machine.request(Op::Flush, 0, Vec::new());
    assert_eq!(machine.engine.dirty_extents(), 8);
    machine.driver.call(|engine, now, out| engine.write_all_back(now, out));
    let mut failed = 0;
    for _ in 0..20 {
        machine.driver.tick(Nanos::from_s(1));
        machine.driver.call(|engine, now, out| engine.write_all_back(now, out));
        failed += u32::from(failed < 3 && fail_flush(&mut machine, SLOW));
        machine.carry_out_all();
        machine.engine.check_invariants();
    }
    assert!(failed > 0, "no flush of the home has failed: the test tests nothing");
    // The host had written nothing since its flush: no loss has to be reported.
    assert!(!machine.engine.is_in_doubt());
    assert_eq!(flush(&mut machine), Ok(()));
    check_all(&mut machine, &model);
    machine.driver.disks.lose_everything();
    let mut again = open(&config, machine.driver.disks).unwrap();
    check_all(&mut again, &model);
    again.settle();
    assert_eq!(again.engine.dirty_extents(), 0, "all of it is home in the end");
    check_all(&mut again, &model);
}

/// All of an extent was written home, and some of its blocks were written again before the home was flushed. The update that calls the
/// other blocks clean was replaced by then and not committed, so nothing said that they were in doubt when the flush failed.
#[test]
fn blocks_that_were_written_home_stay_when_others_of_their_extent_were_written_since() {
    const EXTENT: Bytes = Bytes::kib(16);
    let mut config = config(Placement::Caching(Hybrid { extent: EXTENT, ..pair() }), WritePolicy::Back);
    config.devices = vec![EXTENT * 24, EXTENT * 64];
    config.tuning.journal = Journal::Named;
    config.tuning.writeback_delay = Nanos::from_ms(10);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let mut model = machine.request(Op::Read, 0, vec![0; 16 << 12]);
    model[..16 << 10].fill(1);
    machine.request(Op::Write, 0, vec![1; 16 << 10]);
    assert_eq!(flush(&mut machine), Ok(()));
    let written_home = |machine: &Machine| machine.engine.stats().moves.writebacks;
    while written_home(&machine) == 0 {
        machine.driver.tick(Nanos::from_ms(10));
        machine.carry_out_all();
    }
    model[8 << 10..12 << 10].fill(2);
    machine.request(Op::Write, 8 << 10, vec![2; 4 << 10]);
    assert_eq!(flush(&mut machine), Ok(()));
    machine.driver.tick(Nanos::from_s(3700));
    assert!(fail_flush(&mut machine, SLOW), "the home is not flushed: the test tests nothing");
    for _ in 0..8 {
        machine.driver.tick(Nanos::from_s(3700));
        machine.carry_out_all();
    }
    assert_eq!(machine.engine.dirty_extents(), 0, "all of it is home in the end");
    machine.driver.disks.lose_everything();
    // Copies do not count after a crash where they are written through.
    config.tuning.write = WritePolicy::Through;
    check_all(&mut open(&config, machine.driver.disks).unwrap(), &model);
}

/// Caches of parts, with devices that fail, whose writes may go past the fast device.
const PARTS_PASSED: Options = Options {
    kind: Some(Kind::Caching),
    faults: Some(true),
    admission: Some(AdmitBy::Probability),
    grouped: true,
    ..Options::DRAWN
};

/// All of an extent was written home; then a write to both devices failed at the home, so that the copy gave up the blocks that it touched;
/// and then the flush of the home failed. The blocks that were given up did not come back, and were read from a home that had lost them.
#[test]
fn blocks_that_the_copy_gave_up_before_the_home_was_flushed_come_back() {
    run(6143, &PARTS_PASSED).unwrap();
}

/// Blocks were written to a write-back cache and flushed there, the cache was set to `write = "through"`, the blocks were written home before a
/// commit called them dirty, and the flush of the home failed. As the cache wrote through, it dropped its copies.
#[test]
fn copies_that_were_written_home_stay_when_the_cache_writes_through_by_now() {
    run(14193, &PARTS_PASSED).unwrap();
}

/// The fast device had died while the slow one was being replaced, and everything went to the old and the new one. A flush that the old one had
/// failed waited for its twin, and later ones could have succeeded meanwhile.
#[test]
fn a_flush_that_the_old_device_has_failed_does_not_wait_for_the_new_one() {
    run(2_960_000_236, &PARTS_PASSED).unwrap();
}

#[test]
fn a_volume_whose_loss_was_not_reported_is_not_closed() {
    let config = config(Placement::Caching(pair()), WritePolicy::Back);
    let mut machine = open(&config, formatted(&config)).unwrap();
    machine.request(Op::Write, 0, vec![1; 4096]);
    // A commit that no flush waits for.
    machine.driver.tick(Nanos::from_s(3601));
    assert!(fail_flush(&mut machine, FAST));
    assert!(machine.engine.is_in_doubt());
    machine.driver.tick(Nanos::from_s(1));
    machine.carry_out_all();
    let Machine { driver, .. } = &mut machine;
    assert!(driver.engine.close(&mut driver.disks).is_err());
    let (_, opened) = Engine::open(config.clone(), &mut machine.driver.disks.clone()).unwrap();
    assert!(!opened.clean);
    // The next flush reports it, and then the volume can be closed.
    assert_eq!(flush(&mut machine), Err(RequestError::Device));
    assert!(!machine.engine.is_in_doubt());
    machine.settle();
    machine.close();
    let inspected = closed::inspect(config, &mut machine.driver.disks, true, &[]).unwrap();
    assert_eq!(inspected.metadata, Metadata::Whole, "{:?}", inspected.findings);
}

#[test]
fn a_flush_that_waits_for_the_next_one_fails_with_the_one_before() {
    for placement in [Placement::Single { device: FAST }, Placement::Linear { devices: vec![FAST, SLOW] }] {
        let config = config(placement, WritePolicy::Back);
        let mut machine = open(&config, formatted(&config)).unwrap();
        let mut asked = Vec::new();
        for value in 1..3 {
            machine.ask(Op::Write, 0, vec![value; 4096]);
            // The first flush is still under way when the second write has completed.
            let last = machine.pending.len() - 1;
            machine.carry_out_at(last);
            asked.push(machine.ask(Op::Flush, 0, Vec::new()));
        }
        assert!(fail_flush(&mut machine, FAST));
        for id in asked {
            assert_eq!(result_of(&mut machine, id), Err(RequestError::Device), "{config:?}");
        }
        assert_eq!(flush(&mut machine), Ok(()), "{config:?}");
    }
}

/// A log, what was flushed to it, and the range of a write of 200s that was not. A migration is about to flush both devices.
fn log_with_an_unflushed_write() -> (Config, Machine, Vec<u8>, Range<usize>) {
    let config = crashing::config(1 << 20, 4 << 20, 4096);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let model = crashing::use_it(&mut machine, 200, 1);
    machine.request(Op::Flush, 0, Vec::new());
    // The log notes what that flush covered, so that the next flush of the log is the host's or the migration's.
    machine.driver.tick(Nanos::from_ms(300));
    machine.carry_out_all();
    let range = 8192..12288;
    machine.request(Op::Write, range.start as u64, vec![200; 4096]);
    machine.driver.call(|engine, now, out| engine.write_all_back(now, out));
    (config, machine, model, range)
}

#[test]
fn a_log_stops_and_is_recovered_when_it_is_opened_again() {
    for device in [LOG, PRIMARY] {
        let (config, mut machine, mut model, range) = log_with_an_unflushed_write();
        let id = machine.ask(Op::Flush, 0, Vec::new());
        assert!(fail_flush(&mut machine, device), "{device:?} was not flushed");
        // That of the primary may be one that the migration needs, and the host's flush not.
        let result = result_of(&mut machine, id);
        assert!(result == Err(RequestError::Device) || device == PRIMARY);
        assert_eq!(flush(&mut machine), Err(RequestError::Device), "nothing goes on, {device:?}");
        let read = machine.ask(Op::Read, 0, vec![0; 512]);
        machine.carry_out_all();
        assert_eq!(result_of(&mut machine, read), Err(RequestError::Device), "what is read may be anything");
        assert!(machine.engine.is_idle() && machine.engine.is_in_doubt());
        let Machine { driver, .. } = &mut machine;
        assert!(driver.engine.close(&mut driver.disks).is_err());
        let mut again = open(&config, machine.driver.disks).unwrap();
        let found = again.request(Op::Read, range.start as u64, vec![0; 4096]);
        assert!(found == [200; 4096] || found == model[range.clone()]);
        model[range].copy_from_slice(&found);
        check_all(&mut again, &model);
    }
}

#[test]
fn a_log_is_opened_again_in_place_and_the_host_is_notified_once() {
    for (device, asks_meanwhile) in [(LOG, false), (LOG, true), (PRIMARY, false), (PRIMARY, true)] {
        let (_, mut machine, mut model, range) = log_with_an_unflushed_write();
        assert!(fail_flush(&mut machine, device), "{device:?} was not flushed");
        machine.carry_out_all();
        assert!(!machine.engine.waits_to_be_reopened(), "the device was not flushed again yet");
        if asks_meanwhile {
            assert_eq!(flush(&mut machine), Err(RequestError::Device));
        }
        for _ in 0..4 {
            machine.driver.tick(Nanos::from_ms(300));
            machine.carry_out_all();
        }
        assert!(machine.engine.waits_to_be_reopened());
        let Machine { driver, .. } = &mut machine;
        let stats = driver.engine.stats().clone();
        let opened = driver.engine.open_again(&mut driver.disks, Without::None).unwrap();
        assert!(!opened.clean && !driver.engine.waits_to_be_reopened());
        assert_eq!(driver.engine.stats(), &stats, "statistics go on");
        let result = flush(&mut machine);
        assert_eq!(result, if asks_meanwhile { Ok(()) } else { Err(RequestError::Device) }, "{device:?}");
        assert_eq!(flush(&mut machine), Ok(()));
        let found = machine.request(Op::Read, range.start as u64, vec![0; 4096]);
        // It was not flushed, so each sector is old or new.
        let mut sectors = found.chunks(512).zip(model[range.clone()].chunks(512));
        assert!(sectors.all(|(found, old)| found == [200; 512] || found == old));
        model[range].copy_from_slice(&found);
        check_all(&mut machine, &model);
        let Machine { driver, .. } = &mut machine;
        driver.engine.close(&mut driver.disks).unwrap();
    }
}

#[test]
fn flushes_that_fail_under_load_lose_nothing_that_was_flushed() {
    for kind in Kind::ALL {
        let options = Options { kind: Some(kind), faults: Some(true), ..Options::default() };
        let seeds = if kind == Kind::Logging { 20_000..20_040 } else { 20_000..20_090 };
        let result = torture(seeds, &options, None, 1, |_| {});
        assert_eq!(result.failures, Vec::new(), "{kind:?}");
        let least = if kind == Kind::Logging { 2 } else { 7 };
        assert!(
            result.outcome.flushes_lost >= least,
            "{kind:?}: only {} flushes lost anything",
            result.outcome.flushes_lost
        );
    }
}

/// A read of a clean copy failed and was sent to the home instead; meanwhile the extent was written again, and the home failed a flush and lost
/// what had been written back there. The read was answered with what the home had before, because the extent was no longer in doubt.
#[test]
fn a_read_of_a_home_that_has_failed_a_flush_is_repeated() {
    run(41_199, &Options { failing: Some(Failing::Commands), ..PARTS_PASSED }).unwrap();
}

/// An extent was lost with the fast device, which an empty one replaced. It is written again, and the new device loses that as well. What is read
/// then is not what the home had before the loss: a write to a lost extent reaches both devices before it is answered.
#[test]
fn what_replaces_a_lost_extent_has_a_home_before_it_is_answered() {
    let extent = Bytes::kib(8);
    let base = config(Placement::Caching(Hybrid { extent, ..pair() }), WritePolicy::Back);
    let config = Config { devices: vec![extent * 16, extent * 64], ..base };
    let mut machine = open(&config, formatted(&config)).unwrap();
    machine.request(Op::Write, 0, vec![7; 8192]);
    machine.close();
    let mut disks = machine.driver.disks;
    disks.0[FAST.index()] = crashing::blank(&config).0[FAST.index()].take();
    closed::replace(config.clone(), &mut disks, FAST, true).unwrap();
    let mut machine = open(&config, disks).unwrap();
    let read = |machine: &mut Machine| {
        let id = machine.ask(Op::Read, 0, vec![0; 8192]);
        machine.carry_out_all();
        result_of(machine, id)
    };
    assert_eq!(read(&mut machine), Err(RequestError::Lost));
    machine.request(Op::Write, 0, vec![9; 8192]);
    assert_eq!(read(&mut machine), Ok(()));
    let id = machine.ask(Op::Flush, 0, Vec::new());
    assert!(fail_flush(&mut machine, FAST));
    assert_eq!(result_of(&mut machine, id), Err(RequestError::Device));
    assert_eq!(machine.request(Op::Read, 0, vec![0; 8192]), [9; 8192]);
}

/// A fill wrote two runs of blocks, of which the first had reached the fast device when its flush failed and lost it. The other reached it
/// then, and all blocks were called valid: what stood in the slot before was read.
#[test]
fn what_a_fill_had_written_before_a_failed_flush_is_not_called_valid() {
    const BLOCK: u64 = 4 << 10;
    let extent = Bytes(8 * BLOCK);
    let mut config = config(Placement::Caching(Hybrid { extent, ..pair() }), WritePolicy::Around);
    config.devices = vec![extent * 16, extent * 64];
    let mut machine = open(&config, formatted(&config)).unwrap();
    machine.request(Op::Write, 0, vec![7; extent.0 as usize]);
    assert_eq!(flush(&mut machine), Ok(()));
    assert!(machine.driver.retune(Tuning { write: WritePolicy::Back, ..config.tuning.clone() }));
    // The extent has a slot, with its last block. No flush of that is to come.
    machine.request(Op::Write, 7 * BLOCK, vec![8; BLOCK as usize]);
    assert_eq!(flush(&mut machine), Ok(()));
    // While the blocks before it are read, one between is written, and is durable.
    let brings = |command: &Command| matches!(command, Command::Read { device, .. } if *device == SLOW);
    machine.ask(Op::Read, 0, vec![0; 7 * BLOCK as usize]);
    assert!(machine.pending.iter().any(|pending| brings(&pending.command)));
    machine.ask(Op::Write, 3 * BLOCK, vec![9; BLOCK as usize]);
    machine.carry_out_but(brings, None);
    machine.ask(Op::Flush, 0, Vec::new());
    machine.carry_out_but(brings, None);
    assert_eq!(machine.driver.answered.len(), 2, "the write and the flush are answered");
    // Then they are written to the slot: those before that block, and those behind it.
    let fills = |command: &Command| matches!(command, Command::Write { cause: Cause::Promotion, .. });
    machine.carry_out_but(fills, None);
    let of_fill = |machine: &Machine| machine.pending.iter().position(|pending| fills(&pending.command));
    assert_eq!(machine.pending.iter().filter(|pending| fills(&pending.command)).count(), 2);
    let first = of_fill(&machine).unwrap();
    machine.carry_out_at(first);
    machine.ask(Op::Write, extent.0, vec![1; extent.0 as usize]);
    machine.ask(Op::Flush, 0, Vec::new());
    assert!(machine.carry_out_but(fills, Some(FAST)), "nothing was flushed: the test tests nothing");
    assert!(of_fill(&machine).is_some(), "the other run is under way when the flush fails");
    machine.carry_out_all();
    let found = machine.request(Op::Read, 0, vec![0; extent.0 as usize]);
    let blocks: Vec<u8> = found.chunks(BLOCK as usize).map(|block| block[0]).collect();
    assert_eq!(blocks, [7, 7, 7, 9, 7, 7, 7, 8]);
}

/// Tiering promotes an extent whose last write the slow device loses with a failed flush. The buffer of the promotion still has that
/// write, and a read that was served from it said so, though a later flush succeeded without it.
#[test]
fn what_a_promotion_has_read_before_a_failed_flush_is_not_read_from_its_buffer() {
    let config = config(Placement::Tiering(pair()), WritePolicy::Back);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let patient = Tuning { promotion_threshold: 1000, ..config.tuning.clone() };
    assert!(machine.driver.retune(patient));
    let whole = EXTENT.0 as usize;
    for extent in 0..17 {
        machine.request(Op::Write, extent * EXTENT.0, vec![1; whole]);
    }
    // The last one is on the slow device, and there is room on the fast one.
    machine.request(Op::Discard, 0, vec![0; whole]);
    assert_eq!((flush(&mut machine), flush(&mut machine)), (Ok(()), Ok(())));
    let at = 16 * EXTENT.0;
    machine.request(Op::Write, at, vec![2; whole]);
    assert!(machine.driver.retune(config.tuning.clone()));
    let comes = |command: &Command| matches!(command, Command::Write { cause: Cause::Promotion, .. });
    machine.ask(Op::Read, at, vec![0; whole]);
    machine.carry_out_but(comes, None);
    assert!(machine.pending.iter().any(|pending| comes(&pending.command)), "the extent is being promoted");
    machine.ask(Op::Flush, 0, Vec::new());
    assert!(machine.carry_out_but(comes, Some(SLOW)), "nothing was flushed: the test tests nothing");
    let read = machine.ask(Op::Read, at, vec![0; whole]);
    machine.carry_out_but(comes, None);
    assert!(machine.driver.answered.iter().all(|(id, ..)| *id != read), "it is read from the buffer");
    machine.carry_out_all();
    assert_eq!(result_of(&mut machine, read), Ok(()));
    let _ = flush(&mut machine);
    assert_eq!(flush(&mut machine), Ok(()));
    let found = machine.request(Op::Read, at, vec![0; whole]);
    assert!(found == [1; 4096] || found == [2; 4096], "{:?}", &found[..4]);
    machine.driver.disks.lose_everything();
    let mut again = open(&config, machine.driver.disks).unwrap();
    assert_eq!(again.request(Op::Read, at, vec![0; whole]), found);
}

/// A write waited until its extent was not read any more, to drop the copy and go home alone. The flush of the fast device failed
/// meanwhile, and the extent was the last in doubt: dropping its copy settled that, and no code told the commits, which waited for ever.
#[test]
fn commits_go_on_when_a_copy_that_is_given_up_was_the_last_in_doubt() {
    let config = config(Placement::Caching(pair()), WritePolicy::Back);
    let mut machine = open(&config, formatted(&config)).unwrap();
    // Some copy counts after a crash, so that one that is dropped has to be dropped durably.
    machine.request(Op::Write, 8 * EXTENT.0, vec![3; 4096]);
    assert_eq!(flush(&mut machine), Ok(()));
    assert!(machine.driver.retune(Tuning { write: WritePolicy::Around, ..config.tuning.clone() }));
    machine.request(Op::Read, 0, vec![0; 4096]);
    let is_hit = |command: &Command| matches!(command, Command::Read { device, .. } if *device == FAST);
    let read = machine.ask(Op::Read, 0, vec![0; 4096]);
    assert!(machine.pending.iter().any(|pending| is_hit(&pending.command)), "the extent is cached");
    let write = machine.ask(Op::Write, 0, vec![5; 4096]);
    let flushed = machine.ask(Op::Flush, 0, Vec::new());
    assert!(machine.carry_out_but(is_hit, Some(FAST)), "nothing was flushed: the test tests nothing");
    assert!(machine.engine.is_in_doubt());
    machine.carry_out_all();
    for id in [read, write, flushed] {
        let _ = result_of(&mut machine, id);
    }
    // A flush may fail once more, because the write came while it was not known what is lost.
    let _ = flush(&mut machine);
    assert_eq!(flush(&mut machine), Ok(()));
    assert_eq!(machine.request(Op::Read, 0, vec![0; 4096]), [5; 4096]);
}

/// Everything waits until what was in flight has ended, also a request that arrives meanwhile. Then the map is rolled back: a copy that no
/// commit has recorded is gone, although its device has failed nothing that was durable.
#[test]
fn a_flush_that_fails_holds_all_requests_until_nothing_is_in_flight() {
    let config = config(Placement::Caching(pair()), WritePolicy::Back);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let home = machine.request(Op::Read, EXTENT.0, vec![0; 4096]);
    machine.request(Op::Write, 0, vec![1; 4096]);
    assert_eq!(flush(&mut machine), Ok(()));
    machine.request(Op::Write, EXTENT.0, vec![2; 4096]);
    let reads_home = |command: &Command| matches!(command, Command::Read { device, .. } if *device == SLOW);
    let far = machine.ask(Op::Read, 32 * EXTENT.0, vec![0; 4096]);
    let flushed = machine.ask(Op::Flush, 0, Vec::new());
    assert!(machine.carry_out_but(reads_home, Some(FAST)), "nothing was flushed: the test tests nothing");
    let near = machine.ask(Op::Read, 0, vec![0; 4096]);
    machine.carry_out_but(reads_home, None);
    assert!(machine.driver.answered.is_empty() && machine.engine.is_in_doubt(), "a command is in flight");
    machine.carry_out_all();
    assert_eq!(result_of(&mut machine, flushed), Err(RequestError::Device));
    assert_eq!([far, near].map(|id| result_of(&mut machine, id)), [Ok(()); 2]);
    assert!(!machine.engine.is_in_doubt());
    assert_eq!(machine.request(Op::Read, 0, vec![0; 4096]), [1; 4096]);
    assert_eq!(machine.request(Op::Read, EXTENT.0, vec![0; 4096]), home);
}

/// The slow device had gone, and a failed flush of the fast one lost a copy. The map kept its place, as if that device had gone as well: after
/// the next opening the copy counted again.
#[test]
fn what_a_failed_flush_has_lost_without_its_home_stays_lost() {
    run(32_002_047, &Options { failing: Some(Failing::Both), ..PARTS_PASSED }).unwrap();
}

/// A log with an append that failed, of which no commit says so yet, and one after it; what the volume holds.
fn log_with_an_absent_append(config: &Config) -> (Machine, Vec<u8>) {
    let mut machine = open(config, formatted(config)).unwrap();
    let mut model = crashing::use_it(&mut machine, 50, 1);
    machine.settle();
    machine.ask(Op::Write, 8192, vec![200; 4096]);
    machine.carry_out_or_fail(true);
    machine.carry_out_all();
    model[8192..12_288].fill(200);
    machine.request(Op::Write, 40_960, vec![201; 4096]);
    model[40_960..45_056].fill(201);
    (machine, model)
}

#[test]
fn a_log_that_is_cut_while_it_closes_after_an_append_that_failed_opens_again() {
    let config = crashing::config(1 << 20, 4 << 20, 4096);
    for left in 0.. {
        let (machine, mut model) = log_with_an_absent_append(&config);
        let Driver { mut engine, mut disks, .. } = machine.driver;
        let closed = engine.close(&mut Interrupted { disks: &mut disks, left }).is_ok();
        disks.lose_everything();
        let mut again = open(&config, disks).unwrap_or_else(|error| panic!("cut after {left}: {error}"));
        if !closed {
            // No host flush covers these two.
            for range in [8192..12_288, 40_960..45_056] {
                let found = again.request(Op::Read, range.start as u64, vec![0; 4096]);
                model[range].copy_from_slice(&found);
            }
        }
        check_all(&mut again, &model);
        if closed {
            assert!(left > 4, "an index, a commit and their flushes");
            return;
        }
    }
}

/// A tier whose extents 16 and 17 are on the slow device; there is room for both on the fast one, and what is read is promoted.
fn tier_with_two_on_the_slow_device() -> (Config, Machine) {
    let config = config(Placement::Tiering(pair()), WritePolicy::Back);
    let mut machine = open(&config, formatted(&config)).unwrap();
    assert!(machine.driver.retune(Tuning { promotion_threshold: 1000, ..config.tuning.clone() }));
    for extent in 0..18 {
        machine.request(Op::Write, extent * EXTENT.0, vec![1; EXTENT.0 as usize]);
    }
    for extent in 0..2 {
        machine.request(Op::Discard, extent * EXTENT.0, vec![0; EXTENT.0 as usize]);
    }
    assert_eq!((flush(&mut machine), flush(&mut machine)), (Ok(()), Ok(())));
    assert!(machine.driver.retune(config.tuning.clone()));
    (config, machine)
}

/// A write was answered from the buffer of a promotion, which had yet to reach the fast device. A commit counted it as durable; the next one
/// failed its flush, the promotion was dropped, and no flush of the host failed.
#[test]
fn a_write_that_only_a_promotion_has_is_not_covered_by_a_commit() {
    for ends_amid_commit in [false, true] {
        let (_, mut machine) = tier_with_two_on_the_slow_device();
        let whole = EXTENT.0 as usize;
        let (first, second) = (16 * EXTENT.0, 17 * EXTENT.0);
        let reads = |command: &Command| matches!(command, Command::Read { cause: Cause::Promotion, .. });
        let writes = |command: &Command| matches!(command, Command::Write { cause: Cause::Promotion, .. });
        machine.ask(Op::Read, first, vec![0; whole]);
        let write = machine.ask(Op::Write, first, vec![2; whole]);
        assert!(machine.pending.iter().any(|pending| reads(&pending.command)));
        machine.carry_out_but(writes, None);
        assert_eq!(result_of_now(&mut machine, write), Some(Ok(())), "it is answered from memory");
        // The map changes, and a commit of that comes.
        let commits = |command: &Command| matches!(command, Command::Write { cause: Cause::Metadata, .. });
        machine.ask(Op::Discard, 3 * EXTENT.0, vec![0; whole]);
        machine.carry_out_but(writes, None);
        machine.driver.tick(Nanos::from_s(3601));
        if ends_amid_commit {
            machine.carry_out_but(|command| commits(command) || writes(command), None);
            machine.carry_out_but(commits, None);
        }
        let before = machine.engine.stats().commits;
        machine.carry_out_but(writes, None);
        assert_eq!(machine.engine.stats().commits, before + 1);
        // The next commit is of a change that the host does not make, and its flush fails.
        machine.ask(Op::Read, second, vec![0; whole]);
        machine.carry_out_but(writes, None);
        let last = machine.pending.len() - 1;
        machine.carry_out_at(last);
        machine.driver.tick(Nanos::from_s(3601));
        assert!(machine.carry_out_but(writes, Some(FAST)), "nothing was flushed: the test tests nothing");
        machine.carry_out_all();
        let results = [flush(&mut machine), flush(&mut machine)];
        let found = machine.request(Op::Read, first, vec![0; whole]);
        assert!(results[0].is_err() || found == vec![2; whole], "{ends_amid_commit}: {results:?}, {:?}", &found[..4]);
        assert_eq!(results[1], Ok(()));
    }
}

/// The result of a request, if it was answered.
fn result_of_now(machine: &mut Machine, id: RequestId) -> Option<Result<(), RequestError>> {
    let at = machine.driver.answered.iter().position(|(other, ..)| *other == id)?;
    Some(machine.driver.answered.swap_remove(at).2)
}

/// So many extents were written at once that their changes took two commits. The second one failed its flush; the first one had counted all of
/// the writes as durable, so the flush of the host that waited for both succeeded without those of the second.
#[test]
fn a_commit_covers_no_change_that_it_leaves_to_the_next_one() {
    const EXTENTS: u64 = 2500;
    let mut config = config(Placement::Tiering(pair()), WritePolicy::Back);
    config.devices[1] = EXTENT * EXTENTS;
    let mut machine = open(&config, formatted(&config)).unwrap();
    for extent in 0..EXTENTS {
        machine.ask(Op::Write, extent * EXTENT.0, vec![7; EXTENT.0 as usize]);
    }
    machine.carry_out_all();
    assert_eq!(machine.engine.stats().commits, 0);
    let id = machine.ask(Op::Flush, 0, Vec::new());
    while machine.engine.stats().commits == 0 {
        machine.carry_out_or_fail(false);
    }
    assert!(machine.engine.stats().map_updates < EXTENTS, "one commit has all: the test tests nothing");
    assert!(fail_flush(&mut machine, FAST), "nothing was flushed: the test tests nothing");
    let result = result_of(&mut machine, id);
    let lost = (0..EXTENTS).any(|extent| machine.request(Op::Read, extent * EXTENT.0, vec![0; 512]) != [7; 512]);
    assert!(lost && result == Err(RequestError::Device), "lost: {lost}, {result:?}");
    assert_eq!(flush(&mut machine), Ok(()));
}

/// A device that lacks space fails each flush at once, and a read of it takes longer than the pause between two commits. Each failed flush had
/// the read carried out again, and it was never answered.
#[test]
fn reads_are_answered_though_each_flush_fails() {
    let config = config(Placement::Caching(pair()), WritePolicy::Around);
    let mut machine = open(&config, formatted(&config)).unwrap();
    machine.driver.engine.excuse(Excuses::all(Excuse::LacksSpace));
    machine.ask(Op::Write, 40 * EXTENT.0, vec![1; 4096]);
    machine.carry_out_all();
    let (flushed, read) = (machine.ask(Op::Flush, 0, Vec::new()), machine.ask(Op::Read, 50 * EXTENT.0, vec![0; 4096]));
    let io_of = |command: &Command| match command {
        Command::Read { io, device, .. } if *device == SLOW => Some(*io),
        _ => None,
    };
    let (mut flushes, mut began) = (0, Vec::new());
    for _ in 0..500 {
        machine.driver.tick(Nanos::from_ms(10));
        let now = machine.driver.now;
        while let Some(at) = machine.pending.iter().position(|pending| {
            let Some(io) = io_of(&pending.command) else { return true };
            let known = began.iter().find(|(other, _)| *other == io).map(|(_, since)| *since);
            let since = known.unwrap_or_else(|| {
                began.push((io, now));
                now
            });
            now >= since + Nanos::from_ms(400)
        }) {
            let fails = is_flush_of(&machine.pending[at].command, SLOW);
            flushes += u32::from(fails);
            machine.driver.pending.swap(0, at);
            machine.carry_out_or_fail(fails);
        }
    }
    assert!(flushes > 2, "{flushes}");
    assert_eq!(result_of_now(&mut machine, flushed), Some(Err(RequestError::Device)));
    assert_eq!(result_of_now(&mut machine, read), Some(Ok(())), "after {flushes} flushes that failed");
}

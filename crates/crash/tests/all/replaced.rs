//! The fear: an empty device replaces a lost one, and old data reappears, or more is lost than the lost device had, or
//! a crash meanwhile leaves a mixture. (The crash simulation in `crates/crash` covers placements with a map.)

#![allow(clippy::unwrap_used)]

use crate::crashing;

use crashing::{Disks, Interrupted, LOG, Machine, PRIMARY, blank, check_all, config, formatted, open, use_it};
use peryton_engine::{
    Config, DetachError, DeviceId, Engine, Forgone, Formatting, Metadata, OpenError, Placement, ReplaceError, Tuning,
    VolumeId, closed,
};
use peryton_units::{Bytes, Op};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

const MIB: u64 = 1 << 20;
/// More writes and flushes than replacing a device takes.
const MOST_STEPS: u32 = 40;

/// A logging volume with data in the log that the primary does not have, and the content of the volume.
fn logged() -> (Config, Disks, Vec<u8>) {
    let config = config(MIB / 4, 2 * MIB, 4096);
    let mut machine = open(&config, formatted(&config)).unwrap();
    use_it(&mut machine, 300, 1);
    machine.migrate();
    let model = use_it(&mut machine, 200, 2);
    machine.settle();
    machine.close();
    (config, machine.driver.disks, model)
}

/// The content of the primary alone.
fn image(config: &Config, disks: &Disks) -> Vec<u8> {
    let engine = Engine::new(config.clone()).unwrap();
    let (at, size) = (engine.data_at(PRIMARY).0 as usize, engine.volume_size().0 as usize);
    disks.0[PRIMARY.index()].as_ref().unwrap().contents()[at..at + size].to_vec()
}

fn empty(config: &Config, device: DeviceId, disks: &mut Disks) {
    disks.0[device.index()] = blank(config).0[device.index()].take();
}

/// Uses a volume, loses power, and checks that everything flushed is there.
fn goes_on(config: &Config, disks: Disks) {
    let mut machine = open(config, disks).unwrap();
    let model = use_it(&mut machine, 300, 7);
    machine.request(Op::Flush, 0, Vec::new());
    machine.driver.disks.lose_everything();
    let mut machine = open(config, machine.driver.disks).unwrap();
    check_all(&mut machine, &model);
    machine.settle();
    machine.close();
    let inspected = closed::inspect(config.clone(), &mut machine.driver.disks, false, &[]).unwrap();
    assert_eq!(inspected.metadata, Metadata::Whole, "{:?}", inspected.findings);
}

#[test]
fn a_replaced_log_leaves_the_primarys_image_and_nothing_of_the_old_log() {
    let (config, disks, model) = logged();
    let old = image(&config, &disks);
    assert!(old != model, "the log has nothing that the primary has not: the test tests nothing");
    // Tries an empty device, and the one that was given up, with its old content.
    for is_empty in [true, false] {
        let mut disks = disks.clone();
        if is_empty {
            empty(&config, LOG, &mut disks);
        }
        let before = disks.clone();
        let error = closed::replace(config.clone(), &mut disks, LOG, false).unwrap_err();
        assert_eq!(error, ReplaceError::Older { device: LOG.index() });
        for (disk, before) in disks.0.iter().zip(&before.0) {
            let same = disk.as_ref().unwrap().contents() == before.as_ref().unwrap().contents();
            assert!(same, "what is refused must change nothing");
        }
        closed::replace(config.clone(), &mut disks, LOG, true).unwrap();
        let mut machine = open(&config, disks).unwrap();
        check_all(&mut machine, &old);
        goes_on(&config, machine.driver.disks);
    }
    // The old log belongs to another volume now.
    let mut replaced = disks.clone();
    empty(&config, LOG, &mut replaced);
    closed::replace(config.clone(), &mut replaced, LOG, true).unwrap();
    replaced.0[LOG.index()] = disks.0[LOG.index()].clone();
    assert!(matches!(Engine::open(config, &mut replaced).map(|_| ()), Err(OpenError::Foreign { .. })));
}

/// Nothing says what was newer in a log that is gone, so a primary stands alone without it only if that is accepted.
#[test]
fn a_primary_does_not_leave_its_log_behind_unasked() {
    let (config, mut disks, _) = logged();
    disks.0[LOG.index()] = None;
    let mut leave = |accept_loss| {
        let forgone = Forgone { devices: &[LOG], accept_loss };
        closed::detach(config.clone(), &mut disks, forgone, &mut |_| {}).map(|detached| detached.device)
    };
    assert_eq!(leave(false), Err(DetachError::LossUnknown));
    assert_eq!(leave(true), Ok(PRIMARY));
}

/// The fear: a device that is there and whole is given up, because an export without it had to fail.
#[test]
fn the_device_that_is_to_stand_alone_cannot_be_left_out() {
    let (config, mut disks, model) = logged();
    let forgone = Forgone { devices: &[PRIMARY], accept_loss: true };
    let left = closed::detach(config.clone(), &mut disks, forgone, &mut |_| {});
    assert_eq!(left, Err(DetachError::Alone { device: PRIMARY.index() }));
    check_all(&mut open(&config, disks).unwrap(), &model);
}

#[test]
fn a_replaced_primary_has_what_the_log_has_and_zeros() {
    let (config, mut disks, model) = logged();
    empty(&config, PRIMARY, &mut disks);
    let (engine, opened) = Engine::open_without(config.clone(), &mut disks.clone(), &[PRIMARY]).unwrap();
    let losses = engine.losses(usize::MAX);
    assert!(opened.lost >= losses.bytes.0 / 4096, "{} of {}", opened.lost, losses.bytes);
    assert!(losses.bytes > Bytes::ZERO && losses.bytes < engine.volume_size());
    let mut expected = model;
    for range in &losses.ranges {
        expected[range.start.0 as usize..range.end.0 as usize].fill(0);
    }
    let error = closed::replace(config.clone(), &mut disks, PRIMARY, false).unwrap_err();
    assert_eq!(error, ReplaceError::Zeros { device: PRIMARY.index(), bytes: losses.bytes });
    closed::replace(config.clone(), &mut disks, PRIMARY, true).unwrap();
    let mut machine = open(&config, disks).unwrap();
    assert_eq!(machine.engine.losses(0).bytes, Bytes::ZERO);
    check_all(&mut machine, &expected);
    goes_on(&config, machine.driver.disks);
}

fn linear() -> (Config, Disks, Vec<u8>) {
    let placement = Placement::Linear { devices: vec![DeviceId(0), DeviceId(1), DeviceId(2)] };
    let config = Config { devices: vec![Bytes::kib(64); 3], placement, tuning: Tuning::default() };
    let mut disks = blank(&config);
    let new = Formatting { volume: VolumeId(0xabc), unix_s: 1, zeroed: true, notes: String::new() };
    Engine::format(&config, new, &mut disks).unwrap();
    let mut machine = open(&config, disks).unwrap();
    let model = use_it(&mut machine, 200, 1);
    machine.request(Op::Flush, 0, Vec::new());
    (config, machine.driver.disks, model)
}

#[test]
fn a_replaced_part_of_linear_reads_as_zeros() {
    let (config, mut disks, mut model) = linear();
    let middle = DeviceId(1);
    empty(&config, middle, &mut disks);
    let error = closed::replace(config.clone(), &mut disks, middle, false).unwrap_err();
    assert_eq!(error, ReplaceError::Zeros { device: 1, bytes: Bytes::kib(64) });
    closed::replace(config.clone(), &mut disks, middle, true).unwrap();
    model[64 << 10..128 << 10].fill(0);
    let mut machine = open(&config, disks).unwrap();
    check_all(&mut machine, &model);
    goes_on(&config, machine.driver.disks);
}

#[test]
fn too_small_a_device_and_the_last_one_are_refused() {
    let (config, mut disks, _) = linear();
    disks.0[2] = blank(&Config { devices: vec![Bytes::kib(4); 3], ..config.clone() }).0[2].take();
    let error = closed::replace(config.clone(), &mut disks, DeviceId(2), true).unwrap_err();
    assert!(matches!(error, ReplaceError::TooSmall { device: 2, .. }), "{error}");
    let single =
        Config { devices: vec![Bytes::kib(64)], placement: Placement::Single { device: DeviceId(0) }, ..config };
    let error = closed::replace(single.clone(), &mut formatted(&single), DeviceId(0), true).unwrap_err();
    assert!(matches!(error, ReplaceError::Open(OpenError::NothingLeft { device: 0 })), "{error}");
}

/// Replaces a device, loses power after `left` writes and flushes, and reads the volume: with the new device or, if
/// that is refused, without it. Returns whether it was replaced.
fn interrupted(config: &Config, disks: &Disks, device: DeviceId, left: u32, seed: u64) -> (bool, Vec<u8>) {
    let mut disks = disks.clone();
    let done = closed::replace(config.clone(), &mut Interrupted { disks: &mut disks, left }, device, true).is_ok();
    disks.crash(&mut Pcg64Mcg::seed_from_u64(seed));
    let read = |mut machine: Machine| {
        let size = machine.engine.volume_size().0;
        machine.request(Op::Read, 0, vec![0xcc; size as usize])
    };
    match open(config, disks.clone()) {
        Ok(machine) => (true, read(machine)),
        Err(error) => {
            assert!(!done, "replaced, but {error}");
            // The replacement can be repeated.
            closed::replace(config.clone(), &mut disks, device, true).unwrap();
            (false, read(open(config, disks).unwrap()))
        }
    }
}

#[test]
fn a_crash_while_a_device_is_replaced_leaves_it_replaced_or_not() {
    let (log_config, log_disks, model) = logged();
    let mut zeros = model.clone();
    let (engine, _) = Engine::open_without(log_config.clone(), &mut log_disks.clone(), &[PRIMARY]).unwrap();
    for range in &engine.losses(usize::MAX).ranges {
        zeros[range.start.0 as usize..range.end.0 as usize].fill(0);
    }
    let (linear_config, linear_disks, mut parts) = linear();
    parts[..64 << 10].fill(0);
    let older = image(&log_config, &log_disks);
    let cases = [
        (&log_config, &log_disks, LOG, older),
        (&log_config, &log_disks, PRIMARY, zeros),
        (&linear_config, &linear_disks, DeviceId(0), parts),
    ];
    for (config, disks, device, expected) in cases {
        let mut disks = disks.clone();
        // A log device may still hold the old log; a primary or a part of linear must be empty.
        if closed::replaces_with_zeros(config, device) {
            empty(config, device, &mut disks);
        }
        let (mut yes, mut no) = (0, 0);
        for left in 0..MOST_STEPS {
            for seed in 0..2 {
                let (replaced, found) = interrupted(config, &disks, device, left, seed);
                // Until the primary records durably that the old log is given up, that log is part of the volume.
                let untouched = device == LOG && left < 4 && found == model;
                assert!(
                    found == expected || untouched,
                    "device {device:?} after {left} steps, seed {seed}: other data"
                );
                (yes, no) = (yes + u32::from(replaced), no + u32::from(!replaced));
            }
        }
        assert!(yes > 0 && no > 10, "{yes} replaced, {no} not: the test tests nothing");
    }
}

//! A logging volume on disks that may lose everything that was not flushed: format, open, use, close or crash, open
//! again.

#![allow(clippy::unwrap_used)]

use crate::crashing;

use crashing::{LOG, Machine, PRIMARY, blank, check_all, config, flip, formatted, open, use_it};
use peryton_engine::{
    Command, Config, DeviceId, Engine, Formatting, Logging, OpenError, Placement, SegmentReport, Trust, Tuning,
    VolumeId, closed,
};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const MIB: u64 = 1 << 20;

#[test]
fn a_volume_that_was_closed_comes_back_as_it_was() {
    let config = config(MIB, 4 * MIB, 4096);
    let mut disks = formatted(&config);
    let mut model = Vec::new();
    for generation in 1..6 {
        let mut machine = open(&config, disks).unwrap();
        if !model.is_empty() {
            check_all(&mut machine, &model);
        }
        model = use_it(&mut machine, 400, generation);
        machine.settle();
        machine.close();
        disks = machine.driver.disks;
        let (_, opened) = Engine::open(config.clone(), &mut disks.clone()).unwrap();
        assert!(opened.clean && opened.generation == generation + 1, "{opened:?}");
    }
}

#[test]
fn a_volume_that_was_dropped_after_a_flush_comes_back_as_it_was() {
    let config = config(MIB, 8 * MIB, 4096);
    let mut disks = formatted(&config);
    let mut logged = 0;
    for (rounds, seed) in [(1, 1), (40, 2), (400, 3), (3000, 4), (2, 5)] {
        let mut machine = open(&config, disks).unwrap();
        let model = use_it(&mut machine, rounds, seed);
        machine.request(Op::Flush, 0, Vec::new());
        machine.driver.disks.lose_everything();
        disks = machine.driver.disks;
        let (_, opened) = Engine::open(config.clone(), &mut disks.clone()).unwrap();
        assert!(!opened.clean);
        logged += opened.mapped;
        check_all(&mut open(&config, disks.clone()).unwrap(), &model);
    }
    assert!(logged > 100, "nothing was ever in the log");
}

#[test]
fn devices_that_are_not_the_volume_are_refused_by_name() {
    let config = config(MIB, 4 * MIB, 4096);
    let good = formatted(&config);
    let opened = |disks: &crashing::Disks| Engine::open(config.clone(), &mut disks.clone()).map(|_| ());
    assert_eq!(opened(&good), Ok(()));
    assert_eq!(opened(&blank(&config)), Err(OpenError::NotFormatted { device: 0 }));

    let mut foreign = blank(&config);
    let new = Formatting { volume: VolumeId(9), unix_s: 1, zeroed: true, notes: String::new() };
    Engine::format(&config, new, &mut foreign).unwrap();
    let mut mixed = good.clone();
    mixed.0[1] = foreign.0[1].clone();
    assert!(matches!(opened(&mixed), Err(OpenError::Foreign { .. })));

    let mut used = open(&config, good).unwrap();
    use_it(&mut used, 50, 1);
    used.settle();
    used.close();
    for device in [PRIMARY, LOG] {
        let at = used.engine.data_at(device).0 + 1024;
        let mut written = used.driver.disks.clone();
        flip(&mut written, device, at, 1);
        assert_eq!(opened(&written), Err(OpenError::Changed { device: device.index() }));
    }
    let older = used.driver.disks.clone();
    let mut next = open(&config, used.driver.disks).unwrap();
    use_it(&mut next, 50, 2);
    for device in 0..2 {
        let mut mixed = next.driver.disks.clone();
        mixed.0[device] = older.0[device].clone();
        assert!(matches!(opened(&mixed), Err(OpenError::Stale { device: at, .. }) if at == device));
    }
}

#[test]
fn the_primary_alone_does_not_look_like_what_is_on_the_volume() {
    let config = config(MIB, 4 * MIB, 4096);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let model = use_it(&mut machine, 400, 1);
    machine.settle();
    assert_eq!(machine.engine.data_at(PRIMARY), Bytes::mib(1));
    let bytes = machine.driver.disks.0[0].as_ref().unwrap().contents();
    assert!(bytes[..4096] != model[..4096] && bytes[MIB as usize..][..4096] != model[..4096]);
}

/// All metadata blocks of a log: their places and their kinds.
fn blocks(machine: &Machine) -> Vec<(u64, [u8; 4])> {
    let bytes = machine.driver.disks.0[1].as_ref().unwrap().contents();
    let kind = |block: &[u8]| -> [u8; 4] { block[4..8].try_into().unwrap() };
    let all = bytes.chunks_exact(4096).zip((0..).step_by(4096));
    all.map(|(block, at)| (at, kind(block))).filter(|(_, kind)| [*b"PYla", *b"PYli", *b"PYlc"].contains(kind)).collect()
}

#[test]
fn a_flipped_bit_in_flushed_data_is_reported_or_repaired_but_never_yields_older_data() {
    let config = config(MIB, 8 * MIB, 4096);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let mut model = use_it(&mut machine, 300, 1);
    machine.request(Op::Flush, 0, Vec::new());
    // Appends after it record that it was flushed.
    for last in [1, 2] {
        machine.request(Op::Write, 0, vec![last; 4096]);
        machine.request(Op::Flush, 0, Vec::new());
    }
    model[..4096].fill(2);
    let blocks = blocks(&machine);
    let last = blocks.iter().filter(|(_, kind)| kind == b"PYla").map(|(at, _)| *at).max().unwrap();
    let newest_commit = blocks.iter().filter(|(_, kind)| kind == b"PYlc").map(|(at, _)| *at).max().unwrap();
    let (mut damaged, mut good, mut unverified) = (0, 0, 0);
    for (at, kind) in blocks {
        for bit in [77, 4000 * 8] {
            let mut hurt = machine.driver.disks.clone();
            flip(&mut hurt, LOG, at + bit / 8, 1 << (bit % 8));
            match open(&config, hurt) {
                Err(OpenError::Damaged { device: 1, .. } | OpenError::DamagedData { device: 1 }) => damaged += 1,
                Err(other) => panic!("{other}"),
                // No record says that the last append was flushed, or that the last commit was made.
                Ok(_) if at == last || at == newest_commit => {}
                Ok(mut again) => {
                    // The data of an append whose header is damaged cannot be verified.
                    let lost = crashing::check_unless_lost(&mut again, &model);
                    assert!(lost.is_empty() || kind == *b"PYla", "blocks {lost:?}");
                    (good, unverified) = (good + 1, unverified + lost.len());
                }
            }
        }
    }
    assert!(damaged > 10 && good > 100 && unverified > 10);
}

#[test]
fn a_flipped_bit_in_what_was_flushed_last_is_damage_and_not_the_end_of_the_log() {
    let config = config(MIB, 8 * MIB, 4096);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let mut model = vec![0; MIB as usize];
    for block in 0..60 {
        machine.request(Op::Write, block * 8192, vec![block as u8 + 1; 4096]);
        model[block as usize * 8192..][..4096].fill(block as u8 + 1);
    }
    machine.request(Op::Flush, 0, Vec::new());
    // The log rests, and nothing is appended that could say what was flushed.
    for _ in 0..2 {
        machine.tick(Nanos::from_ms(150));
        machine.carry_out_all();
    }
    machine.driver.disks.lose_everything();
    check_all(&mut open(&config, machine.driver.disks.clone()).unwrap(), &model);
    let appends: Vec<u64> =
        blocks(&machine).into_iter().filter(|(_, kind)| kind == b"PYla").map(|(at, _)| at).collect();
    assert!(appends.len() >= 20, "{appends:?}");
    for at in appends {
        for byte in [20, 100, 4096 + 1000] {
            let mut hurt = machine.driver.disks.clone();
            flip(&mut hurt, LOG, at + byte, 1);
            let opened = open(&config, hurt).map(|_| ());
            assert!(
                matches!(opened, Err(OpenError::Damaged { device: 1, .. } | OpenError::DamagedData { device: 1 })),
                "byte {byte} of {at}: {opened:?}"
            );
        }
    }
}

#[test]
fn no_content_of_a_log_breaks_the_reader() {
    let config = config(MIB, 4 * MIB, 4096);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let size = use_it(&mut machine, 300, 1).len();
    machine.request(Op::Flush, 0, Vec::new());
    let blocks = blocks(&machine);
    let rare: Vec<_> = blocks.iter().copied().filter(|(_, kind)| kind != b"PYla").collect();
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let (mut opened, mut refused) = (0, 0);
    for _ in 0..600 {
        let mut hurt = machine.driver.disks.clone();
        for _ in 0..rng.random_range(1..6) {
            let some = if rng.random_bool(0.5) { &rare } else { &blocks };
            let (at, _) = some[rng.random_range(0..some.len())];
            // Changes a field, or copies another block's content, and seals the block again so that the reader
            // interprets it.
            let field = rng.random_range(2..16u64) * 8;
            let value: u64 = rng.random::<u64>() >> rng.random_range(0..64);
            crashing::forge(&mut hurt, LOG, at, field, value);
        }
        match open(&config, hurt) {
            Ok(mut machine) => {
                opened += 1;
                for offset in (0..size as u64).step_by(1 << 16) {
                    machine.ask(Op::Read, offset, vec![0; 1 << 16]);
                    machine.carry_out_all();
                }
                machine.request(Op::Write, 4096, vec![1; 8192]);
                machine.settle();
            }
            Err(_) => refused += 1,
        }
    }
    assert!(opened > 50 && refused > 50);
}

#[test]
fn a_random_crash_never_loses_a_flushed_byte() {
    let mut sum = crashing::Sum::default();
    for seed in crashing::seeds(0, 400) {
        let Ok(one) = std::panic::catch_unwind(|| crashing::run(seed, false)) else { panic!("seed {seed} fails") };
        sum.add(one);
    }
    sum.check();
}

#[test]
fn a_random_crash_never_loses_a_flushed_byte_while_devices_fail() {
    let mut sum = crashing::Sum::default();
    // The last seed: an append fails that would have filled the log's last segment to its end, and nothing follows it.
    for seed in crashing::seeds(100_000, 400).chain([101_577]) {
        let Ok(one) = std::panic::catch_unwind(|| crashing::run(seed, true)) else { panic!("seed {seed} fails") };
        sum.add(one);
    }
    sum.check();
}

/// A volume with much data in its log, as a crash left it.
fn left_behind(config: &Config) -> (crashing::Disks, Vec<u8>) {
    let mut machine = open(config, formatted(config)).unwrap();
    let model = use_it(&mut machine, 700, 1);
    machine.request(Op::Flush, 0, Vec::new());
    machine.driver.disks.lose_everything();
    (machine.driver.disks, model)
}

/// The fear: a repair migrates the log and writes wrong data.
#[test]
fn a_repair_that_migrates_keeps_every_byte() {
    let mut config = config(MIB, 4 * MIB, 4096);
    let (disks, model) = left_behind(&config);
    config.tuning.logging.triggers.timeout = Some(Nanos::from_s(1));
    let mut repaired = disks.clone();
    let opened = closed::repair(config.clone(), &mut repaired, Trust::None, &[]).unwrap();
    assert!(opened.mapped > 0, "nothing was in the log: {opened:?}");
    let (_, again) = Engine::open(config.clone(), &mut repaired.clone()).unwrap();
    assert!(again.clean && again.dirty == 0, "it was repaired for minutes, and the timeout is a second: {again:?}");
    check_all(&mut open(&config, repaired).unwrap(), &model);
}

#[test]
fn a_detached_primary_stands_alone_and_the_volume_is_gone() {
    let config = config(MIB, 4 * MIB, 4096);
    let (mut disks, model) = left_behind(&config);
    let detached = closed::detach(config.clone(), &mut disks, peryton_engine::Forgone::default(), &mut |_| ()).unwrap();
    assert!(detached.written_back > 0);
    assert_eq!(detached.device, PRIMARY);
    let from = detached.at.0 as usize;
    let primary = disks.0[PRIMARY.index()].as_ref().unwrap().contents();
    assert!(primary[from..from + detached.len.0 as usize] == model[..]);
    assert!(matches!(Engine::open(config, &mut disks).map(|_| ()), Err(OpenError::Detached { .. })));
}

/// A superblock may claim any size, and the sizes that follow are computed before the superblock is trusted.
#[test]
fn sizes_of_a_vast_log_take_no_memory() {
    let placement = Placement::Logging(Logging { primaries: DeviceId(0).into(), log: DeviceId(1), block: Bytes(512) });
    let devices = vec![Bytes(1 << 59), Bytes(1 << 59)];
    let sizes = Config { devices, placement, tuning: Tuning::default() }.sizes().unwrap();
    assert_eq!(sizes.volume, Bytes(1 << 59));
    assert!(sizes.devices[0] > Bytes(1 << 59), "{sizes:?}");
}

/// If a primary dies during a migration, that migration makes no record obsolete: earlier records are needed to read
/// the log.
#[test]
fn a_primary_that_dies_while_the_log_is_emptied_leaves_all_of_the_log() {
    let config = config(MIB, 4 * MIB, 4096);
    let mut machine = open(&config, formatted(&config)).unwrap();
    use_it(&mut machine, 200, 1);
    machine.request(Op::Flush, 0, Vec::new());
    // Opening after a crash records which appends there are not.
    let mut machine = open(&config, machine.driver.disks).unwrap();
    machine.primary_dies_in_migration(MIB - 4096..MIB);
    assert!(machine.engine.is_durably_gone(PRIMARY) && machine.engine.is_idle());
    let mut disks = machine.driver.disks;
    let (engine, opened) = Engine::open_without(config, &mut disks, &[PRIMARY]).unwrap();
    assert!(opened.mapped > 100 && engine.is_gone(PRIMARY), "{opened:?}");
}

#[test]
fn inspecting_finds_everything_in_the_log_and_changes_nothing() {
    let config = config(MIB / 4, 2 * MIB, 4096);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let mut seen = [0; 3];
    for round in 0..12 {
        let mut model = use_it(&mut machine, 60, 100 + round);
        // This range is surely in the log.
        let discarded = 8192 * round as usize..8192 * (round as usize + 1);
        machine.request(Op::Write, discarded.start as u64, vec![7; discarded.len()]);
        machine.request(Op::Discard, discarded.start as u64, vec![0; discarded.len()]);
        model[discarded].fill(0);
        machine.request(Op::Flush, 0, Vec::new());
        if round % 4 == 2 {
            machine.settle();
        }
        if round == 7 {
            machine.settle();
            machine.close();
        }
        let mut disks = machine.driver.disks.clone();
        let report = closed::inspect(config.clone(), &mut disks, true, &[]).unwrap();
        for (now, before) in disks.0.iter().zip(&machine.driver.disks.0) {
            assert!(now.as_ref().unwrap().contents() == before.as_ref().unwrap().contents(), "a look is only a look");
        }
        let contents = |device: DeviceId| machine.driver.disks.0[device.index()].as_ref().unwrap().contents();
        let data_at = machine.engine.data_at(PRIMARY).0 as usize;
        let mut image = contents(PRIMARY)[data_at..data_at + model.len()].to_vec();
        for row in &report.map {
            let (at, from, len) = (row.at.unwrap() as usize, row.offset as usize, row.len as usize);
            image[from..from + len].copy_from_slice(&contents(LOG)[at..at + len]);
        }
        assert!(image == model, "what the primary has and what the log has newer is not the volume");
        let log = report.log.unwrap();
        for append in &log.appends {
            let inside = |at: u64| (append.at..append.at + append.len).contains(&at);
            assert!(append.sequence < log.cut && append.writes.iter().all(|write| inside(write.at)));
            let home = |segment: &SegmentReport| (segment.at..segment.at + log.segment_bytes).contains(&append.at);
            assert!(log.segments.iter().any(home), "an append in a segment that is not in use: {append:?}");
        }
        assert!(log.appends.is_sorted_by_key(|append| append.sequence));
        seen[0] += log.appends.len();
        seen[1] += log.indexes.len();
        seen[2] += log.records.len();
        // The log device alone, and the primary alone.
        let alone = closed::inspect(config.clone(), &mut disks, true, &[PRIMARY]).unwrap();
        assert_eq!(alone.log.as_ref(), Some(&log));
        assert_eq!(closed::inspect(config.clone(), &mut disks, true, &[LOG]).unwrap().log, None);
        if round == 7 {
            machine = open(&config, machine.driver.disks).unwrap();
        } else if round % 3 == 1 {
            machine.settle();
            machine.migrate();
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}: the test tests nothing");
}

/// A migration completes units with what it reads of the primary. The unit changes in the middle of a window: if a larger one overlapped a
/// smaller one whose write is under way, that one would put back what it read before.
#[test]
fn another_unit_in_the_middle_of_a_migration_undoes_nothing() {
    const UNIT: u64 = 8 << 10;
    let mut config = config(MIB, 4 * MIB, 512);
    config.tuning.write_unit = Some(Bytes(UNIT));
    let mut machine = open(&config, formatted(&config)).unwrap();
    for unit in 0..8 {
        machine.request(Op::Write, 2 * unit * UNIT + 512, vec![1; 512]);
    }
    machine.request(Op::Flush, 0, Vec::new());
    machine.call(|engine, now, out| engine.write_all_back(now, out));
    let is_on_primary = |command: &Command| matches!(command, Command::Write { device: PRIMARY, .. });
    machine.carry_out_but(is_on_primary, None);
    assert!(!machine.pending.is_empty(), "it writes nothing to the primary");
    machine.ask(Op::Write, 6144, vec![2; 512]);
    machine.tick(Nanos::from_ms(100));
    machine.carry_out_but(is_on_primary, None);
    let tuning = Tuning { write_unit: Some(Bytes(16 * UNIT)), ..machine.engine.tuning().clone() };
    assert!(machine.retune(tuning));
    let first = machine.engine.data_at(PRIMARY);
    let is_first = |command: &Command| matches!(command, Command::Write { device: PRIMARY, at, len, .. } if *at == first && len.0 == UNIT);
    machine.carry_out_but(is_first, None);
    assert!(machine.pending.iter().any(|pending| is_first(&pending.command)), "its write is not under way");
    machine.carry_out_all();
    machine.settle();
    assert_eq!(machine.request(Op::Read, 6144, vec![0; 512]), [2; 512]);
}

//! The fear: data that was flushed to a log is damaged, and the volume is gone with it, or something older is read in its place.

#![allow(clippy::unwrap_used)]

use crate::crashing;

use crashing::{Disks, LOG, Machine, check_all, config, flip, formatted, open};
use peryton_engine::{Config, DetachError, OpenError, RequestError, Trust, closed};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;

/// A log with data that was flushed, as a power loss leaves it, what the volume holds, and where its appends are.
fn left_behind() -> (Config, Disks, Vec<u8>, Vec<u64>) {
    let config = config(MIB, 8 * MIB, BLOCK);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let mut model = vec![0; MIB as usize];
    for block in 0..60 {
        // Each third block is written twice, so that the log has an older copy of it as well.
        for time in 0..1 + u8::from(block % 3 == 0) {
            let value = block as u8 * 2 + time + 1;
            machine.request(Op::Write, block * 2 * BLOCK, vec![value; BLOCK as usize]);
            model[(block * 2 * BLOCK) as usize..][..BLOCK as usize].fill(value);
        }
    }
    machine.request(Op::Flush, 0, Vec::new());
    for _ in 0..2 {
        machine.tick(Nanos::from_ms(150));
        machine.carry_out_all();
    }
    machine.driver.disks.lose_everything();
    let bytes = machine.driver.disks.0[LOG.index()].as_ref().unwrap().contents();
    let appends = bytes.chunks_exact(4096).zip((0..).step_by(4096)).filter(|(block, _)| block[4..8] == *b"PYla");
    let appends = appends.map(|(_, at)| at).collect();
    (config, machine.driver.disks, model, appends)
}

/// The blocks that cannot be read; all others are as they must be.
fn unreadable(machine: &mut Machine, model: &[u8]) -> Vec<u64> {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let mut unreadable = Vec::new();
    for (block, expected) in (0..).zip(model.chunks(BLOCK as usize)) {
        let range = (block * BLOCK) as usize..((block + 1) * BLOCK) as usize;
        match machine.driver.read_now(range, &mut rng) {
            Ok(found) => assert!(found == expected, "block {block} reads {}, not {}", found[0], expected[0]),
            Err(error) => {
                assert_eq!(error, RequestError::Lost);
                unreadable.push(block);
            }
        }
    }
    machine.engine.check_invariants();
    let named: Vec<u64> =
        machine.engine.losses(100).ranges.iter().flat_map(|range| range.start.0 / BLOCK..range.end.0 / BLOCK).collect();
    assert_eq!(named, unreadable, "what cannot be read is not what is named");
    unreadable
}

#[test]
fn damage_in_flushed_data_is_named_by_repair_and_all_else_is_kept() {
    let (config, disks, model, appends) = left_behind();
    let mut lost_somewhere = 0;
    for at in appends.iter().step_by(3) {
        let mut hurt = disks.clone();
        flip(&mut hurt, LOG, at + 4096 + 1000, 1);
        let refused = open(&config, hurt.clone()).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("repair names the blocks that are lost"), "{refused}");
        let opened = closed::repair(config.clone(), &mut hurt, Trust::None, &[]).unwrap();
        let mut machine = open(&config, hurt).unwrap();
        let lost = unreadable(&mut machine, &model);
        assert_eq!(lost.len() as u64, opened.lost);
        lost_somewhere += lost.len();
        // It stays so: over a clean close, over a power loss, and while everything else is written back again and again.
        machine.settle();
        machine.close();
        let mut machine = open(&config, machine.driver.disks).unwrap();
        machine.migrate();
        assert_eq!(unreadable(&mut machine, &model), lost);
        machine.driver.disks.lose_everything();
        let mut machine = open(&config, machine.driver.disks).unwrap();
        assert_eq!(unreadable(&mut machine, &model), lost);
        if lost.is_empty() {
            continue;
        }
        let mut copy = machine.driver.disks.clone();
        assert!(matches!(
            closed::detach(config.clone(), &mut copy, peryton_engine::Forgone::default(), &mut |_| ()),
            Err(DetachError::Lost { .. })
        ));
        // Until it is written.
        let mut model = model.clone();
        for block in &lost {
            machine.request(Op::Write, block * BLOCK, vec![0xee; BLOCK as usize]);
            model[(block * BLOCK) as usize..][..BLOCK as usize].fill(0xee);
        }
        machine.request(Op::Flush, 0, Vec::new());
        check_all(&mut machine, &model);
        assert_eq!(machine.engine.losses(1).bytes, Bytes::ZERO);
        machine.driver.disks.lose_everything();
        let mut machine = open(&config, machine.driver.disks).unwrap();
        check_all(&mut machine, &model);
        // The damaged places are used again, and what is written there is not damaged.
        for round in 0..2_500_u64 {
            machine.request(Op::Write, round % 256 * BLOCK, vec![round as u8; BLOCK as usize]);
            model[(round % 256 * BLOCK) as usize..][..BLOCK as usize].fill(round as u8);
            if round % 500 == 0 {
                machine.migrate();
            }
        }
        check_all(&mut machine, &model);
    }
    assert!(lost_somewhere >= 10, "only {lost_somewhere} blocks were ever lost");
}

/// Nothing says which blocks an append held whose header is damaged.
#[test]
fn a_damaged_header_is_refused_by_repair_as_well() {
    let (config, disks, _, appends) = left_behind();
    for at in appends.iter().step_by(5) {
        let mut hurt = disks.clone();
        flip(&mut hurt, LOG, at + 100, 1);
        let before = hurt.clone();
        let repaired = closed::repair(config.clone(), &mut hurt, Trust::None, &[]);
        assert!(matches!(repaired, Err(OpenError::Damaged { device: 1, .. })), "{repaired:?}");
        assert!(hurt.0 == before.0, "something was written");
    }
}

/// A log that was closed in good order, what the volume holds, and where its appends are.
fn closed() -> (Config, Disks, Vec<u8>, Vec<u64>) {
    let (config, disks, model, _) = left_behind();
    let mut machine = open(&config, disks).unwrap();
    machine.settle();
    machine.close();
    let disks = machine.driver.disks;
    let bytes = disks.0[LOG.index()].as_ref().unwrap().contents();
    let appends = bytes.chunks_exact(4096).zip((0..).step_by(4096)).filter(|(block, _)| block[4..8] == *b"PYla");
    let appends = appends.map(|(_, at)| at).collect();
    (config, disks, model, appends)
}

/// Opens what was closed in good order and is damaged; `None` where the damage is noticed at once.
fn open_damaged(config: &Config, hurt: &Disks) -> Option<Machine> {
    match open(config, hurt.clone()) {
        Ok(machine) => Some(machine),
        // One of the blocks that are sampled at a clean close, or a block of an index.
        Err(OpenError::Changed { .. } | OpenError::Damaged { .. } | OpenError::DamagedData { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn after_a_clean_close_damaged_data_is_noticed_when_it_is_read() {
    let (config, disks, model, appends) = closed();
    let (mut lost_somewhere, mut whole) = (0, 0);
    for at in appends.iter().step_by(3) {
        for (within, bit) in [(1000, 1), (4095, 0x80)] {
            let mut hurt = disks.clone();
            flip(&mut hurt, LOG, at + 4096 + within, bit);
            let Some(mut machine) = open_damaged(&config, &hurt) else { continue };
            let lost = unreadable(&mut machine, &model);
            lost_somewhere += lost.len();
            whole += usize::from(lost.is_empty());
            assert!(lost.len() <= 1, "one flipped bit costs one block, not {lost:?}");
            // A read again says the same, and so does a migration, which does not spread it.
            assert_eq!(unreadable(&mut machine, &model), lost);
            machine.settle();
            machine.migrate();
            assert_eq!(unreadable(&mut machine, &model), lost);
            // No client has read it, and everything is written back.
            let mut machine = open_damaged(&config, &hurt).unwrap();
            machine.settle();
            machine.migrate();
            assert_eq!(unreadable(&mut machine, &model), lost);
            machine.settle();
            machine.close();
            let mut machine = open(&config, machine.driver.disks).unwrap();
            assert_eq!(unreadable(&mut machine, &model), lost);
            // Only a part of the block is asked for.
            let mut machine = open_damaged(&config, &hurt).unwrap();
            let mut rng = Pcg64Mcg::seed_from_u64(1);
            for block in &lost {
                let from = (block * BLOCK) as usize;
                let read = machine.driver.read_now(from + 512..from + 1024, &mut rng);
                assert_eq!(read, Err(RequestError::Lost));
            }
        }
    }
    assert!(lost_somewhere >= 15 && whole > 0, "{lost_somewhere} blocks were lost, {whole} times none was");
}

#[test]
fn repair_names_what_is_damaged_after_a_clean_close_and_detach_refuses() {
    let (config, disks, model, appends) = closed();
    let mut named = 0;
    for at in appends.iter().step_by(5) {
        let mut hurt = disks.clone();
        flip(&mut hurt, LOG, at + 4096 + 77, 4);
        let Some(mut machine) = open_damaged(&config, &hurt) else { continue };
        let lost = unreadable(&mut machine, &model);
        let detached =
            closed::detach(config.clone(), &mut hurt.clone(), peryton_engine::Forgone::default(), &mut |_| ());
        assert_eq!(matches!(detached, Err(DetachError::Lost { extents: 1 })), !lost.is_empty(), "{detached:?}");
        let opened = closed::repair(config.clone(), &mut hurt, Trust::None, &[]).unwrap();
        assert_eq!(opened.lost, lost.len() as u64);
        // From now on it is named before anything is read.
        let mut machine = open(&config, hurt).unwrap();
        let losses = machine.engine.losses(100);
        let ranges: Vec<u64> = losses.ranges.iter().map(|range| range.start.0 / BLOCK).collect();
        assert_eq!(ranges, lost);
        assert_eq!(unreadable(&mut machine, &model), lost);
        named += lost.len();
    }
    assert!(named >= 5, "only {named} blocks were ever lost");
}

/// Appends of many blocks each, closed in good order, and where the data of each block is in the log.
fn closed_groups() -> (Config, Disks, Vec<u8>, Vec<(u64, u64)>) {
    let config = config(MIB, 8 * MIB, BLOCK);
    let mut machine = open(&config, formatted(&config)).unwrap();
    let mut model = vec![0; MIB as usize];
    for block in 0..120_u64 {
        // Some are in one append with others, some lie across two blocks, some are parts of one.
        let (offset, len) = match block % 4 {
            0 => (block * 8192, 4096),
            1 => (block * 8192 + 2048, 4096),
            2 => (block * 8192 + 512, 1024),
            _ => (block * 8192, 8192),
        };
        machine.ask(Op::Write, offset, vec![block as u8 + 1; len]);
        model[offset as usize..][..len].fill(block as u8 + 1);
        if block % 30 == 29 {
            machine.carry_out_all();
        }
    }
    machine.settle();
    let found = closed::inspect(config.clone(), &mut machine.driver.disks.clone(), true, &[]).unwrap();
    let places = found.map.iter().map(|row| (row.offset, row.at.unwrap())).collect();
    machine.close();
    (config, machine.driver.disks, model, places)
}

/// Reads that are all in flight at once and end in any order.
fn read_at_once(machine: &mut Machine, model: &[u8], rng: &mut Pcg64Mcg) -> usize {
    let mut asked = Vec::new();
    for _ in 0..60 {
        let from = rng.random_range(0..model.len() - 20_000);
        let len = [512, 700, 4096, 20_000][rng.random_range(0..4)];
        asked.push((machine.ask(Op::Read, from as u64, vec![0xcc; len]), from..from + len));
        if rng.random_bool(0.2) {
            machine.driver.call(|engine, now, out| engine.write_all_back(now, out));
        }
        while !machine.pending.is_empty() && rng.random_bool(0.5) {
            let which = rng.random_range(0..machine.pending.len());
            machine.carry_out_at(which);
        }
    }
    while !machine.pending.is_empty() {
        let which = rng.random_range(0..machine.pending.len());
        machine.carry_out_at(which);
        machine.engine.check_invariants();
    }
    let mut failed = 0;
    for (id, range) in asked {
        let at = machine.driver.answered.iter().position(|(other, ..)| *other == id).expect("it is answered");
        let (_, asked, result) = machine.driver.answered.swap_remove(at);
        match result {
            Ok(()) => assert!(asked.data == model[range.clone()], "{range:?} differs"),
            Err(_) => failed += 1,
        }
    }
    failed
}

#[test]
fn what_is_read_while_it_is_verified_is_right() {
    let (config, disks, model, _) = closed_groups();
    for seed in 0..40 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut machine = open(&config, disks.clone()).unwrap();
        assert_eq!(read_at_once(&mut machine, &model, &mut rng), 0);
        machine.settle();
        check_all(&mut machine, &model);
    }
}

#[test]
fn a_bad_sector_costs_what_is_in_it_and_not_its_neighbours() {
    let (config, disks, model, places) = closed_groups();
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    for (offset, at) in places.iter().step_by(9) {
        let mut hurt = disks.clone();
        hurt.0[LOG.index()].as_mut().unwrap().make_bad(*at);
        let Some(mut machine) = open_damaged(&config, &hurt) else { continue };
        read_at_once(&mut machine, &model, &mut rng);
        let fails = |machine: &mut Machine, model: &[u8]| -> Vec<u64> {
            let mut rng = Pcg64Mcg::seed_from_u64(1);
            let read = |block: &u64| {
                let range = (block * BLOCK) as usize..((block + 1) * BLOCK) as usize;
                let found = machine.driver.read_now(range.clone(), &mut rng);
                let fails = found.is_err();
                assert!(fails || found.unwrap() == model[range], "block {block} is wrong");
                fails
            };
            (0..MIB / BLOCK).filter(read).collect()
        };
        // What was written at once is verified at once, so two blocks fail where a write lay across them.
        let failed = fails(&mut machine, &model);
        assert!(
            (1..=2).contains(&failed.len()) && failed.iter().any(|block| block.abs_diff(offset / BLOCK) <= 1),
            "{failed:?}"
        );
        // The rest is written back, and the sector fails until it is written.
        machine.settle();
        machine.migrate();
        assert_eq!(fails(&mut machine, &model), failed);
        let moved = machine.engine.stats().logging.as_ref().unwrap().bytes_migrated;
        assert!(moved > 300_000, "only {moved} bytes were moved");
        machine.settle();
        machine.close();
        let mut machine = open(&config, machine.driver.disks).unwrap();
        assert_eq!(fails(&mut machine, &model), failed);
        let mut model = model.clone();
        for block in failed {
            machine.request(Op::Write, block * BLOCK, vec![7; BLOCK as usize]);
            model[(block * BLOCK) as usize..][..BLOCK as usize].fill(7);
        }
        check_all(&mut machine, &model);
    }
}

#[test]
fn data_without_checksums_is_taken_as_it_is_where_the_operator_says_so() {
    let (config, disks, model, appends) = closed();
    let mut helped = 0;
    for at in appends.iter().step_by(7) {
        let mut hurt = disks.clone();
        flip(&mut hurt, LOG, at + 100, 1);
        let Some(mut machine) = open_damaged(&config, &hurt) else { continue };
        let lost = unreadable(&mut machine, &model).len();
        let opened = closed::repair(config.clone(), &mut hurt, Trust::AsItIs, &[]).unwrap();
        assert_eq!(opened.lost, 0);
        let mut machine = open(&config, hurt).unwrap();
        assert_eq!(unreadable(&mut machine, &model), Vec::<u64>::new());
        helped += lost;
    }
    assert!(helped >= 3, "nothing was lost");
}

/// An index says which blocks an append holds whose header is damaged, and nothing says whether they are as they were.
#[test]
fn after_a_clean_close_nothing_is_returned_that_cannot_be_verified() {
    let (config, disks, model, appends) = closed();
    let mut lost_somewhere = 0;
    for at in appends.iter().step_by(3) {
        let mut hurt = disks.clone();
        flip(&mut hurt, LOG, at + 100, 1);
        let Some(mut machine) = open_damaged(&config, &hurt) else { continue };
        lost_somewhere += unreadable(&mut machine, &model).len();
    }
    assert!(lost_somewhere >= 5, "only {lost_somewhere} blocks were ever lost");
}

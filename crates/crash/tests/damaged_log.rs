//! The fear: data that was flushed to a log is damaged, and the volume is gone with it, or something older is read in its place.

#![allow(clippy::unwrap_used)]

mod crashing;

use crashing::{Disks, LOG, Machine, check_all, config, flip, formatted, open};
use peryton_engine::{Config, DetachError, Engine, OpenError, RequestError, Trust};
use peryton_units::{Bytes, Nanos, Op};
use rand::SeedableRng;
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
        let opened = Engine::repair(config.clone(), &mut hurt, Trust::Nobody, &[]).unwrap();
        let mut machine = open(&config, hurt).unwrap();
        let lost = unreadable(&mut machine, &model);
        assert_eq!(lost.len() as u64, opened.lost);
        lost_somewhere += lost.len();
        // It stays so: over a clean close, over a power loss, and while everything else is written home again and again.
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
        assert!(matches!(Engine::detach(config.clone(), &mut copy), Err(DetachError::Lost { .. })));
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
        let repaired = Engine::repair(config.clone(), &mut hurt, Trust::Nobody, &[]);
        assert!(matches!(repaired, Err(OpenError::Damaged { device: 1, .. })), "{repaired:?}");
        assert!(hurt.0 == before.0, "something was written");
    }
}

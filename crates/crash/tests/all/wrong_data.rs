//! The fear: a read returns something other than what was written last. Random requests, completions in random order,
//! failures and re-tuning are checked against a plain array.

use crate::common;

use common::World;
use peryton_crash::{Kind, placement_on};
use peryton_engine::{Config, DeviceId, Hybrid, Tuning};
use peryton_units::Bytes;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// `has_units`: the slow device has units, in which case extents are larger.
fn run(kind: Kind, has_units: bool, seed: u64, steps: u32, failures: bool) -> World {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x9E37_79B9);
    let extent = Bytes::kib(4 * [1, 2, 3, 4][rng.random_range(0..4)]) * if has_units { 4 } else { 1 };
    let (fast, slow) = (rng.random_range(1..24u64), rng.random_range(2..48u64));
    let placement = placement_on(kind, Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent });
    // Devices are slightly larger than whole extents; the rest stays unused.
    let devices = vec![extent * fast + Bytes(1024), extent * slow + Bytes(1024)];
    let high = rng.random_range(0..fast.min(slow) as u32);
    let tuning = Tuning { demotion_low: 0, demotion_high: high, promotion_threshold: 0, ..Tuning::default() };
    // Extents are whole numbers of it, whatever else changes.
    let with_units = |tuning: Tuning| {
        let unit = Bytes::kib([8, 16, 4][tuning.max_moves as usize % 3]);
        Tuning { write_unit: Some(unit).filter(|unit| has_units && *unit > Bytes::kib(4)), ..tuning }
    };
    let mut world = World::new(Config { devices, placement, tuning }, extent, seed);
    let first = with_units(world.random_tuning(fast as u32));
    world.retune(first);
    if rng.random_bool(0.3) {
        world.engine.prefill_map();
    }
    if failures {
        world.fail_one_in = rng.random_range(8..200);
    }
    let depth = rng.random_range(1..16);
    let most_cells = extent.0 / common::CELL * rng.random_range(1..4);
    for _ in 0..steps {
        world.step(depth, most_cells, |world| with_units(world.random_tuning(fast as u32)));
    }
    world.fail_one_in = 0;
    world.read_all();
    world.read_all();
    world.engine.check_invariants();
    world
}

fn runs(kind: Kind, seeds: std::ops::Range<u64>, failures: bool) {
    runs_with(kind, false, seeds, failures);
}

fn runs_with(kind: Kind, has_units: bool, seeds: std::ops::Range<u64>, failures: bool) {
    let mut moved = 0;
    let mut checked = 0;
    for seed in seeds {
        let result = std::panic::catch_unwind(|| run(kind, has_units, seed, 600, failures));
        let Ok(world) = result else { panic!("{kind:?}, units {has_units}, failures {failures}: seed {seed} fails") };
        moved += world.engine.stats().moves.promotions + world.engine.stats().moves.demotions;
        checked += world.reads_checked;
    }
    assert!(checked > 5_000, "only {checked} reads were checked");
    if matches!(kind, Kind::Tiering | Kind::Caching | Kind::Partitioned) {
        assert!(moved > 1_000, "only {moved} moves: the test tests nothing");
    }
}

#[test]
fn tiering_reads_what_was_written() {
    runs(Kind::Tiering, 0..500, false);
}

#[test]
fn caching_reads_what_was_written() {
    runs(Kind::Caching, 0..500, false);
}

#[test]
fn tiering_reads_what_was_written_while_devices_fail() {
    runs(Kind::Tiering, 1000..1800, true);
}

#[test]
fn caching_reads_what_was_written_while_devices_fail() {
    runs(Kind::Caching, 1000..1800, true);
}

#[test]
fn partitioned_reads_what_was_written() {
    runs(Kind::Partitioned, 0..500, false);
}

#[test]
fn partitioned_reads_what_was_written_while_devices_fail() {
    runs(Kind::Partitioned, 1000..1800, true);
}

#[test]
fn the_baselines_read_what_was_written() {
    runs(Kind::Linear, 0..50, false);
    runs(Kind::Linear, 100..150, true);
    runs(Kind::Single, 0..50, true);
}

#[test]
fn homes_of_large_units_read_what_was_written() {
    runs_with(Kind::Caching, true, 4000..4300, false);
    runs_with(Kind::Caching, true, 5000..5400, true);
}

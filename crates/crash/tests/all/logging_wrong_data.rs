//! The fear: a read from a logging drive returns something other than what was written last. Random requests,
//! completions in random order, failures, re-tuning, hints, and logs that are always full are checked against a plain
//! array.

use crate::common;

use common::World;
use peryton_engine::{Config, DeviceId, Logging, LoggingStats, Placement, Tuning};
use peryton_units::Bytes;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const PRIMARY: DeviceId = DeviceId(0);
const LOG: DeviceId = DeviceId(1);

fn stats(world: &World) -> &LoggingStats {
    world.engine.stats().logging.as_ref().expect("a logging drive has statistics of its log")
}

fn run(seed: u64, steps: u32, failures: bool, has_units: bool) -> World {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x9E37_79B9);
    let block = Bytes(512 << rng.random_range(0..5));
    let primary = block * rng.random_range(2..120u64) + Bytes(rng.random_range(0..512) & !127);
    // The logs range from always full to roomy.
    let log = (Bytes::kib(32) * [1, 2, 3, 8, 100][rng.random_range(0..5)]).max(block * 8);
    let placement = Placement::Logging(Logging { primaries: PRIMARY.into(), log: LOG, block });
    let config = Config { devices: vec![primary, log], placement, tuning: Tuning::default() };
    let mut world = World::new(config, block, seed);
    let with_unit = |tuning: Tuning| {
        let unit = Bytes::kib([8, 16, 64][tuning.max_moves as usize % 3]);
        Tuning { write_unit: has_units.then_some(unit), ..tuning }
    };
    let first = with_unit(world.random_tuning(1));
    world.retune(first);
    if failures {
        world.fail_one_in = rng.random_range(6..200);
        world.flushes_fail = false;
    }
    let depth = rng.random_range(1..16);
    let most_cells = block.0 / common::CELL * rng.random_range(1..8);
    for _ in 0..steps {
        world.step(depth, most_cells, |world| with_unit(world.random_tuning(1)));
        if world.chance(200) {
            world.evict();
            world.engine.check_invariants();
        }
    }
    world.fail_one_in = 0;
    world.read_all();
    world.read_all();
    world.engine.check_invariants();
    world
}

fn runs(seeds: std::ops::Range<u64>, failures: bool, has_units: bool) {
    let mut sum = LoggingStats::default();
    let mut checked = 0;
    for seed in seeds {
        let Ok(world) = std::panic::catch_unwind(|| run(seed, 900, failures, has_units)) else {
            panic!("failures {failures}: seed {seed} fails")
        };
        checked += world.reads_checked;
        let stats = stats(&world);
        sum.records += stats.records;
        sum.direct_writes += stats.direct_writes;
        sum.bytes_migrated += stats.bytes_migrated;
        sum.bytes_superseded += stats.bytes_superseded;
        sum.reads_from_log += stats.reads_from_log;
        sum.failed_appends += stats.failed_appends;
        sum.checkpoints += stats.checkpoints;
        let (into, by) = (&mut sum.migrations, stats.migrations);
        into.timeout += by.timeout;
        into.read_share += by.read_share;
        into.size += by.size;
        into.log_used += by.log_used;
        into.hint += by.hint;
    }
    println!("{checked} reads checked, {sum:?}");
    // Each of these has happened often enough to have gone wrong.
    assert!(checked > 5_000, "only {checked} reads were checked");
    let migrations = sum.migrations;
    for (what, count) in [
        ("records", sum.records),
        ("direct writes", sum.direct_writes),
        ("superseded bytes", sum.bytes_superseded),
        ("reads from the log", sum.reads_from_log),
        ("timeouts", migrations.timeout),
        ("read thresholds", migrations.read_share),
        ("sizes", migrations.size),
        ("nearly full logs", migrations.log_used),
        ("hints", migrations.hint),
        ("checkpoints", sum.checkpoints),
    ] {
        assert!(count >= 10, "only {count} {what}: the test tests nothing");
    }
    assert!(!failures || sum.failed_appends > 100);
}

#[test]
fn reads_return_what_was_written() {
    runs(0..400, false, false);
}

#[test]
fn reads_return_what_was_written_while_devices_fail() {
    runs(1000..1600, true, false);
}

#[test]
fn reads_return_what_was_written_before_a_primary_of_large_units() {
    runs(2000..2300, false, true);
    runs(3000..3400, true, true);
}

//! Writes that bypass the cache ("Mixed SSD arrays", section III): what such a write does to a copy, and that no rule
//! makes old data reappear.

use crate::common;

use common::World;
use peryton_engine::{
    Admission, AdmitBy, Cause, Cleaning, Command, Config, DeviceId, Hybrid, Placement, Replacement, Request, Threshold,
    Tuning, TuningError, WriteHits,
};
use peryton_units::{Bytes, Nanos, Op};

const EXTENT: Bytes = Bytes::kib(16);
const FAST: DeviceId = DeviceId(0);
const SLOW: DeviceId = DeviceId(1);

fn tuning(threshold: f64, write_hits: WriteHits) -> Tuning {
    Tuning {
        promotion_threshold: 0,
        demotion_low: 0,
        demotion_high: 0,
        replacement: Replacement::Lru,
        writeback_delay: Nanos::from_s(3_600),
        cleaning: Cleaning::UNBOUNDED,
        commit_interval: Nanos::from_s(3_600),
        admission: Admission {
            by: AdmitBy::Probability,
            threshold: Threshold::Fixed(threshold),
            write_hits,
            ..Admission::default()
        },
        ..Tuning::default()
    }
}

/// A drive with extent 0 in its cache, dirty or clean, whose rule admits nothing from now on.
fn cached(dirty: bool, write_hits: WriteHits) -> World {
    let hybrid = Hybrid { fast: FAST, slow: SLOW, extent: EXTENT };
    let config = Config {
        devices: vec![EXTENT * 4, EXTENT * 16],
        placement: Placement::Caching(hybrid),
        tuning: tuning(1.0, WriteHits::Cache),
    };
    let mut world = World::new(config, EXTENT, 1);
    ask(&mut world, if dirty { Op::Write } else { Op::Read }, 0, EXTENT);
    world.complete_all();
    assert_eq!(world.engine.stats().moves.promotions, 1);
    world.retune(tuning(0.0, write_hits));
    world.complete_all();
    world
}

fn ask(world: &mut World, op: Op, offset: u64, len: Bytes) {
    world.submit(Request { op, offset: Bytes(offset), len });
}

fn written(world: &World, device: DeviceId) -> u64 {
    world.engine.stats().devices[device.index()].writes[Cause::Host as usize]
}

/// Reads extent 0 and returns the device that it came from; the model checks the data.
fn read_from(world: &mut World) -> DeviceId {
    ask(world, Op::Read, 0, EXTENT);
    let device = match world.commands()[..] {
        [Command::Read { device, .. }] => device,
        ref other => panic!("a read is one command: {other:?}"),
    };
    world.complete_all();
    device
}

#[test]
fn the_papers_rule_leaves_write_hits_to_the_cache() {
    let mut world = cached(false, WriteHits::Cache);
    ask(&mut world, Op::Write, 0, EXTENT);
    world.complete_all();
    assert_eq!((written(&world, FAST), written(&world, SLOW)), (1, 0));
    assert_eq!(read_from(&mut world), FAST);
}

#[test]
fn a_write_that_bypasses_a_clean_copy_drops_it_durably_first() {
    let mut world = cached(false, WriteHits::Bypass);
    ask(&mut world, Op::Write, 4096, Bytes::kib(4));
    // If the home were written first, a crash could leave a copy marked as clean that differs from it. The commit
    // begins with a flush of what the map points to.
    let commit = world.commands();
    assert!(matches!(commit[..], [Command::Flush { device: FAST, .. }]), "{commit:?}");
    assert_eq!(written(&world, SLOW), 0);
    world.complete_all();
    assert_eq!(written(&world, SLOW), 1);
    assert_eq!(world.engine.stats().bypassed, 1);
    assert_eq!(read_from(&mut world), SLOW);
}

#[test]
fn a_write_that_covers_a_dirty_copy_goes_home_before_the_copy_is_dropped() {
    let mut world = cached(true, WriteHits::Bypass);
    ask(&mut world, Op::Write, 0, EXTENT);
    let commands = world.commands();
    assert!(matches!(commands[..], [Command::Write { device: SLOW, cause: Cause::Host, .. }]), "{commands:?}");
    // A read that arrives meanwhile waits, and returns either the old or the new data.
    ask(&mut world, Op::Read, 0, EXTENT);
    assert_eq!(world.commands().len(), 1);
    world.complete_all();
    assert_eq!(read_from(&mut world), SLOW);
    // Nothing is left to be written back.
    assert_eq!(world.engine.stats().moves.writebacks, 0);
}

/// The answer to the host says that its data is durable, so the map update that drops the old copy must be durable too.
#[test]
fn a_flush_makes_a_superseding_write_durable() {
    let mut world = cached(true, WriteHits::Bypass);
    ask(&mut world, Op::Write, 0, EXTENT);
    world.complete_all();
    let updates = world.engine.stats().map_updates;
    ask(&mut world, Op::Flush, 0, Bytes::ZERO);
    let flushes = world.commands();
    assert!(flushes.iter().any(|command| matches!(command, Command::Flush { device: SLOW, .. })), "{flushes:?}");
    world.complete_all();
    assert!(world.engine.stats().map_updates > updates, "the copy is still in the durable map");
}

#[test]
fn a_write_to_part_of_a_dirty_copy_stays_with_the_rest_of_it() {
    let mut world = cached(true, WriteHits::Bypass);
    ask(&mut world, Op::Write, 4096, Bytes::kib(4));
    world.complete_all();
    assert_eq!(written(&world, SLOW), 0);
    assert_eq!(read_from(&mut world), FAST);
}

/// The home may then hold half of the write, so the dirty copy stays valid.
#[test]
fn a_superseding_write_that_fails_leaves_the_dirty_copy() {
    let mut world = cached(true, WriteHits::Bypass);
    ask(&mut world, Op::Write, 0, EXTENT);
    world.fail_one_in = 1;
    world.complete_at(0);
    world.fail_one_in = 0;
    assert_eq!(world.failures, 1);
    assert_eq!(read_from(&mut world), FAST);
    world.read_all();
    world.engine.check_invariants();
}

#[test]
fn rules_for_misses_refuse_a_setting_for_write_hits() {
    let mut world = cached(false, WriteHits::Cache);
    let mut other = tuning(1.0, WriteHits::Bypass);
    other.admission.by = AdmitBy::Hotness;
    let mut out = Vec::new();
    let refused = world.engine.retune(Nanos::ZERO, other, &mut out);
    assert_eq!(refused, Err(TuningError::NotApplicable { key: "admission.write_hits" }));
}

/// Guards against old data after a write that bypasses a dirty copy. The runs write and read few extents, and the rule
/// judges all of them.
#[test]
fn no_bypassed_write_is_ever_forgotten() {
    let mut superseded = 0;
    for seed in 0..300 {
        let hybrid = Hybrid { fast: FAST, slow: SLOW, extent: EXTENT };
        let mut tuning = tuning(0.5, WriteHits::Bypass);
        tuning.writeback_delay = Nanos::from_ms(seed % 40);
        tuning.commit_interval = Nanos::from_ms(1 + seed % 700);
        let config = Config { devices: vec![EXTENT * 3, EXTENT * 6], placement: Placement::Caching(hybrid), tuning };
        let mut world = World::new(config, EXTENT, seed);
        world.fail_one_in = if seed % 3 == 0 { 40 } else { 0 };
        for _ in 0..400 {
            if world.in_flight() < 6 && world.chance(2) {
                let op = if world.chance(3) { Op::Read } else { Op::Write };
                let extent = world.any() % 6;
                let (within, len) =
                    if world.chance(2) { (0, EXTENT) } else { (4096 * (world.any() % 4), Bytes::kib(4)) };
                ask(&mut world, op, extent * EXTENT.0 + within, len);
            } else if world.has_pending() && !world.chance(10) {
                world.complete_one();
            } else {
                world.tick(Nanos(20_000_000));
            }
            if world.chance(40) {
                ask(&mut world, Op::Flush, 0, Bytes::ZERO);
            }
            world.engine.check_invariants();
        }
        world.fail_one_in = 0;
        world.read_all();
        superseded += world.engine.stats().bypassed;
    }
    assert!(superseded > 1_000, "only {superseded} writes went past the cache: the test tests nothing");
}

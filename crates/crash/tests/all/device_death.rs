//! The fear: a device dies, and more is lost than that device alone had, or less is reported than was lost. A device
//! dies at a random moment under random requests. Afterwards all readable data is right, all unreadable data is
//! reported as lost, and flushes succeed again.

use crate::common;

use std::{collections::BTreeSet, ops::Range};

use common::World;
use peryton_engine::{Config, DeviceId, Hybrid, Logging, Placement, Request, Tuning, WritePolicy};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const FAST: DeviceId = DeviceId(0);
const SLOW: DeviceId = DeviceId(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tiering,
    Caching(WritePolicy),
    Partitioned,
    Logging,
    Linear,
    Single,
}

/// A drive under load, and the length of its extents (or blocks).
fn world(kind: Kind, rng: &mut Pcg64Mcg, seed: u64) -> (World, u64) {
    let extent = Bytes::kib(4 * [1, 2, 3, 4][rng.random_range(0..4)]);
    let (fast, slow) = (rng.random_range(1..24u64), rng.random_range(2..48u64));
    let pair = Hybrid { fast: FAST, slow: SLOW, extent };
    let (placement, devices, unit) = match kind {
        Kind::Tiering => (Placement::Tiering(pair), vec![extent * fast, extent * slow], extent),
        Kind::Caching(_) => (Placement::Caching(pair), vec![extent * fast, extent * slow], extent),
        Kind::Partitioned => (Placement::Partitioned(pair), vec![extent * fast, extent * slow], extent),
        Kind::Linear => (Placement::Linear { devices: vec![FAST, SLOW] }, vec![extent * fast, extent * slow], extent),
        Kind::Single => (Placement::Single { device: FAST }, vec![extent * fast], extent),
        Kind::Logging => {
            let block = Bytes(512 << rng.random_range(0..4));
            let devices = vec![Bytes::kib(4 * rng.random_range(513..1300)), Bytes::kib(4 * rng.random_range(8..200))];
            (Placement::Logging(Logging { primaries: SLOW.into(), log: FAST, block }), devices, block)
        }
    };
    let high = rng.random_range(0..fast.min(slow) as u32);
    let write = if let Kind::Caching(policy) = kind { policy } else { WritePolicy::Back };
    let tuning = Tuning { demotion_low: 0, demotion_high: high, promotion_threshold: 0, write, ..Tuning::default() };
    let mut world = World::new(Config { devices, placement, tuning }, extent, seed);
    let first = tuned(&mut world, kind, fast as u32);
    world.retune(first);
    (world, unit.0)
}

fn tuned(world: &mut World, kind: Kind, fast: u32) -> Tuning {
    let mut tuning = world.random_tuning(fast);
    if let Kind::Caching(policy) = kind {
        tuning.write = policy;
    }
    tuning
}

fn overlap(request: &Request, range: &Range<Bytes>) -> bool {
    request.offset < range.end && range.start < request.offset + request.len
}

/// The dirty extents, in units.
fn dirty(world: &World, unit: u64) -> BTreeSet<u64> {
    let size = world.engine.volume_size().0;
    (0..size)
        .step_by(unit as usize)
        .filter(|at| world.engine.location(Bytes(*at)).expect("within the volume").dirty)
        .collect()
}

/// A tiering drive with one device has less room than before. Reading data that was never written needs no room.
fn has_no_room(world: &World, kind: Kind, request: &Request) -> bool {
    kind == Kind::Tiering
        && request.op != Op::Read
        && !world.engine.location(request.offset).expect("within the volume").mapped
}

/// The lost extents, in units.
fn lost(world: &World, unit: u64) -> BTreeSet<u64> {
    let losses = world.engine.losses(usize::MAX);
    assert!(!losses.more);
    let bytes: u64 = losses.ranges.iter().map(|range| range.end.0 - range.start.0).sum();
    assert_eq!(bytes, losses.bytes.0);
    let units = |range: &Range<Bytes>| (range.start.0 / unit * unit..range.end.0).step_by(unit as usize);
    losses.ranges.iter().flat_map(units).collect()
}

fn flush(world: &mut World) -> bool {
    let before = world.failed.len();
    world.submit(Request { op: Op::Flush, offset: Bytes::ZERO, len: Bytes::ZERO });
    world.settle();
    world.failed.len() == before
}

fn run(kind: Kind, dies: DeviceId, seed: u64) -> (u64, u64) {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x5851_F42D);
    let (mut world, unit) = world(kind, &mut rng, seed);
    let depth = rng.random_range(1..16);
    let most_cells = unit.max(4096) / common::CELL * rng.random_range(1..4);
    let death = rng.random_range(20..500);
    let says = rng.random_bool(0.5);
    let (mut was_dirty, mut unsure) = (BTreeSet::new(), false);
    for step in 0..700 {
        if step == death {
            was_dirty = dirty(&world, unit);
            // Moves in flight may still end.
            unsure = !says || world.has_pending();
            world.disks.dead = Some(dies);
            if says {
                world.device_failed(dies);
            }
        }
        world.step(depth, most_cells, |world| tuned(world, kind, 8));
    }
    // The engine detects a device that keeps failing without a report.
    for _ in 0..40 {
        world.settle();
        if world.engine.is_gone(dies) {
            break;
        }
        flush(&mut world);
        let start = world.any() % world.engine.volume_size().0 / 4096 * 4096;
        world.submit(Request { op: Op::Read, offset: Bytes(start), len: Bytes(512) });
        world.tick(Nanos::from_ms(500));
    }
    if !world.engine.is_gone(dies) {
        // Nothing that matters was sent to the device, so its death stays undetected.
        world.device_failed(dies);
    }
    world.settle();
    world.engine.check_invariants();
    flush(&mut world);
    world.failed.clear();

    let gone = lost(&world, unit);
    match kind {
        Kind::Caching(WritePolicy::Through | WritePolicy::Around) if dies == FAST => {
            assert!(was_dirty.is_empty() && gone.is_empty(), "lost {gone:?}, and {was_dirty:?} was dirty");
        }
        Kind::Caching(_) | Kind::Partitioned if dies == FAST && !unsure => {
            assert!(gone.is_subset(&was_dirty), "lost {gone:?} of {was_dirty:?} that were dirty");
        }
        _ => {}
    }
    world.read_all();
    let ranges = world.engine.losses(usize::MAX).ranges;
    for request in std::mem::take(&mut world.failed) {
        let named = ranges.iter().any(|range| overlap(&request, range));
        assert!(named || has_no_room(&world, kind, &request), "{request:?} failed, but only {ranges:?} is lost");
    }
    // Each lost range fails to be read, again and again.
    for range in &ranges {
        world.submit(Request { op: Op::Read, offset: range.start, len: Bytes(common::CELL) });
        world.settle();
    }
    assert!(world.failed.len() == ranges.len(), "some of what is lost was read");
    world.failed.clear();

    // Data that is written or discarded as a whole is valid again, if there is a device for it.
    let repairs = match kind {
        Kind::Caching(_) | Kind::Partitioned => dies == FAST,
        Kind::Logging => dies == FAST,
        Kind::Tiering | Kind::Linear | Kind::Single => false,
    };
    for (index, at) in gone.iter().enumerate() {
        let op = if index % 3 == 0 { Op::Discard } else { Op::Write };
        let len = unit.min(world.engine.volume_size().0 - at);
        world.submit(Request { op, offset: Bytes(*at), len: Bytes(len) });
    }
    world.settle();
    if repairs {
        assert!(world.failed.is_empty(), "{:?} failed, which covers what was lost", world.failed);
        assert_eq!(world.engine.losses(0).bytes, Bytes::ZERO);
        assert!(flush(&mut world), "a flush fails though nothing is lost");
        world.read_all();
        assert!(world.failed.is_empty(), "something is still lost");
    }
    if kind != Kind::Single {
        assert!(flush(&mut world), "flushes fail for ever");
    }
    world.failed.clear();
    world.read_all();
    let ranges = world.engine.losses(usize::MAX).ranges;
    for request in &world.failed {
        let named = ranges.iter().any(|range| overlap(request, range));
        assert!(named || has_no_room(&world, kind, request), "{request:?} failed, but is not lost");
    }
    world.engine.check_invariants();
    (gone.len() as u64, world.reads_checked)
}

fn runs(kind: Kind, dies: DeviceId, seeds: Range<u64>) {
    let (mut lost, mut read, mut many) = (0, 0, 0);
    for seed in seeds.clone() {
        let result = std::panic::catch_unwind(|| run(kind, dies, seed));
        let Ok((gone, checked)) = result else { panic!("{kind:?}, device {} dies: seed {seed} fails", dies.0) };
        lost += gone;
        read += checked;
        many += u64::from(gone > 0);
    }
    assert!(read > 20 * (seeds.end - seeds.start), "only {read} reads were checked");
    let nothing = matches!(kind, Kind::Caching(policy) if policy != WritePolicy::Back) && dies == FAST;
    assert!(nothing || many * 4 > seeds.end - seeds.start, "{lost} units lost in {many} runs: the test tests nothing");
}

#[test]
fn a_cache_that_writes_through_loses_nothing_with_the_cache() {
    runs(Kind::Caching(WritePolicy::Through), FAST, 0..70);
    runs(Kind::Caching(WritePolicy::Around), FAST, 0..50);
}

#[test]
fn a_cache_that_writes_back_loses_what_was_dirty() {
    runs(Kind::Caching(WritePolicy::Back), FAST, 0..120);
}

#[test]
fn a_cache_without_its_disk_keeps_what_it_has() {
    for policy in [WritePolicy::Back, WritePolicy::Through, WritePolicy::Around] {
        runs(Kind::Caching(policy), SLOW, 0..50);
    }
}

#[test]
fn tiering_loses_what_was_on_the_device() {
    runs(Kind::Tiering, FAST, 0..80);
    runs(Kind::Tiering, SLOW, 0..80);
}

#[test]
fn partitioned_loses_what_was_newer_on_the_fast_device() {
    runs(Kind::Partitioned, FAST, 0..70);
    runs(Kind::Partitioned, SLOW, 0..50);
}

#[test]
fn a_log_that_dies_takes_what_had_not_migrated() {
    runs(Kind::Logging, FAST, 0..70);
}

#[test]
fn a_primary_that_dies_leaves_what_the_log_has() {
    runs(Kind::Logging, SLOW, 0..70);
}

#[test]
fn the_baselines_lose_the_range_of_the_device() {
    runs(Kind::Linear, FAST, 0..30);
    runs(Kind::Linear, SLOW, 0..50);
    runs(Kind::Single, FAST, 0..20);
}

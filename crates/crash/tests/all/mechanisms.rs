//! GreenDM's mechanisms (sections 2.3 to 2.6), one test each, as examples that a reader can follow.

use crate::common;

use common::World;
use peryton_engine::Request;
use peryton_engine::{
    Cause, Cleaning, Command, Config, ConfigError, DeviceId, Engine, Hybrid, Journal, Placement, Replacement, Tuning,
    TuningError, WritePolicy,
};
use peryton_units::{Bytes, Nanos, Op};

const EXTENT: Bytes = Bytes::kib(16);
const FAST: DeviceId = DeviceId(0);
const SLOW: DeviceId = DeviceId(1);

fn tuning() -> Tuning {
    Tuning {
        promotion_threshold: 1,
        promotion_window: Nanos::from_s(60),
        demotion_low: 0,
        demotion_high: 0,
        max_moves: 4,
        replacement: Replacement::Lru,
        cleaning: Cleaning::UNBOUNDED,
        spin_down_after: vec![None, None],
        ..Tuning::default()
    }
}

fn world(tiering: bool, fast: u64, slow: u64, tuning: Tuning) -> World {
    let hybrid = Hybrid { fast: FAST, slow: SLOW, extent: EXTENT };
    let placement = if tiering { Placement::Tiering(hybrid) } else { Placement::Caching(hybrid) };
    World::new(Config { devices: vec![EXTENT * fast, EXTENT * slow], placement, tuning }, EXTENT, 1)
}

/// A tier that was scanned: two places of the fast device are free, and extents from 6 on are on the slow one.
fn tiers(tuning: Tuning) -> World {
    let mut world = world(true, 8, 32, Tuning { demotion_high: 2, ..tuning });
    world.engine.prefill_map();
    world
}

impl World {
    fn ask(&mut self, op: Op, extent: u64) {
        self.submit(Request { op, offset: EXTENT * extent, len: Bytes::kib(4) });
    }
    /// Makes one access and completes it.
    fn access_extent(&mut self, op: Op, extent: u64) {
        self.ask(op, extent);
        self.complete_all();
    }
    fn causes(&self) -> Vec<(bool, DeviceId, Cause)> {
        let row = |command| match command {
            Command::Read { device, cause, .. } => Some((false, device, cause)),
            Command::Write { device, cause, .. } => Some((true, device, cause)),
            _ => None,
        };
        self.commands().into_iter().filter_map(row).collect()
    }
}

#[test]
fn tiering_adds_the_devices_up_less_the_spare_extents() {
    let world = world(true, 16, 64, tuning());
    assert_eq!(world.engine.volume_size(), EXTENT * (16 + 64 - 2));
    let world = self::world(false, 16, 64, tuning());
    assert_eq!(world.engine.volume_size(), EXTENT * 64);
}

#[test]
fn the_map_is_filled_lazily_lowest_addresses_first() {
    let mut world = world(true, 2, 8, tuning());
    for extent in [7, 3, 5] {
        world.ask(Op::Write, extent);
    }
    let places: Vec<_> = world
        .commands()
        .into_iter()
        .map(|command| match command {
            Command::Write { device, at, .. } => (device, at),
            other => panic!("unexpected {other:?}"),
        })
        .collect();
    let base = places[0].1;
    assert_eq!(places, [(FAST, base), (FAST, base + EXTENT), (SLOW, base)]);
    assert_eq!(world.engine.stats().allocations, 3);
}

#[test]
fn an_extent_is_promoted_once_its_misses_exceed_the_threshold() {
    let mut world = tiers(tuning());
    world.access_extent(Op::Read, 10);
    assert_eq!(world.engine.stats().moves.promotions, 0, "one miss does not exceed PT 1");
    world.access_extent(Op::Read, 10);
    assert_eq!(world.engine.stats().moves.promotions, 1);
    assert_eq!(world.engine.stats().served_from_ram, 1, "the request that promoted was served from RAM");
    world.ask(Op::Read, 10);
    assert_eq!(world.causes(), [(false, FAST, Cause::Host)]);
    let stats = world.engine.stats();
    assert_eq!((stats.fast_hits, stats.fast_misses), (1, 2));
}

#[test]
fn misses_further_apart_than_the_window_do_not_promote() {
    let mut world = world(false, 8, 16, tuning());
    for _ in 0..5 {
        world.access_extent(Op::Read, 3);
        world.tick(Nanos::from_s(61));
    }
    assert_eq!(world.engine.stats().moves.promotions, 0);
}

#[test]
fn accesses_that_wait_for_a_promotion_are_served_from_ram() {
    let mut world = tiers(Tuning { promotion_threshold: 0, ..tuning() });
    world.ask(Op::Read, 10);
    world.ask(Op::Write, 10);
    world.ask(Op::Read, 10);
    assert_eq!(world.causes(), [(false, SLOW, Cause::Promotion)], "one read of the extent serves all three");
    world.complete_at(0);
    assert_eq!(world.replies, 3);
    assert_eq!(world.causes(), [(true, FAST, Cause::Promotion)]);
    world.ask(Op::Read, 10);
    assert_eq!(world.replies, 4, "a read during the copy is served from RAM as well");
    world.complete_all();
    assert_eq!(world.engine.stats().served_from_ram, 4);
}

#[test]
fn promotions_are_cancelled_and_counted_by_cause() {
    let mut world = tiers(Tuning { promotion_threshold: 0, max_moves: 1, ..tuning() });
    world.ask(Op::Read, 10);
    world.ask(Op::Read, 11);
    assert_eq!(world.engine.stats().moves.cancelled.move_limit, 1, "MCML 1");
    world.ask(Op::Read, 11);
    assert_eq!(world.engine.stats().moves.cancelled.in_use, 1, "the first read of extent 11 is in flight");
    world.complete_all();
    let mut world = self::world(false, 2, 16, Tuning { promotion_threshold: 0, ..tuning() });
    for extent in [1, 2, 3] {
        world.ask(Op::Write, extent);
    }
    assert_eq!(world.engine.stats().moves.cancelled.fast_full, 1, "both places are in use");
    world.complete_all();
}

#[test]
fn an_extent_that_is_never_idle_is_promoted_all_the_same() {
    let mut world = tiers(Tuning { promotion_threshold: 1, ..tuning() });
    world.ask(Op::Read, 10);
    // There is always one more access in flight.
    for _ in 0..40 {
        world.ask(Op::Read, 10);
        world.complete_at(0);
    }
    assert!(world.engine.stats().moves.cancelled.in_use > 0);
    world.complete_all();
    assert_eq!(world.engine.stats().moves.promotions, 1);
    world.read_all();
}

#[test]
fn promotions_stop_while_the_map_is_written_out() {
    let mut world = world(true, 4, 64, Tuning { promotion_threshold: 0, demotion_high: 2, ..tuning() });
    world.engine.prefill_map();
    // Reads of ever other extents move extents; every flush commits the moves.
    let mut checkpoints_begun = 0;
    for step in 0..20_000u64 {
        world.ask(Op::Read, step * 7 % 60);
        world.submit(Request { op: Op::Flush, offset: Bytes::ZERO, len: Bytes::ZERO });
        while world.in_flight() > 0 {
            assert!(world.has_pending(), "a request waits for nothing");
            world.complete_one();
        }
        checkpoints_begun = world.engine.stats().checkpoints;
        if checkpoints_begun > 2 && world.engine.stats().moves.cancelled.metadata_flush > 0 {
            break;
        }
    }
    let stats = world.engine.stats();
    assert!(checkpoints_begun > 2, "{stats:?}");
    assert!(stats.moves.cancelled.metadata_flush > 0);
    for device in &stats.devices {
        assert!(device.writes[Cause::Metadata as usize] > 0, "the map is mirrored on both devices");
    }
}

#[test]
fn demotion_keeps_between_low_and_high_extents_free() {
    let mut world = world(true, 64, 128, Tuning { demotion_low: 4, demotion_high: 7, max_moves: 64, ..tuning() });
    for extent in 0..59 {
        world.access_extent(Op::Write, extent);
    }
    assert_eq!(world.engine.stats().moves.demotions, 0, "five are free");
    world.access_extent(Op::Write, 59);
    assert_eq!(world.engine.stats().moves.demotions, 3, "at LT 4 extents are demoted until HT 7 are free");
}

#[test]
fn an_access_cancels_the_demotion_of_its_extent() {
    let mut world = world(true, 8, 32, Tuning { demotion_low: 1, demotion_high: 2, max_moves: 1, ..tuning() });
    for extent in 0..6 {
        world.access_extent(Op::Write, extent);
    }
    world.ask(Op::Write, 6);
    assert_eq!(world.causes(), [(false, FAST, Cause::Demotion), (true, FAST, Cause::Host)]);
    // The least recently used extent is being demoted when the host reads it.
    world.ask(Op::Read, 0);
    assert_eq!(world.causes().len(), 3, "the host does not wait: {:?}", world.causes());
    world.complete_all();
    assert_eq!(world.engine.stats().moves.cancelled.accessed, 1);
}

#[test]
fn writes_reach_the_devices_that_the_policy_names() {
    let cached = |write| {
        let tuning = Tuning { promotion_threshold: 0, write, writeback_delay: Nanos::from_s(30), ..tuning() };
        let mut world = world(false, 8, 16, tuning);
        world.access_extent(Op::Read, 3);
        world.ask(Op::Write, 3);
        world
    };
    assert_eq!(cached(WritePolicy::Back).causes(), [(true, FAST, Cause::Host)]);
    let mut through = cached(WritePolicy::Through);
    assert_eq!(through.causes(), [(true, SLOW, Cause::Host)]);
    through.complete_at(0);
    assert_eq!(through.replies, 2, "the write is answered when the disk has it");
    assert_eq!(through.causes(), [(true, FAST, Cause::Promotion)], "and the copy takes it from memory");
    let mut around = cached(WritePolicy::Around);
    // After a crash no copy counts, so nothing has to be durable before the write.
    assert_eq!(around.causes(), [(true, SLOW, Cause::Host)]);
    around.complete_all();
    assert_eq!(around.replies, 2);
    around.ask(Op::Read, 3);
    assert_eq!(around.causes(), [(false, SLOW, Cause::Host)], "the copy is gone");
}

#[test]
fn a_dirty_extent_is_written_back_once_however_often_it_was_written() {
    let delay = Nanos::from_s(10);
    let mut world = world(false, 8, 16, Tuning { promotion_threshold: 0, writeback_delay: delay, ..tuning() });
    world.access_extent(Op::Read, 3);
    for _ in 0..10 {
        world.access_extent(Op::Write, 3);
    }
    assert_eq!(world.engine.stats().moves.writebacks, 0);
    // It was written again, so it has a second chance to be.
    for writebacks in [0, 1, 1] {
        world.tick(delay);
        world.complete_all();
        assert_eq!(world.engine.stats().moves.writebacks, writebacks);
    }
}

#[test]
fn a_dirty_extent_that_leaves_is_written_back_first() {
    let tuning = Tuning { promotion_threshold: 0, demotion_high: 6, demotion_low: 1, ..tuning() };
    let mut world = world(false, 8, 32, Tuning { writeback_delay: Nanos::from_s(1000), ..tuning });
    for extent in 0..30 {
        world.access_extent(Op::Read, extent);
        world.access_extent(Op::Write, extent);
    }
    assert!(world.engine.stats().moves.writebacks > 10, "{:?}", world.engine.stats().moves);
    world.read_all();
}

#[test]
fn a_write_that_covers_an_extent_is_promoted_without_a_read() {
    let mut world = world(false, 8, 16, Tuning { promotion_threshold: 0, ..tuning() });
    world.submit(Request { op: Op::Write, offset: EXTENT * 2, len: EXTENT });
    assert_eq!(world.causes(), [(true, FAST, Cause::Host)]);
    world.complete_all();
    assert_eq!(world.engine.stats().moves.promotions, 1);
    world.read_all();
}

#[test]
fn neighbours_on_a_device_are_one_command() {
    let mut world = world(true, 8, 16, tuning());
    // The first places of the fast device.
    (0..8).for_each(|extent| world.access_extent(Op::Write, extent));
    let before = world.replies;
    world.submit(Request { op: Op::Read, offset: Bytes(100 * 128), len: EXTENT * 5 });
    assert_eq!(world.causes(), [(false, FAST, Cause::Host)]);
    world.complete_all();
    assert_eq!(world.replies, before + 1);
}

#[test]
fn an_idle_device_spins_down_and_wakes_on_access() {
    let after = Nanos::from_s(5);
    let mut world = world(false, 8, 16, Tuning { spin_down_after: vec![None, Some(after)], ..tuning() });
    world.access_extent(Op::Read, 3);
    assert!(world.engine.deadline().is_some_and(|deadline| deadline <= world.now + after));
    world.tick(Nanos::from_s(4));
    assert_eq!(world.engine.stats().devices[1].spin_downs, 0);
    world.tick(Nanos::from_s(2));
    assert_eq!(world.engine.stats().devices[1].spin_downs, 1);
    world.tick(Nanos::from_s(20));
    assert_eq!(world.engine.stats().devices[1].spin_downs, 1, "it is down already");
    world.access_extent(Op::Read, 4);
    world.tick(Nanos::from_s(6));
    assert_eq!(world.engine.stats().devices[1].spin_downs, 2);
}

#[test]
fn a_flush_reaches_only_devices_that_were_written() {
    for journal in [Journal::Named, Journal::Mirrored] {
        let mut world = world(false, 8, 16, Tuning { journal, promotion_threshold: 0, ..tuning() });
        let mut flush_after_a_write = |offset: Bytes| {
            let before = world.engine.stats().clone();
            world.submit(Request { op: Op::Write, offset, len: Bytes::kib(4) });
            world.complete_all();
            world.submit(Request { op: Op::Flush, offset: Bytes::ZERO, len: Bytes::ZERO });
            world.complete_all();
            let stats = world.engine.stats();
            assert!(stats.commits > before.commits, "the flush made the map durable");
            [0, 1].map(|device| stats.devices[device].flushes - before.devices[device].flushes)
        };
        flush_after_a_write(Bytes::ZERO);
        let [fast, slow] = flush_after_a_write(Bytes::kib(4));
        assert!(fast > 0);
        assert_eq!(slow, u64::from(journal == Journal::Mirrored), "the sleeping disk is left alone");
    }
}

#[test]
fn a_flush_waits_for_the_flush_that_covers_it() {
    let placement = Placement::Single { device: FAST };
    let mut world = World::new(Config { devices: vec![EXTENT * 4], placement, tuning: tuning() }, EXTENT, 1);
    world.access_extent(Op::Write, 0);
    let flush = Request { op: Op::Flush, offset: Bytes::ZERO, len: Bytes::ZERO };
    world.submit(flush);
    world.submit(flush);
    assert_eq!(world.replies, 1, "the write is not durable yet");
    world.complete_all();
    assert_eq!(world.replies, 3);
    world.submit(flush);
    assert_eq!(world.replies, 4, "nothing was written since");
}

#[test]
fn requests_past_the_end_and_of_no_length_are_answered() {
    let mut world = world(true, 8, 16, tuning());
    let size = world.engine.volume_size();
    for (offset, len) in [(size, Bytes(512)), (Bytes(u64::MAX - 100), Bytes(512)), (size - Bytes(512), Bytes(1024))] {
        world.submit(Request { op: Op::Read, offset, len });
    }
    assert_eq!((world.replies, world.failures), (3, 3));
    world.submit(Request { op: Op::Write, offset: size, len: Bytes::ZERO });
    assert_eq!((world.replies, world.failures), (4, 3));
}

#[test]
fn a_request_far_past_the_end_never_reaches_an_extent_of_the_fast_device() {
    // Offsets whose extent number is that of the first extent if its upper half is cut off.
    let far = [EXTENT.0 << 32, EXTENT.0 << 33, (EXTENT.0 << 32) + 512];
    for tiering in [false, true] {
        for op in [Op::Read, Op::Write] {
            let mut world = world(tiering, 8, 16, tuning());
            for _ in 0..8 {
                world.access_extent(Op::Write, 0);
                world.settle();
            }
            let hits = world.engine.stats().fast_hits;
            world.access_extent(op, 0);
            assert_eq!(world.engine.stats().fast_hits, hits + 1, "the first extent is on the fast device");
            let before = world.replies;
            for offset in far {
                world.submit(Request { op, offset: Bytes(offset), len: Bytes(512) });
            }
            world.submit(Request { op, offset: Bytes(512), len: Bytes(u64::MAX) });
            world.submit(Request { op, offset: Bytes::ZERO, len: Bytes(u64::MAX - 511) });
            assert_eq!((world.replies - before, world.failures), (5, 5), "tiering {tiering}, {op:?}");
            assert_eq!(world.engine.stats().fast_hits, hits + 1);
        }
    }
}

#[test]
fn a_discarded_extent_is_free_again_and_reads_as_zeros() {
    let mut world = world(true, 4, 8, tuning());
    for extent in 0..6 {
        world.access_extent(Op::Write, extent);
    }
    world.submit(Request { op: Op::Discard, offset: Bytes::ZERO, len: EXTENT * 6 });
    world.settle();
    world.submit(Request { op: Op::Flush, offset: Bytes::ZERO, len: Bytes::ZERO });
    world.settle();
    // The model allows zeros or the old data; the engine promises zeros for whole extents, and never another extent's
    // data.
    for extent in [9, 8, 7, 6] {
        world.access_extent(Op::Write, extent);
        world.settle();
    }
    world.read_all();
}

#[test]
fn re_tuning_is_refused_whole() {
    let mut world = world(true, 8, 16, tuning());
    let mut out = Vec::new();
    let before = world.engine.tuning().clone();
    for wrong in [
        Tuning { demotion_low: 5, demotion_high: 4, ..tuning() },
        Tuning { demotion_high: 8, ..tuning() },
        Tuning { max_moves: 0, ..tuning() },
    ] {
        let now = world.now;
        let error = world.engine.retune(now, wrong, &mut out).expect_err("this cannot work");
        assert!(matches!(error, TuningError::Range { .. }), "{error}");
        assert_eq!(world.engine.tuning(), &before);
    }
}

#[test]
fn impossible_designs_are_refused_with_the_remedy() {
    let new = |extent, fast, slow| {
        let placement = Placement::Tiering(Hybrid { fast: FAST, slow: SLOW, extent });
        Engine::new(Config { devices: vec![fast, slow], placement, tuning: tuning() }).map(|_| ())
    };
    let gib = Bytes::gib(1);
    assert_eq!(new(Bytes(5000), gib, gib), Err(ConfigError::Extent { extent: Bytes(5000) }));
    assert!(matches!(new(Bytes::gib(2), gib, gib), Err(ConfigError::Extent { .. })));
    assert!(matches!(new(Bytes::mib(1), Bytes::kib(4), gib), Err(ConfigError::TooSmall { device: 0, .. })));
    assert!(matches!(new(Bytes::kib(4), gib, Bytes(1 << 58)), Err(ConfigError::TooManyExtents { .. })));
    let twice = Placement::Linear { devices: vec![FAST, FAST] };
    let config = Config { devices: vec![gib, gib], placement: twice, tuning: tuning() };
    assert!(matches!(Engine::new(config), Err(ConfigError::Device { .. })));
}

#[test]
fn lru_evicts_what_was_used_longest_ago() {
    let mut world = world(false, 4, 64, Tuning { promotion_threshold: 0, ..tuning() });
    for extent in [1, 2, 3, 4, 1, 5] {
        world.access_extent(Op::Read, extent);
        world.settle();
    }
    // Extent 2 was evicted for 5.
    for (extent, device) in [(1, FAST), (3, FAST), (4, FAST), (5, FAST), (2, SLOW)] {
        world.ask(Op::Read, extent);
        let causes = world.causes();
        assert_eq!(causes[0].1, device, "extent {extent}");
        world.settle();
    }
}

#[test]
fn a_filled_tier_has_its_share_of_every_part_of_the_volume() {
    let mut world = world(true, 16, 48, tuning());
    world.engine.prefill_map();
    let extents = world.engine.volume_size().0 / EXTENT.0;
    let fast = |extents: std::ops::Range<u64>| {
        let device = |extent| world.engine.location(EXTENT * extent).and_then(|location| location.device);
        extents.filter(|extent| device(*extent) == Some(FAST)).count() as u64
    };
    let (all, quarter) = (fast(0..extents), extents / 4);
    assert!(all > 8, "{all} of {extents} are on the fast device");
    for from in 0..extents - quarter {
        let here = fast(from..from + quarter);
        assert!(here.abs_diff(all / 4) <= 1, "{here} of {all} from {from} on");
    }
}

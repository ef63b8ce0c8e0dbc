//! Dirty extents of a cache: none is forgotten, neighbours go home together, and the bounds on their number and age hold.

use crate::common;

use common::World;
use peryton_engine::{
    Cause, Cleaning, CleaningState, Command, Config, DeviceId, Hybrid, Placement, Replacement, Request, Tuning,
};
use peryton_units::{Bytes, Nanos, Op};

const EXTENT: Bytes = Bytes::kib(4);
const FAST: DeviceId = DeviceId(0);
const SLOW: DeviceId = DeviceId(1);
const DELAY: Nanos = Nanos::from_s(10);

fn tuning() -> Tuning {
    Tuning {
        promotion_threshold: 0,
        demotion_low: 0,
        demotion_high: 0,
        max_moves: 64,
        replacement: Replacement::Lru,
        writeback_delay: DELAY,
        commit_interval: Nanos::from_s(3600),
        cleaning: Cleaning::UNBOUNDED,
        ..Tuning::default()
    }
}

fn world(fast: u64, slow: u64, tuning: Tuning) -> World {
    let placement = Placement::Caching(Hybrid { fast: FAST, slow: SLOW, extent: EXTENT });
    World::new(Config { devices: vec![EXTENT * fast, EXTENT * slow], placement, tuning }, EXTENT, 1)
}

impl World {
    /// Makes extents dirty, each by a write that covers it.
    fn dirty(&mut self, extents: impl IntoIterator<Item = u64>) {
        for extent in extents {
            self.submit(Request { op: Op::Write, offset: EXTENT * extent, len: EXTENT });
            self.complete_all();
        }
    }

    /// Lets time pass with nothing to do for the host.
    fn rest(&mut self, time: Nanos) {
        let until = self.now + time;
        while self.now < until {
            let next = self.engine.deadline().unwrap_or(until).clamp(self.now + Nanos(1), until);
            let span = next - self.now;
            self.tick(span);
            self.complete_all();
        }
    }

    /// The writes that carry dirty extents home, in the order in which they were issued: first extent, and how many.
    fn writes_home(&self) -> Vec<(u64, u64)> {
        let data_at = self.engine.data_at(SLOW);
        let row = |command| match command {
            Command::Write { device: SLOW, at, len, cause: Cause::WriteBack | Cause::Demotion, .. } => {
                Some(((at - data_at).0 / EXTENT.0, len.0 / EXTENT.0))
            }
            _ => None,
        };
        self.commands().into_iter().filter_map(row).collect()
    }

    /// Completes what reads, until everything that is left writes home.
    fn complete_reads(&mut self) {
        while let Some(at) = self.commands().iter().position(|command| matches!(command, Command::Read { .. })) {
            self.complete_at(at);
        }
    }
}

#[test]
fn no_dirty_extent_is_forgotten() {
    let mut world = world(4000, 5000, tuning());
    world.dirty((0..3000).map(|n| n * 1237 % 5000));
    assert_eq!(world.engine.dirty_extents(), 3000);
    world.rest(Nanos::from_s(600));
    assert_eq!(world.engine.dirty_extents(), 0);
    world.read_all();
}

#[test]
fn neighbours_go_home_in_one_command_and_all_in_the_order_of_their_addresses() {
    let mut world = world(100, 400, tuning());
    // Dirtied in another order than their addresses'.
    world.dirty([300, 9, 8, 7, 302, 6, 5, 150]);
    world.tick(DELAY);
    world.complete_reads();
    assert_eq!(world.writes_home(), [(5, 5), (150, 1), (300, 1), (302, 1)]);
    world.complete_all();
    assert_eq!(world.engine.dirty_extents(), 0);
    assert_eq!(world.engine.stats().moves.writebacks, 8);
    assert_eq!(world.engine.stats().devices[1].writes[Cause::WriteBack as usize], 4);
    world.read_all();
}

#[test]
fn a_command_carries_a_mebibyte_at_most() {
    let mut world = world(1000, 1200, Tuning { max_moves: 4096, ..tuning() });
    world.dirty(0..600);
    world.tick(DELAY);
    world.complete_reads();
    assert_eq!(world.writes_home(), [(0, 256), (256, 256), (512, 88)]);
    world.complete_all();
    world.read_all();
}

#[test]
fn what_is_rewritten_or_cannot_be_read_is_left_out_and_the_rest_goes_home() {
    let mut world = world(100, 400, tuning());
    world.dirty(10..20);
    world.tick(DELAY);
    // Of the reads that are under way, that of extent 12 fails, and extent 15 is written.
    world.driver_fails(2);
    world.submit(Request { op: Op::Write, offset: EXTENT * 15, len: EXTENT });
    world.complete_reads();
    assert_eq!(world.writes_home(), [(10, 2), (13, 2), (16, 4)]);
    world.complete_all();
    assert_eq!(world.engine.dirty_extents(), 2);
    world.rest(Nanos::from_s(30));
    assert_eq!(world.engine.dirty_extents(), 0);
    world.read_all();
}

#[test]
fn when_neighbours_cannot_be_written_together_each_is_tried_alone() {
    let mut world = world(100, 400, tuning());
    world.dirty(10..14);
    world.tick(DELAY);
    world.complete_reads();
    assert_eq!(world.writes_home(), [(10, 4)]);
    world.driver_fails(0);
    assert_eq!(world.writes_home(), [(10, 1), (11, 1), (12, 1), (13, 1)]);
    // Another extent of them is unwritable.
    world.driver_fails(2);
    world.complete_all();
    assert_eq!(world.engine.dirty_extents(), 1);
    world.rest(Nanos::from_s(30));
    assert_eq!(world.engine.dirty_extents(), 0);
    world.read_all();
}

#[test]
fn what_cannot_be_written_home_is_tried_again_after_a_pause_however_old_it_is() {
    let cleaning = Cleaning { max_age: Nanos::from_s(60), ..Cleaning::UNBOUNDED };
    // One write-back at a time, so that a pass is over with each of its last ones.
    let mut world = world(100, 400, Tuning { cleaning, max_moves: 2, ..tuning() });
    world.dirty([10, 200, 300]);
    // The device answers at once, and fails all writes.
    let mut tried = 0;
    for _second in 0..100 {
        world.tick(Nanos::from_s(1));
        while let Some(command) = world.commands().first().copied() {
            match command {
                Command::Write { device: SLOW, .. } => {
                    world.driver_fails(0);
                    tried += 1;
                }
                _ => world.complete_at(0),
            }
            assert!(tried < 1_000, "at {:?} it is tried without a pause", world.now);
        }
    }
    assert!((10..=3 * 100).contains(&tried), "each once a second at most: {tried}");
    let state = world.engine.cleaning(world.now).map(|cleaning| cleaning.state);
    assert_eq!((world.engine.dirty_extents(), state), (3, Some(CleaningState::Overdue)));
    world.rest(Nanos::from_s(30));
    assert_eq!(world.engine.dirty_extents(), 0);
    world.read_all();
}

#[test]
fn an_eviction_takes_its_dirty_neighbours_home() {
    let mut world = world(8, 400, tuning());
    world.dirty([20, 21, 22, 23, 100, 101, 200, 300]);
    // The cache is full of dirty extents; room is made for several at a time.
    world.submit(Request { op: Op::Read, offset: EXTENT * 50, len: EXTENT });
    world.complete_reads();
    assert_eq!(world.writes_home(), [(20, 4), (100, 2), (200, 1), (300, 1)]);
    world.complete_all();
    assert_eq!(world.engine.dirty_extents(), 0);
    assert_eq!(world.engine.location(EXTENT * 21).unwrap().device, Some(FAST), "the neighbours stay cached");
    world.read_all();
}

#[test]
fn cleaning_that_can_wait_waits_until_the_slow_device_is_idle() {
    let mut world = world(400, 4000, tuning());
    world.dirty(10..20);
    for miss in 0..200 {
        // The host uses the slow device every 100 ms.
        world.submit(Request { op: Op::Read, offset: EXTENT * (500 + miss), len: Bytes::kib(1) });
        world.complete_all();
        world.tick(Nanos::from_ms(100));
        world.complete_all();
    }
    assert_eq!(world.engine.dirty_extents(), 10);
    world.rest(Nanos::from_s(2));
    assert_eq!(world.engine.dirty_extents(), 0);
}

#[test]
fn a_sleeping_disk_is_not_woken_for_what_can_wait() {
    let cleaning = Cleaning { max_age: Nanos::from_s(300), ..Cleaning::default() };
    let spin_down_after = vec![None, Some(Nanos::from_s(5))];
    let mut world = world(100, 4000, Tuning { cleaning, spin_down_after, ..tuning() });
    world.dirty(10..20);
    world.rest(Nanos::from_s(250));
    assert_eq!((world.engine.dirty_extents(), world.engine.stats().devices[1].spin_downs), (10, 1));
    world.rest(Nanos::from_s(40));
    assert_eq!(world.engine.dirty_extents(), 0, "before the oldest is older than it may be");
}

/// The fear: a device stops its motor while data wait that should have been home long ago, and they wait longer.
#[test]
fn no_device_rests_while_dirty_data_are_overdue() {
    let cleaning = Cleaning { max_age: Nanos::from_s(300), ..Cleaning::default() };
    let spin_down_after = vec![Some(Nanos::from_s(5)), None];
    let mut world = world(100, 4000, Tuning { cleaning, spin_down_after, ..tuning() });
    world.dirty(10..20);
    world.tick(Nanos::from_s(6));
    world.tick(Nanos::from_s(60));
    assert_eq!(world.engine.stats().devices[0].spin_downs, 1, "nothing is overdue yet");
    // The slow device does not work, so nothing can go home.
    world.device_failed(SLOW);
    world.complete_all();
    world.tick(Nanos::from_s(400));
    world.complete_all();
    assert!(world.engine.cleaning(world.now).is_some_and(|report| report.overdue.is_some()));
    let before = world.engine.stats().devices[0].spin_downs;
    world.submit(Request { op: Op::Read, offset: EXTENT * 12, len: Bytes::kib(1) });
    world.complete_all();
    for _ in 0..20 {
        world.tick(Nanos::from_s(10));
        world.complete_all();
    }
    assert_eq!(world.engine.stats().devices[0].spin_downs, before);
}

/// Random writes, as many at a time as there can be; commands complete in random order.
#[test]
fn no_more_is_dirty_than_may_be_under_any_load() {
    let mut throttled = 0;
    for seed in 0..20 {
        let cleaning = Cleaning { dirty_target_ppm: 400_000, ..Cleaning::UNBOUNDED };
        let mut world = world(50, 400, Tuning { cleaning, max_moves: 1 + seed as u32 % 9, ..tuning() });
        world.rng = rand::SeedableRng::seed_from_u64(seed);
        let mut most = 0;
        for _ in 0..6000 {
            if world.in_flight() < 16 {
                world.random_request(64);
            }
            if world.chance(3) {
                world.tick(Nanos::from_us(100));
            }
            world.complete_one();
            most = most.max(world.engine.dirty_extents());
        }
        world.complete_all();
        assert!(most <= 20, "{most} of 50 extents were dirty at a time, not 20");
        assert!(most > 10, "seed {seed}: only {most}, so the bound was not tested");
        throttled += world.engine.stats().bypasses.dirty_target;
        world.engine.check_invariants();
        world.read_all();
    }
    assert!(throttled > 1000, "{throttled}");
}

/// There is always a write in flight to the extent.
#[test]
fn an_extent_that_is_written_all_the_time_is_not_dirty_for_longer_than_it_may_be() {
    let max_age = Nanos::from_s(60);
    let cleaning = Cleaning { max_age, ..Cleaning::UNBOUNDED };
    let mut world = world(100, 400, Tuning { cleaning, ..tuning() });
    world.dirty([7]);
    let (mut oldest, mut waited) = (Nanos::ZERO, 0);
    for step in 0..30_000_u64 {
        if world.in_flight() < 4 {
            world.submit(Request { op: Op::Write, offset: EXTENT * 7, len: Bytes::kib(1) * (1 + step % 4) });
        }
        if world.has_pending() && world.in_flight() >= 4 {
            world.complete_at(0);
        }
        world.tick(Nanos::from_ms(20));
        let report = world.engine.cleaning(world.now).unwrap();
        oldest = oldest.max(report.oldest.unwrap_or_default());
        waited += u64::from(report.state == CleaningState::Overdue);
    }
    let writebacks = world.engine.stats().moves.writebacks;
    assert!(oldest < max_age + Nanos::from_s(1), "{oldest}");
    assert!(writebacks >= 8, "{writebacks} in ten minutes");
    assert!(world.engine.stats().held_writes > 0 && waited > 0);
    world.complete_all();
    world.read_all();
}

/// Reads wait for what was in flight only, and writes for a second at most.
#[test]
fn a_slow_device_that_does_not_answer_does_not_keep_what_is_cached_waiting() {
    let cleaning = Cleaning { max_age: Nanos::from_s(60), ..Cleaning::UNBOUNDED };
    let mut world = world(100, 400, Tuning { cleaning, ..tuning() });
    world.dirty([7]);
    let ask = |world: &mut World, op| world.submit(Request { op, offset: EXTENT * 7, len: Bytes::kib(1) });
    let host = |world: &World| {
        let of_host = |command: &&Command| {
            matches!(command, Command::Read { cause: Cause::Host, .. } | Command::Write { cause: Cause::Host, .. })
        };
        world.commands().iter().filter(of_host).count()
    };
    ask(&mut world, Op::Write);
    world.tick(Nanos::from_s(61));
    for op in [Op::Read, Op::Write] {
        ask(&mut world, op);
    }
    assert_eq!(host(&world), 1, "the write that was in flight");
    world.complete_at(0);
    assert_eq!(host(&world), 1, "the read, which has not to wait for the slow device");
    world.complete_reads();
    assert_eq!((world.writes_home(), host(&world), world.engine.stats().held_writes), (vec![(7, 1)], 0, 1));
    world.tick(Nanos::from_ms(900));
    assert_eq!(host(&world), 0);
    world.tick(Nanos::from_ms(100));
    assert_eq!(host(&world), 1, "the write");
    world.complete_all();
    assert_eq!(world.engine.dirty_extents(), 1);
    world.rest(Nanos::from_s(200));
    assert_eq!(world.engine.dirty_extents(), 0);
    world.read_all();
}

/// With `write_all_back`, what was dirty then is home in the end, though the host goes on writing the same places.
#[test]
fn what_is_to_be_clean_becomes_so_under_load() {
    let mut world = world(100, 400, tuning());
    world.dirty(0..40);
    world.driver_cleans();
    for step in 0..4000_u64 {
        if world.in_flight() < 8 {
            world.submit(Request { op: Op::Write, offset: EXTENT * (step % 40), len: Bytes::kib(1) });
        }
        world.complete_one();
        world.tick(Nanos::from_ms(1));
        if world.engine.cleaning(world.now).unwrap().state != CleaningState::Asked {
            world.complete_all();
            return world.read_all();
        }
    }
    panic!("it is not clean: {:?}", world.engine.cleaning(world.now));
}

#[test]
fn the_report_says_what_is_dirty_for_how_long_and_until_when() {
    let cleaning = Cleaning { max_age: Nanos::from_s(600), ..Cleaning::default() };
    let mut world = world(100, 400, Tuning { cleaning, ..tuning() });
    let report = world.engine.cleaning(world.now).unwrap();
    assert_eq!((report.dirty, report.oldest, report.clean_in), (Bytes::ZERO, None, Some(Nanos::ZERO)));
    assert_eq!(report.most_dirty, Some(EXTENT * 40));
    world.dirty(0..10);
    // The host keeps the slow device from being idle.
    world.submit(Request { op: Op::Read, offset: EXTENT * 300, len: Bytes::kib(1) });
    world.tick(Nanos::from_s(100));
    let report = world.engine.cleaning(world.now).unwrap();
    assert_eq!((report.state, report.dirty_extents, report.dirty), (CleaningState::Resting, 10, EXTENT * 10));
    assert!(report.oldest.is_some_and(|age| age >= Nanos::from_s(100)) && report.overdue.is_none());
    // The slow device does not answer.
    world.tick(Nanos::from_s(600));
    let report = world.engine.cleaning(world.now).unwrap();
    assert!(report.overdue.is_some_and(|over| over >= Nanos::from_s(99)), "{report:?}");
    assert_eq!(report.state, CleaningState::Overdue);
    world.complete_all();
    assert_eq!(world.engine.dirty_extents(), 0);
    let report = world.engine.cleaning(world.now).unwrap();
    assert!(report.bytes_per_s.is_some() && report.overdue.is_none() && !report.is_under_way, "{report:?}");
    // An idle volume is cleaned after the delay, and not first when its data are old.
    world.dirty(20..30);
    world.tick(Nanos::from_ms(100));
    let report = world.engine.cleaning(world.now).unwrap();
    let soon = DELAY + Nanos::from_s(2);
    assert!(report.clean_in.is_some_and(|left| left > Nanos::ZERO && left < soon), "{report:?}");
    assert!(!report.is_under_way);
}

#[test]
fn a_shorter_delay_counts_at_once() {
    let mut world = world(100, 400, tuning());
    world.dirty(0..10);
    world.retune(Tuning { writeback_delay: Nanos::ZERO, ..tuning() });
    world.rest(Nanos::from_s(1));
    assert_eq!(world.engine.dirty_extents(), 0);
}

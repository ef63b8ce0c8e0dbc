//! Extents of which the fast device has a part: what is read and written where.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::World;
use peryton_crash::{Kind, placement_on};
use peryton_engine::{Bypass, Cleaning, Command, Config, DeviceId, Hybrid, Journal, Request, Tuning, WritePolicy};
use peryton_units::{Bytes, Nanos, Op};

const EXTENT: Bytes = Bytes::kib(64);
const FAST: DeviceId = DeviceId(0);
const SLOW: DeviceId = DeviceId(1);

pub fn tuning() -> Tuning {
    Tuning {
        promotion_threshold: 0,
        demotion_low: 0,
        demotion_high: 0,
        bypass: Bypass { sequential: None, congested: false },
        cleaning: Cleaning::UNBOUNDED,
        ..Tuning::default()
    }
}

fn config(kind: Kind, extent: Bytes) -> Config {
    let placement = placement_on(kind, Hybrid { fast: FAST, slow: SLOW, extent });
    Config { devices: vec![extent * 4, extent * 32], placement, tuning: tuning() }
}

fn sized(fast: u64, slow: u64, tuning: Tuning) -> Config {
    Config { devices: vec![EXTENT * fast, EXTENT * slow], tuning, ..config(Kind::Caching, EXTENT) }
}

fn world() -> World {
    World::new(config(Kind::Caching, EXTENT), EXTENT, 1)
}

/// Bytes read from and written to the slow device for everything but metadata.
fn moved(world: &World) -> [u64; 2] {
    let slow = &world.engine.stats().devices[SLOW.index()];
    let metadata = peryton_engine::Cause::Metadata as usize;
    [slow.bytes_read.iter().sum(), slow.bytes_written.iter().sum::<u64>() - slow.bytes_written[metadata]]
}

impl World {
    /// Writes everything home.
    fn clean(&mut self) {
        self.driver_cleans();
        self.settle();
    }
}

#[test]
fn a_write_that_misses_reads_nothing_and_only_it_goes_home() {
    let mut world = world();
    world.access(Op::Write, EXTENT * 3 + Bytes::kib(8), Bytes::kib(4));
    assert_eq!(moved(&world), [0, 0]);
    assert_eq!(world.engine.dirty_bytes(), Bytes::kib(4));
    world.clean();
    assert_eq!(moved(&world), [0, 4096]);
    assert_eq!(world.engine.dirty_bytes(), Bytes::ZERO);
    world.read_all();
}

#[test]
fn a_read_brings_in_what_it_asks_for() {
    let mut world = world();
    world.access(Op::Read, EXTENT * 3 + Bytes::kib(16), Bytes::kib(8));
    assert_eq!(moved(&world), [8192, 0]);
    world.access(Op::Read, EXTENT * 3 + Bytes::kib(20), Bytes::kib(4));
    assert_eq!(moved(&world), [8192, 0], "it is there");
    assert_eq!(world.engine.stats().fast_hits, 1);
}

/// Reads that the slow device was given for the host and for what is brought in.
fn reads(world: &World) -> u64 {
    world.engine.stats().devices[SLOW.index()].reads.iter().sum()
}

#[test]
fn what_neighbouring_extents_lack_is_read_with_one_command() {
    let mut world = world();
    let (from, len) = (EXTENT * 3 + Bytes::kib(32), EXTENT + Bytes::kib(40));
    world.access(Op::Read, from, len);
    assert_eq!((reads(&world), moved(&world)), (1, [len.0, 0]));
    world.access(Op::Read, from, len);
    assert_eq!((reads(&world), world.engine.stats().fast_hits), (1, 3), "all of it is there");
    // What does not come in is read with the rest.
    world.retune(Tuning { max_moves: 1, ..tuning() });
    world.evict();
    let before = reads(&world);
    world.access(Op::Read, EXTENT * 10, EXTENT * 3);
    assert_eq!(reads(&world) - before, 1);
    world.read_all();
}

/// The fear: what the last extent lacks is asked for before what the others lack, so that a disk comes back for these a turn later.
#[test]
fn the_slow_device_is_asked_in_the_order_of_addresses() {
    let mut world = World::new(sized(8, 32, tuning()), EXTENT, 1);
    // One extent is there, and the ends lie within blocks.
    world.access(Op::Read, EXTENT * 6, EXTENT);
    world.submit(Request { op: Op::Read, offset: EXTENT * 3 + Bytes(512), len: EXTENT * 5 });
    let places: Vec<Bytes> = world
        .commands()
        .iter()
        .filter_map(|command| match command {
            Command::Read { device: SLOW, at, .. } => Some(*at),
            _ => None,
        })
        .collect();
    assert!(places.len() > 2 && places.is_sorted(), "{places:?}");
    world.complete_all();
    world.read_all();
}

#[test]
fn a_write_to_what_is_being_brought_in_does_not_wait_for_it() {
    for write in [WritePolicy::Back, WritePolicy::Through, WritePolicy::Around] {
        let mut world = world();
        world.retune(Tuning { write, ..tuning() });
        world.submit(Request { op: Op::Read, offset: EXTENT * 3, len: Bytes::kib(12) });
        let write_id = world.submit(Request { op: Op::Write, offset: EXTENT * 3 + Bytes::kib(4), len: Bytes::kib(4) });
        assert_eq!(world.commands().len(), 2, "{write:?}: the read and the write");
        world.complete_at(1);
        assert_eq!((world.replies, world.in_flight()), (1, 1), "{write:?}: {write_id:?} is answered");
        world.complete_all();
        // The blocks beside it came in, and what was written is not replaced by what was read.
        let before = moved(&world)[0];
        world.access(Op::Read, EXTENT * 3, Bytes::kib(4));
        world.access(Op::Read, EXTENT * 3 + Bytes::kib(8), Bytes::kib(4));
        assert_eq!(moved(&world)[0], before, "{write:?}");
        world.read_all();
    }
}

/// The first command under way for which this holds.
fn at(world: &World, is_it: impl Fn(&Command) -> bool) -> usize {
    world.commands().iter().position(is_it).unwrap()
}

#[test]
fn a_write_through_waits_for_the_slow_device_alone() {
    let tuning = Tuning { write: WritePolicy::Through, ..tuning() };
    let mut world = World::new(sized(4, 32, tuning.clone()), EXTENT, 1);
    let block = |op| Request { op, offset: EXTENT * 3, len: Bytes::kib(4) };
    world.access(Op::Read, EXTENT * 3, EXTENT * 2);
    // Two of them overlap, and each is answered when the slow device has it. What neighbouring extents have is one command.
    world.submit(Request { len: EXTENT * 2, ..block(Op::Write) });
    world.submit(block(Op::Write));
    let to_slow = |command: &Command| matches!(command, Command::Write { device: SLOW, .. });
    let to_fast = |command: &Command| matches!(command, Command::Write { device: FAST, .. });
    assert_eq!(world.commands().iter().map(to_slow).collect::<Vec<_>>(), [true, true]);
    let replies = world.replies;
    world.complete_at(0);
    world.complete_at(at(&world, to_slow));
    assert_eq!((world.replies - replies, world.in_flight()), (2, 0));
    // Then the copies take what was written, but for what another write has changed since.
    let under_way = world.commands();
    assert!(under_way.len() >= 2 && under_way.iter().all(to_fast), "{under_way:?}");
    // Meanwhile it is read from memory, a further write goes home, and with write-back one to the slot waits for what is on its way there.
    let before = reads(&world);
    world.submit(Request { offset: EXTENT * 4, ..block(Op::Read) });
    assert_eq!((world.in_flight(), reads(&world)), (0, before));
    world.submit(Request { offset: EXTENT * 4, ..block(Op::Write) });
    world.complete_at(at(&world, to_slow));
    assert_eq!(world.in_flight(), 0);
    world.retune(Tuning { write: WritePolicy::Back, ..tuning });
    let commands = world.commands().len();
    world.submit(Request { offset: EXTENT * 4, ..block(Op::Write) });
    assert_eq!((world.commands().len(), world.in_flight()), (commands, 1));
    world.complete_all();
    world.read_all();
}

#[test]
fn what_is_read_beside_a_write_that_is_older_than_the_move_does_not_come_in() {
    let tuning = Tuning { write: WritePolicy::Through, ..tuning() };
    let mut world = World::new(sized(4, 32, tuning), EXTENT, 1);
    let block = |op, block| Request { op, offset: EXTENT * 3 + Bytes::kib(4) * block, len: Bytes::kib(4) };
    world.access(Op::Read, EXTENT * 3, Bytes::kib(4));
    // The first write goes past the copy, which does not have its block. The second one begins a move, which the read would join.
    world.submit(block(Op::Write, 5));
    world.submit(block(Op::Write, 0));
    world.submit(block(Op::Read, 5));
    assert_eq!(world.commands().len(), 3);
    // The read is answered before the first write has reached the device.
    world.complete_at(2);
    world.complete_all();
    world.access(Op::Read, EXTENT * 3, EXTENT);
    world.read_all();
}

#[test]
fn a_copy_that_could_not_take_what_was_written_home_is_gone() {
    let tuning = Tuning { write: WritePolicy::Through, ..tuning() };
    let mut world = World::new(sized(4, 32, tuning), EXTENT, 1);
    let block = |op| Request { op, offset: EXTENT * 3, len: Bytes::kib(4) };
    world.access(Op::Read, EXTENT * 3, EXTENT);
    world.submit(block(Op::Write));
    world.complete_at(0);
    assert_eq!((world.in_flight(), world.failures), (0, 0));
    world.driver_fails(0);
    world.complete_all();
    let before = reads(&world);
    world.submit(block(Op::Read));
    world.complete_all();
    assert_eq!(reads(&world) - before, 1, "it is read from the slow device");
    world.read_all();
}

#[test]
fn reads_of_an_extent_that_is_being_read_go_on_and_come_in_with_it() {
    let mut world = world();
    let blocks =
        [0, 5, 9].map(|block| Request { op: Op::Read, offset: EXTENT * 3 + Bytes::kib(4) * block, len: Bytes::kib(4) });
    for request in blocks {
        world.submit(request);
    }
    assert_eq!(world.commands().len(), 3, "none waits for another");
    // One of them fails: nothing comes in, and the others are answered.
    world.driver_fails(1);
    world.complete_all();
    assert_eq!((world.failures, world.replies, world.engine.stats().fast_hits), (1, 3, 0));
    let before = reads(&world);
    for request in blocks {
        world.submit(request);
    }
    world.complete_all();
    for request in blocks {
        world.access(request.op, request.offset, request.len);
    }
    assert_eq!((reads(&world) - before, world.engine.stats().fast_hits), (3, 3));
    world.read_all();
}

#[test]
fn a_read_takes_what_lies_between_two_gaps_from_the_slow_device_too() {
    // Four blocks in the middle of an extent are on the fast device, clean or dirty.
    let (there, whole) = (EXTENT * 3 + Bytes::kib(16), EXTENT * 3);
    let mut world = world();
    world.access(Op::Read, there, Bytes::kib(16));
    let before = (reads(&world), moved(&world)[0]);
    world.access(Op::Read, whole, EXTENT);
    assert_eq!((reads(&world) - before.0, moved(&world)[0] - before.1), (1, EXTENT.0), "clean: one command");
    world.access(Op::Read, whole, EXTENT);
    assert_eq!(reads(&world) - before.0, 1, "all of it is there now");

    // Of what is dirty only the fast device has the newest. It is read after the rest, as long as that device answers sooner.
    for (slow_takes, fast_takes, commands) in [(8, 1, 1), (1, 8, 2)] {
        let mut world = World::new(config(Kind::Caching, EXTENT), EXTENT, 1);
        for takes in [slow_takes, fast_takes] {
            // The first of these reads brings the block in.
            world.submit(Request { op: Op::Read, offset: Bytes::ZERO, len: Bytes::kib(4) });
            world.tick(Nanos::from_ms(takes));
            world.complete_all();
        }
        world.access(Op::Write, there, Bytes::kib(16));
        let before = reads(&world);
        world.submit(Request { op: Op::Read, offset: whole, len: EXTENT });
        let of_slow = |command: &Command| matches!(command, Command::Read { device: SLOW, .. });
        let first = world.commands();
        assert_eq!(first.iter().filter(|command| of_slow(command)).count(), commands, "{slow_takes} ms: {first:?}");
        world.complete_all();
        assert_eq!(reads(&world) - before, commands as u64, "{slow_takes} ms");
        world.read_all();
    }
}

#[test]
fn updates_are_committed_in_eights_of_blocks() {
    let tuning = Tuning { journal: Journal::Mirrored, ..tuning() };
    let mut world = World::new(sized(4096, 4096, tuning), EXTENT, 1);
    // A record has 12 bytes, and a block has 4,064 for records.
    let full = 8 * (4064 / 12);
    for extent in 0..full - 1 {
        world.access(Op::Read, EXTENT * extent, Bytes::kib(4));
    }
    let devices = |world: &World| [FAST, SLOW].map(|device| world.engine.stats().devices[device.index()].flushes);
    assert_eq!((world.engine.stats().commits, devices(&world)[1]), (0, 0));
    world.access(Op::Read, EXTENT * full, Bytes::kib(4));
    assert_eq!((world.engine.stats().commits, world.engine.stats().map_updates, devices(&world)[1]), (1, full, 1));
    // A host that flushes waits for no more than what it has written.
    world.access(Op::Write, Bytes::ZERO, Bytes::kib(4));
    world.access(Op::Flush, Bytes::ZERO, Bytes::ZERO);
    assert_eq!((world.engine.stats().commits, world.engine.stats().map_updates), (2, full + 1));
}

#[test]
fn reads_bring_in_what_surrounds_them_where_that_saves_other_reads() {
    let mut world = World::new(sized(256, 512, tuning()), EXTENT, 1);
    let read = |world: &mut World, extent, block| {
        let before = moved(world)[0];
        world.access(Op::Read, EXTENT * extent + Bytes::kib(4) * block, Bytes::kib(4));
        moved(world)[0] - before
    };
    // What is read once is brought in alone, however often that happens.
    for extent in 0..10 {
        assert_eq!(read(&mut world, extent, 5), 4096);
    }
    // Reads come to the same extents again, for other blocks.
    for extent in 40..80 {
        read(&mut world, extent, 5);
        read(&mut world, extent, 9);
    }
    let whole = (80..144).filter(|extent| read(&mut world, *extent, 5) == EXTENT.0).count();
    assert!((60..64).contains(&whole), "of 64 extents {whole} came in as a whole");
    // What is there, and may be newer, is not read again.
    world.access(Op::Write, EXTENT * 200 + Bytes::kib(8), Bytes::kib(4));
    assert_eq!(read(&mut world, 200, 5), (16 - 3) * 4096);
    world.read_all();
}

#[test]
fn what_is_dirty_without_a_gap_goes_home_in_one_command() {
    let mut world = World::new(sized(16, 64, tuning()), EXTENT, 1);
    let cleaning = peryton_engine::Cause::WriteBack as usize;
    let written = |world: &World| world.engine.stats().devices[SLOW.index()].writes[cleaning];
    // The end of one extent, all of the next, and the beginning of the third; and a block behind that.
    world.access(Op::Write, EXTENT + Bytes::kib(56), Bytes::kib(8));
    world.access(Op::Write, EXTENT * 2, EXTENT);
    world.access(Op::Write, EXTENT * 3, Bytes::kib(12));
    world.access(Op::Write, EXTENT * 3 + Bytes::kib(40), Bytes::kib(4));
    let before = (written(&world), moved(&world)[1]);
    world.clean();
    assert_eq!(moved(&world)[1] - before.1, (8 + 64 + 12 + 4) * 1024);
    assert_eq!(written(&world) - before.0, 2);
    // A clean block between two dirty ones goes with them.
    world.access(Op::Write, EXTENT * 2, Bytes::kib(4));
    world.access(Op::Write, EXTENT * 2 + Bytes::kib(8), Bytes::kib(4));
    let before = moved(&world)[1];
    world.tick(Nanos::from_s(1));
    world.clean();
    assert_eq!(moved(&world)[1] - before, 12 * 1024);
    world.read_all();
}

#[test]
fn while_there_is_room_extents_come_in_at_their_first_miss() {
    let rare = Tuning { promotion_threshold: 2, comes_in_early: true, ..tuning() };
    let tuning = Tuning { demotion_low: 2, demotion_high: 4, ..rare.clone() };
    let mut world = World::new(sized(16, 64, tuning), EXTENT, 1);
    for extent in 0..12 {
        world.access(Op::Write, EXTENT * extent, Bytes::kib(4));
    }
    assert_eq!(moved(&world), [0, 0], "there was room for 12 and 4 more");
    world.access(Op::Write, EXTENT * 12, Bytes::kib(4));
    assert_eq!(moved(&world), [0, 4096], "from now on an extent has to miss more often");
    // One of which a block would have to be read first goes home in any case.
    let mut world = World::new(sized(16, 64, rare), EXTENT, 1);
    for miss in 1..6 {
        world.access(Op::Write, EXTENT * 20 + Bytes(512), Bytes(512));
        assert_eq!(moved(&world), [0, 512 * miss]);
    }
    // A read brings it in; then it is written there.
    world.access(Op::Read, EXTENT * 20, Bytes::kib(4));
    world.access(Op::Write, EXTENT * 20 + Bytes(512), Bytes(512));
    assert_eq!(moved(&world), [4096, 512 * 5]);
    world.read_all();
}

#[test]
fn the_slow_device_has_a_commit_for_each_region_that_becomes_dirty() {
    let tuning = Tuning { journal: Journal::Named, ..tuning() };
    // Regions of 32 extents.
    let mut world = World::new(sized(512, 512, tuning), EXTENT, 1);
    let metadata = peryton_engine::Cause::Metadata as usize;
    let mut commits_of = |extents: &mut dyn Iterator<Item = u64>| {
        let before = world.engine.stats().devices[SLOW.index()].writes[metadata];
        for extent in extents {
            world.access(Op::Write, EXTENT * extent, Bytes::kib(4));
            world.access(Op::Flush, Bytes::ZERO, Bytes::ZERO);
        }
        world.engine.stats().devices[SLOW.index()].writes[metadata] - before
    };
    assert_eq!(commits_of(&mut [0].into_iter()), 1);
    assert_eq!(commits_of(&mut (8..40)), 1, "of the second region");
    assert_eq!(commits_of(&mut (0..256).step_by(16)), 6);
    assert_eq!(commits_of(&mut (1..256).step_by(16)), 0);
    world.read_all();
}

#[test]
fn with_named_regions_the_slow_device_has_commits_of_further_dirty_ones_alone() {
    for journal in [Journal::Mirrored, Journal::Named] {
        let tuning = Tuning { journal, ..tuning() };
        // So many that no checkpoint is due meanwhile.
        let mut world = World::new(sized(512, 512, tuning), EXTENT, 1);
        let metadata = peryton_engine::Cause::Metadata as usize;
        let commits_of = |world: &mut World, extent: u64, block: u64| {
            let before = world.engine.stats().devices[SLOW.index()].writes[metadata];
            world.access(Op::Write, EXTENT * extent + Bytes::kib(4) * block, Bytes::kib(4));
            world.access(Op::Flush, Bytes::ZERO, Bytes::ZERO);
            world.engine.stats().devices[SLOW.index()].writes[metadata] > before
        };
        // The slow device learns which commits it will have.
        commits_of(&mut world, 9, 0);
        let writes = [(40, 0), (40, 3), (70, 0), (41, 7), (71, 8)];
        let found = writes.map(|(extent, block)| commits_of(&mut world, extent, block));
        let expected = match journal {
            Journal::Mirrored => [true; 5],
            Journal::Named => [true, false, true, false, false],
        };
        assert_eq!(found, expected, "{journal:?}");
        // Written back, and dirty once more: the slow device names its region still.
        world.clean();
        world.tick(Nanos::from_s(10));
        world.settle();
        assert_eq!(commits_of(&mut world, 40, 0), journal == Journal::Mirrored, "{journal:?}");
        world.read_all();
    }
}

#[test]
fn writes_that_the_host_waits_for_come_in_sooner() {
    // One extent comes in because there is room, and then there is none.
    let rare = Tuning { promotion_threshold: 4, comes_in_early: true, demotion_high: 15, ..tuning() };
    for (flushed, home) in [(true, 0), (false, 4)] {
        let mut world = World::new(sized(16, 64, rare.clone()), EXTENT, 1);
        let flush = |world: &mut World| {
            if flushed {
                world.access(Op::Flush, Bytes::ZERO, Bytes::ZERO);
            }
        };
        // The host is seen to flush after each write.
        for extent in 0..100 {
            world.access(Op::Write, EXTENT * (extent % 50), Bytes(512));
            flush(&mut world);
        }
        world.access(Op::Write, EXTENT * 61, Bytes::kib(4));
        flush(&mut world);
        let before = moved(&world)[1];
        for _ in 0..6 {
            world.access(Op::Write, EXTENT * 60, Bytes::kib(4));
            flush(&mut world);
        }
        assert_eq!(moved(&world)[1] - before, home * 4096, "{flushed}");
        world.read_all();
    }
}

#[test]
fn what_is_dirty_counts_against_the_target_and_not_its_extents() {
    let cleaning = Cleaning { dirty_target_ppm: 400_000, ..Cleaning::UNBOUNDED };
    let tuning = Tuning { cleaning, writeback_delay: Nanos::from_s(1_000), ..tuning() };
    let mut world = World::new(sized(100, 200, tuning), EXTENT, 1);
    // A block each of 70 extents: more extents than the target, and much less than it.
    for extent in 0..70 {
        world.access(Op::Write, EXTENT * extent, Bytes::kib(4));
    }
    assert_eq!(moved(&world), [0, 0]);
    // Whatever is written then, no more is dirty than the target allows.
    let mut most = Bytes::ZERO;
    for extent in 0..100 {
        world.access(Op::Write, EXTENT * extent, EXTENT);
        most = most.max(world.engine.dirty_bytes());
    }
    assert!(most <= EXTENT * 40 && most >= EXTENT * 30, "{most} of {} were dirty", EXTENT * 100);
    world.read_all();
}

#[test]
fn a_read_is_served_from_both_devices() {
    let mut world = world();
    world.access(Op::Write, EXTENT + Bytes::kib(8), Bytes::kib(8));
    world.access(Op::Read, EXTENT, Bytes::kib(32));
    // The first gap is brought in, and the second one read.
    assert_eq!(moved(&world), [8192 + 16384, 0]);
    world.access(Op::Read, EXTENT, Bytes::kib(16));
    assert_eq!(moved(&world), [8192 + 16384, 0]);
    world.read_all();
}

#[test]
fn a_write_of_less_than_a_block_brings_in_the_rest_of_it() {
    let mut world = world();
    world.access(Op::Write, Bytes(512), Bytes(512));
    assert_eq!(moved(&world), [4096, 0]);
    world.access(Op::Write, Bytes(1024), Bytes(512));
    assert_eq!(moved(&world), [4096, 0]);
    assert_eq!(world.engine.dirty_bytes(), Bytes::kib(4));
    world.read_all();
}

#[test]
fn an_eviction_takes_only_dirty_runs_home_and_loses_none() {
    let mut world = world();
    for block in [0, 1, 5, 9, 10, 11] {
        world.access(Op::Write, Bytes::kib(4) * block, Bytes::kib(4));
    }
    for extent in 1..32 {
        world.access(Op::Write, EXTENT * extent, Bytes::kib(4));
        world.tick(Nanos::from_s(1));
        world.settle();
    }
    assert!(world.engine.stats().moves.demotions > 20);
    let [read, written] = moved(&world);
    assert_eq!(read, 0);
    assert!(written <= (6 + 31) * 4096, "{written}");
    world.read_all();
}

#[test]
fn a_hit_on_a_part_and_on_a_whole_is_one_command() {
    let mut world = world();
    world.access(Op::Write, Bytes::kib(4), Bytes::kib(4));
    let before = world.engine.stats().devices[FAST.index()].reads.iter().sum::<u64>();
    world.access(Op::Read, Bytes::kib(4), Bytes::kib(4));
    assert_eq!(world.engine.stats().devices[FAST.index()].reads.iter().sum::<u64>(), before + 1);
    assert_eq!(moved(&world), [0, 0]);
}

/// A cache of extents of one block, with the thresholds of a design that names none.
fn single_blocks(fast: u64) -> World {
    let extent = Bytes::kib(4);
    let usual = Tuning { promotion_threshold: 4, comes_in_early: true, demotion_high: 2, ..tuning() };
    let config = Config { devices: vec![extent * fast, extent * 64], tuning: usual, ..config(Kind::Caching, extent) };
    World::new(config, extent, 1)
}

#[test]
fn an_extent_of_one_block_comes_in_like_any_other_while_there_is_room() {
    let mut world = single_blocks(16);
    let block = Bytes::kib(4);
    world.access(Op::Write, block * 3, block);
    assert_eq!(moved(&world), [0, 0], "a write takes a place and reads nothing");
    world.access(Op::Read, block * 5, block);
    world.access(Op::Read, block * 5, block);
    assert_eq!(moved(&world), [4096, 0], "a read brings its block in at its first miss");
    world.access(Op::Write, block * 7, Bytes(512));
    assert_eq!(
        moved(&world),
        [4096, 512],
        "a write of less than the block goes home, because it would wait for a read"
    );
    world.access(Op::Write, block * 10, block * 3);
    assert_eq!((moved(&world), world.engine.dirty_bytes()), ([4096, 512], block * 4));
    world.clean();
    assert_eq!(moved(&world), [4096, 512 + 4 * 4096]);
    // When the room is used up, an extent has to miss more often.
    for extent in 20..40 {
        world.access(Op::Write, block * extent, block);
    }
    let before = moved(&world)[1];
    world.access(Op::Write, block * 50, block);
    assert_eq!(moved(&world)[1] - before, 4096);
    world.read_all();
}

#[test]
fn a_partitioned_drive_takes_blocks_as_extents_too() {
    let extent = Bytes::kib(4);
    let mut world = World::new(config(Kind::Partitioned, extent), extent, 1);
    world.access(Op::Write, extent * 2, extent);
    assert_eq!(moved(&world), [0, 0]);
    world.read_all();
}

#[test]
fn without_write_back_a_write_goes_home_and_brings_in_nothing() {
    let mut world = world();
    world.retune(Tuning { write: WritePolicy::Through, ..tuning() });
    world.access(Op::Write, Bytes::ZERO, Bytes::kib(4));
    world.access(Op::Read, Bytes::ZERO, Bytes::kib(4));
    world.access(Op::Write, Bytes::ZERO, Bytes::kib(8));
    assert_eq!((moved(&world), world.engine.dirty_bytes()), ([4096, 4096 + 8192], Bytes::ZERO));
    world.read_all();
}

#[test]
fn without_write_back_the_slow_device_is_flushed_for_the_host_alone() {
    for write in [WritePolicy::Through, WritePolicy::Around] {
        let tuning = Tuning { write, commit_interval: Nanos::from_ms(10), ..tuning() };
        // The journal has room for all commits.
        let mut world = World::new(sized(512, 512, tuning), EXTENT, 1);
        let flushes = |world: &World, device: DeviceId| world.engine.stats().devices[device.index()].flushes;
        // The first commit records on the slow device that it has all data.
        world.access(Op::Read, Bytes::ZERO, Bytes::kib(4));
        world.tick(Nanos::from_ms(100));
        world.complete_all();
        let before = [FAST, SLOW].map(|device| flushes(&world, device));
        let commits = world.engine.stats().commits;
        for extent in 0..40 {
            world.access(Op::Read, EXTENT * extent, Bytes::kib(8));
            world.access(Op::Write, EXTENT * extent + Bytes::kib(4), Bytes::kib(4));
            world.tick(Nanos::from_ms(100));
            world.complete_all();
        }
        assert!(world.engine.stats().commits - commits >= 20, "{write:?}");
        assert!(flushes(&world, FAST) > before[0], "{write:?}");
        assert_eq!(flushes(&world, SLOW), before[1], "{write:?}");
        world.access(Op::Flush, Bytes::ZERO, Bytes::ZERO);
        assert_eq!(flushes(&world, SLOW), before[1] + 1, "{write:?}");
        world.read_all();
    }
}

#[test]
fn a_partitioned_drive_takes_parts_too() {
    let mut world = World::new(config(Kind::Partitioned, EXTENT), EXTENT, 1);
    world.access(Op::Write, EXTENT * 2 + Bytes::kib(12), Bytes::kib(4));
    assert_eq!(moved(&world), [0, 0], "with whole extents it would go to the slow device");
    world.read_all();
}

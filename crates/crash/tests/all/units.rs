//! A slow device that maps its data in large units: what is written back is whole units, and no write of the host is lost by that.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::World;
use peryton_crash::{Kind, placement_on};
use peryton_engine::{
    Buffer, Bypass, Cause, Cleaning, Command, Config, DeviceId, Engine, Hybrid, Request, Tuning, WritePolicy,
};
use peryton_units::{Bytes, Nanos, Op};

const EXTENT: Bytes = Bytes::kib(64);
const BLOCK: Bytes = Bytes::kib(4);
const SLOW: DeviceId = DeviceId(1);

fn tuning(unit: Bytes) -> Tuning {
    Tuning {
        demotion_low: 0,
        demotion_high: 0,
        bypass: Bypass { sequential: None, congested: false },
        cleaning: Cleaning::UNBOUNDED,
        write_unit: Some(unit),
        ..Tuning::default()
    }
}

fn config(slots: u64, tuning: Tuning) -> Config {
    let placement = placement_on(Kind::Caching, Hybrid { fast: DeviceId(0), slow: SLOW, extent: EXTENT });
    Config { devices: vec![EXTENT * slots, EXTENT * 400], placement, tuning }
}

fn world(slots: u64, tuning: Tuning) -> World {
    World::new(config(slots, tuning), EXTENT, 1)
}

impl World {
    fn write(&mut self, extent: u64, block: u64, blocks: u64) {
        self.submit(Request { op: Op::Write, offset: EXTENT * extent + BLOCK * block, len: BLOCK * blocks });
        self.complete_all();
    }

    /// The writes to and the reads of the slow device that are in flight, as blocks of the volume: the first one, and how many.
    fn at_home(&self, op: Op) -> Vec<(u64, u64)> {
        let data_at = self.engine.data_at(SLOW);
        let range = |command: &Command| match *command {
            Command::Write { device: SLOW, at, len, cause: Cause::WriteBack | Cause::Demotion, .. }
                if op == Op::Write =>
            {
                Some((at, len))
            }
            Command::Read { device: SLOW, at, len, cause: Cause::WriteBack, .. } if op == Op::Read => Some((at, len)),
            _ => None,
        };
        let blocks = |(at, len): (Bytes, Bytes)| ((at - data_at).0 / BLOCK.0, len.0 / BLOCK.0);
        self.commands().iter().filter_map(range).map(blocks).collect()
    }

    /// Completes the commands in flight of these, and what follows of them, until there are none.
    fn complete(&mut self, which: impl Fn(&Command) -> bool) {
        while let Some(index) = self.commands().iter().position(&which) {
            self.complete_at(index);
        }
    }
}

fn reads(command: &Command) -> bool {
    matches!(command, Command::Read { .. })
}

#[test]
fn a_write_back_completes_its_units() {
    for (unit, whole) in [(8, vec![(2, 2), (10, 4)]), (16, vec![(0, 4), (8, 8)]), (64, vec![(0, 16)])] {
        let mut world = world(8, tuning(Bytes::kib(unit)));
        world.write(3, 2, 1);
        world.write(3, 11, 2);
        world.driver_cleans();
        let missing: u64 = world.at_home(Op::Read).iter().map(|(_, blocks)| blocks).sum();
        let written: u64 = whole.iter().map(|(_, blocks)| blocks).sum();
        assert_eq!(missing, written - 3, "{unit} KiB: what the fast device has is not read from home");
        world.complete(reads);
        let expected: Vec<_> = whole.into_iter().map(|(first, blocks)| (3 * 16 + first, blocks)).collect();
        assert_eq!(world.at_home(Op::Write), expected, "{unit} KiB");
        world.complete_all();
        assert_eq!(world.engine.dirty_extents(), 0);
        world.read_all();
    }
}

#[test]
fn extents_that_are_not_whole_units_are_refused() {
    let refused = Engine::new(config(8, tuning(Bytes::kib(128)))).unwrap_err().to_string();
    assert!(refused.contains("placement.write_unit") && refused.contains("whole number of units"), "{refused}");
    let refused = Engine::new(config(8, tuning(Bytes::kib(24)))).unwrap_err().to_string();
    assert!(refused.contains("power of two"), "{refused}");
}

#[test]
fn a_small_write_that_misses_comes_in_and_a_whole_unit_does_not() {
    let mut world = world(8, tuning(Bytes::kib(16)));
    world.write(3, 2, 1);
    assert_eq!(world.engine.dirty_bytes(), BLOCK);
    world.write(5, 4, 8);
    assert_eq!(world.engine.dirty_bytes(), BLOCK, "two whole units go home past the cache");
    world.write(5, 4, 9);
    assert_eq!(world.engine.dirty_bytes(), BLOCK * 10, "an incomplete one comes in");
    // A write of less than a block comes in as well; the rest of the block is read.
    world.submit(Request { op: Op::Write, offset: EXTENT * 3 + BLOCK * 9 + Bytes(512), len: Bytes(512) });
    world.complete_all();
    assert_eq!(world.engine.dirty_bytes(), BLOCK * 11);
    world.driver_cleans();
    world.settle();
    world.read_all();
}

/// A write past the cache while a unit is being completed with what was there before.
#[test]
fn a_write_to_the_home_of_what_completes_a_unit_is_not_undone() {
    for begins_while_reading in [true, false] {
        let mut world = world(8, tuning(Bytes::kib(64)));
        world.write(3, 2, 1);
        world.driver_cleans();
        if begins_while_reading {
            // The home is read, then written by the host, before the write-back.
            let home = |command: &Command| matches!(command, Command::Read { device: SLOW, .. });
            world.complete(home);
        } else {
            world.complete(reads);
            assert_eq!(world.at_home(Op::Write), [(48, 16)]);
        }
        // From now on nothing that is written comes in.
        world.retune(Tuning { write: WritePolicy::Through, ..tuning(Bytes::kib(64)) });
        world.submit(Request { op: Op::Write, offset: EXTENT * 3 + BLOCK * 9, len: BLOCK });
        let by_host = |world: &World| {
            let host = |command: &&Command| {
                matches!(command, Command::Write { device: SLOW, buffer: Buffer::Request { .. }, .. })
            };
            world.commands().iter().filter(host).count()
        };
        assert_eq!(by_host(&world), usize::from(begins_while_reading), "it waits while its home is being written");
        if begins_while_reading {
            world.complete(reads);
            assert_eq!(world.at_home(Op::Write), [(48, 9), (58, 6)], "what it writes is left out");
        }
        world.complete_all();
        world.settle();
        world.read_all();
    }
}

#[test]
fn what_cannot_be_read_to_complete_a_unit_keeps_nothing_from_going_home() {
    let mut world = world(8, tuning(Bytes::kib(64)));
    world.write(3, 2, 1);
    world.driver_cleans();
    while let Some(index) =
        world.commands().iter().position(|command| matches!(command, Command::Read { device: SLOW, .. }))
    {
        world.driver_fails(index);
    }
    world.complete(reads);
    assert_eq!(world.at_home(Op::Write), [(50, 1)]);
    world.complete_all();
    assert_eq!(world.engine.dirty_extents(), 0);
    world.read_all();
}

#[test]
fn what_cannot_be_written_to_complete_a_unit_keeps_nothing_from_going_home() {
    for neighbours in [1, 2] {
        let mut world = world(8, tuning(Bytes::kib(64)));
        for extent in 3..3 + neighbours {
            world.write(extent, 2, 1);
        }
        world.driver_cleans();
        let mut tried = Vec::new();
        for _ in 0..100 {
            world.complete(reads);
            let large = |command: &Command| matches!(command, Command::Write { device: SLOW, len, cause: Cause::WriteBack, .. } if *len > BLOCK);
            let Some(index) = world.commands().iter().position(large) else { break };
            tried.push(world.at_home(Op::Write)[0].1);
            world.driver_fails(index);
        }
        let whole = if neighbours == 1 { vec![16] } else { vec![32, 16, 16] };
        assert_eq!(tried, whole, "whole units are tried first, together and each");
        world.complete_all();
        assert_eq!(world.engine.dirty_extents(), 0);
        world.read_all();
    }
}

#[test]
fn the_fullest_units_go_home_first_and_the_others_when_they_are_too_old() {
    let max_age = Nanos::from_s(600);
    let cleaning = Cleaning { dirty_target_ppm: 800_000, max_age, ..Cleaning::UNBOUNDED };
    let mut world = world(100, Tuning { cleaning, ..tuning(Bytes::kib(64)) });
    // Up to where it begins to clean.
    for extent in 0..80 {
        let blocks = if extent % 4 == 3 { 15 } else { 1 };
        world.write(extent, 0, blocks);
    }
    let is_dirty = |world: &World, extent| world.engine.location(EXTENT * extent).unwrap().dirty;
    let left = |world: &World, full: bool| {
        (0..80).filter(|extent| (extent % 4 == 3) == full && is_dirty(world, *extent)).count()
    };
    for extent in 80..92 {
        world.write(extent, 0, 1);
        world.tick(Nanos::from_ms(20));
        world.complete_all();
    }
    let (full, others) = (left(&world, true), left(&world, false));
    assert!(full <= 10 && others == 60, "{full} of 20 full ones and {others} of 60 others are left");
    // Nothing of the others goes home because the device is idle, until they are old.
    for _ in 0..30 {
        world.tick(Nanos::from_s(10));
        world.complete_all();
    }
    assert_eq!(left(&world, false), 60);
    for _ in 0..40 {
        world.tick(Nanos::from_s(10));
        world.complete_all();
    }
    assert_eq!(world.engine.dirty_extents(), 0);
    world.read_all();
}

//! Two extents of which the fast device has different blocks share the room of one. The fear: the one overwrites the other, in the present
//! or in what a power loss leaves; or what has no room is lost.

#![allow(clippy::unwrap_used)]

use crate::{common, crashing, parts};

use common::World;
use crashing::{Machine, check_all, check_unless_lost, formatted, open};
use peryton_crash::{Kind, placement_on};
use peryton_engine::{Config, DeviceId, Engine, Fill, Hybrid, Tuning, WritePolicy};
use peryton_units::{Bytes, Nanos, Op};

const EXTENT: Bytes = Bytes::kib(64);
const BLOCK: Bytes = Bytes::kib(4);
const FAST: DeviceId = DeviceId(0);
const SLOW: DeviceId = DeviceId(1);

fn config(frames: u64, tuning: Tuning) -> Config {
    let placement = placement_on(Kind::Caching, Hybrid { fast: FAST, slow: SLOW, extent: EXTENT });
    Config { devices: vec![EXTENT * frames, EXTENT * 256], placement, tuning }
}

fn tuning() -> Tuning {
    Tuning { share_frames: true, ..parts::tuning(Fill::Part) }
}

fn world(frames: u64) -> World {
    World::new(config(frames, tuning()), EXTENT, 1)
}

/// The offset of a block of an extent.
fn at(extent: u64, block: u64) -> Bytes {
    EXTENT * extent + BLOCK * block
}

impl World {
    fn write_block(&mut self, extent: u64, block: u64) {
        self.access(Op::Write, at(extent, block), BLOCK);
    }

    /// How many reads and writes of the host, of all kinds, went to the slow device.
    fn went_home(&self) -> u64 {
        let slow = &self.engine.stats().devices[SLOW.index()];
        let host = peryton_engine::Cause::Host as usize;
        slow.reads[host] + slow.writes[host]
    }
}

#[test]
fn twice_as_many_extents_have_room_if_each_has_a_few_blocks() {
    // 64 frames, of which 8 are to stay free, and 8 beside them.
    for (shares, extents) in [(true, 136), (false, 64)] {
        let mut world = World::new(config(64, Tuning { share_frames: shares, ..tuning() }), EXTENT, 1);
        for extent in 0..extents {
            world.write_block(extent, extent % 16);
        }
        assert_eq!(world.went_home(), 0, "shares: {shares}");
        for extent in 0..extents {
            world.access(Op::Read, at(extent, extent % 16), BLOCK);
        }
        assert_eq!((world.went_home(), world.engine.stats().moves.demotions), (0, 0), "shares: {shares}");
        assert_eq!(world.engine.dirty_bytes(), BLOCK * extents);
        world.engine.check_invariants();
        world.read_all();
    }
}

#[test]
fn an_extent_with_many_blocks_has_its_room_alone() {
    let mut world = world(64);
    for extent in 0..72 {
        world.access(Op::Write, EXTENT * extent, BLOCK * 3);
    }
    let resident = world.engine.stats().moves.promotions - world.engine.stats().moves.demotions;
    assert!(resident <= 72, "{resident} extents have a part there");
    world.read_all();
}

#[test]
fn an_extent_that_needs_a_block_of_the_other_one_makes_it_leave() {
    let mut world = world(64);
    // Two in each frame, of which the second has block 5.
    for extent in 0..128 {
        world.write_block(extent, if extent < 72 { extent % 4 } else { 5 });
    }
    let (home, left) = (world.went_home(), world.engine.stats().moves.demotions);
    assert_eq!(home, 0);
    for extent in 0..72 {
        world.write_block(extent, 5);
    }
    // Those with a neighbour wrote home, and it has left, after it was written home.
    let (wrote, left) = (world.went_home() - home, world.engine.stats().moves.demotions - left);
    assert!((40..=56).contains(&wrote), "{wrote} writes went home");
    assert!(left >= wrote / 2, "{left} extents left");
    world.access(Op::Flush, Bytes::ZERO, Bytes::ZERO);
    world.tick(Nanos::from_s(10));
    world.settle();
    // Now there is room.
    let home = world.went_home();
    (0..72).for_each(|extent| world.write_block(extent, 5));
    assert!(world.went_home() - home <= 4, "{} went home again", world.went_home() - home);
    world.read_all();
}

#[test]
fn a_write_that_has_room_for_a_part_goes_to_both_devices() {
    for write in [WritePolicy::Back, WritePolicy::Through] {
        let mut world = World::new(config(16, Tuning { write, ..tuning() }), EXTENT, 1);
        // Each frame has two extents, with blocks 0 and 2.
        for extent in 0..36 {
            world.access(Op::Read, at(extent, if extent < 18 { 0 } else { 2 }), BLOCK);
        }
        for extent in 0..36 {
            world.access(Op::Write, EXTENT * extent, BLOCK * 4);
            world.access(Op::Read, EXTENT * extent, BLOCK * 4);
        }
        world.engine.check_invariants();
        world.read_all();
    }
}

/// Writes a block of each extent, so that two are in each frame, and returns what the volume holds.
fn two_in_each_frame(machine: &mut Machine, frames: u64) -> Vec<u8> {
    let mut model = vec![0; machine.engine.volume_size().0 as usize];
    for extent in 0..2 * frames {
        write(machine, &mut model, extent, if extent < frames { 0 } else { 1 });
    }
    machine.request(Op::Flush, 0, Vec::new());
    assert_eq!(machine.engine.dirty_bytes(), BLOCK * (2 * frames), "all of it is on the fast device");
    model
}

fn write(machine: &mut Machine, model: &mut [u8], extent: u64, block: u64) {
    let at = at(extent, block).0;
    let bytes = vec![(extent % 250) as u8 + 1 + block as u8; BLOCK.0 as usize];
    model[at as usize..(at + BLOCK.0) as usize].copy_from_slice(&bytes);
    machine.request(Op::Write, at, bytes);
}

#[test]
fn what_was_flushed_of_both_survives() {
    let config = config(32, tuning());
    let mut machine = open(&config, formatted(&config)).unwrap();
    let mut model = two_in_each_frame(&mut machine, 32);
    for round in 0..6 {
        if round % 2 == 0 {
            machine.driver.disks.lose_everything();
        } else {
            machine.close();
        }
        machine = open(&config, machine.driver.disks).unwrap();
        check_all(&mut machine, &model);
        // One of them needs a block that the other one has; it is written to its home, and there once the other one has left.
        for extent in 0..32 {
            write(&mut machine, &mut model, extent, 1);
        }
        machine.request(Op::Flush, 0, Vec::new());
    }
    check_all(&mut machine, &model);
}

/// A volume whose slow device was replaced by an empty one: of extents on the fast device only the blocks there are not lost.
#[test]
fn lost_blocks_whose_room_is_taken_can_be_written_again() {
    let config = config(32, tuning());
    let mut machine = open(&config, formatted(&config)).unwrap();
    let mut model = two_in_each_frame(&mut machine, 32);
    machine.settle();
    machine.close();
    let mut disks = machine.driver.disks;
    disks.0[SLOW.index()] = crashing::blank(&config).0[SLOW.index()].take();
    Engine::replace(config.clone(), &mut disks, SLOW, true).unwrap();
    let mut machine = open(&config, disks).unwrap();
    let lost = check_unless_lost(&mut machine, &model);
    assert_eq!(lost.len(), 256 * 16 - 64, "all but what the fast device had");
    // Of the first extents block 1 is where the second ones have theirs, and these cannot leave: their other blocks are lost.
    let lost_before = machine.engine.losses(0).bytes;
    for extent in 0..32 {
        write(&mut machine, &mut model, extent, 1);
        let found = machine.request(Op::Read, at(extent, 1).0, vec![0xcc; BLOCK.0 as usize]);
        assert_eq!(found[0], model[at(extent, 1).0 as usize], "extent {extent}");
    }
    assert_eq!(lost_before - machine.engine.losses(0).bytes, BLOCK * 32);
    let home = machine.engine.stats().devices[SLOW.index()].writes[peryton_engine::Cause::Host as usize];
    assert!(home >= 16, "{home} writes had to go home: the test tests nothing");
    machine.request(Op::Flush, 0, Vec::new());
    machine.driver.disks.lose_everything();
    let mut machine = open(&config, machine.driver.disks).unwrap();
    let lost = check_unless_lost(&mut machine, &model);
    assert_eq!(lost.len(), 256 * 16 - 96);
}

/// The room on the fast device is that of formatting, whatever the configuration says later.
#[test]
fn a_volume_stays_as_it_was_formatted() {
    for shares in [true, false] {
        let formatted_with = config(32, Tuning { share_frames: shares, ..tuning() });
        let opened_with = config(32, Tuning { share_frames: !shares, ..tuning() });
        let mut machine = open(&formatted_with, formatted(&formatted_with)).unwrap();
        let extents = if shares { 64 } else { 24 };
        let mut model = vec![0; machine.engine.volume_size().0 as usize];
        (0..extents).for_each(|extent| write(&mut machine, &mut model, extent, extent % 16));
        machine.request(Op::Flush, 0, Vec::new());
        machine.driver.disks.lose_everything();
        let mut machine = open(&opened_with, machine.driver.disks).unwrap();
        check_all(&mut machine, &model);
        machine.settle();
        machine.close();
        let mut disks = machine.driver.disks;
        let inspected = Engine::inspect(opened_with, &mut disks, false, &[]).unwrap();
        assert_eq!(inspected.verdict, peryton_engine::Verdict::Clean, "{:?}", inspected.findings);
    }
}

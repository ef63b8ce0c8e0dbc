//! Snapshots of what a cache has learnt, spoilt while the power is off: bits flip, a half is as old as the other one, or the room holds
//! what no engine has written. No read may return something else for it, and no volume may be refused.

use peryton_engine::DeviceId;
use peryton_format::{
    block::{BLOCK, BLOCK_LEN},
    snapshot::{self, Header, MOST_LISTS, MOST_WORDS, Packer, Room},
    superblock::VolumeId,
};
use peryton_units::Bytes;
use rand::RngExt;

use crate::{
    disk::Disk,
    drive::Direct,
    world::{World, say},
};

/// One opening in this many finds snapshots as they were left.
const SPARED_ONE_IN: u32 = 2;

impl World {
    /// Spoils what is in the room for snapshots, in one way or another.
    pub(crate) fn spoil_snapshots(&mut self, disks: &mut [Disk]) {
        let Some(room) = self.room else { return };
        if disks[0].dead || self.room_rng.random_range(0..SPARED_ONE_IN) == 0 {
            return;
        }
        let how = self.room_rng.random_range(0..4);
        match how {
            0 => self.flip_bits(&mut disks[0], &room),
            1 => self.copy_half(&mut disks[0], &room),
            2 => self.forge(disks, &room, self.volume_id()),
            // Another volume was on the device before.
            _ => self.forge(disks, &room, VolumeId(u128::MAX)),
        }
        say!(self, "--- snapshots are spoilt ({how})");
    }

    fn flip_bits(&mut self, disk: &mut Disk, room: &Room) {
        for _ in 0..self.room_rng.random_range(1..6) {
            let at = room.at + Bytes(BLOCK * self.room_rng.random_range(0..room.bytes().0 / BLOCK));
            let mut block = vec![0; BLOCK_LEN];
            disk.read_bytes(at, &mut block);
            // Most of what is in a block is at its beginning.
            let bits = [128, BLOCK_LEN][self.room_rng.random_range(0..2)] * 8;
            let bit = self.room_rng.random_range(0..bits);
            block[bit / 8] ^= 1 << (bit % 8);
            write(disk, at, block);
        }
    }

    /// One half becomes what the other one is, as if a write had gone to the wrong place.
    fn copy_half(&mut self, disk: &mut Disk, room: &Room) {
        let from = self.room_rng.random_range(0..2);
        let mut half = vec![0; room.half.0 as usize];
        disk.read_bytes(room.half_at(from), &mut half);
        write(disk, room.half_at(from + 1), half);
    }

    /// Writes a snapshot that looks right and says nonsense.
    fn forge(&mut self, disks: &mut [Disk], room: &Room, volume: VolumeId) {
        let known = snapshot::headers(&mut Direct::new(disks), DeviceId(0), room, self.volume_id());
        let known = known.into_iter().flatten().max_by_key(|header| header.number).unwrap_or_default();
        let rng = &mut self.room_rng;
        let number = known.number + rng.random_range(0..3);
        // Some are of a generation that has not come yet.
        let generation = known.generation + [0, 0, 0, 5][rng.random_range(0..4)];
        let mut packer = Packer::new(volume, number, generation, room.most_blocks());
        for _ in 0..rng.random_range(0..300) {
            let list = match rng.random_range(0..4) {
                0 => rng.random_range(0..8),
                1 => rng.random_range(256..310),
                2 => rng.random_range(512..516),
                _ => rng.random_range(0..MOST_LISTS),
            };
            let width = [1, 2, 2, 3, 4, 5, 6, 8, 9, MOST_WORDS][rng.random_range(0..10)];
            for _ in 0..rng.random_range(1..12) {
                let word = |_| match rng.random_range(0..3) {
                    0 => rng.random(),
                    1 => rng.random_range(0..4),
                    _ => rng.random_range(0..80),
                };
                let item: Vec<u32> = (0..width).map(word).collect();
                packer.put(list, &item);
            }
        }
        packer.end();
        let mut bytes = Vec::new();
        packer.take(&mut bytes);
        let header = Header {
            number,
            generation,
            blocks: packer.blocks(),
            clock_ns: [0, known.clock_ns, 1 << 40, u64::MAX][rng.random_range(0..4)],
            policy: known.policy,
            rule: known.rule,
            ..Header::default()
        };
        let mut block = vec![0; BLOCK_LEN];
        header.encode(volume, &mut block);
        block.extend(&bytes);
        write(&mut disks[0], room.half_at(number), block);
    }

    fn volume_id(&self) -> VolumeId {
        self.volume
    }
}

/// What another program writes, or time does, is there for good.
fn write(disk: &mut Disk, at: Bytes, bytes: Vec<u8>) {
    let entry = disk.entry(at, bytes);
    disk.write(entry);
    disk.write_out();
}

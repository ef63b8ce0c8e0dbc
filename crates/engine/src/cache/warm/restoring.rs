//! Restores a snapshot when a volume is opened. Items of extents that are in another place by now are ignored. Extents without an item
//! entered the cache after the snapshot.

use peryton_format::{
    mutation::{self, Mutation},
    snapshot::{self, Header, Room, items},
    storage::Storage,
    superblock::VolumeId,
};
use peryton_policy::{ReplacementPolicy, replacement::SlotIndex};
use peryton_units::{Bytes, Nanos};

use super::{
    saving::taken,
    state::{GATE, MISSED, POLICY, READ_ON, RESIDENT, WEAR_ACCOUNT, set_usage},
};
use crate::{api::warmth::WarmStart, cache::drive::CacheDrive, cache::step::CacheIo};

impl CacheDrive {
    /// The room for snapshots that a volume made now would have on the fast device.
    pub(in crate::cache) fn room(&self) -> Room {
        self.layout.room()
    }

    /// Marks the room for snapshots, if the fast device is large enough for it.
    pub(in crate::cache) fn mark_room(
        &self,
        storage: &mut dyn Storage,
        volume: VolumeId,
    ) -> Result<(), peryton_format::storage::DeviceId> {
        let (room, fast) = (self.room(), self.layout.fast);
        match storage.size(fast) {
            Some(size) if size >= room.end() => room.mark(storage, fast, volume),
            _ => Ok(()),
        }
    }

    /// Looks for the room and for a snapshot in it. The engine's clock continues from the time of the snapshot. Returns false only with the
    /// mutation that refuses a volume with a torn snapshot.
    pub(in crate::cache) fn find_snapshot(
        &mut self,
        io: &mut CacheIo,
        storage: &mut dyn Storage,
        volume: VolumeId,
        (generation, room): (u64, Room),
    ) -> bool {
        let fast = self.layout.fast;
        if self.gone.fast || !room.is_marked(storage, fast, volume) {
            return true;
        }
        let (found, highest) = snapshot::newest(storage, fast, &room, volume, generation);
        let warm = &mut self.warm;
        (warm.room, warm.volume, warm.generation) = (Some(room), volume, generation);
        warm.report.room = room.bytes();
        warm.tried = highest;
        warm.kept = found.as_ref().map_or(0, |(header, _)| header.number);
        let is_torn = warm.kept < highest;
        if io.tuning.snapshot_interval.is_some()
            && let Some(found) = found
        {
            io.continue_from(Nanos(found.0.clock_ns));
            self.cleaner.slow_used = io.now;
            warm.found = Some(found);
        }
        !(is_torn && mutation::is(Mutation::RefuseTornSnapshot))
    }

    /// The fast device was resized: the room for snapshots lies elsewhere from now on, if the device is large enough for it.
    pub(crate) fn move_room(
        &mut self,
        storage: &mut dyn Storage,
        volume: VolumeId,
    ) -> Result<(), peryton_format::storage::DeviceId> {
        let (before, room, fast) = (self.warm.room, self.room(), self.layout.fast);
        if before == Some(room) || before.is_none() {
            return Ok(());
        }
        self.mark_room(storage, volume)?;
        self.warm.room = room.is_marked(storage, fast, volume).then_some(room);
        self.warm.report.room = self.warm.room.map_or(Bytes::ZERO, |room| room.bytes());
        Ok(())
    }

    /// Reports the extents on the fast device to the policies, with their use if the snapshot has it.
    pub(in crate::cache) fn warm_up(&mut self, io: &CacheIo) {
        let Some((header, blocks)) = self.warm.found.take() else {
            return self.begin_cold();
        };
        let clock = Nanos(header.clock_ns);
        let has_policy = header.policy == (io.tuning.replacement.name().to_owned(), self.policy.saved_version());
        let has_rule = header.rule == self.gate.saved_rule();
        let CacheDrive { map, policy, gate, readahead, layout, controller, .. } = self;
        let mut restored = 0;
        let mut described = vec![false; layout.fast_slots as usize];
        for (list, item) in blocks.iter().flat_map(|words| items(words)) {
            match (list, item) {
                (POLICY..GATE, item) if has_policy => {
                    let slot_of = |extent: u32| {
                        let entry = map.get(extent)?;
                        entry.place().and_then(|place| layout.fast_slot(place))
                    };
                    policy.load((list - POLICY) as u8, item, &slot_of);
                }
                (GATE..RESIDENT, item) if has_rule => gate.load((list - GATE) as u8, item),
                (RESIDENT | MISSED, [extent, usage, uses]) if (*extent as usize) < map.len() => {
                    let entry = map.entry_mut(*extent);
                    let slot = entry.place().and_then(|place| layout.fast_slot(place));
                    // Misses count until the extent is on the fast device.
                    if slot.is_some() != (list == RESIDENT) {
                        continue;
                    }
                    set_usage(entry, *usage, *uses, clock);
                    if let Some(slot) = slot {
                        restored += u64::from(!std::mem::replace(&mut described[slot.index()], true));
                    }
                }
                (READ_ON, [opened, saved]) => readahead.restore(*opened, *saved),
                (WEAR_ACCOUNT, words) => {
                    if let (Some(controller), Ok(words)) = (controller.as_mut(), words.try_into()) {
                        controller.take_up_wear_account(words);
                    }
                }
                _ => {}
            }
        }
        policy.loaded();
        let mut unknown = 0;
        let mut others: Vec<(Nanos, SlotIndex, u32)> = Vec::new();
        for slot in (0..layout.fast_slots).map(SlotIndex) {
            let Some(extent) = map.tenant(slot) else { continue };
            let entry = map.entry_mut(extent);
            if !described[slot.index()] {
                unknown += 1;
                (entry.last_access, entry.uses) = (clock, entry.uses.max(1));
            }
            if !policy.knows(slot) {
                others.push((entry.last_access, slot, extent));
            }
        }
        // They are reported in the order of their use, as when another policy takes over.
        others.sort_unstable_by_key(|(last_access, slot, _)| (*last_access, slot.0));
        for (_, slot, extent) in others {
            policy.admitting(extent, 1);
            policy.inserted(slot, extent, 1);
        }
        self.warm.report.began = Some(WarmStart { snapshot: taken(&header), restored, unknown, has_policy });
    }

    fn begin_cold(&mut self) {
        for slot in 0..self.layout.fast_slots {
            if let Some(extent) = self.map.tenant(SlotIndex(slot)) {
                self.policy.inserted(SlotIndex(slot), extent, 1);
            }
        }
    }
}

/// The snapshots on a fast device, for a report: the header of each half, and whether all of its blocks are whole.
pub(crate) fn on_device(
    storage: &mut dyn Storage,
    device: peryton_format::storage::DeviceId,
    room: &Room,
    volume: VolumeId,
) -> Option<[Option<(Header, bool)>; 2]> {
    room.is_marked(storage, device, volume).then(|| {
        snapshot::headers(storage, device, room, volume).map(|header| {
            let header = header?;
            let whole = snapshot::load(storage, device, room, &header, volume).is_some();
            Some((header, whole))
        })
    })
}

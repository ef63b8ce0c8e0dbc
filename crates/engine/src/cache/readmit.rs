//! Joins the maps of two devices when one of them is taken back.
//!
//! A slow device behind a cache has all that was lost with it, and the map of the fast device says what else is lost.
//!
//! In the other cases, for an extent that is lost without the device, the device's own map says where its data are. If they are on the
//! device itself, the entry is right, because the device's map is as old as its data. If they are on the other device, the place may
//! have been given to another extent since, and the extent stays lost. It also stays lost if that map has no copy of it: the
//! copy was made after its last commit.

use peryton_format::{
    blocks::Masks,
    checkpoint::{self, CheckpointHeader},
    entry::MapEntry,
    map::{self, DurableMap, Named, NoMap, Older},
    mutation::{self, Mutation},
    notice::Notice,
    storage::Storage,
    superblock::VolumeId,
};

use crate::{
    api::command::DeviceId, api::error::OpenError, api::error::ReadmitError, cache::access::Mode,
    cache::drive::CacheDrive, cache::map::extent::Extent, cache::step::CacheIo,
};

impl CacheDrive {
    /// Joins the two maps and writes the result, first to the device that stayed. Returns the number of extents that are not
    /// lost any more.
    pub(in crate::cache) fn take_back_device(
        &self,
        io: &CacheIo,
        storage: &mut dyn Storage,
        device: DeviceId,
        (volume, expected): (VolumeId, u64),
    ) -> Result<u64, ReadmitError> {
        let (index, layout) = (device.index(), &self.layout.metadata);
        let damaged = |what| ReadmitError::Damaged { device: index, what };
        let found = map::read(storage, (&[device], self.layout.fast), layout, volume, (Older::Refused, Named::Lost));
        let found = found.map_err(|error| match error {
            NoMap::Damaged(what) => damaged(what),
            NoMap::Behind { newest, expected, .. } => ReadmitError::Behind { device: index, newest, expected },
        })?;
        let newest = found.next_commit.saturating_sub(1).max(found.last_commit);
        if newest < expected {
            return Err(ReadmitError::Behind { device: index, newest, expected });
        }
        let (survivor, mut masks) = self.map.image();
        if survivor.len() != found.entries.len() {
            return Err(damaged("it maps another number of extents"));
        }
        let joined = match self.mode == Mode::Caching && device == self.layout.slow {
            true => survivor,
            false => {
                let both = survivor.iter().zip(&found.entries);
                let joined: Vec<MapEntry> = both.map(|(ours, theirs)| self.joined(device, *ours, *theirs)).collect();
                self.join_masks(&joined, &found, &mut masks);
                joined
            }
        };
        let misses = |entry: &&MapEntry| entry.is_lost() || map::masks_of(**entry, &masks).lost() != 0;
        let restored = self.count_lost().saturating_sub(joined.iter().filter(misses).count() as u64);
        let words = (&joined[..], &masks[..]);
        let failed = |device: DeviceId| ReadmitError::Open(OpenError::Device { device: device.index() });
        let stayed = self.alive();
        let next = self.next_header(io);
        // The number must be above those of both journals. One more is left out, because a failed commit may have used it.
        let first_commit = next.first_commit.max(found.next_commit) + 1;
        let notice = Notice::default();
        let mut header = CheckpointHeader { last_commit: 0, first_commit, notice, ..next };
        // Neither device may lose the checkpoint that it needs before the new one is complete.
        if (found.next_number_base + 1) % 2 != header.number % 2 {
            checkpoint::store(storage, &stayed, layout, &header, words, volume).map_err(failed)?;
            header.number += 1;
        }
        while header.number <= found.next_number_base {
            header.number += 2;
        }
        checkpoint::store(storage, &stayed, layout, &header, words, volume).map_err(failed)?;
        checkpoint::store(storage, &[device], layout, &header, words, volume).map_err(failed)?;
        Ok(restored)
    }

    /// Number of extents that are lost, or some of whose blocks are.
    fn count_lost(&self) -> u64 {
        let misses = |(extent, entry): &(u32, &Extent)| {
            entry.is_lost() || entry.place().is_some() && self.lost_blocks(*extent) != 0
        };
        self.map.entries().filter(misses).count() as u64
    }

    /// Sets the masks of places to the blocks that both devices of a cache together have, now that the fast one comes back.
    fn join_masks(&self, joined: &[MapEntry], found: &DurableMap, masks: &mut [Masks]) {
        let all = self.layout.blocks.map_or(0, |blocks| blocks.all);
        let placed = (0..).zip(joined.iter().zip(&found.entries));
        for (extent, (entry, theirs)) in placed.filter(|_| !found.masks.is_empty()) {
            let Some(place) = entry.place() else { continue };
            let theirs = map::masks_of(*theirs, &found.masks);
            // The origin has all data that were not newer on the device when the device was given up. If that is
            // not known, the device's data are at least as new as the origin, and the rest of the origin may be
            // older than acknowledged writes.
            masks[place.0 as usize] = match self.map.left_behind(extent, place) {
                Some(left) => Masks::new(theirs.valid() & left.differs_from_origin(), left.differs_from_origin()),
                None => Masks::new(theirs.valid(), all),
            };
        }
    }

    /// An extent as both devices together have it: `ours` is what is known without the one that comes back.
    fn joined(&self, back: DeviceId, ours: MapEntry, theirs: MapEntry) -> MapEntry {
        let on_back = |place| self.layout.has_place(place) && self.layout.at(place).0 == back;
        if mutation::is(Mutation::BelieveReturned) && ours.place().is_none() && theirs.place().is_some_and(on_back) {
            return theirs;
        }
        if !ours.is_lost() {
            return ours;
        }
        let ours = MapEntry::new(None, false, true);
        if theirs.is_lost() {
            return ours;
        }
        match (self.mode, theirs.place()) {
            (Mode::Tiering, Some(place)) if on_back(place) => MapEntry::new(Some(place), false, false),
            (Mode::Tiering, _) => ours,
            // The copy is at least as new as its origin.
            (Mode::Caching, Some(place)) if on_back(place) => MapEntry::new(Some(place), true, false),
            // The fast device's map may be older than the memory that recorded a copy on it, so the origin may be older
            // than acknowledged writes.
            (Mode::Caching, _) => ours,
        }
    }
}

//! Recovers the map from the newest checkpoint and the journal after it, from whichever device has them.

use peryton_format::{
    block::BLOCK,
    checkpoint::{self, CheckpointHeader},
    map::{self, NoMap, Older},
    mutation::{self, Mutation},
    storage::Storage,
    superblock::VolumeId,
    takeover::Found,
};
use peryton_units::Bytes;

use crate::{
    api::command::DeviceId,
    api::error::OpenError,
    api::opened::{Opened, Trust},
    cache::drive::CacheDrive,
    cache::reshape::Reshape,
    cache::step::CacheIo,
};

impl CacheDrive {
    /// Recovers the map and makes it durable in a new checkpoint.
    pub(in crate::cache) fn recover_map(
        &mut self,
        io: &mut CacheIo,
        storage: &mut dyn Storage,
        volume: VolumeId,
        (touched, trust): (Option<[u32; 2]>, Trust),
        left: Option<&Found>,
        opened: &mut Opened,
    ) -> Result<(), OpenError> {
        let (fast, gone) = (self.layout.fast, self.gone);
        let pair = self.alive();
        let reshape = self.reshape.take();
        let metadata = reshape.as_ref().map_or(self.layout.metadata, |reshape| reshape.from.metadata);
        let older = if trust == Trust::AsItIs { Older::Accepted } else { Older::Refused };
        let found = map::read(storage, (&pair, fast), &metadata, volume, older);
        let mut found = found.map_err(|error| match error {
            NoMap::Damaged(what) => OpenError::Damaged { device: pair[0].index(), what },
            NoMap::Behind { device, newest, expected } => {
                OpenError::Behind { device: device.index(), newest, expected }
            }
        })?;
        (opened.commits, opened.last_commit) = (found.replayed, found.last_commit);
        // What a process that was killed has left in memory has all that has changed since the volume was opened, which
        // begins with a checkpoint on both devices.
        let left = left.filter(|left| left.label.contents == self.contents());
        for (extent, entry) in left.iter().flat_map(|left| &left.entries) {
            found.entries[*extent as usize] = *entry;
        }
        if let Some(left) = left.filter(|_| !mutation::is(Mutation::TakeOverEntriesOnly)) {
            for (place, masks) in &left.masks {
                found.masks[*place as usize] = *masks;
            }
        }
        opened.taken_over = left.map(|left| left.entries.len() as u64);
        let untracked = gone.fast && !found.shows_newer && left.is_none();
        if untracked && !found.notice.home && trust != Trust::Slow {
            return Err(OpenError::Untracked { device: fast.index() });
        }
        if untracked {
            // No metadata says which extents are cached, and none is needed: the slow device has all valid data.
            // But where blocks are lost, only the place records which.
            for entry in &mut found.entries {
                *entry = map::without_fast(*entry, map::masks_of(*entry, &found.masks));
            }
        }
        let damaged = |what| OpenError::Damaged { device: pair[0].index(), what };
        let room = reshape.as_ref().map_or(self.room(), Reshape::room);
        if !self.find_snapshot(io, storage, volume, (opened.generation, room)) {
            return Err(damaged("a snapshot is torn"));
        }
        if let Some(reshape) = &reshape {
            self.reshape_map(&mut found, reshape).map_err(damaged)?;
        }
        let restored = self
            .restore(io, io.now, (&found.entries, &found.masks), (touched, left.is_some(), found.notice.home), trust)
            .map_err(damaged)?;
        (opened.mapped, opened.dirty, opened.lost) = (restored.mapped, restored.dirty, restored.lost);
        let (image, masks) = self.map.image();
        // A torn commit may remain with the next number, so that number is not reused.
        let mut header = CheckpointHeader {
            number: found.number + 1,
            last_commit: found.last_commit,
            first_commit: found.next_commit + u64::from(!mutation::is(Mutation::ReuseCommitNumber)),
            journal_at: found.next,
            entries: image.len() as u32,
            notice: self.notice_for(&io.tuning),
            layout: self.layout.metadata.number,
        };
        if let Some(reshape) = &reshape {
            // The ring of the new layout has no commit of it.
            (header.number, header.last_commit, header.journal_at) = (reshape.checkpoint_after(found.number), 0, 0);
        }
        let words = (&image[..], &masks[..]);
        checkpoint::store(storage, &pair, &self.layout.metadata, &header, words, volume)
            .map_err(|device| OpenError::Device { device: device.index() })?;
        self.begin_generation(volume, (image, masks), &header);
        Ok(())
    }
}

impl CacheDrive {
    /// Whether the device has the newest checkpoint of this volume. One is written to both devices whenever the volume is
    /// opened, so that a copy from an earlier generation has not.
    pub(crate) fn has_newest_checkpoint(&self, storage: &mut dyn Storage, device: DeviceId, volume: VolumeId) -> bool {
        let mut newest = |device| {
            let headers = checkpoint::headers(storage, device, &self.layout.metadata, volume);
            headers.into_iter().flatten().map(|header| header.number).max()
        };
        let (fast, slow) = (newest(self.layout.fast), newest(self.layout.slow));
        fast.is_some() && fast == slow && [self.layout.fast, self.layout.slow].contains(&device)
    }
}

/// The ring is zeroed in writes of this many bytes.
const PIECE: u64 = 1 << 20;

impl CacheDrive {
    /// Writes the map as a checkpoint whose number is `ahead` above the last. The error names the device that failed.
    pub(in crate::cache) fn write_map(
        &self,
        io: &CacheIo,
        storage: &mut dyn Storage,
        volume: VolumeId,
        ahead: u64,
    ) -> Result<(), DeviceId> {
        let next = self.next_header(io);
        // A failed commit that is older than this map may remain in the journal, so its number is not reused.
        let gap = if mutation::is(Mutation::CloseReusesNumber) { 0 } else { ahead };
        let header =
            CheckpointHeader { number: next.number - 1 + ahead, first_commit: next.first_commit + gap, ..next };
        let (image, masks) = self.map.image();
        let words = (&image[..], &masks[..]);
        checkpoint::store(storage, &self.alive(), &self.layout.metadata, &header, words, volume)
    }

    /// Writes the map to a device without metadata; the other device has the map already.
    pub(in crate::cache) fn fill_empty(
        &mut self,
        io: &CacheIo,
        storage: &mut dyn Storage,
        device: DeviceId,
        volume: VolumeId,
    ) -> Result<(), DeviceId> {
        let next = self.next_header(io);
        // Neither journal has a commit after this checkpoint, and a number that a failed commit may have is not reused.
        let header = CheckpointHeader { last_commit: 0, first_commit: next.first_commit + 1, ..next };
        // Metadata of this volume that the device may have from earlier must not be taken for current.
        if device == self.layout.fast {
            self.mark_room(storage, volume)?;
        }
        let layout = &self.layout.metadata;
        let zeros = vec![0; PIECE as usize];
        let mut blank: Vec<(Bytes, u64)> = [0, 1].map(|which| (layout.checkpoint_at(which), BLOCK)).to_vec();
        let pieces = (0..layout.journal_bytes).step_by(PIECE as usize);
        blank.extend(pieces.map(|at| (layout.journal_at(at), PIECE.min(layout.journal_bytes - at))));
        for (at, len) in blank {
            storage.write(device, at, &zeros[..len as usize]).map_err(|_| device)?;
        }
        storage.flush(device).map_err(|_| device)?;
        let both = [self.layout.fast, self.layout.slow];
        self.map.nothing_comes_back();
        let (image, masks) = self.map.image();
        checkpoint::store(storage, &both, layout, &header, (&image[..], &masks[..]), volume)
    }
}

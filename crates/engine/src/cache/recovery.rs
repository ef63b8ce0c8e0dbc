//! The map brought back from the newest checkpoint and the journal after it, from whichever device has them.

use peryton_format::{
    block::BLOCK,
    checkpoint::{self, CheckpointHeader},
    entry::MapEntry,
    map::{self, NoMap},
    mutation::{self, Mutation},
    storage::Storage,
    superblock::VolumeId,
};
use peryton_units::{Bytes, Nanos};

use crate::{
    api::command::DeviceId,
    api::error::OpenError,
    api::opened::{Opened, Trust},
    cache::drive::CacheDrive,
    cache::step::CacheIo,
};

impl CacheDrive {
    /// Brings the map back and makes it durable in a new checkpoint.
    pub(in crate::cache) fn recover_map(
        &mut self,
        io: &mut CacheIo,
        storage: &mut dyn Storage,
        volume: VolumeId,
        (touched, trust): (Option<[u32; 2]>, Trust),
        opened: &mut Opened,
    ) -> Result<(), OpenError> {
        let (fast, gone) = (self.layout.fast, self.gone);
        let pair = self.alive();
        let mut found =
            map::read(storage, (&pair, fast), &self.layout.metadata, volume).map_err(|error| match error {
                NoMap::Damaged(what) => OpenError::Damaged { device: pair[0].index(), what },
                NoMap::Stale(device) => {
                    let generation = opened.generation.saturating_sub(1);
                    OpenError::Stale { device: device.index(), generation, newest: generation }
                }
            })?;
        opened.commits = found.replayed;
        let untracked = gone.fast && found.notice.alone;
        if untracked && !found.notice.home && trust != Trust::Slow {
            return Err(OpenError::Untracked { device: fast.index() });
        }
        if untracked {
            // Nothing says which extents are cached now, nor does it matter: the slow device has everything that counts.
            found
                .entries
                .iter_mut()
                .for_each(|entry| *entry = MapEntry::new(None, false, entry.is_lost() || entry.is_dirty()));
        }
        let damaged = |what| OpenError::Damaged { device: pair[0].index(), what };
        let restored = self.restore(io, Nanos::ZERO, &found.entries, touched, trust).map_err(damaged)?;
        (opened.mapped, opened.dirty, opened.lost) = (restored.mapped, restored.dirty, restored.lost);
        let image = self.image();
        // A torn commit may be left with the next number: that number is not used again.
        let header = CheckpointHeader {
            number: found.number + 1,
            last_commit: found.last_commit,
            first_commit: found.next_commit + u64::from(!mutation::is(Mutation::ReuseCommitNumber)),
            journal_at: found.next,
            entries: image.len() as u32,
            notice: self.notice_for(&io.tuning),
        };
        checkpoint::store(storage, &pair, &self.layout.metadata, &header, &image, volume)
            .map_err(|device| OpenError::Device { device: device.index() })?;
        self.begin_generation(volume, image, &header);
        Ok(())
    }
}

/// The ring is emptied in pieces of this size.
const PIECE: u64 = 1 << 20;

impl CacheDrive {
    /// Writes the map out, `ahead` checkpoints after the last. The error names the device that failed.
    pub(in crate::cache) fn write_map(
        &self,
        io: &CacheIo,
        storage: &mut dyn Storage,
        volume: VolumeId,
        ahead: u64,
    ) -> Result<(), DeviceId> {
        let next = self.next_header(io);
        // A commit that failed may be left in the journal, and is older than this map: its number is not used again.
        let gap = if mutation::is(Mutation::CloseReusesNumber) { 0 } else { ahead };
        let header =
            CheckpointHeader { number: next.number - 1 + ahead, first_commit: next.first_commit + gap, ..next };
        checkpoint::store(storage, &self.alive(), &self.layout.metadata, &header, &self.image(), volume)
    }

    /// Gives a device without metadata the map that the other one has.
    pub(in crate::cache) fn fill_empty(
        &self,
        io: &CacheIo,
        storage: &mut dyn Storage,
        device: DeviceId,
        volume: VolumeId,
    ) -> Result<(), DeviceId> {
        let next = self.next_header(io);
        // No commit is in both journals, and a number that a failed one may have left is not used again.
        let header = CheckpointHeader { last_commit: 0, first_commit: next.first_commit + 1, ..next };
        // What it may have held of this volume must not be taken for what it holds from now on.
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
        checkpoint::store(storage, &both, layout, &header, &self.image(), volume)
    }
}

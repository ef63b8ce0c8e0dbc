//! The map brought back from the newest checkpoint and the journal after it, from whichever device has them.

use peryton_format::{
    checkpoint::{self, CheckpointHeader},
    entry::MapEntry,
    map::{self, NoMap},
    mutation::{self, Mutation},
    storage::Storage,
    superblock::VolumeId,
};
use peryton_units::Nanos;

use crate::{
    engine::{Engine, Placed},
    error::OpenError,
    volume::{Opened, Trust},
};

impl Engine {
    /// Brings the map back and makes it durable in a new checkpoint.
    pub(crate) fn recover(
        &mut self,
        storage: &mut dyn Storage,
        volume: VolumeId,
        (touched, trust): (Option<[u32; 2]>, Trust),
        opened: &mut Opened,
    ) -> Result<(), OpenError> {
        let core = &mut self.core;
        let hybrid = match &mut self.placed {
            Placed::Linear(_) => return Ok(()),
            Placed::Hybrid(hybrid) => hybrid,
            Placed::Logging(logging) => return logging.recover(core, storage, volume, opened),
        };
        let (fast, gone) = (hybrid.layout.fast, hybrid.gone);
        let pair = hybrid.alive();
        let mut found =
            map::read(storage, (&pair, fast), &hybrid.layout.metadata, volume).map_err(|error| match error {
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
            // What cached it now nobody knows, nor does it matter: the slow device has everything that counts.
            found
                .entries
                .iter_mut()
                .for_each(|entry| *entry = MapEntry::new(None, false, entry.is_lost() || entry.is_dirty()));
        }
        let damaged = |what| OpenError::Damaged { device: pair[0].index(), what };
        let restored = hybrid.restore(core, Nanos::ZERO, &found.entries, touched, trust).map_err(damaged)?;
        (opened.mapped, opened.dirty, opened.lost) = (restored.mapped, restored.dirty, restored.lost);
        let image = hybrid.image();
        // A torn commit may be left with the next number: that number is not used again.
        let header = CheckpointHeader {
            number: found.number + 1,
            last_commit: found.last_commit,
            first_commit: found.next_commit + u64::from(!mutation::is(Mutation::ReuseCommitNumber)),
            journal_at: found.next,
            entries: image.len() as u32,
            notice: hybrid.tells(&core.tuning),
        };
        checkpoint::store(storage, &pair, &hybrid.layout.metadata, &header, &image, volume)
            .map_err(|device| OpenError::Device { device: device.index() })?;
        hybrid.begin_generation(volume, image, &header);
        Ok(())
    }
}

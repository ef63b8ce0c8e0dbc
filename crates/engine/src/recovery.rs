//! The map brought back from the newest checkpoint and the journal after it, from whichever device has them.

use peryton_format::{
    checkpoint::{self, CheckpointHeader},
    entry::MapEntry,
    journal::{self, JournalRing},
    layout::MetadataLayout,
    mutation::{self, Mutation},
    notice::Notice,
    storage::Storage,
    superblock::VolumeId,
};
use peryton_units::Nanos;

use crate::{
    command::DeviceId,
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
        let found = read_map(storage, (&pair, fast), &hybrid.layout.metadata, volume, opened)?;
        let untracked = gone.fast && found.told.alone;
        let mut found = found;
        if untracked && !found.told.home && trust != Trust::Slow {
            return Err(OpenError::Untracked { device: fast.index() });
        }
        if untracked {
            // What cached it now nobody knows, nor does it matter: the slow device has everything that counts.
            found
                .image
                .iter_mut()
                .for_each(|entry| *entry = MapEntry::new(None, false, entry.is_lost() || entry.is_dirty()));
        }
        let damaged = |what| OpenError::Damaged { device: pair[0].index(), what };
        let restored = hybrid.restore(core, Nanos::ZERO, &found.image, touched, trust).map_err(damaged)?;
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

/// The map as the devices have it.
struct FoundMap {
    image: Vec<MapEntry>,
    /// The next checkpoint is the one after this.
    number: u64,
    last_commit: u64,
    next_commit: u64,
    next: u64,
    told: Notice,
}

fn read_map(
    storage: &mut dyn Storage,
    (pair, fast): (&[DeviceId], DeviceId),
    layout: &MetadataLayout,
    volume: VolumeId,
    opened: &mut Opened,
) -> Result<FoundMap, OpenError> {
    let headers: Vec<_> = pair.iter().map(|device| checkpoint::headers(storage, *device, layout, volume)).collect();
    let rings: Vec<_> = pair.iter().map(|device| JournalRing::read(storage, *device, layout, volume).ok()).collect();
    let alone = !pair.contains(&fast);
    let mut candidates: Vec<CheckpointHeader> = headers.iter().flatten().flatten().copied().collect();
    candidates.sort_by_key(|header| std::cmp::Reverse(header.number));
    candidates.dedup();
    let newest = candidates.first().map_or(0, |header| header.number);
    // The next one is newer than all, and in the other place than the one that can be read: an attempt that failed may
    // have left its header in the place of that.
    let before_next = |header: &CheckpointHeader| newest + u64::from((newest + 1) % 2 == header.number % 2);
    let damaged = |what| OpenError::Damaged { device: pair[0].index(), what };
    let mut problem = "no checkpoint can be read";
    for header in candidates {
        let Some(image) = checkpoint::load(storage, pair, layout, &header, volume) else {
            problem = "part of the map can be read from neither device";
            continue;
        };
        let mut image = image;
        let told = rings.iter().flatten().filter_map(|ring| ring.notice_since(header.first_commit)).next_back();
        let told = told.unwrap_or(header.notice);
        if alone && told.alone {
            // Of the commits that follow some are elsewhere: the rest say nothing.
            let next_commit =
                rings.iter().flatten().map(JournalRing::newest).max().unwrap_or(0).max(header.last_commit) + 1;
            let next_commit = next_commit.max(header.first_commit);
            let next = header.journal_at;
            let number = before_next(&header);
            return Ok(FoundMap { image, number, last_commit: header.last_commit, next_commit, next, told });
        }
        let replayed = journal::replay(&rings, header.first_commit, header.journal_at);
        if replayed.broken {
            problem = "part of the journal can be read from neither device";
            continue;
        }
        for (extent, entry) in &replayed.records {
            *image.get_mut(*extent as usize).ok_or(damaged("the journal names an extent that is not there"))? = *entry;
        }
        opened.commits = replayed.next_commit - header.first_commit;
        // Each device has all commits but the one that was in flight; without damage, one that has not is a copy from
        // earlier.
        // (One that was not mirrored is on the fast device only.)
        let has = if opened.commits >= 2 { replayed.next_commit - 2 } else { header.last_commit };
        let mirrored = rings.iter().flatten().any(|ring| ring.was_mirrored(has));
        for (device, ring) in pair.iter().zip(&rings) {
            if let Some(ring) = ring {
                let must_have = mirrored || *device == fast;
                if must_have && ring.damaged_blocks() == 0 && ring.newest() < has {
                    let generation = opened.generation - 1;
                    return Err(OpenError::Stale { device: device.index(), generation, newest: generation });
                }
            }
        }
        let (next_commit, next) = (replayed.next_commit, replayed.next);
        return Ok(FoundMap { image, number: before_next(&header), last_commit: has, next_commit, next, told });
    }
    Err(damaged(problem))
}

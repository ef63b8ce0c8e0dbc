//! An empty device in the place of one that is gone: what was lost with that stays lost until it is written, everything
//! else is as it was, and the volume has all its devices again.

use peryton_units::Bytes;

use crate::{
    command::DeviceId,
    config::{Config, Placement},
    engine::{Engine, Placed},
    error::{OpenError, ReplaceError},
    inspect::Overlay,
    metadata::{
        block::BLOCK,
        checkpoint,
        superblock::{State, Superblock},
    },
    storage::Storage,
    volume::{Opened, write_superblock},
};

/// The ring is emptied in pieces of this size.
const PIECE: u64 = 1 << 20;

impl Engine {
    /// Whether the device could be replaced: the others can be opened without it. Nothing is written.
    pub fn can_replace(config: &Config, storage: &mut dyn Storage, device: DeviceId) -> Result<(), ReplaceError> {
        let (Placement::Caching(_) | Placement::Partitioned(_) | Placement::Tiering(_)) = config.placement else {
            return Err(ReplaceError::Unsupported);
        };
        Engine::open_without(config.clone(), &mut Overlay::new(storage), &[device])?;
        Ok(())
    }

    /// Makes an empty device part of the volume, in the place of one that is gone, or is given up with this. A crash
    /// meanwhile leaves the volume without it.
    pub fn replace(config: Config, storage: &mut dyn Storage, device: DeviceId) -> Result<Opened, ReplaceError> {
        Engine::can_replace(&config, storage, device)?;
        let failed = |device: DeviceId| ReplaceError::Device { device: device.index() };
        let (engine, opened) = Engine::open_without(config, storage, &[device])?;
        let Placed::Hybrid(hybrid) = &engine.placed else {
            unreachable!("only what has a map has replaceable devices")
        };
        let need = engine.device_bytes[device.index()];
        let size = storage.size(device).ok_or(OpenError::Missing { device: device.index() })?;
        if size < need {
            return Err(ReplaceError::TooSmall { device: device.index(), size, need });
        }
        // What it may have held of this volume must not be taken for what it holds from now on.
        let layout = hybrid.layout.metadata;
        let zeros = vec![0; PIECE as usize];
        let mut blank: Vec<(Bytes, u64)> = vec![(Bytes::ZERO, BLOCK), (need - Bytes(BLOCK), BLOCK)];
        blank.extend([0, 1].map(|which| (layout.checkpoint_at(which), BLOCK)));
        let pieces = (0..layout.journal_bytes).step_by(PIECE as usize);
        blank.extend(pieces.map(|at| (layout.journal_at(at), PIECE.min(layout.journal_bytes - at))));
        for (at, len) in blank {
            storage.write(device, at, &zeros[..len as usize]).map_err(|_| failed(device))?;
        }
        storage.flush(device).map_err(|_| failed(device))?;
        let both = vec![hybrid.layout.fast, hybrid.layout.slow];
        let identity = engine.identity.as_ref().expect("it has just been opened");
        let volume = identity.volume();
        let next = hybrid.next_header(&engine.core);
        // No commit is in both journals, and a number that a failed one may have left is not used again.
        let header = checkpoint::Header { last_commit: 0, first_commit: next.first_commit + 1, ..next };
        checkpoint::store(storage, &both, &layout, &header, &engine.map_image(), volume).map_err(failed)?;
        // The survivor comes last: until it says otherwise the new device is not part of the volume.
        let survivors = both.iter().copied().filter(|other| *other != device);
        for part in std::iter::once(device).chain(survivors) {
            let whole = identity.superblock_of_all(part, State::Clean);
            // Nobody knows what an empty device holds.
            let mut block = Superblock { touched: [u32::MAX, u32::MAX], ..whole };
            block.fingerprint = engine.fingerprint(storage, part, volume);
            write_superblock(storage, &block, engine.device_bytes[part.index()]).map_err(|_| failed(part))?;
        }
        Ok(opened)
    }
}

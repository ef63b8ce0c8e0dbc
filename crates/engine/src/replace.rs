//! An empty device in the place of one that is gone, so that the volume has all its devices again. What is on the others
//! is as it was. What only the lost one had:
//!
//! * a placement with a map knows what that is: it stays lost until it is written;
//! * without a map (`linear`, the primary of a log) it reads as zeros from then on;
//! * without the log of a primary the primary's older image is the volume, and nobody knows where it is older.
//!
//! The last two are done only for somebody who accepts that.

use peryton_format::{
    block::{BLOCK, BLOCK_LEN},
    checkpoint::{self, CheckpointHeader},
    copies,
    storage::Storage,
    superblock::{Superblock, VolumeId, VolumeState},
};
use peryton_units::Bytes;

use crate::{
    command::DeviceId,
    config::{Config, Placement},
    engine::{Engine, Placed},
    error::{DeviceError, OpenError, ReplaceError},
    hybrid::Hybrid,
    inspect::Overlay,
    volume::Opened,
};

/// The ring is emptied in pieces of this size.
const PIECE: u64 = 1 << 20;

impl Engine {
    /// Whether the device could be replaced: the others can be opened without it, and if something is lost that nothing
    /// could tell from what is not, that is accepted. Nothing is written.
    pub fn can_replace(
        config: &Config,
        storage: &mut dyn Storage,
        device: DeviceId,
        accept_loss: bool,
    ) -> Result<(), ReplaceError> {
        let (engine, _) = Engine::open_without(config.clone(), &mut Overlay::new(storage), &[device])?;
        if accept_loss {
            return Ok(());
        }
        match &config.placement {
            Placement::Logging(pair) if pair.log == device => Err(ReplaceError::Older { device: device.index() }),
            Placement::Logging(_) | Placement::Linear { .. } | Placement::Single { .. } => {
                let bytes = engine.losses(0).bytes;
                let nothing = bytes == Bytes::ZERO;
                if nothing { Ok(()) } else { Err(ReplaceError::Zeros { device: device.index(), bytes }) }
            }
            Placement::Caching(_) | Placement::Partitioned(_) | Placement::Tiering(_) => Ok(()),
        }
    }

    /// Whether a device that replaces this one has to read as zeros where data goes: there is no map that says what of
    /// it was written.
    pub fn replaces_with_zeros(config: &Config, device: DeviceId) -> bool {
        match &config.placement {
            Placement::Logging(pair) => pair.primary == device,
            Placement::Linear { .. } | Placement::Single { .. } => true,
            Placement::Caching(_) | Placement::Partitioned(_) | Placement::Tiering(_) => false,
        }
    }

    /// Makes an empty device part of the volume, in the place of one that is gone, or is given up with this
    /// ([`Engine::replaces_with_zeros`] says how empty). `accept_loss`: though nobody will be able to tell what is lost.
    /// A crash meanwhile leaves the volume without it.
    pub fn replace(
        config: Config,
        storage: &mut dyn Storage,
        device: DeviceId,
        accept_loss: bool,
    ) -> Result<Opened, ReplaceError> {
        Engine::can_replace(&config, storage, device, accept_loss)?;
        let failed = |device: DeviceId| ReplaceError::Device { device: device.index() };
        let (mut engine, mut opened) = Engine::open_without(config, storage, &[device])?;
        let need = engine.device_bytes[device.index()];
        let size = storage.size(device).ok_or(OpenError::Missing { device: device.index() })?;
        if size < need {
            return Err(ReplaceError::TooSmall { device: device.index(), size, need });
        }
        for at in [Bytes::ZERO, need - Bytes(BLOCK)] {
            storage.write(device, at, &[0; BLOCK_LEN]).map_err(|_| failed(device))?;
        }
        storage.flush(device).map_err(|_| failed(device))?;
        let identity = engine.identity.clone().expect("it has just been opened");
        let mut volume = identity.volume();
        match &mut engine.placed {
            Placed::Linear(_) => {}
            Placed::Hybrid(hybrid) => {
                let next = hybrid.next_header(&engine.core);
                // No commit is in both journals, and a number that a failed one may have left is not used again.
                let header = CheckpointHeader { last_commit: 0, first_commit: next.first_commit + 1, ..next };
                hybrid.fill_empty(storage, device, &header, volume).map_err(failed)?;
            }
            Placed::Logging(logging) if logging.is_log(device) => {
                // What an earlier log left there has the old name, and so is never taken for what the new one holds.
                volume = renamed(volume, opened.generation);
                logging.format(storage, volume).map_err(|DeviceError| failed(device))?;
            }
            // The superblocks are written below.
            Placed::Logging(logging) => {
                logging.close(storage, volume).map_err(|DeviceError| ReplaceError::Device { device: 0 })?;
            }
        }
        opened.volume = volume;
        let parts = (0..engine.device_bytes.len() as u8).map(DeviceId);
        // The survivors come last: until they say otherwise the new device is not part of the volume.
        for part in std::iter::once(device).chain(parts.filter(|part| *part != device)) {
            let whole = identity.superblock_of_all(part, VolumeState::Clean);
            // Nobody knows what an empty device holds.
            let mut block = Superblock { volume, touched: [u32::MAX, u32::MAX], ..whole };
            block.fingerprint = engine.fingerprint(storage, part, volume);
            copies::write(storage, &block, engine.device_bytes[part.index()]).map_err(|_| failed(part))?;
        }
        Ok(opened)
    }
}

/// Another name for a volume, which it has had in no generation before.
fn renamed(volume: VolumeId, generation: u64) -> VolumeId {
    const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    VolumeId(volume.0.wrapping_mul(ODD) ^ u128::from(generation).wrapping_mul(ODD << 1 | 1))
}

impl Hybrid {
    /// Gives a device without metadata the map that the other one has.
    fn fill_empty(
        &self,
        storage: &mut dyn Storage,
        device: DeviceId,
        header: &CheckpointHeader,
        volume: VolumeId,
    ) -> Result<(), DeviceId> {
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
        checkpoint::store(storage, &both, layout, header, &self.image(), volume)
    }
}

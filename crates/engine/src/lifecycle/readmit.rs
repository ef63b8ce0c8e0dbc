//! A device that was given up comes back with what it holds. It has everything that it had when it was given up, and says
//! so by its generation and its journal; what was written since is on the others, which know of every extent whether that is
//! so. What is still lost without it is part of the volume again.
//!
//! Nothing is destroyed on the way: the others get the new map first, which means the same as before as long as their
//! superblocks say that the device is gone; then the device gets it, in the place of a checkpoint that it does not need;
//! then its superblocks are written, and those of the others last.

use peryton_format::{
    copies,
    storage::Storage,
    superblock::{Superblock, VolumeState},
};

use crate::{
    api::command::DeviceId,
    api::config::{Config, Placement},
    api::error::{OpenError, ReadmitError},
    api::opened::{Opened, Trust},
    lifecycle::any::with_drive,
    lifecycle::drive::Drive,
    lifecycle::inspect::Overlay,
    lifecycle::volume::{open, read_superblock},
    placement::PlacementOps,
};

/// What came of taking a device back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readmitted {
    /// The volume as it is now.
    pub opened: Opened,
    /// Extents that are part of the volume again.
    pub restored: u64,
}

/// Takes a device back that was given up. Whatever would keep it from that is found before anything is written.
pub(crate) fn readmit(config: Config, storage: &mut dyn Storage, device: DeviceId) -> Result<Readmitted, ReadmitError> {
    take_back(config.clone(), &mut Overlay::new(storage), device)?;
    take_back(config, storage, device)
}

fn take_back(config: Config, storage: &mut dyn Storage, device: DeviceId) -> Result<Readmitted, ReadmitError> {
    let index = device.index();
    if let Placement::Logging(_) = config.placement {
        return Err(ReadmitError::Logging { device: index });
    }
    let sizes = config.sizes().map_err(OpenError::Config)?;
    let size = storage.size(device).ok_or(OpenError::Missing { device: index })?;
    let own = read_superblock(storage, device, sizes.devices[index])?.superblock;
    let newest = newest_of_others(&config, storage, device)?;
    check(&own, &newest, device)?;
    let also: Vec<DeviceId> = (0..config.devices.len() as u8)
        .map(DeviceId)
        .filter(|other| *other == device || newest.gone >> other.index() & 1 == 1)
        .collect();
    let expected = if own.generation == newest.seals[index] { newest.given_up_commit } else { 0 };
    let (mut drive, opened) = open(config, storage, Trust::Nobody, &also)?;
    with_drive!(&mut drive, drive => {
        let need = drive.device_bytes[index];
        if size < need {
            return Err(ReadmitError::TooSmall { device: index, size, need });
        }
        drive.readmit(storage, device, expected, opened)
    })
}

fn newest_of_others(config: &Config, storage: &mut dyn Storage, device: DeviceId) -> Result<Superblock, ReadmitError> {
    let sizes = config.sizes().map_err(OpenError::Config)?;
    let others = (0..config.devices.len() as u8).map(DeviceId).filter(|other| *other != device);
    let mut blocks = Vec::new();
    let mut problem = OpenError::NothingLeft { device: device.index() };
    for other in others {
        match read_superblock(storage, other, sizes.devices[other.index()]) {
            Ok(found) => blocks.push(found.superblock),
            Err(error) => problem = error,
        }
    }
    blocks.into_iter().max_by_key(Superblock::age).ok_or(ReadmitError::Open(problem))
}

/// Whether the device is the one that was given up, with all that it had then.
fn check(own: &Superblock, newest: &Superblock, device: DeviceId) -> Result<(), ReadmitError> {
    let index = device.index();
    if own.volume != newest.volume {
        return Err(OpenError::Foreign { device: index, volume: own.volume, expected: newest.volume }.into());
    }
    if own.device != device {
        return Err(OpenError::Swapped { device: index, is: own.device.index() }.into());
    }
    if newest.gone >> index & 1 == 0 {
        return Err(ReadmitError::NotGone { device: index });
    }
    // It has a later generation than that in which it was given up where taking it back was interrupted.
    let given_up = newest.seals[index];
    if own.generation == newest.generation || given_up > 0 && own.generation >= given_up {
        return Ok(());
    }
    Err(match given_up {
        0 => ReadmitError::Unknown { device: index },
        _ => ReadmitError::Older { device: index, generation: own.generation, given_up },
    })
}

impl<P: PlacementOps> Drive<P> {
    fn readmit(
        &mut self,
        storage: &mut dyn Storage,
        device: DeviceId,
        expected: u64,
        mut opened: Opened,
    ) -> Result<Readmitted, ReadmitError> {
        let failed = |device: DeviceId| ReadmitError::Device { device: device.index() };
        let identity = self.identity.clone().expect("it has just been opened");
        let restored = self.placed.take_back(&self.io, storage, device, (identity.volume, expected))?;
        opened.lost = opened.lost.saturating_sub(restored);
        opened.gone &= !(1 << device.index());
        let still_gone = opened.gone;
        let parts = (0..self.device_bytes.len() as u8).map(DeviceId).filter(|part| still_gone >> part.index() & 1 == 0);
        // The others come last: until they say otherwise the device is gone.
        for part in std::iter::once(device).chain(parts.filter(|part| *part != device)) {
            let with = identity.superblock_with(device, part, VolumeState::Clean);
            // What free places hold is not known.
            let mut block = Superblock { touched: [u32::MAX, u32::MAX], ..with };
            block.fingerprint = self.fingerprint(storage, part, identity.volume);
            copies::write(storage, &block, self.device_bytes[part.index()]).map_err(|_| failed(part))?;
        }
        Ok(Readmitted { opened, restored })
    }
}

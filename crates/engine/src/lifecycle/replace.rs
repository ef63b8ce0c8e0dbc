//! Replaces a lost device by an empty one, so that the volume has all its devices again. The data on the other devices
//! is unchanged. Data that only the lost device had is treated according to the placement:
//!
//! * A placement with a map knows which data that is: it stays lost until it is written.
//! * Without a map (`linear`, the primary of a log) it reads as zeros from then on.
//! * Without its log, a primary's older image becomes the volume, and no metadata says where it is older.
//!
//! The last two require that the caller accepts the loss.

use peryton_format::{
    block::{BLOCK, BLOCK_LEN},
    geometry::MOST_DEVICES,
    storage::Storage,
    superblock::Superblock,
};
use peryton_units::Bytes;

use crate::{
    api::command::DeviceId,
    api::config::{Config, Placement},
    api::error::{OpenError, ReplaceError},
    api::opened::Opened,
    lifecycle::any::with_drive,
    lifecycle::drive::Drive,
    lifecycle::inspect::Overlay,
    lifecycle::volume::{Opening, open},
    placement::PlacementOps,
};

/// Checks whether the device can be replaced: the others can be opened without it, and a loss that no metadata can name
/// is accepted. Writes nothing. Returns the volume as it is without the device.
///
/// # Errors
/// The others cannot be opened without it, or data would be lost that no metadata names.
pub fn can_replace(
    config: &Config,
    storage: &mut dyn Storage,
    device: DeviceId,
    accept_loss: bool,
) -> Result<Opened, ReplaceError> {
    let (drive, opened) = open(config.clone(), &mut Overlay::new(storage), Opening::without(&[device]))?;
    if accept_loss {
        return Ok(opened);
    }
    // The map does not know of displaced data.
    if let Some(displaced) =
        storage.displaced().filter(|displaced| displaced.is_elsewhere() && displaced.home == device)
    {
        return Err(ReplaceError::Zeros { device: device.index(), bytes: displaced.bytes });
    }
    match &config.placement {
        Placement::Logging(pair) if pair.log == device => Err(ReplaceError::Older { device: device.index() }),
        Placement::Logging(_) | Placement::Linear { .. } | Placement::Single { .. } => {
            let bytes = with_drive!(&drive, drive => drive.placed.losses(&drive.io, 0)).bytes;
            let nothing = bytes == Bytes::ZERO;
            if nothing { Ok(opened) } else { Err(ReplaceError::Zeros { device: device.index(), bytes }) }
        }
        Placement::Caching(_) | Placement::Partitioned(_) | Placement::Tiering(_) => Ok(opened),
    }
}

/// Whether the replacement of this device must read as zeros where data goes, because no map says which of its data was
/// written.
pub fn replaces_with_zeros(config: &Config, device: DeviceId) -> bool {
    match &config.placement {
        Placement::Logging(pair) => pair.primaries.contains(&device),
        Placement::Linear { .. } | Placement::Single { .. } => true,
        Placement::Caching(_) | Placement::Partitioned(_) | Placement::Tiering(_) => false,
    }
}

/// Makes an empty device part of the volume, in place of a device that is gone, or that is given up with this call.
/// [`replaces_with_zeros`] says whether it must read as zeros. `accept_loss`: allow a loss that no metadata can name. A crash meanwhile
/// leaves the volume without the device.
///
/// # Errors
/// Those of [`can_replace`]; or a device is too small or has failed.
pub fn replace(
    config: Config,
    storage: &mut dyn Storage,
    device: DeviceId,
    accept_loss: bool,
) -> Result<Opened, ReplaceError> {
    can_replace(&config, storage, device, accept_loss)?;
    let (mut drive, opened) = open(config, storage, Opening::without(&[device]))?;
    with_drive!(&mut drive, drive => drive.take_in(storage, device, opened))
}

impl<P: PlacementOps> Drive<P> {
    fn take_in(
        &mut self,
        storage: &mut dyn Storage,
        device: DeviceId,
        mut opened: Opened,
    ) -> Result<Opened, ReplaceError> {
        let failed = |device: DeviceId| ReplaceError::Open(OpenError::Device { device: device.index() });
        let need = self.device_bytes[device.index()];
        let size = storage.size(device).ok_or(OpenError::Missing { device: device.index() })?;
        if size < need {
            return Err(ReplaceError::TooSmall { device: device.index(), size, need });
        }
        for at in [Bytes::ZERO, need - Bytes(BLOCK)] {
            storage.write(device, at, &[0; BLOCK_LEN]).map_err(|_| failed(device))?;
        }
        storage.flush(device).map_err(|_| failed(device))?;
        let identity = self.identity.clone().expect("it has just been opened");
        let volume = self
            .placed
            .fill_replacement(&self.io, storage, device, identity.volume, opened.generation)
            .map_err(failed)?;
        opened.volume = volume;
        let blank = 1 << device.index();
        let says = Superblock { volume, gone: 0, evacuated: 0, blank, seals: [0; MOST_DEVICES], ..identity };
        self.join(storage, device, says)?;
        Ok(opened)
    }
}

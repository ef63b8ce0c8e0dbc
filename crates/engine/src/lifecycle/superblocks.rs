//! Superblocks that are gone: what they said is known from the other device and from the rest of the device's own metadata.

use peryton_format::{
    copies,
    storage::Storage,
    superblock::{Superblock, VolumeState},
};

use crate::{
    api::command::DeviceId,
    api::config::Config,
    api::error::OpenError,
    lifecycle::any::{AnyDrive, with_drive},
    lifecycle::volume::read_superblock,
    placement::PlacementOps as _,
};

/// A device that has lost both its superblocks, and what they would say.
pub(super) struct LostSuperblocks(Superblock);

impl LostSuperblocks {
    pub(super) fn error(&self) -> OpenError {
        OpenError::NoSuperblocks { device: self.0.device.index() }
    }
}

/// The first device that has lost both its superblocks and is nevertheless known to be the present one of its volume.
pub(super) fn lost_superblocks(
    config: &Config,
    storage: &mut dyn Storage,
    without: &[DeviceId],
) -> Option<LostSuperblocks> {
    let sizes = config.sizes().ok()?;
    let (mut lost, mut newest) = (None, None);
    for (index, used) in sizes.devices.iter().enumerate() {
        let device = DeviceId(index as u8);
        if without.contains(&device) {
            continue;
        }
        match read_superblock(storage, device, *used) {
            Ok(found) => newest = [newest, Some(found.superblock)].into_iter().flatten().max_by_key(Superblock::age),
            Err(OpenError::NotFormatted { .. } | OpenError::Damaged { .. }) => lost = lost.or(Some(device)),
            Err(_) => return None,
        }
    }
    let (device, newest) = (lost?, newest?);
    if newest.gone >> device.index() & 1 == 1 || newest.state == VolumeState::Detached {
        return None;
    }
    let drive = AnyDrive::new(config.clone(), Some(newest.geometry.spare)).ok()?;
    let known = with_drive!(&drive, drive => drive.placed.has_metadata(storage, device, newest.volume));
    // Nothing says whether the device was closed in good order: the volume is recovered.
    let state = if newest.state == VolumeState::Clean { VolumeState::Closing } else { newest.state };
    if !known {
        return None;
    }
    Some(LostSuperblocks(Superblock { device, state, fingerprint: 0, ..newest }))
}

/// Writes the superblocks again of a device that has lost both, if it is known to be the present one.
pub(super) fn mend_superblocks(
    config: &Config,
    storage: &mut dyn Storage,
    without: &[DeviceId],
) -> Result<u64, OpenError> {
    let Some(LostSuperblocks(superblock)) = lost_superblocks(config, storage, without) else { return Ok(0) };
    let device = superblock.device.index();
    let used = config.sizes()?.devices[device];
    copies::write(storage, &superblock, used).map_err(|_| OpenError::Device { device })?;
    Ok(2)
}

//! Superblocks that are written outside the usual course: those that a device has lost, which are known from the other
//! device and from the rest of the device's own metadata, and those that make a device part of the volume.

use peryton_format::{
    copies,
    storage::Storage,
    superblock::{Superblock, VolumeState},
};

use crate::{
    api::command::DeviceId,
    api::config::{Config, Placement},
    api::error::OpenError,
    api::opened::Trust,
    api::resizing::Settled,
    lifecycle::any::{AnyDrive, with_drive},
    lifecycle::drive::Drive,
    lifecycle::resize::in_force::sizes_in_force,
    lifecycle::volume::read_superblock,
    placement::PlacementOps,
};

/// A device that has lost both its superblocks, and what they would say.
pub(super) struct LostSuperblocks {
    superblock: Superblock,
    /// Whether it is certain that the device is the present one of its volume.
    certain: bool,
}

impl LostSuperblocks {
    pub(super) fn error(&self) -> OpenError {
        let device = self.superblock.device.index();
        if self.certain { OpenError::NoSuperblocks { device } } else { OpenError::NoSuperblocksUncertain { device } }
    }
}

/// The first device that has lost both its superblocks and is nevertheless known to be part of its volume.
pub(super) fn lost_superblocks(
    config: &Config,
    storage: &mut dyn Storage,
    without: &[DeviceId],
) -> Option<LostSuperblocks> {
    let sizes = sizes_in_force(config, storage).ok()?;
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
    let drive = AnyDrive::new(config.clone(), Some(Settled::from(&newest.geometry))).ok()?;
    let (fingerprint, has_newest, has_some) = with_drive!(&drive, drive => (
        drive.fingerprint(storage, device, newest.volume),
        drive.placed.has_metadata(storage, device, newest.volume),
        drive.placed.has_some_metadata(storage, device, newest.volume),
    ));
    // Nothing says whether the device was closed in good order: the volume is recovered.
    let state = if newest.state == VolumeState::Clean { VolumeState::Closing } else { newest.state };
    let recovered = Superblock { device, state, fingerprint: 0, ..newest.clone() };
    // A device that was replaced in this generation has it, too.
    if has_newest && newest.successions[device.index()] == 0 {
        return Some(LostSuperblocks { superblock: recovered, certain: true });
    }
    if let Placement::Caching(_) | Placement::Partitioned(_) | Placement::Tiering(_) = config.placement {
        return has_newest.then_some(LostSuperblocks { superblock: recovered, certain: false });
    }
    // The other devices know what it said when the volume was closed, a digest of samples of its data included. An earlier copy
    // may have the same samples.
    let seal = newest.seals[device.index()];
    let as_closed = Superblock { device, fingerprint, ..newest };
    if as_closed.state == VolumeState::Clean && as_closed.seal() == seal {
        return Some(LostSuperblocks { superblock: as_closed, certain: false });
    }
    has_some.then_some(LostSuperblocks { superblock: recovered, certain: false })
}

/// Writes the superblocks again of a device that has lost both, if it is known to be the present one, or `trust` says so.
pub(super) fn mend_superblocks(
    config: &Config,
    storage: &mut dyn Storage,
    trust: Trust,
    without: &[DeviceId],
) -> Result<u64, OpenError> {
    let Some(lost) = lost_superblocks(config, storage, without) else { return Ok(0) };
    let LostSuperblocks { superblock, certain } = &lost;
    if !certain && trust != Trust::AsItIs {
        return Err(lost.error());
    }
    let device = superblock.device.index();
    let used = sizes_in_force(config, storage)?.devices[device];
    copies::write(storage, superblock, used).map_err(|_| OpenError::Device { device })?;
    Ok(2)
}

impl<P: PlacementOps> Drive<P> {
    /// Makes `device` part of the volume: writes a superblock to it and to every other device that is not in the mask
    /// `gone`. The other devices' superblocks are written last, because the device is part of the volume only once they
    /// say so.
    pub(super) fn join(
        &self,
        storage: &mut dyn Storage,
        device: DeviceId,
        gone: u32,
        superblock: impl Fn(DeviceId) -> Superblock,
    ) -> Result<(), OpenError> {
        let present = (0..self.device_bytes.len() as u8).map(DeviceId).filter(|part| gone >> part.index() & 1 == 0);
        for part in std::iter::once(device).chain(present.filter(|part| *part != device)) {
            // The content of free places is unknown.
            let mut block = Superblock { touched: [u32::MAX, u32::MAX], ..superblock(part) };
            block.fingerprint = self.fingerprint(storage, part, block.volume);
            copies::write(storage, &block, self.device_bytes[part.index()])
                .map_err(|_| OpenError::Device { device: part.index() })?;
        }
        Ok(())
    }
}

//! Superblocks of a volume that is not open: they are read, compared, and written again where a device has lost them, or becomes part of
//! the volume. Lost ones are known from the other device and from the rest of the device's own metadata.

use peryton_format::{
    copies::{self, FoundSuperblock, NoSuperblock},
    storage::Storage,
    superblock::{Superblock, Unreadable, VolumeState},
};
use peryton_units::Bytes;

use crate::{
    api::command::DeviceId,
    api::config::{Config, Tuning},
    api::error::OpenError,
    api::opened::Trust,
    api::resizing::Settled,
    lifecycle::any::{AnyDrive, with_drive},
    lifecycle::drive::Drive,
    lifecycle::resize::in_force::sizes_in_force,
    placement::PlacementOps,
};

/// The superblocks of the devices of a volume that is not open.
pub(super) struct Superblocks(Vec<Result<FoundSuperblock, OpenError>>);

impl Superblocks {
    /// Reads them. `used`: what the volume uses of each device.
    pub(super) fn read(used: &[Bytes], storage: &mut dyn Storage) -> Superblocks {
        Superblocks((0..).zip(used).map(|(device, used)| read_superblock(storage, DeviceId(device), *used)).collect())
    }

    /// Those of each device, as far as they can be read.
    pub(super) fn all(&self) -> impl Iterator<Item = Option<&Superblock>> {
        self.0.iter().map(|found| Some(&found.as_ref().ok()?.superblock))
    }

    /// The newest of those that can be read.
    pub(super) fn newest(&self) -> Option<&Superblock> {
        self.all().flatten().max_by_key(|block| block.age())
    }

    /// Why the others cannot be read.
    pub(super) fn errors(&self) -> impl Iterator<Item = (usize, &OpenError)> {
        self.0.iter().enumerate().filter_map(|(index, found)| Some((index, found.as_ref().err()?)))
    }

    /// Those of these devices.
    pub(super) fn of(&self, devices: &[DeviceId]) -> Result<Vec<FoundSuperblock>, OpenError> {
        devices.iter().map(|device| self.0[device.index()].clone()).collect()
    }
}

pub(super) fn read_superblock(
    storage: &mut dyn Storage,
    device: DeviceId,
    used: Bytes,
) -> Result<FoundSuperblock, OpenError> {
    let index = device.index();
    copies::read(storage, device, used, used_by).map_err(|error| match error {
        NoSuperblock::Missing => OpenError::Missing { device: index },
        NoSuperblock::Unreadable(Unreadable::Absent) => OpenError::NotFormatted { device: index },
        NoSuperblock::Unreadable(Unreadable::Version(version)) => OpenError::Version { device: index, version },
        NoSuperblock::Unreadable(Unreadable::Features(features)) => OpenError::Features { device: index, features },
        NoSuperblock::Unreadable(Unreadable::Damaged) => {
            OpenError::Damaged { device: index, what: "neither superblock can be read" }
        }
    })
}

/// The number of bytes that the volume uses of its device, if the sizes in the superblock are possible.
pub(super) fn used_by(superblock: &Superblock) -> Option<Bytes> {
    let config = Config {
        devices: superblock.geometry.devices.clone(),
        placement: superblock.geometry.placement.clone(),
        // Where things lie depends on the number of spare extents, which is settled.
        tuning: Tuning { demotion_low: 0, demotion_high: 0, ..Tuning::default() },
    };
    config.sizes_of(Some(Settled::from(&superblock.geometry))).ok()?.devices.get(superblock.device.index()).copied()
}

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
    let (mut lost, mut found) = (None, Superblocks::read(&sizes.devices, storage).0);
    for device in (0..found.len()).filter(|device| !without.contains(&DeviceId(*device as u8))) {
        match &found[device] {
            Ok(_) => {}
            Err(OpenError::NotFormatted { .. } | OpenError::Damaged { .. }) => lost = lost.or(Some(device)),
            Err(_) => return None,
        }
    }
    for device in without {
        if let Some(found) = found.get_mut(device.index()) {
            *found = Err(OpenError::Missing { device: device.index() });
        }
    }
    let (device, newest) = (DeviceId(lost? as u8), Superblocks(found).newest()?.clone());
    if newest.gone >> device.index() & 1 == 1 || newest.state == VolumeState::Detached {
        return None;
    }
    let drive = AnyDrive::new(config.clone(), Some(Settled::from(&newest.geometry))).ok()?;
    let fingerprint = with_drive!(&drive, drive => drive.fingerprint(storage, device, newest.volume));
    let has_newest =
        drive.cache().is_some_and(|drive| drive.placed.has_newest_checkpoint(storage, device, newest.volume));
    // Nothing says whether the device was closed in good order: the volume is recovered.
    let state = if newest.state == VolumeState::Clean { VolumeState::Closing } else { newest.state };
    let recovered = Superblock { device, state, fingerprint: 0, ..newest.clone() };
    // A device that was replaced in this generation has it, too.
    if has_newest && newest.successions[device.index()] == 0 {
        return Some(LostSuperblocks { superblock: recovered, certain: true });
    }
    if drive.cache().is_some() {
        return has_newest.then_some(LostSuperblocks { superblock: recovered, certain: false });
    }
    // The other devices know what it said when the volume was closed, a digest of samples of its data included. An earlier copy
    // may have the same samples.
    let seal = newest.seals[device.index()];
    let as_closed = Superblock { device, fingerprint, ..newest };
    if as_closed.state == VolumeState::Clean && as_closed.seal() == seal {
        return Some(LostSuperblocks { superblock: as_closed, certain: false });
    }
    // Nothing says how new its commits are.
    let has_commits = drive.log().is_some_and(|drive| drive.placed.has_commits(storage, device, recovered.volume));
    has_commits.then_some(LostSuperblocks { superblock: recovered, certain: false })
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
    /// Makes `device` part of the volume: writes a superblock that says so to it and to every other device that is not gone, as if the volume
    /// was closed. The other devices' superblocks are written last, because the device is part of the volume only once they say so.
    pub(super) fn join(&self, storage: &mut dyn Storage, device: DeviceId, says: Superblock) -> Result<(), OpenError> {
        let present =
            (0..self.device_bytes.len() as u8).map(DeviceId).filter(|part| says.gone >> part.index() & 1 == 0);
        for part in std::iter::once(device).chain(present.filter(|part| *part != device)) {
            // The content of free places is unknown.
            let (state, touched) = (VolumeState::Clean, [u32::MAX, u32::MAX]);
            let mut block = Superblock { device: part, state, touched, ..says.clone() };
            block.fingerprint = self.fingerprint(storage, part, block.volume);
            copies::write(storage, &block, self.device_bytes[part.index()])
                .map_err(|_| OpenError::Device { device: part.index() })?;
        }
        Ok(())
    }
}

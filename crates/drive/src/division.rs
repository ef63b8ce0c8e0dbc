//! A device that had data before it became part of a volume ([`peryton_format::displaced`]): how it is found out, and where its bytes
//! are read and written.

use std::{io, os::fd::OwnedFd, sync::Arc};

use peryton_format::{
    adoption::Record,
    displaced::{Displaced, Place},
    storage::DeviceId,
    superblock::Superblock,
};
use peryton_units::Bytes;
use rustix::fs::{Mode, OFlags};
use serde::Serialize;

use crate::{
    disks::Ability,
    open::{Device, DeviceOpenError, DevicePath, Opening},
    own_sizes,
};

/// How a device is divided, and the file of the part that is displaced.
#[derive(Clone, Debug)]
pub(crate) struct Division {
    pub(crate) map: Displaced,
    /// Where the displaced part lies; `None` if that device is not there. It is a file of its own even if the device is open
    /// already, because the kernel reports a lost write-back once for each.
    pub(crate) home: Option<Arc<OwnedFd>>,
}

impl Division {
    /// The file in which a byte of the device lies.
    pub(crate) fn file<'a>(&'a self, place: &Place, own: &'a Arc<OwnedFd>) -> Option<&'a Arc<OwnedFd>> {
        if place.is_displaced { self.home.as_ref() } else { Some(own) }
    }

    /// The file that has to be flushed with the device.
    pub(crate) fn elsewhere(&self) -> Option<&Arc<OwnedFd>> {
        self.home.as_ref().filter(|_| self.map.is_elsewhere())
    }
}

impl Device {
    /// Opens the devices of a volume that is there, and finds out whether one of them had data before.
    ///
    /// # Errors
    /// Those of [`Device::open_all`]; or one of them is being taken over, or given back.
    pub(crate) fn open_volume(
        devices: &[DevicePath],
        opening: Opening,
        without: &[DeviceId],
    ) -> Result<Vec<Option<Device>>, DeviceOpenError> {
        let mut open = Device::open_all(devices, opening, without)?;
        if let Some(map) = find(&open)? {
            divide(&mut open, map)?;
        }
        Ok(open)
    }

    /// The size of the device as the engine sees it.
    pub(crate) fn room(&self) -> Bytes {
        self.division.as_ref().map_or(self.size, |division| division.map.size(self.size))
    }

    /// How much of the device a volume uses that uses this much of it as the engine sees it.
    pub(crate) fn used(&self, seen: Bytes) -> Bytes {
        self.division.as_ref().map_or(seen, |division| division.map.needs())
    }
}

/// What the superblocks say.
pub(crate) fn find(devices: &[Option<Device>]) -> Result<Option<Displaced>, DeviceOpenError> {
    let mut found: Vec<Displaced> = Vec::new();
    let mut any = false;
    for device in devices.iter().flatten() {
        let first = own_sizes::first_block(device).unwrap_or_default();
        if Record::decode(&first).is_some() {
            return Err(DeviceOpenError::Refused(format!(
                "{device} was being taken over (peryton import) or given back (peryton export), and that has not come to its end: \
                 run the same again"
            )));
        }
        let superblock = Superblock::decode(&first);
        any |= superblock.is_ok();
        found.extend(superblock.ok().and_then(|superblock| superblock.geometry.displaced));
    }
    if !any {
        let others = devices.iter().flatten().filter_map(own_sizes::any_superblock);
        found.extend(others.filter_map(|superblock| superblock.geometry.displaced));
    }
    Ok(found.into_iter().find(|map| map.device.index() < devices.len() && map.home.index() < devices.len()))
}

/// Divides a device of these.
pub(crate) fn divide(devices: &mut [Option<Device>], map: Displaced) -> Result<(), DeviceOpenError> {
    let at = |device: DeviceId| devices.get(device.index()).and_then(Option::as_ref);
    let home = match at(map.home) {
        Some(device) if map.is_elsewhere() => Some((Arc::new(open_again(device)?), device.ability.clone())),
        Some(device) => Some((Arc::clone(&device.file), device.ability.clone())),
        None => None,
    };
    if let Some(device) = devices.get_mut(map.device.index()).and_then(Option::as_mut) {
        if let Some((_, ability)) = &home {
            let Ability { block, memory, punch, zero_range, .. } = device.ability;
            device.ability = Ability {
                block: block.max(ability.block),
                memory: memory.max(ability.memory),
                punch: punch && ability.punch,
                zero_range: zero_range && ability.zero_range,
                wear: Arc::clone(&device.ability.wear),
            };
        }
        device.division = Some(Division { map, home: home.map(|(file, _)| file) });
    }
    Ok(())
}

/// Opens the file of a device once more. It is locked, or held, already.
fn open_again(device: &Device) -> Result<OwnedFd, DeviceOpenError> {
    let direct = if device.is_direct { OFlags::DIRECT } else { OFlags::empty() };
    let rights = rustix::fs::fcntl_getfl(&device.file).map_or(OFlags::RDWR, |flags| flags & OFlags::ACCMODE);
    let flags = rights | OFlags::CLOEXEC | direct;
    let failed = |source: io::Error| DeviceOpenError::Refused(format!("{device}: {source}"));
    let file = rustix::fs::open(&device.path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let about = |file: &OwnedFd| rustix::fs::fstat(file).map(|about| (about.st_dev, about.st_ino, about.st_rdev));
    match (about(&file), about(&device.file)) {
        (Ok(again), Ok(before)) if again == before => Ok(file),
        _ => Err(failed(io::Error::other("another file has taken its place"))),
    }
}

/// What is displaced, for the status.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Told {
    /// How much.
    bytes: Bytes,
    /// The name of the device where it lies.
    device: String,
    /// The offset there.
    at: Bytes,
    /// Whether that device is another one than that of the rest, so that its loss loses what is displaced.
    elsewhere: bool,
}

/// What is displaced of one of these devices.
pub(crate) fn told(devices: &[Option<Device>], names: &[String]) -> Option<Told> {
    let map = devices.iter().flatten().find_map(|device| device.division.as_ref())?.map;
    let device = names.get(map.home.index())?.clone();
    Some(Told { bytes: map.bytes, device, at: map.at, elsewhere: map.is_elsewhere() })
}

//! Formatting: checks the devices of a new volume, empties them, and writes their superblocks.

use std::{
    io,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use peryton_engine::{Engine, Formatting, VolumeId};
use peryton_units::Bytes;
use rustix::{fs::FallocateFlags, io::Errno};
use serde::Serialize;

use crate::{
    arena::Arena,
    multi_mount,
    notify::Notifier,
    offline::OfflineError,
    open::{Device, Opening, Rights, refuse_used},
    own_sizes::any_superblock,
    probe,
    random::random,
    shared_memory::Handoff,
    spec::VolumeSpec,
    storage::Files,
};

/// A new volume.
#[derive(Clone, Debug, Serialize)]
pub struct Made {
    /// The volume's identity, 32 hexadecimal digits.
    pub volume: String,
    /// Size of the volume.
    pub size: Bytes,
    /// What the volume occupies on each device.
    pub devices: Vec<MadeDevice>,
}

/// A device of a new volume.
#[derive(Clone, Debug, Serialize)]
pub struct MadeDevice {
    /// Its name in the design.
    pub name: String,
    /// Path of the device.
    pub path: PathBuf,
    /// How much of it the volume occupies.
    pub used: Bytes,
}

/// Formats a volume. The content of its devices is lost; if they hold data, that is an error unless `force` is true.
/// Creates regular files that do not exist, as sparse files, and removes them again if the volume is not made.
///
/// # Errors
/// The design does not fit the devices, a device holds something, or the system refuses to write it.
pub fn format(spec: &VolumeSpec, force: bool) -> Result<Made, OfflineError> {
    let sizes = spec.config.sizes().map_err(|error| OfflineError::Refused(spec.with_names(error)))?;
    let (needs, behind) = (sizes.devices, sizes.behind);
    spec.devices.iter().try_for_each(refuse_used)?;
    let mut devices = Device::open_all(&spec.devices, Opening { direct: true, rights: Rights::Create }, &[])?;
    let made = make(spec, force, &mut devices, (&needs, &behind, &sizes.data_at));
    let volume = made.inspect_err(|_| devices.iter().flatten().for_each(Device::remove_new))?;
    let made = devices.iter().flatten().zip(&needs);
    Ok(Made {
        volume: format!("{:032x}", volume.0),
        size: sizes.volume,
        devices: made
            .map(|(device, used)| MadeDevice { name: device.name.clone(), path: device.path.clone(), used: *used })
            .collect(),
    })
}

/// Makes the volume on open devices, of which it needs so much, with so much room behind it, and has data from there on.
fn make(
    spec: &VolumeSpec,
    force: bool,
    devices: &mut [Option<Device>],
    (needs, behind, data_at): (&[Bytes], &[Bytes], &[Bytes]),
) -> Result<VolumeId, OfflineError> {
    multi_mount::look(devices, &Notifier::default())?;
    let all = || devices.iter().flatten().zip(needs);
    // Nothing is written until all devices have been checked.
    for (device, need) in all() {
        if device.is_block && device.size < *need {
            let (has, need) = (device.size.beside(*need), need.beside(device.size));
            return Err(OfflineError::Refused(format!(
                "{device} has {has}, the design needs {need} of it: give a larger one, or make the design smaller"
            )));
        }
        refuse_data(device, force)?;
    }
    let before = devices.iter().flatten().filter(|_| force).filter_map(any_superblock);
    let before: Vec<VolumeId> = before.map(|superblock| superblock.volume).collect();
    // The device is as worn as it was.
    devices.iter().flatten().for_each(|device| multi_mount::take_up_wear(device, None));
    let parts = needs.iter().zip(data_at).zip(behind);
    let parts = parts.map(|((need, data_at), behind)| Part { need: *need, data_at: *data_at, behind: *behind });
    let parts: Vec<Part> = parts.collect();
    for (device, part) in devices.iter().flatten().zip(&parts) {
        part.reserve(device)?;
    }
    let mut zeroed = true;
    for (device, part) in devices.iter_mut().flatten().zip(&parts) {
        zeroed &= part.empty(device)?;
    }
    let volume = VolumeId(u128::from_le_bytes(random()?));
    let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let new = Formatting { volume, unix_s, zeroed, notes: String::new() };
    Engine::format(&spec.config, new, &mut Files::new(devices)?)
        .map_err(|error| OfflineError::Refused(spec.with_names(error)))?;
    for device in devices.iter().flatten() {
        multi_mount::keep_wear(device).map_err(failed(device, "writing what has worn it"))?;
        device.sync_directory().map_err(failed(device, "making its directory durable"))?;
    }
    Handoff::new(&spec.process_death, &Notifier::default()).forget_overwritten(&before, devices);
    Ok(volume)
}

pub(crate) fn failed(device: &Device, what: &'static str) -> impl Fn(io::Error) -> OfflineError {
    move |source| OfflineError::Failed(format!("{device}: {what}: {source}"))
}

/// The error that there is no space for metadata.
fn lacks_room(device: &Device) -> impl Fn(io::Error) -> io::Error {
    move |source| io::Error::new(source.kind(), format!("{device}: making room for metadata: {source}"))
}

/// Refuses a device that holds data, unless these may be destroyed.
pub(crate) fn refuse_data(device: &Device, force: bool) -> Result<(), OfflineError> {
    let found = if force { None } else { probe::content(device).map_err(failed(device, "reading"))? };
    found.map_or(Ok(()), |what| {
        Err(OfflineError::Refused(format!(
            "{device} holds {what}: name another device (--force would destroy what is there)"
        )))
    })
}

/// The part of a device that a volume uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// How long it is.
    pub(crate) need: Bytes,
    /// Where data begin, after metadata.
    pub(crate) data_at: Bytes,
    /// So much more an image file has for snapshots.
    pub(crate) behind: Bytes,
}

/// Where superblocks end.
const SUPERBLOCK: u64 = 4096;

impl Part {
    /// Gives an image file the space that metadata will take, and leaves what it holds as it is. Some file systems cannot do this, and
    /// those that copy on write cannot promise it.
    pub(crate) fn reserve(&self, device: &Device) -> io::Result<()> {
        self.each_of_metadata(device, |_, _| Ok(()))
    }

    /// Makes the part read as zeros; returns whether that was possible without writing all of it. The metadata of an image file then have
    /// their space, so that a file system that is full later cannot keep the volume from saying what it is.
    pub(crate) fn empty(&self, device: &mut Device) -> io::Result<bool> {
        if device.is_block {
            // This call either deallocates the range, which then reads as zeros, or fails.
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            return Ok(rustix::fs::fallocate(&device.file, flags, 0, self.need.0).is_ok());
        }
        let size = device.size.max(self.need + self.behind);
        let cut = |to: u64| rustix::fs::ftruncate(&device.file, to).map_err(|error| lacks_room(device)(error.into()));
        cut(0).and_then(|()| cut(size.0))?;
        device.size = size;
        self.allocate(device)?;
        Ok(true)
    }

    /// Gives an image file the space of its metadata, whose content is lost.
    pub(crate) fn allocate(&self, device: &Device) -> io::Result<()> {
        self.each_of_metadata(device, |from, to| write_zeros(device, from, to))
    }

    /// Allocates the ranges of metadata; `otherwise`: on a file system that does not allocate.
    fn each_of_metadata(&self, device: &Device, otherwise: impl Fn(u64, u64) -> io::Result<()>) -> io::Result<()> {
        let ranges = [(0, self.data_at.0), (self.need.0 - SUPERBLOCK, (self.need + self.behind).0)];
        ranges.into_iter().try_for_each(|range| make_room(device, range, &otherwise))
    }
}

/// Allocates a range of an image file; `otherwise`: on a file system that does not allocate.
pub(crate) fn make_room(
    device: &Device,
    (from, to): (u64, u64),
    otherwise: impl Fn(u64, u64) -> io::Result<()>,
) -> io::Result<()> {
    if device.is_block {
        return Ok(());
    }
    let made = match rustix::fs::fallocate(&device.file, FallocateFlags::KEEP_SIZE, from, to - from) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => otherwise(from, to),
        other => other.map_err(io::Error::from),
    };
    made.map_err(lacks_room(device))
}

fn write_zeros(device: &Device, from: u64, to: u64) -> io::Result<()> {
    const AT_ONCE: usize = 1 << 20;
    let zeros = Arena::new(AT_ONCE)?;
    for at in (from..to).step_by(AT_ONCE) {
        let len = AT_ONCE.min((to - at) as usize);
        // SAFETY: the arena is as long, and no other code knows it.
        let bytes = unsafe { zeros.at(0).slice(len) };
        let mut done = 0;
        while done < len {
            match rustix::io::pwrite(&device.file, &bytes[done..], at + done as u64) {
                Ok(moved) => done += moved,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Writes zeros to all of a block device that the volume will use.
pub(crate) fn zero(device: &Device, need: Bytes) -> io::Result<()> {
    /// Written in parts of this many bytes, so that the program can be interrupted.
    const AT_ONCE: u64 = 1 << 30;
    for at in (0..need.0).step_by(AT_ONCE as usize) {
        let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&device.file, flags, at, AT_ONCE.min(need.0 - at))?;
    }
    Ok(())
}

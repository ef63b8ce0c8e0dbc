//! Takes over a disk that has data: checks that this is safe, and decides where the first part of the disk goes. The steps are
//! those of [`peryton_engine::adoption`].

mod contents;

use std::{path::PathBuf, time::SystemTime};

use peryton_engine::{
    DeviceId, Formatting, Placement, VolumeId,
    adoption::{self, AdoptError, Home, Plan, Standing, Taken},
};
use peryton_format::adoption::records_at;
use peryton_units::Bytes;
use rustix::fs::FallocateFlags;
use serde::Serialize;

use crate::{
    format::{Part, failed, make_room, refuse_data},
    multi_mount,
    notify::Notifier,
    offline::OfflineError,
    open::{Device, Opening, Rights, refuse_used},
    probe,
    random::random,
    spec::VolumeSpec,
    storage::Files,
};

/// How a disk is to be taken over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adopting {
    /// Where the first part of the disk goes; `None`: to the end of the disk if that is known to be unused, else to the fast device.
    pub home: Option<Home>,
    /// Whether what the fast device holds may be destroyed.
    pub force: bool,
    /// Whether to say only what would be done.
    pub dry_run: bool,
}

/// Where the first part of the disk has moved.
#[derive(Clone, Debug, Serialize)]
pub struct Displacement {
    /// How much has moved.
    pub bytes: Bytes,
    /// The device to which it moved, by its name in the design.
    pub device: String,
    /// Its path.
    pub path: PathBuf,
    /// The offset there.
    pub at: Bytes,
    /// Whether it lies on another device than the rest, so that the loss of that device loses it.
    pub elsewhere: bool,
}

/// A disk that was taken over, or would be.
#[derive(Clone, Debug, Serialize)]
pub struct Adopted {
    /// The volume's identity, 32 hexadecimal digits; `None` if nothing was done.
    pub volume: Option<String>,
    /// Size of the volume.
    pub size: Bytes,
    /// The disk, by its name in the design.
    pub disk: String,
    /// Its path.
    pub path: PathBuf,
    /// What it holds; `None` if it is taken over already, wholly or in part.
    pub holds: Option<&'static str>,
    /// Where its first part goes.
    pub displaced: Displacement,
    /// How much of the fast device is for copies.
    pub cache: Bytes,
    /// Whether Linux still has the partitions that it found on the disk before, which must not be mounted.
    pub has_old_partitions: bool,
    /// What was done: `new`, `begun_again`, `resumed`, `already`, or `nothing`.
    pub done: &'static str,
}

/// Kinds of disks that are found by what lies elsewhere on them than at the start, or are one of several.
const NEVER: [(&str, &str); 9] = [
    ("a Peryton volume", "it has a volume already"),
    (
        "a member of a ZFS pool",
        "ZFS has labels at the end of its disks as well, so that the disk alone would still be imported",
    ),
    ("a member of a RAID array (md)", "take over the array, when it is assembled (/dev/md...)"),
    ("a bcachefs or bcache device", "it is one of several devices: copy the data"),
    (
        "a bcachefs file system",
        "it has superblocks in several places, so that the disk alone could still be mounted: copy the data",
    ),
    ("a device of VDO", "take over the device that VDO makes of it"),
    ("a device of a Stratis pool", "it is one of several devices: copy the data"),
    ("a device of Ceph (BlueStore)", "it is one of several devices: copy the data"),
    ("a device of dm-integrity", "take over the device that dm-integrity makes of it"),
];

struct Opened {
    devices: Vec<Option<Device>>,
    fast: DeviceId,
    disk: DeviceId,
}

impl Opened {
    fn device(&self, device: DeviceId) -> &Device {
        self.devices[device.index()].as_ref().expect("all devices are there")
    }
}

fn open(spec: &VolumeSpec) -> Result<Opened, OfflineError> {
    let (fast, disk) = match &spec.config.placement {
        Placement::Caching(pair) | Placement::Partitioned(pair) => (pair.fast, pair.slow),
        _ => return Err(OfflineError::Refused(AdoptError::Placement.to_string())),
    };
    spec.devices.iter().try_for_each(refuse_used)?;
    let devices = Device::open_all(&spec.devices, Opening { direct: true, rights: Rights::Write }, &[])?;
    multi_mount::look(&devices, &Notifier::default())?;
    if let Some((at, _)) = spec.devices.iter().zip(&devices).find(|(_, device)| device.is_none()) {
        return Err(OfflineError::Refused(format!("{at} is not there: name a device or a file that is")));
    }
    Ok(Opened { devices, fast, disk })
}

fn said(spec: &VolumeSpec) -> impl Fn(AdoptError) -> OfflineError {
    |error| match error {
        AdoptError::Device { .. } | AdoptError::Differs { .. } => OfflineError::Failed(spec.with_names(error)),
        _ => OfflineError::Refused(spec.with_names(error)),
    }
}

/// Takes over a disk, or goes on with that.
///
/// # Errors
/// It would not be safe, or a device has failed. Nothing is lost; the next call goes on.
pub fn adopt(spec: &VolumeSpec, asked: Adopting) -> Result<Adopted, OfflineError> {
    let opened = open(spec)?;
    let sizes: Vec<Bytes> = opened.devices.iter().flatten().map(|device| device.size).collect();
    let mut files = Files::new(&opened.devices)?;
    let plan = |home| adoption::plan(&spec.config, &sizes, home);
    // Where an earlier call has begun, its decision stays.
    let mut refused = None;
    let mut begun = None;
    for home in [Home::Disk, Home::Fast].into_iter().filter(|home| asked.home.is_none_or(|asked| asked == *home)) {
        let Ok(plan) = plan(home) else { continue };
        match adoption::standing(&plan, &mut files) {
            Ok(Standing::New) => {}
            Ok(standing) => begun = begun.or(Some((plan, standing))),
            Err(error) => refused = Some(error),
        }
    }
    let (plan, standing, holds) = match (begun, refused) {
        (Some((plan, standing)), _) => (plan, standing, None),
        (None, Some(error)) => return Err(said(spec)(error)),
        (None, None) => {
            let (plan, holds) = decide(spec, &opened, &plan, asked)?;
            (plan, Standing::New, Some(holds))
        }
    };
    check_blocks(spec, &opened, &plan)?;
    let report = |volume: Option<VolumeId>, done, has_old_partitions| {
        let home = opened.device(plan.displaced.home);
        let disk = opened.device(opened.disk);
        Adopted {
            volume: volume.map(|volume| format!("{:032x}", volume.0)),
            size: plan.displaced.volume,
            disk: disk.name.clone(),
            path: disk.path.clone(),
            holds,
            displaced: Displacement {
                bytes: plan.displaced.bytes,
                device: home.name.clone(),
                path: home.path.clone(),
                at: plan.displaced.at,
                elsewhere: plan.displaced.is_elsewhere(),
            },
            cache: plan.config.devices[opened.fast.index()],
            has_old_partitions,
            done,
        }
    };
    if asked.dry_run {
        return Ok(report(None, "nothing", false));
    }
    drop(files);
    if standing == Standing::New {
        prepare(&opened, &plan)?;
    }
    let unix_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let new =
        Formatting { volume: VolumeId(u128::from_le_bytes(random()?)), unix_s, zeroed: false, notes: String::new() };
    let (volume, taken) = adoption::adopt(&plan, new, &mut Files::new(&opened.devices)?).map_err(said(spec))?;
    let done = match taken {
        Taken::New => "new",
        Taken::BegunAgain => "begun_again",
        Taken::Resumed => "resumed",
        Taken::Already => "already",
    };
    // The table is not at its place any more, and what was a partition may look whole.
    let has_old_partitions = opened.device(opened.disk).read_partitions_again().is_err();
    Ok(report(Some(volume), done, has_old_partitions))
}

/// Makes the disk as it was, if taking it over has begun and has not come to its end. Returns whether it had been changed.
///
/// # Errors
/// There is nothing to undo, or a device has failed.
pub fn undo_adoption(spec: &VolumeSpec) -> Result<bool, OfflineError> {
    let opened = open(spec)?;
    adoption::undo(&spec.config, &mut Files::new(&opened.devices)?).map_err(said(spec))
}

/// Checks what the devices hold, and decides where the first part of the disk goes.
fn decide(
    spec: &VolumeSpec,
    opened: &Opened,
    plan: &dyn Fn(Home) -> Result<Plan, AdoptError>,
    asked: Adopting,
) -> Result<(Plan, &'static str), OfflineError> {
    let disk = opened.device(opened.disk);
    let kind = |what: &str, remedy: &str| OfflineError::Refused(format!("{disk} is {what}: {remedy}"));
    let holds = probe::content(disk)
        .map_err(failed(disk, "reading"))?
        .ok_or_else(|| kind("empty", "peryton create makes a volume of it"))?;
    if let Some((what, remedy)) = NEVER.iter().find(|(what, _)| *what == holds) {
        return Err(kind(what, remedy));
    }
    if probe::ends_as_md(disk).map_err(failed(disk, "reading"))? {
        let (what, remedy) = NEVER[2];
        return Err(kind(what, remedy));
    }
    let used = contents::used(disk).map_err(failed(disk, "reading"))?;
    let plan = match asked.home {
        Some(Home::Fast) => plan(Home::Fast),
        wanted => {
            let at_the_end = plan(Home::Disk);
            let has_room = |plan: &Plan| used.is_some_and(|used| used <= plan.displaced.volume);
            match at_the_end {
                Ok(plan) if has_room(&plan) => Ok(plan),
                Ok(plan) if wanted.is_some() => {
                    let used = match used {
                        Some(used) => format!("which uses {used} of {}: make that smaller first", disk.size),
                        None => "and how much of the disk that uses is not known: copy the data".to_owned(),
                    };
                    return Err(OfflineError::Refused(format!(
                        "{disk} has no room for {} at its end: it holds {holds}, {used}, or let it go to the fast device (--home fast)",
                        plan.displaced.bytes
                    )));
                }
                Err(error) if wanted.is_some() => Err(error),
                _ => plan(Home::Fast),
            }
        }
    };
    let plan = plan.map_err(said(spec))?;
    refuse_data(opened.device(opened.fast), asked.force)?;
    Ok((plan, holds))
}

/// What is cut at the borders of the parts of the disk must be whole blocks of both devices.
fn check_blocks(spec: &VolumeSpec, opened: &Opened, plan: &Plan) -> Result<(), OfflineError> {
    let block = opened.devices.iter().flatten().map(|device| device.ability.block).max().unwrap_or(1).max(512);
    let size = plan.displaced.volume;
    if size.0.is_multiple_of(block) {
        return Ok(());
    }
    let is_block = opened.device(opened.disk).is_block;
    let remedy = match is_block {
        true => "--home disk ends the volume before that, if the disk has room at its end",
        false => "make the file a little longer (truncate -s %4096)",
    };
    let device = opened.disk.index();
    Err(said(spec)(AdoptError::Unaligned { device, size, block: Bytes(block), remedy }))
}

/// Gives the fast device space if it is a file, and notifies it that what it holds is not needed.
fn prepare(opened: &Opened, plan: &Plan) -> Result<(), OfflineError> {
    let fast = opened.device(opened.fast);
    let sizes = plan.config.sizes().map_err(|error| OfflineError::Refused(error.to_string()))?;
    let index = opened.fast.index();
    let part = Part { need: sizes.devices[index], data_at: sizes.data_at[index], behind: sizes.behind[index] };
    part.reserve(fast)?;
    // Nothing relies on it: what free places hold counts as unknown.
    let _ = rustix::fs::fallocate(&fast.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, fast.size.0);
    part.allocate(fast)?;
    let end = if plan.displaced.is_elsewhere() { plan.displaced.at } else { records_at(fast.size) };
    Ok(make_room(fast, (end.0, fast.size.0), |_, _| Ok(()))?)
}

//! Operations on a volume that is not being served: inspect, repair, replace a lost device, detach.

use std::{io, path::Path};

use peryton_engine::{
    ConfigError, DetachError, Detached, DeviceId, Engine, Forgone, Inspection, Metadata, OpenError, Opened, Overlay,
    Placement, ReadmitError, Readmitted, ReplaceError, Trust,
    adoption::{self, AdoptError},
    closed,
};
use peryton_format::displaced::Displaced;
use peryton_units::Bytes;
use thiserror::Error;

use crate::{
    division,
    format::{Part, failed, refuse_data, zero},
    multi_mount::{self, HeldElsewhere},
    notify::Notifier,
    open::{Device, DeviceOpenError, DevicePath, Opening, Rights, named, refuse_used},
    own_sizes,
    spec::VolumeSpec,
    storage::{Failed, Files},
};

/// Why an operation on a volume that is not being served failed. One line each.
#[derive(Debug, Error)]
pub enum OfflineError {
    /// A device cannot be opened.
    #[error(transparent)]
    Device(#[from] DeviceOpenError),
    /// A server has a volume on these devices.
    #[error(transparent)]
    HeldElsewhere(#[from] HeldElsewhere),
    /// The design, or what the devices have, does not fit the operation.
    #[error("{0}")]
    Refused(String),
    /// Data are lost, or may be, and that was not accepted.
    #[error("{0}")]
    Lost(String),
    /// A device has failed, or what was copied is not what is read back.
    #[error("{0}")]
    Failed(String),
    /// A system call failed.
    #[error("{0}")]
    System(#[from] io::Error),
}

fn refused<E: OfDevices>(spec: &VolumeSpec) -> impl Fn(E) -> OfflineError {
    |error| OfflineError::Refused(in_words(spec, None, &error))
}

/// An error about the devices of a volume. It may lack the name of the device.
pub(crate) trait OfDevices: std::fmt::Display {
    /// Why the volume cannot be opened, if that is the error.
    fn of_opening(&self) -> Option<&OpenError>;

    /// Whether it says that a device could not be read or written.
    fn is_of_a_device(&self) -> bool {
        // A superblock that could not be read is as damaged as one that was overwritten.
        matches!(
            self.of_opening(),
            Some(OpenError::Device { .. } | OpenError::Damaged { .. } | OpenError::DamagedData { .. })
        )
    }

    /// Whether it says that data are lost, or may be.
    fn is_of_a_loss(&self) -> bool {
        false
    }
}

impl OfDevices for OpenError {
    fn of_opening(&self) -> Option<&OpenError> {
        Some(self)
    }
}

impl OfDevices for ConfigError {
    fn of_opening(&self) -> Option<&OpenError> {
        None
    }
}

impl OfDevices for ReplaceError {
    fn of_opening(&self) -> Option<&OpenError> {
        if let ReplaceError::Open(error) = self { Some(error) } else { None }
    }
}

impl OfDevices for ReadmitError {
    fn of_opening(&self) -> Option<&OpenError> {
        if let ReadmitError::Open(error) = self { Some(error) } else { None }
    }
}

impl OfDevices for AdoptError {
    fn of_opening(&self) -> Option<&OpenError> {
        if let AdoptError::Detach(error) = self { error.of_opening() } else { None }
    }

    fn is_of_a_device(&self) -> bool {
        match self {
            AdoptError::Device { .. } => true,
            AdoptError::Detach(error) => error.is_of_a_device(),
            _ => false,
        }
    }

    fn is_of_a_loss(&self) -> bool {
        match self {
            AdoptError::Lost { .. } => true,
            AdoptError::Detach(error) => error.is_of_a_loss(),
            _ => false,
        }
    }
}

impl OfDevices for DetachError {
    fn of_opening(&self) -> Option<&OpenError> {
        if let DetachError::Open(error) = self { Some(error) } else { None }
    }

    fn is_of_a_device(&self) -> bool {
        match self {
            DetachError::Open(error) => error.is_of_a_device(),
            DetachError::Device | DetachError::Dirty { .. } => true,
            DetachError::Divided | DetachError::Alone { .. } | DetachError::Lost { .. } | DetachError::LossUnknown => {
                false
            }
        }
    }

    fn is_of_a_loss(&self) -> bool {
        matches!(self, DetachError::Lost { .. } | DetachError::LossUnknown)
    }
}

/// An error in words. A device that cannot be read is another case than one that takes reads and refuses writes, and has another way out.
pub(crate) fn in_words(spec: &VolumeSpec, failed: Option<Failed>, error: &impl OfDevices) -> String {
    let Some(Failed { device, is_read, is_full, .. }) = failed.filter(|_| error.is_of_a_device()) else {
        return error.of_opening().map_or_else(|| spec.with_names(error), |error| spec.why_not_opened(error));
    };
    let DevicePath { name, path } = &spec.devices[device.index()];
    match is_read {
        true => format!(
            "{}: device '{name}' cannot be read: copy its readable data to another device (ddrescue) and name that in the design; \
             or give up the data that only it has (--without {name}), and put an empty device in its place (peryton replace)",
            path.display()
        ),
        false => refuses_writes(&spec.devices[device.index()], device, &spec.config.placement, is_full),
    }
}

/// Why no device stands alone.
fn not_alone(spec: &VolumeSpec, failed: Option<Failed>, error: &impl OfDevices) -> OfflineError {
    let why = in_words(spec, failed, error);
    if error.is_of_a_loss() { OfflineError::Lost(why) } else { OfflineError::Refused(why) }
}

/// The message if the devices fit together, and the records that a killed server has left in memory do not fit them.
pub(crate) fn rolled_back(
    spec: &VolumeSpec,
    devices: &[Option<Device>],
    without: &[DeviceId],
    (files, error): (&Files<'_>, &OpenError),
) -> Option<String> {
    if !files.was_left() || !matches!(error, OpenError::Damaged { .. }) {
        return None;
    }
    let mut files = Files::new(devices).ok()?;
    Engine::open_without(spec.config.clone(), &mut Overlay::new(&mut files), without).ok()?;
    Some(
        "the devices lack what the killed server had written: they were rolled back to a snapshot, are older copies, or are \
         damaged; attach the current ones, or accept the state after a power loss at that time (peryton repair --trust as-it-is)"
            .to_owned(),
    )
}

/// What is said of a device that takes reads and refuses writes. `is_full`: because it lacks space.
pub(crate) fn refuses_writes(at: &DevicePath, device: DeviceId, placement: &Placement, is_full: bool) -> String {
    let (name, path) = (&at.name, at.path.display());
    match is_full {
        true => format!("{path}: device '{name}' lacks space: free some on the file system or the pool that it is on"),
        false => format!("{path}: device '{name}' can be read, and refuses writes: {}", way_out(at, device, placement)),
    }
}

/// What to do about a device that takes reads and refuses writes.
pub(crate) fn way_out(at: &DevicePath, device: DeviceId, placement: &Placement) -> String {
    match placement.stands_alone() {
        Some(home) if home != device => format!(
            "peryton export --read-only {} writes the data that only it has to the other device; or copy it to a writable device, \
             and name that in the design",
            at.name
        ),
        _ => "copy it to a device that can be written, and name that in the design".to_owned(),
    }
}

/// The error about paths that are swapped, devices of other volumes, or a design that is not that of the volume. Its sizes then say nothing
/// about the devices.
pub(crate) fn not_of_this_design(
    spec: &VolumeSpec,
    devices: &[Option<Device>],
    without: &[DeviceId],
) -> Option<OpenError> {
    let found = closed::inspect(spec.config.clone(), &mut Files::new(devices).ok()?, false, without).ok()?;
    let is_of_another = |error: &OpenError| {
        matches!(error, OpenError::Swapped { .. } | OpenError::Foreign { .. } | OpenError::Mismatch { .. })
    };
    found.opened.err().filter(is_of_another)
}

/// Refuses devices that a server has, by whatever other names and on whichever machine.
fn look(devices: &[Option<Device>]) -> Result<(), HeldElsewhere> {
    multi_mount::look(devices, &Notifier::default()).map(drop)
}

/// How existing devices are opened.
const AS_THEY_ARE: Opening = Opening { direct: true, rights: Rights::Write };
/// How they are opened to be looked at.
const TO_BE_READ: Opening = Opening { direct: true, rights: Rights::Read };

/// Inspects a volume without changing anything. `whole`: also reports the journal and the map. `without`: reports the
/// volume as it would be without the devices of these names.
///
/// # Errors
/// A device cannot be opened or read, or the volume is not one of this design.
pub fn inspect(spec: &VolumeSpec, whole: bool, without: &[String]) -> Result<Inspection, OfflineError> {
    let without = named(&spec.devices, without)?;
    let devices = Device::open_volume(&spec.devices, TO_BE_READ, &without)?;
    look(&devices)?;
    let mut files = Files::with_memory(&devices, &spec.process_death)?;
    let mut found = closed::inspect(spec.config.clone(), &mut files, whole, &without).map_err(refused(spec))?;
    if let Err(error) = &found.opened {
        let unreadable = files.failed().filter(|failed| failed.is_read && error.is_of_a_device());
        let unreadable = unreadable.map(|failed| in_words(spec, Some(failed), error));
        if found.metadata == Metadata::Unseen {
            found.findings = vec![in_words(spec, None, error)];
        }
        found.findings.extend(unreadable.or_else(|| rolled_back(spec, &devices, &without, (&files, error))));
    }
    Ok(found)
}

/// Repairs what a crash or a damaged copy left behind, without the devices of these names.
///
/// # Errors
/// Those of [`inspect`], or there is no copy to repair the volume from.
pub fn repair(spec: &VolumeSpec, trust: Trust, without: &[String]) -> Result<Opened, OfflineError> {
    let without = named(&spec.devices, without)?;
    let devices = Device::open_volume(&spec.devices, AS_THEY_ARE, &without)?;
    look(&devices)?;
    let mut files = Files::with_memory(&devices, &spec.process_death)?;
    let (config, mut trust) = (&spec.config, trust);
    let opens = Engine::open_without(config.clone(), &mut Overlay::new(&mut files), &without);
    let rolled_back = opens.err().and_then(|error| rolled_back(spec, &devices, &without, (&files, &error)));
    match rolled_back {
        // `--trust` is not needed if the devices agree.
        Some(_) if trust == Trust::AsItIs => (files, trust) = (files.ignoring_memory(), Trust::None),
        Some(why) => return Err(OfflineError::Refused(why)),
        None => {}
    }
    let opened = closed::repair(config.clone(), &mut files, trust, &without)
        .map_err(|error| OfflineError::Refused(in_words(spec, files.failed(), &error)))?;
    files.forget_memory();
    Ok(opened)
}

/// Replaces a lost device by the empty one at `with`. It is an error if that device holds data, unless `force` is
/// true. It is also an error if data would be lost that no metadata can name afterwards (`linear`, `logging`), or that are on
/// the old device, which is there, unless `accept_loss` is true.
///
/// # Errors
/// Those of [`inspect`], or one of the refusals above.
pub fn replace(
    spec: &VolumeSpec,
    name: &str,
    with: &Path,
    force: bool,
    accept_loss: bool,
) -> Result<Opened, OfflineError> {
    let replaced = named(&spec.devices, &[name.to_owned()])?[0];
    let device = replaced.index();
    // What is lost with the old device there; the caller does not ask if the loss is accepted, and nothing is known if it is not there.
    let with_old = (!accept_loss).then(|| inspect(spec, false, &[]).ok()?.opened.ok()).flatten();
    let mut spec = spec.clone();
    let old_path = std::mem::replace(&mut spec.devices[device].path, with.to_owned());
    let spec = &spec;
    let mut devices = Device::open_volume(&spec.devices, AS_THEY_ARE, &[replaced])?;
    look(&devices)?;
    let map = division::find(&devices)?;
    // Nothing is destroyed before it is known that the volume can be opened without the device.
    let mut files = Files::with_memory(&devices, &spec.process_death)?;
    let without = closed::can_replace(&spec.config, &mut files, replaced, accept_loss).map_err(refused(spec))?;
    let alone = with_old.map_or(0, |with_old| without.lost.saturating_sub(with_old.lost));
    if alone > 0 {
        return Err(OfflineError::Refused(format!(
            "device '{name}' ({}) is there, and has {alone} extents that no other device has: serve the volume, and replace the device in \
             service, which copies them (--accept-loss gives them up)",
            old_path.display()
        )));
    }
    drop(files);
    refuse_used(&spec.devices[device])?;
    devices[device] = Device::open(&spec.devices[device], Opening { direct: true, rights: Rights::Create })?;
    let made_ready = make_ready(spec, (&mut devices, map), replaced, force);
    made_ready.inspect_err(|_| devices[device].iter().for_each(Device::remove_new))?;
    if let Some(map) = map {
        division::divide(&mut devices, map)?;
    }
    let mut files = Files::with_memory(&devices, &spec.process_death)?;
    let opened = closed::replace(spec.config.clone(), &mut files, replaced, accept_loss).map_err(refused(spec))?;
    files.forget_memory();
    Ok(opened)
}

/// Empties the device that takes the place of this one. A device that is refused is unchanged.
fn make_ready(
    spec: &VolumeSpec,
    (devices, map): (&mut [Option<Device>], Option<Displaced>),
    replaced: DeviceId,
    force: bool,
) -> Result<(), OfflineError> {
    let device = replaced.index();
    // The sizes of a resized volume are in the superblock of the other device alone.
    let sizes = closed::sizes_in_force(&spec.config, &mut Files::new(devices)?).map_err(refused(spec))?;
    // The engine does not see that a device has displaced data, or had data before, in its sizes.
    let (need, is_home) = match map {
        Some(map) if map.device == replaced => (map.needs(), false),
        Some(map) if map.home == replaced => ((map.at + map.bytes).max(sizes.devices[device]), true),
        _ => (sizes.devices[device], false),
    };
    let Some(new) = &mut devices[device] else { return Ok(()) };
    refuse_data(new, force)?;
    if is_home && new.is_block && new.size < need {
        let (has, need) = (new.size.beside(need), need.beside(new.size));
        return Err(OfflineError::Refused(format!("{new} has {has}, and {need} are needed: name a larger device")));
    }
    if !new.is_block || new.size >= need {
        // On the home of displaced data, the room for snapshots and then the displaced data lie behind the volume.
        let (used, behind) = match is_home {
            true => (sizes.devices[device], need - sizes.devices[device]),
            false => (need, sizes.behind[device]),
        };
        let part = Part { need: used, data_at: sizes.data_at[device], behind };
        part.reserve(new)?;
        let is_empty = part.empty(new)?;
        if !is_empty && (is_home || closed::replaces_with_zeros(&spec.config, replaced)) {
            zero(new, need).map_err(failed(new, "writing zeros"))?;
        }
    }
    new.sync_directory().map_err(failed(new, "making its directory durable"))
}

/// Takes the device of this name back, which was given up, with what it holds.
///
/// # Errors
/// As [`inspect`]; or it is not the one that was given up, or has not everything that it had then. Nothing has changed.
pub fn readmit(spec: &VolumeSpec, name: &str) -> Result<Readmitted, OfflineError> {
    let device = named(&spec.devices, &[name.to_owned()])?[0];
    let devices = Device::open_volume(&spec.devices, AS_THEY_ARE, &[])?;
    look(&devices)?;
    let mut files = Files::with_memory(&devices, &spec.process_death)?;
    let readmitted = closed::readmit(spec.config.clone(), &mut files, device).map_err(refused(spec))?;
    files.forget_memory();
    Ok(readmitted)
}

/// A device that stands alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alone {
    /// Where the data are.
    pub detached: Detached,
    /// Whether the device had data before it became part of the volume, and has them at their old places now.
    pub given_back: bool,
    /// Whether an earlier call had begun it.
    pub resumed: bool,
}

/// Writes everything to one device, which can then be used without the others. The devices of the names `without` are not there;
/// `accept_loss`: what is lost with them may be. `left` is called with the number of extents (of a log: blocks) that are still to be
/// written, again and again.
///
/// # Errors
/// Those of [`inspect`], or no device can have everything.
pub fn detach(
    spec: &VolumeSpec,
    without: &[String],
    accept_loss: bool,
    left: &mut dyn FnMut(u64),
) -> Result<Alone, OfflineError> {
    let mut without = named(&spec.devices, without)?;
    let evacuated = named(&spec.devices, &own_sizes::evacuated(&spec.devices))?;
    without.extend(evacuated.into_iter().filter(|device| !without.contains(device)).collect::<Vec<_>>());
    let devices = Device::open_all(&spec.devices, AS_THEY_ARE, &without)?;
    look(&devices)?;
    let is_missing =
        |(index, device): &(usize, &Option<Device>)| device.is_none() && !without.contains(&DeviceId(*index as u8));
    if let Some((index, _)) = devices.iter().enumerate().find(is_missing) {
        let at = &spec.devices[index];
        return Err(OfflineError::Refused(format!(
            "{at} is not there: attach it, or set its path in the design; --without {} exports the data of the others, if nothing is \
             lost with it",
            at.name
        )));
    }
    let forgone = Forgone { devices: &without, accept_loss };
    let mut files = Files::with_memory(&devices, &spec.process_death)?;
    let returning = adoption::is_returning(&spec.config, &mut files, &without)
        .map_err(|error| OfflineError::Refused(in_words(spec, files.failed(), &error)))?;
    let map = if returning { None } else { division::find(&devices)? };
    let alone = if returning || map.is_some() {
        let back = adoption::give_back(&spec.config, map, &mut files, forgone, left)
            .map_err(|error| not_alone(spec, files.failed(), &error))?;
        if let Some(device) = &devices[back.device.index()] {
            // This fails only for partitions in use, which have not changed.
            let _ = device.read_partitions_again();
        }
        let detached = Detached {
            device: back.device,
            at: Bytes::ZERO,
            len: back.len,
            written_back: back.written_back,
            lost: back.lost,
        };
        Alone { detached, given_back: true, resumed: back.resumed }
    } else {
        let detached = closed::detach(spec.config.clone(), &mut files, forgone, left)
            .map_err(|error| not_alone(spec, files.failed(), &error))?;
        Alone { detached, given_back: false, resumed: false }
    };
    files.forget_memory();
    Ok(alone)
}

/// Does what [`detach`] does for a volume of which one device takes reads and refuses writes: it is opened to be read, and what only it
/// has is written to the other one. Until that has succeeded, the volume is as it was.
///
/// # Errors
/// As [`detach`]; or the device is the one that is to stand alone, or it, or the other one, had data before the volume was made.
pub fn rescue(spec: &VolumeSpec, name: &str, left: &mut dyn FnMut(u64)) -> Result<Alone, OfflineError> {
    let only_read = named(&spec.devices, &[name.to_owned()])?[0];
    let mut devices = Device::open_all(&spec.devices, AS_THEY_ARE, &[only_read])?;
    devices[only_read.index()] = Device::open(&spec.devices[only_read.index()], TO_BE_READ)?;
    look(&devices)?;
    if division::find(&devices)?.is_some() {
        // It is given back in steps, of which its fast device has the record.
        return Err(OfflineError::Refused(format!(
            "the disk was taken over (peryton import), and giving it back writes to device '{name}': copy that to a device that can be \
             written, name the copy in the design, and export again"
        )));
    }
    if spec.config.placement.stands_alone() == Some(only_read) {
        return Err(OfflineError::Refused(format!(
            "device '{name}' is the one that is to stand alone: copy it to a device that can be written, and name that in the design"
        )));
    }
    let mut files = Files::with_memory(&devices, &spec.process_death)?;
    let detached = closed::rescue(spec.config.clone(), &mut files, only_read, left)
        .map_err(|error| not_alone(spec, files.failed(), &error))?;
    files.forget_memory();
    Ok(Alone { detached, given_back: false, resumed: false })
}

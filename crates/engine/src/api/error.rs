pub use peryton_format::storage::DeviceError;
use peryton_format::superblock::VolumeId;
use peryton_policy::SettingError;
use peryton_units::Bytes;
use thiserror::Error;

use crate::api::command::IoId;

/// What a host request is answered with when it fails.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RequestError {
    /// The request ends past the end of the volume.
    #[error("past the end of the volume")]
    OutOfRange,
    /// A device failed and no other copy could serve the request.
    #[error("a device failed")]
    Device,
    /// The only copy of the data was lost in an earlier failure, and nothing has been written there since.
    #[error("the data was lost in an earlier failure")]
    Lost,
    /// No place is left on any device.
    #[error("no space left")]
    NoSpace,
}

/// What a driver did that its contract rules out. The engine's tables are as they were before the call.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DriverError {
    /// The command is not in flight: it has been completed before, or the engine never gave that id.
    #[error("{io:?} is not in flight: it was completed before, or the engine never gave it")]
    NotInFlight {
        /// The id.
        io: IoId,
    },
    /// The command is in flight, but it writes no metadata that could be encoded.
    #[error("{io:?} writes no metadata: only what the engine names metadata is encoded")]
    NotMetadata {
        /// The id.
        io: IoId,
    },
}

/// A configuration that cannot work. Each message names the design key and the remedy.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// The extent size is not usable.
    #[error("placement.extent is {extent}: it must be a multiple of 4KiB, from 4KiB to 1GiB")]
    Extent {
        /// What was given.
        extent: Bytes,
    },
    /// A device is too small for one extent.
    #[error("device {device} has {size} for data, less than the {need} that this design needs: give it more")]
    TooSmall {
        /// The index of the device.
        device: usize,
        /// What it has.
        size: Bytes,
        /// What is needed at least.
        need: Bytes,
    },
    /// No device is that large.
    #[error("device {device} has {size}: no device is larger than {most}")]
    TooLarge {
        /// The index of the device.
        device: usize,
        /// What it has.
        size: Bytes,
        /// What it may have.
        most: Bytes,
    },
    /// More extents than the map can number.
    #[error(
        "{extents} extents are more than the map can number ({most}): use a larger placement.extent or smaller devices"
    )]
    TooManyExtents {
        /// How many there would be.
        extents: u64,
        /// How many can be.
        most: u64,
    },
    /// The placement names a device that is not there, or one device twice.
    #[error("the placement names device {device}, but the design has {devices} and each may be named once")]
    Device {
        /// The index of the device.
        device: usize,
        /// How many there are.
        devices: usize,
    },
    /// A tuning value is not usable.
    #[error(transparent)]
    Tuning(#[from] TuningError),
}

/// A tuning value that cannot work; the engine stays as it was.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TuningError {
    /// A value outside its range.
    #[error("{key} is {value}: {remedy}")]
    Range {
        /// The design key.
        key: &'static str,
        /// What was given.
        value: String,
        /// What would be accepted.
        remedy: &'static str,
    },
    /// The placement does not know the key.
    #[error("{key} does not apply to this placement: remove it")]
    NotApplicable {
        /// The design key.
        key: &'static str,
    },
}

impl From<SettingError> for TuningError {
    fn from(error: SettingError) -> TuningError {
        match error {
            SettingError::Range { key, value, remedy } => TuningError::Range { key, value, remedy },
            SettingError::NotApplicable { key } => TuningError::NotApplicable { key },
        }
    }
}

/// Why a volume could not be formatted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FormatError {
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A device has too little room.
    #[error("device {device} has {size}, but the volume needs {need} of it: give it more, or give the volume less")]
    TooSmall {
        /// The index of the device.
        device: usize,
        /// What it has.
        size: Bytes,
        /// What the volume needs of it.
        need: Bytes,
    },
    /// More devices than a superblock can name.
    #[error("a volume has at most {most} devices: use fewer")]
    TooManyDevices {
        /// How many it can name.
        most: usize,
    },
    /// The driver's text is too long.
    #[error("the settings are longer than the {most} bytes that a superblock keeps: set fewer")]
    Notes {
        /// How many bytes it can keep.
        most: usize,
    },
    /// A device could not be read or written.
    #[error("device {device} could not be read or written: check it and try again")]
    Device {
        /// The index of the device.
        device: usize,
    },
}

/// Why a volume could not be taken apart. It can still be opened.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DetachError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No device can have everything.
    #[error("the data of this placement is divided between its devices, so that none can stand alone: copy the volume")]
    Divided,
    /// Some of it is gone.
    #[error("{extents} extents were lost in earlier failures: overwrite or discard them first")]
    Lost {
        /// How many.
        extents: u64,
    },
    /// Not everything could be written home.
    #[error(
        "{extents} extents (of a log: blocks) could not be written to the device that is to stand alone: check it and try again"
    )]
    Dirty {
        /// How many.
        extents: u64,
    },
    /// A device could not be written.
    #[error("a device could not be written: check it and try again")]
    Device,
}

/// Why a device could not be replaced. The volume is as it was.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ReplaceError {
    /// It cannot be opened without the device.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Nothing would tell what is lost from zeros.
    #[error(
        "only device {device} had {bytes} of the volume, which would read as zeros from now on: give --accept-loss if \
         they are to"
    )]
    Zeros {
        /// The index of the device.
        device: usize,
        /// How much.
        bytes: Bytes,
    },
    /// Nothing would tell where the primary is older than what was in the log.
    #[error(
        "what only device {device} had is lost, and nobody knows where that was: the volume would go on as the primary \
         has it, older where the log was newer: give --accept-loss if it is to"
    )]
    Older {
        /// The index of the device.
        device: usize,
    },
    /// A device has too little room.
    #[error("device {device} has {size}, but the volume needs {need} of it: give a larger one")]
    TooSmall {
        /// The index of the device.
        device: usize,
        /// What it has.
        size: Bytes,
        /// What the volume needs of it.
        need: Bytes,
    },
    /// A device could not be read or written.
    #[error("device {device} could not be read or written: check it and try again")]
    Device {
        /// The index of the device.
        device: usize,
    },
}

/// Why a volume could not be opened. Nothing was changed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OpenError {
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A device is not there.
    #[error("device {device} is missing: attach it, or open the volume without it, which loses what only it has")]
    Missing {
        /// The index of the device.
        device: usize,
    },
    /// A device holds nothing of ours.
    #[error(
        "device {device} is not part of a Peryton volume, or has lost both its superblocks: name the right one, or open the volume \
         without it; to format it destroys what it holds"
    )]
    NotFormatted {
        /// The index of the device.
        device: usize,
    },
    /// A device was formatted by a later version.
    #[error("device {device} has format version {version}, which this program does not know: use a newer one")]
    Version {
        /// The index of the device.
        device: usize,
        /// Its version.
        version: u32,
    },
    /// Metadata is damaged beyond what its copies can make good.
    #[error("device {device} is damaged: {what}")]
    Damaged {
        /// The index of the device.
        device: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A device belongs to another volume.
    #[error("device {device} belongs to volume {:032x}, the others to {:032x}: name the right one", volume.0, expected.0)]
    Foreign {
        /// The index of the device.
        device: usize,
        /// Its volume.
        volume: VolumeId,
        /// The volume of the newest device.
        expected: VolumeId,
    },
    /// The devices are named in the wrong order.
    #[error("device {device} of the design is device {is} of the volume: swap the paths")]
    Swapped {
        /// The index in the design.
        device: usize,
        /// The index that it was formatted with.
        is: usize,
    },
    /// The design is not the one that was formatted.
    #[error(
        "the design does not match the volume: {differences}: change the design back (to format with the new one gives up what the \
         volume holds: copy it elsewhere first)"
    )]
    Mismatch {
        /// What differs.
        differences: String,
    },
    /// A device was left behind while the volume was used without it.
    #[error(
        "device {device} is older than the others (generation {generation} of {newest}): it is a copy or was left out \
         while the volume was used; attach the present one"
    )]
    Stale {
        /// The index of the device.
        device: usize,
        /// Its generation.
        generation: u64,
        /// The generation of the newest device.
        newest: u64,
    },
    /// A device failed, or was left out, while the volume was used.
    #[error(
        "device {device} was given up at generation {generation}, and the volume was used without it: what it holds is \
         older; open the volume without it, or replace it by an empty one"
    )]
    LeftOut {
        /// The index of the device.
        device: usize,
        /// The generation in which it was given up, or a later one.
        generation: u64,
    },
    /// Nothing says what was lost with a device.
    #[error(
        "device {device} is missing, and the journal was kept on it alone (mirror_journal = false): nobody knows what \
         was where; attach it, or give up all that it had with repair --trust slow"
    )]
    Untracked {
        /// The index of the device.
        device: usize,
    },
    /// No device is left.
    #[error("without device {device} nothing is left of the volume: attach it")]
    NothingLeft {
        /// The index of the device.
        device: usize,
    },
    /// Someone else wrote to a device after the volume was closed.
    #[error(
        "device {device} was written to after the volume was closed, so the other devices no longer match it: \
         run repair to say which of them is right"
    )]
    Changed {
        /// The index of the device.
        device: usize,
    },
    /// The volume was taken apart.
    #[error(
        "the volume was detached: device {device} stands alone, without the others; mount it (dump tells the offset)"
    )]
    Detached {
        /// The index of the device that has everything.
        device: usize,
    },
    /// A device has too little room.
    #[error("device {device} has {size}, but the volume needs {need} of it: it was larger when it was formatted")]
    TooSmall {
        /// The index of the device.
        device: usize,
        /// What it has.
        size: Bytes,
        /// What the volume needs of it.
        need: Bytes,
    },
    /// A device could not be read or written.
    #[error("device {device} could not be read or written: check it and try again")]
    Device {
        /// The index of the device.
        device: usize,
    },
}

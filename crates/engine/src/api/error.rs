pub use peryton_format::storage::DeviceError;
use peryton_format::superblock::VolumeId;
use peryton_policy::SettingError;
use peryton_units::Bytes;
use thiserror::Error;

use crate::api::command::IoId;

/// Why a host request failed.
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

/// A violation of the driver's contract. The call has changed nothing in the engine's tables.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DriverError {
    /// The command is not in flight: it has been completed before, or the engine never issued this id.
    #[error("{io:?} is not in flight: it was completed before, or the engine never issued it")]
    NotInFlight {
        /// The id.
        io: IoId,
    },
    /// The command is in flight, but it writes no metadata.
    #[error("{io:?} writes no metadata: encode only commands whose buffer is metadata")]
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
        /// The given size.
        extent: Bytes,
    },
    /// A device is too small for one extent.
    #[error("device {device} has {} for data, less than the {} that this design needs: give it more",
        size.beside(*need), need.beside(*size))]
    TooSmall {
        /// The index of the device.
        device: usize,
        /// Its size for data.
        size: Bytes,
        /// The least size that is needed.
        need: Bytes,
    },
    /// A device is larger than any device can be.
    #[error("device {device} has {size}: no device is larger than {most}")]
    TooLarge {
        /// The index of the device.
        device: usize,
        /// The given size.
        size: Bytes,
        /// The largest possible size.
        most: Bytes,
    },
    /// There would be more extents than the map can number.
    #[error(
        "{extents} extents are more than the map can number ({most}): use a larger placement.extent or smaller devices"
    )]
    TooManyExtents {
        /// The number of extents.
        extents: u64,
        /// The most extents.
        most: u64,
    },
    /// The placement names a device that the design does not have, or one device twice.
    #[error("the placement names device {device}, but the design has {devices} and each may be named once")]
    Device {
        /// The index of the device.
        device: usize,
        /// The number of devices.
        devices: usize,
    },
    /// A tuning value is not usable.
    #[error(transparent)]
    Tuning(#[from] TuningError),
}

/// A tuning value that cannot work. The tuning is unchanged.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TuningError {
    /// A value outside its range.
    #[error("{key} is {value}: {remedy}")]
    Range {
        /// The design key.
        key: &'static str,
        /// The given value.
        value: String,
        /// The accepted values.
        remedy: &'static str,
    },
    /// The placement does not have the setting.
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
    /// A device is too small.
    #[error("device {device} has {}, but the volume needs {} of it: give it more, or give the volume less",
        size.beside(*need), need.beside(*size))]
    TooSmall {
        /// The index of the device.
        device: usize,
        /// Its size.
        size: Bytes,
        /// What the volume needs of it.
        need: Bytes,
    },
    /// The volume has more devices than a superblock can name.
    #[error("a volume has at most {most} devices: use fewer")]
    TooManyDevices {
        /// The most devices.
        most: usize,
    },
    /// The driver's notes are too long.
    #[error("the settings are longer than the {most} bytes that a superblock keeps: set fewer")]
    Notes {
        /// The most bytes of notes.
        most: usize,
    },
    /// A device could not be read or written.
    #[error("device {device} could not be read or written: check it and try again")]
    Device {
        /// The index of the device.
        device: usize,
    },
}

/// Why a volume could not be detached. It can still be opened.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DetachError {
    /// The volume cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No device has room for all data.
    #[error("the data of this placement is divided between its devices, so that none can stand alone: copy the volume")]
    Divided,
    /// The device that is to have all data is left out.
    #[error("the export writes all data to device {device}, which is left out: attach it, and do not leave it out")]
    Alone {
        /// The device that is to stand alone.
        device: usize,
    },
    /// Some data is lost.
    #[error(
        "{extents} extents are lost, with a device that is not there or in earlier failures: attach that, overwrite or discard them, or accept it (--accept-loss)"
    )]
    Lost {
        /// The number of lost extents.
        extents: u64,
    },
    /// Some data may be lost, and no metadata says which.
    #[error(
        "without the log it is not known which data are older than the last writes: attach the log, or accept the loss (--accept-loss)"
    )]
    LossUnknown,
    /// Some data could not be written to the device that is to have everything.
    #[error(
        "{extents} extents (of a log: blocks) could not be written to the device that is to stand alone: check it and try again"
    )]
    Dirty {
        /// The number of extents, or of blocks of a log.
        extents: u64,
    },
    /// A device could not be written.
    #[error("a device could not be written: check it and try again")]
    Device,
}

/// Why a device could not be replaced. The volume is unchanged.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ReplaceError {
    /// The volume cannot be opened without the device, or a device could not be read or written.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Lost data would read as zeros, and no metadata would distinguish it from zeros that were written.
    #[error(
        "only device {device} had {bytes} of the volume, which would read as zeros from now on: give --accept-loss to \
         allow that"
    )]
    Zeros {
        /// The index of the device.
        device: usize,
        /// The number of bytes lost.
        bytes: Bytes,
    },
    /// The primary is older than the lost log, and no metadata says where.
    #[error(
        "the data that only device {device} had is lost, and no metadata says where that was: the volume would continue \
         with the primary's older data there: give --accept-loss to allow that"
    )]
    Older {
        /// The index of the device.
        device: usize,
    },
    /// A device is too small.
    #[error("device {device} has {}, but the volume needs {} of it: give a larger one",
        size.beside(*need), need.beside(*size))]
    TooSmall {
        /// The index of the device.
        device: usize,
        /// Its size.
        size: Bytes,
        /// What the volume needs of it.
        need: Bytes,
    },
    /// No map says what was on the device.
    #[error(
        "device {device} is gone, and no map says which data only it had: stop the volume, attach an empty device, and use \
         peryton replace, which reports the loss"
    )]
    NotInService {
        /// The index of the device.
        device: usize,
    },
}

/// Why a device could not be taken back. The volume, and the device, are as they were.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ReadmitError {
    /// The volume cannot be opened without it, what is at its path is not it, or a device is too small or fails.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The device is part of the volume.
    #[error("device {device} was not given up: there is nothing to take back")]
    NotGone {
        /// The index of the device.
        device: usize,
    },
    /// The device was used without the others after it was given up.
    #[error(
        "device {device} was used without the other device after it was given up, and both have something that the other lacks: \
         it is not taken back; keep it as it is, copy from it what you need (serve --without the other one, elsewhere), and give the \
         volume another device instead of it (peryton replace)"
    )]
    UsedAlone {
        /// The index of the device.
        device: usize,
    },
    /// The device holds older data than when it was given up.
    #[error(
        "device {device} has the data of generation {generation}, and was given up in generation {given_up}: the writes in \
         between would be lost; attach the present one, and leave this one as it is"
    )]
    Older {
        /// The index of the device.
        device: usize,
        /// Its generation.
        generation: u64,
        /// The generation in which it was given up.
        given_up: u64,
    },
    /// The device lacks commits that it had when it was given up.
    #[error(
        "device {device} lacks commits that were durable when it was given up (it has {newest} of {expected}): it is a copy \
         from earlier; attach the present one, and leave this one as it is"
    )]
    Behind {
        /// The index of the device.
        device: usize,
        /// The last commit that it has.
        newest: u64,
        /// The last commit that it had.
        expected: u64,
    },
    /// The device was given up by a version that did not record when.
    #[error(
        "nothing says in which generation device {device} was given up: an earlier version did not write it down, and the \
         volume was opened without it since; leave it as it is, and give the volume another device instead of it (peryton replace)"
    )]
    Unknown {
        /// The index of the device.
        device: usize,
    },
    /// The device's map cannot be read.
    #[error(
        "device {device}: {what}; leave it as it is, and give the volume another device instead of it (peryton replace)"
    )]
    Damaged {
        /// The index of the device.
        device: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// The primary of a log may lack what the log has given up for it.
    #[error(
        "device {device} is a primary of a log, and a write to it was under way or not flushed when it failed; the log has no older copy \
         of that, so it is not taken back: leave it as it is, copy what you need from the volume without it, and give the volume another \
         device instead of it (peryton replace)"
    )]
    PrimaryOfLog {
        /// The index of the device.
        device: usize,
    },
    /// A log has something that the primary has not, or has otherwise.
    #[error(
        "device {device} is a log with {bytes} that differ from the data of the primary, and no metadata say which of the two \
         is newer: leave it as it is, copy what you need from the volume without it, and give the \
         volume another device instead of it (peryton replace)"
    )]
    LogIsNewer {
        /// The index of the device.
        device: usize,
        /// How many bytes.
        bytes: Bytes,
    },
}

/// What is wrong with devices to which a killed server had written more than they have.
pub(crate) const OLDER_THAN_RECORDS: &str = "its map is older than the records of the killed server";

/// Why a volume could not be opened. Nothing was changed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OpenError {
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A device is absent.
    #[error(
        "device {device} is missing: attach it, or open the volume without it, which loses the data that only it has"
    )]
    Missing {
        /// The index of the device.
        device: usize,
    },
    /// A device has no valid superblock.
    #[error(
        "device {device} is not part of a Peryton volume, or has lost both its superblocks: name the right one, or open the volume \
         without it; formatting destroys its data"
    )]
    NotFormatted {
        /// The index of the device.
        device: usize,
    },
    /// A device was formatted by a later version.
    #[error("device {device} has format version {version}, which this program does not know: use a newer program")]
    Version {
        /// The index of the device.
        device: usize,
        /// The version of its format.
        version: u32,
    },
    /// A device uses features of the format that this program does not know.
    #[error(
        "device {device} uses features of the format that this program does not know (bits {features:#x}): use a newer program"
    )]
    Features {
        /// The index of the device.
        device: usize,
        /// The features, one bit each.
        features: u32,
    },
    /// Metadata is damaged, and no copy of it is valid.
    #[error("device {device} is damaged: {what}")]
    Damaged {
        /// The index of the device.
        device: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// Data in a log are damaged, and the log says which: [`closed::repair`](crate::closed::repair) names them.
    #[error(
        "device {device} is damaged: part of the data in the log is damaged: repair names the blocks that are lost, whose reads then \
         fail until they are written, and keeps the others"
    )]
    DamagedData {
        /// The index of the device.
        device: usize,
    },
    /// A device belongs to another volume.
    #[error("device {device} belongs to volume {:032x}, the others to {:032x}: name the right one", volume.0, expected.0)]
    Foreign {
        /// The index of the device.
        device: usize,
        /// The identity of the volume that it belongs to.
        volume: VolumeId,
        /// The identity of the volume of the newest device.
        expected: VolumeId,
    },
    /// The devices are given in the wrong order.
    #[error("device {device} of the design is device {is} of the volume: swap the paths")]
    Swapped {
        /// The index in the design.
        device: usize,
        /// The index that it was formatted with.
        is: usize,
    },
    /// Another device has taken this one's place.
    #[error(
        "device {device} was replaced while the volume was served, and its data are older: set its path to the device that took \
         its place"
    )]
    Replaced {
        /// The index of the device.
        device: usize,
    },
    /// The device was to take the place of another one, and has not.
    #[error(
        "device {device} is an unfinished replacement: set its path to the old device, and replace the old device again"
    )]
    Aside {
        /// The index of the device.
        device: usize,
    },
    /// The design is not the one that the volume was formatted with.
    #[error(
        "the design does not match the volume: {differences}: change the design back (formatting with the new design destroys \
         the data of the volume: copy them first)"
    )]
    Mismatch {
        /// The differences.
        differences: String,
    },
    /// A device was absent while the volume was used without it.
    #[error(
        "device {device} is older than the others (generation {generation} of {newest}): it is a copy or was left out \
         while the volume was used; attach the current one"
    )]
    Stale {
        /// The index of the device.
        device: usize,
        /// Its generation.
        generation: u64,
        /// The generation of the newest device.
        newest: u64,
    },
    /// A device lacks the newest part of the journal.
    #[error(
        "device {device} has commits up to {newest} of {expected}, which the other device has: if it is a copy from earlier, \
         attach the present one; if it is the present one and its journal was damaged, repair --trust as-it-is takes the \
         journal from the other device"
    )]
    Behind {
        /// The index of the device.
        device: usize,
        /// The last commit that it has.
        newest: u64,
        /// The last commit that it must have had.
        expected: u64,
    },
    /// A device has lost its superblocks, but is known by the rest of its metadata.
    #[error(
        "device {device} has lost both its superblocks, but has the rest of this volume's metadata: repair writes them again \
         from those of the other device"
    )]
    NoSuperblocks {
        /// The index of the device.
        device: usize,
    },
    /// A device has lost its superblocks, and seems to be the present one of its volume.
    #[error(
        "device {device} has lost both its superblocks; its other metadata belong to this volume, but an earlier \
         copy may look the same: if it is the present device, repair --trust as-it-is writes them again from those of the other \
         device"
    )]
    NoSuperblocksUncertain {
        /// The index of the device.
        device: usize,
    },
    /// A device is as it was before the volume was closed.
    #[error(
        "device {device} is a copy from earlier in generation {generation}: it lacks what was written before the volume was \
         closed in good order; attach the present one"
    )]
    Older {
        /// The index of the device.
        device: usize,
        /// The generation.
        generation: u64,
    },
    /// A device failed, or was left out, and the volume was then used without it.
    #[error(
        "device {device} was given up at generation {generation}, and the volume was used without it: its data are \
         older; take it back (peryton re-add), open the volume without it, or replace it by an empty one"
    )]
    LeftOut {
        /// The index of the device.
        device: usize,
        /// The generation in which it was fenced, or a later one.
        generation: u64,
    },
    /// No metadata says what was lost with a device.
    #[error(
        "device {device} is missing, and the newest map on the other device cannot be read: no metadata says \
         which data it has; attach it, or give up all of its data with repair --trust slow"
    )]
    Untracked {
        /// The index of the device.
        device: usize,
    },
    /// No device is left that could be opened.
    #[error("without device {device} nothing is left of the volume: attach it")]
    NothingLeft {
        /// The index of the device.
        device: usize,
    },
    /// Another program wrote to a device after the volume was closed.
    #[error(
        "device {device} was written to after the volume was closed, so the other devices no longer match it: \
         peryton repair --trust as-it-is keeps all devices, --trust slow gives up the data that only the fast device has"
    )]
    Changed {
        /// The index of the device.
        device: usize,
    },
    /// The volume was exported.
    #[error(
        "the volume was exported: device {device} stands alone, without the others; mount it (dump prints the offset)"
    )]
    Detached {
        /// The index of the device that has everything.
        device: usize,
    },
    /// A device is too small.
    #[error("device {device} has {}, but the volume needs {} of it: it was larger when it was formatted",
        size.beside(*need), need.beside(*size))]
    TooSmall {
        /// The index of the device.
        device: usize,
        /// Its size.
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

impl OpenError {
    /// Whether it says something about the volume itself, and not only that the devices at hand are not the ones that the design
    /// describes, or not all of them.
    pub fn is_of_the_volume(&self) -> bool {
        match self {
            OpenError::Damaged { .. }
            | OpenError::DamagedData { .. }
            | OpenError::Behind { .. }
            | OpenError::NoSuperblocks { .. }
            | OpenError::NoSuperblocksUncertain { .. }
            | OpenError::Untracked { .. }
            | OpenError::Changed { .. }
            | OpenError::Device { .. } => true,
            OpenError::Config(_)
            | OpenError::Missing { .. }
            | OpenError::NotFormatted { .. }
            | OpenError::Version { .. }
            | OpenError::Features { .. }
            | OpenError::Foreign { .. }
            | OpenError::Swapped { .. }
            | OpenError::Replaced { .. }
            | OpenError::Aside { .. }
            | OpenError::Mismatch { .. }
            | OpenError::Stale { .. }
            | OpenError::Older { .. }
            | OpenError::LeftOut { .. }
            | OpenError::NothingLeft { .. }
            | OpenError::Detached { .. }
            | OpenError::TooSmall { .. } => false,
        }
    }
}

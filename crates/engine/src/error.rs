use peryton_units::Bytes;
use thiserror::Error;

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

/// What a driver reports when a command failed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the device reported a failure")]
pub struct DeviceError;

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

//! Divides the devices of a logging drive, or explains why they cannot be divided.

use peryton_format::log::{
    LONGEST_APPEND,
    layout::{LARGEST_BLOCK, LogLayout, SMALLEST_BLOCK},
};
use peryton_units::Bytes;

use crate::{
    api::command::DeviceId,
    api::error::{ConfigError, TuningError},
    api::logging::Logging,
};

/// The length of a buffer in bytes: the longest append, and the longest read or write of a migration.
pub(crate) const BUFFER: u64 = LONGEST_APPEND;

/// Divides the devices. Makes no tables yet.
///
/// # Errors
///
/// A device is absent or too small, or the block size is not possible.
pub(crate) fn lay_out(placement: Logging, devices: &[Bytes]) -> Result<LogLayout, ConfigError> {
    let Logging { primaries, log, block } = placement;
    let all: Vec<DeviceId> = primaries.iter().copied().chain([log]).collect();
    for (index, device) in all.iter().enumerate() {
        if device.index() >= devices.len() || all[..index].contains(device) {
            return Err(ConfigError::Device { device: device.index(), devices: devices.len() });
        }
    }
    if !block.0.is_power_of_two() || !(SMALLEST_BLOCK..=LARGEST_BLOCK).contains(&block) {
        let remedy = "use a power of two from 512 to 64KiB";
        return Err(TuningError::Range { key: "placement.block", value: block.to_string(), remedy }.into());
    }
    let sizes: Vec<Bytes> = primaries.iter().map(|device| devices[device.index()]).collect();
    for (index, (device, size)) in primaries.iter().zip(&sizes).enumerate() {
        let need = LogLayout::least_primary(&placement, index);
        if *size < need {
            return Err(ConfigError::TooSmall { device: device.index(), size: *size, need });
        }
    }
    let log_size = devices[log.index()];
    LogLayout::new(placement, &sizes, log_size).ok_or(ConfigError::TooSmall {
        device: log.index(),
        size: log_size,
        need: LogLayout::least(block),
    })
}

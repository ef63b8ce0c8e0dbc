//! Sizes of a log and its primary, known before the tables are made: those take memory in proportion to the volume, and a
//! superblock may claim any size.

use peryton_units::Bytes;

use super::{Devices, LARGEST_BLOCK, SMALLEST_BLOCK, log};
use crate::{
    command::DeviceId,
    error::{ConfigError, TuningError},
    metadata::layout::MetadataLayout,
};

/// Superblock, at the start of the log device and at the end of both devices.
pub(super) const SUPERBLOCK: u64 = 4096;
/// The ring of commits, a 64th of the log within these bounds.
const LARGEST_RING: u64 = 64 << 20;
const SMALLEST_RING: u64 = 64 << 10;

/// Where things lie on the two devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(super) devices: Devices,
    /// Bytes of the volume.
    pub(super) size: u64,
    pub(super) segment_bytes: u64,
    pub(super) segments: u64,
    pub(super) ring: u64,
}

impl Layout {
    pub(crate) fn new(placement: Devices, devices: &[Bytes]) -> Result<Layout, ConfigError> {
        let Devices { primary, log, block } = placement;
        for device in [primary, log] {
            if device.index() >= devices.len() || primary == log {
                return Err(ConfigError::Device { device: device.index(), devices: devices.len() });
            }
        }
        if !block.0.is_power_of_two() || block.0 < SMALLEST_BLOCK || block.0 > LARGEST_BLOCK {
            let remedy = "use a power of two from 512 to 64KiB";
            return Err(TuningError::Range { key: "placement.block", value: block.to_string(), remedy }.into());
        }
        let size = devices[primary.index()].0 & !(block.0 - 1);
        if size == 0 {
            return Err(ConfigError::TooSmall { device: primary.index(), size: devices[primary.index()], need: block });
        }
        let Some((segment_bytes, segments)) = log::divide(devices[log.index()].0, block.0) else {
            let need = Bytes(log::least(block.0));
            return Err(ConfigError::TooSmall { device: log.index(), size: devices[log.index()], need });
        };
        let ring = (segment_bytes * segments / 64).next_multiple_of(SUPERBLOCK).clamp(SMALLEST_RING, LARGEST_RING);
        Ok(Layout { devices: placement, size, segment_bytes, segments, ring })
    }

    pub(crate) fn volume_size(&self) -> Bytes {
        Bytes(self.size)
    }

    /// Where the first segment begins on the log device.
    pub(super) fn log_at(&self) -> u64 {
        (SUPERBLOCK + self.ring).next_multiple_of(1 << 20)
    }

    /// What the volume occupies of the primary and of the log device.
    pub(crate) fn device_bytes(&self) -> (Bytes, Bytes) {
        let log = (self.segments * self.segment_bytes).saturating_add(self.log_at() + SUPERBLOCK);
        (MetadataLayout::bare().device_bytes(self.volume_size()), Bytes(log))
    }

    /// Where data begins on the primary, and the log on its device.
    pub(crate) fn data_at(&self, device: DeviceId) -> Bytes {
        if device == self.devices.log { Bytes(self.log_at()) } else { MetadataLayout::bare().data_at }
    }
}

//! Where the bytes of the volume and of the log are on the devices.

use peryton_format::layout::MetadataLayout;
use peryton_units::Bytes;

use crate::{api::command::DeviceId, log::drive::LogDrive};

impl LogDrive {
    /// Byte 0 of the volume is deliberately not byte 0 of the primary: the primary alone must not look like a file
    /// system while the log holds newer data.
    pub(in crate::log) fn primary_place(&self, offset: u64) -> (DeviceId, Bytes) {
        (self.primary, MetadataLayout::bare().data_at + Bytes(offset))
    }

    pub(in crate::log) fn log_place(&self, at: u64) -> (DeviceId, Bytes) {
        (self.log_device, Bytes(self.log_at + at))
    }
}

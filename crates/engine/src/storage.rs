//! The devices, one call at a time: for what happens before and after an engine runs, such as formatting, opening and
//! closing a volume. While it runs, everything is a [`Command`](crate::Command).

use peryton_units::Bytes;

use crate::{command::DeviceId, error::DeviceError};

/// What metadata is read and written in: offsets and lengths are multiples of it.
pub const METADATA_BLOCK: Bytes = Bytes::kib(4);

/// Access to the devices of a volume, in whole metadata blocks ([`METADATA_BLOCK`]).
pub trait Storage {
    /// How large the device is; `None` if it is not there.
    fn size(&self, device: DeviceId) -> Option<Bytes>;

    /// Fills `into` from the device.
    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Writes `from` to the device; durable after the next flush.
    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError>;

    /// Makes everything written before durable.
    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError>;
}

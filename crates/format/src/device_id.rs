//! The number of a device in its volume.

/// A device of a volume, counted from 0 in the order of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(pub u8);

impl DeviceId {
    /// The number as an index, for tables with a row per device.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

use peryton_units::{Bytes, Nanos, Op};

/// One command to a device.
///
/// The fields `at` and `len` are not adjacent. The processor would read adjacent fields with one load, which has to
/// wait if the command was written just before with two stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Io {
    /// The address; ignored for a flush.
    pub at: Bytes,
    /// The operation.
    pub op: Op,
    /// The length; zero for a flush.
    pub len: Bytes,
}

/// The caller's identifier of a command in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u32);

/// A device's answer to a submitted command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The command ends at this time; no event follows.
    At(Nanos),
    /// The end is decided later: [`Device::advance`](crate::Device::advance) will report it.
    Queued,
}

/// The power states that a driver can request. A device in standby wakes up when a command arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PowerState {
    /// Ready to serve.
    Active,
    /// Spun down (disk) or in its lowest-power idle state (flash).
    Standby,
}

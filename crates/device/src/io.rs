use peryton_units::{Bytes, Nanos, Op};

/// One command to a device.
///
/// The layout keeps place and length apart: side by side they would be read as one from a command that was written a
/// moment ago as two, which the processor can only do once both have reached the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Io {
    /// Where; ignored for a flush.
    pub at: Bytes,
    /// What to do.
    pub op: Op,
    /// How much; zero for a flush.
    pub len: Bytes,
}

/// The caller's name for a command in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u32);

/// What a device answers to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It will be done at this time; no event follows.
    At(Nanos),
    /// Its time is decided later: [`Device::advance`](crate::Device::advance) will report it.
    Queued,
}

/// The power states that a driver can ask for. A device in standby wakes by itself when a command arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PowerState {
    /// Ready to serve.
    Active,
    /// Spun down (disk) or in its lowest-power idle state (flash).
    Standby,
}

//! The operations of a volume on its devices: the engine's commands with memory addresses in place of buffer names.

use peryton_engine::{DeviceId, IoId};

use crate::arena::Memory;

/// The kinds of device operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Device to memory.
    Read,
    /// Memory to device.
    Write,
    /// Make durable everything that was completed before.
    Flush,
    /// Discard a range; only a hint.
    Discard,
    /// Make a range read as zeros; room for it may be given up.
    Zero,
    /// The same, and keep the room for it.
    ZeroAllocated,
}

/// An operation on a device. Offset, length and memory may have any alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The engine's id for the operation.
    pub io: IoId,
    /// The device.
    pub device: DeviceId,
    /// The kind of operation.
    pub action: Action,
    /// Offset on the device in bytes.
    pub at: u64,
    /// Length in bytes.
    pub len: u64,
    /// Source or destination of the data; empty for operations without data.
    pub memory: Memory,
}

/// Carries operations out, in any order. A back end reports completions in a way of its own: the code that drives both
/// the back end and the [`Volume`](crate::Volume) takes them from the one and passes them to the other.
pub trait Backend {
    /// Starts an operation. Nothing else may touch its memory until it is reported complete.
    fn start(&mut self, operation: Operation);

    /// Lets the device save power until the next operation.
    fn standby(&mut self, device: DeviceId);

    /// Exchanges a device and its successor, which has taken its place; a back end whose volumes have no such devices never hears of it.
    fn succeed(&mut self, _device: DeviceId, _successor: DeviceId) {}
}

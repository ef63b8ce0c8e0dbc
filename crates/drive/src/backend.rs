//! What the volume asks of its devices: the engine's commands with memory in place of names.

use peryton_engine::{DeviceId, IoId};

use crate::arena::Memory;

/// What is to be done on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Device to memory.
    Read,
    /// Memory to device.
    Write,
    /// Make what was completed before durable.
    Flush,
    /// Forget a range; a hint.
    Discard,
    /// Make a range read as zeros.
    Zero,
}

/// An operation on a device. Offset, length and memory may have any alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The engine's name for it.
    pub io: IoId,
    /// The device.
    pub device: DeviceId,
    /// What is to be done.
    pub action: Action,
    /// Offset on the device in bytes.
    pub at: u64,
    /// Length in bytes.
    pub len: u64,
    /// Where the data is or goes; nothing there for operations without data.
    pub memory: Memory,
}

/// Carries operations out, in any order. How it reports completions is its own affair: the code that drives both it and the
/// [`Volume`](crate::Volume) takes them from it and hands them on.
pub trait Backend {
    /// Begins an operation. Its memory stays untouched by others until it is reported complete.
    fn start(&mut self, operation: Operation);

    /// The device should save power until the next operation.
    fn standby(&mut self, device: DeviceId);
}

//! Devices that fail and are not given up.

/// Devices that the driver excuses, one bit each ([`Engine::excuse`](crate::Engine::excuse)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Excuses {
    /// They may come back, and are not given up.
    pub waits: u32,
    /// They can be read, and are not given up while they have data that no other device has, or while they are the last.
    pub reads: u32,
}

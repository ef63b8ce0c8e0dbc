//! A device that is being replaced while the volume is served, for the server.

use std::path::PathBuf;

use crate::open::Device;

/// The device that is to take the place of another one.
#[derive(Clone, Debug)]
pub struct Successor {
    /// Where it is.
    pub path: PathBuf,
    /// The most bytes that are copied to it in a second; `None`: no bound.
    pub bytes_per_s: Option<u64>,
    /// Whether unreadable data of the old device may read as zeros.
    pub accept_loss: bool,
    /// Whether to overwrite data on the new device.
    pub force: bool,
    /// Whether to set its path in the design.
    pub update_design: bool,
}

/// A replacement under way.
#[derive(Debug)]
pub(super) struct Replacement {
    pub(super) device: usize,
    /// The device with the number after the last one: the new device, and after the exchange the old one.
    pub(super) other: Device,
    /// The path of the new one.
    pub(super) path: String,
    /// Whether to set it in the design.
    pub(super) update_design: bool,
    pub(super) is_succeeding: bool,
    pub(super) has_succeeded: bool,
}

/// The replacement of devices.
#[derive(Debug, Default)]
pub(super) struct Replacing {
    pub(super) now: Option<Replacement>,
    /// Whether devices are opened past the page cache.
    pub(super) direct: bool,
}

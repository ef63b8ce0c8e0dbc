//! A device that is being replaced while the volume is served, for the server.

use std::path::PathBuf;

use serde_json::Value;

use crate::open::Device;

/// The device that is to take the place of another one.
#[derive(Clone, Debug)]
pub struct Successor {
    /// Where it is.
    pub path: PathBuf,
    /// The most bytes that are copied to it in a second; `None`: no bound.
    pub bytes_per_s: Option<u64>,
    /// Whether what cannot be read from the old device may read as zeros.
    pub accept_loss: bool,
    /// Whether to overwrite what it holds.
    pub force: bool,
    /// Whether to set its path in the design.
    pub update_design: bool,
}

/// A replacement under way.
#[derive(Debug)]
pub(super) struct Replacement {
    pub(super) device: usize,
    /// The device that the number behind the last one stands for: the new one, and once that is in charge the old one.
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
    /// How the last one ended, for the status.
    pub(super) last: Value,
    /// Whether devices are opened past the page cache.
    pub(super) direct: bool,
}

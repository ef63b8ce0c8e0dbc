//! A device that is being grown or shrunk while the volume is served, for the server.

use peryton_units::Nanos;
use serde_json::Value;

/// How a device is to be resized.
#[derive(Clone, Copy, Debug)]
pub struct NewSize {
    /// Whether it is to become larger; otherwise smaller.
    pub grows: bool,
    /// How many bytes of data it is to have; `None`: as many as it has room for.
    pub size: Option<u64>,
    /// The most bytes that are written home in a second; `None`: no bound.
    pub bytes_per_s: Option<u64>,
}

/// A resizing under way.
#[derive(Debug)]
pub(super) struct Underway {
    pub(super) device: usize,
    pub(super) grows: bool,
    /// Since when requests wait.
    pub(super) holds_since: Option<Nanos>,
    /// The next attempt to let them wait, or to open the volume, is not before this.
    pub(super) again_at: Nanos,
    /// Since when the volume cannot be opened.
    pub(super) fails_since: Option<Nanos>,
}

/// The resizing of devices.
#[derive(Debug, Default)]
pub(crate) struct Resizing {
    pub(super) now: Option<Underway>,
    /// How the last one ended, for the status.
    pub(super) last: Value,
}

impl Resizing {
    /// The kernel has refused the new size.
    pub(super) fn block_device_stays(&mut self, path: String) {
        if let Some(last) = self.last.as_object_mut() {
            last.insert("block_device_keeps_its_size".to_owned(), path.into());
        }
    }
}

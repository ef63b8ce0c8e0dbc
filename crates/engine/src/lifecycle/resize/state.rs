//! A device that is being grown or shrunk: what it will be, and how far that is.

use peryton_units::{Bytes, Nanos};

use crate::{api::config::Config, api::resizing::ResizePlan, lifecycle::sizes::Sizes};

/// What the volume will be.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Its settings when that was asked for; the tuning may change until it is done.
    pub(super) config: Config,
    pub(crate) sizes: Sizes,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Emptying,
    /// The volume is closed; or `lost`, it could not be closed in good order.
    Closed {
        lost: bool,
    },
}

/// A device that is being grown or shrunk.
#[derive(Debug)]
pub(crate) struct Resizing {
    pub(super) plan: ResizePlan,
    pub(super) target: Target,
    pub(super) stage: Stage,
    /// How many bytes of data the device had.
    pub(super) before: Bytes,
    /// How much was beyond the new end.
    pub(super) total: Bytes,
    pub(super) began: Nanos,
}

impl Resizing {
    /// The bytes of data on each device afterwards.
    pub(crate) fn data_bytes_after(&self) -> &[Bytes] {
        &self.target.config.devices
    }
}

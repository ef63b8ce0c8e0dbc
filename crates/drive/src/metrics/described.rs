//! What does not change while a volume is served.

use std::{sync::Arc, time::SystemTime};

use peryton_engine::PlacementKind;
use peryton_units::Bytes;

use crate::{health::Table, line_log::LineLog};

/// What does not change while a volume is served.
#[derive(Debug)]
pub(crate) struct Described {
    /// Which build of Peryton serves it.
    pub(crate) version: &'static str,
    pub(crate) name: String,
    /// The volume's identity.
    pub(crate) id: u128,
    pub(crate) placement: PlacementKind,
    /// The device to which a budget for wear applies.
    pub(crate) fast: Option<usize>,
    pub(crate) started: SystemTime,
    pub(crate) log: Option<LineLog>,
    pub(crate) devices: Vec<DescribedDevice>,
    /// What is known of the drives beneath them.
    pub(crate) drives: Arc<Table>,
}

/// What does not change of a device.
#[derive(Debug)]
pub(crate) struct DescribedDevice {
    pub(crate) name: String,
    /// What may be written to it in its life, as the design or its profile says.
    pub(crate) rated_writes: Option<Bytes>,
}

impl Described {
    /// Whether the volume is divided into extents that move.
    pub(crate) fn has_extents(&self) -> bool {
        matches!(self.placement, PlacementKind::Tiering | PlacementKind::Caching | PlacementKind::Partitioned)
    }

    /// Whether accesses are counted by the device that serves them.
    pub(crate) fn has_fast_and_slow(&self) -> bool {
        self.has_extents() || self.placement == PlacementKind::Linear
    }
}

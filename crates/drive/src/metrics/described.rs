//! The facts about a volume that do not change while it is served.

use std::{sync::Arc, time::SystemTime};

use peryton_engine::PlacementKind;

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
    /// The names of the devices.
    pub(crate) devices: Vec<String>,
    /// What is known of the drives beneath them.
    pub(crate) drives: Arc<Table>,
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

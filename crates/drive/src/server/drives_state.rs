//! The state that the loop has of the drives beneath the volume.

use peryton_units::Nanos;

use crate::health::Watch;

/// The drives beneath the volume.
#[derive(Debug, Default)]
pub(super) struct Drives {
    /// Their threads.
    pub(super) watch: Option<Watch>,
    /// The device to which a budget for wear applies.
    pub(super) fast: Option<usize>,
    /// The idle time after which each device is to rest, by the design, whether it can or not.
    pub(super) rests_after: Vec<Option<Nanos>>,
    /// From when on they may be asked again what was written to their flash.
    pub(super) count_programs_from: Nanos,
}

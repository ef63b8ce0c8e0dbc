//! The outages that the server has reported, apart from the methods of [`Server`](super::Server) that use them, which keeps
//! the circle of imports small.

use peryton_engine::Excuses;
use peryton_units::Nanos;

use crate::open::Place;

/// The known outages, with a bit for each device.
#[derive(Debug, Default)]
pub(super) struct Outages {
    /// The excuses that the engine knows.
    pub(super) excuses: Excuses,
    /// Devices whose outage was reported.
    pub(super) reported: u32,
    /// Devices of which it was reported that commands fail, in the outage that was reported last.
    pub(super) failing: u32,
    /// Devices that were given up, so that nothing waits for them any more.
    pub(super) ended: u32,
    /// Where the file of each device is.
    pub(super) places: [Place; 32],
    /// When devices are looked at again that may have become smaller, or whose file may have been renamed or deleted.
    pub(super) next_look: Nanos,
    /// The start of each device's latest outage.
    pub(super) since: [Nanos; 32],
    /// How many outages of each device were reported.
    pub(super) count: [u64; 32],
    /// Whether it was reported that the engine is in doubt, and that it has stopped.
    pub(super) reported_doubt: (bool, bool),
    /// How much damaged data of a log was reported.
    pub(super) reported_damage: u64,
}

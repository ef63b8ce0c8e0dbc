//! Many volumes on few drives: which of them share a drive, what kind of drive that is, and how its flash is divided among them.
//!
//! [`Recordings`] are measured volume by volume ([`VolumeLoad`]). [`plan`] chooses drives and simulates them, until what is simulated keeps
//! the budgets. Both run on threads here; parts of the recordings and drives can also be handed to other machines, as JSON.

mod assign;
mod bound;
mod carry;
mod drive;
mod elsewhere;
mod error;
mod infeasible;
mod load;
mod plan;
mod recordings;
mod report;
mod stretch;
#[cfg(test)]
mod tests;
mod verify;

pub use assign::EXACT;
pub use carry::{BUSIEST, Correction};
pub use drive::MOST_KINDS;
pub use elsewhere::{FleetPoint, FleetPoints};
pub use error::{FleetPlanError, MOST_VOLUMES};
pub use load::{MOST_WINDOWS, VolumeLoad};
pub use plan::{FleetAsk, MOST_ROUNDS, Simulate, plan};
pub use recordings::{PARTS, Recordings};
pub use report::{FleetDevices, FleetDrive, FleetPlan, FleetVolume};
pub use verify::{DriveDone, DriveTask, MOST_SIMULATED};

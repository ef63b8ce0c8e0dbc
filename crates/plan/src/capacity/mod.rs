//! MixCP, MixedStore's capacity planner (section 4): the cheapest set of devices, and the way to use them, that meets
//! budgets of response time, lifetime and more under a workload.
//!
//! A [`Catalogue`] of devices makes [`Candidate`]s for a [`Workload`]. [`plan`] searches them by simulation, on samples
//! of the trace first and on the whole trace at the end.

mod ask;
mod candidate;
mod catalogue;
mod counts;
mod dominated;
mod error;
mod estimates;
mod failures;
mod flash;
mod gives;
mod grid;
mod narrow;
mod nest;
mod plan;
mod progress;
mod protection;
mod refine;
mod report;
mod sample;
mod search;
mod turns;
mod workload;

pub use ask::{Active, Ask};
pub use candidate::{Candidate, Enumerate, Member, Mode, Slow};
pub use catalogue::{Catalogue, Kind, OWN_PRICE, usable};
pub use error::PlanError;
pub use failures::{Failures, TierFailures};
pub use flash::{Flash, FlashCapacity, FlashPoint};
pub use gives::Gives;
pub use plan::plan;
pub use progress::Progress;
pub use protection::{FILL_LIMIT, FillLimit, Protection, Spares};
pub use report::{Bought, Budget, Found, Infeasible, Plan, Variant};
pub use search::Rung;
pub use turns::{CostLine, Turn, Turns};
pub use workload::{Like, MOST_HELD, Workload};

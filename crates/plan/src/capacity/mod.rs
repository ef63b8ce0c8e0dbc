//! MixCP, MixedStore's capacity planner (section 4): the cheapest set of devices, and the way to use them, that meets
//! budgets of response time, lifetime and more under a workload.
//!
//! A [`Catalogue`] of devices makes [`Candidate`]s for a [`Workload`]. [`plan`] searches them by simulation, on samples
//! of the trace first and on the whole trace at the end. The result also has the predictions of the paper's regressions
//! ([`Models`]).

mod candidate;
mod catalogue;
mod error;
mod estimates;
mod failures;
mod flash;
mod grid;
mod kept_models;
mod models;
mod narrow;
mod plan;
mod predict;
mod progress;
mod protection;
mod quality;
mod refine;
mod report;
mod sample;
mod search;
mod training;
mod workload;

pub use candidate::{Candidate, Enumerate, Member, Mode};
pub use catalogue::{Catalogue, Kind};
pub use error::PlanError;
pub use failures::{Failures, TierFailures};
pub use flash::{Flash, FlashCapacity, FlashPoint};
pub use kept_models::{KeptModels, Notice};
pub use models::{DeviceModels, Fitted, Form, MODEL_VERSION, Models, Predictors, Trained};
pub use plan::{Active, Ask, plan};
pub use predict::Prediction;
pub use progress::Progress;
pub use protection::{FILL_LIMIT, FillLimit, Protection, Spares};
pub use quality::qualities;
pub use report::{
    Bought, Budget, Error as PredictionError, Found, Infeasible, ModelQuality, Plan, Regression, Variant,
};
pub use sample::Scale;
pub use search::Rung;
pub use training::{TRAINING_TRACES, Training};
pub use workload::{Like, MOST_HELD, Workload};

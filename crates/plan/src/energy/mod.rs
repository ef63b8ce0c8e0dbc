//! Which drives need the least energy, and which the least money: the models of Li and Long, "Which Storage Device is the
//! Greenest? Modeling the Energy Cost of I/O Workloads".
//!
//! A workload is a [`Demand`]; what a device does under it are [`Figures`], measured by its makers, by the paper or on our
//! model of it ([`Figures::of`]). Energy is a straight line over the run time ([`Line`]), so that any two devices have
//! one time at which they break even. [`rank`] lists devices for a demand; [`fleet`] mixes them.
//!
//! MB are 10⁶ bytes here, as in the paper.

mod catalogue;
mod demand;
mod emerald;
mod fleet;
mod need;
mod ownership;
mod question;
mod rank;
mod segments;
mod sensitivity;

pub use catalogue::{Figures, FiguresError, Source, Specified};
pub use demand::{Demand, DemandError, MeasuredDemand, Pattern, Zone};
pub use emerald::Emerald;
pub use fleet::{Fleet, FleetError, FleetMember, Objective, Segment, fleet};
pub use need::{BreakEven, DominantNeed, Line, Policy, Properties};
pub(crate) use ownership::lives;
pub use ownership::{OWNED_YEARS, Ownership};
pub use question::{Accesses, Answer, MeasuredTrace, NamedTrace, OtherSize, Question, QuestionError, Unneeded};
pub use rank::{Prices, Ranked, Span, Terms, rank, sort_by_cost};
pub use sensitivity::{Decisive, Order, decisive};

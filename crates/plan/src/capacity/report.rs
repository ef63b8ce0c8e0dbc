//! The report of a plan: what to buy, what else would do, and what each budget costs.

use std::{cmp::Ordering, collections::BTreeMap};

use peryton_sim::{Redundancy, Sensitivity};
use peryton_trace::RequestHash;
use serde::Serialize;

use super::{
    candidate::{Candidate, Mode},
    failures::Failures,
    flash::{Flash, FlashCapacity},
    gives::Gives,
    search::Rung,
    turns::Turns,
    workload::Like,
};
use crate::{
    constraint::{Constraint, Metric, strain},
    evaluate::{Account, Metrics},
};

/// A plan. Its names are stable, because scripts rely on them. A figure that does not apply is absent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The version that made the plan.
    pub peryton_version: String,
    /// The command that made it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The trace.
    pub trace: String,
    /// A hash of its requests, independent of its format.
    pub trace_hash: RequestHash,
    /// Number of its requests.
    pub trace_requests: u64,
    /// The characteristics of the workload.
    pub workload: Like,
    /// Bytes to be stored.
    pub capacity_bytes: u64,
    /// How many of these bytes are assumed to be in use over a time as long as the trace.
    pub active_bytes: u64,
    /// The bytes that the trace touches, divided by the active bytes: designs are simulated smaller by this factor.
    pub simulated_share: f64,
    /// Size of the simulated volume.
    pub simulated_volume_bytes: u64,
    /// The assumptions behind the figures, in sentences.
    pub assumptions: Vec<String>,
    /// The share of each device that is filled at most.
    pub fill_limit: f64,
    /// In which capacities flash can be bought: `any`, or absent for `whole` devices.
    #[serde(skip_serializing_if = "is_whole")]
    pub flash: Flash,
    /// The budgets.
    pub constraints: Vec<Constraint>,
    /// The figure that is minimised or maximised.
    pub objective: Metric,
    /// The rules for the cost of ownership.
    pub account: Account,
    /// The share of the time in which the load goes on.
    pub duty: f64,
    /// The devices to choose from.
    pub catalogue: Vec<String>,
    /// Number of designs that they make.
    pub candidates: usize,
    /// The rounds of the search; the last is the whole trace.
    pub search: Vec<Rung>,
    /// The best design that meets every budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<Found>,
    /// The next best that meet every budget, in order.
    pub runners_up: Vec<Found>,
    /// The reason, if no design meets the budgets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infeasible: Option<Infeasible>,
    /// Where the answer changes, if the objective is a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<Turns>,
    /// The best design of flash alone, and of disks alone: those of `simulated` with these names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flash_alone: Option<String>,
    /// The same of disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disks_alone: Option<String>,
    /// The same of three tiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub three_tiers: Option<String>,
    /// What each budget costs.
    pub budgets: Vec<Budget>,
    /// Every design that was simulated with the whole trace: those that meet the budgets first, by the objective.
    pub simulated: Vec<Found>,
    /// Designs that cannot be simulated, and why.
    pub left_out: Vec<String>,
    /// The values of the models and the prices of the best design and the runners-up that are estimates, by profile.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub estimated_values: BTreeMap<String, Vec<String>>,
    /// What the answer would be if one of them were off, where that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<Sensitivity<Metrics>>,
}

impl Plan {
    /// The best design and the runners-up.
    pub fn chosen(&self) -> impl Iterator<Item = &Found> {
        self.best.iter().chain(&self.runners_up)
    }

    /// The best of them if these had these figures instead, and whether it meets the budgets.
    pub fn best_with(&self, then: &BTreeMap<String, Metrics>) -> Option<(&Found, bool)> {
        let figures = |found: &Found| {
            let metrics = then.get(&found.design).unwrap_or(&found.metrics);
            let value = self.objective.of(metrics).unwrap_or(f64::INFINITY);
            let value = if self.objective.more_is_better() { -value } else { value };
            (strain(&self.constraints, metrics), value)
        };
        let better = |(a_strain, a): (f64, f64), (b_strain, b): (f64, f64)| match (a_strain <= 1.0, b_strain <= 1.0) {
            (true, true) => a.total_cmp(&b),
            (false, false) => a_strain.total_cmp(&b_strain),
            (meets, _) => {
                if meets {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        };
        let best = self.chosen().min_by(|a, b| better(figures(a), figures(b)))?;
        Some((best, figures(best).0 <= 1.0))
    }
}

/// A design that was simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Its name: that of its file.
    pub design: String,
    /// A description.
    pub label: String,
    /// How its devices make one drive.
    pub mode: Mode,
    /// How the slow device is made, if that is a drive of its own; its devices are `slow.fast` and `slow.slow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_mode: Option<Mode>,
    /// Its devices.
    pub devices: Vec<Bought>,
    /// Whether it meets every budget.
    pub meets: bool,
    /// How far it is from the budget that it is furthest from: at most 1 if it meets all, 2 if it would have to be
    /// twice as good.
    pub strain: f64,
    /// Failures of its devices, and what they lose.
    pub failures: Failures,
    /// The figures of the simulation with the whole trace.
    #[serde(flatten)]
    pub metrics: Metrics,
    /// The mean response time with the last sample, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled_mean_ms: Option<f64>,
    /// The design that is bought, of which the figures are: its file.
    pub design_toml: String,
    /// The capacity of its flash, and what others would give; of the best design and the runners-up, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flash: Option<FlashCapacity>,
    /// The candidate itself.
    #[serde(skip)]
    pub candidate: Candidate,
}

/// Devices of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bought {
    /// Its role in the design.
    pub role: String,
    /// The profile's name.
    pub profile: String,
    /// Number of devices, those for redundancy included.
    pub count: u32,
    /// How they survive each other's failures.
    pub redundancy: Redundancy,
    /// Of them, those whose capacity is left for data.
    pub data_devices: u32,
    /// Number of spare devices beside them.
    #[serde(skip_serializing_if = "is_zero")]
    pub spares: u32,
    /// Capacity of each device, if it is smaller than the profile's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Price of each device.
    pub price_usd: f64,
    /// Number of them that are owned already and cost nothing to buy.
    #[serde(skip_serializing_if = "is_zero")]
    pub owned: u32,
}

fn is_whole(flash: &Flash) -> bool {
    *flash == Flash::Whole
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Why there is no design, and which one comes nearest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Infeasible {
    /// The budget that the nearest design is furthest from; absent without budgets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<Constraint>,
    /// Whether no design keeps up with the load, so that no figure of one means anything.
    pub overloaded: bool,
    /// Budgets that no design meets, even alone.
    pub impossible_alone: Vec<Constraint>,
    /// The design that comes nearest to all of them.
    pub nearest: Found,
    /// What would have to give.
    pub gives: Vec<Gives>,
}

/// What a budget costs: the objective of the best design with it, without it, and with another one in its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Budget {
    /// The budget.
    pub constraint: Constraint,
    /// The best design without the budget.
    pub without: Variant,
    /// The best design if the budget is twice as loose.
    pub loosened: Variant,
    /// The best design if the budget is twice as tight.
    pub tightened: Variant,
}

/// The best design under changed budgets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Variant {
    /// The changed limit; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// The best design's objective; absent if none of those simulated meets these budgets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<f64>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design: Option<String>,
    /// Whether only samples of the trace were simulated; with them it meets these budgets with a margin.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_sample: bool,
}

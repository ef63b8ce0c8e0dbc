//! The report of a fleet: what to buy, a row for each drive and a row for each volume.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::carry::Correction;
use crate::{constraint::Constraint, evaluate::Account, metric::Metric};

/// What to buy for many volumes. Its names are stable, because scripts rely on them. A figure that does not apply is absent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetPlan {
    /// The version that made the plan.
    pub peryton_version: String,
    /// The command that made it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The folder or the trace.
    pub fleet: String,
    /// Number of requests of all volumes.
    pub requests: u64,
    /// Seconds from the first request of any volume to the last.
    pub span_s: f64,
    /// Bytes to be stored.
    pub stored_bytes: u64,
    /// Bytes that are touched, in whole extents.
    pub touched_bytes: u64,
    /// Whether the recordings have one clock; otherwise all of them begin at the same time.
    pub one_clock: bool,
    /// The width of the windows in which loads are added up.
    pub window_s: f64,
    /// The assumptions behind the figures, in sentences.
    pub assumptions: Vec<String>,
    /// The budgets.
    #[schemars(with = "Vec<FleetLimit>")]
    pub constraints: Vec<Constraint>,
    /// The figure that is minimised.
    #[schemars(with = "String")]
    pub objective: Metric,
    /// The rules for the cost of ownership.
    #[schemars(with = "FleetRules")]
    pub account: Account,
    /// The share of the time in which the load goes on.
    pub duty: f64,
    /// The devices to choose from.
    pub catalogue: Vec<String>,
    /// Number of kinds of drives that they make and that no other kind is better than.
    pub drive_kinds: usize,
    /// Whether there is a plan that keeps every budget.
    pub meets: bool,
    /// What prevents it, and what would have to give, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub infeasible: Vec<String>,
    /// What all drives cost, by the objective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// No distribution over these kinds of drives costs less, by prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_usd: Option<f64>,
    /// Whether every distribution was looked at, so that no other one costs less by prediction.
    pub exact: bool,
    /// What the cheapest drives cost if no volumes share one, by prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone_usd: Option<f64>,
    /// The drives with the same load and flash alone; absent if these cannot carry it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flash_alone_usd: Option<f64>,
    /// How often drives were chosen and simulated, each time with what the simulations before had shown.
    pub rounds: usize,
    /// By how much response times in simulations differ from predicted ones, by kind of drive.
    pub corrections: BTreeMap<String, Correction>,
    /// The drives, each as often as it is bought.
    pub drives: Vec<FleetDrive>,
    /// The volumes.
    pub volumes: Vec<FleetVolume>,
}

/// A drive, and what it does for its volumes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetDrive {
    /// Its number, from 1 on.
    pub drive: usize,
    /// What it is.
    pub label: String,
    /// Its devices.
    pub devices: Vec<FleetDevices>,
    /// What it costs, by the objective.
    pub usd: f64,
    /// Its volumes.
    pub volumes: Vec<String>,
    /// Bytes that these store, and how many it has room for.
    pub stored_bytes: u64,
    /// Bytes for data.
    pub room_bytes: u64,
    /// The share of the time for which its busiest devices are busy, by prediction.
    pub mean_busy: f64,
    /// The same in the busiest window; above 1 there is more work than can be done in it.
    pub busiest: f64,
    /// When that window begins, from the start of the fleet's recordings.
    pub busiest_at_s: f64,
    /// What the busiest windows of its volumes would make together if they coincided.
    pub busiest_if_together: f64,
    /// How busy its busiest devices are in each window.
    pub busy: Vec<f64>,
    /// Mean response time of all requests, by prediction.
    pub predicted_mean_ms: f64,
    /// The same of the simulation of all its volumes together, and the share of the requests that were simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_ms: Option<f64>,
    /// The 99th percentile in the simulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    /// The share of the requests that were simulated, the warm-up included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_share: Option<f64>,
    /// Mean power in the simulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// Years until its first device is worn out: by prediction, from the rated endurance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years: Option<f64>,
    /// Whether it keeps every budget in the simulation.
    pub meets: bool,
}

/// Devices of one kind in a drive.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetDevices {
    /// Their role in the design.
    pub role: String,
    /// The profile's name.
    pub profile: String,
    /// Their number, those for redundancy and spares included.
    pub count: u32,
    /// The price of each.
    pub price_usd: f64,
}

/// A volume, and its part of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetVolume {
    /// Its name.
    pub volume: String,
    /// The number of its drive; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive: Option<usize>,
    /// Number of its requests.
    pub requests: u64,
    /// Bytes to be stored.
    pub stored_bytes: u64,
    /// Bytes that it touches, in whole extents.
    pub touched_bytes: u64,
    /// Its part of the drive's flash, where a slower device has all data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flash_bytes: Option<u64>,
    /// Requests per second in its busiest window.
    pub busiest_requests_per_s: f64,
    /// Mean response time, by prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_mean_ms: Option<f64>,
    /// The share of its reads that the flash serves, by prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_read_hit_ratio: Option<f64>,
    /// Mean response time in the simulation, among all volumes of its drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_ms: Option<f64>,
    /// The 99th percentile in the simulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    /// The share of its accesses that the fast device served in the simulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_hit_ratio: Option<f64>,
    /// Whether it keeps the budgets of response times in the simulation; absent if that has too few of its requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meets: Option<bool>,
    /// Its part of the drive, as a design.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design_toml: Option<String>,
}

/// A budget, as a schema.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct FleetLimit {
    /// The figure.
    metric: String,
    /// Its limit, in ms, years, W or USD.
    limit: f64,
}

/// The rules of an account, as a schema.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct FleetRules {
    /// The period.
    years: f64,
    /// The price of electricity.
    usd_per_kwh: f64,
}

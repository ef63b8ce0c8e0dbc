//! The report of a fleet: what to buy, a row for each drive and a row for each volume.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::carry::Correction;
use crate::{constraint::Constraint, evaluate::Account, metric::Metric};

/// The drives to buy for many volumes. The names of the fields are stable, because scripts rely on them. A figure that does not
/// apply is absent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetPlan {
    /// The version that made the plan.
    pub peryton_version: String,
    /// The command that made the plan, if a command did.
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
    /// Number of kinds of drives that these devices form, without those that another kind beats in every figure.
    pub drive_kinds: usize,
    /// Whether there is a plan that keeps every budget.
    pub meets: bool,
    /// The budgets that prevent a plan, and the budgets that would permit one, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub infeasible: Vec<String>,
    /// The cost of all drives, by the objective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// A lower bound of the cost, by prediction: no assignment of volumes to these kinds of drives costs less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_usd: Option<f64>,
    /// Whether every assignment was tried, so that no other costs less by prediction.
    pub exact: bool,
    /// The cost of the cheapest drives if no volumes share one, by prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone_usd: Option<f64>,
    /// The drives with the same load and flash alone; absent if these cannot carry it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flash_alone_usd: Option<f64>,
    /// Number of rounds. In each, drives were chosen with the corrections of earlier simulations, and simulated.
    pub rounds: usize,
    /// The factors between response times in simulations and predicted ones, by kind of drive.
    pub corrections: BTreeMap<String, Correction>,
    /// The drives, each as often as it has to be bought.
    pub drives: Vec<FleetDrive>,
    /// The volumes.
    pub volumes: Vec<FleetVolume>,
}

/// A drive with its volumes, and its figures.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetDrive {
    /// Number of the drive, from 1.
    pub drive: usize,
    /// Description of the drive.
    pub label: String,
    /// Devices of the drive.
    pub devices: Vec<FleetDevices>,
    /// Cost of the drive, by the objective.
    pub usd: f64,
    /// Volumes on the drive.
    pub volumes: Vec<String>,
    /// Bytes that the volumes store.
    pub stored_bytes: u64,
    /// Bytes for data.
    pub room_bytes: u64,
    /// The share of the time in which the drive's busiest devices are busy, by prediction.
    pub mean_busy: f64,
    /// The same share in the busiest window; above 1 there is more work than the window has time for.
    pub busiest: f64,
    /// Start of the busiest window, from the start of the fleet's recordings.
    pub busiest_at_s: f64,
    /// The same share if the busiest windows of all its volumes coincided.
    pub busiest_if_together: f64,
    /// The same share in each window.
    pub busy: Vec<f64>,
    /// Mean response time of all requests, by prediction.
    pub predicted_mean_ms: f64,
    /// Mean response time of all requests, in the simulation of all volumes of the drive together.
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
    /// Years until the drive's first device is worn out: by prediction, from the rated endurance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years: Option<f64>,
    /// Whether the drive keeps every budget in the simulation.
    pub meets: bool,
}

/// Devices of one kind in a drive.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetDevices {
    /// Role of the devices in the design.
    pub role: String,
    /// The profile's name.
    pub profile: String,
    /// Number of devices, including those for redundancy and spares.
    pub count: u32,
    /// The price of each device.
    pub price_usd: f64,
}

/// A volume, and its part of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetVolume {
    /// Name of the volume.
    pub volume: String,
    /// Number of the volume's drive; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive: Option<usize>,
    /// Number of the volume's requests.
    pub requests: u64,
    /// Bytes to be stored.
    pub stored_bytes: u64,
    /// Bytes that the requests touch, in whole extents.
    pub touched_bytes: u64,
    /// The volume's part of the drive's flash, if a slower device has all data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flash_bytes: Option<u64>,
    /// Requests per second in the volume's busiest window.
    pub busiest_requests_per_s: f64,
    /// Mean response time, by prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_mean_ms: Option<f64>,
    /// The share of the volume's reads that the flash serves, by prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_read_hit_ratio: Option<f64>,
    /// Mean response time in the simulation of the drive with all its volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_ms: Option<f64>,
    /// The 99th percentile in the simulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    /// The share of the volume's accesses that the fast device served in the simulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_hit_ratio: Option<f64>,
    /// Whether the volume keeps the budgets of response times in the simulation; absent if the simulation has too
    /// few of its requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meets: Option<bool>,
    /// The volume's part of the drive, as a design.
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

//! Devices of several kinds for one demand, which the paper leaves open (section VI): an integer programme.
//!
//! Data is in segments of unlike heat. Unknowns are how many devices of each kind there are (`n`, whole), how many of
//! them are awake (`m`, whole), and which share of each segment lies on each kind (`z`). Every segment lies somewhere;
//! data and peak bandwidth of a kind fit its devices; the load of a kind fits those awake. With one segment and one kind
//! this is equations (2) to (7).

use good_lp::{
    Expression, ProblemVariables, ResolutionError, Solution, SolverModel, Variable, constraint, microlp, variable,
};
use serde::Serialize;
use thiserror::Error;

use super::{Demand, Figures, Policy, Prices};

/// What is least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Energy over the run time; of fleets that need the same, the cheaper.
    Energy,
    /// Purchase and electricity over the run time. Devices without a price take no part.
    Cost,
}

/// A part of the data, and how much of the bandwidth goes to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Segment {
    /// Share of the data.
    pub data: f64,
    /// Share of the bandwidth.
    pub accesses: f64,
}

impl Segment {
    /// All data alike.
    pub const WHOLE: Segment = Segment { data: 1.0, accesses: 1.0 };
}

/// The devices of one kind in a [`Fleet`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetMember {
    /// The profile's name.
    pub device: String,
    /// How many.
    pub devices: u64,
    /// How many of them are busy on average.
    pub busy_devices: f64,
    /// Share of the data on them.
    pub data_share: f64,
    /// Share of the bandwidth from and to them.
    pub access_share: f64,
    /// Of all of them together.
    pub mean_power_w: f64,
    /// To buy them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices_usd: Option<f64>,
}

/// The best mix of devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fleet {
    /// What is least.
    pub objective: Objective,
    /// What the devices do that the load does not need.
    pub policy: Policy,
    /// The kinds that it has, in the order given.
    pub members: Vec<FleetMember>,
    /// Of all devices.
    pub mean_power_w: f64,
    /// Over the run time.
    pub energy_j: f64,
    /// To buy all devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices_usd: Option<f64>,
    /// Electricity over the run time.
    pub energy_usd: f64,
    /// Both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_usd: Option<f64>,
}

/// Why there is no fleet.
#[derive(Debug, Error)]
pub enum FleetError {
    /// No device can take part.
    #[error("no device has a price (price_usd in its profile), so that none can take part in the least cost")]
    NoDevices,
    /// The solver gave up.
    #[error("no fleet was found: {0}")]
    Solver(#[from] ResolutionError),
}

/// Unknowns of one kind of device.
struct MemberKind<'a> {
    figures: &'a Figures,
    /// `n` and `m`.
    devices: Variable,
    awake: Variable,
    /// `z`, for each segment.
    shares: Vec<Variable>,
}

impl MemberKind<'_> {
    /// In devices: what `of` a segment, with so much per device, takes.
    fn load(&self, segments: &[Segment], of: fn(&Segment) -> f64, total: f64, per_device: f64) -> Expression {
        let parts = self.shares.iter().zip(segments).map(|(share, segment)| of(segment) * total / per_device * *share);
        parts.sum()
    }
}

/// A watt or dollar less in a tie is no reason for another fleet, but must decide between equal ones.
const TIE: f64 = 1e-7;

/// The fleet that needs least, of any of these devices, over `run_time_s`.
///
/// # Errors
/// No device can take part, or the solver finds none.
#[allow(clippy::too_many_arguments, reason = "each is one independent question to the user")]
pub fn fleet(
    figures: &[Figures],
    demand: &Demand,
    segments: &[Segment],
    alpha: f64,
    policy: Policy,
    run_time_s: f64,
    prices: Prices,
    objective: Objective,
) -> Result<Fleet, FleetError> {
    let takes_part = |figures: &&Figures| objective != Objective::Cost || figures.price_usd.is_some();
    let mut variables = ProblemVariables::new();
    let kinds: Vec<MemberKind<'_>> = figures
        .iter()
        .filter(takes_part)
        .map(|figures| {
            // More than would do alone are never needed.
            let most = figures.needed(demand) as f64;
            let whole = || variable().integer().min(0.0).max(most);
            MemberKind {
                figures,
                devices: variables.add(whole()),
                awake: variables.add(whole()),
                shares: segments.iter().map(|_| variables.add(variable().min(0.0).max(1.0))).collect(),
            }
        })
        .collect();
    if kinds.is_empty() {
        return Err(FleetError::NoDevices);
    }
    let power: Expression = kinds.iter().map(|kind| power_w(kind, demand, segments, alpha, policy)).sum();
    let usd: Expression = kinds.iter().map(|kind| kind.figures.price_usd.unwrap_or(0.0) * kind.devices).sum();
    let usd_per_w = run_time_s / 3.6e6 * prices.usd_per_kwh;
    let goal = match objective {
        Objective::Energy => power.clone() + TIE * usd.clone(),
        Objective::Cost => usd.clone() + usd_per_w * power.clone() + TIE * power.clone(),
    };
    let mut model = variables.minimise(goal).using(microlp);
    for segment in 0..segments.len() {
        let everywhere: Expression = kinds.iter().map(|kind| Expression::from(kind.shares[segment])).sum();
        model.add_constraint(constraint!(everywhere == 1.0));
    }
    for kind in &kinds {
        let Figures { capacity_mb, bandwidth_mb_per_s, .. } = *kind.figures;
        let data = kind.load(segments, |s| s.data, demand.capacity_mb, capacity_mb);
        let peak = kind.load(segments, |s| s.accesses, demand.peak_mb_per_s, bandwidth_mb_per_s);
        let mean = kind.load(segments, |s| s.accesses, demand.average_mb_per_s, bandwidth_mb_per_s);
        model.add_constraint(constraint!(data <= kind.devices));
        model.add_constraint(constraint!(peak <= kind.devices));
        if policy == Policy::Standby {
            model.add_constraint(constraint!(mean <= kind.awake));
            model.add_constraint(constraint!(kind.awake <= kind.devices));
        } else {
            model.add_constraint(constraint!(kind.awake == kind.devices));
        }
    }
    let solution = model.solve()?;
    Ok(found(&kinds, &solution, demand, segments, alpha, policy, run_time_s, prices, objective))
}

/// Equations (3), (4), (5) and (7) as `n`, `m` and `z` have them.
fn power_w(kind: &MemberKind<'_>, demand: &Demand, segments: &[Segment], alpha: f64, policy: Policy) -> Expression {
    let Figures { bandwidth_mb_per_s, busy_w, idle_w, .. } = *kind.figures;
    let busy = kind.load(segments, |s| s.accesses, alpha * demand.average_mb_per_s, bandwidth_mb_per_s);
    match policy {
        Policy::AllActive => busy_w * kind.devices,
        Policy::Idle => idle_w * kind.devices + (busy_w - idle_w) * busy,
        Policy::Standby => {
            let rest_w = kind.figures.rest_w();
            rest_w * kind.devices + (idle_w - rest_w) * kind.awake + (busy_w - idle_w) * busy
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn found(
    kinds: &[MemberKind<'_>],
    solution: &impl Solution,
    demand: &Demand,
    segments: &[Segment],
    alpha: f64,
    policy: Policy,
    run_time_s: f64,
    prices: Prices,
    objective: Objective,
) -> Fleet {
    let member = |kind: &MemberKind<'_>| {
        let devices = solution.value(kind.devices).round() as u64;
        let sum = |of: fn(&Segment) -> f64| -> f64 {
            kind.shares.iter().zip(segments).map(|(share, segment)| solution.value(*share) * of(segment)).sum()
        };
        let access_share = sum(|segment| segment.accesses);
        FleetMember {
            device: kind.figures.device.clone(),
            devices,
            busy_devices: alpha * access_share * demand.average_mb_per_s / kind.figures.bandwidth_mb_per_s,
            data_share: sum(|segment| segment.data),
            access_share,
            mean_power_w: solution.eval(power_w(kind, demand, segments, alpha, policy)),
            devices_usd: kind.figures.price_usd.map(|price| price * devices as f64),
        }
    };
    let members: Vec<FleetMember> = kinds.iter().map(member).filter(|member| member.devices > 0).collect();
    let mean_power_w: f64 = members.iter().map(|member| member.mean_power_w).sum();
    let devices_usd = members.iter().map(|member| member.devices_usd).sum::<Option<f64>>();
    let energy_j = mean_power_w * run_time_s;
    let energy_usd = energy_j / 3.6e6 * prices.usd_per_kwh;
    let total_usd = devices_usd.map(|usd| usd + energy_usd);
    Fleet { objective, policy, members, mean_power_w, energy_j, devices_usd, energy_usd, total_usd }
}

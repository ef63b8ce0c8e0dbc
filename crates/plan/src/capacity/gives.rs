//! What would have to give where no design meets the budgets: a budget, the load, or the number of devices.

use peryton_sim::{Design, Options, Replay};
use serde::Serialize;

use super::{ask::Ask, report::Found, search::Search};
use crate::{
    constraint::{Constraint, strain},
    evaluate::evaluate,
    share::largest_share,
};

/// Something that would have to give.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Gives {
    /// The load: this share of it is the most that a design carries within the budgets.
    Load {
        /// The design.
        design: String,
        /// What it is called.
        label: String,
        /// The share of the load.
        share: f64,
        /// Requests per second.
        requests_per_s: f64,
    },
    /// A budget: the best value of it that any design has that keeps up with the load.
    Budget {
        /// The budget.
        budget: Constraint,
        /// The best value.
        best: f64,
        /// The design that has it.
        label: String,
    },
    /// The number of devices: the nearest design has as many as there may be.
    Most {
        /// The limit.
        most: u32,
    },
}

/// The least share of the load that is tried.
const LEAST_SHARE: f64 = 1.0 / 1024.0;
/// The load is known within this factor.
const WITHIN: f64 = 1.1;

/// What would have to give; `simulated` has the nearest design first.
pub(super) fn of(ask: &Ask, search: &Search<'_>, simulated: &[Found]) -> Vec<Gives> {
    let mut all = Vec::new();
    let Some(nearest) = simulated.first() else { return all };
    if let Some(share) = carried(ask, search, nearest) {
        let like = &search.workload.like;
        let speed = if let Replay::Timed { speed } = ask.options.replay { speed } else { 1.0 };
        let requests_per_s = like.requests as f64 / like.span_s * speed * share;
        let (design, label) = (nearest.design.clone(), nearest.label.clone());
        all.push(Gives::Load { design, label, share, requests_per_s });
    }
    for budget in &ask.constraints {
        let carries = simulated.iter().filter(|found| !found.metrics.is_overloaded());
        let known = carries.filter(|found| budget.strain(&found.metrics).is_finite());
        let best = known.min_by(|a, b| budget.strain(&a.metrics).total_cmp(&budget.strain(&b.metrics)));
        if let Some(found) = best.filter(|found| !budget.met(&found.metrics)) {
            let value = budget.metric.of(&found.metrics).unwrap_or(f64::INFINITY);
            all.push(Gives::Budget { budget: *budget, best: value, label: found.label.clone() });
        }
    }
    if nearest.devices.iter().any(|device| device.count >= ask.most) {
        all.push(Gives::Most { most: ask.most });
    }
    all
}

/// Whether a design meets the budgets with so many times the load.
pub(super) fn meets_with(ask: &Ask, search: &Search<'_>, found: &Found, times: f64) -> bool {
    let Replay::Timed { speed } = ask.options.replay else { return false };
    let options = Options { replay: Replay::Timed { speed: speed * times }, ..search.options.clone() };
    let Ok(design) = Design::parse(&found.design_toml, &found.design, &[]) else { return false };
    let simulated = evaluate(&design, &|| search.workload.source(), &options, &search.account);
    simulated.is_ok_and(|metrics| strain(&ask.constraints, &metrics) <= 1.0)
}

/// The largest share of the load with which a design meets all budgets, by halving; `None`: no share does, or the replay has no load.
fn carried(ask: &Ask, search: &Search<'_>, found: &Found) -> Option<f64> {
    let Replay::Timed { .. } = ask.options.replay else { return None };
    let met = |share: f64| meets_with(ask, search, found, share);
    largest_share(LEAST_SHARE, WITHIN, met)
}

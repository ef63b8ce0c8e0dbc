//! Where the answer changes: at which price of flash and of electricity another design is the best, up to which load and how much data
//! the best one still meets the budgets.
//!
//! Prices change no simulation: a design's costs are a line over each of them, and the answer changes where lines of designs that meet the
//! budgets cross. The load is found by simulating the best design with more of it.

use peryton_sim::Replay;
use serde::Serialize;

use super::{Candidate, Catalogue, ask::Ask, gives, report::Found, search::Search};
use crate::{
    constraint::Metric,
    evaluate::{Account, Costs},
};

/// Another answer at another price.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Turn {
    /// The price at which both cost the same, as a multiple of today's.
    pub factor: f64,
    /// The design that is the best beyond.
    pub design: String,
    /// What it is called.
    pub label: String,
}

/// A design's costs against the price of flash, for a picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostLine {
    /// The design.
    pub label: String,
    /// What it costs if flash costs nothing.
    pub at_zero_usd: f64,
    /// What it costs more for each multiple of today's price of flash.
    pub slope_usd: f64,
}

/// Where the answer changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Turns {
    /// Price of flash below which another design is the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cheaper_flash: Option<Turn>,
    /// Price of flash above which another design is the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dearer_flash: Option<Turn>,
    /// Price of electricity above which another design is the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dearer_electricity: Option<Turn>,
    /// The load, as a multiple of the trace's, up to which the best design meets the budgets; absent where that was not asked or is more
    /// than was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// The most load that was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_tried: Option<f64>,
    /// The data that the best design has room for.
    pub capacity_bytes: u64,
    /// The costs of the designs that meet the budgets against the price of flash, the best first.
    pub lines: Vec<CostLine>,
}

/// Cost as a function of a price: what does not depend on it, and what is in proportion to it.
type Line = (f64, f64);

/// A price that is so many times today's, or today's so many times it, changes no decision.
const FARTHEST: f64 = 100.0;

/// The factor of the price from which on (`above`), or down to which, another design is the cheaper one.
fn crossing(best: Line, other: Line, above: bool) -> Option<f64> {
    let (base, slope) = (other.0 - best.0, best.1 - other.1);
    // Where the price is `factor`, both cost the same; the other is cheaper beyond if its line is flatter, or steeper below.
    let factor = base / slope;
    let is_cheaper_beyond = if above { slope > 0.0 } else { slope < 0.0 };
    let beyond = if above { 1.0..=FARTHEST } else { 1.0 / FARTHEST..=1.0 };
    (is_cheaper_beyond && beyond.contains(&factor)).then_some(factor)
}

/// The design that is the best beyond the first crossing above 1, or below it.
fn turn(best: Line, others: &[(Line, &Found)], above: bool) -> Option<Turn> {
    let all = others.iter().filter_map(|(line, found)| Some((crossing(best, *line, above)?, found)));
    let first = match above {
        true => all.min_by(|a, b| a.0.total_cmp(&b.0)),
        false => all.max_by(|a, b| a.0.total_cmp(&b.0)),
    };
    first.map(|(factor, found)| Turn { factor, design: found.design.clone(), label: found.label.clone() })
}

/// The lines drawn.
const MOST_LINES: usize = 8;
/// The most load that is tried.
const MOST_LOAD: f64 = 16.0;
/// Each load that is tried is so many times the one before, and one that can be given to `--speed`.
const LOAD_STEP: f64 = 1.05;
/// Loads are looked for with traces up to this length only: each takes a simulation.
const MOST_REQUESTS: u64 = 2_000_000;

/// Where the answer changes; `simulated` has the best design first. Nothing where the objective is no price.
pub(super) fn of(ask: &Ask, catalogue: &Catalogue, search: &Search<'_>, simulated: &[Found]) -> Option<Turns> {
    let best = simulated.first().filter(|found| found.meets)?;
    let owned = ask.objective == Metric::Ownership;
    if !owned && ask.objective != Metric::Dollars {
        return None;
    }
    let costs = |found: &Found| if owned { found.metrics.costs } else { Some(purchase(found, catalogue)) };
    let known: Vec<(Costs, &Found)> =
        simulated.iter().filter(|found| found.meets).filter_map(|found| Some((costs(found)?, found))).collect();
    let (first, others) = known.split_first()?;
    let by_flash = |costs: &Costs| (costs.other_usd + costs.energy_usd, costs.flash_usd);
    let by_energy = |costs: &Costs| (costs.other_usd + costs.flash_usd, costs.energy_usd);
    let lines = |of: &dyn Fn(&Costs) -> Line| -> Vec<(Line, &Found)> {
        others.iter().map(|(costs, found)| (of(costs), *found)).collect()
    };
    let flash = lines(&by_flash);
    let load = (search.workload.like.requests <= MOST_REQUESTS).then(|| most_load(ask, search, best)).flatten();
    let mut shown: Vec<CostLine> = Vec::new();
    let mut shapes: Vec<Candidate> = Vec::new();
    for (costs, found) in &known {
        let shape = found.candidate.with_capacity(None);
        if shown.len() < MOST_LINES && !shapes.contains(&shape) {
            let (at_zero_usd, slope_usd) = by_flash(costs);
            shown.push(CostLine { label: found.label.clone(), at_zero_usd, slope_usd });
            shapes.push(shape);
        }
    }
    Some(Turns {
        cheaper_flash: turn(by_flash(&first.0), &flash, false),
        dearer_flash: turn(by_flash(&first.0), &flash, true),
        dearer_electricity: if owned { turn(by_energy(&first.0), &lines(&by_energy), true) } else { None },
        load: load.filter(|load| *load < MOST_LOAD),
        load_tried: load.map(|_| MOST_LOAD),
        capacity_bytes: best.candidate.room(catalogue).0,
        lines: shown,
    })
}

/// Purchase alone.
fn purchase(found: &Found, catalogue: &Catalogue) -> Costs {
    let mut costs = Costs::default();
    for (_, member) in found.candidate.members() {
        let kind = &catalogue.kinds[member.kind];
        *if kind.wears() { &mut costs.flash_usd } else { &mut costs.other_usd } += kind.dollars(member);
    }
    costs
}

/// The largest multiple of the load with which a design meets the budgets, up to [`MOST_LOAD`].
fn most_load(ask: &Ask, search: &Search<'_>, found: &Found) -> Option<f64> {
    let Replay::Timed { .. } = ask.options.replay else { return None };
    let loads = loads();
    let more = loads.partition_point(|load| gives::meets_with(ask, search, found, *load));
    Some(more.checked_sub(1).map_or(1.0, |met| loads[met]))
}

/// The loads above 1 that are tried, with three digits each.
fn loads() -> Vec<f64> {
    let rounded = |load: f64, digits: f64| (load * digits).round() / digits;
    let loads =
        (1..).map(|step| LOAD_STEP.powi(step)).map(|load| rounded(load, if load < 10.0 { 100.0 } else { 10.0 }));
    let mut loads: Vec<f64> = loads.take_while(|load| *load < MOST_LOAD).collect();
    loads.push(MOST_LOAD);
    loads
}

impl Turns {
    /// What they say, in one line.
    pub fn sentence(&self, account: &Account) -> String {
        use peryton_units::{Bytes, person};
        let times = |factor: f64| match factor {
            factor if factor < 1.0 => format!("{} % of today's", person(factor * 100.0)),
            factor => format!("{} times today's", person(factor)),
        };
        let mut parts = Vec::new();
        match (&self.cheaper_flash, &self.dearer_flash) {
            (None, None) => parts.push("whatever flash costs".to_owned()),
            (below, above) => {
                let side = |turn: &Option<Turn>, word: &str| {
                    turn.as_ref().map(|turn| {
                        format!("until flash costs {word} than {} (then {})", times(turn.factor), turn.label)
                    })
                };
                parts.extend(side(below, "less"));
                parts.extend(side(above, "more"));
            }
        }
        if let Some(turn) = &self.dearer_electricity {
            let usd = turn.factor * account.usd_per_kwh;
            parts.push(format!("until electricity costs more than {} USD/kWh (then {})", person(usd), turn.label));
        }
        match (self.load, self.load_tried) {
            (Some(load), _) => parts.push(format!("up to {} times this load", person(load))),
            (None, Some(tried)) => parts.push(format!("up to {} times this load at the least", person(tried))),
            (None, None) => {}
        }
        parts.push(format!("up to {} of data", Bytes(self.capacity_bytes)));
        format!("This holds {}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The fear: the load that is named is not one that was tried, so that a plan for it may say something else.
    #[test]
    fn every_load_that_is_tried_is_named_to_the_digit() {
        let loads = loads();
        assert_eq!((loads[0], loads[3], *loads.last().unwrap()), (1.05, 1.22, MOST_LOAD));
        for pair in loads.windows(2) {
            assert!(pair[1] > pair[0] && pair[1] / pair[0] < LOAD_STEP * 1.01, "{pair:?}");
        }
        for load in &loads {
            assert_eq!(peryton_units::person(*load).parse::<f64>().unwrap(), *load);
        }
    }

    /// The fear: "until flash costs less than -0 %" of two designs of flash alone, which cost the same only where flash costs nothing.
    #[test]
    fn a_price_of_nothing_is_no_turn() {
        for other in [(0.0, 800.0), (0.0, 300.0)] {
            assert_eq!([false, true].map(|above| crossing((0.0, 400.0), other, above)), [None, None]);
        }
        assert_eq!(crossing((100.0, 400.0), (200.0, 399.0), true), Some(100.0));
        assert_eq!(crossing((100.0, 400.0), (201.0, 399.0), true), None);
    }

    /// The fear: the price that is named is not the one at which the cheaper design changes.
    #[test]
    fn lines_cross_where_the_other_becomes_cheaper() {
        // A hybrid with little flash against much flash and against none.
        let cost = |(base, slope): Line, factor: f64| base + slope * factor;
        let (hybrid, flash, disks) = ((1000.0, 500.0), (0.0, 4000.0), (1600.0, 0.0));
        for (other, above) in [(flash, false), (disks, true)] {
            let factor = (other.0 - hybrid.0) / (hybrid.1 - other.1);
            let beyond = if above { factor * 1.01 } else { factor * 0.99 };
            assert!((cost(hybrid, factor) - cost(other, factor)).abs() < 1e-9);
            assert!(cost(other, beyond) < cost(hybrid, beyond), "{factor}");
            assert!(cost(other, 1.0) > cost(hybrid, 1.0));
        }
    }
}

//! The page of `peryton plan`: what to buy, and what else there was to choose from.

use maud::{Markup, html};
use peryton_plan::{
    capacity::{CostLine, Found, Plan},
    constraint::Metric,
};
use peryton_units::Bytes;

use super::{
    figure::{Figures, Line, Scale},
    frame::{Head, counted, grouped, page, remedied, sentence, warned_below},
    weights::{self, Axis, Candidate},
};
use crate::{
    lifetime_told::lifetime_told,
    table::{self, Table},
};

/// The figures of the choice by weights.
const AXES: &[(Axis, Metric)] = &[
    (Axis::less("Mean response time", "ms"), Metric::Latency),
    (Axis { weight: 0, ..Axis::less("99th percentile", "ms") }, Metric::P99),
    (Axis::less("Price", "USD"), Metric::Dollars),
    (Axis { weight: 0, ..Axis::less("Cost of ownership", "USD") }, Metric::Ownership),
    (Axis::less("Power", "W"), Metric::Power),
    (Axis { more: true, absent_is_best: true, ..Axis::less("Lifetime", "years") }, Metric::Lifetime),
];

/// The tables that the verb prints.
pub struct Tables<'a> {
    /// The designs that were simulated.
    pub designs: &'a Table,
    /// Other capacities of flash, if any was asked for.
    pub flash: Option<&'a Table>,
    /// What the budgets cost, and what a mark in it means.
    pub budgets: Option<&'a (Table, &'static str)>,
}

/// The plan as a page.
pub fn planning(plan: &Plan, tables: Tables<'_>, repeat: &str) -> String {
    let mut figures = Figures::default();
    let shown = plan.best.as_ref().or_else(|| plan.infeasible.as_ref().map(|infeasible| &infeasible.nearest));
    let mut warnings: Vec<(String, String)> =
        shown.iter().flat_map(|found| &found.metrics.warnings).map(remedied).collect();
    if let Some(first) = plan.left_out.first() {
        let designs = counted(plan.left_out.len(), "design", "designs");
        warnings
            .push(("left_out".to_owned(), sentence(&format!("{designs} could not be simulated; the first: {first}"))));
    }
    if !plan.estimated_values.is_empty() {
        let names: Vec<&str> = plan.estimated_values.keys().map(String::as_str).collect();
        let text = format!(
            "Values of {} are estimates (peryton profiles NAME --values; --sensitivity shows what they decide)",
            names.join(", ")
        );
        warnings.push(("estimates".to_owned(), sentence(&text)));
    }
    let candidates: Vec<Candidate> =
        plan.simulated.iter().map(|found| candidate(found, !plan.constraints.is_empty())).collect();
    let axes: Vec<Axis> = AXES.iter().map(|(axis, metric)| weighted(axis, *metric, plan.objective)).collect();
    let body = html! {
        (about(plan))
        @if let Some(choice) = weights::choice(&axes, &candidates, ["Price", "Mean response time"]) {
            h2 { "What matters to you" }
            p class="about" { (weights::EXPLAINED) " Budgets stay as they are: a design that misses one says so." }
            (figures.weigh("Choice by weights", "every design that was simulated with the whole trace", choice))
        }
        h2 { "Designs" }
        p class="about" { (table::SORTED) }
        (tables.designs)
        (turns(plan, &mut figures))
        (flash(plan, tables.flash))
        @if let Some((budgets, mark)) = tables.budgets {
            h2 { "What the budgets cost" }
            (budgets)
            p class="about" { (mark) }
        }
        h2 { "What this rests on" }
        ul {
            @for rung in &plan.search { li { (rung.candidates) " designs were simulated with " (grouped(rung.requests)) " requests." } }
            @for assumption in &plan.assumptions { li { (sentence(assumption)) } }
            @if let Some(found) = shown {
                @if let Some(said) = lifetime_told(found.metrics.lifetime_years, &found.metrics.lifetime_interval, found.metrics.simulated_s) {
                    li { "Lifetime of " (found.label) ": " (sentence(&said)) }
                }
            }
        }
        @for found in plan.chosen() {
            details { summary { (found.label) } pre { code { (found.design_toml) } } }
        }
    };
    let title = format!("What to buy for {}", plan.trace);
    let verdict = verdict(plan, warnings.len());
    page(&Head { title: &title, verdict, warnings }, repeat, &figures, &body)
}

fn weighted(axis: &Axis, metric: Metric, objective: Metric) -> Axis {
    let Axis { name, unit, more, weight, absent_is_best } = *axis;
    // The objective counts as much as all others together.
    Axis { name, unit, more, weight: if metric == objective { 4 } else { weight }, absent_is_best }
}

fn candidate(found: &Found, has_budgets: bool) -> Candidate {
    let values = AXES.iter().map(|(_, metric)| metric.of(&found.metrics)).collect();
    Candidate { name: found.label.clone(), meets: has_budgets.then_some(found.meets), values }
}

fn verdict(plan: &Plan, warnings: usize) -> [String; 2] {
    let price = |found: &Found| match found.metrics.dollars {
        Some(usd) => Metric::Dollars.show(usd),
        None => "no price known".to_owned(),
    };
    let budgets = match plan.constraints.len() {
        1 => "budget".to_owned(),
        count => format!("{count} budgets"),
    };
    let answer = match (&plan.best, &plan.infeasible) {
        (Some(best), _) => {
            let why = match plan.constraints.is_empty() {
                true => format!("it has the best {} of the designs that were simulated", plan.objective),
                false => format!("it keeps the {budgets} with the best {}", plan.objective),
            };
            format!(
                "Buy {} ({}): {why}, and answers within {} ms on average",
                best.label,
                price(best),
                table::number(best.metrics.mean_ms)
            )
        }
        (None, Some(infeasible)) => format!(
            "No design that was simulated keeps the {budgets}; {} comes nearest, and {} prevents it",
            infeasible.nearest.label,
            infeasible.binding.map_or_else(|| "the load".to_owned(), |binding| binding.to_string())
        ),
        (None, None) => "No design could be simulated".to_owned(),
    };
    let rests = format!(
        "This rests on {} requests of {}, on simulations of {} of {} designs with the whole trace, and on models and prices of {}{}",
        grouped(plan.trace_requests),
        plan.trace,
        plan.simulated.len(),
        plan.candidates,
        counted(plan.catalogue.len(), "device", "devices"),
        warned_below(warnings)
    );
    [sentence(&answer), sentence(&rests)]
}

fn about(plan: &Plan) -> Markup {
    let like = &plan.workload;
    let budgets = plan.constraints.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    html! {
        p class="about" {
            "Trace " (plan.trace) ": " (grouped(like.requests)) " requests in " (table::number(like.span_s)) " s, "
            (table::number(like.request_kib)) " KiB each, " (table::number(like.read_share * 100.0)) " % reads; hash " code { (plan.trace_hash) }
            ". " (Bytes(plan.capacity_bytes)) " to store. Budgets: " @if budgets.is_empty() { "none" } @else { (budgets) }
            ". Objective: " (plan.objective) "."
        }
    }
}

/// At which price of flash the answer changes.
fn turns(plan: &Plan, figures: &mut Figures) -> Markup {
    const STEPS: u32 = 40;
    const WIDEST: f64 = 16.0;
    let Some(turns) = &plan.turns else { return html! {} };
    let factor = |step: u32| WIDEST.powf(2.0 * f64::from(step) / f64::from(STEPS) - 1.0);
    let line = |(index, line): (usize, &CostLine)| {
        let points = (0..=STEPS).map(factor).map(|factor| (factor, line.at_zero_usd + line.slope_usd * factor));
        Line::new(&line.label, index, points)
    };
    let lines: Vec<Line> = turns.lines.iter().enumerate().map(line).collect();
    let axes = (Scale::new("price of flash", "times today's").log(), Scale::new("", "USD").log());
    let title =
        ("What designs cost against the price of flash", "USD by the objective, of those that keep the budgets");
    let mut marks = vec![(1.0, "today")];
    marks.extend(
        [&turns.cheaper_flash, &turns.dearer_flash]
            .into_iter()
            .flatten()
            .map(|turn| (turn.factor, "the answer changes")),
    );
    html! {
        h2 { "Where the answer changes" }
        p class="about" { (sentence(&turns.sentence(&plan.account))) }
        div class="charts" { (figures.lines(title, axes, vec![("cost".to_owned(), lines)], &marks)) }
    }
}

/// How much flash is bought, and what other capacities would give.
fn flash(plan: &Plan, points: Option<&Table>) -> Markup {
    let said: Vec<(&str, Vec<String>)> =
        plan.chosen().filter_map(|found| Some((found.label.as_str(), found.flash.as_ref()?.sentences()))).collect();
    html! {
        @if !said.is_empty() {
            h2 { "How much flash" }
            @for (label, sentences) in &said {
                p class="about" { strong { (label) } ": " @for one in sentences { (sentence(one)) " " } }
            }
        }
        @if let Some(points) = points { (points) }
    }
}

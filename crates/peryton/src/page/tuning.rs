//! The page of `peryton tune`: a design before and after the search.

use maud::html;
use peryton_plan::{constraint::Metric, tune::Tuned};

use super::{
    chart::{self, Best},
    figure::Figures,
    frame::{Head, counted, grouped, page, remedied, sentence, warned_below},
    weights::{self, Axis, Candidate},
};
use crate::table::Table;

/// What was searched for.
pub struct Tuning<'a> {
    pub design: &'a str,
    pub trace: &'a str,
    pub objective: Metric,
}

const AXES: &[(Axis, Metric)] = &[
    (Axis::less("Mean response time", "ms"), Metric::Latency),
    (Axis::less("99th percentile", "ms"), Metric::P99),
    (Axis::less("Power", "W"), Metric::Power),
    (Axis { more: true, absent_is_best: true, ..Axis::less("Lifetime", "years") }, Metric::Lifetime),
];

/// The bars: title, unit, figure.
const BARS: &[(&str, &str, Metric)] = &[
    ("Mean response time", "ms", Metric::Latency),
    ("99th percentile", "ms", Metric::P99),
    ("Flush", "ms, mean", Metric::Flush),
    ("Throughput", "requests/s", Metric::Iops),
    ("Power", "W, mean", Metric::Power),
    ("Lifetime", "years", Metric::Lifetime),
];

/// The result of the search as a page.
pub fn tuning(
    tuned: &Tuned,
    asked: &Tuning<'_>,
    (settings, figures_of_both): (&Table, &Table),
    repeat: &str,
) -> String {
    let mut figures = Figures::default();
    let mut warnings: Vec<(String, String)> = tuned.after.warnings.iter().map(remedied).collect();
    if !tuned.met_after {
        warnings.insert(
            0,
            (
                "bounds".to_owned(),
                "No settings were found that keep every bound: loosen one, or change the devices.".to_owned(),
            ),
        );
    }
    let both = [("as it is", &tuned.before), ("tuned", &tuned.after)];
    let bars = |(title, unit, metric): &(&str, &str, Metric)| {
        let best = if metric.more_is_better() { Best::Most } else { Best::Least };
        let rows: Vec<(&str, Option<f64>)> = both.iter().map(|(name, metrics)| (*name, metric.of(metrics))).collect();
        chart::bars(title, unit, Some(best), &rows)
    };
    let candidates = both.map(|(name, metrics)| Candidate {
        name: name.to_owned(),
        meets: None,
        values: AXES.iter().map(|(_, metric)| metric.of(metrics)).collect(),
    });
    let axes: Vec<Axis> = AXES.iter().map(|(axis, _)| Axis { ..*axis }).collect();
    let body = html! {
        p class="about" {
            "Searched for the best " (asked.objective) " with " (counted(tuned.evaluations as usize, "simulation", "simulations"))
            ", measured on " (grouped(tuned.trace_requests)) " requests of " (asked.trace) " (hash " code { (tuned.trace_hash) } ")."
        }
        h2 { "Settings" }
        @if tuned.changed.is_empty() { p { "Nothing better was found." } } @else { (settings) }
        h2 { "Before and after" }
        div class="cards" { @for bar in BARS { (bars(bar)) } }
        @if !tuned.changed.is_empty() {
            @if let Some(choice) = weights::choice(&axes, &candidates, ["Lifetime", "Mean response time"]) {
                h2 { "What matters to you" }
                p class="about" { (weights::EXPLAINED) }
                (figures.weigh("Choice by weights", "whether the change is worth it", choice))
            }
        }
        h2 { "Figures" }
        (figures_of_both)
    };
    let title = format!("Settings of {} for {}", asked.design, asked.trace);
    let verdict = verdict(tuned, asked, warnings.len());
    page(&Head { title: &title, verdict, warnings }, repeat, &figures, &body)
}

fn verdict(tuned: &Tuned, asked: &Tuning<'_>, warnings: usize) -> [String; 2] {
    let of = |metrics| asked.objective.of(metrics);
    let answer = match (of(&tuned.before), of(&tuned.after)) {
        _ if tuned.changed.is_empty() => {
            format!("no better settings of {} were found: it stays as it is", asked.design)
        }
        (Some(before), Some(after)) => format!(
            "with {} {} of {} goes from {} to {}",
            counted(tuned.changed.len(), "other setting", "other settings"),
            asked.objective,
            asked.design,
            asked.objective.show(before),
            asked.objective.show(after)
        ),
        _ => format!("{} has no {}", asked.design, asked.objective),
    };
    let rests = format!(
        "This rests on {} and on {} requests of {}, so it is right for loads like that one{}",
        counted(tuned.evaluations as usize, "simulation", "simulations"),
        grouped(tuned.trace_requests),
        asked.trace,
        warned_below(warnings)
    );
    [sentence(&answer), sentence(&rests)]
}

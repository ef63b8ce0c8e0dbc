//! The page of `peryton size`: the figures of a design against the size of its fast device.

use maud::{Markup, html};
use peryton_plan::size::{SizeCurve, SizePoint};
use peryton_units::Bytes;

use super::{
    figure::{Figures, Line, Points, Scale},
    frame::{Head, counted, grouped, page, sentence, warned_below},
};
use crate::table::Table;

type Figure = fn(&SizePoint) -> Option<f64>;

/// A chart: its title, its unit, and its lines.
type Chart = (&'static str, &'static str, &'static [(&'static str, Figure)]);

const CHARTS: &[Chart] = &[
    (
        "Response time",
        "ms, mean",
        &[
            ("all", |point| Some(point.metrics.mean_ms)),
            ("reads", |point| point.metrics.read_mean_ms),
            ("writes", |point| point.metrics.write_mean_ms),
        ],
    ),
    ("99th percentile", "ms", &[("p99", |point| Some(point.metrics.p99_ms))]),
    (
        "Flush",
        "ms, mean",
        &[
            ("flush", |point| point.metrics.flush_mean_ms),
            ("write until flushed", |point| point.metrics.write_then_flush_mean_ms),
        ],
    ),
    (
        "Misses",
        "%, of accesses",
        &[
            ("misses", |point| Some(point.miss_ratio? * 100.0)),
            ("a larger device would avoid", |point| Some(point.avoidable_miss_ratio? * 100.0)),
        ],
    ),
    ("Written to the fast device", "GB/day", &[("written", |point| Some(point.fast_bytes_written_per_day? / 1e9))]),
    ("Lifetime", "years, of a device of that size", &[("years", |point| point.by_size.lifetime_years_by_size)]),
    (
        "Price",
        "USD",
        &[
            ("fast device", |point| point.by_size.fast_usd_by_size),
            ("in all, with electricity and replacement", |point| point.by_size.ownership_usd_by_size),
        ],
    ),
];

/// The curve as a page.
pub fn sizing(curve: &SizeCurve, rows: &Table, repeat: &str) -> String {
    let enough = curve.knees.first().map(|knee| knee.size_bytes);
    let mut drawn_figures = Figures::default();
    let mut warnings: Vec<(String, String)> =
        curve.caveats.iter().map(|caveat| ("caveat".to_owned(), sentence(caveat))).collect();
    warnings.extend(curve.warnings.iter().map(|warning| (warning.code.to_owned(), sentence(&warning.text))));
    let body = html! {
        p class="about" {
            (grouped(curve.requests)) " requests of " (curve.trace) " (hash " code { (curve.trace_hash) } ") after " (curve.warm_up_requests)
            " of warm-up, replayed " (curve.replay) ", on '" (curve.device) "' (" (curve.profile) ") of several sizes. The trace touches "
            (Bytes(curve.touched_bytes)) ", the volume has " (Bytes(curve.volume_bytes)) "."
        }
        @if curve.verdict.len() > 1 {
            h2 { "What to make of it" }
            ul { @for said in &curve.verdict { li { (sentence(said)) } } }
        }
        @if !curve.overloaded {
            h2 { "Against size" }
            p class="about" { "The dashed line is the size that is enough by " (curve.objective) "." }
            div class="charts" { @for chart in CHARTS { (drawn(curve, chart, enough, &mut drawn_figures)) } }
            h2 { "Figures" }
            (rows)
            p class="about" { "* enough; = the design's size" }
        }
        h2 { "Assumed" }
        ul { @for assumption in &curve.assumptions { li class="note" { (assumption) "." } } }
        details { summary { "The design in full" } pre { code { (curve.design_toml) } } }
    };
    let title = format!("How large '{}' of {} should be for {}", curve.device, curve.design, curve.trace);
    let answer = curve.verdict.first().map_or_else(|| "No size was simulated".to_owned(), Clone::clone);
    let rests = format!(
        "This rests on simulations of {} with {} requests of {}, replayed {}{}",
        counted(curve.points.len(), "size", "sizes"),
        grouped(curve.requests),
        curve.trace,
        curve.replay,
        warned_below(warnings.len())
    );
    let verdict = [sentence(&answer), sentence(&rests)];
    page(&Head { title: &title, verdict, warnings }, repeat, &drawn_figures, &body)
}

fn drawn(curve: &SizeCurve, (title, unit, of): &Chart, enough: Option<u64>, figures: &mut Figures) -> Markup {
    let line = |(index, (name, figure)): (usize, &(&'static str, Figure))| {
        let points = curve.points.iter().filter_map(|point| Some((point.size_bytes as f64, figure(point)?)));
        Line::new(name, index, points).points(Points::Marked)
    };
    let lines: Vec<Line> = of.iter().enumerate().map(line).filter(|line| line.x.len() > 1).collect();
    let axes = (Scale::new("size", "bytes").log(), Scale::new("", unit.split(',').next().unwrap_or_default()));
    let marks: Vec<(f64, &str)> = enough.map(|size| (size as f64, "enough")).into_iter().collect();
    figures.lines((title, unit), axes, vec![((*title).to_owned(), lines)], &marks)
}

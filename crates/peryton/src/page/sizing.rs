//! The page of `peryton size`: the figures of a design against the size of its fast device.

use maud::{Markup, html};
use peryton_plan::size::{SizeCurve, SizePoint};
use peryton_units::Bytes;

use super::{
    lines::{Series, lines},
    page,
};
use crate::table;

type Figure = fn(&SizePoint) -> Option<f64>;

/// A chart: its title, its unit, and its lines with their styles.
type Chart = (&'static str, &'static str, &'static [(&'static str, &'static str, Figure)]);

const CHARTS: &[Chart] = &[
    (
        "Response time",
        "ms, mean",
        &[
            ("all", "bar", |point| Some(point.metrics.mean_ms)),
            ("reads", "read", |point| point.metrics.read_mean_ms),
            ("writes", "write", |point| point.metrics.write_mean_ms),
        ],
    ),
    ("99th percentile", "ms", &[("p99", "bar", |point| Some(point.metrics.p99_ms))]),
    (
        "Flush",
        "ms, mean",
        &[
            ("flush", "flush", |point| point.metrics.flush_mean_ms),
            ("write until flushed", "durable", |point| point.metrics.write_then_flush_mean_ms),
        ],
    ),
    (
        "Misses",
        "% of accesses",
        &[
            ("misses", "read", |point| Some(point.miss_ratio? * 100.0)),
            ("a larger device would avoid", "write", |point| Some(point.avoidable_miss_ratio? * 100.0)),
        ],
    ),
    (
        "Written to the fast device",
        "GB a day",
        &[("written", "write", |point| Some(point.fast_bytes_written_per_day? / 1e9))],
    ),
    (
        "Lifetime",
        "years, of a device of that size",
        &[("years", "durable", |point| point.by_size.lifetime_years_by_size)],
    ),
    (
        "Price",
        "USD",
        &[
            ("fast device", "bar", |point| point.by_size.fast_usd_by_size),
            ("in all, with electricity and replacement", "write", |point| point.by_size.ownership_usd_by_size),
        ],
    ),
];

/// Columns of the table.
const COLUMNS: &[(&str, Figure)] = &[
    ("hit %", |point| Some(point.metrics.fast_hit_ratio? * 100.0)),
    ("avoidable miss %", |point| Some(point.avoidable_miss_ratio? * 100.0)),
    ("mean ms", |point| Some(point.metrics.mean_ms)),
    ("p99 ms", |point| Some(point.metrics.p99_ms)),
    ("p99.9 ms", |point| Some(point.metrics.p999_ms)),
    ("flush ms", |point| point.metrics.flush_mean_ms),
    ("write to flushed ms", |point| point.metrics.write_then_flush_mean_ms),
    ("written GB/day", |point| Some(point.fast_bytes_written_per_day? / 1e9)),
    ("lifetime y", |point| point.by_size.lifetime_years_by_size),
    ("of the whole device y", |point| point.metrics.lifetime_years),
    ("power W", |point| point.metrics.power_w),
    ("USD", |point| point.by_size.fast_usd_by_size),
    ("USD per ms saved", |point| point.usd_per_ms_saved),
];

/// The curve as a page.
pub fn sizing(curve: &SizeCurve, repeat: &str) -> String {
    let enough = curve.knees.first().map(|knee| knee.size_bytes);
    let body = html! {
        p class="about" {
            (curve.requests) " requests of " (curve.trace) " (hash " code { (curve.trace_hash) } ") after " (curve.warm_up_requests)
            " of warm-up, replayed " (curve.replay) ", on '" (curve.device) "' (" (curve.profile) ") of several sizes. The trace touches "
            (Bytes(curve.touched_bytes)) ", the volume has " (Bytes(curve.volume_bytes)) "."
        }
        h2 { "What to make of it" }
        ul { @for sentence in &curve.verdict { li { (sentence) "." } } }
        @if !curve.caveats.is_empty() || !curve.warnings.is_empty() {
            h2 { "Before believing these figures" }
            ul {
                @for caveat in &curve.caveats { li class="note" { (caveat) "." } }
                @for warning in &curve.warnings { li class="note" id=(warning.code) { (warning.text) "." } }
            }
        }
        h2 { "Against size" }
        p class="about" { "The dashed line is the size that is enough by " (curve.objective) "." }
        div class="cards" { @for chart in CHARTS { (drawn(curve, chart, enough)) } }
        h2 { "Figures" }
        (figures(curve, enough))
        h2 { "Assumed" }
        ul { @for assumption in &curve.assumptions { li class="note" { (assumption) "." } } }
        details { summary { "The design in full" } pre { code { (curve.design_toml) } } }
    };
    page(&format!("How large '{}' of {} should be for {}", curve.device, curve.design, curve.trace), repeat, &body)
}

fn drawn(curve: &SizeCurve, (title, unit, of): &Chart, enough: Option<u64>) -> Markup {
    let series = |(name, class, figure): &(&'static str, &'static str, Figure)| Series {
        name,
        class,
        points: curve.points.iter().filter_map(|point| Some((point.size_bytes, figure(point)?))).collect(),
    };
    let series: Vec<Series> = of.iter().map(series).collect();
    lines(title, unit, &series, enough.map(|size| (size, "enough")))
}

fn figures(curve: &SizeCurve, enough: Option<u64>) -> Markup {
    let there_is = |figure: Figure| curve.points.iter().any(|point| figure(point).is_some());
    let columns: Vec<_> = COLUMNS.iter().filter(|(_, figure)| there_is(*figure)).collect();
    html! {
        div class="scroll" {
            table {
                tr { th { (curve.device) } @for (title, _) in &columns { th { (title) } } }
                @for point in &curve.points {
                    tr {
                        td {
                            (Bytes(point.size_bytes))
                            @if Some(point.size_bytes) == enough { " (enough)" }
                            @if point.size_bytes == curve.design_bytes { " (the design's)" }
                        }
                        @for (_, figure) in &columns { td { (table::optional(figure(point))) } }
                    }
                }
            }
        }
    }
}

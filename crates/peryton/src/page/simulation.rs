//! The page of `peryton sim`: the results of all designs under one trace, in comparison.

use std::collections::BTreeSet;

use maud::{Markup, html};
use peryton_sim::{DeviceReport, Report, warned};
use peryton_units::Bytes;

use super::{
    chart::{self, Best, Parts},
    figure::{Figures, Line, Points, Scale},
    frame::{Head, grouped, page, sentence, warned_below},
    over_time::{maps, over_time},
    weights::{self, Axis, Candidate},
};
use crate::{
    lifetime_told::lifetime_told,
    table::{self, Column, Table},
};

type Row<'a> = (&'a str, &'static str, Option<Best>, fn(&Report) -> Option<f64>);

/// The figures by which designs are compared: title, unit, which value is best, and the function that reads it.
const COMPARED: &[Row] = &[
    ("Throughput", "requests/s", Some(Best::Most), |report| report.iops),
    ("Mean response time", "ms", Some(Best::Least), |report| report.latency_us.all.as_ref().map(|all| all.mean / 1e3)),
    ("99th percentile", "ms", Some(Best::Least), |report| report.latency_us.all.as_ref().map(|all| all.p99 / 1e3)),
    ("Flush", "ms, mean", Some(Best::Least), |report| report.latency_us.flush.as_ref().map(|flush| flush.mean / 1e3)),
    (
        "Write until it is durable",
        "ms, mean, to the end of the first flush that covers it",
        Some(Best::Least),
        |report| report.latency_us.write_then_flush.as_ref().map(|both| both.mean / 1e3),
    ),
    ("Served by the fast device", "%", Some(Best::Most), |report| report.fast_hit_ratio.map(|share| share * 100.0)),
    ("Power", "W, mean", Some(Best::Least), |report| report.mean_power_w),
    ("Energy", "J", Some(Best::Least), |report| report.energy_j),
    ("Lifetime", "years, of the first device to wear out", Some(Best::Most), |report| report.lifetime_years),
    ("Rated lifetime", "years, by the manufacturers' ratings", Some(Best::Most), |report| report.lifetime_rated_years),
    ("Physical lifetime", "years, by cycles of flash", Some(Best::Most), |report| report.lifetime_physical_years),
    ("Price", "USD, devices bought whole", Some(Best::Least), |report| report.cost.devices_usd),
    ("Electricity", "USD a year", Some(Best::Least), |report| report.cost.energy_usd_per_year),
];

/// The most reports that have charts and details; of more there is only the table.
const MOST_IN_FULL: usize = 40;

/// The most reports with charts over time and maps.
const MOST_PICTURED: usize = 12;

/// Whether reports of so many designs have charts over time and maps.
pub fn is_pictured(designs: usize) -> bool {
    designs <= MOST_PICTURED
}

/// The miss ratio of an LRU cache of extents, and where the designs are beside it.
pub struct TraceCurve {
    /// The size of an extent.
    pub extent: Bytes,
    /// Sizes in bytes and miss ratios, in ascending order of sizes.
    pub points: Vec<(f64, f64)>,
    /// Numbers of designs, and the bytes of their fast devices.
    pub designs: Vec<(usize, f64)>,
}

/// The reports of one trace as a page.
pub fn simulation(reports: &[Report], curve: Option<&TraceCurve>, repeat: &str) -> String {
    let trace = reports.first().map_or("", |report| report.trace.as_str());
    let mut figures = Figures::default();
    let swept = reports.iter().any(|report| !report.sweep.is_empty());
    let body = html! {
        @if let Some(first) = reports.first() { (about(first)) }
        @if swept {
            h2 { "Every combination" }
            p class="about" { (table::SORTED) }
            (combinations(reports))
        }
        @if reports.len() <= MOST_IN_FULL {
            (in_full(reports, curve, &mut figures))
        } @else {
            p class="about" { "Charts and details are left out: there are more than " (MOST_IN_FULL) " rows." }
        }
    };
    let what = match reports {
        [one] => one.design.clone(),
        more => format!("{} designs", more.len()),
    };
    let warnings: Vec<(String, String)> =
        warned(reports).into_iter().map(|warned| (warned.warning.code.to_owned(), format!("{warned}."))).collect();
    let verdict = verdict(reports, warnings.len());
    page(&Head { title: &format!("{what} on {trace}"), verdict, warnings }, repeat, &figures, &body)
}

/// The answer, and what it rests on.
fn verdict(reports: &[Report], warnings: usize) -> [String; 2] {
    let mean = |report: &Report| report.latency_us.all.as_ref().map(|all| all.mean / 1e3);
    let mut by_mean: Vec<(f64, &Report)> = reports.iter().filter_map(|report| Some((mean(report)?, report))).collect();
    by_mean.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ms = |value: f64| format!("{} ms", table::number(value));
    let answer = match &by_mean[..] {
        [] => "No request was answered".to_owned(),
        [(mean, report)] => {
            let p99 = report.latency_us.all.as_ref().map_or(0.0, |all| all.p99 / 1e3);
            format!(
                "on average {} answers within {}, and 99 % of all requests within {}",
                report.design,
                ms(*mean),
                ms(p99)
            )
        }
        [(first, best), (second, next), ..] => {
            let (last, worst) = by_mean[by_mean.len() - 1];
            let beside = match (*second - *first) / first.max(f64::MIN_POSITIVE) {
                share if share < 0.01 => format!("as soon as {}", next.design),
                share => format!("{} % sooner than {}", table::number(share / (1.0 + share) * 100.0), next.design),
            };
            let of_all = if by_mean.len() > 2 {
                format!("; {} takes longest, {}", worst.design, ms(last))
            } else {
                String::new()
            };
            format!("on average {} answers soonest: within {}, {beside}{of_all}", best.design, ms(*first))
        }
    };
    let Some(first) = reports.first() else { return [sentence(&answer), String::new()] };
    let estimated: std::collections::BTreeSet<&String> =
        reports.iter().flat_map(|report| report.estimated_values.keys()).collect();
    let models = match estimated.len() {
        0 => "models of the devices".to_owned(),
        count => format!("models of the devices, {count} of them with estimated values"),
    };
    let warm = if first.warm_up_requests > 0 { "after a warm-up" } else { "without a warm-up" };
    let rests = format!(
        "This rests on {} requests of {} over {} s, replayed {} {warm}, and on {models}{}",
        grouped(first.requests),
        first.trace,
        table::number(first.simulated_s),
        first.replay,
        warned_below(warnings)
    );
    [sentence(&answer), sentence(&rests)]
}

/// The rows of a sweep: the design, the swept keys, and the figures.
fn combinations(reports: &[Report]) -> Table {
    let keys: BTreeSet<&String> = reports.iter().flat_map(|report| report.sweep.keys()).collect();
    let mut columns = vec![Column::names("row", 1)];
    columns.extend(keys.iter().map(|key| Column::names(key.as_str(), 1)));
    // Explanations of units are those of the charts.
    let unit = |unit: &'static str| unit.split(',').next().unwrap_or_default();
    columns.extend(COMPARED.iter().map(|(title, of, ..)| Column::figures(format!("{title}, {}", unit(of)), 1)));
    let mut rows = Table::of(columns);
    for report in reports {
        let values = keys.iter().map(|key| report.sweep.get(*key).map_or(table::NONE, String::as_str).to_owned());
        let figures = COMPARED.iter().map(|(.., figure)| table::optional(figure(report)));
        rows.add_row([report.design.clone()].into_iter().chain(values).chain(figures));
    }
    rows.without_empty_columns()
}

/// Charts and details of each report.
fn in_full(reports: &[Report], curve: Option<&TraceCurve>, figures: &mut Figures) -> Markup {
    html! {
        h2 { "Side by side" }
        div class="cards" {
            @for (title, unit, best, figure) in COMPARED {
                @let rows: Vec<_> = reports.iter().map(|report| (report.design.as_str(), figure(report))).collect();
                (chart::bars(title, unit, *best, &rows))
            }
        }
        @for report in reports {
            @if let Some(told) = lifetime_told(report.lifetime_years, &report.lifetime_interval, report.simulated_s) {
                p class="about" { "Lifetime of " (report.design) ": " (told) "." }
            }
            @for (name, array) in &report.redundancy {
                p class="about" {
                    (report.design) ", " (array.scheme) " " (name) ": " (array.data_devices) " of " (array.devices)
                    " devices hold data, " (array.survives_failures) " may fail; "
                    (table::optional(array.commands_per_write)) " commands to devices per write."
                }
            }
        }
        (chosen(reports, figures))
        (response_times(reports, figures))
        @if let Some(curve) = curve { (misses(reports, curve, figures)) }
        (over_time(reports, figures))
        (maps(reports, figures))
        h2 { "Time of the devices by state" }
        p class="key" {
            span style="background:var(--bar)" {} "busy" span style="background:var(--idle)" {} "idle"
            span style="background:var(--standby)" {} "standby"
        }
        div class="states" { (chart::shares(&reports.iter().flat_map(states).collect::<Vec<_>>())) }
        @for report in reports {
            details {
                summary { (report.design) }
                (details(report))
            }
        }
    }
}

fn about(report: &Report) -> Markup {
    let warm = match (report.new_volume, report.warm_up_requests) {
        (true, 0) => ", on a new volume".to_owned(),
        (_, 0) => String::new(),
        (_, requests) => format!(", after {requests} requests of warm-up"),
    };
    html! {
        p class="about" {
            (grouped(report.requests)) " requests in " (table::number(report.simulated_s)) " s, replayed " (report.replay) (warm)
            ", seed " (report.seed) ". Trace " (report.trace) ": " (grouped(report.trace_requests)) " requests, hash "
            code { (report.trace_hash) } ". "
            "A figure that does not apply is absent. A star marks the best of the designs compared."
        }
        @if !report.overrides.is_empty() && report.sweep.is_empty() {
            p class="about" { "Set: " (report.overrides.join(", ")) }
        }
    }
}

/// The choice by weights, of several designs.
fn chosen(reports: &[Report], figures: &mut Figures) -> Markup {
    const AXES: &[Axis] = &[
        Axis::less("Mean response time", "ms"),
        Axis::less("Price", "USD"),
        Axis::less("Power", "W"),
        Axis { more: true, absent_is_best: true, ..Axis::less("Lifetime", "years") },
    ];
    let candidate = |report: &Report| Candidate {
        name: report.design.clone(),
        meets: None,
        values: vec![
            report.latency_us.all.as_ref().map(|all| all.mean / 1e3),
            report.cost.devices_usd,
            report.mean_power_w,
            report.lifetime_years,
        ],
    };
    let candidates: Vec<Candidate> = reports.iter().map(candidate).collect();
    let Some(choice) = weights::choice(AXES, &candidates, ["Price", "Mean response time"]) else { return html! {} };
    html! {
        h2 { "What matters to you" }
        p class="about" { (weights::EXPLAINED) }
        (figures.weigh("Choice by weights", "move the weights", choice))
    }
}

/// The distributions of response times: shares answered within a time, and shares that took longer.
fn response_times(reports: &[Report], figures: &mut Figures) -> Markup {
    const KINDS: &[(&str, &[&str])] = &[
        ("all requests", &["read", "write", "flush", "discard"]),
        ("reads", &["read"]),
        ("writes", &["write"]),
        ("flushes", &["flush"]),
        ("writes until they are durable", &["write_then_flush"]),
    ];
    let views = |slower: bool| {
        let view = |(name, kinds): &(&'static str, &'static [&'static str])| {
            let line =
                |(at, report): (usize, &Report)| Line::new(&report.design, at, distribution(report, kinds, slower));
            ((*name).to_owned(), reports.iter().enumerate().map(line).collect())
        };
        KINDS.iter().map(view).collect()
    };
    let time = || Scale::new("response time", "ms").log();
    let within = (time(), Scale::new("", "%").up_to(100.0));
    let slower = (time(), Scale::new("", "%").log());
    html! {
        h2 { "Response times" }
        div class="charts" {
            (figures.lines(("Answered within", "% of the requests"), within, views(false), &[]))
            (figures.lines(("Slower than", "% of the requests, the tail"), slower, views(true), &[]))
        }
    }
}

/// Points of a distribution, few enough to be drawn: times in ms, and the share of requests that were answered by then, or
/// (`slower`) were not.
fn distribution(report: &Report, kinds: &[&str], slower: bool) -> Vec<(f64, f64)> {
    /// The least step of the share between two points, and of the rest as a factor.
    const STEP: f64 = 0.4;
    const FACTOR: f64 = 0.9;
    let mut buckets: Vec<(f64, f64, u64)> = Vec::new();
    for (_, histogram) in report.latency_histogram_us.named().filter(|(name, _)| kinds.contains(name)) {
        let edges = histogram.from.iter().zip(&histogram.to).zip(&histogram.count);
        buckets.extend(edges.map(|((from, to), count)| (*from, *to, *count)));
    }
    buckets.sort_by(|a, b| a.1.total_cmp(&b.1));
    let all: u64 = buckets.iter().map(|bucket| bucket.2).sum();
    let mut points: Vec<(f64, f64)> = Vec::new();
    let (mut before, mut last) = (0, -1.0);
    for (index, (from, to, count)) in buckets.iter().enumerate() {
        // A logarithmic scale has no zero: what took less than a microsecond is drawn as that.
        let at = |us: f64| (us / 1e3).max(1e-3);
        if index == 0 {
            points.push((at(*from), if slower { 100.0 } else { 0.0 }));
        }
        before += count;
        let share = 100.0 * before as f64 / all as f64;
        let steps = share - last >= STEP || (100.0 - share) <= (100.0 - last) * FACTOR;
        let value = if slower { 100.0 - share } else { share };
        if (steps || index + 1 == buckets.len()) && !(slower && before == all) {
            // Where many requests are in one bucket, or there were none for long, the line rises here and not since the last point.
            let rise = 100.0 * *count as f64 / all as f64;
            let share_before = if slower { 100.0 - (share - rise) } else { share - rise };
            if rise >= STEP && points.last().is_some_and(|point| point.0 < at(*from)) {
                points.push((at(*from), share_before));
            }
            if points.last().is_some_and(|point| point.0 >= at(*to)) {
                points.pop();
            }
            points.push((at(*to), value));
            last = share;
        }
    }
    points
}

/// Misses against the size of the cache.
fn misses(reports: &[Report], curve: &TraceCurve, figures: &mut Figures) -> Markup {
    let lru = Line::new("LRU, exact", 0, curve.points.iter().map(|(size, ratio)| (*size, ratio * 100.0)));
    let of_design = |(index, size): &(usize, f64)| {
        let report = reports.get(*index)?;
        let miss = (1.0 - report.fast_hit_ratio?) * 100.0;
        Some(Line::new(&report.design, index + 1, [(*size, miss)]).points(Points::Only))
    };
    let mut lines = vec![lru];
    lines.extend(curve.designs.iter().filter_map(of_design));
    let axes = (Scale::new("size of the cache", "bytes").log(), Scale::new("", "%").up_to(100.0));
    html! {
        h2 { "Misses" }
        p class="about" {
            "The line is an LRU cache of extents of " (curve.extent) " that takes in every miss of the whole trace; the points are the \
             designs as simulated, at the size of their fast device. A design with a warm-up, or with other extents, counts other accesses."
        }
        div class="charts" {
            (figures.lines(("Miss ratio", "% of the accesses"), axes, vec![("misses".to_owned(), lines)], &[]))
        }
    }
}

fn states(report: &Report) -> Vec<Parts> {
    let words = |device: &DeviceReport| {
        let facts = [
            device.mean_power_w.map(|watts| format!("{} W", table::number(watts))),
            device.start_stops.map(|count| format!("{count} start-stops")),
            device.write_amplification.map(|wa| format!("write amplification {}", table::number(wa))),
            device.bytes_rewritten.map(|bytes| format!("{} of zones written again", Bytes(bytes))),
            device.lifetime_years.map(|years| format!("{} years", table::number(years))),
        ];
        facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    let row = |(name, device): &(String, DeviceReport)| Parts {
        name: format!("{}, {name}", report.design),
        parts: vec![("active", device.active_s), ("idle", device.idle_s), ("standby", device.standby_s.unwrap_or(0.0))],
        words: words(device),
    };
    report.devices.iter().map(row).collect()
}

fn details(report: &Report) -> Markup {
    html! {
        (response_rows(report))
        (device_rows(report))
        @if let Some(moves) = &report.moves {
            p {
                (moves.promotions) " promotions, " (moves.demotions) " demotions and " (moves.writebacks)
                " write-backs wrote " (mib(moves.bytes)) " MiB; " (moves.cancelled) " were given up."
            }
        }
        @if let (Some(savings), Some(penalty)) = (report.write_savings, report.read_penalty) {
            p {
                "The log spared the primary " (table::percent(Some(savings))) " % of the written bytes; "
                (table::percent(Some(penalty))) " % of the reads needed it."
            }
        }
        @if let Some(past) = report.logging.as_ref().and_then(|log| log.direct_by.sentence()) {
            p { (past) "." }
        }
        @if let Some(bypasses) = report.bypasses.filter(|bypasses| *bypasses != Default::default()) {
            p {
                "Past the fast device went " (bypasses.sequential) " accesses of sequential streams, " (bypasses.congested)
                " because it was slower than the slow one, and " (bypasses.dirty_target)
                " writes because too much was dirty."
            }
        }
        @if let Some(admission) = &report.admission {
            p { (admission.bypassed) " misses were not admitted to the cache." }
        }
        p { "The design in full:" }
        pre { code { (report.design_toml) } }
        @if let Some(metadata) = &report.metadata {
            p { (metadata.commits) " commits of " (metadata.map_updates) " changes of the map, "
                (mib(metadata.bytes_written)) " MiB of metadata." }
        }
    }
}

fn response_rows(report: &Report) -> Table {
    let response = &report.latency_us;
    let kinds = [
        ("all", &response.all),
        ("reads", &response.read),
        ("writes", &response.write),
        ("flushes", &response.flush),
        ("write to flushed", &response.write_then_flush),
    ];
    let mut rows = table::figures(&["response time, ms", "count", "mean", "p50", "p90", "p99", "p99.9", "most"]);
    for (name, latency) in kinds.iter().filter_map(|(name, latency)| Some((name, latency.as_ref()?))) {
        let figures = [latency.mean, latency.p50, latency.p90, latency.p99, latency.p999, latency.max];
        let cells = figures.map(|us| table::number(us / 1e3));
        rows.add_row([(*name).to_owned(), latency.count.to_string()].into_iter().chain(cells));
    }
    rows
}

fn device_rows(report: &Report) -> Table {
    let whole = |count: Option<u64>| table::cell(count, |count| count.to_string());
    let mut rows = table::figures(&[
        "device",
        "reads",
        "writes",
        "MiB read",
        "MiB written",
        "busy s",
        "energy J",
        "power W",
        "standby s",
        "start-stops",
        "erases",
        "write amplification",
        "wear eu",
        "lifetime y",
        "rated y",
        "physical y",
    ]);
    for (name, device) in &report.devices {
        rows.add_row([
            name.clone(),
            device.reads.to_string(),
            device.writes.to_string(),
            mib(device.bytes_read),
            mib(device.bytes_written),
            table::number(device.busy_s),
            table::optional(device.energy_j),
            table::optional(device.mean_power_w),
            table::optional(device.standby_s),
            whole(device.start_stops),
            whole(device.erases),
            table::optional(device.write_amplification),
            table::optional(device.wear_eu),
            table::optional(device.lifetime_years),
            table::optional(device.lifetime_rated_years),
            table::optional(device.lifetime_physical_years),
        ]);
    }
    rows
}

fn mib(bytes: u64) -> String {
    table::number(bytes as f64 / f64::from(1 << 20))
}

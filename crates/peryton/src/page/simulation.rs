//! The page of `peryton sim`: the results of all designs under one trace, in comparison.

use std::collections::BTreeSet;

use maud::{Markup, html};
use peryton_sim::{DeviceReport, LatencySummary, Report, warned};

use super::{
    chart::{self, Best, LatencySpan, Parts},
    page, sorted,
};
use crate::{lifetime_told::lifetime_told, remarks::remarks, table};

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

/// The reports of one trace as a page.
pub fn simulation(reports: &[Report], repeat: &str) -> String {
    let trace = reports.first().map_or("", |report| report.trace.as_str());
    let body = html! {
        @if let Some(first) = reports.first() { (about(first)) }
        @if reports.iter().any(|report| remarks(report).next().is_some()) {
            h2 { "Before believing these figures" }
            ul {
                @for warned in warned(reports) {
                    li class="note" id=(warned.warning.code) { (warned) "." }
                }
            }
        }
        @if reports.iter().any(|report| !report.sweep.is_empty()) {
            h2 { "Every combination" }
            p class="about" { "The choice above a column sorts the rows by it, the best first." }
            (sorted::table(&columns(reports)))
        }
        @if reports.len() <= MOST_IN_FULL {
            (in_full(reports))
        } @else {
            p class="about" { "Charts and details are left out: there are more than " (MOST_IN_FULL) " rows." }
        }
    };
    let what = match reports {
        [one] => one.design.clone(),
        more => format!("{} designs", more.len()),
    };
    page(&format!("{what} on {trace}"), repeat, &body)
}

/// The columns of a sweep: the design, the swept keys, and the figures.
fn columns(reports: &[Report]) -> Vec<sorted::Column> {
    let names: Vec<String> = reports.iter().map(|report| report.design.clone()).collect();
    let mut columns = vec![sorted::Column::words("row", &names)];
    let keys: BTreeSet<&String> = reports.iter().flat_map(|report| report.sweep.keys()).collect();
    for key in keys {
        let values = reports.iter().map(|report| report.sweep.get(key).map_or(table::NONE, String::as_str).to_owned());
        columns.push(sorted::Column::words(key, &values.collect::<Vec<_>>()));
    }
    for (title, unit, best, figure) in COMPARED {
        let values: Vec<Option<f64>> = reports.iter().map(figure).collect();
        if values.iter().any(Option::is_some) {
            // Explanations of units are those of the charts.
            let unit = unit.split(',').next().unwrap_or_default();
            let title = format!("{title}, {unit}");
            columns.push(sorted::Column::figures(&title, &values, *best == Some(Best::Most), table::optional));
        }
    }
    columns
}

/// Charts and details of each report.
fn in_full(reports: &[Report]) -> Markup {
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
        h2 { "Response times" }
        p class="key" {
            span style="background:var(--read)" {} "reads" span style="background:var(--write)" {} "writes"
            span style="background:var(--flush)" {} "flushes" span style="background:var(--durable)" {} "write to flushed"
            " \u{2003}strong: median to 99 %, light: to 99.9 %, line: mean"
        }
        (chart::spans("ms", &reports.iter().flat_map(spans).collect::<Vec<_>>()))
        h2 { "Time of the devices by state" }
        p class="key" {
            span style="background:var(--bar)" {} "busy" span style="background:var(--idle)" {} "idle"
            span style="background:var(--standby)" {} "standby"
        }
        (chart::shares(&reports.iter().flat_map(states).collect::<Vec<_>>()))
        @for report in reports {
            details {
                summary { (report.design) }
                (details(report))
            }
        }
    }
}

fn about(report: &Report) -> Markup {
    let warm = match (report.warm_up, report.warm_up_requests) {
        (true, 0) => ", map filled before".to_owned(),
        (_, 0) => String::new(),
        (_, requests) => format!(", after {requests} requests of warm-up"),
    };
    html! {
        p class="about" {
            (report.requests) " requests in " (table::number(report.simulated_s)) " s, replayed " (report.replay) (warm)
            ", seed " (report.seed) ". Trace " (report.trace) ": " (report.trace_requests) " requests, hash "
            code { (report.trace_hash) } ". "
            "A figure that does not apply is absent. Green marks the best of the designs compared."
        }
        @if !report.overrides.is_empty() && report.sweep.is_empty() {
            p class="about" { "Set: " (report.overrides.join(", ")) }
        }
    }
}

fn spans(report: &Report) -> Vec<LatencySpan> {
    let span = |(class, what, latency): (&'static str, &str, &Option<LatencySummary>)| {
        let latency = latency.as_ref()?;
        let figures = [latency.p50, latency.mean, latency.p99, latency.p999].map(|us| us / 1e3);
        let [p50, mean, p99, p999] = figures.map(table::number);
        let note = format!("{}, {what}: median {p50} ms, mean {mean}, p99 {p99}, p99.9 {p999}", report.design);
        Some(LatencySpan { name: String::new(), class, figures, note })
    };
    let response = &report.latency_us;
    let kinds = [
        ("read", "reads", &response.read),
        ("write", "writes", &response.write),
        ("flush", "flushes", &response.flush),
        ("durable", "write to flushed", &response.write_then_flush),
    ];
    let mut rows: Vec<LatencySpan> = kinds.into_iter().filter_map(span).collect();
    // The design's name is shown only at the first of its rows.
    if let Some(first) = rows.first_mut() {
        first.name.clone_from(&report.design);
    }
    rows
}

fn states(report: &Report) -> Vec<Parts> {
    let words = |device: &DeviceReport| {
        let facts = [
            device.mean_power_w.map(|watts| format!("{} W", table::number(watts))),
            device.start_stops.map(|count| format!("{count} start-stops")),
            device.write_amplification.map(|wa| format!("write amplification {}", table::number(wa))),
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
    let mib = |bytes: u64| table::number(bytes as f64 / f64::from(1 << 20));
    let whole = |count: Option<u64>| count.map_or_else(|| table::NONE.to_owned(), |count| count.to_string());
    let response = &report.latency_us;
    let kinds = [
        ("all", &response.all),
        ("reads", &response.read),
        ("writes", &response.write),
        ("flushes", &response.flush),
        ("write to flushed", &response.write_then_flush),
    ];
    html! {
        div class="scroll" {
            table {
                tr { th { "response time, ms" } @for name in ["count", "mean", "p50", "p90", "p99", "p99.9", "most"] { th { (name) } } }
                @for (name, latency) in kinds.iter().filter_map(|(name, latency)| Some((name, latency.as_ref()?))) {
                    tr {
                        td { (name) }
                        td { (latency.count) }
                        @for us in [latency.mean, latency.p50, latency.p90, latency.p99, latency.p999, latency.max] {
                            td { (table::number(us / 1e3)) }
                        }
                    }
                }
            }
        }
        div class="scroll" {
            table {
                tr {
                    th { "device" }
                    @for name in ["reads", "writes", "MiB read", "MiB written", "busy s", "energy J", "power W", "standby s",
                        "start-stops", "erases", "write amplification", "wear eu", "lifetime y", "rated y", "physical y"] { th { (name) } }
                }
                @for (name, device) in &report.devices {
                    tr {
                        td { (name) }
                        td { (device.reads) } td { (device.writes) }
                        td { (mib(device.bytes_read)) } td { (mib(device.bytes_written)) }
                        td { (table::number(device.busy_s)) }
                        td { (table::optional(device.energy_j)) } td { (table::optional(device.mean_power_w)) }
                        td { (table::optional(device.standby_s)) } td { (whole(device.start_stops)) }
                        td { (whole(device.erases)) } td { (table::optional(device.write_amplification)) }
                        td { (table::optional(device.wear_eu)) } td { (table::optional(device.lifetime_years)) }
                        td { (table::optional(device.lifetime_rated_years)) }
                        td { (table::optional(device.lifetime_physical_years)) }
                    }
                }
            }
        }
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
        @if let Some(bypasses) = report.bypasses.filter(|bypasses| *bypasses != Default::default()) {
            p {
                "Past the cache went " (bypasses.sequential) " accesses of sequential streams, " (bypasses.congested)
                " because the fast device was slower than the slow one, and " (bypasses.dirty_target)
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

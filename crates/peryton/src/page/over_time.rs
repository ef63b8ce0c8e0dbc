//! Charts of a run over time, and of the parts of the volume that were used and moved.

use maud::{Markup, html};
use peryton_sim::{IntervalReport, Picture, Report, UseMap};
use serde_json::{Value, json};

use super::{
    figure::{Figures, Line, Scale, short},
    frame::counted,
};

/// A figure of an interval.
type Figure = fn(&IntervalReport) -> Option<f64>;

/// A chart over time: its title, its unit, its views (where there are several), and whether it is logarithmic or ends at 100 %.
struct OverTime {
    title: &'static str,
    unit: &'static str,
    views: &'static [(&'static str, Figure)],
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Linear,
    Log,
    Percent,
}

const MS: f64 = 1e3;
const MIB: f64 = 1_048_576.0;

fn per_s(row: &IntervalReport, count: f64) -> Option<f64> {
    let span = row.end_s - row.start_s;
    (span > 0.0).then(|| count / span)
}

const CHARTS: &[OverTime] = &[
    OverTime { title: "Throughput", unit: "requests/s", views: &[("requests", |row| row.iops)], kind: Kind::Linear },
    OverTime { title: "Traffic", unit: "MiB/s", views: &[("bytes", |row| row.mib_per_s)], kind: Kind::Linear },
    OverTime {
        title: "Response time",
        unit: "ms",
        views: &[
            ("mean of all", |row| Some(row.latency_us.all.as_ref()?.mean / MS)),
            ("99th percentile of all", |row| Some(row.latency_us.all.as_ref()?.p99 / MS)),
            ("longest", |row| Some(row.latency_us.all.as_ref()?.max / MS)),
            ("mean of reads", |row| Some(row.latency_us.read.as_ref()?.mean / MS)),
            ("mean of writes", |row| Some(row.latency_us.write.as_ref()?.mean / MS)),
            ("mean of flushes", |row| Some(row.latency_us.flush.as_ref()?.mean / MS)),
        ],
        kind: Kind::Log,
    },
    OverTime {
        title: "Hit ratio",
        unit: "%",
        views: &[("hits", |row| Some(row.fast_hit_ratio? * 100.0))],
        kind: Kind::Percent,
    },
    OverTime {
        title: "Moves",
        unit: "MiB/s",
        views: &[("moved", |row| per_s(row, row.moves.as_ref()?.bytes as f64 / MIB))],
        kind: Kind::Linear,
    },
    OverTime {
        title: "Dirty data",
        unit: "MiB",
        views: &[("dirty", |row| Some(row.dirty_bytes? as f64 / MIB))],
        kind: Kind::Linear,
    },
    OverTime { title: "Power", unit: "W", views: &[("power", |row| row.mean_power_w)], kind: Kind::Linear },
];

/// The charts over time; nothing if no report has a picture.
pub fn over_time(reports: &[Report], figures: &mut Figures) -> Markup {
    let pictured: Vec<(usize, &Report, &Picture)> =
        reports.iter().enumerate().filter_map(|(at, report)| Some((at, report, report.picture.as_ref()?))).collect();
    if pictured.is_empty() {
        return html! {};
    }
    let charts: Vec<Markup> = CHARTS
        .iter()
        .map(|chart| {
            let view = |(name, figure): &(&'static str, Figure)| {
                let line = |(at, report, picture): &(usize, &Report, &Picture)| {
                    let points = picture.course.iter().filter_map(|row| Some((row.end_s, figure(row)?)));
                    Line::new(&report.design, *at, points)
                };
                let lines: Vec<Line> = pictured.iter().map(line).collect();
                // A figure that is zero all the time needs no chart.
                let says_something = lines.iter().any(|line| line.y.iter().any(|value| *value > 0.0));
                ((*name).to_owned(), if says_something { lines } else { Vec::new() })
            };
            let scale = Scale::new("", chart.unit);
            let scale = match chart.kind {
                Kind::Linear => scale,
                Kind::Log => scale.log(),
                Kind::Percent => scale.up_to(100.0),
            };
            let views = chart.views.iter().map(view).collect();
            figures.lines((chart.title, chart.unit), (Scale::new("time", "s"), scale), views, &[])
        })
        .collect();
    let (busy, wear) = (busy(&pictured, figures), wear(&pictured, figures));
    let course = pictured[0].2.course.first();
    html! {
        h2 { "Over time" }
        @if let Some(first) = course {
            p class="about" {
                "From the beginning of the measured span, in at most 256 intervals (of "
                (crate::table::number(first.end_s - first.start_s)) " s for the first design). Quantiles are up to 6 % too high."
            }
        }
        div class="charts" { @for chart in charts { (chart) } (busy) (wear) }
    }
}

/// How busy each device is, with a view for each design.
fn busy(pictured: &[(usize, &Report, &Picture)], figures: &mut Figures) -> Markup {
    let view = |(_, report, picture): &(usize, &Report, &Picture)| {
        let devices = picture.course.first().map_or(0, |row| row.devices.len());
        let line = |device: usize| {
            let name = picture.course.first().map_or("", |row| &row.devices[device].0);
            let points = picture.course.iter().filter_map(|row| {
                let busy = row.devices.get(device)?.1.busy_s;
                Some((row.end_s, (per_s(row, busy)? * 100.0).min(100.0)))
            });
            Line::new(name, device, points)
        };
        (report.design.clone(), (0..devices).map(line).collect())
    };
    let views = pictured.iter().map(view).collect();
    let y = Scale::new("", "%").up_to(100.0);
    figures.lines(("Devices busy", "% of the time"), (Scale::new("time", "s"), y), views, &[])
}

/// What the device that wears most has used up of its life so far.
fn wear(pictured: &[(usize, &Report, &Picture)], figures: &mut Figures) -> Markup {
    let line = |(at, report, picture): &(usize, &Report, &Picture)| {
        let devices = picture.course.first().map_or(0, |row| row.devices.len());
        let mut sums = vec![0.0; devices];
        let mut points = Vec::new();
        for row in &picture.course {
            for (sum, (_, device)) in sums.iter_mut().zip(&row.devices) {
                *sum += device.wear_eu.unwrap_or(0.0);
            }
            points.push((row.end_s, sums.iter().copied().fold(0.0, f64::max)));
        }
        if points.last().is_none_or(|last| last.1 <= 0.0) {
            points.clear();
        }
        Line::new(&report.design, *at, points)
    };
    let lines = pictured.iter().map(line).collect();
    let note = "millionths of the life of the device that wears most";
    let axes = (Scale::new("time", "s"), Scale::new("", "eu"));
    figures.lines(("Wear", note), axes, vec![("wear".to_owned(), lines)], &[])
}

/// The maps of what was used and moved.
pub fn maps(reports: &[Report], figures: &mut Figures) -> Markup {
    let mut used = Vec::new();
    let mut moved = Vec::new();
    let (mut left_out, mut bytes) = (0, 0);
    for report in reports {
        let Some(picture) = &report.picture else { continue };
        let one = [map_of(report, &picture.map, false), map_of(report, &picture.map, true)];
        bytes += one.iter().flatten().map(|map| map.to_string().len()).sum::<usize>();
        if bytes > MOST_MAPS {
            left_out += 1;
            continue;
        }
        let [host, moves] = one;
        used.extend(host);
        moved.extend(moves);
    }
    if used.is_empty() {
        return html! {};
    }
    html! {
        h2 { "Where" }
        p class="about" {
            "Addresses of the volume against time, from the first part that was used to the last."
            @if left_out > 0 { " Left out, because the page would become too large: the last " (counted(left_out, "design", "designs")) "." }
        }
        div class="charts" {
            (figures.heat("What the host used", "bytes, address × time", &used))
            (figures.heat("What moved", "bytes, address × time", &moved))
        }
    }
}

/// The most data of all maps together.
const MOST_MAPS: usize = 900_000;

fn map_of(report: &Report, map: &UseMap, moves: bool) -> Option<Value> {
    let layer = |name: &str, verb: &str, bytes: &[u64]| {
        let kib = bytes.iter().map(|bytes| bytes.div_ceil(1024) as f64);
        json!({ "name": name, "verb": verb, "unit": "KiB", "cells": packed(kib) })
    };
    let layers = if moves {
        let moves = map.moves.as_ref()?;
        let on_fast = packed(moves.on_fast.iter().map(|share| share * 100.0));
        vec![
            layer("to the fast device", "moved in", &moves.moved_in),
            layer("off it", "moved out", &moves.moved_out),
            layer("written back", "written back", &moves.written_home),
            json!({ "name": "share on it", "verb": "on the fast device", "unit": "%", "linear": true, "cells": on_fast }),
        ]
    } else {
        let both: Vec<u64> = map.read.iter().zip(&map.written).map(|(read, written)| read + written).collect();
        vec![
            layer("all", "read and written", &both),
            layer("reads", "read", &map.read),
            layer("writes", "written", &map.written),
        ]
    };
    Some(json!({
        "name": report.design, "from": map.from.0, "row": map.row.0, "rows": map.rows, "column_s": map.column_s,
        "columns": map.columns, "end_s": report.simulated_s, "layers": layers,
    }))
}

/// Cells with three digits, and a negative number for a run of zeros.
fn packed(cells: impl Iterator<Item = f64>) -> Vec<Value> {
    let mut all = Vec::new();
    let mut zeros = 0;
    for cell in cells {
        if cell == 0.0 {
            zeros += 1;
            continue;
        }
        if zeros > 0 {
            all.push(json!(-zeros));
            zeros = 0;
        }
        let value = short(cell, 3);
        all.push(if value.fract() == 0.0 { json!(value as u64) } else { json!(value) });
    }
    if zeros > 0 {
        all.push(json!(-zeros));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_zeros_are_one_number() {
        let cells = packed([0.0, 0.0, 5.0, 1234.0, 0.0, 0.25].into_iter());
        assert_eq!(json!(cells), json!([-2, 5, 1230, -1, 0.25]));
        assert_eq!(json!(packed([0.0; 3].into_iter())), json!([-3]));
        assert!(packed(std::iter::empty()).is_empty());
    }
}

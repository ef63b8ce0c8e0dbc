//! Prediction beside measurement: each figure, how far they are apart, and how far they may be.

use peryton_recording::{Distribution, Row};
use peryton_units::{Nanos, Op};
use serde::Serialize;
use serde_json::Value;

use super::{Prediction, Recording, Setup};

/// How far hit ratios, moves and traffic may be apart, as a share.
const TRAFFIC: f64 = 0.01;
/// How far means of response times may be apart.
const MEAN: f64 = 0.15;
/// How far quantiles of response times may be apart.
const QUANTILE: f64 = 0.30;
/// Counts that are no further apart than this agree: what is in flight at the end counts on one side and not on the other.
const FEW: f64 = 8.0;
/// Fewer response times than this say nothing of a mean, and of a 99th percentile.
const LEAST_FOR_MEAN: usize = 20;
const LEAST_FOR_P99: usize = 200;
/// What is above this is not what the host adds: it would hide a wrong model.
const MOST_OVERHEAD: Nanos = Nanos::from_us(250);

/// The name of the figure of accesses that went past the cache because the fast device was slow.
pub const CONGESTED: &str = "past the cache: congestion";

/// Whether a figure agrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Agrees,
    Disagrees,
    /// There is no measurement, or too little of it.
    Unknown,
}

/// A figure on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its name.
    pub figure: String,
    /// Its unit.
    pub unit: &'static str,
    /// What the drive measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// What the twin predicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<f64>,
    /// How much more the twin says, as a share of what was measured; of a ratio, the difference itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    /// How large the difference may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<f64>,
    /// Whether it is within that.
    pub verdict: Verdict,
}

impl Figure {
    fn relative(
        figure: String,
        unit: &'static str,
        measured: Option<f64>,
        predicted: Option<f64>,
        allowed: f64,
    ) -> Figure {
        let difference = measured.zip(predicted).map(|(measured, predicted)| match measured {
            0.0 if predicted == 0.0 => 0.0,
            _ => (predicted - measured) / measured,
        });
        let verdict = verdict(difference, allowed);
        let difference = difference.filter(|difference| difference.is_finite());
        Figure { figure, unit, measured, predicted, difference, allowed: Some(allowed), verdict }
    }

    fn counted(figure: String, unit: &'static str, measured: f64, predicted: f64, few: f64) -> Figure {
        let mut row = Figure::relative(figure, unit, Some(measured), Some(predicted), TRAFFIC);
        if (predicted - measured).abs() <= few {
            row.verdict = Verdict::Agrees;
        }
        // What so few make is shown as it is, not as the one percent that larger counts may be off by.
        row.allowed = row.allowed.map(|share| if measured > 0.0 { share.max(few / measured) } else { share });
        row
    }

    /// What only the twin knows.
    fn predicted(figure: &str, unit: &'static str, predicted: Option<f64>) -> Figure {
        let figure = figure.to_owned();
        Figure { figure, unit, measured: None, predicted, difference: None, allowed: None, verdict: Verdict::Unknown }
    }

    pub fn disagrees(&self) -> bool {
        self.verdict == Verdict::Disagrees
    }
}

fn verdict(difference: Option<f64>, allowed: f64) -> Verdict {
    match difference {
        None => Verdict::Unknown,
        Some(difference) if difference.abs() <= allowed => Verdict::Agrees,
        Some(_) => Verdict::Disagrees,
    }
}

/// What the host adds to each request beyond its devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Overhead {
    /// Of reads, in µs.
    pub read_us: f64,
    /// Of writes.
    pub write_us: f64,
    /// Of flushes.
    pub flush_us: f64,
}

impl Overhead {
    /// The median of what a request took longer than predicted, in the first half of the requests.
    pub fn fitted(recording: &Recording, prediction: &Prediction) -> Overhead {
        let half = recording.rows.len() / 2;
        let of = |op: Op| {
            let pairs = recording.rows.iter().zip(&prediction.latencies).take(half);
            let mut more: Vec<i64> = pairs
                .filter(|(row, _)| row.op == op)
                .filter_map(|(row, predicted)| Some(row.latency.0 as i64 - predicted.as_ref()?.0 as i64))
                .collect();
            if more.len() < LEAST_FOR_MEAN {
                return 0.0;
            }
            more.sort_unstable();
            more[more.len() / 2].clamp(0, MOST_OVERHEAD.0 as i64) as f64 / 1e3
        };
        Overhead { read_us: of(Op::Read), write_us: of(Op::Write), flush_us: of(Op::Flush) }
    }

    fn of(&self, op: Op) -> f64 {
        match op {
            Op::Read => self.read_us,
            Op::Write => self.write_us,
            Op::Flush => self.flush_us,
            Op::Discard => 0.0,
        }
    }
}

/// How far the parts of a comparison are apart, weighted by their time, so that a part that is too slow does not make up for one that is
/// too fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Apart {
    /// Means of reads, writes and flushes, as a share of what was measured.
    pub mean: f64,
    /// Their medians.
    pub median: f64,
    /// Their 99th percentiles.
    pub p99: f64,
    /// The times of the devices' commands.
    pub devices: f64,
}

/// Measured and predicted times with the number of each: the sum of their differences as a share of what was measured.
fn weighted(parts: impl IntoIterator<Item = (f64, Option<f64>, Option<f64>)>) -> f64 {
    let known = parts.into_iter().filter_map(|(count, measured, predicted)| Some((count, measured?, predicted?)));
    let (apart, all) = known.fold((0.0, 0.0), |(apart, all), (count, measured, predicted)| {
        (apart + count * (predicted - measured).abs(), all + count * measured)
    });
    if all > 0.0 { apart / all } else { 0.0 }
}

impl Apart {
    fn of(recording: &Recording, prediction: &Prediction, half: &[Half]) -> Apart {
        let of = |figure: &dyn Fn(&Times) -> Option<f64>| {
            let kinds = half.iter().filter(|(name, ..)| *name != ALL);
            weighted(
                kinds.map(|(_, measured, predicted)| (measured.0.len() as f64, figure(measured), figure(predicted))),
            )
        };
        let devices = recording.figures.devices.iter().zip(&prediction.devices).flat_map(|(measured, predicted)| {
            [&measured.reads, &measured.writes, &measured.flushes]
                .into_iter()
                .zip(predicted)
                .map(|(measured, predicted)| (measured.count as f64, measured.mean_us(), predicted.mean_us()))
        });
        Apart {
            mean: of(&Times::mean),
            median: of(&|times| times.quantile(0.5, LEAST_FOR_MEAN)),
            p99: of(&|times| times.quantile(0.99, LEAST_FOR_P99)),
            devices: weighted(devices),
        }
    }
}

/// All figures, and how far their parts are apart.
pub fn figures(
    recording: &Recording,
    setup: &Setup,
    prediction: &Prediction,
    overhead: &Overhead,
) -> (Vec<Figure>, Apart) {
    let half = second_half(recording, prediction, overhead);
    let mut all = traffic(recording, setup, prediction);
    all.extend(responses(&half));
    all.extend(devices(recording, setup, prediction));
    all.extend(wear_and_power(recording, setup, prediction));
    (all, Apart::of(recording, prediction, &half))
}

/// A number at a path of JSON; sums arrays.
pub fn number(value: &Value, path: &str) -> f64 {
    let found = value.pointer(path).unwrap_or(&Value::Null);
    match found {
        Value::Array(all) => all.iter().filter_map(Value::as_f64).sum(),
        other => other.as_f64().unwrap_or(0.0),
    }
}

fn traffic(recording: &Recording, setup: &Setup, prediction: &Prediction) -> Vec<Figure> {
    let (measured, predicted) = (&recording.figures.stats, &prediction.stats);
    let mut all = Vec::new();
    let ratio = |stats: &Value| {
        let (hits, misses) = (number(stats, "/fast_hits"), number(stats, "/fast_misses"));
        (hits + misses > 0.0).then(|| hits / (hits + misses))
    };
    if let (Some(one), Some(other)) = (ratio(measured), ratio(predicted)) {
        let difference = other - one;
        all.push(Figure {
            figure: "fast hit ratio".to_owned(),
            unit: "share",
            measured: Some(one),
            predicted: Some(other),
            difference: Some(difference),
            allowed: Some(TRAFFIC),
            verdict: verdict(Some(difference), TRAFFIC),
        });
    }
    let mut counted = |name: String, unit, path: &str, few| {
        let (one, other) = (number(measured, path), number(predicted, path));
        if one > 0.0 || other > 0.0 {
            all.push(Figure::counted(name, unit, one, other, few));
        }
    };
    for (name, path) in [
        ("promotions", "/moves/promotions"),
        ("demotions", "/moves/demotions"),
        ("write-backs", "/moves/writebacks"),
        ("migrations of the log", "/logging/migrations/timeout"),
    ] {
        counted(name.to_owned(), "extents", path, FEW);
    }
    for (name, path) in [
        (CONGESTED, "/bypasses/congested"),
        ("past the cache: sequential", "/bypasses/sequential"),
        ("past the cache: too much dirty", "/bypasses/dirty_target"),
        ("past the cache: admission", "/bypassed"),
        ("past the log: it was behind", "/logging/direct_by/outrun"),
    ] {
        counted(name.to_owned(), "accesses", path, FEW);
    }
    // The length of an extent, or of a request, for what is in flight at the end.
    let unit = setup.design.placement.hybrid().map_or(64.0 * 1024.0, |pair| pair.extent.0 as f64);
    for (index, device) in setup.design.devices.iter().enumerate() {
        for (what, key, unit_name, few) in [
            ("reads", "reads", "commands", FEW),
            ("read", "bytes_read", "bytes", FEW * unit),
            ("writes", "writes", "commands", FEW),
            ("written", "bytes_written", "bytes", FEW * unit),
            ("flushes", "flushes", "commands", FEW),
        ] {
            counted(format!("{}: {what}", device.name), unit_name, &format!("/devices/{index}/{key}"), few);
        }
    }
    all
}

/// Mean and quantiles of some times in µs, which are sorted.
struct Times(Vec<f64>);

impl Times {
    fn new(mut times: Vec<f64>) -> Times {
        times.sort_by(f64::total_cmp);
        Times(times)
    }

    fn mean(&self) -> Option<f64> {
        (self.0.len() >= LEAST_FOR_MEAN).then(|| self.0.iter().sum::<f64>() / self.0.len() as f64)
    }

    fn quantile(&self, share: f64, least: usize) -> Option<f64> {
        let rank = ((self.0.len() as f64 * share).ceil() as usize).clamp(1, self.0.len().max(1));
        self.0.get(rank - 1).copied().filter(|_| self.0.len() >= least)
    }
}

/// Requests of a kind by its name: how long they took, measured and predicted.
type Half = (&'static str, Times, Times);

/// The name of the figures of all requests.
const ALL: &str = "all requests";

/// Response times of the second half, measured and predicted, of all requests and by kind; without kinds of which there are too few.
fn second_half(recording: &Recording, prediction: &Prediction, overhead: &Overhead) -> Vec<Half> {
    let half = recording.rows.len() / 2;
    let pairs: Vec<(&Row, f64)> = recording
        .rows
        .iter()
        .zip(&prediction.latencies)
        .skip(half)
        .filter_map(|(row, predicted)| Some((row, predicted.as_ref()?.0 as f64 / 1e3 + overhead.of(row.op))))
        .collect();
    let kinds = [(ALL, None), ("reads", Some(Op::Read)), ("writes", Some(Op::Write)), ("flushes", Some(Op::Flush))];
    let of = |(name, op): (&'static str, Option<Op>)| {
        let some = || pairs.iter().filter(|(row, _)| op.is_none_or(|op| row.op == op));
        let measured = Times::new(some().map(|(row, _)| row.latency.0 as f64 / 1e3).collect());
        (name, measured, Times::new(some().map(|(_, predicted)| *predicted).collect()))
    };
    kinds.into_iter().map(of).filter(|(_, measured, _)| measured.mean().is_some()).collect()
}

fn responses(half: &[Half]) -> Vec<Figure> {
    let mut all = Vec::new();
    for (name, measured, predicted) in half {
        let row = |what: &str, of: &dyn Fn(&Times) -> Option<f64>, allowed| {
            Figure::relative(format!("{name}: {what}"), "us", of(measured), of(predicted), allowed)
        };
        all.push(row("mean", &Times::mean, MEAN));
        all.push(row("median", &|times| times.quantile(0.5, LEAST_FOR_MEAN), QUANTILE));
        if measured.0.len() >= LEAST_FOR_P99 {
            all.push(row("p99", &|times| times.quantile(0.99, LEAST_FOR_P99), QUANTILE));
        }
    }
    all
}

/// The response times of the devices.
fn devices(recording: &Recording, setup: &Setup, prediction: &Prediction) -> Vec<Figure> {
    let mut all = Vec::new();
    for (index, device) in setup.design.devices.iter().enumerate() {
        let Some(figures) = recording.figures.devices.get(index) else { continue };
        let kinds = [("reads", &figures.reads, 0), ("writes", &figures.writes, 1), ("flushes", &figures.flushes, 2)];
        for (kind, measured, at) in kinds {
            let predicted = &prediction.devices[index][at];
            let enough = |times: &Distribution| times.count as usize >= LEAST_FOR_MEAN;
            if enough(measured) && enough(predicted) {
                let name = format!("{}: a command, {kind}", device.name);
                let median = |times: &Distribution| times.quantile_us(0.5);
                let median =
                    Figure::relative(format!("{name}, median"), "us", median(measured), median(predicted), MEAN);
                all.push(Figure::relative(name, "us", measured.mean_us(), predicted.mean_us(), MEAN));
                all.push(median);
            }
        }
    }
    all
}

/// Wear, and what no drive in service measures.
fn wear_and_power(recording: &Recording, setup: &Setup, prediction: &Prediction) -> Vec<Figure> {
    let report = &prediction.report;
    let days = recording.counted_for().as_s_f64() / 86_400.0;
    let mut all = Vec::new();
    for (index, device) in setup.design.devices.iter().enumerate() {
        if device.written_limit.is_some() && days > 0.0 {
            let path = format!("/devices/{index}/bytes_written");
            let per_day = |stats: &Value| number(stats, &path) / 1e9 / days;
            let (measured, predicted) = (per_day(&recording.figures.stats), per_day(&prediction.stats));
            all.push(Figure::relative(
                format!("{}: wear, written a day", device.name),
                "GB",
                Some(measured),
                Some(predicted),
                TRAFFIC,
            ));
        }
    }
    all.push(Figure::predicted("lifetime", "years", report.lifetime_years));
    all.push(Figure::predicted("power", "W", report.mean_power_w));
    all.retain(|figure| figure.measured.is_some() || figure.predicted.is_some());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_apart_in_opposite_directions_do_not_cancel() {
        // As many reads that are twice as slow in the twin as writes that take no time there: the mean of all is the same.
        let parts = [(100.0, Some(2.0), Some(4.0)), (100.0, Some(2.0), Some(0.0)), (3.0, Some(9.0), None)];
        assert_eq!(weighted(parts), 1.0);
        // A part with little of the time counts little.
        assert_eq!(weighted([(99.0, Some(1.0), Some(1.0)), (1.0, Some(1.0), Some(3.0))]), 0.02);
        assert_eq!(weighted([]), 0.0);
    }

    #[test]
    fn what_a_few_may_make_is_what_is_said_to_be_allowed() {
        let few = Figure::counted("reads".to_owned(), "commands", 50.0, 46.0, FEW);
        assert_eq!((few.verdict, few.allowed), (Verdict::Agrees, Some(FEW / 50.0)));
        let many = Figure::counted("reads".to_owned(), "commands", 10_000.0, 9_700.0, FEW);
        assert_eq!((many.verdict, many.allowed), (Verdict::Disagrees, Some(TRAFFIC)));
    }
}

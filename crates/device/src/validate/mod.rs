//! Replays a trace that was measured on a real drive on the model of that drive, and measures the distance between the two.
//!
//! The files are those of DiskSim's validation suite: `X.trace` (requests with the service time that each took on the
//! hardware and the think time after it), and beside it `X.model` (geometry), `X.seek` (seek curve) and `X.diskspecs`
//! (controller and buffer). The measured times and the hit-or-miss column are never an input of the model.

mod closed;
mod drive;
mod paced;
mod parameter_file;
mod plot;
mod timed;

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use peryton_units::{Bytes, Nanos, Op};
use serde::Serialize;
use thiserror::Error;

pub use closed::replay_closed;
pub use timed::{Measured, footprint, most_in_flight, replay_on, replay_timed, score};
pub(crate) use timed::{model, waited_for};

use crate::{Accepted, Disk, DiskParameters, Io, Tag};

/// Requests in one trace; the published ones have 10,000.
const MAX_REQUESTS: usize = 10_000_000;
/// Bytes in one line of a trace.
const MAX_LINE: u64 = 4096;
/// What traces say of the drive's buffer: hit, missed, or hit by one or two of several parts. The model does not use it.
const SEEN: [&str; 4] = ["Hit", "Miss", "Doub", "Trip"];
/// Points of a distribution in a report, evenly spaced in probability.
const POINTS: usize = 200;

/// A validation that cannot be carried out; one line that names the place.
#[derive(Debug, Error)]
pub enum ValidateError {
    /// A file cannot be read.
    #[error("{path}: {source}{hint}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
        /// What the file is needed for.
        hint: &'static str,
    },
    /// A line that cannot be read.
    #[error("{file}:{line}: {what}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What was found and what was expected.
        what: String,
    },
    /// The drive's files contradict each other.
    #[error("{file}: {source}")]
    Build {
        /// The `.model` file.
        file: String,
        /// Why no disk can be built.
        source: crate::BuildError,
    },
}

impl ValidateError {
    fn line(file: &str, line: usize, what: String) -> ValidateError {
        ValidateError::Line { file: file.to_owned(), line, what }
    }
}

/// The start of a text that may be long, for a message of one line.
fn shorten(text: &str) -> String {
    let clean: String = text.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() > 40 { format!("{clean}…") } else { clean }
}

/// One request of a trace that was measured on a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedRequest {
    /// What was asked for.
    pub io: Io,
    /// How long the drive took, ms.
    pub service_ms: f64,
    /// From its completion to the next request.
    pub think: Nanos,
}

/// How the model did on one kind of request.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassValidation {
    /// `read`, `write`.
    pub class: &'static str,
    /// Number of requests.
    pub requests: usize,
    /// Mean service time on the hardware, ms.
    pub mean_ms: f64,
    /// Mean service time of the model, ms.
    pub model_mean_ms: f64,
    /// Root mean square horizontal distance of the two distributions, ms.
    pub demerit_ms: f64,
}

/// The time that a share of the requests does not exceed, where few do.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TailValidation {
    /// The share: 0.99, 0.999, and so on as far as there are ten requests beyond.
    pub share: f64,
    /// On the hardware, ms.
    pub measured_ms: f64,
    /// On the model, ms.
    pub modelled_ms: f64,
}

/// What a replay found.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Validation {
    /// The drive: the name of the trace.
    pub drive: String,
    /// Number of requests.
    pub requests: usize,
    /// Root mean square horizontal distance of the two distributions of service times, ms.
    pub demerit_ms: f64,
    /// The same as a share of the measured mean.
    pub demerit_share: f64,
    /// Mean service time on the hardware, ms.
    pub mean_ms: f64,
    /// Mean service time of the model, ms.
    pub model_mean_ms: f64,
    /// Requests whose modelled time is within 0.5 ms of the measured one, as a share.
    pub within_half_ms: f64,
    /// Reads and writes apart.
    pub classes: Vec<ClassValidation>,
    /// The slowest requests.
    pub tail: Vec<TailValidation>,
    /// Quantiles of the measured service times, ms: entry i is the quantile (i + ½) / length.
    pub measured_cdf: Vec<f64>,
    /// The same of the modelled times.
    pub modelled_cdf: Vec<f64>,
}

/// Replays the trace on the model of its drive: one request in flight, the next a think time after its completion.
///
/// # Errors
/// A file that is missing or malformed; the message has file, line and remedy.
pub fn replay(trace: &Path) -> Result<Validation, ValidateError> {
    let parameters = drive_parameters(trace)?;
    let requests = read_trace(trace)?;
    let name = trace.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    validate(&name, &parameters, &requests, Nanos::ZERO)
        .map_err(|source| ValidateError::Build { file: trace.with_extension("model").display().to_string(), source })
}

/// The model of the drive whose `.model`, `.seek` and `.diskspecs` lie beside the trace.
///
/// # Errors
/// A file that is missing or malformed.
pub fn drive_parameters(trace: &Path) -> Result<DiskParameters, ValidateError> {
    let beside = |extension: &str, hint: &'static str| {
        let path = trace.with_extension(extension);
        let name = path.display().to_string();
        let failed = |source| ValidateError::Io { path: name.clone(), source, hint };
        let file = File::open(&path).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(parameter_file::MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > parameter_file::MAX_BYTES {
            return Err(ValidateError::line(&name, 1, "more than 16 MiB: expected a drive's parameter file".into()));
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok((name, text))
    };
    let model = beside("model", " (the drive's geometry, needed beside the trace)")?;
    let specs = beside("diskspecs", " (the drive's controller and buffer, needed beside the trace)")?;
    let seek = beside("seek", " (the drive's seek curve, needed beside the trace)")?;
    drive::parameters((&model.0, &model.1), (&specs.0, &specs.1), (&seek.0, &seek.1))
}

/// Reads a trace of DiskSim's validation suite: `R|W Hit|Miss|Doub|Trip first-block blocks service-µs think-µs`.
///
/// # Errors
/// The first line that is not one.
pub fn read_trace(path: &Path) -> Result<Vec<TimedRequest>, ValidateError> {
    let name = path.display().to_string();
    let failed = |source| ValidateError::Io { path: name.clone(), source, hint: "" };
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let mut requests = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        if text.trim().is_empty() {
            continue;
        }
        let Some(request) = parse_line(&text) else {
            let what = format!(
                "'{}': expected 'R|W Hit|Miss|Doub|Trip block blocks service_us think_us'",
                shorten(text.trim_end())
            );
            return Err(ValidateError::line(&name, number, what));
        };
        if requests.len() == MAX_REQUESTS {
            return Err(ValidateError::line(&name, number, "more than 10,000,000 requests: split the trace".into()));
        }
        requests.push(request);
    }
    if requests.is_empty() {
        return Err(ValidateError::line(&name, 1, "no requests: expected a measured trace".into()));
    }
    Ok(requests)
}

fn parse_line(line: &str) -> Option<TimedRequest> {
    let mut fields = line.split_ascii_whitespace();
    let op = match fields.next()? {
        "R" => Op::Read,
        "W" => Op::Write,
        _ => return None,
    };
    // Whether the drive's buffer was hit, in part or not, is what the model has to find out by itself.
    fields.next().filter(|seen| SEEN.contains(seen))?;
    let first: u64 = fields.next()?.parse().ok().filter(|&first| first < 1 << 40)?;
    let blocks: u64 = fields.next()?.parse().ok().filter(|blocks| (1..=1 << 24).contains(blocks))?;
    let time = |text: &str| text.parse::<f64>().ok().filter(|us| (0.0..=1e12).contains(us));
    let service_us = time(fields.next()?)?;
    let think_us = time(fields.next()?)?;
    if fields.next().is_some() {
        return None;
    }
    let io = Io { op, at: Bytes(first * drive::SECTOR), len: Bytes(blocks * drive::SECTOR) };
    Some(TimedRequest { io, service_ms: service_us / 1e3, think: Nanos((think_us * 1e3).round() as u64) })
}

/// Replays measured requests on a model. The clock starts at `phase`: the platter's angle then is arbitrary, and a
/// result should not depend on it.
///
/// # Errors
/// Parameters that make no disk, or a trace that reaches past its end.
pub fn validate(
    drive: &str,
    parameters: &DiskParameters,
    requests: &[TimedRequest],
    phase: Nanos,
) -> Result<Validation, crate::BuildError> {
    let mut disk = Disk::new(parameters)?;
    let mut now = phase;
    let mut times = Vec::with_capacity(requests.len());
    for request in requests {
        if request.io.at + request.io.len > disk.capacity() {
            return Err(crate::BuildError::Range {
                key: "trace",
                found: request.io.at.to_string(),
                expected: "addresses inside the drive's geometry",
            });
        }
        let end = match disk.submit(now, Tag(0), request.io) {
            Accepted::At(end) => end,
            Accepted::Queued => unreachable!("a drive with a queue of one serves first-come"),
        };
        times.push((end - now).0 as f64 / 1e6);
        now = end + request.think;
    }
    let pairs = requests.iter().zip(&times);
    let samples: Vec<Sample> = pairs
        .map(|(request, &time)| Sample { op: request.io.op, measured_ms: request.service_ms, modelled_ms: time })
        .collect();
    Ok(compare(drive, &samples))
}

/// How long a request took.
#[derive(Clone, Copy)]
struct Sample {
    op: Op,
    measured_ms: f64,
    modelled_ms: f64,
}

/// The times of one kind of request, each in ascending order.
fn sorted(samples: &[Sample], op: Option<Op>) -> (Vec<f64>, Vec<f64>) {
    let chosen = samples.iter().filter(|sample| op.is_none_or(|op| sample.op == op));
    let (mut measured, mut modelled): (Vec<f64>, Vec<f64>) =
        chosen.map(|sample| (sample.measured_ms, sample.modelled_ms)).unzip();
    measured.sort_unstable_by(f64::total_cmp);
    modelled.sort_unstable_by(f64::total_cmp);
    (measured, modelled)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn compare(drive: &str, samples: &[Sample]) -> Validation {
    let (measured, modelled) = sorted(samples, None);
    let demerit_ms = demerit(&measured, &modelled);
    let classes = [("read", Op::Read), ("write", Op::Write)]
        .into_iter()
        .map(|(class, op)| {
            let (measured, modelled) = sorted(samples, Some(op));
            ClassValidation {
                class,
                requests: measured.len(),
                mean_ms: mean(&measured),
                model_mean_ms: mean(&modelled),
                demerit_ms: demerit(&measured, &modelled),
            }
        })
        .filter(|class| class.requests > 0)
        .collect();
    let near = samples.iter().filter(|sample| (sample.measured_ms - sample.modelled_ms).abs() < 0.5).count();
    Validation {
        drive: drive.to_owned(),
        requests: samples.len(),
        demerit_ms,
        demerit_share: demerit_ms / mean(&measured),
        mean_ms: mean(&measured),
        model_mean_ms: mean(&modelled),
        within_half_ms: near as f64 / samples.len().max(1) as f64,
        classes,
        tail: tail(&measured, &modelled),
        measured_cdf: quantiles(&measured),
        modelled_cdf: quantiles(&modelled),
    }
}

/// The root mean square horizontal distance between two distributions given by equally many sorted samples
/// (Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994).
fn demerit(measured: &[f64], modelled: &[f64]) -> f64 {
    debug_assert_eq!(measured.len(), modelled.len());
    let squares: f64 = measured.iter().zip(modelled).map(|(a, b)| (a - b) * (a - b)).sum();
    (squares / measured.len().max(1) as f64).sqrt()
}

/// Quantiles beyond which there are at least ten requests.
fn tail(measured: &[f64], modelled: &[f64]) -> Vec<TailValidation> {
    let count = measured.len();
    let beyond = [100, 1000, 10_000, 100_000].into_iter().take_while(|part| count / part >= 10);
    let quantile = |sorted: &[f64], part: usize| sorted[count - count / part - 1];
    beyond
        .map(|part| TailValidation {
            share: 1.0 - 1.0 / part as f64,
            measured_ms: quantile(measured, part),
            modelled_ms: quantile(modelled, part),
        })
        .collect()
}

fn quantiles(sorted: &[f64]) -> Vec<f64> {
    let points = POINTS.min(sorted.len());
    (0..points).map(|i| sorted[(2 * i + 1) * sorted.len() / (2 * points)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demerit_of_a_shifted_distribution_is_the_shift() {
        let measured: Vec<f64> = (0..100).map(f64::from).collect();
        let shifted: Vec<f64> = measured.iter().map(|x| x + 0.25).collect();
        assert!((demerit(&measured, &shifted) - 0.25).abs() < 1e-12);
        assert_eq!(demerit(&measured, &measured), 0.0);
    }

    #[test]
    fn the_tail_goes_as_far_as_ten_requests_are_beyond() {
        let measured: Vec<f64> = (1..=20_000).map(f64::from).collect();
        let modelled: Vec<f64> = measured.iter().map(|x| x / 2.0).collect();
        let found: Vec<_> =
            tail(&measured, &modelled).iter().map(|t| (t.share, t.measured_ms, t.modelled_ms)).collect();
        assert_eq!(found, [(0.99, 19_800.0, 9_900.0), (0.999, 19_980.0, 9_990.0)]);
        assert!(tail(&measured[..900], &modelled[..900]).is_empty());
    }

    #[test]
    fn a_line_reads_and_a_broken_one_does_not() {
        let read = parse_line("R Hit    3962268  12   6657.00000  64047.00000").unwrap();
        assert_eq!((read.io.at, read.io.len), (Bytes(3962268 * 512), Bytes(12 * 512)));
        assert_eq!((read.service_ms, read.think), (6.657, Nanos(64_047_000)));
        for seen in SEEN {
            assert!(parse_line(&format!("W {seen} 1 1 1 1")).is_some(), "{seen}");
        }
        for line in [
            "",
            "R",
            "X Hit 1 1 1 1",
            "R Hut 1 1 1 1",
            "R Hit -1 1 1 1",
            "R Hit 1 0 1 1",
            "R Hit 1 1 nan 1",
            "R Hit 1 1 1 1e300",
            "R Hit 1 1 1 1 1",
            "R Hit 99999999999999999999 1 1 1",
        ] {
            assert_eq!(parse_line(line), None, "{line}");
        }
    }
}

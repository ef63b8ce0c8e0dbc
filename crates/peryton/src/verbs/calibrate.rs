//! `peryton calibrate`: fits a profile to a device of the user's own.

use std::path::{Path, PathBuf};

use peryton_device::{
    fit::{self, Fit, FitOptions, Kind, MeasuredFit, StepFit},
    measure::Measurement,
    validate::{Measured, Validation},
};
use peryton_trace::Format;
use peryton_units::{Bytes, Nanos};
use serde::Serialize;

use crate::{
    calibrating::{self, Flushes, Kept, Wanted},
    failure::Failure,
    measured_args, output, page,
    table::{self, Column, Table},
    terminal,
};

/// The longest that measuring may take.
const LONGEST: Nanos = Nanos::from_s(600);
/// The shortest in which rounds say anything.
const SHORTEST: Nanos = Nanos::from_s(2);

/// Options of `peryton calibrate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A block device or an image is only read (unless --destructive). For a folder or a new file, a scratch file is made, written, \
read and removed. The profile is fitted to one half of the measurement; its demerit on the other half is the error of the model. \
Ctrl-C ends the measurement, and fits the rounds so far.

Examples:
  peryton calibrate /dev/nvme0n1 --out my-drive.toml --report my-drive.html
  peryton calibrate /mnt/data --scratch 2GiB --out my-drive.toml --keep my-drive.json
  peryton calibrate --from my-drive.json --out my-drive.toml
  peryton calibrate --from fio.json --out my-drive.toml
  peryton calibrate --trace nvme.trace.xz --out my-drive.toml")]
pub struct Args {
    /// The device to measure, or a folder on it for a scratch file
    ///
    /// The device to measure, or a folder on it for a scratch file, or the name of a new scratch file.
    #[arg(value_name = "DEVICE", conflicts_with = "trace")]
    device: Option<PathBuf>,
    /// Also write to the device: ALL DATA ON IT ARE LOST
    ///
    /// Also write to the device: ALL DATA ON IT ARE LOST. A device in use is refused.
    #[arg(long, requires = "device")]
    destructive: bool,
    /// The size of the scratch file, which is written in full
    #[arg(long, value_name = "SIZE", default_value = "1GiB", requires = "device")]
    scratch: Bytes,
    /// Time for the measurement, at most 10min
    ///
    /// Time for the measurement, at most 10min; quick devices take less.
    #[arg(long, value_name = "TIME", default_value = "4min", requires = "device")]
    time: Nanos,
    /// Keep the measurement in this file, after each round
    #[arg(long, value_name = "RAW.json", requires = "device")]
    keep: Option<PathBuf>,
    /// Fit a measurement that --keep has kept, or the output of fio
    ///
    /// Fit a measurement that --keep has kept, or one or more outputs of fio --output-format=json. With DEVICE, first measure
    /// the rounds that the measurement lacks.
    #[arg(long, value_name = "RAW.json", conflicts_with = "trace")]
    from: Vec<PathBuf>,
    /// Fit to traces with measured latencies
    ///
    /// Fit to the first half of a trace with measured latencies; given several times, to the first half of each.
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// The format of the trace, one with latencies [default: recognised]
    ///
    /// One with latencies, such as flashnet, csv, msr or fio-log.
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    format: Option<Format>,
    /// Write the fitted profile to this file
    #[arg(long, value_name = "PROFILE.toml")]
    out: PathBuf,
    /// The kind of model [default: the nearest]
    ///
    /// The kind of model [default: disk if single reads are as slow as a disk's, otherwise the better fit of flash and fixed;
    /// flash for a trace].
    #[arg(long, value_enum)]
    kind: Option<KindArg>,
    /// Addressable bytes of the device [default: what the system says]
    ///
    /// Addressable bytes of the device [default: what the system says, or what the requests of a trace touch, or 256 GiB for
    /// flash].
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,
    /// Number of models to try
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tries: u32,
    /// Seed of the addresses and of the search
    ///
    /// Seed of the addresses and of the search: the same requests and seed give the same profile.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Overwrite an existing profile
    #[arg(long)]
    force: bool,
    /// Write a page with both halves of the measurement to a file
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A kind of device on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum KindArg {
    /// A magnetic disk
    Disk,
    /// A flash drive
    Flash,
    /// Times from a distribution: virtual disks, memory
    Fixed,
}

impl From<KindArg> for Kind {
    fn from(kind: KindArg) -> Kind {
        match kind {
            KindArg::Disk => Kind::Disk,
            KindArg::Flash => Kind::Flash,
            KindArg::Fixed => Kind::Fixed,
        }
    }
}

/// What `peryton calibrate --json` prints.
#[derive(Debug, Serialize)]
struct Calibration<'a> {
    profile: &'a Path,
    kind: Kind,
    source: &'a str,
    tries: u32,
    seed: u64,
    fitted: &'a Validation,
    not_fitted: &'a Validation,
    /// The half that was not fitted, beside the latencies of the one that was: what is known without a model.
    null: &'a Validation,
    /// Kinds of requests for which the model is no nearer than that: `all`, `read`, `write`.
    no_better: Vec<&'static str>,
    /// The demerits as shares of the means without the slowest of every 200 requests: where it was fitted, where not, and there without a
    /// model.
    without_slowest: [f64; 3],
    /// The steps of a measurement.
    #[serde(skip_serializing_if = "<[StepFit]>::is_empty")]
    steps: &'a [StepFit],
    /// What sustained writes, and flushes, showed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sustained: Vec<String>,
    command: String,
}

/// Measures if there is a device, fits and reports.
pub fn run(args: &Args) -> Result<(), Failure> {
    let exists = !output::is_stdout(&args.out) && args.out.symlink_metadata().is_ok();
    if exists && !args.force {
        let path = args.out.display();
        return Err(Failure::bad_input(format!(
            "{path}: there is a file already, which stays as it is: name another one, or give --force"
        )));
    }
    let name = name(&args.out)?;
    let (measurement, flushes) = measurement(args)?;
    let bar = terminal::bar(0);
    bar.set_message("fitting");
    let progress = |tries: u32, _: f64| {
        bar.set_length(u64::from(args.tries.max(tries)));
        bar.set_position(u64::from(tries));
    };
    let kind = args.kind.map(Kind::from);
    let (source, fit) = match &measurement {
        Some(measurement) => {
            let options = MeasuredFit {
                name: name.clone(),
                kind,
                capacity: args.capacity,
                tries: args.tries,
                seed: args.seed,
                flush: flushes.own(),
            };
            (measurement.device.path.clone(), fit::fit_measurement(measurement, &options, &progress))
        }
        None => {
            let (source, requests) = requests(args)?;
            let options = FitOptions {
                name: name.clone(),
                source: source.clone(),
                kind: kind.unwrap_or_else(|| Kind::of(&requests[..requests.len() / 2])),
                capacity: args.capacity,
                tries: args.tries,
                seed: args.seed,
            };
            (source, fit::fit(&requests, &options, &progress))
        }
    };
    bar.finish_and_clear();
    let fit = fit.map_err(Failure::bad_input)?;
    output::write(&args.out, fit.text.clone())?;
    let courses = measurement.as_ref().map_or(&[][..], |measurement| &measurement.courses);
    let mut remarks = calibrating::sustained(courses);
    remarks.extend(flushes.told(fit.kind));
    remarks.extend(measurement.as_ref().and_then(|measurement| calibrating::flushed(measurement, fit.kind)));
    if let Some(path) = &args.report {
        output::write(
            path,
            page::calibration(&name, &fit, (courses, &steps(&fit.steps)), &remarks, &page::command_line()),
        )?;
    }
    report(args, &source, &fit, remarks)
}

/// What was measured on a device, now or earlier.
fn measurement(args: &Args) -> Result<(Option<Measurement>, Flushes), Failure> {
    if !(SHORTEST..=LONGEST).contains(&args.time) {
        return Err(Failure::bad_input(format!("--time {}: give 2s to 10min", args.time)));
    }
    if args.scratch < Bytes::mib(64) {
        return Err(Failure::bad_input(format!("--scratch {}: give 64MiB or more", args.scratch)));
    }
    let (mut earlier, mut outputs) = (None, Vec::new());
    for path in &args.from {
        match calibrating::read(path)? {
            Kept::Fio(output) => {
                let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
                outputs.push((name, output));
            }
            Kept::Rounds(measurement) => earlier = Some(*measurement),
        }
    }
    if args.from.len() > 1 && outputs.len() < args.from.len() {
        return Err(Failure::bad_input("--from: several are taken of fio's output alone: name one measurement"));
    }
    if !outputs.is_empty() {
        if let Some(device) = &args.device {
            let what = format!(
                "{}: nothing is measured beside fio's output: leave out the device or --from",
                device.display()
            );
            return Err(Failure::bad_input(what));
        }
        let found = calibrating::of_fio(&outputs, args.kind.map(Kind::from), args.seed).map_err(Failure::bad_input)?;
        return Ok((Some(found.0), found.1));
    }
    let Some(path) = &args.device else { return Ok((earlier, Flushes::default())) };
    let wanted = Wanted {
        path,
        destructive: args.destructive,
        scratch: args.scratch,
        time: args.time,
        kind: args.kind.map(Kind::from),
        seed: args.seed,
        keep: args.keep.as_deref(),
    };
    calibrating::measure(&wanted, earlier).map(|found| (Some(found), Flushes::default()))
}

/// The requests of a trace, and the name of what they come from.
fn requests(args: &Args) -> Result<(String, Vec<Measured>), Failure> {
    if args.trace.is_empty() {
        let what = "nothing to fit to: name a DEVICE to measure, or give --from or --trace with a FILE";
        return Err(Failure::bad_input(what));
    }
    let name = |path: &PathBuf| path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let sources: Vec<String> = args.trace.iter().map(name).collect();
    let traces = args.trace.iter().map(|path| measured_args::read(path, args.format)).collect::<Result<Vec<_>, _>>()?;
    Ok((sources.join(", "), halves_of(traces)))
}

/// From the end of one trace to the beginning of the next.
const BETWEEN: Nanos = Nanos::from_s(1);

/// Several traces of one device as one: the first halves of all of them, which are fitted, and then the second halves.
fn halves_of(mut traces: Vec<Vec<Measured>>) -> Vec<Measured> {
    if traces.len() == 1 {
        return traces.remove(0);
    }
    // What is fitted is bounded: each trace has its part of that, so that none of them is left out.
    let most = fit::MOST_FITTED / traces.len();
    let half = |trace: &Vec<Measured>| (trace.len() / 2).min(most);
    let parts = |second: bool| {
        traces.iter().flat_map(move |trace| {
            let half = half(trace);
            let from = if second { half } else { 0 };
            [&trace[from..from + half]]
        })
    };
    let mut all: Vec<Measured> = Vec::new();
    let mut clock = Nanos::ZERO;
    for part in parts(false).chain(parts(true)) {
        let Some(first) = part.first().map(|first| first.at) else { continue };
        let begin = clock;
        for request in part {
            let at = begin + request.at.saturating_sub(first);
            clock = clock.max(at + request.latency);
            all.push(Measured { at, ..*request });
        }
        clock += BETWEEN;
    }
    all
}

/// The profile's name is that of its file.
fn name(out: &Path) -> Result<String, Failure> {
    let stem = out.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if stem.is_empty() || !stem.chars().all(fits) {
        let out = out.display();
        return Err(Failure::bad_input(format!(
            "--out {out}: the profile is named after its file: name it with letters, digits, '-', '_' and '.', such as my-drive.toml"
        )));
    }
    Ok(stem)
}

fn report(args: &Args, source: &str, fit: &Fit, sustained: Vec<String>) -> Result<(), Failure> {
    if args.json {
        return output::print_json(&Calibration {
            profile: &args.out,
            kind: fit.kind,
            source,
            tries: fit.tries,
            seed: args.seed,
            fitted: &fit.fitted,
            not_fitted: &fit.other,
            null: &fit.null,
            no_better: fit.no_better(),
            without_slowest: fit.without_slowest,
            steps: &fit.steps,
            sustained,
            command: page::command_line(),
        });
    }
    if output::is_stdout(&args.out) {
        return Ok(());
    }
    let mut text = if fit.steps.is_empty() {
        fit.other.render()
    } else {
        format!(
            "{}\nDemerits are in % of the step's mean; means are those of the half that was not fitted, where it has such requests.\n",
            steps(&fit.steps).shown()
        )
    };
    for line in sustained {
        text += &format!("\n{line}\n");
    }
    text += &format!(
        "\n{}: demerit {} ms at a mean of {} ms ({} %) on {} fitted requests; {} ms at {} ms ({} %) on {} scored requests\n",
        args.out.display(),
        table::number(fit.fitted.demerit_ms),
        table::number(fit.fitted.mean_ms),
        table::number(fit.fitted.demerit_share * 100.0),
        fit.fitted.requests,
        table::number(fit.other.demerit_ms),
        table::number(fit.other.mean_ms),
        table::number(fit.other.demerit_share * 100.0),
        fit.other.requests,
    );
    text += &beside_null(fit);
    let [fitted, other, null] = fit.without_slowest.map(|share| table::number(share * 100.0));
    text += &format!(
        "Without the slowest of every 200 requests: {fitted} % on the fitted requests, {other} % on the scored ones, and {null} % on \
         these without a model\n"
    );
    if fit.other.demerit_share > page::TRUSTED_DEMERIT {
        text +=
            "! The model is more than 15 % of the mean away from the device: docs/twin.md says what may be missing.\n";
    }
    output::tell(&text)
}

/// How near the model is, and how near the latencies of the fitted half are without any model.
fn beside_null(fit: &Fit) -> String {
    let of = |half: &Validation| {
        let share = |demerit: f64, mean: f64| if mean > 0.0 { demerit / mean * 100.0 } else { 0.0 };
        let classes = half.classes.iter().map(|c| (c.class, share(c.demerit_ms, c.mean_ms)));
        let all = std::iter::once(("all", half.demerit_share * 100.0));
        let each: Vec<String> =
            all.chain(classes).map(|(class, share)| format!("{class} {}", table::number(share))).collect();
        each.join(", ")
    };
    let mut text = format!(
        "Demerit on the scored requests, in % of the mean: the model {}; the latencies of the fitted half, without a model, {}\n",
        of(&fit.other),
        of(&fit.null)
    );
    if let Some(warning) = page::no_better(fit) {
        text += &format!("! {warning}.\n");
    }
    text
}

/// The steps of a measurement beside the model; means are those of the half that was not fitted, where it has such requests.
fn steps(steps: &[StepFit]) -> Table {
    let figures = |title: &str| Column::figures(title, 1);
    let columns = vec![
        Column::text("step", 1),
        figures("requests"),
        figures("mean, us"),
        figures("model, us"),
        figures("fitted, %"),
        figures("not fitted, %"),
    ];
    let mut rows = Table::of(columns);
    for step in steps {
        let share = |half: &Validation| match half.requests {
            0 => "–".to_owned(),
            _ => table::number(half.demerit_share * 100.0),
        };
        // Of a step that was fitted and not measured again, there is only that half.
        let shown = step.shown();
        rows.add_row([
            step.step.clone(),
            shown.requests.to_string(),
            table::number(shown.mean_ms * 1e3),
            table::number(shown.model_mean_ms * 1e3),
            share(&step.fitted),
            share(&step.other),
        ]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use peryton_device::Io;
    use peryton_units::Op;

    use super::*;

    fn trace(count: u64, offset: u64) -> Vec<Measured> {
        let request = |n: u64| Measured {
            at: Nanos::from_s(1_000) + Nanos::from_us(n),
            io: Io { op: Op::Read, at: Bytes(offset + n), len: Bytes::kib(4) },
            latency: Nanos::from_us(10),
        };
        (0..count).map(request).collect()
    }

    #[test]
    fn the_first_halves_of_several_traces_come_before_all_second_halves() {
        let all = halves_of(vec![trace(101, 0), trace(40, 1_000)]);
        let places: Vec<u64> = all.iter().map(|request| request.io.at.0).collect();
        let expected: Vec<u64> = (0..50).chain(1_000..1_020).chain(50..100).chain(1_020..1_040).collect();
        assert_eq!(places, expected, "a trace of an odd number loses its last request");
        assert!(all.windows(2).all(|two| two[0].at < two[1].at), "times rise");
        assert_eq!(all[0].at, Nanos::ZERO);
        assert!(all[50].at - all[49].at >= BETWEEN);
        assert_eq!(halves_of(vec![trace(9, 0)]), trace(9, 0));
        let long = halves_of(vec![trace(200_000, 0), trace(40, 500_000)]);
        assert_eq!(long.len(), 50_000 + 40, "each has its part of what is fitted");
    }
}

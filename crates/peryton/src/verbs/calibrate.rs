//! `peryton calibrate`: fits a profile to a device of the user's own.

use std::path::{Path, PathBuf};

use peryton_device::{
    fit::{self, Fit, FitOptions, Kind, MeasuredFit, StepFit},
    measure::Measurement,
    validate::{Measured, Validation},
};
use peryton_trace::MeasuredFormat;
use peryton_units::{Bytes, Nanos};
use serde::Serialize;

use crate::{
    calibrating::{self, Wanted},
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
DEVICE is a block device or an image, which is only read (unless --destructive), or a folder or a new file: then a scratch file is \
made there, written, read and removed. What was measured is halved by time: a profile is fitted to one half, and the demerit of the \
other half says how far the model is from the device on requests that it was not fitted to. Ctrl-C ends the measurement after the \
requests in flight, and fits what there is.

Examples:
  peryton calibrate /dev/nvme0n1 --out my-drive.toml --report my-drive.html
  peryton calibrate /mnt/data --scratch 2GiB --out my-drive.toml --keep my-drive.json
  peryton calibrate --from my-drive.json --out my-drive.toml
  peryton calibrate --trace nvme.trace.xz --out my-drive.toml")]
pub struct Args {
    /// Measure this device, or one beneath a scratch file in this folder or of this name
    #[arg(value_name = "DEVICE", conflicts_with_all = ["trace", "fio"])]
    device: Option<PathBuf>,
    /// Write on the device as well: WHAT IT HOLDS IS LOST. A device in use is refused
    #[arg(long, requires = "device")]
    destructive: bool,
    /// The size of the scratch file, all of which is written
    #[arg(long, value_name = "SIZE", default_value = "1GiB", requires = "device")]
    scratch: Bytes,
    /// The time for measuring, at most 10min; quick devices take less
    #[arg(long, value_name = "TIME", default_value = "4min", requires = "device")]
    time: Nanos,
    /// Keep what was measured in this file, after each round
    #[arg(long, value_name = "RAW.json", requires = "device")]
    keep: Option<PathBuf>,
    /// Fit what --keep has kept; with DEVICE, measure first what is missing in it
    #[arg(long, value_name = "RAW.json", conflicts_with_all = ["trace", "fio"])]
    from: Option<PathBuf>,
    /// Fit to a trace with measured latencies
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Fit to what fio measured: its latency log (log_offset=1)
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    fio: Option<PathBuf>,
    /// The trace's format: flashnet, csv, msr, disksim-validate or fio-log [default: recognised]
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    format: Option<MeasuredFormat>,
    /// Write the fitted profile to this file
    #[arg(long, value_name = "PROFILE.toml")]
    out: PathBuf,
    /// The kind of model [default: a disk by the latency of its reads; of a measured device that is none, the nearer of the others]
    #[arg(long, value_enum)]
    kind: Option<KindArg>,
    /// Addressable bytes of the device [default: what the system says, or what the requests of a trace touch, or 256 GiB for flash]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,
    /// Number of models to try
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tries: u32,
    /// Seed of the addresses and of the search: the same requests and seed give the same profile
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Overwrite a profile that is there
    #[arg(long)]
    force: bool,
    /// Write both halves as a self-contained HTML page to a file
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
    /// Of a measurement: both demerits as shares of the means, without the slowest of every 200 requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    without_slowest: Option<[f64; 2]>,
    /// The steps of a measurement.
    #[serde(skip_serializing_if = "<[StepFit]>::is_empty")]
    steps: &'a [StepFit],
    /// What sustained writes showed.
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
    let measurement = measurement(args)?;
    let bar = terminal::bar(0);
    bar.set_message("fitting");
    let progress = |tries: u32, _: f64| {
        bar.set_length(u64::from(args.tries.max(tries)));
        bar.set_position(u64::from(tries));
    };
    let kind = args.kind.map(Kind::from);
    let (source, fit) = match &measurement {
        Some(measurement) => {
            let options =
                MeasuredFit { name: name.clone(), kind, capacity: args.capacity, tries: args.tries, seed: args.seed };
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
    if let Some(path) = &args.report {
        output::write(path, page::calibration(&name, &fit, courses, &page::command_line()))?;
    }
    report(args, &source, &fit, calibrating::sustained(courses))
}

/// What was measured on a device, now or earlier.
fn measurement(args: &Args) -> Result<Option<Measurement>, Failure> {
    if !(SHORTEST..=LONGEST).contains(&args.time) {
        return Err(Failure::bad_input(format!("--time {}: give 2s to 10min", args.time)));
    }
    if args.scratch < Bytes::mib(64) {
        return Err(Failure::bad_input(format!("--scratch {}: give 64MiB or more", args.scratch)));
    }
    let earlier = args.from.as_deref().map(calibrating::read).transpose()?;
    let Some(path) = &args.device else { return Ok(earlier) };
    let wanted = Wanted {
        path,
        destructive: args.destructive,
        scratch: args.scratch,
        time: args.time,
        kind: args.kind.map(Kind::from),
        seed: args.seed,
        keep: args.keep.as_deref(),
    };
    calibrating::measure(&wanted, earlier).map(Some)
}

/// The requests of a trace, and the name of what they come from.
fn requests(args: &Args) -> Result<(String, Vec<Measured>), Failure> {
    let (path, format) = match (&args.trace, &args.fio) {
        (Some(trace), _) => (trace, args.format),
        (None, Some(log)) => (log, Some(MeasuredFormat::FioLog)),
        (None, None) => {
            let what = "nothing to fit to: name a DEVICE to measure, or give --from, --trace or --fio with a FILE";
            return Err(Failure::bad_input(what));
        }
    };
    let source = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok((source, measured_args::read(path, format)?))
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
            without_slowest: fit.without_slowest,
            steps: &fit.steps,
            sustained,
            command: page::command_line(),
        });
    }
    if output::is_stdout(&args.out) {
        return Ok(());
    }
    let mut text = if fit.steps.is_empty() { fit.other.render() } else { steps(&fit.steps) };
    for line in sustained {
        text += &format!("\n{line}\n");
    }
    text += &format!(
        "\n{}: demerit {} ms of a mean of {} ms ({} %) on {} requests that were fitted, {} of {} ({} %) on {} that were not\n",
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
    if let Some(shares) = fit.without_slowest {
        let [fitted, other] = shares.map(|share| table::number(share * 100.0));
        text += &format!("Without the slowest of every 200 requests: {fitted} % and {other} %\n");
    }
    if fit.other.demerit_share > page::TRUSTED_DEMERIT {
        text += "! The model is more than 15 % of the mean away from the device: docs/calibrating.md says what may be missing.\n";
    }
    output::tell(&text)
}

/// The steps of a measurement beside the model.
fn steps(steps: &[StepFit]) -> String {
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
        let share = |half: &Validation| table::number(half.demerit_share * 100.0);
        rows.add_row([
            step.step.clone(),
            step.other.requests.to_string(),
            table::number(step.other.mean_ms * 1e3),
            table::number(step.other.model_mean_ms * 1e3),
            share(&step.fitted),
            share(&step.other),
        ]);
    }
    format!(
        "{}\nDemerits are in % of the step's mean; means are those of the half that was not fitted.\n",
        rows.shown()
    )
}

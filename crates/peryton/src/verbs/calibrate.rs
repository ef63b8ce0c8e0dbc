//! `peryton calibrate`: fits a profile to a device of the user's own.

use std::path::{Path, PathBuf};

use peryton_device::{
    fit::{self, Fit, FitOptions, Kind},
    validate::{Measured, Validation},
};
use peryton_trace::MeasuredFormat;
use peryton_units::Bytes;
use serde::Serialize;

use crate::{failure::Failure, measured_args, output, page, table, terminal};

/// Options of `peryton calibrate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The latencies are halved by time: a profile is fitted to the first half, and the demerit of the second half says how far the \
model is from the device on requests that it was not fitted to.

Examples:
  peryton calibrate --trace nvme.trace.xz --out my-drive.toml --report my-drive.html
  peryton devices my-drive.toml --validate another.trace.xz")]
pub struct Args {
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
    /// The kind of the device [default: by the latency of its reads]
    #[arg(long, value_enum)]
    kind: Option<KindArg>,
    /// Addressable bytes of the device [default: what the requests touch, or 256 GiB for flash]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,
    /// Number of models to try
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tries: u32,
    /// Seed of the search: the same seed gives the same profile
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
}

impl From<KindArg> for Kind {
    fn from(kind: KindArg) -> Kind {
        match kind {
            KindArg::Disk => Kind::Disk,
            KindArg::Flash => Kind::Flash,
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
    command: String,
}

/// Fits and reports.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (source, requests) = requests(args)?;
    let name = name(&args.out)?;
    let options = FitOptions {
        name: name.clone(),
        source,
        kind: args.kind.map_or_else(|| Kind::of(&requests[..requests.len() / 2]), Kind::from),
        capacity: args.capacity,
        tries: args.tries,
        seed: args.seed,
    };
    let bar = terminal::bar(u64::from(args.tries));
    bar.set_message("fitting");
    let fit = fit::fit(&requests, &options, &|tries, _| bar.set_position(u64::from(tries)));
    bar.finish_and_clear();
    let fit = fit.map_err(Failure::bad_input)?;
    output::write(&args.out, fit.text.clone())?;
    if let Some(path) = &args.report {
        output::write(path, page::calibration(&name, &fit.fitted, &fit.other, &page::command_line()))?;
    }
    report(args, &options, &fit)
}

/// The requests, and the name of what they come from.
fn requests(args: &Args) -> Result<(String, Vec<Measured>), Failure> {
    let exists = !output::is_stdout(&args.out) && args.out.symlink_metadata().is_ok();
    if exists && !args.force {
        let path = args.out.display();
        return Err(Failure::bad_input(format!(
            "{path}: there is a file already, which stays as it is: name another one, or give --force"
        )));
    }
    let (path, format) = match (&args.trace, &args.fio) {
        (Some(trace), _) => (trace, args.format),
        (None, Some(log)) => (log, Some(MeasuredFormat::FioLog)),
        (None, None) => return Err(Failure::bad_input("nothing to fit to: give --trace FILE or --fio FILE")),
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

fn report(args: &Args, options: &FitOptions, fit: &Fit) -> Result<(), Failure> {
    if args.json {
        return output::print_json(&Calibration {
            profile: &args.out,
            kind: options.kind,
            source: &options.source,
            tries: fit.tries,
            seed: args.seed,
            fitted: &fit.fitted,
            not_fitted: &fit.other,
            command: page::command_line(),
        });
    }
    if output::is_stdout(&args.out) {
        return Ok(());
    }
    let mut text = fit.other.render();
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
    if fit.other.demerit_share > page::TRUSTED_DEMERIT {
        text += "! The model is more than 15 % of the mean away from the device: docs/calibrating.md says what may be missing.\n";
    }
    output::tell(&text)
}

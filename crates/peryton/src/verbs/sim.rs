//! `peryton sim`: simulates one or several designs under a trace.

use std::{collections::BTreeMap, fmt, num::NonZeroU32, path::PathBuf, time::Duration};

use indicatif::{HumanCount, ProgressState, ProgressStyle};
use peryton_sim::{
    Columns, Design, DesignText, DeviceReport, Estimate, FtlReport, KeyValues, LatencySummary, LoggingStats,
    MainFigures, Options, Report, SampleReport, Sampling, Sensitivity, SimError, Subject, Swing, TableFolder,
    extent_curve, sweep,
};
use peryton_trace::ByVolume;
use peryton_units::{Bytes, Nanos};

use crate::{
    comma_separated, completing,
    failure::Failure,
    lifetime_told::lifetime_told,
    naming, output, page,
    replay_args::ReplayArgs,
    sensitivity,
    table::{self, Column, Table},
    terminal,
    trace_args::{self, Counted, TraceArgs},
};

/// Options of `peryton sim`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Designs: paths, or names of volumes
    #[arg(required = true, value_name = naming::VOLUME, value_parser = naming::design(), add = naming::completer())]
    designs: Vec<PathBuf>,
    /// The trace, or a specification (.toml) of one; several are merged
    ///
    /// The trace, or a specification (.toml) from which one is generated; several are merged by time.
    #[arg(long, required = true, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// Simulate each volume of the trace alone, a row each
    ///
    /// Simulate each volume of the trace alone, on a separate drive, with a row for each. The trace is read once.
    #[arg(long, conflicts_with_all = ["concatenate", "sensitivity"])]
    each_volume: bool,
    /// Set a key of the designs, such as placement.mode=tiering
    #[arg(long, value_name = "KEY=VALUE", add = completing::key_value())]
    set: Vec<String>,
    /// Simulate with each of these values, a row each
    ///
    /// Simulate each design with each of these values of a key, a row each; with several keys, with every combination of their
    /// values.
    #[arg(long, value_name = "KEY=VALUE,VALUE...", add = completing::key_values())]
    sweep: Vec<String>,
    /// Write the reports as JSON (- for standard output)
    ///
    /// Write the reports as JSON to a file (- for standard output, in place of the table).
    #[arg(short = 'o', long, value_name = "OUT", help_heading = output::GROUP)]
    json: Option<PathBuf>,
    /// Write a page with charts (- for standard output)
    ///
    /// Write the reports as a self-contained HTML page with charts to a file (- for standard output, in place of the table).
    #[arg(long, value_name = "OUT.html", help_heading = output::GROUP)]
    report: Option<PathBuf>,
    /// Also report the figures of each interval, such as 1s
    ///
    /// Also report the figures of each interval of this length, such as 1s (needs --json, --csv or --out).
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = interval, help_heading = output::GROUP)]
    interval: Option<Nanos>,
    /// Write the reports as CSV (- for standard output)
    ///
    /// Write the reports as comma-separated values to a file (- for standard output, in place of the table): a row for each
    /// design, or with --interval for each interval of each design.
    #[arg(long, value_name = "OUT.csv", help_heading = output::GROUP)]
    csv: Option<PathBuf>,
    /// Write the reports as tables of Parquet into an empty folder
    ///
    /// Write the reports as tables of Parquet into a new or empty folder: reports, intervals (with --interval), latency
    /// histograms, warnings.
    #[arg(long, value_name = "FOLDER", help_heading = output::GROUP)]
    out: Option<PathBuf>,
    /// Simulate this share of the trace in place of the whole
    ///
    /// Simulate this share of the trace, chosen by address, on designs that are reduced to the same share, and show intervals
    /// for the figures of the whole trace.
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, help_heading = "Precision")]
    sample: Option<Sampling>,
    /// The seed that chooses the sample: another seed gives another sample
    #[arg(long, value_name = "N", default_value_t = 0, requires = "sample", help_heading = "Precision")]
    sample_seed: u64,
    /// Run each design N times, with other seeds, and show 95 % intervals
    ///
    /// Run each design N times, each time with the next seed, and show 95 % intervals, from these runs and from equal parts of
    /// the measured requests. With 1, the intervals come from the parts alone.
    #[arg(long, value_name = "N", help_heading = "Precision")]
    replicate: Option<NonZeroU32>,
    /// Say which estimated values of devices decide the result
    ///
    /// Simulate again with each estimated value of the devices 30 % lower and 30 % higher, and show the effect.
    #[arg(long, help_heading = "Precision")]
    sensitivity: bool,
    #[command(flatten, next_help_heading = "Replaying it")]
    replay_args: ReplayArgs,
    #[command(flatten, next_help_heading = crate::cli::READING)]
    trace_args: TraceArgs,
}

fn interval(text: &str) -> Result<Nanos, String> {
    match text.parse() {
        Ok(Nanos::ZERO) => Err("give a time above 0, such as 1s".to_owned()),
        Ok(length) => Ok(length),
        Err(error) => Err(format!("{error}")),
    }
}

/// What is wrong with the options for the output.
fn check_output(args: &Args) -> Result<(), Failure> {
    let outputs = [("--report", &args.report), ("--json", &args.json), ("--csv", &args.csv)];
    let to_stdout = outputs.iter().filter(|(_, path)| path.as_deref().is_some_and(output::is_stdout));
    let to_stdout: Vec<String> = to_stdout.map(|(option, _)| format!("{option} -")).collect();
    output::only_one_to_stdout(&to_stdout)?;
    if args.interval.is_some() && args.json.is_none() && args.csv.is_none() && args.out.is_none() {
        return Err(Failure::bad_input(
            "--interval: the table has no intervals, and the page has its own: add --json, --csv or --out",
        ));
    }
    if args.sample.is_some_and(|sample| !sample.is_whole()) {
        if args.replicate.is_some() {
            return Err(Failure::bad_input(
                "--sample: a sample has intervals of its own: leave --sample or --replicate out",
            ));
        }
        if args.sensitivity {
            return Err(Failure::bad_input(
                "--sample: the error of a sample may hide what an estimate changes: leave --sample or --sensitivity out",
            ));
        }
        if args.interval.is_some() {
            return Err(Failure::bad_input(
                "--sample: the time of a sample is denser than the trace's: leave --sample or --interval out",
            ));
        }
    }
    Ok(())
}

/// Simulates the designs and reports.
pub fn run(args: Args) -> Result<(), Failure> {
    check_output(&args)?;
    let (designs, swept) = designs(&args)?;
    let picture = args.report.is_some() && page::is_pictured(designs.len()) && !args.each_volume;
    let sample = args.sample.map(|sample| sample.with_seed(args.sample_seed));
    let options = Options {
        interval: args.interval,
        picture,
        sample,
        replications: args.replicate,
        ..args.replay_args.options()?
    };
    let runs = args.replicate.map_or(1, |runs| runs.get() as usize);
    let from_stdin = args.trace.iter().any(|path| path.as_os_str() == "-");
    if from_stdin && designs.len() * runs > 1 && !args.each_volume {
        return Err(Failure::bad_input(
            "--trace -: standard input can be read only once: save the trace in a file, or give one design and no --replicate above 1",
        ));
    }
    if from_stdin && args.sensitivity {
        return Err(Failure::bad_input(
            "--sensitivity reads the trace many times, standard input only once: save it in a file",
        ));
    }
    let skipped = Counted::default();
    // A specification from which no trace can be drawn is reported before the simulations start. A trace from a pipe is
    // opened only once.
    if !from_stdin {
        args.trace_args.source(&args.trace, &skipped)?;
    }
    let folder = args.out.as_ref().map(TableFolder::create).transpose()?;
    let mut reports = simulate(&designs, &args, &options, &skipped)?;
    // Reports of a whole trace say themselves what became of it.
    if options.sample.is_some() || args.each_volume {
        skipped.report();
    }
    for report in &mut reports {
        report.command = Some(page::command_line());
    }
    // With each volume alone, the designs come again for each.
    for (report, values) in reports.iter_mut().zip(swept.iter().cycle()) {
        report.sweep.extend(values.clone());
    }
    let rests = match args.sensitivity {
        true => Some(Rests::of(&reports, &args, &options, &skipped)?),
        false => None,
    };
    for report in &mut reports {
        report.sensitivity = rests.as_ref().map(|rests| rests.found.of_design(&report.design));
    }
    if let Some(folder) = folder {
        folder.write(&mut reports)?;
    }
    if let Some(path) = &args.report {
        let curve =
            if from_stdin || args.each_volume { None } else { trace_curve(&designs, &args, &options, &skipped)? };
        output::write(path, page::simulation(&reports, curve.as_ref(), &page::command_line()))?;
        if output::is_stdout(path) {
            return Ok(());
        }
    }
    if let Some(path) = &args.json {
        output::write_json(path, &reports)?;
    }
    if let Some(path) = &args.csv {
        let table = match args.interval {
            Some(_) => Columns::of_intervals(&reports),
            None => Columns::of_reports(&mut reports),
        };
        comma_separated::write(path, &table)?;
    }
    if [&args.json, &args.csv].into_iter().flatten().any(|path| output::is_stdout(path)) {
        return Ok(());
    }
    let mut text = shown(&reports)
        + &precise(&reports)
        + &sampled(&reports)
        + &shown_logs(&reports)
        + &shown_page_caches(&reports);
    let estimated = reports.iter().flat_map(|report| report.estimated_values.clone()).collect();
    text += &sensitivity::estimates(&estimated, args.sensitivity);
    text += &rests.map_or_else(String::new, |rests| rests.shown());
    output::tell(&text)
}

/// The number of sizes of the miss-ratio curve on the page.
const CURVE_SIZES: u32 = 40;

/// The miss-ratio curve of the first design that has extents, for the page: one reading more of the trace.
fn trace_curve(
    designs: &[Design],
    args: &Args,
    options: &Options,
    skipped: &Counted,
) -> Result<Option<page::TraceCurve>, Failure> {
    let pair = |design: &Design| design.placement.hybrid().copied();
    let Some((first, extent)) = designs.iter().find_map(|design| Some((design, pair(design)?.extent))) else {
        return Ok(None);
    };
    let trace = args.trace_args.again(&args.trace, skipped).map_err(SimError::from)?;
    let Some(curve) = extent_curve(first, trace, options)? else { return Ok(None) };
    let fast =
        |(index, design): (usize, &Design)| Some((index, design.devices[pair(design)?.fast.index()].data.0 as f64));
    let beside: Vec<(usize, f64)> =
        if designs.len() <= CURVE_DESIGNS { designs.iter().enumerate().filter_map(fast).collect() } else { Vec::new() };
    // Of a design that is simulated smaller, the sizes are its own.
    let load = first.load.map_or(1.0, |load| load.share);
    let touched = (curve.blocks() * extent.0) as f64 / load;
    let widest = beside.iter().map(|(_, bytes)| *bytes).fold(touched, f64::max);
    let least = (extent.0 as f64).max(widest / f64::from(1 << 14));
    let size = |n: u32| least * (widest / least).powf(f64::from(n) / f64::from(CURVE_SIZES - 1));
    let mut sizes: Vec<Bytes> =
        (0..CURVE_SIZES).map(|n| Bytes((size(n) / extent.0 as f64).round() as u64 * extent.0)).collect();
    sizes.dedup();
    let simulated: Vec<Bytes> = sizes.iter().map(|size| Bytes((size.0 as f64 * load) as u64)).collect();
    let misses = curve.at(&simulated);
    let points = sizes.iter().zip(&misses).map(|(size, ratios)| (size.0 as f64, ratios.blocks.all)).collect();
    Ok(Some(page::TraceCurve { extent, points, designs: beside }))
}

/// The most designs that are shown beside the curve.
const CURVE_DESIGNS: usize = 40;

/// What the figures rest on.
struct Rests {
    now: BTreeMap<String, MainFigures>,
    found: Sensitivity<MainFigures>,
}

impl Rests {
    fn of(reports: &[Report], args: &Args, options: &Options, skipped: &Counted) -> Result<Rests, Failure> {
        let subject = |report: &Report| Subject { name: report.design.clone(), toml: report.design_toml.clone() };
        let subjects: Vec<Subject> = reports.iter().map(subject).collect();
        let now = reports.iter().map(|report| (report.design.clone(), MainFigures::of(report))).collect();
        let trace = || args.trace_args.again(&args.trace, skipped);
        let found = sensitivity::run(&subjects, &trace, options, &|_, report| MainFigures::of(report))?;
        Ok(Rests { now, found })
    }

    fn shown(&self) -> String {
        let figures = |of: &MainFigures| [of.mean_ms, of.p99_ms, of.lifetime_years, of.mean_power_w];
        sensitivity::shown(&self.found, &self.now, figures) + &self.decisive()
    }

    /// The estimates that change which design answers soonest.
    fn decisive(&self) -> String {
        if self.now.len() < 2 {
            return String::new();
        }
        let first = |then: Option<&Swing<MainFigures>>| {
            let figures = |name: &String| then.and_then(|swing| swing.designs.get(name)).unwrap_or(&self.now[name]);
            let mean = |name: &String| figures(name).mean_ms.unwrap_or(f64::INFINITY);
            self.now.keys().min_by(|a, b| mean(a).total_cmp(&mean(b))).cloned()
        };
        let now = first(None);
        let mut text = String::new();
        for swing in &self.found.swings {
            let then = first(Some(swing));
            if then != now
                && let Some(then) = then
            {
                let (value, off_by) = (sensitivity::value(swing), sensitivity::off_by(swing));
                text += &format!("! {value} {off_by} %: {then} would have the least mean response time\n");
            }
        }
        if text.is_empty() {
            text = format!(
                "Whichever of them is 30 % off, {} has the least mean response time\n",
                now.unwrap_or_default()
            );
        }
        text
    }
}

/// The swept keys of a design with their values.
type SweptValues = BTreeMap<String, String>;

/// The designs, and of a sweep the values in each.
fn designs(args: &Args) -> Result<(Vec<Design>, Vec<SweptValues>), Failure> {
    let (designs, values): (Vec<Design>, Vec<_>) = match &args.sweep[..] {
        [] => (args.designs.iter().map(|path| Design::load(path, &args.set)).collect::<Result<_, _>>()?, Vec::new()),
        keys => {
            let keys = keys.iter().map(|text| swept_key(text)).collect::<Result<Vec<_>, _>>()?;
            let bases = args.designs.iter().map(|path| Ok((DesignText::read(path)?, args.set.clone())));
            let swept = sweep(&bases.collect::<Result<Vec<_>, Failure>>()?, &keys)?;
            swept.into_iter().map(|one| (one.design, one.values)).unzip()
        }
    };
    for (index, text) in args.set.iter().enumerate() {
        if designs.iter().all(|design| design.ignored_overrides.contains(&index)) {
            return Err(Failure::bad_input(format!("--set {text}: does not apply to any of the designs: remove it")));
        }
    }
    Ok((designs, values))
}

fn swept_key(text: &str) -> Result<KeyValues, Failure> {
    KeyValues::parse(text).ok_or_else(|| {
        Failure::bad_input(format!("--sweep {text}: write KEY=VALUE,VALUE such as placement.max_moves=4,16"))
    })
}

fn simulate(designs: &[Design], args: &Args, options: &Options, skipped: &Counted) -> Result<Vec<Report>, Failure> {
    let bar = terminal::spinner();
    let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
        // A bar that cannot be written is no failure.
        let _ = write!(out, "{}", HumanCount(state.per_sec() as u64));
    };
    let style = ProgressStyle::with_template("{spinner} {human_pos} requests simulated, {rate} a second")
        .expect("the template is a constant")
        .with_key("rate", rate);
    bar.set_style(style);
    bar.enable_steady_tick(Duration::from_millis(100));
    let trace = || args.trace_args.again(&args.trace, skipped);
    let name = trace_args::name(&args.trace);
    if args.each_volume {
        let volumes = ByVolume::of(&mut *trace().map_err(SimError::from)?).map_err(SimError::from)?;
        let reports = peryton_sim::run_each_volume(designs, &name, volumes, options, &|requests| bar.inc(requests));
        bar.finish_and_clear();
        return Ok(reports?);
    }
    let result = peryton_sim::run(designs, &name, &trace, options, &|requests| bar.set_position(requests));
    bar.finish_and_clear();
    result.map_err(|error: SimError| error.into())
}

/// The columns, and how much each matters: those that matter least are left out on a narrow terminal. Of a group, the one with its
/// title goes last.
const RATES: &[(&str, u8)] = &[("design", 100), ("IOPS", 90), ("MiB/s", 40)];
const RESPONSES: &[(&str, u8)] =
    &[("read ms\nmean", 99), ("\np50", 30), ("\np99", 80), ("write ms\nmean", 95), ("\np50", 25), ("\np99", 75)];
/// The columns of a trace with flushes.
const FLUSHES: &[(&str, u8)] = &[("flush ms\nmean", 70), ("\np99", 50), ("write+\nflush ms", 45)];
const COSTS: &[(&str, u8)] = &[
    ("fast\nhit %", 85),
    ("moves", 20),
    ("energy\nJ", 15),
    ("power\nW", 60),
    ("standby\n%", 10),
    ("SSD wear\neu", 12),
    ("lifetime\nyears", 65),
    ("\nrated", 5),
    ("\nphysical", 4),
];

/// The table, and what is beneath it.
fn shown(reports: &[Report]) -> String {
    let flushes = reports.iter().any(|report| report.latency_us.flush.is_some());
    let header = [RATES, RESPONSES, if flushes { FLUSHES } else { &[] }, COSTS].concat();
    let column = |(index, &(title, matters)): (usize, &(&str, u8))| match index {
        0 => Column::names(title, matters),
        _ => Column::figures(title, matters),
    };
    let mut table = Table::of(header.iter().enumerate().map(column).collect());
    for report in reports {
        let mut row = vec![report.design.clone(), table::optional(report.iops), table::optional(report.mib_per_s)];
        let response = &report.latency_us;
        row.extend(latency(response.read.as_ref()));
        row.extend(latency(response.write.as_ref()));
        if flushes {
            let [mean, _, p99] = latency(response.flush.as_ref());
            let [durable, ..] = latency(response.write_then_flush.as_ref());
            row.extend([mean, p99, durable]);
        }
        row.push(table::percent(report.fast_hit_ratio));
        let moves = report.moves.as_ref().map(|moves| moves.promotions + moves.demotions + moves.writebacks);
        row.push(table::cell(moves, |moves| moves.to_string()));
        row.push(table::optional(report.energy_j));
        row.push(table::optional(report.mean_power_w));
        row.push(table::percent(standby_share(report)));
        row.push(table::optional(ssd_wear_eu(report)));
        row.push(table::optional(report.lifetime_years));
        row.push(table::optional(report.lifetime_rated_years));
        row.push(table::optional(report.lifetime_physical_years));
        table.add_row(row);
    }
    table.shown() + &notes(reports, flushes)
}

/// Notes below the table: the basis of the figures, and warnings.
fn notes(reports: &[Report], flushes: bool) -> String {
    let mut text = String::new();
    if let Some(first) = reports.first() {
        let warmed = match (first.new_volume, first.warm_up_requests) {
            (true, 0) => ", a new volume".to_owned(),
            (_, 0) => String::new(),
            (_, requests) => format!(", after {requests} requests of warm-up"),
        };
        let volumes: BTreeMap<&str, u64> =
            reports.iter().filter_map(|report| Some((report.sweep.get("volume")?.as_str(), report.requests))).collect();
        let (of, trace) = match volumes.len() {
            0 | 1 => {
                let span = table::number(first.simulated_s);
                (format!("{} requests in {span} s", first.requests), format!("trace {}, ", first.trace_hash))
            }
            count => (format!("{} requests of {count} volumes", volumes.values().sum::<u64>()), String::new()),
        };
        text += &format!(
            "\n{of} of {}, replayed {}{warmed}; {trace}Peryton {}\n",
            first.trace, first.replay, first.peryton_version
        );
    }
    if flushes {
        let covered =
            reports.iter().filter_map(|report| Some(report.latency_us.write_then_flush.as_ref()?.count)).min();
        let writes = reports.iter().filter_map(|report| Some(report.latency_us.write.as_ref()?.count)).max();
        text += &format!(
            "write+flush: mean time from a write's arrival to the end of the first flush that covers it ({} of {} writes)\n",
            covered.unwrap_or(0),
            writes.unwrap_or(0)
        );
    }
    if reports.len() <= MAX_TOLD {
        reports.iter().for_each(|report| text += &told(report));
    } else {
        let lifetimes = reports.iter().filter_map(|report| Some((report.lifetime_years?, report)));
        if let Some((_, report)) = lifetimes.min_by(|a, b| a.0.total_cmp(&b.0)) {
            text += &format!("{}the shortest of all lifetimes; --json has the intervals of the others\n", told(report));
        }
    }
    for warned in peryton_sim::warned(reports) {
        text += &format!("! {warned}\n");
    }
    text
}

/// The most designs of which each has its lines below the table.
const MAX_TOLD: usize = 32;

/// What a design's lifetime rests on, and what its arrays do.
fn told(report: &Report) -> String {
    let mut text = String::new();
    if let Some(share) = report.simulated_share {
        let percent = table::number(share * 100.0);
        text += &format!(
            "{}: simulated for the {percent} % of its data in use that the trace touches, in a smaller size (load.share)\n",
            report.design
        );
    }
    if let Some(told) = lifetime_told(report.lifetime_years, &report.lifetime_interval, report.simulated_s) {
        text += &format!("lifetime of {}: {told}\n", report.design);
    }
    for (name, drive) in &report.nested {
        let told = |share| format!(", {} % of its accesses hit its fast device", table::number(share * 100.0));
        let hits = drive.fast_hit_ratio.map_or_else(String::new, told);
        text += &format!("'{name}' is a volume of {} of {}{hits}\n", Bytes(drive.volume_bytes), drive.design);
    }
    for (name, array) in &report.redundancy {
        text += &format!(
            "{} '{name}': {} of {} devices hold data, {} may fail; {} commands to devices per write ({} of {} writes read first)\n",
            array.scheme,
            array.data_devices,
            array.devices,
            array.survives_failures,
            table::optional(array.commands_per_write),
            array.writes_after_reads,
            array.writes
        );
    }
    text
}

/// How precise the figures are, which designs differ by more than that, and where the steady state begins; empty if that was not asked
/// for.
fn precise(reports: &[Report]) -> String {
    let Some(first) = reports.iter().find_map(|report| report.precision.as_ref()) else { return String::new() };
    let mut table =
        table::figures(&["\u{b1} 95 %", "mean ms", "read ms", "write ms", "p99 ms", "fast hit %", "power W"]);
    for report in reports {
        let Some(precision) = &report.precision else { continue };
        let cell = |name: &str, unit: f64| {
            let figure = precision.figures.get(name);
            let shown =
                |figure: &Estimate| table::estimate(figure.value / unit, figure.half_width.map(|half| half / unit));
            table::cell(figure, shown)
        };
        table.add_row(vec![
            report.design.clone(),
            cell("latency_us.all.mean", 1e3),
            cell("latency_us.read.mean", 1e3),
            cell("latency_us.write.mean", 1e3),
            cell("latency_us.all.p99", 1e3),
            cell("fast_hit_ratio", 1e-2),
            cell("mean_power_w", 1.0),
        ]);
    }
    let runs = if first.replications == 1 {
        "1 run".to_owned()
    } else {
        format!("{} runs with seeds of their own", first.replications)
    };
    let mut text = format!(
        "\n{}\nby {runs} and {} parts of {} requests; ? where the parts are too few or follow a trend\n",
        table.shown(),
        first.parts,
        first.requests_per_part
    );
    text += &compared(reports);
    for report in reports {
        let Some(precision) = &report.precision else { continue };
        let measured = precision.parts as u64 * precision.requests_per_part;
        text += &match precision.steady_after_requests {
            Some(0) => String::new(),
            Some(requests) => format!(
                "{}: its first {requests} measured requests are a warm-up: --warm-up-requests {} leaves them out\n",
                report.design,
                requests + report.warm_up_requests
            ),
            None => format!(
                "{}: reaches no steady state in {measured} requests: its figures depend on the length of the trace\n",
                report.design
            ),
        };
    }
    text
}

/// Each design beside the one that answers soonest, by the differences on the same requests.
fn compared(reports: &[Report]) -> String {
    let mean = |report: &Report| report.latency_us.all.as_ref().map_or(f64::INFINITY, |all| all.mean);
    let Some(best) = reports.iter().min_by(|a, b| mean(a).total_cmp(&mean(b))) else { return String::new() };
    let mut text = String::new();
    for report in reports.iter().filter(|report| !std::ptr::eq(*report, best)) {
        let (Some(ours), Some(theirs)) = (&best.precision, &report.precision) else { continue };
        let Some(difference) = ours.difference_us(theirs) else { continue };
        let by = table::estimate(difference.value.abs() / 1e3, difference.half_width.map(|half| half / 1e3));
        let (best, other) = (&best.design, &report.design);
        text += &match difference.half_width {
            Some(half) if half < difference.value.abs() => {
                format!("{best} answers {by} ms sooner than {other} on the same requests\n")
            }
            Some(_) => format!("{best} and {other} cannot be told apart by their mean response times ({by} ms)\n"),
            None => format!(
                "{best} answers {by} ms sooner than {other}: how far that may be off is not known, because the parts of the \
                 trace are too few or follow a trend\n"
            ),
        };
    }
    text
}

/// The figures of the whole trace as samples have them, each with its interval; empty without a sample.
fn sampled(reports: &[Report]) -> String {
    let Some(first) = reports.iter().find_map(|report| report.sample.as_ref()) else { return String::new() };
    let header = [
        "the whole trace",
        "fast\nhit %",
        "mean\nms",
        "read\nms",
        "write\nms",
        "device",
        "read\nGB",
        "written\nGB",
        "wear\neu",
    ];
    let mut table = table::figures(&header);
    for report in reports {
        let Some(sample) = &report.sample else { continue };
        let cell = |name: &str, unit: f64| interval_cell(sample, name, unit);
        for (number, (device, _)) in report.devices.iter().enumerate() {
            let mut row = vec![String::new(); 5];
            if number == 0 {
                row = vec![
                    report.design.clone(),
                    cell("fast_hit_ratio", 1e-2),
                    cell("latency_us.all.mean", 1e3),
                    cell("latency_us.read.mean", 1e3),
                    cell("latency_us.write.mean", 1e3),
                ];
            }
            row.push(device.clone());
            row.push(cell(&format!("devices.{device}.bytes_read"), 1e9));
            row.push(cell(&format!("devices.{device}.bytes_written"), 1e9));
            row.push(cell(&format!("devices.{device}.wear_eu"), 1.0));
            table.add_row(row);
        }
    }
    let percent = |share: f64| table::number(share * 100.0);
    format!(
        "\n{}\nby a sample of {} % of the regions of {} ({} % of the requests); {:.0} % of such intervals contain the figure of the whole\n",
        table.shown(),
        percent(first.share),
        Bytes(first.region_bytes),
        percent(first.requests_share),
        first.confidence * 100.0,
    )
}

/// A figure with its interval, in a unit.
fn interval_cell(sample: &SampleReport, name: &str, unit: f64) -> String {
    sample.figures.get(name).map_or_else(
        || table::NONE.to_owned(),
        |figure| {
            let number = |value: f64| table::number(value / unit);
            format!("{}\n{}..{}", number(figure.estimate), number(figure.low), number(figure.high))
        },
    )
}

const LOG_HEADER: &[&str] = &[
    "log before a primary",
    "write\nsavings %",
    "\nlog emptied",
    "read\npenalty %",
    "migra-\ntions",
    "erases saved %\nideal FTL",
    "\nblock-mapped",
    "sequential pages %\nwithout log",
    "\nwith",
];

/// The table of logs; empty if no design has a log.
fn shown_logs(reports: &[Report]) -> String {
    let mut table = table::figures(LOG_HEADER);
    for report in reports {
        let (Some(stats), Some(bounds)) = (&report.logging, &report.ftl_bounds) else { continue };
        let row = |name: String, savings, emptied, penalty, stats: &LoggingStats, bounds: &FtlReport| {
            let by = &stats.migrations;
            vec![
                name,
                table::percent(savings),
                table::percent(emptied),
                table::percent(penalty),
                (by.timeout + by.read_share + by.size + by.log_used + by.hint).to_string(),
                table::percent(bounds.erase_savings.ideal),
                table::percent(bounds.erase_savings.block_mapped),
                table::percent(bounds.without_log.sequential_page_share),
                table::percent(bounds.with_log.sequential_page_share),
            ]
        };
        let emptied = report.write_savings_emptied;
        table.add_row(row(report.design.clone(), report.write_savings, emptied, report.read_penalty, stats, bounds));
        for (number, volume) in report.volumes.iter().enumerate() {
            let Some(stats) = &volume.logging else { continue };
            let name = format!("  volume {number}");
            let (savings, emptied) = (volume.write_savings, volume.write_savings_emptied);
            table.add_row(row(name, savings, emptied, volume.read_penalty, stats, &volume.ftl_bounds));
        }
    }
    if table.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}", table.shown());
    for report in reports {
        if let Some(past) = report.logging.as_ref().and_then(|log| log.direct_by.sentence()) {
            text += &format!("\n{}: {past}\n", report.design);
        }
    }
    text
}

/// A sentence for each design that has a page cache before it.
fn shown_page_caches(reports: &[Report]) -> String {
    let percent = |part: u64, of: u64| table::number(100.0 * part as f64 / of.max(1) as f64);
    let mut text = String::new();
    for report in reports {
        let Some(cache) = &report.page_cache else { continue };
        text += &format!(
            "\n{}: the page cache of {} answered {} % of {} reads; of {} written, {} went to the drive, and {} are still dirty\n",
            report.design,
            Bytes(cache.size_bytes),
            percent(cache.read_hits, cache.read_requests),
            cache.read_requests,
            Bytes(cache.write_bytes),
            Bytes(cache.written_back_bytes),
            Bytes(cache.left_dirty_bytes),
        );
    }
    text
}

/// Mean, median and p99; the page and the JSON have the other percentiles.
fn latency(summary: Option<&LatencySummary>) -> [String; 3] {
    let ms = |us: fn(&LatencySummary) -> f64| table::optional(summary.map(|summary| us(summary) / 1e3));
    [ms(|s| s.mean), ms(|s| s.p50), ms(|s| s.p99)]
}

/// The share of the measured span that devices with a standby state spent in it.
fn standby_share(report: &Report) -> Option<f64> {
    let spans: Vec<f64> = report.devices.iter().filter_map(|(_, device)| device.standby_s).collect();
    let whole = report.simulated_s * spans.len() as f64;
    (whole > 0.0).then(|| spans.iter().sum::<f64>() / whole)
}

/// The wear of the most worn device that is not a disk.
fn ssd_wear_eu(report: &Report) -> Option<f64> {
    let is_flash = |device: &&DeviceReport| device.start_stops.is_none();
    let wear = report.devices.iter().map(|(_, device)| device).filter(is_flash).filter_map(|device| device.wear_eu);
    wear.max_by(f64::total_cmp)
}

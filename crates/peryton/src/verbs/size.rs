//! `peryton size`: how large the fast device of a design should be.

mod plot;

use std::{path::PathBuf, time::Duration};

use indicatif::ProgressStyle;
use peryton_plan::{
    capacity::Workload,
    constraint::Metric,
    evaluate::Account,
    size::{self, Ask, MOST_POINTS, POINTS, SizeCurve, SizeError, SizePoint, Sizes, WITHIN},
};
use peryton_sim::{Columns, DesignText, Options, Sampling};
use peryton_units::{Nanos, SECONDS_PER_YEAR, person, person_ms, person_years};

use crate::{
    comma_separated, completing,
    failure::Failure,
    figure_arg::figures,
    naming, output, page,
    replay_args::ReplayArgs,
    table::{self, Column, Table},
    terminal,
    trace_args::{self, Counted, TraceArgs},
};

/// Options of `peryton size`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  peryton size --trace my.parquet --design caching.toml
  peryton size --trace my.parquet --design caching.toml --sizes 64GiB..256GiB --points 8
  peryton size --trace my.parquet --design caching.toml --objective p99 --usd-per-ms 100

The fast device of a caching, tiering or partitioned design changes its size; everything else stays as it is. \
A size is enough if its --objective is within --within of the best. \
Price and endurance of the fast device are in proportion to its size (docs/planning.md).")]
pub struct Args {
    /// The trace, or a specification (.toml) of one
    ///
    /// The trace, or a specification (.toml) from which one is generated; several are merged by time.
    #[arg(long, required = true, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// The design: its path, or the name of a volume
    #[arg(long, required = true, value_name = naming::VOLUME, value_parser = naming::design(), add = naming::completer())]
    design: PathBuf,
    /// Sizes, or a range of them [default: by the miss-ratio curve]
    ///
    /// Sizes of the fast device to simulate, or a range to choose them from [default: chosen by the miss-ratio curve].
    #[arg(long, value_name = "SIZE,SIZE...|FROM..TO")]
    sizes: Option<Sizes>,
    /// How many sizes to choose
    #[arg(long, value_name = "N", default_value_t = POINTS, value_parser = clap::value_parser!(u32).range(2..=i64::from(MOST_POINTS)))]
    points: u32,
    /// The figure that decides, such as p99
    #[arg(long, value_name = "FIGURE", default_value = "latency", value_parser = figures(), hide_possible_values = true)]
    objective: Metric,
    /// How much worse than the best the figure may be
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = size::within)]
    within: f64,
    /// Name the best size if 1 ms of mean response time is worth this
    ///
    /// Also name the size that is best if a millisecond of mean response time is worth this many USD.
    #[arg(long, value_name = "USD")]
    usd_per_ms: Option<f64>,
    /// Time for which ownership is computed
    #[arg(long = "for", value_name = "TIME", default_value = "5y")]
    run_for: Nanos,
    /// Set a key of the design, such as placement.mode=tiering
    #[arg(long, value_name = "KEY=VALUE", add = completing::key_value())]
    set: Vec<String>,
    /// Simulate this share [default: a share that takes a minute]
    ///
    /// Simulate this share of the trace, chosen by address, and show the error; 1 is the whole trace.
    #[arg(long, value_name = "SHARE")]
    sample: Option<Sampling>,
    /// Write the curve as CSV (- for standard output)
    ///
    /// Write the curve as comma-separated values to a file (- for standard output, in place of the table): a row for each size.
    #[arg(long, value_name = "OUT.csv", help_heading = output::GROUP)]
    csv: Option<PathBuf>,
    /// Write a page with charts (- for standard output)
    ///
    /// Write the curve as a self-contained HTML page to a file (- for standard output, in place of the table).
    #[arg(long, value_name = "OUT.html", help_heading = output::GROUP)]
    report: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = output::GROUP)]
    json: bool,
    #[command(flatten, next_help_heading = "Replaying it")]
    replay_args: ReplayArgs,
    #[command(flatten, next_help_heading = crate::cli::READING)]
    trace_args: TraceArgs,
}

impl From<SizeError> for Failure {
    fn from(error: SizeError) -> Failure {
        match error {
            SizeError::Sim(error) => error.into(),
            error => Failure::bad_input(error),
        }
    }
}

/// Simulates the sizes and prints the curve.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut ask = ask(args)?;
    ask.check()?;
    if args.trace.iter().any(|path| path.as_os_str() == "-") {
        return Err(Failure::bad_input("--trace -: the trace is read several times: save it in a file"));
    }
    let to_stdout = [("--report", &args.report), ("--csv", &args.csv)];
    let to_stdout = to_stdout.map(|(name, path)| path.as_deref().filter(|path| output::is_stdout(path)).map(|_| name));
    let to_stdout: Vec<&str> = to_stdout.into_iter().flatten().chain(args.json.then_some("--json")).collect();
    output::only_one_to_stdout(&to_stdout)?;
    let skipped = Counted::default();
    args.trace_args.source(&args.trace, &skipped)?;
    let trace = || args.trace_args.again(&args.trace, &skipped);
    let bar = terminal::bar(0);
    let style = ProgressStyle::with_template("{spinner} {msg} {wide_bar} {human_pos}/{human_len} {eta}");
    bar.set_style(style.expect("the template is a constant"));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar.set_message("reading the trace");
    let workload = Workload::measure(&trace_args::name(&args.trace), &trace)?;
    workload.check_pace(ask.options.replay)?;
    skipped.report();
    if args.replay_args.warms_up_by_default() {
        ask.options.warm_up_requests = ask.warm_up_requests(&workload);
    }
    let curve = size::size(&ask, &workload, &|what, done, of| {
        bar.set_message(what.to_owned());
        bar.set_length(of);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let mut curve = curve?;
    curve.command = Some(page::command_line());
    if let Some(path) = &args.report {
        output::write(path, page::sizing(&curve, &rows(&curve), &page::command_line()))?;
    }
    if let Some(path) = &args.csv {
        comma_separated::write(path, &Columns::of(&curve.points))?;
    }
    match to_stdout.first() {
        Some(&"--json") => output::print_json(&curve),
        Some(_) => Ok(()),
        None => output::tell(&shown(&curve)),
    }
}

fn ask(args: &Args) -> Result<Ask, Failure> {
    let design = DesignText::read(&args.design)?;
    let electricity = design.design(&args.set)?.electricity_usd_per_kwh;
    if args.run_for == Nanos::ZERO {
        return Err(Failure::bad_input("--for 0s: give a time such as 5y"));
    }
    const { assert!(WITHIN == 0.05, "the default of --within") }
    Ok(Ask {
        design,
        overrides: args.set.clone(),
        sizes: args.sizes.clone().unwrap_or_default(),
        points: args.points,
        objective: args.objective,
        within: args.within,
        usd_per_ms: args.usd_per_ms,
        account: Account { years: args.run_for.as_s_f64() / SECONDS_PER_YEAR, usd_per_kwh: electricity },
        options: Options { sample: args.sample, ..args.replay_args.options()? },
    })
}

/// The table, a plot and what to make of them.
fn shown(curve: &SizeCurve) -> String {
    let mut text = String::new();
    // Response times of sizes that fall behind grow with the trace.
    if !curve.overloaded {
        text += &rows(curve).shown();
        text += "* enough (• below); = the design's size\n\n";
        text += &plot::of(curve, terminal::columns());
    }
    for sentence in &curve.verdict {
        text += &format!("{sentence}.\n");
    }
    text += &format!(
        "\n{} requests of {} after {} of warm-up, replayed {}; trace {}, Peryton {}\n",
        curve.requests, curve.trace, curve.warm_up_requests, curve.replay, curve.trace_hash, curve.peryton_version
    );
    if curve.overloaded {
        for warning in curve.warnings.iter().filter(|warning| warning.code == "overload") {
            text += &format!("! {}\n", warning.text);
        }
        return text;
    }
    for assumption in &curve.assumptions {
        text += &format!("Assumed: {assumption}.\n");
    }
    for caveat in &curve.caveats {
        text += &format!("! {caveat}.\n");
    }
    for warning in &curve.warnings {
        text += &format!("! {}\n", warning.text);
    }
    text
}

/// The mean response time, with its interval where that is an estimate.
fn mean(point: &SizePoint) -> String {
    let range = point.mean_ms_low.zip(point.mean_ms_high);
    let range = range.map(|(low, high)| format!(" ({}..{})", person(low), person(high))).unwrap_or_default();
    person_ms(point.metrics.mean_ms) + &range
}

/// A column: its title, how much it matters, and its figures.
type Figures = (&'static str, u8, fn(&SizePoint) -> Option<String>);

/// The table.
fn rows(curve: &SizeCurve) -> Table {
    const FIGURES: &[Figures] = &[
        ("hit\n%", 8, |point| point.metrics.fast_hit_ratio.map(|share| table::percent(Some(share)))),
        ("avoidable\nmiss %", 7, |point| point.avoidable_miss_ratio.map(|share| table::percent(Some(share)))),
        ("mean", 9, |point| Some(mean(point))),
        ("p99", 9, |point| Some(person_ms(point.metrics.p99_ms))),
        ("flush", 6, |point| point.metrics.flush_mean_ms.map(person_ms)),
        ("write+\nflush", 2, |point| point.metrics.write_then_flush_mean_ms.map(person_ms)),
        ("written\nGB/day", 3, |point| point.fast_bytes_written_per_day.map(|bytes| table::number(bytes / 1e9))),
        ("lifetime", 5, |point| point.by_size.lifetime_years_by_size.map(person_years)),
        ("whole\ndevice", 1, |point| point.metrics.lifetime_years.map(person_years)),
        ("USD", 5, |point| point.by_size.fast_usd_by_size.map(table::number)),
        ("USD per\nms saved", 4, |point| point.usd_per_ms_saved.map(table::number)),
        ("LRU\nmiss %", 1, |point| Some(table::percent(Some(point.lru_miss_ratio)))),
    ];
    let enough = curve.knees.first().map(|knee| knee.size_bytes);
    let size = |point: &SizePoint| {
        let mark = if Some(point.size_bytes) == enough { " *" } else { "" };
        let own = if point.size_bytes == curve.design_bytes { " =" } else { "" };
        format!("{}{mark}{own}", point.size())
    };
    let first = Column::names(curve.device.clone(), u8::MAX);
    let figures = FIGURES.iter().map(|(title, matters, _)| Column::figures(*title, *matters));
    let mut table = Table::of(std::iter::once(first).chain(figures).collect());
    for point in &curve.points {
        let cells = FIGURES.iter().map(|(_, _, figure)| figure(point).unwrap_or_else(|| table::NONE.to_owned()));
        table.add_row(std::iter::once(size(point)).chain(cells));
    }
    table.without_empty_columns()
}

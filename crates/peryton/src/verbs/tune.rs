//! `peryton tune`: finds better settings of a design under a trace.

use std::{fs, path::PathBuf};

use indicatif::ProgressStyle;
use peryton_plan::{
    capacity::Workload,
    constraint::{Constraint, ConstraintError, Metric},
    evaluate::{Account, Metrics},
    tune::{Knob, Search, TuneError, Tuned, tune},
};
use peryton_sim::{Design, KeyValues};
use peryton_units::person;
use serde::Serialize;

use crate::{
    completing,
    failure::Failure,
    figure_arg::figures,
    naming, output, page,
    replay_args::ReplayArgs,
    table::{self, Column, Table},
    terminal,
    trace_args::{self, Counted, TraceArgs},
};

/// Options of `peryton tune`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  peryton tune tiering.toml --trace my.parquet --subject-to 'lifetime>=5y' --out tuned.toml
  peryton tune caching.toml --trace my.parquet --objective p99 --knob placement.extent=16KiB,64KiB

The search changes promotion, demotion, replacement, admission, write-back, spin-down and idle work, but not the write \
policy, which decides which data a failure loses.")]
pub struct Args {
    /// The design: its path, or the name of a volume
    #[arg(value_name = naming::VOLUME, value_parser = naming::design(), add = naming::completer())]
    design: PathBuf,
    /// The trace, or a specification (.toml) of one
    ///
    /// The trace, or a specification (.toml) from which one is generated; several are merged by time.
    #[arg(long, required = true, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// The figure to improve, such as p99
    #[arg(long, value_name = "FIGURE", default_value = "latency", value_parser = figures(), hide_possible_values = true)]
    objective: Metric,
    /// Bounds that the design must keep, such as p99<=10ms,power<=8W
    #[arg(long, value_name = "BOUND,BOUND...", value_parser = bounds, default_value = "", hide_default_value = true)]
    subject_to: Bounds,
    /// The most simulations
    #[arg(long, value_name = "N", default_value_t = 96)]
    evaluations: u32,
    /// Search with this many requests of the trace
    ///
    /// Search with this many requests of the trace; the result is measured on the whole trace.
    #[arg(long, value_name = "N")]
    search_requests: Option<u64>,
    /// Try these values of a key as well, in place of its usual ones
    #[arg(long, value_name = "KEY=VALUE,VALUE...", add = completing::key_values())]
    knob: Vec<String>,
    /// Change the keys of --knob and no others
    #[arg(long, requires = "knob")]
    only: bool,
    /// Also change what formatting fixes: the size of extents
    #[arg(long)]
    with_format: bool,
    /// Seed: the same seed finds the same settings
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Set a key of the design before the search
    #[arg(long, value_name = "KEY=VALUE", add = completing::key_value())]
    set: Vec<String>,
    /// Write the tuned design to a file
    #[arg(long, value_name = "TUNED.toml", help_heading = output::GROUP)]
    out: Option<PathBuf>,
    /// Write a page with charts (- for standard output)
    ///
    /// Write the result as a self-contained HTML page with charts to a file (- for standard output, in place of the table).
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

/// The bounds that must hold. (This type wraps the list, because clap would read a plain list as several options.)
#[derive(Clone, Debug)]
struct Bounds(Vec<Constraint>);

fn bounds(text: &str) -> Result<Bounds, ConstraintError> {
    if text.trim().is_empty() { Ok(Bounds(Vec::new())) } else { Constraint::list(text).map(Bounds) }
}

/// The JSON that is printed.
#[derive(Serialize)]
struct Printed<'a> {
    command: String,
    trace: String,
    design: &'a str,
    objective: Metric,
    subject_to: &'a [Constraint],
    #[serde(flatten)]
    tuned: &'a Tuned,
}

/// Runs the search and prints the result.
pub fn run(args: &Args) -> Result<(), Failure> {
    let report_to_stdout = output::report_to_stdout(args.report.as_deref(), args.json)?;
    let mut options = args.replay_args.options()?;
    if args.trace.iter().any(|path| path.as_os_str() == "-") {
        return Err(Failure::bad_input("--trace -: standard input can be read only once: save the trace in a file"));
    }
    if args.evaluations == 0 || args.search_requests == Some(0) {
        return Err(Failure::bad_input("--evaluations and --search-requests: give numbers above 0"));
    }
    let design = Design::load(&args.design, &args.set)?;
    if let Some(index) = design.ignored_overrides.first() {
        return Err(Failure::bad_input(format!("--set {}: does not apply to the design: remove it", args.set[*index])));
    }
    let skipped = Counted::default();
    args.trace_args.source(&args.trace, &skipped)?;
    let trace = || args.trace_args.again(&args.trace, &skipped);
    let bar = terminal::spinner();
    bar.set_message("reading the trace");
    let workload = Workload::measure(&trace_args::name(&args.trace), &trace)?;
    bar.finish_and_clear();
    if args.replay_args.warms_up_by_default() {
        options.warm_up_requests = workload.warm_up_requests().min(options.limit.unwrap_or(u64::MAX) / 2);
    }
    let load = |overrides: &[String]| {
        let all: Vec<String> = args.set.iter().chain(overrides).cloned().collect();
        Design::load(&args.design, &all)
    };
    let search = Search {
        objective: args.objective,
        constraints: args.subject_to.0.clone(),
        evaluations: args.evaluations,
        seed: args.seed,
        requests: args.search_requests,
    };
    let bar = terminal::bar(u64::from(args.evaluations));
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} settings tried, {eta} left");
    bar.set_style(style.expect("the template is a constant"));
    let account = Account { usd_per_kwh: design.electricity_usd_per_kwh, ..Account::default() };
    let tuned =
        tune(&load, &knobs(args, &design)?, &workload, &options, &account, &search, &|tried| bar.set_position(tried));
    bar.finish_and_clear();
    let tuned = tuned.map_err(|error| match error {
        TuneError::Sim(error) => error.into(),
        error => Failure::bad_input(error),
    })?;
    skipped.report();
    if let Some(path) = &args.out {
        save(args, &tuned, path)?;
    }
    if let Some(path) = &args.report {
        let asked = page::Tuning { design: &design.name, trace: &trace_names(args), objective: args.objective };
        let both = before_and_after(&tuned, args.objective, &search.constraints);
        let tables = (&settings(&tuned), &both);
        output::write(path, page::tuning(&tuned, &asked, tables, &page::command_line()))?;
    }
    let printed = Printed {
        command: page::command_line(),
        trace: trace_names(args),
        design: &design.name,
        objective: args.objective,
        subject_to: &search.constraints,
        tuned: &tuned,
    };
    output::print_result(&printed, args.json, report_to_stdout, || shown(args, &tuned))
}

fn trace_names(args: &Args) -> String {
    let names = args.trace.iter().map(|path| path.file_name().unwrap_or_default().to_string_lossy());
    names.collect::<Vec<_>>().join("+")
}

fn knobs(args: &Args, design: &Design) -> Result<Vec<Knob>, Failure> {
    let mut knobs = if args.only { Vec::new() } else { Knob::list(design, args.with_format) };
    for text in &args.knob {
        let bad =
            || Failure::bad_input(format!("--knob {text}: write KEY=VALUE,VALUE such as placement.max_moves=4,16"));
        let KeyValues { key, values } = KeyValues::parse(text).ok_or_else(bad)?;
        knobs.retain(|knob| knob.name != key);
        knobs.push(Knob::given(&key, &values.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    Ok(knobs)
}

/// Writes the design file with the new settings. Its comments are lost.
fn save(args: &Args, tuned: &Tuned, path: &PathBuf) -> Result<(), Failure> {
    let all: Vec<String> = args.set.iter().chain(&tuned.overrides).cloned().collect();
    let text = Design::rewritten(&args.design, &all)?;
    let text = format!(
        "# {} with settings found by Peryton {} on {} requests of {} (hash {}):\n# {}\n{text}",
        args.design.file_name().unwrap_or_default().display(),
        tuned.peryton_version,
        tuned.trace_requests,
        trace_names(args),
        tuned.trace_hash,
        page::command_line(),
    );
    fs::write(path, text).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

fn shown(args: &Args, tuned: &Tuned) -> String {
    let mut text = String::new();
    if tuned.changed.is_empty() {
        text += "Nothing better was found: the design stays as it is.\n\n";
    } else {
        text += &(settings(tuned).shown() + "\n");
    }
    text += &before_and_after(tuned, args.objective, &args.subject_to.0).shown();
    text += &format!("\n* the objective: the {} is best; {}", best_word(args.objective), effort(tuned));
    text += &format!(
        "Measured on {} requests of {}, after {} of warm-up{}; trace {}, Peryton {}.\n",
        tuned.before.requests,
        trace_names(args),
        tuned.warm_up_requests,
        tuned
            .simulated_share
            .map_or_else(String::new, |share| format!(", at {} % of the design's load", person(share * 100.0))),
        tuned.trace_hash,
        tuned.peryton_version
    );
    let same = tuned.before.warnings == tuned.after.warnings;
    let of_both = [("design", &tuned.before), ("tuned", &tuned.after)];
    for (which, metrics) in of_both.into_iter().skip(usize::from(same)) {
        let which = if same { "" } else { &format!("{which}: ") };
        for warning in &metrics.warnings {
            text += &format!("! {which}{}. Remedy: {}\n", warning.message, warning.remedy);
        }
    }
    if !tuned.met_after {
        text += "No settings were found that keep every bound: loosen one, or change the devices.\n";
    }
    text
}

/// The settings that were changed.
fn settings(tuned: &Tuned) -> Table {
    let mut settings = table::text(&["setting", "design", "tuned"]);
    for changed in &tuned.changed {
        settings.add_row([&changed.knob, &changed.from, &changed.to]);
    }
    settings
}

/// Every figure before and after.
fn before_and_after(tuned: &Tuned, objective: Metric, constraints: &[Constraint]) -> Table {
    let figure = |title| Column::figures(title, 1);
    let (names, bounds) = (Column::names("figure", 1), Column::text("bound", 1));
    let mut figures = Table::of(vec![names, figure("design"), figure("tuned"), figure("change"), bounds]);
    for &metric in Metric::ALL {
        let (before, after) = (metric.of(&tuned.before), metric.of(&tuned.after));
        let bound = constraints.iter().find(|bound| bound.metric == metric);
        let show = |value: Option<f64>| table::cell(value, |value| metric.show(value));
        if before.is_none() && after.is_none() {
            continue;
        }
        let change = match (before, after) {
            (Some(before), Some(after)) if before > 0.0 && before.is_finite() && after.is_finite() => {
                format!("{:+.1} %", (after / before - 1.0) * 100.0)
            }
            _ => table::NONE.to_owned(),
        };
        let mark = if metric == objective { " *" } else { "" };
        let bound = bound.map_or_else(String::new, |bound| bound_shown(bound, &tuned.after));
        figures.add_row([format!("{metric}{mark}"), show(before), show(after), change, bound]);
    }
    figures
}

fn bound_shown(bound: &Constraint, after: &Metrics) -> String {
    let word = if bound.met(after) { "met" } else { "NOT met" };
    format!("{bound}: {word}")
}

fn best_word(metric: Metric) -> &'static str {
    if metric.more_is_better() { "most" } else { "least" }
}

fn effort(tuned: &Tuned) -> String {
    let refused = match tuned.refused {
        0 => String::new(),
        n => format!(" ({n} of the settings could not be simulated)"),
    };
    format!("{} simulations{refused}.\n", tuned.evaluations)
}

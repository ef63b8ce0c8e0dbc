//! `peryton plan`: finds the devices to buy for a workload, and their design.

mod estimates;
mod flash;
mod fleet;
mod infeasible;
mod out;
mod prices;
pub mod protection;

use std::{path::PathBuf, sync::Mutex, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use peryton_device::Era;
use peryton_plan::{
    capacity::{self, Active, Ask, Catalogue, Flash, Found, Plan, PlanError, Workload},
    constraint::{Constraint, Metric},
    evaluate::Account,
};
use peryton_units::{Bytes, MOST_YEARS, Nanos, SECONDS_PER_YEAR, person, person_ms, person_years};

use crate::{
    failure::Failure,
    lifetime_told::lifetime_told,
    output, page,
    replay_args::ArrivalArgs,
    table::{self, Column, Table},
    terminal,
    trace_args::{self, Counted, TraceArgs},
};

/// What is asked of one volume, or of its one drive.
const NOT_OF_FLEETS: &[&str] = &[
    "trace",
    "capacity",
    "active",
    "per_day",
    "own",
    "flash",
    "runners_up",
    "no_flash_need",
    "sensitivity",
    "warm_up_requests",
    "concatenate",
    "files_as_volumes",
];

/// Options of `peryton plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The planner finds the cheapest devices that meet the budgets, by simulation (docs/planning.md):
  peryton plan --trace my.parquet --latency 2ms --lifetime 5y
  peryton plan --fleet recordings --latency 5ms --report fleet.html", group = clap::ArgGroup::new("workload").required(true))]
pub struct Args {
    /// The trace, or a specification (.toml) of one; several are merged
    ///
    /// The trace, or a specification (.toml) from which one is generated; several are merged by time.
    #[arg(long, group = "workload", value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// In place of --trace, recordings of many volumes that share drives
    ///
    /// In place of --trace, the recordings of many volumes: a folder with one of each, or a trace that names its volumes. The plan
    /// says which of them share a drive, and how its flash is divided among them.
    #[arg(long, group = "workload", value_name = "FOLDER|TRACE", conflicts_with_all = NOT_OF_FLEETS)]
    fleet: Option<PathBuf>,
    /// The highest mean response time
    #[arg(long, value_name = "TIME", help_heading = "Budgets")]
    latency: Option<Nanos>,
    /// The shortest time until the first device is worn out
    #[arg(long, value_name = "TIME", help_heading = "Budgets")]
    lifetime: Option<Nanos>,
    /// More budgets, such as p99<=10ms,power<=8W,write<=1ms
    ///
    /// More budgets: latency, read, write, flush, write_then_flush, p50, p99, p999, lifetime, power, energy (a year), dollars,
    /// ownership, iops.
    #[arg(long, value_name = "BOUND,...", help_heading = "Budgets")]
    subject_to: Vec<String>,
    /// Minimise this (lifetime, iops: maximise)
    ///
    /// The figure to minimise (lifetime and iops: to maximise), one of those that --subject-to names.
    #[arg(long, value_name = "FIGURE", default_value = "dollars", help_heading = "Budgets")]
    objective: Metric,
    /// Data to be stored [default: the span of addresses in the trace]
    #[arg(long, value_name = "SIZE", help_heading = "Load")]
    capacity: Option<Bytes>,
    /// The part of the data in use [default: the trace's]
    ///
    /// The share or amount of the data that requests use within the duration of the trace, such as 5% or 200GiB [default: the
    /// share of the span of addresses that the trace uses].
    #[arg(long, value_name = "SHARE|SIZE", help_heading = "Load")]
    active: Option<Active>,
    /// The share of the time in which the load goes on [default: 100%]
    ///
    /// The share of the time in which the load goes on [default: 100%]. Devices live longer in proportion.
    #[arg(long, value_name = "SHARE", value_parser = crate::replay_args::share, conflicts_with = "per_day", help_heading = "Load")]
    duty: Option<f64>,
    /// The load goes on each day until it has written this many bytes
    #[arg(long, value_name = "SIZE", help_heading = "Load")]
    per_day: Option<Bytes>,
    /// Profiles to choose from [default: all with a price]
    ///
    /// Devices to choose from: profiles' names, files of your own, folders of them [default: every profile of the era with a
    /// price].
    #[arg(long, value_name = "NAME|FILE,...", value_delimiter = ',', help_heading = "Devices and prices")]
    devices: Vec<String>,
    /// Devices on sale in these years, or all
    ///
    /// Choose among the devices that were on sale in these years, such as 2015-2020; all adds the older ones, which the papers
    /// used. Has no effect with --devices.
    #[arg(long, value_name = "YEARS|all", default_value_t = Era::default(), help_heading = "Devices and prices")]
    era: Era,
    /// Purchase price of a device in USD, in place of its profile's
    #[arg(long, value_name = "NAME=USD", help_heading = "Devices and prices")]
    price: Vec<String>,
    /// Prices of devices, in place of the profiles'
    ///
    /// Prices of devices, in place of the profiles': a table with the header name,usd or name,usd,usd_per_tb.
    #[arg(long, value_name = "FILE.csv", help_heading = "Devices and prices")]
    prices: Option<PathBuf>,
    /// Devices that you own: they cost nothing to buy
    ///
    /// Devices that you own: that many of a kind cost nothing to buy (their energy and wear still count).
    #[arg(long, value_name = "NAME=N", help_heading = "Devices and prices")]
    own: Vec<String>,
    /// Buy flash in whole devices or in any capacity
    ///
    /// Buy flash in whole devices of the catalogue, or in any capacity up to theirs: price and endurance are then in
    /// proportion, and the speed is that of the whole device. The planner chooses the capacity.
    #[arg(long, value_name = "whole|any", default_value = "whole", help_heading = "Devices and prices")]
    flash: Flash,
    /// The most devices of a kind, without spares
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Devices and prices")]
    most: u32,
    /// Price of electricity, USD per kWh
    #[arg(long, value_name = "USD", default_value_t = 0.12, help_heading = "Devices and prices")]
    electricity: f64,
    /// Time for which ownership is computed
    #[arg(long = "for", value_name = "TIME", default_value = "5y", help_heading = "Devices and prices")]
    run_for: Nanos,
    #[command(flatten, next_help_heading = "Devices and prices")]
    protection: protection::ProtectionArgs,
    /// How many designs to show beside the best
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = output::GROUP)]
    runners_up: usize,
    /// Do not compute how much of the flash the workload needs
    ///
    /// Do not compute how much of the bought flash the workload needs. Otherwise a hybrid is simulated with smaller flash, up to
    /// eleven times.
    #[arg(long, help_heading = output::GROUP)]
    no_flash_need: bool,
    /// Write the best design and the runners-up into this folder
    ///
    /// Write the best design and the runners-up into this folder, ready for peryton sim and serve.
    #[arg(long, value_name = "FOLDER", help_heading = output::GROUP)]
    out: Option<PathBuf>,
    /// Say which estimated values and prices would change the answer
    ///
    /// Simulate the best design and the runners-up again with each estimated value and price of their devices changed by 30 %,
    /// and say which changes would change the answer.
    #[arg(long, help_heading = output::GROUP)]
    sensitivity: bool,
    /// Write a page with charts (- for standard output)
    ///
    /// Write the plan as a self-contained HTML page with charts to a file (- for standard output, in place of the table).
    #[arg(long, value_name = "OUT.html", help_heading = output::GROUP)]
    report: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = output::GROUP)]
    json: bool,
    #[command(flatten, next_help_heading = "Replaying it")]
    arrival_args: ArrivalArgs,
    #[command(flatten, next_help_heading = crate::cli::READING)]
    trace_args: TraceArgs,
}

/// Plans and prints.
pub fn run(mut args: Args) -> Result<(), Failure> {
    let report_to_stdout = output::report_to_stdout(args.report.as_deref(), args.json)?;
    let mut ask = ask(&args)?;
    let mut catalogue = Catalogue::with_owned(
        &args.devices,
        &prices::all(args.prices.as_deref(), &args.price)?,
        &owned(&args.own)?,
        &args.era,
    )?;
    for (name, afr) in protection::failure_rates(&args.protection.afr)? {
        catalogue.fails(&name, afr)?;
    }
    if let Some(path) = &args.fleet {
        return fleet::run(path, &args, &catalogue, report_to_stdout);
    }
    let bar = Bar::new();
    if args.trace.iter().any(|path| path.as_os_str() == "-") {
        return Err(Failure::bad_input("--trace -: a plan reads its trace several times: save it in a file"));
    }
    let skipped = Counted::default();
    // Opens the trace once, so that an error in a specification is reported as such.
    args.trace_args.source(&args.trace, &skipped)?;
    let trace = || args.trace_args.again(&args.trace, &skipped);
    bar.show("reading the trace", 0, 0);
    let workload = Workload::measure(&trace_args::name(&args.trace), &trace)?;
    workload.check_pace(ask.options.replay)?;
    skipped.report();
    if let Some(per_day) = args.per_day {
        let speed = if let peryton_sim::Replay::Timed { speed } = ask.options.replay { speed } else { 1.0 };
        ask.duty = workload.duty(Bytes((per_day.0 as f64 / speed) as u64))?;
    }
    ask.options.warm_up_requests = *args.arrival_args.warm_up_requests.get_or_insert(workload.warm_up_requests());
    let mut plan = capacity::plan(&ask, &catalogue, &workload, &|what, done, of| bar.show(what, done, of))?;
    bar.finish();
    plan.command = Some(page::command_line());
    if args.sensitivity {
        plan.sensitivity = Some(estimates::sensitivity(&plan, &ask.options, &trace)?);
    }
    if let Some(folder) = &args.out {
        out::write(folder, &args, &plan)?;
    }
    if let Some(path) = &args.report {
        let (designs, points, budgets) = (design_rows(&plan, usize::MAX), flash::points(&plan), budget_rows(&plan));
        let tables = page::Tables { designs: &designs, flash: points.as_ref(), budgets: budgets.as_ref() };
        output::write(path, page::planning(&plan, tables, &page::command_line()))?;
    }
    output::print_result(&plan, args.json, report_to_stdout, || shown(&plan))?;
    // A script learns from the exit code whether a design meets the budgets.
    if plan.best.is_none() { Err(Failure::quietly(1)) } else { Ok(()) }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Failure {
        match error {
            PlanError::Sim(error) => error.into(),
            PlanError::Io { .. } | PlanError::Differs { .. } | PlanError::NoneRuns { .. } => Failure::failed(error),
            _ => Failure::bad_input(error),
        }
    }
}

fn ask(args: &Args) -> Result<Ask, Failure> {
    let constraints = Constraint::gather(args.latency, args.lifetime, &args.subject_to).map_err(Failure::bad_input)?;
    if args.run_for == Nanos::ZERO {
        return Err(Failure::bad_input("--for 0s: give a time such as 5y"));
    }
    if !(args.electricity >= 0.0 && args.electricity.is_finite()) {
        return Err(Failure::bad_input(format!("--electricity {}: use a price such as 0.12", args.electricity)));
    }
    Ok(Ask {
        constraints,
        objective: args.objective,
        capacity: args.capacity,
        active: args.active,
        most: args.most,
        runners_up: args.runners_up,
        protection: args.protection.protection(),
        flash: args.flash,
        flash_need: !args.no_flash_need,
        account: Account { years: args.run_for.as_s_f64() / SECONDS_PER_YEAR, usd_per_kwh: args.electricity },
        duty: args.duty.unwrap_or(1.0),
        options: args.arrival_args.options()?,
    })
}

fn owned(texts: &[String]) -> Result<Vec<(String, u32)>, Failure> {
    let one = |text: &String| {
        let (name, count) = text.split_once('=')?;
        Some((name.to_owned(), count.parse().ok().filter(|count| (1..=256).contains(count))?))
    };
    let bad = |text: &String| {
        let remedy = "write a device and how many there are, 1 to 256, such as seagate-st4000dm000=12";
        Failure::bad_input(format!("--own {text}: {remedy}"))
    };
    texts.iter().map(|text| one(text).ok_or_else(|| bad(text))).collect()
}

/// The progress bar on a terminal.
struct Bar(ProgressBar, Mutex<String>);

impl Bar {
    fn new() -> Bar {
        let bar = terminal::bar(0);
        let style = ProgressStyle::with_template("{spinner} {msg} {wide_bar} {pos}/{len} {eta}");
        bar.set_style(style.expect("the template is a constant"));
        bar.enable_steady_tick(Duration::from_millis(100));
        Bar(bar, Mutex::new(String::new()))
    }

    fn show(&self, what: &str, done: u64, of: u64) {
        let mut shown = self.1.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *shown != what {
            what.clone_into(&mut shown);
            self.0.reset();
            self.0.set_message(what.to_owned());
        }
        self.0.set_length(of);
        self.0.set_position(done);
    }

    fn finish(&self) {
        self.0.finish_and_clear();
    }
}

fn shown(plan: &Plan) -> String {
    let like = &plan.workload;
    let budgets = plan.constraints.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let size = |bytes: u64| Bytes(bytes).to_string();
    let verb = if plan.objective.more_is_better() { "most" } else { "least" };
    let mut text = format!(
        "{}: {} requests in {} s, {} ms apart, {} KiB each, {} % reads, {} % sequential; {} touched within {}\n{} designs of {} \
         devices for {}; {}; {verb} {}\n\n",
        plan.trace,
        like.requests,
        table::number(like.span_s),
        table::number(like.inter_arrival_ms),
        table::number(like.request_kib),
        table::number(like.read_share * 100.0),
        table::number(like.sequential_share * 100.0),
        size(like.footprint_bytes),
        size(like.reach_bytes),
        plan.candidates,
        plan.catalogue.len(),
        size(plan.capacity_bytes),
        if budgets.is_empty() { "no budgets" } else { &budgets },
        plan.objective,
    );
    match (&plan.best, &plan.infeasible) {
        (Some(best), _) => {
            let word = if best.metrics.dollars == Some(0.0) { "Use" } else { "Buy" };
            text += &format!("{word}: {} ({})\n{}\n", best.label, money(best), beside(plan, best));
        }
        (None, Some(infeasible)) => return text + &infeasible::shown(plan, infeasible),
        (None, None) => {}
    }
    if let Some(turns) = &plan.turns {
        text += &format!("{}.\n\n", turns.sentence(&plan.account));
    }
    let rows = design_rows(plan, MOST_ROWS);
    text += &rows.shown();
    if flash::one_of_each(plan, MOST_ROWS).iter().any(|found| !found.meets) {
        text += "n×: the factor by which the design misses a budget\n";
    }
    text += &flash::shown(plan);
    text += &protection::shown(plan);
    if let Some((rows, mark)) = budget_rows(plan) {
        text += &format!("\n{}{mark}", rows.shown());
    }
    let rounds: Vec<String> =
        plan.search.iter().map(|rung| format!("{} on {} requests", rung.candidates, rung.requests)).collect();
    text += &format!("\nSimulated: {}\n", rounds.join(", "));
    for assumption in &plan.assumptions {
        text += &format!("Assumed: {assumption}\n");
    }
    if let Some(best) = &plan.best {
        let metrics = &best.metrics;
        if let Some(told) = lifetime_told(metrics.lifetime_years, &metrics.lifetime_interval, metrics.simulated_s) {
            text += &format!("Lifetime of {}: {told}\n", best.label);
        }
    }
    if let Some(best) = &plan.best {
        for warning in &best.metrics.warnings {
            text += &format!("! {}: {}. Remedy: {}\n", best.label, warning.message, warning.remedy);
        }
    }
    text += &estimates::shown(plan);
    text += &format!(
        "Trace: {} requests, hash {}; Peryton {}\n",
        plan.trace_requests, plan.trace_hash, plan.peryton_version
    );
    if let Some(first) = plan.left_out.first() {
        text += &format!("{} designs could not be simulated; the first: {first}\n", plan.left_out.len());
    }
    text
}

/// The best flash alone, the best disks alone and the best three tiers, each in a line.
fn beside(plan: &Plan, best: &Found) -> String {
    let mut text = String::new();
    for (what, name) in
        [("flash alone", &plan.flash_alone), ("disks alone", &plan.disks_alone), ("three tiers", &plan.three_tiers)]
    {
        let found = plan.simulated.iter().find(|found| Some(&found.design) == name.as_ref());
        let Some(found) = found.filter(|found| found.design != best.design) else { continue };
        let metrics = &found.metrics;
        let how = match metrics.is_overloaded() {
            true => "which cannot keep up with this load".to_owned(),
            false => format!("mean {}, p99 {}", person_ms(metrics.mean_ms), person_ms(metrics.p99_ms)),
        };
        let misses = if found.meets || metrics.is_overloaded() { "" } else { " (misses a budget)" };
        text += &format!("  {what}: {}, {}, {how}{misses}\n", found.label, money(found));
    }
    text
}

fn money(found: &Found) -> String {
    found.metrics.dollars.map_or_else(|| "no price".to_owned(), |usd| Metric::Dollars.show(usd))
}

/// The most rows of the table. Later rows only repeat what the budgets cost.
const MOST_ROWS: usize = 12;

/// The designs that were simulated, at most so many.
fn design_rows(plan: &Plan, most: usize) -> Table {
    let ownership = format!("USD in\n{} y", table::number(plan.account.years));
    let figures = |(title, matters)| Column::figures(title, matters);
    let mut header = vec![Column::text("design", 9)];
    header.extend([("meets", 9), ("USD", 9), (ownership.as_str(), 5), ("mean", 8), ("p99", 6)].map(figures));
    header.extend([("lifetime", 7), ("W", 6)].map(figures));
    let mut rows = Table::of(header);
    for found in flash::one_of_each(plan, most) {
        let metrics = &found.metrics;
        rows.add_row([
            found.label.clone(),
            if found.meets { "yes".to_owned() } else { miss(found) },
            table::cell(metrics.dollars, person),
            table::cell(metrics.ownership_usd, person),
            person_ms(metrics.mean_ms),
            person_ms(metrics.p99_ms),
            lifetime(metrics),
            table::cell(metrics.power_w, person),
        ]);
    }
    rows
}

/// By what a design does not do: the factor by which it misses a budget, or that it does not keep up at all.
fn miss(found: &Found) -> String {
    if found.metrics.is_overloaded() { "overload".to_owned() } else { format!("{}×", person(found.strain)) }
}

/// A lifetime, with its interval where there is one.
fn lifetime(metrics: &peryton_plan::evaluate::Metrics) -> String {
    let interval = &metrics.lifetime_interval;
    let ends = interval.lifetime_years_low.zip(interval.lifetime_years_high).filter(|(low, _)| *low < MOST_YEARS);
    let ends = ends.map(|(low, high)| format!(" ({} to {})", person_years(low), person_years(high)));
    table::cell(metrics.lifetime_years, person_years) + &ends.unwrap_or_default()
}

/// What each budget costs, and what a mark in it means.
fn budget_rows(plan: &Plan) -> Option<(Table, &'static str)> {
    if plan.budgets.is_empty() {
        return None;
    }
    let mut rows = table::text(&["what a budget costs", "as asked", "without it", "twice as loose", "twice as tight"]);
    let asked = plan.best.as_ref().and_then(|best| plan.objective.of(&best.metrics));
    let none = || "nothing found".to_owned();
    let value = |value: Option<f64>| value.map_or_else(none, |value| plan.objective.show(value));
    for budget in &plan.budgets {
        let variant =
            |variant: &capacity::Variant| value(variant.objective) + if variant.by_sample { " *" } else { "" };
        rows.add_row([
            budget.constraint.to_string(),
            value(asked),
            variant(&budget.without),
            variant(&budget.loosened),
            variant(&budget.tightened),
        ]);
    }
    let variants =
        |budget: &capacity::Budget| [&budget.without, &budget.loosened, &budget.tightened].map(|one| one.by_sample);
    let mark = if plan.budgets.iter().flat_map(variants).any(|by_sample| by_sample) {
        "* from samples of the trace that keep the budgets with a margin\n"
    } else {
        ""
    };
    Some((rows, mark))
}

//! `peryton greenest`: which devices need the least energy, and which the least money.

use std::{collections::BTreeMap, path::PathBuf};

use peryton_device::{Class, Era, Profile};
use peryton_plan::energy::{
    self, BreakEven, Decisive, Demand, DominantNeed, Figures, FiguresError, Fleet, MeasuredDemand, Objective, Order,
    Pattern, Policy, Prices, Ranked, Segment, Source, Span, Terms,
};
use peryton_trace::{Hashed, RequestHash};
use peryton_units::{Bytes, Nanos, SECONDS_PER_YEAR};
use rayon::prelude::*;
use serde::Serialize;

use crate::{
    failure::Failure,
    output, page, table,
    trace_args::{self, Counted, TraceArgs},
};

/// Options of `peryton greenest`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The models are those of \"Which Storage Device is the Greenest?\" (Li and Long), equations (2)-(7). MB are 10^6 bytes.

Archive 12 TB, written once at 50 MB/s:
  peryton greenest --peak 50MB --average 50MB --capacity 12TB --workload seq-write
A file server that reads 20 MB/s on average and 400 MB/s at most, for five years, and the best mix of devices for it:
  peryton greenest --peak 400MB --average 20MB --capacity 4TB --workload rand-read --for 5y --mixed")]
pub struct Args {
    /// Peak bandwidth, in bytes per second, such as 400MB
    #[arg(long, value_name = "SIZE", required_unless_present = "trace")]
    peak: Option<Bytes>,
    /// Average bandwidth, in bytes per second
    #[arg(long, value_name = "SIZE", required_unless_present = "trace")]
    average: Option<Bytes>,
    /// Amount of data to be stored
    #[arg(long, value_name = "SIZE", required_unless_present = "trace")]
    capacity: Option<Bytes>,
    /// How the data are accessed
    #[arg(long, value_enum, default_value_t = Workload::SeqRead)]
    workload: Workload,
    /// Size of a request, such as 64KiB [default: the trace's, or 1MiB as in the paper; random accesses are then also shown with
    /// other sizes]
    #[arg(long, alias = "request", value_name = "SIZE")]
    request_size: Option<Bytes>,
    /// Number of requests in flight on a device [default: 1 for random accesses, 8 for sequential ones, 32 for a trace's random
    /// accesses]
    #[arg(long, value_name = "N")]
    queue_depth: Option<u32>,
    /// Measure all of the above on a trace (or on one drawn from a specification); options that are given have precedence
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    #[command(flatten)]
    trace_args: TraceArgs,
    /// Devices: names of profiles, or paths of your own files [default: every profile of the era with power figures]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    devices: Vec<String>,
    /// Choose among the devices that were on sale in these years, such as 2015-2020; all adds the older ones, which the
    /// papers used. Has no effect with --devices
    #[arg(long, value_name = "YEARS|all", default_value_t = Era::default())]
    era: Era,
    /// Purchase price of a device in USD, in place of its profile's
    #[arg(long, value_name = "NAME=USD")]
    price: Vec<String>,
    /// Power management efficiency: the number of active devices for each that is needed
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    alpha: f64,
    /// State of the devices that the average bandwidth does not need
    #[arg(long, value_enum, default_value_t = PolicyArg::Best)]
    policy: PolicyArg,
    /// Run time, such as 5y [default: until the data have been moved once, or 1y if bandwidth decides or accesses are random]
    #[arg(long = "for", value_name = "TIME")]
    run_for: Option<Nanos>,
    /// Price of electricity, USD per kWh
    #[arg(long, value_name = "USD", default_value_t = 0.12)]
    electricity: f64,
    /// Order of the list
    #[arg(long, value_enum, default_value_t = By::Energy)]
    by: By,
    /// Use bandwidth and busy power of Peryton's models even if published figures exist
    #[arg(long)]
    model: bool,
    /// Also find the best mix of devices
    #[arg(long)]
    mixed: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Workload {
    /// Sequential reads
    SeqRead,
    /// Sequential writes
    SeqWrite,
    /// Random reads
    RandRead,
    /// Random writes
    RandWrite,
    /// Random reads and writes, equally many
    RandMixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PolicyArg {
    /// Random accesses: all active, since the data are spread; sequential: idle or standby, whichever needs less
    Best,
    /// They idle
    Idle,
    /// They are in standby
    Standby,
    /// They are kept busy like the others
    AllActive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// Energy over the run time
    Energy,
    /// Purchase and electricity over the run time
    Cost,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Found {
    peryton_version: &'static str,
    command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Traced>,
    /// What was not given and is taken to be so.
    assumptions: Vec<String>,
    demand: Demand,
    pattern: Pattern,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<MeasuredDemand>,
    run_time_s: f64,
    alpha: f64,
    electricity_usd_per_kwh: f64,
    devices: Vec<Ranked>,
    /// How many it takes with requests of other sizes, where none was given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_request_sizes: Vec<OtherSize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fleets: Vec<Fleet>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    segments: Vec<Segment>,
    /// Figures resting on estimates that would put another device first if they were 30 % off.
    decisive_estimates: Vec<Decisive>,
    /// Devices that take no part, and why.
    left_out: Vec<String>,
}

/// Which trace was measured.
#[derive(Serialize)]
struct Traced {
    name: String,
    hash: RequestHash,
    requests: u64,
}

/// How many devices of each kind requests of another size need.
#[derive(Serialize)]
struct OtherSize {
    request: Bytes,
    devices: BTreeMap<String, u64>,
}

/// What random requests are tried with where nobody says how large they are.
const OTHER_SIZES: [Bytes; 2] = [Bytes::kib(64), Bytes::kib(4)];

/// Ranks and prints.
pub fn run(args: Args) -> Result<(), Failure> {
    if !(args.alpha >= 1.0 && args.alpha.is_finite()) {
        return Err(Failure::bad_input(format!(
            "--alpha {}: use 1 (only what is needed is active) or more",
            args.alpha
        )));
    }
    if !(args.electricity >= 0.0 && args.electricity.is_finite()) {
        return Err(Failure::bad_input(format!("--electricity {}: use a price such as 0.12", args.electricity)));
    }
    let (measured, segments, trace) = measure(&args)?;
    let (demand, pattern) = asked(&args, measured)?;
    let (figures, left_out) = catalogue(&args, &pattern)?;
    let policies = policies(args.policy, &pattern);
    let prices = Prices { usd_per_kwh: args.electricity };
    let span = span(&args, &demand, &pattern, &figures);
    let terms = Terms { demand: &demand, alpha: args.alpha, policies, span, prices };
    let mut devices = energy::rank(&figures, &terms);
    let Some(run_time_s) = devices.first().map(|first| first.run_time_s) else {
        return Err(Failure::bad_input(format!("no device can take part in this: {}", left_out.join("; "))));
    };
    let assumed = args.request_size.is_none() && args.trace.is_empty();
    let mut other_request_sizes = Vec::new();
    if assumed && pattern.random {
        for request in OTHER_SIZES {
            let (figures, _) = catalogue(&args, &Pattern { request, ..pattern })?;
            let ranked = energy::rank(&figures, &terms);
            let devices = ranked.into_iter().map(|row| (row.figures.device, row.devices)).collect();
            other_request_sizes.push(OtherSize { request, devices });
        }
    }
    let order = if args.by == By::Cost { Order::Cost } else { Order::Energy };
    if order == Order::Cost {
        energy::sort_by_cost(&mut devices);
    }
    let decisive_estimates = energy::decisive(&figures, &terms, order);
    let mut fleets = Vec::new();
    if args.mixed {
        for objective in [Objective::Energy, Objective::Cost] {
            match best_fleet(&figures, &demand, &segments, args.alpha, policies, run_time_s, prices, objective) {
                Ok(fleet) => fleets.push(fleet),
                Err(error) => eprintln!("peryton: --mixed: {error}"),
            }
        }
    }
    let found = Found {
        peryton_version: env!("CARGO_PKG_VERSION"),
        command: page::command_line(),
        trace,
        assumptions: assumptions(&args, &pattern, assumed),
        demand,
        pattern,
        measured,
        run_time_s,
        alpha: args.alpha,
        electricity_usd_per_kwh: args.electricity,
        devices,
        other_request_sizes,
        fleets,
        segments: if args.mixed { segments } else { Vec::new() },
        decisive_estimates,
        left_out,
    };
    if args.json { output::print_json(&found) } else { output::print(&shown(&found)) }
}

/// What figures rest on that the user did not say.
fn assumptions(args: &Args, pattern: &Pattern, assumed: bool) -> Vec<String> {
    let mut all = Vec::new();
    if assumed {
        all.push(format!(
            "requests of {}, as the paper measured: what devices can do at random depends on their size more than on anything \
             else (--request-size)",
            pattern.request
        ));
    }
    if args.queue_depth.is_none() {
        let depth = pattern.queue_depth;
        all.push(format!("devices are given {depth} requests at a time (--queue-depth)"));
    }
    all
}

/// What the trace says, of what, and from where.
type FromTrace = (Option<MeasuredDemand>, Vec<Segment>, Option<Traced>);

fn measure(args: &Args) -> Result<FromTrace, Failure> {
    if args.trace.is_empty() {
        return Ok((None, vec![Segment::WHOLE], None));
    }
    let skipped = Counted::default();
    let mut source = Hashed::new(args.trace_args.source(&args.trace, &skipped)?);
    let measured = MeasuredDemand::of(&mut source)?;
    let hash = source.hash();
    drop(source);
    skipped.report();
    let traced = Traced { name: trace_args::name(&args.trace), hash, requests: hash.requests() };
    if !args.mixed {
        return Ok((Some(measured), vec![Segment::WHOLE], Some(traced)));
    }
    if args.trace.iter().any(|path| path.as_os_str() == "-") {
        return Err(Failure::bad_input(
            "--mixed reads the trace twice, but standard input can be read only once: save it in a file",
        ));
    }
    let segments = Segment::of(&mut *args.trace_args.source(&args.trace, &skipped)?, measured.demand.capacity_mb)
        .map_err(Failure::bad_input)?;
    Ok((Some(measured), segments, Some(traced)))
}

/// What was given, else what was measured.
fn asked(args: &Args, measured: Option<MeasuredDemand>) -> Result<(Demand, Pattern), Failure> {
    let mb = |bytes: Bytes| bytes.0 as f64 / 1e6;
    let given = |of: Option<Bytes>, measured: Option<f64>| of.map(mb).or(measured).unwrap_or(0.0);
    let demand = measured.map(|measured| measured.demand);
    let demand = Demand::new(
        given(args.peak, demand.map(|d| d.peak_mb_per_s)),
        given(args.average, demand.map(|d| d.average_mb_per_s)),
        given(args.capacity, demand.map(|d| d.capacity_mb)),
    )?;
    let mut pattern = measured.map_or_else(
        || match args.workload {
            Workload::SeqRead => Pattern::large(false, 1.0),
            Workload::SeqWrite => Pattern::large(false, 0.0),
            Workload::RandRead => Pattern::large(true, 1.0),
            Workload::RandWrite => Pattern::large(true, 0.0),
            Workload::RandMixed => Pattern::large(true, 0.5),
        },
        |measured| measured.pattern,
    );
    if let Some(request) = args.request_size {
        pattern.request = request;
    }
    if let Some(depth) = args.queue_depth {
        pattern.queue_depth = depth;
    }
    if pattern.request == Bytes::ZERO || !pattern.request.is_multiple_of(Bytes(512)) {
        return Err(Failure::bad_input(format!(
            "--request-size {}: use a multiple of 512B, such as 1MiB",
            pattern.request
        )));
    }
    if !(1..=1024).contains(&pattern.queue_depth) {
        return Err(Failure::bad_input(format!("--queue-depth {}: use 1 to 1024", pattern.queue_depth)));
    }
    Ok((demand, pattern))
}

/// The figures of each device, and why some have none.
fn catalogue(args: &Args, pattern: &Pattern) -> Result<(Vec<Figures>, Vec<String>), Failure> {
    let chosen = !args.devices.is_empty();
    let names: Vec<String> =
        if chosen { args.devices.clone() } else { Profile::shipped().map(str::to_owned).collect() };
    let mut profiles = names.iter().map(|name| Profile::named(name)).collect::<Result<Vec<_>, _>>()?;
    // The models of analytic work are no devices that one could buy.
    profiles.retain(|profile| chosen || (profile.class != Class::Fixed && args.era.has(profile)));
    for text in &args.price {
        let bad = || {
            Failure::bad_input(format!(
                "--price {text}: write a device of the list and its price, such as intel-320-300gb=529"
            ))
        };
        let (name, usd) = text.split_once('=').ok_or_else(bad)?;
        let usd: f64 = usd.parse().ok().filter(|usd: &f64| usd.is_finite() && *usd >= 0.0).ok_or_else(bad)?;
        let profile = profiles.iter_mut().find(|profile| profile.name == name).ok_or_else(bad)?;
        profile.price_usd = Some(usd);
    }
    let of = if args.model { Figures::modelled } else { Figures::of };
    let results: Vec<Result<Figures, FiguresError>> = profiles.par_iter().map(|profile| of(profile, pattern)).collect();
    let (mut figures, mut left_out) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(found) => figures.push(found),
            Err(error) if chosen => return Err(Failure::bad_input(error)),
            Err(error) => left_out.push(error.to_string()),
        }
    }
    Ok((figures, left_out))
}

fn policies(policy: PolicyArg, pattern: &Pattern) -> &'static [Policy] {
    match policy {
        PolicyArg::Best if pattern.random => &[Policy::AllActive],
        PolicyArg::Best => &[Policy::Idle, Policy::Standby],
        PolicyArg::Idle => &[Policy::Idle],
        PolicyArg::Standby => &[Policy::Standby],
        PolicyArg::AllActive => &[Policy::AllActive],
    }
}

fn span(args: &Args, demand: &Demand, pattern: &Pattern, figures: &[Figures]) -> Span {
    if let Some(time) = args.run_for {
        return Span::Seconds(time.as_s_f64());
    }
    let capacity = figures.iter().all(|one| one.kind(demand) == DominantNeed::Capacity);
    match demand.time_to_finish_s() {
        Some(_) if capacity && !pattern.random && args.trace.is_empty() => Span::Once,
        _ => Span::Seconds(SECONDS_PER_YEAR),
    }
}

/// Of the fleets under each policy that may be used, the best.
#[allow(clippy::too_many_arguments)]
fn best_fleet(
    figures: &[Figures],
    demand: &Demand,
    segments: &[Segment],
    alpha: f64,
    policies: &[Policy],
    run_time_s: f64,
    prices: Prices,
    objective: Objective,
) -> Result<Fleet, energy::FleetError> {
    let mut best: Result<Fleet, _> = Err(energy::FleetError::NoDevices);
    for policy in policies {
        let found = energy::fleet(figures, demand, segments, alpha, *policy, run_time_s, prices, objective);
        let value = |fleet: &Fleet| match objective {
            Objective::Energy => fleet.energy_j,
            Objective::Cost => fleet.total_usd.unwrap_or(f64::INFINITY),
        };
        best = match (best, found) {
            (Ok(a), Ok(b)) => Ok(if value(&b) < value(&a) { b } else { a }),
            (Err(_), found) => found,
            (found, Err(_)) => found,
        };
    }
    best
}

fn shown(found: &Found) -> String {
    let Demand { peak_mb_per_s, average_mb_per_s, capacity_mb } = found.demand;
    let pattern = &found.pattern;
    let mut text = format!(
        "{} to store, {} MB/s at the peak, {} MB/s on average; {} {}, {} a request, {} at a time; over {}\n",
        data(capacity_mb),
        table::number(peak_mb_per_s),
        table::number(average_mb_per_s),
        if pattern.random { "random" } else { "sequential" },
        match pattern.read_share {
            1.0 => "reads".to_owned(),
            0.0 => "writes".to_owned(),
            share => format!("accesses, {} % of them reads", table::number(share * 100.0)),
        },
        pattern.request,
        pattern.queue_depth,
        time(found.run_time_s),
    );
    let others: Vec<String> =
        found.other_request_sizes.iter().map(|other| format!("N at\n{}", other.request)).collect();
    let mut header = vec!["device", "asks for", "N"];
    header.extend(others.iter().map(String::as_str));
    header.extend([
        "busy",
        "others",
        "MB/s",
        "busy W",
        "mean W",
        "kWh",
        "buy USD",
        "run USD",
        "greener if",
        "cheaper if",
    ]);
    let mut rows = table::figures(&header);
    for row in &found.devices {
        let mut cells = vec![
            format!("{}{}", row.figures.device, if row.figures.source == Source::Model { " *" } else { "" }),
            match row.kind {
                DominantNeed::Capability => "speed".to_owned(),
                DominantNeed::Capacity => "room".to_owned(),
            },
            row.devices.to_string(),
        ];
        let at = |other: &OtherSize| other.devices.get(&row.figures.device).map(u64::to_string);
        cells.extend(found.other_request_sizes.iter().map(|other| at(other).unwrap_or_else(|| table::NONE.to_owned())));
        cells.extend([
            table::number(row.busy_devices),
            policy(row.policy).to_owned(),
            table::number(row.figures.bandwidth_mb_per_s),
            table::number(row.figures.busy_w),
            table::number(row.mean_power_w),
            table::number(row.energy_j / 3.6e6),
            table::optional(row.devices_usd),
            table::number(row.energy_usd),
            when(row.greener_when),
            when(row.cheaper_when),
        ]);
        rows.add_row(cells);
    }
    text += &table::shown(&rows);
    text += &estimates(found);
    text +=
        "N: devices of a kind; greener if, cheaper if: the run times for which it beats the greenest or the cheapest\n";
    if found.devices.iter().any(|row| row.figures.source == Source::Model) {
        text += "* bandwidth and busy power are from Peryton's model\n";
    }
    for assumption in &found.assumptions {
        text += &format!("Assumed: {assumption}\n");
    }
    if let Some(trace) = &found.trace {
        let version = found.peryton_version;
        text +=
            &format!("Trace: {}, {} requests, hash {}; Peryton {version}\n", trace.name, trace.requests, trace.hash);
    }
    let rests = found.devices.iter().filter(|row| row.policy != Policy::AllActive);
    for (row, seconds) in rests.filter_map(|row| Some((row, row.standby_pays_after_s?))) {
        text += &format!("standby pays for {} after a rest of {}\n", row.figures.device, time(seconds));
    }
    for fleet in &found.fleets {
        let what = match fleet.objective {
            Objective::Energy => "least energy",
            Objective::Cost => "least cost",
        };
        let members = fleet.members.iter().map(|member| {
            format!(
                "{} × {} ({} % of the data, {} % of the accesses)",
                member.devices,
                member.device,
                table::number(member.data_share * 100.0),
                table::number(member.access_share * 100.0)
            )
        });
        text += &format!(
            "any mix, {what}: {}; the others {}; {} W, {} kWh, {} USD in all\n",
            members.collect::<Vec<_>>().join(" + "),
            policy(fleet.policy),
            table::number(fleet.mean_power_w),
            table::number(fleet.energy_j / 3.6e6),
            table::optional(fleet.total_usd),
        );
    }
    text
}

/// Which rows rest on estimates, and which of those decide.
fn estimates(found: &Found) -> String {
    let unsure = |row: &&Ranked| !row.figures.estimates.is_empty();
    let names: Vec<&str> = found.devices.iter().filter(unsure).map(|row| row.figures.device.as_str()).collect();
    if names.is_empty() {
        return String::new();
    }
    let mut text = format!("Rest on estimates: {} (peryton devices NAME --values)\n", names.join(", "));
    for one in &found.decisive_estimates {
        text += &format!(
            "! {} of {} {:+.0} % would put {} first; it rests on {}\n",
            one.figure,
            one.device,
            one.off_by * 100.0,
            one.first,
            some(&one.estimates),
        );
    }
    if found.decisive_estimates.is_empty() {
        text += "None of these estimates would put another device first if it were 30 % off\n";
    }
    text
}

/// The first few, and how many more.
fn some(paths: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown = paths.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if paths.len() > SHOWN { format!("{shown} and {} more estimates", paths.len() - SHOWN) } else { shown }
}

fn policy(policy: Policy) -> &'static str {
    match policy {
        Policy::Idle => "idle",
        Policy::Standby => "standby",
        Policy::AllActive => "active",
    }
}

fn when(break_even: Option<BreakEven>) -> String {
    match break_even {
        None => table::NONE.to_owned(),
        Some(BreakEven::Always) => "always".to_owned(),
        Some(BreakEven::Never) => "never".to_owned(),
        Some(BreakEven::LongerThan(seconds)) => format!("after {}", time(seconds)),
        Some(BreakEven::ShorterThan(seconds)) => format!("before {}", time(seconds)),
    }
}

/// In the largest unit that leaves one before the point.
fn time(seconds: f64) -> String {
    let units = [(SECONDS_PER_YEAR, "y"), (86_400.0, "d"), (3_600.0, "h"), (60.0, "min")];
    let (unit, name) = units.into_iter().find(|(unit, _)| seconds >= *unit).unwrap_or((1.0, "s"));
    format!("{} {name}", table::number(seconds / unit))
}

fn data(mb: f64) -> String {
    let units = [(1e9, "PB"), (1e6, "TB"), (1e3, "GB")];
    let (unit, name) = units.into_iter().find(|(unit, _)| mb >= *unit).unwrap_or((1.0, "MB"));
    format!("{} {name}", table::number(mb / unit))
}

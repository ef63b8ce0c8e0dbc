//! `peryton energy`: which devices need the least energy, and which the least money.

use std::path::PathBuf;

use peryton_device::Era;
use peryton_plan::energy::{
    Accesses, Answer, BreakEven, Demand, DominantNeed, Objective, Order, OtherSize, Policy, Question, QuestionError,
    Ranked, Source, Unneeded, Zone,
};
use peryton_sim::TraceFactory;
use peryton_units::{Bytes, Nanos, SECONDS_PER_YEAR};

use crate::{
    failure::Failure,
    output, page,
    table::{self, Column, Table},
    terminal,
    trace_args::{self, Counted, TraceArgs},
    verbs::plan::protection::failure_rates,
};

/// Options of `peryton energy`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The models are those of \"Which Storage Device is the Greenest?\" (Li and Long), equations (2)-(7). MB are 10^6 bytes.

Archive 12 TB, written once at 50 MB/s:
  peryton energy --peak 50MB --average 50MB --capacity 12TB --workload seq-write
A file server that reads 20 MB/s on average and 400 MB/s at most, for five years, and the best mix of devices for it:
  peryton energy --peak 400MB --average 20MB --capacity 4TB --workload rand-read --for 5y --mixed")]
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
    /// Tracks of a disk on which sequential accesses lie
    #[arg(long, value_enum, default_value_t = ZoneArg::Head)]
    zone: ZoneArg,
    /// Size of a request [default: the trace's, or 1MiB]
    ///
    /// Size of a request, such as 64KiB [default: the trace's, or 1MiB as in the paper; random accesses are then also shown with
    /// other sizes].
    #[arg(long, alias = "request", value_name = "SIZE")]
    request_size: Option<Bytes>,
    /// Requests in flight on a device [default: by the workload]
    ///
    /// Number of requests in flight on a device [default: 1 for random accesses, 8 for sequential ones, 32 for a trace's random
    /// accesses].
    #[arg(long, value_name = "N")]
    queue_depth: Option<u32>,
    /// Take the load from a trace, where the options above do not give it
    ///
    /// Take the load from a trace, or from a specification of one. Options of the load that are given have precedence.
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// Profiles: names or files [default: all of the era with power figures]
    ///
    /// Devices: names of profiles, or paths of your own files [default: every profile of the era with power figures].
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', help_heading = "Devices and prices")]
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
    /// Annual failure rate of a device, in place of its profile's
    #[arg(long, value_name = "NAME=PERCENT", help_heading = "Devices and prices")]
    afr: Vec<String>,
    /// Active devices for each needed device
    ///
    /// Power management efficiency: the number of active devices for each needed device.
    #[arg(long, value_name = "X", default_value_t = 1.0, help_heading = "Devices and prices")]
    alpha: f64,
    /// State of idle devices
    ///
    /// State of the devices that the average bandwidth does not need.
    #[arg(long, value_enum, default_value_t = PolicyArg::Best, help_heading = "Devices and prices")]
    policy: PolicyArg,
    /// Run time, such as 5y [default: by the workload, or 1y]
    ///
    /// Run time, such as 5y [default: until the data have been moved once, or 1y if bandwidth decides or accesses are random].
    #[arg(long = "for", value_name = "TIME", help_heading = "Devices and prices")]
    run_for: Option<Nanos>,
    /// Price of electricity, USD per kWh
    #[arg(long, value_name = "USD", default_value_t = 0.12, help_heading = "Devices and prices")]
    electricity: f64,
    /// Power of the shelf for each device, in W
    ///
    /// Power of the shelf for each device (fans, expanders, losses of power supplies), in W; counts in the cost over five years
    /// and in --emerald.
    #[arg(long, value_name = "W", default_value_t = 0.0, help_heading = "Devices and prices")]
    shelf_power: f64,
    /// Use the models' figures where published ones exist
    ///
    /// Use bandwidth and busy power of Peryton's models even if published figures exist.
    #[arg(long, help_heading = "Devices and prices")]
    model: bool,
    /// Also print SNIA's Emerald ratios (a few seconds)
    ///
    /// Also print capacity per idle watt and operations per watt, as SNIA's Emerald defines them (a few seconds).
    #[arg(long, help_heading = output::GROUP)]
    emerald: bool,
    /// Order of the list
    #[arg(long, value_enum, default_value_t = By::Energy, help_heading = output::GROUP)]
    by: By,
    /// Also find the best mix of devices
    #[arg(long, help_heading = output::GROUP)]
    mixed: bool,
    /// Write a page with charts (- for standard output)
    ///
    /// Write the result as a self-contained HTML page with charts to a file (- for standard output, in place of the table).
    #[arg(long, value_name = "OUT.html", help_heading = output::GROUP)]
    report: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = output::GROUP)]
    json: bool,
    #[command(flatten, next_help_heading = crate::cli::READING)]
    trace_args: TraceArgs,
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
enum ZoneArg {
    /// The outermost, the fastest
    Head,
    /// The innermost, the slowest
    Tail,
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

/// Ranks and prints.
pub fn run(args: Args) -> Result<(), Failure> {
    let report_to_stdout = output::report_to_stdout(args.report.as_deref(), args.json)?;
    let question = question(&args)?;
    question.check()?;
    let skipped = Counted::default();
    let mut trace = None;
    if !args.trace.is_empty() {
        let from_stdin = args.trace.iter().any(|path| path.as_os_str() == "-");
        if from_stdin && args.mixed {
            return Err(Failure::bad_input(
                "--mixed reads the trace twice, but standard input can be read only once: save it in a file",
            ));
        }
        // A specification from which no trace can be drawn is reported as such.
        if !from_stdin {
            args.trace_args.source(&args.trace, &skipped)?;
        }
        trace = Some(trace_args::name(&args.trace));
    }
    let open = || args.trace_args.again(&args.trace, &skipped);
    let mut found = question.answer(trace.as_deref().map(|name| (name, &open as &TraceFactory<'_>)))?;
    skipped.report();
    found.command = Some(page::command_line());
    for error in &found.no_fleet {
        terminal::remark(&format!("--mixed: {error}"));
    }
    if let Some(path) = &args.report {
        let by = if args.by == By::Cost { "cost" } else { "energy" };
        output::write(path, page::ranking(&found, (&devices(&found), &owned(&found)), by, &page::command_line()))?;
    }
    output::print_result(&found, args.json, report_to_stdout, || shown(&found))
}

impl From<QuestionError> for Failure {
    fn from(error: QuestionError) -> Failure {
        Failure::bad_input(error)
    }
}

fn question(args: &Args) -> Result<Question, Failure> {
    Ok(Question {
        peak: args.peak,
        average: args.average,
        capacity: args.capacity,
        accesses: match args.workload {
            Workload::SeqRead => Accesses::SeqRead,
            Workload::SeqWrite => Accesses::SeqWrite,
            Workload::RandRead => Accesses::RandRead,
            Workload::RandWrite => Accesses::RandWrite,
            Workload::RandMixed => Accesses::RandMixed,
        },
        zone: match args.zone {
            ZoneArg::Head => Zone::Head,
            ZoneArg::Tail => Zone::Tail,
        },
        request_size: args.request_size,
        queue_depth: args.queue_depth,
        devices: args.devices.clone(),
        era: args.era.clone(),
        prices: args.price.iter().map(|text| price(text)).collect::<Result<_, _>>()?,
        failure_rates: failure_rates(&args.afr)?,
        alpha: args.alpha,
        unneeded: match args.policy {
            PolicyArg::Best => Unneeded::Best,
            PolicyArg::Idle => Unneeded::Always(Policy::Idle),
            PolicyArg::Standby => Unneeded::Always(Policy::Standby),
            PolicyArg::AllActive => Unneeded::Always(Policy::AllActive),
        },
        run_for: args.run_for,
        usd_per_kwh: args.electricity,
        shelf_w_per_device: args.shelf_power,
        emerald: args.emerald,
        order: if args.by == By::Cost { Order::Cost } else { Order::Energy },
        model: args.model,
        mixed: args.mixed,
    })
}

/// A device and its price.
fn price(text: &str) -> Result<(String, f64), Failure> {
    let one = || {
        let (name, usd) = text.split_once('=')?;
        Some((name.to_owned(), usd.parse().ok()?))
    };
    one().ok_or_else(|| {
        let remedy = "write a device of the list and its price, such as intel-320-300gb=529";
        Failure::bad_input(format!("--price {text}: {remedy}"))
    })
}

fn shown(found: &Answer) -> String {
    let Demand { peak_mb_per_s, average_mb_per_s, capacity_mb } = found.demand;
    let pattern = &found.pattern;
    let mut text = format!(
        "{} to store, {} MB/s at the peak, {} MB/s on average; {} {}{}, {} a request, {} at a time; over {}\n",
        data(capacity_mb),
        table::number(peak_mb_per_s),
        table::number(average_mb_per_s),
        if pattern.random { "random" } else { "sequential" },
        match pattern.read_share {
            1.0 => "reads".to_owned(),
            0.0 => "writes".to_owned(),
            share => format!("accesses, {} % of them reads", table::number(share * 100.0)),
        },
        if pattern.zone == Zone::Tail { " on a disk's innermost tracks" } else { "" },
        pattern.request,
        pattern.queue_depth,
        time(found.run_time_s),
    );
    text += &devices(found).shown();
    text += &specified(found);
    if let Some((about, rows)) = owned(found) {
        text += &format!("{about}:\n{}", rows.shown());
    }
    text += &emerald(found);
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

/// A row for each kind of device.
fn devices(found: &Answer) -> Table {
    let others: Vec<String> =
        found.other_request_sizes.iter().map(|other| format!("N at\n{}", other.request)).collect();
    let figures = |(title, matters)| Column::figures(title, matters);
    let mut header = vec![Column::names("device", 9)];
    header.extend([("asks for", 5), ("N", 9)].map(figures));
    header.extend(others.iter().map(|title| Column::figures(title, 4)));
    header.extend([("busy", 2), ("others", 3), ("MB/s", 2), ("busy W", 1), ("mean W", 6), ("kWh", 9)].map(figures));
    header.extend([("buy USD", 8), ("run USD", 8), ("greener if", 7), ("cheaper if", 7)].map(figures));
    let mut rows = Table::of(header);
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
    rows
}

/// What makers state beside what was measured, as the paper's tables have it.
fn specified(found: &Answer) -> String {
    let both: Vec<_> = found.devices.iter().filter_map(|row| Some((row, row.figures.specified?))).collect();
    if both.is_empty() {
        return String::new();
    }
    let mut rows = table::figures(&[
        "device",
        "D_b\nMB/s",
        "by its\nmaker",
        "P_b\nW",
        "by its\nmaker",
        "P_i\nW",
        "by its\nmaker",
        "P_b/D_b\nmWs/MB",
        "by its\nmaker",
        "(P_b-P_i)/D_b\nmWs/MB",
        "by its\nmaker",
    ]);
    for (row, stated) in both {
        let (figures, properties) = (&row.figures, &row.properties);
        let bandwidth = stated.bandwidth_mb_per_s;
        let pairs = [
            (figures.bandwidth_mb_per_s, bandwidth),
            (figures.busy_w, stated.busy_w),
            (figures.idle_w, stated.idle_w),
            (properties.busy_over_bandwidth * 1e3, stated.busy_w / bandwidth * 1e3),
            (properties.above_idle_over_bandwidth * 1e3, (stated.busy_w - stated.idle_w) / bandwidth * 1e3),
        ];
        let mut cells = vec![figures.device.clone()];
        cells.extend(pairs.into_iter().flat_map(|(measured, stated)| [measured, stated]).map(table::number));
        rows.add_row(cells);
    }
    format!("Measured figures, and those of the maker (the ranking uses the measured ones):\n{}", rows.shown())
}

/// What each kind costs over the years.
fn owned(found: &Answer) -> Option<(String, Table)> {
    let years = found.ownership.values().next()?.years;
    let figures = |(title, matters)| Column::figures(title, matters);
    let mut header = vec![Column::names("device", 9)];
    header.extend([("N", 9), ("buy USD", 8), ("rated years", 2), ("worn out", 1), ("worn USD", 6)].map(figures));
    header.extend([("fail", 1), ("failed USD", 6), ("power USD", 7), ("total USD", 9)].map(figures));
    let mut rows = Table::of(header);
    for row in &found.devices {
        let Some(cost) = found.ownership.get(&row.figures.device) else { continue };
        rows.add_row(vec![
            row.figures.device.clone(),
            row.devices.to_string(),
            table::optional(row.devices_usd),
            table::optional(cost.lifetime_rated_years),
            cost.replaced.to_string(),
            table::optional(cost.replacement_usd),
            table::optional(cost.failed),
            table::optional(cost.failures_usd),
            table::number(cost.energy_usd),
            table::optional(cost.total_usd),
        ]);
    }
    let about = format!(
        "Over {} years of this load, with {} W of a shelf for each device; rated years: until the bytes that its maker allows are written; fail: expected number at the annual failure rates (--afr)",
        table::number(years),
        table::number(found.shelf_w_per_device)
    );
    Some((about, rows))
}

/// The ratios of Emerald.
fn emerald(found: &Answer) -> String {
    if found.emerald.is_empty() {
        return String::new();
    }
    let mut rows = table::figures(&[
        "device",
        "idle\nGB/W",
        "rand. read\nIO/s/W",
        "rand. write\nIO/s/W",
        "seq. read\nMiB/s/W",
        "seq. write\nMiB/s/W",
    ]);
    for row in &found.devices {
        let Some(ratios) = found.emerald.get(&row.figures.device) else { continue };
        rows.add_row(vec![
            row.figures.device.clone(),
            table::number(ratios.idle_gb_per_w),
            table::number(ratios.random_read_iops_per_w),
            table::number(ratios.random_write_iops_per_w),
            table::number(ratios.sequential_read_mib_per_s_per_w),
            table::number(ratios.sequential_write_mib_per_s_per_w),
        ]);
    }
    format!(
        "SNIA Emerald's ratios, from data sheets and models (8 KiB at random, 256 KiB one after the other); no certified measurement:\n{}",
        rows.shown()
    )
}

/// Which rows rest on estimates, and which of those decide.
fn estimates(found: &Answer) -> String {
    let unsure = |row: &&Ranked| !row.figures.estimates.is_empty();
    let names: Vec<&str> = found.devices.iter().filter(unsure).map(|row| row.figures.device.as_str()).collect();
    if names.is_empty() {
        return String::new();
    }
    let mut text = format!("Rest on estimates: {} (peryton profiles NAME --values)\n", names.join(", "));
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

//! `peryton sim`: a trace on one or several designs.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use peryton_device::flash::Images;
use peryton_sim::{Design, DeviceReport, FtlReport, LatencySummary, LoggingStats, Options, Report, SimError};
use peryton_units::Bytes;

use crate::{
    failure::Failure,
    output, page,
    replay_args::ReplayArgs,
    table,
    trace_args::{self, Counted, TraceArgs},
};

/// Options of `peryton sim`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Design files
    #[arg(required = true, value_name = "DESIGN.toml")]
    designs: Vec<PathBuf>,
    /// The trace; several are merged by time, and from a specification (.toml) a trace is drawn
    #[arg(long, required = true, value_name = "FILE")]
    trace: Vec<PathBuf>,
    #[command(flatten)]
    trace_args: TraceArgs,
    #[command(flatten)]
    replay_args: ReplayArgs,
    /// Set a key of the designs, such as placement.promotion.threshold=1
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write the reports as JSON to a file (- for standard output, in place of the table)
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
    /// Write the reports as a self-contained HTML page to a file (- for standard output, in place of the table)
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
}

/// The most memory for the state of flash at the beginning of simulations.
const IMAGES: Bytes = Bytes::gib(1);

/// Replays and reports.
pub fn run(args: Args) -> Result<(), Failure> {
    let options = args.replay_args.options()?;
    if let (Some(report), Some(json)) = (&args.report, &args.json)
        && output::is_stdout(report)
        && output::is_stdout(json)
    {
        return Err(Failure::bad_input(
            "--report - --json -: standard output takes one of them: give the other a file",
        ));
    }
    let designs = designs(&args)?;
    let from_stdin = args.trace.iter().any(|path| path.as_os_str() == "-");
    if from_stdin && designs.len() > 1 {
        return Err(Failure::bad_input(
            "--trace -: standard input can be read only once: save the trace in a file, or give one design",
        ));
    }
    let skipped = Counted::default();
    // A specification from which no trace can be drawn is reported before the simulations start; a trace is not opened twice from
    // a pipe.
    if !from_stdin {
        args.trace_args.source(&args.trace, &skipped)?;
    }
    let mut reports = simulate(&designs, &args, &options, &skipped)?;
    skipped.report();
    for report in &mut reports {
        report.command = Some(page::command_line());
    }
    if let Some(path) = &args.report {
        output::write(path, page::simulation(&reports, &page::command_line()))?;
        if output::is_stdout(path) {
            return Ok(());
        }
    }
    match &args.json {
        Some(path) if output::is_stdout(path) => return output::write_json(path, &reports),
        Some(path) => output::write_json(path, &reports)?,
        None => {}
    }
    output::print(&(shown(&reports) + &shown_logs(&reports)))
}

fn designs(args: &Args) -> Result<Vec<Design>, Failure> {
    let load = |path: &PathBuf| Design::load(path, &args.set);
    let mut designs = args.designs.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    if designs.len() > 1 {
        // Designs that are compared often have the same flash.
        let images = Arc::new(Images::new(IMAGES));
        designs.iter_mut().for_each(|design| design.images = Some(Arc::clone(&images)));
    }
    for (index, text) in args.set.iter().enumerate() {
        if designs.iter().all(|design| design.ignored_overrides.contains(&index)) {
            return Err(Failure::bad_input(format!("--set {text}: does not apply to any of the designs: remove it")));
        }
    }
    Ok(designs)
}

fn simulate(designs: &[Design], args: &Args, options: &Options, skipped: &Counted) -> Result<Vec<Report>, Failure> {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {human_pos} requests simulated, {per_sec}")
        .expect("the template is a constant");
    bar.set_style(style);
    bar.enable_steady_tick(Duration::from_millis(100));
    let so_far: Vec<AtomicU64> = designs.iter().map(|_| AtomicU64::new(0)).collect();
    let progress = |design: usize, requests: u64| {
        let before = so_far[design].swap(requests, Relaxed);
        bar.inc(requests.saturating_sub(before));
    };
    let trace = || args.trace_args.again(&args.trace, skipped);
    let result = peryton_sim::run(designs, &trace_args::name(&args.trace), &trace, options, &progress);
    bar.finish_and_clear();
    result.map_err(|error: SimError| error.into())
}

const RATES: &[&str] = &["design", "IOPS", "MiB/s"];
const RESPONSES: &[&str] = &["read ms\nmean", "\np50", "\np99", "write ms\nmean", "\np50", "\np99"];
/// Where a trace has flushes.
const FLUSHES: &[&str] = &["flush ms\nmean", "\np99", "write+\nflush ms"];
const COSTS: &[&str] = &[
    "fast\nhit %",
    "moves",
    "energy\nJ",
    "power\nW",
    "standby\n%",
    "SSD wear\neu",
    "lifetime\nyears",
    "\nrated",
    "\nphysical",
];

fn shown(reports: &[Report]) -> String {
    let flushes = reports.iter().any(|report| report.latency_us.flush.is_some());
    let header = [RATES, RESPONSES, if flushes { FLUSHES } else { &[] }, COSTS].concat();
    let mut table = table::figures(&header);
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
        row.push(moves.map_or_else(|| table::NONE.to_owned(), |moves| moves.to_string()));
        row.push(table::optional(report.energy_j));
        row.push(table::optional(report.mean_power_w));
        row.push(table::percent(standby_share(report)));
        row.push(table::optional(ssd_wear_eu(report)));
        row.push(table::optional(report.lifetime_years));
        row.push(table::optional(report.lifetime_rated_years));
        row.push(table::optional(report.lifetime_physical_years));
        table.add_row(row);
    }
    table::shown(&table) + &notes(reports, flushes)
}

/// What the figures rest on, and what makes them mislead.
fn notes(reports: &[Report], flushes: bool) -> String {
    let mut text = String::new();
    if let Some(first) = reports.first() {
        let warmed = match (first.warm_up, first.warm_up_requests) {
            (true, 0) => ", map filled before".to_owned(),
            (_, 0) => String::new(),
            (_, requests) => format!(", after {requests} requests of warm-up"),
        };
        let span = table::number(first.simulated_s);
        text += &format!(
            "\n{} requests in {span} s of {}, replayed {}{warmed}; trace {}, Peryton {}\n",
            first.requests, first.trace, first.replay, first.trace_hash, first.peryton_version
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
    for warned in peryton_sim::warned(reports) {
        text += &format!("! {warned}\n");
    }
    text
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

/// What logs spared their primaries; nothing where no design has one.
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
    if table.row_count() == 0 { String::new() } else { format!("\n{}", table::shown(&table)) }
}

/// Mean, median and p99; the others are on the page and in the JSON.
fn latency(summary: Option<&LatencySummary>) -> [String; 3] {
    let ms = |us: fn(&LatencySummary) -> f64| table::optional(summary.map(|summary| us(summary) / 1e3));
    [ms(|s| s.mean), ms(|s| s.p50), ms(|s| s.p99)]
}

/// The share of the measured span that the devices which can stand by did so.
fn standby_share(report: &Report) -> Option<f64> {
    let spans: Vec<f64> = report.devices.iter().filter_map(|(_, device)| device.standby_s).collect();
    let whole = report.simulated_s * spans.len() as f64;
    (whole > 0.0).then(|| spans.iter().sum::<f64>() / whole)
}

/// Of the most worn device that is no disk.
fn ssd_wear_eu(report: &Report) -> Option<f64> {
    let is_flash = |device: &&DeviceReport| device.start_stops.is_none();
    let wear = report.devices.iter().map(|(_, device)| device).filter(is_flash).filter_map(|device| device.wear_eu);
    wear.max_by(f64::total_cmp)
}

//! Simulates power losses until a time budget is spent: `make torture SECONDS=60 SEEDS=0..1000000`.

use std::{fmt::Debug, io::Write, ops::Range, process::ExitCode, time::Duration};

use clap::Parser;
use peryton_crash::{Ends, Failing, Kind, Options, run, torture};
use peryton_engine::{AdmitBy, Fill, Replacement};

/// Simulates power losses, process deaths and device failures, and checks every read against a correct disk
#[derive(Parser)]
struct Arguments {
    /// Stop after this many seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Run these seeds: one (5) or a range (0..1000)
    #[arg(long, default_value = "0..18446744073709551615", value_parser = seeds)]
    seeds: Range<u64>,
    /// Run only this placement
    #[arg(long, value_parser = kind)]
    placement: Option<Kind>,
    /// Whether devices fail as well as the power; if absent, the seed decides
    #[arg(long)]
    faults: Option<bool>,
    /// How devices fail where they fail; the seed decides if not given
    #[arg(long, value_parser = failing)]
    failing: Option<Failing>,
    /// Run with this replacement policy; if absent, the seed chooses among the older ones
    #[arg(long, value_parser = replacement)]
    replacement: Option<Replacement>,
    /// Run with this admission rule (caching); if absent, the seed chooses among the older ones
    #[arg(long, value_parser = admission)]
    admission: Option<AdmitBy>,
    /// What of an extent is brought in (caching, partitioned); the seed decides if not given
    #[arg(long, value_parser = fill)]
    fill: Option<Fill>,
    /// Whether the fast device has room for snapshots of what the cache has learnt; the seed decides if not given
    #[arg(long)]
    room: Option<bool>,
    /// Let half of the requests come in groups: a part of an extent is written, others are read, then all of it is written
    #[arg(long)]
    grouped: bool,
    /// Whether devices are replaced while the volume is served; the seed decides if not given
    #[arg(long)]
    replaces: Option<bool>,
    /// Whether devices grow and shrink while the volume is served; the seed decides if not given
    #[arg(long)]
    resizes: Option<bool>,
    /// Whether devices come back and leave while the volume is served; the seed decides if not given
    #[arg(long)]
    returns: Option<bool>,
    /// How runs come to their end: the power goes, the process dies, or both; the seed decides if not given
    #[arg(long, value_parser = ends)]
    ends: Option<Ends>,
    /// Print each step (best with one seed)
    #[arg(long)]
    verbose: bool,
    /// Stop after this many failures
    #[arg(long, default_value_t = 3)]
    failures: usize,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| format!("'{text}' is not a seed"));
    match text.split_once("..") {
        None => number(text).map(|seed| seed..seed.saturating_add(1)),
        Some((from, to)) => Ok(number(from)?..number(to)?),
    }
}

fn kind(text: &str) -> Result<Kind, String> {
    let known = Kind::ALL.into_iter().find(|kind| kind.name() == text);
    known.ok_or_else(|| format!("use one of {}", Kind::ALL.map(Kind::name).join(", ")))
}

fn replacement(text: &str) -> Result<Replacement, String> {
    let known = Replacement::ALL.into_iter().find(|(name, _)| *name == text);
    known
        .map(|(_, policy)| policy)
        .ok_or_else(|| format!("use one of {}", Replacement::ALL.map(|(name, _)| name).join(", ")))
}

fn admission(text: &str) -> Result<AdmitBy, String> {
    let known = AdmitBy::ALL.into_iter().find(|(name, _)| *name == text);
    known.map(|(_, by)| by).ok_or_else(|| format!("use one of {}", AdmitBy::ALL.map(|(name, _)| name).join(", ")))
}

fn fill(text: &str) -> Result<Fill, String> {
    let known = Fill::ALL.into_iter().find(|(name, _)| *name == text);
    known.map(|(_, fill)| fill).ok_or_else(|| format!("use one of {}", Fill::ALL.map(|(name, _)| name).join(", ")))
}

fn failing(text: &str) -> Result<Failing, String> {
    one_of(Failing::ALL, text)
}

fn ends(text: &str) -> Result<Ends, String> {
    one_of(Ends::ALL, text)
}

/// The one of these values whose name in Rust, in small letters, this is.
fn one_of<T: Debug, const COUNT: usize>(all: [T; COUNT], text: &str) -> Result<T, String> {
    let name = |one: &T| format!("{one:?}").to_lowercase();
    let names = all.each_ref().map(name).join(", ");
    all.into_iter().find(|one| name(one) == text).ok_or_else(|| format!("use one of {names}"))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let log: Option<fn(&str)> = if arguments.verbose { Some(|line| println!("{line}")) } else { None };
    let options = Options {
        kind: arguments.placement,
        faults: arguments.faults,
        failing: arguments.failing,
        replacement: arguments.replacement,
        admission: arguments.admission,
        fill: arguments.fill,
        room: arguments.room,
        grouped: arguments.grouped,
        replaces: arguments.replaces,
        resizes: arguments.resizes,
        returns: arguments.returns,
        ends: arguments.ends,
        log,
    };
    // A panic of the engine is a result here: `run` reports it, so the default message is suppressed.
    if !arguments.verbose {
        std::panic::set_hook(Box::new(|_| {}));
    }
    if arguments.verbose {
        for seed in arguments.seeds {
            if let Err(error) = run(seed, &options) {
                println!("seed {seed} fails: {error}");
                return ExitCode::FAILURE;
            }
        }
        return ExitCode::SUCCESS;
    }
    let budget = Duration::from_secs(arguments.seconds);
    let first = arguments.seeds.start;
    let mut shown_at = Duration::ZERO;
    let result = torture(arguments.seeds, &options, Some(budget), arguments.failures, |so_far| {
        if so_far.elapsed >= shown_at + Duration::from_secs(10) {
            shown_at = so_far.elapsed;
            let (points, seconds) = (so_far.outcome.crash_points, so_far.elapsed.as_secs());
            let _ = writeln!(std::io::stderr(), "{seconds} s: {points} crash points, {} seeds", so_far.seeds);
        }
    });
    let done = &result.outcome;
    let seconds = result.elapsed.as_secs_f64();
    println!("seeds {first}..{} in {seconds:.1} s", first + result.seeds);
    println!("  {:>12} crash points ({:.0} a minute)", done.crash_points, done.crash_points as f64 / seconds * 60.0);
    println!("  {:>12} of them deaths of the process", done.process_deaths);
    println!("  {:>12} of them during recovery or closing", done.recoveries_cut_short);
    println!("  {:>12} generations", done.generations);
    println!("  {:>12} commands", done.commands);
    println!("  {:>12} flushes that failed and lost something", done.flushes_lost);
    println!("  {:>12} reads of the host checked", done.reads);
    println!("  {:>12} sectors checked after crashes", done.sectors);
    println!("  {:>12} commits, {} checkpoints, {} moves", done.commits, done.checkpoints, done.moves);
    println!("  {:>12} commits replayed", done.commits_replayed);
    println!("  {:>12} devices replaced in service", done.successions);
    println!("  {:>12} devices resized in service", done.resizes);
    println!("  {:>12} devices back in service", done.returns);
    println!("  {:>12} devices evacuated", done.evacuations);
    for (seed, error) in &result.failures {
        println!("seed {seed} fails: {error}");
        println!("  step by step: make torture SEEDS={seed}");
    }
    if result.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

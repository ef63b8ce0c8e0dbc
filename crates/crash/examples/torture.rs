//! Simulates power losses until a time budget is spent: `make torture SECONDS=60 SEEDS=0..1000000`.

use std::{fmt::Debug, io::Write, ops::Range, process::ExitCode, time::Duration};

use clap::Parser;
use peryton_crash::{Ends, Failing, Kind, Options, Scenario, Torture, run, torture};
use peryton_engine::{AdmitBy, Replacement};

/// Simulates power losses, process deaths and device failures, and checks every read against a correct disk
#[derive(Parser)]
struct Arguments {
    /// Stop after this many seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Run these seeds: one (5) or a range (0..1000)
    #[arg(long, default_value = "0..18446744073709551615", value_parser = seeds)]
    seeds: Range<u64>,
    /// Make runs of this kind, or of each in turn (each); other options narrow it further
    #[arg(long, default_value = "drawn", value_parser = scenarios)]
    scenario: Scenarios,
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

/// So many seeds of a scenario are run before the next one's turn, if there are several.
const TURN: u64 = 256;

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| format!("'{text}' is not a seed"));
    match text.split_once("..") {
        None => number(text).map(|seed| seed..seed.saturating_add(1)),
        Some((from, to)) => Ok(number(from)?..number(to)?),
    }
}

/// The kinds of runs that were asked for.
#[derive(Clone, Debug)]
struct Scenarios(Vec<Scenario>);

fn scenarios(text: &str) -> Result<Scenarios, String> {
    if text == "each" {
        return Ok(Scenarios(Scenario::ALL.to_vec()));
    }
    let known = Scenario::named(text).map_err(|error| format!("{error}, or each"));
    known.map(|scenario| Scenarios(vec![scenario]))
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
    let narrowed = |scenario: &Scenario| {
        let of = scenario.options;
        Options {
            kind: arguments.placement.or(of.kind),
            faults: arguments.faults.or(of.faults),
            failing: arguments.failing.or(of.failing),
            replacement: arguments.replacement.or(of.replacement),
            admission: arguments.admission.or(of.admission),
            past_hits: of.past_hits,
            room: arguments.room.or(of.room),
            grouped: arguments.grouped || of.grouped,
            beside: of.beside,
            large_map: of.large_map,
            shares_log: of.shares_log,
            replaces: arguments.replaces.or(of.replaces),
            resizes: arguments.resizes.or(of.resizes),
            returns: arguments.returns.or(of.returns),
            ends: arguments.ends.or(of.ends),
            log,
        }
    };
    let scenarios = &arguments.scenario.0;
    // A panic of the engine is a result here: `run` reports it, so the default message is suppressed.
    if !arguments.verbose {
        std::panic::set_hook(Box::new(|_| {}));
    }
    if arguments.verbose {
        for (seed, scenario) in arguments.seeds.flat_map(|seed| scenarios.iter().map(move |scenario| (seed, scenario)))
        {
            if let Err(error) = run(seed, &narrowed(scenario)) {
                println!("seed {seed} fails: {error}");
                return ExitCode::FAILURE;
            }
        }
        return ExitCode::SUCCESS;
    }
    let budget = Duration::from_secs(arguments.seconds);
    let Range { start: first, end } = arguments.seeds;
    let turn = if scenarios.len() > 1 { TURN } else { end };
    let (mut sum, mut from, mut shown_at, mut failed) = (Torture::default(), first, Duration::ZERO, Vec::new());
    'all: while from < end {
        let to = end.min(from.saturating_add(turn));
        for scenario in scenarios {
            let Some(left) = budget.checked_sub(sum.elapsed).filter(|left| !left.is_zero()) else { break 'all };
            let most = arguments.failures - failed.len();
            let result = torture(from..to, &narrowed(scenario), Some(left), most, |so_far| {
                let elapsed = sum.elapsed + so_far.elapsed;
                if elapsed >= shown_at + Duration::from_secs(10) {
                    shown_at = elapsed;
                    let (points, seconds) = (sum.outcome.crash_points + so_far.outcome.crash_points, elapsed.as_secs());
                    let _ = writeln!(
                        std::io::stderr(),
                        "{seconds} s: {points} crash points, {} runs",
                        sum.seeds + so_far.seeds
                    );
                }
            });
            sum.count(&result);
            failed.extend(result.failures.into_iter().map(|(seed, error)| (scenario.name, seed, error)));
            if failed.len() >= arguments.failures {
                break 'all;
            }
        }
        from = to;
    }
    let done = &sum.outcome;
    let seconds = sum.elapsed.as_secs_f64();
    println!("{} runs of {}, seeds from {first} on, in {seconds:.1} s", sum.seeds, names(scenarios));
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
    for (scenario, seed, error) in &failed {
        println!("seed {seed} of scenario {scenario} fails: {error}");
        println!("  step by step: make torture SEEDS={seed} SCENARIO={scenario}");
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn names(scenarios: &[Scenario]) -> String {
    match scenarios {
        [one] => format!("scenario {}", one.name),
        _ => format!("{} scenarios", scenarios.len()),
    }
}

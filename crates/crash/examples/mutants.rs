//! Builds one deliberate mistake after another into the engine and reports how many seeds the crash simulation needs to
//! notice each of them: `make mutants`. The exit status is 1 if a mistake goes unnoticed.

use std::{
    iter::successors,
    ops::Range,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use peryton_crash::{Case, Depth, Options, Scenario, Torture, explore, run, torture};
use peryton_engine::mutation::{Mutation, make};

/// Builds mistakes into the engine, one at a time, and runs the crash simulation against each.
#[derive(Parser)]
struct Arguments {
    /// The most seeds of each kind of run for each mutation
    #[arg(long, default_value_t = 100_000)]
    seeds: u64,
    /// The most seconds to spend on each mutation, so that a slow machine comes to an end
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    /// Make only runs of this kind, where it is known which one notices a mutation
    #[arg(long, value_parser = Scenario::named)]
    scenario: Option<Scenario>,
    /// Run only mutations whose name contains this text
    #[arg(long, default_value = "")]
    only: String,
}

/// Sorts an error message by the check that produced it, without its sector numbers.
fn check(error: &str) -> &str {
    let kinds = [
        ("panic: two extents", "recovery: two extents in one place"),
        ("panic: a drive is closed", "the engine's assertions"),
        ("panic: ", "the engine's assertions"),
        ("after a crash sectors", "unreadable after a crash"),
        ("after a crash sector", "wrong data after a crash"),
        ("and another value after", "a value that changed by itself"),
        ("and its clean copy", "copies that differ"),
        ("is accepted with what it held", "a dead device that is accepted"),
        ("was evacuated, and is needed", "an evacuated device that is needed"),
        ("is not written, and is", "a loss that ends by itself"),
        ("is lost", "a loss that is not named"),
        ("is damaged", "recovery: refused as damaged"),
        ("is older than", "recovery: refused as stale"),
        ("cannot be opened", "recovery: refused"),
        ("never answered", "a request that is never answered"),
        ("from a generation before", "an old device that is accepted"),
        ("written to by another program", "a foreign write that is accepted"),
        ("but opened as", "a close that is not one"),
        ("sector ", "wrong data while running"),
    ];
    kinds.iter().find(|(text, _)| error.contains(text)).map_or(error, |(_, kind)| kind)
}

/// Mistakes that need a rare course of events, and the kind of run in which one was found: it goes first, with all of its seeds.
const KNOWN: [(Mutation, &str); 1] = [(Mutation::KeepCleanPastFailure, "past-writes")];

/// So long small cases are explored for each mistake, before runs of random seeds.
const EXPLORED: Duration = Duration::from_secs(5);

/// Seeds of each kind of run in one turn, of which each is twice as long as the one before.
const FIRST_TURN: u64 = 256;

/// The seeds from 0 to `end` in turns: the kinds of runs take turns, so that a mistake that only the last of them notices does not wait until
/// all others are through.
fn turns(end: u64) -> impl Iterator<Item = Range<u64>> {
    let next = |turn: &Range<u64>| Some(turn.end..turn.end + 2 * (turn.end - turn.start));
    let clipped = move |turn: Range<u64>| turn.start..turn.end.min(end);
    successors(Some(0..FIRST_TURN), next).take_while(move |turn| turn.start < end).map(clipped)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    std::panic::set_hook(Box::new(|_| {}));
    let options = Options::default();
    let scenarios = arguments.scenario.map_or_else(|| Scenario::ALL.to_vec(), |scenario| vec![scenario]);
    make(None);
    let sound = torture(0..200, &options, None, 1, |_| {});
    if let Some((seed, error)) = sound.failures.first() {
        println!("without any mutation seed {seed} fails: {error}");
        return ExitCode::FAILURE;
    }
    println!("no mutation: {} seeds, {} crash points, nothing found", sound.seeds, sound.outcome.crash_points);
    println!("{:<22} {:>6} {:>9} {:>7}  noticed by", "mutation", "seeds", "crashes", "s");
    let mut unnoticed = 0;
    let small: Vec<Case> = Case::known().into_iter().chain(Case::all(Depth::Quick)).collect();
    let chosen: Vec<Mutation> =
        Mutation::ALL.iter().copied().filter(|mutation| format!("{mutation:?}").contains(&arguments.only)).collect();
    for mutation in chosen.iter().copied() {
        make(Some(mutation));
        let explored = explore(&small, Some(Instant::now() + EXPLORED));
        if let Some(error) = explored.failures.first() {
            make(None);
            let last = error.lines().rev().find(|line| line.contains("panic: ") || line.contains("sector "));
            let (states, seconds) = (explored.states, explored.elapsed.as_secs_f64());
            let name = format!("{mutation:?}");
            println!(
                "{name:<22} {:>6} {states:>9} {seconds:>7.1}  exploring: {}",
                "-",
                check(last.unwrap_or("").trim())
            );
            continue;
        }
        let mut found = None;
        let mut tried = Torture::default();
        let known = |scenario: &&Scenario| KNOWN.contains(&(mutation, scenario.name));
        let first = scenarios.iter().filter(known).map(|scenario| (0..arguments.seeds, &scenario.options));
        let all = turns(arguments.seeds)
            .flat_map(|seeds| scenarios.iter().map(move |scenario| (seeds.clone(), &scenario.options)));
        for (seeds, options) in first.chain(all) {
            let Some(left) = Duration::from_secs(arguments.seconds).checked_sub(tried.elapsed) else { break };
            let turn = torture(seeds, options, Some(left), 1, |_| {});
            tried.count(&turn);
            found = turn.failures.into_iter().next().map(|(seed, error)| (seed, error, options));
            if found.is_some() {
                break;
            }
        }
        let name = format!("{mutation:?}");
        let (points, seconds) = (tried.outcome.crash_points, tried.elapsed.as_secs_f64());
        let how = match &found {
            Some((seed, error, options)) => {
                // The same seed must pass without the mutation; otherwise the failure has another cause.
                make(None);
                if let Err(error) = run(*seed, options) {
                    println!("without any mutation seed {seed} fails: {error}");
                    return ExitCode::FAILURE;
                }
                check(error)
            }
            None => {
                unnoticed += 1;
                "NOTHING"
            }
        };
        println!("{name:<22} {:>6} {points:>9} {seconds:>7.1}  {how}", tried.seeds);
    }
    make(None);
    println!("{} of {} noticed", chosen.len() - unnoticed, chosen.len());
    if unnoticed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

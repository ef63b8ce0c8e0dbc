//! Explores every order of completions and failures of small cases: `make torture` begins with it.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use peryton_crash::{Case, Depth, explore, tell};

/// Explores small cases in every order of completions and failures.
#[derive(Parser)]
struct Arguments {
    /// All pairs of requests and moves, with a failure of one command
    #[arg(long)]
    deep: bool,
    /// Begin no further case after so many seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Only cases whose description contains this text
    #[arg(long, default_value = "")]
    only: String,
    /// One case of so many, spread over all
    #[arg(long, default_value_t = 1)]
    one_in: usize,
    /// Show one course of each case instead
    #[arg(long)]
    tell: bool,
    /// Make this mistake in the engine, which the search should find
    #[cfg(feature = "mutants")]
    #[arg(long)]
    mutation: Option<String>,
}

/// Makes a mistake.
#[cfg(feature = "mutants")]
fn make(arguments: &Arguments) {
    use peryton_engine::mutation::{Mutation, make};
    let named = |name: &String| Mutation::ALL.iter().copied().find(|mutation| format!("{mutation:?}") == *name);
    make(arguments.mutation.as_ref().map(|name| named(name).expect("it is in the list of mutation.rs")));
}

#[cfg(not(feature = "mutants"))]
fn make(_: &Arguments) {}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    make(&arguments);
    std::panic::set_hook(Box::new(|_| {}));
    let depth = if arguments.deep { Depth::Deep } else { Depth::Quick };
    let mut cases = Case::known();
    cases.extend(Case::all(depth));
    cases.retain(|case| format!("{case:?}").contains(&arguments.only));
    let cases: Vec<Case> = cases.into_iter().step_by(arguments.one_in).collect();
    if arguments.tell {
        for case in &cases {
            println!("{case:?}\n  {}", tell(case).join("\n  "));
        }
        return ExitCode::SUCCESS;
    }
    let found = explore(&cases, Some(Instant::now() + Duration::from_secs(arguments.seconds)));
    println!(
        "{} of {} cases, {} states, {} steps, {} ends, {} crashes, {} cut short, in {:.1} s",
        found.cases,
        cases.len(),
        found.states,
        found.steps,
        found.ends,
        found.crashes,
        found.cut_short,
        found.elapsed.as_secs_f64()
    );
    println!("most in one case: {} of {}", found.largest.0, found.largest.1);
    for failure in found.failures.iter().take(5) {
        println!("{failure}");
    }
    println!("{} failures", found.failures.len());
    if found.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

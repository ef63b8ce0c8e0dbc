//! The fear: two pieces that are right by themselves do something wrong together, in an order of events that no seed has drawn yet.

use std::time::{Duration, Instant};

use peryton_crash::{Case, Depth, Explored, explore};

/// What is not reached by then is left to `make torture`.
const AT_MOST: Duration = Duration::from_secs(40);
/// A slow machine reaches as many.
const STATES: usize = 500;

#[test]
fn faults_that_were_mended_stay_so_in_every_order() {
    let found = explore(&Case::known(), None);
    assert!(found.failures.is_empty(), "{}", found.failures.join("\n"));
    assert_eq!((found.cases, found.cut_short), (Case::known().len(), 0));
}

#[test]
fn small_cases_hold_in_every_order_of_completions_and_failures() {
    let found = explore(&Case::all(Depth::Quick), Some(Instant::now() + AT_MOST));
    assert!(found.failures.is_empty(), "{}", found.failures.join("\n"));
    assert!(found.states >= STATES && found.ends > 0 && found.crashes == found.states, "{found:?}");
    let Explored { cases, states, steps, .. } = found;
    println!("{cases} cases, {states} states, {steps} steps");
}

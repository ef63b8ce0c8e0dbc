//! Many runs on all processors, within a budget of time.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rayon::prelude::*;

use crate::{
    options::{Options, Outcome},
    run::run,
};

/// What came of many runs.
#[derive(Clone, Debug, Default)]
pub struct Torture {
    /// All runs together.
    pub outcome: Outcome,
    /// Seeds that were run, the first this many of the range.
    pub seeds: u64,
    /// Seeds that failed, and how.
    pub failures: Vec<(u64, String)>,
    /// How long it took.
    pub elapsed: Duration,
}

/// Seeds are handed out in pieces of this size.
const PIECE: u64 = 64;

/// Runs the seeds of a range in order until `budget` is spent or `most_failures` have failed. `progress` is told how
/// things stand after each piece.
pub fn torture(
    seeds: Range<u64>,
    options: &Options,
    budget: Option<Duration>,
    most_failures: usize,
    mut progress: impl FnMut(&Torture),
) -> Torture {
    let began = Instant::now();
    let mut sum = Torture::default();
    let mut from = seeds.start;
    while from < seeds.end && sum.failures.len() < most_failures {
        let to = seeds.end.min(from + PIECE);
        let late = AtomicBool::new(false);
        let results: Vec<_> = (from..to)
            .into_par_iter()
            .map(|seed| {
                // Within a piece, too: a run must not outlast the budget by much.
                if budget.is_some_and(|budget| began.elapsed() > budget) {
                    late.store(true, Ordering::Relaxed);
                    return None;
                }
                Some((seed, run(seed, options)))
            })
            .collect();
        for (seed, result) in results.into_iter().flatten() {
            sum.seeds += 1;
            match result {
                Ok(outcome) => sum.outcome += outcome,
                Err(error) => sum.failures.push((seed, error)),
            }
        }
        sum.elapsed = began.elapsed();
        progress(&sum);
        if late.into_inner() {
            break;
        }
        from = to;
    }
    sum
}

//! Runs many seeds on all processors, within a time budget.

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

/// The result of many runs.
#[derive(Clone, Debug, Default)]
pub struct Torture {
    /// The counts of all runs together.
    pub outcome: Outcome,
    /// The number of seeds that were run, counted from the start of the range.
    pub seeds: u64,
    /// The seeds that failed, each with its error.
    pub failures: Vec<(u64, String)>,
    /// How long it took.
    pub elapsed: Duration,
}

impl Torture {
    /// Adds the counts and the time of other runs, and not their failures.
    pub fn count(&mut self, other: &Torture) {
        self.outcome += other.outcome;
        self.seeds += other.seeds;
        self.elapsed += other.elapsed;
    }
}

/// Each thread takes this many seeds at a time.
const PIECE: u64 = 64;

/// Runs the seeds of a range in order until `budget` is spent or `most_failures` seeds have failed. Calls `progress`
/// with the result so far after each piece.
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
                // The budget is checked for each seed too, so that a run does not outlast it by much.
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

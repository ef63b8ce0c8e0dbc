//! What the regressions would choose.

use peryton_plan::{
    capacity::{Candidate, Catalogue},
    constraint::{Constraint, Metric},
};

use crate::predict::Prediction;

/// The cheapest candidate according to the predictions. They include response times, lifetimes and prices; other budgets do not
/// count here.
pub fn of(
    constraints: &[Constraint],
    catalogue: &Catalogue,
    candidates: &[Candidate],
    predictions: &[Option<Prediction>],
) -> Option<usize> {
    let meets = |index: &usize| {
        let Some(predicted) = &predictions[*index] else { return false };
        constraints.iter().all(|one| match one.metric {
            Metric::Latency => predicted.mean_ms <= one.limit,
            Metric::Lifetime => predicted.lifetime_years.unwrap_or(f64::INFINITY) >= one.limit,
            Metric::Dollars => candidates[*index].dollars(catalogue) <= one.limit,
            _ => true,
        })
    };
    let cost = |index: &usize| candidates[*index].dollars(catalogue);
    let mean = |index: &usize| predictions[*index].as_ref().map_or(f64::INFINITY, |one| one.mean_ms);
    (0..candidates.len())
        .filter(meets)
        .min_by(|a, b| cost(a).total_cmp(&cost(b)).then(mean(a).total_cmp(&mean(b))).then(a.cmp(b)))
}

//! Which capacity of flash to simulate next: the capacity is narrowed down between one that misses a budget and one that meets
//! all of them.
//!
//! More flash is taken to be no slower and to live no shorter, and to cost more. So all capacities below one that is too slow are
//! too slow as well, and are not simulated.

use peryton_units::Bytes;

use super::catalogue::rounded;
use crate::{
    constraint::{Constraint, strain},
    evaluate::Metrics,
    metric::Metric,
    size::WITHIN,
};

/// A capacity is found if no other was simulated within this factor below it.
pub(super) const STEP: f64 = 1.05;
/// The same where the objective has no least capacity.
const WIDE: f64 = 1.15;
/// An estimate by interpolation is taken a little larger, so that it meets the budget.
const MARGIN: f64 = 1.01;

/// A larger capacity whose sample is beyond a budget by more than this factor is not simulated with the whole trace.
const HOPE: f64 = 1.6;

/// Whether more flash improves it, or leaves it as it is.
pub(super) fn grows_with_flash(metric: Metric) -> bool {
    match metric {
        Metric::Latency
        | Metric::Read
        | Metric::Write
        | Metric::Flush
        | Metric::WriteThenFlush
        | Metric::P50
        | Metric::P99
        | Metric::P999
        | Metric::Iops
        | Metric::Lifetime => true,
        Metric::Power | Metric::Energy | Metric::IopsPerWatt | Metric::Dollars | Metric::Ownership => false,
    }
}

/// The strain on the budgets that more flash can meet.
pub(super) fn shortage(constraints: &[Constraint], metrics: &Metrics) -> f64 {
    let about = constraints.iter().filter(|one| grows_with_flash(one.metric));
    about.map(|one| one.strain(metrics)).fold(0.0, f64::max)
}

/// The strain on the budgets that more flash, or more devices, cannot meet.
pub(super) fn excess(constraints: &[Constraint], metrics: &Metrics) -> f64 {
    let about = constraints.iter().filter(|one| !grows_with_flash(one.metric));
    about.map(|one| one.strain(metrics)).fold(0.0, f64::max)
}

/// Whether a capacity does what a larger one does that is bought: its mean response time is nearly the same, and it is not too small for a
/// budget.
pub(super) fn enough(metrics: &Metrics, bought_ms: f64, constraints: &[Constraint]) -> bool {
    metrics.mean_ms <= bought_ms * (1.0 + WITHIN) && shortage(constraints, metrics) <= 1.0
}

/// The capacities of one set of devices, in ascending order.
pub(super) struct Capacities<'a> {
    /// Those simulated with the whole trace.
    pub(super) exact: Vec<(Bytes, &'a Metrics)>,
    /// Those that may be tried first, beside them.
    pub(super) grid: Vec<Bytes>,
}

impl Capacities<'_> {
    /// The best capacity that meets the budgets, as an index.
    pub(super) fn best(&self, constraints: &[Constraint], objective: Metric) -> Option<usize> {
        let meets = (0..self.exact.len()).filter(|index| strain(constraints, self.exact[*index].1) <= 1.0);
        // Of equal values the smallest capacity.
        meets
            .min_by(|a, b| objective.cost(self.exact[*a].1).total_cmp(&objective.cost(self.exact[*b].1)).then(a.cmp(b)))
    }

    /// The largest capacity that is known to be too small.
    pub(super) fn too_small(&self, constraints: &[Constraint]) -> Option<Bytes> {
        let short = self.exact.iter().rev().find(|(_, metrics)| shortage(constraints, metrics) > 1.0);
        short.map(|(capacity, _)| *capacity)
    }

    /// The capacity to simulate next for these budgets; none if it is narrow enough, or if there can be none.
    pub(super) fn next(&self, constraints: &[Constraint], objective: Metric) -> Option<Bytes> {
        let Some(best) = self.best(constraints, objective) else { return self.between_failures(constraints) };
        if objective == Metric::Dollars {
            return self.below(best, constraints, STEP);
        }
        // The objective may have its best anywhere: look on both sides.
        self.below(best, constraints, WIDE).or_else(|| {
            let above = best + 1;
            let (from, to) = (self.exact[best].0, self.exact.get(above)?.0);
            // As good already: more of it changes nothing.
            let same = objective.cost(self.exact[best].1) == objective.cost(self.exact[above].1);
            (!same).then(|| self.middle(from, to, WIDE)).flatten()
        })
    }

    /// A capacity below this one.
    fn below(&self, index: usize, constraints: &[Constraint], step: f64) -> Option<Bytes> {
        let (to, meets) = self.exact[index];
        let Some(below) = index.checked_sub(1) else { return self.grid.iter().rev().copied().find(|size| *size < to) };
        let (from, misses) = self.exact[below];
        let (short, met) = (shortage(constraints, misses), shortage(constraints, meets));
        // Interpolation is near, and halving is safe: they take turns.
        if short > 1.0 && met > 0.0 && short.is_finite() && self.exact.len().is_multiple_of(2) {
            let share = short.ln() / (short.ln() - met.ln()).max(1e-9);
            let width = (to.0 as f64 / from.0 as f64).ln();
            let guess = from.0 as f64 * (share * width).exp() * MARGIN;
            let guess = rounded(Bytes(guess.min(to.0 as f64 / step) as u64));
            if guess.0 as f64 >= from.0 as f64 * MARGIN && guess < to && to.0 as f64 / from.0 as f64 > step {
                return Some(guess);
            }
        }
        self.middle(from, to, step)
    }

    /// The middle between two capacities, if they are far enough apart.
    fn middle(&self, from: Bytes, to: Bytes, step: f64) -> Option<Bytes> {
        if to.0 as f64 / from.0.max(1) as f64 <= step {
            return None;
        }
        let middle = rounded(Bytes((from.0 as f64 * to.0 as f64).sqrt() as u64));
        // The capacities of the grid come first: there the miss-ratio curve falls.
        let between = self.grid.iter().copied().filter(|size| *size > from && *size < to);
        let between = between
            .min_by_key(|size| size.0.max(middle.0) as u128 * 1_000_000 / u128::from(size.0.min(middle.0).max(1)));
        let next = between.unwrap_or(middle);
        (next > from && next < to && !self.exact.iter().any(|(known, _)| *known == next)).then_some(next)
    }

    /// Whether no capacity is known to be enough, and samples of larger ones are far from that.
    pub(super) fn is_hopeless(&self, constraints: &[Constraint], sampled: &[(Bytes, &Metrics)]) -> bool {
        let Some(small) = self.too_small(constraints) else { return false };
        let is_enough = self.exact.iter().any(|(_, metrics)| shortage(constraints, metrics) <= 1.0);
        let mut larger = sampled.iter().filter(|(size, _)| *size > small).peekable();
        !is_enough && larger.peek().is_some() && !larger.any(|(_, metrics)| shortage(constraints, metrics) <= HOPE)
    }

    /// The capacity that these figures of a sample suggest, between one that misses the budgets and one that meets them. It may be
    /// known.
    pub(super) fn estimate(&self, constraints: &[Constraint]) -> Option<Bytes> {
        let enough = self.exact.iter().position(|(_, metrics)| strain(constraints, metrics) <= 1.0)?;
        let (to, meets) = self.exact[enough];
        let Some(below) = enough.checked_sub(1) else { return Some(to) };
        let (from, misses) = self.exact[below];
        let (short, met) = (shortage(constraints, misses), shortage(constraints, meets));
        if !(short > 1.0 && short.is_finite() && met > 0.0) {
            return Some(to);
        }
        let share = short.ln() / (short.ln() - met.ln()).max(1e-9);
        let guess = from.0 as f64 * (share * (to.0 as f64 / from.0 as f64).ln()).exp();
        Some(rounded(Bytes(guess as u64)).min(to))
    }

    /// No capacity meets all budgets so far: between one that is too small and one that is too expensive there may be one.
    fn between_failures(&self, constraints: &[Constraint]) -> Option<Bytes> {
        let enough = self.exact.iter().position(|(_, metrics)| shortage(constraints, metrics) <= 1.0);
        let Some(enough) = enough else {
            let last = self.exact.last()?.0;
            return self.grid.iter().copied().find(|size| *size > last);
        };
        match enough.checked_sub(1) {
            Some(below) => self.middle(self.exact[below].0, self.exact[enough].0, STEP),
            None => self.grid.iter().rev().copied().find(|size| *size < self.exact[enough].0),
        }
    }
}

/// So many capacities between two, evenly by their ratio.
pub(super) fn between(from: Bytes, to: Bytes, count: u32) -> Vec<Bytes> {
    let ratio = (to.0 as f64 / from.0.max(1) as f64).powf(1.0 / f64::from(count + 1));
    let sizes = (1..=count).map(|step| rounded(Bytes((from.0 as f64 * ratio.powi(step as i32)) as u64)));
    let mut sizes: Vec<Bytes> = sizes.filter(|size| *size > from && *size < to).collect();
    sizes.dedup();
    sizes
}

//! After the search: the capacity of the flash of the best designs is narrowed down, by simulation with the whole trace.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use peryton_sim::SimError;
use peryton_units::Bytes;
use rayon::prelude::*;

use super::{
    candidate::Candidate,
    error::PlanError,
    narrow::{Capacities, STEP, between, enough},
    search::{AT_A_TIME, Known, Problem, Search},
};
use crate::{evaluate::Metrics, metric::Metric};

/// The rounds of simulations that find out how much of the bought flash is needed, after the first.
const ROUNDS: [u32; 2] = [4, 2];
/// It is known if no other capacity was simulated within this factor below it.
const KNOWN: f64 = 1.1;

impl Search<'_> {
    /// Simulates more capacities of the flash of the best designs, until each is as small as the budgets allow, and the whole
    /// devices for comparison. Returns the number of simulations.
    pub(super) fn refine(&self, known: &mut Vec<Known>) -> Result<usize, PlanError> {
        if self.grid.is_empty() {
            return Ok(0);
        }
        let (mut run, most) = (0, self.affordable());
        loop {
            let mut next: Vec<Candidate> = Vec::new();
            for problem in &self.problems {
                next.extend(
                    self.narrowed(known, problem).into_iter().filter(|one| !next.contains(one)).collect::<Vec<_>>(),
                );
            }
            if next.is_empty() {
                next = self.wholes(known);
            }
            next.truncate(AT_A_TIME.min(most.saturating_sub(run)));
            if next.is_empty() {
                return Ok(run);
            }
            for (candidate, result) in next.iter().zip(self.exactly(&next, "capacities of flash")?) {
                let index = known.iter().position(|one| one.candidate == *candidate).unwrap_or_else(|| {
                    known.push(Known::new(candidate.clone()));
                    known.len() - 1
                });
                known[index].settle(result);
            }
            run += next.len();
        }
    }

    /// Simulates candidates with the whole trace. An error of the trace is one of the plan.
    fn exactly(&self, next: &[Candidate], what: &str) -> Result<Vec<Result<Metrics, PlanError>>, PlanError> {
        let done = AtomicU64::new(0);
        let one = |candidate: &Candidate| {
            let result = self.simulate(candidate, self.whole, &|| self.workload.source(), &self.options);
            (self.progress)(what, done.fetch_add(1, Relaxed) + 1, next.len() as u64);
            match result {
                Err(PlanError::Sim(SimError::Trace(error))) => Err(PlanError::Trace(error)),
                result => Ok(result),
            }
        };
        next.par_iter().map(one).collect()
    }

    /// The capacities that a problem asks for next: those of the sets of devices that may be among its best.
    fn narrowed(&self, known: &[Known], problem: &Problem) -> Vec<Candidate> {
        let mut of_shapes = Vec::new();
        for (shape, (exact, sampled)) in self.shapes(known) {
            let mut grid = self.grid.of(&shape).to_vec();
            grid.push(shape.flash_capacity(self.catalogue));
            let all = Capacities { exact, grid };
            let best = all.best(&problem.constraints, self.objective);
            let cost = best.map_or(f64::INFINITY, |index| self.objective.cost(all.exact[index].1));
            let estimate = || Capacities { exact: sampled.clone(), grid: Vec::new() }.estimate(&problem.constraints);
            // Without an exact figure, the samples say where to begin.
            let next = match all.exact.is_empty() {
                true => estimate().filter(|_| self.objective == Metric::Dollars),
                false if all.is_hopeless(&problem.constraints, &sampled) => None,
                false => all.next(&problem.constraints, self.objective),
            };
            let candidate = |size: Bytes| {
                let whole = shape.flash_capacity(self.catalogue);
                shape.with_capacity((size < whole).then_some(size))
            };
            // The least that it may cost.
            let bound = match (self.objective, next) {
                (Metric::Dollars, Some(next)) => {
                    let small = all.too_small(&problem.constraints).map(|size| rounded_up(size, STEP));
                    candidate(small.unwrap_or(next)).dollars(self.catalogue)
                }
                _ => cost,
            };
            of_shapes.push((bound, cost, shape.clone(), next.map(candidate)));
        }
        let mut costs: Vec<f64> = of_shapes.iter().map(|(_, cost, ..)| *cost).collect();
        costs.sort_by(f64::total_cmp);
        let worst = costs.get(problem.wanted - 1).copied().unwrap_or(f64::INFINITY);
        of_shapes.retain(|(bound, cost, ..)| *bound < worst || *cost <= worst);
        of_shapes.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.2.cmp(&b.2)));
        let tried = |candidate: &Candidate| known.iter().any(|one| one.candidate == *candidate && one.is_tried());
        let next = of_shapes.into_iter().filter_map(|(.., next)| next);
        next.filter(|next| !tried(next) && self.grid.fits(next)).take(problem.wanted).collect()
    }

    /// Figures by set of devices, in the order of the capacity: those from the whole trace, and those from samples.
    fn shapes<'k>(&self, known: &'k [Known]) -> BTreeMap<Candidate, Figures<'k>> {
        let mut all: BTreeMap<Candidate, Figures<'k>> = BTreeMap::new();
        for one in known.iter().filter(|one| one.candidate.has_flash(self.catalogue)) {
            let (exact, sampled) = all.entry(one.candidate.with_capacity(None)).or_default();
            let size = one.candidate.flash_capacity(self.catalogue);
            exact.extend(one.exact.as_ref().map(|metrics| (size, metrics)));
            sampled.extend(one.sampled.as_ref().map(|(metrics, _)| (size, metrics)));
        }
        for (exact, sampled) in all.values_mut() {
            exact.sort_by_key(|(size, _)| *size);
            sampled.sort_by_key(|(size, _)| *size);
        }
        all
    }

    /// The whole devices of the best designs, which were not simulated yet.
    fn wholes(&self, known: &[Known]) -> Vec<Candidate> {
        let problem = &self.problems[0];
        let mut best: Vec<(f64, Candidate)> = Vec::new();
        for (shape, (exact, _)) in self.shapes(known) {
            let all = Capacities { exact, grid: Vec::new() };
            best.extend(
                all.best(&problem.constraints, self.objective)
                    .map(|index| (self.objective.cost(all.exact[index].1), shape)),
            );
        }
        best.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        let tried = |shape: &Candidate| known.iter().any(|one| one.candidate == *shape && one.is_tried());
        best.into_iter().take(problem.wanted).map(|(_, shape)| shape).filter(|shape| !tried(shape)).collect()
    }

    /// How much of the flash of a design the workload needs: its figures with less. They are found in a few rounds, each of several
    /// simulations at a time.
    pub(super) fn needed(&self, shape: &Candidate, bought: &Metrics) -> Result<Vec<(Candidate, Metrics)>, PlanError> {
        let whole = shape.flash_capacity(self.catalogue);
        let mut points: Vec<(Candidate, Metrics)> = vec![(shape.clone(), bought.clone())];
        let mut sizes = self.grid.of_curve_alone(shape).to_vec();
        for round in 0..=ROUNDS.len() {
            let next: Vec<Candidate> = sizes.iter().map(|size| shape.with_capacity(Some(*size))).collect();
            let results = self.exactly(&next, "how much of the flash is needed")?;
            for (candidate, result) in next.into_iter().zip(results) {
                // A capacity that is too small for its metadata is not enough either.
                points.extend(result.ok().map(|metrics| (candidate, metrics)));
            }
            points.sort_by_key(|(candidate, _)| candidate.flash_capacity(self.catalogue));
            let is_enough =
                |(_, metrics): &(Candidate, Metrics)| enough(metrics, bought.mean_ms, &self.problems[0].constraints);
            let at = points.iter().position(is_enough).unwrap_or(points.len() - 1);
            let size = |index: usize| points[index].0.flash_capacity(self.catalogue);
            let (Some(below), Some(count)) = (at.checked_sub(1), ROUNDS.get(round)) else { break };
            let (from, to) = (size(below), size(at).min(whole));
            if to.0 as f64 / from.0 as f64 <= KNOWN {
                break;
            }
            sizes = between(from, to, *count);
            sizes.retain(|size| self.grid.fits(&shape.with_capacity(Some(*size))));
        }
        Ok(points)
    }
}

/// Figures by capacity: those from the whole trace, and those from samples.
type Figures<'a> = (Vec<(Bytes, &'a Metrics)>, Vec<(Bytes, &'a Metrics)>);

fn rounded_up(size: Bytes, factor: f64) -> Bytes {
    Bytes((size.0 as f64 * factor) as u64)
}

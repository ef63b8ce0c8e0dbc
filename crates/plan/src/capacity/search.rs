//! The search: successive halving on samples, then the whole trace.
//!
//! A *problem* is a set of budgets. Besides the given one there are variants, in which one budget is left out, loosened
//! or tightened: their answers show the cost of that budget. Each problem keeps its own best candidates from one sample
//! to the next, larger one. A candidate that misses a budget in a sample is kept if it is near the budget. The smaller
//! the sample, the farther away it may be: samples have errors, and the whole trace decides.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use peryton_device::flash::Images;
use peryton_sim::{Design, Load, Options};
use rayon::prelude::*;
use serde::Serialize;

use super::{
    candidate::{Candidate, Enumerate, Mode},
    catalogue::Catalogue,
    error::PlanError,
    grid::Grid,
    narrow::shortage,
    progress::Progress,
    sample::{Sample, Scale},
    workload::Workload,
};
use crate::{
    constraint::{Constraint, Metric, strain},
    evaluate::{Account, Metrics, evaluate},
};

/// A set of budgets, and the number of wanted candidates that meet them.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) constraints: Vec<Constraint>,
    pub(super) wanted: usize,
    /// Accept a sample's verdict that has room to spare, because only the price is wanted, which needs no simulation.
    pub(super) by_sample: bool,
}

/// The best candidate of a problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// Its index in the list of known candidates.
    pub(super) index: usize,
    /// Whether its figures are from a sample only.
    pub(super) by_sample: bool,
}

/// The result of a search: the figures of each candidate, the best candidate of each problem, and the rounds.
pub(super) type Searched = (Vec<Known>, Vec<Option<Answer>>, Vec<Rung>);

/// A round of the search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rung {
    /// The number of requests in the sample or the trace.
    pub requests: u64,
    /// Share of the space that was sampled.
    pub share: f64,
    /// The number of candidates simulated.
    pub candidates: usize,
}

/// The figures known of a candidate.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) candidate: Candidate,
    /// The figures from the last sample, and its number of requests.
    pub(super) sampled: Option<(Metrics, u64)>,
    /// The figures from the whole trace.
    pub(super) exact: Option<Metrics>,
    /// The reason why it cannot be simulated.
    pub(super) failed: Option<String>,
    alive: bool,
    /// Whether it was left out for its price alone.
    dear: bool,
    /// Whether the whole trace has been tried.
    tried: bool,
}

impl Known {
    /// A candidate of which nothing is known.
    pub(super) fn new(candidate: Candidate) -> Known {
        Known { candidate, sampled: None, exact: None, failed: None, alive: true, dear: false, tried: false }
    }

    /// The best figures of it.
    pub(super) fn figures(&self) -> Option<&Metrics> {
        self.exact.as_ref().or(self.sampled.as_ref().map(|(metrics, _)| metrics))
    }

    /// Whether the whole trace has been tried.
    pub(super) fn is_tried(&self) -> bool {
        self.tried
    }

    /// Keeps the result of the whole trace.
    pub(super) fn settle(&mut self, result: Result<Metrics, PlanError>) {
        (self.tried, self.alive) = (true, true);
        match result {
            Ok(metrics) => (self.exact, self.failed) = (Some(metrics), None),
            Err(error) => self.failed = Some(error.to_string()),
        }
    }
}

/// The parameters of a search.
pub(super) struct Search<'a> {
    pub(super) catalogue: &'a Catalogue,
    pub(super) workload: &'a Workload<'a>,
    pub(super) objective: Metric,
    /// The scale of designs under the whole trace.
    pub(super) whole: Scale,
    /// All problems; the first is the user's.
    pub(super) problems: Vec<Problem>,
    pub(super) account: Account,
    pub(super) duty: f64,
    pub(super) options: Options,
    /// The images of preconditioned devices, shared because candidates have many devices in common.
    pub(super) images: Arc<Images>,
    /// What candidates are made for.
    pub(super) enumerate: Enumerate,
    /// The capacities of flash, where it can be bought in any.
    pub(super) grid: Grid<'a>,
    pub(super) progress: &'a Progress<'a>,
}

/// The number of requests in the smallest sample. Each further sample has a multiple of it, for a part of the
/// candidates that is smaller by the same factor, so every sample costs about the same (Jamieson and Talwalkar 2016).
pub(super) const FIRST_SAMPLE: u64 = 10_000;
const GROWTH: u64 = 4;
/// By the first, second, … sample: candidates whose figures are beyond a budget by less than this factor are kept.
const SLACK: [f64; 3] = [4.0, 2.5, 1.6];
/// A candidate whose figures of the first sample are better than the budgets by this factor is taken to meet them, and bounds the price of
/// others; variants of a problem are looked for up to so many times the price of its answers.
const SURELY: f64 = 2.0;
const DEAR: f64 = 3.0;
/// So many candidates are simulated until the bound is looked at again.
const BATCH: usize = 64;
/// The same factor once enough candidates have both sampled and exact figures to correct the samples' errors.
const CORRECTED_SLACK: f64 = 1.25;
const ENOUGH: usize = 3;
/// The most candidates simulated with the whole trace, and how many at a time. The latter is not the number of cores,
/// because the result would then depend on it.
const MOST_EXACT: usize = 20;
/// For a short trace more candidates are simulated: as many as make this many requests in all, up to a limit.
const AFFORDABLE: u64 = 5_000_000;
const MOST_SMALL: usize = 120;
pub(super) const AT_A_TIME: usize = 4;
/// The number of candidates beyond a budget that are simulated to find the nearest one.
const NEAREST: usize = 3;
/// The least number of kept candidates that meet the budgets with room to spare.
const SURE: usize = 3;
/// With this few candidates left, there are no further samples.
const FINALISTS: usize = 10;

/// What is known in the course of a search.
pub(super) struct State {
    pub(super) known: Vec<Known>,
    /// The rounds so far; the last one is the whole trace.
    pub(super) rungs: Vec<Rung>,
    /// How far from a budget the figures of the last sample may be.
    pub(super) slack: f64,
}

/// Designs of which the best is always simulated with the whole trace: what others are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// Flash alone.
    Flash,
    /// Disks alone.
    Disks,
    /// Three tiers.
    ThreeTiers,
}

impl Of {
    pub(super) const ALL: [Of; 3] = [Of::Flash, Of::Disks, Of::ThreeTiers];

    pub(super) fn has(self, candidate: &Candidate, catalogue: &Catalogue) -> bool {
        let is_alone =
            |flash: bool| candidate.mode == Mode::Single && catalogue.kinds[candidate.fast.kind].wears() == flash;
        match self {
            Of::Flash => is_alone(true),
            Of::Disks => is_alone(false),
            Of::ThreeTiers => candidate.drive().is_some(),
        }
    }
}

impl Search<'_> {
    /// Finds the best candidates of every problem. `candidates` are in the order of their prices.
    pub(super) fn run(&mut self, candidates: Vec<Candidate>) -> Result<Searched, PlanError> {
        let mut state = self.search(candidates.clone(), true)?;
        // What the samples were sure of may be wrong: then the dear ones are tried as well.
        if state.known.iter().any(|one| one.dear) && self.answer(&state, &self.problems[0]).is_none() {
            state = self.search(candidates, false)?;
        }
        self.search_counts(&mut state)?;
        self.add_three_tiers(&mut state)?;
        self.search_counts(&mut state)?;
        let answers = self.problems.iter().map(|problem| self.answer(&state, problem)).collect();
        Ok((state.known, answers, state.rungs))
    }

    fn search(&self, candidates: Vec<Candidate>, bounded: bool) -> Result<State, PlanError> {
        let mut known: Vec<Known> = candidates.into_iter().map(Known::new).collect();
        let mut rungs = Vec::new();
        let whole = self.options.limit.unwrap_or(u64::MAX).min(self.workload.like.requests);
        let (mut requests, mut round) = (FIRST_SAMPLE, 0);
        while requests < whole && known.iter().filter(|one| one.alive).count() > FINALISTS {
            let Some(sample) = Sample::draw(self.workload, requests).map_err(PlanError::Trace)? else { break };
            let alive: Vec<usize> = (0..known.len()).filter(|index| known[*index].alive).collect();
            rungs.push(match round {
                0 if bounded => self.bounded(&mut known, &sample)?,
                _ => self.rung(&mut known, &sample, round, &alive)?,
            });
            let before = known.iter().filter(|one| one.alive).count();
            self.thin(&mut known, SLACK[round.min(SLACK.len() - 1)]);
            requests = requests.saturating_mul(GROWTH);
            round += 1;
            // The remaining candidates are each the best of some problem, so a larger sample would not reduce them
            // further.
            if round > 1 && known.iter().filter(|one| one.alive).count() * 4 > before * 3 {
                break;
            }
        }
        let slack = SLACK[round.min(SLACK.len() - 1)];
        // Without a sample there are no figures of any candidate.
        let first = if round == 0 { (0..known.len()).collect() } else { Vec::new() };
        let run = self.finals(&mut known, slack, first, self.affordable())?;
        let more = self.refine(&mut known)? + self.compared(&mut known, &[Of::Flash, Of::Disks])?;
        rungs.push(Rung { requests: whole, share: 1.0, candidates: run + more });
        Ok(State { known, rungs, slack })
    }

    /// The best candidate of a problem.
    pub(super) fn answer(&self, state: &State, problem: &Problem) -> Option<Answer> {
        let State { known, slack, .. } = state;
        let corrections = self.corrections(known);
        let order = self.order(known, problem, *slack, &corrections);
        let small = too_small(known, problem);
        let meets =
            |index: &usize| matches!(verdict(&known[*index], problem, *slack, &corrections, &small), Verdict::Meets);
        order.into_iter().find(meets).map(|index| Answer { index, by_sample: known[index].exact.is_none() })
    }

    /// Simulates the best designs of these with the whole trace, as far as that was not done.
    pub(super) fn compared(&self, known: &mut [Known], all: &[Of]) -> Result<usize, PlanError> {
        let mut run = 0;
        for of in all {
            let Some(index) = self.best_of(known, *of).filter(|index| !known[*index].tried) else { continue };
            let result = self.simulate(&known[index].candidate, self.whole, &|| self.workload.source(), &self.options);
            match result {
                Err(PlanError::Sim(peryton_sim::SimError::Trace(error))) => return Err(PlanError::Trace(error)),
                result => known[index].settle(result),
            }
            run += 1;
        }
        Ok(run)
    }

    /// The best of these designs, by what is known of them.
    pub(super) fn best_of(&self, known: &[Known], of: Of) -> Option<usize> {
        let is_one = |index: &usize| of.has(&known[*index].candidate, self.catalogue);
        let key = |index: usize| {
            let one = &known[index];
            match one.figures().map(|metrics| (strain(&self.problems[0].constraints, metrics), metrics)) {
                Some((strain, metrics)) if strain <= 1.0 => (0, self.objective.cost(metrics)),
                Some((strain, _)) => (1, strain),
                None => (2, one.candidate.dollars(self.catalogue)),
            }
        };
        (0..known.len()).filter(is_one).min_by(|a, b| {
            let (x, y) = (key(*a), key(*b));
            x.0.cmp(&y.0).then(x.1.total_cmp(&y.1)).then(a.cmp(b))
        })
    }

    /// Simulates candidates on the first sample, the cheapest first, until those that are left cost more than enough others that meet the
    /// budgets with room to spare: branch and bound, where purchase is the least that a candidate may cost.
    fn bounded(&self, known: &mut [Known], sample: &Sample) -> Result<Rung, PlanError> {
        let price = |one: &Known| one.candidate.dollars(self.catalogue);
        // What a hybrid is compared with, whatever it costs.
        let alone = |known: &[Known], of: Of| -> Vec<usize> {
            let is_one = |index: &usize| of.has(&known[*index].candidate, self.catalogue);
            (0..known.len()).filter(is_one).take(FINALISTS).collect()
        };
        let first = [alone(known, Of::Flash), alone(known, Of::Disks)].concat();
        let rest: Vec<usize> = (0..known.len()).filter(|index| !first.contains(index)).collect();
        let mut rung = self.rung(known, sample, 0, &first)?;
        for (number, batch) in rest.chunks(BATCH).enumerate() {
            if self.is_bounded(known, price(&known[batch[0]])) {
                let dear = &rest[number * BATCH..];
                dear.iter().for_each(|index| (known[*index].alive, known[*index].dear) = (false, true));
                break;
            }
            rung.candidates += self.rung(known, sample, 0, batch)?.candidates;
        }
        Ok(rung)
    }

    /// Whether nothing that costs so much to buy can be among the answers.
    fn is_bounded(&self, known: &[Known], price: f64) -> bool {
        if !matches!(self.objective, Metric::Dollars | Metric::Ownership) {
            return false;
        }
        // The costs of those that meet the budgets of a problem with room to spare, one of each set of devices.
        let sure = |problem: &Problem| -> Vec<f64> {
            let mut costs: BTreeMap<Candidate, f64> = BTreeMap::new();
            for one in known {
                let Some((metrics, _)) = &one.sampled else { continue };
                if strain(&problem.constraints, metrics) * SURELY <= 1.0 {
                    let cost = costs.entry(one.candidate.with_capacity(None)).or_insert(f64::INFINITY);
                    *cost = cost.min(self.objective.cost(metrics));
                }
            }
            let mut costs: Vec<f64> = costs.into_values().collect();
            costs.sort_by(f64::total_cmp);
            costs
        };
        let (asked, variants) = self.problems.split_first().expect("the first problem is the user's");
        let Some(worst) = sure(asked).get(asked.wanted.max(SURE) - 1).copied() else { return false };
        let is_known = |problem: &Problem| sure(problem).first().is_some_and(|cost| *cost <= price);
        worst <= price && (price > worst * DEAR || variants.iter().all(is_known))
    }

    /// Simulates candidates on one sample.
    pub(super) fn rung(
        &self,
        known: &mut [Known],
        sample: &Sample,
        round: usize,
        alive: &[usize],
    ) -> Result<Rung, PlanError> {
        let done = std::sync::atomic::AtomicU64::new(0);
        let what = format!("sample {} of {} requests", round + 1, sample.requests());
        let options = Options {
            warm_up_requests: (self.options.warm_up_requests as f64 * sample.requests() as f64
                / self.workload.like.requests as f64) as u64,
            limit: None,
            ..self.options.clone()
        };
        let one = |index: &usize| {
            let candidate = &known[*index].candidate;
            let flash = candidate.lives_on_flash(self.catalogue);
            let result =
                self.simulate(candidate, sample.scale(flash, self.whole), &|| Ok(sample.source(flash)), &options);
            let done = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            (self.progress)(&what, done, alive.len() as u64);
            result
        };
        let results: Vec<Result<Metrics, PlanError>> = alive.par_iter().map(one).collect();
        for (index, result) in alive.iter().zip(results) {
            match result {
                Ok(metrics) => known[*index].sampled = Some((metrics, sample.requests())),
                // A design that is too small in a sample may be large enough in the whole.
                Err(error) => known[*index].failed = Some(error.to_string()),
            }
        }
        Ok(Rung { requests: sample.requests(), share: sample.share, candidates: alive.len() })
    }

    pub(super) fn simulate(
        &self,
        candidate: &Candidate,
        scale: Scale,
        trace: &peryton_sim::TraceFactory<'_>,
        options: &Options,
    ) -> Result<Metrics, PlanError> {
        let text = candidate.text(self.catalogue, scale.data);
        let design = Design::parse(&text, &candidate.name(self.catalogue), &[]);
        let mut design = design.map_err(peryton_sim::SimError::from)?;
        design.images = Some(Arc::clone(&self.images));
        design.load = Some(scale.load).filter(|load| *load != Load::WHOLE);
        design.duty = self.duty;
        Ok(evaluate(&design, trace, options, &self.account)?)
    }

    /// Keeps a part of the candidates: of those that may meet the budgets the best, then those nearest to the budgets.
    /// The best few of those that surely meet the budgets are kept too, so that uncertain ones do not displace them.
    fn thin(&self, known: &mut [Known], slack: f64) {
        let alive = known.iter().filter(|one| one.alive).count();
        let mut kept = vec![false; known.len()];
        for (number, problem) in self.problems.iter().enumerate() {
            let order = self.order(known, problem, slack, &Corrections::default());
            // A variant needs only one figure.
            let keep = if number == 0 {
                alive.div_ceil(GROWTH as usize).max(FINALISTS)
            } else {
                (alive / 8).clamp(FINALISTS / 2, FINALISTS)
            };
            order.iter().take(keep).for_each(|index| kept[*index] = true);
            for bound in [1.0, 1.0 / slack] {
                let order = self.order(known, problem, bound, &Corrections::default());
                // Of each set of devices one capacity.
                let mut shapes = BTreeSet::new();
                let first = order.iter().filter(|index| shapes.insert(known[**index].candidate.with_capacity(None)));
                first.take(problem.wanted.max(SURE)).for_each(|index| kept[*index] = true);
            }
        }
        for (one, kept) in known.iter_mut().zip(kept) {
            one.alive &= kept;
        }
    }

    /// The remaining candidates, the most promising first: those within `slack` of all budgets by the objective, then
    /// the others by their distance from the budgets.
    fn order(&self, known: &[Known], problem: &Problem, slack: f64, corrections: &Corrections) -> Vec<usize> {
        let key = |index: &usize| {
            let one = &known[*index];
            let Some(metrics) = one.figures() else {
                // Only the price is known without a simulation.
                let price = one.candidate.dollars(self.catalogue);
                let sought = if self.objective == Metric::Dollars { price } else { 0.0 };
                return (u8::from(one.failed.is_some()), sought, 0.0);
            };
            let (strain, slack) = corrections.strain(one, problem, slack);
            if strain <= slack {
                (0, self.objective.cost(metrics), metrics.mean_ms)
            } else {
                (1, strain, metrics.mean_ms)
            }
        };
        let mut order: Vec<usize> = (0..known.len()).filter(|index| known[*index].alive).collect();
        order.sort_by(|a, b| {
            let (a_key, b_key) = (key(a), key(b));
            a_key.0.cmp(&b_key.0).then(a_key.1.total_cmp(&b_key.1)).then(a_key.2.total_cmp(&b_key.2)).then(a.cmp(b))
        });
        order
    }

    /// The most simulations of the whole trace.
    pub(super) fn affordable(&self) -> usize {
        let affordable = usize::try_from(AFFORDABLE / self.workload.like.requests.max(1)).unwrap_or(usize::MAX);
        affordable.clamp(MOST_EXACT, MOST_SMALL)
    }

    /// Simulates these with the whole trace, and then each problem's candidates in order, `most` at the most or as many as these are, until
    /// the problem has as many as it wants.
    pub(super) fn finals(
        &self,
        known: &mut [Known],
        slack: f64,
        mut next: Vec<usize>,
        most: usize,
    ) -> Result<usize, PlanError> {
        let (mut run, most) = (0, most.max(next.len()));
        loop {
            let corrections = self.corrections(known);
            for problem in &self.problems {
                if next.len() >= AT_A_TIME {
                    break;
                }
                let order = self.order(known, problem, slack, &corrections);
                let open = open(known, problem, &order, slack, &corrections);
                next.extend(open.into_iter().filter(|index| !next.contains(index)).collect::<Vec<_>>());
                next.truncate(AT_A_TIME);
            }
            next.truncate(most - run);
            if next.is_empty() {
                return Ok(run);
            }
            let done = std::sync::atomic::AtomicU64::new(run as u64);
            let one = |index: &usize| {
                let candidate = &known[*index].candidate;
                let result = self.simulate(candidate, self.whole, &|| self.workload.source(), &self.options);
                let done = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
                (self.progress)("whole trace", done, (run + next.len()) as u64);
                result
            };
            let results: Vec<Result<Metrics, PlanError>> = next.par_iter().map(one).collect();
            for (index, result) in next.iter().zip(results) {
                match result {
                    Err(PlanError::Sim(peryton_sim::SimError::Trace(error))) => return Err(PlanError::Trace(error)),
                    result => known[*index].settle(result),
                }
            }
            run += next.len();
            next.clear();
        }
    }

    /// The error of samples so far, from candidates with both sampled and exact figures.
    fn corrections(&self, known: &[Known]) -> Corrections {
        let mut ratios: BTreeMap<(Vec<Mode>, Metric), Vec<f64>> = BTreeMap::new();
        let metrics: BTreeSet<Metric> =
            self.problems.iter().flat_map(|problem| problem.constraints.iter().map(|one| one.metric)).collect();
        for one in known {
            let (Some(exact), Some((sampled, _))) = (&one.exact, &one.sampled) else { continue };
            for metric in &metrics {
                let by = Constraint { metric: *metric, limit: 1.0 };
                let ratio = by.strain(exact) / by.strain(sampled);
                if ratio.is_finite() && ratio > 0.0 {
                    ratios.entry((one.candidate.modes(), *metric)).or_default().push(ratio);
                }
            }
        }
        ratios.retain(|_, of| of.len() >= ENOUGH);
        let median = |mut of: Vec<f64>| {
            of.sort_by(f64::total_cmp);
            of[of.len() / 2]
        };
        Corrections(ratios.into_iter().map(|(key, of)| (key, median(of))).collect())
    }
}

/// The median ratio of exact to sampled strain, by mode and metric: the errors of designs in one mode are alike.
#[derive(Default)]
struct Corrections(BTreeMap<(Vec<Mode>, Metric), f64>);

impl Corrections {
    /// The strain of a candidate on the budget that it misses by most, by the best known figures; and the strain
    /// allowed.
    fn strain(&self, one: &Known, problem: &Problem, slack: f64) -> (f64, f64) {
        if let Some(metrics) = &one.exact {
            return (strain(&problem.constraints, metrics), slack);
        }
        let Some((metrics, _)) = &one.sampled else { return (0.0, slack) };
        let (mut corrected, modes) = (true, one.candidate.modes());
        let mut of = |constraint: &Constraint| {
            let factor = self.0.get(&(modes.clone(), constraint.metric));
            corrected &= factor.is_some();
            constraint.strain(metrics) * factor.unwrap_or(&1.0)
        };
        let strain = problem.constraints.iter().map(&mut of).fold(0.0, f64::max);
        (strain, if corrected { slack.min(CORRECTED_SLACK) } else { slack })
    }
}

/// Whether a candidate meets the budgets of a problem.
enum Verdict {
    Meets,
    Fails,
    /// Only the whole trace can decide; `near` says whether the sample's figures are near enough to simulate it.
    Open {
        near: bool,
    },
}

/// The largest capacity of the flash of each set of devices that is too small for a problem.
type TooSmall = BTreeMap<Candidate, peryton_units::Bytes>;

fn too_small(known: &[Known], problem: &Problem) -> TooSmall {
    let mut all = TooSmall::new();
    for one in known {
        if !one.exact.as_ref().is_some_and(|metrics| shortage(&problem.constraints, metrics) > 1.0) {
            continue;
        }
        // The whole device is larger than any.
        let size = one.candidate.fast.capacity.unwrap_or(peryton_units::Bytes(u64::MAX));
        let largest = all.entry(one.candidate.with_capacity(None)).or_default();
        *largest = size.max(*largest);
    }
    all
}

fn verdict(one: &Known, problem: &Problem, slack: f64, corrections: &Corrections, small: &TooSmall) -> Verdict {
    if let Some(metrics) = &one.exact {
        return if strain(&problem.constraints, metrics) <= 1.0 { Verdict::Meets } else { Verdict::Fails };
    }
    if one.tried {
        return Verdict::Fails;
    }
    if let Some(size) = one.candidate.fast.capacity
        && small.get(&one.candidate.with_capacity(None)).is_some_and(|small| size <= *small)
    {
        return Verdict::Fails;
    }
    let (strain, slack) = corrections.strain(one, problem, slack);
    if problem.by_sample && one.sampled.is_some() && strain * slack <= 1.0 {
        return Verdict::Meets;
    }
    Verdict::Open { near: strain <= slack }
}

/// Whether only the capacity of its flash differs from that of others, and it was not simulated with the whole trace.
fn one_of_many(one: &Known) -> bool {
    one.candidate.fast.capacity.is_some() && !one.tried
}

/// The candidates to simulate next for a problem: none if it has as many as it wants.
fn open(known: &[Known], problem: &Problem, order: &[usize], slack: f64, corrections: &Corrections) -> Vec<usize> {
    let (mut met, mut failed, mut wanted) = (0, 0, Vec::new());
    let small = too_small(known, problem);
    // Of each set of devices one capacity at a time.
    let mut shapes = BTreeSet::new();
    for index in order {
        let shape = || known[*index].candidate.with_capacity(None);
        match verdict(&known[*index], problem, slack, corrections, &small) {
            Verdict::Meets | Verdict::Open { .. } if shapes.contains(&shape()) => continue,
            Verdict::Meets => {
                met += 1;
                shapes.insert(shape());
            }
            Verdict::Fails if one_of_many(&known[*index]) => {}
            Verdict::Fails => failed += 1,
            // If the nearest candidates did not meet the budgets, farther ones are not simulated.
            Verdict::Open { near: false } if failed + wanted.len() >= NEAREST => break,
            Verdict::Open { .. } => {
                wanted.push(*index);
                shapes.insert(shape());
            }
        }
        if met + wanted.len() >= problem.wanted {
            break;
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use peryton_trace::{SynthSource, SynthSpec};

    use super::{
        super::{candidate::Member, flash::Flash, protection::Protection},
        *,
    };

    fn sampled(mean_ms: f64, dollars: f64) -> Metrics {
        Metrics {
            requests: 10_000,
            simulated_s: 10.0,
            mean_ms,
            read_mean_ms: None,
            write_mean_ms: None,
            flush_mean_ms: None,
            write_then_flush_mean_ms: None,
            p50_ms: mean_ms,
            p99_ms: mean_ms,
            p999_ms: mean_ms,
            iops: None,
            lifetime_years: None,
            lifetime_interval: peryton_sim::LifetimeInterval::default(),
            lifetime_rated_years: None,
            lifetime_physical_years: None,
            power_w: None,
            energy_j: None,
            energy_kwh_per_year: None,
            dollars: Some(dollars),
            ownership_usd: None,
            costs: None,
            fast_hit_ratio: None,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn what_surely_meets_the_budget_is_not_crowded_out_by_what_is_cheap_and_only_may() {
        let spec = SynthSpec::parse(
            "requests = 100\nfootprint = '64MiB'\nread_share = 0.5\narrival = '1ms'\nsize = '4KiB'\naddress = 'uniform'\n",
            "spec",
        );
        let spec = spec.unwrap();
        let trace = || Ok(Box::new(SynthSource::new(&spec, "spec").unwrap()) as Box<dyn peryton_trace::Source>);
        let workload = Workload::measure("made up", &trace).unwrap();
        let catalogue = Catalogue { kinds: Vec::new(), unpriced: Vec::new() };
        let (capacity, protection) = (workload.reach, Protection::default());
        let enumerate = Enumerate { capacity, most: 1, spin_down: false, protection, flash: Flash::Whole };
        let whole = Scale { data: workload.reach, load: peryton_sim::Load::WHOLE };
        let search = Search {
            catalogue: &catalogue,
            workload: &workload,
            objective: Metric::Dollars,
            whole,
            problems: vec![Problem {
                constraints: Constraint::list("latency<=1ms").unwrap(),
                wanted: 1,
                by_sample: false,
            }],
            account: Account::default(),
            duty: 1.0,
            options: Options::default(),
            images: Arc::new(Images::new(peryton_units::Bytes::ZERO)),
            enumerate,
            grid: Grid::new(&catalogue, enumerate, whole),
            progress: &|_, _, _| {},
        };
        // A hundred cheap candidates beyond the budget, but by less than a sample's possible error; and expensive ones
        // that meet it, one narrowly and two with more room than a sample's error.
        let costs = (1..=100).map(|cheap| (2.0, f64::from(cheap))).chain([(0.9, 500.0), (0.1, 900.0), (0.1, 901.0)]);
        let mut known: Vec<Known> = costs
            .zip(1..)
            .map(|((mean_ms, dollars), count)| Known {
                candidate: Candidate {
                    mode: Mode::Single,
                    fast: Member::plain(0, count),
                    slow: None,
                    spin_down: false,
                    fill_per_mille: 1000,
                },
                sampled: Some((sampled(mean_ms, dollars), 10_000)),
                exact: None,
                failed: None,
                alive: true,
                dear: false,
                tried: false,
            })
            .collect();
        search.thin(&mut known, SLACK[0]);
        let alive = |index: usize| known[index].alive;
        assert!(alive(0) && !alive(99), "the cheaper of those that may are kept, the dearer are not");
        assert!(alive(100) && alive(101), "what meets the budget is lost");
        assert!(known.iter().filter(|one| one.alive).count() <= 40);
    }
}

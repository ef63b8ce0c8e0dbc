//! Tuning: a search for better settings of a design on a trace, GreenDM's future work ("self-tuning", section 5).
//!
//! Simulated annealing (several chains, each with its own seed) searches the lists of [`Knob`]s. Then single knobs are
//! changed from the best settings found, until no change helps. If the user limits the search to a part of the trace,
//! its results may not hold for the rest, so the best settings and the design's own are measured on the whole trace.

mod knobs;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use argmin::{
    core::{CostFunction, Error, Executor, State},
    solver::simulatedannealing::{Anneal, SATempFunc, SimulatedAnnealing},
};
use peryton_device::flash::Images;
use peryton_sim::{Design, DesignError, Options, SimError, run_one};
use peryton_trace::RequestHash;
use rand_xoshiro::{
    Xoshiro256PlusPlus,
    rand_core::{RngCore, SeedableRng},
};
use rayon::prelude::*;
use serde::Serialize;
use thiserror::Error as ThisError;

use crate::{
    capacity::{PlanError, Workload},
    constraint::{Constraint, Metric, strain},
    evaluate::{Account, Metrics, evaluate},
};
pub use knobs::{Choice, Knob};

/// The objective of a tuning, and the effort to spend on it.
#[derive(Clone, Debug)]
pub struct Search {
    /// The figure to minimise or maximise.
    pub objective: Metric,
    /// The bounds that must hold.
    pub constraints: Vec<Constraint>,
    /// The most simulations, not counting those on the whole trace.
    pub evaluations: u32,
    /// The seed of the search; the same seed finds the same settings.
    pub seed: u64,
    /// Number of requests that the search uses; all if absent.
    pub requests: Option<u64>,
}

/// A setting that the search changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changed {
    /// The key or keys.
    pub knob: String,
    /// The design's value.
    pub from: String,
    /// The better value.
    pub to: String,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tuned {
    /// The version of Peryton that searched.
    pub peryton_version: String,
    /// A hash of the requests of the whole trace; it does not depend on the format.
    pub trace_hash: RequestHash,
    /// Number of requests of the whole trace.
    pub trace_requests: u64,
    /// Number of requests before the measured ones.
    pub warm_up_requests: u64,
    /// The share that the trace touches of the data in use that the design is for; absent if that is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_share: Option<f64>,
    /// Figures of the unchanged design on the whole trace.
    pub before: Metrics,
    /// Figures with the changes; equal to `before` if nothing better was found.
    pub after: Metrics,
    /// The changed settings.
    pub changed: Vec<Changed>,
    /// The changes as overrides of the design.
    pub overrides: Vec<String>,
    /// Whether the unchanged design meets every constraint.
    pub met_before: bool,
    /// Whether the changed design meets every constraint.
    pub met_after: bool,
    /// Number of simulations.
    pub evaluations: u64,
    /// Number of settings that the design refused or the simulator could not complete.
    pub refused: u64,
}

/// The reason why no search was possible.
#[derive(Debug, ThisError)]
pub enum TuneError {
    /// The design has no knobs.
    #[error("{design}: has no settings that matter to a simulation: name some with --knob KEY=VALUE,VALUE")]
    NothingToTurn {
        /// The design's name.
        design: String,
    },
    /// The report of the design does not have the objective.
    #[error("{design}: its report has no {metric}: {remedy}")]
    Unknown {
        /// The design's name.
        design: String,
        /// The figure.
        metric: Metric,
        /// What to do.
        remedy: &'static str,
    },
    /// The design refuses a value.
    #[error("--knob {knob}: {source}")]
    Knob {
        /// The knob.
        knob: String,
        /// The reason.
        source: DesignError,
    },
    /// A key does not apply to the design.
    #[error("--knob {knob}: {design} has nothing that this key is about: remove it")]
    NotHere {
        /// The knob.
        knob: String,
        /// The design's name.
        design: String,
    },
    /// The trace does not say how fast requests come.
    #[error(transparent)]
    Workload(#[from] PlanError),
    /// The design cannot be read.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// The unchanged design cannot be simulated.
    #[error(transparent)]
    Sim(#[from] SimError),
}

/// The value of each knob, as an index.
type Settings = Vec<usize>;

/// Makes the design with these overrides.
pub type DesignFactory<'a> = dyn Fn(&[String]) -> Result<Design, DesignError> + Sync + 'a;

/// The number of annealing chains; each runs on its own core if there are enough.
const CHAINS: u64 = 4;
/// Annealing gets two thirds of the simulations.
const ANNEALING: u32 = 2;
const OF: u32 = 3;
/// The number of settings that are measured on the whole trace, the best ones on the part of it.
const FINALISTS: usize = 3;
/// The cost of a bound that does not hold: more than any gain of the objective.
const BROKEN: f64 = 100.0;

struct Bench<'a> {
    design: &'a DesignFactory<'a>,
    knobs: &'a [Knob],
    workload: &'a Workload<'a>,
    options: Options,
    account: Account,
    search: &'a Search,
    /// Images of preconditioned flash, shared because all designs have the same devices.
    images: Arc<Images>,
    /// The objective of the unchanged design, to which all others are compared.
    unit: f64,
    known: Mutex<HashMap<Settings, f64>>,
    refused: Mutex<u64>,
    progress: &'a (dyn Fn(u64) + Sync),
}

impl Bench<'_> {
    fn known(&self) -> MutexGuard<'_, HashMap<Settings, f64>> {
        self.known.lock().expect("no evaluation panics")
    }

    fn overrides(&self, settings: &[usize]) -> Vec<String> {
        let chosen = self.knobs.iter().zip(settings).map(|(knob, choice)| &knob.choices[*choice]);
        chosen.flat_map(|choice| choice.overrides.clone()).collect()
    }

    fn measure(&self, settings: &[usize], options: &Options) -> Option<Metrics> {
        let mut design = (self.design)(&self.overrides(settings)).ok()?;
        design.images = Some(Arc::clone(&self.images));
        evaluate(&design, &|| self.workload.source(), options, &self.account).ok()
    }

    /// The cost, where less is better: the logarithm of the objective relative to the unchanged design, or how far a
    /// bound is from being met.
    fn cost(&self, metrics: &Metrics) -> f64 {
        let strain = strain(&self.search.constraints, metrics);
        if strain > 1.0 || strain.is_nan() {
            return BROKEN + strain.ln().min(BROKEN);
        }
        let Some(value) = self.search.objective.of(metrics).filter(|value| !value.is_nan()) else {
            return 3.0 * BROKEN;
        };
        let ratio = (value.max(1e-12) / self.unit.max(1e-12)).ln().clamp(-50.0, 50.0);
        if self.search.objective.more_is_better() { -ratio } else { ratio }
    }

    fn try_out(&self, settings: &[usize]) -> f64 {
        if let Some(cost) = self.known().get(settings) {
            return *cost;
        }
        let metrics = self.measure(settings, &self.options);
        if metrics.is_none() {
            *self.refused.lock().expect("no evaluation panics") += 1;
        }
        let cost = metrics.map_or(4.0 * BROKEN, |metrics| self.cost(&metrics));
        let mut known = self.known();
        known.insert(settings.to_vec(), cost);
        (self.progress)(known.len() as u64);
        cost
    }
}

/// One chain of the annealing.
struct Chain<'a, 'b> {
    bench: &'a Bench<'b>,
    random: Mutex<Xoshiro256PlusPlus>,
}

impl CostFunction for Chain<'_, '_> {
    type Param = Settings;
    type Output = f64;

    fn cost(&self, settings: &Settings) -> Result<f64, Error> {
        Ok(self.bench.try_out(settings))
    }
}

impl Anneal for Chain<'_, '_> {
    type Param = Settings;
    type Output = Settings;
    type Float = f64;

    /// Changes one knob, or two while the temperature is high: by a step in an ordered list, to any value in another.
    fn anneal(&self, settings: &Settings, temperature: f64) -> Result<Settings, Error> {
        let mut random = self.random.lock().expect("no chain panics");
        let mut below = |n: usize| (random.next_u64() % n as u64) as usize;
        let mut next = settings.clone();
        let turns = if temperature > HOT { 1 + below(2) } else { 1 };
        for _ in 0..turns {
            let index = below(self.bench.knobs.len());
            let knob = &self.bench.knobs[index];
            let count = knob.choices.len();
            let at = next[index];
            next[index] = if knob.ordered {
                let far = 1 + below(2);
                if below(2) == 0 { at.saturating_sub(far) } else { (at + far).min(count - 1) }
            } else {
                (at + 1 + below(count - 1)) % count
            };
        }
        Ok(next)
    }
}

/// The temperature at the start: settings whose objective is worse by half are accepted once in five times.
const FIRST_TEMPERATURE: f64 = 0.3;
const HOT: f64 = 0.1;

/// Searches for better settings.
///
/// `progress` is called with the number of different settings that have been tried.
///
/// # Errors
/// See [`TuneError`]. Settings that are refused during the search are not errors; they are counted.
pub fn tune(
    design: &DesignFactory<'_>,
    knobs: &[Knob],
    workload: &Workload<'_>,
    options: &Options,
    account: &Account,
    search: &Search,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Tuned, TuneError> {
    workload.check_pace(options.replay)?;
    let images = Images::shared();
    let mut own = design(&[])?;
    own.images = Some(Arc::clone(&images));
    let mut knobs = knobs.to_vec();
    for knob in &mut knobs {
        usable(design, knob)?;
    }
    knobs.retain(|knob| knob.choices.len() > 1);
    if knobs.is_empty() {
        return Err(TuneError::NothingToTurn { design: own.name });
    }
    let requests = workload.hash.requests().min(options.limit.unwrap_or(u64::MAX));
    let short = search.requests.map_or_else(|| options.clone(), |some| part_of(options, some, requests));
    let part = evaluate(&own, &|| workload.source(), &short, account)?;
    for metric in search.constraints.iter().map(|constraint| constraint.metric).chain([search.objective]) {
        if metric.of(&part).is_none() {
            return Err(TuneError::Unknown { design: own.name, metric, remedy: metric.remedy() });
        }
    }
    let unit = search.objective.of(&part).filter(|value| value.is_finite()).unwrap_or(1.0);
    let start: Settings = knobs.iter().map(|knob| knob.own).collect();
    let bench = Bench {
        design,
        knobs: &knobs,
        workload,
        options: short,
        account: *account,
        search,
        images,
        unit,
        known: Mutex::new(HashMap::new()),
        refused: Mutex::new(0),
        progress,
    };
    let first = bench.cost(&part);
    bench.known().insert(start.clone(), first);

    let each = u64::from(search.evaluations * ANNEALING / OF) / CHAINS;
    let found = (0..CHAINS).into_par_iter().map(|chain| anneal(&bench, &start, first, each, search.seed ^ chain << 32));
    let mut best = found.collect::<Vec<_>>().into_iter().flatten().fold((first, start.clone()), better);
    let tried = bench.known().len() as u64;
    best = polish(&bench, best, u64::from(search.evaluations).saturating_sub(tried));

    // Settings found on a part of the trace may be worse on the rest.
    let whole = |settings: &Settings| bench.measure(settings, options);
    let mut ranked: Vec<(f64, Settings)> =
        bench.known().iter().map(|(settings, cost)| (*cost, settings.clone())).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    let mut finalists: Vec<Settings> = vec![best.1];
    finalists.extend(ranked.into_iter().map(|(_, settings)| settings));
    finalists = finalists.into_iter().map(|settings| simplified(&bench, settings, &start)).collect();
    finalists.retain(|settings| *settings != start);
    let mut seen = std::collections::HashSet::new();
    finalists.retain(|settings| seen.insert(settings.clone()));
    finalists.truncate(FINALISTS);
    let report = run_one(&own, "", workload.source().map_err(SimError::Trace)?, options, &|_| {})?;
    let before = Metrics::of(&own, &report, account);
    let measured: Vec<(Settings, Option<Metrics>)> =
        finalists.into_par_iter().map(|settings| (settings.clone(), whole(&settings))).collect();
    let evaluations = bench.known().len() as u64 + measured.len() as u64 + 1;
    let mut winner = (bench.cost(&before), start.clone(), before.clone());
    for (settings, metrics) in measured {
        if let Some(metrics) = metrics
            && bench.cost(&metrics) < winner.0
        {
            winner = (bench.cost(&metrics), settings, metrics);
        }
    }
    let (_, settings, after) = winner;
    let changed = |(knob, choice): (&Knob, &usize)| {
        let label = |choice: usize| knob.choices[choice].label.clone();
        (*choice != knob.own).then(|| Changed { knob: knob.name.clone(), from: label(knob.own), to: label(*choice) })
    };
    let met = |metrics: &Metrics| search.constraints.iter().all(|constraint| constraint.met(metrics));
    Ok(Tuned {
        peryton_version: report.peryton_version,
        trace_hash: report.trace_hash,
        trace_requests: report.trace_requests,
        warm_up_requests: report.warm_up_requests,
        simulated_share: report.simulated_share,
        met_before: met(&before),
        met_after: met(&after),
        changed: knobs.iter().zip(&settings).filter_map(changed).collect(),
        overrides: bench.overrides(&settings),
        before,
        after,
        evaluations,
        refused: *bench.refused.lock().expect("nothing has panicked"),
    })
}

/// The options for the first `some` of so many requests, of which as large a share warm up.
fn part_of(options: &Options, some: u64, of: u64) -> Options {
    let share = some.min(of) as f64 / of.max(1) as f64;
    let warm_up_requests = (options.warm_up_requests as f64 * share) as u64;
    Options { limit: Some(some), warm_up_requests, ..options.clone() }
}

/// Removes the values that the design refuses.
fn usable(design: &DesignFactory<'_>, knob: &mut Knob) -> Result<(), TuneError> {
    let mut own = knob.own;
    let mut choices = Vec::new();
    for (index, choice) in knob.choices.iter().enumerate() {
        match design(&choice.overrides) {
            Ok(design) if design.ignored_overrides.is_empty() => choices.push(choice.clone()),
            Ok(design) if knob.given => {
                return Err(TuneError::NotHere { knob: knob.name.clone(), design: design.name });
            }
            Err(source) if knob.given => return Err(TuneError::Knob { knob: knob.name.clone(), source }),
            Ok(_) | Err(_) => own -= usize::from(index < knob.own),
        }
    }
    (knob.choices, knob.own) = (choices, own);
    Ok(())
}

fn better(best: (f64, Settings), other: (f64, Settings)) -> (f64, Settings) {
    // Of equally good ones, take the one that comes first in order, so that the result does not depend on threads.
    if other.0 < best.0 || (other.0 == best.0 && other.1 < best.1) { other } else { best }
}

fn anneal(bench: &Bench<'_>, start: &Settings, first: f64, steps: u64, seed: u64) -> Option<(f64, Settings)> {
    if steps == 0 {
        return None;
    }
    let random = |salt: u64| Xoshiro256PlusPlus::seed_from_u64(seed ^ salt);
    // The temperature falls to a hundredth by the last step.
    let cooling = 0.01f64.powf(1.0 / steps as f64);
    let solver = SimulatedAnnealing::new_with_rng(FIRST_TEMPERATURE, random(1))
        .expect("the temperature is above zero")
        .with_temp_func(SATempFunc::Exponential(cooling));
    let chain = Chain { bench, random: Mutex::new(random(2)) };
    let run = Executor::new(chain, solver)
        .configure(|state| state.param(start.clone()).cost(first).max_iters(steps))
        .run()
        .expect("neither cost nor step fails");
    let state = run.state();
    Some((state.get_best_cost(), state.get_best_param()?.clone()))
}

/// Changes single knobs until no change helps, or the given number of simulations is used up.
fn polish(bench: &Bench<'_>, mut best: (f64, Settings), mut left: u64) -> (f64, Settings) {
    loop {
        let mut near = Vec::new();
        for (index, knob) in bench.knobs.iter().enumerate() {
            let at = best.1[index];
            let choices: Vec<usize> = match knob.ordered {
                true => [at.checked_sub(1), Some(at + 1)].into_iter().flatten().collect(),
                false => (0..knob.choices.len()).filter(|choice| *choice != at).collect(),
            };
            for choice in choices.into_iter().filter(|choice| *choice < knob.choices.len()) {
                let mut settings = best.1.clone();
                settings[index] = choice;
                near.push(settings);
            }
        }
        let known = |settings: &Settings| bench.known().contains_key(settings);
        let mut new = 0;
        near.retain(|settings| {
            let wanted = known(settings) || new < left;
            new += u64::from(!known(settings) && wanted);
            wanted
        });
        left -= new;
        let tried: Vec<(f64, Settings)> =
            near.into_par_iter().map(|settings| (bench.try_out(&settings), settings)).collect();
        let next = tried.into_iter().fold(best.clone(), better);
        if next.0 >= best.0 || left == 0 {
            return if next.0 < best.0 { next } else { best };
        }
        best = next;
    }
}

/// Returns knobs to the design's own value where that does equally well.
fn simplified(bench: &Bench<'_>, mut settings: Settings, own: &Settings) -> Settings {
    let known = bench.known();
    for index in 0..settings.len() {
        let mut without = settings.clone();
        without[index] = own[index];
        if let (Some(with), Some(without_cost)) = (known.get(&settings), known.get(&without))
            && without_cost <= with
        {
            settings = without;
        }
    }
    settings
}

#[cfg(test)]
mod tests;

//! The answer: what to buy, what else would do, and what each budget costs.

use std::{cmp::Ordering, collections::BTreeMap, str::FromStr, sync::Arc};

use peryton_device::flash::Images;
use peryton_sim::{Options, Replay, Sensitivity};
use peryton_trace::RequestHash;
use peryton_units::Bytes;
use serde::Serialize;

use super::{
    Candidate, Catalogue, Enumerate, Like, Mode, PlanError, Prediction, Progress, Rung, Scale, Trained, Workload,
    predict,
    search::{Known, Problem, Search},
};
use crate::{
    constraint::{Constraint, Metric, strain},
    evaluate::{Account, IMAGES, Metrics},
};

/// What is asked.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What must be met.
    pub constraints: Vec<Constraint>,
    /// What is to be least, or most.
    pub objective: Metric,
    /// What is to be stored; what the trace reaches over where absent.
    pub capacity: Option<Bytes>,
    /// How much of it is in use over a time as long as the trace; where absent, the same share of it as of what the trace
    /// reaches over.
    pub active: Option<Active>,
    /// The most devices of a kind.
    pub most: u32,
    /// How many designs beside the best.
    pub runners_up: usize,
    /// How ownership is reckoned.
    pub account: Account,
    /// How the trace is replayed.
    pub options: Options,
}

/// How much of the stored data is in use over a time as long as the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Active {
    /// This share of it.
    Share(f64),
    /// So much.
    Size(Bytes),
}

impl FromStr for Active {
    type Err = String;
    /// `5%` or `1.8GiB`.
    fn from_str(text: &str) -> Result<Active, String> {
        let expected = || format!("'{text}' is no share and no size: write one such as 5% or 200GiB");
        match text.trim().strip_suffix('%') {
            Some(number) => {
                let share: f64 = number.trim().parse().map_err(|_| expected())?;
                if share > 0.0 && share <= 100.0 { Ok(Active::Share(share / 100.0)) } else { Err(expected()) }
            }
            None => text.parse().ok().filter(|size| *size > Bytes::ZERO).map(Active::Size).ok_or_else(expected),
        }
    }
}

/// A plan. The names are stable: scripts rely on them. A figure that does not apply is absent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The version that made the plan.
    pub peryton_version: String,
    /// The command that made it, where a command did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The trace.
    pub trace: String,
    /// A hash of its requests, whatever its format.
    pub trace_hash: RequestHash,
    /// How many they are.
    pub trace_requests: u64,
    /// What it is like.
    pub workload: Like,
    /// What is to be stored.
    pub capacity_bytes: u64,
    /// How much of it is taken to be in use over a time as long as the trace.
    pub active_bytes: u64,
    /// What the trace touches, over that: designs are simulated so much smaller than they are bought.
    pub simulated_share: f64,
    /// The volume that is simulated.
    pub simulated_volume_bytes: u64,
    /// What the figures rest on, in sentences.
    pub assumptions: Vec<String>,
    /// What must be met.
    pub constraints: Vec<Constraint>,
    /// What is to be least, or most.
    pub objective: Metric,
    /// How ownership is reckoned.
    pub account: Account,
    /// The devices to choose from.
    pub catalogue: Vec<String>,
    /// How many designs they make.
    pub candidates: usize,
    /// The rounds of the search; the last is the whole trace.
    pub search: Vec<Rung>,
    /// The best design that meets every budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<Found>,
    /// The next best that meet every budget, in order.
    pub runners_up: Vec<Found>,
    /// Where no design does: what is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infeasible: Option<Infeasible>,
    /// What each budget costs.
    pub budgets: Vec<Budget>,
    /// Every design that was simulated with the whole trace: those that meet the budgets first, by the objective.
    pub simulated: Vec<Found>,
    /// What the regressions say by themselves; absent without models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regression: Option<Regression>,
    /// Designs that cannot be simulated, and why.
    pub left_out: Vec<String>,
    /// The values of the models and the prices of the best design and the runners-up that are estimates, by profile.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub estimated_values: BTreeMap<String, Vec<String>>,
    /// What the answer would be if one of them were off, where that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<Sensitivity<Metrics>>,
}

impl Plan {
    /// The best design and the runners-up.
    pub fn chosen(&self) -> impl Iterator<Item = &Found> {
        self.best.iter().chain(&self.runners_up)
    }

    /// The best of them if these had these figures instead, and whether it meets the budgets.
    pub fn best_with(&self, then: &BTreeMap<String, Metrics>) -> Option<(&Found, bool)> {
        let figures = |found: &Found| {
            let metrics = then.get(&found.design).unwrap_or(&found.metrics);
            let value = self.objective.of(metrics).unwrap_or(f64::INFINITY);
            let value = if self.objective.more_is_better() { -value } else { value };
            (strain(&self.constraints, metrics), value)
        };
        let better = |(a_strain, a): (f64, f64), (b_strain, b): (f64, f64)| match (a_strain <= 1.0, b_strain <= 1.0) {
            (true, true) => a.total_cmp(&b),
            (false, false) => a_strain.total_cmp(&b_strain),
            (meets, _) => {
                if meets {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        };
        let best = self.chosen().min_by(|a, b| better(figures(a), figures(b)))?;
        Some((best, figures(best).0 <= 1.0))
    }
}

/// A design that was simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Its name: that of its file.
    pub design: String,
    /// In words.
    pub label: String,
    /// How its devices make one drive.
    pub mode: Mode,
    /// Its devices.
    pub devices: Vec<Bought>,
    /// Whether it meets every budget.
    pub meets: bool,
    /// How far it is from the budget that it is furthest from: at most 1 where it meets all, 2 where it would have to be
    /// twice as good.
    pub strain: f64,
    /// Simulated with the whole trace.
    #[serde(flatten)]
    pub metrics: Metrics,
    /// The mean response time that the last sample had, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled_mean_ms: Option<f64>,
    /// What the regressions say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Prediction>,
    /// How far they are off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prediction_error: Option<Error>,
    /// The design file that the figures are of, to be replayed with the options of the plan.
    pub design_toml: String,
    /// The candidate itself.
    #[serde(skip)]
    pub candidate: Candidate,
}

/// Devices of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bought {
    /// Its role in the design.
    pub role: &'static str,
    /// The profile's name.
    pub profile: String,
    /// How many.
    pub count: u32,
    /// Of each.
    pub price_usd: f64,
    /// How many of them are there already and cost nothing to buy.
    #[serde(skip_serializing_if = "is_zero")]
    pub owned: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Predicted over simulated, less one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Error {
    /// Of the mean response time.
    pub mean_ms: f64,
    /// Of the lifetime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years: Option<f64>,
}

/// Why there is no design, and which one comes nearest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Infeasible {
    /// The budget that the nearest design is furthest from.
    pub binding: Constraint,
    /// Budgets that no design meets, even alone.
    pub impossible_alone: Vec<Constraint>,
    /// The design that comes nearest to all of them.
    pub nearest: Found,
}

/// What a budget costs: the objective of the best design with it, without it, and with another one in its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Budget {
    /// Which.
    pub constraint: Constraint,
    /// Without it.
    pub without: Variant,
    /// With twice as loose a one.
    pub loosened: Variant,
    /// With one twice as tight.
    pub tightened: Variant,
}

/// The best under other budgets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Variant {
    /// The limit in its place; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// The best design's objective; absent if none of those simulated meets these budgets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<f64>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design: Option<String>,
    /// Samples of the trace say that it meets these budgets, with room to spare; the whole trace was not asked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_sample: bool,
}

/// The regressions' own plan, as the paper would make it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Regression {
    /// What they choose: the best design that meets the budgets by their predictions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
    /// Whether it meets the budgets when it is simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice_meets: Option<bool>,
    /// Whether it is what simulation chooses.
    pub agrees: bool,
    /// The mean of |predicted − simulated| / simulated of the response time, over the designs simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_error: Option<f64>,
    /// The same of the lifetime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_error: Option<f64>,
    /// How the designs simulated are ordered: Kendall's rank correlation of predicted and simulated response times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank_correlation: Option<f64>,
    /// The models.
    pub models: Vec<ModelQuality>,
}

/// How good a device's models are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelQuality {
    /// The profile's name.
    pub device: String,
    /// Of which figure: `response` or `erases`.
    pub figure: &'static str,
    /// Whether predictions go by it; the other form is there for comparison.
    pub used: bool,
    /// The model.
    #[serde(flatten)]
    pub fitted: super::Fitted,
}

/// Each of them is simulated with the whole trace.
const MOST_RUNNERS_UP: usize = 50;
/// A budget loosened, or tightened, by this.
const BY: f64 = 2.0;

/// Plans.
///
/// # Errors
/// A capacity below what the trace reaches over, no design with room, or none that can be simulated.
pub fn plan(
    ask: &Ask,
    catalogue: &Catalogue,
    workload: &Workload<'_>,
    models: Option<&Trained>,
    progress: &Progress<'_>,
) -> Result<Plan, PlanError> {
    let reach = workload.reach;
    let capacity = ask.capacity.unwrap_or(reach);
    if capacity.0 < workload.like.reach_bytes {
        return Err(PlanError::Capacity { capacity, reach });
    }
    let active = active(ask, workload, capacity)?;
    let whole = Scale::of(workload.like.footprint_bytes as f64 / active.0 as f64, capacity, reach);
    if ask.most == 0 || ask.most > 256 {
        return Err(PlanError::Range { key: "--most", value: ask.most.to_string(), remedy: "1 to 256" });
    }
    if ask.runners_up > MOST_RUNNERS_UP {
        return Err(PlanError::Range { key: "--runners-up", value: ask.runners_up.to_string(), remedy: "0 to 50" });
    }
    let spin_down = ask.objective.about_energy() || ask.constraints.iter().any(|one| one.metric.about_energy());
    let mut candidates = Candidate::all(catalogue, &Enumerate { capacity, most: ask.most, spin_down });
    // A budget of dollars needs no simulation.
    let dollars = ask.constraints.iter().filter(|one| one.metric == Metric::Dollars).map(|one| one.limit);
    if let Some(most) = dollars.reduce(f64::min) {
        let all = candidates.clone();
        // What a budget twice as loose would buy is asked as well; the cheapest stays to be the nearest.
        candidates.retain(|candidate| candidate.dollars(catalogue) <= most * BY);
        if candidates.is_empty() {
            candidates = all.into_iter().take(8).collect();
        }
    }
    if candidates.is_empty() {
        return Err(PlanError::NoCandidate { most: ask.most, capacity });
    }
    let count = candidates.len();
    // Regressions go by the time between requests: without one, in a closed loop, they say nothing.
    let models = models.filter(|_| matches!(ask.options.replay, Replay::Timed { .. }));
    let speed = if let Replay::Timed { speed } = ask.options.replay { speed } else { 1.0 };
    let predict = |models| predict::all(models, catalogue, workload, speed, &candidates);
    let predictions = models.map(predict).transpose()?;
    let choice = predictions.as_ref().and_then(|all| chosen(ask, catalogue, &candidates, all));
    let search = Search {
        catalogue,
        workload,
        objective: ask.objective,
        whole,
        problems: problems(ask),
        account: ask.account,
        options: ask.options.clone(),
        images: Arc::new(Images::new(IMAGES)),
        progress,
    };
    let also: Vec<Candidate> = choice.map(|index| candidates[index].clone()).into_iter().collect();
    let (known, answers, rungs) = search.run(candidates, &also)?;
    let found = |index: usize| -> Option<Found> {
        let predicted = predictions.as_ref().and_then(|all| all[index].clone());
        let text = known[index].candidate.scaled(catalogue, whole, workload.like.request_kib);
        found(ask, catalogue, &known[index], predicted, text)
    };
    let mut simulated: Vec<Found> = (0..known.len()).filter_map(found).collect();
    let rank =
        |found: &Found| (!found.meets, if found.meets { ask.objective.cost(&found.metrics) } else { found.strain });
    simulated.sort_by(|a, b| {
        let (x, y) = (rank(a), rank(b));
        x.0.cmp(&y.0)
            .then(x.1.total_cmp(&y.1))
            .then(a.metrics.mean_ms.total_cmp(&b.metrics.mean_ms))
            .then_with(|| a.design.cmp(&b.design))
    });
    if simulated.is_empty() {
        let first = known.iter().find_map(|one| one.failed.clone()).unwrap_or_default();
        return Err(PlanError::NoneRuns { candidates: count, first });
    }
    let meets: Vec<&Found> = simulated.iter().filter(|found| found.meets).collect();
    let best = meets.first().map(|found| (*found).clone());
    let infeasible = best.is_none().then(|| infeasible(ask, &simulated, &known)).flatten();
    let regression = models.map(|models| {
        let choice = choice.map(|index| known[index].candidate.name(catalogue));
        regression(models, catalogue, choice, best.as_ref(), &simulated)
    });
    let of_problem = |problem: usize| answers[problem].map(|answer| (&known[answer.index], answer.by_sample));
    let budgets = (0..ask.constraints.len()).map(|index| budget(ask, index, catalogue, &of_problem)).collect();
    let left_out = known.iter().filter(|one| one.exact.is_none() && one.sampled.is_none());
    let left_out =
        left_out.filter_map(|one| Some(format!("{}: {}", one.candidate.label(catalogue), one.failed.as_ref()?)));
    Ok(Plan {
        peryton_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: None,
        trace: workload.name.clone(),
        trace_hash: workload.hash,
        trace_requests: workload.hash.requests(),
        workload: workload.like,
        capacity_bytes: capacity.0,
        active_bytes: active.0,
        simulated_share: whole.space(),
        simulated_volume_bytes: whole.volume().0,
        assumptions: assumptions(ask, workload, capacity, active, whole),
        constraints: ask.constraints.clone(),
        objective: ask.objective,
        account: ask.account,
        catalogue: catalogue.kinds.iter().map(|kind| kind.profile.name.clone()).collect(),
        candidates: count,
        search: rungs,
        runners_up: meets.iter().skip(1).take(ask.runners_up).map(|found| (*found).clone()).collect(),
        budgets,
        left_out: left_out.collect(),
        estimated_values: BTreeMap::new(),
        sensitivity: None,
        best,
        infeasible,
        regression,
        simulated,
    })
}

/// How much of the stored data is in use over a time as long as the trace.
fn active(ask: &Ask, workload: &Workload<'_>, capacity: Bytes) -> Result<Bytes, PlanError> {
    let touched = Bytes(workload.like.footprint_bytes.max(1));
    let of = |share: f64| Bytes((capacity.0 as f64 * share).round() as u64);
    let active = match ask.active {
        None if capacity <= workload.reach => touched,
        None => of(touched.0 as f64 / workload.like.reach_bytes as f64).max(touched),
        Some(Active::Share(share)) => of(share),
        Some(Active::Size(size)) => size,
    };
    match active {
        active if active < touched => Err(PlanError::ActiveLess { active, touched }),
        active if active > capacity => Err(PlanError::ActiveMore { active, capacity }),
        active => Ok(active),
    }
}

fn assumptions(ask: &Ask, workload: &Workload<'_>, capacity: Bytes, active: Bytes, whole: Scale) -> Vec<String> {
    let touched = Bytes(workload.like.footprint_bytes);
    let mut all = Vec::new();
    if capacity > workload.reach || ask.active.is_some() {
        let share = active.0 as f64 / capacity.0 as f64 * 100.0;
        let why = match ask.active {
            Some(_) => "as --active says",
            None => "the same share as of what the trace reaches over; --active says otherwise",
        };
        all.push(format!(
            "of the {capacity} stored, {active} ({share:.2} %) are in use over a time as long as the trace: {why}"
        ));
        if whole.space() >= 1.0 && whole.volume() < capacity {
            all.push(format!(
                "what is stored beside that is not asked for: designs are simulated with a volume of {}, as far as the trace \
                 reaches",
                whole.volume()
            ));
        }
        if whole.space() < 1.0 {
            all.push(format!(
                "the trace touches {touched}, so designs are simulated at {:.3e} of their size, with their caches, logs and \
                 times; requests come as fast as recorded, spread over more data (--speed for another load)",
                whole.space()
            ));
        }
    }
    all.push(format!(
        "the load of these {:.3} s goes on day and night: lifetimes, energy a year and ownership follow from it",
        workload.like.span_s
    ));
    all
}

/// How each budget is varied: left out, loosened, tightened.
const VARIATIONS: [Option<f64>; 3] = [None, Some(BY), Some(1.0 / BY)];

/// What was asked, and the variations of each budget in turn.
fn problems(ask: &Ask) -> Vec<Problem> {
    let asked = Problem { constraints: ask.constraints.clone(), wanted: 1 + ask.runners_up, by_sample: false };
    let by_sample = ask.objective == Metric::Dollars;
    let variants = (0..ask.constraints.len())
        .flat_map(|index| VARIATIONS.map(|by| Problem { constraints: varied(ask, index, by), wanted: 1, by_sample }));
    std::iter::once(asked).chain(variants).collect()
}

fn varied(ask: &Ask, index: usize, by: Option<f64>) -> Vec<Constraint> {
    let mut constraints = ask.constraints.clone();
    match by {
        None => drop(constraints.remove(index)),
        Some(by) => constraints[index] = constraints[index].loosened(by),
    }
    constraints
}

fn found(
    ask: &Ask,
    catalogue: &Catalogue,
    known: &Known,
    predicted: Option<Prediction>,
    design_toml: String,
) -> Option<Found> {
    let metrics = known.exact.clone()?;
    let strain = strain(&ask.constraints, &metrics);
    let prediction_error = predicted.as_ref().map(|predicted| Error {
        mean_ms: predicted.mean_ms / metrics.mean_ms - 1.0,
        lifetime_years: predicted.lifetime_years.zip(metrics.lifetime_years).map(|(ours, theirs)| ours / theirs - 1.0),
    });
    let bought = known.candidate.members().map(|(role, member)| {
        let kind = &catalogue.kinds[member.kind];
        let owned = kind.owned.min(member.count);
        Bought { role, profile: kind.profile.name.clone(), count: member.count, price_usd: kind.price_usd, owned }
    });
    Some(Found {
        design: known.candidate.name(catalogue),
        label: known.candidate.label(catalogue),
        mode: known.candidate.mode,
        devices: bought.collect(),
        meets: strain <= 1.0,
        strain,
        sampled_mean_ms: known.sampled.as_ref().map(|(metrics, _)| metrics.mean_ms),
        predicted,
        prediction_error,
        design_toml,
        candidate: known.candidate.clone(),
        metrics,
    })
}

fn infeasible(ask: &Ask, simulated: &[Found], known: &[Known]) -> Option<Infeasible> {
    // Those that meet no budget are in the order of their strain.
    let nearest = simulated.first()?.clone();
    let strains = ask.constraints.iter().map(|one| (one.strain(&nearest.metrics), one));
    let binding = *strains.max_by(|a, b| a.0.total_cmp(&b.0))?.1;
    let may = |one: &Known, budget: &Constraint| {
        let sampled = one.sampled.as_ref().map(|(metrics, _)| metrics);
        one.exact.as_ref().or(sampled).is_some_and(|metrics| budget.met(metrics))
    };
    let alone = |budget: &&Constraint| !known.iter().any(|one| may(one, budget));
    let impossible_alone = ask.constraints.iter().filter(alone).copied().collect();
    Some(Infeasible { binding, impossible_alone, nearest })
}

/// `answer` gives the best candidate of a problem, in the order of [`problems`], and whether only samples say so.
fn budget<'a>(
    ask: &Ask,
    index: usize,
    catalogue: &Catalogue,
    answer: &dyn Fn(usize) -> Option<(&'a Known, bool)>,
) -> Budget {
    let variant = |variation: usize| {
        let best = answer(1 + index * VARIATIONS.len() + variation);
        let objective = |(known, by_sample): (&Known, bool)| match &known.exact {
            Some(metrics) if !by_sample => ask.objective.of(metrics),
            // Only what needs no simulation is answered by samples.
            _ => Some(known.candidate.dollars(catalogue)),
        };
        Variant {
            limit: VARIATIONS[variation].map(|by| ask.constraints[index].loosened(by).limit),
            objective: best.and_then(objective),
            design: best.map(|(known, _)| known.candidate.name(catalogue)),
            by_sample: best.is_some_and(|(_, by_sample)| by_sample),
        }
    };
    Budget { constraint: ask.constraints[index], without: variant(0), loosened: variant(1), tightened: variant(2) }
}

/// The best candidate by what is predicted. Regressions know response times, lifetimes and prices; other budgets do not
/// count here.
fn chosen(
    ask: &Ask,
    catalogue: &Catalogue,
    candidates: &[Candidate],
    predictions: &[Option<Prediction>],
) -> Option<usize> {
    let meets = |index: &usize| {
        let Some(predicted) = &predictions[*index] else { return false };
        ask.constraints.iter().all(|one| match one.metric {
            Metric::Latency => predicted.mean_ms <= one.limit,
            Metric::Lifetime => predicted.lifetime_years.unwrap_or(f64::INFINITY) >= one.limit,
            Metric::Dollars => candidates[*index].dollars(catalogue) <= one.limit,
            _ => true,
        })
    };
    let cost = |index: &usize| {
        let predicted = predictions[*index].as_ref();
        match ask.objective {
            Metric::Latency => predicted.map_or(f64::INFINITY, |one| one.mean_ms),
            Metric::Lifetime => predicted.map_or(f64::INFINITY, |one| -one.lifetime_years.unwrap_or(f64::INFINITY)),
            _ => candidates[*index].dollars(catalogue),
        }
    };
    let mean = |index: &usize| predictions[*index].as_ref().map_or(f64::INFINITY, |one| one.mean_ms);
    (0..candidates.len())
        .filter(meets)
        .min_by(|a, b| cost(a).total_cmp(&cost(b)).then(mean(a).total_cmp(&mean(b))).then(a.cmp(b)))
}

fn regression(
    models: &Trained,
    catalogue: &Catalogue,
    choice: Option<String>,
    best: Option<&Found>,
    simulated: &[Found],
) -> Regression {
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let errors = |of: fn(&Error) -> Option<f64>| {
        mean(simulated.iter().filter_map(|found| of(found.prediction_error.as_ref()?)).map(f64::abs).collect())
    };
    let chosen = choice.as_ref().and_then(|name| simulated.iter().find(|found| found.design == *name));
    Regression {
        choice_meets: chosen.map(|found| found.meets),
        agrees: choice.is_some() && choice.as_ref() == best.map(|found| &found.design),
        choice,
        mean_error: errors(|error| Some(error.mean_ms)),
        lifetime_error: errors(|error| error.lifetime_years),
        rank_correlation: kendall(simulated),
        models: qualities(catalogue, models),
    }
}

/// How good the models of a catalogue's devices are.
pub fn qualities(catalogue: &Catalogue, models: &Trained) -> Vec<ModelQuality> {
    let mut qualities = Vec::new();
    for kind in &catalogue.kinds {
        let Some(device) = models.devices.get(&kind.profile.name) else { continue };
        let figures =
            [("response", &device.response, device.best_response()), ("erases", &device.erases, device.best_erases())];
        for (figure, forms, best) in figures {
            for fitted in forms {
                let (device, used) = (kind.profile.name.clone(), best == Some(fitted));
                qualities.push(ModelQuality { device, figure, used, fitted: fitted.clone() });
            }
        }
    }
    qualities
}

/// Pairs in the same order less those in the other, over all that differ.
fn kendall(simulated: &[Found]) -> Option<f64> {
    let pairs: Vec<(f64, f64)> =
        simulated.iter().filter_map(|found| Some((found.predicted.as_ref()?.mean_ms, found.metrics.mean_ms))).collect();
    let (mut sum, mut count) = (0.0, 0.0);
    for (index, a) in pairs.iter().enumerate() {
        for b in &pairs[..index] {
            let sign = (a.0 - b.0) * (a.1 - b.1);
            if sign != 0.0 {
                sum += sign.signum();
                count += 1.0;
            }
        }
    }
    (count > 0.0).then(|| sum / count)
}

//! Makes a plan: checks the request, searches the candidates, and reports the best designs and what each budget costs.

use std::collections::{BTreeMap, BTreeSet};

use peryton_device::flash::Images;
use peryton_sim::{Design, Load, SimError};
use peryton_units::Bytes;

use super::{
    Candidate, Catalogue, Enumerate, PlanError, Progress, Protection, Workload,
    ask::{Active, Ask},
    error::MOST_OF_A_KIND,
    estimates,
    failures::{self, Failures},
    flash::{ASSUMPTION, Flash, FlashCapacity},
    gives,
    grid::Grid,
    report::{Bought, Budget, Found, Infeasible, Plan, Variant},
    sample::Scale,
    search::{Known, Of, Problem, Search},
    turns,
};
use crate::{
    constraint::{Constraint, Metric, strain},
    evaluate::{Metrics, evaluate},
};

/// The most runners-up; each of them is simulated with the whole trace.
const MOST_RUNNERS_UP: usize = 50;
/// The factor by which budgets are loosened or tightened.
const BY: f64 = 2.0;

/// Finds the best designs for a workload.
///
/// # Errors
/// The capacity is below the range that the trace uses, no design has room, or none can be simulated.
pub fn plan(
    ask: &Ask,
    catalogue: &Catalogue,
    workload: &Workload<'_>,
    progress: &Progress<'_>,
) -> Result<Plan, PlanError> {
    workload.check_pace(ask.options.replay)?;
    let reach = workload.reach;
    let capacity = ask.capacity.unwrap_or(reach);
    if capacity.0 < workload.like.reach_bytes {
        return Err(PlanError::Capacity { capacity, reach });
    }
    let active = active(ask, workload, capacity)?;
    let share = workload.like.footprint_bytes as f64 / active.0 as f64;
    // Where no more is stored than the trace spans, nothing is smaller.
    let load = if capacity <= reach { Load::WHOLE } else { Load::of(share, reach) };
    let whole = Scale { data: capacity, load };
    if !(0.01..=1.0).contains(&ask.protection.fill_limit) {
        let value = format!("{}%", ask.protection.fill_limit * 100.0);
        return Err(PlanError::Range { key: "--fill-limit", value, remedy: "a share from 1% to 100%, such as 80%" });
    }
    if ask.most == 0 || ask.most > MOST_OF_A_KIND {
        return Err(PlanError::Range { key: "--most", value: ask.most.to_string(), remedy: "1 to 256" });
    }
    if ask.runners_up > MOST_RUNNERS_UP {
        return Err(PlanError::Range { key: "--runners-up", value: ask.runners_up.to_string(), remedy: "0 to 50" });
    }
    let spin_down = ask.objective.about_energy() || ask.constraints.iter().any(|one| one.metric.about_energy());
    let enumerate = Enumerate { capacity, most: ask.most, spin_down, protection: ask.protection, flash: ask.flash };
    let mut candidates = Candidate::all(catalogue, &enumerate);
    let mut grid = Grid::new(catalogue, enumerate, whole);
    if ask.flash == Flash::Any {
        progress("reading the miss-ratio curve", 0, 0);
        candidates = grid.all(candidates, workload)?;
    }
    // A budget of dollars can be checked without simulation.
    let dollars = ask.constraints.iter().filter(|one| one.metric == Metric::Dollars).map(|one| one.limit);
    if let Some(most) = dollars.reduce(f64::min) {
        let all = candidates.clone();
        // Designs within twice the budget stay for the variations; if there are none, some of the cheapest stay as the nearest.
        candidates.retain(|candidate| candidate.dollars(catalogue) <= most * BY);
        if candidates.is_empty() {
            candidates = all.into_iter().take(8).collect();
        }
    }
    if candidates.is_empty() {
        return Err(PlanError::NoCandidate { most: ask.most, capacity });
    }
    let mut search = Search {
        catalogue,
        workload,
        objective: ask.objective,
        whole,
        problems: problems(ask),
        account: ask.account,
        duty: ask.duty,
        options: ask.options.clone(),
        images: Images::shared(),
        enumerate,
        grid,
        progress,
    };
    let (known, answers, rungs) = search.run(candidates)?;
    let found = |index: usize| -> Option<Found> {
        let text = known[index].candidate.text(catalogue, capacity) + &whole.load.to_toml(ask.duty);
        found(ask, catalogue, &known[index], text)
    };
    let of_each = Of::ALL.map(|of| {
        let best = search.best_of(&known, of).filter(|index| known[*index].exact.is_some());
        best.map(|index| known[index].candidate.name(catalogue))
    });
    let [flash_alone, disks_alone, three_tiers] = of_each;
    let count = known.len();
    let mut simulated: Vec<Found> = (0..known.len()).filter_map(found).collect();
    let rank =
        |found: &Found| (!found.meets, if found.meets { ask.objective.cost(&found.metrics) } else { found.strain });
    simulated.sort_by(|a, b| {
        let (x, y) = (rank(a), rank(b));
        x.0.cmp(&y.0)
            .then(x.1.total_cmp(&y.1))
            .then(a.metrics.mean_ms.total_cmp(&b.metrics.mean_ms))
            // Of two capacities that make no difference the smaller one.
            .then_with(|| a.candidate.fast.capacity.is_none().cmp(&b.candidate.fast.capacity.is_none()))
            .then_with(|| a.candidate.fast.capacity.cmp(&b.candidate.fast.capacity))
            .then_with(|| a.design.cmp(&b.design))
    });
    if simulated.is_empty() {
        let first = known.iter().find_map(|one| one.failed.clone()).unwrap_or_default();
        return Err(PlanError::NoneRuns { candidates: count, first });
    }
    for metric in ask.constraints.iter().map(|one| one.metric).chain([ask.objective]) {
        if simulated.iter().all(|found| metric.of(&found.metrics).is_none()) {
            return Err(PlanError::Unknown { metric, remedy: metric.remedy() });
        }
    }
    let meets: Vec<&Found> = simulated.iter().filter(|found| found.meets).collect();
    let mut best = meets.first().map(|found| (*found).clone());
    let mut runners_up = runners_up(ask.runners_up, &meets);
    match ask.flash {
        Flash::Any => {
            let exact: Vec<(Candidate, Metrics)> =
                known.iter().filter_map(|one| Some((one.candidate.clone(), one.exact.clone()?))).collect();
            for found in best.iter_mut().chain(&mut runners_up) {
                found.flash = FlashCapacity::of(&found.candidate, catalogue, &ask.constraints, &exact);
            }
        }
        Flash::Whole => {
            if let Some(found) = best.as_mut().filter(|found| ask.flash_need && found.candidate.is_hybrid())
                && !search.grid.add(&found.candidate, workload)?.is_empty()
            {
                let points = search.needed(&found.candidate, &found.metrics)?;
                found.flash = FlashCapacity::of(&found.candidate, catalogue, &ask.constraints, &points);
            }
        }
    }
    if let Some(best) = &best {
        progress("verifying the first choice from its file", 0, 0);
        verify(best, &search)?;
    }
    progress("looking for where the answer changes", 0, 0);
    let turns = turns::of(ask, catalogue, &search, &simulated);
    let infeasible = best.is_none().then(|| infeasible(ask, &search, &simulated, &known)).flatten();
    let of_problem = |problem: usize| answers[problem].map(|answer| (&known[answer.index], answer.by_sample));
    let budgets = (0..ask.constraints.len()).map(|index| budget(ask, index, catalogue, &of_problem)).collect();
    let left_out = known.iter().filter(|one| one.exact.is_none() && one.sampled.is_none());
    let left_out =
        left_out.filter_map(|one| Some(format!("{}: {}", one.candidate.label(catalogue), one.failed.as_ref()?)));
    let mut plan = Plan {
        peryton_version: peryton_sim::build().version.to_owned(),
        command: None,
        trace: workload.name.clone(),
        trace_hash: workload.hash,
        trace_requests: workload.hash.requests(),
        workload: workload.like,
        capacity_bytes: capacity.0,
        active_bytes: active.0,
        simulated_share: whole.load.share,
        simulated_volume_bytes: whole.volume().0,
        assumptions: assumptions(ask, workload, capacity, active, whole),
        fill_limit: ask.protection.fill_limit,
        flash: ask.flash,
        constraints: ask.constraints.clone(),
        objective: ask.objective,
        account: ask.account,
        duty: ask.duty,
        catalogue: catalogue.kinds.iter().map(|kind| kind.profile.name.clone()).collect(),
        candidates: count,
        search: rungs,
        runners_up,
        budgets,
        left_out: left_out.collect(),
        estimated_values: BTreeMap::new(),
        sensitivity: None,
        best,
        infeasible,
        turns,
        flash_alone,
        disks_alone,
        three_tiers,
        simulated,
    };
    if !catalogue.unpriced.is_empty() {
        let names = catalogue.unpriced.join(", ");
        plan.assumptions.push(format!("devices without a known price are left out: {names} (--price NAME=USD)"));
    }
    plan.estimated_values = estimates::of(&plan, catalogue);
    Ok(plan)
}

/// Simulates a design once more, from its file and with nothing that the search had. It must give the same figures.
fn verify(found: &Found, search: &Search<'_>) -> Result<(), PlanError> {
    let design = Design::parse(&found.design_toml, &found.design, &[]).map_err(SimError::from)?;
    let again = evaluate(&design, &|| search.workload.source(), &search.options, &search.account)?;
    match again == found.metrics {
        true => Ok(()),
        false => Err(PlanError::Differs {
            design: found.design.clone(),
            planned: found.metrics.mean_ms,
            again: again.mean_ms,
        }),
    }
}

/// The next best designs that meet the budgets. Designs that differ in the capacity of their flash alone are one.
fn runners_up(count: usize, meets: &[&Found]) -> Vec<Found> {
    let mut shapes = BTreeSet::new();
    let first = meets.iter().filter(|found| shapes.insert(found.candidate.with_capacity(None)));
    first.skip(1).take(count).map(|found| (*found).clone()).collect()
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
            Some(_) => "the value of --active",
            None => "the share that the trace uses of its span of addresses; --active sets another",
        };
        all.push(format!(
            "requests use {active} ({share:.2} %) of the stored {capacity} within the duration of the trace: {why}"
        ));
        if whole.load.share >= 1.0 && whole.volume() < capacity {
            all.push(format!(
                "the other stored data are not accessed: designs are simulated with a volume of {}, the span of the \
                 trace's addresses",
                whole.volume()
            ));
        }
        if whole.load.share < 1.0 {
            all.push(format!(
                "the trace touches {touched}, so designs are simulated at {} % of their size, with their caches, logs and \
                 times; requests come as fast as recorded, spread over more data (--speed for another load)",
                peryton_units::person(whole.load.share * 100.0)
            ));
        }
        if whole.load.share < 1.0 && whole.volume() > workload.reach {
            all.push(format!(
                "the data in use lie together at the beginning of the volume, on the outer tracks of disks; if they are scattered \
                 over the whole volume, disks are as slow as with --active {capacity}"
            ));
        }
    }
    let goes_on = match ask.duty {
        duty if duty < 1.0 => format!(
            "for {} % of the time, in which devices wear; energy is counted for the whole time",
            peryton_units::person(duty * 100.0)
        ),
        _ => "day and night: lifetimes, energy a year and ownership follow from it (--duty, --per-day)".to_owned(),
    };
    all.push(format!(
        "the load of these {} s (of their measured part) goes on {goes_on}",
        peryton_units::person(workload.like.span_s)
    ));
    all.push(match ask.options.warm_up_requests {
        0 => "every design is measured from its first request: caches and tiers begin empty, so their designs look \
              slower than they are (--warm-up-requests)"
            .to_owned(),
        requests => format!(
            "the first {requests} of {} requests warm every design up and are not measured (--warm-up-requests): a cache \
             or tier then holds the data that these requests brought into it",
            workload.hash.requests()
        ),
    });
    all.push(fill(&ask.protection));
    if ask.flash == Flash::Any {
        all.push(ASSUMPTION.to_owned());
    }
    all.extend(failures::assumptions(&ask.protection, ask.account.years));
    all
}

fn fill(protection: &Protection) -> String {
    let percent = protection.fill_limit * 100.0;
    if protection.fill_limit >= 1.0 {
        return "devices are filled completely (--fill-limit 80% leaves room for growth and repairs)".to_owned();
    }
    format!(
        "devices are filled to at most {percent} % (--fill-limit); on flash the rest counts as over-provisioning, \
         which is right as long as the rest is never written, or discarded"
    )
}

/// How each budget is varied: left out, loosened, tightened.
const VARIATIONS: [Option<f64>; 3] = [None, Some(BY), Some(1.0 / BY)];

/// The requested problem, and the variations of each budget in turn.
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

fn found(ask: &Ask, catalogue: &Catalogue, known: &Known, design_toml: String) -> Option<Found> {
    let metrics = known.exact.clone()?;
    let strain = strain(&ask.constraints, &metrics);
    let bought = known.candidate.members().into_iter().map(|(role, member)| {
        let kind = &catalogue.kinds[member.kind];
        Bought {
            role,
            profile: kind.profile.name.clone(),
            count: member.count,
            redundancy: member.redundancy,
            data_devices: member.data_devices(),
            spares: member.spares,
            capacity_bytes: member.capacity.map(|capacity| capacity.0),
            price_usd: kind.price_of_each(member),
            owned: kind.owned.min(member.bought()),
        }
    });
    Some(Found {
        design: known.candidate.name(catalogue),
        label: known.candidate.label(catalogue),
        mode: known.candidate.mode,
        slow_mode: known.candidate.drive().map(|drive| drive.mode),
        devices: bought.collect(),
        failures: Failures::of(&known.candidate, catalogue, &ask.protection, ask.account.years),
        meets: strain <= 1.0,
        strain,
        sampled_mean_ms: known.sampled.as_ref().map(|(metrics, _)| metrics.mean_ms),
        design_toml,
        flash: None,
        candidate: known.candidate.clone(),
        metrics,
    })
}

fn infeasible(ask: &Ask, search: &Search<'_>, simulated: &[Found], known: &[Known]) -> Option<Infeasible> {
    // Designs that do not meet the budgets are in the order of their strain.
    let nearest = simulated.first()?.clone();
    let strains = ask.constraints.iter().map(|one| (one.strain(&nearest.metrics), one));
    let binding = strains.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, one)| *one);
    let may = |one: &Known, budget: &Constraint| {
        let sampled = one.sampled.as_ref().map(|(metrics, _)| metrics);
        one.exact.as_ref().or(sampled).is_some_and(|metrics| budget.met(metrics))
    };
    let alone = |budget: &&Constraint| !known.iter().any(|one| may(one, budget));
    let impossible_alone = ask.constraints.iter().filter(alone).copied().collect();
    let gives = gives::of(ask, search, simulated);
    Some(Infeasible { overloaded: nearest.metrics.is_overloaded(), binding, impossible_alone, nearest, gives })
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
            // Samples answer only problems whose objective needs no simulation.
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

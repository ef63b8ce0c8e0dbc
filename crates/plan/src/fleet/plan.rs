//! Makes a plan for a fleet: chooses drives, simulates them, and chooses again with what that showed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use peryton_units::{Bytes, Nanos, person};
use rayon::prelude::*;

use super::{
    assign::{Assigned, EXACT, assign, cheapest},
    bound::bound,
    carry::{Budgets, Carried, Correction, Fleet, Means},
    drive::{self, DriveKind},
    error::FleetPlanError,
    infeasible::{missed, why_not},
    load::{CurvePoint, VolumeLoad},
    report::{FleetDevices, FleetDrive, FleetPlan, FleetVolume},
    stretch::Stretch,
    verify::{DriveDone, DriveTask, TaskVolume, VolumeDone},
};
use crate::{
    capacity::{Catalogue, Progress, Protection},
    constraint::Constraint,
    evaluate::Account,
    metric::Metric,
};

/// The most times that drives are chosen and simulated.
pub const MOST_ROUNDS: usize = 5;
/// A volume with fewer measured requests is not judged by their mean.
const LEAST_JUDGED: u64 = 100;
/// A kind whose simulated response times are below this share of the predicted ones may carry more: drives are chosen once more.
const BETTER: f64 = 0.85;
/// Predicted times are corrected by a little more than the simulations show, for the next choice is not the same.
const MARGIN: f64 = 1.02;
/// By how much more requests are taken to wait on a drive that was overloaded.
const OVERLOADED: f64 = 2.0;

/// A request for a plan of a fleet.
#[derive(Clone, Debug)]
pub struct FleetAsk {
    /// The budgets: `latency`, `read` and `write` of each volume, `lifetime` of each drive, `dollars` of all.
    pub constraints: Vec<Constraint>,
    /// What is minimised: `dollars`, or `ownership`.
    pub objective: Metric,
    /// The most devices of a kind in a drive.
    pub most: u32,
    /// What every drive keeps for the day when devices fail.
    pub protection: Protection,
    /// The rules for the cost of ownership.
    pub account: Account,
    /// The share of the time in which the load goes on: with 1, day and night.
    pub duty: f64,
}

/// A function that simulates drives: here, or on other machines.
pub type Simulate<'a> = dyn Fn(&[DriveTask]) -> Result<Vec<DriveDone>, FleetPlanError> + 'a;

impl FleetAsk {
    /// Checks what can be checked before recordings are read.
    ///
    /// # Errors
    /// A budget or an objective that only a simulation of one drive gives.
    pub fn check(&self) -> Result<(), FleetPlanError> {
        let budgets = [Metric::Latency, Metric::Read, Metric::Write, Metric::Lifetime, Metric::Dollars];
        if let Some(other) = self.constraints.iter().find(|one| !budgets.contains(&one.metric)) {
            let known = "latency, read, write, lifetime, dollars";
            return Err(FleetPlanError::NotOfFleet { what: other.to_string(), kind: "budget", known });
        }
        if ![Metric::Dollars, Metric::Ownership].contains(&self.objective) {
            let what = self.objective.to_string();
            return Err(FleetPlanError::NotOfFleet { what, kind: "objective", known: "dollars, ownership" });
        }
        if self.most == 0 || self.most > 256 {
            return Err(FleetPlanError::Range { key: "--most", value: self.most.to_string(), remedy: "1 to 256" });
        }
        Ok(())
    }

    fn budgets(&self) -> Budgets {
        let of = |metric: Metric| {
            let limits = self.constraints.iter().filter(|one| one.metric == metric).map(|one| one.limit);
            limits.reduce(if metric.more_is_better() { f64::max } else { f64::min })
        };
        Budgets {
            latency_s: of(Metric::Latency).map(|ms| ms / 1e3),
            read_s: of(Metric::Read).map(|ms| ms / 1e3),
            write_s: of(Metric::Write).map(|ms| ms / 1e3),
            lifetime_years: of(Metric::Lifetime),
        }
    }
}

/// A choice of drives with what was predicted and simulated of each.
struct Round {
    drives: Vec<(Assigned, Carried, DriveDone, f64)>,
}

impl Round {
    fn usd(&self) -> f64 {
        self.drives.iter().map(|(drive, ..)| drive.usd).sum()
    }

    /// How many drives miss a budget in the simulation.
    fn missed(&self, fleet: &Fleet) -> usize {
        self.drives.iter().filter(|(_, carried, done, _)| !keeps(fleet, carried, done)).count()
    }
}

fn means(volume: &VolumeDone) -> Means {
    let s = |ms: Option<f64>| ms.map(|ms| ms / 1e3);
    Means { all_s: volume.mean_ms / 1e3, waits_s: 0.0, read_s: s(volume.read_ms), write_s: s(volume.write_ms) }
}

/// Whether a simulated volume keeps its budgets; `None` if too few requests of it were measured.
fn judged(fleet: &Fleet, volume: &VolumeDone) -> Option<bool> {
    (volume.requests >= LEAST_JUDGED).then(|| fleet.budgets.strain(&means(volume)) <= 1.0)
}

fn keeps(fleet: &Fleet, carried: &Carried, done: &DriveDone) -> bool {
    let wear = fleet.budgets.wear_strain(carried.lifetime_years) <= 1.0;
    wear && !done.overloaded && done.volumes.iter().all(|volume| judged(fleet, volume) != Some(false))
}

/// Plans for volumes whose loads were measured.
///
/// # Errors
/// A budget that is none of a fleet, or a simulation that fails.
pub fn plan(
    ask: &FleetAsk,
    catalogue: &Catalogue,
    name: &str,
    loads: &[VolumeLoad],
    simulate: &Simulate<'_>,
    progress: &Progress<'_>,
) -> Result<FleetPlan, FleetPlanError> {
    ask.check()?;
    let measured = |done: u64, of: u64| progress("measuring what devices carry", done, of);
    let (kinds, more) = drive::kinds(catalogue, &ask.protection, ask.most, &measured)?;
    let together = is_one_clock(loads);
    let owned = ask.objective == Metric::Ownership;
    let mut fleet = Fleet::new(loads, together, kinds, (ask.account, ask.duty), owned, ask.budgets());
    let alone_usd = alone_usd(&fleet);
    let mut rounds: Vec<Round> = Vec::new();
    let mut known: BTreeSet<Vec<(usize, Vec<usize>)>> = BTreeSet::new();
    let mut done = HashMap::new();
    let mut chosen = false;
    for number in 1..=MOST_ROUNDS {
        let what = format!("choosing drives, round {number}");
        let Some(drives) = assign(&fleet, &|done, of| progress(&what, done, of)) else { break };
        chosen = true;
        if !known.insert(drives.iter().map(|drive| (drive.kind, drive.group.clone())).collect()) {
            break;
        }
        let round = simulated(catalogue, &fleet, loads, together, drives, &mut done, simulate)?;
        let learnt = learn(&mut fleet, &round);
        rounds.push(round);
        if !learnt {
            break;
        }
    }
    let best = rounds
        .iter()
        .enumerate()
        .min_by(|(_, a), (_, b)| a.missed(&fleet).cmp(&b.missed(&fleet)).then(a.usd().total_cmp(&b.usd())));
    let mut plan = about(ask, catalogue, name, loads, &fleet, together, more);
    plan.rounds = rounds.len();
    plan.alone_usd = alone_usd;
    if let Some((_, best)) = best {
        progress("bounding the cost", 0, 0);
        plan.corrections = corrections(catalogue, &fleet);
        describe(&mut plan, catalogue, &fleet, loads, best);
        bounds(&mut plan, &fleet, catalogue);
    }
    plan.infeasible = match chosen {
        false => why_not(&fleet, catalogue, loads, ask),
        true => missed(ask, &plan),
    };
    plan.meets = plan.infeasible.is_empty() && !plan.drives.is_empty();
    Ok(plan)
}

/// Whether each recording overlaps with every other one: then they have one clock.
fn is_one_clock(loads: &[VolumeLoad]) -> bool {
    let last_start = loads.iter().map(|load| load.start).max();
    let first_end = loads.iter().map(|load| load.end).min();
    last_start <= first_end
}

/// Simulates a choice of drives, except those that are done as they were in an earlier one.
fn simulated(
    catalogue: &Catalogue,
    fleet: &Fleet,
    loads: &[VolumeLoad],
    together: bool,
    drives: Vec<Assigned>,
    known: &mut HashMap<DriveTask, DriveDone>,
    simulate: &Simulate<'_>,
) -> Result<Round, FleetPlanError> {
    let carried =
        |drive: &Assigned| fleet.carried(drive.kind, &drive.group).expect("it was chosen because it carries them");
    let carried: Vec<Carried> = drives.iter().map(carried).collect();
    let stretches: Vec<Stretch> =
        drives.iter().zip(&carried).map(|(drive, carried)| Stretch::of(fleet, &drive.group, &carried.busy)).collect();
    let task = |((drive, carried), stretch): ((&Assigned, &Carried), &Stretch)| {
        let kind = &fleet.kinds[drive.kind];
        let volume = |(volume, part): (&usize, &CurvePoint)| {
            let load = &loads[*volume];
            let flash = kind.flash.map(|_| whole_mib(part.flash));
            TaskVolume {
                number: load.number,
                name: load.name.clone(),
                shift: if together { Nanos::ZERO } else { load.start },
                design_toml: kind.candidate.shared_text(catalogue, load.stored, flash),
                flash,
            }
        };
        DriveTask {
            volumes: drive.group.iter().zip(&carried.parts).map(volume).collect(),
            from: stretch.from,
            to: stretch.to,
            requests: stretch.requests,
            on_flash: kind.flash.is_none() && catalogue.kinds[kind.candidate.fast.kind].wears(),
        }
    };
    let tasks: Vec<DriveTask> = drives.iter().zip(&carried).zip(&stretches).map(task).collect();
    let new: Vec<DriveTask> = tasks.iter().filter(|task| !known.contains_key(*task)).cloned().collect();
    let found = simulate(&new)?;
    known.extend(new.into_iter().zip(found));
    let done: Vec<DriveDone> = tasks.iter().map(|task| known[task].clone()).collect();
    let rows = drives.into_iter().zip(carried).zip(done).zip(stretches);
    Ok(Round {
        drives: rows.map(|(((drive, carried), done), stretch)| (drive, carried, done, stretch.share)).collect(),
    })
}

/// A part of the flash in whole MiB.
fn whole_mib(bytes: f64) -> Bytes {
    Bytes(bytes as u64 / (1 << 20) * (1 << 20))
}

/// Corrects the predictions of each kind by what its drives did; returns whether another choice may be better.
fn learn(fleet: &mut Fleet, round: &Round) -> bool {
    let mut found: BTreeMap<usize, Correction> = BTreeMap::new();
    let mut better = false;
    for (drive, carried, done, _) in &round.drives {
        let now = fleet.corrections[drive.kind];
        let seen_s = done.mean_ms / 1e3;
        better |= seen_s < carried.mean.all_s * BETTER;
        let mut one = carried.mean.correction(seen_s, now);
        if done.overloaded {
            one.waits = one.waits.max(now.waits * OVERLOADED);
        }
        // A volume that misses its budget counts for the whole drive.
        for volume in done.volumes.iter().filter(|volume| judged(fleet, volume) == Some(false)) {
            let Some(index) = drive.group.iter().position(|index| fleet.number(*index) == volume.number) else {
                continue;
            };
            let predicted = carried.means[index];
            let strained = fleet.budgets.strain(&means(volume)) / fleet.budgets.strain(&predicted).max(1e-12);
            let of_volume = predicted.correction(predicted.all_s * strained.max(1.0) * MARGIN, now);
            one = Correction { alone: one.alone.max(of_volume.alone), waits: one.waits.max(of_volume.waits) };
        }
        let known = found.entry(drive.kind).or_insert(one);
        *known = Correction { alone: known.alone.max(one.alone), waits: known.waits.max(one.waits) };
    }
    let missed = round.missed(fleet) > 0;
    // Kinds of which none was simulated are corrected as those like them.
    let like = |kind: &DriveKind| (kind.candidate.mode, kind.flash.is_some());
    let mut of_like: BTreeMap<_, Vec<Correction>> = BTreeMap::new();
    for (kind, correction) in &found {
        of_like.entry(like(&fleet.kinds[*kind])).or_default().push(*correction);
    }
    let mean = |all: &Vec<Correction>, of: fn(&Correction) -> f64| {
        (all.iter().map(|one| of(one).ln()).sum::<f64>() / all.len() as f64).exp()
    };
    fleet.simulated.extend(found.keys());
    for kind in 0..fleet.kinds.len() {
        if let Some(correction) = found.get(&kind) {
            fleet.corrections[kind] = *correction;
        } else if !fleet.simulated.contains(&kind)
            && let Some(all) = of_like.get(&like(&fleet.kinds[kind]))
        {
            fleet.corrections[kind] =
                Correction { alone: mean(all, |one| one.alone), waits: mean(all, |one| one.waits) };
        }
    }
    missed || better
}

fn corrections(catalogue: &Catalogue, fleet: &Fleet) -> BTreeMap<String, Correction> {
    fleet
        .simulated
        .iter()
        .map(|kind| (fleet.kinds[*kind].candidate.label(catalogue), fleet.corrections[*kind]))
        .collect()
}

/// The plan without drives.
fn about(
    ask: &FleetAsk,
    catalogue: &Catalogue,
    name: &str,
    loads: &[VolumeLoad],
    fleet: &Fleet,
    together: bool,
    more: usize,
) -> FleetPlan {
    let mut assumptions = Vec::new();
    if !together {
        assumptions.push(
            "the recordings do not overlap in time, so all of them are taken to begin at the same moment: peaks at their \
             beginnings coincide"
                .to_owned(),
        );
    }
    assumptions.push(format!(
        "the load of these {} s goes on {}",
        person(fleet.span_s),
        match ask.duty {
            duty if duty < 1.0 => format!("for {} % of the time", person(duty * 100.0)),
            _ => "day and night (--duty)".to_owned(),
        }
    ));
    assumptions.push(format!(
        "each volume stores the span of its addresses, devices are filled to {} % (--fill-limit), and a volume is wholly on one drive",
        person(ask.protection.fill_limit * 100.0)
    ));
    if more > 0 {
        assumptions.push(format!(
            "of the kinds of drives {} with the cheapest room take part, and {more} more do not (--devices)",
            fleet.kinds.len()
        ));
    }
    if !catalogue.unpriced.is_empty() {
        let names = catalogue.unpriced.join(", ");
        assumptions.push(format!("devices without a known price are left out: {names} (--price NAME=USD)"));
    }
    let volume = |(index, load): (usize, &VolumeLoad)| FleetVolume {
        volume: load.name.clone(),
        drive: None,
        requests: load.requests,
        stored_bytes: load.stored.0,
        touched_bytes: load.touched.0,
        flash_bytes: None,
        busiest_requests_per_s: fleet.busiest_requests_per_s(index),
        predicted_mean_ms: None,
        predicted_read_hit_ratio: None,
        mean_ms: None,
        p99_ms: None,
        fast_hit_ratio: None,
        meets: None,
        design_toml: None,
    };
    FleetPlan {
        peryton_version: peryton_sim::build().version.to_owned(),
        command: None,
        fleet: name.to_owned(),
        requests: loads.iter().map(|load| load.requests).sum(),
        span_s: fleet.span_s,
        stored_bytes: loads.iter().map(|load| load.stored.0).sum(),
        touched_bytes: loads.iter().map(|load| load.touched.0).sum(),
        one_clock: together,
        window_s: fleet.width_s,
        assumptions,
        constraints: ask.constraints.clone(),
        objective: ask.objective,
        account: ask.account,
        duty: ask.duty,
        catalogue: catalogue.kinds.iter().map(|kind| kind.profile.name.clone()).collect(),
        drive_kinds: fleet.kinds.len(),
        meets: false,
        infeasible: Vec::new(),
        usd: None,
        least_usd: None,
        exact: false,
        alone_usd: None,
        flash_alone_usd: None,
        rounds: 0,
        corrections: BTreeMap::new(),
        drives: Vec::new(),
        volumes: loads.iter().enumerate().map(volume).collect(),
    }
}

/// Adds the drives of a choice, and what they do for the volumes.
fn describe(plan: &mut FleetPlan, catalogue: &Catalogue, fleet: &Fleet, loads: &[VolumeLoad], round: &Round) {
    plan.usd = Some(round.usd());
    for (number, (drive, carried, done, share)) in (1..).zip(&round.drives) {
        let kind = &fleet.kinds[drive.kind];
        let devices = kind.candidate.members().into_iter().map(|(role, member)| FleetDevices {
            role,
            profile: catalogue.kinds[member.kind].profile.name.clone(),
            count: member.bought(),
            price_usd: catalogue.kinds[member.kind].price_usd,
        });
        let busiest =
            (0..carried.busy.len()).max_by(|a, b| carried.busy[*a].total_cmp(&carried.busy[*b]).then(b.cmp(a)));
        let busiest = busiest.unwrap_or(0);
        let peaks = drive.group.iter().zip(&carried.parts).map(|(volume, part)| fleet.peak(drive.kind, *volume, part));
        plan.drives.push(FleetDrive {
            drive: number,
            label: kind.candidate.label(catalogue),
            devices: devices.collect(),
            usd: drive.usd,
            volumes: drive.group.iter().map(|volume| loads[*volume].name.clone()).collect(),
            stored_bytes: drive.group.iter().map(|volume| loads[*volume].stored.0).sum(),
            room_bytes: kind.room as u64,
            mean_busy: carried.mean_busy,
            busiest: carried.busy.get(busiest).copied().unwrap_or(0.0),
            busiest_at_s: busiest as f64 * fleet.width_s,
            busiest_if_together: peaks.sum(),
            busy: carried.busy.clone(),
            predicted_mean_ms: carried.mean.all_s * 1e3,
            mean_ms: Some(done.mean_ms),
            p99_ms: Some(done.p99_ms),
            simulated_share: Some(*share),
            power_w: done.power_w,
            lifetime_years: carried.lifetime_years,
            meets: keeps(fleet, carried, done),
        });
        for ((volume, part), means) in drive.group.iter().zip(&carried.parts).zip(&carried.means) {
            let row = &mut plan.volumes[*volume];
            let load = &loads[*volume];
            let flash = kind.flash.map(|_| whole_mib(part.flash));
            row.drive = Some(number);
            row.flash_bytes = flash.map(|bytes| bytes.0);
            row.predicted_mean_ms = Some(means.all_s * 1e3);
            row.predicted_read_hit_ratio = kind.flash.map(|_| 1.0 - part.read_miss);
            row.design_toml = Some(kind.candidate.shared_text(catalogue, load.stored, flash));
            if let Some(done) =
                done.volumes.iter().find(|done| done.number == load.number).filter(|done| done.requests > 0)
            {
                row.mean_ms = Some(done.mean_ms);
                row.p99_ms = Some(done.p99_ms);
                row.fast_hit_ratio = done.fast_hit_ratio;
                row.meets = judged(fleet, done);
            }
        }
    }
}

/// What the cheapest drives cost of which each has one volume.
fn alone_usd(fleet: &Fleet) -> Option<f64> {
    let alone: Option<Vec<Assigned>> =
        (0..fleet.count()).into_par_iter().map(|volume| cheapest(fleet, &[volume])).collect();
    alone.map(|drives| drives.iter().map(|drive| drive.usd).sum())
}

/// What flash alone would cost, and how far the choice may be from the best.
fn bounds(plan: &mut FleetPlan, fleet: &Fleet, catalogue: &Catalogue) {
    plan.exact = fleet.count() <= EXACT;
    let usd = plan.usd.unwrap_or(f64::INFINITY);
    plan.least_usd = if plan.exact { Some(usd) } else { Some(bound(fleet).min(usd)) };
    let is_flash = |kind: &DriveKind| kind.flash.is_none() && catalogue.kinds[kind.candidate.fast.kind].wears();
    let only = fleet.only(is_flash);
    plan.flash_alone_usd = assign(&only, &|_, _| {}).map(|drives| drives.iter().map(|drive| drive.usd).sum());
}

//! Why there is no plan, and what would have to give, in sentences.

use peryton_units::{Bytes, person, person_ms, person_years};

use super::{
    assign::{Carries, cheapest},
    carry::Fleet,
    load::VolumeLoad,
    plan::FleetAsk,
    report::{FleetDrive, FleetPlan, FleetVolume},
};
use crate::{capacity::Catalogue, metric::Metric, share::largest_share};

/// The least share of the load that is tried where nothing carries it, and how well the largest one is known.
const LEAST_SHARE: f64 = 1e-4;
const WITHIN: f64 = 1.05;
/// Volumes that a sentence names.
const NAMED: usize = 3;

/// Why the chosen drives are no answer.
pub(super) fn missed(ask: &FleetAsk, plan: &FleetPlan) -> Vec<String> {
    let mut all = Vec::new();
    let drives: Vec<&FleetDrive> = plan.drives.iter().filter(|drive| !drive.meets).collect();
    if let Some(first) = drives.first() {
        let volumes: Vec<&FleetVolume> = plan.volumes.iter().filter(|volume| volume.meets == Some(false)).collect();
        let slowest = volumes.iter().filter_map(|volume| Some((volume.mean_ms?, &volume.volume)));
        let slowest = slowest.max_by(|a, b| a.0.total_cmp(&b.0));
        let example =
            slowest.map_or_else(String::new, |(ms, name)| format!("; {name} takes {} on average", person_ms(ms)));
        all.push(format!(
            "{} of {} drives miss a budget in the simulation after {} rounds, the first of them drive {} ({}){example}: loosen the budget, \
             or give faster devices (--devices)",
            drives.len(),
            plan.drives.len(),
            plan.rounds,
            first.drive,
            first.label
        ));
    }
    let limit =
        ask.constraints.iter().filter(|one| one.metric == Metric::Dollars).map(|one| one.limit).reduce(f64::min);
    if let (Some(limit), Some(usd)) = (limit, plan.drives.iter().map(purchase).reduce(|a, b| a + b))
        && usd > limit
    {
        all.push(format!(
            "the drives cost {} USD to buy, and the budget is {} USD: give as much, loosen another budget, or leave volumes out (--volumes)",
            person(usd),
            person(limit)
        ));
    }
    all
}

fn purchase(drive: &FleetDrive) -> f64 {
    drive.devices.iter().map(|devices| f64::from(devices.count) * devices.price_usd).sum()
}

/// Which volumes no drive carries even alone, and what would have to give.
pub(super) fn why_not(fleet: &Fleet, catalogue: &Catalogue, loads: &[VolumeLoad], ask: &FleetAsk) -> Vec<String> {
    let too_much: Vec<usize> = (0..fleet.count()).filter(|volume| cheapest(fleet, &[*volume]).is_none()).collect();
    let room = fleet.kinds.iter().map(|kind| kind.room).fold(0.0, f64::max);
    let (large, busy): (Vec<usize>, Vec<usize>) =
        too_much.iter().partition(|volume| loads[**volume].stored.0 as f64 > room);
    let named = |volumes: &[usize]| {
        let mut names: Vec<&str> = volumes.iter().take(NAMED).map(|volume| loads[*volume].name.as_str()).collect();
        if volumes.len() > NAMED {
            names.push("…");
        }
        names.join(", ")
    };
    let mut all = Vec::new();
    if let Some(largest) = large.iter().map(|volume| loads[*volume].stored).max() {
        all.push(format!(
            "no drive has room for {} of {} volumes ({}): the largest stores {largest}, and {} devices of a kind hold {} at most; raise --most, or \
             give larger devices (--devices)",
            large.len(),
            fleet.count(),
            named(&large),
            ask.most,
            Bytes(room as u64)
        ));
    }
    if busy.is_empty() {
        return all;
    }
    // The one that needs most: of which the least share of the load is carried.
    let carried = |volume: &usize| (share_carried(fleet, *volume), *volume);
    let worst =
        busy.iter().map(carried).min_by(|a, b| a.0.unwrap_or(0.0).total_cmp(&b.0.unwrap_or(0.0)).then(a.1.cmp(&b.1)));
    let Some((share, volume)) = worst else { return all };
    let nearest = (0..fleet.kinds.len())
        .filter_map(|kind| fleet.carried(kind, &[volume]).map(|carried| (kind, carried)))
        .min_by(|a, b| a.1.strain.total_cmp(&b.1.strain));
    let load = share.map_or_else(
        || "a smaller load would not help".to_owned(),
        |share| format!("{} % of its load could be carried", person(share * 100.0)),
    );
    let nearest = match nearest {
        None => "every drive is overloaded by it alone".to_owned(),
        Some((kind, carried)) => {
            let label = fleet.kinds[kind].candidate.label(catalogue);
            let means = &carried.means[0];
            let life =
                carried.lifetime_years.map_or_else(String::new, |years| format!(" and lasts {}", person_years(years)));
            format!("{label} comes nearest, with a mean of {}{life}", person_ms(means.all_s * 1e3))
        }
    };
    all.push(format!(
        "no drive carries {} of {} volumes within the budgets ({}): of {}, {nearest}; {load}, or loosen the budgets, or give faster devices \
         (--devices)",
        busy.len(),
        fleet.count(),
        named(&busy),
        loads[volume].name
    ));
    all
}

/// The largest share of a volume's load that any drive carries within the budgets.
fn share_carried(fleet: &Fleet, volume: usize) -> Option<f64> {
    let one = fleet.alone(volume);
    let met = |share: f64| {
        let smaller = one.with_load(share);
        (0..smaller.kinds()).any(|kind| smaller.usd(kind, &[0]).is_some())
    };
    largest_share(LEAST_SHARE, WITHIN, met)
}

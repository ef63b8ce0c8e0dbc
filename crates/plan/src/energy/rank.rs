//! Devices side by side for one demand.

use serde::Serialize;

use super::{BreakEven, Demand, DominantNeed, Figures, Line, Policy, Properties};

/// For how long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// So many seconds, at the demand's bandwidths: a server's work.
    Seconds(f64),
    /// Until the data has been moved once, `T = S_c/S_ab`: an archive's work.
    Once,
}

/// What money buys.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prices {
    /// Electricity.
    pub usd_per_kwh: f64,
}

/// The terms on which devices are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms<'a> {
    /// The demand on the devices. With [`Span::Once`] it has to move something.
    pub demand: &'a Demand,
    /// Power management efficiency (α): the number of active devices for each that is needed, 1 or more.
    pub alpha: f64,
    /// The policies that may be used, one at least; each device gets the one that needs the least power.
    pub policies: &'a [Policy],
    /// The run time.
    pub span: Span,
    /// Prices.
    pub prices: Prices,
}

/// What a demand takes in devices of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked {
    /// The device.
    #[serde(flatten)]
    pub figures: Figures,
    /// What the equations compare devices by.
    pub properties: Properties,
    /// Whether speed or room decides how many are needed.
    pub kind: DominantNeed,
    /// `N`, equation (2).
    pub devices: u64,
    /// How many are busy on average, `α × S_ab/D_b`.
    pub busy_devices: f64,
    /// What the others do.
    pub policy: Policy,
    /// Of all devices together.
    pub mean_power_w: f64,
    /// The run time.
    pub run_time_s: f64,
    /// Of all devices over the run time.
    pub energy_j: f64,
    /// How long a device must rest before standby pays for the power cycle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby_pays_after_s: Option<f64>,
    /// To buy the devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices_usd: Option<f64>,
    /// Electricity over the run time.
    pub energy_usd: f64,
    /// Both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_usd: Option<f64>,
    /// At which run times this device needs less energy than the greenest of the list does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub greener_when: Option<BreakEven>,
    /// At which run times it costs less than the cheapest of the list does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cheaper_when: Option<BreakEven>,
    #[serde(skip)]
    energy: Line,
    #[serde(skip)]
    cost: Option<Line>,
}

/// Orders by cost instead: the cheapest first; those without a price last.
pub fn sort_by_cost(ranked: &mut [Ranked]) {
    let cost = |row: &Ranked| row.total_usd.unwrap_or(f64::INFINITY);
    ranked.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
}

/// Ranks devices for a demand, the greenest first; those that need the same energy by cost, then by name.
///
/// # Panics
/// If there is no policy, or the span is [`Span::Once`] and the demand moves nothing.
pub fn rank(figures: &[Figures], terms: &Terms<'_>) -> Vec<Ranked> {
    let run_time_s = match terms.span {
        Span::Seconds(seconds) => seconds,
        Span::Once => terms.demand.time_to_finish_s().expect("Span::Once is for a demand that moves something"),
    };
    let mut ranked: Vec<Ranked> = figures.iter().map(|one| ranked(one, terms, run_time_s)).collect();
    ranked.sort_by(|a, b| {
        let by_cost = a.total_usd.unwrap_or(f64::INFINITY).total_cmp(&b.total_usd.unwrap_or(f64::INFINITY));
        a.energy_j.total_cmp(&b.energy_j).then(by_cost).then_with(|| a.figures.device.cmp(&b.figures.device))
    });
    let greenest = ranked.first().map(|first| first.energy);
    let cheapest = ranked
        .iter()
        .filter_map(|row| Some((row.total_usd?, row.cost?)))
        .min_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, cost)| cost);
    for row in &mut ranked {
        row.greener_when = greenest.filter(|best| *best != row.energy).map(|best| row.energy.below(&best));
        row.cheaper_when =
            row.cost.zip(cheapest).filter(|(ours, best)| ours != best).map(|(ours, best)| ours.below(&best));
    }
    ranked
}

fn ranked(figures: &Figures, terms: &Terms<'_>, run_time_s: f64) -> Ranked {
    let Terms { demand, alpha, policies, prices, .. } = *terms;
    let devices = figures.needed(demand);
    let power = |policy: &Policy| {
        let no_standby = *policy == Policy::Standby && figures.standby_w.is_none();
        (figures.power_w(demand, alpha, devices, *policy), if no_standby { Policy::Idle } else { *policy })
    };
    let least = policies.iter().map(power).min_by(|(a, _), (b, _)| a.total_cmp(b));
    let (mean_power_w, policy) = least.expect("there is a policy at least");
    let energy_j = mean_power_w * run_time_s;
    let energy = line(figures, terms, devices, policy, mean_power_w);
    let devices_usd = figures.price_usd.map(|price| price * devices as f64);
    let energy_usd = energy_j / 3.6e6 * prices.usd_per_kwh;
    let bought = |usd| Line { offset: usd, slope: 0.0 };
    Ranked {
        properties: Properties::of(figures),
        kind: figures.kind(demand),
        devices,
        busy_devices: figures.busy(demand, alpha, devices),
        policy,
        mean_power_w,
        run_time_s,
        energy_j,
        standby_pays_after_s: figures.standby_pays_after_s(),
        devices_usd,
        energy_usd,
        total_usd: devices_usd.map(|usd| usd + energy_usd),
        greener_when: None,
        cheaper_when: None,
        energy,
        cost: devices_usd.map(|usd| bought(usd).plus(&energy.priced(prices.usd_per_kwh))),
        figures: figures.clone(),
    }
}

/// Energy over the run time. Work for a given time grows with it; data that is moved once is the same work however long
/// it takes, and only what rests meanwhile costs more, as in equations (5) and (7).
fn line(figures: &Figures, terms: &Terms<'_>, devices: u64, policy: Policy, power_w: f64) -> Line {
    let resting_w = match policy {
        Policy::Idle => figures.idle_w,
        Policy::Standby => figures.rest_w(),
        Policy::AllActive => return Line { offset: 0.0, slope: power_w },
    };
    match terms.span {
        Span::Seconds(_) => Line { offset: 0.0, slope: power_w },
        Span::Once => {
            let above = (figures.busy_w - resting_w) / figures.bandwidth_mb_per_s;
            Line { offset: terms.alpha * terms.demand.capacity_mb * above, slope: resting_w * devices as f64 }
        }
    }
}

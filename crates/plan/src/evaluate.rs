//! Evaluation: a design under a trace, as the few figures that people choose by.

use peryton_device::Class;
use peryton_sim::{Design, LifetimeInterval, Options, Report, SimError, TraceFactory, Warning, run_one};
use peryton_units::SECONDS_PER_YEAR;
use serde::Serialize;

use crate::energy::{Line, lives};

/// The figures of a design under a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metrics {
    /// Number of measured requests.
    pub requests: u64,
    /// Seconds from the first measured request to the last reply.
    pub simulated_s: f64,
    /// Mean response time.
    pub mean_ms: f64,
    /// Mean response time of reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_mean_ms: Option<f64>,
    /// Mean response time of writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_mean_ms: Option<f64>,
    /// Mean response time of flushes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush_mean_ms: Option<f64>,
    /// Mean time from a write's arrival to the end of the first flush that covers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_then_flush_mean_ms: Option<f64>,
    /// Median response time.
    pub p50_ms: f64,
    /// 99th percentile of the response time.
    pub p99_ms: f64,
    /// 99.9th percentile of the response time.
    pub p999_ms: f64,
    /// Requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<f64>,
    /// Years until the first device is worn out, by its rating or its cells; absent if no device wore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years: Option<f64>,
    /// How sure that is, and what it rests on.
    #[serde(flatten)]
    pub lifetime_interval: LifetimeInterval,
    /// Years by ratings alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_rated_years: Option<f64>,
    /// Years by the flash's erase cycles alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_physical_years: Option<f64>,
    /// Mean power of all devices; absent if one device's model has no power figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// Energy of all devices over the measured span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// Energy in a year at that power.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_kwh_per_year: Option<f64>,
    /// Purchase price of the devices and their spares; absent if one has no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dollars: Option<f64>,
    /// Purchase, replacements and electricity over the years of the [`Account`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ownership_usd: Option<f64>,
    /// What is paid over these years, by what for.
    #[serde(skip)]
    pub costs: Option<Costs>,
    /// Share of accesses that the fast device served (hybrids).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_hit_ratio: Option<f64>,
    /// Warnings: reasons why these figures may mislead, with a remedy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// What a design costs over some years, by what is paid for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// Flash, and what replaces it when it is worn out.
    pub flash_usd: f64,
    /// Other devices.
    pub other_usd: f64,
    /// Electricity.
    pub energy_usd: f64,
}

impl Costs {
    /// The sum.
    pub fn total_usd(&self) -> f64 {
        self.flash_usd + self.other_usd + self.energy_usd
    }
}

/// The basis of the cost of ownership.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Account {
    /// The period in years.
    pub years: f64,
    /// The price of electricity.
    pub usd_per_kwh: f64,
}

impl Default for Account {
    fn default() -> Account {
        Account { years: 5.0, usd_per_kwh: 0.12 }
    }
}

/// Replays the trace on the design, on this thread.
///
/// # Errors
/// As [`run_one`]: the design cannot be built, the trace not read, or it does not fit the volume.
pub fn evaluate(
    design: &Design,
    trace: &TraceFactory<'_>,
    options: &Options,
    account: &Account,
) -> Result<Metrics, SimError> {
    let report = run_one(design, "", trace()?, options, &|_| {})?;
    Ok(Metrics::of(design, &report, account))
}

/// The code of the warning that requests come faster than they are answered.
pub(crate) const OVERLOAD: &str = "overload";

impl Metrics {
    /// Whether requests came faster than they were answered, so that response times depend on the length of the trace.
    pub fn is_overloaded(&self) -> bool {
        self.warnings.iter().any(|warning| warning.code == OVERLOAD)
    }

    /// Takes the figures from a simulation's report.
    pub fn of(design: &Design, report: &Report, account: &Account) -> Metrics {
        let latency = &report.latency_us;
        let mean =
            |summary: &Option<_>| summary.as_ref().map(|summary: &peryton_sim::LatencySummary| summary.mean / 1e3);
        let all = latency.all.as_ref();
        let ms = |of: fn(&peryton_sim::LatencySummary) -> f64| all.map_or(0.0, |summary| of(summary) / 1e3);
        let costs = costs(design, report, account, &|_| 1.0);
        let energy_kwh_per_year = report.mean_power_w.map(|watts| watts * SECONDS_PER_YEAR / 3.6e6);
        Metrics {
            requests: report.requests,
            simulated_s: report.simulated_s,
            mean_ms: ms(|summary| summary.mean),
            read_mean_ms: mean(&latency.read),
            write_mean_ms: mean(&latency.write),
            flush_mean_ms: mean(&latency.flush),
            write_then_flush_mean_ms: mean(&latency.write_then_flush),
            p50_ms: ms(|summary| summary.p50),
            p99_ms: ms(|summary| summary.p99),
            p999_ms: ms(|summary| summary.p999),
            iops: report.iops,
            lifetime_years: report.lifetime_years,
            lifetime_interval: report.lifetime_interval.clone(),
            lifetime_rated_years: report.lifetime_rated_years,
            lifetime_physical_years: report.lifetime_physical_years,
            power_w: report.mean_power_w,
            energy_j: report.energy_j,
            energy_kwh_per_year,
            dollars: report.cost.devices_usd,
            ownership_usd: costs.map(|costs| costs.total_usd()),
            costs,
            fast_hit_ratio: report.fast_hit_ratio,
            warnings: report.warnings.clone(),
        }
    }
}

/// The cost of ownership as Li and Long compute it ([`energy`](crate::energy)): the devices, the electricity at the
/// mean power, and a replacement for every device that wears out within the period. Of each device of the design only a
/// share is bought: its price and its life are smaller in proportion.
pub(crate) fn costs(design: &Design, report: &Report, account: &Account, share: &dyn Fn(&str) -> f64) -> Option<Costs> {
    let mut costs = Costs::default();
    let mut pay = |device: &peryton_sim::DeviceDesign, usd: f64| {
        *if device.profile.class == Class::Hdd { &mut costs.other_usd } else { &mut costs.flash_usd } += usd;
    };
    // Owned devices are in use first; those left are spares.
    for device in design.bought().into_iter().filter(|device| device.spares > 0) {
        let used = device.count * device.copies;
        let bought = device.spares - device.spares.min(device.owned.saturating_sub(used));
        pay(device, device.price_usd? * share(&device.name) * f64::from(bought));
    }
    for (name, device) in &report.devices {
        let (member, number) = design.reported(name)?;
        let share = share(name.split_once('.').map_or(name, |(role, _)| role));
        let price = member.price_usd? * share;
        let lives = lives(account.years, device.lifetime_years.map(|years| years * share));
        // An owned device costs nothing until it is worn out and replaced.
        pay(member, price * (lives - f64::from(u8::from(number < member.owned))));
    }
    let energy = Line { offset: 0.0, slope: report.mean_power_w? }.priced(account.usd_per_kwh);
    costs.energy_usd = energy.at(account.years * SECONDS_PER_YEAR);
    Some(costs)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use peryton_trace::{SynthSource, SynthSpec};

    use super::*;
    use crate::constraint::{Constraint, strain};

    const DESIGN: &str = "[volume]\nsize = '64MiB'\n[devices.ssd]\nprofile = 'intel-x25-e-32gb'\nmodel = { precondition = 'random' }\n\
                          [placement]\nmode = 'single'\n";

    fn metrics(years: f64) -> Metrics {
        let design = Design::parse(DESIGN, "design", &[]).unwrap();
        let spec = "requests = 3000\nfootprint = '64MiB'\nread_share = 0.3\narrival = '1ms'\nsize = '4KiB'\naddress = 'uniform'\n";
        let spec = SynthSpec::parse(spec, "spec").unwrap();
        let account = Account { years, usd_per_kwh: 0.2 };
        evaluate(&design, &|| Ok(Box::new(SynthSource::new(&spec, "spec").unwrap())), &Options::default(), &account)
            .unwrap()
    }

    #[test]
    fn what_wears_out_is_bought_again() {
        let once = metrics(1e-3);
        let life = once.lifetime_years.unwrap();
        let electricity = |years: f64| once.power_w.unwrap() / 1e3 * SECONDS_PER_YEAR / 3600.0 * years * 0.2;
        for (years, bought) in [(life * 0.9, 1.0), (life * 1.1, 2.0), (life * 4.5, 5.0)] {
            let wanted = bought * once.dollars.unwrap() + electricity(years);
            let got = metrics(years).ownership_usd.unwrap();
            assert!((got / wanted - 1.0).abs() < 1e-9, "{years}: {got} against {wanted}");
        }
    }

    #[test]
    fn the_strain_is_that_of_the_furthest_budget() {
        let metrics = metrics(5.0);
        let at = |text: &str| Constraint::list(text).unwrap();
        let mean = Constraint::new(crate::constraint::Metric::Latency, metrics.mean_ms / 3.0).unwrap();
        assert!((mean.strain(&metrics) - 3.0).abs() < 1e-9 && !mean.met(&metrics) && mean.loosened(3.1).met(&metrics));
        let mut all = at("latency<=1000s,p99<=1000s,power<=1kW");
        assert!(strain(&all, &metrics) < 1.0);
        all.push(mean);
        assert!((strain(&all, &metrics) - 3.0).abs() < 1e-9);
        assert_eq!(strain(&[], &metrics), 0.0);
    }
}

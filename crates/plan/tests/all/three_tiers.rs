//! Three tiers in a plan. The fears: they are proposed with figures, prices or failures of another design than the one that is written; a
//! design that is better is not seen; they are proposed where two tiers do.
#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use peryton_device::{Era, PriceList};
use peryton_plan::{
    capacity::{Ask, Candidate, Catalogue, Enumerate, Flash, Found, Mode, Plan, Protection, Workload, plan},
    constraint::{Constraint, Metric, strain},
    evaluate::{Account, Metrics, evaluate},
};
use peryton_sim::{Design, Options, Redundancy};
use peryton_trace::{Source, SynthSource, SynthSpec};
use peryton_units::Bytes;

/// A slow device, a medium one that is expensive for all data, and a fast one that has room for little.
const DEVICES: &[(&str, f64, &str)] = &[
    ("rust", 5.0, "read = '4ms'\nwrite = '4ms'\ncapacity = '400MiB'\nactive_w = 6\nidle_w = 4"),
    ("brick", 40.0, "read = '500us'\nwrite = '500us'\ncapacity = '120MiB'\ncycles = 3000\nactive_w = 2\nidle_w = 1"),
    ("spark", 10.0, "read = '20us'\nwrite = '20us'\ncapacity = '48MiB'\ncycles = 90000\nactive_w = 2\nidle_w = 1"),
];

fn catalogue(folder: &Path) -> Catalogue {
    for (name, price, model) in DEVICES {
        let text = format!(
            "name = '{name}'\ndescription = '{name}'\nclass = 'fixed'\nprice_usd = {price}\nafr = 0.01\n\n[fixed]\n{model}\n"
        );
        fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    }
    Catalogue::named(&[folder.display().to_string()], &PriceList::default(), &Era::default()).unwrap()
}

fn source(requests: u64) -> Box<dyn Source> {
    let text = format!(
        "requests = {requests}\nfootprint = '160MiB'\nread_share = 0.6\nseed = 3\n\
         arrival = {{ kind = 'poisson', mean = '5ms' }}\nsize = '8KiB'\n\
         address = {{ kind = 'zipf', exponent = 0.9, extent = '64KiB' }}\n"
    );
    Box::new(SynthSource::new(&SynthSpec::parse(&text, "spec").unwrap(), "spec").unwrap())
}

fn ask(budgets: &str, requests: u64) -> Ask {
    Ask {
        constraints: Constraint::gather(None, None, &[format!("{budgets},lifetime>=60s")]).unwrap(),
        objective: Metric::Dollars,
        capacity: None,
        active: None,
        most: 2,
        runners_up: 2,
        protection: Protection { fill_limit: 1.0, ..Protection::default() },
        flash: Flash::Whole,
        flash_need: false,
        account: Account::default(),
        duty: 1.0,
        options: Options { warm_up_requests: requests / 2, ..Options::default() },
    }
}

fn planned(ask: &Ask, catalogue: &Catalogue, requests: u64) -> Plan {
    let trace = || Ok(source(requests));
    let workload = Workload::measure("spec", &trace).unwrap();
    plan(ask, catalogue, &workload, &|_, _, _| {}).unwrap()
}

/// The figures of the file that a plan writes.
fn simulated(found: &Found, ask: &Ask, requests: u64) -> Metrics {
    let design = Design::parse(&found.design_toml, &found.design, &[]).unwrap();
    evaluate(&design, &|| Ok(source(requests)), &ask.options, &ask.account).unwrap()
}

/// All designs of two tiers and of one.
fn others(catalogue: &Catalogue, ask: &Ask, requests: u64) -> Vec<(f64, Metrics)> {
    let capacity = Workload::measure("spec", &|| Ok(source(requests))).unwrap().reach;
    let Ask { most, protection, flash, .. } = ask.clone();
    let all = Candidate::all(catalogue, &Enumerate { capacity, most, spin_down: false, protection, flash });
    let of = |one: &Candidate| {
        let design = Design::parse(&one.text(catalogue, capacity), "candidate", &[]).ok()?;
        let figures = evaluate(&design, &|| Ok(source(requests)), &ask.options, &ask.account).ok()?;
        Some((one.dollars(catalogue), figures))
    };
    all.iter().filter_map(of).collect()
}

#[test]
fn three_tiers_are_the_answer_where_no_two_do_for_the_money() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = catalogue(folder.path());
    let requests = 40_000;
    let ask = ask("latency<=850us", requests);
    let found = planned(&ask, &catalogue, requests);
    let best = found.best.as_ref().unwrap();
    assert_eq!((best.mode, best.slow_mode.is_some()), (Mode::CachingBack, true), "{}", best.label);
    assert!(best.label.starts_with("spark caching (brick caching rust"), "{}", best.label);
    assert!(best.design.starts_with("caching-back_spark_") && best.design.ends_with("_brick_rust"), "{}", best.design);
    assert_eq!((found.three_tiers.as_ref(), best.metrics.dollars), (Some(&best.design), Some(55.0)));
    // What others cost that do it, by simulation.
    let others = others(&catalogue, &ask, requests);
    let meets = others.iter().filter(|(_, figures)| strain(&ask.constraints, figures) <= 1.0);
    let cheapest = meets.map(|(price, _)| *price).fold(f64::INFINITY, f64::min);
    assert!(cheapest > 55.0 && cheapest.is_finite(), "{cheapest}");
    // The file says the same, of all devices.
    for one in found.simulated.iter().filter(|one| one.slow_mode.is_some()) {
        assert_eq!(simulated(one, &ask, requests), one.metrics, "{}", one.label);
    }
    let roles: Vec<(&str, &str)> =
        best.devices.iter().map(|device| (device.role.as_str(), device.profile.as_str())).collect();
    assert_eq!(roles, [("fast", "spark"), ("slow.fast", "brick"), ("slow.slow", "rust")]);
    // Each idles at its power at the least.
    assert!(best.metrics.power_w.unwrap() > 6.0 && best.metrics.lifetime_years.is_some());
    let failures = &best.failures;
    let tiers: Vec<&str> = failures.tiers.iter().map(|tier| tier.role.as_str()).collect();
    assert_eq!(tiers, ["fast", "slow.fast", "slow.slow"]);
    let lost: f64 = failures.tiers.iter().map(|tier| 1.0 - tier.data_loss_probability.unwrap()).product();
    assert!((failures.data_loss_probability.unwrap() - (1.0 - lost)).abs() < 1e-12);
    assert!(failures.tiers[1].loses.contains("dirty data") && failures.tiers[2].loses.contains("no other tier"));
}

#[test]
fn three_tiers_that_do_are_listed_where_two_do_for_less() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = catalogue(folder.path());
    let requests = 40_000;
    let ask = ask("latency<=3ms", requests);
    let found = planned(&ask, &catalogue, requests);
    let best = found.best.as_ref().unwrap();
    assert!(best.slow_mode.is_none(), "{}", best.label);
    let three = found.simulated.iter().find(|one| Some(&one.design) == found.three_tiers.as_ref()).unwrap();
    // It is faster, and costs more.
    let figures = simulated(three, &ask, requests);
    assert!(three.meets && figures == three.metrics && figures.dollars > best.metrics.dollars);
    assert!(figures.mean_ms < simulated(best, &ask, requests).mean_ms);
}

#[test]
fn other_objectives_limits_and_redundancy_hold_for_three_tiers() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = catalogue(folder.path());
    let requests = 40_000;
    // The fastest for the money.
    let fastest = Ask { objective: Metric::Latency, ..ask("dollars<=60", requests) };
    let best = planned(&fastest, &catalogue, requests).best.unwrap();
    assert!(best.slow_mode.is_some() && best.metrics.dollars.unwrap() <= 60.0, "{}", best.label);
    // Mirrors of each tier that has the only copy: twice the devices, of which there may be two.
    let mirrored = Protection { fast: Redundancy::Mirror, slow: Redundancy::Mirror, ..fastest.protection };
    let twice = Ask { protection: mirrored, ..ask("latency<=850us", requests) };
    let found = planned(&twice, &catalogue, requests);
    let three = found.simulated.iter().find(|one| Some(&one.design) == found.three_tiers.as_ref()).unwrap();
    let mirrors = three.devices.iter().filter(|device| device.redundancy == Redundancy::Mirror);
    let through = three.mode == Mode::CachingThrough || three.slow_mode == Some(Mode::CachingThrough);
    assert_eq!(mirrors.count(), if through { 2 } else { 3 }, "{}", three.label);
    assert!(three.devices.iter().all(|device| device.count <= 2), "{}", three.label);
    // One of each, and no room for mirrors: no design of three tiers.
    let one = Ask { most: 1, protection: mirrored, ..ask("latency<=850us", requests) };
    let trace = || Ok(source(requests));
    let workload = Workload::measure("spec", &trace).unwrap();
    assert!(plan(&one, &catalogue, &workload, &|_, _, _| {}).is_err());
    // The inner volume has to have room for the outer one's metadata as well.
    let brim = Ask { capacity: Some(Bytes::mib(382)), ..ask("latency<=3ms", requests) };
    let brim = planned(&brim, &catalogue, requests);
    let three: Vec<&Found> = brim.simulated.iter().filter(|one| one.slow_mode.is_some()).collect();
    assert!(!three.is_empty() && three.iter().all(|one| one.devices[2].count == 2) && brim.left_out.is_empty());
}

#[test]
fn flash_in_any_capacity_is_in_front_of_others_too() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = catalogue(folder.path());
    let requests = 40_000;
    let ask = Ask { flash: Flash::Any, ..ask("latency<=850us", requests) };
    let found = planned(&ask, &catalogue, requests);
    let three = found.simulated.iter().find(|one| Some(&one.design) == found.three_tiers.as_ref()).unwrap();
    assert_eq!(simulated(three, &ask, requests), three.metrics);
    let bought: f64 = three.devices.iter().map(|device| device.price_usd * f64::from(device.count)).sum();
    assert!((bought - three.metrics.dollars.unwrap()).abs() < 1e-6, "{}", three.label);
    assert!(three.devices[1].capacity_bytes.is_some(), "{}", three.label);
}

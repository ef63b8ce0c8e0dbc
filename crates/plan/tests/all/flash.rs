//! The capacity of flash as a quantity that the planner chooses.
#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use peryton_device::{Era, PriceList};
use peryton_plan::{
    capacity::{Active, Ask, Candidate, Catalogue, Flash, Found, Mode, Plan, Protection, Workload, plan},
    constraint::{Constraint, Metric, strain},
    evaluate::{Account, Metrics, evaluate},
};
use peryton_sim::{Design, Options};
use peryton_trace::{Source, SynthSource, SynthSpec};
use peryton_units::Bytes;

/// A disk, and flash of which one device holds much more than the workload uses.
const DEVICES: &[(&str, &str, f64, &str)] = &[
    ("disk", "hdd", 100.0, "read = '4ms'\nwrite = '4ms'\ncapacity = '8GB'"),
    ("flash", "ssd", 200.0, "read = '100us'\nwrite = '200us'\ncapacity = '4GB'\ncycles = 3000"),
];

/// The workload reads and writes 64 MiB, each part as often as any other, so every MiB of a cache is worth the same until all fit.
const FOOTPRINT: Bytes = Bytes::mib(64);
const EVEN: &str = "requests = 12000\nfootprint = '64MiB'\nread_share = 0.8\nseed = 3\narrival = '20ms'\nsize = '64KiB'\n\
                    alignment = '64KiB'\naddress = 'uniform'\n";
const REQUESTS: u64 = 12_000;

fn catalogue(folder: &Path) -> Catalogue {
    for (name, class, price, model) in DEVICES {
        let text = format!(
            "name = '{name}'\ndescription = '{name}'\nclass = '{class}'\nprice_usd = {price}\n\n[fixed]\n{model}\n"
        );
        fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    }
    Catalogue::named(&[folder.display().to_string()], &PriceList::default(), &Era::default()).unwrap()
}

fn ask(budgets: &str, flash: Flash) -> Ask {
    Ask {
        // The made-up devices wear out within days, which no plan takes unless it is asked to.
        constraints: match budgets.contains("lifetime") {
            true => Constraint::list(budgets).unwrap(),
            false => Constraint::list(&format!("{budgets},lifetime>=60s")).unwrap(),
        },
        objective: Metric::Dollars,
        // Much more is stored than is used.
        capacity: Some(Bytes(6_000_000_000)),
        active: Some(Active::Size(FOOTPRINT)),
        most: 4,
        runners_up: 2,
        protection: Protection::default(),
        flash,
        flash_need: true,
        account: Account::default(),
        duty: 1.0,
        options: Options { warm_up_requests: REQUESTS / 2, ..Options::default() },
    }
}

fn source() -> Box<dyn Source> {
    Box::new(SynthSource::new(&SynthSpec::parse(EVEN, "even").unwrap(), "even").unwrap())
}

fn planned(ask: &Ask, catalogue: &Catalogue) -> Plan {
    let trace = || Ok(source());
    let workload = Workload::measure("even", &trace).unwrap();
    plan(ask, catalogue, &workload, &|_, _, _| {}).unwrap()
}

/// The figures of a candidate, as `peryton sim` has them.
fn simulated(catalogue: &Catalogue, candidate: &Candidate, ask: &Ask) -> Option<Metrics> {
    let design = Design::parse(&candidate.text(catalogue, FOOTPRINT), "candidate", &[]).ok()?;
    evaluate(&design, &|| Ok(source()), &ask.options, &ask.account).ok()
}

/// What holds all data: 64 MiB and the 8 MiB that are kept free, filled to 80 %, beside 16 MiB for the drive.
fn all_bytes() -> f64 {
    ((64.0 + 8.0) / 0.8 + 16.0) * 1.048576e6
}

fn each(found: &Found) -> f64 {
    found.devices[0].capacity_bytes.unwrap() as f64
}

/// The fear: a capacity that is a guess, too small for the budgets or far larger than they need.
#[test]
fn the_capacity_is_the_smallest_that_meets_the_budgets() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = catalogue(folder.path());
    let mut chosen = Vec::new();
    // From loose to tight, and then a lifetime that asks for more flash than the data do.
    for budgets in [
        "latency<=3ms",
        "latency<=1500us",
        "latency<=600us",
        "latency<=600us,lifetime>=24h",
        "latency<=600us,lifetime>=240h",
    ] {
        let ask = ask(budgets, Flash::Any);
        let plan = planned(&ask, &catalogue);
        let best = plan.best.unwrap();
        assert!(best.meets && best.candidate.is_hybrid(), "{budgets}: {}", best.label);
        let all = simulated(&catalogue, &best.candidate, &ask).unwrap();
        assert_eq!(all, best.metrics, "{budgets}: the figures are those of a simulation of the design");
        // Its price is in proportion.
        let usd = 100.0 + 200.0 * each(&best) / 4e9;
        assert!(
            (best.metrics.dollars.unwrap() / usd - 1.0).abs() < 1e-9,
            "{budgets}: {usd} {:?}",
            best.metrics.dollars
        );
        let meets = |capacity: f64| {
            let smaller = best.candidate.with_capacity(Some(Bytes(capacity as u64)));
            simulated(&catalogue, &smaller, &ask).is_some_and(|metrics| strain(&ask.constraints, &metrics) <= 1.0)
        };
        let smallest = best.candidate.flash_capacity(&catalogue).0 as f64;
        for smaller in [1.08, 1.25, 1.6, 2.5, 6.0] {
            assert!(!meets(smallest / smaller), "{budgets}: {} would have done with {smaller} times less", best.label);
        }
        let flash = best.flash.unwrap();
        assert_eq!((flash.capacity_bytes as f64, flash.devices), (each(&plan.simulated[0]), 1), "{budgets}");
        let (whole, smaller) = (flash.whole.as_ref().unwrap(), flash.smaller.as_ref().unwrap());
        assert!(whole.capacity_bytes == 4_000_000_000 && whole.dollars == Some(300.0) && whole.meets, "{whole:?}");
        assert!(!smaller.meets && smaller.capacity_bytes as f64 * 1.08 > smallest, "{budgets}: {smaller:?}");
        let limit = flash.limited_by.unwrap().metric;
        assert_eq!(limit, if budgets.contains("240h") { Metric::Lifetime } else { Metric::Latency }, "{budgets}");
        assert!(flash.points.is_sorted_by_key(|point| point.capacity_bytes) && flash.points.len() >= 4);
        let said = flash.sentences().join(" ");
        assert!(said.contains("whole devices of the catalogue, 4 GB") && said.contains(limit.name()), "{said}");
        // The others are other sets of devices, not the same with another capacity.
        let shapes: Vec<Candidate> = plan.runners_up.iter().map(|found| found.candidate.with_capacity(None)).collect();
        assert!(!shapes.contains(&best.candidate.with_capacity(None)) && (shapes.len() < 2 || shapes[0] != shapes[1]));
        chosen.push((budgets, smallest, best.metrics.lifetime_years.unwrap()));
    }
    assert!(chosen[..3].is_sorted_by(|a, b| a.1 < b.1), "a tighter budget of latency takes more flash: {chosen:?}");
    // A cache of 600 µs holds nearly all data.
    let all = all_bytes();
    assert!((0.8 * all..1.15 * all).contains(&chosen[2].1), "{chosen:?}, {all}");
    // A lifetime that it has anyway costs nothing; one of ten days takes as much more flash as it is longer.
    assert!((chosen[3].1 / chosen[2].1 - 1.0).abs() < 0.1, "{chosen:?}");
    let ((_, small, years), (_, large, _)) = (chosen[3], chosen[4]);
    let longer = 240.0 / (years * 8766.0);
    assert!(longer > 1.5 && ((large / small) / longer - 1.0).abs() < 0.15, "{longer} times longer: {chosen:?}");
}

#[test]
fn a_plan_of_flash_in_any_capacity_is_the_same_on_any_number_of_cores() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = catalogue(folder.path());
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| serde_json::to_string(&planned(&ask("latency<=1ms", Flash::Any), &catalogue)).unwrap())
    };
    let one = on(1);
    assert_eq!(one, on(3));
    assert!(one.contains("\"flash\":\"any\"") && one.contains("--flash any"));
}

#[test]
fn other_objectives_choose_a_capacity_too() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = catalogue(folder.path());
    // The best that 105 USD buy: 100 for the disk, 5 for 100 MB of flash.
    let ask = Ask { objective: Metric::Latency, ..ask("dollars<=105", Flash::Any) };
    let best = planned(&ask, &catalogue).best.unwrap();
    assert!(best.metrics.dollars.unwrap() <= 105.0 && best.candidate.is_hybrid(), "{}", best.label);
    let disk = planned(&Ask { objective: Metric::Latency, ..ask.clone() }, &catalogue);
    let alone = disk.simulated.iter().find(|found| found.mode == Mode::Single).unwrap().metrics.mean_ms;
    assert!(best.metrics.mean_ms < alone / 2.0, "{} against {alone} of the disk", best.metrics.mean_ms);
}

/// The fear: whole devices are bought, and the report does not say that a tenth would do.
#[test]
fn a_plan_of_whole_devices_says_how_much_of_the_flash_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = catalogue(folder.path());
    let asked = ask("latency<=600us", Flash::Whole);
    let found = planned(&asked, &catalogue);
    let best = found.best.unwrap();
    assert!(best.candidate.is_hybrid() && best.devices[0].capacity_bytes.is_none(), "{}", best.label);
    let flash = best.flash.unwrap();
    let enough = flash.enough.clone().unwrap();
    assert!(flash.whole.is_none() && flash.capacity_bytes == 4_000_000_000);
    assert!(enough.mean_ms <= best.metrics.mean_ms * 1.05, "{enough:?}");
    let all = all_bytes();
    assert!((0.85 * all..1.15 * all).contains(&(enough.capacity_bytes as f64)), "{enough:?}, {all}");
    let below = flash.points.iter().rev().find(|point| point.capacity_bytes < enough.capacity_bytes).unwrap();
    assert!(
        below.mean_ms > best.metrics.mean_ms * 1.05
            && below.capacity_bytes as f64 * 1.11 > enough.capacity_bytes as f64
    );
    assert!(flash.sentences()[0].contains("the workload needs"), "{:?}", flash.sentences());
    // A capacity that would wear out too early is not what is needed, however fast it is.
    let (some, all) = (enough.lifetime_years.unwrap(), best.metrics.lifetime_years.unwrap());
    let seconds = f64::midpoint(some, all) * 31_557_600.0;
    let longer = planned(&ask(&format!("latency<=600us,lifetime>={seconds}s"), Flash::Whole), &catalogue);
    let needed = longer.best.unwrap().flash.unwrap().enough.unwrap();
    assert!(needed.meets && needed.capacity_bytes > enough.capacity_bytes, "{needed:?} and not {enough:?}");
    // It changes nothing else, and can be left out.
    let mut without = planned(&Ask { flash_need: false, ..asked.clone() }, &catalogue);
    assert!(without.best.as_ref().unwrap().flash.is_none());
    without.best.as_mut().unwrap().flash = Some(flash);
    let with = planned(&asked, &catalogue);
    assert_eq!(serde_json::to_string(&with).unwrap(), serde_json::to_string(&without).unwrap());
    assert!(!serde_json::to_string(&without.simulated).unwrap().contains("flash\":{"), "only the answer has it");
}

/// `devices.NAME.capacity`: price and endurance in proportion, the rest as it was.
#[test]
fn a_device_of_half_the_capacity_costs_half_and_lives_half_as_long() {
    let design = |more: &str| {
        let text = format!(
            "[volume]\nsize = '64MiB'\n[devices.ssd]\nprofile = 'intel-x25-e-32gb'\nprice_usd = 320\nmodel = {{ precondition = 'random' }}\n\
             {more}\n[placement]\nmode = 'single'\n"
        );
        Design::parse(
            &text.replace("price_usd = 320\n", if more.contains("price") { "" } else { "price_usd = 320\n" }),
            "design",
            &[],
        )
    };
    let figures = |more: &str| {
        evaluate(&design(more).unwrap(), &|| Ok(source()), &Options::default(), &Account::default()).unwrap()
    };
    let (whole, half) = (figures(""), figures("capacity = '16GB'\nprice_usd = 160"));
    assert_eq!((whole.mean_ms, whole.p99_ms, whole.power_w), (half.mean_ms, half.p99_ms, half.power_w));
    assert_eq!((whole.dollars, half.dollars), (Some(320.0), Some(160.0)));
    let part = 16e9 / peryton_device::Profile::named("intel-x25-e-32gb").unwrap().capacity.0 as f64;
    for of in [
        |of: &Metrics| of.lifetime_years,
        |of: &Metrics| of.lifetime_physical_years,
        |of: &Metrics| of.lifetime_rated_years,
    ] {
        let (whole, half) = (of(&whole).unwrap(), of(&half).unwrap());
        assert!((half / whole / part - 1.0).abs() < 1e-9, "{half} of {whole}");
    }
    let profile = peryton_device::Profile::named("intel-320-300gb").unwrap();
    let text = "[devices.ssd]\nprofile = 'intel-320-300gb'\ncapacity = '30GB'\n[placement]\nmode = 'single'\n";
    let small = Design::parse(text, "small", &[]).unwrap();
    assert_eq!(small.devices[0].price_usd, profile.price_usd.map(|usd| usd * (30e9 / profile.capacity.0 as f64)));
    assert!(small.devices[0].used.0 <= 30_000_000_000 && small.volume.0 > 29_000_000_000, "{}", small.volume);
    for (more, part) in
        [("capacity = '64GB'", "use at most that"), ("capacity = '0B'", "holds nothing"), ("capacity = '32MiB'", "")]
    {
        let error = design(more).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
    }
}

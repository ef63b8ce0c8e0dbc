//! The planner with a small catalogue of made-up devices, where every design can be tried.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fs, path::Path};

use peryton_device::{Era, PriceList};
use peryton_plan::{
    capacity::{
        Ask, Candidate, Catalogue, Enumerate, Flash, Member, Mode, OWN_PRICE, Plan, PlanError, Protection, Slow,
        Spares, Workload, plan,
    },
    constraint::{Constraint, Metric, strain},
    evaluate::{Account, Metrics, evaluate},
};
use peryton_sim::{Design, Options, Redundancy, Replay};
use peryton_trace::{Account as Read, Request, Source, SynthSource, SynthSpec, TraceError};
use peryton_units::{Bytes, Nanos};

/// A slow device, a fast one that wears, and a medium one.
const DEVICES: &[(&str, f64, &str)] = &[
    ("rust", 20.0, "read = '4ms'\nwrite = '4ms'\ncapacity = '400MiB'\nactive_w = 6\nidle_w = 4"),
    ("glass", 90.0, "read = '100us'\nwrite = '200us'\ncapacity = '200MiB'\ncycles = 3000\nactive_w = 2\nidle_w = 0.5"),
    ("tin", 60.0, "read = '600us'\nwrite = '900us'\ncapacity = '400MiB'\ncycles = 900\nactive_w = 3\nidle_w = 1"),
];

/// No redundancy, and devices filled to the brim.
const BRIM: Protection = Protection {
    fast: Redundancy::None,
    slow: Redundancy::None,
    copies: false,
    spares: Spares::Count(0),
    fill_limit: 1.0,
    replace_within: None,
};

fn catalogue(folder: &Path) -> Catalogue {
    for (name, price, model) in DEVICES {
        let text = format!(
            "name = '{name}'\ndescription = '{name}'\nclass = 'fixed'\nprice_usd = {price}\n\n[fixed]\n{model}\n"
        );
        fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    }
    Catalogue::named(&[folder.display().to_string()], &PriceList::default(), &Era::default()).unwrap()
}

fn spec(requests: u64, interval: &str) -> SynthSpec {
    let text = format!(
        "requests = {requests}\nfootprint = '160MiB'\nread_share = 0.6\nsequential_share = 0.1\nseed = 3\n\
         arrival = {{ kind = 'poisson', mean = '{interval}' }}\nsize = '8KiB'\n\
         address = {{ kind = 'zipf', exponent = 0.9, extent = '64KiB' }}\n"
    );
    SynthSpec::parse(&text, "spec").unwrap()
}

fn source(spec: &SynthSpec) -> Box<dyn Source> {
    Box::new(SynthSource::new(spec, "spec").unwrap())
}

/// The same requests, all at one moment.
struct AtOnce(Box<dyn Source>);

impl Source for AtOnce {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        self.0.next_batch(batch)?;
        batch.iter_mut().for_each(|request| request.at = Nanos::ZERO);
        Ok(())
    }

    fn account(&self) -> Read {
        self.0.account()
    }
}

fn ask(budgets: &str) -> Ask {
    Ask {
        // The made-up devices wear out within days, which no plan takes unless it is asked to.
        constraints: Constraint::gather(
            None,
            (!budgets.contains("lifetime")).then_some(Nanos::from_s(60)),
            &[budgets].iter().filter(|text| !text.is_empty()).map(|text| (*text).to_owned()).collect::<Vec<_>>(),
        )
        .unwrap(),
        objective: Metric::Dollars,
        capacity: None,
        active: None,
        most: 4,
        runners_up: 2,
        protection: BRIM,
        flash: Flash::Whole,
        flash_need: false,
        account: Account::default(),
        duty: 1.0,
        options: Options::default(),
    }
}

fn planned(ask: &Ask, catalogue: &Catalogue, spec: &SynthSpec) -> Result<Plan, PlanError> {
    let trace = || Ok(source(spec));
    let workload = Workload::measure("made up", &trace)?;
    plan(ask, catalogue, &workload, &|_, _, _| {})
}

/// The same devices, in every number from these to the most.
fn every_count(candidate: &Candidate, most: u32) -> Vec<Candidate> {
    let numbers = |member: &Member| (member.count..=most).map(|count| Member { count, ..*member }).collect::<Vec<_>>();
    let fast = numbers(&candidate.fast).into_iter().map(|fast| Candidate { fast, ..candidate.clone() });
    let slow = |one: Candidate| match &one.slow {
        Some(Slow::Devices(slow)) if candidate.mode != Mode::Logging => {
            numbers(slow).into_iter().map(|slow| Candidate { slow: Some(Slow::Devices(slow)), ..one.clone() }).collect()
        }
        _ => vec![one],
    };
    fast.flat_map(slow).collect()
}

/// Evaluates every candidate with the whole trace.
fn brute_force(catalogue: &Catalogue, spec: &SynthSpec) -> Vec<(Candidate, Metrics)> {
    let trace = || Ok(source(spec));
    let workload = Workload::measure("made up", &trace).unwrap();
    let enumerate =
        Enumerate { capacity: workload.reach, most: 4, spin_down: false, protection: BRIM, flash: Flash::Whole };
    let mut all: BTreeSet<Candidate> =
        Candidate::all(catalogue, &enumerate).iter().flat_map(|one| every_count(one, enumerate.most)).collect();
    all.extend(all.clone().iter().flat_map(|two_tiers| two_tiers.behind_faster(catalogue, &enumerate)));
    all.retain(|one| one.is_worth_its_devices(catalogue, &enumerate));
    let one = |candidate: Candidate| {
        let text = candidate.text(catalogue, workload.reach);
        let design = Design::parse(&text, "candidate", &[]).ok()?;
        let metrics = evaluate(&design, &trace, &Options::default(), &Account::default()).ok()?;
        Some((candidate, metrics))
    };
    all.into_iter().filter_map(one).collect()
}

#[test]
fn the_planner_finds_what_trying_everything_finds() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = catalogue(folder.path());
    let spec = spec(30_000, "3ms");
    let all = brute_force(&catalogue, &spec);
    assert!(all.len() > 15, "{}", all.len());
    let mut answers = Vec::new();
    for budgets in [
        "",
        "latency<=2ms",
        "latency<=1ms",
        "latency<=300us",
        "latency<=1ms,lifetime>=1y",
        "latency<=2ms,lifetime>=4y",
        "p99<=6ms,lifetime>=2y",
        "power<=2W",
    ] {
        let ask = ask(budgets);
        let meets = all.iter().filter(|(_, metrics)| strain(&ask.constraints, metrics) <= 1.0);
        let least = meets.map(|(_, metrics)| metrics.dollars.unwrap()).min_by(f64::total_cmp);
        let plan = planned(&ask, &catalogue, &spec).unwrap();
        let found = plan.best.as_ref().map(|best| best.metrics.dollars.unwrap());
        assert_eq!(found, least, "{budgets}: {:?}", plan.best);
        answers.push(found.map(|usd| usd as i64));
        for found in plan.best.iter().chain(&plan.runners_up) {
            assert!(found.meets && strain(&ask.constraints, &found.metrics) <= 1.0);
            let (_, metrics) = all.iter().find(|(candidate, _)| *candidate == found.candidate).unwrap();
            assert_eq!(*metrics, found.metrics, "what is shown is of the whole trace");
        }
    }
    answers.sort();
    answers.dedup();
    assert!(answers.len() >= 4, "budgets that all have one answer show nothing: {answers:?}");
}

/// The fear: six devices are bought where five are enough, because the search begins with numbers that double.
#[test]
fn no_device_is_bought_more_than_the_budgets_need() {
    let folder = tempfile::tempdir().unwrap();
    catalogue(folder.path());
    let rust = folder.path().join("rust.toml").display().to_string();
    let catalogue = Catalogue::named(&[rust], &PriceList::default(), &Era::default()).unwrap();
    for (count, interval) in [(3, "2ms"), (5, "1ms")] {
        let spec = spec(20_000, interval);
        let trace = || Ok(source(&spec));
        let workload = Workload::measure("made up", &trace).unwrap();
        let mean_ms = |count: u32| {
            let (mode, fast) = (Mode::Single, Member::plain(0, count));
            let candidate = Candidate { mode, fast, slow: None, spin_down: false, fill_per_mille: 1000 };
            let design = Design::parse(&candidate.text(&catalogue, workload.reach), "single", &[]).unwrap();
            evaluate(&design, &trace, &Options::default(), &Account::default()).unwrap().mean_ms
        };
        let limit = (mean_ms(count) * 1010.0).round();
        assert!(mean_ms(count - 1) * 1e3 > limit, "{count} devices are no better than one less");
        for most in [count, 8] {
            let plan = planned(&Ask { most, ..ask(&format!("latency<={limit}us")) }, &catalogue, &spec).unwrap();
            let best = plan.best.unwrap_or_else(|| panic!("{count} of at most {most} devices are not found"));
            assert_eq!(best.devices[0].count, count, "of at most {most}");
            // What a hybrid is compared with is no larger than it has to be, either.
            assert_eq!(plan.flash_alone, Some(best.design));
        }
    }
}

#[test]
fn other_objectives_are_found_too() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = catalogue(folder.path());
    let spec = spec(20_000, "3ms");
    let all = brute_force(&catalogue, &spec);
    for objective in [Metric::Latency, Metric::Lifetime] {
        let ask = Ask { objective, ..ask("dollars<=200") };
        let meets = all.iter().filter(|(_, metrics)| strain(&ask.constraints, metrics) <= 1.0);
        let best = meets.map(|(_, metrics)| objective.cost(metrics)).min_by(f64::total_cmp).unwrap();
        let plan = planned(&ask, &catalogue, &spec).unwrap();
        let found = objective.cost(&plan.best.unwrap().metrics);
        // Samples have errors, so a slightly worse design may be found in place of the best.
        assert!(found <= best + 0.05 * best.abs() || found == best, "{objective}: {found} against {best}");
    }
}

#[test]
fn a_sample_keeps_the_order_of_designs() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = catalogue(folder.path());
    // Budgets that many candidates meet, so that many are simulated with the whole trace.
    let ask = Ask { runners_up: 7, ..ask("latency<=5ms") };
    let plan = planned(&ask, &catalogue, &spec(40_000, "3ms")).unwrap();
    let pairs: Vec<(f64, f64)> =
        plan.simulated.iter().filter_map(|found| Some((found.sampled_mean_ms?, found.metrics.mean_ms))).collect();
    assert!(pairs.len() >= 5, "{}", pairs.len());
    let (mut same, mut other) = (0, 0);
    for (index, a) in pairs.iter().enumerate() {
        for b in &pairs[..index] {
            // Designs within a tenth of each other may have another order.
            if (a.1 / b.1).ln().abs() > 0.1 {
                *(if (a.0 - b.0) * (a.1 - b.1) > 0.0 { &mut same } else { &mut other }) += 1;
            }
        }
    }
    assert!(same > 0 && other * 10 <= same, "{same} pairs in the same order, {other} in the other: {pairs:?}");
}

#[test]
fn what_no_design_meets_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = catalogue(folder.path());
    let spec = spec(8_000, "3ms");
    let plan = planned(&ask("latency<=1us,lifetime>=1y"), &catalogue, &spec).unwrap();
    let why = plan.infeasible.unwrap();
    assert!(plan.best.is_none() && plan.runners_up.is_empty());
    assert_eq!(why.binding.unwrap().metric, Metric::Latency);
    assert_eq!(why.impossible_alone.iter().map(|one| one.metric).collect::<Vec<_>>(), [Metric::Latency]);
    let all = brute_force(&catalogue, &spec);
    let constraints = Constraint::list("latency<=1us,lifetime>=1y").unwrap();
    let least = all.iter().map(|(_, metrics)| strain(&constraints, metrics)).min_by(f64::total_cmp).unwrap();
    assert_eq!(why.nearest.strain, least);
    // Without the impossible budget there is a design, and the table of budgets shows it.
    let latency = plan.budgets.iter().find(|budget| budget.constraint.metric == Metric::Latency).unwrap();
    assert!(latency.without.objective.is_some() && latency.tightened.objective.is_none());
}

#[test]
fn a_plan_is_the_same_on_any_number_of_cores() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = catalogue(folder.path());
    let spec = spec(15_000, "2ms");
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let trace = || Ok(source(&spec));
            let workload = Workload::measure("made up", &trace).unwrap();
            let ask = ask("latency<=1ms,lifetime>=6mo".replace("6mo", "4380h").as_str());
            let plan = plan(&ask, &catalogue, &workload, &|_, _, _| {}).unwrap();
            serde_json::to_string(&plan).unwrap()
        })
    };
    let one = on(1);
    assert_eq!(one, on(3));
}

#[test]
fn what_cannot_be_planned_is_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let made = catalogue(folder.path());
    let tell = |error: PlanError, part: &str| {
        let text = error.to_string();
        assert!(text.contains(part) && !text.contains('\n'), "{text}");
    };
    let small = spec(2_000, "3ms");
    let tiny = Ask { capacity: Some(Bytes::mib(8)), ..ask("") };
    tell(planned(&tiny, &made, &small).unwrap_err(), "is less than");
    let huge = Ask { capacity: Some(Bytes::gib(1 << 30)), ..ask("") };
    tell(planned(&huge, &made, &small).unwrap_err(), "raise --most");
    let none = Ask { most: 0, ..ask("") };
    tell(planned(&none, &made, &small).unwrap_err(), "--most");
    tell(planned(&ask(""), &made, &spec(1, "3ms")).unwrap_err(), "no rate to plan for");
    // The trace has no flush, so no design is better or worse by it.
    tell(planned(&ask("flush<=1ms"), &made, &small).unwrap_err(), "no design has flush: leave it out");
    tell(planned(&Ask { objective: Metric::Flush, ..ask("") }, &made, &small).unwrap_err(), "no design has flush");
    // Requests at one moment have no rate, and need none if so many are in flight at any time.
    let trace = || Ok(Box::new(AtOnce(source(&small))) as Box<dyn Source>);
    let burst = Workload::measure("at once", &trace).unwrap();
    let at = |replay: Replay| {
        let ask = Ask { options: Options { replay, ..Options::default() }, ..ask("") };
        plan(&ask, &made, &burst, &|_, _, _| {})
    };
    tell(at(Options::default().replay).unwrap_err(), "no rate to plan for");
    assert!(at(Replay::Depth(8)).unwrap().best.is_some());
    let named = |names: &[&str], prices: &PriceList| {
        Catalogue::named(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), prices, &Era::default())
            .unwrap_err()
    };
    let none = PriceList::default();
    tell(named(&["intel-320-300g"], &none), "did you mean");
    tell(named(&["griffin-wd-10k"], &none), "has no price");
    tell(named(&["intel-320-300gb"], &none.clone().with("intel-x25-e-32gb", 3.0, OWN_PRICE)), "--price");
    let empty = tempfile::tempdir().unwrap();
    tell(named(&[&empty.path().display().to_string()], &none), "no device profiles");
    fs::write(empty.path().join("broken.toml"), "name = 'x'\n[fixed]\nread = 7\n").unwrap();
    tell(named(&[&empty.path().display().to_string()], &none), "broken.toml");
    let twice = folder.path().join("rust.toml");
    let copy = empty.path().join("broken.toml");
    fs::copy(&twice, &copy).unwrap();
    tell(named(&[&twice.display().to_string(), &copy.display().to_string()], &none), "two devices are called");
}

/// The fear: a list of prices is read by another rule than the devices, so that a family in a file has none.
#[test]
fn a_list_of_prices_is_for_the_devices_that_take_part_wherever_they_are_from() {
    let folder = tempfile::tempdir().unwrap();
    let text = "description = 'x'\nclass = 'fixed'\n[member.twin-a]\nfixed = { capacity = '200MiB' }\n[member.twin-b]\nfixed = { capacity = '400MiB' }\n\
                [fixed]\nread = '4ms'\nwrite = '4ms'\nactive_w = 6\nidle_w = 4\n";
    fs::write(folder.path().join("twin.toml"), text).unwrap();
    let list =
        PriceList::parse("name,usd,usd_per_tb\ntwin-a,7,\ntwin-b,9,\nnvme-tlc,,400\nintel-320-300gb,3,\n", "p.csv");
    let list = list.unwrap();
    let found = Catalogue::named(&[folder.path().display().to_string()], &list, &Era::default()).unwrap();
    let prices: Vec<f64> = found.kinds.iter().map(|kind| kind.price_usd).collect();
    assert_eq!(prices, [7.0, 9.0], "{:?}", found.kinds);
    let list = list.with("twin-a", 5.0, OWN_PRICE);
    let found = Catalogue::named(&[folder.path().display().to_string()], &list, &Era::default()).unwrap();
    assert_eq!(found.get("twin-a").unwrap().price_usd, 5.0);
    // Without a choice of devices, one that has a price of its own takes part whatever its era, and a class has its new price.
    let all = Catalogue::named(
        &[],
        &PriceList::parse("name,usd,usd_per_tb\nnvme-tlc,,400\nintel-320-300gb,3,\n", "p").unwrap(),
        &Era::default(),
    );
    let all = all.unwrap();
    assert_eq!(all.get("intel-320-300gb").unwrap().price_usd, 3.0);
    assert_eq!(all.get("solidigm-d7-ps1010-7.68tb").unwrap().price_usd, 400.0 * 7.68);
    let unknown = PriceList::parse("name,usd\ntwin-c,7\n", "p.csv").unwrap();
    let error = Catalogue::named(&[folder.path().display().to_string()], &unknown, &Era::default()).unwrap_err();
    assert!(error.to_string().contains("p.csv: no device or class is called 'twin-c'"), "{error}");
}

#[test]
fn small_fast_devices_before_a_large_volume_leave_room_for_its_map() {
    let catalogue = Catalogue::named(
        &["intel-x25-e-32gb".to_owned(), "seagate-st4000dm000".to_owned()],
        &PriceList::default(),
        &Era::default(),
    )
    .unwrap();
    for volume in [Bytes::gib(40), Bytes::gib(500), Bytes::gib(3000)] {
        let candidates = Candidate::all(
            &catalogue,
            &Enumerate { capacity: volume, most: 4, spin_down: false, protection: BRIM, flash: Flash::Whole },
        );
        let hybrids = candidates.iter().filter(|candidate| candidate.slow.is_some()).count();
        assert!(hybrids > 5, "{hybrids} hybrids: the test tests nothing");
        for candidate in candidates {
            let design = Design::parse(&candidate.text(&catalogue, volume), "candidate", &[]);
            assert!(design.is_ok(), "{volume}: {}", design.unwrap_err());
        }
    }
}

/// The fear: a sample of the data lies on the outermost tracks of a simulated disk, where it is answered in half the time.
#[test]
fn disks_that_hold_a_sample_are_as_slow_as_those_that_hold_all_data() {
    let catalogue =
        Catalogue::named(&["seagate-exos-x20-20tb".to_owned()], &PriceList::default(), &Era::default()).unwrap();
    let reads = |footprint: &str| {
        let text = format!(
            "requests = 3000\nfootprint = '{footprint}'\nread_share = 1.0\nseed = 3\nsize = '4KiB'\n\
             arrival = {{ kind = 'poisson', mean = '50ms' }}\naddress = {{ kind = 'uniform' }}\n"
        );
        SynthSpec::parse(&text, "reads").unwrap()
    };
    let mean = |footprint: &str| {
        let ask = Ask { capacity: Some(Bytes::gib(12 << 10)), ..ask("") };
        let plan = planned(&ask, &catalogue, &reads(footprint)).unwrap();
        plan.best.as_ref().unwrap().metrics.mean_ms
    };
    let (sample, whole) = (mean("2GiB"), mean("12TiB"));
    assert!((sample / whole - 1.0).abs() < 0.1, "{sample} ms of a sample, {whole} of all data");
}

/// The fear: what one has can be planned with only if a price is made up for it, or if it is of these years.
#[test]
fn what_is_owned_needs_no_price_and_no_era_and_no_more_of_it_is_bought() {
    let folder = tempfile::tempdir().unwrap();
    let _ = catalogue(folder.path());
    let devices = [folder.path().display().to_string()];
    let owned = [("griffin-wd-10k".to_owned(), 2)];
    let catalogue = Catalogue::with_owned(&devices, &PriceList::default(), &owned, &Era::default()).unwrap();
    let all = Candidate::all(
        &catalogue,
        &Enumerate { capacity: Bytes::mib(100), most: 8, spin_down: false, protection: BRIM, flash: Flash::Whole },
    );
    let ours = catalogue.kinds.iter().position(|kind| kind.profile.name == owned[0].0).unwrap();
    let counts: Vec<u32> = all
        .iter()
        .flat_map(|one| one.members())
        .filter(|(_, member)| member.kind == ours)
        .map(|(_, m)| m.count)
        .collect();
    assert!(counts.contains(&2) && counts.iter().all(|count| *count <= 2), "{counts:?}");
    assert!(all.iter().any(|one| one.dollars(&catalogue) == 0.0));
    let error = Catalogue::with_owned(&devices, &PriceList::default(), &[("none".to_owned(), 1)], &Era::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("--own") && error.contains("none=1"), "{error}");
}

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use peryton_sim::TraceFactory;
use peryton_trace::{SynthSource, SynthSpec};

use super::*;

/// A skewed workload on a cache that promotes slowly, so tuning can gain much.
const DESIGN: &str = "[volume]\nsize = '64MiB'\n\
    [devices.ssd]\nprofile = 'intel-320-300gb'\nsize = '16MiB'\n[devices.hdd]\nprofile = 'seagate-st32000641as'\n\
    [placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\nextent = '64KiB'\nreplacement = 'lru'\n\
    promotion = { threshold = 64, window = '1s' }\ndemotion = { low = 4, high = 8 }\nmax_moves = 4\n";
const WORKLOAD: &str = "requests = 4000\nfootprint = '48MiB'\nread_share = 0.7\narrival = '5ms'\nsize = '4KiB'\n\
    address = { kind = 'zipf', exponent = 1.0 }\nseed = 3\n";

fn run(design: &str, knobs: Option<Vec<Knob>>, change: impl FnOnce(&mut Search)) -> Result<Tuned, TuneError> {
    let mut search =
        Search { objective: Metric::Latency, constraints: Vec::new(), evaluations: 40, seed: 1, requests: None };
    change(&mut search);
    let spec = SynthSpec::parse(WORKLOAD, "workload").unwrap();
    let load = |overrides: &[String]| Design::parse(design, "design", overrides);
    let knobs = knobs.unwrap_or_else(|| Knob::list(&load(&[]).unwrap(), false));
    let trace: &TraceFactory<'_> = &|| Ok(Box::new(SynthSource::new(&spec, "workload").unwrap()));
    let workload = Workload::measure("workload", trace).unwrap();
    tune(&load, &knobs, &workload, &Options::default(), &Account::default(), &search, &|_| {})
}

fn measured(overrides: &[String]) -> Metrics {
    let spec = SynthSpec::parse(WORKLOAD, "workload").unwrap();
    let design = Design::parse(DESIGN, "design", overrides).unwrap();
    let trace: &TraceFactory<'_> = &|| Ok(Box::new(SynthSource::new(&spec, "workload").unwrap()));
    evaluate(&design, trace, &Options::default(), &Account::default()).unwrap()
}

#[test]
fn bad_settings_are_found_out_and_the_figures_are_those_of_a_simulation() {
    let tuned = run(DESIGN, None, |_| {}).unwrap();
    assert!(tuned.after.mean_ms < 0.8 * tuned.before.mean_ms, "{} after {}", tuned.after.mean_ms, tuned.before.mean_ms);
    assert!(tuned.changed.iter().any(|changed| changed.knob == "placement.promotion.threshold"), "{:?}", tuned.changed);
    assert_eq!(measured(&[]), tuned.before);
    assert_eq!(measured(&tuned.overrides), tuned.after);
}

#[test]
fn the_same_seed_finds_the_same_whatever_threads_do() {
    let one = run(DESIGN, None, |search| search.evaluations = 24).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let other = pool.install(|| run(DESIGN, None, |search| search.evaluations = 24).unwrap());
    assert_eq!((one.changed, one.after), (other.changed, other.after));
}

#[test]
fn where_all_can_be_tried_the_best_is_found() {
    let knobs = || {
        vec![
            Knob::given("placement.promotion.threshold", &["0", "1", "3"]),
            Knob::given("placement.replacement", &["arc", "sieve"]),
        ]
    };
    let tuned = run(DESIGN, Some(knobs()), |search| search.evaluations = 60).unwrap();
    let mut best = f64::INFINITY;
    for first in &knobs()[0].choices {
        for second in &knobs()[1].choices {
            let overrides = [first.overrides.clone(), second.overrides.clone()].concat();
            best = best.min(measured(&overrides).mean_ms);
        }
    }
    assert_eq!(tuned.after.mean_ms, best);
}

#[test]
fn no_bound_is_broken_for_the_objective() {
    let free = run(DESIGN, None, |_| {}).unwrap();
    // Less power than the fastest settings need, but more than the unchanged design.
    let limit = (free.after.power_w.unwrap() + free.before.power_w.unwrap()) / 2.0;
    let power = Constraint::new(Metric::Power, limit.max(free.before.power_w.unwrap())).unwrap();
    let bound = run(DESIGN, None, |search| search.constraints = vec![power]).unwrap();
    assert!(bound.met_before && bound.met_after, "{:?} above {power}", bound.after.power_w);
    assert!(bound.after.mean_ms <= bound.before.mean_ms);
    let hopeless = Constraint::new(Metric::P99, 1e-6).unwrap();
    let none = run(DESIGN, None, |search| search.constraints = vec![hopeless]).unwrap();
    assert!(!none.met_after && !none.met_before);
    // The search still comes nearer to the bound, or leaves the design unchanged.
    assert!(none.after.p99_ms <= none.before.p99_ms);
}

#[test]
fn what_cannot_be_turned_is_one_clear_line() {
    let single = "[volume]\nsize = '64MiB'\n[devices.ssd]\nprofile = 'intel-320-300gb'\n[placement]\nmode = 'single'\n";
    let said = |result: Result<Tuned, TuneError>| result.unwrap_err().to_string();
    let nothing = said(run(single, None, |_| {}));
    assert!(nothing.contains("--knob"), "{nothing}");
    let elsewhere = said(run(single, Some(vec![Knob::given("placement.max_moves", &["1"])]), |_| {}));
    assert!(elsewhere.contains("max_moves"), "{elsewhere}");
    let rubbish = said(run(DESIGN, Some(vec![Knob::given("placement.max_moves", &["many"])]), |_| {}));
    assert!(rubbish.contains("max_moves") && rubbish.contains("many"), "{rubbish}");
    let fixed =
        DESIGN.replace("profile = 'intel-320-300gb'", "profile = 'fixed'\nmodel = { read = '40us', write = '1ms' }");
    let watts = said(run(&fixed, None, |search| search.objective = Metric::Power));
    assert!(watts.contains("power"), "{watts}");
}

/// The fear: a design that writes back at once offers delays that no design may have with it.
#[test]
fn no_delay_is_longer_than_the_age_at_which_all_goes_home() {
    let design = format!("{DESIGN}writeback = {{ delay = '0s', max_age = '5s' }}\n");
    let load = |overrides: &[String]| Design::parse(&design, "design", overrides);
    let knobs = Knob::list(&load(&[]).unwrap(), false);
    let delays = knobs.iter().find(|knob| knob.name == "placement.writeback.delay").unwrap();
    assert_eq!(delays.choices.len(), 3, "0 s, 1 s and 5 s");
    for choice in &delays.choices {
        load(&choice.overrides).unwrap();
    }
}

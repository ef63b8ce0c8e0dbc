#![allow(clippy::unwrap_used)]
use peryton_sim::{DesignText, Fit, Options, Report, run_one};
use peryton_trace::{Source, SynthSource, SynthSpec, TraceError};
use peryton_units::Bytes;

use super::*;

const CACHE: &str = "[volume]\nsize = '256MiB'\n[devices]\nssd = { profile = 'intel-x25-e-32gb', size = '8MiB', price_usd = 320 }\n\
                     hdd = { profile = 'seagate-st32000641as' }\n[placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\n\
                     extent = '16KiB'\npromotion = { threshold = 0 }\ndemotion = { low = 4, high = 8 }\n";
/// Reads of 2,048 extents, each as often as any other.
const EVEN: &str =
    "requests = 30000\nfootprint = '32MiB'\nread_share = 0.9\narrival = '20ms'\nsize = '4KiB'\naddress = 'uniform'\n";

fn ask(design: &str) -> Ask {
    Ask {
        design: DesignText::new(design, "cache"),
        overrides: Vec::new(),
        sizes: Sizes::Chosen,
        points: 6,
        objective: Metric::Latency,
        within: WITHIN,
        usd_per_ms: None,
        account: Account::default(),
        options: Options { warm_up_requests: 15_000, ..Options::default() },
    }
}

fn with_trace<T>(spec: &str, work: impl FnOnce(&Workload<'_>, &dyn Fn() -> Box<dyn Source>) -> T) -> T {
    let spec = SynthSpec::parse(spec, "spec").unwrap();
    let source = || -> Box<dyn Source> { Box::new(SynthSource::new(&spec, "spec").unwrap()) };
    let trace = || -> Result<Box<dyn Source>, TraceError> { Ok(source()) };
    work(&Workload::measure("even", &trace).unwrap(), &source)
}

fn curve(ask: &Ask, spec: &str) -> SizeCurve {
    with_trace(spec, |workload, _| size(ask, workload, &|_, _, _| {}).unwrap())
}

/// The fear: the figures of a size are not those that `peryton sim` has for it.
#[test]
fn each_size_has_the_figures_of_its_own_simulation() {
    for mode in ["caching", "tiering", "partitioned"] {
        let text = CACHE.replace("caching", mode);
        let text = if mode == "partitioned" {
            text.replace("promotion = { threshold = 0 }\ndemotion = { low = 4, high = 8 }\n", "")
        } else {
            text
        };
        let ask = Ask { sizes: Sizes::Given(vec![Bytes::mib(16), Bytes::mib(12)]), ..ask(&text) };
        with_trace(EVEN, |workload, source| {
            let found = size(&ask, workload, &|_, _, _| {}).unwrap();
            assert_eq!(found.points.iter().map(|point| point.size_bytes >> 20).collect::<Vec<_>>(), [12, 16], "{mode}");
            for point in &found.points {
                // The slow device takes the rest of the volume of tiering.
                let set = [format!("devices.ssd.size={}", point.size_bytes)];
                let design = ask.design.design(&set).unwrap();
                let report: Report = run_one(&design, "even", source(), &ask.options, &|_| {}).unwrap();
                let alone = Metrics::of(&design, &report, &ask.account);
                let warnings = Vec::new();
                assert!(point.metrics == Metrics { warnings, ..alone }, "{mode} at {}", point.size());
                assert_eq!(point.miss_ratio, report.fast_hit_ratio.map(|hits| 1.0 - hits));
            }
        });
    }
}

#[test]
fn the_knee_of_an_even_load_is_where_everything_fits() {
    let found = curve(&ask(CACHE), EVEN);
    let sizes: Vec<u64> = found.points.iter().map(|point| point.size_bytes).collect();
    assert!(sizes.is_sorted() && sizes.contains(&(8 << 20)), "the design's own size: {sizes:?}");
    let holds = found.holds_all_bytes.unwrap();
    assert!((32 << 20..40 << 20).contains(&holds) && sizes.last() == Some(&holds), "{holds} of {sizes:?}");
    assert_eq!(found.touched_bytes, 32 << 20);
    // A uniform load gains from every extent until the last.
    let knee = &found.knees[0];
    assert_eq!((knee.metric, knee.size_bytes, knee.best_bytes), (Metric::Latency, holds, holds));
    assert!(knee.below.unwrap() > knee.value * (1.0 + WITHIN) && knee.worse_above.is_none(), "{knee:?}");
    // Half of the trace has touched everything: what misses then misses for lack of room.
    let [first, .., last] = &found.points[..] else { panic!("{found:?}") };
    // But for the blocks of an extent that came with a write of others: they come with their first read.
    assert!(found.first_touch_ratio.unwrap() < 1e-3 && found.unavoidable_miss_ratio.unwrap() < 1e-2, "{found:?}");
    assert_eq!(last.avoidable_miss_ratio, Some(0.0));
    let share = 1.0 - first.size_bytes as f64 / f64::from(32 << 20);
    let (misses, lru) = (first.miss_ratio.unwrap(), first.lru_miss_ratio);
    assert!((misses - share).abs() < 0.05 && (lru - share).abs() < 0.05, "{misses}, {lru}, expected {share}");
    assert!(found.verdict.iter().any(|text| text.contains("miss at any size")), "{:?}", found.verdict);
    assert!(found.warnings.iter().all(|warning| warning.code != "never_full"), "{:?}", found.warnings);
}

/// The fear: sizes are chosen for the trace, though the design has ten times its load.
#[test]
fn a_trace_that_has_a_share_of_the_load_gives_sizes_of_the_whole_load() {
    let share = "[load]\nshare = 0.0625\nspan = '64MiB'\n";
    let large = CACHE.replace("'256MiB'", "'4GiB'").replace("'8MiB'", "'256MiB'") + share;
    let found = curve(&ask(&large), EVEN);
    assert_eq!((found.simulated_share, found.touched_bytes), (Some(0.0625), 512 << 20));
    let holds = found.holds_all_bytes.unwrap();
    assert!((512 << 20..640 << 20).contains(&holds), "{holds}");
    // A smaller size than what is simulated at least would be simulated as that.
    assert_eq!(found.points[0].size_bytes, 256 << 20);
    for pair in found.points.windows(2) {
        assert!(pair[0].metrics.mean_ms > pair[1].metrics.mean_ms, "{:?}", pair[0].size_bytes);
    }
    let first = &found.points[0];
    let (misses, lru) = (first.miss_ratio.unwrap(), first.lru_miss_ratio);
    assert!((misses - 0.5).abs() < 0.05 && (lru - 0.5).abs() < 0.05, "{misses}, {lru}");
}

#[test]
fn cost_and_life_are_in_proportion_to_what_is_occupied() {
    let capacity = peryton_device::Profile::named("intel-x25-e-32gb").unwrap().capacity.0 as f64;
    let per_gb = format!("{:.2} USD per GB", 320.0 / (capacity / 1e9));
    // Nothing but the fast device wears, or has a power.
    let alone = CACHE.replace("profile = 'seagate-st32000641as'", "profile = 'fixed', price_usd = 100");
    let found = curve(&ask(&alone), EVEN);
    for point in &found.points {
        assert!(point.occupied_bytes > point.size_bytes);
        let share = point.occupied_bytes as f64 / capacity;
        let by = &point.by_size;
        let near = |a: Option<f64>, b: f64| (a.unwrap() / b - 1.0).abs() < 1e-9;
        assert!(near(by.fast_usd_by_size, 320.0 * share), "{by:?}");
        assert!(near(by.devices_usd_by_size, 320.0 * share + 100.0) && point.metrics.dollars == Some(420.0), "{by:?}");
        let whole = point.metrics.lifetime_years.unwrap();
        assert!(near(by.fast_lifetime_years_by_size, whole * share), "{by:?}, {whole}");
        assert_eq!(by.fast_lifetime_years_by_size, by.lifetime_years_by_size);
    }
    let found = curve(&ask(CACHE), EVEN);
    for point in &found.points {
        let (by, whole) = (&point.by_size, &point.metrics);
        // A part is worn out no later than the whole device, and wears it out as often as it takes.
        assert!(by.lifetime_years_by_size.unwrap() <= whole.lifetime_years.unwrap());
        assert!(by.ownership_usd_by_size.unwrap() > by.devices_usd_by_size.unwrap());
    }
    assert!(found.assumptions[0].contains(&per_gb) && found.assumptions[1].contains("endurance"));
    // A millisecond that is worth nothing buys nothing; one that is worth a fortune buys the best.
    let at =
        |usd_per_ms: f64| curve(&Ask { usd_per_ms: Some(usd_per_ms), ..ask(CACHE) }, EVEN).worth.unwrap().size_bytes;
    assert_eq!((at(1e-9), at(1e9)), (found.points[0].size_bytes, found.points.last().unwrap().size_bytes));
    // Without a price there is no cost, and the reason is said.
    let owned = curve(&ask(&CACHE.replace("price_usd = 320", "owned = 1")), EVEN);
    assert!(owned.assumptions[0].contains("is owned"), "{:?}", owned.assumptions);
}

#[test]
fn a_curve_that_cannot_answer_says_so() {
    let told = |ask: &Ask, spec: &str| curve(ask, spec).caveats.join("\n");
    let some = |sizes: &[u64]| Sizes::Given(sizes.iter().map(|size| Bytes::mib(*size)).collect());
    let large = told(&Ask { sizes: some(&[64, 128]), ..ask(CACHE) }, EVEN);
    assert!(large.contains("Nothing had to leave 'ssd' at any size"), "{large}");
    let small = told(&Ask { sizes: some(&[8, 16]), ..ask(CACHE) }, EVEN);
    assert!(small.contains("The curve ends at 16MiB") && small.contains("larger sizes were not asked for"), "{small}");
    assert!(small.contains("--sizes 8MiB..16MiB looks closer"), "{small}");
    let found = curve(&Ask { options: Options::default(), ..ask(CACHE) }, EVEN);
    assert!(found.first_touch_ratio.unwrap() > 0.05, "the cache begins empty");
    let has =
        |code: &str, start: &str| found.warnings.iter().any(|one| one.code == code && one.text.starts_with(start));
    assert!(has("cold_start", "") && has("no_flushes", "all sizes: "), "{:?}", found.warnings);
    // Requests past the end of the volume are as in a simulation.
    let wrap = Ask { options: Options { fit: Fit::Wrap, ..Options::default() }, ..ask(CACHE) };
    let wrapped = curve(&wrap, &EVEN.replace("32MiB", "512MiB"));
    assert!(wrapped.touched_bytes <= 256 << 20 && wrapped.warnings.iter().any(|warning| warning.code == "wrapped"));
}

#[test]
fn of_a_load_that_no_size_carries_no_size_is_enough() {
    let found = curve(&Ask { usd_per_ms: Some(1.0), ..ask(CACHE) }, &EVEN.replace("20ms", "10us"));
    assert!(found.overloaded && found.knees.is_empty() && found.worth.is_none(), "{found:?}");
    let [verdict] = &found.verdict[..] else { panic!("{:?}", found.verdict) };
    assert!(verdict.starts_with("No size of 'ssd' is enough") && verdict.contains("requests a second"), "{verdict}");
    assert!(found.warnings.iter().any(|one| one.code == "overload" && one.text.contains("--speed below 1")));
    assert!(!curve(&ask(CACHE), EVEN).overloaded);
}

/// The fear: a size is called enough that the load wears out before the month is over.
#[test]
fn a_size_that_wears_out_within_a_month_says_so() {
    let sizes = || Sizes::Given(vec![Bytes::mib(64), Bytes::mib(128)]);
    let says = |spec: &str| {
        let found = curve(&Ask { sizes: sizes(), ..ask(CACHE) }, spec);
        let enough = found.points.iter().find(|point| point.size_bytes == found.knees[0].size_bytes).unwrap();
        let days = enough.by_size.lifetime_years_by_size.unwrap() * 365.25;
        let says = found.verdict.iter().any(|text| text.contains("wears out after"));
        assert_eq!(says, days < 30.4, "{days} days: {:?}", found.verdict);
        says
    };
    assert!(says(&EVEN.replace("0.9", "0.1").replace("20ms", "2ms")) && !says(EVEN));
}

/// The fear: the size is said not to matter where the figures of the sizes differ, or where there is one size alone.
#[test]
fn the_size_hardly_matters_only_where_the_figures_say_so() {
    let told = |objective: Metric, sizes: &[u64], spec: &str| {
        let sizes = Sizes::Given(sizes.iter().map(|size| Bytes::mib(*size)).collect());
        let overrides = vec!["devices.hdd.price_usd=0.01".to_owned()];
        curve(&Ask { sizes, objective, overrides, ..ask(CACHE) }, spec).verdict.remove(0)
    };
    let money = told(Metric::Dollars, &[8, 128], EVEN);
    let hardly = "hardly matters";
    assert!(
        !money.contains(hardly) && money.contains("8MiB is enough") && money.contains("128MiB is worse"),
        "{money}"
    );
    let alone = told(Metric::Latency, &[8], EVEN);
    assert!(!alone.contains(hardly) && !alone.contains("enough") && alone.contains("no other size"), "{alone}");
    assert!(told(Metric::Latency, &[64, 128], EVEN).contains(hardly));
    // What is not written has no end, and none is better.
    let mut points = curve(&ask(CACHE), EVEN).points;
    points[1].by_size.lifetime_years_by_size = None;
    let unlimited = &knee::all(&points, Metric::Lifetime, WITHIN)[0];
    assert_eq!((unlimited.size_bytes, unlimited.best), (points[1].size_bytes, f64::INFINITY));
    assert!(!serde_json::to_string(unlimited).unwrap().contains("null"));
}

#[test]
fn what_has_no_curve_is_refused_in_one_line() {
    let refused = |ask: Ask, part: &str| {
        let found = with_trace(EVEN, |workload, _| size(&ask, workload, &|_, _, _| {}).map(drop));
        let error = found.unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
    };
    refused(ask("[devices.ssd]\nprofile = 'fixed'\nsize = '64MiB'\n[placement]\nmode = 'single'\n"), "no fast device");
    refused(Ask { points: 1, ..ask(CACHE) }, "--points 1: use 2 to 64");
    refused(Ask { within: 0.0, ..ask(CACHE) }, "--within");
    refused(Ask { usd_per_ms: Some(-1.0), ..ask(CACHE) }, "--usd-per-ms");
    refused(Ask { overrides: vec!["devices.nvme.size=1GiB".to_owned()], ..ask(CACHE) }, "does not apply");
    refused(Ask { sizes: Sizes::Given(vec![Bytes::gib(64)]), ..ask(CACHE) }, "devices.ssd.size");
    refused(Ask { objective: Metric::Flush, ..ask(CACHE) }, "no flush");
    refused(ask(&CACHE.replace("256MiB", "16MiB")), "past the end of the volume");
}

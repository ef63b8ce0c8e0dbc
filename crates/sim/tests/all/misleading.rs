//! Misleading figures get a warning with a remedy; other figures get none.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::{SINGLE, design, hybrid, listed, random_requests, request, simulate};
use peryton_sim::{Design, Fit, Options, Replay, Report, run, warned};
use peryton_trace::Request;
use peryton_units::Op;

fn codes(report: &Report) -> Vec<&'static str> {
    report.warnings.iter().map(|warning| warning.code).collect()
}

fn has(report: &Report, code: &str, parts: &[&str]) {
    let found = report.warnings.iter().find(|warning| warning.code == code);
    let line = found.unwrap_or_else(|| panic!("{code} is not in {:?}", report.warnings)).to_string();
    assert!(!line.contains('\n'), "{line}");
    parts.iter().for_each(|part| assert!(line.contains(part), "'{part}' is not in: {line}"));
}

fn has_not(report: &Report, code: &str) {
    assert!(!codes(report).contains(&code), "{code} is in {:?}", report.warnings);
}

/// Reads and writes over `span`, one each `gap_us`, and some flushes.
fn steady(count: u64, gap_us: u64, span: u64) -> Vec<Request> {
    let one = |n: u64| {
        let offset = n * 37 % (span / 4096) * 4096;
        let op = [Op::Read, Op::Write, Op::Read, Op::Flush][(n % 4) as usize];
        request(n * gap_us, op, if op == Op::Flush { 0 } else { offset }, if op == Op::Flush { 0 } else { 4096 })
    };
    (0..count).map(one).collect()
}

#[test]
fn a_flush_is_measured_and_so_is_the_way_of_a_write_until_it_is_durable() {
    // Writes take 200 µs here; flushes of a device without a cache take no time.
    let requests = [
        request(0, Op::Write, 0, 4096),
        request(100, Op::Flush, 0, 0),
        request(1_000, Op::Write, 4096, 4096),
        request(2_000, Op::Read, 0, 4096),
        request(5_000, Op::Flush, 0, 0),
        request(6_000, Op::Write, 8192, 4096),
    ];
    let report = simulate(SINGLE, &requests, &Options::default()).unwrap();
    let latency = &report.latency_us;
    let count = |summary: &Option<peryton_sim::LatencySummary>| summary.as_ref().map(|summary| summary.count);
    assert_eq!((count(&latency.all), count(&latency.read), count(&latency.write)), (Some(6), Some(1), Some(3)));
    assert_eq!((count(&latency.flush), count(&latency.write_then_flush)), (Some(2), Some(2)));
    // The first flush came before the first write was answered, so the second is the first that covers it.
    let flush = latency.flush.as_ref().unwrap();
    let covered = latency.write_then_flush.as_ref().unwrap();
    assert!((5_000.0..=5_000.0 + flush.max).contains(&covered.max), "{covered:?}");
    let least = covered.mean * 2.0 - covered.max;
    assert!((4_000.0..=4_000.0 + flush.max + 1e-6).contains(&least), "{covered:?}");
    // A write that was answered during the warm-up does not count, though its flush comes later.
    let options = Options { warm_up_requests: 2, ..Options::default() };
    let behind = simulate(SINGLE, &requests, &options).unwrap().latency_us;
    assert_eq!((count(&behind.flush), count(&behind.write_then_flush)), (Some(1), Some(1)));
    let unflushed = simulate(SINGLE, &requests[..1], &Options::default()).unwrap();
    assert!(unflushed.latency_us.flush.is_none() && unflushed.latency_us.write_then_flush.is_none());
    has(&unflushed, "no_flushes", &["no flushes"]);
    has_not(&report, "no_flushes");
}

#[test]
fn a_sound_run_is_not_warned_of() {
    let report = simulate(SINGLE, &steady(20_000, 1_000, 1 << 26), &Options::default()).unwrap();
    // The only warning is that the trace is shorter than the lifetime, as any trace is.
    assert_eq!(codes(&report), ["short_for_lifetime"]);
}

#[test]
fn overload_is_called_so_where_requests_come_faster_than_they_are_answered() {
    let options = Options::default();
    // 120 µs of work every 10 µs.
    has(
        &simulate(SINGLE, &steady(20_000, 10, 1 << 26), &options).unwrap(),
        "overload",
        &["in flight", "--replay sync"],
    );
    let closed = Options { replay: Replay::Depth(256), ..Options::default() };
    let closed = simulate(SINGLE, &steady(20_000, 10, 1 << 26), &closed).unwrap();
    has_not(&closed, "overload");
    // A short burst is not an overload.
    let mut burst = steady(100, 1, 1 << 26);
    burst.extend(
        steady(10_000, 1_000, 1 << 26)
            .into_iter()
            .map(|r| Request { at: r.at + peryton_units::Nanos::from_ms(1), ..r }),
    );
    has_not(&simulate(SINGLE, &burst, &options).unwrap(), "overload");
}

#[test]
fn a_closed_loop_sets_the_pace_of_wear_and_power() {
    let text = hybrid("caching", "");
    let requests = random_requests(3_000, 60 << 20, 500, 1);
    for (replay, warned) in [(Replay::Sync, true), (Replay::Timed { speed: 1.0 }, false)] {
        let report = simulate(&text, &requests, &Options { replay, ..Options::default() }).unwrap();
        assert_eq!(codes(&report).contains(&"unpaced"), warned, "{replay}");
    }
}

#[test]
fn what_did_not_fit_the_volume_is_counted_with_what_to_do() {
    let requests = [request(0, Op::Read, 1 << 40, 4096), request(1, Op::Read, 0, 4096)];
    let with = |fit| simulate(SINGLE, &requests, &Options { fit, ..Options::default() }).unwrap();
    has(&with(Fit::Wrap), "wrapped", &["1 requests (50 %)", "at least as large as the span of the trace's addresses"]);
    has(&with(Fit::Skip), "skipped", &["1 requests (50 %)"]);
}

#[test]
fn cold_caches_and_those_that_never_fill_are_called_so() {
    let options = Options::default();
    // With 8 MiB in a cache of 16 MiB, no extent is evicted, and the first access to each extent is a miss.
    let small = steady(4_000, 10_000, 8 << 20);
    let report = simulate(&hybrid("caching", ""), &small, &options).unwrap();
    has(&report, "never_full", &["8MiB", "16MiB"]);
    has(&report, "cold_start", &["--warm-up-requests"]);
    assert!(report.first_touch_ratio.unwrap() > 0.0);
    // After a warm-up that touches everything, there are no such warnings.
    let warm = Options { warm_up_requests: 3_000, ..Options::default() };
    let report = simulate(&hybrid("caching", ""), &small, &warm).unwrap();
    has_not(&report, "cold_start");
    has_not(&report, "first_touches");
    assert_eq!(report.first_touch_ratio, Some(0.0));
    // A scan accesses each extent once.
    let scan: Vec<Request> = (0..900).map(|n| request(n * 20_000, Op::Read, n * 65_536, 4096)).collect();
    has(&simulate(&hybrid("caching", ""), &scan, &options).unwrap(), "first_touches", &["100 %"]);
    let full = random_requests(20_000, 60 << 20, 20_000, 3);
    has_not(&simulate(&hybrid("caching", "replacement = 'lru'"), &full, &options).unwrap(), "never_full");
}

#[test]
fn a_limit_that_decides_in_place_of_the_policies_is_named() {
    let requests = random_requests(6_000, 60 << 20, 300, 5);
    let at = |most: &str| {
        let text = hybrid("caching", most).replace("threshold = 1", "threshold = 0");
        simulate(&text, &requests, &Options::default()).unwrap()
    };
    has(&at("max_moves = 1"), "move_limit", &["max_moves (1)", "placement.max_moves"]);
    has_not(&at("max_moves = 4096"), "move_limit");
}

#[test]
fn by_default_moves_in_flight_are_as_many_bytes_whatever_the_extent() {
    let tuning = |extent: &str, more: &str| {
        let text = hybrid("caching", more).replace("demotion = { low = 8, high = 16 }\n", "");
        let text = text.replace("64KiB", extent).replace("size = '64MiB'", "size = '64GiB'").replace("16MiB", "16GiB");
        design(&text).tuning
    };
    for (extent, moves, low, high) in
        [("4KiB", 1024, 1024, 2048), ("64KiB", 64, 64, 128), ("128KiB", 32, 64, 128), ("1MiB", 16, 64, 128)]
    {
        let tuning = tuning(extent, "");
        assert_eq!((tuning.max_moves, tuning.demotion_low, tuning.demotion_high), (moves, low, high), "{extent}");
    }
    // The setting of the design is not changed.
    assert_eq!(tuning("4KiB", "max_moves = 16").max_moves, 16);
}

#[test]
fn a_trace_that_is_short_against_the_design_and_its_lifetime_is_called_so() {
    let text = format!("{}[power.hdd]\nspin_down_after = '30s'\n", hybrid("caching", ""));
    let requests = random_requests(3_000, 60 << 20, 1_000, 1);
    let report = simulate(&text, &requests, &Options::default()).unwrap();
    let times =
        ["placement.promotion.window (1min)", "placement.writeback.delay (30s)", "power.hdd.spin_down_after (30s)"];
    has(&report, "short_trace", &times);
    let wears = "[devices.ssd]\nprofile = 'fixed'\nsize = '64MiB'\n\
                 model = { read = '40us', write = '200us', capacity = '1GiB', cycles = 3000 }\n[placement]\nmode = 'single'\n";
    has(&simulate(wears, &requests, &Options::default()).unwrap(), "short_for_lifetime", &["years", "s of writing"]);
}

#[test]
fn devices_in_a_flattering_state_are_called_so() {
    let text = "[volume]\nsize = '64MiB'\n[devices.ssd]\nprofile = 'intel-320-300gb'\n[placement]\nmode = 'single'\n";
    let requests = steady(4_000, 2_000, 32 << 20);
    let cold = simulate(text, &requests, &Options::default()).unwrap();
    has(&cold, "fresh_flash", &["'ssd' began empty", "devices.ssd.model.precondition"]);
    let used = text.replace("[placement]", "model = { precondition = 'random' }\n[placement]");
    has_not(&simulate(&used, &requests, &Options::default()).unwrap(), "fresh_flash");
    let disk = text.replace("intel-320-300gb", "seagate-st32000641as").replace("ssd", "hdd");
    has(&simulate(&disk, &requests, &Options::default()).unwrap(), "outer_tracks", &["65MiB of the 1.82TiB of 'hdd'"]);
}

#[test]
fn percentiles_of_few_requests_are_called_so() {
    let few = simulate(SINGLE, &steady(400, 1_000, 1 << 26), &Options::default()).unwrap();
    has(&few, "few_requests", &["200 reads and 100 writes and 100 flushes"]);
}

fn compared(designs: &[(&str, String)], requests: &[Request]) -> Vec<Report> {
    let load = |(name, text): &(&str, String)| Design::parse(text, name, &[]).unwrap();
    let designs: Vec<Design> = designs.iter().map(load).collect();
    run(&designs, "trace", &|| Ok(listed(requests)), &Options::default(), &|_| {}).unwrap()
}

#[test]
fn designs_that_agree_in_every_figure_are_called_so_and_each_warning_is_shown_once() {
    let requests = steady(4_000, 10_000, 8 << 20);
    let design = |policy: &str| hybrid("caching", &format!("replacement = '{policy}'"));
    let reports = compared(&[("lru", design("lru")), ("arc", design("arc")), ("single", SINGLE.to_owned())], &requests);
    has(&reports[1], "equal_results", &["'lru'", "make the fast device smaller"]);
    has_not(&reports[0], "equal_results");
    has_not(&reports[2], "equal_results");
    let twice = compared(&[("a", SINGLE.to_owned()), ("b", SINGLE.to_owned())], &requests);
    has(&twice[1], "equal_results", &["the files have the same settings"]);
    let shown = warned(&reports);
    let cold: Vec<_> = shown.iter().filter(|warned| warned.warning.code == "cold_start").collect();
    assert_eq!(cold.len(), 1);
    assert_eq!(cold[0].designs, ["lru", "arc"]);
    assert!(cold[0].to_string().starts_with("lru, arc: ") && cold[0].to_string().contains("Remedy: "));
}

#[test]
fn a_warning_of_many_designs_names_the_first_and_counts_the_others() {
    let requests = steady(400, 1_000, 1 << 26);
    let names: Vec<String> = (0..10).map(|n| format!("d{n}")).collect();
    let designs: Vec<(&str, String)> = names.iter().map(|name| (name.as_str(), SINGLE.to_owned())).collect();
    let reports = compared(&designs, &requests);
    let few = warned(&reports).into_iter().find(|warned| warned.warning.code == "few_requests").unwrap();
    assert_eq!(few.designs.len(), 10);
    assert!(few.to_string().starts_with("d0, d1, d2, d3, d4, d5, d6, d7 and 2 others: "), "{few}");
}

#[test]
fn a_report_says_what_it_is_of_and_its_design_gives_it_again() {
    let requests = random_requests(2_000, 60 << 20, 300, 7);
    let overrides = ["placement.promotion.threshold=0".to_owned(), "placement.write=back".to_owned()];
    let text = hybrid("tiering", "");
    let load = |text: &str, overrides: &[String]| Design::parse(text, "test.toml", overrides).unwrap();
    let once = |design: &Design, requests: &[Request]| {
        peryton_sim::run_one(design, "trace", listed(requests), &Options::default(), &|_| {}).unwrap()
    };
    // Tiering does not have the second override's setting.
    let report = once(&load(&text, &overrides), &requests);
    assert!(
        report.design_toml.contains("threshold = 0") && !report.design_toml.contains("back"),
        "{}",
        report.design_toml
    );
    let again = once(&load(&report.design_toml, &[]), &requests);
    assert_eq!(Report { overrides: report.overrides.clone(), ..again }, report);
    assert_eq!((report.peryton_version.as_str(), report.trace_requests), (env!("CARGO_PKG_VERSION"), 2_000));
    assert_ne!(once(&load(&text, &[]), &requests[1..]).trace_hash, report.trace_hash);
}

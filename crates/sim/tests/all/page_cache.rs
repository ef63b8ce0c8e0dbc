//! The host's page cache before simulated drives: every replay mode, several volumes, warm-up and samples.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::{hybrid, listed, random_requests, request, simulate};
use peryton_sim::{Design, Options, PageCacheReport, Replay, Report, run_one};
use peryton_trace::Request;
use peryton_units::{Bytes, Nanos, Op};

const MIB: u64 = 1 << 20;

fn with_cache(text: &str, size: &str, more: &str) -> String {
    format!("{text}[page_cache]\nsize = '{size}'\n{more}\n")
}

fn cache_of(report: &Report) -> &PageCacheReport {
    report.page_cache.as_ref().expect("the design has a page cache")
}

fn timed(text: &str, requests: &[Request]) -> Report {
    simulate(text, requests, &Options::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn device<'a>(report: &'a Report, name: &str) -> &'a peryton_sim::DeviceReport {
    &report.devices.iter().find(|(of, _)| of == name).expect("it is in the design").1
}

/// The fear: requests that are never answered, or a drive that gets other bytes than the cache says.
#[test]
fn every_placement_and_replay_mode_answers_all_requests_and_the_drive_gets_what_the_report_says() {
    let volume = 60 * MIB;
    let mut requests = random_requests(2_000, volume, 300, 11);
    let last = requests.last().unwrap().at.0 / 1000;
    requests.push(request(last + 1_000_000, Op::Flush, 0, 0));
    let single = "[devices.ssd]\nprofile = 'fixed'\nsize = '1GiB'\nmodel = { read = '40us', write = '200us' }\n[placement]\nmode = 'single'\n";
    let logging = "[volume]\nsize = '64MiB'\n[devices.ssd]\nprofile = 'fixed'\n[devices.log]\nprofile = 'fixed'\nsize = '512MiB'\n\
                   [placement]\nmode = 'logging'\nprimary = 'ssd'\nlog = 'log'\n";
    let partitioned = hybrid("partitioned", "");
    let partitioned: String =
        partitioned.lines().filter(|line| !line.starts_with("promotion")).map(|line| format!("{line}\n")).collect();
    let designs = [single.to_owned(), hybrid("tiering", ""), hybrid("caching", ""), partitioned, logging.to_owned()];
    for text in &designs {
        for replay in [Replay::Timed { speed: 1.0 }, Replay::Timed { speed: 50.0 }, Replay::Sync, Replay::Depth(16)] {
            for size in ["1MiB", "16MiB"] {
                let options = Options { replay, ..Options::default() };
                let text = with_cache(text, size, "");
                let report = simulate(&text, &requests, &options).unwrap_or_else(|error| panic!("{error}\n{text}"));
                assert_eq!(report.requests, requests.len() as u64, "{replay} {size}\n{text}");
                assert_eq!(report.failed_requests, 0);
                let cache = cache_of(&report);
                if replay == Replay::Sync {
                    assert_eq!(cache.left_dirty_bytes, 0, "the last flush covers everything");
                }
                // The requests are whole sectors: what is written is written back, or written again before, or dropped, or still there.
                assert_eq!(
                    cache.write_bytes,
                    cache.written_back_bytes
                        + cache.rewritten_bytes
                        + cache.dropped_dirty_bytes
                        + cache.left_dirty_bytes,
                    "{replay} {size}: {cache:?}\n{text}"
                );
                assert!(cache.drive_read_bytes + cache.read_hit_bytes <= cache.read_bytes);
                if text.contains("'single'") {
                    let ssd = device(&report, "ssd");
                    assert_eq!((ssd.bytes_read, ssd.bytes_written), (cache.drive_read_bytes, cache.written_back_bytes));
                    assert_eq!((ssd.reads, ssd.writes), (cache.drive_reads, cache.drive_writes));
                }
                let again = simulate(&text, &requests, &options).unwrap();
                assert_eq!(report, again, "the same input gives the same report");
            }
        }
    }
}

/// The fear: a cache that makes no difference, or one that never forgets.
#[test]
fn a_larger_cache_answers_more_reads_and_absorbs_more_writes() {
    // A flush writes everything back, however large the cache is.
    let mut requests = random_requests(6_000, 60 * MIB, 3_000, 5);
    requests.retain(|request| request.op != Op::Flush);
    let reports: Vec<Report> = ["2MiB", "8MiB", "32MiB", "128MiB"]
        .iter()
        .map(|size| {
            timed(&with_cache(&hybrid("tiering", ""), size, "dirty_background = 0.8\ndirty_limit = 0.9"), &requests)
        })
        .collect();
    for pair in reports.windows(2) {
        let (small, large) = (cache_of(&pair[0]), cache_of(&pair[1]));
        assert!(large.read_hits > small.read_hits, "{small:?} {large:?}");
        assert!(
            large.written_back_bytes < small.written_back_bytes || small.written_back_bytes == 0,
            "{small:?} {large:?}"
        );
    }
    // All of the data fit into the last one, so nothing is read twice.
    let all = cache_of(&reports[3]);
    assert!(all.drive_read_bytes < 60 * MIB, "{all:?}");
    let without = timed(&hybrid("tiering", ""), &requests);
    assert!(without.page_cache.is_none());
    let mean = |report: &Report| report.latency_us.read.as_ref().unwrap().mean;
    assert!(mean(&reports[3]) < 0.8 * mean(&without), "{} {}", mean(&reports[3]), mean(&without));
}

#[test]
fn a_disk_rests_while_the_host_holds_writes_back() {
    let disk = "[devices.hdd]\nprofile = 'seagate-st32000641as'\nsize = '1GiB'\n[placement]\nmode = 'single'\n[power.hdd]\nspin_down_after = '5s'\n";
    // A page every second, for five minutes.
    let requests: Vec<Request> = (0..300).map(|n| request(n * 1_000_000, Op::Write, n * 4096, 4096)).collect();
    let (with, without) = (
        timed(&with_cache(disk, "64MiB", "dirty_expire = '60s'\nwriteback_interval = '60s'"), &requests),
        timed(disk, &requests),
    );
    let standby = |report: &Report| device(report, "hdd").standby_s.unwrap();
    assert!(standby(&without) < 1.0, "{}", standby(&without));
    assert!(standby(&with) > 0.5 * with.simulated_s, "{} of {} s", standby(&with), with.simulated_s);
    assert!(with.warnings.iter().any(|warning| warning.code == "left_dirty"), "{:?}", cache_of(&with));
}

#[test]
fn several_volumes_share_one_cache_and_each_keeps_its_own_pages() {
    let logging = |log: &str| {
        format!(
            "[volume]\nsize = '64MiB'\ncount = 2\nlog = '{log}'\n[devices.ssd]\nprofile = 'fixed'\n\
             [devices.log]\nprofile = 'fixed'\nsize = '512MiB'\n[placement]\nmode = 'logging'\nprimary = 'ssd'\nlog = 'log'\n"
        )
    };
    // Both volumes are read at the same offsets: the second read of each is a hit, the first is not.
    let requests: Vec<Request> = (0..400)
        .map(|n| Request { volume: (n % 2) as u32, ..request(n * 10_000, Op::Read, n / 4 * 4096, 4096) })
        .collect();
    for log in ["regions", "stream"] {
        let report = timed(&with_cache(&logging(log), "16MiB", ""), &requests);
        let cache = cache_of(&report);
        assert_eq!((report.requests, cache.read_hits, cache.drive_reads), (400, 200, 200), "{log}");
    }
}

#[test]
fn a_warm_up_is_not_counted_and_its_pages_stay() {
    let requests: Vec<Request> = (0..200).map(|n| request(n * 10_000, Op::Read, n % 100 * 4096, 4096)).collect();
    let options = Options { warm_up_requests: 100, ..Options::default() };
    let report = simulate(&with_cache(&hybrid("caching", ""), "8MiB", ""), &requests, &options).unwrap();
    assert_eq!((cache_of(&report).read_requests, cache_of(&report).read_hits), (100, 100));
}

#[test]
fn a_sample_has_as_much_less_memory() {
    // Blocks of 32 KiB, any of 256 MiB as likely as another, so that the sample's regions are like the others.
    let block = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51;
    let requests: Vec<Request> =
        (0..60_000).map(|n| request(n * 20_000, Op::Read, block(n * n + n) * 32_768, 32_768)).collect();
    let text = with_cache(
        "[devices.hdd]\nprofile = 'seagate-st32000641as'\nsize = '1GiB'\n[placement]\nmode = 'single'\n",
        "64MiB",
        "",
    );
    let design = Design::parse(&text, "d", &[]).unwrap();
    let run = |options: &Options| run_one(&design, "trace", listed(&requests), options, &|_| {});
    let ratio = |report: &Report| cache_of(report).read_hit_bytes as f64 / cache_of(report).read_bytes as f64;
    let whole = run(&Options::default()).unwrap();
    let sampled = run(&Options { sample: Some("0.5".parse().unwrap()), ..Options::default() }).unwrap();
    assert_eq!(cache_of(&sampled).size_bytes, 32 * MIB);
    assert!((ratio(&whole) - ratio(&sampled)).abs() < 0.03, "{} {}", ratio(&whole), ratio(&sampled));
    let small = Design::parse(&text, "d", &["page_cache.size=8MiB".to_owned()]).unwrap();
    let half = Options { sample: Some("0.5".parse().unwrap()), ..Options::default() };
    let error = run_one(&small, "trace", listed(&requests), &half, &|_| {}).unwrap_err().to_string();
    assert!(error.contains("page cache") && error.contains("1MiB") && error.lines().count() == 1, "{error}");
}

#[test]
fn bad_settings_get_one_line() {
    let table: &[(&str, &[&str])] = &[
        ("size = '4KiB'", &["page_cache.size", "1MiB to 256GiB"]),
        ("dirty_limit = 0.5", &["page_cache.size", "missing"]),
        ("size = '1GiB'\ndirty_limit = 0.05", &["page_cache.dirty_limit", "dirty_background (0.1)", "raise"]),
        ("size = '1GiB'\ndirty_background = 0.3", &["page_cache.dirty_limit", "0.2"]),
        ("size = '1GiB'\ndirty_background = 30", &["page_cache.dirty_background", "below 1"]),
        ("size = '1GiB'\nwriteback_interval = '0s'", &["page_cache.writeback_interval", "is 0"]),
        ("size = '1GiB'\nmb_per_s = 0", &["page_cache.mb_per_s", "1 to 1000000"]),
        ("size = '1GiB'\n[host]\ncache = '1MiB'", &["page_cache", "host.cache", "remove one"]),
    ];
    let logging = "[devices.ssd]\nprofile = 'fixed'\nsize = '64MiB'\n[devices.log]\nprofile = 'fixed'\n\
                   [placement]\nmode = 'logging'\nprimary = 'ssd'\nlog = 'log'\n";
    for (settings, expected) in table {
        let error =
            Design::parse(&format!("{logging}[page_cache]\n{settings}\n"), "d.toml", &[]).unwrap_err().to_string();
        assert!(error.lines().count() == 1 && expected.iter().all(|part| error.contains(part)), "{settings}: {error}");
    }
    assert_eq!(
        Design::parse(&format!("{logging}[page_cache]\nsize = '1GiB'\n"), "d", &[])
            .unwrap()
            .page_cache
            .map(|cache| { (cache.size, cache.dirty_expire) }),
        Some((Bytes::gib(1), Nanos::from_s(30)))
    );
}

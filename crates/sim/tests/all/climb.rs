//! Hill climbing while the drive runs: it gets away from bad settings, and keeps its caps.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::common;

use common::{request, simulate};
use peryton_sim::{Options, Replay, Report};
use peryton_trace::Request;
use peryton_units::Op;
use rand::{RngExt, SeedableRng, rngs::StdRng};

const PAGES: u64 = 4_000;

/// A few pages get most of the accesses, and are never missed often enough to be promoted by the settings below.
fn skewed(count: u64, read_share: f64) -> Vec<Request> {
    let mut random = StdRng::seed_from_u64(11);
    let each = |n: u64| {
        let drawn: f64 = random.random();
        let page = (drawn.powi(5) * PAGES as f64) as u64 * 7919 % PAGES;
        let op = if random.random_bool(read_share) { Op::Read } else { Op::Write };
        request(n * 3_000, op, page * 4096, 4096)
    };
    (0..count).map(each).collect()
}

fn run(threshold: u32, more: &str, requests: &[Request], warm_up_requests: u64) -> Report {
    let text = format!(
        "[devices.ssd]\nprofile = 'fixed'\nsize = {}\nmodel = {{ read = '50us', write = '200us' }}\n\
         [devices.hdd]\nprofile = 'fixed'\nsize = {}\nmodel = {{ read = '2ms', write = '2ms' }}\n\
         [placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\nextent = '4KiB'\nreplacement = 'lru'\n\
         promotion = {{ threshold = {threshold}, window = '10s' }}\ndemotion = {{ low = 4, high = 8 }}\n\
         max_moves = 8\n{more}\n",
        PAGES / 8 * 4096,
        PAGES * 4096
    );
    simulate(&text, requests, &Options { replay: Replay::Sync, warm_up_requests, ..Options::default() }).unwrap()
}

fn mean_us(report: &Report) -> f64 {
    report.latency_us.all.as_ref().unwrap().mean
}

#[test]
fn it_leaves_bad_settings_and_hardly_harms_good_ones() {
    let requests = skewed(400_000, 0.9);
    // The mean includes the time of the search.
    for (threshold, most) in [(0, 0.88), (16, 1.04)] {
        let fixed = run(threshold, "", &requests, 0);
        let climbing = run(threshold, "[climb]\nevery = '5s'\nrequests = 200\n", &requests, 0);
        let climb = climbing.climb.clone().unwrap();
        let (with, without) = (mean_us(&climbing), mean_us(&fixed));
        assert!(with < most * without, "PT {threshold}: {with} µs, without {without} µs: {climb:?}");
        assert!(climb.tried > climb.kept && (climb.kept > 0 || threshold > 0), "{climb:?}");
        let moves = climb.settings.iter().find(|(key, _)| *key == "placement.max_moves").unwrap().1;
        assert!(moves <= 8, "more moves than the drive has buffers for: {climb:?}");
        assert!(fixed.climb.is_none());
    }
}

#[test]
fn what_breaks_a_cap_is_left_although_it_is_fast() {
    let requests = skewed(400_000, 0.9);
    // Latency has little weight here, so that the cap decides.
    let climb = "[climb]\nevery = '500ms'\nrequests = 50\nlatency = 0.01\ncaps = { fast_writes_per_day = '60GB' }\n";
    let per_day = |report: &Report| {
        let written = report.devices.iter().find(|(name, _)| name == "ssd").unwrap().1.bytes_written;
        written as f64 / report.simulated_s * 86_400.0
    };
    // Measured after the climbing has had time.
    let (fixed, climbing) = (run(0, "", &requests, 200_000), run(0, climb, &requests, 200_000));
    assert!(per_day(&fixed) > 120e9, "there is a cap to break: {:.3e}", per_day(&fixed));
    assert!(per_day(&climbing) < 60e9, "{:.3e} bytes a day: {:?}", per_day(&climbing), climbing.climb);
}

#[test]
fn the_same_requests_make_the_same_climb() {
    let requests = skewed(40_000, 0.7);
    let climb = "[climb]\nevery = '1s'\nrequests = 100\nwear = 0.5\ncaps = { p99 = '10ms' }\n";
    assert_eq!(run(4, climb, &requests, 0), run(4, climb, &requests, 0));
}

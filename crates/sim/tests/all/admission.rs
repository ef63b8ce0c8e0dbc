//! Admission: data that is not admitted does not wear the cache, and the policies named in a design are the ones that
//! run.

use crate::common;

use common::{request, simulate};
use peryton_sim::{Options, Replay, Report};
use peryton_trace::Request;
use peryton_units::{Nanos, Op};
use rand::{RngExt, SeedableRng, rngs::StdRng};

const PAGE: u64 = 4096;
const OBJECTS: u64 = 20_000;

fn design(more: &str, admission: &str) -> String {
    format!(
        "[devices.ssd]\nprofile = 'fixed'\nsize = {}\nmodel = {{ read = '40us', write = '200us' }}\n\
         [devices.hdd]\nprofile = 'fixed'\nsize = {}\nmodel = {{ read = '200us', write = '1ms' }}\n\
         [placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\nextent = '4KiB'\n\
         promotion = {{ threshold = 0, window = '60s' }}\ndemotion = {{ low = 0, high = 0 }}\nmax_moves = 4096\n\
         bypass = {{ sequential = 'never' }}\n{more}\n{admission}\n",
        OBJECTS / 10 * PAGE,
        OBJECTS * PAGE
    )
}

/// Reads of few hot pages among a scan of many cold ones.
fn hot_and_scan() -> Vec<Request> {
    let mut random = StdRng::seed_from_u64(1);
    (0..200_000u64)
        .map(|n| {
            let page = if n % 2 == 0 { random.random_range(0..1_000) } else { 1_000 + n % (OBJECTS - 1_000) };
            request(0, Op::Read, page * PAGE, PAGE)
        })
        .collect()
}

fn run(more: &str, admission: &str) -> Report {
    let options = Options { replay: Replay::Sync, ..Options::default() };
    simulate(&design(more, admission), &hot_and_scan(), &options).expect("the design is a constant")
}

fn written(report: &Report) -> u64 {
    report.devices[0].1.bytes_written
}

#[test]
fn what_is_not_admitted_does_not_wear_the_cache() {
    let all = run("replacement = 'lru'", "");
    assert!(all.admission.is_none(), "a figure that does not apply is absent");
    let half = run("replacement = 'lru'", "[admission]\nby = 'probability'\nthreshold = 0.1");
    assert!(written(&half) * 3 < written(&all), "{} against {}", written(&half), written(&all));
    let bypassed = half.admission.unwrap().bypassed;
    assert!(bypassed > 0);
    let none = run("replacement = 'lru'", "[admission]\nby = 'size'\nthreshold = '2KiB'");
    assert_eq!(none.moves.unwrap().promotions, 0);
    assert_eq!(none.fast_hit_ratio, Some(0.0));
    let hot = run("replacement = 'lru'", "[admission]\nby = 'hotness'\nthreshold = 1");
    assert!(hot.fast_hit_ratio > all.fast_hit_ratio, "{:?} {:?}", hot.fast_hit_ratio, all.fast_hit_ratio);
    assert!(written(&hot) < written(&all));
}

#[test]
fn the_threshold_adapts_to_spare_the_cache() {
    let adaptive = "[admission]\nby = 'probability'\nadaptive = { rate = 0.2, caches = 5, frame = 500 }";
    let report = run("replacement = 'lru'", adaptive);
    let view = report.admission.unwrap().adaptive.unwrap();
    assert!(view.frames > 5 && view.threshold < 0.9, "{view:?}");
}

/// The fear: the threshold moves or the target breaks unseen, because only the state at the end is told.
#[test]
fn intervals_show_the_threshold_its_score_and_whether_the_target_holds() {
    let run = |target: &str| {
        let adaptive = format!("adaptive = {{ rate = 0.2, caches = 5, frame = 500, target_latency = '{target}' }}");
        let design = design("replacement = 'lru'", &format!("[admission]\nby = 'probability'\n{adaptive}"));
        let options = Options { replay: Replay::Sync, interval: Some(Nanos::from_s(2)), ..Options::default() };
        simulate(&design, &hot_and_scan(), &options).expect("the design is a constant")
    };
    let (loose, tight) = (run("1s"), run("1us"));
    for (report, holds, target_us) in [(&loose, true, 1e6), (&tight, false, 1.0)] {
        let rows: Vec<_> = report.intervals.iter().map(|row| row.admission.as_ref().unwrap()).collect();
        assert!(rows.len() > 5);
        let end = report.admission.as_ref().unwrap();
        assert_eq!(rows.iter().map(|row| row.bypassed).sum::<u64>(), end.bypassed);
        assert_eq!(rows[rows.len() - 1].adaptive, end.adaptive);
        let views: Vec<_> = rows.iter().map(|row| row.adaptive.as_ref().unwrap()).collect();
        assert!(views.is_sorted_by_key(|view| view.frames) && views[0].frames < views[views.len() - 1].frames);
        for view in &views[1..] {
            assert_eq!((view.target_holds, view.target_latency_us), (Some(holds), Some(target_us)), "{view:?}");
            let scores: Vec<_> = view.sampled.iter().filter_map(|(_, score)| *score).collect();
            assert!(view.score.is_some_and(|score| scores.contains(&score)), "{view:?}");
        }
        let moves = views.iter().any(|view| view.threshold != views[0].threshold);
        assert_eq!(moves, holds, "without a threshold that meets the target everything is admitted");
    }
}

#[test]
fn every_replacement_runs_and_those_made_against_scans_resist_them() {
    let ratio = |name: &str| run(&format!("replacement = '{name}'"), "").fast_hit_ratio.unwrap();
    let lru = ratio("lru");
    for name in ["two_queue", "s3fifo", "arc"] {
        assert!(ratio(name) > lru, "{name} has {}, LRU {lru}", ratio(name));
    }
    assert!(ratio("wsclock") > lru * 0.8);
}

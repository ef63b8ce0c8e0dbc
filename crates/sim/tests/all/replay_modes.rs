//! Requests arrive as the mode says, and response times equal those computed by hand.

use crate::common;

use common::{SINGLE, listed, request, simulate};
use peryton_sim::{Fit, Options, Replay, SimError, run_one};
use peryton_units::{Bytes, Op};

fn options(replay: Replay) -> Options {
    Options { replay, ..Options::default() }
}

/// A read takes 40 us and a write 200 us, one at a time: no queueing, no rounding.
#[test]
fn sync_is_the_sum_of_its_service_times() {
    let requests: Vec<_> =
        (0..100).map(|n| request(0, if n % 4 == 0 { Op::Write } else { Op::Read }, n * 4096, 4096)).collect();
    let report = simulate(SINGLE, &requests, &options(Replay::Sync)).unwrap();
    assert_eq!(report.requests, 100);
    assert_eq!(report.simulated_s, (25 * 200 + 75 * 40) as f64 / 1e6);
    let (read, write) = (report.latency_us.read.unwrap(), report.latency_us.write.unwrap());
    assert_eq!((read.count, read.mean, read.max), (75, 40.0, 40.0));
    assert_eq!((write.count, write.mean, write.max), (25, 200.0, 200.0));
    assert_eq!(report.latency_us.all.unwrap().mean, 80.0);
    assert_eq!(report.iops.unwrap(), 100.0 / 0.008);
    assert_eq!(report.deepest_queue, 1);
}

/// With N in flight on a device that serves one at a time, a request waits for the N - 1 requests before it.
#[test]
fn a_closed_loop_keeps_its_depth() {
    let requests: Vec<_> = (0..1000).map(|n| request(n * 1_000_000, Op::Read, n * 4096, 4096)).collect();
    for depth in [1, 2, 8, 64] {
        let report = simulate(SINGLE, &requests, &options(Replay::Depth(depth))).unwrap();
        assert_eq!(report.deepest_queue, depth);
        assert_eq!(report.simulated_s, 0.04, "qd={depth}");
        let read = report.latency_us.read.unwrap();
        assert_eq!(read.max, f64::from(depth) * 40.0, "qd={depth}");
        // The first `depth` requests find 0, 1, ... before them.
        let waited: u32 = (0..1000).map(|n| (n + 1).min(depth)).sum();
        assert_eq!(read.mean, f64::from(waited) * 40.0 / 1000.0, "qd={depth}");
    }
}

/// The host thinks after each reply: a fixed time, or as long as the trace has between the two requests.
#[test]
fn a_closed_loop_with_think_time_waits_for_its_replies() {
    let requests: Vec<_> = (0..100).map(|n| request(n * 1_000, Op::Read, n * 4096, 4096)).collect();
    let run = |replay: &str| simulate(SINGLE, &requests, &options(replay.parse().unwrap())).unwrap();
    // A read takes 40 us.
    let fixed = run("qd=1:think=60us");
    assert_eq!((fixed.simulated_s, fixed.deepest_queue), ((100 * 40 + 99 * 60) as f64 / 1e6, 1));
    assert_eq!(fixed.latency_us.read.unwrap().max, 40.0);
    // Each reply delays all that depends on it.
    let recorded = run("qd=1:think=trace");
    assert_eq!(recorded.simulated_s, (99 * 1_000 + 100 * 40) as f64 / 1e6);
    // Two lanes with every second request each.
    let two = run("qd=2:think=trace");
    assert_eq!(two.simulated_s, (99 * 1_000 + 50 * 40) as f64 / 1e6);
    // Two lanes that begin together, on a device that serves one at a time: each waits 40 us once, and they stay apart from there.
    let lanes = run("qd=2:think=60us");
    assert_eq!((lanes.deepest_queue, lanes.latency_us.read.unwrap().max), (2, 80.0));
    assert!(lanes.simulated_s < 0.6 * fixed.simulated_s, "{} s", lanes.simulated_s);
    for wrong in ["qd=0:think=1ms", "qd=1:think=", "sync:think=1ms", "qd=1:think=often"] {
        assert!(wrong.parse::<Replay>().is_err(), "{wrong}");
    }
    let text = "qd=8:think=1ms";
    assert_eq!(text.parse::<Replay>().unwrap().to_string(), text);
}

/// The fear: requests that are no work make the mean look good.
#[test]
fn requests_without_a_length_are_counted_and_not_averaged_in() {
    let whole: Vec<_> = (0..100).map(|n| request(n * 1_000, Op::Read, n * 4096, 4096)).collect();
    let with: Vec<_> =
        whole.iter().flat_map(|one| [*one, peryton_trace::Request { len: Bytes::ZERO, ..*one }]).collect();
    for replay in ["timed", "sync"] {
        let run = |requests: &[_]| simulate(SINGLE, requests, &options(replay.parse().unwrap())).unwrap();
        let (whole, with) = (run(&whole), run(&with));
        assert_eq!(with.latency_us, whole.latency_us, "{replay}");
        assert_eq!((with.requests, with.trace_requests, with.empty_requests), (100, 200, 100), "{replay}");
        assert!(with.warnings.iter().any(|warning| warning.code == "empty"), "{:?}", with.warnings);
    }
}

#[test]
fn timed_waits_for_arrivals_and_queues_bursts() {
    // Ten requests at once, then one when the device is idle.
    let mut requests: Vec<_> = (0..10).map(|n| request(0, Op::Read, n * 4096, 4096)).collect();
    requests.push(request(1_000_000, Op::Read, 0, 4096));
    let report = simulate(SINGLE, &requests, &Options::default()).unwrap();
    assert_eq!(report.simulated_s, 1.00004);
    assert_eq!(report.deepest_queue, 10);
    let read = report.latency_us.read.unwrap();
    assert_eq!(read.mean, (40.0 * 55.0 + 40.0) / 11.0);
    assert_eq!(read.max, 400.0);
    let fast = simulate(SINGLE, &requests, &options(Replay::Timed { speed: 4.0 })).unwrap();
    assert_eq!(fast.simulated_s, 0.25004);
}

/// Arrivals may be faster than the drive throughout the trace; response times still count from the arrival.
#[test]
fn an_overloaded_drive_takes_no_more_memory_than_its_bound() {
    let requests: Vec<_> = (0..200_000).map(|n| request(n, Op::Write, n % 1000 * 4096, 4096)).collect();
    let report = simulate(SINGLE, &requests, &Options::default()).unwrap();
    assert_eq!(report.requests, 200_000);
    assert!(report.deepest_queue <= 65_536);
    // The last arrives after 0.2 s and is served after 200,000 × 200 us = 40 s.
    assert_eq!(report.latency_us.write.unwrap().max, 40e6 - 199_999.0);
}

#[test]
fn requests_past_the_end_are_named_wrapped_or_skipped() {
    let end = 1 << 30;
    let requests = [
        request(0, Op::Read, 0, 4096),
        request(1, Op::Write, end - 4096, 8192),
        request(2, Op::Write, u64::MAX, u64::MAX),
        request(3, Op::Read, end + 8192, 4096),
    ];
    let with = |fit| simulate(SINGLE, &requests, &Options { fit, ..Options::default() });
    let error = with(Fit::Strict).unwrap_err();
    assert!(matches!(error, SimError::PastTheEnd { request: 2, .. }), "{error}");
    assert!(error.to_string().contains("--fit wrap"), "{error}");
    let wrapped = with(Fit::Wrap).unwrap();
    assert_eq!((wrapped.requests, wrapped.wrapped_requests, wrapped.failed_requests), (4, 3, 0));
    let skipped = with(Fit::Skip).unwrap();
    assert_eq!((skipped.requests, skipped.skipped_requests), (1, 3));
}

#[test]
fn a_warm_up_is_left_out_of_every_account() {
    let requests: Vec<_> = (0..1000).map(|n| request(n * 1000, Op::Read, n * 4096, 4096)).collect();
    let warm = Options { warm_up_requests: 400, ..options(Replay::Sync) };
    let report = simulate(SINGLE, &requests, &warm).unwrap();
    assert_eq!(report.requests, 600);
    assert_eq!(report.simulated_s, 600.0 * 40e-6);
    assert_eq!(report.devices[0].1.reads, 600);
    assert_eq!(report.devices[0].1.bytes_read, 600 * 4096);
    assert!((report.devices[0].1.busy_s - 600.0 * 40e-6).abs() < 1e-12);
    let limited = Options { limit: Some(500), ..warm.clone() };
    assert_eq!(simulate(SINGLE, &requests, &limited).unwrap().requests, 100);
    for wanted in [1000, 1001] {
        let all = Options { warm_up_requests: wanted, ..warm.clone() };
        assert!(matches!(simulate(SINGLE, &requests, &all), Err(SimError::WarmUpTooLong { answered: 1000, .. })));
    }
    let slow = Options { warm_up_requests: 0, ..options(Replay::Timed { speed: 1e-16 }) };
    assert!(matches!(simulate(SINGLE, &requests, &slow), Err(SimError::TooSlow { .. })));
}

#[test]
fn several_volumes_do_not_lie_on_top_of_each_other() {
    let mut requests = vec![request(0, Op::Read, 0, 4096); 3];
    requests[2].volume = 7;
    let error = simulate(SINGLE, &requests, &Options::default()).unwrap_err();
    assert!(matches!(error, SimError::SeveralVolumes { request: 3, before: 0, volume: 7, .. }), "{error}");
}

/// A flush and a discard take no service time here; they are answered and counted.
#[test]
fn requests_that_take_no_time_are_answered() {
    let requests = [request(0, Op::Flush, 0, 0), request(0, Op::Discard, 0, 4096)];
    let report = simulate(SINGLE, &requests, &options(Replay::Sync)).unwrap();
    assert_eq!(report.requests, 2);
    assert_eq!(report.simulated_s, 0.0);
    assert_eq!((report.iops, report.mean_power_w), (None, None));
    let nothing = run_one(&common::design(SINGLE), "t", listed(&[]), &Options::default(), &|_| {});
    assert!(matches!(nothing, Err(SimError::NoRequests { .. })));
}

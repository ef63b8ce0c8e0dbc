//! SSD1 of Li and Long, "Which Storage Device is the Greenest?", Tables III to VI: 1 MB requests, one at a time.

use peryton_device::{ClosedLoop, Device, Io, Profile, Tag, Throughput, run};
use peryton_units::{Bytes, Nanos, Op};

const SPAN: Bytes = Bytes::gib(4);

fn measure(read_share: f64, random: bool) -> Throughput {
    let profile = Profile::named("greenest-ssd1").expect("a shipped profile");
    // The capacity is eight times what is addressed: a terabyte drive with little data, as in the paper's half-hour
    // runs.
    let mut device = profile.build(Some(Bytes(SPAN.0 * 8)), 1).expect("a shipped profile");
    let base = ClosedLoop {
        read_share,
        size: Bytes::mib(1),
        random,
        from: Bytes::ZERO,
        span: SPAN,
        queue_depth: 1,
        requests: 3000,
    };
    // Reads are of data that was written earlier.
    let fill = ClosedLoop { read_share: 0.0, random: false, requests: SPAN.0 >> 20, queue_depth: 8, ..base };
    let (_, now) = run(&mut device, &fill, Nanos::ZERO, 1);
    run(&mut device, &base, now + Nanos::from_s(10), 2).0
}

#[test]
fn bandwidth_and_power_of_the_four_workloads_lie_within_a_tenth() {
    for (table, read_share, random, mb_per_s, watts) in [
        ("III, sequential write", 0.0, false, 227.0, 2.80),
        ("IV, sequential read", 1.0, false, 263.0, 1.93),
        ("V, random read", 1.0, true, 268.0, 1.96),
        ("VI, random read/write", 0.5, true, 225.0, 2.33),
    ] {
        let measured = measure(read_share, random);
        let rate = measured.mb_per_s / mb_per_s - 1.0;
        let power = measured.mean_w / watts - 1.0;
        println!(
            "Table {table}: {:.1} MB/s against {mb_per_s} ({:+.1} %), {:.2} W against {watts} ({:+.1} %)",
            measured.mb_per_s,
            rate * 100.0,
            measured.mean_w,
            power * 100.0
        );
        assert!(rate.abs() < 0.10 && power.abs() < 0.10, "Table {table}: {measured:?}");
    }
}

#[test]
fn idle_power_is_the_measured_one() {
    let mut device: Device = Profile::named("greenest-ssd1").unwrap().build(Some(SPAN), 1).unwrap();
    device.submit(Nanos::ZERO, Tag(0), Io { op: Op::Write, at: Bytes(0), len: Bytes::mib(1) });
    device.reset_stats(Nanos::from_s(10));
    let idle = device.stats(Nanos::from_s(110)).energy_j / 100.0;
    assert!((idle / 0.19 - 1.0).abs() < 0.05, "{idle}");
}

//! The model reproduces the figures of disks that were measured or published.

use peryton_device::{ClosedLoop, Device, DiskParameters, Model, PowerState, Profile, Tag, Throughput, run};
use peryton_units::{Bytes, Nanos};

fn disk(name: &str) -> Device {
    Profile::named(name).expect("it ships").build(None, 1).expect("it is sound")
}

/// 1 MiB requests, one in flight, as in the greenest-device paper; at the start, at the end or anywhere on the device.
fn large(device: &mut Device, read_share: f64, place: &str) -> Throughput {
    let capacity = device.capacity().0 >> 20 << 20;
    let gib = 1 << 30;
    let (from, span) = match place {
        "head" => (0, gib),
        "tail" => (capacity - gib, gib),
        _ => (0, capacity),
    };
    let workload = ClosedLoop {
        read_share,
        size: Bytes::mib(1),
        random: place == "random",
        from: Bytes(from),
        span: Bytes(span),
        queue_depth: 1,
        requests: if place == "random" { 4000 } else { 1000 },
    };
    run(device, &workload, Nanos::from_s(1), 11).0
}

#[track_caller]
fn within(what: &str, share: f64, model: f64, published: f64) {
    println!("{what}: {model:.2}, published {published:.2} ({:+.1} %)", (model / published - 1.0) * 100.0);
    assert!((model / published - 1.0).abs() < share, "{what}: {model}, published {published}");
}

#[test]
fn hd1_of_the_greenest_paper_has_its_measured_bandwidths_and_powers() {
    // Tables III to VI, MB/s and W, 1 MB requests.
    for (what, read_share, place, mb_per_s, watts) in [
        ("sequential write, head", 0.0, "head", 155.0, 5.45),
        ("sequential write, tail", 0.0, "tail", 104.0, 5.01),
        ("sequential read, head", 1.0, "head", 152.0, 5.79),
        ("sequential read, tail", 1.0, "tail", 104.0, 5.38),
        ("random read", 1.0, "random", 39.28, 5.26),
        ("random mix", 0.5, "random", 44.28, 5.16),
    ] {
        let result = large(&mut disk("seagate-st4000dm000"), read_share, place);
        within(&format!("{what}, MB/s"), 0.05, result.mb_per_s, mb_per_s);
        within(&format!("{what}, W"), 0.05, result.mean_w, watts);
    }
}

#[test]
fn hd1_draws_what_was_measured_when_idle_asleep_and_cycled() {
    let mut hd1 = disk("seagate-st4000dm000");
    let joules = |device: &mut Device, from, to| {
        device.reset_stats(Nanos::from_s(from));
        device.stats(Nanos::from_s(to)).energy_j
    };
    within("idle, W", 0.05, joules(&mut hd1, 0, 100) / 100.0, 5.16);
    hd1.set_power(Nanos::from_s(100), PowerState::Standby);
    within("standby, W", 0.05, joules(&mut hd1, 110, 210) / 100.0, 0.55);
    hd1.reset_stats(Nanos::from_s(210));
    hd1.set_power(Nanos::from_s(210), PowerState::Active);
    // The drive is ready after 6.01 s and idles for the rest of the ten seconds.
    let cycle = hd1.stats(Nanos::from_s(220)).energy_j - (10.0 - 6.01) * 5.16;
    within("power cycle, J", 0.05, cycle, 68.58);
    assert_eq!(hd1.stats(Nanos::from_s(220)).start_stops, 1);
}

#[test]
fn ibm_36z15_has_its_data_sheet_times_and_rates() {
    let mut ibm = disk("ibm-ultrastar-36z15");
    let whole = ClosedLoop {
        read_share: 1.0,
        size: Bytes::kib(4),
        random: true,
        from: Bytes::ZERO,
        span: Bytes(ibm.capacity().0 >> 20 << 20),
        queue_depth: 1,
        requests: 20_000,
    };
    let small = run(&mut ibm, &whole, Nanos::from_s(1), 3).0;
    // Average seek 3.4 ms and average latency 2 ms.
    within("random read, ms", 0.10, small.mean_ms, 5.4);
    within("outer rate, MB/s", 0.10, large(&mut disk("ibm-ultrastar-36z15"), 1.0, "head").mb_per_s, 52.8);
    within("inner rate, MB/s", 0.10, large(&mut disk("ibm-ultrastar-36z15"), 1.0, "tail").mb_per_s, 36.7);
}

/// For every disk profile, the model's sequential rate and idle power are those of its data sheet.
#[test]
fn each_disk_profile_agrees_with_its_own_data_sheet() {
    let mut disks = 0;
    for name in Profile::shipped() {
        let profile = Profile::named(name).unwrap();
        let Model::Disk(_) = &profile.model else { continue };
        disks += 1;
        // Where a paper measured the disk, the model is fitted to that.
        let measured = profile.measured.idle_w.is_some();
        let sheet = if measured { &profile.measured } else { &profile.data_sheet };
        let mut device = profile.build(None, 1).unwrap();
        assert!(device.capacity().0.abs_diff(profile.capacity.0) < 4096, "{name}: {}", device.capacity());
        for (rate, read_share) in [(sheet.seq_read_mb_per_s, 1.0), (sheet.seq_write_mb_per_s, 0.0)] {
            if let Some(rate) = rate {
                let mut device = profile.build(None, 1).unwrap();
                let capacity = device.capacity();
                let stream = ClosedLoop {
                    read_share,
                    size: Bytes::mib(1),
                    random: false,
                    from: Bytes::ZERO,
                    span: Bytes(capacity.0 >> 20 << 20),
                    queue_depth: 8,
                    requests: 1000,
                };
                let model = run(&mut device, &stream, Nanos::from_s(1), 1).0.mb_per_s;
                within(&format!("{name}, share of reads {read_share}, MB/s"), 0.10, model, rate);
            }
        }
        if let Some(ms) = sheet.rand_read_ms {
            let capacity = device.capacity();
            let whole = ClosedLoop {
                read_share: 1.0,
                size: Bytes::kib(4),
                random: true,
                from: Bytes::ZERO,
                span: Bytes(capacity.0 >> 20 << 20),
                queue_depth: 1,
                requests: 5000,
            };
            within(
                &format!("{name}, random read, ms"),
                0.10,
                run(&mut device, &whole, Nanos::from_s(1), 3).0.mean_ms,
                ms,
            );
        }
        if let Some(watts) = sheet.idle_w {
            let mut device = profile.build(None, 1).unwrap();
            within(&format!("{name}, idle W"), 0.02, device.stats(Nanos::from_s(10)).energy_j / 10.0, watts);
        }
        device.advance(Nanos::from_s(1_000_000), &mut Vec::<(Tag, Nanos)>::new());
    }
    assert!(disks >= 8, "{disks} disk profiles");
}

#[test]
fn parameters_that_make_no_disk_are_refused_with_the_key() {
    let good = r#"
        rpm = 7200
        heads = 4
        tracks = { capacity = "10GB", outer_mb_per_s = 100, inner_mb_per_s = 50 }
        seek = { single = "1ms", average = "8.5ms", full = "18ms" }
    "#;
    for (from, to, message) in [
        ("rpm = 7200", "rpm = 0", "rpm = 0: expected"),
        ("rpm = 7200", "rpm = nan", "rpm = NaN: expected"),
        ("heads = 4", "heads = 0", "heads = 0: expected"),
        ("\"8.5ms\"", "\"0.5ms\"", "seek.average = 500us: expected"),
        ("\"8.5ms\"", "\"17.9ms\"", "seek.average = 17.9ms: expected"),
        ("outer_mb_per_s = 100", "outer_mb_per_s = 1e-9", "tracks.outer_mb_per_s"),
        ("\"10GB\"", "\"1EB\"", ""),
        ("\"10GB\"", "\"1000PB\"", "tracks.capacity"),
        ("heads = 4", "heads = 4\nqueue = { depth = 0 }", "queue.depth = 0: expected"),
        (
            "heads = 4",
            "heads = 4\nzones = [ { first_cylinder = 0, cylinders = 1, sectors_per_track = 1, track_skew = 0, cylinder_skew = 0 } ]",
            "tracks = both",
        ),
        ("heads = 4", "heads = 4\nbuffer = { write_cache = \"1B\" }", "buffer.write_cache"),
        ("heads = 4", "heads = 4\npower = { idle_w = -1 }", "power.idle_w = -1: expected"),
    ] {
        let text = good.replace(from, to);
        assert_ne!(text, good, "{from} is in the sample");
        match toml::from_str::<DiskParameters>(&text) {
            Ok(parameters) => {
                let error = peryton_device::Disk::new(&parameters).expect_err(to).to_string();
                assert!(error.contains(message) && !error.contains('\n'), "{to}: {error}");
            }
            Err(error) => assert!(message.is_empty(), "{to}: {error}"),
        }
    }
}

//! Disks with two actuators, and with shingled tracks.

use peryton_device::{Accepted, ClosedLoop, Device, Io, PowerState, Profile, Tag, Throughput, at_work, run};
use peryton_units::{Bytes, Nanos, Op};
use proptest::prelude::*;

const DISK: &str = r#"
    name = "d"
    description = ""
    class = "hdd"
    capacity = "CAPACITY"
    [disk]
    rpm = 7200
    heads = 4
    EXTRA
    sector = "4KiB"
    head_switch = "0.8ms"
    write_settle = "0.5ms"
    tracks = { capacity = "10GB", outer_mb_per_s = 100, inner_mb_per_s = 100 }
    seek = { single = "1ms", average = "8.5ms", full = "18ms" }
    power = { idle_w = 5, standby_w = 1, seek_w = 8, read_w = 7, write_w = 7, spin_up = "6s", spin_up_j = 60, spin_down = "1s", spin_down_j = 3 }
    queue = { depth = 32, scheduler = "sptf" }
    [disk.controller]
    interface_mb_per_s = 600
    read_miss = { after_read = "0.1ms", after_write = "0.1ms" }
    "#;

fn disk(extra: &str) -> Device {
    let capacity = if extra.contains("shingled") { "9GB" } else { "10GB" };
    let text = DISK.replace("EXTRA", extra).replace("CAPACITY", capacity);
    Profile::parse(&text, "d").expect("a profile").build(None, 1).expect("a disk")
}

fn work(mut device: Device, read_share: f64, random: bool, kib: u64, queue_depth: u32, requests: u64) -> Throughput {
    let size = Bytes::kib(kib);
    let span = Bytes(device.capacity().0 / size.0 * size.0);
    let from = Bytes::ZERO;
    run(&mut device, &ClosedLoop { read_share, size, random, from, span, queue_depth, requests }, Nanos::from_s(1), 3).0
}

#[test]
fn two_actuators_do_twice_the_work_where_both_have_some() {
    let (one, two) = (|| disk(""), || disk("actuators = 2"));
    assert!(one().capacity().0.abs_diff(two().capacity().0) <= 8192);
    let (a, b) = (work(one(), 1.0, false, 1024, 8, 1000), work(two(), 1.0, false, 1024, 8, 1000));
    assert!((1.9..2.05).contains(&(b.mb_per_s / a.mb_per_s)), "{} against {} MB/s", b.mb_per_s, a.mb_per_s);
    // In random order, each arm has half of the queue to choose from, and half the distance to seek.
    let (a, b) = (work(one(), 1.0, true, 4, 16, 4000), work(two(), 1.0, true, 4, 16, 4000));
    assert!((1.5..2.4).contains(&(b.iops / a.iops)), "{} against {} reads a second", b.iops, a.iops);
    // One command at a time cannot use both arms, but each arm's seeks are shorter, because it has half of the
    // addresses.
    let (a, b) = (work(one(), 1.0, true, 4, 1, 2000), work(two(), 1.0, true, 4, 1, 2000));
    assert!((0.95..1.1).contains(&(b.iops / a.iops)), "{} against {} reads a second", b.iops, a.iops);
}

#[test]
fn a_spindle_is_counted_once_and_a_command_across_the_middle_ends_once() {
    let mut two = disk("actuators = 2");
    let middle = two.capacity().0 / 2 / 4096 * 4096;
    let read = Io { op: Op::Read, at: Bytes(middle - 65536), len: Bytes(131_072) };
    assert_eq!(two.submit(Nanos::ZERO, Tag(7), read), Accepted::Queued);
    assert_eq!(
        two.submit(Nanos::ZERO, Tag(8), Io { op: Op::Flush, at: Bytes::ZERO, len: Bytes::ZERO }),
        Accepted::Queued
    );
    let mut ended = Vec::new();
    while let Some(event) = two.next_event() {
        two.advance(event, &mut ended);
    }
    let mut tags: Vec<u32> = ended.iter().map(|(tag, _)| tag.0).collect();
    tags.sort_unstable();
    assert_eq!(tags, [7, 8]);
    let stats = two.stats(Nanos::from_s(10));
    assert_eq!((stats.reads, stats.flushes, stats.bytes_read), (1, 1, Bytes(131_072)));
    assert_eq!(stats.busy + stats.idle + stats.standby, Nanos::from_s(10));
    two.reset_stats(Nanos::from_s(10));
    assert!((two.stats(Nanos::from_s(20)).energy_j - 50.0).abs() < 0.01, "it idles at the watts of the whole");
    two.set_power(Nanos::from_s(20), PowerState::Standby);
    two.reset_stats(Nanos::from_s(30));
    assert!((two.stats(Nanos::from_s(40)).energy_j - 10.0).abs() < 0.01, "and sleeps at them");
    two.submit(Nanos::from_s(40), Tag(1), Io { len: Bytes(4096), ..read });
    while let Some(event) = two.next_event() {
        two.advance(event, &mut ended);
    }
    let stats = two.stats(Nanos::from_s(60));
    assert_eq!(stats.start_stops, 1);
    let text = DISK.replace("EXTRA", "actuators = 3").replace("CAPACITY", "10GB");
    let error = Profile::parse(&text, "d").unwrap().build(None, 1).unwrap_err().to_string();
    assert!(error.contains("actuators = 3"), "{error}");
}

const SHINGLED: &str = "shingled = { zone = '16MiB', cache = '1GiB' }";

fn cache(device: &mut Device, now: Nanos) -> (Bytes, Bytes) {
    let Device::Shingled(disk) = device else { panic!("it is shingled") };
    disk.cache(now)
}

/// Random writes of 4 KiB one after the other, starting at `now`.
fn scatter(device: &mut Device, now: Nanos, writes: u64, span: Bytes, seed: u64) -> (Throughput, Nanos) {
    let workload = ClosedLoop {
        read_share: 0.0,
        size: Bytes::kib(4),
        random: true,
        from: Bytes::ZERO,
        span,
        queue_depth: 1,
        requests: writes,
    };
    run(device, &workload, now, seed)
}

#[test]
fn zones_written_front_to_back_need_no_cache_and_run_at_the_rate_of_the_platter() {
    let stream = work(disk(SHINGLED), 0.0, false, 1024, 8, 500);
    let conventional = work(disk(""), 0.0, false, 1024, 8, 500);
    assert!(
        (stream.mb_per_s / conventional.mb_per_s - 1.0).abs() < 0.03,
        "{} against {}",
        stream.mb_per_s,
        conventional.mb_per_s
    );
    let mut shingled = disk(SHINGLED);
    let write = |at: u64| Io { op: Op::Write, at: Bytes::mib(at), len: Bytes::mib(1) };
    (0..64).for_each(|at| assert_eq!(shingled.submit(Nanos::ZERO, Tag(at), write(u64::from(at))), Accepted::Queued));
    assert_eq!(cache(&mut shingled, Nanos::from_s(60)), (Bytes::ZERO, Bytes::ZERO));
}

#[test]
fn scattered_writes_are_appended_to_the_cache_until_it_is_full_and_then_pay_for_whole_zones() {
    let mut shingled = disk("shingled = { zone = '16MiB', cache = '64MiB', extents = 2000 }");
    let now = Nanos::from_s(1);
    let (fresh, now) = scatter(&mut shingled, now, 1500, Bytes::mib(4096), 5);
    let (conventional, _) = scatter(&mut disk(""), Nanos::from_s(1), 1500, Bytes::mib(4096), 5);
    assert!(fresh.iops > conventional.iops, "{} against {}: it need not seek", fresh.iops, conventional.iops);
    let (used, rewritten) = cache(&mut shingled, now);
    assert!(used > Bytes::kib(4 * 1400) && rewritten == Bytes::ZERO, "{used} {rewritten}");
    // The map is full after 2,000 writes: from then on a zone is rewritten for every few writes.
    let (full, now) = scatter(&mut shingled, now, 1500, Bytes::mib(4096), 6);
    assert!(full.iops < conventional.iops / 3.0, "{} against {}", full.iops, conventional.iops);
    let (_, rewritten) = cache(&mut shingled, now);
    assert!(rewritten >= Bytes::mib(16 * 80), "{rewritten} were rewritten");
}

#[test]
fn an_idle_disk_cleans_its_zones_unless_it_sleeps_and_reads_find_what_was_written() {
    let mut shingled = disk(SHINGLED);
    let (_, now) = scatter(&mut shingled, Nanos::from_s(1), 300, Bytes::mib(64), 5);
    assert!(cache(&mut shingled, now).0 > Bytes::kib(1000));
    let mut asleep = shingled.clone();
    // Sixty-four MiB are four zones, which are read and written in about a second and a half.
    let later = now + Nanos::from_s(20);
    let (left, rewritten) = cache(&mut shingled, later);
    assert_eq!((left, rewritten), (Bytes::ZERO, Bytes::mib(64)));
    assert_eq!(shingled.stats(later).bytes_rewritten, Some(Bytes::mib(64)));
    asleep.set_power(now, PowerState::Standby);
    assert!(cache(&mut asleep, later).0 > Bytes::kib(1000), "what is in the cache is safe there");
    assert!(asleep.stats(later).standby > Nanos::from_s(15));

    // A read of a range with holes in the cache is completed as one command with all its bytes.
    let (_, now) = scatter(&mut shingled, later, 300, Bytes::mib(64), 5);
    let mut ended = Vec::new();
    shingled.submit(now, Tag(9), Io { op: Op::Read, at: Bytes::ZERO, len: Bytes::mib(64) });
    while ended.is_empty() {
        let event = shingled.next_event().expect("the read is under way");
        shingled.advance(event, &mut ended);
    }
    assert_eq!(ended[0].0, Tag(9));
    // Three hundred pieces in the cache take longer than the 0.67 s of the surface alone.
    let took = ended[0].1.saturating_sub(now).as_s_f64();
    assert!((0.75..8.0).contains(&took), "{took} s");
    let stats = shingled.stats(ended[0].1);
    assert_eq!(stats.reads, 1);
}

#[test]
fn shingled_time_adds_up_and_bad_parameters_are_refused() {
    let mut shingled = disk(SHINGLED);
    let (_, now) = scatter(&mut shingled, Nanos::from_s(1), 200, Bytes::mib(2048), 5);
    shingled.reset_stats(now);
    let later = now + Nanos::from_s(100);
    let stats = shingled.stats(later);
    assert_eq!(stats.busy + stats.idle + stats.standby, Nanos::from_s(100));
    assert!(stats.energy_j > 500.0, "cleaning costs more than idling: {} J", stats.energy_j);
    for (extra, key) in [
        ("shingled = { zone = '1KiB', cache = '1GiB' }", "shingled.zone"),
        ("shingled = { zone = '16MiB', cache = '16MiB' }", "shingled.cache"),
        ("shingled = { zone = '16MiB', cache = '20GiB' }", "shingled.cache"),
        ("shingled = { cache = '1GiB', extents = 0 }", "shingled.extents"),
        ("actuators = 2\n    shingled = { cache = '1GiB' }", "actuators"),
    ] {
        let text = DISK.replace("EXTRA", extra).replace("CAPACITY", "9GB");
        let error = Profile::parse(&text, "d").unwrap().build(None, 1).map(drop).expect_err(key).to_string();
        assert!(error.contains(key) && !error.contains('\n'), "{extra}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// The fear: a command that is split, or waits for a cache that is being cleaned, never ends, or ends twice.
    #[test]
    fn every_command_ends_once_whatever_is_done(
        shingled in any::<bool>(),
        commands in prop::collection::vec((0u8..5, 0u64..2_000_000, 1u64..600, 0u64..3_000), 1..120)
    ) {
        let extra = if shingled { "shingled = { zone = '16MiB', cache = '64MiB', extents = 40 }" } else { "actuators = 2" };
        let mut device = disk(extra);
        let (mut now, mut ended) = (Nanos::from_s(1), Vec::new());
        let mut expected = 0;
        for (index, (what, sector, sectors, pause_ms)) in commands.into_iter().enumerate() {
            let op = [Op::Read, Op::Write, Op::Write, Op::Flush, Op::Discard][usize::from(what)];
            let len = if op == Op::Flush { 0 } else { sectors * 4096 };
            device.submit(now, Tag(index as u32), Io { op, at: Bytes(sector * 4096), len: Bytes(len) });
            expected += 1;
            now += Nanos::from_ms(if pause_ms < 2_000 { pause_ms / 100 } else { pause_ms });
            device.advance(now, &mut ended);
            if pause_ms % 17 == 0 {
                device.set_power(now, PowerState::Standby);
            }
        }
        let mut steps = 0;
        while let Some(event) = device.next_event() {
            device.advance(event, &mut ended);
            now = now.max(event);
            steps += 1;
            prop_assert!(steps < 100_000, "it comes to rest");
        }
        let mut tags: Vec<u32> = ended.iter().map(|(tag, _)| tag.0).collect();
        tags.sort_unstable();
        prop_assert_eq!(tags, (0..expected).collect::<Vec<u32>>());
        let later = now + Nanos::from_s(1000);
        let stats = device.stats(later);
        prop_assert_eq!(stats.busy + stats.idle + stats.standby, later);
        if let Device::Shingled(disk) = &mut device {
            disk.set_power(later, PowerState::Active);
            let clean = disk.clean_all(later);
            prop_assert_eq!(disk.cache(clean).0, Bytes::ZERO);
        }
    }
}

/// A figure for a plan must not be that of the minutes in which the cache of a shingled disk fills.
#[test]
fn scattered_writes_to_shingled_tracks_are_as_slow_as_zones_are_rewritten() {
    let profile = Profile::named("wd-ultrastar-dc-hc680-28tb").unwrap();
    let smaller = "shingled = { zone = '256MiB', cache = '2684354560B', extents = 4000, clean_after = '1s' }";
    let profile = profile.with_model(&toml::from_str(smaller).unwrap()).unwrap();
    let (size, requests) = (Bytes::kib(64), 200);
    let writes = |random| ClosedLoop {
        read_share: 0.0,
        size,
        random,
        from: Bytes::ZERO,
        span: Bytes::ZERO,
        queue_depth: 8,
        requests,
    };
    // There are 26 times as many zones as extents in the cache, so a zone is read and written for each request: between 2 s at
    // the outer tracks and 4.5 s at the inner ones.
    let scattered = at_work(&profile, writes(true)).unwrap().busy.iops;
    assert!((1.0 / 4.5..1.0 / 2.0).contains(&scattered), "{scattered}");
    let one_after_the_other = at_work(&profile, writes(false)).unwrap().busy.mb_per_s;
    assert!(one_after_the_other > 200.0, "{one_after_the_other}");
}

//! The statistics of the parts of a run add up to those of the whole, wherever the run is divided.

use peryton_device::{Accepted, Device, DeviceStats, Io, Model, PowerState, Profile, Tag};
use peryton_units::{Bytes, Nanos, Op};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn device(name: &str) -> Device {
    let profile = Profile::named(name).expect("a shipped profile");
    let used = match &profile.model {
        Model::Flash(_) => Some(Bytes::mib(64)),
        _ => None,
    };
    profile.build(used, 1).expect("a device")
}

/// The sum of the parts' statistics; erases are whole blocks, so each part may have rounded one.
fn sum(parts: &[DeviceStats]) -> DeviceStats {
    let mut sum = DeviceStats::default();
    for part in parts {
        sum.reads += part.reads;
        sum.writes += part.writes;
        sum.discards += part.discards;
        sum.flushes += part.flushes;
        sum.bytes_read += part.bytes_read;
        sum.bytes_written += part.bytes_written;
        sum.busy += part.busy;
        sum.idle += part.idle;
        sum.standby += part.standby;
        sum.energy_j += part.energy_j;
        sum.start_stops += part.start_stops;
        let erases = sum.erases.unwrap_or(0) + part.erases.unwrap_or(0);
        sum.erases = part.erases.map(|_| erases);
        let programmed = sum.nand_bytes_written.unwrap_or_default().0 + part.nand_bytes_written.unwrap_or_default().0;
        sum.nand_bytes_written = part.nand_bytes_written.map(|_| Bytes(programmed));
    }
    sum
}

fn step() -> impl Strategy<Value = (u8, u64, u64, u64)> {
    let pause = prop_oneof![
        3 => 0..SECOND / 100,
        2 => 0..3 * SECOND,
        1 => 0..60 * SECOND,
    ];
    (0u8..10, 0u64..15_000, 1u64..64, pause)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn parts_of_a_run_add_up_to_the_whole(
        name in prop::sample::select(vec![
            "seagate-exos-x20-20tb", "seagate-st32000641as", "ibm-ultrastar-36z15", "samsung-m9t-2tb", "fixed",
            "intel-x25-e-32gb", "samsung-870-evo-1tb",
        ]),
        steps in prop::collection::vec(step(), 1..60),
        divided in prop::collection::vec(0.0f64..1.0, 0..40),
    ) {
        let (mut whole, mut parted) = (device(name), device(name));
        let length: u64 = steps.iter().map(|(.., pause)| pause).sum::<u64>() + 90 * SECOND;
        let mut cuts: Vec<u64> = divided.iter().map(|share| (length as f64 * share) as u64).collect();
        cuts.sort_unstable();
        let mut cuts = cuts.into_iter().peekable();
        let mut parts = Vec::new();
        let mut divide = |parted: &mut Device, until: u64| {
            while let Some(cut) = cuts.next_if(|cut| *cut <= until) {
                parts.push(parted.stats(Nanos(cut)));
                parted.reset_stats(Nanos(cut));
            }
            parts.clone()
        };
        let mut now = 0;
        let mut tag = 0;
        let mut reports = [Vec::new(), Vec::new()];
        for (what, at, len, pause) in steps {
            let (at, len) = (Bytes(at * 4096), Bytes(len.min(15_000 - at.min(14_936)) * 4096));
            let io = match what {
                0..=3 => Io { op: Op::Write, at, len },
                4..=6 => Io { op: Op::Read, at, len },
                7 => Io { op: Op::Flush, at: Bytes::ZERO, len: Bytes::ZERO },
                _ => {
                    for device in [&mut whole, &mut parted] {
                        device.set_power(Nanos(now), PowerState::Standby);
                    }
                    now += pause;
                    divide(&mut parted, now);
                    continue;
                }
            };
            tag += 1;
            let answers = [&mut whole, &mut parted].map(|device| device.submit(Nanos(now), Tag(tag), io));
            prop_assert_eq!(answers[0], answers[1]);
            prop_assert!(matches!(answers[0], Accepted::At(_) | Accepted::Queued));
            now += pause;
            divide(&mut parted, now);
            for (device, reports) in [&mut whole, &mut parted].into_iter().zip(&mut reports) {
                device.advance(Nanos(now), reports);
            }
        }
        now = length;
        let mut parts = divide(&mut parted, now);
        parts.push(parted.stats(Nanos(now)));
        let (whole, sum) = (whole.stats(Nanos(now)), sum(&parts));
        let near = |a: f64, b: f64, by: f64| (a - b).abs() <= by;
        prop_assert!(near(whole.energy_j, sum.energy_j, 1e-6 * whole.energy_j.max(1.0)),
            "{} J in all, {} J in parts: {parts:?}", whole.energy_j, sum.energy_j);
        let count = parts.len() as f64;
        prop_assert!(near(whole.erases.unwrap_or(0) as f64, sum.erases.unwrap_or(0) as f64, count));
        prop_assert_eq!(whole.nand_bytes_written, sum.nand_bytes_written);
        let counts = |stats: &DeviceStats| {
            (stats.reads, stats.writes, stats.discards, stats.flushes, stats.bytes_read, stats.bytes_written, stats.start_stops)
        };
        prop_assert_eq!(counts(&whole), counts(&sum));
        prop_assert_eq!((whole.busy, whole.idle, whole.standby), (sum.busy, sum.idle, sum.standby));
    }
}

/// Standby for a minute and a spin-up each cost their own energy, whichever part of the run they are in.
#[test]
fn a_new_account_neither_repeats_nor_forgets_a_spin_down_or_a_spin_up() {
    let name = "seagate-exos-x20-20tb";
    let Model::Disk(disk) = &Profile::named(name).unwrap().model else { panic!("a disk") };
    let power = disk.power.clone();
    let mut disk = device(name);
    let at = |seconds: f64| Nanos::from_s_f64(seconds);
    let watts = |disk: &mut Device, from: f64, to: f64| {
        disk.reset_stats(at(from));
        disk.stats(at(to)).energy_j / (to - from)
    };
    disk.set_power(at(1.0), PowerState::Standby);
    let down = power.spin_down.as_s_f64();
    let first = watts(&mut disk, 1.0, 1.0 + down / 2.0);
    let second = watts(&mut disk, 1.0 + down / 2.0, 1.0 + down);
    assert!(((first + second) * down / 2.0 - power.spin_down_j).abs() < 1e-6, "{first} and {second} W");
    for from in [60.0, 70.0, 80.0] {
        assert!((watts(&mut disk, from, from + 10.0) - power.standby_w).abs() < 1e-9);
    }
    // The last part begins while the disk spins up.
    let read = Io { op: Op::Read, at: Bytes::ZERO, len: Bytes::kib(4) };
    disk.reset_stats(at(100.0));
    disk.submit(at(100.0), Tag(1), read);
    let up = power.spin_up.as_s_f64();
    let before = disk.stats(at(100.0 + up / 4.0)).energy_j;
    let after = watts(&mut disk, 100.0 + up / 4.0, 100.0 + up) * up * 0.75;
    assert!((before - power.spin_up_j / 4.0).abs() < 1e-6 * power.spin_up_j, "{before} J of {}", power.spin_up_j);
    assert!((after - power.spin_up_j * 0.75).abs() < 1e-6 * power.spin_up_j, "{after} J of {}", power.spin_up_j);
}

/// Power and bandwidth in steady state: the platter's, without the first commands, which only fill the cache.
#[test]
fn writes_are_measured_at_the_speed_of_the_surface() {
    use peryton_device::{ClosedLoop, at_work};
    for name in ["seagate-exos-x20-20tb", "seagate-st32000641as", "samsung-m9t-2tb", "ibm-ultrastar-36z15"] {
        let profile = Profile::named(name).unwrap();
        let workload = |kib: u64, requests: u64| ClosedLoop {
            read_share: 0.0,
            size: Bytes::kib(kib),
            random: false,
            from: Bytes::ZERO,
            span: Bytes::ZERO,
            queue_depth: 8,
            requests,
        };
        let small = at_work(&profile, workload(4, 8_000)).unwrap();
        let large = at_work(&profile, workload(1024, 1_000)).unwrap();
        let ratio = small.busy.mb_per_s / large.busy.mb_per_s;
        println!(
            "{name}: {:.1} and {:.1} MB/s, {:.2} W idle, {:.2} W in standby",
            small.busy.mb_per_s, large.busy.mb_per_s, small.idle_w, small.standby_w
        );
        assert!(
            ratio < 1.03,
            "{name}: 4 KiB writes at {:.1} MB/s, of 1 MiB at {:.1}",
            small.busy.mb_per_s,
            large.busy.mb_per_s
        );
        let Model::Disk(disk) = &profile.model else { panic!("a disk") };
        assert!((small.standby_w - disk.power.standby_w).abs() < 1e-6, "{name}: {} W in standby", small.standby_w);
        assert!((small.idle_w - disk.power.idle_w).abs() < 1e-3, "{name}: {} W idle", small.idle_w);
    }
}

//! Fleets of a few volumes on drives of round figures, and everything that can be counted by hand.
#![allow(clippy::unwrap_used)]

use peryton_trace::Request;
use peryton_units::{Bytes, Nanos, Op};

use super::{
    assign::{Assigned, Carries, assign},
    bound::bound,
    carry::{Budgets, Fleet},
    drive::{DriveKind, Flash, Server, Time},
    load::{Meter, VolumeLoad},
};
use crate::{
    capacity::{Candidate, Member, Mode},
    evaluate::Account,
};

/// Devices on which a request takes so many milliseconds.
fn server(ms: f64) -> Server {
    let time = Time::new(ms / 1e3, 0.0);
    Server { read: time, write: time, read_alone: time, write_alone: time, ..Server::default() }
}

fn candidate(kind: usize) -> Candidate {
    Candidate { mode: Mode::Single, fast: Member::plain(kind, 1), slow: None, spin_down: false, fill_per_mille: 1000 }
}

/// A disk for 100 USD with room for so many GiB.
fn disk(room: u64) -> DriveKind {
    DriveKind::of(candidate(0), 100.0, Bytes::gib(room).0 as f64, server(10.0), None)
}

/// The same with so many MiB of flash before it.
fn hybrid(room: u64, flash_mib: u64) -> DriveKind {
    let flash = Flash { room: Bytes::mib(flash_mib).0 as f64, server: server(0.1), writes_back: true };
    DriveKind::of(candidate(1), 150.0, Bytes::gib(room).0 as f64, server(10.0), Some(flash))
}

/// Flash for 400 USD.
fn flash(room: u64) -> DriveKind {
    DriveKind::of(candidate(2), 400.0, Bytes::gib(room).0 as f64, server(0.1), None)
}

/// A volume of so many GiB that reads at random from this many MiB, so many times a second in each of ten parts of 100 s.
fn volume(number: u32, gib: u64, mib: u64, per_s: [u64; 10]) -> VolumeLoad {
    let mut meter = Meter::new();
    let end = Bytes(Bytes::gib(gib).0 - 4096);
    let mut n = u64::from(number) * 7919;
    for (part, rate) in (0u64..).zip(per_s) {
        for index in 0..rate * 10 {
            n += 1;
            let at = Nanos(Nanos::from_s(part * 10).0 + index * 1_000_000_000 / rate);
            // Some places more often than others.
            let drawn = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 24);
            let offset = Bytes((drawn * drawn * (mib * 16) as f64) as u64 * 65_536);
            meter.add(at, &Request { at, offset, len: Bytes::kib(4), volume: number, op: Op::Read });
        }
        // So that the volume is as large, and ends with the others.
        let at = Nanos(Nanos::from_s(part * 10 + 10).0 - 1);
        meter.add(at, &Request { at, offset: end, len: Bytes::kib(4), volume: number, op: Op::Read });
    }
    meter.ended(format!("v{number}"), number).unwrap()
}

fn fleet(loads: &[VolumeLoad], kinds: Vec<DriveKind>, latency_ms: Option<f64>) -> Fleet {
    let budgets = Budgets { latency_s: latency_ms.map(|ms| ms / 1e3), ..Budgets::default() };
    Fleet::new(loads, true, kinds, (Account::default(), 1.0), false, budgets)
}

fn usd(drives: &[Assigned]) -> f64 {
    drives.iter().map(|drive| drive.usd).sum()
}

const EARLY: [u64; 10] = [40, 40, 40, 40, 40, 4, 4, 4, 4, 4];
const LATE: [u64; 10] = [4, 4, 4, 4, 4, 40, 40, 40, 40, 40];

/// The fear: peaks that coincide are averaged over the recording, and drives get what they cannot do.
#[test]
fn volumes_whose_peaks_coincide_share_no_drive_and_those_whose_peaks_do_not_do() {
    let loads = |second: [u64; 10]| {
        [volume(0, 10, 512, EARLY), volume(1, 10, 512, EARLY), volume(2, 10, 512, second), volume(3, 10, 512, second)]
    };
    // Two volumes that are busy at the same time need 80 % of a disk, four need more than all of it; of either two of four 88 %.
    let groups = |second: [u64; 10]| -> Vec<Vec<usize>> {
        let fleet = fleet(&loads(second), vec![disk(100)], Some(150.0));
        assign(&fleet, &|_, _| {}).unwrap().into_iter().map(|drive| drive.group).collect()
    };
    assert_eq!(groups(LATE), [[0, 1, 2, 3]]);
    assert_eq!(groups(EARLY).len(), 2, "{:?}", groups(EARLY));
    // With a tighter budget each drive has one of either: 40 requests a second, and 4.
    let fleet = fleet(&loads(LATE), vec![disk(100)], Some(20.0));
    let drives = assign(&fleet, &|_, _| {}).unwrap();
    assert_eq!(drives.len(), 2);
    for drive in drives {
        assert!(
            drive.group.iter().any(|volume| *volume < 2) && drive.group.iter().any(|volume| *volume > 1),
            "{drive:?}"
        );
    }
}

/// Every partition, by putting one volume after the other into each group that there is or a new one.
fn brute_force(fleet: &Fleet, volume: usize, groups: &mut Vec<Vec<usize>>) -> f64 {
    if volume == fleet.volumes() {
        let usd = |group: &Vec<usize>| {
            let all = (0..fleet.kinds()).filter_map(|kind| fleet.usd(kind, group));
            all.fold(f64::INFINITY, f64::min)
        };
        return groups.iter().map(usd).sum();
    }
    let mut best = f64::INFINITY;
    for index in 0..groups.len() {
        groups[index].push(volume);
        best = best.min(brute_force(fleet, volume + 1, groups));
        groups[index].pop();
    }
    groups.push(vec![volume]);
    best = best.min(brute_force(fleet, volume + 1, groups));
    groups.pop();
    best
}

#[test]
fn a_small_fleet_costs_what_the_best_of_all_partitions_costs_and_no_less_than_the_bound() {
    let rates = [[9; 10], EARLY, LATE, [20; 10], [2; 10], [1, 1, 30, 1, 1, 1, 1, 1, 1, 1]];
    let loads: Vec<VolumeLoad> = (0u32..)
        .zip(rates)
        .map(|(number, rates)| volume(number, 10 + u64::from(number) * 5, 64 << (number % 3), rates))
        .collect();
    let mut costs = Vec::new();
    for latency_ms in [None, Some(60.0), Some(12.0), Some(6.0), Some(2.0), Some(0.5)] {
        let fleet = fleet(&loads, vec![disk(60), hybrid(60, 256), flash(40)], latency_ms);
        let drives = assign(&fleet, &|_, _| {}).unwrap();
        let best = brute_force(&fleet, 0, &mut Vec::new());
        assert!((usd(&drives) - best).abs() < 1e-9, "{latency_ms:?}: {} against {best}", usd(&drives));
        let least = bound(&fleet);
        assert!(least <= best + 1e-9 && least > best * 0.2, "{latency_ms:?}: bound {least} of {best}");
        costs.push(best);
    }
    assert!(costs.is_sorted() && costs.last() > costs.first(), "tighter budgets cost more: {costs:?}");
}

/// The least time of the slow devices for any division of the flash in steps of a MiB.
fn least_missed(fleet: &Fleet, group: &[usize], volume: usize, mib: u64) -> f64 {
    let Some(index) = group.get(volume) else { return 0.0 };
    let of = |part: u64| fleet.missed_with(0, *index, Bytes::mib(part).0 as f64);
    if volume + 1 == group.len() {
        return of(mib);
    }
    let left = (group.len() - volume - 1) as u64 * 16;
    (16..=mib.saturating_sub(left))
        .map(|part| of(part) + least_missed(fleet, group, volume + 1, mib - part))
        .fold(f64::INFINITY, f64::min)
}

#[test]
fn flash_is_divided_as_no_other_division_does_better() {
    let loads = [volume(0, 10, 40, [30; 10]), volume(1, 10, 120, [10; 10]), volume(2, 10, 400, [40; 10])];
    for mib in [48, 60, 100, 180, 300, 700] {
        let fleet = fleet(&loads, vec![hybrid(100, mib)], None);
        let parts = fleet.divided(0, &[0, 1, 2]).unwrap();
        let given: f64 = parts.iter().map(|part| part.flash).sum();
        assert!(given <= Bytes::mib(mib).0 as f64 + 1.0, "{mib}: {parts:?}");
        let missed: f64 = parts.iter().enumerate().map(|(volume, part)| fleet.missed(0, volume, part)).sum();
        let best = least_missed(&fleet, &[0, 1, 2], 0, mib);
        assert!(missed <= best * (1.0 + 1e-9), "{mib} MiB: {missed} against {best}");
    }
    // Too little for the least part of each.
    assert!(fleet(&loads, vec![hybrid(100, 40)], None).divided(0, &[0, 1, 2]).is_none());
}

#[test]
fn room_and_time_are_bounds_and_more_flash_or_less_load_is_never_worse() {
    let loads = [volume(0, 40, 256, [30; 10]), volume(1, 30, 256, [30; 10])];
    assert!(fleet(&loads, vec![disk(69)], None).carried(0, &[0, 1]).is_none(), "they do not fit");
    let both = fleet(&loads, vec![disk(71)], None).carried(0, &[0, 1]).unwrap();
    let one = fleet(&loads, vec![disk(71)], None).carried(0, &[0]).unwrap();
    assert!((both.mean_busy / one.mean_busy - 2.0).abs() < 0.01, "{both:?} {one:?}");
    assert!(both.mean.all_s > one.mean.all_s && one.mean.all_s > 0.01);
    let busy = [volume(0, 40, 256, [95; 10])];
    assert!(fleet(&busy, vec![disk(71)], None).carried(0, &[0]).is_none(), "it has no time");
    assert!(fleet(&busy, vec![disk(71)], None).with_load(0.8).carried(0, &[0]).is_some());
    let means: Vec<f64> = [64, 128, 256, 512]
        .map(|mib| fleet(&loads, vec![hybrid(71, mib)], None).carried(0, &[0, 1]).unwrap().mean.all_s)
        .to_vec();
    assert!(means.is_sorted_by(|a, b| a >= b) && means[3] < means[0] * 0.7, "{means:?}");
}

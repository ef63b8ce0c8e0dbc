//! Time never goes backwards, bandwidth does not exceed the platter's, and standby is counted.

use peryton_device::{
    Accepted, Disk, DiskParameters, Io, PowerState, Tag,
    disk::{BufferParameters, Queue, Scheduler, Seek, Tracks},
};
use peryton_units::{Bytes, Nanos, Op};
use proptest::prelude::*;

fn parameters() -> DiskParameters {
    toml::from_str(
        r#"
        rpm = 7200
        heads = 4
        head_switch = "0.8ms"
        write_settle = "0.5ms"
        tracks = { capacity = "10GB", outer_mb_per_s = 100, inner_mb_per_s = 50 }
        seek = { single = "1ms", average = "8.5ms", full = "18ms" }
        power = { idle_w = 5, standby_w = 1, seek_w = 8, read_w = 7, write_w = 7, spin_up = "6s", spin_up_j = 60, spin_down = "1s", spin_down_j = 3 }
        [controller]
        interface_mb_per_s = 300
        read_miss = { after_read = "0.1ms", after_write = "0.1ms" }
        "#,
    )
    .expect("the sample is sound")
}

fn io(op: Op, at: u64, len: u64) -> Io {
    Io { op, at: Bytes(at), len: Bytes(len) }
}

fn done(disk: &mut Disk, now: u64, io: Io) -> u64 {
    match disk.submit(Nanos(now), Tag(0), io) {
        Accepted::At(end) => end.0,
        Accepted::Queued => panic!("a first-come disk answers at once"),
    }
}

/// A small xorshift generator, so that the tests need no other.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn the_mean_of_random_reads_is_seek_plus_half_a_turn_plus_transfer() {
    let mut disk = Disk::new(&parameters()).unwrap();
    let (mut now, mut seed) = (0, 88_172_645_463_325_252);
    let count = 20_000;
    for _ in 0..count {
        let at = random(&mut seed) % (10_000_000_000 / 4096 - 1) * 4096;
        now = done(&mut disk, now, io(Op::Read, at, 4096));
    }
    let mean_ms = now as f64 / 1e6 / f64::from(count);
    // Addresses are uniform, cylinders not quite, because outer ones have more sectors.
    let expected = 0.1 + 8.5 + 60e3 / 7200.0 / 2.0 + 4096.0 / 75e6 * 1e3;
    assert!((mean_ms - expected).abs() < 0.25, "{mean_ms} ms, expected {expected} ms");
}

#[test]
fn streams_reach_the_sustained_rate_at_both_ends() {
    for op in [Op::Read, Op::Write] {
        for (start, rate) in [(0u64, 100.0), (9_800_000_000, 50.0)] {
            let mut p = parameters();
            p.buffer = BufferParameters {
                segments: 16,
                segment: Bytes::mib(2),
                write_cache: Some(Bytes::mib(8)),
                ..BufferParameters::default()
            };
            let mut disk = Disk::new(&p).unwrap();
            let start = start / 4096 * 4096;
            let mut now = 0;
            for i in 0..180 {
                now = done(&mut disk, now, io(op, start + i * Bytes::mib(1).0, Bytes::mib(1).0));
            }
            if op == Op::Write {
                now = done(&mut disk, now, io(Op::Flush, 0, 0));
            }
            let mb_per_s = 180.0 * 1.048576 / (now as f64 / 1e9);
            assert!((mb_per_s / rate - 1.0).abs() < 0.04, "{op} at {start}: {mb_per_s} MB/s, expected {rate}");
        }
    }
}

#[test]
fn a_long_transfer_costs_the_same_in_one_piece_as_sector_by_sector() {
    let mut whole = Disk::new(&parameters()).unwrap();
    let mut p = parameters();
    p.controller.read_miss = Default::default();
    p.controller.interface_mb_per_s = None;
    let mut pieces = Disk::new(&p).unwrap();
    let mut whole_free = Disk::new(&p).unwrap();
    let end = done(&mut whole_free, 0, io(Op::Read, 0, 8 << 20));
    let mut now = 0;
    for i in 0..(8u64 << 20) / 512 {
        now = done(&mut pieces, now, io(Op::Read, i * 512, 512));
    }
    // Without buffer or overhead, the next sector is under the head exactly when it is requested; a track's skew hides
    // the switch.
    assert!(now.abs_diff(end) < 2_000, "{now} ns in pieces, {end} ns in one");
    assert!(done(&mut whole, 0, io(Op::Read, 0, 8 << 20)) > end);
}

#[test]
fn a_sleeping_disk_pays_for_waking_once() {
    let mut disk = Disk::new(&parameters()).unwrap();
    disk.set_power(Nanos::ZERO, PowerState::Standby);
    let slept = disk.stats(Nanos::from_s(101));
    assert_eq!((slept.standby, slept.start_stops), (Nanos::from_s(101), 0));
    assert!((slept.energy_j - (3.0 + 100.0)).abs() < 1e-6, "{} J", slept.energy_j);
    let end = done(&mut disk, Nanos::from_s(101).0, io(Op::Read, 0, 4096));
    assert!(end >= Nanos::from_s(107).0);
    let again = done(&mut disk, end, io(Op::Read, 1 << 20, 4096));
    assert!(again - end < Nanos::from_ms(40).0);
    let stats = disk.stats(Nanos(again));
    assert_eq!(stats.start_stops, 1);
    assert_eq!(stats.busy + stats.idle + stats.standby, Nanos(again));
    assert!((stats.energy_j - (103.0 + 60.0)).abs() < 1.0, "{} J", stats.energy_j);
}

#[test]
fn a_command_calls_off_a_sleep_that_has_not_begun() {
    let mut disk = Disk::new(&parameters()).unwrap();
    let end = done(&mut disk, 0, io(Op::Read, 5_000_000_000, 1 << 20));
    disk.set_power(Nanos(10), PowerState::Standby);
    done(&mut disk, 20, io(Op::Read, 0, 4096));
    assert_eq!(disk.stats(Nanos(end * 10)).start_stops, 0);
    assert_eq!(disk.stats(Nanos(end * 10)).standby, Nanos::ZERO);
}

#[test]
fn a_command_during_spin_down_waits_for_it() {
    let mut disk = Disk::new(&parameters()).unwrap();
    disk.set_power(Nanos::ZERO, PowerState::Standby);
    let end = done(&mut disk, Nanos::from_ms(100).0, io(Op::Read, 0, 512));
    assert!(end >= Nanos::from_s(7).0, "spun down for 1 s, then up for 6 s, but done at {end} ns");
}

/// Random 4 KiB reads at a fixed number in flight; mean time per command in ms.
fn queued(scheduler: Scheduler, depth: u32, in_flight: u32) -> f64 {
    let mut p = parameters();
    p.queue = Queue { depth, scheduler, ..Queue::default() };
    random_commands(&p, in_flight, 0)
}

/// Random 4 KiB commands at a fixed number in flight, of which this percentage are writes; mean time per command in ms.
fn random_commands(p: &DiskParameters, in_flight: u32, writes: u64) -> f64 {
    let mut disk = Disk::new(p).expect("the sample is sound");
    let mut seed = 42;
    let mut submit = |disk: &mut Disk, now: Nanos, tag| {
        let at = random(&mut seed) % (10_000_000_000 / 4096 - 1) * 4096;
        let op = if writes > 0 && random(&mut seed) % 100 < writes { Op::Write } else { Op::Read };
        disk.submit(now, Tag(tag), io(op, at, 4096))
    };
    let (mut completed, mut total, mut now) = (Vec::new(), 0u32, Nanos::ZERO);
    let mut at_once = std::collections::BinaryHeap::new();
    for tag in 0..in_flight {
        if let Accepted::At(end) = submit(&mut disk, now, tag) {
            at_once.push(std::cmp::Reverse((end, tag)));
        }
    }
    while total < 4000 {
        if let Some(std::cmp::Reverse((end, tag))) = at_once.pop() {
            completed.push((Tag(tag), end));
        } else {
            let next = disk.next_event().expect("commands are in flight");
            disk.advance(next, &mut completed);
        }
        for (Tag(tag), end) in std::mem::take(&mut completed) {
            assert!(end >= now, "completions are reported in order");
            now = end;
            total += 1;
            if let Accepted::At(end) = submit(&mut disk, now, tag) {
                at_once.push(std::cmp::Reverse((end, tag)));
            }
        }
    }
    now.0 as f64 / 1e6 / f64::from(total)
}

#[test]
fn choosing_beats_serving_in_order_of_arrival() {
    let fcfs = queued(Scheduler::Fcfs, 32, 32);
    let elevator = queued(Scheduler::Elevator, 32, 32);
    let sptf = queued(Scheduler::Sptf, 32, 32);
    let shallow = queued(Scheduler::Sptf, 4, 32);
    assert!(elevator < fcfs * 0.65, "elevator {elevator} ms, first come {fcfs} ms");
    assert!(sptf < elevator * 0.9, "shortest positioning {sptf} ms, elevator {elevator} ms");
    assert!(sptf < shallow && shallow < fcfs, "{sptf} < {shallow} < {fcfs} ms");
}

#[test]
fn a_mix_of_reads_and_writes_is_no_slower_than_the_slower_of_them() {
    let mut p = parameters();
    p.queue = Queue { depth: 32, scheduler: Scheduler::Sptf, ..Queue::default() };
    p.buffer.write_cache = Some(Bytes::mib(1));
    p.buffer.destage = Scheduler::Sptf;
    let [reads, mixed, writes] = [0, 50, 100].map(|share| random_commands(&p, 32, share));
    assert!(mixed < reads.max(writes), "{reads} ms, half of each {mixed}, {writes} ms");
}

#[test]
fn a_write_cache_answers_early_pushes_back_when_full_and_drains_on_flush() {
    let mut p = parameters();
    p.buffer.write_cache = Some(Bytes::kib(64));
    let mut disk = Disk::new(&p).unwrap();
    let mut seed = 7;
    let (mut now, mut quick, mut slow) = (0, 0, 0);
    for _ in 0..200 {
        let at = random(&mut seed) % 2_000_000 * 4096;
        let end = done(&mut disk, now, io(Op::Write, at, 4096));
        if end - now < 1_000_000 {
            quick += 1;
        } else {
            slow += 1;
        }
        now = end;
    }
    assert!(quick >= 16 && slow > 100, "{quick} quick, {slow} slow");
    let flushed = done(&mut disk, now, io(Op::Flush, 0, 0));
    assert!(flushed - now > 30_000_000, "16 random writes were waiting, but a flush took {} ns", flushed - now);
    assert_eq!(done(&mut disk, flushed, io(Op::Flush, 0, 0)), flushed);
}

#[test]
fn reading_ahead_makes_the_next_read_a_hit() {
    let mut p = parameters();
    p.buffer = BufferParameters { segments: 4, segment: Bytes::kib(512), ..BufferParameters::default() };
    let mut disk = Disk::new(&p).unwrap();
    let first = done(&mut disk, 0, io(Op::Read, 1 << 30, 65536));
    let later = first + 20_000_000;
    let hit = done(&mut disk, later, io(Op::Read, (1 << 30) + 65536, 65536));
    assert!(hit - later < 400_000, "{} ns for data that was read ahead", hit - later);
    let miss = done(&mut disk, hit, io(Op::Read, 1 << 20, 65536));
    assert!(miss - hit > 1_000_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn no_sequence_of_commands_breaks_the_clock_or_loses_one(
        seed in 1u64..u64::MAX,
        scheduler in 0..3usize,
        depth in 1u32..9,
        cache in proptest::option::of(1u64..64),
        segments in 0u32..4,
        flags in 0u32..128,
    ) {
        let mut p = parameters();
        p.queue = Queue { depth, scheduler: [Scheduler::Fcfs, Scheduler::Elevator, Scheduler::Sptf][scheduler], patience: Nanos::from_ms(100) };
        p.buffer = BufferParameters {
            segments,
            segment: Bytes::kib(64),
            write_cache: cache.map(Bytes::kib),
            zero_latency: flags & 1 > 0,
            read_any_free: flags & 2 > 0,
            almost_hits: flags & 4 > 0,
            hits_while_busy: flags & 8 > 0,
            separate_write: flags & 16 > 0,
            write_while_busy: flags & 32 > 0,
            read_ahead_over_requested: flags & 64 > 0,
            destage: [Scheduler::Fcfs, Scheduler::Elevator, Scheduler::Sptf][(scheduler + 1) % 3],
            ..BufferParameters::default()
        };
        p.tracks = Some(Tracks { capacity: Bytes(100_000_000), outer_mb_per_s: 10.0, inner_mb_per_s: 5.0, zones: 3 });
        p.seek = Seek { curve: vec![(1, 1.0), (10, 2.0), (500, 6.0)], ..Seek::default() };
        let mut disk = Disk::new(&p).unwrap();
        // Frequent reports, at any time, do not change the result.
        let mut watched = disk.clone();
        let mut watched_completed = Vec::new();
        let capacity = disk.capacity().0;
        let (mut seed, mut now) = (seed, Nanos::ZERO);
        let (mut submitted, mut answered, mut completed) = (0u32, 0u32, Vec::new());
        let mut last = Nanos::ZERO;
        for _ in 0..300 {
            let draw = random(&mut seed);
            let pause = if draw & 3 == 0 { draw >> 36 } else { 0 };
            watched.stats(now + Nanos(pause / 3));
            now += Nanos(pause);
            disk.advance(now, &mut completed);
            watched.advance(now, &mut watched_completed);
            prop_assert_eq!(completed.last(), watched_completed.last());
            let at = match draw >> 8 & 3 { 0 => 0, 1 => capacity - 200_000, _ => random(&mut seed) % (capacity - 200_000) };
            let len = random(&mut seed) % 200_000;
            let op = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::Read, Op::Write][(draw >> 16) as usize % 6];
            match draw >> 24 & 31 {
                state @ (0 | 1) => {
                    let state = if state == 0 { PowerState::Standby } else { PowerState::Active };
                    disk.set_power(now, state);
                    watched.set_power(now, state);
                }
                _ => {
                    submitted += 1;
                    let accepted = disk.submit(now, Tag(submitted), io(op, at, len));
                    prop_assert_eq!(accepted, watched.submit(now, Tag(submitted), io(op, at, len)));
                    watched.stats(now);
                    match accepted {
                        Accepted::At(end) => { prop_assert!(end >= now); answered += 1; last = last.max(end) }
                        Accepted::Queued => {}
                    }
                }
            }
        }
        let mut previous = Nanos::ZERO;
        while let Some(next) = disk.next_event() {
            prop_assert!(next >= now || completed.is_empty());
            now = now.max(next);
            disk.advance(now, &mut completed);
        }
        for (_, end) in &completed {
            prop_assert!(*end >= previous || *end <= now);
            previous = *end;
        }
        let mut tags: Vec<u32> = completed.iter().map(|(tag, _)| tag.0).collect();
        tags.sort_unstable();
        tags.dedup();
        prop_assert_eq!(tags.len(), completed.len(), "no command is answered twice");
        prop_assert_eq!(answered + completed.len() as u32, submitted);
        let end = now.max(last) + Nanos::from_s(20);
        let stats = disk.stats(end);
        prop_assert_eq!(stats.busy + stats.idle + stats.standby, end);
        prop_assert!(stats.energy_j > 0.0 && stats.energy_j < end.as_s_f64() * 10.0 + 60.0 * f64::from(submitted));
    }
}

#[test]
fn a_part_that_begins_in_the_middle_is_what_the_whole_disk_has_there() {
    let begin = Bytes(4_999_999_488);
    let mut whole = Disk::new(&parameters()).unwrap();
    let mut part = Disk::new(&DiskParameters { begin, ..parameters() }).unwrap();
    assert_eq!(part.capacity() + begin, whole.capacity());
    let (mut now, mut seed) = (0, 88_172_645_463_325_252);
    // The arm comes from the outermost track once; afterwards both are at the same place.
    let mut first = true;
    for _ in 0..2_000 {
        let (op, at) = (
            if random(&mut seed).is_multiple_of(3) { Op::Write } else { Op::Read },
            random(&mut seed) % 4_000_000 * 512,
        );
        let ends = (done(&mut whole, now, io(op, begin.0 + at, 8192)), done(&mut part, now, io(op, at, 8192)));
        assert!(first || ends.0 == ends.1, "{ends:?}");
        (first, now) = (false, ends.0.max(ends.1) + 20_000_000);
    }
    // 100 MB/s at the outer edge and 50 at the inner: 75 in the middle.
    let mut rate = |disk: &mut Disk| {
        let start = now;
        now = done(disk, now, io(Op::Read, 0, 1 << 28));
        f64::from(1 << 28) / (now - start) as f64 * 1e3
    };
    let mut outer = Disk::new(&parameters()).unwrap();
    let (outer, middle) = (rate(&mut outer), rate(&mut part));
    assert!((0.72..0.80).contains(&(middle / outer)), "{outer} and {middle} MB/s");
}

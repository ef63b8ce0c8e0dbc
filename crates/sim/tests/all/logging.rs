//! Designs with a log before a primary: the erases that the log saves, several volumes with one disk, and the hints of
//! a host's cache.

#![allow(clippy::unwrap_used)]

use crate::common;

use std::sync::{Arc, Mutex};

use common::{design, listed, request, simulate};
use peryton_sim::{Design, Moment, Options, Report, SimError, run_observed, run_one};
use peryton_trace::Request;
use peryton_units::Op;
use rand::{RngExt, SeedableRng, rngs::StdRng};

const PAGE: u64 = 4096;

fn logging(volume: &str, more: &str) -> String {
    format!(
        "[volume]\nsize = '64MiB'\n{volume}\n\
         [devices.ssd]\nprofile = 'fixed'\nmodel = {{ read = '100us', write = '300us' }}\n\
         [devices.log]\nprofile = 'griffin-barracuda-7200'\nsize = '512MiB'\n\
         [placement]\nmode = 'logging'\nprimary = 'ssd'\nlog = 'log'\n{more}\n"
    )
}

/// Writes that repeatedly overwrite a few hundred pages, and some reads of others.
fn overwrites(count: u64, gap_us: u64) -> Vec<Request> {
    let mut random = StdRng::seed_from_u64(7);
    (0..count)
        .map(|n| match random.random_range(0..10) {
            0 => request(n * gap_us, Op::Read, random.random_range(8000..16000) * PAGE, PAGE),
            _ => request(n * gap_us, Op::Write, random.random_range(0..500) * 8 * PAGE, PAGE),
        })
        .collect()
}

fn timed(text: &str, requests: &[Request]) -> Report {
    simulate(text, requests, &Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_log_spares_erases_and_makes_writes_sequential_under_either_layer() {
    let report = timed(&logging("", "[triggers]\ntimeout = '5s'"), &overwrites(20_000, 1_000));
    let bounds = report.ftl_bounds.expect("a log has bounds");
    let (with, without) = (&bounds.with_log, &bounds.without_log);
    assert_eq!((bounds.page_bytes, bounds.block_bytes), (4096, 512 << 10));
    assert!(without.pages > 17_000 && with.pages > 0 && with.pages * 4 < without.pages, "{bounds:?}");
    assert!(report.write_savings_emptied.unwrap() <= report.write_savings.unwrap());
    // With whole pages, write savings equal the ideal layer's erase savings.
    let ideal = bounds.erase_savings.ideal.unwrap();
    let superblock = 2.0 / without.pages as f64;
    let savings = report.write_savings_emptied.unwrap();
    assert!((ideal - savings).abs() <= superblock, "{ideal} {savings}");
    assert!(bounds.erase_savings.block_mapped.unwrap() >= ideal, "{bounds:?}");
    assert!(with.block_mapped_erases >= with.ideal_erases && without.block_mapped_erases >= without.ideal_erases);
}

/// The fear: a large volume, whose log takes thousands of steps to look for its data at the end, counts as one that stalls.
#[test]
fn the_log_of_a_large_volume_is_emptied() {
    let text =
        logging("", "").replace("64MiB", "2TiB").replace("write = '300us'", "write = '300us', capacity = '3TiB'");
    let end = (2 << 40) - PAGE;
    let report = timed(&text, &[request(0, Op::Write, 0, PAGE), request(1_000, Op::Write, end, PAGE)]);
    assert_eq!((report.requests, report.write_savings_emptied), (2, Some(0.0)));
}

#[test]
fn random_writes_reach_the_primary_in_order() {
    let mut random = StdRng::seed_from_u64(3);
    let writes: Vec<Request> =
        (0..20_000).map(|n| request(n * 500, Op::Write, random.random_range(0..2_000) * PAGE, PAGE)).collect();
    let bounds = timed(&logging("", "[triggers]\ntimeout = '4s'"), &writes).ftl_bounds.unwrap();
    let share = |stream: &peryton_sim::WriteStream| stream.sequential_page_share.unwrap();
    assert!(share(&bounds.without_log) < 0.01 && share(&bounds.with_log) > 0.6, "{bounds:?}");
    assert!(bounds.erase_savings.block_mapped.unwrap() > 0.95);
}

/// In a trace that ends before a migration, only overwrites have been saved.
#[test]
fn what_is_still_in_the_log_is_not_spared() {
    let writes: Vec<Request> = (0..400).map(|n| request(n * 1_000, Op::Write, n % 100 * PAGE, PAGE)).collect();
    let report = timed(&logging("", "[triggers]\ntimeout = '1h'"), &writes);
    assert_eq!((report.write_savings, report.write_savings_emptied), (Some(1.0), Some(0.75)));
    let bounds = report.ftl_bounds.unwrap();
    assert_eq!((bounds.with_log.pages, bounds.erase_savings.ideal), (100, Some(0.75)));
    let several = timed(&logging("count = 2\nrequests = 'same'", "[triggers]\ntimeout = '1h'"), &writes);
    assert_eq!((several.write_savings_emptied, several.volumes[1].write_savings_emptied), (Some(0.75), Some(0.75)));
}

#[test]
fn without_a_log_there_are_no_bounds_to_report() {
    let report = timed(common::SINGLE, &overwrites(100, 1_000));
    assert!(report.ftl_bounds.is_none() && report.volumes.is_empty());
}

/// The appends of several volumes interleave on one disk, which seeks between the regions and takes longer than
/// separate disks would.
#[test]
fn volumes_that_share_a_disk_pay_for_its_seeks() {
    // Faster than the drive's write cache can hide.
    let requests = overwrites(20_000, 300);
    let alone = timed(&logging("", ""), &requests);
    let shared = timed(&logging("count = 3\nrequests = 'same'", ""), &requests);
    assert_eq!(shared.volumes.len(), 3);
    assert_eq!(shared.requests, 3 * alone.requests);
    for volume in &shared.volumes {
        assert_eq!(volume.requests, alone.requests);
        assert!(volume.write_savings.unwrap() > 0.5);
    }
    let names: Vec<&str> = shared.devices.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["ssd.0", "ssd.1", "ssd.2", "log"]);
    let (log, own) = (&shared.devices[3].1, &alone.devices[1].1);
    assert!(log.sequential_write_share < own.sequential_write_share, "{log:?}");
    let mean = |report: &Report| report.latency_us.write.as_ref().map(|summary| summary.mean).unwrap();
    assert!(mean(&shared) > 2.0 * mean(&alone), "{} against {}", mean(&shared), mean(&alone));
    let whole: u64 = shared.volumes.iter().map(|volume| volume.ftl_bounds.without_log.pages).sum();
    assert_eq!(shared.ftl_bounds.unwrap().without_log.pages, whole);
    assert_eq!(shared.volume_bytes, 3 * alone.volume_bytes);
}

/// The same volumes with one log: their appends follow one another on the disk, which does not seek between them.
#[test]
fn volumes_that_append_in_one_stream_keep_the_log_sequential() {
    let requests = overwrites(20_000, 300);
    let quiet = "[triggers]\ntimeout = '1h'";
    let alone = timed(&logging("", quiet), &requests);
    let regions = timed(&logging("count = 3\nrequests = 'same'", quiet), &requests);
    let stream = timed(&logging("count = 3\nrequests = 'same'\nlog = 'stream'", quiet), &requests);
    let names: Vec<&str> = stream.devices.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["ssd.0", "ssd.1", "ssd.2", "log"]);
    assert_eq!((stream.requests, stream.volume_bytes), (3 * alone.requests, 3 * alone.volume_bytes));
    // What is a log's own affair is the same as of three logs: what is written, and what reaches the primaries and where.
    assert_eq!(stream.write_savings_emptied, alone.write_savings_emptied);
    let (one, three) = (alone.ftl_bounds.as_ref().unwrap(), stream.ftl_bounds.as_ref().unwrap());
    assert_eq!(three.without_log.pages, 3 * one.without_log.pages);
    assert_eq!(three.without_log.sequential_page_share, one.without_log.sequential_page_share);
    assert_eq!(three.with_log.pages, 3 * one.with_log.pages);
    let log = |report: &Report| report.devices.last().unwrap().1.sequential_write_share.unwrap();
    assert!(log(&stream) > 0.95 && log(&regions) < 0.1, "{} {}", log(&stream), log(&regions));
    let mean = |report: &Report| report.latency_us.write.as_ref().map(|summary| summary.mean).unwrap();
    assert!(mean(&stream) * 2.0 < mean(&regions), "{} against {}", mean(&stream), mean(&regions));
}

#[test]
fn each_volume_of_one_stream_has_its_own_primary_and_its_own_requests() {
    let mut requests: Vec<Request> = (0..300).map(|n| request(n * 50_000, Op::Write, n % 100 * PAGE, PAGE)).collect();
    requests.iter_mut().enumerate().for_each(|(n, request)| request.volume = [7, 3][usize::from(n % 3 == 0)]);
    let text = logging("count = 2\nlog = 'stream'", "[triggers]\ntimeout = '5s'");
    let run = |text: &str| run_one(&design(text), "trace", listed(&requests), &Options::default(), &|_| {});
    let report = run(&text).unwrap();
    // Volume 3 was first, and has a third of the requests.
    let written: Vec<u64> = report.devices[..2].iter().map(|(_, device)| device.bytes_written).collect();
    assert!(written[0] > 0 && written[1] > written[0], "{written:?}");
    assert!(matches!(
        run(&text.replace("count = 2", "count = 3")),
        Err(SimError::TooFewVolumes { found: 2, wanted: 3 })
    ));
    let wrong = |volume: &str| Design::parse(&logging(volume, ""), "test", &[]).unwrap_err().to_string();
    assert!(wrong("log = 'stream'").contains("belongs to volume.count"), "{}", wrong("log = 'stream'"));
    let striped = logging("count = 2\nlog = 'stream'", "").replace("profile = 'fixed'", "profile = 'fixed'\ncount = 2");
    let error = Design::parse(&striped, "test", &[]).unwrap_err().to_string();
    assert!(error.contains("each primary is one device"), "{error}");
}

/// Writes of 200 KiB come at twice the rate of the disk, and the primary would take them all.
#[test]
fn what_a_slow_log_cannot_take_goes_to_the_primary() {
    let requests: Vec<Request> =
        (0..5_000).map(|n| request(n * 1_000, Op::Write, n % 250 * (256 << 10), 200 << 10)).collect();
    let mean = |report: &Report| report.latency_us.write.as_ref().map(|summary| summary.mean).unwrap();
    let waits = timed(&logging("", "bypass_behind = 'never'"), &requests);
    let past = timed(&logging("", ""), &requests);
    let (before, log) = (waits.logging.as_ref().unwrap(), past.logging.as_ref().unwrap());
    assert_eq!(before.direct_by.outrun, 0);
    assert_eq!(log.direct_by.outrun, log.direct_writes);
    // Both devices work: the log at its rate, and the primary on the rest.
    assert!(log.direct_by.outrun > 1_000 && log.records > 1_000, "{log:?}");
    assert!(mean(&past) * 5.0 < mean(&waits), "{} against {}", mean(&past), mean(&waits));
    // A log that keeps up gets everything.
    let easy = timed(&logging("", ""), &overwrites(5_000, 1_000));
    assert_eq!(easy.logging.as_ref().unwrap().direct_writes, 0);
}

#[test]
fn each_volume_of_a_trace_has_a_drive_of_its_own() {
    let mut requests = overwrites(4_000, 1_000);
    requests.iter_mut().enumerate().for_each(|(n, request)| request.volume = [7, 3][usize::from(n % 4 == 0)]);
    let run = |text: &str| run_one(&design(text), "trace", listed(&requests), &Options::default(), &|_| {});
    let report = run(&logging("count = 2", "")).unwrap();
    // The volumes are in the order of their first requests: 3 was first.
    let counts: Vec<u64> = report.volumes.iter().map(|volume| volume.requests).collect();
    assert_eq!(counts, [1_000, 3_000]);
    assert!(matches!(run(&logging("count = 3", "")), Err(SimError::TooFewVolumes { found: 2, wanted: 3 })));
    assert!(matches!(run(&logging("", "")), Err(SimError::SeveralVolumes { .. })));
    requests[100].volume = 9;
    let run = |text: &str| run_one(&design(text), "trace", listed(&requests), &Options::default(), &|_| {});
    assert!(matches!(run(&logging("count = 2", "")), Err(SimError::TooManyVolumes { volume: 9, most: 2, .. })));
}

#[test]
fn a_shared_run_is_the_same_each_time_in_every_replay() {
    let requests = overwrites(3_000, 500);
    for replay in ["timed", "sync", "qd=4"] {
        let options = Options { replay: replay.parse().unwrap(), ..Options::default() };
        let text = logging("count = 2\nrequests = 'same'", "[power.log]\nspin_down_after = '1s'");
        let run = || serde_json::to_string(&simulate(&text, &requests, &options).unwrap()).unwrap();
        assert_eq!(run(), run(), "{replay}");
    }
}

/// One of several volumes that is idle must not put the disk to standby under the others.
#[test]
fn the_shared_disk_rests_when_all_let_it() {
    let mut requests = vec![request(0, Op::Write, 0, PAGE)];
    requests.extend((0..200).map(|n| Request { volume: 1, ..request(n * 200_000, Op::Write, n * PAGE, PAGE) }));
    requests.push(request(100_000_000, Op::Read, 60 << 20, PAGE));
    let text = logging("count = 2", "checkpoint_interval = '1h'\n[power.log]\nspin_down_after = '5s'");
    let report = timed(&text, &requests);
    let log = &report.devices[2].1;
    // 40 s of writes every 200 ms, then nothing.
    assert!((50.0..60.0).contains(&log.standby_s.unwrap()), "{log:?}");
}

/// The figures of the volumes add up to the whole, and a shared device counts once.
#[test]
fn each_volume_answers_for_its_devices_and_its_part_of_the_shared_one() {
    let text = logging("count = 3\nrequests = 'same'", "").replace("profile = 'fixed'", "profile = 'intel-320-300gb'");
    let text = text.replace("model = { read = '100us', write = '300us' }\n", "count = 2\n");
    let report = timed(&text, &overwrites(2_000, 1_000));
    let of_volume = |number: usize| {
        let own: f64 = report.devices[2 * number..2 * number + 2].iter().map(|(_, ssd)| ssd.energy_j.unwrap()).sum();
        own + report.devices[6].1.energy_j.unwrap() / 3.0
    };
    let mut sum = 0.0;
    for (number, volume) in report.volumes.iter().enumerate() {
        let energy = volume.energy_j.unwrap();
        assert!((energy / of_volume(number) - 1.0).abs() < 1e-9, "volume {number}: {energy}");
        assert_eq!(volume.mean_power_w, Some(energy / report.simulated_s));
        sum += energy;
    }
    assert!((sum / report.energy_j.unwrap() - 1.0).abs() < 1e-9, "{sum} in parts, {:?} in all", report.energy_j);
    let shortest = report.volumes.iter().filter_map(|volume| volume.lifetime_years).min_by(f64::total_cmp);
    assert_eq!(shortest, report.lifetime_years);
}

#[test]
fn every_volume_can_be_watched_and_gets_what_it_would_alone() {
    let requests = overwrites(500, 1_000);
    let watch = |volume: &str| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        let observer = Box::new(move |now, volume, moment| sink.lock().unwrap().push((now, volume, moment)));
        let design = design(&logging(volume, ""));
        run_observed(&design, listed(&requests), &Options::default(), observer).unwrap();
        let seen = seen.lock().unwrap();
        let submitted = |number: usize| -> Vec<_> {
            let of_volume = seen.iter().filter(|(_, volume, _)| *volume == number);
            of_volume.filter(|(.., moment)| matches!(moment, Moment::Submitted(..))).map(|(now, ..)| *now).collect()
        };
        let completed = |number: usize| {
            let done = |moment: &Moment| matches!(moment, Moment::Completed(_));
            seen.iter().filter(|(_, volume, moment)| *volume == number && done(moment)).count()
        };
        (submitted(0), submitted(1), completed(0), completed(1))
    };
    let (alone, none, some, no) = watch("");
    assert!(alone.len() == 500 && none.is_empty() && some >= 500 && no == 0);
    let (first, second, some, more) = watch("count = 2\nrequests = 'same'");
    assert_eq!((&first, &second), (&alone, &alone));
    assert!(some >= 500 && more >= 500, "{some} and {more}");
}

/// Griffin, section 7: data that leaves the host's cache migrates immediately, so that the next read finds it on the
/// primary.
#[test]
fn hints_of_the_hosts_cache_save_reads_of_the_log() {
    // Data that is written once and read much later, after a small host cache has dropped it.
    let mut requests = Vec::new();
    for n in 0..4_000u64 {
        requests.push(request(n * 20_000, Op::Write, n * PAGE, PAGE));
        if n >= 2_000 {
            requests.push(request(n * 20_000 + 10_000, Op::Read, (n - 2_000) * PAGE, PAGE));
        }
    }
    let triggers = "[triggers]\ntimeout = '1h'";
    let without = timed(&logging("", triggers), &requests);
    let with = timed(&logging("", &format!("{triggers}\n[host]\ncache = '4MiB'")), &requests);
    assert_eq!(without.read_penalty, Some(1.0));
    assert!(with.read_penalty.unwrap() < 0.1, "{:?}", with.read_penalty);
    assert!(with.logging.unwrap().migrations.hint > 10);
    let several =
        timed(&logging("count = 2\nrequests = 'same'", &format!("{triggers}\n[host]\ncache = '4MiB'")), &requests);
    assert!(several.read_penalty.unwrap() < 0.1);
}

/// The fear: a design with several primaries is simulated as if it had one.
#[test]
fn a_log_has_the_primaries_that_a_design_names() {
    let text = |primary: &str| {
        logging("", "[triggers]\ntimeout = '5s'")
            .replace("[volume]\nsize = '64MiB'\n", "")
            .replace(
                "[devices.ssd]",
                "[devices.other]\nprofile = 'fixed'\nsize = '32MiB'\n[devices.ssd]\nsize = '32MiB'",
            )
            .replace("primary = 'ssd'", primary)
    };
    let requests: Vec<Request> =
        (0..200).map(|n| request(n * 50_000, Op::Write, n % 2 * (32 << 20) + n * PAGE, PAGE)).collect();
    let report = timed(&text("primary = ['ssd', 'other']"), &requests);
    assert_eq!(report.volume_bytes, 64 << 20);
    let written = |name: &str| {
        let device = report.devices.iter().find(|(device, _)| device == name).map(|(_, device)| device);
        device.unwrap().bytes_written
    };
    assert!(written("ssd") >= 50 * PAGE && written("other") >= 50 * PAGE, "both were migrated to");
    for (primary, says) in [
        ("primary = ['ssd', 'ssd']", "'ssd' is named twice"),
        ("primary = ['ssd', 'log']", "'log' is the primary already"),
        ("primary = []", "names 0 devices"),
        ("primary = 7", "a name such as"),
    ] {
        let error = Design::parse(&text(primary), "several", &[]).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let count = text("primary = ['ssd', 'other']") + "[volume]\ncount = 2\n";
    assert!(Design::parse(&count, "several", &[]).unwrap_err().to_string().contains("volume.count"));
}

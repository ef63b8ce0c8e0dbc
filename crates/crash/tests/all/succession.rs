//! The fear: a device is replaced while the volume is served, and a power loss or the death of the process leaves two devices that
//! both count, or none, or one that lacks something.

#![allow(clippy::unwrap_used)]

use peryton_crash::{Ends, Kind, Options, run, torture};
use peryton_engine::AdmitBy;

fn must_pass(seeds: std::ops::Range<u64>, options: &Options, least: u64) {
    let options = Options { replaces: Some(true), ..*options };
    let result = torture(seeds, &options, None, 1, |_| {});
    if let Some((seed, error)) = result.failures.first() {
        panic!("seed {seed} of {options:?} fails: {error}");
    }
    let (points, successions) = (result.outcome.crash_points, result.outcome.successions);
    assert!(successions >= least, "{successions} devices replaced, {points} crash points: the test tests nothing");
}

#[test]
fn one_of_the_two_devices_is_in_charge_whenever_the_power_goes() {
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Single) {
        let options = Options { kind: Some(kind), faults: Some(false), ends: Some(Ends::Power), ..Options::default() };
        must_pass(0..60, &options, 10);
    }
}

#[test]
fn what_was_answered_survives_the_process_meanwhile() {
    let options = Options { faults: Some(false), ends: Some(Ends::Process), ..Options::default() };
    must_pass(100..200, &options, 20);
}

#[test]
fn devices_may_fail_and_die_meanwhile() {
    must_pass(0..250, &Options { faults: Some(true), ends: Some(Ends::Both), ..Options::default() }, 20);
}

/// Found by torture: without the fast device a tiering volume was opened with places that commits had gone past; without it, extents
/// of which blocks are lost counted as at home; and a read that began before a replacement was answered by the old device after it.
#[test]
fn seeds_that_failed_once_pass() {
    let in_part = Options { kind: Some(Kind::Caching), faults: Some(true), resizes: Some(false), ..Options::default() };
    let grouped = Options { admission: Some(AdmitBy::Probability), grouped: true, ..in_part };
    let drawn = Options { resizes: Some(false), ..Options::default() };
    let failing = Options { faults: Some(true), ..Options::default() };
    let seeds = [
        // The last other device died while it recorded who is in charge. A write of which a part was in flight already went to one of two
        // devices, and either could be found in charge.
        (6_009_705, failing),
        (6_009_783, failing),
        // A journal block that was damaged twice no longer showed that it was one, so that the device counted as a copy from earlier.
        (7_002_230, failing),
        // A write that the fast device had failed was at home, and its home was gone before the copy, which lacks it, could be dropped; it
        // was answered as done, and reads found the old data of the copy.
        (21_006_057, failing),
        (7_000_001_371, drawn),
        (7_000_001_549, drawn),
        (7_000_009_489, drawn),
        (8_100_040_476, grouped),
        (8_100_000_644, grouped),
        (13_458, in_part),
    ];
    for (seed, options) in seeds {
        run(seed, &options).unwrap();
    }
}

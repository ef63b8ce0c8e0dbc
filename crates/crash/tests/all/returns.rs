//! The fear: a device that comes back while the volume is served brings old data with it, or one that was evacuated is needed or
//! believed afterwards, whenever the power goes or the process dies.

#![allow(clippy::unwrap_used)]

use peryton_crash::{Ends, Kind, Options, torture};

/// Returns how many devices came back, and how many were evacuated.
fn must_pass(seeds: std::ops::Range<u64>, options: &Options) -> (u64, u64) {
    let options = Options { returns: Some(true), ..*options };
    let result = torture(seeds, &options, None, 1, |_| {});
    if let Some((seed, error)) = result.failures.first() {
        panic!("seed {seed} of {options:?} fails: {error}");
    }
    (result.outcome.returns, result.outcome.evacuations)
}

#[test]
fn a_device_that_died_comes_back_with_nothing_old() {
    for kind in [Kind::Tiering, Kind::Caching, Kind::Partitioned, Kind::Linear] {
        let options = Options { kind: Some(kind), faults: Some(true), ..Options::default() };
        let (returns, _) = must_pass(0..90, &options);
        assert!(returns > 3, "{kind:?}: {returns} devices came back: the test tests nothing");
    }
}

#[test]
fn a_device_that_was_evacuated_is_not_needed_and_not_believed() {
    for kind in [Kind::Caching, Kind::Partitioned] {
        for ends in Ends::ALL {
            let options = Options { kind: Some(kind), faults: Some(false), ends: Some(ends), ..Options::default() };
            let (returns, evacuations) = must_pass(0..35, &options);
            assert!(evacuations > 5 && returns > 3, "{kind:?}: {evacuations} evacuated, {returns} back");
        }
    }
}

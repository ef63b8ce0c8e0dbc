//! MixedStore's write regulation by lifetime (section 5.4): the flash lasts as long as it shall, and no longer than it must.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{request, simulate};
use peryton_sim::{Options, Report};
use peryton_trace::Request;
use peryton_units::{Op, SECONDS_PER_YEAR};
use rand::{RngExt, SeedableRng, rngs::StdRng};

const MIB: u64 = 1 << 20;

fn writes(seconds: u64, per_second: u64) -> Vec<Request> {
    let mut random = StdRng::seed_from_u64(7);
    let each =
        |n: u64| request(n * 1_000_000 / per_second, Op::Write, random.random_range(0..96 * MIB / 4096) * 4096, 4096);
    (0..seconds * per_second).map(each).collect()
}

fn run(partition: &str, requests: &[Request]) -> Report {
    // Its whole life is a few hundred GB, which is what the budget below is of.
    let text = format!(
        "[devices.ssd]\nprofile = 'intel-320-300gb'\nsize = '128MiB'\nmodel = {{ precondition = 'random' }}\n\
         [devices.hdd]\nprofile = 'fixed'\nsize = '256MiB'\nmodel = {{ read = '2ms', write = '2ms' }}\n\
         [endurance.ssd]\nwritten = '1TB'\n[placement]\nmode = 'partitioned'\nfast = 'ssd'\nslow = 'hdd'\nextent = '4KiB'\n\
         [partition]\npredict = 'off'\nbust_after = 'never'\n{partition}\n"
    );
    simulate(&text, requests, &Options::default()).unwrap()
}

fn programmed_per_s(report: &Report) -> f64 {
    report.devices[0].1.nand_bytes_written.unwrap() as f64 / report.simulated_s
}

#[test]
fn the_flash_is_worn_at_the_rate_that_was_asked_for_whatever_its_amplification() {
    let requests = writes(900, 200);
    let free = programmed_per_s(&run("", &requests));
    for (part, assumed) in [(0.5, 1.0), (0.5, 20.0), (0.2, 3.0)] {
        let years = 1e12 / (part * free) / SECONDS_PER_YEAR;
        let regulated = run(&format!("lifetime_years = {years}\nwrite_amplification = {assumed}"), &requests);
        let ratio = programmed_per_s(&regulated) / (part * free);
        assert!(
            (0.85..1.12).contains(&ratio),
            "{ratio:.3} of the wear asked for: {part} of the free one, {assumed} assumed"
        );
        let partition = regulated.partition.unwrap();
        assert!(partition.regulated > 0 && partition.fast_write_share.unwrap() > 0.05, "{partition:?}");
    }
    // More than enough: nothing is held back.
    let loose = run(&format!("lifetime_years = {}", 1e12 / (3.0 * free) / SECONDS_PER_YEAR), &requests);
    assert_eq!(loose.partition.unwrap().regulated, 0);
}

//! MixedStore's write regulation by lifetime (section 5.4): the flash reaches the wanted lifetime, and is not spared
//! more than necessary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::common;

use common::{request, simulate};
use peryton_sim::{DeviceReport, Options, Report};
use peryton_trace::Request;
use peryton_units::Op;
use rand::{RngExt, SeedableRng, rngs::StdRng};

const MIB: u64 = 1 << 20;

fn writes(seconds: u64, per_second: u64) -> Vec<Request> {
    let mut random = StdRng::seed_from_u64(7);
    let each =
        |n: u64| request(n * 1_000_000 / per_second, Op::Write, random.random_range(0..96 * MIB / 4096) * 4096, 4096);
    (0..seconds * per_second).map(each).collect()
}

fn run(flash: &str, partition: &str, requests: &[Request]) -> Report {
    let text = format!(
        "[devices.ssd]\nprofile = 'intel-320-300gb'\nsize = '128MiB'\n{flash}\n\
         [devices.hdd]\nprofile = 'fixed'\nsize = '256MiB'\nmodel = {{ read = '2ms', write = '2ms' }}\n\
         [placement]\nmode = 'partitioned'\nfast = 'ssd'\nslow = 'hdd'\nextent = '4KiB'\n\
         [partition]\npredict = 'off'\nbust_after = 'never'\n{partition}\n"
    );
    simulate(&text, requests, &Options::default()).unwrap()
}

/// The two limits: a rating so high that the cells wear out first, and cells that last longer than the rating.
const CELLS: &str = "model = { precondition = 'random', cycles = 3 }\n[endurance.ssd]\nwritten = '100PB'";
const RATING: &str = "model = { precondition = 'random' }\n[endurance.ssd]\nwritten = '1TB'";

fn flash(report: &Report) -> &DeviceReport {
    &report.devices[0].1
}

#[test]
fn the_flash_lasts_as_long_as_it_shall_by_cells_or_by_rating_whatever_its_amplification() {
    // Long enough that what the idle work owes at the end is little.
    let requests = writes(1800, 200);
    let life: [fn(&DeviceReport) -> Option<f64>; 2] =
        [|device| device.lifetime_physical_years, |device| device.lifetime_rated_years];
    for (kind, life) in [CELLS, RATING].into_iter().zip(life) {
        let free = run(kind, "", &requests);
        let years = life(flash(&free)).unwrap();
        assert_eq!(flash(&free).lifetime_years, Some(years), "{kind}: the other life is longer");
        for (part, assumed) in [(0.5, 1.0), (0.5, 20.0), (0.2, 3.0)] {
            let wanted = years / part;
            let regulated =
                run(kind, &format!("lifetime_years = {wanted}\nwrite_amplification = {assumed}"), &requests);
            let ratio = wanted / flash(&regulated).lifetime_years.unwrap();
            assert!(
                (0.85..1.12).contains(&ratio),
                "{kind}: {ratio:.3} of the wear asked for: {part} of the free one, {assumed} assumed"
            );
            let partition = regulated.partition.unwrap();
            assert!(partition.regulated > 0 && partition.fast_write_share.unwrap() > 0.05, "{partition:?}");
        }
        // The budget is more than enough, so nothing is redirected.
        let loose = run(kind, &format!("lifetime_years = {}", years / 3.0), &requests);
        assert_eq!(loose.partition.unwrap().regulated, 0, "{kind}");
    }
}

/// MixedStore's own drive has no rating, but 10,000 cycles: a few writes a second do not wear it out in five years.
#[test]
fn a_drive_without_a_rating_is_worth_its_cycles() {
    let text = "[devices.ssd]\nprofile = 'super-talent-32gb'\nsize = '128MiB'\n\
         [devices.hdd]\nprofile = 'fixed'\nsize = '256MiB'\nmodel = { read = '2ms', write = '2ms' }\n\
         [placement]\nmode = 'partitioned'\nfast = 'ssd'\nslow = 'hdd'\nextent = '4KiB'\n\
         [partition]\npredict = 'off'\nlifetime_years = 5\nwrite_amplification = 1\n";
    // 0.4 MB/s: 64 TB in five years, beyond GreenDM's 36.5 TB and far below 10,000 times 32 GB.
    let report = simulate(text, &writes(300, 100), &Options::default()).unwrap();
    assert_eq!(report.partition.as_ref().unwrap().regulated, 0);
    assert!(report.lifetime_years.unwrap() > 5.0, "{:?}", report.lifetime_years);
}

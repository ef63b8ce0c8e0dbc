//! A lifetime does not depend on the state of the flash, and is the smaller of two limits.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::common;

use common::{request, simulate};
use peryton_device::Profile;
use peryton_sim::{DeviceReport, Options, Report};
use peryton_trace::Request;
use peryton_units::{Bytes, Op, SECONDS_PER_YEAR};
use rand::{RngExt, SeedableRng, rngs::StdRng};

const MIB: u64 = 1 << 20;

fn writes(count: u64, span: u64, gap_us: u64) -> Vec<Request> {
    let mut random = StdRng::seed_from_u64(11);
    (0..count).map(|n| request(n * gap_us, Op::Write, random.random_range(0..span / 4096) * 4096, 4096)).collect()
}

fn single(profile: &str, device: &str, rest: &str) -> String {
    format!(
        "[volume]\nsize = '512MiB'\n[devices.ssd]\nprofile = '{profile}'\n{device}\n[placement]\nmode = 'single'\n{rest}\n"
    )
}

fn ssd(report: &Report) -> &DeviceReport {
    &report.devices[0].1
}

#[test]
fn the_rated_life_does_not_depend_on_whether_anything_was_erased() {
    let requests = writes(20_000, 256 * MIB, 1000);
    let run = |state: &str| {
        let text = single("intel-320-300gb", &format!("model = {{ precondition = '{state}' }}"), "");
        simulate(&text, &requests, &Options::default()).unwrap()
    };
    let (fresh, used) = (run("fresh"), run("random"));
    let (fresh, used) = (ssd(&fresh), ssd(&used));
    assert_eq!(fresh.erases, Some(0));
    assert!(used.erases.unwrap() > 100 && used.write_amplification.unwrap() > 3.0);
    let (rated, physical) =
        (|of: &DeviceReport| of.lifetime_rated_years.unwrap(), |of: &DeviceReport| of.lifetime_physical_years.unwrap());
    assert!((rated(fresh) / rated(used) - 1.0).abs() < 0.02, "{} and {}", rated(fresh), rated(used));
    // The bytes that the flash programs, now or later, determine the physical life.
    let amplified = used.write_amplification.unwrap() / fresh.write_amplification.unwrap();
    let ratio = physical(fresh) / physical(used) / amplified;
    assert!((0.85..1.2).contains(&ratio), "{ratio}: {} and {} years", physical(fresh), physical(used));
    for one in [fresh, used] {
        assert_eq!(one.lifetime_years, Some(rated(one).min(physical(one))));
    }
}

/// The figure is continuous at the first erase.
#[test]
fn the_physical_life_is_continuous_in_the_first_erase() {
    let requests = writes(300_000, 448 * MIB, 100);
    let text = single("intel-320-300gb", "", "");
    let run = |count: usize| simulate(&text, &requests[..count], &Options::default()).unwrap();
    let erases = |report: &Report| ssd(report).erases.unwrap();
    // The first erase, by bisection.
    let (mut without, mut with) = (1_000, requests.len());
    assert!(erases(&run(without)) == 0 && erases(&run(with)) > 0);
    while with - without > 1 {
        let middle = (with + without) / 2;
        if erases(&run(middle)) == 0 { without = middle } else { with = middle }
    }
    let (before, after) = (run(without), run(with));
    let years = |report: &Report| [report.lifetime_years, report.lifetime_rated_years, report.lifetime_physical_years];
    for (a, b) in years(&before).into_iter().zip(years(&after)) {
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!((a / b - 1.0).abs() < 0.01, "{a} years before the first erase, {b} after it");
    }
}

#[test]
fn without_a_rating_it_is_cycles_times_capacity() {
    let requests = writes(10_000, 64 * MIB, 1000);
    let report = simulate(&single("super-talent-32gb", "", ""), &requests, &Options::default()).unwrap();
    let (report, span) = (ssd(&report), report.simulated_s);
    let capacity = Profile::named("super-talent-32gb").unwrap().capacity.0 as f64;
    let per_s = report.bytes_written as f64 / span;
    let years = 10_000.0 * capacity / per_s / SECONDS_PER_YEAR;
    assert!((report.lifetime_rated_years.unwrap() / years - 1.0).abs() < 1e-9);
}

/// Reads that wear as much as a hundredth of writes shorten the physical lifetime of the cells, but not the rated
/// lifetime.
#[test]
fn read_disturb_counts_where_cells_wear() {
    let mut requests = writes(1_000, 64 * MIB, 1000);
    requests.extend((0..9_000).map(|n| request(1_000_000 + n * 1000, Op::Read, n % 16_384 * 4096, 4096)));
    let run = |effect: &str| {
        let text = single("intel-320-300gb", "", &format!("[endurance]\nread_effect = {effect}"));
        simulate(&text, &requests, &Options::default()).unwrap()
    };
    let (never, tenth) = (run("'never'"), run("10"));
    assert_eq!(never.lifetime_rated_years, tenth.lifetime_rated_years);
    let (never, tenth) = (ssd(&never), ssd(&tenth));
    let worn = 1.0 + tenth.bytes_read as f64 / 10.0 / never.nand_bytes_written.unwrap() as f64;
    let ratio = never.lifetime_physical_years.unwrap() / tenth.lifetime_physical_years.unwrap();
    assert!((ratio / worn - 1.0).abs() < 1e-9, "{ratio} against {worn}");
    assert!(tenth.wear_eu > never.wear_eu);
}

/// The fear: a drive that is only read has a lifetime of writing.
#[test]
fn without_a_write_there_is_no_lifetime_of_writing() {
    let reads: Vec<_> = (0..5_000).map(|n| request(n * 1000, Op::Read, n % 16_384 * 4096, 4096)).collect();
    let report = simulate(&single("intel-320-300gb", "", ""), &reads, &Options::default()).unwrap();
    let drive = ssd(&report);
    assert!(drive.bytes_read > 0 && drive.bytes_written == 0);
    let lives =
        [drive.lifetime_years, drive.lifetime_rated_years, drive.lifetime_physical_years, report.lifetime_years];
    assert_eq!(lives, [None; 4]);
    assert_eq!(drive.wear_eu, Some(0.0));
}

/// A nearline disk is rated for what it reads and writes in a year, for the years of its warranty.
#[test]
fn what_a_nearline_disk_reads_counts_as_what_it_writes() {
    let text =
        "[volume]\nsize = '512MiB'\n[devices.hdd]\nprofile = 'seagate-exos-x24-24tb'\n[placement]\nmode = 'single'\n";
    let mut requests = writes(2_000, 256 * MIB, 20_000);
    let begin = 2_000 * 20_000;
    requests.extend((0..2_000).map(|n| request(begin + n * 20_000, Op::Read, n % 1_000 * 262_144, 262_144)));
    let report = simulate(text, &requests, &Options::default()).unwrap();
    let disk = &report.devices[0].1;
    assert!(disk.bytes_read > 10 * disk.bytes_written, "reads are most of it");
    let moved = (disk.bytes_read + disk.bytes_written) as f64 / report.simulated_s;
    let years = 5.0 * 550e12 / moved / SECONDS_PER_YEAR;
    assert!((disk.lifetime_years.unwrap() / years - 1.0).abs() < 1e-9, "{:?} against {years}", disk.lifetime_years);
    // A disk that hardly works is not said to live for millennia.
    let rare: Vec<_> = requests.iter().take(20).cloned().collect();
    let rare: Vec<_> =
        rare.into_iter().enumerate().map(|(n, r)| request(n as u64 * 10_000_000_000, r.op, 0, 4096)).collect();
    let report = simulate(text, &rare, &Options::default()).unwrap();
    assert_eq!((report.devices[0].1.lifetime_years, report.lifetime_years), (None, None));
}

/// What is written in single-level mode wears the cells by the cycles that they stand in that mode.
#[test]
fn a_cache_in_single_level_mode_wears_its_cells_little() {
    let run = |cycles: u32| {
        let model = format!("model = {{ slc_cache = {{ cycles = {cycles} }}, background_after = '1000s' }}");
        simulate(&single("wd-black-sn850x-2tb", &model, ""), &writes(2_000, 8 * MIB, 100_000), &Options::default())
            .unwrap()
    };
    let years = |cycles: u32| ssd(&run(cycles)).lifetime_physical_years.unwrap();
    // With as few cycles as the others have, a unit takes three times its cells; with twenty times as many, a twentieth of that.
    let ratio = years(30_000) / years(1_500);
    assert!((18.0..22.0).contains(&ratio), "{ratio}");
}

/// A disk's rating includes written bytes if its profile has them.
#[test]
fn what_a_design_says_of_a_disk_counts() {
    let text = "[volume]\nsize = '512MiB'\n[devices.hdd]\nprofile = 'seagate-st32000641as'\n[placement]\nmode = 'single'\n\
        [endurance.hdd]\nwritten = '1TB'\n";
    let report = simulate(text, &writes(2_000, 256 * MIB, 20_000), &Options::default()).unwrap();
    let disk = &report.devices[0].1;
    let years = 1e12 / (disk.bytes_written as f64 / report.simulated_s) / SECONDS_PER_YEAR;
    assert!((disk.lifetime_years.unwrap() / years - 1.0).abs() < 1e-9);
    assert_eq!((disk.lifetime_physical_years, disk.lifetime_rated_years), (None, disk.lifetime_years));
}

/// The flash of a volume behaves like the whole drive's, however small the volume's part is.
#[test]
fn a_small_slice_answers_like_a_large_one() {
    let mut random = StdRng::seed_from_u64(3);
    // A few writes, then a flush, as from a journal.
    let requests: Vec<Request> = (0..6_000u64)
        .map(|n| match n % 4 {
            3 => request(n * 1500, Op::Flush, 0, 0),
            _ => request(n * 1500, Op::Write, random.random_range(0..64 * MIB / 4096) * 4096, 4096),
        })
        .collect();
    for (profile, count) in [("samsung-840-evo-1tb", 4), ("samsung-870-evo-1tb", 8), ("intel-x25-m-80gb", 8)] {
        let run = |mib: u64| {
            let text = format!(
                "[volume]\nsize = '{mib}MiB'\n[devices.data]\nprofile = '{profile}'\ncount = {count}\n\
                 model = {{ precondition = 'random' }}\n[placement]\nmode = 'single'\n"
            );
            simulate(&text, &requests, &Options::default()).unwrap().latency_us.all.unwrap().mean
        };
        let large = run(8192);
        for mib in [64, 112, 310, 450, 1240] {
            let ratio = run(mib) / large;
            assert!((0.85..1.2).contains(&ratio), "{count} {profile}, {mib} MiB: {ratio:.2} of the mean on 8 GiB");
        }
    }
}

/// Writes for which the flash of a partitioned drive has no space go to the disk, which answers as fast as it would
/// alone.
#[test]
fn full_flash_does_not_make_a_partitioned_drive_slower_than_its_disk() {
    let mut random = StdRng::seed_from_u64(5);
    for gap_us in [12_000, 40_000] {
        let requests: Vec<Request> = (0..20_000u64)
            .map(|n| {
                let op = if random.random_range(0..5) == 0 { Op::Read } else { Op::Write };
                request(n * gap_us, op, random.random_range(0..2048 * MIB / 32_768) * 32_768, 32_768)
            })
            .collect();
        for disk in ["seagate-st32000641as", "ibm-ultrastar-36z15"] {
            let disk = format!("[devices.hdd]\nprofile = '{disk}'\n");
            let alone = format!("[volume]\nsize = '2GiB'\n{disk}[placement]\nmode = 'single'\n");
            let both = format!(
                "[volume]\nsize = '2GiB'\n[devices.ssd]\nprofile = 'intel-x25-e-32gb'\nsize = '64MiB'\n{disk}\
                 [placement]\nmode = 'partitioned'\nfast = 'ssd'\nslow = 'hdd'\nextent = '4KiB'\nreplacement = 'lru'\n"
            );
            let mean =
                |text: &str| simulate(text, &requests, &Options::default()).unwrap().latency_us.all.unwrap().mean / 1e3;
            let (both, alone) = (mean(&both), mean(&alone));
            assert!(both <= alone * 1.03, "{disk}{gap_us} µs apart: {both:.3} ms with full flash, {alone:.3} without");
        }
    }
}

/// The fear: a short recording shows a used drive's work of before as its own, or ends before its own work begins.
#[test]
fn the_physical_life_does_not_depend_on_how_much_was_recorded() {
    let requests = writes(64_000, 64 * MIB, 2_000);
    let text = single("intel-320-300gb", "model = { precondition = 'random' }", "");
    let life = |count: usize| {
        let report = simulate(&text, &requests[..count], &Options::default()).unwrap();
        ssd(&report).lifetime_physical_years.unwrap()
    };
    let all = life(requests.len());
    // Writes to an eighth of the drive meet blocks that writes to all of it have left, until they have overwritten them.
    for count in [1_000, 4_000, 16_000] {
        let part = life(count);
        assert!((0.6..1.6).contains(&(part / all)), "{count} requests: {part} years, and all {all}");
    }
}

/// The fear: drives that hardly write wear out, and more of them sooner, because each has idle work to do.
#[test]
fn more_drives_live_longer() {
    let mut requests: Vec<_> = (0..20_000).map(|n| request(n * 1_000, Op::Read, n % 16_384 * 4096, 4096)).collect();
    for (n, at) in (0..requests.len()).step_by(20).enumerate() {
        requests[at].op = Op::Write;
        requests[at].offset = Bytes(n as u64 * 7919 % 16_384 * 4096);
    }
    let life = |count: u32| {
        let text =
            single("wd-black-sn850x-2tb", &format!("count = {count}\nmodel = {{ precondition = 'random' }}"), "");
        simulate(&text, &requests, &Options::default()).unwrap().devices[0].1.lifetime_physical_years.unwrap()
    };
    let lives = [1, 2, 4].map(life);
    assert!(lives[0] < lives[1] && lives[1] < lives[2], "{lives:?}");
    assert!(lives[2] < 6.0 * lives[0], "{lives:?}");
}

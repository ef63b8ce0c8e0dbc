//! The analytic model of "Mixed SSD arrays", compared with the paper's case study and with the simulator.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use peryton_plan::lifetime::{Array, Lifetime, LifetimeError};
use peryton_sim::{Design, Options, Report, run_one};
use peryton_trace::{BATCH, Request, Source, TraceError};
use peryton_units::{Bytes, Nanos, Op, SECONDS_PER_YEAR};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Table II.
const DEVICES: &str = "
    [cache]
    profile = 'mixed-array-high-end-100gb'
    [storage]
    profile = 'mixed-array-low-end-200gb'
    count = 3
";
const WORKLOAD_1: &str = "
    [workload]
    read = '160MB'
    write = '200MB'
    read_hit = 0.9
    write_hit = 0.85
    dirty = 0.65
    read_size = '16KiB'
    write_size = '16KiB'
";
const WORKLOAD_2: &str = "
    [workload]
    read = '100MB'
    write = '250MB'
    read_hit = 0.5
    write_hit = 0.15
    dirty = 0.81
    read_size = '4KiB'
    write_size = '64KiB'
";

fn array(workload: &str) -> Array {
    Array::parse(&format!("{workload}{DEVICES}"), "test", &toml::Table::new()).unwrap()
}

fn near(found: f64, paper: f64, half_of_last_digit: f64) {
    assert!((found - paper).abs() <= half_of_last_digit * 1.000_001, "{found}, the paper has {paper}");
}

#[test]
fn workload_1_of_the_case_study() {
    let life = array(WORKLOAD_1).lifetime().unwrap();
    near(life.cache.writes_per_cell_per_s, 2.16e-3, 0.005e-3);
    near(life.cache.wear_per_s, 2.16e-8, 0.005e-8);
    near(life.cache.lifetime_years.unwrap(), 1.47, 0.005);
    near(life.storage.writes_per_cell_per_s, 4.98e-5, 0.005e-5);
    near(life.storage.wear_per_s, 4.98e-9, 0.005e-9);
    // The paper divides by the rounded rate, in years of 365 days.
    near(1.0 / 4.98e-9 / (365.0 * 86_400.0), 6.37, 0.005);
    near(life.storage.lifetime_years.unwrap(), 6.37, 0.002 * 6.37);
    near(life.lifetime_years.unwrap(), 1.47, 0.005);
    near(life.mean_latency_ms, 0.136, 0.0005);
    assert_eq!(life.mean_latency_ms, life.mean_latency_by_bytes_ms);
}

#[test]
fn workload_2_of_the_case_study() {
    let life = array(WORKLOAD_2).lifetime().unwrap();
    near(life.cache.writes_per_cell_per_s, 3.00e-3, 0.005e-3);
    near(life.cache.wear_per_s, 3.00e-8, 0.005e-8);
    near(life.cache.lifetime_years.unwrap(), 1.06, 0.005);
    near(life.storage.writes_per_cell_per_s, 3.54e-4, 0.005e-4);
    near(life.storage.wear_per_s, 3.54e-8, 0.005e-8);
    near(1.0 / 3.54e-8 / (365.0 * 86_400.0), 0.90, 0.005);
    near(life.storage.lifetime_years.unwrap(), 0.90, 0.01 * 0.90);
    near(life.mean_latency_by_bytes_ms, 0.177, 0.0005);
}

#[test]
fn write_amplification_shortens_a_life_in_proportion() {
    let mut array = array(WORKLOAD_1);
    let before = array.lifetime().unwrap();
    array.storage.write_amplification = 2.5;
    let after = array.lifetime().unwrap();
    assert_eq!(after.cache, before.cache);
    assert!((after.storage.wear_per_s / before.storage.wear_per_s - 2.5).abs() < 1e-12);
}

proptest! {
    #[test]
    fn admitting_less_spares_the_cache(
        r in 0u64..1000, w in 1u64..1000, hits in (0.0..=1.0, 0.0..=1.0), dirty in 0.0..=1.0, p in 0.0..1.0,
    ) {
        let mut array = array(WORKLOAD_1);
        let of = &mut array.workload;
        (of.read, of.write) = (Bytes(r * 1_000_000), Bytes(w * 1_000_000));
        (of.read_hit, of.write_hit, of.dirty) = (hits.0, hits.1, dirty);
        let all = array.lifetime().unwrap();
        array.workload.admit = p;
        let some = array.lifetime().unwrap();
        prop_assert!(some.cache.wear_per_s <= all.cache.wear_per_s);
        // The host's writes reach at least one of the two tiers.
        let written = |life: &Lifetime| life.cache.bytes_written_per_s + life.storage.bytes_written_per_s;
        prop_assert!(written(&some) >= w as f64 * 1e6 * (1.0 - 1e-12));
        prop_assert!(some.mean_latency_ms >= all.mean_latency_ms * (1.0 - 1e-12));
    }

    #[test]
    fn rubbish_is_refused_in_words(text in "[a-z_ =\\[\\]\"0-9.\n-]{0,200}") {
        if let Err(error) = Array::parse(&text, "x.toml", &toml::Table::new()) {
            prop_assert!(error.to_string().starts_with("x.toml"), "{error}");
        }
    }
}

#[test]
fn errors_name_the_key() {
    let parse = |text: &str| Array::parse(text, "x.toml", &toml::Table::new());
    let error = |text: &str| parse(text).and_then(|array| array.lifetime()).unwrap_err().to_string();
    assert!(error(&format!("{WORKLOAD_1}{DEVICES}").replace("dirty", "dirt")).contains("dirt"));
    assert!(error(&format!("{WORKLOAD_1}{DEVICES}").replace("0.85", "1.85")).contains("workload.write_hit is 1.85"));
    assert!(error(&format!("{WORKLOAD_1}{DEVICES}").replace("count = 3", "count = 0")).contains("storage.count"));
    assert!(error(&format!("{WORKLOAD_1}[cache]\n[storage]\n")).contains("cache.capacity"));
    let disk = format!("{WORKLOAD_1}{DEVICES}").replace("mixed-array-low-end-200gb", "seagate-st4000dm000");
    assert!(matches!(parse(&disk), Err(LifetimeError::Missing { .. })), "a disk has no cycles");
    assert!(error(&format!("{WORKLOAD_1}{DEVICES}").replace("low-end", "lowend")).contains("did you mean"));
}

const EXTENT: u64 = 64 << 10;
const CACHE: u64 = 2_048 * EXTENT;
const STORAGE: u64 = 40_000 * EXTENT;
const WARM_UP: u64 = 12_000;
const REQUESTS: u64 = 60_000;
/// The time between requests: long enough that all effects of one request have ended when the next comes.
const GAP_US: u64 = 5_000;

/// A workload with known hit ratios: hits go to a few hot extents that never leave an LRU cache of this size, or to an
/// extent that entered just before; misses go to extents that left it long ago.
struct Made {
    requests: std::vec::IntoIter<Request>,
    /// Numbers of reads, writes, read misses, write misses, and admitted extents that were dirty when they left.
    counts: [f64; 5],
}

fn made(read_share: f64, read_hit: f64, write_hit: f64, dirtied: f64, seed: u64) -> Made {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut requests, mut counts, mut cold, mut again) = (Vec::new(), [0.0; 5], 64, None);
    for n in 0..WARM_UP + REQUESTS {
        let measured = if n >= WARM_UP { 1.0 } else { 0.0 };
        let (op, extent) = match again.take() {
            Some(extent) => (Op::Write, extent),
            None => {
                let op = if random.random_bool(read_share) { Op::Read } else { Op::Write };
                let hit = random.random_bool(if op == Op::Read { read_hit } else { write_hit });
                if hit {
                    (op, random.random_range(0..32))
                } else {
                    cold = if cold + 1 < STORAGE / EXTENT { cold + 1 } else { 64 };
                    counts[2 + op as usize] += measured;
                    // Some extents are written soon after they were read, so they are dirty when they leave.
                    if op == Op::Read && random.random_bool(dirtied) {
                        again = Some(cold);
                        counts[4] += measured;
                    }
                    counts[4] += if op == Op::Write { measured } else { 0.0 };
                    (op, cold)
                }
            }
        };
        counts[op as usize] += measured;
        let (at, offset, len) = (Nanos::from_us((n + 1) * GAP_US), Bytes(extent * EXTENT), Bytes(EXTENT));
        requests.push(Request { at, offset, len, volume: 0, op });
    }
    Made { requests: requests.into_iter(), counts }
}

impl Source for Made {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        batch.clear();
        batch.extend(self.requests.by_ref().take(BATCH));
        Ok(())
    }
}

fn simulated(made: Made) -> Report {
    let text = format!(
        "[devices.cache]\nprofile = 'mixed-array-high-end-100gb'\nsize = {CACHE}\nmodel = {{ parallelism = 64 }}\n\
         [devices.storage]\nprofile = 'mixed-array-low-end-200gb'\nsize = {STORAGE}\ncount = 3\nmodel = {{ parallelism = 64 }}\n\
         [placement]\nmode = 'caching'\nfast = 'cache'\nslow = 'storage'\nextent = '64KiB'\nreplacement = 'lru'\n\
         promotion = {{ threshold = 0, window = '60s' }}\ndemotion = {{ low = 16, high = 32 }}\nmax_moves = 256\n\
         write = 'back'\n\
         writeback = {{ delay = '1000h', dirty_target = 1 }}\nbypass = {{ sequential = 'never', congested = false }}\n"
    );
    let design = Design::parse(&text, "test.toml", &[]).unwrap();
    let options = Options { warm_up_requests: WARM_UP, ..Options::default() };
    run_one(&design, "made", Box::new(made), &options, &|_| {}).unwrap()
}

#[test]
fn the_simulator_agrees_within_two_percent() {
    let mut random = StdRng::seed_from_u64(7);
    for case in 0..8 {
        let mut share = |least: f64, most: f64| random.random_range(least..most);
        // With fewer than 0.2 hits, the hot extents would not be accessed often enough to stay.
        let (reads, read_hit, write_hit, dirtied) =
            (share(0.1, 0.9), share(0.2, 0.95), share(0.2, 0.95), share(0.0, 1.0));
        let made = made(reads, read_hit, write_hit, dirtied, 100 + case);
        let [r, w, read_misses, write_misses, dirty] = made.counts;
        let report = simulated(made);
        let mut array = array(WORKLOAD_1);
        let rate = |count: f64| Bytes((count * EXTENT as f64 / report.simulated_s) as u64);
        let workload = &mut array.workload;
        (workload.read, workload.write) = (rate(r), rate(w));
        (workload.read_hit, workload.write_hit) = (1.0 - read_misses / r, 1.0 - write_misses / w);
        workload.dirty = dirty / (read_misses + write_misses);
        (workload.read_size, workload.write_size) = (Bytes(EXTENT), Bytes(EXTENT));
        let life = array.lifetime().unwrap();

        let years =
            |name: &str| report.devices.iter().find(|(device, _)| device.starts_with(name)).unwrap().1.lifetime_years;
        let mean_ms = report.latency_us.all.as_ref().unwrap().mean / 1e3;
        println!(
            "{reads:.2} {read_hit:.2} {write_hit:.2} {dirtied:.2}: cache {:?} {:?}, storage {:?} {:?}, ms {} {mean_ms}",
            life.cache.lifetime_years,
            years("cache"),
            life.storage.lifetime_years,
            years("storage"),
            life.mean_latency_ms
        );
        let agree = |what: &str, analytic: f64, simulated: f64| {
            let off = simulated / analytic - 1.0;
            assert!(
                off.abs() < 0.02,
                "case {case}: {what} is {simulated} simulated, {analytic} by the model: {off:+.4}"
            );
        };
        agree("the cache's lifetime", life.cache.lifetime_years.unwrap(), years("cache").unwrap());
        agree("the storage's lifetime", life.storage.lifetime_years.unwrap(), years("storage").unwrap());
        agree("the array's lifetime", life.lifetime_years.unwrap(), report.lifetime_years.unwrap());
        agree("the mean latency", life.mean_latency_ms, mean_ms);
        let hit_ratio = 1.0 - (read_misses + write_misses) / (r + w);
        agree("the hit ratio", hit_ratio, report.fast_hit_ratio.unwrap());
    }
    assert_eq!(SECONDS_PER_YEAR, 365.25 * 86_400.0);
}

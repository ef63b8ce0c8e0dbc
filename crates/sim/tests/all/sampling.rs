//! The fears: a sample that says it is sure of what it is not, one whose slices share requests, and figures of a design that cannot
//! be sampled.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use peryton_sim::{Design, Fit, Options, Replay, Report, Sampling, run_one};
use peryton_trace::{OpenOptions, Source, SynthSource, SynthSpec, open};

const CACHE: &str = "[volume]\nsize = '4GiB'\n[devices]\nssd = { profile = 'intel-320-300gb', size = '256MiB' }\n\
                     hdd = { profile = 'seagate-st32000641as' }\n[placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\n\
                     extent = '64KiB'\npromotion = { threshold = 0 }\n";
const FLASH: &str = "[volume]\nsize = '1GiB'\n[devices.ssd]\nprofile = 'intel-320-300gb'\nmodel = { precondition = 'random' }\n\
                     [placement]\nmode = 'single'\n";

type Opener = dyn Fn() -> Box<dyn Source>;

fn drawn(spec: &'static str) -> Box<Opener> {
    Box::new(move || Box::new(SynthSource::new(&SynthSpec::parse(spec, "spec").unwrap(), "spec").unwrap()))
}

fn shipped(name: &'static str) -> Box<Opener> {
    Box::new(move || Box::new(open(format!("../../examples/traces/{name}"), &OpenOptions::default()).unwrap()))
}

fn zipf() -> Box<Opener> {
    drawn(
        "requests = 120000\nfootprint = '2GiB'\nread_share = 0.7\narrival = '4ms'\nsize = '4KiB'\n\
         address = { kind = 'zipf', exponent = 0.9, extent = '64KiB' }\n",
    )
}

fn replay(design: &str, overrides: &[&str], trace: &Opener, options: &Options) -> Result<Report, String> {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let design = Design::parse(design, "design", &overrides).unwrap();
    run_one(&design, "t", trace(), options, &|_| {}).map_err(|error| error.to_string())
}

fn figure(report: &Report, name: &str) -> f64 {
    let mut value = &serde_json::to_value(report).unwrap();
    let of_device = name.strip_prefix("devices.").and_then(|rest| rest.split_once('.'));
    let keys: Vec<&str> =
        of_device.map_or_else(|| name.split('.').collect(), |(device, key)| vec!["devices", device, key]);
    for key in keys {
        value = &value[key];
    }
    value.as_f64().unwrap_or_else(|| panic!("{name} is no figure of the report"))
}

fn sampled(share: f64, seed: u64, options: &Options) -> Options {
    Options { sample: Some(Sampling::new(share, seed).unwrap()), ..options.clone() }
}

/// Of how many figures the interval has that of the whole, over these seeds.
fn covered(design: &str, set: &[&str], trace: &Opener, options: &Options) -> (usize, usize) {
    let (share, seeds) = (0.4, 6);
    let whole = replay(design, set, trace, options).unwrap();
    let (mut within, mut all) = (0, 0);
    for seed in 0..seeds {
        let report = replay(design, set, trace, &sampled(share, seed, options)).unwrap();
        let sample = report.sample.unwrap();
        assert!(sample.figures.len() >= 7, "{:?}", sample.figures);
        for (name, found) in &sample.figures {
            assert!(found.low <= found.estimate && found.estimate <= found.high, "{name}: {found:?}");
            let real = figure(&whole, name);
            within += usize::from(found.low <= real && real <= found.high);
            all += 1;
        }
    }
    (within, all)
}

/// A name, a design, what is set in it, a trace, and the replay.
type Case<'a> = (&'a str, &'a str, &'a [&'a str], Box<Opener>, Options);

#[test]
fn intervals_have_the_figures_of_the_whole_as_often_as_they_promise() {
    let sync = Options { replay: Replay::Sync, fit: Fit::Wrap, ..Options::default() };
    let uniform = drawn(
        "requests = 80000\nfootprint = '1GiB'\nread_share = 0.5\narrival = '2ms'\nsize = '4KiB'\naddress = 'uniform'\n",
    );
    let no_streams: &[&str] = &["placement.bypass.sequential=never", "placement.bypass.congested=false"];
    let cases: [Case<'_>; 3] = [
        ("a cache before a disk, Zipf", CACHE, &[], zipf(), sync.clone()),
        ("flash alone, uniform, timed", FLASH, &[], uniform, Options::default()),
        ("a cache before a disk, PostgreSQL", CACHE, no_streams, shipped("pgbench-ext4.parquet"), sync),
    ];
    for (name, design, set, trace, options) in &cases {
        let (within, all) = covered(design, set, trace, options);
        assert!(within as f64 >= 0.9 * all as f64, "{name}: {within} of {all}");
    }
}

/// A sample has no streams as long as those that go past the cache, and no flushes with the trace's writes before them.
#[test]
fn what_a_sample_cannot_show_has_no_estimate_and_a_warning() {
    let options = Options { replay: Replay::Sync, fit: Fit::Wrap, ..Options::default() };
    let found = |design: &str| {
        let report = replay(design, &[], &*shipped("pgbench-ext4.parquet"), &sampled(0.4, 0, &options)).unwrap();
        let codes: Vec<&str> =
            report.warnings.iter().map(|warning| warning.code).filter(|code| code.starts_with("sample_")).collect();
        (report.sample.unwrap().figures.into_keys().collect::<Vec<_>>(), codes)
    };
    let (figures, codes) = found(CACHE);
    assert_eq!(figures, ["fast_hit_ratio", "latency_us.all.mean", "latency_us.read.mean", "latency_us.write.mean"]);
    assert_eq!(codes, ["sample_streams", "sample_flushes"]);
    let tiering = CACHE
        .replace("caching", "tiering")
        .replace("[volume]\nsize = '4GiB'\n", "")
        .replace("as' }", "as', size = '4GiB' }");
    let (figures, codes) = found(&tiering);
    assert_eq!(figures, ["fast_hit_ratio"]);
    assert_eq!(codes, ["sample_streams", "sample_seeks", "sample_flushes"]);
    let never = "[placement]\nbypass = { sequential = 'never', congested = false }";
    let (figures, codes) = found(&tiering.replace("[placement]", never));
    assert!(
        figures.contains(&"fast_hit_ratio".to_owned()) && figures.contains(&"devices.ssd.bytes_written".to_owned())
    );
    assert!(!figures.iter().any(|name| name.starts_with("latency_us") || name == "mean_power_w"), "{figures:?}");
    assert_eq!(codes, ["sample_seeks", "sample_flushes"]);
}

/// An interval that has everything is of no use.
#[test]
fn intervals_are_narrow_where_the_slices_are_alike() {
    let trace = drawn(
        "requests = 80000\nfootprint = '1GiB'\nread_share = 0.5\narrival = '2ms'\nsize = '4KiB'\naddress = 'uniform'\n",
    );
    let sample = replay(FLASH, &[], &*trace, &sampled(0.4, 1, &Options::default())).unwrap().sample.unwrap();
    let mean = sample.figures["latency_us.all.mean"];
    assert!(mean.high - mean.low < 0.15 * mean.estimate, "{mean:?}");
    assert!((sample.requests_share - 0.4).abs() < 0.1, "{sample:?}");
}

#[test]
fn a_sample_of_all_is_the_whole_and_the_same_sample_is_the_same() {
    let trace = zipf();
    let options = Options { replay: Replay::Sync, ..Options::default() };
    let whole = replay(CACHE, &[], &*trace, &options).unwrap();
    assert_eq!(replay(CACHE, &[], &*trace, &sampled(1.0, 3, &options)).unwrap(), whole);
    let some = |seed| replay(CACHE, &[], &*trace, &sampled(0.5, seed, &options)).unwrap();
    let first = some(3);
    assert_eq!(some(3), first);
    assert_ne!(some(4).sample, first.sample);
    // What the trace and the design are is not the sample's.
    assert_eq!(
        (first.trace_hash, first.trace_requests, first.volume_bytes),
        (whole.trace_hash, 120_000, whole.volume_bytes)
    );
    assert_eq!(
        (&first.design, &first.design_toml, &first.cost.usd_per_gb),
        (&whole.design, &whole.design_toml, &whole.cost.usd_per_gb)
    );
    assert!(first.requests < whole.requests && first.warnings[0].code == "sample");
    assert!(whole.sample.is_none() && whole.warnings.iter().all(|warning| warning.code != "sample"));
}

#[test]
fn what_cannot_be_sampled_says_so_in_one_line() {
    let trace = zipf();
    let half = sampled(0.5, 0, &Options { replay: Replay::Sync, ..Options::default() });
    let refused = |design: &str, overrides: &[&str], options: &Options| {
        let error = replay(design, overrides, &*trace, options).unwrap_err();
        assert!(error.starts_with("--sample 0.") && !error.contains('\n'), "{error}");
        error
    };
    let log = "[volume]\nsize = '4GiB'\n[devices]\nssd = { profile = 'intel-320-300gb' }\n\
               log = { profile = 'seagate-st32000641as', size = '1GiB' }\n[placement]\nmode = 'logging'\nprimary = 'ssd'\nlog = 'log'\n";
    assert!(refused(log, &[], &half).contains("a log is filled"));
    let linear = "[devices]\na = { profile = 'fixed', size = '2GiB' }\nb = { profile = 'fixed', size = '2GiB' }\n\
                  [placement]\nmode = 'linear'\n";
    assert!(refused(linear, &[], &half).contains("each device has its own part"));
    let small = sampled(0.001, 0, &half);
    assert!(refused(CACHE, &[], &small).contains("sample about "));
    // A cache of a thousand extents has too few in an eighth of a tenth.
    assert!(refused(CACHE, &["devices.ssd.size=64MiB"], &sampled(0.1, 0, &half)).contains("leave --sample out"));
    let interval = Options { interval: Some("1s".parse().unwrap()), ..half.clone() };
    assert!(refused(CACHE, &[], &interval).contains("leave --interval out"));
}

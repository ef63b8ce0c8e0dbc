//! A drive in the place of a device. The fears: a command that the engine inside loses, delays or does twice; a run that never ends, because
//! the timers inside never do; figures of the devices inside that are missing or counted under another name; nonsense that is simulated.

use std::fs;

use peryton_device::Model;
use peryton_engine::Tuning;
use peryton_sim::{Design, Load, Options, Report, Sampling};
use peryton_units::{Bytes, Nanos};

use crate::common::{random_requests, simulate};

const REQUESTS: usize = 6_000;
const SSD: &str = "[devices.fast]\nprofile = 'intel-x25-e-32gb'\nsize = '32MiB'\n";
const DISK: &str = "profile = 'griffin-barracuda-7200'\nsize = '512MiB'\n";
const CACHING: &str = "[placement]\nmode = 'caching'\nfast = 'fast'\nslow = 'slow'\nextent = '64KiB'\n";
/// A cache before a disk, as the tables of the design of the device `slow`.
const INSIDE: &str = "[devices.slow.design.devices.fast]\nprofile = 'intel-x25-e-32gb'\nsize = '96MiB'\n\
                      [devices.slow.design.devices.slow]\nprofile = 'griffin-barracuda-7200'\nsize = '512MiB'\n\
                      [devices.slow.design.placement]\nmode = 'caching'\nfast = 'fast'\nslow = 'slow'\nextent = '64KiB'\n";

fn design(text: &str, overrides: &[&str]) -> Result<Design, String> {
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    Design::parse(text, "outer.toml", &overrides).map_err(|error| error.to_string())
}

fn report(text: &str, options: &Options) -> Report {
    simulate(text, &random_requests(REQUESTS, Bytes::mib(400).0, 8_000, 7), options)
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn a_drive_that_only_passes_on_is_as_its_device() {
    // Of models whose times do not depend on places, because a volume begins behind its superblock.
    for slow in
        ["model = { read = '4ms', write = '3ms' }\n", "model = { read = '4ms', write = '3ms', parallelism = 4 }\n"]
    {
        let slow = format!("profile = 'fixed'\n{slow}");
        let direct = format!("{SSD}[devices.slow]\nsize = '512MiB'\n{slow}{CACHING}");
        let nested = format!(
            "{SSD}[devices.slow]\nsize = '512MiB'\n[devices.slow.design.devices.only]\nsize = '520MiB'\n{slow}\
             [devices.slow.design.placement]\nmode = 'single'\n{CACHING}"
        );
        let (direct, nested) = (report(&direct, &Options::default()), report(&nested, &Options::default()));
        assert_eq!(direct.latency_us, nested.latency_us, "{slow}");
        assert_eq!((&direct.moves, &direct.metadata), (&nested.moves, &nested.metadata));
        let [(_, fast), (_, slow)] = &direct.devices[..] else { panic!() };
        let [(first, nested_fast), (second, nested_slow)] = &nested.devices[..] else { panic!() };
        assert_eq!((first.as_str(), second.as_str()), ("fast", "slow.only"));
        assert_eq!(fast, nested_fast);
        let work = |device: &peryton_sim::DeviceReport| {
            (device.reads, device.writes, device.bytes_read, device.bytes_written, device.busy_s)
        };
        assert_eq!(work(slow), work(nested_slow));
    }
}

/// The fear: a sample of a design with a drive inside is another one than that of its devices, or the drive inside keeps its size.
#[test]
fn a_sample_shrinks_the_drive_inside_as_it_shrinks_the_others() {
    let options =
        Options { sample: Some(Sampling::new(0.5, 1).unwrap()), warm_up_requests: 1000, ..Options::default() };
    let model = "profile = 'fixed'\nmodel = { read = '4ms', write = '3ms' }\n";
    let sampled = |slow: &str| {
        let small = SSD.replace("32MiB", "96MiB");
        let report = report(&format!("{small}[devices.slow]\nsize = '512MiB'\n{slow}{CACHING}"), &options);
        report.sample.unwrap().figures
    };
    let (direct, nested) = (
        sampled(model),
        sampled(&format!(
            "[devices.slow.design.devices.only]\nsize = '520MiB'\n{model}[devices.slow.design.placement]\nmode = 'single'\n"
        )),
    );
    let same = nested.into_iter().map(|(name, figure)| (name.replace("slow.only", "slow"), figure));
    assert_eq!(direct, same.collect());

    // Of three tiers every figure is that of the whole trace, as far as the intervals say.
    let text = format!("{}{INSIDE}{CACHING}", SSD.replace("32MiB", "64MiB"));
    let whole = report(&text, &Options { sample: None, ..options.clone() });
    let part = report(&text, &options).sample.unwrap().figures;
    let reads = |name: &str| whole.devices.iter().find(|(known, _)| known == name).unwrap().1.bytes_read as f64;
    for name in ["fast", "slow.fast", "slow.slow"] {
        let figure = part[&format!("devices.{name}.bytes_read")];
        let close = figure.low * 0.9 <= reads(name) && reads(name) <= figure.high * 1.1;
        assert!(close, "{name}: {figure:?} and {}", reads(name));
    }
}

/// The fear: a trace that has a share of the load is simulated with a drive inside of full size, or with settings that the small design's
/// file does not have.
#[test]
fn a_share_of_the_load_is_a_share_of_every_tier() {
    let text = "[volume]\nsize = '1TiB'\n[devices.fast]\nprofile = 'intel-x25-e-32gb'\n\
                [devices.slow.design.volume]\nsize = '1100GiB'\n\
                [devices.slow.design.devices]\nfast = { profile = 'intel-320-300gb', size = '200GiB' }\n\
                slow = { profile = 'seagate-exos-x20-20tb' }\n\
                [devices.slow.design.placement]\nmode = 'caching'\nfast = 'fast'\nslow = 'slow'\n\
                [placement]\nmode = 'caching'\nfast = 'fast'\nslow = 'slow'\n";
    let whole = design(text, &[]).unwrap();
    for share in [0.1, 0.01] {
        let load = Load { share, volume_share: share, reach: Bytes::mib(64) };
        let small = whole.with_load(&load).unwrap();
        let inside = small.nested().unwrap().drive.as_ref().unwrap();
        let part = |size: Bytes, of: Bytes| size.0 as f64 / of.0 as f64;
        let of = whole.nested().unwrap().drive.as_ref().unwrap();
        for (size, of) in [
            (small.volume, whole.volume),
            (small.devices[0].data, whole.devices[0].data),
            (inside.volume, of.volume),
            (inside.devices[0].data, of.devices[0].data),
        ] {
            assert!((part(size, of) / share - 1.0).abs() < 0.01, "{share}: {size} of {of}");
        }
        // The disk is smaller as well, so that its arm moves as far.
        let tracks = |design: &Design| match &design.devices[1].profile.model {
            Model::Disk(disk) => disk.tracks.as_ref().unwrap().capacity,
            _ => panic!(),
        };
        assert!((part(tracks(inside), tracks(of)) / share - 1.0).abs() < 0.01);
        assert!(small.devices[1].used <= inside.volume);
        // What it is called, and its settings, are in the file.
        let written = Design::parse(&small.toml, "small", &[]).unwrap();
        let again = written.nested().unwrap().drive.as_ref().unwrap();
        // A text has nothing of other placements.
        let Tuning { logging, partition, .. } = again.tuning.clone();
        let simulated = Tuning { logging, partition, ..inside.tuning.clone() };
        assert_eq!((&again.name, again.volume, &again.tuning), (&of.name, inside.volume, &simulated));
        assert_eq!(inside.tuning.writeback_delay.0 as f64, (of.tuning.writeback_delay.0 as f64 * share).round());
    }
    // The inner volume has room for the outer one, whatever the share.
    for share in [0.5, 0.003, 0.0005] {
        let tiered = text.replace("mode = 'caching'", "mode = 'tiering'").replace("[volume]\nsize = '1TiB'\n", "");
        let load = Load { share, volume_share: share, reach: Bytes::mib(64) };
        design(&tiered.replace("[devices.slow.design.volume]\nsize = '1100GiB'\n", ""), &[])
            .unwrap()
            .with_load(&load)
            .unwrap();
    }
}

#[test]
fn three_tiers_are_reported_tier_by_tier_and_the_same_each_time() {
    let text = format!("{SSD}{INSIDE}{CACHING}");
    let options = Options { warm_up_requests: 1000, interval: Some(Nanos::from_s(2)), ..Options::default() };
    let three = report(&text, &options);
    assert_eq!(three, report(&text, &options));
    let names: Vec<&str> = three.devices.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["fast", "slow.fast", "slow.slow"]);
    let inside = &three.nested["slow"];
    assert!(inside.fast_hit_ratio.unwrap() > 0.05 && inside.moves.as_ref().unwrap().promotions > 0, "{inside:?}");
    let energy: f64 = three.devices.iter().map(|(_, device)| device.energy_j.unwrap()).sum();
    assert!((three.energy_j.unwrap() - energy).abs() < 1e-6);
    let devices = |interval: &peryton_sim::IntervalReport| {
        interval.devices.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
    };
    assert!(three.intervals.len() > 3 && three.intervals.iter().all(|interval| devices(interval) == names));
    // What the whole run did is the sum of its intervals, of the devices inside as well.
    for (index, (name, device)) in three.devices.iter().enumerate() {
        let sum: u64 = three.intervals.iter().map(|interval| interval.devices[index].1.bytes_written).sum();
        assert_eq!(sum, device.bytes_written, "{name}");
    }
    // The second tier keeps reads from the disk.
    let two = report(&format!("{SSD}[devices.slow]\n{DISK}{CACHING}"), &options);
    let reads = |report: &Report| report.devices.last().unwrap().1.reads;
    assert!(reads(&three) < reads(&two), "{} {}", reads(&three), reads(&two));
}

#[test]
fn every_placement_has_a_drive_as_a_device_and_ends() {
    let outer = [
        "mode = 'tiering'\nfast = 'fast'\nslow = 'slow'\nextent = '64KiB'\n",
        "mode = 'caching'\nfast = 'fast'\nslow = 'slow'\nwrite = 'back'\n",
        "mode = 'caching'\nfast = 'slow'\nslow = 'fast'\n",
        "mode = 'partitioned'\nfast = 'fast'\nslow = 'slow'\nextent = '4KiB'\n",
        "mode = 'linear'\ndevices = ['fast', 'slow']\n",
        "mode = 'logging'\nprimary = 'slow'\nlog = 'fast'\n[triggers]\ntimeout = '3s'\n",
    ];
    let inner = [
        "mode = 'tiering'\nfast = 'fast'\nslow = 'slow'\nextent = '64KiB'\n",
        "mode = 'logging'\nprimary = 'slow'\nlog = 'fast'\n[devices.slow.design.triggers]\ntimeout = '3s'\n",
    ];
    for outer in outer {
        for inner in inner {
            let fast = if outer.contains("slow = 'fast'") { SSD.replace("32MiB", "448MiB") } else { SSD.to_owned() };
            let inside = INSIDE.split("mode = ").next().unwrap();
            let text = format!("{fast}{inside}{inner}[placement]\n{outer}");
            let report = report(&text, &Options::default());
            assert_eq!(
                (report.requests, report.failed_requests, report.nested.len()),
                (REQUESTS as u64, 0, 1),
                "{outer}{inner}"
            );
        }
    }
}

#[test]
fn a_design_file_may_be_named_and_its_keys_can_be_set() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    };
    let inner = INSIDE.replace("devices.slow.design.", "");
    write("parts/inner.toml", &inner);
    let named = |file: &str| format!("{SSD}[devices.slow]\ndesign = '{file}'\n{CACHING}");
    // Relative to the file that names it, at each level.
    let outer = write("outer.toml", &named("parts/middle.toml"));
    write("parts/middle.toml", &named("inner.toml"));
    let load = |overrides: &[&str]| {
        let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
        Design::load(&outer, &overrides).map_err(|error| error.to_string())
    };
    let set = "devices.slow.design.devices.slow.design.devices.fast.size=64MiB";
    let design = load(&[set]).unwrap();
    let middle = design.nested().unwrap().drive.as_ref().unwrap();
    let inner = middle.nested().unwrap().drive.as_ref().unwrap();
    assert_eq!((inner.devices[0].data.to_string().as_str(), inner.name.as_str()), ("64MiB", "inner"));
    // The report has a design that needs no other file, and says the same.
    let again = Design::parse(&design.toml, "elsewhere", &[]).unwrap();
    assert_eq!((again.toml, again.volume), (design.toml.clone(), design.volume));

    let wrong = |overrides: &[&str], words: &[&str]| {
        let error = load(overrides).unwrap_err();
        assert!(!error.contains('\n') && words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
    };
    wrong(&["devices.slow.design=outer.toml"], &["--set devices.slow.design=outer.toml", "would contain itself"]);
    wrong(&["devices.slow.design=absent.toml"], &["absent.toml", "No such file"]);
    wrong(
        &["devices.slow.design.devices.slow.design.placement.extent=5KiB"],
        &["placement.extent", "multiple of 4KiB"],
    );
    wrong(&["devices.slow.size=2TiB"], &["devices.slow.size", "the volume of 'middle' has"]);
    // A file that names itself, by another way.
    write("parts/middle.toml", &named("../parts/middle.toml"));
    wrong(&[], &["middle.toml:5", "devices.slow.design", "would contain itself"]);
    write("parts/middle.toml", &named("inner.toml").replace("caching", "cashing"));
    wrong(&[], &["middle.toml", "placement.mode"]);
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let text = format!("{SSD}{INSIDE}{CACHING}");
    let cases = [
        ("devices.slow.profile='fixed'", "remove this, or design"),
        ("devices.slow.count=2", "remove this, or design"),
        ("devices.slow.redundancy='mirror'", "remove this, or design"),
        ("devices.slow.model.rpm=5400", "remove this, or design"),
        ("power.slow.spin_down_after='5s'", "is a drive: give this to its devices"),
        ("endurance.slow.written='1TiB'", "is a drive: give this to its devices"),
        ("devices.slow.design.page_cache.size='64MiB'", "not between drives"),
        ("devices.slow.design.devices.fast.size='1PiB'", "use at most that"),
        ("devices.slow.design.colour='red'", "unknown key"),
        ("devices.slow.design=7", "the path of a design file, or the tables"),
    ];
    for (set, word) in cases {
        let error = design(&text, &[set]).unwrap_err();
        assert!(error.contains(word) && !error.contains('\n'), "{set}: {error}");
    }
    let several =
        text.replace(CACHING, "[placement]\nmode = 'logging'\nprimary = 'slow'\nlog = 'fast'\n[volume]\ncount = 2\n");
    assert!(design(&several, &[]).unwrap_err().contains("is a drive, which one volume has"));
    let mut deep = "profile = 'fixed'\nsize = '8MiB'\n".to_owned();
    for _ in 0..9 {
        deep = format!(
            "design = {{ devices.only = {{ {} }}, placement.mode = 'single' }}",
            deep.trim().replace('\n', ", ")
        );
    }
    let error = design(&format!("[devices.only]\n{deep}\n[placement]\nmode = 'single'\n"), &[]).unwrap_err();
    assert!(error.contains("use at most 8"), "{error}");
    let logs = INSIDE.replace(
        "'caching'\nfast = 'fast'\nslow = 'slow'\nextent = '64KiB'",
        "'logging'\nprimary = 'slow'\nlog = 'fast'",
    );
    let options = Options { sample: Some(Sampling::new(0.5, 1).unwrap()), ..Options::default() };
    let requests = random_requests(10, 64 << 20, 1, 7);
    let error = simulate(&format!("{SSD}{logs}{CACHING}"), &requests, &options).unwrap_err().to_string();
    assert!(error.contains("design 'slow' cannot be sampled: a log"), "{error}");
}

//! Any content of a design file gives a design, or an error of one line that names the place.

use crate::common;

use common::hybrid;
use peryton_engine::{Placement, Replacement, WritePolicy};
use peryton_sim::Design;
use peryton_units::{Bytes, Nanos};
use proptest::prelude::*;

fn error(text: &str, overrides: &[&str]) -> String {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    match Design::parse(text, "d.toml", &overrides) {
        Ok(design) => panic!("this should not be a design:\n{text}\n{design:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_unit_of_the_slow_device_is_that_of_its_profile_or_what_the_design_says() {
    let unit = |placement: &str, slow: &str, set: &[&str]| {
        let text = format!(
            "[volume]\nsize = '1GiB'\n[devices.ssd]\nprofile = 'solidigm-d7-p5810-800gb'\nsize = '64MiB'\n\
             [devices.qlc]\nprofile = '{slow}'\n[placement]\n{placement}"
        );
        let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
        Design::parse(&text, "d.toml", &set).map(|design| design.tuning.write_unit).map_err(|error| error.to_string())
    };
    let caching = "mode = 'caching'\nfast = 'ssd'\nslow = 'qlc'\n";
    let logging = "mode = 'logging'\nlog = 'ssd'\nprimary = 'qlc'\n";
    let (large, small, usual) = ("solidigm-d5-p5316-15.36tb", "solidigm-d5-p5336-61.44tb", "solidigm-d5-p5430-15.36tb");
    for placement in [caching, logging] {
        assert_eq!(unit(placement, large, &[]), Ok(Some(Bytes::kib(64))));
        assert_eq!(unit(placement, small, &[]), Ok(Some(Bytes::kib(16))));
        assert_eq!(unit(placement, usual, &[]), Ok(None));
        assert_eq!(unit(placement, large, &["placement.write_unit=never"]), Ok(None));
        assert_eq!(unit(placement, usual, &["placement.write_unit=auto"]), Ok(None));
        assert_eq!(unit(placement, usual, &["placement.write_unit=8KiB"]), Ok(Some(Bytes::kib(8))));
    }
    // Striped, a unit is a unit where the stripe has whole ones.
    assert_eq!(unit(caching, large, &["devices.qlc.count=2"]), Ok(Some(Bytes::kib(64))));
    assert_eq!(unit(caching, large, &["devices.qlc.count=2", "devices.qlc.stripe=32KiB"]), Ok(None));
    // Extents have to be whole numbers of them.
    assert_eq!(unit(caching, large, &["placement.extent=32KiB"]), Ok(None));
    for (placement, set, words) in [
        (
            caching,
            &["placement.extent=32KiB", "placement.write_unit=64KiB"][..],
            "an extent of 32KiB is not a whole number",
        ),
        (caching, &["placement.write_unit=24KiB"], "use a power of two from 8KiB to 1MiB"),
        (caching, &["placement.write_unit=yes"], "a size such as \"64KiB\""),
        (logging, &["placement.write_unit=512KiB"], "use 4KiB (a block of the log) to 256KiB"),
    ] {
        let refused = unit(placement, large, set).unwrap_err();
        assert!(refused.contains("placement.write_unit") && refused.contains(words), "{refused}");
    }
}

#[test]
fn the_bounds_of_dirty_data_and_the_bypass_are_read() {
    let tuning = |text: &str| Design::parse(&hybrid("caching", text), "d.toml", &[]).unwrap().tuning;
    let usual = tuning("");
    assert_eq!((usual.cleaning.dirty_target_ppm, usual.cleaning.max_age), (400_000, Nanos::from_s(600)));
    assert_eq!((usual.bypass.sequential, usual.bypass.congested), (Some(Bytes::mib(4)), true));
    let set = tuning(
        "writeback = { delay = '5s', dirty_target = 0.25, max_age = '1min', max_foreground_p99 = '20ms' }\n\
         bypass = { sequential = 'never', congested = false }\n",
    );
    assert_eq!((set.writeback_delay, set.cleaning.max_age), (Nanos::from_s(5), Nanos::from_s(60)));
    assert_eq!((set.cleaning.dirty_target_ppm, set.cleaning.max_foreground_p99), (250_000, Some(Nanos::from_ms(20))));
    assert_eq!((set.bypass.sequential, set.bypass.congested), (None, false));
    assert_eq!(usual.write_unit, None, "a disk has no units");
    // A shorter age than the usual delay is no contradiction.
    let short = tuning("writeback = { max_age = '10s' }\n");
    assert_eq!((short.writeback_delay, short.cleaning.max_age), (Nanos::from_s(10), Nanos::from_s(10)));
}

/// The fear: a design from before says something that is silently not heeded, or is refused without a way on.
#[test]
fn keys_that_there_were_are_refused_with_what_replaces_them() {
    for (text, words) in [
        ("fill = 'extent'\n", "placement.fill: was removed: a cache always has the parts of extents"),
        ("share_frames = true\n", "placement.share_frames: was removed"),
        ("writeback = { queue = 1024 }\n", "placement.writeback.queue: was removed: every dirty extent has a place"),
        ("journal = 'fast'\n", "placement.journal: 'fast' was removed: 'named'"),
    ] {
        let refused = Design::parse(&hybrid("caching", text), "d.toml", &[]).unwrap_err().to_string();
        assert!(refused.contains(words) && !refused.contains('\n'), "{refused}");
    }
    let set = ["placement.fill=auto".to_owned()];
    let refused = Design::parse(&hybrid("caching", ""), "d.toml", &set).unwrap_err().to_string();
    assert!(refused.contains("placement.fill: was removed"), "{refused}");
}

fn is_one_line(message: &str) {
    assert!(!message.contains('\n') && message.len() < 600, "{message:?}");
}

#[test]
fn every_mistake_names_its_place_and_a_remedy() {
    let single = "[devices.ssd]\nprofile = 'fixed'\nsize = '1GiB'\n[placement]\nmode = 'single'\n";
    let two = "[devices.ssd]\nprofile = 'fixed'\nsize = '1GiB'\n[devices.hdd]\nprofile = 'fixed'\nsize = '2GiB'\n\
               [placement]\nfast = 'ssd'\nslow = 'hdd'\n";
    let table: &[(String, &[&str])] = &[
        ("".into(), &["d.toml", "devices", "missing"]),
        ("[devices]\n".into(), &["d.toml", "devices", "at least one"]),
        ("[devices.ssd\n".into(), &["d.toml:1", "TOML"]),
        ("a = 1\na = 2\n".into(), &["d.toml:2", "duplicate"]),
        ("[devices.ssd]\nprofle = 'fixed'\n".into(), &["d.toml", "devices.ssd.profile", "missing"]),
        (single.replace("size", "sise"), &["d.toml:3", "devices.ssd.sise", "did you mean 'size'"]),
        (single.replace("[placement]", "[placment]"), &["d.toml", "placement", "missing"]),
        (format!("{single}colour = 'red'\n"), &["d.toml:6", "placement.colour", "unknown key: use one of"]),
        (single.replace("1GiB", "1Gib"), &["d.toml:3", "unknown unit 'Gib'"]),
        (single.replace("'1GiB'", "-1"), &["d.toml:3", "devices.ssd.size", "found -1", "8GiB"]),
        (single.replace("'1GiB'", "99999999999999999999"), &["d.toml:3", "devices.ssd.size"]),
        (single.replace("1GiB", "0"), &["d.toml:3", "devices.ssd.size", "remove the device"]),
        (single.replace("1GiB", "101GiB"), &["d.toml:3", "devices.ssd.size", "101GiB", "100GiB", "use at most"]),
        (single.replace("'fixed'", "'fixd'"), &["d.toml:2", "devices.ssd.profile", "fixd", "did you mean 'fixed'"]),
        (single.replace("'fixed'", "'/no/such.toml'"), &["d.toml:2", "/no/such.toml"]),
        (single.replace("single", "tieringg"), &["d.toml:5", "placement.mode", "did you mean 'tiering'"]),
        (single.replace("single", "partitioned"), &["d.toml:4", "placement.fast", "missing"]),
        (single.replace("single", "logging"), &["d.toml:4", "placement.primary", "missing"]),
        (format!("{single}extent = '1MiB'\n"), &["d.toml:6", "placement.extent", "does not apply", "remove"]),
        (
            format!("{two}mode = 'caching'\nwriteback = {{ dirty_target = 40 }}\n"),
            &["d.toml:11", "placement.writeback.dirty_target", "is 40", "such as 0.4"],
        ),
        (
            format!("{two}mode = 'caching'\nwriteback = {{ delay = '1min', max_age = '30s' }}\n"),
            &["d.toml:11", "placement.writeback.max_age", "is 30s", "below writeback.delay, which is 1min"],
        ),
        (
            format!("{two}mode = 'caching'\nwriteback = {{ max_foreground_p99 = '0s' }}\n"),
            &["d.toml:11", "placement.writeback.max_foreground_p99", "above 0"],
        ),
        (
            format!("{two}mode = 'caching'\nbypass = {{ sequential = 'now' }}\n"),
            &["d.toml:11", "placement.bypass.sequential", "8GiB"],
        ),
        (
            format!("{two}mode = 'caching'\nbypass = {{ congested = 1 }}\n"),
            &["d.toml:11", "placement.bypass.congested", "true or false"],
        ),
        (format!("{two}mode = 'partitioned'\nbypass = {{}}\n"), &["d.toml:11", "placement.bypass", "does not apply"]),
        (
            format!(
                "{}mode = 'logging'\noverwrite_ratio = 0.7\n",
                two.replace("fast = 'ssd'", "primary = 'ssd'").replace("slow", "log")
            ),
            &["d.toml", "placement.overwrite_ratio", "belongs to caching = \"selective\""],
        ),
        (format!("{single}[admission]\nby = 'size'\n"), &["d.toml:7", "admission.by", "caching"]),
        (format!("{single}[triggers]\nsize = '1GiB'\n"), &["d.toml:6", "triggers", "logging"]),
        (format!("{single}[power.hdd]\nspin_down_after = '5s'\n"), &["d.toml:6", "power.hdd", "ssd"]),
        (format!("{single}[power.ssd]\nspin_down_after = 5\n"), &["d.toml:7", "power.ssd.spin_down_after", "never"]),
        (format!("{single}[endurance]\nread_effect = 0\n"), &["d.toml:7", "endurance.read_effect", "from 1"]),
        (format!("{single}[endurance.ssd]\nwritten = 0\n"), &["d.toml:7", "endurance.ssd.written", "above 0"]),
        (format!("{single}[seed]\nvalue = 'x'\n"), &["d.toml:7", "seed.value", "whole number"]),
        (format!("{single}[volume]\nsize = '2GiB'\n"), &["d.toml:7", "volume.size", "2GiB", "1GiB", "agree"]),
        (format!("{single}[volume]\nsize = 0\n"), &["d.toml:7", "volume.size"]),
        (single.replace("size = '1GiB'\n", "count = 0\n"), &["d.toml:3", "devices.ssd.count", "1 to 256"]),
        (
            single.replace("size = '1GiB'\n", "count = 2\nstripe = '5KiB'\n"),
            &["d.toml:4", "devices.ssd.stripe", "multiple of 4KiB"],
        ),
        (
            single.replace("size = '1GiB'\n", "model = { raed = '1us' }\n"),
            &["d.toml:3", "devices.ssd.model", "did you mean 'read'"],
        ),
        (single.replace("[devices.ssd]", "[devices.'a b']"), &["d.toml:1", "devices.a b", "letters"]),
        (format!("{two}mode = 'single'\n"), &["d.toml:8", "placement.fast", "does not apply"]),
        (format!("{two}mode = 'tiering'\nextent = '5KiB'\n"), &["d.toml:11", "placement.extent", "multiple of 4KiB"]),
        (format!("{two}mode = 'tiering'\nextent = '2GiB'\n"), &["d.toml:11", "placement.extent", "1GiB"]),
        (
            format!("{two}mode = 'tiering'\nextent = '1GiB'\ndemotion = {{ low = 0, high = 0 }}\n")
                .replace("size = '2GiB'", "size = '1GiB'"),
            &["devices.hdd.size", "give it more"],
        ),
        (format!("{two}mode = 'tiering'\nwrite = 'back'\n"), &["d.toml:11", "placement.write", "does not apply"]),
        (format!("{two}mode = 'caching'\nwrite = 'bakc'\n"), &["d.toml:11", "placement.write", "did you mean 'back'"]),
        (format!("{two}mode = 'caching'\nreplacement = 'newest'\n"), &["d.toml:11", "placement.replacement"]),
        (format!("{two}mode = 'caching'\nmax_moves = 0\n"), &["d.toml:11", "placement.max_moves", "1 to 4096"]),
        (
            format!("{two}mode = 'caching'\npromotion = {{ treshold = 1 }}\n"),
            &["d.toml:11", "placement.promotion.treshold", "did you mean 'threshold'"],
        ),
        (
            format!("{two}mode = 'caching'\ndemotion = {{ low = 5, high = 4 }}\n"),
            &["d.toml:11", "placement.demotion.high", "below"],
        ),
        (
            format!("{two}mode = 'caching'\ndemotion = {{ low = 5, high = 99999 }}\n"),
            &["d.toml:11", "placement.demotion.high", "smaller extents"],
        ),
        (
            two.replace("'hdd'\n", "'hd'\nmode = 'tiering'\n"),
            &["placement.slow", "no device is called 'hd'", "ssd, hdd"],
        ),
        (two.replace("slow = 'hdd'", "slow = 'ssd'\nmode = 'tiering'"), &["d.toml:9", "placement.slow", "another"]),
        (
            format!("{two}mode = 'tiering'\n[devices.more]\nprofile = 'fixed'\n"),
            &["d.toml:11", "devices.more", "does not use this device"],
        ),
        (
            "[devices.a]\nprofile = 'fixed'\n[devices.b]\nprofile = 'fixed'\n[placement]\nmode = 'linear'\n\
             devices = ['a', 'a']\n"
                .into(),
            &["d.toml:7", "placement.devices", "named twice"],
        ),
        (
            "[volume]\nsize = '300GiB'\n[devices.a]\nprofile = 'fixed'\n[placement]\nmode = 'single'\n".into(),
            &["d.toml:2", "volume.size", "300GiB", "100GiB"],
        ),
        (
            "[volume]\nsize = '1GiB'\n[devices.a]\nprofile = 'fixed'\nsize = '1GiB'\n[devices.b]\nprofile = 'fixed'\n\
             [placement]\nmode = 'linear'\n"
                .into(),
            &["d.toml:2", "volume.size", "'b'"],
        ),
    ];
    for (text, parts) in table {
        let message = error(text, &[]);
        is_one_line(&message);
        for part in *parts {
            assert!(message.contains(part), "'{part}' is not in: {message}\n{text}");
        }
    }
}

#[test]
fn a_small_fast_device_is_not_refused_for_a_default() {
    for (mode, size, room) in
        [("tiering", "4MiB", (0, 0)), ("caching", "64MiB", (4, 8)), ("tiering", "8GiB", (64, 128))]
    {
        let text = format!(
            "[devices.ssd]\nprofile = 'fixed'\nsize = '{size}'\n[devices.hdd]\nprofile = 'fixed'\nsize = '16GiB'\n\
             [placement]\nmode = '{mode}'\nfast = 'ssd'\nslow = 'hdd'\nextent = '1MiB'\n"
        );
        let tuning = Design::parse(&text, "d.toml", &[]).unwrap().tuning;
        assert_eq!((tuning.demotion_low, tuning.demotion_high), room, "{size}");
        let asked = Design::parse(&text, "d.toml", &["placement.demotion.high=128".to_owned()]);
        assert!(asked.is_ok() == (size == "8GiB"), "what a design asks for is not changed");
    }
}

#[test]
fn overrides_are_keys_with_the_same_errors() {
    let text = hybrid("tiering", "");
    let with = |overrides: &[&str]| {
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        Design::parse(&text, "d.toml", &overrides).unwrap()
    };
    let design = with(&[
        "placement.promotion.threshold=7",
        "placement.promotion.window = 3s",
        "placement.replacement=lru",
        "devices.ssd.size=8MiB",
        "power.hdd.spin_down_after=\"2s\"",
        "placement.demotion={low=1, high=2}",
    ]);
    assert_eq!(design.tuning.promotion_threshold, 7);
    assert_eq!(design.tuning.promotion_window, Nanos::from_s(3));
    assert_eq!(design.tuning.replacement, Replacement::Lru);
    assert_eq!(design.tuning.spin_down_after, [None, Some(Nanos::from_s(2))]);
    assert_eq!((design.tuning.demotion_low, design.tuning.demotion_high), (1, 2));
    assert_eq!(design.volume, Bytes::mib(8 + 64));
    assert_eq!(design.overrides.len(), 6);
    for (text_, parts) in [
        ("placement.promotion.threshold", &["key=value"][..]),
        ("=1", &["dotted path"]),
        ("placement..x=1", &["dotted path"]),
        ("placement.promotion.treshold=1", &["--set placement.promotion.treshold=1", "did you mean 'threshold'"]),
        ("placement.mode.x=1", &["placement.mode is not a table"]),
        (
            "placement.replacement=opt",
            &["placement.replacement", "know the future", "peryton trace mrc --replacement opt"],
        ),
        ("placement.extent=5KiB", &["--set placement.extent=5KiB", "multiple of 4KiB"]),
        ("plcement.extent=8KiB", &["plcement", "did you mean 'placement'"]),
        ("devices.ssd.size=1TiB", &["--set devices.ssd.size=1TiB", "100GiB"]),
    ] {
        let message = error(&text, &[text_]);
        is_one_line(&message);
        parts.iter().for_each(|part| assert!(message.contains(part), "'{part}' is not in: {message}"));
    }
    // An override for a feature of another design is not a mistake here.
    let ignored = with(&["placement.write=through", "devices.log.size=1GiB", "power.log.spin_down_after=never"]);
    assert_eq!(ignored.ignored_overrides, [0, 1, 2]);
    assert!(ignored.overrides.is_empty());
}

#[test]
fn sizes_follow_from_each_other() {
    let design = |text: &str| common::design(text);
    // Tiering gives all of both devices' sizes to the volume; its spare extents are added to them.
    let tiering = design(&hybrid("tiering", ""));
    assert_eq!(tiering.volume, Bytes::mib(80));
    assert!(tiering.devices[1].used > Bytes::mib(64) && tiering.devices[0].used > Bytes::mib(16));
    let caching = design(&hybrid("caching", "write = 'around'"));
    assert_eq!((caching.volume, caching.tuning.write), (Bytes::mib(64), WritePolicy::Around));
    // The size of the volume determines the missing size.
    let open = hybrid("tiering", "[volume]\nsize = '100MiB'").replace("size = '64MiB'\n", "");
    assert_eq!(design(&open).volume, Bytes::mib(100));
    // Whole devices leave room for metadata.
    let whole = design(&hybrid("caching", "").replace("size = '16MiB'", "").replace("size = '64MiB'\n", ""));
    assert!(whole.devices.iter().all(|device| device.used <= device.profile.capacity));
    assert!(whole.volume > Bytes::gib(1023), "{}", whole.volume);
    let striped = design("[devices.a]\nprofile = 'fixed'\ncount = 4\n[placement]\nmode = 'single'\n");
    // There is a superblock at both ends.
    let whole = Bytes::gib(400);
    assert!(striped.volume <= whole && striped.volume + Bytes::mib(2) > whole, "{}", striped.volume);
    assert!(matches!(striped.placement, Placement::Single { .. }));
}

#[test]
fn the_shipped_designs_are_designs() {
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/papers");
    let (mut folders, mut names) = (vec![top.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "toml") {
                let design = Design::load(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
                if folder == top {
                    names.push(design.name);
                }
            }
        }
    }
    for name in ["ssd-only", "hdd-only", "linear", "tiering", "caching-back", "caching-through"] {
        assert!(names.iter().any(|found| found == name), "{name} is not among {names:?}");
        let design = Design::load(top.join(format!("{name}.toml")), &[]).unwrap();
        assert_eq!(design.volume, Bytes::gib(4), "{name}: the demo's trace needs 4 GiB");
    }
}

/// A valid design with one of its tokens replaced, so that most of it can still be read.
fn mutated() -> impl Strategy<Value = String> {
    let base =
        hybrid("caching", "write = 'back'\nmax_moves = 4\n[power.hdd]\nspin_down_after = '5s'\n[seed]\nvalue = 3");
    let junk = prop_oneof![
        Just("-1".to_owned()),
        Just("18446744073709551615".to_owned()),
        Just("9223372036854775807".to_owned()),
        Just("'16EiB'".to_owned()),
        Just("'18446744073709551615'".to_owned()),
        Just("'1099511627775KiB'".to_owned()),
        Just("[]".to_owned()),
        Just("{}".to_owned()),
        Just("nan".to_owned()),
        Just("1e400".to_owned()),
        Just("''".to_owned()),
        "[a-z0-9'.=\\[\\]{}]{0,12}",
        any::<u64>().prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| format!("'{n}'")),
    ];
    (any::<prop::sample::Index>(), junk, any::<bool>()).prop_map(move |(at, junk, value)| {
        let lines: Vec<&str> = base.lines().collect();
        let line = at.index(lines.len());
        let changed = match lines[line].split_once(" = ") {
            Some((key, _)) if value => format!("{key} = {junk}"),
            Some((_, old)) => format!("{} = {old}", if junk.is_empty() { "x" } else { &junk }),
            None => junk,
        };
        let mut lines: Vec<String> = lines.into_iter().map(str::to_owned).collect();
        lines[line] = changed;
        lines.join("\n")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_changed_design_is_a_design_or_an_error(text in mutated()) {
        if let Err(error) = Design::parse(&text, "d.toml", &[]) {
            is_one_line(&error.to_string());
        }
    }

    #[test]
    fn any_text_is_a_design_or_an_error(text in "[ -~\\n\u{e9}\u{1F600}]{0,200}", set in "[ -~\\n]{0,40}") {
        for overrides in [vec![], vec![set]] {
            if let Err(error) = Design::parse(&text, "d.toml", &overrides) {
                is_one_line(&error.to_string());
            }
        }
    }
}

#[test]
fn mistakes_about_logs_and_admission_name_their_place_and_a_remedy() {
    let log = "[devices.ssd]\nprofile = 'fixed'\nsize = '64MiB'\n[devices.log]\nprofile = 'fixed'\n\
               [placement]\nmode = 'logging'\nprimary = 'ssd'\nlog = 'log'\n";
    let cache = "[devices.ssd]\nprofile = 'fixed'\nsize = '16MiB'\n[devices.hdd]\nprofile = 'fixed'\nsize = '64MiB'\n\
                 [placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\nextent = '4KiB'\ndemotion = { low = 0, high = 0 }\n";
    let adaptive = |objective: &str| {
        format!("{cache}[admission]\nby = 'size'\n[admission.adaptive]\nrate = 0.1\nobjective = {objective}\n")
    };
    let table: &[(String, &[&str])] = &[
        (format!("{log}[volume]\ncount = 0\n"), &["d.toml:11", "volume.count", "use 1 to 256"]),
        (format!("{log}[volume]\nrequests = 'same'\n"), &["d.toml:11", "volume.requests", "volume.count"]),
        (format!("{log}[volume]\ncount = 2\nrequests = 'sam'\n"), &["d.toml:12", "did you mean 'same'"]),
        (format!("{cache}[volume]\ncount = 2\n"), &["volume.count", "share a log", "logging"]),
        (
            log.replace("[placement]", "size = '60GiB'\n[volume]\ncount = 2\n[placement]"),
            &["d.toml:6", "devices.log.size", "60GiB for each of 2", "50GiB"],
        ),
        (format!("{log}[host]\ncache = '1KiB'\n"), &["d.toml:11", "host.cache", "4KiB"]),
        (format!("{log}[host]\nsize = '1GiB'\n"), &["host.cache", "missing"]),
        (format!("{cache}[host]\ncache = '1GiB'\n"), &["host", "logging", "remove"]),
        (
            format!("{cache}[admission]\nby = 'hotness'\nthreshold = 1\nwrite_hits = 'bypass'\n"),
            &["write_hits", "size, probability or flashiness"],
        ),
        (format!("{cache}[admission]\nby = 'size'\nthreshold = 1\nwrite_hits = 'by'\n"), &["write_hits", "cache"]),
        (adaptive("{ latency = 0, wear = 0 }"), &["objective", "at least one weight above 0"]),
        (adaptive("{ wear = 1000 }"), &["objective", "from 0 to 100"]),
        (adaptive("{ wear = -1 }"), &["objective.wear"]),
        (adaptive("{ energy = 1 }"), &["objective.energy", "'ssd'", "active_w"]),
        (adaptive("{ power = 1 }"), &["objective.power", "unknown key", "energy"]),
    ];
    for (text, parts) in table {
        let message = error(text, &[]);
        is_one_line(&message);
        for part in *parts {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
    }
}

#[test]
fn any_weights_make_an_objective() {
    let text = "[devices.ssd]\nprofile = 'intel-x25-e-32gb'\nsize = '16MiB'\n[devices.hdd]\nprofile = 'griffin-wd-10k'\n\
                size = '64MiB'\n[placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\nextent = '4KiB'\n\
                demotion = { low = 0, high = 0 }\n[admission]\nby = 'probability'\nwrite_hits = 'bypass'\n\
                [admission.adaptive]\nobjective = { latency = 0.5, wear = 2, energy = 1 }\n";
    let design = Design::parse(text, "d.toml", &[]).unwrap();
    let admission = &design.tuning.admission;
    assert!(
        admission.energy.iter().all(|energy| energy.is_some_and(|energy| energy.active_w[0] > 0.0)),
        "{admission:?}"
    );
    let peryton_engine::Threshold::Adaptive(adaptive) = &admission.threshold else { panic!("it adapts") };
    assert_eq!((adaptive.objective.latency, adaptive.objective.wear, adaptive.objective.energy), (0.5, 2.0, 1.0));
    assert_eq!(admission.write_hits, peryton_engine::WriteHits::Bypass);
}

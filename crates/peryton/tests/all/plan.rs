//! `peryton lifetime`, `peryton energy` and the miss ratios of any policy.

use crate::common::{folder, peryton};
use serde_json::Value;

const CASE_STUDY: &str = "[workload]\nread = '160MB'\nwrite = '200MB'\nread_hit = 0.9\nwrite_hit = 0.85\ndirty = 0.65\n\
                          read_size = '16KiB'\nwrite_size = '16KiB'\n[cache]\nprofile = 'mixed-array-high-end-100gb'\n\
                          [storage]\nprofile = 'mixed-array-low-end-200gb'\ncount = 3\n";

/// A folder with the case study as array.toml.
fn case_study() -> tempfile::TempDir {
    let folder = folder();
    std::fs::write(folder.path().join("array.toml"), CASE_STUDY).expect("the folder is ours");
    folder
}

fn json(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

#[test]
fn the_case_study_has_the_figures_of_the_paper_and_a_setting_replaces_a_value() {
    let folder = case_study();
    let run = |more: &[&str]| peryton(folder.path(), &[&["lifetime", "array.toml"], more].concat()).ok().out;
    let latency = |found: &Value| format!("{:.3}", found["mean_latency_ms"].as_f64().unwrap_or_default());
    let found = json(&run(&["--json"]));
    assert_eq!(latency(&found), "0.136");
    assert!(found["command"].is_string() && found["peryton_version"].is_string(), "{found}");
    let fewer = json(&run(&["--set", "workload.read_hit=0.5", "--set", "storage.count=6", "--json"]));
    assert_ne!(latency(&fewer), latency(&found));
    let text = run(&["--admit", "1,0.5,0"]);
    assert!(text.contains("admit 0.5") && text.contains("2.16e-8") && text.contains("4.98e-5"), "{text}");
    let rows = json(&run(&["--admit", "1,0.5", "--json"]));
    assert_eq!(rows.as_array().map(Vec::len), Some(2));
}

#[test]
fn an_archive_is_greenest_on_disks_that_sleep() {
    let folder = folder();
    let args = [
        "energy",
        "--peak",
        "50MB",
        "--average",
        "50MB",
        "--capacity",
        "12TB",
        "--workload",
        "seq-write",
        "--devices",
        "seagate-st4000dm000,greenest-ssd1,samsung-m9t-2tb",
        "--electricity",
        "0.4",
        "--mixed",
        "--json",
    ];
    let found = json(&peryton(folder.path(), &args).ok().out);
    let rows = found["devices"].as_array().expect("a list");
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row["kind"] == "capacity"));
    assert_eq!(found["run_time_s"], 240_000.0);
    let disk = rows.iter().find(|row| row["device"] == "seagate-st4000dm000").expect("it was asked for");
    assert_eq!((&disk["devices"], &disk["policy"]), (&3.into(), &"standby".into()));
    assert_eq!(found["fleets"].as_array().map(Vec::len), Some(2));
    let text = peryton(folder.path(), &args[..args.len() - 1]).ok().out;
    assert!(text.contains("room") && text.contains("any mix, least cost: 3 × seagate-st4000dm000"), "{text}");
}

#[test]
fn shelves_draw_power_in_the_cost_of_five_years_and_in_the_ratios_of_emerald() {
    let folder = folder();
    let devices = "seagate-st4000dm000,samsung-870-evo-1tb";
    let base = ["energy", "--peak", "50MB", "--average", "50MB", "--capacity", "12TB", "--workload", "rand-write"];
    let with = |more: &[&str]| peryton(folder.path(), &[&base[..], &["--devices", devices], more].concat()).ok().out;
    let (bare, shelf) = (json(&with(&["--json"])), json(&with(&["--json", "--emerald", "--shelf-power", "2"])));
    assert!(bare.get("emerald").is_none(), "it takes seconds, so it has to be asked for");
    for row in shelf["devices"].as_array().expect("a list") {
        let name = row["device"].as_str().expect("a name");
        let number = |value: &serde_json::Value| value.as_f64().unwrap_or_else(|| panic!("{name}: {value}"));
        let (count, idle_w) = (number(&row["devices"]), number(&row["idle_w"]));
        let ratio = number(&row["capacity_mb"]) / 1e3 / (idle_w + 2.0);
        assert!((number(&shelf["emerald"][name]["idle_gb_per_w"]) / ratio - 1.0).abs() < 1e-9, "{name}");
        let (with, without) = (&shelf["ownership"][name], &bare["ownership"][name]);
        let usd = 2.0 * count * 5.0 * 8.766 * 0.12;
        let more = number(&with["energy_usd"]) - number(&without["energy_usd"]);
        assert!((more / usd - 1.0).abs() < 2e-3, "{name}: {more} USD against {usd}");
        assert_eq!(with["replaced"], without["replaced"]);
    }
    let (ssd, disk) = (&shelf["emerald"]["samsung-870-evo-1tb"], &shelf["emerald"]["seagate-st4000dm000"]);
    assert!(ssd["random_read_iops_per_w"].as_f64() > disk["random_read_iops_per_w"].as_f64());
    // 50 MB/s wear out the flash of 12 drives, rated for 600 TB each, within five years; nothing wears the disks.
    assert!(shelf["ownership"]["samsung-870-evo-1tb"]["replaced"].as_u64() > Some(0));
    assert_eq!(shelf["ownership"]["seagate-st4000dm000"]["replaced"], 0);
    let text = with(&["--emerald"]);
    assert!(text.contains("years of this load") && text.contains("GB/W"), "{text}");
}

#[test]
fn the_request_size_is_not_assumed_in_silence() {
    let folder = folder();
    let args =
        ["energy", "--peak", "400MB", "--average", "20MB", "--capacity", "40TB", "--devices", "seagate-exos-x20-20tb"];
    let random = [&args[..], &["--workload", "rand-read"]].concat();
    let text = peryton(folder.path(), &random).ok().out;
    assert!(text.contains("Assumed: requests of 1MiB") && text.contains("--request-size"), "{text}");
    let found = json(&peryton(folder.path(), &[&random[..], &["--json"]].concat()).ok().out);
    assert_eq!(found["peryton_version"], peryton_version::VERSION);
    let count = |size: &str| {
        let args = [&random[..], &["--request-size", size, "--json"]].concat();
        let found = json(&peryton(folder.path(), &args).ok().out);
        assert!(found.get("other_request_sizes").is_none());
        assert!(!found["assumptions"].to_string().contains("requests of"), "{}", found["assumptions"]);
        found["devices"][0]["devices"].clone()
    };
    let others = found["other_request_sizes"].as_array().expect("a list");
    assert_eq!(others.len(), 2);
    for (other, size) in others.iter().zip(["64KiB", "4KiB"]) {
        assert_eq!(other["devices"]["seagate-exos-x20-20tb"], count(size), "{size}");
        assert!(text.contains(size), "{text}");
    }
    assert!(count("64KiB").as_u64() > count("1MiB").as_u64());
    // A sequential pattern has no other sizes, but the assumption is printed all the same.
    let text = peryton(folder.path(), &args).ok().out;
    assert!(text.contains("Assumed: requests of 1MiB") && !text.contains("N at"), "{text}");
}

#[test]
fn a_trace_says_what_it_needs() {
    let folder = folder();
    let args = ["energy", "--trace", "trace.csv", "--devices", "greenest-ssd1", "--mixed", "--json"];
    let found = json(&peryton(folder.path(), &args).ok().out);
    // Requests of 8 KiB, two thirds reads, one every 700 µs.
    assert_eq!((&found["pattern"]["random"], &found["pattern"]["request"]), (&true.into(), &8192.into()));
    let near = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap_or(f64::NAN);
        assert!((value / expected - 1.0).abs() < 0.02, "{value} is not {expected}");
    };
    near(&found["demand"]["average_mb_per_s"], 8.192e-3 / 700e-6);
    near(&found["pattern"]["read_share"], 2.0 / 3.0);
    near(&found["demand"]["capacity_mb"], 40.96);
    let segments = found["segments"].as_array().expect("a list");
    let sum: f64 = segments.iter().filter_map(|segment| segment["accesses"].as_f64()).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{segments:?}");
}

#[test]
fn every_policy_has_its_curve() {
    let folder = folder();
    let all = "lru,wsclock,two_queue,s3fifo,arc,clock_pro,opt";
    let args = ["trace", "mrc", "trace.csv", "--replacement", all, "--sizes", "64KiB,1MiB,16MiB"];
    let rows = json(&peryton(folder.path(), &[&args[..], &["--json"]].concat()).ok().out);
    let rows = rows.as_array().expect("a list");
    assert_eq!(rows.len(), 21);
    let at = |policy: &str, size: u64| {
        rows.iter().find(|row| row["replacement"] == policy && row["cache_bytes"] == size).expect("it was asked for")
    };
    // The whole trace fits in 16 MiB, so only first accesses miss, with any policy.
    for policy in all.split(',') {
        assert_eq!(at(policy, 16 << 20)["all"], at("lru", 16 << 20)["all"], "{policy}");
        assert_eq!(at(policy, 16 << 20)["bytes"], at("lru", 16 << 20)["bytes"], "{policy}");
        let missed = |policy: &str| at(policy, 1 << 20)["all"].as_f64().expect("a ratio");
        assert!(missed("opt") <= missed(policy), "{policy} misses less than the bound");
    }
    let text = peryton(folder.path(), &args).ok().out;
    assert!(text.contains("s3fifo") && text.lines().count() == 5, "{text}");
    let sampled = ["trace", "mrc", "trace.csv", "--replacement", "arc", "--rate", "0.5"];
    assert!(peryton(folder.path(), &sampled).ok().out.contains("sampling error"));
    let points = peryton(folder.path(), &["trace", "mrc", "trace.csv", "--points", "7", "--json"]).ok().out;
    assert_eq!(json(&points).as_array().map(Vec::len), Some(7));
}

#[test]
fn devices_of_other_years_take_part_where_they_are_asked_for_and_estimates_are_marked() {
    let folder = folder();
    let args = ["energy", "--peak", "50MB", "--average", "50MB", "--capacity", "12TB", "--json"];
    let names = |more: &[&str]| -> Vec<String> {
        let found = json(&peryton(folder.path(), &[&args[..], more].concat()).ok().out);
        let rows = found["devices"].as_array().expect("a list");
        rows.iter().map(|row| row["device"].as_str().expect("a name").to_owned()).collect()
    };
    let old = names(&["--era", "2010-2013"]);
    assert!(
        old.iter().any(|name| name == "seagate-st4000dm000") && !old.iter().any(|name| name.contains("exos")),
        "{old:?}"
    );
    assert!(names(&["--era", "all"]).len() > old.len() + 3);
    peryton(folder.path(), &[&args[..], &["--era", "yesterday"]].concat()).fails(2, &["2022-2026"]);

    let pair = ["--devices", "seagate-exos-x20-20tb,seagate-st4000dm000", "--workload", "seq-write"];
    let found = json(&peryton(folder.path(), &[&args[..], &pair].concat()).ok().out);
    let row = |name: &str| {
        let rows = found["devices"].as_array().expect("a list");
        rows.iter().find(|row| row["device"] == name).expect("it takes part").clone()
    };
    let estimates = &row("seagate-exos-x20-20tb")["estimates"];
    assert!(
        estimates["busy_w"].as_array().is_some_and(|paths| paths.contains(&"disk.power.write_w".into())),
        "{estimates}"
    );
    assert!(row("seagate-st4000dm000").get("estimates").is_none(), "Li and Long measured all of it");
    let text = peryton(folder.path(), &[&args[..args.len() - 1], &pair].concat()).ok().out;
    assert!(text.contains("Rest on estimates: seagate-exos-x20-20tb"), "{text}");
}

#[test]
fn rubbish_gets_one_line() {
    let folder = case_study();
    std::fs::write(folder.path().join("bad.toml"), "[workload]\nreed = 1\n").expect("the folder is ours");
    let greenest = |more: &'static [&'static str]| {
        [&["energy", "--peak", "50MB", "--average", "50MB", "--capacity", "12TB"], more].concat()
    };
    let table: &[(Vec<&str>, &[&str])] = &[
        (vec!["lifetime"], &["--help"]),
        (vec!["lifetime", "nothing.toml"], &["nothing.toml"]),
        (vec!["lifetime", "bad.toml"], &["bad.toml"]),
        (vec!["lifetime", "trace.csv"], &["trace.csv:1"]),
        (vec!["lifetime", "array.toml", "--set", "workload.dirty=2"], &["workload.dirty is 2"]),
        (vec!["lifetime", "array.toml", "--set", "cache.cycles=0"], &["cache.cycles"]),
        (vec!["lifetime", "array.toml", "--set", "cache.cycle=1"], &["cycle"]),
        (vec!["lifetime", "array.toml", "--set", "cycles"], &["--set cycles", "key=value"]),
        (vec!["lifetime", "array.toml", "--admit", "-1"], &["-1"]),
        (vec!["energy"], &["--peak"]),
        (vec!["energy", "--peak", "1MB", "--average", "2MB", "--capacity", "1TB"], &["average"]),
        (greenest(&["--devices", "nosuchdevice"]), &["nosuchdevice"]),
        (greenest(&["--devices", "fixed"]), &["fixed", "power"]),
        (greenest(&["--alpha", "0.5"]), &["--alpha 0.5"]),
        (greenest(&["--zone", "tail", "--workload", "rand-read"]), &["--zone tail", "random accesses"]),
        (greenest(&["--price", "x"]), &["--price x"]),
        (greenest(&["--price", "intel-320-300gb=1e308"]), &["--price intel-320-300gb=1e308: ", "at most a billion"]),
        (greenest(&["--request", "0"]), &["--request-size 0"]),
        (greenest(&["--queue-depth", "0"]), &["--queue-depth 0"]),
        (greenest(&["--electricity", "-1"]), &["-1"]),
        (vec!["energy", "--trace", "nothing"], &["nothing"]),
        (vec!["trace", "mrc", "trace.csv", "--rate", "2"], &["--rate 2"]),
        (vec!["trace", "mrc", "trace.csv", "--points", "0"], &["--points 0"]),
        (vec!["trace", "mrc", "trace.csv", "--replacement", "arcs"], &["arcs"]),
        (vec!["trace", "mrc", "trace.csv", "--replacement", "arc", "--sizes", "9PiB", "--rate", "1"], &["rate"]),
        (vec!["trace", "mrc", "-", "--replacement", "arc"], &["standard input"]),
    ];
    for (args, parts) in table {
        peryton(folder.path(), args).fails(2, parts);
    }
}

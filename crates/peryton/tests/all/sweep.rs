//! `peryton sim --sweep`: a row for each combination of values.

use std::fs;

use crate::common::{folder, peryton};
use serde_json::Value;

#[test]
fn each_combination_is_a_row_with_its_label_and_its_own_figures() {
    let folder = folder();
    let sim = ["sim", "caching.toml", "tiering.toml", "--trace", "trace.csv"];
    let sweep = ["--sweep", "devices.ssd.size=8MiB,16MiB", "--sweep", "placement.replacement=lru,arc,sieve"];
    let outputs = ["--json", "out.json", "--csv", "out.csv", "--report", "out.html"];
    let table = peryton(folder.path(), &[&sim[..], &sweep, &outputs].concat()).ok().out;
    let json = fs::read(folder.path().join("out.json")).unwrap();
    let reports: Vec<Value> = serde_json::from_slice(&json).unwrap();
    let names: Vec<&str> = reports.iter().map(|report| report["design"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 12);
    assert_eq!(names[..2], ["caching size=8MiB replacement=lru", "caching size=8MiB replacement=arc"]);
    assert_eq!(names[11], "tiering size=16MiB replacement=sieve");
    assert!(names.iter().all(|name| table.contains(name)), "{table}");
    assert_eq!(reports[1]["sweep"]["devices.ssd.size"], "8MiB");
    assert_eq!(reports[1]["sweep"]["placement.replacement"], "arc");
    // Each row is what a simulation of its own gives.
    let set = ["--set", "devices.ssd.size=8MiB", "--set", "placement.replacement=arc", "--json", "-"];
    let alone = peryton(folder.path(), &[&["sim", "caching.toml", "--trace", "trace.csv"][..], &set].concat()).ok().out;
    let alone: Value = serde_json::from_str(&alone).unwrap();
    for key in ["latency_us", "latency_histogram_us", "devices", "moves", "fast_hit_ratio", "trace_hash", "overrides"] {
        assert_eq!(alone[0][key], reports[1][key], "{key}");
    }
    let csv = fs::read_to_string(folder.path().join("out.csv")).unwrap();
    assert!(csv.lines().count() == 13 && csv.lines().next().unwrap().contains("sweep.placement.replacement"), "{csv}");
    let page = fs::read_to_string(folder.path().join("out.html")).unwrap();
    assert!(page.contains("Every combination") && page.contains("class=\"sortable\""), "{page}");
    assert!(page.matches("data-value=").count() > 12 * 5 && page.contains(">placement.replacement</th>"));
    // A sweep that is not there changes nothing.
    let plain: Value =
        serde_json::from_str(&peryton(folder.path(), &[&sim[..], &["--json", "-"]].concat()).ok().out).unwrap();
    assert!(plain[0].get("sweep").is_none());
}

#[test]
fn a_key_that_one_design_does_not_have_is_swept_in_the_others() {
    let folder = folder();
    let args = [
        "sim",
        "single.toml",
        "caching.toml",
        "--trace",
        "trace.csv",
        "--sweep",
        "power.hdd.spin_down_after=1s,never",
        "--json",
        "-",
    ];
    let reports: Vec<Value> = serde_json::from_str(&peryton(folder.path(), &args).ok().out).unwrap();
    let names: Vec<&str> = reports.iter().map(|report| report["design"].as_str().unwrap()).collect();
    assert_eq!(names, ["single", "caching spin_down_after=1s", "caching spin_down_after=never"]);
}

#[test]
fn mistakes_are_one_line_that_names_what_was_meant() {
    let folder = folder();
    let sim = ["sim", "caching.toml", "--trace", "trace.csv"];
    let many = format!("devices.ssd.size={}", (1..=40).map(|n| format!("{n}MiB")).collect::<Vec<_>>().join(","));
    let more = format!("placement.max_moves={}", (1..=40).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    let table: &[(&[&str], &[&str])] = &[
        (
            &["--sweep", "placement.promotion.treshold=1,2"],
            &["--sweep placement.promotion.treshold", "did you mean 'placement.promotion.threshold'?"],
        ),
        (&["--sweep", "devices.ssd.model.chanels=1"], &["devices.ssd.model.channels"]),
        (&["--sweep", "colour.of.it=red"], &["colour.of.it", "peryton keys"]),
        (&["--sweep", "placement.max_moves"], &["KEY=VALUE,VALUE"]),
        (&["--sweep", "placement.max_moves=1,,2"], &["KEY=VALUE,VALUE"]),
        (&["--sweep", "placement.max_moves=4,many"], &["--sweep: ", "placement.max_moves=many", "whole number"]),
        (&["--sweep", "placement.max_moves=4", "--sweep", "placement.max_moves=5"], &["given twice"]),
        (&["--sweep", "devices.nvme.size=1GiB,2GiB"], &["devices.nvme.size", "does not apply to any"]),
        (&["--sweep", &many, "--sweep", &more], &["1600 simulations, more than 1000"]),
        (&["--sweep", "placement.max_moves=4,5", "--set", "devices.nvme.size=1GiB"], &["--set devices.nvme.size=1GiB"]),
    ];
    for (args, parts) in table {
        peryton(folder.path(), &[&sim[..], args].concat()).fails(2, parts);
    }
}

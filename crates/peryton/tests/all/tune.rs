//! `peryton tune` and `peryton lifetime`: their output names the inputs that it was computed from.

use crate::common::{folder, peryton};
use serde_json::Value;

#[test]
fn a_tuned_design_gives_its_figures_again_and_names_what_it_was_measured_on() {
    let folder = folder();
    let args = ["tune", "tiering.toml", "--trace", "trace.csv", "--evaluations", "8", "--out", "tuned.toml", "--json"];
    let tuned: Value = serde_json::from_str(&peryton(folder.path(), &args).ok().out).unwrap();
    let args = ["sim", "tuned.toml", "--trace", "trace.csv", "--json", "-"];
    let report: Value = serde_json::from_str(&peryton(folder.path(), &args).ok().out).unwrap();
    let report = &report[0];
    for key in ["peryton_version", "trace_hash", "trace_requests"] {
        assert_eq!(tuned[key], report[key], "{key}");
    }
    assert_eq!(tuned["trace"], "trace.csv");
    assert!(tuned["command"].as_str().unwrap().starts_with("peryton tune tiering.toml"));
    let after = &tuned["after"];
    assert_eq!(after["mean_ms"].as_f64().unwrap(), report["latency_us"]["all"]["mean"].as_f64().unwrap() / 1e3);
    assert_eq!(after["power_w"], report["mean_power_w"]);
    let text = std::fs::read_to_string(folder.path().join("tuned.toml")).unwrap();
    assert!(text.starts_with("# tiering.toml with settings found by Peryton "), "{text}");
    assert!(text.contains(report["trace_hash"].as_str().unwrap()) && text.contains("--evaluations 8"), "{text}");
}

#[test]
fn the_json_of_a_lifetime_names_its_command() {
    let folder = folder();
    let args = "lifetime --read 160MB --write 200MB --read-hit 0.9 --write-hit 0.85 --dirty 0.65 --read-size 16KiB --write-size 16KiB \
                --cache mixed-array-high-end-100gb --storage mixed-array-low-end-200gb --storage-count 3 --json";
    let args: Vec<&str> = args.split_whitespace().collect();
    let found: Value = serde_json::from_str(&peryton(folder.path(), &args).ok().out).unwrap();
    assert_eq!(found["command"], format!("peryton {}", args.join(" ")));
    assert!(found["peryton_version"].is_string() && found["lifetime_years"].is_number());
}

//! `peryton tune`: its output names the inputs that it was computed from.

use crate::common::{folder, peryton};
use serde_json::Value;

#[test]
fn a_tuned_design_gives_its_figures_again_and_names_what_it_was_measured_on() {
    let folder = folder();
    let args = ["tune", "tiering.toml", "--trace", "trace.csv", "--evaluations", "8", "--out", "tuned.toml", "--json"];
    let tuned: Value = serde_json::from_str(&peryton(folder.path(), &args).ok().out).unwrap();
    let warm = tuned["warm_up_requests"].to_string();
    assert_eq!(tuned["warm_up_requests"].as_u64().unwrap(), tuned["trace_requests"].as_u64().unwrap() / 2);
    let args = ["sim", "tuned.toml", "--trace", "trace.csv", "--warm-up-requests", &warm, "--json", "-"];
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

/// The fear: a setting is recommended from a few requests, and only the JSON says so.
#[test]
fn the_text_has_every_warning_of_the_json() {
    let folder = folder();
    let args = ["tune", "tiering.toml", "--trace", "trace.csv", "--evaluations", "8"];
    let text = peryton(folder.path(), &args).ok().out;
    let tuned: Value =
        serde_json::from_str(&peryton(folder.path(), &[&args[..], &["--json"]].concat()).ok().out).unwrap();
    let warnings = tuned["after"]["warnings"].as_array().unwrap();
    assert!(!warnings.is_empty(), "{tuned}");
    for warning in warnings {
        assert!(text.contains(warning["message"].as_str().unwrap()), "{warning}: {text}");
    }
}

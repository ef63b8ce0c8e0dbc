//! `peryton profiles`, and what surrounds the verbs.

use std::{
    io::Read,
    path::Path,
    process::{Command, Stdio},
};

use crate::common::{folder, peryton};
use serde_json::Value;

#[test]
fn every_profile_is_listed() {
    let here = Path::new(".");
    let text = peryton(here, &["profiles"]).ok().out;
    let json: Value = serde_json::from_str(&peryton(here, &["profiles", "--json"]).ok().out).unwrap();
    let names: Vec<_> = json.as_array().unwrap().iter().map(|profile| profile["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"fixed") && names.contains(&"intel-320-300gb"), "{names:?}");
    assert!(names.is_sorted(), "{names:?}");
    names.iter().for_each(|name| assert!(text.contains(name), "{name} is not in\n{text}"));
}

#[test]
fn a_profile_is_shown_beside_its_data_sheet() {
    let here = Path::new(".");
    let text = peryton(here, &["profiles", "seagate-st32000641as"]).ok().out;
    for word in ["data sheet", "model", "sequential read", "idle", "standby", "sources", "%"] {
        assert!(text.contains(word), "'{word}' is not in\n{text}");
    }
    let run = peryton(here, &["profiles", "seagate-st32000641as", "--json"]).ok();
    let json: Value = serde_json::from_str(&run.out).unwrap();
    assert!(json["model"]["seq_read"]["mb_per_s"].as_f64().unwrap() > 50.0, "{json}");
}

#[test]
fn where_values_come_from_is_shown() {
    let here = Path::new(".");
    let text = peryton(here, &["profiles", "samsung-870-evo-1tb", "--values"]).ok().out;
    for part in ["flash.read ", "\"45us\"", "estimated: not published", "fitted to seq_read_mb_per_s", "[1] kitguru"] {
        assert!(text.contains(part), "'{part}' is not in\n{text}");
    }
    let json: Value =
        serde_json::from_str(&peryton(here, &["profiles", "samsung-870-evo-1tb", "--values", "--json"]).ok().out)
            .unwrap();
    let read = &json["provenance"]["flash.read"];
    assert_eq!((read["value"].as_str(), read["origin"].as_str()), (Some("45us"), Some("estimated")));
    assert_eq!(json["provenance"]["data_sheet.rand_read_ms"]["document"], 1);
    // HD1's power was measured under loads that the model was fitted to; its data sheet's was not.
    let text = peryton(here, &["profiles", "seagate-st4000dm000"]).ok().out;
    let line =
        |what: &str| text.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what} in\n{text}"));
    assert!(line("random read 1MiB, MB/s").contains("fitted to it"), "{text}");
    assert!(line("most under load").contains("not fitted to it"), "{text}");
    assert!(line("sequential read, MB/s").contains("given it"), "{text}");
    assert!(line("values: ").contains("estimated"), "{text}");
}

#[test]
fn a_model_is_validated_against_a_real_drive() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/real-disks");
    if !traces.exists() {
        println!("skipped: the measured traces are not at hand");
        return;
    }
    let run = peryton(&traces, &["profiles", "--validate", "cheetah9LP.trace", "--json"]).ok();
    let json: Value = serde_json::from_str(&run.out).unwrap();
    let (demerit, mean) = (json["demerit_ms"].as_f64().unwrap(), json["mean_ms"].as_f64().unwrap());
    assert!(demerit < 0.1 * mean, "{demerit} of {mean} ms");
    let text = peryton(&traces, &["profiles", "--validate", "cheetah9LP.trace"]).ok().out;
    assert!(text.contains("cheetah9LP"), "{text}");
}

/// A read every 2 ms on a device that takes 90 µs, or 5 ms for one in fifty: the profile is faster, and has no tail.
#[test]
fn a_flash_profile_is_validated_against_a_trace_with_latencies() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from("time_us,op,offset,length,latency_us\n");
    for i in 0..2000 {
        let latency = if i % 50 == 49 { 5000 } else { 90 };
        text += &format!("{},R,{},4096,{latency}\n", i * 2000, i * 7919 % 4096 * 4096);
    }
    std::fs::write(folder.path().join("measured.csv"), text).unwrap();
    let args = ["profiles", "samsung-870-evo-1tb", "--validate", "measured.csv", "--report", "page.html"];
    let json: Value =
        serde_json::from_str(&peryton(folder.path(), &[&args[..], &["--json"]].concat()).ok().out).unwrap();
    let at = |key: &str| json[key].as_f64().unwrap();
    assert!((at("mean_ms") - 0.1882).abs() < 1e-9 && at("model_mean_ms") < 0.15, "{json}");
    let tail = &json["tail"][0];
    assert_eq!((tail["share"].as_f64(), tail["measured_ms"].as_f64()), (Some(0.99), Some(5.0)), "{json}");
    assert!(tail["modelled_ms"].as_f64().unwrap() < 1.0, "{json}");
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("The slowest requests") && page.contains("measured.csv"), "{page}");
    let text = peryton(folder.path(), &args).ok().out;
    assert!(text.contains("      99 %      5.000"), "{text}");
    peryton(folder.path(), &["profiles", "--report", "page.html"]).fails(2, &["--validate"]);
}

#[test]
fn rubbish_gets_one_line() {
    let folder = folder();
    let table: &[(&[&str], &[&str])] = &[
        (&["profiles", "intel-32"], &["intel-32", "did you mean"]),
        (&["profiles", "no/such.toml"], &["no/such.toml"]),
        (&["profiles", "single.toml"], &["single.toml"]),
        (&["profiles", "--validate", "nothing.trace"], &["nothing"]),
        (&[], &["--help"]),
        (&["simulate"], &["simulate"]),
        (&["--no-such-flag"], &["--no-such-flag"]),
        (&["completions", "cobol"], &["cobol"]),
    ];
    for (args, parts) in table {
        peryton(folder.path(), args).fails(2, parts);
    }
}

#[test]
fn help_version_and_completions_go_to_standard_output() {
    let here = Path::new(".");
    assert!(peryton(here, &["--version"]).ok().out.starts_with("peryton "));
    assert!(peryton(here, &["sim", "--help"]).ok().out.contains("--replay"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(peryton(here, &["completions", shell]).ok().out.contains("peryton"));
    }
}

/// `peryton … | head -1` ends without a complaint.
#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = folder();
    let mut child = Command::new(env!("CARGO_BIN_EXE_peryton"))
        .args(["trace", "head", "trace.csv", "-n", "1000000"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut byte = [0];
    child.stdout.take().unwrap().read_exact(&mut byte).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

//! `peryton calibrate --from` with the output of fio.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

/// Latencies of fio: a median, and everything else in proportion.
fn latencies(median_ns: f64, count: u64) -> Value {
    let percentile: serde_json::Map<String, Value> =
        [("1.000000", 0.8), ("50.000000", 1.0), ("99.000000", 1.5), ("99.900000", 2.0)]
            .map(|(share, factor)| (share.to_owned(), json!(median_ns * factor)))
            .into_iter()
            .collect();
    json!({ "min": median_ns * 0.7, "max": median_ns * 3.0, "mean": median_ns * 1.02, "N": count, "percentile": percentile })
}

fn none() -> Value {
    json!({ "total_ios": 0, "iops": 0.0, "clat_ns": { "min": 0, "max": 0, "mean": 0.0, "N": 0 } })
}

/// A job of a device that takes 80 µs for 4 KiB and 1 µs for each 2 KB more, and serves 16 at a time.
fn job(group: u64, rw: &str, kib: u64, depth: u64) -> Value {
    let us = 80.0 + (kib - 4) as f64 * 1.024 / 2.0;
    let took = us * 1e3;
    let side =
        json!({ "total_ios": 40_000, "iops": depth as f64 * 1e9 / took / 1.02, "clat_ns": latencies(took, 40_000) });
    let (read, write) = if rw.ends_with("read") { (side, none()) } else { (none(), side) };
    json!({
        "jobname": format!("{rw}-{kib}-{depth}"), "groupid": group, "error": 0,
        "job options": { "rw": rw, "bs": format!("{kib}k"), "iodepth": depth.to_string(), "ioengine": "io_uring", "size": "256M" },
        "read": read, "write": write, "trim": none(), "sync": { "total_ios": 0, "lat_ns": { "min": 0, "max": 0, "mean": 0.0 } },
    })
}

fn output(jobs: Vec<Value>) -> String {
    // fio writes its warnings before the JSON.
    format!(
        "fio: file hash not empty on exit\n{}\n",
        json!({ "fio version": "fio-3.33", "timestamp": 1, "jobs": jobs })
    )
}

fn calibrate(folder: &Path, files: &[&str], more: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peryton"));
    command.current_dir(folder).args(["calibrate", "--quiet", "--out", "mine.toml", "--force", "--tries", "60"]);
    command.args(files.iter().flat_map(|file| ["--from", file]));
    let out = command.args(more).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code().unwrap(), text(&out.stdout), text(&out.stderr))
}

fn all_jobs() -> Vec<Value> {
    let kinds = [("randread", 4, 1), ("randread", 4, 4), ("randread", 4, 16), ("randread", 64, 1), ("randread", 64, 4)];
    let writes = [("randwrite", 4, 1), ("randwrite", 4, 16), ("randwrite", 64, 1)];
    (0..).zip(kinds.into_iter().chain(writes)).map(|(group, (rw, kib, depth))| job(group, rw, kib, depth)).collect()
}

#[test]
fn depths_and_sizes_that_were_not_fitted_are_met() {
    let folder = tempfile::tempdir().unwrap();
    let mut jobs = all_jobs();
    jobs[5]["sync"] = json!({ "total_ios": 500, "lat_ns": { "min": 1, "max": 9e6, "mean": 2_500_000.0 } });
    fs::write(folder.path().join("fio.json"), output(jobs)).unwrap();
    let (code, out, error) =
        calibrate(folder.path(), &["fio.json"], &["--kind", "fixed", "--json", "--report", "page.html"]);
    assert_eq!(code, 0, "{error}");
    let found: Value = serde_json::from_str(&out).unwrap();
    assert!(found["not_fitted"]["demerit_share"].as_f64().unwrap() < 0.15, "{}", found["steps"]);
    assert_eq!(found["steps"].as_array().unwrap().len(), 8);
    let halves: u64 =
        found["steps"].as_array().unwrap().iter().map(|step| step["other"]["requests"].as_u64().unwrap()).sum();
    assert_eq!(halves, 1_000, "of the eight kinds, the one between the corners is only scored");
    assert!(found["sustained"][0].as_str().unwrap().starts_with("flushes: 500 took 2"), "{found}");
    let profile = fs::read_to_string(folder.path().join("mine.toml")).unwrap();
    assert!(profile.contains("flush = \"2500000ns\"") && profile.contains("as fio measured it"), "{profile}");
    assert!(fs::read_to_string(folder.path().join("page.html")).unwrap().contains("; fitted"));
}

#[test]
fn a_second_output_of_the_same_jobs_is_what_is_scored() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.json"), output(all_jobs())).unwrap();
    fs::write(folder.path().join("b.json"), output(all_jobs())).unwrap();
    let (code, out, error) = calibrate(folder.path(), &["a.json", "b.json"], &["--kind", "fixed", "--json"]);
    assert_eq!(code, 0, "{error}");
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (found["fitted"]["requests"].as_u64(), found["not_fitted"]["requests"].as_u64()),
        (Some(8_000), Some(8_000))
    );
}

#[test]
fn what_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |jobs: Vec<Value>, what: &str| {
        fs::write(folder.path().join("fio.json"), output(jobs)).unwrap();
        let (code, _, error) = calibrate(folder.path(), &["fio.json"], &[]);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(what) && error.trim().lines().count() == 1, "{what}: {error}");
    };
    let with = |change: &dyn Fn(&mut Value)| {
        let mut one = job(0, "randread", 4, 1);
        change(&mut one);
        vec![one]
    };
    refused(vec![], "has no jobs");
    refused(
        vec![job(0, "randread", 4, 1), job(0, "randwrite", 4, 1)],
        "ran at the same time and differ: put 'stonewall'",
    );
    refused(vec![job(0, "randread", 4, 1)], "too few to fit the ones and score the others");
    refused(with(&|job| job["job options"]["bssplit"] = json!("4k/50:8k/50")), "bssplit is set");
    refused(with(&|job| job["job options"]["bs"] = json!("4k,8k")), "give each size a job of its own");
    refused(with(&|job| job["job options"]["bs"] = json!("2m")), "at most 1MiB");
    refused(with(&|job| job["job options"]["iodepth"] = json!("9999")), "256 in flight");
    refused(with(&|job| job["error"] = json!(5)), "it failed (error 5)");
    refused(with(&|job| job["read"]["total_ios"] = json!(7)), "7 requests are too few");
    refused(with(&|job| job["read"]["clat_ns"]["percentile"] = json!({})), "no percentiles");
    fs::write(folder.path().join("fio.json"), "{ \"fio version\": \"fio-3.33\", \"jobs\": [").unwrap();
    let (code, _, error) = calibrate(folder.path(), &["fio.json"], &[]);
    assert!(code == 2 && error.contains("not the output of fio"), "{error}");
}

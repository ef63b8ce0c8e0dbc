//! `peryton size`: the curve against the size of the fast device, as a table, JSON, a spreadsheet and a page.

use std::fs;

use crate::common::{folder, peryton, repository};
use serde_json::Value;

#[test]
fn a_curve_is_a_table_with_a_plot_and_an_answer_that_fit_a_page() {
    let folder = folder();
    let args = ["size", "--trace", "trace.csv", "--design", "caching.toml", "--points", "6", "--speed", "0.1"];
    let run = peryton(folder.path(), &args).ok();
    assert!(run.err.is_empty(), "{}", run.err);
    for word in [
        "mean",
        "p99",
        "hit",
        "lifetime",
        "USD",
        "* enough",
        "is enough",
        "within 5 % of the best",
        "Assumed: 'ssd' costs",
    ] {
        assert!(run.out.contains(word), "'{word}' is not in\n{}", run.out);
    }
    let drawn: Vec<&str> = run.out.lines().take_while(|line| !line.starts_with("By ")).collect();
    assert!(drawn.len() > 15 && drawn.iter().any(|line| line.contains('⠤') || line.contains('⠒')), "{}", run.out);
    let plot = drawn.iter().skip_while(|line| !line.starts_with("mean response time"));
    assert!(plot.clone().count() > 5 && plot.clone().all(|line| line.chars().count() <= 80), "{}", run.out);
    // What the simulations warn about is there as well.
    assert!(run.out.contains("! all sizes: the trace has no flushes"), "{}", run.out);
    let twice = peryton(folder.path(), &args).ok().out;
    let one = peryton(folder.path(), &[&args[..], &["--jobs", "1"]].concat()).ok().out;
    assert!(twice == run.out && one == run.out, "the same input gives the same curve");
}

#[test]
fn json_csv_and_page_have_the_same_figures_as_simulations() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let size = ["size", "--trace", "trace.csv", "--design", "tiering.toml", "--sizes", "8MiB,16MiB,4MiB"];
    let outputs = ["--json", "--csv", "out.csv", "--report", "out.html", "--warm-up-requests", "500", "--speed", "0.1"];
    let printed = peryton(folder.path(), &[&size[..], &outputs].concat()).ok().out;
    let curve: Value = serde_json::from_str(&printed).unwrap();
    let points = curve["points"].as_array().unwrap();
    assert_eq!(points.iter().map(|point| point["size_bytes"].as_u64().unwrap() >> 20).collect::<Vec<_>>(), [4, 8, 16]);
    // The design has 16 MiB, so that is what it is as it stands; the volume of the others is as large.
    let sim =
        ["sim", "tiering.toml", "--trace", "trace.csv", "--warm-up-requests", "500", "--speed", "0.1", "--json", "-"];
    let report: Value = serde_json::from_str(&peryton(folder.path(), &sim).ok().out).unwrap();
    let (report, own) = (&report[0], &points[2]);
    assert_eq!(own["mean_ms"].as_f64().unwrap(), report["latency_us"]["all"]["mean"].as_f64().unwrap() / 1e3);
    assert_eq!(own["fast_hit_ratio"], report["fast_hit_ratio"]);
    assert_eq!((&curve["trace_hash"], &curve["volume_bytes"]), (&report["trace_hash"], &report["volume_bytes"]));
    assert_eq!(curve["knees"][0]["metric"], "latency");
    let csv = fs::read_to_string(path("out.csv")).unwrap();
    let header = csv.lines().next().unwrap();
    assert!(csv.lines().count() == 4 && header.starts_with("size_bytes,") && header.contains(",p99_ms,"), "{csv}");
    let page = fs::read_to_string(path("out.html")).unwrap();
    for word in ["How large &#39;ssd&#39;", "How large 'ssd'", "Response time", "Lifetime", "8MiB", "peryton size"] {
        let is_title = word.starts_with("How large");
        assert!(page.contains(word) || is_title && page.contains("How large"), "'{word}' is not in\n{page}");
    }
    for word in ["src=", "@import", "url(", "NaN,"] {
        assert!(!page.contains(word), "'{word}' is in\n{page}");
    }
    let range = [
        "size",
        "--trace",
        "trace.csv",
        "--design",
        "caching.toml",
        "--sizes",
        "4MiB..32MiB",
        "--points",
        "4",
        "--json",
    ];
    let curve: Value = serde_json::from_str(&peryton(folder.path(), &range).ok().out).unwrap();
    let sizes: Vec<u64> =
        curve["points"].as_array().unwrap().iter().map(|one| one["size_bytes"].as_u64().unwrap() >> 20).collect();
    assert!(sizes.len() == 4 && sizes[0] == 4 && sizes[3] == 32, "{sizes:?}");
}

#[test]
fn mistakes_are_one_line() {
    let folder = folder();
    let size = ["size", "--trace", "trace.csv", "--design", "caching.toml"];
    let table: &[(&[&str], &[&str])] = &[
        (&["--sizes", "big"], &["--sizes", "big"]),
        (&["--sizes", "2GiB..1GiB"], &["--sizes", "from a smaller size"]),
        (&["--within", "0"], &["--within", "5%"]),
        (&["--points", "1"], &["--points"]),
        (&["--objective", "speed"], &["speed"]),
        (&["--set", "placement.max_move=1"], &["max_moves"]),
        (&["--json", "--csv", "-"], &["--csv and --json", "standard output takes one"]),
        (&["--sizes", "1TiB"], &["devices.ssd.size", "intel-320-300gb"]),
        (&["--objective", "flush"], &["no flush"]),
        (&["--for", "0s"], &["--for 0s"]),
    ];
    for (args, parts) in table {
        peryton(folder.path(), &[&size[..], args].concat()).fails(2, parts);
    }
    let single = ["size", "--trace", "trace.csv", "--design", "single.toml"];
    peryton(folder.path(), &single).fails(2, &["single", "no fast device", "--sweep"]);
    peryton(folder.path(), &["size", "--trace", "-", "--design", "caching.toml"])
        .fails(2, &["--trace -", "save it in a file"]);
}

/// A recorded trace, as the README shows it.
#[test]
fn a_recorded_trace_has_a_knee() {
    let design = repository().join("examples/papers/caching-back.toml");
    let trace = repository().join("examples/traces/sqlite-ext4.parquet");
    let args =
        ["size", "--trace", trace.to_str().unwrap(), "--design", design.to_str().unwrap(), "--points", "5", "--json"];
    let set = ["--set", "placement.promotion.threshold=0", "--set", "placement.extent=16KiB", "--fit", "wrap"];
    let folder = tempfile::tempdir().unwrap();
    let curve: Value = serde_json::from_str(&peryton(folder.path(), &[&args[..], &set].concat()).ok().out).unwrap();
    let points = curve["points"].as_array().unwrap();
    let hits: Vec<f64> = points.iter().map(|point| point["fast_hit_ratio"].as_f64().unwrap()).collect();
    assert!(points.len() == 5 && hits.last() > hits.first(), "{hits:?}");
    let knee = curve["knees"][0]["size_bytes"].as_u64().unwrap();
    assert!(points.iter().any(|point| point["size_bytes"] == knee) && curve["verdict"].as_array().unwrap().len() > 2);
}

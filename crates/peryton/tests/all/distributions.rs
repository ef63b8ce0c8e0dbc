//! `peryton sim`: distributions and intervals in JSON and for spreadsheets.

use std::{
    io::Read,
    process::{Command, Stdio},
};

use crate::common::{folder, peryton};
use serde_json::Value;

const SIM: [&str; 6] = ["sim", "caching.toml", "single.toml", "--trace", "trace.csv", "--replay=sync"];

/// The figures of an object by their dotted names, without lists.
fn flat(value: &Value, before: &str, into: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            flat(value, &if before.is_empty() { key.clone() } else { format!("{before}.{key}") }, into)
        }),
        Value::Array(_) => {}
        leaf => into.push((before.to_owned(), leaf.clone())),
    }
}

/// The fear: the spreadsheet has other figures than the JSON, or under other names.
#[test]
fn a_spreadsheet_has_the_figures_of_the_json() {
    let folder = folder();
    for more in [&[][..], &["--interval", "200ms"]] {
        let args = [&SIM[..], &["--json", "out.json", "--csv", "-"], more].concat();
        let run = peryton(folder.path(), &args).ok();
        let json: Vec<Value> = serde_json::from_slice(&std::fs::read(folder.path().join("out.json")).unwrap()).unwrap();
        let mut read = csv::Reader::from_reader(run.out.as_bytes());
        let names = read.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = read.records().map(Result::unwrap).collect();
        let mut expected = Vec::new();
        for (number, report) in json.iter().enumerate() {
            let rows =
                if more.is_empty() { vec![report.clone()] } else { report["intervals"].as_array().unwrap().clone() };
            for row in rows {
                let mut figures = Vec::new();
                flat(&row, "", &mut figures);
                figures.retain(|(name, _)| name != "design_toml");
                if !more.is_empty() {
                    figures.push(("report".to_owned(), Value::from(number)));
                    figures.push(("design".to_owned(), report["design"].clone()));
                }
                expected.push(figures);
            }
        }
        assert_eq!(rows.len(), expected.len());
        assert!(more.is_empty() || rows.len() > 10, "{} intervals", rows.len());
        for (row, figures) in rows.iter().zip(&expected) {
            let filled = row.iter().filter(|field| !field.is_empty()).count();
            assert_eq!(filled, figures.len(), "{row:?}");
            for (name, value) in figures {
                let at = names.iter().position(|known| known == name).unwrap_or_else(|| panic!("no column {name}"));
                // Numbers are read by the same parser, which may be off by a last digit.
                let text = Value::from(&row[at]);
                let found = if value.is_string() { text } else { serde_json::from_str(&row[at]).unwrap() };
                assert_eq!(found, *value, "{name}");
            }
        }
    }
}

#[test]
fn every_quantile_follows_from_the_histogram_in_the_json() {
    let folder = folder();
    let run = peryton(folder.path(), &[&SIM[..], &["--json", "-"]].concat()).ok();
    let json: Value = serde_json::from_str(&run.out).unwrap();
    assert!(json[0].get("intervals").is_none() && json[0].get("interval_s").is_none());
    for report in json.as_array().unwrap() {
        for kind in ["read", "write"] {
            let (buckets, summary) = (&report["latency_histogram_us"][kind], &report["latency_us"][kind]);
            let numbers = |name: &str| -> Vec<f64> {
                buckets[name].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
            };
            let (to, count) = (numbers("to"), numbers("count"));
            let total: f64 = count.iter().sum();
            assert_eq!(total, summary["count"].as_f64().unwrap());
            for (name, q) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
                let (mut rank, mut index) = ((total * q).ceil(), 0);
                while rank > count[index] {
                    rank -= count[index];
                    index += 1;
                }
                let expected = to[index].min(summary["max"].as_f64().unwrap());
                assert_eq!(summary[name].as_f64(), Some(expected), "{kind} {name}");
            }
        }
    }
}

#[test]
fn rubbish_is_one_line_that_says_what_to_do() {
    let folder = folder();
    let csv = ["--csv", "-"];
    for (more, words) in [
        (&["--interval", "0s"][..], &["--interval", "above 0"][..]),
        (&["--interval", "-1s"], &["--interval", "-1s"]),
        (&["--interval=-1s"], &["--interval", "-1s"]),
        (&["--interval", "5"], &["--interval", "5", "unit"]),
        (&["--interval", "soon"], &["--interval", "soon"]),
        (&["--interval", ""], &["--interval"]),
        (&["--interval", "1ns"], &["--interval 1ns", "use a longer one"]),
        (&["--json", "-"], &["--json - and --csv -", "give the other a file"]),
    ] {
        let run = peryton(folder.path(), &[&SIM[..], &csv, more].concat());
        assert_eq!(run.code, 2, "{more:?}: {}", run.err);
        for word in words {
            assert!(run.err.contains(word), "{more:?}: '{word}' is not in {}", run.err);
        }
        assert!(run.out.is_empty(), "{more:?}");
    }
    let run = peryton(folder.path(), &[&SIM[..], &["--interval", "1s"]].concat());
    assert!(run.code == 2 && run.err.contains("add --json"), "{}", run.err);
    std::fs::create_dir(folder.path().join("taken")).unwrap();
    let run = peryton(folder.path(), &[&SIM[..], &["--csv", "taken"]].concat());
    assert!(run.code == 1 && run.err.lines().count() == 1 && run.err.contains("taken"), "{}", run.err);
    let run = peryton(folder.path(), &[&SIM[..], &["--csv", "no/such/folder.csv"]].concat());
    assert!(run.code == 1 && run.err.lines().count() == 1 && run.err.contains("no/such"), "{}", run.err);
}

/// The fear: `peryton sim --csv - | head` ends with a message about a broken pipe.
#[test]
fn a_reader_that_stops_reading_is_no_error() {
    let folder = folder();
    for to in ["--csv", "--json"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_peryton"))
            .args(SIM)
            .args(["--interval", "1ms", to, "-"])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 10];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        drop(child.stdout.take());
        let end = child.wait_with_output().unwrap();
        assert_eq!((String::from_utf8_lossy(&end.stderr).as_ref(), end.status.code()), ("", Some(0)), "{to}");
    }
}

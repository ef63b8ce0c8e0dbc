//! `peryton sim --out`: reports as tables of Parquet.

use std::{
    fs::{self, File},
    path::Path,
};

use crate::common::{folder, peryton};
use arrow_array::{
    Array, RecordBatch,
    cast::AsArray,
    types::{Float64Type, UInt64Type},
};
use arrow_schema::DataType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

const SIM: [&str; 7] =
    ["sim", "caching.toml", "single.toml", "--trace", "trace.csv", "--replay=sync", "--interval=200ms"];

/// The rows of a table: the figures that there are, by column.
fn rows(path: &Path) -> Vec<serde_json::Map<String, Value>> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    reader.flat_map(|batch| rows_of(&batch.unwrap())).collect()
}

fn rows_of(batch: &RecordBatch) -> Vec<serde_json::Map<String, Value>> {
    let value = |column: &dyn Array, row: usize| match column.data_type() {
        DataType::UInt64 => Value::from(column.as_primitive::<UInt64Type>().value(row)),
        // Numbers are read by the same parser as those of the JSON, which may be off by a last digit.
        DataType::Float64 => {
            serde_json::from_str(&Value::from(column.as_primitive::<Float64Type>().value(row)).to_string()).unwrap()
        }
        DataType::Boolean => Value::from(column.as_boolean().value(row)),
        DataType::Utf8 => Value::from(column.as_string::<i32>().value(row)),
        other => panic!("a column of {other}"),
    };
    let row = |row: usize| {
        let fields = batch.schema();
        let columns = fields.fields().iter().zip(batch.columns());
        let known = columns.filter(|(_, column)| !column.is_null(row));
        known.map(|(field, column)| (field.name().clone(), value(column, row))).collect()
    };
    (0..batch.num_rows()).map(row).collect()
}

/// The figures of an object by their dotted names, without lists.
fn flat(value: &Value, before: &str, into: &mut serde_json::Map<String, Value>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            flat(value, &if before.is_empty() { key.clone() } else { format!("{before}.{key}") }, into)
        }),
        Value::Array(_) => {}
        leaf => drop(into.insert(before.to_owned(), leaf.clone())),
    }
}

/// A row of a table about a part of a report.
fn row(number: usize, report: &Value, part: &Value) -> serde_json::Map<String, Value> {
    let mut row = serde_json::Map::new();
    row.insert("report".to_owned(), Value::from(number));
    flat(&report["design"], "design", &mut row);
    flat(part, "", &mut row);
    row
}

/// The fear: a table has other figures than the JSON, under other names, of another type, or in another report's rows.
#[test]
fn tables_have_the_figures_of_the_json() {
    let folder = folder();
    peryton(folder.path(), &[&SIM[..], &["--json", "out.json", "--out", "results/first"]].concat()).ok();
    let json: Vec<Value> = serde_json::from_slice(&fs::read(folder.path().join("out.json")).unwrap()).unwrap();
    let results = folder.path().join("results/first");
    let mut names: Vec<_> = fs::read_dir(&results).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["intervals.parquet", "latency_histograms.parquet", "reports.parquet", "warnings.parquet"]);
    let of = |parts: &dyn Fn(&Value) -> Vec<Value>| -> Vec<_> {
        let each = json.iter().enumerate();
        each.flat_map(|(number, report)| {
            parts(report).into_iter().map(|part| row(number, report, &part)).collect::<Vec<_>>()
        })
        .collect()
    };
    let reports = of(&|report| vec![report.clone()]);
    assert_eq!(rows(&results.join("reports.parquet")), reports);
    assert!(reports[0].contains_key("design_toml") && reports[0].contains_key("latency_us.read.p99"));
    let intervals = of(&|report| report["intervals"].as_array().unwrap().clone());
    assert!(intervals.len() > 10);
    assert_eq!(rows(&results.join("intervals.parquet")), intervals);
    let warnings = of(&|report| report["warnings"].as_array().unwrap().clone());
    assert_eq!(rows(&results.join("warnings.parquet")), warnings);
    let buckets = of(&|report| {
        let kinds = report["latency_histogram_us"].as_object().unwrap();
        let of_kind = |(kind, lists): (&String, &Value)| {
            let list = |name: &str| lists[name].as_array().unwrap().clone();
            let each = list("from").into_iter().zip(list("to")).zip(list("count"));
            each.map(
                |((from, to), count)| serde_json::json!({ "kind": kind, "from_us": from, "to_us": to, "count": count }),
            )
            .collect::<Vec<_>>()
        };
        kinds.iter().flat_map(of_kind).collect()
    });
    assert!(buckets.len() > 20);
    assert_eq!(rows(&results.join("latency_histograms.parquet")), buckets);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let folder = folder();
    // The reports say which command made them.
    fs::create_dir(folder.path().join("a")).unwrap();
    fs::create_dir(folder.path().join("b")).unwrap();
    let sim: Vec<String> = SIM.iter().map(|word| word.replace("trace.csv", "../trace.csv")).collect();
    let sim: Vec<String> = sim
        .into_iter()
        .map(|word| if word.ends_with(".toml") { format!("../{word}") } else { word })
        .chain(["--out".to_owned(), "results".to_owned()])
        .collect();
    let sim: Vec<&str> = sim.iter().map(String::as_str).collect();
    for place in ["a", "b"] {
        peryton(&folder.path().join(place), &sim).ok();
    }
    for name in ["reports", "intervals", "latency_histograms", "warnings"] {
        let read = |place: &str| fs::read(folder.path().join(format!("{place}/results/{name}.parquet"))).unwrap();
        assert!(read("a") == read("b"), "{name}");
    }
}

/// The fear: results of last night are overwritten, or a run of hours fails at its end.
#[test]
fn a_folder_with_something_in_it_is_refused_before_the_simulation_and_kept() {
    let folder = folder();
    let to = |out: &str| peryton(folder.path(), &["sim", "single.toml", "--trace", "trace.csv", "--out", out]);
    to("results").ok();
    let before = fs::read(folder.path().join("results/reports.parquet")).unwrap();
    to("results").fails(2, &["--out results", "not empty", "latency_histograms.parquet", "another folder"]);
    assert_eq!(fs::read(folder.path().join("results/reports.parquet")).unwrap(), before);
    assert!(!folder.path().join("results/intervals.parquet").exists());
    to("trace.csv").fails(1, &["trace.csv"]);
    to("trace.csv/below").fails(1, &["trace.csv/below"]);
    // A folder that is empty is taken.
    fs::create_dir(folder.path().join("empty")).unwrap();
    to("empty").ok();
    assert!(folder.path().join("empty/reports.parquet").exists());
}

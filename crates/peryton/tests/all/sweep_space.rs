//! `peryton sweep`: every point once, whatever happens.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::common::{folder, peryton};
use arrow_array::{Array, cast::AsArray};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

const SPACE: &str = "designs = ['caching.toml', 'tiering.toml']\ntraces = 'trace.csv'\nreplay = ['timed', 'qd=4']\n\
                     [keys]\nplacement.replacement = ['lru', 'arc', 'sieve']\n\
                     'devices.ssd.size' = { from = '8MiB', to = '16MiB', points = 2 }\n";

/// The rows by point: all texts of each.
fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let mut found = Vec::new();
    for (name, _) in parts(path) {
        let file = File::open(path.join(name)).unwrap();
        for batch in ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap() {
            let batch = batch.unwrap();
            for row in 0..batch.num_rows() {
                let mut texts = BTreeMap::new();
                for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
                    if let Some(column) = column.as_string_opt::<i32>()
                        && column.is_valid(row)
                    {
                        texts.insert(field.name().clone(), column.value(row).to_owned());
                    }
                    if let Some(column) = column.as_primitive_opt::<arrow_array::types::Float64Type>()
                        && column.is_valid(row)
                    {
                        texts.insert(field.name().clone(), Value::from(column.value(row)).to_string());
                    }
                }
                found.push(texts);
            }
        }
    }
    found
}

fn parts(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with(".parquet") {
            found.push((name, fs::read(entry.path()).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn each_point_is_a_row_with_the_figures_of_a_simulation_of_its_own() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("space.toml"), SPACE).unwrap();
    assert_eq!(
        peryton(path, &["sweep", "space.toml", "--points"]).ok().out.lines().next().unwrap(),
        "24 simulations over placement.replacement, devices.ssd.size"
    );
    let run = peryton(path, &["sweep", "space.toml", "--out", "rows", "--jobs", "2"]).ok();
    assert_eq!(run.out, "24 points in rows: 24 simulated now, 0 known before or equal to others\n");
    assert!(run.err.is_empty(), "{}", run.err);
    let rows = rows(&path.join("rows"));
    assert_eq!(rows.len(), 24);
    // They are in the order of the space, the last key fastest.
    let order: Vec<[&str; 4]> = rows
        .iter()
        .map(|row| {
            ["design_file", "replay", "sweep.placement.replacement", "sweep.devices.ssd.size"]
                .map(|key| row[key].as_str())
        })
        .collect();
    assert_eq!(order[0], ["caching", "timed", "lru", "8MiB"]);
    assert_eq!(order[1], ["caching", "timed", "lru", "16MiB"]);
    assert_eq!(order[23], ["tiering", "qd=4", "sieve", "16MiB"]);
    let set = ["--set", "placement.replacement=arc", "--set", "devices.ssd.size=8MiB"];
    let sim = ["sim", "tiering.toml", "--trace", "trace.csv", "--replay", "qd=4", "--json", "-"];
    let alone: Value = serde_json::from_str(&peryton(path, &[&sim[..], &set].concat()).ok().out).unwrap();
    let row = rows
        .iter()
        .find(|row| {
            row["design_file"] == "tiering" && row["replay"] == "qd=4" && row["sweep.placement.replacement"] == "arc"
        })
        .unwrap();
    for (name, value) in [
        ("iops", &alone[0]["iops"]),
        ("latency_us.all.mean", &alone[0]["latency_us"]["all"]["mean"]),
        ("fast_hit_ratio", &alone[0]["fast_hit_ratio"]),
        ("devices.hdd.energy_j", &alone[0]["devices"]["hdd"]["energy_j"]),
    ] {
        assert!(value.is_f64(), "{name}");
        assert_eq!(row[name], value.to_string(), "{name}");
    }
    assert_eq!(row["trace_hash"], alone[0]["trace_hash"].as_str().unwrap());
    assert_eq!(row["design_toml"], alone[0]["design_toml"].as_str().unwrap());
    // The same again, on another number of threads into another folder, is the same bytes.
    peryton(path, &["sweep", "space.toml", "--out", "again", "--jobs", "1"]).ok();
    assert!(parts(&path.join("rows")) == parts(&path.join("again")));
    // Nothing is simulated twice; of a space that has grown, what is new.
    let again = peryton(path, &["sweep", "space.toml", "--out", "rows"]).ok().out;
    assert!(again.contains("0 simulated now, 24 known"), "{again}");
    fs::write(path.join("space.toml"), SPACE.replace("'sieve'", "'sieve', 'clock'")).unwrap();
    let more = peryton(path, &["sweep", "space.toml", "--out", "rows"]).ok().out;
    assert!(more.contains("32 points in rows: 8 simulated now, 24 known"), "{more}");
}

#[test]
fn a_value_that_a_design_refuses_is_a_row_with_an_error() {
    let folder = folder();
    let path = folder.path();
    let space = "designs = 'caching.toml'\ntraces = ['trace.csv']\n[keys]\n\
                 devices.ssd.size = ['8MiB', '1KiB', '16MiB', 'large']\n";
    fs::write(path.join("space.toml"), space).unwrap();
    let sweep = |more: &[&str]| {
        let run = peryton(path, &[&["sweep", "space.toml", "--out", "rows"], more].concat());
        assert_eq!(run.code, 1, "{}", run.err);
        run.out
    };
    let out = sweep(&[]);
    assert!(out.contains("! 2 rows have an error"), "{out}");
    let found = rows(&path.join("rows"));
    let statuses: Vec<&str> = found.iter().map(|row| row["status"].as_str()).collect();
    assert_eq!(statuses, ["ok", "error", "ok", "error"]);
    assert!(
        found[3]["error"].contains("devices.ssd.size") && !found[3]["error"].contains('\n'),
        "{}",
        found[3]["error"]
    );
    assert!(!found[0].contains_key("error"));
    // Rows that are kept count as those that are new.
    let again = sweep(&[]);
    assert!(again.contains("0 simulated now, 4 known") && again.contains("! 2 rows have an error"), "{again}");
    let again: Value = serde_json::from_str(&sweep(&["--json"])).unwrap();
    assert_eq!((&again["known"], &again["errors"]), (&4.into(), &2.into()));
    let again = sweep(&["--retry-errors"]);
    assert!(again.contains("2 simulated now, 2 known") && again.contains("! 2 rows have an error"), "{again}");
    assert_eq!(rows(&path.join("rows")).len(), 4);
}

/// The fear: a sweep of days begins from the start after the machine was restarted, or has rows twice.
#[test]
fn a_sweep_that_is_killed_again_and_again_simulates_no_point_twice() {
    let folder = folder();
    let path = folder.path();
    let space = "designs = 'caching.toml'\ntraces = 'trace.csv'\nreplay = 'qd=2'\n[keys]\n\
                 'seed.value' = { from = 1, to = 60 }\n";
    fs::write(path.join("space.toml"), space).unwrap();
    peryton(path, &["sweep", "space.toml", "--out", "whole"]).ok();
    let count = || if path.join("rows").exists() { rows(&path.join("rows")).len() } else { 0 };
    let (mut kills, mut before) = (0, 0);
    while kills < 4 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_peryton"))
            .args(["sweep", "space.toml", "--out", "rows", "--jobs", "2"])
            .current_dir(path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // It is killed when it has simulated some more points, at any moment of writing.
        let deadline = Instant::now() + Duration::from_secs(60);
        let parts = || parts(&path.join("rows")).len();
        while !path.join("rows").exists() {
            sleep(Duration::from_millis(1));
        }
        let wanted = parts() + 7;
        while parts() < wanted && Instant::now() < deadline {
            sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let after = count();
        assert!(after > before && after < 60, "{before} rows, then {after}");
        (before, kills) = (after, kills + 1);
    }
    let last = peryton(path, &["sweep", "space.toml", "--out", "rows"]).ok().out;
    assert!(last.contains(&format!("{} simulated now, {before} known", 60 - before)), "{last}");
    assert!(
        parts(&path.join("rows")) == parts(&path.join("whole")),
        "the rows are those of a sweep that was left alone"
    );
}

#[test]
fn draws_are_the_same_for_a_seed_and_hypercubes_are_spread() {
    let folder = folder();
    let path = folder.path();
    let space = |by: &str, seed: u32| {
        format!(
            "designs = 'caching.toml'\ntraces = 'trace.csv'\nlimit = 50\n[draw]\nby = '{by}'\npoints = 8\nseed = {seed}\n\
             [keys]\nseed.value = {{ from = 1, to = 80 }}\n\
             demotion.high = {{ from = 0.0, to = 1.0 }}\n"
        )
        .replace("demotion.high = { from = 0.0, to = 1.0 }", "placement.replacement = ['lru', 'arc']")
    };
    let values = |by: &str, seed: u32| {
        fs::write(path.join("space.toml"), space(by, seed)).unwrap();
        let out = format!("{by}-{seed}-{}", fs::read_dir(path).unwrap().count());
        peryton(path, &["sweep", "space.toml", "--out", &out]).ok();
        let rows = rows(&path.join(&out));
        let pair = |row: &BTreeMap<String, String>| {
            (row["sweep.seed.value"].parse::<u32>().unwrap(), row["sweep.placement.replacement"].clone())
        };
        rows.iter().map(pair).collect::<Vec<_>>()
    };
    let cube = values("latin-hypercube", 1);
    assert_eq!(cube, values("latin-hypercube", 1));
    assert_ne!(cube, values("latin-hypercube", 2));
    assert_ne!(cube, values("random", 1));
    let mut eighths: Vec<u32> = cube.iter().map(|(seed, _)| (seed - 1) / 10).collect();
    eighths.sort_unstable();
    // A value next to a border may be rounded across it.
    let off: u32 = eighths.iter().zip(0..8).map(|(found, wanted)| found.abs_diff(wanted)).sum();
    assert!(off <= 1, "{cube:?}");
    assert_eq!(cube.iter().filter(|(_, replacement)| replacement == "lru").count(), 4, "{cube:?}");
}

/// The fear: the reader of TOML answers in words of its own, which say neither which key is wrong nor what belongs there.
#[test]
fn what_belongs_to_a_key_is_said_of_every_other_value() {
    let folder = folder();
    let path = folder.path();
    for (key, wrong, right) in [
        (
            "sample",
            &[
                "'1%'",
                "'abc'",
                "'0.5'",
                "0",
                "-1",
                "2",
                "1.1",
                "nan",
                "inf",
                "true",
                "[]",
                "[0.1, 'all']",
                "{}",
                "1979-05-27",
            ][..],
            "a number above 0 and up to 1, such as 0.01",
        ),
        ("speed", &["'2x'", "0", "-1", "nan", "false", "[]", "[1, []]", "{ from = 1 }"], "a number above 0, such as 2"),
        ("limit", &["'all'", "-1", "1.5", "true", "[]", "[10, 'x']"], "a whole number, 0 or more"),
        ("warm_up_requests", &["'half'", "-1", "0.5", "[]"], "a whole number, 0 or more"),
        ("new", &["'yes'", "1", "[]", "[true, 0]"], "true or false"),
        ("replay", &["8", "true", "[]", "['sync', 8]", "''"], "timed, sync, or qd=N"),
        ("fit", &["'bend'", "3", "['wrap']"], "error, wrap or skip"),
        ("traces", &["3", "[[]]", "{ files = 3 }", "{ files = [] }"], "give"),
        ("traces", &["{ files = 'trace.csv', skip_bad = 'no' }"], "in `skip_bad`: give a file, or a table with files"),
        ("designs", &["3", "[true]"], "give the path of a design file"),
        ("set", &["3", "'seed.value=1'", "[]"], "a table of keys of designs"),
        ("keys", &["3", "[]"], "a table of keys of designs"),
        (
            "draw",
            &["3", "'random'", "{ by = 3 }", "{ by = 'random', points = -1 }", "{ by = 'sobol' }"],
            "[draw] has by = ",
        ),
    ] {
        for value in wrong {
            let mut space = format!("{key} = {value}\n");
            for (other, good) in [("designs", "'caching.toml'"), ("traces", "'trace.csv'")] {
                if other != key {
                    space += &format!("{other} = {good}\n");
                }
            }
            fs::write(path.join("space.toml"), &space).unwrap();
            let run = peryton(path, &["sweep", "space.toml", "--out", "rows"]);
            assert_eq!(run.code, 2, "{space}: {}{}", run.out, run.err);
            run.fails(2, &[&format!("space.toml: {key}: "), right]);
        }
    }
    // The same share on the command line.
    for share in ["1%", "abc", "0", "-1", "2", "nan", "true", "[]", ""] {
        let run = peryton(path, &["sim", "caching.toml", "--trace", "trace.csv", &format!("--sample={share}")]);
        assert_eq!(run.code, 2, "{share}: {}{}", run.out, run.err);
        assert!(run.err.contains("give a number above 0 and up to 1, such as 0.01"), "{}", run.err);
    }
}

#[test]
fn bad_spaces_are_one_line() {
    let folder = folder();
    let path = folder.path();
    let good = "designs = 'caching.toml'\ntraces = 'trace.csv'\n";
    for (space, parts) in [
        ("", &["missing field", "designs"][..]),
        ("designs = []\ntraces = 'trace.csv'\n", &["space.toml: designs", "no design"]),
        ("designs = 'none.toml'\ntraces = 'trace.csv'\n", &["none.toml"]),
        ("designs = 'caching.toml'\ntraces = 'none.csv'\n", &["none.csv"]),
        ("designs = 'caching.toml'\ntraces = 's3://bucket/none.parquet'\n", &["is an address", "peryton.sweep"]),
        ("designs = ['caching.toml', 'caching.toml']\ntraces = 'trace.csv'\n", &["'caching' is given twice"]),
        (&format!("{good}replay = 'often'\n"), &["replay", "use timed, sync, or qd=N"]),
        (&format!("{good}replay = []\n"), &["replay", "nothing to simulate"]),
        (&format!("{good}speed = 0\n"), &["space.toml"]),
        (&format!("{good}fit = 'bend'\n"), &["fit", "use error, wrap or skip"]),
        (&format!("{good}warm_upp = true\n"), &["space.toml:3", "warm_upp"]),
        (
            &format!("{good}[keys]\nplacement.extend = ['4KiB']\n"),
            &["keys.placement.extend", "did you mean 'placement.extent'?"],
        ),
        (&format!("{good}[keys]\nplacement.extent = []\n"), &["keys.placement.extent", "no values"]),
        (&format!("{good}[keys]\nplacement.extent = '4KiB'\n"), &["keys.placement.extent", "a list of values"]),
        (&format!("{good}[keys]\nplacement.extent = {{ from = '4KiB', to = '1MiB' }}\n"), &["say how many values"]),
        (&format!("{good}[keys]\nplacement.extent = {{ from = '4KiB', to = 7 }}\n"), &["different units"]),
        (
            &format!("{good}[keys]\nplacement.extent = {{ from = '8KiB', to = '4KiB', points = 3 }}\n"),
            &["from is not below to"],
        ),
        (
            &format!("{good}[keys]\nplacement.extent = {{ from = '4KiB', to = '8KiB', point = 3 }}\n"),
            &["point", "a range has"],
        ),
        (&format!("{good}[keys]\nlogging.log_size = ['1MiB']\n"), &["space.toml"]),
        (&format!("{good}[draw]\nby = 'random'\npoints = 5\n"), &["no keys to draw"]),
        (&format!("{good}[draw]\nby = 'random'\n[keys]\nseed.value = [1]\n"), &["draw.points", "how many"]),
        (&format!("{good}[draw]\nby = 'sobol'\npoints = 5\n"), &["sobol"]),
        (&format!("{good}[keys]\nseed.value = {{ from = 1, to = 100001 }}\n"), &["say how many values"]),
        (
            &format!("{good}replay = ['sync', 'qd=2']\n[keys]\nseed.value = {{ from = 1, to = 60000 }}\n"),
            &["120000 simulations, more than 100000"],
        ),
        ("\u{0}\u{1}", &["space.toml:1"]),
    ] {
        fs::write(path.join("space.toml"), space).unwrap();
        let run = peryton(path, &["sweep", "space.toml", "--out", "rows"]);
        assert_eq!(run.code, 2, "{space}: {}{}", run.out, run.err);
        run.fails(2, parts);
        assert!(!path.join("rows").exists(), "{space}");
    }
    fs::write(path.join("space.toml"), good).unwrap();
    peryton(path, &["sweep", "space.toml"]).fails(2, &["--out"]);
    peryton(path, &["sweep", "none.toml", "--out", "rows"]).fails(2, &["none.toml", "describes a sweep"]);
    fs::create_dir(path.join("full")).unwrap();
    fs::write(path.join("full/thesis.tex"), "years").unwrap();
    peryton(path, &["sweep", "space.toml", "--out", "full"]).fails(2, &["'thesis.tex', which no sweep wrote"]);
    peryton(path, &["sweep", "space.toml", "--out", "trace.csv"]).fails(1, &["trace.csv"]);
}

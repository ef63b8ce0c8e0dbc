//! `peryton trace`: descriptions of traces, and conversions between formats.

use crate::common::{self, folder, peryton};
use serde_json::Value;

#[test]
fn a_converted_trace_is_the_same_trace() {
    let folder = folder();
    let head = |name: &str| peryton(folder.path(), &["trace", "head", name, "-n", "5000"]).ok().out;
    peryton(folder.path(), &["trace", "convert", "trace.csv", "out.parquet"]).ok();
    peryton(folder.path(), &["trace", "convert", "out.parquet", "--output", "again.csv"]).ok();
    assert_eq!(head("trace.csv"), head("out.parquet"));
    assert_eq!(head("trace.csv"), std::fs::read_to_string(folder.path().join("again.csv")).unwrap());
    assert_eq!(head("trace.csv").lines().count(), 2_001);
}

#[test]
fn head_prints_so_many_requests() {
    let folder = folder();
    let run = peryton(folder.path(), &["trace", "head", "trace.csv", "-n", "3"]).ok();
    assert_eq!(run.out, "time_us,op,offset,length,volume\n0,W,0,8192,0\n700,R,151552,8192,0\n1400,R,606208,8192,0\n");
    let run = peryton(folder.path(), &["trace", "head", "trace.csv", "-n", "2", "--json"]).ok();
    let lines: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[1]["op"], &lines[1]["offset"]), (2, &"read".into(), &151_552.into()));
}

#[test]
fn info_counts_what_is_there() {
    let folder = folder();
    let run = peryton(folder.path(), &["trace", "info", "trace.csv", "--json"]).ok();
    let json: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&json["requests"], &json["writes"]), (&2_000.into(), &667.into()));
    let text = peryton(folder.path(), &["trace", "info", "trace.csv"]).ok().out;
    assert!(text.contains("footprint") && text.contains("2,000"), "{text}");
    for verb in ["overwrites", "mrc"] {
        let run = peryton(folder.path(), &["trace", verb, "trace.csv", "--json"]).ok();
        serde_json::from_str::<Value>(&run.out).unwrap();
        assert!(!peryton(folder.path(), &["trace", verb, "trace.csv"]).ok().out.is_empty());
    }
}

#[test]
fn a_specification_is_drawn_and_can_be_replayed_at_once() {
    let folder = folder();
    let shipped = common::repository().join("examples/workloads/smoke.toml");
    std::fs::copy(shipped, folder.path().join("spec.toml")).unwrap();
    peryton(folder.path(), &["trace", "synth", "spec.toml", "a.parquet"]).ok();
    peryton(folder.path(), &["trace", "synth", "spec.toml", "b.parquet"]).ok();
    peryton(folder.path(), &["trace", "synth", "spec.toml", "c.parquet", "--seed", "77"]).ok();
    let head = |name: &str| peryton(folder.path(), &["trace", "head", name, "-n", "100000"]).ok().out;
    assert_eq!(head("a.parquet"), head("b.parquet"));
    assert_ne!(head("a.parquet"), head("c.parquet"));
    let sim = |trace: &str| {
        let args = ["sim", "single.toml", "--fit", "wrap", "--trace", trace, "--json", "-"];
        let mut json: Value = serde_json::from_str(&peryton(folder.path(), &args).ok().out).unwrap();
        // The paths of the trace differ, but the results must be equal.
        (json[0]["trace"], json[0]["command"]) = (Value::Null, Value::Null);
        json
    };
    assert_eq!(sim("spec.toml"), sim("a.parquet"));
}

#[test]
fn rubbish_gets_one_line() {
    let folder = folder();
    std::fs::write(folder.path().join("bad.toml"), "requests = 'many'\n").unwrap();
    std::fs::write(folder.path().join("empty.csv"), "").unwrap();
    let table: &[(&[&str], &[&str])] = &[
        (&["info"], &["FILE"]),
        (&["info", "nothing"], &["nothing", "No such file"]),
        (&["info", "."], &["."]),
        (&["head", "trace.csv", "-n", "x"], &["x"]),
        (&["convert", "trace.csv"], &["OUT.parquet"]),
        (&["convert", "trace.csv", "-"], &["-: ", "/dev/stdout"]),
        (&["info", "single.toml"], &["single.toml: this is a design"]),
        (&["info", "empty.csv"], &["empty.csv: no request in it"]),
        (&["head", "trace.csv", "-n", "-3"], &["-3"]),
        (&["mrc", "trace.csv", "--points", "-3"], &["--points -3: takes no value below 0"]),
        (&["synth", "bad.toml", "x.parquet"], &["bad.toml"]),
        (&["synth", "nothing.toml", "x.parquet"], &["nothing.toml"]),
        (&["mrc", "trace.csv", "--block", "0"], &["--block 0"]),
        (&["mrc", "trace.csv", "--block", "4Kib"], &["4Kib"]),
        (&["nosuchverb"], &["nosuchverb"]),
    ];
    for (args, parts) in table {
        peryton(folder.path(), &[&["trace"], *args].concat()).fails(2, parts);
    }
}

/// The fears: the trace is lost that is converted onto itself, what cannot be written is found late or reported by another name, and
/// an interruption leaves half a file.
#[test]
fn a_conversion_is_complete_or_did_not_happen() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let before = std::fs::read_to_string(at("trace.csv")).unwrap();
    peryton(folder.path(), &["trace", "convert", "trace.csv", "trace.csv"]).ok();
    let after = std::fs::read_to_string(at("trace.csv")).unwrap();
    assert_eq!(after.lines().count(), before.lines().count());
    for output in ["no/such/out.parquet", "no/such/out.csv"] {
        peryton(folder.path(), &["trace", "convert", "trace.csv", output])
            .fails(1, &[&format!("{output}: No such file")]);
    }
    std::fs::write(at("bad.csv"), before + "rubbish\n").unwrap();
    for output in ["trace.csv", "out.parquet", "out.csv"] {
        peryton(folder.path(), &["trace", "convert", "bad.csv", output]).fails(2, &["bad.csv:2002"]);
    }
    assert_eq!(std::fs::read_to_string(at("trace.csv")).unwrap(), after);
    assert!(!at("out.parquet").exists() && !at("out.csv").exists());
}

#[test]
#[cfg(target_os = "linux")]
fn an_interruption_leaves_no_part_of_a_trace() {
    let folder = folder();
    let endless = "requests = 100000000000\nfootprint = '64MiB'\nread_share = 0.5\narrival = '1us'\nsize = '4KiB'\naddress = 'uniform'\n";
    std::fs::write(folder.path().join("endless.toml"), endless).unwrap();
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    let before = files();
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_peryton"))
            .args(["trace", "synth", "endless.toml", "out.parquet"])
            .current_dir(folder.path())
            .spawn()
            .unwrap();
        let begun = std::time::Instant::now();
        while files() == before {
            assert!(begun.elapsed() < std::time::Duration::from_secs(60), "nothing is written");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        // SAFETY: the process is a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(i32::try_from(child.id()).unwrap(), signal) }, 0);
        assert!(!child.wait().unwrap().success());
        assert_eq!(files(), before, "signal {signal}");
    }
}

/// The fear: objects are cut to blocks without a word.
#[test]
fn miss_ratios_of_a_trace_of_objects_are_of_whole_objects_unless_a_block_is_given() {
    let folder = folder();
    let objects = [("a", 4_000), ("b", 5_000), ("a", 4_000), ("c", 3_000), ("b", 5_000), ("d", 20_000), ("c", 3_000)];
    let rows = objects.iter().enumerate().map(|(second, (id, size))| format!("{second},{id},{size}\n"));
    std::fs::write(folder.path().join("objects.csv"), format!("time_s,id,length\n{}", rows.collect::<String>()))
        .unwrap();
    let ratios = |more: &[&str]| {
        let args =
            ["trace", "mrc", "objects.csv", "--columns", "id=id", "--replacement", "lru,fifo", "--sizes", "10000"];
        let run = peryton(folder.path(), &[&args[..], &["--json"], more].concat()).ok();
        let rows: Value = serde_json::from_str(&run.out).unwrap();
        let ratio = |row: usize, of: &Value| (rows[row]["all"].as_f64().unwrap(), of["all"].as_f64().unwrap());
        ([ratio(0, &rows[0]["bytes"]), ratio(1, &rows[1]["bytes"])], rows[0].get("block_bytes").cloned(), run.err)
    };
    // With LRU, c takes the place of b, b that of a. With FIFO, c takes that of a. And d is larger than the cache.
    let (whole, block, said) = ratios(&[]);
    assert_eq!((whole, block), ([(5.0 / 7.0, 37.0 / 44.0), (4.0 / 7.0, 32.0 / 44.0)], None));
    assert!(!said.contains("cut"), "{said}");
    let (_, block, said) = ratios(&["--block", "4KiB"]);
    assert!(block == Some(4_096.into()) && said.contains("3 of 7 requests are for objects larger than 4KiB"), "{said}");
    let refused =
        peryton(folder.path(), &["trace", "mrc", "objects.csv", "--columns", "id=id", "--replacement", "opt"]);
    refused.fails(2, &["opt is a bound for blocks"]);
}

#[test]
fn a_trace_of_flushes_alone_has_no_miss_ratio() {
    let folder = folder();
    std::fs::write(folder.path().join("flushes.csv"), "time_us,op,offset,length\n0,F,0,0\n9,F,0,0\n").unwrap();
    for more in [&[][..], &["--replacement", "arc,opt"], &["--sizes", "1MiB"], &["--each-volume"]] {
        let words = [&["trace", "mrc", "flushes.csv"], more].concat();
        peryton(folder.path(), &words).fails(2, &["no reads and no writes"]);
    }
}

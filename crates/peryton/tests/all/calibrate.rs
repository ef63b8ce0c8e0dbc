//! `peryton calibrate DEVICE`: what it measures it keeps, an interruption loses nothing, nothing is left behind, and nothing that holds data is
//! written.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use crate::common::peryton;
use serde_json::Value;

const QUICK: [&str; 6] = ["--scratch", "64MiB", "--time", "2s", "--tries", "12"];

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_scratch_file_is_measured_and_removed_and_what_was_kept_gives_the_same_profile() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut args = vec!["calibrate", ".", "--out", "mine.toml", "--keep", "raw.json", "--report", "page.html"];
    args.extend_from_slice(&QUICK);
    let run = peryton(folder, &args).ok();
    assert_eq!(names(folder), ["mine.toml", "page.html", "raw.json"], "the scratch file is gone");
    for part in [
        "64MiB as a scratch file",
        "reads and writes it",
        "round 1 of 8: random reads, 4KiB, 1 in flight",
        "round 8 of 8",
    ] {
        assert!(run.err.contains(part), "'{part}' is not in {}", run.err);
    }
    for part in ["random writes, 4KiB, 1 in flight", "sustained sequential writes", "Without the slowest"] {
        assert!(run.out.contains(part), "'{part}' is not in {}", run.out);
    }
    let page = fs::read_to_string(folder.join("page.html")).unwrap();
    assert!(page.contains("sustained writes") && page.contains("random reads, 4KiB, 1 in flight"));
    let again = ["calibrate", "--from", "raw.json", "--out", "mine.toml", "--tries", "12", "--json", "--force"];
    let first = fs::read_to_string(folder.join("mine.toml")).unwrap();
    let report: Value = serde_json::from_str(&peryton(folder, &again).ok().out).unwrap();
    assert_eq!(fs::read_to_string(folder.join("mine.toml")).unwrap(), first);
    assert!(
        report["steps"].as_array().unwrap().len() > 10 && report["sustained"].as_array().unwrap().len() == 3,
        "{report}"
    );
    assert!(page.contains("lushes, each after a write of 4KiB: "), "what flushes took is on the page");
    let raw: Value = serde_json::from_slice(&fs::read(folder.join("raw.json")).unwrap()).unwrap();
    assert!(raw["flushes"].as_array().unwrap().iter().all(|round| round["latencies_ns"][0].as_u64() > Some(0)));
    // It is a profile as others are.
    let shown = peryton(folder, &["profiles", "mine.toml", "--values"]).ok().out;
    assert!(shown.contains("measured") && shown.contains("fitted"), "{shown}");
}

#[test]
fn an_interruption_ends_after_the_requests_in_flight_and_it_goes_on_from_what_was_kept() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let args = [
        "calibrate",
        "new",
        "--out",
        "mine.toml",
        "--keep",
        "raw.json",
        "--tries",
        "4",
        "--scratch",
        "64MiB",
        "--time",
        "60s",
    ];
    let mut child = Command::new(env!("CARGO_BIN_EXE_peryton"))
        .args(args)
        .current_dir(folder)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let second = lines.by_ref().map(Result::unwrap).find(|line| line.contains("round 2 of"));
    assert!(second.is_some());
    // SAFETY: the child is ours and was not waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let code = child.wait().unwrap().code();
    let rounds = |name: &str| {
        let raw: Value = serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap();
        raw["blocks"].as_array().unwrap().iter().map(|block| block["round"].as_u64().unwrap()).max().unwrap() + 1
    };
    assert!(rounds("raw.json") < 8, "it went on to the end");
    assert!(rest.iter().any(|line| line.contains("interrupted after")), "{rest:?}");
    // With half a round more than one there may be enough to fit.
    assert!(code == Some(0) || code == Some(2), "{code:?} {rest:?}");
    let _ = fs::remove_file(folder.join("mine.toml"));
    let args = ["calibrate", "new", "--from", "raw.json", "--keep", "whole.json", "--out", "mine.toml", "--tries", "4"];
    let more = ["--scratch", "64MiB", "--time", "3s"];
    peryton(folder, &[&args[..], &more[..]].concat()).ok();
    assert_eq!(rounds("whole.json"), 8);
    assert_eq!(names(folder), ["mine.toml", "raw.json", "whole.json"]);
}

#[test]
fn what_holds_data_is_only_read_and_what_cannot_be_measured_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let content = vec![7u8; 32 << 20];
    fs::write(folder.join("image"), &content).unwrap();
    let run = peryton(folder, &["calibrate", "image", "--out", "mine.toml", "--time", "2s", "--tries", "4"]).ok();
    assert!(run.err.contains("only reads it") && !run.out.contains("writes"), "{}{}", run.err, run.out);
    assert!(fs::read(folder.join("image")).unwrap() == content, "it was written");
    let fails = |args: &[&str], parts: &[&str]| {
        let args = [&["calibrate"], args, &["--out", "other.toml"]].concat();
        peryton(folder, &args).fails(2, parts);
        assert!(!folder.join("other.toml").exists());
    };
    fails(&[], &["name a DEVICE to measure"]);
    fails(&["image", "--destructive"], &["image: --destructive is for block devices"]);
    fails(&["new", "--destructive"], &["new: --destructive is for devices"]);
    fails(&["/dev/no-such-device"], &["/dev/no-such-device: No such file"]);
    fails(&["/dev/null"], &["/dev/null: it is neither a block device nor a file"]);
    fails(&[".", "--scratch", "100TiB"], &["does not fit", "--scratch"]);
    fails(&[".", "--scratch", "1MiB"], &["give 64MiB or more"]);
    fails(&[".", "--time", "1h"], &["--time 1h: give 2s to 10min"]);
    fs::write(folder.join("rubbish.json"), "{\"format\": 3}").unwrap();
    fails(&["--from", "rubbish.json"], &["rubbish.json: it is neither a measurement"]);
    fails(&["--from", "none.json"], &["none.json: No such file"]);
    peryton(folder, &["calibrate", "image", "--out", "mine.toml"]).fails(2, &["mine.toml: there is a file already"]);
    assert_eq!(names(folder), ["image", "mine.toml", "rubbish.json"], "nothing is left behind");
}

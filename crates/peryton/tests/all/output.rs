//! `-o FILE`: the JSON of any verb in a file.

use std::{
    fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::common::{folder, peryton};

const DRIVE: &str =
    "[devices.ssd]\nprofile = 'fixed'\nsize = '64MiB'\npath = 'ssd.img'\n[placement]\nmode = 'single'\n";

/// The fear: the file has something else than `--json` prints, or is half-written.
#[test]
fn a_file_has_what_would_be_printed_as_json() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("drive.toml"), DRIVE).unwrap();
    fs::File::create(path("ssd.img")).unwrap().set_len(64 << 20).unwrap();
    peryton(folder.path(), &["create", "drive.toml", "-o", "made.json"]).ok();
    assert!(serde_json::from_slice::<serde_json::Value>(&fs::read(path("made.json")).unwrap()).unwrap().is_object());
    for words in [
        &["trace", "info", "trace.csv"][..],
        &["trace", "head", "trace.csv", "-n", "3000"],
        &["trace", "mrc", "trace.csv", "--points", "3"],
        &["profiles"],
        &["profiles", "fixed"],
        &["keys", "placement"],
        &["check", "drive.toml"],
        &["dump", "drive.toml"],
    ] {
        let printed = peryton(folder.path(), &[words, &["--json"]].concat()).ok().out;
        for options in [&["-o", "out.json"][..], &["--json", "--output=out.json"]] {
            fs::write(path("out.json"), "before").unwrap();
            let run = peryton(folder.path(), &[words, options].concat()).ok();
            assert_eq!(run.out, "", "{words:?}");
            assert!(fs::read_to_string(path("out.json")).unwrap() == printed, "{words:?}");
        }
        assert_eq!(peryton(folder.path(), &[words, &["-o", "-"]].concat()).ok().out, printed);
        assert_eq!(peryton(folder.path(), &[words, &["-o", "/dev/stdout"]].concat()).ok().out, printed);
    }
    let sim = ["sim", "single.toml", "--trace", "trace.csv"];
    let table = peryton(folder.path(), &[&sim[..], &["-o", "out.json"]].concat()).ok().out;
    assert!(table.contains("IOPS") && fs::read_to_string(path("out.json")).unwrap().starts_with('['));
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("partial")), "{left:?}");
}

/// The fear: a failure costs what was in the file, or is noticed after hours of work.
#[test]
fn a_failure_keeps_the_file_and_a_place_that_cannot_be_written_is_found_at_once() {
    let folder = folder();
    let file = folder.path().join("out.json");
    fs::write(&file, "before").unwrap();
    peryton(folder.path(), &["trace", "info", "gone.csv", "-o", "out.json"]).fails(2, &["gone.csv"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "before");
    peryton(folder.path(), &["trace", "info", "trace.csv", "-o", "no/such/out.json"])
        .fails(1, &["-o no/such/out.json"]);
    peryton(folder.path(), &["trace", "info", "gone.csv", "-o", "."]).fails(1, &["-o .", "directory"]);
    peryton(folder.path(), &["man", "-o", "x"]).fails(2, &["-o"]);
}

/// A trace that is never read to its end.
const ENDLESS: &str = "requests = 100000000000\nfootprint = '64MiB'\nread_share = 0.5\narrival = '1us'\nsize = '4KiB'\naddress = 'uniform'\n";

/// The fear: `--jobs` is accepted and changes nothing.
#[test]
#[cfg(target_os = "linux")]
fn jobs_is_the_number_of_threads() {
    let folder = folder();
    fs::write(folder.path().join("endless.toml"), ENDLESS).unwrap();
    // The number of threads once it stays the same.
    let threads = |jobs: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_peryton"))
            .args(["sim", "single.toml", "--trace", "endless.toml", "--jobs", jobs])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let tasks = format!("/proc/{}/task", child.id());
        let (begun, mut seen, mut times) = (Instant::now(), 0, 0);
        while times < 10 && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(50));
            let now = fs::read_dir(&tasks).map_or(0, Iterator::count);
            times = if now == seen && now > 1 { times + 1 } else { 0 };
            seen = now;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        seen
    };
    let one = threads("1");
    // Where more than one is allowed, a further one reads the trace.
    assert_eq!(threads("5"), one + 5);
    for jobs in ["0", "1025", "many"] {
        peryton(folder.path(), &["sim", "single.toml", "--trace", "trace.csv", "--jobs", jobs])
            .fails(2, &["--jobs", jobs]);
    }
}

#[test]
fn results_do_not_depend_on_jobs_and_quiet_leaves_remarks_out() {
    let folder = folder();
    let sim = ["sim", "single.toml", "tiering.toml", "caching.toml", "--trace", "trace.csv", "--csv", "-"];
    let run = |more: &[&str]| peryton(folder.path(), &[&sim[..], more].concat()).ok();
    // The command is a figure of the report.
    let figures = |out: &str| out.replace(" --jobs 1", "").replace(" --jobs 3", "");
    assert_eq!(figures(&run(&["--jobs", "1"]).out), figures(&run(&["--jobs", "3"]).out));
    let convert = ["trace", "convert", "trace.csv", "--output", "new.csv"];
    assert!(peryton(folder.path(), &convert).ok().err.contains("wrote 2000 requests"));
    for quiet in ["--quiet", "-q"] {
        assert_eq!(peryton(folder.path(), &[&convert[..], &[quiet]].concat()).ok().err, "");
        assert_eq!(peryton(folder.path(), &[&[quiet], &convert[..]].concat()).ok().err, "");
    }
    peryton(folder.path(), &["-q", "trace", "info", "gone.csv"]).fails(2, &["gone.csv"]);
}

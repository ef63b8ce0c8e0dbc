//! Options that every verb has.

use std::{
    fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::common::{folder, peryton};

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

/// The fear: a remark that cannot be written ends the verb in the middle of its work.
#[test]
#[cfg(target_os = "linux")]
fn a_remark_for_which_standard_error_has_no_room_ends_nothing() {
    let folder = folder();
    for device in ["fast.img", "slow.img"] {
        fs::File::create(folder.path().join(device)).unwrap().set_len(64 << 20).unwrap();
    }
    let create = |err: Stdio, design: &str, force: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_peryton"));
        command.args(["create", design, "--fast", "fast.img", "--slow", "slow.img"]).args(force);
        command.current_dir(folder.path()).stdout(Stdio::null()).stderr(err).output().unwrap()
    };
    assert!(!create(Stdio::piped(), "v.toml", &[]).stderr.is_empty(), "it has a remark");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(create(full.into(), "w.toml", &["--force"]).status.code(), Some(0));
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

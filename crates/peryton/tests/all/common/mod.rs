//! Runs the program and checks its results.

#![allow(dead_code, clippy::unwrap_used)]

pub mod openmetrics;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The result of a run.
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

pub fn peryton(folder: &Path, args: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_peryton")).args(args).current_dir(folder).output().unwrap();
    Run {
        code: output.status.code().expect("it was not killed"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Run {
    /// Checks that the run succeeded.
    pub fn ok(self) -> Run {
        assert_eq!(self.code, 0, "{}", self.err);
        self
    }

    /// Checks that it says what it was asked, also if that is dirty, damaged or lost: these are codes from 4 on.
    pub fn said(self) -> Run {
        assert!(self.code == 0 || self.code >= 4, "{}: {}", self.code, self.err);
        self
    }

    /// Checks that it failed with one line that contains these parts.
    pub fn fails(self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        assert_eq!(self.err.lines().count(), 1, "not one line: {}", self.err);
        assert!(self.err.starts_with("peryton: ") && self.out.is_empty(), "{}{}", self.err, self.out);
        parts.iter().for_each(|part| assert!(self.err.contains(part), "'{part}' is not in: {}", self.err));
    }
}

/// A folder with a trace of 2,000 requests and three designs.
pub fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = String::from("time_us,op,offset,length\n");
    for n in 0u64..2_000 {
        let op = if n % 3 == 0 { 'W' } else { 'R' };
        trace += &format!("{},{op},{},8192\n", n * 700, n * n * 37 % 10_000 * 4096);
    }
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("trace.csv", &trace);
    let single = "[devices.ssd]\nprofile = 'fixed'\nsize = '64MiB'\n[placement]\nmode = 'single'\n";
    write("single.toml", single);
    let hybrid = "[devices.ssd]\nprofile = 'intel-320-300gb'\nsize = '16MiB'\n\
                  [devices.hdd]\nprofile = 'seagate-st32000641as'\nsize = '64MiB'\n\
                  [placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\nextent = '64KiB'\n\
                  promotion = { threshold = 0 }\ndemotion = { low = 4, high = 8 }\n[power.hdd]\nspin_down_after = '5s'\n";
    write("caching.toml", hybrid);
    write("tiering.toml", &hybrid.replace("caching", "tiering"));
    folder
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

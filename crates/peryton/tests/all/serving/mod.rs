//! A running `peryton serve`.

pub mod web;

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::{common::peryton, served::Client};

/// A running `peryton serve v.toml`, which is killed with the test.
pub struct Serving(Child);

impl Serving {
    /// Makes a volume of this design, and serves it.
    pub fn create(folder: &Path, design: &str) -> (Serving, Client) {
        fs::write(folder.join("v.toml"), design).expect("it can be written");
        peryton(folder, &["create", "v.toml"]).ok();
        Serving::start(folder, &[])
    }

    /// Its log is in `serve.log`.
    pub fn start(folder: &Path, more: &[&str]) -> (Serving, Client) {
        let began = Instant::now();
        let _ = fs::remove_file(folder.join("v.nbd"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_peryton"));
        let command = command.args(["serve", "v.toml", "--drills"]).args(more).current_dir(folder);
        let log = fs::File::create(folder.join("serve.log")).expect("it can be made");
        let serving = Serving(command.stdout(Stdio::null()).stderr(log).spawn().expect("it starts"));
        while !folder.join("v.nbd").exists() {
            assert!(began.elapsed() < Duration::from_secs(60), "it does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        (serving, Client::connect(&folder.join("v.nbd")))
    }

    /// The memory of its own that it has touched.
    #[allow(dead_code)]
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux says it");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("it is a number") << 10
    }

    /// Waits until it has ended because it was asked to.
    #[allow(dead_code)]
    pub fn ended(mut self) {
        let status = self.0.wait().expect("it is ours");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if self.0.try_wait().expect("it is ours").is_none() {
            self.0.kill().and_then(|()| self.0.wait()).expect("it is ours");
        }
    }
}

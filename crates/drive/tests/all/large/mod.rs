//! Volumes of 15 and 16 TiB on sparse files, served by a separate process that can be killed.
#![allow(dead_code, missing_docs, clippy::unwrap_used)] // no user uses all of it

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use peryton_drive::{Endpoint, Service, Settings};
use peryton_engine::{Config, Hybrid, Logging, Placement, Tuning};
use peryton_units::Bytes;

use super::served::{Client, FAST, SLOW, spec};

const DIRECTORY: &str = "PERYTON_LARGE_DIRECTORY";
const CASE: &str = "PERYTON_LARGE_CASE";
pub const CASES: [&str; 3] = ["tiering", "caching", "logging"];

pub fn config(case: &str) -> Config {
    let tib = |n: u64| Bytes::gib(n << 10);
    let pair = Hybrid { fast: FAST, slow: SLOW, extent: Bytes::mib(1) };
    let (placement, devices) = match case {
        "tiering" => (Placement::Tiering(pair), vec![tib(1), tib(15)]),
        "caching" => (Placement::Caching(pair), vec![tib(1), tib(15)]),
        _ => {
            let pair = Logging { primaries: SLOW.into(), log: FAST, block: Bytes::kib(4) };
            (Placement::Logging(pair), vec![Bytes::gib(64), tib(15)])
        }
    };
    Config { devices, placement, tuning: Tuning { promotion_threshold: 0, ..Tuning::default() } }
}

/// Serves, if this process was started by [`start`]; returns whether it was.
pub fn serve() -> bool {
    let (Ok(directory), Ok(case)) = (env::var(DIRECTORY), env::var(CASE)) else { return false };
    let directory = PathBuf::from(directory);
    let endpoint = Endpoint::Unix(directory.join("nbd"));
    Service::open(&spec(&directory, config(&case)), &endpoint, Settings::default()).unwrap().run().unwrap();
    true
}

/// Starts a process that serves a volume.
pub fn start(directory: &Path, case: &str, args: &[&str]) -> Child {
    let _ = fs::remove_file(directory.join("nbd"));
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(args).env(DIRECTORY, directory).env(CASE, case).stdout(Stdio::null()).spawn().unwrap()
}

/// Waits until the server listens, and connects.
pub fn connect(directory: &Path) -> Client {
    let began = Instant::now();
    while !directory.join("nbd").exists() {
        assert!(began.elapsed() < Duration::from_secs(300), "the server does not come to listen");
        thread::sleep(Duration::from_millis(2));
    }
    Client::connect(&directory.join("nbd"))
}

/// Offsets all over a volume: nearly every one is in another extent.
pub fn places(client: &Client, count: u64) -> Vec<u64> {
    (0..count).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (client.size / 4096)) * 4096).collect()
}

/// Writes a block to each place, and flushes.
pub fn fill(client: &mut Client, places: &[u64]) {
    for (n, at) in (0..).zip(places) {
        client.write(*at, &block(n), false).unwrap();
    }
    client.flush().unwrap();
}

/// The content of the block with this number.
pub fn block(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(512)
}

/// The processor time of a process, which does not depend on other processes.
pub fn processor_s(child: &Child) -> f64 {
    // The time of all its threads; the name before it may contain spaces.
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let (_, after) = stat.rsplit_once(')').unwrap();
    let ticks: f64 = after.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap()).sum();
    ticks / 100.0
}

pub fn most_memory_mib(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

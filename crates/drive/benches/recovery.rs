//! How long a large volume takes to come back after kill -9, and how much memory: `cargo bench -p peryton-drive --bench
//! recovery`. Sparse files, in the directory for temporary files (TMPDIR); ext4 holds files of up to 16 TiB.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../tests/served/mod.rs"]
mod served;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use peryton_drive::{Endpoint, Service, Settings, format};
use peryton_engine::{Config, Hybrid, Logging, Placement, Tuning};
use peryton_units::Bytes;
use served::{Client, FAST, SLOW, spec};

const DIRECTORY: &str = "PERYTON_BENCH_DIRECTORY";
const CASE: &str = "PERYTON_BENCH_CASE";
const WRITES: u64 = 4000;
const CASES: [&str; 3] = ["tiering", "caching", "logging"];

fn config(case: &str) -> Config {
    let tib = |n: u64| Bytes::gib(n << 10);
    let pair = Hybrid { fast: FAST, slow: SLOW, extent: Bytes::mib(1) };
    let (placement, devices) = match case {
        "tiering" => (Placement::Tiering(pair), vec![tib(1), tib(15)]),
        "caching" => (Placement::Caching(pair), vec![tib(1), tib(15)]),
        _ => {
            let pair = Logging { primary: SLOW, log: FAST, block: Bytes::kib(4) };
            (Placement::Logging(pair), vec![Bytes::gib(64), tib(15)])
        }
    };
    Config { devices, placement, tuning: Tuning { promotion_threshold: 0, ..Tuning::default() } }
}

fn start(directory: &Path, case: &str) -> Child {
    let _ = fs::remove_file(directory.join("nbd"));
    let mut command = Command::new(env::current_exe().unwrap());
    command.env(DIRECTORY, directory).env(CASE, case).stdout(Stdio::null()).spawn().unwrap()
}

/// Waits until it listens.
fn connect(directory: &Path) -> Client {
    while !directory.join("nbd").exists() {
        thread::sleep(Duration::from_millis(2));
    }
    Client::connect(&directory.join("nbd"))
}

fn most_memory_mib(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn main() {
    if let (Ok(directory), Ok(case)) = (env::var(DIRECTORY), env::var(CASE)) {
        let directory = PathBuf::from(directory);
        let endpoint = Endpoint::Unix(directory.join("nbd"));
        let spec = spec(&directory, config(&case));
        Service::open(&spec, &endpoint, Settings::default()).unwrap().run().unwrap();
        return;
    }
    println!(
        "{:<8} {:>8} {:>9} {:>9} {:>11} {:>12} {:>8}",
        "", "volume", "format", "open", "after kill", "memory", "written"
    );
    for case in CASES {
        let directory = tempfile::tempdir().unwrap();
        let began = Instant::now();
        format(&spec(directory.path(), config(case)), false).unwrap();
        let formatted = began.elapsed();
        let began = Instant::now();
        let mut child = start(directory.path(), case);
        let mut client = connect(directory.path());
        let opened = began.elapsed();
        // All over the volume: nearly every write is of another extent.
        let place = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (client.size / 4096)) * 4096;
        let places: Vec<u64> = (0..WRITES).map(place).collect();
        for (n, at) in (0_u64..).zip(&places) {
            client.write(*at, &n.to_le_bytes().repeat(512), false).unwrap();
        }
        client.flush().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let began = Instant::now();
        let mut child = start(directory.path(), case);
        let mut client = connect(directory.path());
        let recovered = began.elapsed();
        let memory = most_memory_mib(&child);
        for (n, at) in (0_u64..).zip(&places) {
            assert!(client.read(*at, 4096).unwrap() == n.to_le_bytes().repeat(512), "write {n} is lost");
        }
        let tib = client.size as f64 / f64::from(1 << 20) / f64::from(1 << 20);
        println!(
            "{case:<8} {tib:>4.1} TiB {:>7.2} s {:>7.2} s {:>9.2} s {memory:>8} MiB {:>4} MiB",
            formatted.as_secs_f64(),
            opened.as_secs_f64(),
            recovered.as_secs_f64(),
            (WRITES * 4096) >> 20,
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

//! Measures the time and memory that a large volume needs to recover after kill -9: `cargo bench -p peryton-drive
//! --bench recovery`. It uses sparse files in the temporary directory (TMPDIR); ext4 supports files of up to 16 TiB.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../tests/all/large/mod.rs"]
mod large;
#[path = "../tests/all/served/mod.rs"]
mod served;

use std::time::Instant;

use peryton_drive::format;
use served::spec;

const WRITES: u64 = 4000;

fn main() {
    if large::serve() {
        return;
    }
    println!(
        "{:<8} {:>8} {:>9} {:>9} {:>11} {:>12} {:>8}",
        "", "volume", "format", "open", "after kill", "memory", "written"
    );
    for case in large::CASES {
        let directory = tempfile::tempdir().unwrap();
        let began = Instant::now();
        format(&spec(directory.path(), large::config(case)), false).unwrap();
        let formatted = began.elapsed();
        let began = Instant::now();
        let mut child = large::start(directory.path(), case, &[]);
        let mut client = large::connect(directory.path());
        let opened = began.elapsed();
        let places = large::places(&client, WRITES);
        large::fill(&mut client, &places);
        child.kill().unwrap();
        child.wait().unwrap();
        let began = Instant::now();
        let mut child = large::start(directory.path(), case, &[]);
        let mut client = large::connect(directory.path());
        let recovered = began.elapsed();
        let memory = large::most_memory_mib(&child);
        for (n, at) in (0..).zip(&places) {
            assert!(client.read(*at, 4096).unwrap() == large::block(n), "write {n} is lost");
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

//! The fear: after a crash a large volume needs minutes to recover, or more memory than there is. `cargo bench -p
//! peryton-drive --bench recovery` measures this; the bounds here hold on a loaded machine, without optimisation.

use crate::large;

use std::time::Instant;

use crate::served::spec;
use peryton_drive::format;

const WRITES: u64 = 500;
/// A limit of processor time, because elapsed time depends on the load of the machine.
const MOST_SECONDS: f64 = 30.0;
const MOST_MEMORY_MIB: u64 = 1024;

/// Not a test: the code of the child process.
#[test]
fn child() {
    large::serve();
}

fn comes_back(case: &str) {
    let directory = tempfile::tempdir().unwrap();
    if let Err(error) = format(&spec(directory.path(), large::config(case)), false) {
        println!("skipped: no sparse files of 15 TiB here: {error}");
        return;
    }
    let child = ["--exact", "large_volumes::child", "--nocapture"];
    let mut server = large::start(directory.path(), case, &child);
    let mut client = large::connect(directory.path());
    assert!(client.size >= 15 << 40);
    let places = large::places(&client, WRITES);
    large::fill(&mut client, &places);
    server.kill().unwrap();
    server.wait().unwrap();
    let began = Instant::now();
    let mut server = large::start(directory.path(), case, &child);
    let mut client = large::connect(directory.path());
    let (took, memory) = (began.elapsed(), large::most_memory_mib(&server));
    let worked = large::processor_s(&server);
    let lost = (0..).zip(&places).find(|(n, at)| client.read(**at, 4096).unwrap() != large::block(*n));
    server.kill().unwrap();
    server.wait().unwrap();
    println!("{case}: {took:.1?}, {worked:.1} s of a processor, {memory} MiB");
    assert_eq!(lost, None, "a write that was flushed is lost");
    assert!(worked < MOST_SECONDS && memory < MOST_MEMORY_MIB, "{worked} s of a processor, {memory} MiB");
}

#[test]
fn sixteen_tebibytes_of_tiers_come_back_in_seconds() {
    comes_back("tiering");
}

#[test]
fn a_log_before_fifteen_tebibytes_comes_back_in_seconds() {
    comes_back("logging");
}

//! Speed of the flash model: `cargo bench -p peryton-device --bench flash`. The throughput is in host commands; in
//! steady state each causes several page operations.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use peryton_device::{Accepted, Device, Io, Profile, Tag};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const COMMANDS: u64 = 100_000;
const USED: Bytes = Bytes::gib(4);

fn device(precondition: &str) -> Device {
    let overrides = toml::from_str(&format!("precondition = \"{precondition}\"")).expect("TOML");
    let profile = Profile::named("intel-320-300gb").and_then(|profile| profile.with_model(&overrides));
    profile.and_then(|profile| profile.build(Some(USED), 1)).expect("a shipped profile")
}

fn commands(c: &mut Criterion, name: &str, mut device: Device, mut next: impl FnMut() -> Io) {
    let mut now = Nanos::ZERO;
    let mut group = c.benchmark_group("flash");
    group.throughput(Throughput::Elements(COMMANDS)).sample_size(20);
    group.bench_function(name, |b| {
        b.iter(|| {
            for _ in 0..COMMANDS {
                match device.submit(now, Tag(0), next()) {
                    Accepted::At(end) => now = end,
                    Accepted::Queued => unreachable!("flash knows the end at once"),
                }
            }
            black_box(now)
        });
    });
    let stats = device.stats(now);
    let programmed = stats.nand_bytes_written.unwrap_or_default().0 as f64;
    if stats.bytes_written.0 > 0 {
        eprintln!("{name}: write amplification {:.2}", programmed / stats.bytes_written.0 as f64);
    }
}

fn benches(c: &mut Criterion) {
    let pages = USED.0 / 4096;
    let page = |op, index: u64| Io { op, at: Bytes(index * 4096), len: Bytes(4096) };
    let mut random = Pcg64Mcg::seed_from_u64(1);
    commands(c, "random write, steady state", device("random"), || page(Op::Write, random.random_range(0..pages)));
    let mut random = Pcg64Mcg::seed_from_u64(2);
    commands(c, "random read", device("sequential"), || page(Op::Read, random.random_range(0..pages)));
    let mut index = 0;
    commands(c, "sequential write", device("sequential"), || {
        index = (index + 1) % pages;
        page(Op::Write, index)
    });
}

criterion_group!(flash, benches);
criterion_main!(flash);

//! Measures the simulation time of a command.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use peryton_device::{Accepted, Device, Io, Model, Profile, Tag, disk::Queue};
use peryton_units::{Bytes, Nanos, Op};

/// A small xorshift generator, so that the benchmark measures the disk and not the generator.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn first_come(name: &str, write_cache: bool) -> Device {
    let mut profile = Profile::named(name).expect("it ships");
    if let Model::Disk(disk) = &mut profile.model {
        disk.queue = Queue::default();
        if !write_cache {
            disk.buffer.write_cache = None;
        }
    }
    profile.build(None, 1).expect("it is sound")
}

fn commands(c: &mut Criterion) {
    const BATCH: u64 = 1000;
    let mut group = c.benchmark_group("disk");
    group.throughput(Throughput::Elements(BATCH));
    let cases: [(&str, Op, u64, bool, bool); 6] = [
        ("random_read_4k", Op::Read, 4096, true, true),
        ("random_read_1m", Op::Read, 1 << 20, true, true),
        ("sequential_read_64k", Op::Read, 65536, false, true),
        ("random_write_4k_through", Op::Write, 4096, true, false),
        ("random_write_4k_cached", Op::Write, 4096, true, true),
        ("sequential_write_64k_cached", Op::Write, 65536, false, true),
    ];
    for (name, op, size, scattered, cache) in cases {
        let mut disk = first_come("seagate-exos-x20-20tb", cache);
        let places = disk.capacity().0 / size - 1;
        let (mut now, mut seed, mut next) = (Nanos::ZERO, 42, 0);
        group.bench_function(name, |b| {
            b.iter(|| {
                for _ in 0..BATCH {
                    next = if scattered { random(&mut seed) % places } else { (next + 1) % places };
                    let io = Io { op, at: Bytes(next * size), len: Bytes(size) };
                    if let Accepted::At(end) = disk.submit(now, Tag(0), black_box(io)) {
                        now = end;
                    }
                }
                now
            })
        });
    }
    let mut queued =
        Profile::named("seagate-exos-x20-20tb").and_then(|profile| profile.build(None, 1)).expect("it ships");
    let places = queued.capacity().0 / 4096 - 1;
    let (mut seed, mut completed) = (42, Vec::new());
    let mut submit = |disk: &mut Device, now, tag| {
        let io = Io { op: Op::Read, at: Bytes(random(&mut seed) % places * 4096), len: Bytes(4096) };
        disk.submit(now, Tag(tag), io);
    };
    for tag in 0..32 {
        submit(&mut queued, Nanos::ZERO, tag);
    }
    group.bench_function("random_read_4k_sptf_32", |b| {
        b.iter(|| {
            let mut done = 0;
            while done < BATCH {
                let Some(now) = queued.next_event() else { break };
                queued.advance(now, &mut completed);
                for (Tag(tag), end) in completed.drain(..) {
                    submit(&mut queued, end.max(now), tag);
                    done += 1;
                }
            }
        })
    });
    group.finish();
}

criterion_group!(benches, commands);
criterion_main!(benches);

//! Requests per second of reading and writing Parquet, drawing, and describing traces, on one core. The file was just
//! written, so it is in the page cache.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use peryton_trace::{
    Characteristics, ParquetSource, ParquetWriter, Request, Source, SynthSource, SynthSpec, TraceError,
};

const REQUESTS: u64 = 4_000_000;

/// A trace similar to a recorded one: sizes and places of several kinds, sequential runs, flushes, times in
/// nanoseconds.
const MIXED: &str = r#"
    requests = 4_000_000
    footprint = "64GiB"
    read_share = 0.6
    arrival = { kind = "pareto", mean = "200us", shape = 1.5 }
    size = { kind = "weighted", choices = [["4KiB", 0.6], ["8KiB", 0.1], ["64KiB", 0.2], ["256KiB", 0.1]] }
    address = { kind = "zipf", exponent = 0.9, extent = "1MiB" }
    sequential_share = 0.3
    flush = { share = 0.02 }
"#;

const ZIPF: &str = r#"
    requests = 4_000_000
    footprint = "4096000000B"
    read_share = 1.0
    arrival = "100us"
    size = "4KiB"
    address = { kind = "zipf", exponent = 1.0, extent = "4KiB" }
"#;

fn synth(text: &str) -> SynthSource {
    let spec = SynthSpec::parse(text, "bench").expect("the specification is right");
    SynthSource::new(&spec, "bench").expect("the specification can be met")
}

fn drain(source: &mut dyn Source) -> u64 {
    let (mut count, mut batch) = (0, Vec::new());
    loop {
        source.next_batch(&mut batch).expect("the trace is whole");
        if batch.is_empty() {
            return count;
        }
        // Each request is read, as by a simulator.
        count += black_box(&batch).len() as u64;
    }
}

fn collect(source: &mut dyn Source) -> Vec<Request> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.next_batch(&mut batch).expect("the trace is whole");
        if batch.is_empty() {
            return all;
        }
        all.extend_from_slice(&batch);
    }
}

struct Given<'a>(&'a [Request]);

impl Source for Given<'_> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        batch.clear();
        let (now, rest) = self.0.split_at(self.0.len().min(peryton_trace::BATCH));
        batch.extend_from_slice(now);
        self.0 = rest;
        Ok(())
    }
}

fn parquet(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let mut group = c.benchmark_group("parquet");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for (name, spec) in [("mixed", MIXED), ("zipf", ZIPF)] {
        let requests = collect(&mut synth(spec));
        let path = dir.path().join(name);
        let write = || {
            let mut writer = ParquetWriter::create(&path, name).expect("the directory can be written");
            requests.chunks(peryton_trace::BATCH).for_each(|chunk| writer.write(chunk).expect("there is space"));
            writer.finish().expect("there is space")
        };
        write();
        let bytes = std::fs::metadata(&path).expect("it was just written").len();
        println!("{name}: {:.2} bytes a request", bytes as f64 / REQUESTS as f64);
        group.bench_function(format!("read/{name}"), |b| {
            b.iter(|| {
                let mut source = ParquetSource::open(&path).expect("it was just written");
                assert_eq!(drain(&mut source), REQUESTS);
            });
        });
        group.bench_function(format!("write/{name}"), |b| b.iter(write));
    }
    group.finish();
}

fn drawing(c: &mut Criterion) {
    let mut group = c.benchmark_group("synth");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for (name, spec) in [("mixed", MIXED), ("zipf", ZIPF)] {
        group.bench_function(name, |b| {
            b.iter_batched(
                || synth(spec),
                |mut source| assert_eq!(drain(&mut source), REQUESTS),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn describing(c: &mut Criterion) {
    let mut group = c.benchmark_group("characteristics");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for (name, spec) in [("mixed", MIXED), ("zipf", ZIPF)] {
        let requests = collect(&mut synth(spec));
        group.bench_function(name, |b| {
            b.iter(|| Characteristics::of(&mut Given(&requests)).expect("memory cannot fail"));
        });
    }
    group.finish();
}

criterion_group!(benches, parquet, drawing, describing);
criterion_main!(benches);

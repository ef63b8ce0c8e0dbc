//! Requests per second of reading text and binary traces, on one core, from memory. The time is the thread's own if the
//! system reports it (Linux), so that other work on the machine does not count.

use std::{
    fmt::Write,
    hint::black_box,
    io::Cursor,
    time::{Duration, Instant},
};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use peryton_trace::{Format, OpenOptions, Source, read};

const REQUESTS: u64 = 1_000_000;

/// A multiplicative generator is random enough for addresses.
fn scattered(n: u64) -> u64 {
    n.wrapping_mul(6_364_136_223_846_793_005).rotate_left(23) % (1 << 28)
}

fn text(line: impl Fn(&mut String, u64)) -> Vec<u8> {
    let mut text = String::new();
    (0..REQUESTS).for_each(|n| line(&mut text, n));
    text.into_bytes()
}

fn traces() -> Vec<(Format, Vec<u8>)> {
    let word = |n: u64| if n.is_multiple_of(3) { "Write" } else { "Read" };
    let letter = |n: u64| &word(n)[..1];
    let msr = text(|out, n| {
        let (at, offset) = (128_166_372_003_061_629 + n * 977, scattered(n) * 512);
        writeln!(out, "{at},src1,0,{},{offset},{},{}", word(n), 4096 + n % 8 * 4096, n % 5000).expect("a string grows");
    });
    let mut csv = b"time_us,op,offset,length\n".to_vec();
    csv.extend(text(|out, n| {
        writeln!(out, "{},{},{},4096", n * 190, letter(n), scattered(n) * 512).expect("a string grows");
    }));
    let ftrace = text(|out, n| {
        let (s, us, sector) = (7079 + n / 5000, n % 5000 * 200, scattered(n));
        writeln!(
            out,
            "   cmake-15820   [000] .....  {s}.{us:06}: block_bio_queue: 7,0 {}S {sector} + 8 [cmake]",
            letter(n)
        )
        .expect("a string grows");
    });
    let disksim = text(|out, n| {
        writeln!(out, "{} 0 {} 16 {}", n * 1000, scattered(n), n & 1).expect("a string grows");
    });
    let mut vscsi = Vec::new();
    for n in 0..REQUESTS {
        for word in [n as u32, 4096, 1, 0x0100_002a] {
            vscsi.extend(word.to_le_bytes());
        }
        vscsi.extend(scattered(n).to_le_bytes());
        vscsi.extend((n * 100).to_le_bytes());
    }
    vec![
        (Format::Msr, msr),
        (Format::Csv, csv),
        (Format::Ftrace, ftrace),
        (Format::Disksim, disksim),
        (Format::Vscsi, vscsi),
    ]
}

fn drain(bytes: &'static [u8]) -> u64 {
    let mut reader = read("bench", Cursor::new(bytes), &OpenOptions::default()).expect("a good trace");
    let (mut count, mut batch) = (0, Vec::new());
    loop {
        reader.next_batch(&mut batch).expect("a good trace");
        if batch.is_empty() {
            return count;
        }
        count += black_box(&batch).len() as u64;
    }
}

/// The time that this thread has run, without the time that it waited for a core.
fn on_cpu() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(stat.split(' ').next()?.parse().ok()?))
}

fn reading(c: &mut Criterion) {
    let mut group = c.benchmark_group("read");
    group.sample_size(10).throughput(Throughput::Elements(REQUESTS));
    for (format, bytes) in traces() {
        // The reader owns its input, so the trace is leaked.
        let bytes: &'static [u8] = bytes.leak();
        group.bench_function(format.name(), |bencher| {
            bencher.iter_custom(|times| {
                let (wall, before) = (Instant::now(), on_cpu());
                for _ in 0..times {
                    assert_eq!(drain(bytes), REQUESTS);
                }
                match (before, on_cpu()) {
                    (Some(before), Some(after)) => after - before,
                    _ => wall.elapsed(),
                }
            });
        });
    }
}

criterion_group!(benches, reading);
criterion_main!(benches);

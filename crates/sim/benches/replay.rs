//! Measures how many requests a second the simulator replays, end to end, on one core. The time includes making the
//! drive, and counts only while the thread runs.
//!
//! `cargo bench -p peryton-sim --bench replay [-- REQUESTS PART-OF-A-NAME]`; 10 million of each by default.

use std::{cell::OnceCell, sync::Arc, time::Instant};

use peryton_sim::{Design, Options, Replay, run_one};
use peryton_trace::{BATCH, Request, Source, TraceError};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// The allocator of the `peryton` command: see its `main.rs`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The options that jemalloc reads when it starts.
#[allow(non_upper_case_globals)]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static malloc_conf: Option<&'static [u8; 11]> = Some(b"thp:always\0");

const PAGE: u64 = 4096;
const OBJECTS: usize = 1_000_000;
const CACHED: u64 = 102_400;

struct Listed {
    requests: Arc<Vec<Request>>,
    at: usize,
}

impl Source for Listed {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        batch.clear();
        let end = (self.at + BATCH).min(self.requests.len());
        batch.extend_from_slice(&self.requests[self.at..end]);
        self.at = end;
        Ok(())
    }
}

/// Zipf with exponent 1 over a million pages, scattered independently of their popularity.
fn zipf(count: usize, read_share: f64) -> Arc<Vec<Request>> {
    let mut random = StdRng::seed_from_u64(1);
    let mut sums = Vec::with_capacity(OBJECTS);
    let mut sum = 0.0;
    for rank in 1..=OBJECTS {
        sum += 1.0 / rank as f64;
        sums.push(sum);
    }
    let mut place: Vec<u64> = (0..OBJECTS as u64).collect();
    for i in (1..OBJECTS).rev() {
        place.swap(i, random.random_range(0..=i));
    }
    let each = |n| {
        let drawn = random.random_range(0.0..sum);
        let rank = sums.partition_point(|s| *s < drawn).min(OBJECTS - 1);
        let op = if random.random_bool(read_share) { Op::Read } else { Op::Write };
        Request { at: Nanos(n as u64 * 1_000), offset: Bytes(place[rank] * PAGE), len: Bytes(PAGE), volume: 0, op }
    };
    Arc::new((0..count).map(each).collect())
}

/// The time that this thread has run, if the system reports it, so that other work on the machine does not count.
struct Clock(Instant, Option<u64>);

fn thread_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

impl Clock {
    fn start() -> Clock {
        Clock(Instant::now(), thread_ns())
    }

    fn elapsed_s(&self) -> f64 {
        match (self.1, thread_ns()) {
            (Some(begin), Some(end)) if end > begin => (end - begin) as f64 / 1e9,
            _ => self.0.elapsed().as_secs_f64(),
        }
    }
}

/// The requests of all cases, drawn when a case first needs them.
struct Traces {
    count: usize,
    reads: OnceCell<Arc<Vec<Request>>>,
    mixed: OnceCell<Arc<Vec<Request>>>,
}

impl Traces {
    /// Reads only.
    fn reads(&self) -> &Arc<Vec<Request>> {
        self.reads.get_or_init(|| zipf(self.count, 1.0))
    }

    /// 70 % reads, 30 % writes.
    fn mixed(&self) -> &Arc<Vec<Request>> {
        self.mixed.get_or_init(|| zipf(self.count, 0.7))
    }
}

fn measure<'a>(name: &str, text: &str, requests: impl FnOnce() -> &'a Arc<Vec<Request>>, replay: Replay) {
    let filters: Vec<String> = std::env::args().skip(1).filter(|arg| is_filter(arg)).collect();
    if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
        return;
    }
    let requests = requests();
    let design = Design::parse(text, name, &[]).unwrap_or_else(|error| panic!("{error}"));
    let options = Options { replay, ..Options::default() };
    let mut best = f64::INFINITY;
    let mut line = String::new();
    for _ in 0..3 {
        let source = Box::new(Listed { requests: requests.clone(), at: 0 });
        let begin = Clock::start();
        let report = run_one(&design, "zipf", source, &options, &|_| {}).expect("the trace fits the volume");
        best = best.min(begin.elapsed_s());
        let miss = report.fast_hit_ratio.map_or(String::new(), |hits| format!(", miss ratio {:.4}", 1.0 - hits));
        line = format!("{} requests, {:.1} s simulated{miss}", report.requests, report.simulated_s);
    }
    println!("{name:<50} {:>8.2} M requests/s   ({line})", requests.len() as f64 / best / 1e6);
}

/// Cargo passes `--bench`, and a number is how many requests.
fn is_filter(arg: &str) -> bool {
    !arg.starts_with('-') && arg.parse::<usize>().is_err()
}

fn caching(ssd: &str, hdd: &str, more: &str) -> String {
    format!(
        "[devices.ssd]\nsize = {}\n{ssd}\n[devices.hdd]\nsize = {}\n{hdd}\n\
         [placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\nextent = '4KiB'\nreplacement = 'lru'\n\
         promotion = {{ threshold = 0, window = '60s' }}\ndemotion = {{ low = 0, high = 0 }}\n{more}\n",
        CACHED * PAGE,
        OBJECTS as u64 * PAGE
    )
}

fn partitioned(ssd: &str, hdd: &str) -> String {
    format!(
        "[devices.ssd]\nsize = {}\n{ssd}\n[devices.hdd]\nsize = {}\n{hdd}\n\
         [placement]\nmode = 'partitioned'\nfast = 'ssd'\nslow = 'hdd'\nextent = '4KiB'\nreplacement = 'lru'\n",
        CACHED * PAGE,
        OBJECTS as u64 * PAGE
    )
}

fn single(device: &str) -> String {
    format!("[devices.one]\nsize = {}\n{device}\n[placement]\nmode = 'single'\n", OBJECTS as u64 * PAGE)
}

fn logging(primary: &str, log: &str, log_bytes: u64, triggers: &str) -> String {
    format!(
        "[devices.ssd]\nsize = {}\n{primary}\n[devices.log]\nsize = {log_bytes}\n{log}\n\
         [placement]\nmode = 'logging'\nprimary = 'ssd'\nlog = 'log'\n[triggers]\n{triggers}\n",
        OBJECTS as u64 * PAGE
    )
}

const SSD: &str = "profile = 'fixed'\nmodel = { read = '40us', write = '200us' }";
const HDD: &str = "profile = 'fixed'\nmodel = { read = '200us', write = '1ms' }";
const MANY: &str = "max_moves = 4096";

fn admissions(traces: &Traces) {
    let adaptive = "adaptive = { rate = 0.01, caches = 10, target_latency = '400us' }";
    for (by, threshold) in [
        ("all", "threshold = 1"),
        ("size", "threshold = '64KiB'"),
        ("size", adaptive),
        ("hotness", "threshold = 1"),
        ("hotness", adaptive),
        ("hottest_share", "threshold = 0.1"),
        ("probability", "threshold = 0.5"),
        ("probability", adaptive),
    ] {
        let kind = if threshold == adaptive { "adaptive" } else { "fixed" };
        let design = caching(SSD, HDD, &format!("{MANY}\n[admission]\nby = '{by}'\n{threshold}"));
        measure(&format!("admission {by}, {kind}, 70/30, sync"), &design, || traces.mixed(), Replay::Sync);
    }
}

fn main() {
    let count = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(10_000_000);
    let traces = Traces { count, reads: OnceCell::new(), mixed: OnceCell::new() };
    let (reads, mixed) = (|| traces.reads(), || traces.mixed());
    measure("single, fixed latency, reads, sync", &single(SSD), reads, Replay::Sync);
    let fixed = caching(SSD, HDD, MANY);
    measure("caching, fixed latency, reads, sync", &fixed, reads, Replay::Sync);
    measure("caching, fixed latency, 70/30, sync", &fixed, mixed, Replay::Sync);
    measure("caching, fixed latency, reads, qd=32", &fixed, reads, Replay::Depth(32));
    admissions(&traces);
    // One log holds every block, one gathers the overwrites between two migrations, and one is so small that nearly
    // every block written is moved.
    for (log, bytes, triggers) in [
        ("8 GiB", 8 << 30, "timeout = '900s'"),
        ("1 GiB", 1 << 30, "log_used = 0.9"),
        ("64 MiB", 64 << 20, "log_used = 0.9"),
    ] {
        let design = logging(SSD, HDD, bytes, triggers);
        measure(&format!("logging, fixed latency, log of {log}, 70/30, sync"), &design, mixed, Replay::Sync);
    }
    let flash = "profile = 'intel-320-300gb'\nmodel = { precondition = 'random' }";
    let disk = "profile = 'seagate-st32000641as'";
    let real = caching(flash, disk, "write = 'back'");
    measure("caching, page-mapped FTL + disk, 70/30, sync", &real, mixed, Replay::Sync);
    for (name, ftl) in [("page-mapped", "page"), ("demand-cached", "dftl")] {
        let flash = format!("profile = 'intel-320-300gb'\nmodel = {{ precondition = 'random', ftl = '{ftl}' }}");
        let design = partitioned(&flash, disk);
        measure(&format!("partitioned, {name} FTL + disk, 70/30, sync"), &design, mixed, Replay::Sync);
    }
    measure("single, page-mapped FTL, 70/30, sync", &single(flash), mixed, Replay::Sync);
    measure("single, disk, 70/30, sync", &single(disk), mixed, Replay::Sync);
}

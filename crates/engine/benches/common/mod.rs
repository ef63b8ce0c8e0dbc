//! A driver that carries out every command immediately, and the measurement of requests per second.

use std::{hint::black_box, time::Instant};

use peryton_engine::{Command, Commands, Engine, Request, RequestId};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Large tables on huge pages, as in the `peryton` command: see its `main.rs`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
/// The settings that jemalloc reads when it starts.
#[allow(non_upper_case_globals)]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static malloc_conf: Option<&'static [u8; 11]> = Some(b"thp:always\0");

/// Each request is one block, which is one extent.
pub const BLOCK: Bytes = Bytes::kib(4);
/// Blocks of the volume: the extents of 1 TiB at 1 MiB.
pub const BLOCKS: u64 = 1 << 20;

const REQUESTS: u64 = 2_000_000;

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

/// Carries out every command immediately, until none is left.
fn obey(engine: &mut Engine, now: Nanos, out: &mut Commands, scratch: &mut Commands) {
    while !out.is_empty() {
        std::mem::swap(out, scratch);
        for command in scratch.drain(..) {
            match command {
                Command::Read { io, .. }
                | Command::Write { io, .. }
                | Command::Flush { io, .. }
                | Command::Discard { io, .. }
                | Command::Zero { io, .. } => engine.complete(now, io, Ok(()), out).expect("it is in flight"),
                Command::Reply { id, result } => {
                    black_box((id, result)).1.expect("nothing fails here");
                }
                Command::Copy { .. }
                | Command::Clear { .. }
                | Command::Encode { .. }
                | Command::Power { .. }
                | Command::Succeed { .. } => {}
            }
        }
    }
}

/// Measures requests to uniformly random blocks among the first `blocks`, with the operation that `op` gives for the
/// nth; `depth` requests are submitted before the first of their commands completes. An argument that is a number says how
/// many runs there are, and any other one is a part of the names of those that are measured.
pub fn measure(name: &str, mut engine: Engine, depth: u64, blocks: u64, op: impl Fn(u64) -> Op) {
    let is_part = |arg: &String| !arg.starts_with("--") && arg.parse::<u32>().is_err();
    if std::env::args().skip(1).filter(is_part).any(|part| !name.contains(&part)) {
        return;
    }
    let runs: u32 = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(5);
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let (mut out, mut scratch) = (Commands::new(), Commands::new());
    let offsets: Vec<Bytes> = (0..REQUESTS).map(|_| BLOCK * rng.random_range(0..blocks)).collect();
    let mut now = Nanos::ZERO;
    let mut rates: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Clock::start();
            for (id, offset) in (0u64..).zip(&offsets) {
                now += Nanos(10_000);
                engine.submit(now, RequestId(id), Request { op: op(id), offset: *offset, len: BLOCK }, &mut out);
                if id % depth == 0 {
                    obey(&mut engine, now, &mut out, &mut scratch);
                }
                if engine.deadline().is_some_and(|deadline| deadline <= now) {
                    engine.tick(now, &mut out);
                }
            }
            obey(&mut engine, now, &mut out, &mut scratch);
            REQUESTS as f64 / start.elapsed_s()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    println!(
        "{name:<44} {:>8.2} M requests/s best, {:>6.2} median",
        rates[rates.len() - 1] / 1e6,
        rates[rates.len() / 2] / 1e6
    );
}

//! What a request costs in the engine alone: submit, one command, complete, reply.
//!
//! Figures in the output: requests per second on one core, best and median of several runs.

use std::{hint::black_box, time::Instant};

use peryton_engine::{Command, Commands, Config, DeviceId, Engine, Hybrid, Placement, Replacement, Request, RequestId};
use peryton_engine::{Tuning, WritePolicy};
use peryton_units::{Bytes, Nanos, Op};
/// Large tables on huge pages, as in the `peryton` command: see its `main.rs`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
/// What jemalloc reads at its start.
#[allow(non_upper_case_globals)]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static malloc_conf: Option<&'static [u8; 11]> = Some(b"thp:always\0");

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const REQUESTS: u64 = 2_000_000;
const EXTENTS: u64 = 1 << 20;
const EXTENT: Bytes = Bytes::kib(4);

/// Carries out every command at once, until none is left.
fn obey(engine: &mut Engine, now: Nanos, out: &mut Commands, scratch: &mut Commands) {
    while !out.is_empty() {
        std::mem::swap(out, scratch);
        for command in scratch.drain(..) {
            match command {
                Command::Read { io, .. }
                | Command::Write { io, .. }
                | Command::Flush { io, .. }
                | Command::Discard { io, .. }
                | Command::Zero { io, .. } => engine.complete(now, io, Ok(()), out),
                Command::Reply { id, result } => {
                    black_box((id, result)).1.expect("nothing fails here");
                }
                Command::Copy { .. } | Command::Encode { .. } | Command::Power { .. } => {}
            }
        }
    }
}

fn engine(placement: fn(Hybrid) -> Placement, fast_extents: u64, replacement: Replacement) -> Engine {
    let hybrid = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: EXTENT };
    let tuning = Tuning {
        promotion_threshold: 0,
        demotion_low: 0,
        demotion_high: 0,
        write: WritePolicy::Back,
        replacement,
        ..Tuning::default()
    };
    let devices = vec![EXTENT * fast_extents, EXTENT * EXTENTS];
    Engine::new(Config { devices, placement: placement(hybrid), tuning }).expect("the configuration is sound")
}

fn measure(name: &str, mut engine: Engine, op: Op, extents: u64) {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let (mut out, mut scratch) = (Commands::new(), Commands::new());
    let offsets: Vec<Bytes> = (0..REQUESTS).map(|_| EXTENT * rng.random_range(0..extents)).collect();
    let mut now = Nanos::ZERO;
    let mut rates: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            for (id, offset) in offsets.iter().enumerate() {
                now += Nanos(10_000);
                engine.submit(now, RequestId(id as u64), Request { op, offset: *offset, len: EXTENT }, &mut out);
                obey(&mut engine, now, &mut out, &mut scratch);
                if engine.deadline().is_some_and(|deadline| deadline <= now) {
                    engine.tick(now, &mut out);
                    obey(&mut engine, now, &mut out, &mut scratch);
                }
            }
            REQUESTS as f64 / start.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    let millions = |rate: f64| rate / 1e6;
    println!("{name:<40} {:>8.1} M requests/s best, {:>6.1} median", millions(rates[4]), millions(rates[2]));
}

fn main() {
    let all = EXTENTS * 2;
    measure("tiering, read hits", engine(Placement::Tiering, all, Replacement::Wsclock), Op::Read, EXTENTS);
    measure("caching wsclock, read hits", engine(Placement::Caching, all, Replacement::Wsclock), Op::Read, EXTENTS);
    measure("caching lru, read hits", engine(Placement::Caching, all, Replacement::Lru), Op::Read, EXTENTS);
    measure(
        "caching lru, read misses, evictions",
        engine(Placement::Caching, 1 << 16, Replacement::Lru),
        Op::Read,
        EXTENTS,
    );
    measure(
        "caching wsclock, misses, evictions",
        engine(Placement::Caching, 1 << 16, Replacement::Wsclock),
        Op::Read,
        EXTENTS,
    );
    let entry_mib = (EXTENTS * 32) >> 20;
    println!("a map of {EXTENTS} extents (1 TiB at 1 MiB) takes {entry_mib} MiB");
}

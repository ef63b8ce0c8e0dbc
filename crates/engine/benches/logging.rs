//! What a request to a logging drive costs in the engine alone: submit, its commands, complete, reply, and its share of
//! the migrations that follow.
//!
//! Figures in the output: requests per second on one core, best and median of several runs.

use std::{hint::black_box, time::Instant};

use peryton_engine::{
    Command, Commands, Config, DeviceId, Engine, LogCaching, Logging, LoggingTuning, Placement, Request, RequestId,
    Triggers, Tuning,
};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const REQUESTS: u64 = 2_000_000;
const BLOCKS: u64 = 1 << 20;
const BLOCK: Bytes = Bytes::kib(4);

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

fn engine(log: Bytes, caching: LogCaching) -> Engine {
    let triggers = Triggers { timeout: None, read_share_ppm: None, size: None, log_used_ppm: 900_000 };
    let logging = LoggingTuning { caching, triggers, ..LoggingTuning::default() };
    let placement = Placement::Logging(Logging { primary: DeviceId(0), log: DeviceId(1), block: BLOCK });
    let devices = vec![BLOCK * BLOCKS, log];
    Engine::new(Config { devices, placement, tuning: Tuning { logging, ..Tuning::default() } })
        .expect("the configuration is sound")
}

/// `depth` requests are handed in before the first of their commands completes.
fn measure(name: &str, mut engine: Engine, depth: usize, blocks: u64, op: impl Fn(u64) -> Op) {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let (mut out, mut scratch) = (Commands::new(), Commands::new());
    let offsets: Vec<Bytes> = (0..REQUESTS).map(|_| BLOCK * rng.random_range(0..blocks)).collect();
    let mut now = Nanos::ZERO;
    let mut rates: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            for (id, offset) in (0u64..).zip(&offsets) {
                now += Nanos(10_000);
                let request = Request { op: op(id), offset: *offset, len: BLOCK };
                engine.submit(now, RequestId(id), request, &mut out);
                if id % depth as u64 == 0 {
                    obey(&mut engine, now, &mut out, &mut scratch);
                }
                if engine.deadline().is_some_and(|deadline| deadline <= now) {
                    engine.tick(now, &mut out);
                }
            }
            obey(&mut engine, now, &mut out, &mut scratch);
            REQUESTS as f64 / start.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    println!("{name:<44} {:>8.1} M requests/s best, {:>6.1} median", rates[4] / 1e6, rates[2] / 1e6);
}

fn main() {
    use LogCaching::{Full, Selective};
    let large = Bytes::gib(256);
    measure("writes to a large log", engine(large, Full), 1, BLOCKS, |_| Op::Write);
    measure("writes to a large log, 32 at a time", engine(large, Full), 32, BLOCKS, |_| Op::Write);
    measure("writes to a log of 1 GiB, migrations", engine(Bytes::gib(1), Full), 32, BLOCKS, |_| Op::Write);
    measure("writes to 64 MiB, log of 1 GiB, migrations", engine(Bytes::gib(1), Full), 32, 1 << 14, |_| Op::Write);
    measure("reads from log and primary, 1 write in 10", engine(large, Full), 1, BLOCKS, |id| match id % 10 {
        0 => Op::Write,
        _ => Op::Read,
    });
    let selective = Selective { overwrite_ratio_ppm: 500_000 };
    measure("selective caching, half writes", engine(large, selective), 8, BLOCKS, |id| match id % 2 {
        0 => Op::Write,
        _ => Op::Read,
    });
}

//! Measures what a request to a logging drive costs in the engine alone: submit, its commands, complete, reply, and its
//! share of the migrations that follow.
//!
//! Figures in the output: requests per second on one core, best and median of several runs.

mod common;

use common::{BLOCK, BLOCKS, measure};
use peryton_engine::{Config, DeviceId, Engine, LogCaching, Logging, LoggingTuning, Placement, Triggers, Tuning};
use peryton_units::{Bytes, Op};

fn engine(log: Bytes, caching: LogCaching) -> Engine {
    let triggers = Triggers { timeout: None, read_share_ppm: None, size: None, log_used_ppm: 900_000 };
    let logging = LoggingTuning { caching, triggers, ..LoggingTuning::default() };
    let placement = Placement::Logging(Logging { primaries: DeviceId(0).into(), log: DeviceId(1), block: BLOCK });
    let devices = vec![BLOCK * BLOCKS, log];
    Engine::new(Config { devices, placement, tuning: Tuning { logging, ..Tuning::default() } })
        .expect("the configuration is sound")
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

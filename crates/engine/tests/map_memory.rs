//! The fear: the map of a large volume takes memory for what the fast device does not have, so that a petabyte cannot be simulated.
#![allow(missing_docs, clippy::unwrap_used)]

use std::{
    fs,
    sync::{Mutex, PoisonError},
};

use peryton_engine::{Command, Commands, Config, DeviceId, Engine, Hybrid, Placement, Request, RequestId, Tuning};
use peryton_units::{Bytes, Nanos, Op};

/// Only one test at a time measures the memory of this process.
static MEASURING: Mutex<()> = Mutex::new(());

/// The memory of this process that is in use, as the kernel counts it.
fn resident() -> Bytes {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    Bytes(pages.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096)
}

/// The memory that a drive takes once it has answered accesses of 4 KiB to these extents.
fn taken(
    placement: fn(Hybrid) -> Placement,
    [fast, slow]: [Bytes; 2],
    (extent, op): (Bytes, Op),
    accessed: impl Iterator<Item = u64>,
) -> Bytes {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let before = resident();
    let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent };
    let config = Config { devices: vec![fast, slow], placement: placement(pair), tuning: Tuning::default() };
    let mut engine = Engine::new(config).unwrap();
    let (mut out, mut now) = (Commands::new(), Nanos::ZERO);
    for (number, at) in (0..).zip(accessed) {
        now += Nanos::from_ms(1);
        let mut answered = false;
        engine.submit(now, RequestId(number), Request { op, offset: extent * at, len: Bytes::kib(4) }, &mut out);
        while let Some(command) = out.pop() {
            match command {
                Command::Read { io, .. }
                | Command::Write { io, .. }
                | Command::Zero { io, .. }
                | Command::Discard { io, .. }
                | Command::Flush { io, .. } => engine.complete(now, io, Ok(()), &mut out).unwrap(),
                Command::Reply { result, .. } => answered |= result.is_ok(),
                _ => {}
            }
        }
        assert!(answered, "request {number}");
    }
    resident().saturating_sub(before)
}

#[test]
fn a_cache_before_a_petabyte_takes_memory_for_what_is_accessed() {
    let devices = [Bytes::gib(40 << 10), Bytes::gib(1 << 20)];
    let accessed = (0..10_000).map(|number| number * 26_017 % (1 << 28));
    let taken = taken(Placement::Caching, devices, (Bytes::mib(4), Op::Read), accessed);
    // Each access may touch a page of 4 KiB of the table and of few others; the whole table has 1 GiB.
    assert!(taken < Bytes::mib(300), "{taken}");
}

#[test]
fn an_extent_that_is_accessed_once_takes_few_bytes() {
    let extents: u64 = 1 << 21;
    let devices = [Bytes::mib(64), Bytes::kib(16) * extents];
    for (placement, op) in [(Placement::Caching as fn(Hybrid) -> Placement, Op::Read), (Placement::Tiering, Op::Write)]
    {
        // Sparse, so that each is an access of its own and none is part of a stream.
        let accessed = (0..extents).map(|number| number * 7_919 % extents);
        let taken = taken(placement, devices, (Bytes::kib(16), op), accessed);
        // 4.5 bytes an extent, and a bounded number of entries of 36 bytes.
        assert!(taken < Bytes::mib(20), "{taken}");
    }
}

//! The fear: the map of a large volume takes memory for what is never accessed, so that a petabyte cannot be simulated.
#![allow(missing_docs, clippy::unwrap_used)]

use std::fs;

use peryton_engine::{Command, Commands, Config, DeviceId, Engine, Hybrid, Placement, Request, RequestId, Tuning};
use peryton_units::{Bytes, Nanos, Op};

const EXTENT: Bytes = Bytes::mib(4);
const ACCESSED: u64 = 10_000;

/// The memory of this process that is in use, as the kernel counts it.
fn resident() -> Bytes {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    Bytes(pages.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096)
}

#[test]
fn a_cache_before_a_petabyte_takes_memory_for_what_is_accessed() {
    let before = resident();
    let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: EXTENT };
    let devices = vec![Bytes::gib(40 << 10), Bytes::gib(1 << 20)];
    let mut engine =
        Engine::new(Config { devices, placement: Placement::Caching(pair), tuning: Tuning::default() }).unwrap();
    let (mut out, mut now, mut answered) = (Commands::new(), Nanos::ZERO, 0);
    for number in 0..ACCESSED {
        let offset = EXTENT * (number * 26_017 % (1 << 28));
        now += Nanos::from_ms(1);
        engine.submit(now, RequestId(number), Request { op: Op::Read, offset, len: Bytes::kib(4) }, &mut out);
        while let Some(command) = out.pop() {
            match command {
                Command::Read { io, .. } | Command::Write { io, .. } | Command::Flush { io, .. } => {
                    engine.complete(now, io, Ok(()), &mut out).unwrap();
                }
                Command::Reply { result, .. } => answered += u64::from(result.is_ok()),
                _ => {}
            }
        }
    }
    assert_eq!(answered, ACCESSED);
    // Each access may touch a page of 4 KiB of the table and of few others; the whole table has 8 GiB.
    let taken = resident().saturating_sub(before);
    assert!(taken < Bytes::mib(600), "{taken}");
}

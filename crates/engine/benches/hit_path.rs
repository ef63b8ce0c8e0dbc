//! Measures what a request costs in the engine alone: submit, one command, complete, reply.
//!
//! Figures in the output: requests per second on one core, best and median of several runs.

mod common;

use common::{BLOCK, BLOCKS, measure};
use peryton_engine::{Config, DeviceId, Engine, Hybrid, Placement, Replacement, Tuning, WritePolicy};
use peryton_units::Op;

fn engine(placement: fn(Hybrid) -> Placement, fast_extents: u64, replacement: Replacement) -> Engine {
    let hybrid = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: BLOCK };
    let tuning = Tuning {
        promotion_threshold: 0,
        demotion_low: 0,
        demotion_high: 0,
        write: WritePolicy::Back,
        replacement,
        ..Tuning::default()
    };
    let devices = vec![BLOCK * fast_extents, BLOCK * BLOCKS];
    Engine::new(Config { devices, placement: placement(hybrid), tuning }).expect("the configuration is sound")
}

fn main() {
    use Replacement::{Lru, Wsclock};
    let (all, few) = (BLOCKS * 2, 1 << 16);
    for (name, engine) in [
        ("tiering, read hits", engine(Placement::Tiering, all, Wsclock)),
        ("caching wsclock, read hits", engine(Placement::Caching, all, Wsclock)),
        ("caching lru, read hits", engine(Placement::Caching, all, Lru)),
        ("caching lru, read misses, evictions", engine(Placement::Caching, few, Lru)),
        ("caching wsclock, misses, evictions", engine(Placement::Caching, few, Wsclock)),
    ] {
        measure(name, engine, 1, BLOCKS, |_| Op::Read);
    }
    let entry_mib = (BLOCKS * 32) >> 20;
    println!("a map of {BLOCKS} extents (1 TiB at 1 MiB) takes {entry_mib} MiB");
}

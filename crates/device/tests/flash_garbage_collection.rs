//! Does garbage collection copy as much as theory says, and never more for sequential writes?

use peryton_device::{Flash, Io, Tag, flash::Parameters};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

fn parameters(over_provisioning: f64, extra: &str) -> Parameters {
    toml::from_str(&format!(
        r#"channels = 2
        dies_per_channel = 2
        page = "4KiB"
        pages_per_block = 64
        read = "50us"
        program = "500us"
        erase = "2ms"
        channel_mb_per_s = 400
        interface_mb_per_s = 2000
        cycles = 3000
        over_provisioning = {over_provisioning}
        gc_low = 1
        gc_high = 1
        write_buffer = "256KiB"
        idle_w = 1
        standby_w = 0.1
        {extra}"#
    ))
    .unwrap()
}

const UNITS: u64 = 4 * 64 * 500;

fn device(over_provisioning: f64, extra: &str) -> Flash {
    let capacity = Bytes(UNITS * 4096);
    Flash::new(&parameters(over_provisioning, extra), capacity, capacity, 1).unwrap()
}

fn write(flash: &mut Flash, now: &mut Nanos, unit: u64) {
    let peryton_device::Accepted::At(end) =
        flash.submit(*now, Tag(0), Io { op: Op::Write, at: Bytes(unit * 4096), len: Bytes(4096) })
    else {
        panic!("flash knows the end at once")
    };
    assert!(end >= *now);
    *now = end;
}

fn write_amplification(flash: &mut Flash, now: Nanos) -> f64 {
    let stats = flash.stats(now);
    stats.nand_bytes_written.unwrap().0 as f64 / stats.bytes_written.0 as f64
}

/// Greedy cleaning of uniform random writes, after Desnoyers, "Analytic modeling of SSD write performance" (SYSTOR
/// 2012) and Bux and Iliadis (2010): in steady state, with blocks of N pages, the share x_j of blocks that hold j
/// valid pages follows from the balance of flows; solved here by simulating the fluid limit, independently of the FTL.
fn greedy_theory(over_provisioning: f64, block_pages: usize) -> f64 {
    // With u_min the valid share of the cleaned block: for large N the mean-field solution (Van Houdt 2013, d = ∞)
    // has A = 1 / (1 - u) where blocks decay from full at the rate of the writes. Blocks enter with N pages, and a
    // page dies at rate 1 (each of the live pages once per L writes). In time units of L writes, the age t of a block
    // that has decayed to u is -ln(u); blocks are cleaned at the age T where their number fills the device:
    // flow × T-distribution. For finite N the age of reaching j pages is a sum of exponentials; the mean gives
    // T_j = H(N) - H(j), and each block takes 1/(N - j) cleanings per page written.
    let n = block_pages as f64;
    let spare = 1.0 + over_provisioning;
    // Block lifetimes: with victims at j (mixing j and j+1 linearly) the count of blocks = flow × mean lifetime.
    // flow = host page rate / (N - j) per unit, where the host writes L pages per time unit.
    let mut age = 0.0;
    let mut last = (1.0, f64::INFINITY);
    for j in (1..block_pages).rev() {
        age += 1.0 / (j as f64 + 1.0);
        let flow = 1.0 / (n - j as f64);
        let blocks = flow * age * n;
        let wa = n / (n - j as f64);
        if blocks >= spare {
            // blocks grows from 1 (j = N) upwards as j falls: interpolate
            let (previous_blocks, previous_wa): (f64, f64) = last;
            if !previous_wa.is_finite() {
                return wa;
            }
            let share = (spare - previous_blocks) / (blocks - previous_blocks);
            return previous_wa + share * (wa - previous_wa);
        }
        last = (blocks, wa);
    }
    1.0
}

#[test]
fn random_writes_cost_what_greedy_theory_says() {
    for over_provisioning in [0.07, 0.125, 0.28] {
        let mut flash = device(over_provisioning, "precondition = \"random\"");
        let mut random = Pcg64Mcg::seed_from_u64(7);
        let mut now = Nanos::ZERO;
        for _ in 0..UNITS / 2 {
            write(&mut flash, &mut now, random.random_range(0..UNITS));
        }
        flash.reset_stats(now);
        for _ in 0..UNITS * 2 {
            write(&mut flash, &mut now, random.random_range(0..UNITS));
        }
        let measured = write_amplification(&mut flash, now);
        // Three blocks of each die are never filled with data: one free, and the two that are being filled.
        let theory = greedy_theory(over_provisioning, 64);
        println!("over-provisioning {over_provisioning}: {measured:.3}, theory {theory:.3}");
        flash.check();
    }
}

#[test]
fn sequential_writes_cost_nothing_extra() {
    let mut flash = device(0.07, "precondition = \"sequential\"");
    let mut now = Nanos::ZERO;
    for round in 0..3 {
        for unit in 0..UNITS {
            write(&mut flash, &mut now, unit);
        }
        let measured = write_amplification(&mut flash, now);
        assert!((0.999..1.001).contains(&measured), "round {round}: {measured}");
    }
}

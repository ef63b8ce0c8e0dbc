//! No translation layer loses, duplicates or resurrects a unit under writes, discards and cleaning.

use std::collections::BTreeSet;

use peryton_device::{Accepted, Flash, Io, PowerState, Tag, flash::FlashParameters};
use peryton_units::{Bytes, Nanos, Op};
use proptest::prelude::*;

fn parameters(
    ftl: &str,
    collection: &str,
    precondition: &str,
    buffer: &str,
    shape: (u32, u32, u32, u32),
) -> FlashParameters {
    let (channels, dies, planes, pages) = shape;
    toml::from_str(&format!(
        r#"channels = {channels}
        dies_per_channel = {dies}
        planes = {planes}
        page = "8KiB"
        pages_per_block = {pages}
        read = "50us"
        program = "500us"
        erase = "2ms"
        channel_mb_per_s = 400
        interface_mb_per_s = 500
        cycles = 3000
        over_provisioning = 0.1
        ftl = "{ftl}"
        log_blocks = 0.1
        map_cache = "1KiB"
        collection = "{collection}"
        precondition = "{precondition}"
        background_after = "1ms"
        wear_gap = 4
        write_buffer = "{buffer}"
        idle_w = 1
        busy_w = 1
        standby_w = 0.1
        read_uj = 10
        program_uj = 50
        erase_uj = 200"#
    ))
    .expect("parameters")
}

fn operation() -> impl Strategy<Value = (u8, u64, u64, u64)> {
    // what, where, how much, how long after; hot addresses are likely
    (
        0u8..12,
        prop_oneof![0u64..400, 0u64..4000],
        prop_oneof![1u64..16, 1u64..200],
        prop_oneof![Just(0u64), 0u64..50_000_000],
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_live_unit_has_one_place(
        ftl in prop::sample::select(vec!["page", "demand-cached", "ideal", "block-mapped", "log-block", "shared-log"]),
        collection in prop::sample::select(vec!["greedy", "cost_benefit"]),
        precondition in prop::sample::select(vec!["fresh", "sequential", "random"]),
        buffer in prop::sample::select(vec!["0B", "64KiB", "1MiB"]),
        shape in (1u32..4, 1u32..3, 1u32..3, 4u32..20),
        operations in prop::collection::vec(operation(), 1..600),
    ) {
        // An odd number of sectors, so that the last unit is a partial one.
        let size = Bytes(4000 * 1024 + 512);
        let parameters = parameters(ftl, collection, precondition, buffer, shape);
        let mut flash = Flash::new(&parameters, Bytes(size.0 * 3), size, 9).unwrap();
        let mut twin = Flash::new(&parameters, Bytes(size.0 * 3), size, 9).unwrap();
        let units = size.0.div_ceil(4096);
        let mut live: BTreeSet<u64> = if precondition == "fresh" { BTreeSet::new() } else { (0..units).collect() };
        let mut now = Nanos::ZERO;
        let mut energy = 0.0;
        for (what, at, len, pause) in operations {
            // Only one of the two devices is asked for statistics: a report, at any time, changes nothing.
            flash.stats(now + Nanos(pause / 3));
            now += Nanos(pause);
            let at = (at * 1024).min(size.0 - 512);
            let len = (len * 1024).min(size.0 - at);
            let (first, end) = (at / 4096, (at + len).div_ceil(4096));
            let op = match what {
                0..=5 => Op::Write,
                6..=8 => Op::Read,
                9 => Op::Discard,
                10 => Op::Flush,
                _ => {
                    flash.set_power(now, PowerState::Standby);
                    twin.set_power(now, PowerState::Standby);
                    continue;
                }
            };
            match op {
                Op::Write => live.extend(first..end),
                Op::Discard => {
                    let last = if at + len == size.0 { end } else { (at + len) / 4096 };
                    (at.div_ceil(4096)..last).for_each(|unit| { live.remove(&unit); });
                }
                Op::Read | Op::Flush => {}
            }
            let io = Io { op, at: Bytes(at), len: if op == Op::Flush { Bytes(0) } else { Bytes(len) } };
            let accepted = flash.submit(now, Tag(0), io);
            prop_assert_eq!(accepted, twin.submit(now, Tag(0), io), "the same input gives the same output, looked at or not");
            let Accepted::At(end) = accepted else { panic!("flash knows the end at once") };
            prop_assert!(end >= now);
            let stats = flash.stats(now);
            prop_assert_eq!(stats.busy + stats.idle + stats.standby, now, "every nanosecond is counted once");
            prop_assert!(stats.energy_j >= energy, "energy is never given back");
            energy = stats.energy_j;
        }
        flash.check();
        for unit in 0..units {
            prop_assert_eq!(flash.holds(Bytes(unit * 4096)), live.contains(&unit), "unit {}", unit);
        }
        now += Nanos::from_s(60);
        let stats = flash.stats(now);
        let programmed = stats.nand_bytes_written.unwrap();
        let capacity = 1.1 * size.0 as f64 + f64::from(shape.0 * shape.1 * 4) * f64::from(shape.2 * shape.3) * 8192.0 * 2.0;
        // Erases can only free data that was programmed during the run or before, so there cannot be more of them. (A
        // merge may erase a log block that is almost empty, so this holds only for the other layers.)
        let block = f64::from(shape.3) * 8192.0;
        if ftl == "page" || ftl == "ideal" {
            prop_assert!(stats.erases.unwrap() as f64 * block <= programmed.0 as f64 + capacity);
        }
        flash.check();
    }
}

#[test]
fn a_device_full_of_live_data_goes_on_working() {
    for ftl in ["page", "demand-cached", "block-mapped", "log-block", "shared-log"] {
        let parameters = parameters(ftl, "greedy", "sequential", "64KiB", (2, 2, 1, 8));
        let size = Bytes::mib(8);
        let mut flash = Flash::new(&parameters, size, size, 1).unwrap();
        let mut now = Nanos::ZERO;
        // The same few units are written repeatedly, so all other dies stay full of live data.
        for round in 0..20_000u64 {
            let io = Io { op: Op::Write, at: Bytes(round % 5 * 4096), len: Bytes(4096) };
            let Accepted::At(end) = flash.submit(now, Tag(0), io) else { panic!() };
            now = end;
        }
        flash.check();
        let (least, most) = flash.stats(now).erase_count_min_max.unwrap();
        assert!(most > 0 && least <= most, "{ftl}: {least} {most}");
    }
}

//! A map on flash finds every unit at the correct cost, and merges, wear-levelling and fragmentation are counted
//! correctly.

use peryton_device::{
    Accepted, ClosedLoop, DeviceStats, Flash, Io, Profile, Tag,
    flash::{FlashParameters, FtlStats, MappingStats},
    run,
};
use peryton_units::{Bytes, Nanos, Op};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Pages of 512 bytes, so that a translation page has 128 entries and a small device many pages.
fn parameters(extra: &str) -> FlashParameters {
    let base = r#"
        channels = 2
        dies_per_channel = 2
        page = "512B"
        mapping_unit = "512B"
        pages_per_block = 32
        read = "50us"
        program = "500us"
        erase = "2ms"
        channel_mb_per_s = 51.2
        interface_mb_per_s = 512
        cycles = 3000
        over_provisioning = 0.2
        gc_low = 1
        gc_high = 2
        idle_w = 1
        standby_w = 0.1
        "#;
    let mut table: toml::Table = toml::from_str(base).expect("TOML");
    table.extend(toml::from_str::<toml::Table>(extra).expect("TOML"));
    toml::Value::Table(table).try_into().expect("parameters")
}

const UNIT: u64 = 512;
const UNITS: u64 = 8192;

fn flash(extra: &str) -> Flash {
    Flash::new(&parameters(extra), Bytes(UNITS * UNIT), Bytes(UNITS * UNIT), 1).expect("a device")
}

fn submit(flash: &mut Flash, now: Nanos, op: Op, unit: u64, units: u64) -> Nanos {
    let io = Io { op, at: Bytes(unit * UNIT), len: Bytes(units * UNIT) };
    match flash.submit(now, Tag(0), io) {
        Accepted::At(end) => end,
        Accepted::Queued => panic!("flash knows the end at once"),
    }
}

fn ftl(stats: &DeviceStats) -> &FtlStats {
    stats.ftl.as_ref().expect("flash has a translation layer")
}

fn mapping(flash: &mut Flash, now: Nanos) -> MappingStats {
    ftl(&flash.stats(now)).mapping.expect("the map is cached")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// `check` compares the translation pages and the newer entries in RAM with the actual place of the data.
    #[test]
    fn every_entry_is_in_ram_or_on_flash(
        cache in prop::sample::select(vec!["8B", "64B", "1KiB", "4KiB", "1MiB"]),
        precondition in prop::sample::select(vec!["fresh", "sequential", "random"]),
        buffer in prop::sample::select(vec!["0B", "64KiB"]),
        levelling in prop::sample::select(vec!["", "wear_gap = 2", "wear_gap = 2\nlevel_wear = \"adaptive\""]),
        operations in prop::collection::vec(
            (0u8..12, prop_oneof![0u64..64, 0u64..UNITS], prop_oneof![1u64..4, 1u64..40, 1u64..600], 0u64..20_000_000),
            1..400,
        ),
    ) {
        let mut flash = flash(&format!(
            "ftl = \"dftl\"\nmap_cache = \"{cache}\"\nprecondition = \"{precondition}\"\nwrite_buffer = \"{buffer}\"\n\
             background_after = \"1ms\"\n{levelling}"
        ));
        flash.check();
        let mut live = vec![precondition != "fresh"; UNITS as usize];
        let mut now = Nanos::ZERO;
        for (step, (what, first, units, pause)) in operations.into_iter().enumerate() {
            now += Nanos(pause);
            let units = units.min(UNITS - first);
            let op = match what {
                0..=6 => Op::Write,
                7..=8 => Op::Read,
                9..=10 => Op::Discard,
                _ => Op::Flush,
            };
            let range = first as usize..(first + units) as usize;
            match op {
                Op::Write => live[range].fill(true),
                Op::Discard => live[range].fill(false),
                Op::Read | Op::Flush => {}
            }
            let units = if op == Op::Flush { 0 } else { units };
            prop_assert!(submit(&mut flash, now, op, first, units) >= now);
            if step % 50 == 0 {
                flash.check();
            }
        }
        flash.check();
        for unit in 0..UNITS {
            prop_assert_eq!(flash.holds(Bytes(unit * UNIT)), live[unit as usize], "unit {}", unit);
        }
        let counts = mapping(&mut flash, now);
        prop_assert!(counts.hits <= counts.lookups);
        prop_assert_eq!(counts.writes, counts.evictions + counts.updates + counts.moves);
    }
}

/// Random writes, reads and discards; returns the time of each, and the statistics.
fn work(flash: &mut Flash, commands: u64, reads: f64) -> (Vec<u64>, Nanos) {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut now = Nanos::ZERO;
    let ends = (0..commands).map(|n| {
        let units = random.random_range(1..5);
        let unit = random.random_range(0..UNITS - units);
        let op = if n % 64 == 63 {
            Op::Discard
        } else if random.random_bool(reads) {
            Op::Read
        } else {
            Op::Write
        };
        now = submit(flash, now, op, unit, units);
        now.0
    });
    (ends.collect(), now)
}

#[test]
fn a_cache_that_holds_the_whole_map_is_a_page_map() {
    for extra in ["", "write_buffer = \"64KiB\"", "wear_gap = 4\nbackground_after = \"1ms\""] {
        let mut page = flash(extra);
        let mut cached = flash(&format!("ftl = \"demand-cached\"\nmap_cache = \"1MiB\"\n{extra}"));
        let (page_ends, end) = work(&mut page, 20_000, 0.3);
        let (cached_ends, _) = work(&mut cached, 20_000, 0.3);
        assert_eq!(page_ends, cached_ends, "every command ends at the same time");
        let (page, mut cached) = (page.stats(end), cached.stats(end));
        let counts = ftl(&cached).mapping.unwrap();
        assert_eq!((counts.reads, counts.writes, counts.erases), (0, 0, 0), "{counts:?}");
        assert!(page.erases.unwrap() > 100, "it was cleaned");
        // The cached map only differs in the blocks of the translation pages.
        (cached.ftl, cached.rated_erases) = (page.ftl.clone(), page.rated_erases);
        cached.programmable = page.programmable;
        cached.erase_count_min_max = page.erase_count_min_max;
        assert_eq!(page, cached);
    }
}

#[test]
fn data_goes_where_it_would_go_without_a_cache() {
    // The cached map does not affect the layer that places the data, however small the cache.
    for (cache, precondition) in [("64B", "fresh"), ("2KiB", "sequential"), ("2KiB", "random")] {
        let extra = format!("precondition = \"{precondition}\"");
        let (mut page, mut cached) =
            (flash(&extra), flash(&format!("ftl = \"dftl\"\nmap_cache = \"{cache}\"\n{extra}")));
        let (_, page_end) = work(&mut page, 20_000, 0.3);
        let (_, cached_end) = work(&mut cached, 20_000, 0.3);
        cached.check();
        let (page, cached) = (page.stats(page_end), cached.stats(cached_end));
        let counts = ftl(&cached).mapping.unwrap();
        assert!(counts.updates > 0 && counts.evictions > 0 && counts.moves > 0 && counts.erases > 0, "{counts:?}");
        assert_eq!(cached.erases.unwrap() - counts.erases, page.erases.unwrap());
        let data = cached.nand_bytes_written.unwrap().0 - counts.writes * UNIT;
        assert_eq!(data, page.nand_bytes_written.unwrap().0);
        assert_eq!(ftl(&page).fragmentation, ftl(&cached).fragmentation);
        assert!(cached_end > page_end, "the map takes time");
    }
}

#[test]
fn a_missing_entry_costs_a_read_of_its_page() {
    // 10 us over the channel, 1 us over the interface.
    let mut flash = flash("ftl = \"dftl\"\nmap_cache = \"16B\"\nprecondition = \"sequential\"");
    let us = |flash: &mut Flash, now, op, unit| submit(flash, Nanos::from_us(now), op, unit, 1).0 / 1000;
    assert_eq!(us(&mut flash, 0, Op::Read, 0), 60 + 61, "translation page, then data");
    assert_eq!(us(&mut flash, 1000, Op::Read, 0), 1000 + 61, "known by now");
    assert_eq!(us(&mut flash, 2000, Op::Read, 1), 2000 + 60 + 61);
    // There is space for two: the third entry replaces the one that was used only once.
    assert_eq!(us(&mut flash, 3000, Op::Read, 2), 3000 + 60 + 61);
    assert_eq!(us(&mut flash, 4000, Op::Read, 0), 4000 + 61, "used twice, protected");
    assert_eq!(us(&mut flash, 5000, Op::Read, 1), 5000 + 60 + 61);
    // One page read provides all entries of a command.
    assert_eq!(submit(&mut flash, Nanos::from_us(6000), Op::Read, 128, 2).0 / 1000, 6000 + 60 + 60 + 2);
    let counts = mapping(&mut flash, Nanos::from_us(9000));
    assert_eq!((counts.lookups, counts.hits, counts.reads, counts.writes), (8, 2, 5, 0));
}

#[test]
fn a_command_reads_a_translation_page_once_however_many_stripes_it_has() {
    for (op, first, units, pages) in [
        (Op::Read, 0, 128, 1),
        (Op::Write, 0, 128, 1),
        (Op::Write, 64, 128, 2),
        (Op::Write, 0, 1024, 8),
        (Op::Read, 0, 1024, 8),
    ] {
        // Nothing is cached, and nothing has to leave the cache: that would cost reads of its own.
        let mut flash = flash("ftl = \"dftl\"\nmap_cache = \"64KiB\"\nprecondition = \"sequential\"");
        submit(&mut flash, Nanos::ZERO, op, first, units);
        let counts = mapping(&mut flash, Nanos::from_s(1));
        assert_eq!(
            (counts.lookups, counts.hits, counts.reads),
            (units, 0, pages),
            "{op:?} of {units} units from {first} on"
        );
        flash.check();
    }
    // What one command has read is not at hand for the next one.
    let mut flash = flash("ftl = \"dftl\"\nmap_cache = \"64KiB\"\nprecondition = \"sequential\"");
    for (n, first) in [0, 64].into_iter().enumerate() {
        submit(&mut flash, Nanos::from_s(n as u64), Op::Write, first, 64);
    }
    assert_eq!(mapping(&mut flash, Nanos::from_s(5)).reads, 2);
}

#[test]
fn changed_entries_of_one_page_are_written_together() {
    let mut flash = flash("ftl = \"dftl\"\nmap_cache = \"256B\"\nprecondition = \"sequential\"");
    let mut now = Nanos::ZERO;
    // 32 entries fit. If all are of one page, the first eviction also writes the others' changes.
    for unit in (0..32).chain(1000..1032) {
        now = submit(&mut flash, now, Op::Write, unit, 1);
    }
    let counts = mapping(&mut flash, now);
    assert_eq!((counts.evictions, counts.writes), (1, 1), "{counts:?}");
    // If each is of another page, each eviction costs a write.
    for page in 0..32 {
        now = submit(&mut flash, now, Op::Write, page * 128 + 64, 1);
    }
    for unit in 5000..5032 {
        now = submit(&mut flash, now, Op::Write, unit, 1);
    }
    let counts = mapping(&mut flash, now);
    assert_eq!(counts.evictions, 1 + 1 + 32, "{counts:?}");
    flash.check();
}

#[test]
fn a_page_that_says_nothing_is_not_read() {
    let mut flash = flash("ftl = \"dftl\"\nmap_cache = \"16B\"\nprecondition = \"sequential\"");
    submit(&mut flash, Nanos::ZERO, Op::Discard, 0, 256);
    let begin = Nanos::from_us(10_000);
    let before = mapping(&mut flash, begin);
    assert_eq!(before.reads, 2, "which slots are not valid any more, the two pages have to say");
    assert_eq!(submit(&mut flash, begin, Op::Read, 0, 1).0 / 1000, 10_001);
    assert_eq!(mapping(&mut flash, begin).reads, 2);
    flash.check();
}

#[test]
fn locality_makes_a_small_cache_do() {
    let hit_ratio = |span: u64| {
        let mut flash = flash("ftl = \"dftl\"\nmap_cache = \"8KiB\"\nprecondition = \"random\"");
        let mut random = Pcg64Mcg::seed_from_u64(3);
        let mut now = Nanos::ZERO;
        for _ in 0..20_000 {
            now = submit(&mut flash, now, Op::Write, random.random_range(0..span), 1);
        }
        let counts = mapping(&mut flash, now);
        (counts.hits as f64 / counts.lookups as f64, flash.stats(now))
    };
    let ((near, cheap), (far, dear)) = (hit_ratio(512), hit_ratio(UNITS));
    println!("hit ratio {near:.3} in half of the cache's reach, {far:.3} over the device");
    // 1024 of 8192 entries are cached.
    assert!(near > 0.95 && (0.09..0.16).contains(&far));
    assert!(dear.nand_bytes_written.unwrap().0 > cheap.nand_bytes_written.unwrap().0 * 3 / 2);
}

#[test]
fn merges_are_what_they_are_called() {
    let merges = |units: &mut dyn Iterator<Item = u64>| {
        let mut flash = flash("ftl = \"log-block\"\nlog_blocks = 0.05\nprecondition = \"sequential\"");
        let mut now = Nanos::ZERO;
        for unit in units {
            now = submit(&mut flash, now, Op::Write, unit, 1);
        }
        flash.check();
        ftl(&flash.stats(now)).merges.unwrap()
    };
    // A block is 32 pages on one of four dies.
    let whole = merges(&mut (0..UNITS).chain(0..256));
    assert!(whole.switches >= 200 && whole.full == 0, "{whole:?}");
    let half = merges(&mut (0..UNITS).filter(|unit| unit % 128 < 64));
    assert!(half.partial >= 30 && half.full == 0 && half.units_copied >= half.partial * 16, "{half:?}");
    let backwards = merges(&mut (0..UNITS).rev());
    assert!(backwards.full >= 200 && backwards.switches == 0, "{backwards:?}");
    assert_eq!(backwards.units_copied, backwards.full * 32, "a full merge copies a block");
}

#[test]
fn fragmentation_is_seen() {
    let state = |extra: &str, discard: bool| {
        let mut flash = flash(extra);
        if discard {
            // Half of the units on each die.
            for unit in (0..UNITS).filter(|unit| unit % 8 < 4) {
                submit(&mut flash, Nanos::ZERO, Op::Discard, unit, 1);
            }
        }
        ftl(&flash.stats(Nanos::ZERO)).fragmentation.unwrap()
    };
    let fresh = state("precondition = \"fresh\"", false);
    assert_eq!((fresh.free_share, fresh.blocks_by_valid_tenth), (1.0, [0; 10]));
    let (in_order, random) = (state("precondition = \"sequential\"", false), state("precondition = \"random\"", false));
    assert!(in_order.valid_share > 0.99 && in_order.blocks_by_valid_tenth[9] >= 256, "{in_order:?}");
    assert!(random.valid_share < 0.9 && random.free_share < 0.1, "{random:?}");
    assert!(random.blocks_by_valid_tenth[..9].iter().sum::<u32>() > 150, "{random:?}");
    let holes = state("precondition = \"sequential\"", true);
    assert!((holes.valid_share - 0.5).abs() < 0.01 && holes.blocks_by_valid_tenth[5] >= 200, "{holes:?}");
}

/// Hot data is overwritten at a steady rate, with bursts at fifty times the rate that make up most of the writes.
fn bursts(extra: &str) -> (Flash, Nanos) {
    let mut flash = flash(&format!("precondition = \"sequential\"\nwear_gap = 6\nwrite_buffer = \"64KiB\"\n{extra}"));
    let mut random = Pcg64Mcg::seed_from_u64(5);
    let mut now = Nanos::ZERO;
    for _ in 0..20 {
        for (writes, apart_us) in [(500, 50_000), (4000, 1_000)] {
            for _ in 0..writes {
                now += Nanos::from_us(apart_us);
                submit(&mut flash, now, Op::Write, random.random_range(0..512), 1);
            }
        }
    }
    (flash, now)
}

#[test]
fn adaptive_levelling_waits_for_quiet() {
    let account = |extra: &str| {
        let (mut flash, now) = bursts(extra);
        flash.check();
        let stats = flash.stats(now);
        (ftl(&stats).levelling.unwrap(), stats.erases.unwrap(), stats.erase_count_min_max.unwrap())
    };
    let (always, all, spread) = account("");
    let (adaptive, fewer, wider) = account("level_wear = \"adaptive\"");
    println!("always {always:?}, {all} erases, {spread:?}; adaptive {adaptive:?}, {fewer} erases, {wider:?}");
    assert!(always.erases > 100 && always.put_off == 0);
    assert_eq!(always.bytes_moved.0 % UNIT, 0);
    // Reading, moving, programming a page takes 570 us, erasing 2 ms.
    let least = always.bytes_moved.0 / UNIT * 510 + always.erases * 2000;
    assert!(always.time.0 / 1000 >= least, "{always:?} takes {least} us at the least");
    assert!(adaptive.put_off > 0 && adaptive.erases < always.erases / 2, "{adaptive:?}");
    assert!(fewer < all);
    assert!(wider.1 - wider.0 >= spread.1 - spread.0);
}

#[test]
fn what_a_burst_put_off_is_done_in_the_quiet_after_it() {
    let (mut flash, now) = bursts("level_wear = \"adaptive\"\nbackground_after = \"1s\"");
    let before = ftl(&flash.stats(now)).levelling.unwrap();
    let after = ftl(&flash.stats(now + Nanos::from_s(60))).levelling.unwrap();
    assert!(after.erases > before.erases, "{before:?}, then {after:?}");
    // Delayed levelling ends eventually.
    let end = ftl(&flash.stats(now + Nanos::from_s(7200))).levelling.unwrap();
    assert_eq!(end, ftl(&flash.stats(now + Nanos::from_s(7200 * 2))).levelling.unwrap());
    flash.check();
}

/// Figure 1 of MixedStore: its flash compared with its disk.
#[test]
fn under_sustained_random_writes_flash_that_merges_is_slower_than_a_disk() {
    let mean_ms = |profile: &str, model: &str, reads: f64| {
        let overrides = toml::from_str(model).unwrap();
        let profile = Profile::named(profile).unwrap().with_model(&overrides).unwrap();
        let span = Bytes::mib(256);
        let mut device = profile.build(Some(span), 1).unwrap();
        let workload = ClosedLoop {
            read_share: reads,
            size: Bytes::kib(4),
            random: true,
            from: Bytes::ZERO,
            span,
            queue_depth: 1,
            requests: 3000,
        };
        run(&mut device, &workload, Nanos::ZERO, 1).0.mean_ms
    };
    let flash =
        |ftl: &str, reads| mean_ms("super-talent-32gb", &format!("ftl = \"{ftl}\"\nprecondition = \"random\""), reads);
    let disk = mean_ms("ibm-ultrastar-36z15", "", 0.0);
    let writes = ["page", "dftl", "log-block", "block-mapped"].map(|layer| flash(layer, 0.0));
    println!("4 KiB random writes: disk {disk:.2} ms; page, dftl, log-block, block-mapped {writes:.2?} ms");
    let [page, cached, log, block] = writes;
    assert!(page < cached && cached < disk, "a page map copies little");
    assert!(disk * 3.0 < log && disk * 3.0 < block, "a merge copies a block");
    let reads = flash("log-block", 1.0);
    assert!(reads * 10.0 < disk, "reads {reads} ms");
}

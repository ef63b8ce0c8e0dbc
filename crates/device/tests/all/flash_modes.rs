//! A part of the flash in single-level mode, and mapping units larger than what the host writes.

use peryton_device::{Accepted, ClosedLoop, Device, Flash, Io, Profile, Tag, flash::FlashParameters, run};
use peryton_units::{Bytes, Nanos, Op};
use proptest::prelude::*;

/// Four dies; a stripe of 16 KiB takes 1 ms, in single-level mode 100 µs: 65 MB/s, or 655.
const BASE: &str = r#"
    channels = 4
    dies_per_channel = 1
    page = "16KiB"
    pages_per_block = 64
    read = "50us"
    program = "1ms"
    erase = "2ms"
    channel_mb_per_s = 1000
    interface_mb_per_s = 4000
    cycles = 3000
    over_provisioning = 0.25
    write_buffer = "256KiB"
    background_after = "10ms"
    idle_w = 1
    standby_w = 0.1
    "#;
const CACHE: &str = "slc_cache = { size = '16MiB', bits = 3, program = '100us' }\n";
const SIZE: Bytes = Bytes::mib(64);

fn flash(extra: &str) -> Flash {
    let parameters: FlashParameters = toml::from_str(&format!("{BASE}{extra}")).expect("parameters");
    Flash::new(&parameters, SIZE, SIZE, 1).expect("a device")
}

/// Writes MiB after MiB from `from` on; the MB/s of each.
fn fill(flash: &mut Flash, now: &mut Nanos, from: u64, mib: u64) -> Vec<f64> {
    let mut rates = Vec::new();
    for at in from..from + mib {
        let begin = *now;
        for block in 0..16 {
            let io = Io { op: Op::Write, at: Bytes::mib(at) + Bytes::kib(64 * block), len: Bytes::kib(64) };
            let Accepted::At(end) = flash.submit(*now, Tag(0), io) else { panic!("flash knows the end at once") };
            *now = end;
        }
        rates.push(f64::from(1 << 20) / 1e6 / now.saturating_sub(begin).as_s_f64());
    }
    rates
}

fn used(flash: &mut Flash, now: Nanos) -> Option<Bytes> {
    flash.stats(now).ftl.expect("flash has it").slc_cache_used
}

#[test]
fn writes_are_fast_until_the_cache_is_full_then_as_slow_as_the_cells_then_slower() {
    let mut now = Nanos::ZERO;
    let mut drive = flash(CACHE);
    let rates = fill(&mut drive, &mut now, 0, 64);
    // 16 MiB in single-level mode take the cells of 48: of the 64 there are, 16 are left for direct writes.
    assert!(rates[2..15].iter().all(|rate| *rate > 400.0), "{rates:?}");
    assert!(rates[18..31].iter().all(|rate| (50.0..80.0).contains(rate)), "{rates:?}");
    // Then the cache is folded to make room: three programs and a read for two.
    let mean = rates[34..62].iter().sum::<f64>() / 28.0;
    assert!((30.0..48.0).contains(&mean), "{mean} of {rates:?}");
    drive.check();
    // What was folded was programmed twice.
    let stats = drive.stats(now);
    let programmed = stats.nand_bytes_written.expect("it is flash").0 as f64 / stats.bytes_written.0 as f64;
    assert!((1.15..1.26).contains(&programmed), "{programmed}");

    // Without a cache it is the cells all along.
    let mut plain = flash("");
    let mut now = Nanos::ZERO;
    let rates = fill(&mut plain, &mut now, 0, 64);
    assert!(rates[2..].iter().all(|rate| (50.0..80.0).contains(rate)), "{rates:?}");
    assert_eq!(used(&mut plain, now), None);
}

#[test]
fn the_cache_is_folded_in_idle_time_and_however_often_one_looks() {
    let mut after = Vec::new();
    for looks in [0, 1, 50] {
        let mut now = Nanos::ZERO;
        let mut drive = flash(CACHE);
        fill(&mut drive, &mut now, 0, 16);
        assert!(used(&mut drive, now).is_some_and(|used| used >= Bytes::mib(15)), "{:?}", used(&mut drive, now));
        // A quarter of the cache a die, a stripe a millisecond and a bit.
        let rest = Nanos::from_ms(600);
        for look in 0..looks {
            drive.stats(Nanos(now.0 + rest.0 * look / looks));
        }
        now += rest;
        assert_eq!(used(&mut drive, now), Some(Bytes::ZERO));
        let again = fill(&mut drive, &mut now, 16, 10);
        assert!(again[1..].iter().all(|rate| *rate > 400.0), "fast again: {again:?}");
        after.push((now, drive.stats(now)));
    }
    assert!(after.windows(2).all(|two| two[0] == two[1]), "{after:?}");
}

#[test]
fn what_is_overwritten_or_discarded_in_the_cache_is_not_folded() {
    let programmed = |discard: bool| {
        let mut now = Nanos::ZERO;
        let mut drive = flash(CACHE);
        fill(&mut drive, &mut now, 0, 12);
        if discard {
            drive.submit(now, Tag(0), Io { op: Op::Discard, at: Bytes::ZERO, len: Bytes::mib(12) });
        }
        now += Nanos::from_s(2);
        drive.stats(now).nand_bytes_written.expect("it is flash").0
    };
    assert_eq!(programmed(true), Bytes::mib(12).0);
    assert_eq!(programmed(false), Bytes::mib(24).0);
    // The same three MiB four times: of twelve written, three are alive.
    let mut now = Nanos::ZERO;
    let mut drive = flash(CACHE);
    for _ in 0..4 {
        fill(&mut drive, &mut now, 0, 3);
    }
    now += Nanos::from_s(2);
    let stats = drive.stats(now);
    let folded = stats.nand_bytes_written.expect("it is flash").0 - stats.bytes_written.0;
    assert!(folded <= Bytes::mib(4).0, "{folded} bytes were folded");
    drive.check();
}

#[test]
fn a_full_drive_has_the_fixed_part_of_its_cache_alone() {
    let cache =
        "precondition = 'sequential'\nslc_cache = { size = '16MiB', fixed = '4MiB', bits = 3, program = '100us' }\n";
    let mut now = Nanos::ZERO;
    let mut drive = flash(cache);
    let rates = fill(&mut drive, &mut now, 0, 12);
    assert!(rates[1..3].iter().all(|rate| *rate > 400.0), "{rates:?}");
    assert!(rates[6..].iter().all(|rate| *rate < 90.0), "{rates:?}");
    now += Nanos::from_s(1);
    assert!(fill(&mut drive, &mut now, 12, 3)[1] > 400.0);
    for (cache, key) in [
        ("slc_cache = { size = '0B', program = '1us' }", "slc_cache.size"),
        ("slc_cache = { size = '65MiB', program = '1us' }", "slc_cache.size"),
        ("slc_cache = { size = '1MiB', fixed = '2MiB', program = '1us' }", "slc_cache.fixed"),
        ("slc_cache = { size = '1MiB', bits = 1, program = '1us' }", "slc_cache.bits"),
        ("slc_cache = { size = '1MiB', program = '0s' }", "slc_cache.program"),
    ] {
        let parameters: FlashParameters = toml::from_str(&format!("{BASE}{cache}\n")).expect("parameters");
        let error = Flash::new(&parameters, SIZE, SIZE, 1).expect_err(key).to_string();
        assert!(error.contains(key), "{cache}: {error}");
    }
}

/// A drive whose map has one entry for each 16 KiB reads the rest of a unit before a smaller write, and programs the whole.
#[test]
fn writes_smaller_than_the_mapping_unit_read_and_program_all_of_it() {
    let state = "precondition = 'sequential'\nmapping_unit = '16KiB'\npage = '16KiB'\n".replace("page = '16KiB'\n", "");
    let random = |unit: &str, size: u64| {
        let text = format!(
            "name = 'd'\ndescription = ''\nclass = 'ssd'\ncapacity = '256MiB'\n[flash]\n{BASE}{}",
            state.replace("16KiB", unit)
        );
        let mut device = Profile::parse(&text, "d").unwrap().build(None, 1).unwrap();
        let writes = ClosedLoop {
            read_share: 0.0,
            size: Bytes::kib(size),
            random: true,
            from: Bytes::ZERO,
            span: Bytes::mib(32),
            queue_depth: 16,
            requests: 3000,
        };
        let (throughput, now) = run(&mut device, &writes, Nanos::from_s(1), 1);
        let Device::Flash(flash) = &mut device else { panic!("it is flash") };
        let stats = flash.stats(now);
        (throughput.iops, stats.nand_bytes_written.expect("it is flash").0 as f64 / stats.bytes_written.0 as f64)
    };
    let (small, amplified) = random("16KiB", 4);
    let (whole, once) = random("16KiB", 16);
    let (fine, plain) = random("4KiB", 4);
    // Four times the bytes are programmed, beside what cleaning copies, and there are no more writes a second than of whole units.
    assert!((3.8..4.2).contains(&(amplified / once)), "{amplified} against {once}");
    assert!(small <= whole * 1.02 && small > whole * 0.5, "{small} writes a second against {whole}");
    assert!(fine > 2.5 * small && plain < amplified / 2.5, "{fine} and {plain} with small units");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// The fear: the account of the cache and the map drift apart.
    #[test]
    fn whatever_is_written_discarded_and_cleaned_the_cache_comes_out_even(
        commands in prop::collection::vec((0u8..4, 0u64..16_000, 1u64..700, 0u64..40), 1..300),
        state in prop::sample::select(vec!["fresh", "sequential", "random"]),
    ) {
        let mut drive = flash(&format!("{CACHE}precondition = '{state}'\n"));
        let mut now = Nanos::from_ms(1);
        for (what, unit, units, pause_ms) in commands {
            let op = [Op::Write, Op::Write, Op::Discard, Op::Flush][usize::from(what)];
            let units = if op == Op::Flush { 0 } else { units.min(16_384 - unit) };
            let io = Io { op, at: Bytes::kib(4 * unit), len: Bytes::kib(4 * units) };
            let Accepted::At(end) = drive.submit(now, Tag(0), io) else { panic!("flash knows the end at once") };
            now = end + Nanos::from_ms(if pause_ms > 30 { pause_ms } else { 0 });
        }
        drive.check();
        prop_assert!(used(&mut drive, now).is_some_and(|used| used <= Bytes::mib(17)));
        prop_assert_eq!(used(&mut drive, now + Nanos::from_s(10)), Some(Bytes::ZERO));
    }
}

//! Each part of the drive takes the correct time.

use peryton_device::{Accepted, Flash, Io, PowerState, Tag};
use peryton_units::{Bytes, Nanos, Op};

use crate::round_numbers;

fn flash(extra: &str) -> Flash {
    round_numbers::build(extra).expect("a device")
}

fn at(accepted: Accepted) -> u64 {
    match accepted {
        Accepted::At(end) => end.0 / 1000,
        Accepted::Queued => panic!("flash knows the end at once"),
    }
}

/// The end in µs of a command at `now_us`.
fn submit(flash: &mut Flash, now_us: u64, op: Op, page: u64, pages: u64) -> u64 {
    let io = Io { op, at: Bytes(page * 4096), len: Bytes(pages * 4096) };
    at(flash.submit(Nanos::from_us(now_us), Tag(0), io))
}

#[test]
fn a_read_is_sensed_then_crosses_channel_and_interface() {
    let mut flash = flash("");
    assert_eq!(submit(&mut flash, 0, Op::Read, 0, 1), 50 + 10 + 1);
    // The same die again: it waits until the page register is free.
    assert_eq!(submit(&mut flash, 0, Op::Read, 4, 1), 60 + 50 + 10 + 1);
    // Another die of another channel does not.
    assert_eq!(submit(&mut flash, 0, Op::Read, 1, 1), 50 + 10 + 1 + 1);
    // Another die of the first channel shares the channel only; its transfer uses the gap before the second read's.
    assert_eq!(submit(&mut flash, 0, Op::Read, 2, 1), 50 + 10 + 10 + 1);
}

#[test]
fn four_dies_read_a_long_request_together() {
    let mut one = flash("");
    let mut all = flash("");
    let alone = submit(&mut one, 0, Op::Read, 0, 1);
    let together = submit(&mut all, 0, Op::Read, 0, 4);
    assert!(together < 2 * alone, "{together} against {alone}");
    let mut serial = flash("channels = 1\ndies_per_channel = 1");
    assert!(submit(&mut serial, 0, Op::Read, 0, 4) > 3 * alone);
}

#[test]
fn unwritten_addresses_need_no_flash() {
    let mut flash = flash("precondition = \"fresh\"");
    assert_eq!(submit(&mut flash, 0, Op::Read, 0, 4), 4);
    submit(&mut flash, 10, Op::Write, 0, 1);
    assert!(submit(&mut flash, 10_000, Op::Read, 0, 1) > 10_050);
    submit(&mut flash, 20_000, Op::Discard, 0, 1);
    assert_eq!(submit(&mut flash, 30_000, Op::Read, 0, 1), 30_001);
}

#[test]
fn without_a_buffer_a_write_ends_when_it_is_programmed() {
    let mut flash = flash("");
    assert_eq!(submit(&mut flash, 0, Op::Write, 0, 1), 1 + 10 + 500);
    assert_eq!(submit(&mut flash, 0, Op::Flush, 0, 0), 0, "nothing waits in RAM");
}

#[test]
fn a_buffer_acknowledges_at_once_and_pushes_back_when_full() {
    let mut flash = flash("write_buffer = \"32KiB\"");
    for page in 0..8 {
        assert!(submit(&mut flash, 0, Op::Write, page, 1) <= 8, "eight pages of room");
    }
    // The ninth write waits for the first program: 1 on the interface, 10 on the channel, 500.
    assert_eq!(submit(&mut flash, 0, Op::Write, 8, 1), 511 + 1);
    let end = submit(&mut flash, 0, Op::Flush, 0, 0);
    assert!((1000..2000).contains(&end), "a flush waits for every program: {end}");
}

#[test]
fn power_loss_protection_makes_a_flush_free() {
    let mut flash = flash("write_buffer = \"32KiB\"\npower_loss_protection = true");
    submit(&mut flash, 0, Op::Write, 0, 1);
    assert_eq!(submit(&mut flash, 2, Op::Flush, 0, 0), 2);
}

#[test]
fn part_of_a_page_reads_the_rest_of_it_first_unless_it_is_in_the_buffer() {
    let mut plain = flash("");
    let sector = |flash: &mut Flash, now, at: u64| {
        let io = Io { op: Op::Write, at: Bytes(at), len: Bytes(512) };
        self::at(flash.submit(Nanos::from_us(now), Tag(0), io))
    };
    assert_eq!(sector(&mut plain, 0, 0), 50 + 10 + 10 + 500);
    // Eight sectors of one page in a stripe of two pages: one read, one program.
    let mut buffered = flash("write_buffer = \"64KiB\"\nplanes = 2");
    for index in 0..8 {
        sector(&mut buffered, 1000, index * 512);
    }
    let stats = buffered.stats(Nanos::from_ms(100));
    assert_eq!(stats.nand_bytes_written, Some(Bytes(0)), "the page waits for its neighbour");
    submit(&mut buffered, 200_000, Op::Write, 1, 1);
    let stats = buffered.stats(Nanos::from_ms(300));
    assert_eq!(stats.nand_bytes_written, Some(Bytes(8192)));
}

#[test]
fn a_read_goes_before_waiting_programs_and_may_interrupt_one() {
    let mut waiting = flash("write_buffer = \"1MiB\"");
    submit(&mut waiting, 0, Op::Write, 0, 64);
    let waited = submit(&mut waiting, 100, Op::Read, 4000, 1);
    assert!((100 + 61..100 + 561 + 100).contains(&waited), "at most the program that has begun: {waited}");
    let mut suspending = flash("write_buffer = \"1MiB\"\nsuspend = \"20us\"");
    submit(&mut suspending, 0, Op::Write, 0, 64);
    let suspended = submit(&mut suspending, 100, Op::Read, 4000, 1);
    assert!(suspended <= 100 + 20 + 61 + 20, "{suspended}");
}

#[test]
fn standby_saves_power_and_costs_the_time_to_wake() {
    let mut flash = flash("wake = \"1ms\"");
    flash.set_power(Nanos::ZERO, PowerState::Standby);
    let stats = flash.stats(Nanos::from_s(10));
    assert!((stats.energy_j - 1.0).abs() < 1e-9 && stats.standby == Nanos::from_s(10), "{stats:?}");
    assert_eq!(submit(&mut flash, 10_000_000, Op::Read, 0, 1), 10_000_000 + 1000 + 61);
}

#[test]
fn block_mapping_pays_for_random_writes_and_a_log_softens_it() {
    let cost = |ftl: &str, random: bool| {
        let mut flash = flash(&format!("ftl = \"{ftl}\"\nlog_blocks = 0.2\nwrite_buffer = \"256KiB\""));
        let mut now = 0;
        let pages = (64 << 20) / 4096;
        for round in 0..pages {
            // A scattered order over a few blocks, or sequential.
            let page = if random { round * 7919 % (pages / 32) } else { round };
            now = submit(&mut flash, now, Op::Write, page, 1);
        }
        let end = submit(&mut flash, now, Op::Flush, 0, 0);
        let stats = flash.stats(Nanos::from_us(end));
        flash.check();
        let amplification = stats.nand_bytes_written.unwrap().0 as f64 / stats.bytes_written.0 as f64;
        (amplification, stats.erases.unwrap())
    };
    for ftl in ["page", "ideal", "block-mapped", "log-block", "shared-log"] {
        let (sequential, erases) = cost(ftl, false);
        assert!((0.99..1.05).contains(&sequential), "{ftl}: sequential writes cost {sequential}");
        assert!((200..=270).contains(&erases), "{ftl}: 256 blocks were overwritten, {erases} erased");
    }
    let [page, ideal, block, log] = ["page", "ideal", "block-mapped", "log-block"].map(|ftl| cost(ftl, true));
    println!("page {page:?}, ideal {ideal:?}, block-mapped {block:?}, log-block {log:?}");
    assert!((0.99..1.01).contains(&ideal.0) && ideal.0 <= page.0 && page.0 < log.0 && log.0 < block.0);
    assert!(block.0 > 16.0, "a block of 64 pages is moved for almost every write: {block:?}");
    // At first, spare blocks that were erased earlier need no erase.
    assert!(ideal.1 <= page.1 + 80 && page.1 < log.1 && log.1 < block.1, "Griffin's bounds on erases");
}

#[test]
fn static_wear_levelling_brings_cold_blocks_into_use() {
    let spread = |gap: &str| {
        let mut flash = flash(&format!("write_buffer = \"256KiB\"\n{gap}"));
        let mut now = 0;
        for round in 0..400_000 {
            now = submit(&mut flash, now, Op::Write, round * 7919 % 1000, 1);
        }
        flash.check();
        let stats = flash.stats(Nanos::from_us(now));
        stats.erase_count_min_max.unwrap()
    };
    let (never, levelled) = (spread(""), spread("wear_gap = 5"));
    println!("without {never:?}, with {levelled:?}");
    assert_eq!(never.0, 0, "cold data stays where it is");
    assert!(levelled.0 > 0 && levelled.1 - levelled.0 <= 10, "{levelled:?}");
    // 400,000 writes are 20 erases for each of 320 blocks. Cold data that moved repeatedly would cause more.
    assert!(levelled.1 < never.1 && levelled.1 <= 30, "{levelled:?}");
}

#[test]
#[should_panic(expected = "reaches past the end")]
fn a_command_past_the_end_is_a_bug_of_the_caller() {
    submit(&mut flash(""), 0, Op::Read, 16384, 1);
}

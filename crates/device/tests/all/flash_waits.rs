//! What a command waits for: the channel for its own cycles, an erase that can be suspended or not, a place in the drive's queue, the die
//! that its address decides on, and cleaning that is done at once. Most times are computed by hand.

use peryton_device::{Accepted, Flash, Io, Tag};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::round_numbers;

use round_numbers::build;

fn flash(extra: &str) -> Flash {
    build(extra).expect("a device")
}

/// The end in µs of a command of one page at `now_us`.
fn submit(flash: &mut Flash, now_us: u64, op: Op, page: u64) -> u64 {
    let io = Io { op, at: Bytes(page * 4096), len: Bytes(4096) };
    match flash.submit(Nanos::from_us(now_us), Tag(0), io) {
        Accepted::At(end) => end.0 / 1000,
        Accepted::Queued => panic!("flash knows the end at once"),
    }
}

#[test]
fn a_command_waits_for_transfers_on_its_channel() {
    let mut with = flash("channels = 1\ndies_per_channel = 4\nchannel_command = \"5us\"");
    let mut without = flash("channels = 1\ndies_per_channel = 4");
    // Command 0 to 5, sensing to 55, the channel to 65, the interface to 66.
    assert_eq!(submit(&mut with, 0, Op::Read, 0), 66);
    assert_eq!(submit(&mut without, 0, Op::Read, 0), 61);
    // Command 5 to 10, sensing to 60, the channel from 65 to 75.
    assert_eq!(submit(&mut with, 0, Op::Read, 1), 76);
    assert_eq!(submit(&mut without, 0, Op::Read, 1), 71);
    // At 57 the channel transfers for these two until 75, and until 70: only with command cycles does the third die wait for that.
    assert_eq!(submit(&mut with, 57, Op::Read, 2), 75 + 5 + 50 + 10 + 1);
    assert_eq!(submit(&mut without, 57, Op::Read, 2), 57 + 50 + 10 + 1);
}

#[test]
fn the_queue_takes_so_many_commands_and_the_next_waits_outside() {
    let mut two = flash("queue_depth = 2");
    let mut any = flash("");
    for flash in [&mut two, &mut any] {
        assert_eq!(submit(flash, 0, Op::Read, 0), 61);
        assert_eq!(submit(flash, 0, Op::Read, 1), 62);
    }
    assert_eq!(submit(&mut any, 0, Op::Read, 3), 71);
    // It begins when the first has ended, on a die that was idle.
    assert_eq!(submit(&mut two, 0, Op::Read, 3), 61 + 61);
    assert_eq!(submit(&mut two, 200, Op::Read, 3), 261);
}

#[test]
fn the_address_may_decide_on_the_die_of_a_write() {
    let mut turns = flash("");
    let mut address = flash("placement = \"address\"");
    for flash in [&mut turns, &mut address] {
        assert_eq!(submit(flash, 0, Op::Write, 0), 511);
    }
    // Pages 0 and 4 are of one of four dies. The register is loaded while the first is programmed.
    assert_eq!(submit(&mut address, 0, Op::Write, 4), 511 + 500);
    assert!(submit(&mut turns, 0, Op::Write, 4) <= 513);
    assert_eq!(submit(&mut address, 0, Op::Write, 1), 3 + 10 + 500, "a die of the other channel");
    let error = build("placement = \"address\"\nplanes = 2").expect_err("two units in a stripe").to_string();
    assert!(error.contains("placement") && error.contains("page × planes"), "{error}");
}

/// Overwrites one die until a write has to wait for an erase, and reads from that die 100 µs after that write came in. Returns how long
/// the read takes, in µs.
fn read_behind_erase(extra: &str) -> u64 {
    let mut flash = flash(&format!("placement = \"address\"\n{extra}"));
    let mut now = 0;
    for turn in 0..100_000 {
        let before = flash.stats(Nanos::from_us(now)).erases;
        let end = submit(&mut flash, now, Op::Write, turn * 4 % 16_384);
        if flash.stats(Nanos::from_us(now)).erases != before {
            assert!(end - now >= 2500, "an erase and a program: {}", end - now);
            return submit(&mut flash, now + 100, Op::Read, 8000) - now - 100;
        }
        now = end;
    }
    panic!("nothing was erased");
}

#[test]
fn a_read_waits_for_an_erase_or_suspends_it() {
    // What is left of 2 ms after 100 µs, then the read.
    assert_eq!(read_behind_erase(""), 1900 + 61);
    assert_eq!(read_behind_erase("suspend_erase = \"20us\""), 20 + 61);
    assert_eq!(read_behind_erase("suspend = \"30us\""), 30 + 61, "it holds for both");
    assert_eq!(read_behind_erase("suspend = \"30us\"\nsuspend_erase = \"100us\""), 100 + 61);
    // Behind a program, only `suspend` counts.
    let mut flash = flash("suspend_erase = \"20us\"");
    submit(&mut flash, 0, Op::Write, 0);
    let end = (0..4).map(|page| submit(&mut flash, 111, Op::Read, 8000 + page)).max();
    assert!(end >= Some(511 + 61), "{end:?}");
}

#[test]
fn reads_that_wait_for_one_another_go_before_the_next_program() {
    let mut flash = flash("write_buffer = \"1MiB\"\nplacement = \"address\"");
    // Sixteen programs for each die.
    (0..64).for_each(|page| _ = submit(&mut flash, 0, Op::Write, page));
    // The first read waits for the program that has begun; those behind it for one another, 50 µs and 10 µs each.
    let ends: Vec<u64> = (0..4).map(|turn| submit(&mut flash, 100, Op::Read, 8000 + 4 * turn)).collect();
    assert!(ends[0] < 100 + 500 + 10 + 61, "{ends:?}");
    let between: Vec<u64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(between, [60, 60, 60], "{ends:?}");
    // A read that comes later finds a program under way.
    assert!(submit(&mut flash, ends[3] + 50, Op::Read, 8000) > ends[3] + 400);
}

#[test]
fn cleaning_at_once_moves_as_much_and_makes_longer_tails() {
    let run = |extra: &str| {
        let mut flash =
            flash(&format!("precondition = \"random\"\nover_provisioning = 0.2\nplacement = \"address\"\n{extra}"));
        let mut random = Pcg64Mcg::seed_from_u64(3);
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for request in 0..60_000_u64 {
            let now = request * 2000;
            let page = random.random_range(0..16_384);
            let op = if request % 2 == 0 { Op::Write } else { Op::Read };
            let took = submit(&mut flash, now, op, page) - now;
            if op == Op::Read { &mut reads } else { &mut writes }.push(took);
        }
        flash.check();
        let stats = flash.stats(Nanos::from_s(200));
        let amplification = stats.nand_bytes_written.expect("flash").0 as f64 / stats.bytes_written.0 as f64;
        let tail = |mut times: Vec<u64>| {
            times.sort_unstable();
            times[times.len() * 99 / 100]
        };
        (amplification, tail(reads), tail(writes))
    };
    let (shares, once) = (run(""), run("collect_at_once = true"));
    println!("in shares {shares:?}, at once {once:?}");
    assert!((once.0 / shares.0 - 1.0).abs() < 0.05, "{once:?} {shares:?}");
    // A victim of 64 pages has some 40 to move, of at least 570 µs each.
    assert!(once.1 > 10_000 && once.2 > 20_000, "{once:?}");
    assert!(shares.1 < 5_000 && shares.2 < once.2, "{shares:?}");
}

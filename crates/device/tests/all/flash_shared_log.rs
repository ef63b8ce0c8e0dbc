//! The layer whose logs all blocks share (FAST): which overwrites it merges how, and what it saves beside logs that belong
//! to one block each (BAST).

use peryton_device::{
    Accepted, Flash, Io, Tag,
    flash::{FlashParameters, Merges},
};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const UNIT: u64 = 512;
const UNITS: u64 = 8192;
/// Units of a block.
const BLOCK: u64 = 32;

/// One die with 256 data blocks; `log_blocks = 0.05` gives 13 logs that are shared.
fn flash(ftl: &str) -> Flash {
    let parameters: FlashParameters = toml::from_str(&format!(
        r#"
        channels = 1
        dies_per_channel = 1
        page = "512B"
        mapping_unit = "512B"
        pages_per_block = {BLOCK}
        read = "50us"
        program = "500us"
        erase = "2ms"
        channel_mb_per_s = 51.2
        interface_mb_per_s = 512
        cycles = 3000
        over_provisioning = 0.2
        idle_w = 1
        standby_w = 0.1
        ftl = "{ftl}"
        log_blocks = 0.05
        "#
    ))
    .expect("parameters");
    Flash::new(&parameters, Bytes(UNITS * UNIT), Bytes(UNITS * UNIT), 1).expect("a device")
}

/// Writes all units in order and then these; returns the merges of the latter and the erases.
fn overwrite(ftl: &str, units: impl IntoIterator<Item = u64>) -> (Merges, u64) {
    let mut flash = flash(ftl);
    let mut now = Nanos::ZERO;
    let mut write = |flash: &mut Flash, unit: u64| {
        let io = Io { op: Op::Write, at: Bytes(unit * UNIT), len: Bytes(UNIT) };
        let Accepted::At(end) = flash.submit(now, Tag(0), io) else { panic!("flash knows the end at once") };
        now = end;
        now
    };
    let mut end = Nanos::ZERO;
    for unit in (0..UNITS).chain(units) {
        end = write(&mut flash, unit);
    }
    flash.check();
    let stats = flash.stats(end);
    (stats.ftl.expect("a layer").merges.expect("it merges"), stats.erases.expect("it erases"))
}

#[test]
fn a_stream_over_whole_blocks_is_switched_and_copies_nothing() {
    let (merges, erases) = overwrite("shared-log", 0..UNITS);
    // The last block's log has not ended yet.
    let blocks = UNITS / BLOCK;
    assert_eq!((merges.switches, merges.partial, merges.full, merges.units_copied), (blocks - 1, 0, 0, 0));
    assert_eq!(erases, blocks - 1);
}

#[test]
fn a_stream_that_ends_early_copies_the_rest_of_its_block() {
    // Ten units of each of three blocks: when the next stream begins, the other 22 are copied.
    let units = [0, 5, 9].into_iter().flat_map(|block| block * BLOCK..block * BLOCK + 10);
    let (merges, _) = overwrite("shared-log", units);
    assert_eq!((merges.switches, merges.partial, merges.full, merges.units_copied), (0, 2, 0, 44));
}

#[test]
fn a_stream_that_is_interrupted_in_its_own_block_ends() {
    // Unit 3 of the block is overwritten out of order: the log of 10 units becomes the data block with 22 copied, and
    // the overwrite goes to a shared log.
    let (merges, _) = overwrite("shared-log", (0..10).chain([3]));
    assert_eq!((merges.switches, merges.partial, merges.full, merges.units_copied), (0, 1, 0, 22));
}

#[test]
fn a_log_of_dead_units_is_emptied_without_a_copy() {
    // The same few units again and again: when a log is the oldest, later ones have all of its units.
    let (merges, erases) = overwrite("shared-log", (0..2000).map(|round| 1 + round % 7));
    assert_eq!((merges.full, merges.units_copied), (0, 0));
    assert_eq!(erases, (2000u64.div_ceil(BLOCK)) - 13, "each further log takes the place of the oldest");
}

#[test]
fn an_emptied_log_costs_a_merge_for_each_block_that_has_a_live_unit_in_it() {
    // 13 logs of 32 units: one unit of each of 208 blocks, twice over, and one write more.
    let once = (0..208).map(|block| block * BLOCK + 5);
    let twice = once.clone().chain((0..208).map(|block| block * BLOCK + 6)).chain([300 * BLOCK % UNITS + 7]);
    let (merges, _) = overwrite("shared-log", twice);
    // The oldest log has one live unit of each of the first 32 blocks; a merge also takes what later logs have of them.
    assert_eq!((merges.full, merges.units_copied), (32, 32 * BLOCK));
}

#[test]
fn scattered_overwrites_merge_less_often_than_with_a_log_for_each_block() {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let units: Vec<u64> = (0..6000).map(|_| random.random_range(0..UNITS)).collect();
    let (shared, shared_erases) = overwrite("shared-log", units.iter().copied());
    let (own, own_erases) = overwrite("log-block", units.iter().copied());
    println!("shared {shared:?}, {shared_erases} erases; a log for each block {own:?}, {own_erases} erases");
    // BAST opens a log for nearly every write and merges it with one unit in it. FAST fills its logs first.
    assert!(shared.units_copied * 10 < own.units_copied * 9 && shared_erases * 10 < own_erases * 7);
}

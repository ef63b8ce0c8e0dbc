//! Griffin's mechanisms, one test each.

use crate::common;

use common::World;
use peryton_engine::{
    Cause, Command, Config, ConfigError, DeviceId, LogCaching, Logging, LoggingStats, LoggingTuning, Placement,
    Request, Triggers, Tuning, TuningError,
};
use peryton_units::{Bytes, Nanos, Op};

const PRIMARY: DeviceId = DeviceId(0);
const LOG: DeviceId = DeviceId(1);
const BLOCK: u64 = 4096;
/// Offset of the volume on the primary.
const DATA_AT: Bytes = Bytes::mib(1);

fn quiet() -> Triggers {
    Triggers { timeout: None, read_share_ppm: None, size: None, log_used_ppm: 1_000_000 }
}

fn drive(triggers: Triggers, primary: Bytes, log: Bytes) -> World {
    let logging = LoggingTuning { triggers, ..LoggingTuning::default() };
    let tuning = Tuning { logging, ..Tuning::default() };
    let placement = Placement::Logging(Logging { primaries: PRIMARY.into(), log: LOG, block: Bytes(BLOCK) });
    World::new(Config { devices: vec![primary, log], placement, tuning }, Bytes(BLOCK), 1)
}

fn roomy(triggers: Triggers) -> World {
    drive(triggers, Bytes::mib(1), Bytes::mib(64))
}

fn ask(world: &mut World, op: Op, offset: u64, len: u64) {
    world.submit(Request { op, offset: Bytes(offset), len: Bytes(len) });
}

fn log_stats(world: &World) -> &LoggingStats {
    world.engine.stats().logging.as_ref().expect("a logging drive has statistics of its log")
}

fn primary_writes(world: &World) -> (u64, u64) {
    let row = &world.engine.stats().devices[0];
    (row.writes.iter().sum(), row.bytes_written.iter().sum())
}

fn retune(world: &mut World, change: impl FnOnce(&mut LoggingTuning)) {
    let mut tuning = world.engine.tuning().clone();
    change(&mut tuning.logging);
    world.retune(tuning);
}

#[test]
fn a_block_that_is_overwritten_many_times_reaches_the_primary_once() {
    let mut world = roomy(quiet());
    for _ in 0..50 {
        ask(&mut world, Op::Write, 8 * BLOCK, BLOCK);
        world.complete_all();
    }
    assert_eq!(primary_writes(&world), (0, 0));
    retune(&mut world, |logging| logging.triggers.size = Some(Bytes(1)));
    world.tick(Nanos::from_s(1));
    world.settle();
    assert_eq!(primary_writes(&world), (1, BLOCK));
    assert_eq!(log_stats(&world).bytes_superseded, 49 * BLOCK);
    assert_eq!(log_stats(&world).migrations.size, 1);
    assert_eq!(log_stats(&world).write_savings(), Some(1.0 - 1.0 / 50.0));
    world.read_all();
    assert_eq!(log_stats(&world).read_penalty(), Some(0.0), "after a migration the primary serves all reads");
}

#[test]
fn the_log_device_sees_one_sequential_stream_of_writes() {
    let mut world = roomy(quiet());
    let mut end = Bytes::mib(2);
    let mut look = |world: &World| {
        for command in world.commands() {
            let Command::Write { device, at, len, .. } = command else { panic!("{command:?}") };
            assert_eq!(device, LOG);
            if at >= end {
                // The gap is at most the alignment of the next append, or the end of a segment of 1 MiB.
                let to_segment = end.0.next_multiple_of(1 << 20) == at.0;
                assert!(at.0 - end.0 < 4096 || to_segment, "a gap from {end} to {at}");
                end = at + len;
            }
        }
    };
    for number in 0..400u64 {
        // Any size and alignment, large ones included, several at a time.
        let len = if number % 37 == 0 { 300_032 } else { 128 * (1 + number * 7 % 100) };
        ask(&mut world, Op::Write, number * 9 * 128 % (1 << 19), len);
        look(&world);
        while number % 7 == 0 && world.has_pending() {
            world.complete_at(0);
            look(&world);
        }
    }
    world.complete_all();
    assert!(log_stats(&world).appends < 400, "nothing was gathered");
    world.read_all();
}

#[test]
fn writes_that_come_while_others_are_under_way_share_an_append() {
    let mut world = roomy(quiet());
    for block in 0..30 {
        ask(&mut world, Op::Write, block * BLOCK, BLOCK);
    }
    world.complete_all();
    // Two appends start immediately, the rest when the first is done.
    assert_eq!(log_stats(&world).appends, 3);
    assert_eq!(log_stats(&world).records, 30);
    assert_eq!(world.engine.stats().devices[1].writes[Cause::Host as usize], 3);
}

#[test]
fn a_gathering_delay_is_kept_and_is_bounded() {
    let mut world = roomy(quiet());
    retune(&mut world, |logging| logging.gather_delay = Nanos::from_ms(5));
    world.tick(Nanos(0));
    ask(&mut world, Op::Write, 0, 512);
    ask(&mut world, Op::Write, 4096, 512);
    world.tick(Nanos::from_ms(4));
    assert!(!world.has_pending(), "it went before its time");
    world.tick(Nanos::from_ms(1));
    assert_eq!(world.commands().len(), 1);
    world.complete_all();
    assert_eq!((world.replies, log_stats(&world).appends), (2, 1));
}

#[test]
fn requests_waiting_for_gathered_writes_continue_when_the_log_is_full() {
    for op in [Op::Discard, Op::Write] {
        let mut world = roomy(quiet());
        retune(&mut world, |logging| logging.gather_delay = Nanos::from_ms(5));
        ask(&mut world, Op::Write, 0, 2 * BLOCK);
        // A write that bypasses the log, and must wait for the one above.
        retune(&mut world, |logging| logging.caching = LogCaching::Selective { overwrite_ratio_ppm: 999_999 });
        ask(&mut world, op, BLOCK, 2 * BLOCK);
        assert!(!world.has_pending(), "{op:?}: it goes at once, the test tests nothing");
        world.device_failed(LOG);
        // No other event happens that could continue the waiting request.
        world.complete_all();
        world.tick(Nanos::from_ms(5));
        world.complete_all();
        assert_eq!(world.replies, 2, "{op:?}: a request is never answered");
    }
}

#[test]
fn a_read_may_straddle_the_log_and_the_primary_several_times() {
    let mut world = roomy(quiet());
    for (offset, len) in [(BLOCK, BLOCK), (3 * BLOCK, 2 * BLOCK), (6 * BLOCK + 512, 1024), (6 * BLOCK + 1024, 256)] {
        ask(&mut world, Op::Write, offset, len);
        world.complete_all();
    }
    ask(&mut world, Op::Read, 0, 8 * BLOCK);
    let places: Vec<(DeviceId, u64)> = world
        .commands()
        .iter()
        .map(|command| match command {
            Command::Read { device, len, .. } => (*device, len.0),
            other => panic!("{other:?}"),
        })
        .collect();
    // The two blocks that were written together are read together.
    let expected = [
        (PRIMARY, BLOCK),
        (LOG, BLOCK),
        (PRIMARY, BLOCK),
        (LOG, 2 * BLOCK),
        (PRIMARY, BLOCK + 512),
        (LOG, 512),
        (LOG, 256),
        (LOG, 256),
        (PRIMARY, 2 * BLOCK - 512 - 1024),
    ];
    assert_eq!(places, expected);
    world.complete_all();
    assert_eq!((log_stats(&world).reads, log_stats(&world).reads_from_log), (1, 1));
    world.read_all();
}

#[test]
fn the_timeout_fires_once_and_only_with_something_to_migrate() {
    let mut world = roomy(Triggers { timeout: Some(Nanos::from_s(900)), ..quiet() });
    world.tick(Nanos::from_s(2_000));
    assert_eq!(log_stats(&world).migrations.timeout, 0);
    ask(&mut world, Op::Write, 0, BLOCK);
    world.complete_all();
    world.tick(Nanos::from_s(890));
    assert_eq!(log_stats(&world).migrations.timeout, 0);
    world.tick(Nanos::from_s(10));
    assert_eq!(log_stats(&world).migrations.timeout, 1);
    world.settle();
    world.tick(Nanos::from_s(5_000));
    assert_eq!(log_stats(&world).migrations.timeout, 1);
    assert_eq!(primary_writes(&world), (1, BLOCK));
}

#[test]
fn the_read_threshold_fires_when_the_penalty_since_the_last_migration_is_above_it() {
    let mut world = roomy(Triggers { read_share_ppm: Some(10_000), ..quiet() });
    ask(&mut world, Op::Write, 0, BLOCK);
    world.complete_all();
    for read in 0..300u64 {
        // One read in 100 is exactly the threshold, not above it; the second of 101 is.
        ask(&mut world, Op::Read, if read % 100 == 0 { 0 } else { 10 * BLOCK }, BLOCK);
        if read >= 100 {
            world.complete_all();
        }
        assert_eq!(log_stats(&world).migrations.read_share, u64::from(read >= 100), "read {read}");
        world.complete_all();
    }
    assert_eq!(log_stats(&world).reads_from_log, 2);
}

/// Reads until the log migrates because of them, if every `every`th needs the log; `None` if it never does.
fn reads_until_migration(share_ppm: u32, every: u64) -> Option<u64> {
    let mut world = roomy(Triggers { read_share_ppm: Some(share_ppm), ..quiet() });
    ask(&mut world, Op::Write, 0, BLOCK);
    world.complete_all();
    (1..=400u64).find(|read| {
        ask(&mut world, Op::Read, if read % every == 0 { 0 } else { 10 * BLOCK }, BLOCK);
        world.complete_all();
        log_stats(&world).migrations.read_share == 1
    })
}

/// The fear: after each migration the threshold is blind for a number of reads that has nothing to do with it.
#[test]
fn no_reads_after_a_migration_are_ignored_by_the_read_threshold() {
    // Every read needs the log. One alone does not decide, since one of 20 (of 100) is the threshold; two do.
    assert_eq!(reads_until_migration(50_000, 1), Some(2));
    assert_eq!(reads_until_migration(10_000, 1), Some(2));
    // Two of ten are above a tenth, two of 20 above a twentieth, and two of 38 are.
    assert_eq!(reads_until_migration(100_000, 5), Some(10));
    assert_eq!(reads_until_migration(50_000, 10), Some(20));
    assert_eq!(reads_until_migration(50_000, 19), Some(38));
    // At the threshold and below it nothing migrates, however long it lasts.
    assert_eq!(reads_until_migration(50_000, 20), None);
    assert_eq!(reads_until_migration(250_000, 4), None);
    assert_eq!(reads_until_migration(1_000_000, 1), None, "no share is above 100 %");
    // With no read allowed, the first one decides.
    assert_eq!(reads_until_migration(0, 3), Some(3));
}

#[test]
fn the_size_counts_only_newest_copies() {
    let mut world = roomy(Triggers { size: Some(Bytes(4 * BLOCK)), ..quiet() });
    for write in 0..20 {
        ask(&mut world, Op::Write, write % 3 * BLOCK, BLOCK);
        world.complete_all();
    }
    assert_eq!(log_stats(&world).migrations.size, 0);
    ask(&mut world, Op::Write, 3 * BLOCK, BLOCK);
    world.complete_all();
    assert_eq!(log_stats(&world).migrations.size, 1);
    // The blocks are sorted and merged into one write of four blocks.
    assert_eq!(primary_writes(&world), (1, 4 * BLOCK));
}

#[test]
fn a_migration_sorts_by_address_and_writes_long_runs() {
    let mut world = roomy(quiet());
    for block in 0..256u64 {
        ask(&mut world, Op::Write, block * 97 % 256 * BLOCK, BLOCK);
        world.complete_all();
    }
    retune(&mut world, |logging| logging.triggers.size = Some(Bytes(1)));
    world.tick(Nanos(1));
    let mut ends = Vec::new();
    while world.has_pending() {
        for command in world.commands() {
            if let Command::Write { device: PRIMARY, at, len, .. } = command
                && !ends.contains(&(at, len))
            {
                ends.push((at, len));
            }
        }
        world.complete_at(0);
    }
    let expected: Vec<(Bytes, Bytes)> = (0..4).map(|run| (DATA_AT + Bytes::kib(256 * run), Bytes::kib(256))).collect();
    assert_eq!(ends, expected);
    // The log is read in order, in few long reads.
    let reads = world.engine.stats().devices[1].reads[Cause::WriteBack as usize];
    assert!((8..=10).contains(&reads), "{reads} reads for 2 MiB of log");
    world.read_all();
}

#[test]
fn a_hint_migrates_its_range_and_nothing_else() {
    let mut world = roomy(quiet());
    for block in 0..8 {
        ask(&mut world, Op::Write, block * BLOCK, BLOCK);
    }
    world.complete_all();
    world.evict_range(Bytes(2 * BLOCK)..Bytes(4 * BLOCK));
    world.complete_all();
    assert_eq!(primary_writes(&world), (1, 2 * BLOCK));
    assert_eq!(log_stats(&world).migrations.hint, 1);
    ask(&mut world, Op::Read, 2 * BLOCK, 2 * BLOCK);
    world.complete_all();
    assert_eq!(log_stats(&world).reads_from_log, 0);
    world.read_all();
}

#[test]
fn host_requests_continue_during_a_migration_which_skips_what_they_overwrite() {
    let mut world = roomy(quiet());
    for block in 0..16 {
        ask(&mut world, Op::Write, block * BLOCK, BLOCK);
    }
    world.complete_all();
    retune(&mut world, |logging| logging.triggers.timeout = Some(Nanos::from_s(1)));
    world.tick(Nanos::from_s(2));
    assert_eq!(log_stats(&world).migrations.timeout, 1);
    // While the migration is reading, a block is overwritten and answered, before the migration writes it.
    ask(&mut world, Op::Write, 5 * BLOCK, BLOCK);
    let last = world.commands().len() - 1;
    world.complete_at(last);
    assert_eq!(world.replies, 17);
    world.complete_all();
    assert_eq!(primary_writes(&world).1, 15 * BLOCK);
    assert_eq!(log_stats(&world).bytes_superseded, BLOCK);
    world.read_all();
}

#[test]
fn a_write_past_the_log_delays_a_migration_of_its_block_and_no_later_one() {
    let mut world = roomy(quiet());
    for block in 0..16 {
        ask(&mut world, Op::Write, block * BLOCK, BLOCK);
    }
    world.complete_all();
    retune(&mut world, |logging| {
        logging.triggers.size = Some(Bytes(1));
        logging.caching = LogCaching::Selective { overwrite_ratio_ppm: 999_999 };
    });
    world.tick(Nanos::from_s(1));
    assert_eq!(log_stats(&world).migrations.size, 1);
    // While the migration is reading, a block is overwritten past the log. Everything else is done first.
    ask(&mut world, Op::Write, 5 * BLOCK, BLOCK);
    let is_write_of_host = |command: &Command| matches!(command, Command::Write { cause: Cause::Host, .. });
    while let Some(index) = world.commands().iter().position(|command| !is_write_of_host(command)) {
        world.complete_at(index);
    }
    assert_eq!((world.replies, world.commands().len()), (16, 1));
    world.settle();
    assert_eq!((world.replies, primary_writes(&world)), (17, (3, 16 * BLOCK)));
    // Nothing has failed, so the next migration needs no pause.
    retune(&mut world, |logging| logging.caching = LogCaching::Full);
    let now = world.now;
    ask(&mut world, Op::Write, 7 * BLOCK, BLOCK);
    world.complete_all();
    assert_eq!(log_stats(&world).migrations.size, 2);
    assert!(world.now < now.saturating_add(Nanos::from_ms(500)));
    world.read_all();
}

#[test]
fn a_segment_is_used_again_only_after_a_durable_commit() {
    // The log has two segments of 1 MiB.
    let mut world = drive(quiet(), Bytes::mib(4), Bytes::mib(2));
    let mut flushed_primary = 0;
    for round in 0..6u64 {
        for block in 0..100u64 {
            ask(&mut world, Op::Write, (round * 131 + block * 3) % 1024 * BLOCK, BLOCK);
            world.complete_all();
        }
        let stats = world.engine.stats();
        assert!(stats.devices[0].flushes >= flushed_primary);
        flushed_primary = stats.devices[0].flushes;
    }
    let stats = world.engine.stats();
    assert!(log_stats(&world).migrations.log_used >= 2, "{:?}", log_stats(&world));
    assert!(stats.commits >= 2 && stats.devices[0].flushes >= stats.commits);
    assert!(stats.devices[1].flushes >= stats.commits);
    world.read_all();
}

#[test]
fn a_full_log_lets_writes_through_to_the_primary() {
    // Migrations cannot finish, because none of their commands completes.
    let mut world = drive(quiet(), Bytes::mib(4), Bytes::kib(64));
    for block in 0..200u64 {
        ask(&mut world, Op::Write, block * BLOCK, BLOCK);
        while let Some(index) =
            world.commands().iter().position(|command| matches!(command, Command::Write { cause: Cause::Host, .. }))
        {
            world.complete_at(index);
        }
    }
    assert_eq!(world.replies, 200);
    assert!(log_stats(&world).direct_writes > 150);
    world.read_all();
}

#[test]
fn direct_writes_and_appends_of_one_range_wait_for_each_other() {
    let (full, selective) = (LogCaching::Full, LogCaching::Selective { overwrite_ratio_ppm: 999_999 });
    for (first, second) in [(full, selective), (selective, full)] {
        let mut world = roomy(quiet());
        retune(&mut world, |logging| logging.caching = first);
        ask(&mut world, Op::Write, 0, 2 * BLOCK);
        retune(&mut world, |logging| logging.caching = second);
        ask(&mut world, Op::Write, BLOCK, 2 * BLOCK);
        assert_eq!(world.commands().len(), 1, "a replay of the log might come to another winner than the map did");
        // A piece that does not overlap need not wait.
        ask(&mut world, Op::Write, 4 * BLOCK, BLOCK);
        assert_eq!(world.commands().len(), 2);
        world.complete_at(0);
        assert_eq!((world.replies, world.commands().len()), (1, 2));
        world.read_all();
        assert_eq!(log_stats(&world).direct_writes, if first == full { 2 } else { 1 });
    }
}

#[test]
fn a_flush_covers_the_log_and_the_primary_and_waits_for_both() {
    let mut world = roomy(quiet());
    ask(&mut world, Op::Write, 0, BLOCK);
    world.complete_all();
    ask(&mut world, Op::Flush, 0, 0);
    ask(&mut world, Op::Flush, 0, 0);
    let flushes = |world: &World| world.commands().iter().filter(|c| matches!(c, Command::Flush { .. })).count();
    assert_eq!((flushes(&world), world.replies), (1, 1), "the second must not be answered before the first is done");
    world.complete_all();
    assert_eq!(world.replies, 3);
    ask(&mut world, Op::Flush, 0, 0);
    assert_eq!(world.replies, 4, "nothing to flush");
    // A write to the primary of a range in the log: the commit that records it comes between the flushes of both
    // devices.
    retune(&mut world, |logging| logging.caching = LogCaching::Selective { overwrite_ratio_ppm: 999_999 });
    ask(&mut world, Op::Write, 0, BLOCK);
    world.complete_all();
    assert_eq!(log_stats(&world).direct_writes, 1);
    ask(&mut world, Op::Flush, 0, 0);
    assert!(matches!(world.commands()[..], [Command::Flush { device: PRIMARY, .. }]));
    world.complete_at(0);
    assert!(matches!(world.commands()[..], [Command::Write { device: LOG, cause: Cause::Metadata, .. }]));
    world.complete_at(0);
    assert!(matches!(world.commands()[..], [Command::Flush { device: LOG, .. }]));
    assert_eq!(world.replies, 5);
    world.complete_at(0);
    assert_eq!(world.replies, 6);
}

#[test]
fn the_index_is_written_every_thirty_seconds_if_there_is_something_new() {
    let mut world = roomy(quiet());
    for _ in 0..3 {
        world.tick(Nanos::from_s(30));
    }
    assert_eq!(log_stats(&world).checkpoints, 0);
    ask(&mut world, Op::Write, 0, BLOCK);
    world.complete_all();
    world.tick(Nanos::from_s(29));
    assert!(!world.has_pending());
    world.tick(Nanos::from_s(1));
    world.complete_all();
    assert_eq!(log_stats(&world).checkpoints, 1);
    assert_eq!(world.engine.stats().devices[1].bytes_written[Cause::Metadata as usize], 8192);
    world.tick(Nanos::from_s(300));
    assert_eq!(log_stats(&world).checkpoints, 1);
}

#[test]
fn selective_caching_logs_what_is_overwritten_and_nothing_else() {
    let mut world = roomy(quiet());
    retune(&mut world, |logging| logging.caching = LogCaching::Selective { overwrite_ratio_ppm: 500_000 });
    for block in 0..20 {
        ask(&mut world, Op::Write, block * BLOCK, BLOCK);
        world.complete_all();
    }
    assert_eq!(log_stats(&world).records, 0);
    for _ in 0..10 {
        ask(&mut world, Op::Write, 3 * BLOCK, BLOCK);
        world.complete_all();
    }
    // The third write is the first with a ratio above one half.
    assert_eq!((log_stats(&world).records, log_stats(&world).direct_writes), (9, 21));
    // A request over both kinds of blocks is cut.
    ask(&mut world, Op::Write, 2 * BLOCK, 3 * BLOCK);
    world.complete_all();
    assert_eq!((log_stats(&world).records, log_stats(&world).direct_writes), (10, 23));
    world.read_all();
}

#[test]
fn a_threshold_of_zero_is_full_caching() {
    let mut world = roomy(quiet());
    retune(&mut world, |logging| logging.caching = LogCaching::Selective { overwrite_ratio_ppm: 0 });
    ask(&mut world, Op::Write, 0, BLOCK);
    world.complete_all();
    assert_eq!(log_stats(&world).direct_writes, 0);
}

/// A log that takes nothing for 150 ms: two appends are in flight, and what comes after them gathers.
fn a_log_that_is_behind(most_behind: Option<Nanos>) -> World {
    let mut world = roomy(quiet());
    retune(&mut world, |logging| logging.most_behind = most_behind);
    for write in 0..3u64 {
        ask(&mut world, Op::Write, write * BLOCK, BLOCK);
    }
    world.tick(Nanos::from_ms(150));
    world
}

/// The fear: writes queue up behind a log that does not keep up, while the primary has nothing to do.
#[test]
fn writes_go_past_a_log_that_they_have_outrun_and_back_to_it_once_it_has_caught_up() {
    let mut world = a_log_that_is_behind(Some(Nanos::from_ms(100)));
    ask(&mut world, Op::Write, 9 * BLOCK, BLOCK);
    assert_eq!((primary_writes(&world).0, log_stats(&world).direct_by.outrun), (1, 1));
    // What has been in the log all along is written again: it waits for the append of the same block, and is the newest.
    ask(&mut world, Op::Write, 0, BLOCK);
    world.complete_all();
    assert_eq!((log_stats(&world).records, log_stats(&world).direct_by.outrun), (3, 2));
    ask(&mut world, Op::Write, 20 * BLOCK, BLOCK);
    world.complete_all();
    assert_eq!((log_stats(&world).records, log_stats(&world).direct_by.outrun), (4, 2), "the log has caught up");
    assert_eq!(log_stats(&world).direct_writes, 2);
    world.read_all();
}

#[test]
fn writes_wait_for_a_log_that_is_behind_if_it_may_be_or_the_primary_is_no_quicker() {
    for most in [None, Some(Nanos::from_ms(150))] {
        let mut world = a_log_that_is_behind(most);
        ask(&mut world, Op::Write, 9 * BLOCK, BLOCK);
        assert_eq!((primary_writes(&world).0, log_stats(&world).direct_writes), (0, 0), "{most:?}");
    }
    // The oldest write to the primary has waited for longer than the oldest append.
    let mut world = a_log_that_is_behind(Some(Nanos::from_ms(100)));
    ask(&mut world, Op::Write, 9 * BLOCK, BLOCK);
    while let Some(append) = world.commands().iter().position(|c| matches!(c, Command::Write { device: LOG, .. })) {
        world.complete_at(append);
    }
    for write in 10..13u64 {
        ask(&mut world, Op::Write, write * BLOCK, BLOCK);
    }
    assert_eq!(log_stats(&world).direct_by.outrun, 1);
    world.tick(Nanos::from_ms(150));
    ask(&mut world, Op::Write, 20 * BLOCK, BLOCK);
    assert_eq!(log_stats(&world).direct_by.outrun, 1);
    world.complete_all();
    world.read_all();
}

#[test]
fn the_log_device_spins_down_when_idle() {
    let mut world = roomy(quiet());
    let mut tuning = world.engine.tuning().clone();
    tuning.spin_down_after = vec![None, Some(Nanos::from_s(5))];
    world.retune(tuning);
    ask(&mut world, Op::Write, 0, BLOCK);
    world.complete_all();
    world.tick(Nanos::from_s(6));
    assert_eq!(world.engine.stats().devices[1].spin_downs, 1);
    assert_eq!(world.engine.stats().devices[0].spin_downs, 0);
}

#[test]
fn a_dead_log_device_is_bypassed_and_not_used_for_a_while() {
    let mut world = roomy(quiet());
    for write in 0..20u64 {
        ask(&mut world, Op::Write, write * BLOCK, BLOCK);
        while world.has_pending() {
            let on_log = matches!(world.commands()[0], Command::Write { device: LOG, .. });
            world.fail_one_in = u32::from(on_log);
            world.complete_at(0);
        }
    }
    world.fail_one_in = 0;
    assert_eq!((world.replies, world.failures), (20, 0));
    assert_eq!((log_stats(&world).failed_appends, log_stats(&world).direct_writes), (3, 20));
    world.tick(Nanos::from_s(2));
    ask(&mut world, Op::Write, 0, BLOCK);
    world.complete_all();
    assert_eq!(log_stats(&world).records, 1, "it is tried again");
    world.read_all();
}

#[test]
fn an_unreadable_block_of_the_log_fails_until_it_is_rewritten() {
    let mut world = roomy(quiet());
    ask(&mut world, Op::Write, 0, 2 * BLOCK);
    world.complete_all();
    world.fail_one_in = 1;
    ask(&mut world, Op::Read, 0, BLOCK);
    world.complete_all();
    assert_eq!(world.failures, 1);
    // A migration that cannot read leaves the data in the log and tries again.
    retune(&mut world, |logging| logging.triggers.timeout = Some(Nanos::from_s(1)));
    world.tick(Nanos::from_s(2));
    world.complete_all();
    world.tick(Nanos::from_s(2));
    world.complete_all();
    assert_eq!(log_stats(&world).bytes_migrated, 0);
    world.fail_one_in = 0;
    world.tick(Nanos::from_s(2));
    world.settle();
    assert_eq!(log_stats(&world).bytes_migrated, 2 * BLOCK);
    world.read_all();
}

#[test]
fn a_discard_of_logged_data_exposes_nothing_older() {
    let mut world = roomy(quiet());
    // The primary has an old copy, the log a new one.
    ask(&mut world, Op::Write, 0, 2 * BLOCK);
    world.complete_all();
    world.evict_range(Bytes::ZERO..Bytes(2 * BLOCK));
    world.complete_all();
    ask(&mut world, Op::Write, 0, BLOCK);
    world.complete_all();
    ask(&mut world, Op::Discard, 0, 2 * BLOCK);
    let commands = world.commands();
    assert!(matches!(commands[0], Command::Zero { device: PRIMARY, len: Bytes(BLOCK), .. }), "{commands:?}");
    assert!(
        matches!(commands[1], Command::Discard { device: PRIMARY, at, .. } if at == DATA_AT + Bytes(BLOCK)),
        "{commands:?}"
    );
    world.complete_all();
    world.read_all();
    assert_eq!(log_stats(&world).reads_from_log, 0);
}

#[test]
fn sizes_that_cannot_work_are_refused_with_a_remedy() {
    let build = |primary, log, block| {
        let placement = Placement::Logging(Logging { primaries: PRIMARY.into(), log: LOG, block });
        let devices = vec![primary, log];
        peryton_engine::Engine::new(Config { devices, placement, tuning: Tuning::default() }).map(|_| ())
    };
    let (mib, kib4) = (Bytes::mib(1), Bytes::kib(4));
    assert!(build(mib, mib, kib4).is_ok());
    assert!(build(mib, Bytes::kib(32), kib4).is_ok());
    assert!(matches!(build(mib, Bytes::kib(31), kib4), Err(ConfigError::TooSmall { device: 1, .. })));
    assert!(matches!(build(Bytes(100), mib, kib4), Err(ConfigError::TooSmall { device: 0, .. })));
    for block in [Bytes::ZERO, Bytes(100), Bytes::kib(12), Bytes::kib(128)] {
        let Err(ConfigError::Tuning(TuningError::Range { key, .. })) = build(mib, mib, block) else {
            panic!("{block}")
        };
        assert_eq!(key, "placement.block");
    }
    let same = Placement::Logging(Logging { primaries: LOG.into(), log: LOG, block: kib4 });
    let config = Config { devices: vec![mib, mib], placement: same, tuning: Tuning::default() };
    assert!(matches!(peryton_engine::Engine::new(config), Err(ConfigError::Device { .. })));
}

//! What does not come to the fast device: sequential streams, and misses while the fast device is slower than the slow one.

use crate::common;

use common::World;
use peryton_engine::{Bypass, Cleaning, Config, DeviceId, Hybrid, Placement, Replacement, Request, Tuning};
use peryton_units::{Bytes, Nanos, Op};
use rand::RngExt;

const EXTENT: Bytes = Bytes::kib(4);
const CHUNK: Bytes = Bytes::kib(64);
/// Number of extents of the volume, and of the hot set; four fifths of the cache.
const VOLUME: u64 = 16384;
const HOT: u64 = 1600;
/// A stream has had so many bytes; a sixteenth of the cache, as 4 MiB are of 64 MiB.
const SEQUENTIAL: Bytes = Bytes::kib(512);

fn world(bypass: Bypass, replacement: Replacement) -> World {
    world_of(Placement::Caching, bypass, replacement)
}

fn world_of(placement: fn(Hybrid) -> Placement, bypass: Bypass, replacement: Replacement) -> World {
    let placement = placement(Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: EXTENT });
    // A cache makes room for what comes in; a tier has to have it.
    let free = if matches!(placement, Placement::Tiering(_)) { 64 } else { 0 };
    let tuning = Tuning {
        promotion_threshold: 0,
        demotion_low: free,
        demotion_high: free,
        max_moves: 64,
        bypass,
        replacement,
        cleaning: Cleaning::UNBOUNDED,
        ..Tuning::default()
    };
    World::new(Config { devices: vec![EXTENT * 2048, EXTENT * VOLUME], placement, tuning }, EXTENT, 1)
}

impl World {
    /// Accesses to a hot set all over the volume; the most popular ones most. Returns the share of hits.
    fn hot(&mut self, accesses: u32, mut between: impl FnMut(&mut World, u32)) -> f64 {
        let mut hits = 0;
        for number in 0..accesses {
            let rank = (self.rng.random_range(0.0..1.0_f64).powi(2) * HOT as f64) as u64;
            let extent = rank * 7919 % VOLUME;
            let before = self.engine.stats().fast_hits;
            self.access(Op::Read, EXTENT * extent, Bytes::kib(4));
            hits += self.engine.stats().fast_hits - before;
            between(self, number);
        }
        hits as f64 / f64::from(accesses)
    }

    /// The same while a backup reads the whole volume. Returns the share of hits before, during and after it.
    fn with_backup(&mut self) -> [f64; 3] {
        self.hot(20_000, |_, _| {});
        let before = self.hot(4000, |_, _| {});
        let mut at = Bytes::ZERO;
        let during = self.hot(4000, |world, _| {
            if at < EXTENT * VOLUME {
                world.access(Op::Read, at, CHUNK);
                at += CHUNK;
            }
        });
        assert_eq!(at, EXTENT * VOLUME, "the backup is complete");
        [before, during, self.hot(500, |_, _| {})]
    }
}

#[test]
fn a_backup_over_the_volume_leaves_the_hot_set_in_the_cache() {
    for replacement in [Replacement::Lru, Replacement::Wsclock, Replacement::Arc] {
        let mut world = world(Bypass { sequential: Some(SEQUENTIAL), congested: true }, replacement);
        let [before, during, after] = world.with_backup();
        assert!(before > 0.95, "{before}");
        assert!(before - during < 0.02 && before - after < 0.02, "{replacement:?}: {before} {during} {after}");
        let past = world.engine.stats().bypasses.sequential;
        assert!(past > 14_000, "{past} of {VOLUME} extents, of which {HOT} were cached, went past");
    }
    let [before, during, _] = world(Bypass { sequential: None, congested: false }, Replacement::Lru).with_backup();
    assert!(before - during > 0.02, "without the bypass it does harm, or this test shows nothing: {before} {during}");
}

/// The same where the fast device has extents instead of copies: each that a backup promotes displaces one.
#[test]
fn a_backup_over_the_volume_leaves_the_hot_set_on_the_fast_tier() {
    let with_backup = |bypass| {
        let mut world = world_of(Placement::Tiering, bypass, Replacement::Lru);
        // Every extent has a place.
        for chunk in 0..EXTENT.0 * VOLUME / CHUNK.0 {
            world.access(Op::Write, CHUNK * chunk, CHUNK);
        }
        let promoted = world.engine.stats().moves.promotions;
        let shares = world.with_backup();
        let stats = world.engine.stats();
        let [promotions, past] = [stats.moves.promotions - promoted, stats.bypasses.sequential];
        world.read_all();
        (shares, promotions, past)
    };
    let ([before, during, after], promotions, past) =
        with_backup(Bypass { sequential: Some(SEQUENTIAL), congested: true });
    assert!(before > 0.95, "{before}");
    assert!(before - during < 0.02 && before - after < 0.02, "{before} {during} {after}");
    assert!(promotions < 3000, "{promotions} promotions for {HOT} extents");
    assert!(past > 12_000, "{past} of {VOLUME} extents went past");
    let ([before, during, _], promotions, past) = with_backup(Bypass { sequential: None, congested: false });
    assert!(before - during > 0.02, "without the bypass it does harm, or this test shows nothing: {before} {during}");
    assert!(promotions > 14_000 && past == 0, "{promotions} {past}");
}

#[test]
fn a_stream_of_writes_goes_past_and_is_not_lost() {
    let mut world = world(Bypass::default(), Replacement::Lru);
    for extent in 0..2000 {
        world.access(Op::Write, EXTENT * extent, EXTENT);
    }
    assert_eq!(world.engine.stats().moves.promotions, 1023, "what came before the stream had 4 MiB");
    assert_eq!(world.engine.stats().bypasses.sequential, 2000 - 1023);
    world.access(Op::Write, EXTENT * 4096, EXTENT * 1024);
    assert_eq!(world.engine.stats().bypasses.sequential, 2000 - 1023 + 1024, "one request can be long enough");
    world.read_all();
}

/// What is used again within the promotion window is worth caching, however long the stream is.
#[test]
fn a_stream_that_comes_again_soon_comes_in() {
    let mut world = world(Bypass { sequential: Some(SEQUENTIAL), congested: false }, Replacement::Lru);
    let chunks = 1500 * EXTENT.0 / CHUNK.0;
    let pass = |world: &mut World, op, start: u64| {
        let before = world.engine.stats().bypasses.sequential;
        for chunk in 0..chunks {
            world.access(op, EXTENT * start + CHUNK * chunk, CHUNK);
        }
        world.engine.stats().bypasses.sequential - before
    };
    assert!(pass(&mut world, Op::Read, 0) > 1300);
    // Those near the end of the first pass are taken for accesses of it that come late.
    assert!(pass(&mut world, Op::Read, 0) <= 5);
    let hits = world.engine.stats().fast_hits;
    assert!(pass(&mut world, Op::Read, 0) <= 5);
    assert!(world.engine.stats().fast_hits - hits > 1400);
    // At another place, but not so soon.
    assert!(pass(&mut world, Op::Read, 4000) > 1300);
    world.tick(Nanos::from_s(61));
    assert!(pass(&mut world, Op::Read, 4000) > 1100);
}

#[test]
fn misses_go_past_while_the_fast_device_is_the_slower_one() {
    let mut world = world(Bypass { sequential: None, congested: true }, Replacement::Lru);
    let mut round = |fast: Nanos, slow: Nanos| {
        let before = world.engine.stats().bypasses.congested;
        for _ in 0..400 {
            let extent = world.rng.random_range(0..VOLUME);
            world.submit(Request { op: Op::Read, offset: EXTENT * extent, len: Bytes::kib(4) });
            // A hit, so that the fast device is measured.
            world.submit(Request { op: Op::Read, offset: Bytes::ZERO, len: Bytes::kib(4) });
            while world.has_pending() {
                // What is faster is done first.
                let devices: Vec<DeviceId> = world.pending.iter().map(|pending| pending.device()).collect();
                let first = if fast < slow { DeviceId(0) } else { DeviceId(1) };
                let at = devices.iter().position(|device| *device == first).unwrap_or(0);
                world.now += if devices[at] == DeviceId(0) { fast } else { slow };
                world.complete_at(at);
            }
        }
        world.engine.stats().bypasses.congested - before
    };
    assert_eq!(round(Nanos::from_us(100), Nanos::from_ms(5)), 0);
    assert!(round(Nanos::from_ms(30), Nanos::from_ms(5)) > 200);
    round(Nanos::from_us(100), Nanos::from_ms(5));
    assert_eq!(round(Nanos::from_us(100), Nanos::from_ms(5)), 0, "it is used again when it is well again");
}

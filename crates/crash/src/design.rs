//! Random designs. The devices are small, so that every table is full most of the time.

use std::ops::Range;

use peryton_engine::{
    Adaptive, Admission, AdmitBy, Bypass, Cleaning, Climb, Config, DeviceId, Hybrid, Journal, LogCaching, Logging,
    LoggingTuning, Objective, Partition, Placement, Predict, Primaries, Regulation, Replacement, Threshold, Triggers,
    Tuning, Unit, WearBudget, WriteHits, WritePolicy,
};
use peryton_units::{Bytes, Nanos};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The placement to simulate.
pub use peryton_engine::PlacementKind as Kind;

/// Draws a placement; those with an extent map are drawn most often.
pub(crate) fn random_kind(rng: &mut Pcg64Mcg) -> Kind {
    match rng.random_range(0..20) {
        0 => Kind::Single,
        1 => Kind::Linear,
        2..8 => Kind::Tiering,
        8..11 => Kind::Partitioned,
        // Logging is drawn rarely because recovery reads a whole log, so these runs take longest.
        11 => Kind::Logging,
        _ => Kind::Caching,
    }
}

/// The placement of this kind on two devices. `single` uses the first of them, and `linear` begins with it.
///
/// # Panics
/// Logging has blocks instead of extents, so that a [`Hybrid`] does not describe it.
pub fn placement_on(kind: Kind, pair: Hybrid) -> Placement {
    match kind {
        Kind::Single => Placement::Single { device: pair.fast },
        Kind::Linear => Placement::Linear { devices: vec![pair.fast, pair.slow] },
        Kind::Tiering => Placement::Tiering(pair),
        Kind::Caching => Placement::Caching(pair),
        Kind::Partitioned => Placement::Partitioned(pair),
        Kind::Logging => panic!("a log has no extents"),
    }
}

pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) config: Config,
    pub(crate) extent: u64,
    pub(crate) fast_extents: u32,
    /// The most extents that one request spans.
    pub(crate) reach: usize,
}

impl Plan {
    /// What has to be a whole number of the units of the slow device.
    pub(crate) fn unit_of(&self) -> u64 {
        if matches!(self.config.placement, Placement::Logging(_)) { 64 << 10 } else { self.extent }
    }

    /// Makes most extents of a cache that are one block, and so are there or are not, larger; `seed` decides.
    pub(crate) fn divide(&mut self, seed: u64) {
        let (Placement::Caching(pair) | Placement::Partitioned(pair)) = &mut self.config.placement else { return };
        if pair.extent > Bytes::kib(4) || keeps_single_blocks(seed) {
            return;
        }
        // A wide design has enough of them.
        let times = if self.fast_extents >= 24 { 2 } else { 4 };
        pair.extent = pair.extent * times;
        self.extent *= times;
        self.config.devices.iter_mut().for_each(|bytes| *bytes = *bytes * times);
    }
}

/// A map of so many extents takes three to five blocks of a checkpoint.
const LARGE_MAP: Range<u64> = 2_100..4_200;

impl Plan {
    /// Gives the slow device so many small extents that a checkpoint of the map takes several blocks; `seed` decides how many.
    pub(crate) fn enlarge(&mut self, seed: u64) {
        let (Placement::Tiering(pair) | Placement::Caching(pair) | Placement::Partitioned(pair)) =
            &mut self.config.placement
        else {
            return;
        };
        let extents = Pcg64Mcg::seed_from_u64(seed ^ 0x6c61_7267).random_range(LARGE_MAP);
        pair.extent = Bytes::kib(4);
        self.extent = pair.extent.0;
        self.config.devices = vec![pair.extent * u64::from(self.fast_extents), pair.extent * extents];
    }
}

/// One design in this many is wide, so that a commit takes several blocks. Wide runs take much longer.
const WIDE_ONE_IN: u32 = 40;
/// One design in this many has room for many requests in flight, so that commits differ in what they wait for. It still
/// fills up.
const ROOMY_ONE_IN: u32 = 8;

pub(crate) fn random_plan(kind: Kind, rng: &mut Pcg64Mcg) -> Plan {
    let mut extent = Bytes::kib(4 * [1, 1, 1, 2, 2, 3, 4, 16][rng.random_range(0..8)]);
    let (mut fast, mut slow) = (rng.random_range(1..24u64), rng.random_range(2..48u64));
    if kind == Kind::Logging {
        return logging_plan(rng);
    }
    let mut reach = 3;
    match rng.random_range(0..WIDE_ONE_IN) {
        0 => {
            (fast, slow) = (rng.random_range(300..900), rng.random_range(300..1200));
            (extent, reach) = (Bytes::kib(4), 599);
        }
        size if size % ROOMY_ONE_IN == 0 => {
            (fast, slow) = (rng.random_range(24..80), rng.random_range(48..200));
            (extent, reach) = (Bytes::kib(4), 24);
        }
        _ => {}
    }
    let placement = placement_on(kind, Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent });
    let devices = match kind {
        Kind::Single => vec![extent * slow],
        _ => vec![extent * fast, extent * slow],
    };
    // The format's high threshold sets the number of spare extents. A cache that frees nothing ahead is always full.
    let ahead = rng.random_bool(0.75);
    let spare = if ahead || kind == Kind::Tiering { rng.random_range(0..fast.min(slow)) as u32 } else { 0 };
    let tuning = Tuning { demotion_low: 0, demotion_high: spare, ..random_tuning(fast as u32, rng) };
    Plan { kind, config: Config { devices, placement, tuning }, extent: extent.0, fast_extents: fast as u32, reach }
}

/// Whether extents of one block stay so in a cache. Drawn from a generator of its own, so that the other settings stay the same for each
/// seed.
fn keeps_single_blocks(seed: u64) -> bool {
    Pcg64Mcg::seed_from_u64(seed ^ 0x626c_6f63).random_ratio(1, 4)
}

/// Whether the fast device has room for snapshots; drawn in the same way.
pub(crate) fn random_room(seed: u64) -> bool {
    Pcg64Mcg::seed_from_u64(seed ^ 0x7761_726d).random_bool(0.5)
}

/// The unit in which the slow device maps its data, of which `extent` is a whole number; drawn in the same way.
pub(crate) fn random_write_unit(seed: u64, extent: u64) -> Option<Bytes> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x756e_6974);
    let unit = Bytes::kib([4, 4, 8, 8, 16, 64][rng.random_range(0..6)]);
    (peryton_engine::WRITE_UNITS.contains(&unit) && extent.is_multiple_of(unit.0)).then_some(unit)
}

/// A seed draws among the first replacement policies only, so that a seed that once found a fault stays the same run. A run with
/// any other policy names it ([`Options::replacement`](crate::Options::replacement)).
const DRAWN_POLICIES: usize = 6;
/// The same for admission rules ([`Options::admission`](crate::Options::admission)).
const DRAWN_RULES: usize = 5;

/// A random tuning for a fast device of `fast_extents` extents. Every setting is drawn.
pub fn random_tuning(fast_extents: u32, rng: &mut Pcg64Mcg) -> Tuning {
    let high = rng.random_range(0..fast_extents.max(2) + 1);
    Tuning {
        patience: Tuning::default().patience,
        promotion_threshold: rng.random_range(0..3),
        comes_in_early: high % 3 < 2,
        promotion_window: Nanos::from_ms(rng.random_range(0..10_000)),
        demotion_low: rng.random_range(0..=high),
        demotion_high: high,
        max_moves: rng.random_range(1..9),
        write: [WritePolicy::Back, WritePolicy::Through, WritePolicy::Around][rng.random_range(0..3)],
        replacement: Replacement::ALL[rng.random_range(0..DRAWN_POLICIES)].1,
        admission: random_admission(rng),
        cleaning: random_cleaning(rng.random_range(0..20)),
        // It is drawn apart, since it depends on the extents ([`random_write_unit`]).
        write_unit: None,
        // Derived from an earlier draw, so that the other settings stay the same for each seed.
        bypass: Bypass {
            sequential: [None, Some(Bytes::kib(64)), Some(Bytes::kib(16)), Some(Bytes::mib(4))][high as usize % 4],
            congested: high % 2 == 0,
        },
        writeback_delay: Nanos::from_ms(rng.random_range(0..50)),
        commit_interval: Nanos::from_ms(rng.random_range(1..3_000)),
        journal: [Journal::Mirrored, Journal::Mirrored, Journal::Named, Journal::Named, Journal::Named]
            [rng.random_range(0..5)],
        spin_down_after: vec![None, Some(Nanos::from_ms(rng.random_range(0..100)))],
        endurance: Vec::new(),
        partition: random_partition(rng),
        logging: random_logging(rng),
        // Never, and from far more often than a command takes to rarely.
        snapshot_interval: [None, Some(2), Some(20), Some(200), Some(1_000)][high as usize % 5].map(Nanos::from_ms),
        // Derived from an earlier draw rather than a new one, so that the other settings stay the same for each seed.
        climb: (high % 3 == 0).then(|| Climb { every: Nanos::from_ms(5), requests: 3, ..Climb::default() }),
    }
}

/// Derived from one draw, so that the other settings stay the same for each seed. From everything may be dirty to nearly
/// nothing.
fn random_cleaning(draw: u32) -> Cleaning {
    Cleaning {
        dirty_target_ppm: [1_000_000, 700_000, 300_000, 100_000][draw as usize % 4],
        max_age: [Nanos(u64::MAX), Nanos::from_ms(300), Nanos::from_ms(20), Nanos::ZERO, Nanos::from_ms(2)]
            [draw as usize % 5],
        max_foreground_p99: draw.is_multiple_of(3).then(|| Nanos::from_ms(u64::from(draw % 4) + 1)),
        idle_after: None,
    }
}

fn random_admission(rng: &mut Pcg64Mcg) -> Admission {
    if rng.random_bool(0.5) {
        return Admission::default();
    }
    let by = AdmitBy::ALL[rng.random_range(0..DRAWN_RULES)].1;
    let adaptive = Adaptive {
        rate: 0.5,
        caches: rng.random_range(2..5),
        target_latency: rng.random_bool(0.5).then_some(Nanos::from_ms(1)),
        frame: rng.random_range(1..1_000),
        smoothing: 0.8,
        objective: Objective::default(),
    };
    let threshold = match (by.adapts(), rng.random_bool(0.5)) {
        (true, true) => Threshold::Adaptive(adaptive),
        _ => Threshold::Fixed(match by.unit() {
            Unit::Bytes => 8192.0,
            Unit::Nothing | Unit::Count | Unit::Share => by.default_threshold().unwrap_or(0.5),
        }),
    };
    let bypass = by.write_hits().is_some() && rng.random_bool(0.5);
    Admission {
        by,
        threshold,
        seed: rng.next_u64() % 9,
        endurance: vec![Some(Bytes::gib(1)), None],
        programmable: vec![rng.random_bool(0.5).then_some(Bytes::gib(2)), None],
        energy: Vec::new(),
        write_hits: if bypass { WriteHits::Bypass } else { WriteHits::Cache },
    }
}

/// Whether write hits are judged like misses where [`Options::past_hits`](crate::Options::past_hits) asks for it; drawn in the same way.
pub(crate) fn random_past_hits(seed: u64) -> bool {
    Pcg64Mcg::seed_from_u64(seed ^ 0x6869_7473).random_bool(0.5)
}

/// The drawn admission, with this rule and its usual threshold. `past_hits`: it judges write hits as well, if it can.
pub(crate) fn admission_by(by: AdmitBy, past_hits: bool, drawn: Admission) -> Admission {
    let threshold = by.default_threshold().unwrap_or(match by.unit() {
        Unit::Bytes => 8192.0,
        Unit::Nothing | Unit::Count | Unit::Share => 0.5,
    });
    let write_hits = match by.write_hits() {
        None => WriteHits::Cache,
        Some(_) if past_hits => WriteHits::Bypass,
        Some(_) => drawn.write_hits,
    };
    Admission { by, threshold: Threshold::Fixed(threshold), write_hits, ..drawn }
}

fn wear_budget(rng: &mut Pcg64Mcg) -> WearBudget {
    let endurance = Bytes::mib(rng.random_range(1..10));
    let programmable = rng.random_bool(0.5).then_some(endurance * 2);
    WearBudget { endurance, programmable, lifetime: Nanos::from_s(60), amplification: 1_000 }
}

fn random_partition(rng: &mut Pcg64Mcg) -> Partition {
    Partition {
        predict: match rng.random_range(0..4) {
            0 => Predict::Off,
            1 => Predict::LastValue,
            2 => Predict::Linear { window: rng.random_range(1..20), training: rng.random_range(0..50) },
            _ => Predict::Linear { window: 16, training: 0 },
        },
        regulation: match rng.random_range(0..4) {
            0 => Regulation::Off,
            1 => Regulation::Share(rng.random_range(0..1_000_000)),
            2 => Regulation::ShareBeyond { share: rng.random_range(0..1_000_000), budget: wear_budget(rng) },
            _ => Regulation::Lifetime(wear_budget(rng)),
        },
        idle_after: Nanos::from_ms(rng.random_range(0..50)),
        bust_after: rng.random_bool(0.6).then(|| Nanos::from_ms(rng.random_range(0..200))),
        bust_free: if rng.random_bool(0.5) { 1_000_000 } else { rng.random_range(0..1_000_000) },
        promote_reads: rng.random_range(0..3),
        small: Bytes::kib(rng.random_range(1..32)),
        seed: rng.random_range(0..9),
    }
}

/// A log that fills soon, before a small primary.
fn logging_plan(rng: &mut Pcg64Mcg) -> Plan {
    let block = Bytes(512 << rng.random_range(0..5));
    let (primary, log) = (Bytes::kib(4 * rng.random_range(8..200)), Bytes::kib(4 * rng.random_range(513..1300)));
    let placement = Placement::Logging(Logging { primaries: DeviceId(1).into(), log: DeviceId(0), block });
    let config = Config { devices: vec![log, primary], placement, tuning: random_tuning(8, rng) };
    Plan { kind: Kind::Logging, config, extent: 8192, fast_extents: 8, reach: 3 }
}

/// Each primary but the last has this much, the least that is possible.
const SHARING: Bytes = Bytes::mib(1);

impl Plan {
    /// Gives the log one or two more primaries, before the one that it has; `seed` decides how many.
    pub(crate) fn share_log(&mut self, seed: u64) {
        let Placement::Logging(logging) = &mut self.config.placement else { return };
        let more = Pcg64Mcg::seed_from_u64(seed ^ 0x7368_6172_6564).random_range(1..=2);
        let all: Vec<DeviceId> = (2..2 + more).chain([1]).map(DeviceId).collect();
        logging.primaries = Primaries::new(&all).expect("so many are possible");
        self.config.devices.extend((0..more).map(|_| SHARING));
    }
}

fn random_logging(rng: &mut Pcg64Mcg) -> LoggingTuning {
    let some = |rng: &mut Pcg64Mcg| rng.random_bool(0.4);
    let drawn = LoggingTuning {
        caching: match rng.random_range(0..3) {
            0 => LogCaching::Selective { overwrite_ratio_ppm: rng.random_range(0..900_000) },
            _ => LogCaching::Full,
        },
        triggers: Triggers {
            timeout: some(rng).then(|| Nanos::from_ms(rng.random_range(1..2_000))),
            read_share_ppm: some(rng).then(|| rng.random_range(0..200_000)),
            size: some(rng).then(|| Bytes(rng.random_range(1..200_000))),
            log_used_ppm: if some(rng) { rng.random_range(1..=1_000_000) } else { 1_000_000 },
        },
        gather_bytes: Bytes(rng.random_range(0..40_000)),
        gather_delay: if rng.random_bool(0.5) { Nanos::ZERO } else { Nanos::from_ms(rng.random_range(0..30)) },
        most_behind: None,
        checkpoint_interval: Nanos::from_ms(rng.random_range(1..2_000)),
        migration_memory: Bytes::kib(256 * rng.random_range(0..6)),
    };
    LoggingTuning { most_behind: random_behind(&drawn), ..drawn }
}

/// How far a log may be behind: drawn from what was drawn before, so that seeds from before this could be drawn make the same runs.
fn random_behind(drawn: &LoggingTuning) -> Option<Nanos> {
    let mut rng = Pcg64Mcg::seed_from_u64(drawn.checkpoint_interval.0 ^ drawn.gather_bytes.0 ^ 0x6265_6869_6e64);
    rng.random_bool(0.4).then(|| Nanos::from_us(rng.random_range(0..20_000)))
}

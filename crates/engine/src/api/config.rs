//! The configuration that formatting fixes ([`Config`]), and what may change while the drive runs ([`Tuning`]).

pub use peryton_format::geometry::{Hybrid, Placement, PlacementKind};
use peryton_policy::{Admission, Climb, Partition, Replacement};
use peryton_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::{api::cleaning::Cleaning, api::endurance::Endurance, api::error::TuningError, api::logging::LoggingTuning};

/// The most extents that the map of a volume can number.
pub const MOST_EXTENTS: u64 = 1 << 29;

/// The configuration of a drive.
///
/// ```
/// use peryton_engine::{Config, ConfigError, DeviceId, Hybrid, Placement, Tuning};
/// use peryton_units::Bytes;
///
/// let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: Bytes::mib(1) };
/// let devices = vec![Bytes::gib(8), Bytes::gib(100)];
/// let mut config = Config { devices, placement: Placement::Caching(pair), tuning: Tuning::default() };
/// let sizes = config.sizes()?;
/// assert_eq!(sizes.volume, Bytes::gib(100), "a cache adds no room");
/// assert!(sizes.devices[1] > Bytes::gib(100), "metadata comes on top of the data");
///
/// config.devices[0] = Bytes::kib(64);
/// assert!(matches!(config.sizes(), Err(ConfigError::TooSmall { device: 0, .. })));
/// # Ok::<(), ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// For each device, how many bytes of data this volume stores on it. Metadata needs additional space: see
    /// [`Engine::device_bytes`](crate::Engine::device_bytes).
    pub devices: Vec<Bytes>,
    /// How data is placed on the devices.
    pub placement: Placement,
    /// The settings that may change later.
    pub tuning: Tuning,
}

/// Which devices the commits of a map are written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Journal {
    /// The fast one. A commit goes to the slow one as well if an extent becomes newer on the fast device whose region the slow one does
    /// not name. The slow one alone therefore says which regions may be newer. For caching and partitioned; in tiering the same as
    /// `Mirrored`.
    #[default]
    Named,
    /// Both, so that either alone can say where data was.
    Mirrored,
}

/// When a write to a cached extent reaches the slow device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WritePolicy {
    /// The write goes to the cache and is copied to the slow device later.
    #[default]
    Back,
    /// The write goes to both devices before the reply.
    Through,
    /// The write goes to the slow device; the cached copy is dropped.
    Around,
}

/// Which misses go past the fast device (caching, tiering).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bypass {
    /// Sequential streams of reads or writes, once they have had this many bytes; `None`: they do not.
    pub sequential: Option<Bytes>,
    /// Everything, while the fast device is slower than the slow one.
    pub congested: bool,
}

impl Default for Bypass {
    fn default() -> Bypass {
        Bypass { sequential: Some(Bytes::mib(4)), congested: true }
    }
}

/// All settings that can be changed while the drive runs: GreenDM's Table I except the extent size, and more.
///
/// ```
/// use peryton_engine::{Tuning, TuningError, WritePolicy};
/// use peryton_units::Nanos;
///
/// let tuning = Tuning { promotion_threshold: 2, write: WritePolicy::Through, ..Tuning::default() };
/// tuning.check()?;
/// assert_eq!(tuning.promotion_window, Nanos::from_s(60));
///
/// let wrong = Tuning { demotion_low: 10, demotion_high: 5, ..tuning };
/// assert!(wrong.check().is_err_and(|error| error.to_string().starts_with("placement.demotion.high is 5")));
/// # Ok::<(), TuningError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// PT: an extent is promoted once its misses within the time window exceed this. With 0 the first miss promotes it.
    pub promotion_threshold: u32,
    /// Caching: an extent comes in at its first miss, whatever PT is, while more than HT extents are free, because it displaces nothing then;
    /// and for a write of whole blocks while the host flushes after every few writes, because it waits for what goes to the slow device.
    pub comes_in_early: bool,
    /// TW: the count of misses starts again after a gap longer than this.
    pub promotion_window: Nanos,
    /// LT: demotion starts when at most this many fast extents are free. With 0, only when an extent is needed.
    pub demotion_low: u32,
    /// HT: demotion continues until this many are free.
    pub demotion_high: u32,
    /// MCML: the most moves (promotions, demotions, write-backs) in flight.
    pub max_moves: u32,
    /// Write policy (caching).
    pub write: WritePolicy,
    /// Replacement policy.
    pub replacement: Replacement,
    /// Admission policy (caching).
    pub admission: Admission,
    /// Which misses go past the fast device (caching, tiering).
    pub bypass: Bypass,
    /// How long an extent is dirty at the least before it is written back because the slow device is idle, so that overwrites
    /// are gathered (caching, write-back).
    pub writeback_delay: Nanos,
    /// What bounds the dirty extents (caching, write-back).
    pub cleaning: Cleaning,
    /// The unit in which the slow device (caching), or the primary (logging), maps its data, if it is large: what is written back
    /// is whole units then. A power of two from 8 KiB to 1 MiB; `None`: a block is written as well as a unit. Extents must be whole
    /// numbers of units.
    pub write_unit: Option<Bytes>,
    /// A map update is durable after this time at the latest, and sooner if a flush or a move waits for it.
    pub commit_interval: Nanos,
    /// Which devices commits are written to. Checkpoints go to both in any case.
    pub journal: Journal,
    /// For each device, the idle time after which it is put to standby.
    pub spin_down_after: Vec<Option<Nanos>>,
    /// What each device bears in its life, where that is known. For the driver, which says how much of it is left.
    pub endurance: Vec<Option<Endurance>>,
    /// The log and its migration (logging).
    pub logging: LoggingTuning,
    /// Where writes go, and which background work is done when the host is idle (partitioned).
    pub partition: Partition,
    /// How long a device that fails may take to come back. For the driver, which waits so long, and excuses the device
    /// meanwhile ([`Engine::excuse`](crate::Engine::excuse)).
    pub patience: Nanos,
    /// How often a snapshot of what the cache has learnt is taken, besides when the volume is closed; `None`: never, and none is taken
    /// back.
    pub snapshot_interval: Option<Nanos>,
    /// Hill climbing on some of these settings while the drive runs (tiering, caching); `None` leaves them as they are.
    pub climb: Option<Climb>,
}

impl Default for Tuning {
    /// GreenDM's defaults (section 3.2): TW 60 s, LT 64, HT 128; PT 4 and MCML 16, which were best for web search.
    /// GreenDM starts write-backs immediately; Peryton waits until the slow device is idle, or too much is dirty, or for too
    /// long ([`Cleaning`]), because a block written again meanwhile is written back once.
    fn default() -> Tuning {
        Tuning {
            promotion_threshold: 4,
            comes_in_early: false,
            promotion_window: Nanos::from_s(60),
            demotion_low: 64,
            demotion_high: 128,
            max_moves: 16,
            write: WritePolicy::Back,
            replacement: Replacement::Wsclock,
            admission: Admission::default(),
            bypass: Bypass::default(),
            writeback_delay: Nanos::from_s(30),
            cleaning: Cleaning::default(),
            write_unit: None,
            commit_interval: Nanos::from_s(5),
            journal: Journal::Named,
            spin_down_after: Vec::new(),
            endurance: Vec::new(),
            logging: LoggingTuning::default(),
            partition: Partition::default(),
            patience: Nanos::from_s(120),
            snapshot_interval: Some(Nanos::from_s(300)),
            climb: None,
        }
    }
}

/// The shortest interval between two snapshots.
const SHORTEST_SNAPSHOT_INTERVAL: Nanos = Nanos::from_ms(1);

/// The units in which a device may map its data that need heed ([`Tuning::write_unit`]).
pub const WRITE_UNITS: std::ops::RangeInclusive<Bytes> = Bytes::kib(8)..=Bytes::mib(1);

/// The largest unit that migrations of a log heed: their longest write.
pub const LARGEST_MIGRATED_UNIT: Bytes = Bytes(peryton_format::log::LONGEST_APPEND);

/// The highest possible `max_moves`: the extent map has 16 bits for a move's index.
pub const MOST_MOVES: u32 = 4096;

/// The most moves under way when one begins in idle time: a request that arrives waits for all of them.
const MOST_IDLE_MOVES: u32 = 4;

impl Tuning {
    /// The number of moves that may be under way when one begins in idle time.
    pub(crate) fn most_idle_moves(&self) -> u32 {
        self.max_moves.min(MOST_IDLE_MOVES)
    }

    /// Checks that the values can work together, whatever the placement.
    ///
    /// # Errors
    /// The first setting that cannot work, with its design key and the remedy.
    pub fn check(&self) -> Result<(), TuningError> {
        let range = |key, value: u32, remedy| Err(TuningError::Range { key, value: value.to_string(), remedy });
        if self.demotion_high < self.demotion_low {
            return range("placement.demotion.high", self.demotion_high, "it must not be below placement.demotion.low");
        }
        if self.max_moves == 0 || self.max_moves > MOST_MOVES {
            return range("placement.max_moves", self.max_moves, "use 1 to 4096");
        }
        if self.snapshot_interval.is_some_and(|interval| interval < SHORTEST_SNAPSHOT_INTERVAL) {
            return Err(TuningError::Range {
                key: "placement.warm.interval",
                value: self.snapshot_interval.unwrap_or_default().to_string(),
                remedy: "use 1ms or more, or 'never'",
            });
        }
        if let Some(unit) = self.write_unit
            && !(unit.0.is_power_of_two() && WRITE_UNITS.contains(&unit))
        {
            return Err(TuningError::Range {
                key: "placement.write_unit",
                value: unit.to_string(),
                remedy: "use a power of two from 8KiB to 1MiB, or 'never'",
            });
        }
        self.cleaning.check()?;
        self.logging.check()?;
        self.partition.check()?;
        if let Some(climb) = &self.climb {
            climb.check()?;
        }
        Ok(self.admission.check()?)
    }
}

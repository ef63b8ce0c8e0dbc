//! What `format` fixes ([`Config`]) and what may change while the drive runs ([`Tuning`]).

use peryton_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::logging::Devices as Logging;
use crate::{climb::Climb, command::DeviceId, error::TuningError, logging::LoggingTuning, partition::Partition};

/// A design as the engine sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// For each device, how many bytes this volume stores data on. Metadata comes on top: see
    /// [`Engine::device_bytes`](crate::Engine::device_bytes).
    pub devices: Vec<Bytes>,
    /// Where data lives.
    pub placement: Placement,
    /// What may change later.
    pub tuning: Tuning,
}

/// Where data lives; fixed when the volume is formatted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// One device, as it is: the baseline "SSD only" or "HDD only".
    Single {
        /// The device.
        device: DeviceId,
    },
    /// The devices one after the other (GreenDM's "Mylinear", section 3.1).
    Linear {
        /// In the order of the volume.
        devices: Vec<DeviceId>,
    },
    /// The fast device is primary storage for hot extents; the volume is as large as both (GreenDM, section 2.3).
    Tiering(Hybrid),
    /// The fast device caches the slow one; the volume is as large as the slow one (GreenDM, section 2.3).
    Caching(Hybrid),
    /// Each write goes to the device that is predicted to answer sooner; the volume is as large as the slow one
    /// (MixedStore, section 5).
    Partitioned(Hybrid),
    /// Writes are appended to a log and migrate to the primary later; the volume is as large as the primary (Griffin).
    Logging(Logging),
}

/// The two devices of a tiering or caching drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hybrid {
    /// The fast device.
    pub fast: DeviceId,
    /// The slow device.
    pub slow: DeviceId,
    /// ES: the unit of mapping and moving, a multiple of 4 KiB.
    pub extent: Bytes,
}

/// How a write to a cached extent reaches the slow device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WritePolicy {
    /// To the cache; copied to the slow device later.
    #[default]
    Back,
    /// To both before the reply.
    Through,
    /// To the slow device; the cached copy is dropped.
    Around,
}

/// Which extent leaves the fast device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// WSClock: a clock with ages (GreenDM, section 2.3).
    #[default]
    Wsclock,
    /// Least recently used.
    Lru,
    /// 2Q: newcomers pass a FIFO before they count as hot.
    TwoQueue,
    /// S3-FIFO: three static FIFO queues.
    S3fifo,
    /// ARC: recency and frequency, balanced by ghosts.
    Arc,
    /// SIEVE: a FIFO queue with a hand that spares what was hit.
    Sieve,
}

impl Replacement {
    /// Every policy, with its name in design files and on command lines.
    pub const ALL: [(&str, Replacement); 6] = [
        ("wsclock", Replacement::Wsclock),
        ("lru", Replacement::Lru),
        ("two_queue", Replacement::TwoQueue),
        ("s3fifo", Replacement::S3fifo),
        ("arc", Replacement::Arc),
        ("sieve", Replacement::Sieve),
    ];
}

/// What admission goes by ("Mixed SSD arrays", section III).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdmitBy {
    /// Every miss is admitted.
    #[default]
    All,
    /// Requests of no more than `threshold` bytes.
    Size,
    /// Extents referenced more than `threshold` times while in a history as long as the cache has extents (2Q's second
    /// queue).
    Hotness,
    /// Extents whose reference count is among the highest `threshold` (a share, such as 0.1) of that history.
    HottestShare,
    /// A random `threshold` (from 0 to 1) of all misses.
    Probability,
}

/// A fixed threshold, or one that adapts.
#[derive(Clone, Debug, PartialEq)]
pub enum Threshold {
    /// In the unit of its [`AdmitBy`].
    Fixed(f64),
    /// Found by sampling.
    Adaptive(Adaptive),
}

/// The adaptive threshold ("Mixed SSD arrays", section V-B).
#[derive(Clone, Debug, PartialEq)]
pub struct Adaptive {
    /// Share of the extents that are sampled, above 0 and at most 0.5.
    pub rate: f64,
    /// Among how many sampled caches they are divided.
    pub caches: u32,
    /// Sampled caches whose mean latency is above this are out; where all are, everything is admitted.
    pub target_latency: Option<Nanos>,
    /// How often the threshold is set anew.
    pub frame: Nanos,
    /// α of equations (12) and (14): the weight of the past. The paper: 0.8 at a rate of 1 %, 0.9 at 5 and 10 %.
    pub smoothing: f64,
    /// What is minimised.
    pub objective: Objective,
}

/// The product of mean latency, reciprocal lifetime and energy of an access, each to the power of its weight: latency
/// over lifetime, the paper's metric, by default. Powers of a product are weights of a sum of logarithms, so that the
/// units do not matter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// Weight of the mean latency.
    pub latency: f64,
    /// Weight of the wear, the reciprocal of the lifetime.
    pub wear: f64,
    /// Weight of the energy that an access takes, with the moves that it causes ([`AccessEnergy`]).
    pub energy: f64,
}

impl Default for Objective {
    fn default() -> Objective {
        Objective { latency: 1.0, wear: 1.0, energy: 0.0 }
    }
}

impl Objective {
    /// Lower is better.
    pub fn score(&self, latency_s: f64, lifetime_s: f64, energy_j: f64) -> f64 {
        // What is not known, or does not wear, leaves the others to decide.
        let wear = if lifetime_s.is_finite() { lifetime_s.powf(-self.wear) } else { 1.0 };
        let energy = if energy_j > 0.0 { energy_j.powf(self.energy) } else { 1.0 };
        latency_s.powf(self.latency) * wear * energy
    }
}

/// What an access takes beyond what the device takes when idle: watts for as long as it lasts, and joules for each byte.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AccessEnergy {
    /// Watts while reading, and while writing.
    pub active_w: [f64; 2],
    /// Joules per byte read, and per byte written.
    pub per_byte_j: [f64; 2],
}

/// What a rule of admission says of writes to what is cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteHits {
    /// Nothing: the cache takes them. Only misses are judged ("Mixed SSD arrays", section IV-B, Figure 3).
    #[default]
    Cache,
    /// They are judged like misses. One that is not admitted goes straight to the storage, and the cached copy is dropped.
    /// A dirty copy that the write covers in part is the only one of the rest: it takes the write.
    Bypass,
}

/// Which misses may bring their extents into the cache (caching).
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// What it goes by.
    pub by: AdmitBy,
    /// Above or below what.
    pub threshold: Threshold,
    /// For `probability`, and for which extents are sampled.
    pub seed: u64,
    /// For each device how much can be written to it in its life; `None` where writing does not wear it. The adaptive
    /// threshold weighs lifetimes by it.
    pub endurance: Vec<Option<Bytes>>,
    /// For each device how much can be programmed into its flash in its life, where that is known. Lifetimes are then the
    /// smaller of both.
    pub programmable: Vec<Option<Bytes>>,
    /// For each device what an access takes, where it is known. The adaptive threshold weighs energy by it.
    pub energy: Vec<Option<AccessEnergy>>,
    /// What becomes of writes to what is cached (`size` and `probability`).
    pub write_hits: WriteHits,
}

impl Default for Admission {
    fn default() -> Admission {
        Admission {
            by: AdmitBy::All,
            threshold: Threshold::Fixed(1.0),
            seed: 1,
            endurance: Vec::new(),
            programmable: Vec::new(),
            energy: Vec::new(),
            write_hits: WriteHits::Cache,
        }
    }
}

/// Larger weights leave a score no digits.
const MOST_WEIGHT: f64 = 100.0;

impl Admission {
    fn check(&self) -> Result<(), TuningError> {
        let range = |key, value: f64, remedy| Err(TuningError::Range { key, value: value.to_string(), remedy });
        if self.write_hits == WriteHits::Bypass && !matches!(self.by, AdmitBy::Size | AdmitBy::Probability) {
            return Err(TuningError::NotApplicable { key: "admission.write_hits" });
        }
        match &self.threshold {
            Threshold::Fixed(value) => {
                let share = matches!(self.by, AdmitBy::Probability | AdmitBy::HottestShare);
                if !value.is_finite() || *value < 0.0 || (share && *value > 1.0) {
                    return range("admission.threshold", *value, "use a share from 0 to 1, a size, or a count");
                }
            }
            Threshold::Adaptive(adaptive) => {
                if matches!(self.by, AdmitBy::All | AdmitBy::HottestShare) {
                    return Err(TuningError::NotApplicable { key: "admission.adaptive" });
                }
                if !(adaptive.rate > 0.0 && adaptive.rate <= 0.5) {
                    return range("admission.adaptive.rate", adaptive.rate, "use a share above 0 and up to 0.5");
                }
                if !(2..=64).contains(&adaptive.caches) {
                    return range("admission.adaptive.caches", f64::from(adaptive.caches), "use 2 to 64");
                }
                if !(0.0..1.0).contains(&adaptive.smoothing) {
                    return range("admission.adaptive.smoothing", adaptive.smoothing, "use 0 or more, and less than 1");
                }
                if adaptive.frame == Nanos::ZERO {
                    return range("admission.adaptive.frame", 0.0, "use a time such as 10s");
                }
                let Objective { latency, wear, energy } = adaptive.objective;
                let sound = |weight: &f64| (0.0..=MOST_WEIGHT).contains(weight);
                if let Some(weight) = [latency, wear, energy].iter().find(|weight| !sound(weight)) {
                    return range("admission.adaptive.objective", *weight, "use weights from 0 to 100");
                }
                if latency + wear + energy == 0.0 {
                    return range("admission.adaptive.objective", 0.0, "give at least one weight above 0");
                }
            }
        }
        Ok(())
    }
}

/// Everything that can be changed while the drive runs: all of GreenDM's Table I but the extent size.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// PT: an extent is promoted once its misses within the time window exceed this. 0 promotes at the first miss.
    pub promotion_threshold: u32,
    /// TW: misses further apart than this start the count anew.
    pub promotion_window: Nanos,
    /// LT: demotion starts when no more than this many fast extents are free. 0: only on demand.
    pub demotion_low: u32,
    /// HT: demotion goes on until this many are free.
    pub demotion_high: u32,
    /// MCML: the most moves (promotions, demotions, write-backs) in flight.
    pub max_moves: u32,
    /// Write policy (caching).
    pub write: WritePolicy,
    /// Replacement policy.
    pub replacement: Replacement,
    /// Admission policy (caching).
    pub admission: Admission,
    /// The longest write-back queue (caching, write-back); extents that find it full stay dirty until evicted.
    pub writeback_queue: u32,
    /// How long a dirty extent waits in the queue before it is written back, to gather overwrites.
    pub writeback_delay: Nanos,
    /// A map update becomes durable at the latest after this time, sooner if a flush or a move waits for it.
    pub commit_interval: Nanos,
    /// Every commit is written to both devices, so that either alone can tell what was where. Otherwise only to the fast
    /// one, which lets a sleeping disk sleep; checkpoints go to both in any case.
    pub mirror_journal: bool,
    /// For each device, the idle time after which it is put to standby.
    pub spin_down_after: Vec<Option<Nanos>>,
    /// One read wears flash as much as 1/`read_effect` of a write (GreenDM, section 2.5); `None`: reads do not wear.
    pub read_effect: Option<u32>,
    /// The log and its migration (logging).
    pub logging: LoggingTuning,
    /// Where writes go, and what is tidied up when the host is idle (partitioned).
    pub partition: Partition,
    /// Hill climbing on some of the settings above while the drive runs (tiering, caching); `None`: they stay.
    pub climb: Option<Climb>,
}

impl Default for Tuning {
    /// GreenDM's defaults (section 3.2): TW 60 s, LT 64, HT 128; PT 4 and MCML 16, its best for web search. Its
    /// write-backs begin at once; ours wait 5 s, because a block that is written again within them is written back once.
    fn default() -> Tuning {
        Tuning {
            promotion_threshold: 4,
            promotion_window: Nanos::from_s(60),
            demotion_low: 64,
            demotion_high: 128,
            max_moves: 16,
            write: WritePolicy::Back,
            replacement: Replacement::Wsclock,
            admission: Admission::default(),
            writeback_queue: 1024,
            writeback_delay: Nanos::from_s(5),
            commit_interval: Nanos::from_s(5),
            mirror_journal: true,
            spin_down_after: Vec::new(),
            read_effect: Some(100),
            logging: LoggingTuning::default(),
            partition: Partition::default(),
            climb: None,
        }
    }
}

/// The most moves in flight that can be asked for: a move's index is 16 bits in the extent map.
pub const MOST_MOVES: u32 = 4096;

impl Tuning {
    /// Whether the values can work together, whatever the placement.
    pub fn check(&self) -> Result<(), TuningError> {
        let range = |key, value: u32, remedy| Err(TuningError::Range { key, value: value.to_string(), remedy });
        if self.demotion_high < self.demotion_low {
            return range("placement.demotion.high", self.demotion_high, "it must not be below placement.demotion.low");
        }
        if self.max_moves == 0 || self.max_moves > MOST_MOVES {
            return range("placement.max_moves", self.max_moves, "use 1 to 4096");
        }
        if self.read_effect == Some(0) {
            return range("endurance.read_effect", 0, "use 1 or more, or leave it out if reads do not wear");
        }
        self.logging.check()?;
        self.partition.check()?;
        if let Some(climb) = &self.climb {
            climb.check()?;
        }
        self.admission.check()
    }
}

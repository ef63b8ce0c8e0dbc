//! What can be set of admission.

use peryton_units::{Bytes, Nanos};

use super::rules::{AdmitBy, Unit, WriteHits};
use crate::SettingError;

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
    /// How often the threshold is set.
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

/// Which misses may bring their extents into the cache (caching).
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// What it goes by.
    pub by: AdmitBy,
    /// Above or below what.
    pub threshold: Threshold,
    /// For `probability`, and for which extents are sampled.
    pub seed: u64,
    /// For each device, in the caller's order, how much can be written to it in its life; `None` where writing does not wear it. The adaptive
    /// threshold weighs lifetimes by it.
    pub endurance: Vec<Option<Bytes>>,
    /// For each device, in the same order, how much can be programmed into its flash in its life, where that is known.
    /// Lifetimes are then the smaller of both.
    pub programmable: Vec<Option<Bytes>>,
    /// For each device, in the same order, what an access takes, where it is known. The adaptive threshold weighs energy by it.
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
    /// Whether the values can work together.
    ///
    /// # Errors
    /// The first setting that cannot work, with its design key.
    pub fn check(&self) -> Result<(), SettingError> {
        let range = |key, value: f64, remedy| Err(SettingError::Range { key, value: value.to_string(), remedy });
        if self.write_hits == WriteHits::Bypass && self.by.write_hits().is_none() {
            return Err(SettingError::NotApplicable { key: "admission.write_hits" });
        }
        match &self.threshold {
            Threshold::Fixed(value) => {
                let share = self.by.unit() == Unit::Share;
                if !value.is_finite() || *value < 0.0 || (share && *value > 1.0) {
                    return range("admission.threshold", *value, "use a share from 0 to 1, a size, or a count");
                }
            }
            Threshold::Adaptive(adaptive) => {
                if !self.by.adapts() {
                    return Err(SettingError::NotApplicable { key: "admission.adaptive" });
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

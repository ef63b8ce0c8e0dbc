//! The settings of admission.

use peryton_units::{Bytes, Nanos};

use super::rules::{AdmitBy, Unit, WriteHits};
use crate::SettingError;

/// A fixed threshold, or one that adapts.
#[derive(Clone, Debug, PartialEq)]
pub enum Threshold {
    /// A fixed threshold, in the unit of its [`AdmitBy`].
    Fixed(f64),
    /// A threshold that sampled caches find.
    Adaptive(Adaptive),
}

/// The adaptive threshold ("Mixed SSD arrays", section V-B).
#[derive(Clone, Debug, PartialEq)]
pub struct Adaptive {
    /// The share of the extents that is sampled, above 0 and at most 0.5.
    pub rate: f64,
    /// The number of sampled caches among which these extents are divided.
    pub caches: u32,
    /// A sampled cache with a mean latency above this is not considered, and a threshold with which the whole cache has one is
    /// withdrawn; if none is left, everything is admitted.
    pub target_latency: Option<Nanos>,
    /// The number of sampled accesses after which the threshold is set.
    pub frame: u32,
    /// α of equations (12) and (14): the weight of the past. The paper uses 0.8 at a rate of 1 %, and 0.9 at 5 and 10
    /// %.
    pub smoothing: f64,
    /// The objective that is minimised.
    pub objective: Objective,
}

/// The objective: the product of mean latency, reciprocal lifetime and energy of an access, each to the power of its
/// weight. By default it is latency over lifetime, the paper's metric. Because weights are powers, units do not matter.
///
/// ```
/// use peryton_policy::Objective;
///
/// // A cache that is twice as slow is as good if it lasts twice as long.
/// let objective = Objective::default();
/// assert_eq!(objective.score(0.001, 1e8, 0.0), objective.score(0.002, 2e8, 0.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// Weight of the mean latency.
    pub latency: f64,
    /// Weight of the wear, the reciprocal of the lifetime.
    pub wear: f64,
    /// Weight of the energy of an access, with the moves that it causes ([`AccessEnergy`]).
    pub energy: f64,
}

impl Default for Objective {
    fn default() -> Objective {
        Objective { latency: 1.0, wear: 1.0, energy: 0.0 }
    }
}

impl Objective {
    /// The score of these values; lower is better. The times are in seconds, the energy in joules.
    pub fn score(&self, latency_s: f64, lifetime_s: f64, energy_j: f64) -> f64 {
        // A value that is not known, or a device that does not wear, leaves the decision to the others.
        let wear = if lifetime_s.is_finite() { lifetime_s.powf(-self.wear) } else { 1.0 };
        let energy = if energy_j > 0.0 { energy_j.powf(self.energy) } else { 1.0 };
        latency_s.powf(self.latency) * wear * energy
    }
}

/// The energy of an access beyond that of an idle device: watts while it lasts, and joules for each byte.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AccessEnergy {
    /// Watts while reading and while writing.
    pub active_w: [f64; 2],
    /// Joules per byte read and per byte written.
    pub per_byte_j: [f64; 2],
}

/// Which misses may bring their extents into the cache (caching).
///
/// ```
/// use peryton_policy::{Admission, AdmitBy, Threshold};
///
/// // Only extents with more than two references enter the cache.
/// let fixed = Admission { by: AdmitBy::Hotness, threshold: Threshold::Fixed(2.0), ..Admission::default() };
/// assert!(fixed.check().is_ok());
/// // A probability is at most 1.
/// let wrong = Admission { by: AdmitBy::Probability, threshold: Threshold::Fixed(2.0), ..Admission::default() };
/// assert!(wrong.check().unwrap_err().to_string().contains("admission.threshold"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// The property by which it decides.
    pub by: AdmitBy,
    /// The threshold of that property.
    pub threshold: Threshold,
    /// The seed for `probability` and for the choice of sampled extents.
    pub seed: u64,
    /// For each device, in the caller's order, how many bytes can be written to it in its life; `None` if writing does
    /// not wear it. The adaptive threshold computes lifetimes from it.
    pub endurance: Vec<Option<Bytes>>,
    /// For each device, in the same order, how many bytes can be programmed into its flash in its life, if that is
    /// known. The lifetime is then the smaller of the two.
    pub programmable: Vec<Option<Bytes>>,
    /// For each device, in the same order, the energy of an access, if it is known. The adaptive threshold weighs it.
    pub energy: Vec<Option<AccessEnergy>>,
    /// How writes to cached extents are treated (`size` and `probability`).
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

/// The largest weight; larger ones would leave a score without significant digits.
const MOST_WEIGHT: f64 = 100.0;

impl Admission {
    /// Checks that the values can work together.
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
                if adaptive.frame == 0 {
                    return range("admission.adaptive.frame", 0.0, "use a number of accesses such as 1000");
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

//! Admission: which misses may bring their extents into the cache ("Mixed SSD arrays", section III). A write that is
//! not admitted goes directly to the slow device. Reads of cached extents are always served by the cache. Writes to
//! cached extents are too, unless they are judged like misses ([`WriteHits`]).

mod adaptive;
mod kept;
mod programs;
mod references;
mod rules;
mod settings;
mod shadow;

use peryton_units::{Bytes, Nanos};

use adaptive::Adapting;
pub use adaptive::{AdaptiveView, Costs, Wear};
pub use kept::GateCursor;
use rules::BuiltInRule;
pub use rules::{Access, AdmitBy, CustomAdmission, Unit, WriteHits};
pub use settings::{AccessEnergy, Adaptive, Admission, Objective, Threshold};

/// A multiplicative hash of an extent, for sampling and chance without a table.
#[inline]
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// A rule with its threshold.
#[derive(Debug)]
struct Evaluator {
    rule: BuiltInRule,
    /// The threshold: bytes, references, or a probability.
    threshold: f64,
}

impl Evaluator {
    fn new(by: AdmitBy, threshold: f64, extents: usize, seed: u64) -> Evaluator {
        let mut evaluator = Evaluator { rule: BuiltInRule::new(by, extents, seed), threshold };
        evaluator.set_threshold(threshold);
        evaluator
    }

    fn set_threshold(&mut self, threshold: f64) {
        self.threshold = threshold;
        self.rule.set_threshold(threshold);
    }

    #[inline]
    fn admits(&mut self, miss: Access) -> bool {
        self.rule.admits(miss)
    }

    #[cfg(test)]
    fn remembered(&self) -> usize {
        self.rule.remembered()
    }
}

fn limit(of: &[Option<Bytes>], device: usize) -> Option<Bytes> {
    of.get(device).copied().flatten()
}

/// What a device says of its wear.
#[derive(Clone, Copy, Debug)]
struct Worn {
    device: usize,
    /// The share of its life that is used up.
    used_ppm: u32,
    /// What had been written to it when it said so.
    written: Bytes,
}

/// The admission rule in force.
///
/// # Examples
///
/// Requests of up to 64 KiB may bring their extents in:
///
/// ```
/// use peryton_policy::{Admission, AdmitBy, Threshold, admission::{Access, Gate}};
/// use peryton_units::{Bytes, Op};
///
/// let settings = Admission { by: AdmitBy::Size, threshold: Threshold::Fixed(65536.0), ..Admission::default() };
/// settings.check()?;
/// let mut gate = Gate::new(&settings, 1000, Bytes::mib(1));
/// let miss = |len| Access { extent: 7, op: Op::Read, request_len: len };
/// assert!(gate.admits(miss(Bytes::kib(4))));
/// assert!(!gate.admits(miss(Bytes::mib(1))));
/// # Ok::<(), peryton_policy::SettingError>(())
/// ```
#[derive(Debug)]
pub struct Gate {
    config: Admission,
    evaluator: Evaluator,
    adapting: Option<Box<Adapting>>,
    /// Whether the rule is shown every access.
    observes: bool,
    /// What devices say of their wear; there are at most two.
    worn: Vec<Worn>,
}

impl Gate {
    /// Makes a gate for a cache with room for `extents` extents of `extent` bytes each.
    pub fn new(config: &Admission, extents: u32, extent: Bytes) -> Gate {
        let (fixed, adaptive) = match &config.threshold {
            Threshold::Fixed(value) => (*value, None),
            Threshold::Adaptive(adaptive) => (f64::MAX, Some(adaptive)),
        };
        let write_hits = config.write_hits == WriteHits::Bypass;
        let (by, seed) = (config.by, config.seed);
        let adapting =
            adaptive.map(|adaptive| Box::new(Adapting::new(by, adaptive, seed, extents, extent, write_hits)));
        let threshold = adapting.as_ref().map_or(fixed, |adapting| adapting.threshold());
        let evaluator = Evaluator::new(by, threshold, extents as usize, seed);
        Gate { config: config.clone(), evaluator, adapting, observes: by.observes(), worn: Vec::new() }
    }

    /// Whether this configuration needs another gate.
    pub fn differs(&self, config: &Admission) -> bool {
        self.config != *config
    }

    /// Whether every miss is admitted, without judging.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.config.by == AdmitBy::All
    }

    /// Whether writes to cached extents are judged like misses.
    #[inline]
    pub fn judges_write_hits(&self) -> bool {
        self.config.write_hits == WriteHits::Bypass
    }

    /// Whether this miss may bring its extent into the cache. Call it once for each miss.
    #[inline]
    pub fn admits(&mut self, miss: Access) -> bool {
        self.evaluator.admits(miss)
    }

    /// Passes an access of `len` bytes, hit or miss, to the sampled caches and to a rule that observes all of them; call it
    /// before [`Gate::admits`]. At the end of a frame it returns the time that it took, and the caller must call
    /// [`Gate::end_frame`].
    #[inline]
    pub fn observe(&mut self, now: Nanos, access: Access, len: Bytes) -> Option<Nanos> {
        if self.observes {
            self.evaluator.rule.observe(access);
        }
        self.adapting.as_mut()?.observe(now, access, len)
    }

    /// Sets the threshold by what the sampled caches saw in the frame and by the costs of accesses.
    pub fn end_frame(&mut self, frame: Nanos, costs: Costs) {
        let adapting = self.adapting.as_mut().expect("only an adaptive threshold has frames");
        if let Some(threshold) = adapting.end_frame(frame, costs) {
            self.evaluator.set_threshold(threshold);
        }
    }

    /// Replaces another gate of the same cache: what devices have reported stays known.
    pub fn resume(&mut self, before: Gate) {
        self.worn = before.worn;
        if let (Some(adapting), Some(before)) = (&mut self.adapting, before.adapting) {
            adapting.programs = before.programs;
        }
    }

    /// Returns which of the cache (0) and the storage (1) should report its programmed bytes now, if either; `devices`
    /// has their numbers in the caller's order. Asks for one of them every few seconds, and for none if nothing depends
    /// on it.
    pub fn asks_what_was_programmed(&mut self, now: Nanos, devices: [usize; 2]) -> Option<usize> {
        let adapting = self.adapting.as_mut()?;
        let wears = devices.map(|device| limit(&self.config.programmable, device).is_some());
        if wears == [false; 2] {
            return None;
        }
        adapting.programs.asks(now).filter(|asked| wears[*asked])
    }

    /// Reports how many bytes a device has programmed so far, as it counts them, and how many were written to it for
    /// that.
    pub fn programmed(&mut self, device: usize, programmed: Bytes, written: Bytes) {
        if let Some(adapting) = &mut self.adapting {
            adapting.programs.report(device, programmed, written);
        }
    }

    /// Reports the share of a device's life that is used up, in parts per million, as it says itself, after `written`.
    pub fn worn(&mut self, device: usize, used_ppm: u32, written: Bytes) {
        self.worn.retain(|worn| worn.device != device);
        self.worn.push(Worn { device, used_ppm, written });
    }

    /// How much can still be written to a device, after `written`: the smaller of its rating and of what its flash can
    /// take. Of a device that says how worn it is, the rest of its rating counts.
    pub fn wear(&self, device: usize, written: Bytes) -> Wear {
        let worn = self.worn.iter().find(|worn| worn.device == device);
        let rated = limit(&self.config.endurance, device).map(|limit| match worn {
            Some(worn) => {
                let left = u128::from(limit.0) * u128::from(1_000_000 - worn.used_ppm.min(1_000_000)) / 1_000_000;
                Bytes(left as u64).saturating_sub(written.saturating_sub(worn.written))
            }
            None => limit.saturating_sub(written),
        });
        let physical = limit(&self.config.programmable, device).map(|limit| match &self.adapting {
            Some(adapting) => adapting.programs.left(device, limit, written),
            None => limit.saturating_sub(written),
        });
        Wear { left: [rated, physical].into_iter().flatten().min() }
    }

    /// The state of the adaptive threshold; `None` if the threshold is fixed.
    pub fn view(&self) -> Option<AdaptiveView> {
        self.adapting.as_ref().map(|adapting| adapting.view())
    }
}

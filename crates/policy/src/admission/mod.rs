//! Admission: which misses may bring their extents into the cache ("Mixed SSD arrays", section III). A write
//! that is not admitted goes straight to the slow device. Reads of what is cached are served by the cache without being
//! judged; so are writes, or else they are judged like misses ([`WriteHits`]).

mod adaptive;
mod programs;
mod references;
mod rules;
mod settings;
mod shadow;

use peryton_units::{Bytes, Nanos};

use adaptive::Adapting;
pub use adaptive::{AdaptiveView, Costs, Wear};
use rules::BuiltInRule;
pub use rules::{Access, AdmitBy, Unit, WriteHits};
pub use settings::{AccessEnergy, Adaptive, Admission, Objective, Threshold};

/// A multiplicative hash of an extent: sampling and chance without a table.
#[inline]
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// A rule with its threshold.
#[derive(Clone, Debug)]
struct Evaluator {
    rule: BuiltInRule,
    /// Bytes, references, or a probability.
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

/// The admission in force.
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
#[derive(Clone, Debug)]
pub struct Gate {
    config: Admission,
    evaluator: Evaluator,
    adapting: Option<Box<Adapting>>,
}

impl Gate {
    /// For a cache with room for so many extents of `extent` bytes each.
    pub fn new(config: &Admission, extents: u32, extent: Bytes) -> Gate {
        let (fixed, adaptive) = match &config.threshold {
            Threshold::Fixed(value) => (*value, None),
            Threshold::Adaptive(adaptive) => (f64::MAX, Some(adaptive)),
        };
        let write_hits = config.write_hits == WriteHits::Bypass;
        let (by, seed) = (config.by, config.seed);
        let adapting =
            adaptive.map(|adaptive| Box::new(Adapting::new(by, adaptive, seed, extents, extent, write_hits)));
        let threshold = adapting.as_ref().map_or(fixed, |adapting| adapting.admit_all());
        Gate { config: config.clone(), evaluator: Evaluator::new(by, threshold, extents as usize, seed), adapting }
    }

    /// Whether another configuration asks for another gate.
    pub fn differs(&self, config: &Admission) -> bool {
        self.config != *config
    }

    /// Whether every miss is admitted, without asking.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.config.by == AdmitBy::All
    }

    /// Whether writes to what is cached are judged like misses.
    #[inline]
    pub fn judges_write_hits(&self) -> bool {
        self.config.write_hits == WriteHits::Bypass
    }

    /// Whether this miss may bring its extent into the cache. To be asked once for each.
    #[inline]
    pub fn admits(&mut self, miss: Access) -> bool {
        self.evaluator.admits(miss)
    }

    /// Shows an access of `len` bytes, hit or miss, to the sampled caches. At the end of a time frame its length comes
    /// back, and [`Gate::end_frame`] is due.
    #[inline]
    pub fn observe(&mut self, now: Nanos, access: Access, len: Bytes) -> Option<Nanos> {
        self.adapting.as_mut()?.observe(now, access, len)
    }

    /// Sets the threshold by what the sampled caches saw in the time frame, weighed by what accesses cost.
    pub fn end_frame(&mut self, frame: Nanos, costs: Costs) {
        let adapting = self.adapting.as_mut().expect("only an adaptive threshold has time frames");
        if let Some(threshold) = adapting.end_frame(frame, costs) {
            self.evaluator.set_threshold(threshold);
        }
    }

    /// Takes the place of another gate of the same cache: what devices have reported stays true.
    pub fn resume(&mut self, before: Gate) {
        if let (Some(adapting), Some(before)) = (&mut self.adapting, before.adapting) {
            adapting.programs = before.programs;
        }
    }

    /// Which of the cache (0) and the storage (1) should report now what it has programmed, if either, given their numbers
    /// in the caller's order. Asks for one of them once in some seconds, and for none where nothing depends on it.
    pub fn asks_what_was_programmed(&mut self, now: Nanos, devices: [usize; 2]) -> Option<usize> {
        let adapting = self.adapting.as_mut()?;
        let wears = devices.map(|device| limit(&self.config.programmable, device).is_some());
        if wears == [false; 2] {
            return None;
        }
        adapting.programs.asks(now).filter(|asked| wears[*asked])
    }

    /// Reports what a device has programmed so far, as it counts itself, and all that was written to it for that.
    pub fn programmed(&mut self, device: usize, programmed: Bytes, written: Bytes) {
        if let Some(adapting) = &mut self.adapting {
            adapting.programs.report(device, programmed, written);
        }
    }

    /// What a device can still be written, after `written`: the smaller of what it is rated for and what its flash bears.
    pub fn wear(&self, device: usize, written: Bytes) -> Wear {
        let rated = limit(&self.config.endurance, device).map(|limit| limit.saturating_sub(written));
        let physical = limit(&self.config.programmable, device).map(|limit| match &self.adapting {
            Some(adapting) => adapting.programs.left(device, limit, written),
            None => limit.saturating_sub(written),
        });
        Wear { left: [rated, physical].into_iter().flatten().min() }
    }

    /// What the adaptive threshold stands at and why; `None` where it is fixed.
    pub fn view(&self) -> Option<AdaptiveView> {
        self.adapting.as_ref().map(|adapting| adapting.view(self.evaluator.threshold))
    }
}

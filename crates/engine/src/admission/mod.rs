//! Admission (caching): which misses may bring their extents into the cache ("Mixed SSD arrays", section III). A write
//! that is not admitted goes straight to the slow device. Reads of what is cached are served by the cache without being
//! judged; so are writes, or else they are judged like misses ([`WriteHits`]).

mod adaptive;
mod programs;
mod references;
mod shadow;

use peryton_units::{Bytes, Nanos, Op};

pub use adaptive::AdaptiveView;
use adaptive::{Adapting, Costs};
use references::References;

use crate::config::{Admission, AdmitBy, Threshold, WriteHits};

/// What admission is told about a miss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Miss {
    pub(crate) extent: u32,
    pub(crate) op: Op,
    /// Of the whole request, which may span extents.
    pub(crate) request_len: Bytes,
}

/// A multiplicative hash of an extent: sampling and chance without a table.
#[inline]
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// How one rule judges, with its threshold as a plain number: bytes, references, or a probability.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    by: AdmitBy,
    threshold: f64,
    /// `threshold` as a probability in units of 2⁻³²; above all of them for 1.
    chance: u64,
    references: Option<References>,
    /// The stream of draws for `probability`.
    draws: u64,
}

impl Judge {
    fn new(by: AdmitBy, threshold: f64, history: usize, seed: u64) -> Judge {
        let references = (by == AdmitBy::Hotness).then(|| References::new(history));
        let mut judge = Judge { by, threshold, chance: 0, references, draws: mix(seed) };
        judge.set(threshold);
        judge
    }

    fn set(&mut self, threshold: f64) {
        self.threshold = threshold;
        self.chance = (threshold.clamp(0.0, 1.0) * 4_294_967_296.0) as u64;
    }

    #[inline]
    fn admits(&mut self, miss: Miss) -> bool {
        match self.by {
            AdmitBy::All => true,
            AdmitBy::Size => miss.request_len.0 as f64 <= self.threshold,
            AdmitBy::Hotness => {
                let references = self.references.as_mut().expect("hotness keeps references");
                f64::from(references.count(miss.extent)) > self.threshold
            }
            AdmitBy::HottestShare => unreachable!("set up as hotness"),
            AdmitBy::Probability => {
                self.draws = self.draws.wrapping_add(0x9E37_79B9_7F4A_7C15);
                (mix(self.draws) >> 32) < self.chance
            }
        }
    }

    #[cfg(test)]
    fn remembered(&self) -> usize {
        self.references.as_ref().map_or(0, References::len)
    }
}

/// The admission in force.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    config: Admission,
    judge: Judge,
    /// The hottest share of the history is admitted: the threshold follows the reference counts.
    hottest_share: Option<f64>,
    adapting: Option<Box<Adapting>>,
}

impl Gate {
    /// For a cache of `slots` extents of `extent` bytes each.
    pub(crate) fn new(config: &Admission, slots: u32, extent: Bytes) -> Gate {
        let history = slots as usize;
        let (fixed, adaptive) = match &config.threshold {
            Threshold::Fixed(value) => (*value, None),
            Threshold::Adaptive(adaptive) => (f64::MAX, Some(adaptive)),
        };
        let (by, hottest_share) = match config.by {
            AdmitBy::HottestShare => (AdmitBy::Hotness, Some(fixed)),
            by => (by, None),
        };
        let write_hits = config.write_hits == WriteHits::Bypass;
        let adapting =
            adaptive.map(|adaptive| Box::new(Adapting::new(by, adaptive, config.seed, slots, extent, write_hits)));
        let threshold = match (&adapting, hottest_share) {
            (Some(adapting), _) => adapting.admit_all(),
            (None, Some(_)) => 0.0,
            (None, None) => fixed,
        };
        Gate { config: config.clone(), judge: Judge::new(by, threshold, history, config.seed), hottest_share, adapting }
    }

    /// Whether another configuration asks for another gate.
    pub(crate) fn differs(&self, config: &Admission) -> bool {
        self.config != *config
    }

    /// Whether every miss is admitted, without further ado.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.config.by == AdmitBy::All
    }

    /// Whether writes to what is cached are judged.
    #[inline]
    pub(crate) fn judges_write_hits(&self) -> bool {
        self.config.write_hits == WriteHits::Bypass
    }

    #[inline]
    pub(crate) fn admits(&mut self, miss: Miss) -> bool {
        if let (Some(share), Some(references)) = (self.hottest_share, &self.judge.references) {
            let threshold = references.threshold_of_hottest(share);
            self.judge.threshold = f64::from(threshold);
        }
        self.judge.admits(miss)
    }

    /// Every access, hit or miss, is shown to the sampled caches. At the end of a time frame its length comes back, and
    /// [`Gate::end_frame`] is due.
    #[inline]
    pub(crate) fn observe(&mut self, now: Nanos, miss: Miss, len: Bytes) -> Option<Nanos> {
        self.adapting.as_mut()?.observe(now, miss, len)
    }

    /// Sets the threshold anew.
    pub(crate) fn end_frame(&mut self, frame: Nanos, costs: Costs) {
        let adapting = self.adapting.as_mut().expect("only an adaptive threshold has time frames");
        if let Some(threshold) = adapting.end_frame(frame, costs) {
            self.judge.set(threshold);
        }
    }

    /// Whether the threshold adapts.
    #[inline]
    pub(crate) fn adapts(&self) -> bool {
        self.adapting.is_some()
    }

    /// What the adaptive threshold stands at and why; `None` where it is fixed.
    pub(crate) fn view(&self) -> Option<AdaptiveView> {
        self.adapting.as_ref().map(|adapting| adapting.view(self.judge.threshold))
    }
}

pub(crate) use adaptive::{Costs as AdmissionCosts, Wear};
pub(crate) use programs::Programs;

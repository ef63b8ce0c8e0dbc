//! The rules of admission, one file each. `docs/adding-a-policy.md` says how to add one.

#[macro_use]
mod declare;

use peryton_units::{Bytes, Op};

use super::WriteHits;

// One line a rule: its file, which is also its name in design files, its type, and what the documentation says of it.
// The first one is the default.
admission_rules! {
    all: All, "Every miss is admitted.";
    size: Size, "Requests of no more than `threshold` bytes.";
    hotness: Hotness, "Extents referenced more than `threshold` times while in a history as long as the cache has extents (2Q's second queue).";
    hottest_share: HottestShare, "Extents whose reference count is among the highest `threshold` (a share, such as 0.1) of that history.";
    probability: Probability, "A random `threshold` (from 0 to 1) of all misses.";
}

named!(AdmitBy);

/// What admission is told of an access to an extent.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The extent.
    pub extent: u32,
    /// Whether it is read or written.
    pub op: Op,
    /// The length of the whole request, which may span extents.
    pub request_len: Bytes,
}

/// What a threshold is a number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The rule has no threshold.
    Nothing,
    /// Bytes.
    Bytes,
    /// A count, such as one of references.
    Count,
    /// A share, from 0 to 1.
    Share,
}

/// A rule of admission, with what it remembers.
pub(super) trait AdmissionRule {
    /// What its threshold is a number of.
    const UNIT: Unit;
    /// The threshold where none is set; `None` where one has to be.
    const DEFAULT_THRESHOLD: Option<f64> = None;
    /// Whether sampled caches can find its threshold, each with one of [`AdmissionRule::sampled_threshold`].
    const ADAPTS: bool = false;
    /// Whether writes to what is cached may be judged by it, and then what becomes of them where that is not set; `None`
    /// where they may not.
    const WRITE_HITS: Option<WriteHits> = None;

    /// The rule for a cache with room for so many extents, before its threshold is set.
    fn new(extents: usize, seed: u64) -> Self;

    /// Sets the threshold, a number of [`AdmissionRule::UNIT`].
    fn set_threshold(&mut self, threshold: f64);

    /// Whether this miss may bring its extent into the cache. It is asked once for each.
    fn admits(&mut self, miss: Access) -> bool;

    /// The threshold of sampled cache `step` of `caches`: 1 is the strictest, and the last one admits everything.
    fn sampled_threshold(_step: u32, _caches: u32) -> f64 {
        1.0
    }

    /// How many extents it remembers.
    #[cfg(test)]
    fn remembered(&self) -> usize {
        0
    }
}

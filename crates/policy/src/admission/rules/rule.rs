//! What a rule of admission is told, and has to answer.

use peryton_units::{Bytes, Op};
use serde::{Deserialize, Serialize};

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
pub(in crate::admission) trait AdmissionRule {
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

//! The interface of an admission rule.

use peryton_units::{Bytes, Op};
use serde::{Deserialize, Serialize};

use crate::saving::Saving;

/// How writes to cached extents are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteHits {
    /// The cache takes them; only misses are judged ("Mixed SSD arrays", section IV-B, Figure 3).
    #[default]
    Cache,
    /// They are judged like misses. A write that is not admitted goes directly to the storage, and the cached copy is
    /// dropped. If the write covers a dirty copy only in part, the copy is the only one of the rest, so it takes the
    /// write.
    Bypass,
}

/// An access to an extent, as an admission rule sees it.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The extent.
    pub extent: u32,
    /// Whether it is read or written.
    pub op: Op,
    /// The length of the whole request, which may span extents.
    pub request_len: Bytes,
}

/// The unit of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The rule has no threshold.
    Nothing,
    /// Bytes.
    Bytes,
    /// A count, such as the number of references.
    Count,
    /// A share, from 0 to 1.
    Share,
}

/// An admission rule, with its state.
pub(in crate::admission) trait AdmissionRule {
    /// The unit of its threshold.
    const UNIT: Unit;
    /// The threshold if none is set; `None` if one must be set.
    const DEFAULT_THRESHOLD: Option<f64> = None;
    /// Whether sampled caches can find its threshold, each with one of [`AdmissionRule::sampled_threshold`].
    const ADAPTS: bool = false;
    /// How writes to cached extents are treated if that is not set; `None` if this rule never judges them.
    const WRITE_HITS: Option<WriteHits> = None;
    /// Whether it is shown every access, hits as well.
    const OBSERVES: bool = false;

    /// Makes the rule for a cache with room for `extents` extents; its threshold is set later.
    fn new(extents: usize, seed: u64) -> Self;

    /// Sets the threshold, in the unit [`AdmissionRule::UNIT`].
    fn set_threshold(&mut self, threshold: f64);

    /// Shows an access, hit or miss, before its miss is judged; only if [`AdmissionRule::OBSERVES`].
    fn observe(&mut self, _access: Access) {}

    /// Whether this miss may bring its extent into the cache. Called once for each miss.
    fn admits(&mut self, miss: Access) -> bool;

    /// The threshold of sampled cache `step` of `caches`: 1 is the strictest, and the last one admits everything.
    fn sampled_threshold(_step: u32, _caches: u32) -> f64 {
        1.0
    }

    /// Saves a part of its state; returns whether all of it is saved. The state may change meanwhile.
    fn save(&mut self, _to: &mut Saving<'_>) -> bool {
        true
    }

    /// Takes an item back that was saved, in the same order.
    fn load(&mut self, _list: u8, _item: &[u32]) {}

    /// Number of extents in its state.
    #[cfg(test)]
    fn remembered(&self) -> usize {
        0
    }
}

//! What a miss-ratio curve can be of: a replacement policy, or the bound that knows the future.

use peryton_policy::Replacement;
use serde::{Serialize, Serializer};

/// The policy of a curve.
///
/// ```
/// use peryton_policy::Replacement;
/// use peryton_sim::CurvePolicy;
///
/// assert_eq!(CurvePolicy::by_name("opt"), Some(CurvePolicy::Optimal));
/// assert_eq!(CurvePolicy::by_name("arc"), Some(Replacement::Arc.into()));
/// assert!(CurvePolicy::names().any(|name| name == "sieve"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurvePolicy {
    /// A replacement policy of the engine.
    Replacement(Replacement),
    /// OPT (Belady): the fewest misses of any policy that takes in every miss. It needs to know the future, so no drive can
    /// follow it.
    Optimal,
}

/// The name of [`CurvePolicy::Optimal`] on command lines and in reports.
pub(crate) const OPTIMAL: &str = "opt";

impl CurvePolicy {
    /// LRU, whose curve is exact.
    pub const LRU: CurvePolicy = CurvePolicy::Replacement(Replacement::Lru);

    /// The name on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            CurvePolicy::Replacement(replacement) => replacement.name(),
            CurvePolicy::Optimal => OPTIMAL,
        }
    }

    /// The policy with this name.
    pub fn by_name(name: &str) -> Option<CurvePolicy> {
        if name == OPTIMAL {
            return Some(CurvePolicy::Optimal);
        }
        Replacement::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, policy)| policy.into())
    }

    /// The names of all policies.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Replacement::ALL.into_iter().map(|(name, _)| name).chain([OPTIMAL])
    }
}

impl From<Replacement> for CurvePolicy {
    fn from(replacement: Replacement) -> CurvePolicy {
        CurvePolicy::Replacement(replacement)
    }
}

impl Serialize for CurvePolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

//! What a miss-ratio curve can be of: a replacement policy, or the bound that knows the future.

use std::fmt;

use peryton_policy::Replacement;
use serde::{Serialize, Serializer};

/// The policy of a curve.
///
/// ```
/// use peryton_policy::Replacement;
/// use peryton_sim::CurvePolicy;
///
/// assert_eq!("opt".parse(), Ok(CurvePolicy::Optimal));
/// assert_eq!("arc".parse(), Ok(CurvePolicy::from(Replacement::Arc)));
/// assert_eq!("lirs:hir=0.02".parse::<CurvePolicy>().map(|policy| policy.to_string()), Ok("lirs:hir=0.02".to_owned()));
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

    /// The names of all policies.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Replacement::ALL.into_iter().map(|(name, _)| name).chain([OPTIMAL])
    }
}

impl fmt::Display for CurvePolicy {
    /// The name on command lines and in reports, and the parameters that are not the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CurvePolicy::Replacement(replacement) => replacement.fmt(f),
            CurvePolicy::Optimal => f.write_str(OPTIMAL),
        }
    }
}

impl std::str::FromStr for CurvePolicy {
    type Err = String;

    /// Parses a name, alone or with parameters, as in `two_queue:kin=0.2`.
    fn from_str(text: &str) -> Result<CurvePolicy, String> {
        if text == OPTIMAL {
            return Ok(CurvePolicy::Optimal);
        }
        text.parse().map(CurvePolicy::Replacement)
    }
}

impl From<Replacement> for CurvePolicy {
    fn from(replacement: Replacement) -> CurvePolicy {
        CurvePolicy::Replacement(replacement)
    }
}

impl Serialize for CurvePolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

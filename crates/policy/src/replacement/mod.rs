//! Replacement: which extent leaves the fast device. Each policy is a file of its own, and works on slots, without
//! devices or places on them. `docs/extending.md` says how to add one.
//!
//! A policy implements [`ReplacementPolicy`]. Its owner reports which slot was given to which extent, accessed, and
//! given up. When a slot is needed, the owner asks for a [`victim`](ReplacementPolicy::victim) and shows the policy the
//! [`Candidates`]. [`BareCache`] is the smallest owner; the engine's map is another.

#[macro_use]
mod declare;
mod bare;
mod custom;
mod foreign;
mod foreseen;
mod optimal;
mod policy;
#[cfg(test)]
mod saved;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::parameters::{Parameter, set_all};

pub use bare::{Accesses, BareCache, Simulated};
pub use custom::{CustomPolicy, CustomReplacement};
pub use foreign::PolicyTable;
pub use foreseen::ForeseenVictims;
pub use optimal::{NEVER, OptimalCache};
pub use policy::{Candidate, Candidates, Capacity, ReplacementPolicy, SlotIndex};

// One line for each policy: its file, which is also its name in design files and on command lines, its type, whether it has
// parameters, and its description in the documentation. The first one is the default.
replacement_policies! {
    wsclock: Wsclock, "WSClock: a clock with ages (GreenDM, section 2.3).";
    lru: Lru, "Least recently used.";
    two_queue: TwoQueue(Parameters), "2Q: newcomers pass a FIFO before they count as hot.";
    s3fifo: S3fifo(Parameters), "S3-FIFO: three static FIFO queues.";
    arc: Arc, "ARC: recency and frequency, balanced by ghosts.";
    sieve: Sieve, "SIEVE: a FIFO queue with a hand that spares what was hit.";
    lirs: Lirs(Parameters), "LIRS: extents whose last two accesses lie close together stay.";
    w_tiny_lfu: WTinyLfu(Parameters), "W-TinyLFU: a window, and a main cache that takes what was accessed more often.";
    lrfu: Lrfu(Parameters), "LRFU: the smallest combined recency and frequency leaves.";
    clock_pro: ClockPro, "CLOCK-Pro: LIRS on clocks, with a share of cold extents that adapts.";
    fifo: Fifo, "First in, first out.";
    clock: Clock(Parameters), "CLOCK: FIFO with second chances.";
    slru: Slru, "Segmented LRU, of four segments.";
    lfu: Lfu, "Least frequently used.";
    lfu_da: LfuDa, "LFU with dynamic aging.";
    gdsf: Gdsf, "GreedyDual-Size-Frequency: frequency by size, with aging.";
    hyperbolic: Hyperbolic(Parameters), "Hyperbolic caching: of a sample, the least accesses for the time in the cache.";
    random: Random(Parameters), "Any extent.";
}

impl fmt::Display for Replacement {
    /// The name, and the parameters that are not the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let changed = self.parameters().into_iter().filter(|(parameter, value)| *value != parameter.default);
        changed.into_iter().try_for_each(|(parameter, value)| write!(f, ":{}={value}", parameter.name))
    }
}

impl FromStr for Replacement {
    type Err = String;

    /// Parses a name, alone or with parameters: `two_queue:kin=0.2:kout=0.6`.
    fn from_str(text: &str) -> Result<Replacement, String> {
        let (name, parameters) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let Some((_, mut policy)) = Replacement::ALL.into_iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = Replacement::ALL.iter().map(|(known, _)| *known).collect();
            return Err(format!("'{name}' is not known: use one of {}", known.join(", ")));
        };
        if let Some(text) = parameters {
            let known: Vec<Parameter> = policy.parameters().into_iter().map(|(parameter, _)| *parameter).collect();
            set_all(name, text, &known, |index, value| policy.set(index, value))?;
        }
        Ok(policy)
    }
}

impl Default for Replacement {
    /// The first policy of the list.
    fn default() -> Replacement {
        Replacement::ALL[0].1
    }
}

impl Serialize for Replacement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Replacement {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Replacement, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

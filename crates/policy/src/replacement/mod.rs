//! Replacement: which extent leaves the fast device. Each policy is a file of its own, and works on slots, without
//! devices or places on them. `docs/adding-a-policy.md` says how to add one.
//!
//! A policy implements [`ReplacementPolicy`]. Its owner reports which slot was given to which extent, accessed, and
//! given up. When a slot is needed, the owner asks for a [`victim`](ReplacementPolicy::victim) and shows the policy the
//! [`Candidates`]. [`BareCache`] is the smallest owner; the engine's map is another.

#[macro_use]
mod declare;
mod bare;
mod custom;
mod foreign;
mod optimal;
mod policy;
#[cfg(test)]
mod saved;

pub use bare::BareCache;
pub use custom::{CustomPolicy, CustomReplacement};
pub use foreign::PolicyTable;
pub use optimal::{NEVER, OptimalCache};
pub use policy::{Candidate, Candidates, Capacity, ReplacementPolicy, SlotIndex};

// One line for each policy: its file, which is also its name in design files and on command lines, its type, and its
// description in the documentation. The first one is the default.
replacement_policies! {
    wsclock: Wsclock, "WSClock: a clock with ages (GreenDM, section 2.3).";
    lru: Lru, "Least recently used.";
    two_queue: TwoQueue, "2Q: newcomers pass a FIFO before they count as hot.";
    s3fifo: S3fifo, "S3-FIFO: three static FIFO queues.";
    arc: Arc, "ARC: recency and frequency, balanced by ghosts.";
    sieve: Sieve, "SIEVE: a FIFO queue with a hand that spares what was hit.";
    lirs: Lirs, "LIRS: extents whose last two accesses lie close together stay.";
    w_tiny_lfu: WTinyLfu, "W-TinyLFU: a window, and a main cache that takes what was accessed more often.";
    lrfu: Lrfu, "LRFU: the smallest combined recency and frequency leaves.";
    clock_pro: ClockPro, "CLOCK-Pro: LIRS on clocks, with a share of cold extents that adapts.";
}

named!(Replacement);

//! What is known of the victims to come.

use peryton_policy::replacement::SlotIndex;

/// Victims whose data are prefetched before the policy names them.
#[derive(Debug)]
pub(in crate::cache) struct ForeseenVictims {
    /// The first and the last of them.
    pub(in crate::cache) next: SlotIndex,
    pub(in crate::cache) farthest: SlotIndex,
    /// For how many victims the farthest one is moved on from where it is.
    pub(in crate::cache) steps: u32,
}

impl ForeseenVictims {
    pub(in crate::cache) const NONE: ForeseenVictims =
        ForeseenVictims { next: SlotIndex(0), farthest: SlotIndex(0), steps: 0 };
}

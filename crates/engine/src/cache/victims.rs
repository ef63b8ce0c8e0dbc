//! What is known of the victims to come.

use peryton_policy::replacement::SlotIndex;

/// Victims whose data are prefetched before the policy names them.
#[derive(Debug)]
pub(in crate::cache) struct ForeseenVictims {
    /// The first and the last of them.
    pub(in crate::cache) next: SlotIndex,
    pub(in crate::cache) farthest: SlotIndex,
    /// How many further victims are found from the farthest one before it is looked for again from the next one.
    pub(in crate::cache) steps: u32,
}

impl ForeseenVictims {
    pub(in crate::cache) const NONE: ForeseenVictims =
        ForeseenVictims { next: SlotIndex(0), farthest: SlotIndex(0), steps: 0 };
}

//! The view of the map that a replacement policy has when it chooses a victim.

use peryton_format::blocks::Masks;
use peryton_policy::replacement::{Candidate, Candidates, SlotIndex};
use peryton_units::Nanos;

use crate::cache::map::extent::Extent;

pub(in crate::cache) struct MapCandidates<'a> {
    pub(super) now: Nanos,
    /// TW: an extent that was idle for longer has left the working set.
    pub(super) window: Nanos,
    /// For each slot, the extent in it plus one; zero for none.
    pub(super) slots: &'a [u32],
    pub(super) extents: &'a mut [Extent],
    /// For each slot its masks, if slots have parts of extents.
    pub(super) masks: &'a [Masks],
    /// Whether dirty extents may not be chosen this time.
    pub(super) clean_only: bool,
}

impl Candidates for MapCandidates<'_> {
    #[inline]
    fn now(&self) -> Nanos {
        self.now
    }

    #[inline]
    fn window(&self) -> Nanos {
        self.window
    }

    /// An extent may leave only while nothing is under way for it (GreenDM, section 2.6: a move waits for no access).
    #[inline]
    fn candidate(&mut self, slot: SlotIndex) -> Option<Candidate<'_>> {
        let extent = self.slots[slot.index()].checked_sub(1)?;
        let extent = &mut self.extents[extent as usize];
        // Where blocks are lost, only the slot records which.
        let has_lost = self.masks.get(slot.index()).is_some_and(|masks| masks.lost() != 0);
        let free_to_go =
            extent.in_flight == 0 && extent.moving().is_none() && !(self.clean_only && extent.is_dirty()) && !has_lost;
        free_to_go.then_some(Candidate { last_access: extent.last_access, referenced: &mut extent.referenced })
    }
}

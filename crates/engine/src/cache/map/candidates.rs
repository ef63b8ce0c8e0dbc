//! The view of the map that a replacement policy has when it chooses a victim.

use peryton_format::blocks::Masks;
use peryton_policy::replacement::{Candidate, Candidates, SlotIndex};
use peryton_units::Nanos;

use crate::cache::map::{dirty::DirtyIndex, extent::Extent};

pub(in crate::cache) struct MapCandidates<'a> {
    pub(super) now: Nanos,
    /// TW: an extent that was idle for longer has left the working set.
    pub(super) window: Nanos,
    /// For each slot, the extent in it plus one; zero for none.
    pub(super) slots: &'a [u32],
    pub(super) extents: &'a mut [Extent],
    /// For each slot its masks, if slots have parts of extents.
    pub(super) masks: &'a [Masks],
    pub(super) dirty: &'a DirtyIndex,
    pub(super) taken_for_dirty: Option<Nanos>,
    /// The number of dirty extents that are passed over before one may be chosen.
    pub(super) pass_over: u32,
}

impl MapCandidates<'_> {
    /// Whether the dirty extent in this slot is passed over.
    #[inline]
    fn passes_over(&mut self, slot: SlotIndex) -> bool {
        let may_be_clean = self.taken_for_dirty.is_some_and(|at| self.dirty.since(slot) <= at);
        let passes = self.pass_over > 0 && !(may_be_clean && self.pass_over < u32::MAX);
        self.pass_over -= u32::from(passes);
        passes
    }
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
        // The masks are read first: those of all slots take less of the processor's cache than the map does, and the
        // search may pass over many dirty slots in a row. A slot with lost blocks never leaves, because only the slot
        // records them.
        let masks = self.masks.get(slot.index());
        if let Some(masks) = masks
            && (masks.lost() != 0 || masks.dirty() != 0 && self.passes_over(slot))
        {
            return None;
        }
        let extent = self.slots[slot.index()].checked_sub(1)? as usize;
        let extent = &mut self.extents[extent];
        let free_to_go = extent.in_flight == 0 && extent.moving().is_none();
        free_to_go.then_some(Candidate { last_access: extent.last_access, referenced: &mut extent.referenced })
    }
}

//! Which extent leaves the fast device. One file a policy; each sees slots, never places on the slow device.

mod lru;
mod wsclock;

use peryton_units::Nanos;

use crate::{config::Replacement, extent_map::Extent};
use lru::Lru;
use wsclock::Wsclock;

/// A slot of the fast device: room for one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotIndex(pub(crate) u32);

/// What a policy may look at when it chooses.
pub(crate) struct View<'a> {
    pub(crate) now: Nanos,
    /// TW: an extent idle for longer has left the working set.
    pub(crate) window: Nanos,
    /// For each slot the extent in it plus one, zero for none.
    pub(crate) slots: &'a [u32],
    pub(crate) extents: &'a mut [Extent],
    /// Dirty extents are no victims this time.
    pub(crate) clean_only: bool,
}

impl View<'_> {
    /// The extent in a slot, if it may leave now: nothing is under way for it (GreenDM, section 2.6: a move waits for
    /// none).
    fn eligible(&mut self, slot: SlotIndex) -> Option<&mut Extent> {
        let extent = self.slots[slot.0 as usize].checked_sub(1)?;
        let extent = &mut self.extents[extent as usize];
        let free_to_go = extent.in_flight == 0 && extent.moving().is_none() && !(self.clean_only && extent.dirty);
        free_to_go.then_some(extent)
    }
}

/// The policy in force.
#[derive(Clone, Debug)]
pub(crate) enum Policy {
    Wsclock(Wsclock),
    Lru(Lru),
}

impl Policy {
    pub(crate) fn new(which: Replacement, slots: u32) -> Policy {
        match which {
            Replacement::Wsclock => Policy::Wsclock(Wsclock::new(slots)),
            Replacement::Lru => Policy::Lru(Lru::new(slots)),
        }
    }

    /// An extent was given this slot.
    #[inline]
    pub(crate) fn inserted(&mut self, slot: SlotIndex) {
        match self {
            Policy::Wsclock(_) => {}
            Policy::Lru(lru) => lru.push_front(slot),
        }
    }

    /// The extent in this slot was accessed.
    #[inline]
    pub(crate) fn accessed(&mut self, slot: SlotIndex) {
        match self {
            // The clock reads the map's own reference bit: a hit touches nothing else.
            Policy::Wsclock(_) => {}
            Policy::Lru(lru) => lru.move_to_front(slot),
        }
    }

    /// The slot was given up.
    #[inline]
    pub(crate) fn removed(&mut self, slot: SlotIndex) {
        match self {
            Policy::Wsclock(_) => {}
            Policy::Lru(lru) => lru.unlink(slot),
        }
    }

    /// The slot whose extent should leave, if any may.
    pub(crate) fn victim(&mut self, view: &mut View<'_>) -> Option<SlotIndex> {
        match self {
            Policy::Wsclock(clock) => clock.victim(view),
            Policy::Lru(lru) => lru.victim(view),
        }
    }
}

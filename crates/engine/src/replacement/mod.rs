//! Which extent leaves the fast device. One file a policy; each sees slots, never places on the slow device.

mod arc;
mod bare;
mod lru;
mod s3fifo;
mod two_queue;
mod wsclock;

use peryton_units::Nanos;

use crate::{config::Replacement, extent_map::Extent};
use arc::Arc;
pub use bare::BareCache;
use lru::Lru;
use s3fifo::S3Fifo;
use two_queue::TwoQueue;
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
    TwoQueue(TwoQueue),
    S3Fifo(S3Fifo),
    Arc(Arc),
}

impl Policy {
    /// For `slots` slots, of which the map uses `usable` at most at a time.
    pub(crate) fn new(which: Replacement, slots: u32, usable: u32) -> Policy {
        match which {
            Replacement::Wsclock => Policy::Wsclock(Wsclock::new(slots)),
            Replacement::Lru => Policy::Lru(Lru::new(slots)),
            Replacement::TwoQueue => Policy::TwoQueue(TwoQueue::new(slots, usable)),
            Replacement::S3fifo => Policy::S3Fifo(S3Fifo::new(slots, usable)),
            Replacement::Arc => Policy::Arc(Arc::new(slots, usable)),
        }
    }

    /// An extent missed and is about to be given a slot.
    pub(crate) fn admitting(&mut self, extent: u32) {
        if let Policy::Arc(arc) = self {
            arc.admitting(extent);
        }
    }

    /// An extent was given this slot.
    #[inline]
    pub(crate) fn inserted(&mut self, slot: SlotIndex, extent: u32) {
        match self {
            Policy::Wsclock(_) => {}
            Policy::Lru(lru) => lru.inserted(slot),
            Policy::TwoQueue(two) => two.inserted(slot, extent),
            Policy::S3Fifo(s3) => s3.inserted(slot, extent),
            Policy::Arc(arc) => arc.inserted(slot, extent),
        }
    }

    /// The extent in this slot was accessed.
    #[inline]
    pub(crate) fn accessed(&mut self, slot: SlotIndex) {
        match self {
            // The clock reads the map's own reference bit: a hit touches nothing else.
            Policy::Wsclock(_) => {}
            Policy::Lru(lru) => lru.accessed(slot),
            Policy::TwoQueue(two) => two.accessed(slot),
            Policy::S3Fifo(s3) => s3.accessed(slot),
            Policy::Arc(arc) => arc.accessed(slot),
        }
    }

    /// The extent in this slot will be accessed soon.
    #[inline]
    pub(crate) fn prefetch(&self, slot: SlotIndex) {
        match self {
            Policy::Wsclock(_) => {}
            Policy::Lru(lru) => lru.prefetch(slot),
            Policy::TwoQueue(two) => two.prefetch(slot),
            Policy::S3Fifo(s3) => s3.prefetch(slot),
            Policy::Arc(arc) => arc.prefetch(slot),
        }
    }

    /// The slots that the policy would name next if their extents may leave, where that takes no search.
    #[inline]
    pub(crate) fn likely_victims(&self) -> Option<(SlotIndex, SlotIndex)> {
        match self {
            Policy::Lru(lru) => lru.two_oldest(),
            Policy::Wsclock(_) | Policy::TwoQueue(_) | Policy::S3Fifo(_) | Policy::Arc(_) => None,
        }
    }

    /// The slot was given up; `evicted` to make room, rather than because its extent was discarded or failed.
    #[inline]
    pub(crate) fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool) {
        match self {
            Policy::Wsclock(_) => {}
            Policy::Lru(lru) => lru.removed(slot),
            Policy::TwoQueue(two) => two.removed(slot, extent, evicted),
            Policy::S3Fifo(s3) => s3.removed(slot, extent, evicted),
            Policy::Arc(arc) => arc.removed(slot, extent, evicted),
        }
    }

    /// The slot whose extent should leave, if any may.
    pub(crate) fn victim(&mut self, view: &mut View<'_>) -> Option<SlotIndex> {
        match self {
            Policy::Wsclock(clock) => clock.victim(view),
            Policy::Lru(lru) => lru.victim(view),
            Policy::TwoQueue(two) => two.victim(view),
            Policy::S3Fifo(s3) => s3.victim(view),
            Policy::Arc(arc) => arc.victim(view),
        }
    }
}

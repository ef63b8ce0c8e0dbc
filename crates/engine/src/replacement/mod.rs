//! Which extent leaves the fast device. One file a policy; each sees slots, never places on the slow device.
//! `docs/adding-a-policy.md` says how to add one.

mod arc;
mod bare;
mod lru;
mod s3fifo;
mod sieve;
mod two_queue;
mod wsclock;

use peryton_units::Nanos;

use crate::{config::Replacement, extent_map::Extent};
use arc::Arc;
pub use bare::BareCache;
use lru::Lru;
use s3fifo::S3Fifo;
use sieve::Sieve;
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

/// What a policy is told and asked. It sees slots of the fast device; each is given an extent, accessed, and given up.
pub(crate) trait Replaces {
    /// An extent missed and is about to be given a slot.
    #[inline]
    fn admitting(&mut self, _extent: u32) {}

    /// An extent was given this slot.
    #[inline]
    fn inserted(&mut self, _slot: SlotIndex, _extent: u32) {}

    /// The extent in this slot was accessed.
    #[inline]
    fn accessed(&mut self, _slot: SlotIndex) {}

    /// The extent in this slot will be accessed soon.
    #[inline]
    fn prefetch(&self, _slot: SlotIndex) {}

    /// The slots that the policy would name next if their extents may leave, where that takes no search.
    #[inline]
    fn likely_victims(&self) -> Option<(SlotIndex, SlotIndex)> {
        None
    }

    /// The slot was given up; `evicted` to make room, rather than because its extent was discarded or failed.
    #[inline]
    fn removed(&mut self, _slot: SlotIndex, _extent: u32, _evicted: bool) {}

    /// The slot whose extent should leave, if any may: one that [`View::eligible`] has let pass.
    fn victim(&mut self, view: &mut View<'_>) -> Option<SlotIndex>;
}

/// The policy in force: an enum, so that a hit is a jump and not a call through a table.
#[derive(Clone, Debug)]
pub(crate) enum Policy {
    Wsclock(Wsclock),
    Lru(Lru),
    TwoQueue(TwoQueue),
    S3Fifo(S3Fifo),
    Arc(Arc),
    Sieve(Sieve),
}

macro_rules! each {
    ($policy:expr, $name:ident => $body:expr) => {
        match $policy {
            Policy::Wsclock($name) => $body,
            Policy::Lru($name) => $body,
            Policy::TwoQueue($name) => $body,
            Policy::S3Fifo($name) => $body,
            Policy::Arc($name) => $body,
            Policy::Sieve($name) => $body,
        }
    };
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
            Replacement::Sieve => Policy::Sieve(Sieve::new(slots)),
        }
    }
}

impl Replaces for Policy {
    fn admitting(&mut self, extent: u32) {
        each!(self, policy => policy.admitting(extent));
    }

    #[inline]
    fn inserted(&mut self, slot: SlotIndex, extent: u32) {
        each!(self, policy => policy.inserted(slot, extent));
    }

    #[inline]
    fn accessed(&mut self, slot: SlotIndex) {
        each!(self, policy => policy.accessed(slot));
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        each!(self, policy => policy.prefetch(slot));
    }

    #[inline]
    fn likely_victims(&self) -> Option<(SlotIndex, SlotIndex)> {
        each!(self, policy => policy.likely_victims())
    }

    #[inline]
    fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool) {
        each!(self, policy => policy.removed(slot, extent, evicted));
    }

    fn victim(&mut self, view: &mut View<'_>) -> Option<SlotIndex> {
        each!(self, policy => policy.victim(view))
    }
}

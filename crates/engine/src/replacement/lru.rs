//! Least recently used.

use super::{Replaces, SlotIndex, View};
use crate::queues::Queues;

#[derive(Clone, Debug)]
pub(crate) struct Lru {
    queue: Queues<1>,
}

impl Lru {
    pub(super) fn new(slots: u32) -> Lru {
        Lru { queue: Queues::new(slots) }
    }
}

impl Replaces for Lru {
    #[inline]
    fn inserted(&mut self, slot: SlotIndex, _extent: u32) {
        self.queue.push(0, slot);
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        self.queue.prefetch(slot);
    }

    #[inline]
    fn accessed(&mut self, slot: SlotIndex) {
        self.queue.renew(0, slot);
    }

    #[inline]
    fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
        self.queue.unlink(slot);
    }

    #[inline]
    fn likely_victims(&self) -> Option<(SlotIndex, SlotIndex)> {
        self.queue.two_oldest(0)
    }

    fn victim(&mut self, view: &mut View<'_>) -> Option<SlotIndex> {
        self.queue.oldest(0, |slot| view.eligible(slot).is_some())
    }
}

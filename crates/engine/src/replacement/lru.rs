//! Least recently used.

use super::{SlotIndex, View};
use crate::queues::Queues;

#[derive(Clone, Debug)]
pub(crate) struct Lru {
    queue: Queues<1>,
}

impl Lru {
    pub(super) fn new(slots: u32) -> Lru {
        Lru { queue: Queues::new(slots) }
    }

    #[inline]
    pub(super) fn inserted(&mut self, slot: SlotIndex) {
        self.queue.push(0, slot);
    }

    #[inline]
    pub(super) fn prefetch(&self, slot: SlotIndex) {
        self.queue.prefetch(slot);
    }

    #[inline]
    pub(super) fn accessed(&mut self, slot: SlotIndex) {
        self.queue.renew(0, slot);
    }

    #[inline]
    pub(super) fn removed(&mut self, slot: SlotIndex) {
        self.queue.unlink(slot);
    }

    #[inline]
    pub(super) fn two_oldest(&self) -> Option<(SlotIndex, SlotIndex)> {
        self.queue.two_oldest(0)
    }

    pub(super) fn victim(&mut self, view: &mut View<'_>) -> Option<SlotIndex> {
        self.queue.oldest(0, |slot| view.eligible(slot).is_some())
    }
}

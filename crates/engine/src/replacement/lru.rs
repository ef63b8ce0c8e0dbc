//! Least recently used: a list through the slots.

use super::{SlotIndex, View};

const NONE: u32 = u32::MAX;

/// How many of the least recently used slots are looked at before giving up: those passed over have an access or a
/// move under way, and of these there are never many.
const MOST_EXAMINED: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Link {
    newer: u32,
    older: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Lru {
    links: Vec<Link>,
    newest: u32,
    oldest: u32,
}

impl Lru {
    pub(super) fn new(slots: u32) -> Lru {
        Lru { links: vec![Link { newer: NONE, older: NONE }; slots as usize], newest: NONE, oldest: NONE }
    }

    #[inline]
    pub(super) fn push_front(&mut self, SlotIndex(slot): SlotIndex) {
        self.links[slot as usize] = Link { newer: NONE, older: self.newest };
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.links[newest as usize].newer = slot,
        }
        self.newest = slot;
    }

    #[inline]
    pub(super) fn move_to_front(&mut self, slot: SlotIndex) {
        if self.newest != slot.0 {
            self.unlink(slot);
            self.push_front(slot);
        }
    }

    #[inline]
    pub(super) fn unlink(&mut self, SlotIndex(slot): SlotIndex) {
        let Link { newer, older } = self.links[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
    }

    pub(super) fn victim(&mut self, view: &mut View<'_>) -> Option<SlotIndex> {
        let mut slot = self.oldest;
        for _ in 0..MOST_EXAMINED {
            if slot == NONE {
                return None;
            }
            if view.eligible(SlotIndex(slot)).is_some() {
                return Some(SlotIndex(slot));
            }
            slot = self.links[slot as usize].newer;
        }
        None
    }
}

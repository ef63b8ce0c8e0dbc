//! Queues through the slots of the fast device, and ghosts of extents that have left it.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::{SlotIndex, View};

const NONE: u32 = u32::MAX;

/// How many slots from the end of a queue are looked at for one that may leave: those passed over have an access or a
/// move under way, and of these there are never many.
const MOST_EXAMINED: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Link {
    newer: u32,
    older: u32,
    queue: u8,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
    len: u32,
}

/// `N` doubly linked queues; each slot is in one of them or in none.
#[derive(Clone, Debug)]
pub(super) struct Queues<const N: usize> {
    links: Vec<Link>,
    ends: [Ends; N],
}

const NO_QUEUE: u8 = u8::MAX;

impl<const N: usize> Queues<N> {
    pub(super) fn new(slots: u32) -> Queues<N> {
        let link = Link { newer: NONE, older: NONE, queue: NO_QUEUE };
        Queues { links: vec![link; slots as usize], ends: [Ends { newest: NONE, oldest: NONE, len: 0 }; N] }
    }

    #[inline]
    pub(super) fn len(&self, queue: usize) -> u32 {
        self.ends[queue].len
    }

    /// The queue that the slot is in.
    #[inline]
    pub(super) fn queue_of(&self, slot: SlotIndex) -> Option<usize> {
        let queue = self.links[slot.0 as usize].queue;
        (queue != NO_QUEUE).then_some(usize::from(queue))
    }

    #[inline]
    pub(super) fn push(&mut self, queue: usize, SlotIndex(slot): SlotIndex) {
        let ends = &mut self.ends[queue];
        debug_assert_eq!(self.links[slot as usize].queue, NO_QUEUE, "slot {slot} is queued twice");
        self.links[slot as usize] = Link { newer: NONE, older: ends.newest, queue: queue as u8 };
        match ends.newest {
            NONE => ends.oldest = slot,
            newest => self.links[newest as usize].newer = slot,
        }
        ends.newest = slot;
        ends.len += 1;
    }

    #[inline]
    pub(super) fn unlink(&mut self, SlotIndex(slot): SlotIndex) {
        let Link { newer, older, queue } = self.links[slot as usize];
        debug_assert_ne!(queue, NO_QUEUE, "slot {slot} is in no queue");
        let ends = &mut self.ends[usize::from(queue)];
        ends.len -= 1;
        match newer {
            NONE => ends.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NONE => ends.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        self.links[slot as usize].queue = NO_QUEUE;
    }

    /// To the new end of `queue`, from wherever it is.
    #[inline]
    pub(super) fn renew(&mut self, queue: usize, slot: SlotIndex) {
        if self.ends[queue].newest != slot.0 {
            self.unlink(slot);
            self.push(queue, slot);
        }
    }

    /// The oldest slot of `queue` that may leave now.
    pub(super) fn oldest(&self, queue: usize, view: &mut View<'_>) -> Option<SlotIndex> {
        let mut slot = self.ends[queue].oldest;
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

/// The extents that left last, oldest forgotten first.
#[derive(Clone, Debug, Default)]
pub(super) struct Ghosts {
    /// When each came, so that an entry of `order` that has been taken out since is known for stale.
    present: FxHashMap<u32, u64>,
    order: VecDeque<(u32, u64)>,
    clock: u64,
}

impl Ghosts {
    pub(super) fn len(&self) -> usize {
        self.present.len()
    }

    pub(super) fn contains(&self, extent: u32) -> bool {
        self.present.contains_key(&extent)
    }

    /// Takes the extent out, if it is in.
    pub(super) fn take(&mut self, extent: u32) -> bool {
        self.present.remove(&extent).is_some()
    }

    /// Puts the extent in as the newest and forgets the oldest beyond `most`.
    pub(super) fn put(&mut self, extent: u32, most: usize) {
        self.clock += 1;
        self.present.insert(extent, self.clock);
        self.order.push_back((extent, self.clock));
        self.shrink(most);
    }

    /// Forgets the oldest beyond `most`.
    pub(super) fn shrink(&mut self, most: usize) {
        // Stale entries go as well, or the order would grow without bound.
        while self.present.len() > most || self.order.len() > 2 * most + 16 {
            let Some((extent, came)) = self.order.pop_front() else { return };
            if self.present.get(&extent) == Some(&came) {
                if self.present.len() > most {
                    self.present.remove(&extent);
                } else {
                    self.order.push_back((extent, came));
                    self.compact();
                }
            }
        }
    }

    fn compact(&mut self) {
        let mut order: Vec<(u32, u64)> = self.present.iter().map(|(extent, came)| (*extent, *came)).collect();
        order.sort_unstable_by_key(|(_, came)| *came);
        self.order = order.into();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ghosts_are_the_latest_and_bounded(steps in prop::collection::vec((any::<bool>(), 0u32..50), 0..500), most in 0usize..20) {
            let mut ghosts = Ghosts::default();
            let mut model: Vec<u32> = Vec::new();
            for (put, extent) in steps {
                model.retain(|other| *other != extent);
                if put {
                    ghosts.take(extent);
                    ghosts.put(extent, most);
                    model.push(extent);
                    if model.len() > most {
                        model.remove(0);
                    }
                } else {
                    ghosts.take(extent);
                }
                prop_assert!((0..50).all(|extent| ghosts.contains(extent) == model.contains(&extent)));
                prop_assert!(ghosts.order.len() <= 2 * most + 17);
            }
        }
    }
}

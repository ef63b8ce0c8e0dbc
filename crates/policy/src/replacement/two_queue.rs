//! 2Q, the full version (Johnson and Shasha, VLDB 1994, section 3): new extents pass through a FIFO queue. Only those
//! that are accessed again soon after they left it enter the LRU queue.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{Ghosts, Queues, saving::Saving};

const IN: usize = 0;
const MAIN: usize = 1;
/// The number of the list of ghosts where the state is saved.
const OUT: u8 = 2;

parameters! {
    kin: 250_000 in 0..=1_000_000, "Kin: the share of the cache that newcomers have.";
    kout: 500_000 in 0..=10_000_000, "Kout: the size of the ghosts of newcomers, as a share of the cache's.";
}

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct TwoQueue {
    queues: Queues<2>,
    /// A1out of the paper, with Kout extents.
    out: Ghosts<1>,
    most_out: u64,
    /// Kin of the paper.
    most_in: u64,
}

impl TwoQueue {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity, parameters: Parameters) -> TwoQueue {
        let Capacity { slots, size } = capacity;
        TwoQueue {
            queues: Queues::new(slots),
            out: Ghosts::default(),
            most_out: parameters.kout.of(size),
            most_in: parameters.kin.of(size).max(1),
        }
    }
}

impl ReplacementPolicy for TwoQueue {
    const LOOKS_AT_USES: bool = false;

    fn admitting(&mut self, extent: u32, _size: u32) {
        self.out.admitting(extent);
    }

    fn takes(&self, size: u32) -> bool {
        u64::from(size) <= self.most_in
    }

    fn inserted(&mut self, slot: SlotIndex, extent: u32, size: u32) {
        let queue = if self.out.take(extent).is_some() { MAIN } else { IN };
        self.queues.push_sized(queue, slot, size);
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        self.queues.prefetch(slot);
    }

    #[inline]
    fn prefetch_extent(&self, extent: u32) {
        self.out.prefetch(extent);
    }

    #[inline]
    fn likely_next(&self, victim: SlotIndex) -> Option<SlotIndex> {
        self.queues.newer(victim)
    }

    #[inline]
    fn accessed(&mut self, slot: SlotIndex) {
        // Accesses while an extent is in the FIFO queue are correlated references, which do not count.
        if self.queues.queue_of(slot) == Some(MAIN) {
            self.queues.renew(MAIN, slot);
        }
    }

    fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool) {
        if evicted && self.queues.queue_of(slot) == Some(IN) {
            self.out.put(0, extent, self.queues.size_of(slot), self.most_out);
        }
        self.queues.unlink(slot);
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        let order = if self.queues.size(IN) > self.most_in { [IN, MAIN] } else { [MAIN, IN] };
        order.into_iter().find_map(|queue| self.queues.oldest(queue, |slot| candidates.may_leave(slot)))
    }

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        let extent_in = to.extent_in();
        loop {
            let complete = match to.part() {
                part @ 0..2 => to.queue(part as u8, &mut self.queues, part as usize, |slot| Some([extent_in(slot)?])),
                2 => self.out.save(0, OUT, to),
                _ => return true,
            };
            if !to.next_if(complete) {
                return false;
            }
        }
    }

    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        let [extent] = *item else { return };
        match (usize::from(list), slot_of(extent)) {
            (queue @ (IN | MAIN), Some(slot)) => self.queues.put(queue, slot),
            (_, _) if list == OUT => self.out.put(0, extent, 1, self.most_out),
            _ => {}
        }
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.queues.queue_of(slot).is_some()
    }
}

#[cfg(test)]
mod tests {
    use crate::replacement::{Replacement, bare::agrees_with};

    /// The algorithm as the paper gives it (section 3.2), on lists, oldest first.
    #[derive(Default)]
    struct Plain {
        a1in: Vec<u32>,
        a1out: Vec<u32>,
        am: Vec<u32>,
    }

    impl Plain {
        fn reclaim(&mut self, size: usize) {
            if self.a1in.len() + self.am.len() < size {
                return;
            }
            if self.a1in.len() > (size / 4).max(1) || self.am.is_empty() {
                self.a1out.push(self.a1in.remove(0));
                if self.a1out.len() > size / 2 {
                    self.a1out.remove(0);
                }
            } else {
                self.am.remove(0);
            }
        }

        fn access(&mut self, extent: u32, size: usize) -> bool {
            let find = |list: &Vec<u32>| list.iter().position(|other| *other == extent);
            if let Some(place) = find(&self.am) {
                self.am.remove(place);
                self.am.push(extent);
                return true;
            }
            if let Some(place) = find(&self.a1out) {
                self.a1out.remove(place);
                self.reclaim(size);
                self.am.push(extent);
                return false;
            }
            if find(&self.a1in).is_some() {
                return true;
            }
            self.reclaim(size);
            self.a1in.push(extent);
            false
        }
    }

    #[test]
    fn hits_and_misses_are_those_of_the_paper() {
        agrees_with(
            Replacement::TwoQueue(super::Parameters::DEFAULT),
            &[1, 2, 3, 7, 60, 250],
            |size| 3.0 * size as f64,
            |_| Plain::default(),
            Plain::access,
        );
    }
}

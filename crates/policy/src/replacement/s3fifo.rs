//! S3-FIFO (Yang et al., SOSP 2023): a small queue that evicts extents with one hit early, a main queue with second
//! chances, and ghosts of what the small queue evicted.
//!
//! It agrees to the hit with the authors' program of the paper (libCacheSim's S3FIFO up to version 0.3.1). Later versions put what does
//! not fit the small queue into the main queue while the cache fills for the first time: that is `warm_up=1`.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{Ghosts, PerSlot, Queues, saving::Saving};

const SMALL: usize = 0;
const MAIN: usize = 1;
/// The number of the list of ghosts where the state is saved.
const GHOSTS: u8 = 2;
/// The number of the list that says whether the cache was full.
const FILLED: u8 = 3;
/// Frequencies are two bits (section 4.1).
const MOST_FREQUENT: u8 = 3;
/// The most slots that a search for a victim moves on or gives a second chance, where a request waits for it; after that it takes
/// the oldest.
const MOST_SECOND_CHANCES: u32 = 1024;

parameters! {
    small: 100_000 in 0..=1_000_000, "The share of the cache that the small queue has.";
    ghosts: 900_000 in 0..=10_000_000, "The size of the ghosts, as a share of the cache's.";
    moves: 2_000_000 in 1_000_000..=3_000_000, "Accesses in the small queue with which an extent moves to the main queue.";
    warm_up: 0 in 0..=1_000_000, "1: until something was evicted, what does not fit the small queue goes to the main queue.";
}

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct S3fifo {
    queues: Queues<2>,
    ghosts: Ghosts<1>,
    frequency: PerSlot<u8>,
    most_small: u64,
    most_main: u64,
    most_ghosts: u64,
    moves: u8,
    /// Whether the main queue takes in what does not fit the small one.
    fills_main: bool,
}

impl S3fifo {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity, parameters: Parameters) -> S3fifo {
        let Capacity { slots, size } = capacity;
        let most_small = parameters.small.of(size).max(1);
        S3fifo {
            queues: Queues::new(slots),
            ghosts: Ghosts::default(),
            frequency: PerSlot::new(slots),
            most_small,
            most_main: size.saturating_sub(most_small),
            most_ghosts: parameters.ghosts.of(size),
            moves: parameters.moves.whole() as u8,
            fills_main: parameters.warm_up.0 > 0,
        }
    }
}

impl ReplacementPolicy for S3fifo {
    const LOOKS_AT_USES: bool = false;

    fn admitting(&mut self, extent: u32, _size: u32) {
        self.ghosts.admitting(extent);
    }

    fn takes(&self, size: u32) -> bool {
        u64::from(size) <= self.most_small
    }

    fn inserted(&mut self, slot: SlotIndex, extent: u32, size: u32) {
        self.frequency.set(slot, 0);
        let fills = self.fills_main && self.queues.size(SMALL) >= self.most_small;
        let queue = if self.ghosts.take(extent).is_some() || fills { MAIN } else { SMALL };
        self.queues.push_sized(queue, slot, size);
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        self.frequency.prefetch(slot);
    }

    #[inline]
    fn prefetch_extent(&self, extent: u32) {
        self.ghosts.prefetch(extent);
    }

    #[inline]
    fn likely_next(&self, victim: SlotIndex) -> Option<SlotIndex> {
        self.queues.newer(victim)
    }

    #[inline]
    fn accessed(&mut self, slot: SlotIndex) {
        let frequency = &mut self.frequency[slot];
        *frequency = (*frequency + 1).min(MOST_FREQUENT);
    }

    fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool) {
        self.fills_main &= !evicted;
        if evicted && self.queues.queue_of(slot) == Some(SMALL) {
            self.ghosts.put(0, extent, self.queues.size_of(slot), self.most_ghosts);
        }
        self.queues.unlink(slot);
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        // Each slot moves on once, and has three second chances.
        let all = self.queues.len(SMALL).saturating_add(self.queues.len(MAIN)).saturating_mul(5);
        let mut left = if candidates.is_awaited() { MOST_SECOND_CHANCES } else { all };
        while left > 0 {
            // The queue is chosen once for each victim; what moves on meanwhile does not change the choice.
            let from_main = self.queues.size(MAIN) > self.most_main || self.queues.len(SMALL) == 0;
            let queue = if from_main { MAIN } else { SMALL };
            while left > 0
                && let Some(slot) = self.queues.oldest(queue, |slot| candidates.may_leave(slot))
            {
                let frequency = &mut self.frequency[slot];
                match queue {
                    SMALL if *frequency >= self.moves => *frequency = 0,
                    MAIN if *frequency > 0 => *frequency -= 1,
                    _ => return Some(slot),
                }
                self.queues.renew(MAIN, slot);
                left -= 1;
            }
            if from_main || self.queues.len(SMALL) > 0 {
                break;
            }
        }
        [SMALL, MAIN].into_iter().find_map(|queue| self.queues.oldest(queue, |slot| candidates.may_leave(slot)))
    }

    fn saved_version(&self) -> u32 {
        2
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        let extent_in = to.extent_in();
        loop {
            let complete = match to.part() {
                part @ 0..2 => to.queue(part as u8, &mut self.queues, part as usize, |slot| {
                    Some([extent_in(slot)?, u32::from(self.frequency[slot])])
                }),
                2 => self.ghosts.save(0, GHOSTS, to),
                3 => {
                    to.put(FILLED, &[u32::from(!self.fills_main)]);
                    true
                }
                _ => return true,
            };
            if !to.next_if(complete) {
                return false;
            }
        }
    }

    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        match (usize::from(list), item) {
            (queue @ (SMALL | MAIN), [extent, frequency]) => {
                if let Some(slot) = slot_of(*extent) {
                    self.queues.put(queue, slot);
                    self.frequency.set(slot, (*frequency).min(u32::from(MOST_FREQUENT)) as u8);
                }
            }
            (_, [extent]) if list == GHOSTS => self.ghosts.put(0, *extent, 1, self.most_ghosts),
            (_, [1]) if list == FILLED => self.fills_main = false,
            _ => {}
        }
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.queues.queue_of(slot).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use crate::replacement::{Replacement, bare::agrees_with};

    /// The algorithm as the paper gives it (Algorithm 1), on lists, oldest first; whether an extent is a ghost is asked before
    /// another one makes room, and a queue that was chosen gives a victim, as in the authors' program.
    #[derive(Default)]
    struct Plain {
        small: VecDeque<(u32, u8)>,
        main: VecDeque<(u32, u8)>,
        ghosts: VecDeque<u32>,
    }

    impl Plain {
        fn evict_small(&mut self, size: usize) {
            while let Some((oldest, frequency)) = self.small.pop_front() {
                if frequency > 1 {
                    self.main.push_back((oldest, 0));
                    continue;
                }
                self.ghosts.push_back(oldest);
                if self.ghosts.len() > size * 9 / 10 {
                    self.ghosts.pop_front();
                }
                return;
            }
        }

        fn evict_main(&mut self) {
            while let Some((oldest, frequency)) = self.main.pop_front() {
                if frequency == 0 {
                    return;
                }
                self.main.push_back((oldest, frequency - 1));
            }
        }

        fn evict(&mut self, size: usize) {
            let most_small = (size / 10).max(1);
            while self.small.len() + self.main.len() == size {
                if self.main.len() > size - most_small || self.small.is_empty() {
                    self.evict_main();
                } else {
                    self.evict_small(size);
                }
            }
        }

        fn access(&mut self, extent: u32, size: usize) -> bool {
            if let Some((_, frequency)) = self.small.iter_mut().chain(&mut self.main).find(|entry| entry.0 == extent) {
                *frequency = (*frequency + 1).min(3);
                return true;
            }
            let ghost = self.ghosts.iter().position(|other| *other == extent).map(|place| self.ghosts.remove(place));
            self.evict(size);
            match ghost {
                Some(_) => self.main.push_back((extent, 0)),
                None => self.small.push_back((extent, 0)),
            }
            false
        }
    }

    #[test]
    fn hits_and_misses_are_those_of_the_paper() {
        agrees_with(
            Replacement::S3fifo(super::Parameters::DEFAULT),
            &[1, 2, 7, 20, 60, 250],
            |size| 3.0 * size as f64,
            |_| Plain::default(),
            Plain::access,
        );
    }
}

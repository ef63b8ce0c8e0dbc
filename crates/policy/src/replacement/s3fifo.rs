//! S3-FIFO (Yang et al., SOSP 2023): a small queue that evicts extents with one hit early, a main queue with second
//! chances, and ghosts of what the small queue evicted.

use peryton_units::prefetch;

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{Queues, ghosts::Ghosts, saving::Saving};

const SMALL: usize = 0;
const MAIN: usize = 1;
/// The number of the list of ghosts where the state is saved.
const GHOSTS: u8 = 2;
/// Frequencies are two bits (section 4.1).
const MOST_FREQUENT: u8 = 3;
/// An extent moves from the small queue to the main queue if it was accessed more than once there.
const MOVE_ON: u8 = 2;
/// The most slots that a search for a victim moves on or gives a second chance, where a request waits for it; after that it takes
/// the oldest.
const MOST_SECOND_CHANCES: u32 = 1024;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct S3fifo {
    queues: Queues<2>,
    ghosts: Ghosts,
    frequency: Vec<u8>,
    /// A tenth of the cache; there are nine tenths as many ghosts.
    most_small: u32,
}

impl S3fifo {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> S3fifo {
        let Capacity { slots, usable } = capacity;
        let most_small = (usable / 10).max(1);
        S3fifo {
            queues: Queues::new(slots),
            ghosts: Ghosts::new((u64::from(usable) * 9 / 10) as u32),
            frequency: vec![0; slots as usize],
            most_small,
        }
    }
}

impl ReplacementPolicy for S3fifo {
    fn admitting(&mut self, extent: u32) {
        self.ghosts.admitting(extent);
    }

    fn inserted(&mut self, slot: SlotIndex, extent: u32) {
        self.frequency[slot.0 as usize] = 0;
        let queue = if self.ghosts.take(extent) { MAIN } else { SMALL };
        self.queues.push(queue, slot);
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        prefetch(&self.frequency[slot.0 as usize]);
    }

    #[inline]
    fn accessed(&mut self, slot: SlotIndex) {
        let frequency = &mut self.frequency[slot.0 as usize];
        *frequency = (*frequency + 1).min(MOST_FREQUENT);
    }

    fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool) {
        if evicted && self.queues.queue_of(slot) == Some(SMALL) {
            self.ghosts.put(extent);
        }
        self.queues.unlink(slot);
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        // Each slot moves on once, and has three second chances.
        let all = self.queues.len(SMALL).saturating_add(self.queues.len(MAIN)).saturating_mul(5);
        let most = if candidates.is_awaited() { MOST_SECOND_CHANCES } else { all };
        for _ in 0..most {
            let from_small = self.queues.len(SMALL) >= self.most_small || self.queues.len(MAIN) == 0;
            let queue = if from_small { SMALL } else { MAIN };
            let Some(slot) = self.queues.oldest(queue, |slot| candidates.may_leave(slot)) else { break };
            let frequency = &mut self.frequency[slot.0 as usize];
            match queue {
                SMALL if *frequency >= MOVE_ON => {
                    *frequency = 0;
                    self.queues.renew(MAIN, slot);
                }
                MAIN if *frequency > 0 => {
                    *frequency -= 1;
                    self.queues.renew(MAIN, slot);
                }
                _ => return Some(slot),
            }
        }
        [SMALL, MAIN].into_iter().find_map(|queue| self.queues.oldest(queue, |slot| candidates.may_leave(slot)))
    }

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        let extent_in = to.extent_in();
        loop {
            let complete = match to.part() {
                part @ 0..2 => to.queue(part as u8, &mut self.queues, part as usize, |slot| {
                    Some([extent_in(slot)?, u32::from(self.frequency[slot.index()])])
                }),
                2 => self.ghosts.save(GHOSTS, to),
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
                    self.frequency[slot.index()] = (*frequency).min(u32::from(MOST_FREQUENT)) as u8;
                }
            }
            (_, [extent]) if list == GHOSTS => self.ghosts.put(*extent),
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
    /// another one makes room, as in the authors' program.
    #[derive(Default)]
    struct Plain {
        small: VecDeque<(u32, u8)>,
        main: VecDeque<(u32, u8)>,
        ghosts: VecDeque<u32>,
    }

    impl Plain {
        fn evict(&mut self, size: usize) {
            let most_small = (size / 10).max(1);
            while self.small.len() + self.main.len() == size {
                if self.small.len() >= most_small || self.main.is_empty() {
                    let (oldest, frequency) = self.small.pop_front().expect("it is not empty");
                    if frequency > 1 {
                        self.main.push_back((oldest, 0));
                    } else {
                        self.ghosts.push_back(oldest);
                        if self.ghosts.len() > size * 9 / 10 {
                            self.ghosts.pop_front();
                        }
                    }
                } else {
                    let (oldest, frequency) = self.main.pop_front().expect("it is not empty");
                    if frequency > 0 {
                        self.main.push_back((oldest, frequency - 1));
                    }
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
            Replacement::S3fifo,
            &[1, 2, 7, 20, 60, 250],
            |size| 3.0 * size as f64,
            |_| Plain::default(),
            Plain::access,
        );
    }
}

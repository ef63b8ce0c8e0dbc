//! S3-FIFO (Yang et al., SOSP 2023): a small queue that evicts extents with one hit early, a main queue with second
//! chances, and ghosts of what the small queue evicted.

use peryton_units::prefetch;

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{Queues, Recent};

const SMALL: usize = 0;
const MAIN: usize = 1;
/// Frequencies are two bits (section 4.1).
const MOST_FREQUENT: u8 = 3;
/// An extent moves from the small queue to the main queue if it was accessed more than once there.
const MOVE_ON: u8 = 2;
/// The most slots that a search for a victim moves on or gives a second chance; after that it takes the oldest.
const MOST_SECOND_CHANCES: u32 = 1024;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct S3fifo {
    queues: Queues<2>,
    ghosts: Recent<()>,
    frequency: Vec<u8>,
    /// A tenth of the cache; there are as many ghosts as the main queue has slots.
    most_small: u32,
    most_ghosts: usize,
}

impl S3fifo {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> S3fifo {
        let Capacity { slots, usable } = capacity;
        let most_small = (usable / 10).max(1);
        S3fifo {
            queues: Queues::new(slots),
            ghosts: Recent::default(),
            frequency: vec![0; slots as usize],
            most_small,
            most_ghosts: (usable - most_small) as usize,
        }
    }
}

impl ReplacementPolicy for S3fifo {
    fn inserted(&mut self, slot: SlotIndex, extent: u32) {
        self.frequency[slot.0 as usize] = 0;
        let queue = if self.ghosts.take(extent).is_some() { MAIN } else { SMALL };
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
            self.ghosts.put(extent, (), self.most_ghosts, |()| {});
        }
        self.queues.unlink(slot);
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        for _ in 0..MOST_SECOND_CHANCES {
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
}

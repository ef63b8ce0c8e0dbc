//! Native queueing: a drive takes a bounded number of commands at a time, and further ones wait outside.

use std::{cmp::Reverse, collections::BinaryHeap};

/// The ends of the commands that the drive has taken: as many as it takes at a time, at most.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    depth: usize,
    ends: BinaryHeap<Reverse<u64>>,
}

impl Queue {
    pub fn new(depth: u32) -> Queue {
        Queue { depth: depth as usize, ends: BinaryHeap::new() }
    }

    /// When the drive takes a command that is given to it at `at`: as soon as one of those that it has taken before has ended.
    pub fn taken(&mut self, at: u64) -> u64 {
        let mut taken = at;
        while let Some(&Reverse(end)) = self.ends.peek() {
            if end > at && self.ends.len() < self.depth {
                break;
            }
            self.ends.pop();
            taken = taken.max(end);
        }
        taken
    }

    /// The command that was taken last ends then.
    pub fn ends_at(&mut self, end: u64) {
        self.ends.push(Reverse(end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_after_the_deepest_waits_for_the_first_to_end() {
        let mut queue = Queue::new(2);
        for (given, end) in [(0, 100), (0, 50)] {
            assert_eq!(queue.taken(given), given);
            queue.ends_at(end);
        }
        // The second ends first; the next one after that waits for the first.
        assert_eq!(queue.taken(10), 50);
        queue.ends_at(300);
        assert_eq!(queue.taken(10), 100);
        queue.ends_at(400);
        // Both have ended by then.
        assert_eq!(queue.taken(500), 500);
        assert_eq!(queue.ends.len(), 0);
    }
}

//! The completions that device models have scheduled, in the order of time.

use std::{cmp::Reverse, collections::BinaryHeap};

use peryton_device::Tag;
use peryton_units::Nanos;

/// Completions by time; completions of equal time in the order in which they were scheduled.
#[derive(Debug, Default)]
pub(crate) struct Completions {
    /// Time, sequence number and command in one integer, so that one comparison orders them.
    heap: BinaryHeap<Reverse<u128>>,
    sequence: u32,
}

impl Completions {
    #[inline]
    pub(crate) fn push(&mut self, at: Nanos, tag: Tag) {
        self.heap.push(Reverse(u128::from(at.0) << 64 | u128::from(self.sequence) << 32 | u128::from(tag.0)));
        self.sequence = self.sequence.wrapping_add(1);
    }

    #[inline]
    pub(crate) fn next(&self) -> Nanos {
        self.heap.peek().map_or(Nanos::MAX, |Reverse(key)| Nanos((key >> 64) as u64))
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Tag> {
        self.heap.pop().map(|Reverse(key)| Tag(key as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_come_out_in_the_order_they_went_in() {
        let mut completions = Completions::default();
        for (at, io) in [(5, 9), (3, 7), (5, 1), (3, 2), (4, 0)] {
            completions.push(Nanos(at), Tag(io));
        }
        assert_eq!(completions.next(), Nanos(3));
        let order: Vec<u32> = std::iter::from_fn(|| completions.pop()).map(|tag| tag.0).collect();
        assert_eq!(order, [7, 2, 0, 9, 1]);
        assert_eq!(completions.next(), Nanos::MAX);
    }
}

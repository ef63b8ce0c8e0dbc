//! The completions that device models have scheduled, in the order of time.

use std::{cmp::Reverse, collections::BinaryHeap};

use peryton_device::Tag;
use peryton_units::Nanos;

/// No completion: it is later than all.
const NONE: u128 = u128::MAX;

/// Completions by time; completions of equal time in the order in which they were scheduled.
#[derive(Debug)]
pub(crate) struct Completions {
    /// The first one. Time, sequence number and command are one integer, so that one comparison orders them.
    first: u128,
    /// The others: with one request in flight there is often none.
    others: BinaryHeap<Reverse<u128>>,
    sequence: u32,
}

impl Default for Completions {
    fn default() -> Completions {
        Completions { first: NONE, others: BinaryHeap::new(), sequence: 0 }
    }
}

impl Completions {
    #[inline]
    pub(crate) fn push(&mut self, at: Nanos, tag: Tag) {
        let new = u128::from(at.0) << 64 | u128::from(self.sequence) << 32 | u128::from(tag.0);
        self.sequence = self.sequence.wrapping_add(1);
        // No command has the highest tag, so half of it tells.
        if self.first as u64 == NONE as u64 {
            self.first = new;
            return;
        }
        self.others.push(Reverse(self.first.max(new)));
        self.first = self.first.min(new);
    }

    /// The time of the first one.
    #[inline]
    pub(crate) fn next(&self) -> Nanos {
        Nanos((self.first >> 64) as u64)
    }

    /// Takes the first one. There must be one.
    #[inline]
    pub(crate) fn pop(&mut self) -> Tag {
        debug_assert_ne!(self.first, NONE, "a completion is scheduled");
        let tag = Tag(self.first as u32);
        self.first = self.others.pop().map_or(NONE, |Reverse(next)| next);
        tag
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
        assert_eq!([0; 5].map(|_| completions.pop().0), [7, 2, 0, 9, 1]);
        assert_eq!(completions.next(), Nanos::MAX);
    }
}

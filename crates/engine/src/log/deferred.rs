//! Pieces of writes and discards that wait for others of the same range, for room in the ring of commits, or for a
//! buffer. In a simulation whose trace overloads the drive there can be as many as requests; live, the host's queue
//! bounds them.

use std::collections::BTreeMap;

use crate::log::direct::{Piece, Way};

/// A piece that waits, and where it is to go.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct DeferredPiece {
    pub(in crate::log) piece: Piece,
    pub(in crate::log) way: Way,
}

/// The waiting pieces, numbered in the order in which they arrived. Pieces that overlap keep that order.
#[derive(Debug, Default)]
pub(in crate::log) struct DeferredPieces {
    pieces: BTreeMap<u64, DeferredPiece>,
    /// The end of each piece, by its start on the volume and its number.
    ranges: BTreeMap<(u64, u64), u64>,
    /// An upper bound of the pieces' lengths, in bytes.
    longest: u64,
    next: u64,
}

impl DeferredPieces {
    #[inline]
    pub(in crate::log) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds a piece behind all others.
    pub(in crate::log) fn defer(&mut self, deferred: DeferredPiece) {
        let number = self.next;
        self.next += 1;
        self.put_back(number, deferred);
    }

    /// Puts a piece back under the number that it had.
    pub(in crate::log) fn put_back(&mut self, number: u64, deferred: DeferredPiece) {
        let Piece { offset, len, .. } = deferred.piece;
        self.longest = if self.pieces.is_empty() { len } else { self.longest.max(len) };
        self.ranges.insert((offset, number), offset + len);
        self.pieces.insert(number, deferred);
    }

    /// Removes the first piece whose number is `number` or higher.
    pub(in crate::log) fn take_from(&mut self, number: u64) -> Option<(u64, DeferredPiece)> {
        let number = *self.pieces.range(number..).next()?.0;
        let deferred = self.pieces.remove(&number)?;
        self.ranges.remove(&(deferred.piece.offset, number));
        Some((number, deferred))
    }

    /// Whether a piece with a number below `before` overlaps the range.
    #[inline]
    pub(in crate::log) fn overlaps(&self, from: u64, to: u64, before: u64) -> bool {
        !self.pieces.is_empty() && {
            // A piece that begins earlier than this ends before the range begins.
            let first = (from + 1).saturating_sub(self.longest);
            let near = self.ranges.range((first, 0)..(to, 0));
            near.into_iter().any(|((_, number), end)| *end > from && *number < before)
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;
    use crate::io::RequestIndex;

    #[test]
    fn overlaps_agrees_with_a_search_through_all_pieces() {
        let mut rng = Pcg64Mcg::seed_from_u64(7);
        let mut waiting = DeferredPieces::default();
        let mut all: Vec<(u64, DeferredPiece)> = Vec::new();
        for step in 0..20_000 {
            let (offset, len) = (rng.random_range(0..2000), rng.random_range(1..if step % 9 == 0 { 300 } else { 20 }));
            let piece = Piece { request: RequestIndex(0), offset, len, buffer: 0 };
            let before = if rng.random_bool(0.5) { u64::MAX } else { rng.random_range(0..waiting.next + 1) };
            let expected =
                all.iter().any(|(number, deferred)| *number < before && deferred.piece.overlaps(offset, offset + len));
            assert_eq!(waiting.overlaps(offset, offset + len, before), expected, "step {step}");
            if rng.random_bool(0.5) {
                all.push((waiting.next, DeferredPiece { piece, way: Way::Log }));
                waiting.defer(DeferredPiece { piece, way: Way::Log });
            } else if let Some((number, deferred)) = waiting.take_from(rng.random_range(0..waiting.next + 1)) {
                if rng.random_bool(0.3) {
                    waiting.put_back(number, deferred);
                } else {
                    all.retain(|(other, _)| *other != number);
                }
            }
            assert_eq!(waiting.is_empty(), all.is_empty());
        }
        assert!(all.len() > 10);
    }
}

//! Pieces of writes and discards that wait: for others of the same range, for room in the ring of commits, or for a
//! buffer. In a simulation that asks more than a drive can do they are as many as requests; live they are bounded by the
//! host's queue.

use std::collections::BTreeMap;

use super::direct::{Piece, Way};

/// A piece that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parked {
    pub(super) piece: Piece,
    pub(super) way: Way,
}

/// Those that wait are numbered as they come; where they overlap they go in that order.
#[derive(Debug, Default)]
pub(super) struct Parking {
    pieces: BTreeMap<u64, Parked>,
    /// By where they begin on the volume, and their number: where they end.
    ranges: BTreeMap<(u64, u64), u64>,
    /// None is longer.
    longest: u64,
    next: u64,
    /// They are being looked at; whether they are to be looked at again after that.
    pub(super) busy: bool,
    pub(super) again: bool,
}

impl Parking {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Behind all others.
    pub(super) fn park(&mut self, parked: Parked) {
        let number = self.next;
        self.next += 1;
        self.put_back(number, parked);
    }

    /// Where it was taken from.
    pub(super) fn put_back(&mut self, number: u64, parked: Parked) {
        let Piece { offset, len, .. } = parked.piece;
        self.longest = if self.pieces.is_empty() { len } else { self.longest.max(len) };
        self.ranges.insert((offset, number), offset + len);
        self.pieces.insert(number, parked);
    }

    /// Takes the first with this number or a higher one out.
    pub(super) fn take_from(&mut self, number: u64) -> Option<(u64, Parked)> {
        let number = *self.pieces.range(number..).next()?.0;
        let parked = self.pieces.remove(&number)?;
        self.ranges.remove(&(parked.piece.offset, number));
        Some((number, parked))
    }

    /// Whether one with a number below `before` overlaps the range.
    #[inline]
    pub(super) fn overlaps(&self, from: u64, to: u64, before: u64) -> bool {
        !self.pieces.is_empty() && {
            // One that begins before that ends before the range does begin.
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
    fn what_overlaps_is_found_as_by_looking_at_all() {
        let mut rng = Pcg64Mcg::seed_from_u64(7);
        let mut parking = Parking::default();
        let mut all: Vec<(u64, Parked)> = Vec::new();
        for step in 0..20_000 {
            let (offset, len) = (rng.random_range(0..2000), rng.random_range(1..if step % 9 == 0 { 300 } else { 20 }));
            let piece = Piece { request: RequestIndex(0), offset, len, buffer: 0 };
            let before = if rng.random_bool(0.5) { u64::MAX } else { rng.random_range(0..parking.next + 1) };
            let expected =
                all.iter().any(|(number, parked)| *number < before && parked.piece.overlaps(offset, offset + len));
            assert_eq!(parking.overlaps(offset, offset + len, before), expected, "step {step}");
            if rng.random_bool(0.5) {
                all.push((parking.next, Parked { piece, way: Way::Log }));
                parking.park(Parked { piece, way: Way::Log });
            } else if let Some((number, parked)) = parking.take_from(rng.random_range(0..parking.next + 1)) {
                if rng.random_bool(0.3) {
                    parking.put_back(number, parked);
                } else {
                    all.retain(|(other, _)| *other != number);
                }
            }
            assert_eq!(parking.is_empty(), all.is_empty());
        }
        assert!(all.len() > 10);
    }
}

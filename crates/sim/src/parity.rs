//! Where data and parity lie in an array with parity, and what a write has to read before it can write.
//!
//! A *row* is one stripe of each member. Its parity rotates over the members from row to row, and its data begin on the
//! member after the parity (left-symmetric, as Linux's md places them).

use peryton_units::Bytes;

/// A range on one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) member: usize,
    pub(crate) at: u64,
    pub(crate) len: u64,
}

/// The places of an array with parity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) stripe: u64,
    pub(crate) members: u64,
    pub(crate) parity: u64,
}

impl Rows {
    fn data(&self) -> u64 {
        self.members - self.parity
    }

    fn parity_member(&self, row: u64, number: u64) -> usize {
        ((self.members - 1 - row % self.members + number) % self.members) as usize
    }

    fn data_member(&self, row: u64, number: u64) -> usize {
        self.parity_member(row, self.parity + number)
    }

    /// The data of a range of the array: for each row and stripe the range within the stripe.
    fn stripes(&self, at: Bytes, len: Bytes) -> impl Iterator<Item = (u64, u64, u64, u64)> + use<> {
        let (stripe, data, end) = (self.stripe, self.data(), at.0 + len.0);
        (at.0 / stripe..end.div_ceil(stripe)).map(move |number| {
            let begin = number * stripe;
            let (from, to) = (at.0.max(begin) - begin, end.min(begin + stripe) - begin);
            (number / data, number % data, from, to)
        })
    }

    fn piece(&self, member: usize, row: u64, from: u64, to: u64) -> Piece {
        Piece { member, at: row * self.stripe + from, len: to - from }
    }

    /// What a read of this range reads.
    pub(crate) fn read(&self, at: Bytes, len: Bytes, pieces: &mut Vec<Piece>) {
        pieces.clear();
        for (row, number, from, to) in self.stripes(at, len) {
            push(pieces, self.piece(self.data_member(row, number), row, from, to));
        }
    }

    /// The rows that a range covers whole, on all members: what a discard may give back.
    pub(crate) fn whole_rows(&self, at: Bytes, len: Bytes, pieces: &mut Vec<Piece>) {
        pieces.clear();
        let row = self.stripe * self.data();
        let (first, last) = (at.0.div_ceil(row), (at.0 + len.0) / row);
        if first < last {
            let piece = |member| self.piece(member, first, 0, (last - first) * self.stripe);
            pieces.extend((0..self.members as usize).map(piece));
        }
    }

    /// What a write of this range reads first, and what it writes. A row that is written whole needs no reads. Of the
    /// others, either the old contents of what is written and of the parity are read, or the rest of the row's data,
    /// whichever are fewer commands (as md chooses).
    pub(crate) fn write(&self, at: Bytes, len: Bytes, reads: &mut Vec<Piece>, writes: &mut Vec<Piece>) {
        reads.clear();
        writes.clear();
        let mut stripes = self.stripes(at, len).peekable();
        let mut touched: Vec<(u64, u64, u64)> = Vec::new();
        while let Some((row, number, from, to)) = stripes.next() {
            touched.push((number, from, to));
            if stripes.peek().is_some_and(|next| next.0 == row) {
                continue;
            }
            self.write_row(row, &touched, reads, writes);
            touched.clear();
        }
    }

    fn write_row(&self, row: u64, touched: &[(u64, u64, u64)], reads: &mut Vec<Piece>, writes: &mut Vec<Piece>) {
        // The part of the parity stripe that changes; where it is in two parts, what lies between them is rewritten too.
        let from = touched.iter().map(|one| one.1).min().unwrap_or(0);
        let to = touched.iter().map(|one| one.2).max().unwrap_or(0);
        let written = |number: u64| touched.iter().find(|one| one.0 == number).map(|one| (one.1, one.2));
        let rest: Vec<Piece> = (0..self.data())
            .flat_map(|number| {
                let member = self.data_member(row, number);
                let (begin, end) = written(number).unwrap_or((from, from));
                [(from, begin), (end, to)].map(|(from, to)| (member, from, to))
            })
            .filter(|(_, from, to)| from < to)
            .map(|(member, from, to)| self.piece(member, row, from, to))
            .collect();
        let parity = (0..self.parity).map(|number| self.piece(self.parity_member(row, number), row, from, to));
        let data = touched.iter().map(|one| self.piece(self.data_member(row, one.0), row, one.1, one.2));
        let modify: Vec<Piece> = data.chain(parity).collect();
        reads.extend(if rest.len() < modify.len() { &rest } else { &modify });
        modify.into_iter().for_each(|piece| push(writes, piece));
    }
}

/// Adds a range, to the last one of its member if it continues that.
fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    match pieces.iter_mut().rev().find(|last| last.member == piece.member) {
        Some(last) if last.at + last.len == piece.at => last.len += piece.len,
        _ => pieces.push(piece),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn bytes(pieces: &[Piece]) -> Vec<(usize, u64)> {
        let mut all: Vec<(usize, u64)> =
            pieces.iter().flat_map(|piece| (piece.at..piece.at + piece.len).map(|at| (piece.member, at))).collect();
        all.sort_unstable();
        all
    }

    proptest! {
        /// By the definition of parity: a byte of parity can be computed from what was read and written, either from
        /// all data of its column, or from old data and old parity.
        #[test]
        fn parity_can_be_computed_from_what_was_read(
            members in 3u64..8, two in any::<bool>(), stripe in 1u64..9, at in 0u64..300, len in 1u64..200,
        ) {
            let parity = if two { 2 } else { 1 };
            prop_assume!(members > parity + 1);
            let rows = Rows { stripe, members, parity };
            let (mut reads, mut writes, mut data) = (Vec::new(), Vec::new(), Vec::new());
            rows.read(Bytes(at), Bytes(len), &mut data);
            rows.write(Bytes(at), Bytes(len), &mut reads, &mut writes);
            let (data, reads, writes) = (bytes(&data), bytes(&reads), bytes(&writes));
            prop_assert_eq!(data.len() as u64, len);
            let set = |of: &[(usize, u64)]| of.iter().copied().collect::<BTreeSet<_>>();
            let (data, read, written) = (set(&data), set(&reads), set(&writes));
            prop_assert_eq!((read.len(), written.len()), (reads.len(), writes.len()), "a byte twice");
            prop_assert!(data.is_subset(&written));
            for (_, at) in &written {
                let row = at / stripe;
                let parities: BTreeSet<usize> = (0..parity).map(|number| rows.parity_member(row, number)).collect();
                let column: Vec<(usize, u64)> =
                    (0..members as usize).filter(|member| !parities.contains(member)).map(|member| (member, *at)).collect();
                let new = |place: &(usize, u64)| data.contains(place);
                let from_all = column.iter().all(|place| new(place) || read.contains(place));
                let from_old = column.iter().all(|place| !new(place) || read.contains(place))
                    && parities.iter().all(|member| read.contains(&(*member, *at)));
                prop_assert!(from_all || from_old);
                prop_assert!(parities.iter().all(|member| written.contains(&(*member, *at))), "stale parity");
            }
        }
    }

    #[test]
    fn small_writes_cost_four_and_six_commands_and_whole_rows_no_reads() {
        for (parity, members, commands) in [(1, 6, 4), (2, 7, 6)] {
            let rows = Rows { stripe: 65536, members, parity };
            let (mut reads, mut writes) = (Vec::new(), Vec::new());
            rows.write(Bytes(8192), Bytes(4096), &mut reads, &mut writes);
            assert_eq!(reads.len() + writes.len(), commands);
            rows.write(Bytes::ZERO, Bytes(65536 * (members - parity)), &mut reads, &mut writes);
            assert_eq!((reads.len(), writes.len() as u64), (0, members));
            // All data but one stripe: that one is read, and no parity.
            rows.write(Bytes::ZERO, Bytes(65536 * (members - parity - 1)), &mut reads, &mut writes);
            assert_eq!((reads.len(), writes.len() as u64), (1, members - 1));
        }
    }
}

//! Data from before the opening of the volume that an index lists. Opening did not read them, so they are verified
//! before their first use: the header of their append has the checksum. Other data are not here: the recovery has
//! verified appends that no index lists and data that a migration left in the log, and this process wrote the rest.

use peryton_format::log::{HEADER, LONGEST_APPEND, SECTOR};

use crate::log::segments::Segments;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is known of it.
    Unread,
    /// It is being read.
    Underway,
    /// The device could not read all of it at once: each of its pieces counts by itself.
    InPieces,
    /// The damage in it is known.
    Settled,
}

/// An append; places are in bytes from the start of the segment.
#[derive(Clone, Copy, Debug)]
struct Append {
    from: u32,
    /// Where its last data ends.
    to: u32,
    sequence: u64,
    state: State,
}

/// A piece of an append that the device could not read at once, in places of the log.
#[derive(Clone, Copy, Debug)]
struct Piece {
    append: u64,
    from: u64,
    to: u64,
    settled: bool,
    /// The device could not read it. The next migration tries again, and so does each read of the host.
    unreadable: bool,
}

/// The part of a segment that is not verified.
#[derive(Debug, Default)]
pub(in crate::log) struct Unverified {
    appends: Vec<Append>,
    pieces: Vec<Piece>,
    /// The number of appends and pieces that are not settled.
    left: u64,
}

/// A range of the log that is read and verified together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Unit {
    /// One append or several.
    Appends { from: u64, to: u64 },
    /// A piece of the append at this place, whose header is read with it.
    Piece { append: u64, from: u64, to: u64 },
}

impl Unit {
    pub(in crate::log) fn first(self) -> u64 {
        match self {
            Unit::Appends { from, .. } => from,
            Unit::Piece { append, .. } => append,
        }
    }
}

impl Unverified {
    pub(in crate::log) fn is_empty(&self) -> bool {
        self.appends.is_empty()
    }
}

impl Segments {
    /// An index says that an append holds this data. Indexes list appends in the order in which they lie in the log.
    /// Returns false if that is impossible.
    pub(in crate::log) fn not_verified(&mut self, offset: u64, at: u64, len: u64, sequence: u64) -> bool {
        let index = self.segment_of(at);
        let within = at - self.start_of(index);
        let unverified = &mut self.segments[index as usize].unverified;
        let end = within + len;
        if let Some(last) = unverified.appends.last() {
            let follows = within >= u64::from(last.to) + HEADER;
            if last.sequence == sequence || !follows {
                // An append that an earlier index has listed may be listed again.
                let known = unverified.appends.iter_mut().rev().find(|append| append.sequence == sequence);
                let Some(append) = known.filter(|append| within >= u64::from(append.from) + HEADER) else {
                    return false;
                };
                append.to = append.to.max(end as u32);
                return end - u64::from(append.from) <= LONGEST_APPEND;
            }
        }
        // The first data of an append follows its header, at the next place that has the same remainder as its offset.
        let Some(from) = within.checked_sub(HEADER + offset % SECTOR) else { return false };
        unverified.appends.push(Append { from: from as u32, to: end as u32, sequence, state: State::Unread });
        unverified.left += 1;
        self.unverified += 1;
        end - from <= LONGEST_APPEND
    }

    /// Whether any of this range, which lies in one append, has to be verified before it is used.
    #[inline]
    pub(in crate::log) fn is_unverified(&self, at: u64, len: u64) -> bool {
        self.unverified > 0 && self.is_among_unverified(at, len)
    }

    #[cold]
    fn is_among_unverified(&self, at: u64, len: u64) -> bool {
        match self.append_of(at).map(|append| append.state) {
            None | Some(State::Settled) => false,
            Some(State::Unread | State::Underway) => true,
            Some(State::InPieces) => self.unsettled_piece(at, len).is_some(),
        }
    }

    fn append_of(&self, at: u64) -> Option<&Append> {
        let index = self.segment_of(at);
        let within = (at - self.start_of(index)) as u32;
        let appends = &self.segments[index as usize].unverified.appends;
        let before = appends.partition_point(|append| append.from <= within);
        appends[..before].last().filter(|append| within < append.to)
    }

    fn unsettled_piece(&self, at: u64, len: u64) -> Option<&Piece> {
        let pieces = &self.segments[self.segment_of(at) as usize].unverified.pieces;
        pieces.iter().find(|piece| !piece.settled && piece.from < at + len && at < piece.to)
    }

    /// Whether the device could not read data of this range that have to be verified.
    pub(in crate::log) fn is_unreadable(&self, at: u64, len: u64) -> bool {
        self.unverified > 0 && self.unsettled_piece(at, len).is_some_and(|piece| piece.unreadable)
    }

    /// The sequence of the append with its header at this place, if it is known.
    pub(in crate::log) fn sequence_at(&self, at: u64) -> Option<u64> {
        let append = self.append_of(at)?;
        let from = self.start_of(self.segment_of(at)) + u64::from(append.from);
        (from == at).then_some(append.sequence)
    }

    /// The read that verifies this range; `None` if nothing of it is left, or if it is being read already. `most`: how
    /// many bytes of directly following appends the read may include.
    pub(in crate::log) fn unit_of(&self, at: u64, len: u64, most: u64) -> Option<Unit> {
        let append = self.append_of(at)?;
        let index = self.segment_of(at);
        let start = self.start_of(index);
        match append.state {
            State::Settled | State::Underway => None,
            State::InPieces => {
                let piece = self.unsettled_piece(at, len)?;
                Some(Unit::Piece { append: piece.append, from: piece.from, to: piece.to })
            }
            State::Unread => {
                let (from, sequence) = (append.from, append.sequence);
                let appends = &self.segments[index as usize].unverified.appends;
                let first = appends.partition_point(|append| append.from < from);
                let follows = |append: &&Append| {
                    append.sequence == sequence
                        || append.state == State::Unread && u64::from(append.to - from) <= most.min(LONGEST_APPEND)
                };
                let last = appends[first..].iter().take_while(follows).last().map_or(append.to, |last| last.to);
                Some(Unit::Appends { from: start + u64::from(from), to: start + u64::from(last) })
            }
        }
    }

    /// The first place in a segment that has to be verified, that can be read as far as is known, and that is not being read.
    pub(in crate::log) fn first_unverified(&self, segment: u32, from: u64) -> Option<u64> {
        let start = self.start_of(segment);
        let Unverified { appends, pieces, left } = &self.segments[segment as usize].unverified;
        if *left == 0 {
            return None;
        }
        let unread = |append: &&Append| append.state == State::Unread && start + u64::from(append.to) > from;
        let append = appends.iter().find(unread).map(|append| start + u64::from(append.from));
        let wanted = |piece: &&Piece| !piece.settled && !piece.unreadable && piece.to > from;
        append.or_else(|| pieces.iter().find(wanted).map(|piece| piece.from))
    }

    /// The unit is being read.
    pub(in crate::log) fn reads_unit(&mut self, unit: Unit) {
        if let Unit::Appends { .. } = unit {
            self.each_append(unit, |append| append.state = State::Underway);
        }
    }

    /// The appends of a unit: their places and sequences.
    pub(in crate::log) fn appends_of(&self, unit: Unit) -> Vec<(u64, u64, u64)> {
        let segment = self.segment_of(unit.first());
        let start = self.start_of(segment);
        let Unit::Appends { from, to } = unit else { return Vec::new() };
        let appends = self.segments[segment as usize].unverified.appends.iter();
        let places =
            appends.map(|append| (start + u64::from(append.from), start + u64::from(append.to), append.sequence));
        places.filter(|(low, high, _)| from <= *low && *high <= to).collect()
    }

    fn each_append(&mut self, unit: Unit, mut each: impl FnMut(&mut Append)) {
        let segment = self.segment_of(unit.first());
        let start = self.start_of(segment);
        let Unit::Appends { from, to } = unit else { return };
        let inside = |append: &&mut Append| {
            from <= start + u64::from(append.from)
                && start + u64::from(append.to) <= to
                && matches!(append.state, State::Underway | State::Unread)
        };
        self.segments[segment as usize].unverified.appends.iter_mut().filter(inside).for_each(&mut each);
    }

    /// The damage in the unit is known.
    pub(in crate::log) fn settle_unit(&mut self, unit: Unit) {
        let mut settled = 0;
        match unit {
            Unit::Appends { .. } => self.each_append(unit, |append| {
                append.state = State::Settled;
                settled += 1;
            }),
            Unit::Piece { from, to, .. } => {
                let segment = self.segment_of(from);
                let pieces = self.segments[segment as usize].unverified.pieces.iter_mut();
                for piece in pieces.filter(|piece| (piece.from, piece.to) == (from, to) && !piece.settled) {
                    piece.settled = true;
                    settled += 1;
                }
            }
        }
        self.are_settled(self.segment_of(unit.first()), settled);
    }

    fn are_settled(&mut self, segment: u32, count: u64) {
        self.segments[segment as usize].unverified.left -= count;
        self.unverified -= count;
    }

    /// The device could not read the unit. Appends are read piece by piece from now on.
    pub(in crate::log) fn unit_is_unreadable(&mut self, unit: Unit) {
        let segment = self.segment_of(unit.first());
        if let Unit::Piece { from, to, .. } = unit {
            let pieces = self.segments[segment as usize].unverified.pieces.iter_mut();
            pieces.filter(|piece| (piece.from, piece.to) == (from, to)).for_each(|piece| piece.unreadable = true);
            return;
        }
        let start = self.start_of(segment);
        let mut broken: Vec<(u64, u64)> = Vec::new();
        self.each_append(unit, |append| {
            append.state = State::InPieces;
            broken.push((start + u64::from(append.from), start + u64::from(append.to)));
        });
        let row = &mut self.segments[segment as usize];
        let mut more = 0;
        for (from, to) in &broken {
            let records = row.records.iter().map(|record| start + u64::from(record.within)).zip(&row.records);
            for (at, record) in records.filter(|(at, _)| from <= at && at < to) {
                let (settled, unreadable) = (false, false);
                let to = at + u64::from(record.len);
                row.unverified.pieces.push(Piece { append: *from, from: at, to, settled, unreadable });
                more += 1;
            }
        }
        row.unverified.left += more;
        self.unverified += more;
        self.are_settled(segment, broken.len() as u64);
    }

    /// What the device could not read is tried again.
    pub(in crate::log) fn retry_unreadable(&mut self) {
        if self.unverified > 0 {
            let pieces = self.segments.iter_mut().flat_map(|segment| &mut segment.unverified.pieces);
            pieces.for_each(|piece| piece.unreadable = false);
        }
    }

    /// Nothing in the segment is needed any more.
    pub(in crate::log) fn forget_unverified(&mut self, segment: u32) {
        let forgotten = std::mem::take(&mut self.segments[segment as usize].unverified);
        self.unverified -= forgotten.left;
    }
}

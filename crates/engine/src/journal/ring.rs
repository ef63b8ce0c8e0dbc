//! Room in a ring of blocks: what is needed until it is released, and where the next record goes.

/// A ring on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    bytes: u64,
    /// Where the next record goes.
    next: u64,
    /// How much of the ring is needed.
    used: u64,
}

/// Where a record goes that lies in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) at: u64,
    len: u64,
    /// How much of the ring's end is left unused by that.
    wasted: u64,
}

impl Ring {
    pub(crate) fn new(bytes: u64) -> Ring {
        Ring { bytes, next: 0, used: 0 }
    }

    /// Goes on where a volume was left.
    pub(crate) fn resume(&mut self, next: u64, used: u64) {
        (self.next, self.used) = (next, used);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Where a record of `len` bytes would go in one piece.
    pub(crate) fn span(&self, len: u64) -> Span {
        let rest = self.bytes - self.next;
        if len <= rest { Span { at: self.next, len, wasted: 0 } } else { Span { at: 0, len, wasted: rest } }
    }

    /// Whether there is room for it.
    pub(crate) fn has_room(&self, span: Span) -> bool {
        self.used + span.wasted + span.len <= self.bytes
    }

    /// The record is there.
    pub(crate) fn take(&mut self, span: Span) {
        self.next = span.at + span.len;
        self.used += span.wasted + span.len;
    }

    /// The pieces of a record of `len` bytes that may go around the end of the ring: where each is, and how long.
    pub(crate) fn pieces(&self, len: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let first = len.min(self.bytes - self.next);
        [(self.next, first), (0, len - first)].into_iter().filter(|(_, len)| *len > 0)
    }

    /// The record is there, in pieces.
    pub(crate) fn take_pieces(&mut self, len: u64) {
        self.next = (self.next + len) % self.bytes;
        self.used += len;
    }

    /// So much is not needed any more.
    pub(crate) fn release(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.used, "more is released than was taken");
        self.used -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_in_one_piece_wastes_the_end_and_gives_it_back() {
        let mut ring = Ring::new(100);
        ring.take(ring.span(60));
        assert!(ring.has_room(ring.span(40)));
        let span = ring.span(41);
        assert_eq!((span.at, ring.has_room(span)), (0, false), "40 bytes at the end are wasted, and 60 are needed");
        ring.release(60);
        assert!(ring.has_room(span));
        ring.take(span);
        assert_eq!((ring.next(), ring.used()), (41, 81));
    }

    #[test]
    fn a_record_in_pieces_goes_around_the_end() {
        let mut ring = Ring::new(100);
        ring.take_pieces(70);
        assert_eq!(ring.pieces(30).collect::<Vec<_>>(), [(70, 30)]);
        assert_eq!(ring.pieces(50).collect::<Vec<_>>(), [(70, 30), (0, 20)]);
        ring.release(70);
        ring.take_pieces(50);
        assert_eq!((ring.next(), ring.used()), (20, 50));
    }
}

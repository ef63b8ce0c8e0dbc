//! A ring of blocks: which part of it is needed, and where the next record goes.

/// A ring on a device. All values are in bytes; places are counted from the start of the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    bytes: u64,
    /// Where the next record goes.
    next: u64,
    /// Bytes of the ring that are needed: they were taken and not yet released.
    used: u64,
}

/// The place of a record that must not wrap around the end of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) at: u64,
    len: u64,
    /// Bytes at the end of the ring that stay unused because the record does not fit there.
    wasted: u64,
}

impl Ring {
    pub(crate) fn new(bytes: u64) -> Ring {
        Ring { bytes, next: 0, used: 0 }
    }

    /// Restores the state after a volume was opened.
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

    /// Returns where a record of `len` bytes would go without wrapping.
    pub(crate) fn span(&self, len: u64) -> Span {
        let rest = self.bytes - self.next;
        if len <= rest { Span { at: self.next, len, wasted: 0 } } else { Span { at: 0, len, wasted: rest } }
    }

    /// Whether the span fits into the free part of the ring.
    pub(crate) fn has_room(&self, span: Span) -> bool {
        self.used + span.wasted + span.len <= self.bytes
    }

    /// The length of the longest record that does not wrap, in an empty ring.
    pub(crate) fn longest(&self) -> u64 {
        self.next.max(self.bytes - self.next)
    }

    /// Marks the span as needed.
    pub(crate) fn take(&mut self, span: Span) {
        self.next = span.at + span.len;
        self.used += span.wasted + span.len;
    }

    /// Returns where a record of `len` bytes would go if it may wrap: place and length of each part.
    pub(crate) fn pieces(&self, len: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let first = len.min(self.bytes - self.next);
        [(self.next, first), (0, len - first)].into_iter().filter(|(_, len)| *len > 0)
    }

    /// Marks a record that may wrap as needed.
    pub(crate) fn take_pieces(&mut self, len: u64) {
        self.next = (self.next + len) % self.bytes;
        self.used += len;
    }

    /// Releases the oldest `bytes`, which are no longer needed.
    pub(crate) fn release(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.used, "more is released than was taken");
        self.used -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_may_not_wrap_leaves_the_end_unused() {
        let mut ring = Ring::new(100);
        assert_eq!(ring.longest(), 100);
        ring.take(ring.span(60));
        assert_eq!(ring.longest(), 60);
        assert!(ring.has_room(ring.span(40)));
        let span = ring.span(41);
        assert_eq!((span.at, ring.has_room(span)), (0, false), "40 bytes at the end are wasted, and 60 are needed");
        ring.release(60);
        assert!(ring.has_room(span));
        ring.take(span);
        assert_eq!((ring.next(), ring.used()), (41, 81));
    }

    #[test]
    fn a_record_that_may_wrap_continues_at_the_start() {
        let mut ring = Ring::new(100);
        ring.take_pieces(70);
        assert_eq!(ring.pieces(30).collect::<Vec<_>>(), [(70, 30)]);
        assert_eq!(ring.pieces(50).collect::<Vec<_>>(), [(70, 30), (0, 20)]);
        ring.release(70);
        ring.take_pieces(50);
        assert_eq!((ring.next(), ring.used()), (20, 50));
    }
}

//! The space of the log: segments that fill one after the other and are reused once the primary holds their data.
//!
//! A segment goes `Free → Open → Closed → Draining → Free`. An append is a header of 4 KiB, which describes what
//! follows, and the data; no append straddles two segments. Places are in bytes from the start of the first segment.

use std::collections::VecDeque;

use peryton_format::log::{FIRST_SEQUENCE, HEADER, NOWHERE};

use crate::log::unverified::Unverified;

/// What one write put into a segment. `within` and `len` are in bytes.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Record {
    /// Offset on the volume.
    pub(in crate::log) offset: u64,
    /// Bytes from the start of the segment.
    pub(in crate::log) within: u32,
    pub(in crate::log) len: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum State {
    Free,
    /// Appends go here.
    Open,
    /// Full, or closed for a migration.
    Closed,
    /// Nothing in it is needed any more. Its commit is not durable yet, or reads of it are in flight.
    Draining {
        committed: bool,
    },
}

#[derive(Debug)]
pub(in crate::log) struct Segment {
    pub(in crate::log) state: State,
    /// Sequence of its first append.
    pub(in crate::log) opened: u64,
    /// Bytes in it that are the newest copy.
    pub(in crate::log) live: u64,
    /// Host reads in flight.
    pub(in crate::log) readers: u32,
    /// Appends in flight.
    pub(in crate::log) appends: u32,
    /// Whether a failed device made a migration leave data in it.
    pub(in crate::log) left_over: bool,
    /// Whether it is kept until the volume is opened again, because a primary is gone that may lack what it has.
    pub(in crate::log) kept: bool,
    pub(in crate::log) records: Vec<Record>,
    /// Places in it, from and to, whose data differ from the appended data.
    pub(in crate::log) damaged: Vec<(u64, u64)>,
    /// The data from before the opening that have not been verified.
    pub(in crate::log) unverified: Unverified,
}

#[derive(Debug)]
pub(in crate::log) struct Segments {
    shift: u32,
    pub(in crate::log) segments: Vec<Segment>,
    free: VecDeque<u32>,
    /// The segments in use, in the order in which they were opened.
    pub(in crate::log) order: VecDeque<u32>,
    /// Bytes of the open segment that are allocated.
    head: u64,
    /// Bytes in the log that are the newest copy.
    pub(in crate::log) live: u64,
    /// Sequence of the next append.
    next_sequence: u64,
    /// Whether the log device is dead, so that no append is possible.
    pub(in crate::log) gone: bool,
    /// Whether any segment has damaged places, or had.
    pub(in crate::log) any_damaged: bool,
    /// How much is to be verified before it is used.
    pub(in crate::log) unverified: u64,
}

/// Space for an append: its place and its sequence.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Space {
    pub(in crate::log) at: u64,
    pub(in crate::log) sequence: u64,
}

impl Segments {
    pub(in crate::log) fn new(segment: u64, count: u64) -> Segments {
        let row = |_| Segment {
            state: State::Free,
            opened: 0,
            live: 0,
            readers: 0,
            appends: 0,
            left_over: false,
            kept: false,
            records: Vec::new(),
            damaged: Vec::new(),
            unverified: Unverified::default(),
        };
        Segments {
            shift: segment.trailing_zeros(),
            segments: (0..count).map(row).collect(),
            free: (0..count as u32).collect(),
            order: VecDeque::new(),
            head: 0,
            live: 0,
            next_sequence: FIRST_SEQUENCE,
            gone: false,
            any_damaged: false,
            unverified: 0,
        }
    }

    /// Restores the state after a volume was opened: the segments in use with the sequences that opened them, oldest
    /// first. These segments take no appends until they have been freed.
    pub(in crate::log) fn restore(&mut self, in_use: &[(u32, u64)], next_sequence: u64) {
        self.next_sequence = next_sequence;
        for (segment, opened) in in_use {
            let row = &mut self.segments[*segment as usize];
            (row.state, row.opened) = (State::Closed, *opened);
            self.order.push_back(*segment);
            self.free.retain(|free| free != segment);
        }
    }

    pub(in crate::log) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// The place of the next append unless it opens a segment.
    pub(in crate::log) fn head_place(&self) -> u64 {
        self.open().map_or(NOWHERE, |open| self.start_of(open) + self.head)
    }

    pub(in crate::log) fn segment_bytes(&self) -> u64 {
        1 << self.shift
    }

    #[inline]
    pub(in crate::log) fn segment_of(&self, at: u64) -> u32 {
        (at >> self.shift) as u32
    }

    pub(in crate::log) fn start_of(&self, segment: u32) -> u64 {
        u64::from(segment) << self.shift
    }

    pub(in crate::log) fn open(&self) -> Option<u32> {
        self.order.back().copied().filter(|last| self.segments[*last as usize].state == State::Open)
    }

    /// Allocates space for an append of `len` bytes; `None` if the log is full.
    #[inline]
    pub(in crate::log) fn allocate(&mut self, len: u64) -> Option<Space> {
        if self.gone {
            return None;
        }
        assert!(len.is_multiple_of(HEADER) && len <= self.segment_bytes(), "an append of {len} bytes fits no segment");
        let segment = match self.open() {
            Some(open) if self.head + len <= self.segment_bytes() => open,
            _ => {
                // With no free segment the log is full even if something shorter would still fit.
                self.close();
                let next = self.free.pop_front()?;
                let row = &mut self.segments[next as usize];
                (row.state, row.opened) = (State::Open, self.next_sequence);
                row.damaged = Vec::new();
                self.order.push_back(next);
                self.forget_unverified(next);
                self.head = 0;
                next
            }
        };
        let at = self.start_of(segment) + self.head;
        self.head += len;
        self.segments[segment as usize].appends += 1;
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        Some(Space { at, sequence })
    }

    /// Closes the open segment so that it can be migrated.
    pub(in crate::log) fn close(&mut self) {
        if let Some(open) = self.open() {
            self.segments[open as usize].state = State::Closed;
        }
    }

    /// Adds a record that is now the newest copy of its range.
    #[inline]
    pub(in crate::log) fn add(&mut self, offset: u64, at: u64, len: u32) {
        let within = (at & (self.segment_bytes() - 1)) as u32;
        let segment = &mut self.segments[(at >> self.shift) as usize];
        segment.records.push(Record { offset, within, len });
        segment.live += u64::from(len);
        self.live += u64::from(len);
    }

    /// Accounts for bytes in the log that are no longer the newest copy.
    #[inline]
    pub(in crate::log) fn superseded(&mut self, at: u64, len: u64) {
        let segment = &mut self.segments[(at >> self.shift) as usize];
        debug_assert!(segment.live >= len, "more is superseded than was there");
        segment.live -= len;
        self.live -= len;
    }

    /// Marks a segment as no longer needed; it becomes free after the next commit.
    pub(in crate::log) fn drain(&mut self, segment: u32) {
        let row = &mut self.segments[segment as usize];
        assert!(row.state == State::Closed && row.live == 0 && row.appends == 0, "segment {segment} is still needed");
        row.state = State::Draining { committed: false };
        row.left_over = false;
        if row.unverified.is_empty() {
            row.records = Vec::new();
        }
        self.order.retain(|other| *other != segment);
    }

    /// Records that the commit that frees the segment is durable.
    pub(in crate::log) fn drained(&mut self, segment: u32) {
        let row = &mut self.segments[segment as usize];
        assert_eq!(row.state, State::Draining { committed: false }, "segment {segment} was not draining");
        row.state = State::Draining { committed: true };
        self.free_if_unread(segment);
    }

    /// Records that a read of the segment has completed.
    #[inline]
    pub(in crate::log) fn read_ended(&mut self, segment: u32) {
        let row = &mut self.segments[segment as usize];
        assert!(row.readers > 0, "a read of segment {segment} ended twice");
        row.readers -= 1;
        if row.readers == 0 {
            self.free_if_unread(segment);
        }
    }

    pub(in crate::log) fn free_if_unread(&mut self, segment: u32) {
        let row = &mut self.segments[segment as usize];
        if row.state == (State::Draining { committed: true }) && row.readers == 0 {
            row.state = State::Free;
            row.records = Vec::new();
            self.free.push_back(segment);
            self.forget_unverified(segment);
        }
    }

    pub(in crate::log) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(in crate::log) fn is_full(&self) -> bool {
        self.gone || self.free.is_empty() && self.open().is_none_or(|_| self.head + 2 * HEADER > self.segment_bytes())
    }

    /// Returns how many bytes of the log cannot be written now, and the size of the log in bytes.
    #[inline]
    pub(in crate::log) fn used(&self) -> (u64, u64) {
        let total = (self.segments.len() as u64) << self.shift;
        let unused =
            ((self.free.len() as u64) << self.shift) + self.open().map_or(0, |_| self.segment_bytes() - self.head);
        (total - unused, total)
    }

    pub(in crate::log) fn is_free(&self, segment: u32) -> bool {
        self.free.contains(&segment)
    }
}

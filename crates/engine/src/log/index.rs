//! The records that were appended lately and are in no index yet.

use std::collections::VecDeque;

use peryton_format::{
    log::header::IndexEntry,
    log::{FIRST_SEQUENCE, NOWHERE},
};
use peryton_units::Nanos;

/// An index is written once this many records are pending, whatever the time. They are held in memory, and fit one
/// index.
pub(in crate::log) const MOST_PENDING: usize = 10_000;

/// An index is also written once this many bytes are pending, because opening a volume reads the headers of all appends
/// that are in no index.
pub(in crate::log) const MOST_BYTES: u64 = 512 << 20;

/// A record that is in no index yet.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Pending {
    pub(in crate::log) offset: u64,
    pub(in crate::log) at: u64,
    pub(in crate::log) len: u32,
    /// The sequence of the append that holds the record, and the place of that append.
    pub(in crate::log) sequence: u64,
    pub(in crate::log) append_at: u64,
}

impl Pending {
    pub(in crate::log) fn entry(&self) -> IndexEntry {
        IndexEntry { offset: self.offset, at: self.at, len: u64::from(self.len), sequence: self.sequence }
    }
}

#[derive(Debug)]
pub(in crate::log) struct Indexes {
    pub(in crate::log) pending: VecDeque<Pending>,
    pub(in crate::log) bytes: u64,
    pub(in crate::log) due: Nanos,
    pub(in crate::log) in_flight: bool,
    /// Whether an index has already been requested because the list is long.
    pub(in crate::log) asked: bool,
    /// Whether the index under way had no room for all durable records.
    pub(in crate::log) more: bool,
    /// All appends before this sequence are settled: durable, or recorded as absent by a durable commit. `flushed_at`
    /// is the place of this append.
    pub(in crate::log) flushed: u64,
    pub(in crate::log) flushed_at: u64,
    /// The place of the newest index, and the first sequence that no index covers.
    pub(in crate::log) newest: u64,
    pub(in crate::log) upto: u64,
}

impl Indexes {
    pub(in crate::log) fn new() -> Indexes {
        Indexes {
            pending: VecDeque::new(),
            bytes: 0,
            due: Nanos::MAX,
            in_flight: false,
            asked: false,
            more: false,
            flushed: FIRST_SEQUENCE,
            flushed_at: NOWHERE,
            newest: NOWHERE,
            upto: FIRST_SEQUENCE,
        }
    }

    /// Restores the state after a volume was opened: all appends before `flushed` are settled, and `pending` are in no
    /// index.
    pub(in crate::log) fn resume(&mut self, flushed: u64, newest: u64, upto: u64, pending: Vec<Pending>) {
        (self.flushed, self.flushed_at, self.newest, self.upto) = (flushed, NOWHERE, newest, upto);
        self.bytes = pending.iter().map(|pending| u64::from(pending.len)).sum();
        self.due = if pending.is_empty() { Nanos::MAX } else { Nanos::ZERO };
        self.pending = pending.into();
    }

    pub(in crate::log) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Forgets all pending records because the log is gone.
    pub(in crate::log) fn clear(&mut self) {
        self.pending.clear();
        (self.bytes, self.due, self.more) = (0, Nanos::MAX, false);
    }

    #[inline]
    pub(in crate::log) fn add(&mut self, pending: Pending) {
        self.bytes += u64::from(pending.len);
        self.pending.push_back(pending);
    }

    #[inline]
    pub(in crate::log) fn is_long(&self) -> bool {
        self.pending.len() >= MOST_PENDING || self.bytes >= MOST_BYTES
    }
}

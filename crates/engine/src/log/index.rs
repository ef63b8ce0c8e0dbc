//! What was appended lately and is in no index yet.

use std::collections::VecDeque;

use peryton_format::{
    log::header::IndexEntry,
    log::{FIRST_SEQUENCE, NOWHERE},
};
use peryton_units::Nanos;

/// So many records make an index, whatever the time: they are held in memory, and fit one index.
pub(in crate::log) const MOST_PENDING: usize = 10_000;

/// So many bytes, too, for what is in no index is looked for when a volume is opened.
pub(in crate::log) const MOST_BYTES: u64 = 512 << 20;

/// A record that is in no index yet.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Pending {
    pub(in crate::log) offset: u64,
    pub(in crate::log) at: u64,
    pub(in crate::log) len: u32,
    /// That of its append, and where that is.
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
    /// A long list has been asked for already.
    pub(in crate::log) asked: bool,
    /// The index under way has no room for all that is durable.
    pub(in crate::log) more: bool,
    /// All appends before this one are durable, or a durable commit says that they are absent; and where it is.
    pub(in crate::log) flushed: u64,
    pub(in crate::log) flushed_at: u64,
    /// Where the newest index is, and the first append that is in none.
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

    /// Goes on after a volume was opened: all before append `flushed` is settled, and these are in no index.
    pub(in crate::log) fn resume(&mut self, flushed: u64, newest: u64, upto: u64, pending: Vec<Pending>) {
        (self.flushed, self.flushed_at, self.newest, self.upto) = (flushed, NOWHERE, newest, upto);
        self.bytes = pending.iter().map(|pending| u64::from(pending.len)).sum();
        self.due = if pending.is_empty() { Nanos::MAX } else { Nanos::ZERO };
        self.pending = pending.into();
    }

    pub(in crate::log) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// There is no log to list anything of.
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

//! Indexes: what was appended lately, written to the log every 30 s (Griffin, sections 5.4 and 6.4: the recent contents of
//! the map are flushed), so that a restart reads them rather than the headers. The disk does not leave its track for it.
//!
//! An index lists only what a flush of the log has made durable, and that flush comes right before it: so whatever is in
//! an index that can be read can be trusted, and little is not in one. Each names the one before.

use std::collections::VecDeque;

use peryton_format::{
    block::BLOCK,
    log::{
        FIRST_SEQUENCE, HEADER, NOWHERE,
        header::{self, ENTRIES_PER_BLOCK, IndexEntry, IndexSpan},
    },
};
use peryton_units::Nanos;

use super::{Logging, log::State};
use crate::{command::Commands, logging::step::Core};

/// So many records make an index, whatever the time: they are held in memory, and fit one index.
const MOST_PENDING: usize = 10_000;
/// So many bytes, too, for what is in no index is looked for when a volume is opened.
const MOST_BYTES: u64 = 512 << 20;

/// A record that is in no index yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) offset: u64,
    pub(super) at: u64,
    pub(super) len: u32,
    /// That of its append, and where that is.
    pub(super) sequence: u64,
    pub(super) append_at: u64,
}

impl Pending {
    pub(super) fn entry(&self) -> IndexEntry {
        IndexEntry { offset: self.offset, at: self.at, len: u64::from(self.len), sequence: self.sequence }
    }
}

#[derive(Debug)]
pub(super) struct Indexes {
    pending: VecDeque<Pending>,
    bytes: u64,
    pub(super) due: Nanos,
    in_flight: bool,
    /// A long list has been asked for already.
    asked: bool,
    /// The index under way has no room for all that is durable.
    more: bool,
    /// All appends before this one are durable, or a durable commit says that they are absent; and where it is.
    pub(super) flushed: u64,
    pub(super) flushed_at: u64,
    /// Where the newest index is, and the first append that is in none.
    pub(super) newest: u64,
    upto: u64,
}

impl Indexes {
    pub(super) fn new() -> Indexes {
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
    pub(super) fn resume(&mut self, flushed: u64, newest: u64, upto: u64, pending: Vec<Pending>) {
        (self.flushed, self.flushed_at, self.newest, self.upto) = (flushed, NOWHERE, newest, upto);
        self.bytes = pending.iter().map(|pending| u64::from(pending.len)).sum();
        self.due = if pending.is_empty() { Nanos::MAX } else { Nanos::ZERO };
        self.pending = pending.into();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// There is no log to list anything of.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
        (self.bytes, self.due, self.more) = (0, Nanos::MAX, false);
    }

    #[inline]
    pub(super) fn add(&mut self, pending: Pending) {
        self.bytes += u64::from(pending.len);
        self.pending.push_back(pending);
    }

    #[inline]
    fn is_long(&self) -> bool {
        self.pending.len() >= MOST_PENDING || self.bytes >= MOST_BYTES
    }
}

impl Logging {
    /// Wants an index if enough has come together. A flush goes before it.
    #[inline]
    pub(super) fn index_if_long(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        if self.index.is_long() && !self.index.asked {
            self.index.asked = true;
            self.want_index(core, now, out);
        }
    }

    fn want_index(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        self.commit.flush_for_index();
        self.pump_commit(core, now, out);
    }

    pub(super) fn tick_index(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        if self.index.pending.is_empty() {
            return;
        }
        if self.index.due <= now {
            self.index.due = now.saturating_add(core.tuning.logging.checkpoint_interval);
            self.index.asked = true;
            self.want_index(core, now, out);
        }
        if !self.index.pending.is_empty() {
            core.due(self.index.due);
        }
    }

    /// What the next index says, if there is something to say; `room` blocks of entries.
    pub(super) fn next_index(&mut self, room: usize) -> Option<(IndexSpan, Vec<Pending>)> {
        let Logging { index, log, .. } = self;
        let mut entries: Vec<Pending> = Vec::new();
        index.more = false;
        let (mut upto, mut upto_at) = (index.flushed, index.flushed_at);
        while let Some(front) = index.pending.front().copied().filter(|front| front.sequence < index.flushed) {
            // All of an append is in one index: there is room for the members of one.
            let together = index.pending.iter().take_while(|pending| pending.sequence == front.sequence).count();
            if entries.len() + together > room * ENTRIES_PER_BLOCK {
                (upto, upto_at) = (front.sequence, front.append_at);
                index.more = true;
                break;
            }
            let segment = &log.segments[log.segment_of(front.at) as usize];
            // A migration may have been faster. Until its commit is durable a crash brings the segment back.
            let free = matches!(segment.state, State::Free | State::Draining { committed: true });
            let counts = !free && segment.opened <= front.sequence;
            for pending in index.pending.drain(..together) {
                index.bytes -= u64::from(pending.len);
                entries.extend(counts.then_some(pending));
            }
        }
        let (first, previous) = (index.upto, index.newest);
        let covered = IndexSpan { first, upto, upto_at, previous, entries: entries.len() as u32 };
        (!entries.is_empty()).then_some((covered, entries))
    }

    /// How many blocks of entries fit an index.
    pub(super) fn index_room(&self) -> usize {
        (self.log.segment_bytes().min(super::BUFFER) / BLOCK - HEADER / BLOCK) as usize
    }

    /// Writes an index of what is durable. A full log has no room, and nothing new either.
    pub(super) fn write_index(&mut self, core: &mut Core, out: &mut Commands) {
        if self.index.in_flight {
            return;
        }
        let Some((covered, entries)) = self.next_index(self.index_room()) else { return };
        let Some(space) = self.log.allocate(header::index_bytes(entries.len())) else {
            return self.put_back(entries);
        };
        self.index.in_flight = true;
        self.append_index(core, space, (covered, entries), out);
    }

    fn put_back(&mut self, entries: Vec<Pending>) {
        for pending in entries.into_iter().rev() {
            self.index.bytes += u64::from(pending.len);
            self.index.pending.push_front(pending);
        }
    }

    pub(super) fn index_retired(
        &mut self,
        core: &mut Core,
        at: u64,
        (covered, entries): (IndexSpan, Vec<Pending>),
        failed: bool,
        out: &mut Commands,
    ) {
        self.index.in_flight = false;
        if failed {
            if !self.gone.log {
                self.put_back(entries);
            }
            return;
        }
        core.ledger.logging_mut().checkpoints += 1;
        core.ledger.checkpoints += 1;
        self.index_is_written(at, covered);
        self.index.asked = false;
        if self.index.more {
            self.write_index(core, out);
        }
    }

    pub(super) fn index_is_written(&mut self, at: u64, covered: IndexSpan) {
        (self.index.newest, self.index.upto) = (at, covered.upto);
    }
}

//! Indexes list what was appended lately. One is written to the log every 30 s (Griffin, sections 5.4 and 6.4: the
//! recent contents of the map are flushed), so that a restart reads indexes rather than all headers. The disk's head
//! stays on its track for it.
//!
//! An index lists only records that a flush of the log has made durable, and it is written right after such a flush. So
//! an index that can be read can be trusted, and few records are in no index. Each index holds the place of the one
//! before.

use peryton_format::{
    block::BLOCK,
    log::HEADER,
    log::header::{self, ENTRIES_PER_BLOCK, IndexSpan},
};

use crate::{
    log::drive::LogDrive,
    log::index::Pending,
    log::layout::BUFFER,
    log::ready::Turn,
    log::segments::State,
    log::step::{LogCall, LogIo},
};

impl LogDrive {
    /// Requests an index if enough records are pending. A flush precedes it.
    #[inline]
    pub(in crate::log) fn index_if_long(&mut self) {
        if self.index.is_long() && !self.index.asked {
            self.index.asked = true;
            self.want_index();
        }
    }

    fn want_index(&mut self) {
        self.commit.flush_for_index();
        self.ready.push(Turn::Commit);
    }

    pub(in crate::log) fn tick_index(&mut self, io: &mut LogIo) {
        if self.index.pending.is_empty() {
            return;
        }
        if self.index.due <= io.now {
            self.index.due = io.now.saturating_add(io.tuning.logging.checkpoint_interval);
            self.index.asked = true;
            self.want_index();
        }
        if !self.index.pending.is_empty() {
            io.due(self.index.due);
        }
    }

    /// Returns the span and the entries of the next index, at most `room` blocks of them; `None` if nothing is to be
    /// listed.
    pub(in crate::log) fn next_index(&mut self, room: usize) -> Option<(IndexSpan, Vec<Pending>)> {
        let LogDrive { index, log, .. } = self;
        let mut entries: Vec<Pending> = Vec::new();
        index.more = false;
        let (mut upto, mut upto_at) = (index.flushed, index.flushed_at);
        while let Some(front) = index.pending.front().copied().filter(|front| front.sequence < index.flushed) {
            // All records of an append go into one index, which always has room for the members of one append.
            let together = index.pending.iter().take_while(|pending| pending.sequence == front.sequence).count();
            if entries.len() + together > room * ENTRIES_PER_BLOCK {
                (upto, upto_at) = (front.sequence, front.append_at);
                index.more = true;
                break;
            }
            let segment = &log.segments[log.segment_of(front.at) as usize];
            // A migration may have freed the segment already. Until that commit is durable, a crash brings the segment
            // back.
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

    /// Number of blocks of entries that fit an index.
    pub(in crate::log) fn index_room(&self) -> usize {
        (self.log.segment_bytes().min(BUFFER) / BLOCK - HEADER / BLOCK) as usize
    }

    /// Writes an index of the durable records. If the log is full the entries stay pending.
    pub(in crate::log) fn write_index(&mut self, io: &mut LogCall) {
        if self.index.in_flight {
            return;
        }
        let Some((covered, entries)) = self.next_index(self.index_room()) else { return };
        let Some(space) = self.log.allocate(header::index_bytes(entries.len())) else {
            return self.put_back(entries);
        };
        self.index.in_flight = true;
        self.append_index(io, space, (covered, entries));
    }

    fn put_back(&mut self, entries: Vec<Pending>) {
        for pending in entries.into_iter().rev() {
            self.index.bytes += u64::from(pending.len);
            self.index.pending.push_front(pending);
        }
    }

    pub(in crate::log) fn index_retired(
        &mut self,
        io: &mut LogCall,
        at: u64,
        (covered, entries): (IndexSpan, Vec<Pending>),
        failed: bool,
    ) {
        self.index.in_flight = false;
        if failed {
            if !self.gone.log {
                self.put_back(entries);
            }
            return;
        }
        io.stats.logging_mut().checkpoints += 1;
        io.stats.checkpoints += 1;
        self.index_is_written(at, covered);
        self.index.asked = false;
        if self.index.more {
            self.write_index(io);
        }
    }

    pub(in crate::log) fn index_is_written(&mut self, at: u64, covered: IndexSpan) {
        (self.index.newest, self.index.upto) = (at, covered.upto);
    }
}

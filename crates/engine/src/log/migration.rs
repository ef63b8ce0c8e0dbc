//! The state of a migration: its window, and the parts that are being read and written.

use std::collections::VecDeque;

use peryton_format::mutation::{self, Mutation};
use peryton_units::Nanos;

use crate::{api::config::Tuning, io::slab::Slab, log::layout::BUFFER};

/// Writes in flight, each with a buffer that joins the parts of a run. There are few because the host's reads go to the
/// same device.
pub(in crate::log) const WRITES: u32 = 4;

/// Number of waiting ranges from host hints; further hints are ignored.
pub(in crate::log) const MOST_HINTS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Phase {
    Idle,
    Planning,
    Reading,
    Writing,
}

/// One read of the log.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Chunk {
    pub(in crate::log) at: u64,
    pub(in crate::log) len: u64,
    /// Whether nothing else may be read with it, because an earlier read failed.
    pub(in crate::log) alone: bool,
    pub(in crate::log) failed: bool,
}

/// A part to migrate, and the chunk of the window that holds it.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Part {
    pub(in crate::log) offset: u64,
    pub(in crate::log) len: u64,
    pub(in crate::log) at: u64,
    pub(in crate::log) chunk: u32,
}

/// The chunk of a part that is in none.
pub(in crate::log) const NO_CHUNK: u32 = u32::MAX;

/// One write to the primary.
#[derive(Debug, Default)]
pub(in crate::log) struct Run {
    pub(in crate::log) offset: u64,
    pub(in crate::log) len: u64,
    pub(in crate::log) parts: Vec<Part>,
    pub(in crate::log) assembly: Option<u32>,
    /// Reads besides the window that complete whole units.
    pub(in crate::log) rest: Vec<Rest>,
    /// Commands in flight.
    pub(in crate::log) pending: u32,
    /// Whether it is written with what completes its units.
    pub(in crate::log) completed: bool,
    pub(in crate::log) failed: bool,
}

/// A read for a run besides the window.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Rest {
    pub(in crate::log) offset: u64,
    pub(in crate::log) len: u64,
    /// Where the log has it; `None`: on the primary.
    pub(in crate::log) at: Option<u64>,
    pub(in crate::log) failed: bool,
}

/// The next run.
pub(in crate::log) enum Next {
    /// Whole units.
    Units(Run),
    /// The parts in the window alone, because the rest of their units cannot be read.
    AsItIs,
    /// There is none, or a write to the primary has to end first.
    None,
}

#[derive(Debug)]
pub(in crate::log) struct Migration {
    pub(in crate::log) phase: Phase,
    /// The segments still to be examined, and the number of records of the first that have been.
    pub(in crate::log) segments: VecDeque<u32>,
    pub(in crate::log) record: usize,
    /// Segments that this window has examined to their end.
    pub(in crate::log) passed: Vec<u32>,
    /// The part of a hinted range that has not been examined yet.
    pub(in crate::log) range: (u64, u64),
    pub(in crate::log) hints: VecDeque<(u64, u64)>,
    pub(in crate::log) whole: bool,
    pub(in crate::log) began: Nanos,
    /// It covers the appends before this sequence, if it is of the whole log.
    pub(in crate::log) covers: u64,
    pub(in crate::log) chunks: Vec<Chunk>,
    pub(in crate::log) parts: Vec<Part>,
    pub(in crate::log) next_chunk: usize,
    pub(in crate::log) next_part: usize,
    pub(in crate::log) in_flight: u32,
    pub(in crate::log) runs: Slab<Run>,
    pub(in crate::log) writing: Vec<u32>,
    pub(in crate::log) assemblies: Vec<u32>,
    /// Number of chunks in this window; a change of the tuning takes effect with the next window.
    pub(in crate::log) window: u32,
    /// The unit that this window writes, if the primary has a large one. With another unit, two runs of one window could overlap.
    pub(in crate::log) unit: Option<u64>,
    pub(in crate::log) left_over: bool,
    /// Segments that a failed device kept from being emptied, and all younger ones.
    pub(in crate::log) held_back: Vec<u32>,
    /// Whether the list of what is left in the held-back segments is too long.
    pub(in crate::log) stuck: bool,
}

pub(in crate::log) fn window_of(tuning: &Tuning) -> u32 {
    (tuning.logging.migration_memory.0 / BUFFER).max(1) as u32
}

impl Migration {
    pub(in crate::log) fn new() -> Migration {
        Migration {
            phase: Phase::Idle,
            segments: VecDeque::new(),
            record: 0,
            passed: Vec::new(),
            range: (0, 0),
            hints: VecDeque::new(),
            whole: false,
            began: Nanos::ZERO,
            covers: 0,
            chunks: Vec::new(),
            parts: Vec::new(),
            next_chunk: 0,
            next_part: 0,
            in_flight: 0,
            runs: Slab::new(),
            writing: Vec::new(),
            assemblies: (0..WRITES).collect(),
            window: 0,
            unit: None,
            left_over: false,
            held_back: Vec::new(),
            stuck: false,
        }
    }

    /// Number of buffers for a window and for joining runs.
    pub(in crate::log) fn buffers(&self, tuning: &Tuning) -> u32 {
        WRITES + self.window.max(window_of(tuning))
    }

    pub(in crate::log) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle && self.hints.is_empty()
    }

    /// Whether the last migration was kept from emptying the log by a failed device, and the next one will be, too.
    pub(in crate::log) fn is_stuck(&self) -> bool {
        self.is_idle() && self.stuck
    }

    pub(in crate::log) fn hint(&mut self, from: u64, to: u64) {
        if from < to && self.hints.len() < MOST_HINTS {
            self.hints.push_back((from, to));
        }
    }

    /// Ends the migration because a device is dead. Parts that are not under way stay in the log, so the records made
    /// before are still needed.
    pub(in crate::log) fn stop(&mut self) {
        self.whole = false;
        self.segments.clear();
        self.passed.clear();
        self.hints.clear();
        self.held_back.clear();
        (self.record, self.range, self.next_chunk) = (0, (0, 0), self.chunks.len());
        self.parts.truncate(self.next_part);
    }

    /// Nothing of it is under way any more, and nothing follows.
    pub(in crate::log) fn abandon(&mut self) {
        self.stop();
        self.chunks.clear();
        self.parts.clear();
        (self.next_chunk, self.next_part, self.window) = (0, 0, 0);
        self.phase = Phase::Idle;
    }

    /// Whether the range is on its way to the primary.
    pub(in crate::log) fn writes(&self, from: u64, to: u64) -> bool {
        self.writing.iter().any(|run| self.runs[*run].overlaps(from, to))
    }

    pub(in crate::log) fn reading_or_writing(&self) -> bool {
        matches!(self.phase, Phase::Reading | Phase::Writing)
    }
}

/// Reading through a gap of this many bytes takes a disk less time than a revolution.
pub(in crate::log) const READ_THROUGH: u64 = 64 << 10;

impl Migration {
    /// Reserves room in the window for data at `at` in the log; returns its chunk, or `None` if the window is full.
    pub(in crate::log) fn fit(
        &mut self,
        at: u64,
        len: u64,
        alone: bool,
        same_segment: impl Fn(u64) -> bool,
    ) -> Option<u32> {
        if let Some(last) = self.chunks.last_mut() {
            let end = last.at + last.len;
            let near = at >= end && at - end <= READ_THROUGH && at + len - last.at <= BUFFER;
            if near && !alone && !last.alone && same_segment(last.at) {
                last.len = at + len - last.at;
                return Some(self.chunks.len() as u32 - 1);
            }
        }
        if self.chunks.len() >= self.window as usize {
            return None;
        }
        self.chunks.push(Chunk { at, len, alone, failed: false });
        Some(self.chunks.len() as u32 - 1)
    }
}

impl Run {
    /// Whether the run has something of this range.
    pub(in crate::log) fn overlaps(&self, from: u64, to: u64) -> bool {
        if mutation::is(Mutation::PassCompletion) {
            return self.parts.iter().any(|part| part.offset < to && from < part.offset + part.len);
        }
        self.offset < to && from < self.offset + self.len
    }
}

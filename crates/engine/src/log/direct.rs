//! Pieces of host requests, and the table of those that are being written to the primary.

use peryton_units::Nanos;

use crate::{api::stats::PastLog, io::RequestIndex, io::slab::Slab, log::step::LogStep};

/// A part of a host request.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Piece {
    pub(in crate::log) request: RequestIndex,
    /// Offset on the volume.
    pub(in crate::log) offset: u64,
    pub(in crate::log) len: u64,
    /// Offset in the request's buffer.
    pub(in crate::log) buffer: u64,
}

impl Piece {
    #[inline]
    pub(in crate::log) fn overlaps(&self, from: u64, to: u64) -> bool {
        self.offset < to && from < self.offset + self.len
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Way {
    Log,
    /// To the primary, past the log.
    Direct(Past),
    Discard,
}

/// Why a write goes past the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Past {
    /// Its blocks are not overwritten often enough for selective caching.
    Selective,
    /// Writes come faster than the log takes them.
    Outrun,
    /// The log, or the ring of its commits, is full.
    NoRoom,
    /// Appends failed.
    Failed,
}

/// A write to the primary, or the discards and zeroings that carry out one discard of the host.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Direct {
    pub(in crate::log) piece: Piece,
    /// When it began.
    pub(in crate::log) since: Nanos,
    /// Commands in flight.
    pub(in crate::log) left: u32,
    pub(in crate::log) failed: bool,
}

impl PastLog {
    /// Counts a write.
    pub(in crate::log) fn count(&mut self, why: Past) {
        *match why {
            Past::Selective => &mut self.selective,
            Past::Outrun => &mut self.outrun,
            Past::NoRoom => &mut self.no_room,
            Past::Failed => &mut self.failed,
        } += 1;
    }
}

#[derive(Debug)]
pub(in crate::log) struct Directs {
    pub(in crate::log) rows: Slab<Direct>,
    /// The operations in flight, in the order in which they began; the host's queue depth bounds their number.
    pub(in crate::log) in_flight: Vec<u32>,
}

impl Directs {
    pub(in crate::log) fn new() -> Directs {
        Directs { rows: Slab::new(), in_flight: Vec::new() }
    }

    pub(in crate::log) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    #[inline]
    pub(in crate::log) fn overlaps(&self, from: u64, to: u64) -> bool {
        self.in_flight.iter().any(|row| self.rows[*row].piece.overlaps(from, to))
    }

    pub(in crate::log) fn start(&mut self, now: Nanos, piece: Piece, commands: usize) -> LogStep {
        let op = self.rows.insert(Direct { piece, since: now, left: commands as u32, failed: false });
        self.in_flight.push(op);
        LogStep::Direct { op }
    }
}

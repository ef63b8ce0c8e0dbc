//! Pieces of host requests, and the table of those that are being written to the primary.

use crate::{io::RequestIndex, io::slab::Slab, log::step::LogStep};

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
    Direct,
    Discard,
}

/// A write to the primary, or the discards and zeroings that carry out one discard of the host.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Direct {
    pub(in crate::log) piece: Piece,
    /// Commands in flight.
    pub(in crate::log) left: u32,
    pub(in crate::log) failed: bool,
}

#[derive(Debug)]
pub(in crate::log) struct Directs {
    pub(in crate::log) rows: Slab<Direct>,
    /// The operations in flight; the host's queue depth bounds their number.
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

    pub(in crate::log) fn start(&mut self, piece: Piece, commands: usize) -> LogStep {
        let op = self.rows.insert(Direct { piece, left: commands as u32, failed: false });
        self.in_flight.push(op);
        LogStep::Direct { op }
    }
}

//! The tables of host requests that the volume has, and of their pieces.

use std::collections::VecDeque;

use peryton_engine::RequestError;
use peryton_units::Nanos;

use crate::{arena::Memory, nbd::Request, pool::Block};

/// The index that stands for no row.
pub(super) const NONE: u32 = u32::MAX;

/// A host request that the volume has.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) client: u32,
    pub(super) request: Request,
    pub(super) arrived: Nanos,
    /// Number of its bytes that have, or had, pieces.
    pub(super) handed: u64,
    /// Number of its pieces that the engine has.
    pub(super) outstanding: u32,
    pub(super) failed: Option<Failed>,
    /// Whether all of it is written and only the requested flush remains.
    pub(super) flushing: bool,
    /// Whether its client is being removed: the answer is not needed, and the rest of the payload will not arrive.
    pub(super) abandoned: bool,
    /// Its pieces: for a read all of them, in order; for a write the last.
    pub(super) first: u32,
    pub(super) last: u32,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Failed {
    Engine(RequestError),
    /// The server is stopping, and does not begin the rest of the request.
    Stopping,
}

/// A part of a host request, with a buffer of its own; one request to the engine.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) request: u32,
    pub(super) block: Option<Block>,
    pub(super) memory: Memory,
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) next: u32,
}

/// A table whose rows are reused.
#[derive(Debug)]
pub(super) struct Rows<T> {
    rows: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Rows<T> {
    fn default() -> Rows<T> {
        Rows { rows: Vec::new(), free: Vec::new() }
    }
}

impl<T> Rows<T> {
    #[inline]
    pub(super) fn add(&mut self, row: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.rows[index as usize] = Some(row);
            return index;
        }
        self.rows.push(Some(row));
        self.rows.len() as u32 - 1
    }

    #[inline]
    pub(super) fn take(&mut self, index: u32) -> T {
        self.free.push(index);
        self.rows[index as usize].take().expect("a row is given back once")
    }

    #[inline]
    pub(super) fn at(&mut self, index: u32) -> &mut T {
        self.rows[index as usize].as_mut().expect("a row in use")
    }

    pub(super) fn used(&self) -> usize {
        self.rows.len() - self.free.len()
    }
}

/// The requests, their pieces, and the clients whose long requests take turns.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) pending: Rows<Pending>,
    pub(super) pieces: Rows<Piece>,
    /// Clients with long requests without data, each once.
    pub(super) long: VecDeque<u32>,
    pub(super) long_in_flight: u32,
}

//! The memory that a socket call reads into or writes from.

use std::mem;

use crate::arena::Memory;

/// The most pieces of one call; the system's limit is 1024.
pub(crate) const MOST_PIECES: usize = 256;

/// A sequence of pieces of memory. The kernel is given its address, so it lives in a box and does not change while a
/// call is under way.
#[derive(Debug)]
pub(crate) struct Message {
    header: Box<libc::msghdr>,
    pieces: Vec<libc::iovec>,
    /// The pieces before this one are finished.
    first: usize,
}

impl Default for Message {
    fn default() -> Message {
        // SAFETY: a msghdr of zeros is one without name, pieces and control data.
        let header = Box::new(unsafe { mem::zeroed() });
        Message { header, pieces: Vec::with_capacity(MOST_PIECES), first: 0 }
    }
}

impl Message {
    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        self.first = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.pieces.len()
    }

    pub(crate) fn push(&mut self, memory: Memory, len: usize) {
        debug_assert!(len > 0, "a piece of no bytes");
        let memory = memory.first(len);
        self.pieces.push(libc::iovec { iov_base: memory.as_ptr().cast(), iov_len: len });
    }

    /// The bytes that the next call is about.
    pub(super) fn bytes(&self) -> usize {
        self.pieces[self.first..].iter().take(MOST_PIECES).map(|piece| piece.iov_len).sum()
    }

    /// Marks the first `bytes` as finished.
    pub(crate) fn advance(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let piece = &mut self.pieces[self.first];
            let step = bytes.min(piece.iov_len);
            piece.iov_base = piece.iov_base.wrapping_byte_add(step);
            piece.iov_len -= step;
            bytes -= step;
            if piece.iov_len > 0 {
                break;
            }
            self.first += 1;
        }
    }

    /// The header for the system call; valid until the message is changed.
    pub(super) fn header(&mut self) -> *mut libc::msghdr {
        let rest = &mut self.pieces[self.first..];
        self.header.msg_iovlen = rest.len().min(MOST_PIECES) as _;
        self.header.msg_iov = rest.as_mut_ptr();
        &raw mut *self.header
    }
}

// SAFETY: the pointers are names of memory that the message's owner guards; it moves between threads with it.
unsafe impl Send for Message {}

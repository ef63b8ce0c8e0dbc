//! Answers ("Simple reply message", "Structured reply chunk message").
//!
//! Headers go into the output; payloads stay in the caller's buffers, and the output refers to them.

use peryton_units::Bytes;

use super::{
    connection::Connection,
    handshake,
    request::{Command, Cookie, Errno, Request},
    transmission::Refusal,
    wire::{self, allocation, chunk},
};

/// A part of the volume with one status: an item of a block status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Length of the part.
    pub length: Bytes,
    /// Whether space is allocated for it.
    pub allocated: bool,
    /// Whether it is known to read as zeros.
    pub zero: bool,
    /// The devices that hold its current data: bit *n* is device *n* of the design.
    pub devices: u32,
}

/// The status of one context while it is gathered.
struct Status {
    id: u32,
    runs: Vec<(u32, u32)>,
    full: bool,
}

impl Status {
    fn flags(&self, run: &Run) -> u32 {
        match self.id {
            handshake::PLACE_ID => run.devices,
            _ => u32::from(!run.allocated) * allocation::HOLE + u32::from(run.zero) * allocation::ZERO,
        }
    }

    fn add(&mut self, run: &Run, length: u32, most: usize) {
        let flags = self.flags(run);
        let room = self.runs.len() < most;
        match self.runs.last_mut() {
            _ if self.full => {}
            Some((last, same)) if *same == flags => *last += length,
            _ if room => self.runs.push((length, flags)),
            _ => self.full = true,
        }
    }
}

impl<P> Connection<P> {
    /// Answers that the request succeeded. For a read, its chunks must have been given before, and cover all of it.
    pub fn reply_ok(&mut self, request: &Request) {
        self.answered();
        match request.command {
            Command::Read { .. } => self.chunk(request.cookie, chunk::NONE, chunk::DONE, 0),
            Command::Status { .. } => unreachable!("a block status is answered with runs"),
            _ => self.simple(request.cookie, 0),
        }
    }

    /// Answers that the request failed. Chunks of a read that were given before stay in the output. Clients with
    /// structured replies see the message, up to [`wire::MAX_STRING`] bytes of it.
    pub fn reply_error(&mut self, request: &Request, error: Errno, message: &str) {
        self.answered();
        self.error(request.cookie, error, message);
    }

    /// Answers a read with its data, in one piece of the stream and from any number of buffers.
    ///
    /// # Panics
    ///
    /// If the data is not as long as the request: the client would take what follows for data.
    pub fn reply_read(&mut self, request: &Request, data: impl IntoIterator<Item = (P, Bytes)>) {
        debug_assert!(matches!(request.command, Command::Read { .. }), "data for {request:?}");
        self.answered();
        if self.structured {
            self.data_header(request.cookie, chunk::DONE, request.offset, request.length);
        } else {
            self.simple(request.cookie, 0);
        }
        self.payloads(data, request.length);
    }

    /// Gives a chunk of a read, `length` bytes at `offset` of the volume; [`Connection::reply_ok`] ends the reply. Only
    /// for clients with structured replies, and only once for an unfragmented read.
    ///
    /// # Panics
    ///
    /// If the data is not `length` bytes long, lies outside of the request, or the client has no structured replies.
    pub fn read_data(
        &mut self,
        request: &Request,
        offset: Bytes,
        length: Bytes,
        data: impl IntoIterator<Item = (P, Bytes)>,
    ) {
        self.assert_chunk(request, offset, length);
        self.data_header(request.cookie, 0, offset, length);
        self.payloads(data, length);
    }

    /// Like [`Connection::read_data`], for a part of a read that reads as zeros. Not for unfragmented reads.
    ///
    /// # Panics
    ///
    /// If the part lies outside of the request, or the client has no structured replies.
    pub fn read_hole(&mut self, request: &Request, offset: Bytes, length: Bytes) {
        self.assert_chunk(request, offset, length);
        assert_eq!(request.command, Command::Read { unfragmented: false }, "a hole in an unfragmented read");
        self.chunk(request.cookie, chunk::OFFSET_HOLE, 0, 12);
        self.output.push(&(offset - self.export.from).0.to_be_bytes());
        self.output.push(&(length.0 as u32).to_be_bytes());
    }

    /// Answers a block status with the runs from the request's offset on. Equal neighbours are merged. What lies beyond
    /// the request, or beyond [`wire::MAX_RUNS`] runs, is left out; `runs` may be lazy and endless.
    pub fn reply_status(&mut self, request: &Request, runs: impl IntoIterator<Item = Run>) {
        let Command::Status { one } = request.command else { unreachable!("a status for {request:?}") };
        self.answered();
        let most = if one { 1 } else { wire::MAX_RUNS };
        let mut contexts: Vec<Status> =
            self.contexts.iter().map(|context| Status { id: context.id, runs: Vec::new(), full: false }).collect();
        let mut left = u32::try_from(request.length.0).expect("lengths have 32 bits on the wire");
        for run in runs {
            let length = run.length.0.min(u64::from(left)) as u32;
            left -= length;
            if length > 0 {
                contexts.iter_mut().for_each(|context| context.add(&run, length, most));
            }
            if left == 0 || contexts.iter().all(|context| context.full) {
                break;
            }
        }
        let last = contexts.len() - 1;
        for (index, context) in contexts.iter_mut().enumerate() {
            if context.runs.is_empty() {
                context.runs.push((left, 0)); // "a server MAY always safely report a status of 0 for any block"
            }
            let done = if index == last { chunk::DONE } else { 0 };
            self.chunk(request.cookie, chunk::BLOCK_STATUS, done, 4 + 8 * context.runs.len() as u32);
            self.output.push(&context.id.to_be_bytes());
            for (length, flags) in &context.runs {
                self.output.push(&length.to_be_bytes());
                self.output.push(&flags.to_be_bytes());
            }
        }
    }

    /// Answers a request for no bytes.
    pub(super) fn answer_nothing(&mut self, cookie: Cookie, command: Command) {
        match command {
            Command::Read { .. } if self.structured => self.chunk(cookie, chunk::NONE, chunk::DONE, 0),
            _ => self.simple(cookie, 0),
        }
    }

    /// Answers a request that is refused.
    pub(super) fn refuse(&mut self, cookie: Cookie, refusal: Refusal) {
        self.error(cookie, refusal.errno, refusal.message);
    }

    fn error(&mut self, cookie: Cookie, error: Errno, message: &str) {
        if !self.structured {
            return self.simple(cookie, error as u32);
        }
        let mut end = message.len().min(wire::MAX_STRING);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        self.chunk(cookie, chunk::ERROR, chunk::DONE, 6 + end as u32);
        self.output.push(&(error as u32).to_be_bytes());
        self.output.push(&(end as u16).to_be_bytes());
        self.output.push(&message.as_bytes()[..end]);
    }

    /// Counts a request as answered.
    fn answered(&mut self) {
        self.in_flight = self.in_flight.checked_sub(1).expect("every request is answered once");
    }

    fn simple(&mut self, cookie: Cookie, error: u32) {
        let mut header = [0; 16];
        header[..4].copy_from_slice(&wire::SIMPLE_REPLY_MAGIC.to_be_bytes());
        header[4..8].copy_from_slice(&error.to_be_bytes());
        header[8..].copy_from_slice(&cookie.0.to_be_bytes());
        self.output.push(&header);
    }

    fn chunk(&mut self, cookie: Cookie, kind: u16, flags: u16, length: u32) {
        assert!(self.structured, "a chunk for a client that knows none");
        let mut header = [0; 20];
        header[..4].copy_from_slice(&wire::STRUCTURED_REPLY_MAGIC.to_be_bytes());
        header[4..6].copy_from_slice(&flags.to_be_bytes());
        header[6..8].copy_from_slice(&kind.to_be_bytes());
        header[8..16].copy_from_slice(&cookie.0.to_be_bytes());
        header[16..].copy_from_slice(&length.to_be_bytes());
        self.output.push(&header);
    }

    fn data_header(&mut self, cookie: Cookie, flags: u16, offset: Bytes, length: Bytes) {
        self.chunk(cookie, chunk::OFFSET_DATA, flags, 8 + length.0 as u32);
        self.output.push(&(offset - self.export.from).0.to_be_bytes());
    }

    fn payloads(&mut self, data: impl IntoIterator<Item = (P, Bytes)>, length: Bytes) {
        let mut left = length;
        for (payload, length) in data {
            assert!(length <= left, "more data than the reply has room for");
            left -= length;
            self.output.push_payload(payload, length);
        }
        assert_eq!(left, Bytes::ZERO, "less data than the reply announces");
    }

    fn assert_chunk(&self, request: &Request, offset: Bytes, length: Bytes) {
        let inside = offset >= request.offset
            && length > Bytes::ZERO
            && offset.checked_add(length).is_some_and(|end| end <= request.offset + request.length);
        assert!(inside, "a chunk of {length} at {offset} for {request:?}");
    }
}

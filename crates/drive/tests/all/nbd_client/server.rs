//! The smallest loop that serves a connection: its duties for the client, and the properties that it relies on.

use std::{mem, sync::Arc};

use peryton_drive::nbd::{
    Command, Connection, Errno, Event, Export, Output, Piece, ProtocolError, Request, Run, Security, wire,
};
use peryton_units::Bytes;

/// The unit in which the disk is allocated.
pub const BLOCK: usize = 4096;

/// The way in which reads are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    #[default]
    Whole,
    /// Block by block, with holes as holes if the client supports that.
    Chunks,
    /// Two buffers for a reply.
    Halves,
}

pub struct Server {
    pub connection: Connection<Vec<u8>>,
    pub disk: Vec<u8>,
    pub allocated: Vec<bool>,
    pub style: Style,
    /// Everything that was sent.
    pub sent: Vec<u8>,
    /// Every request that reached the loop.
    pub requests: Vec<Request>,
    /// Every event that is not a request.
    pub events: Vec<Event>,
    /// The error for the next request.
    pub fail: Option<(Errno, String)>,
    /// Whether requests are kept without an answer.
    pub hold: bool,
    pub held: Vec<Request>,
    /// Whether the output is left unsent.
    pub deaf: bool,
    /// A write whose payload is not complete yet.
    write: Option<(Request, Vec<u8>)>,
}

impl Server {
    pub fn new(export: Export, security: Security) -> Server {
        let size = export.size.0 as usize;
        Server {
            connection: Connection::new(Arc::new(export), security),
            disk: vec![0; size],
            allocated: vec![false; size.div_ceil(BLOCK)],
            style: Style::default(),
            sent: Vec::new(),
            requests: Vec::new(),
            events: Vec::new(),
            fail: None,
            hold: false,
            held: Vec::new(),
            deaf: false,
            write: None,
        }
    }

    /// Accepts bytes from the client; returns their number, which is all of them unless the connection has to stop.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, ProtocolError> {
        let mut taken = 0;
        self.send();
        loop {
            if let Some((request, payload)) = &mut self.write {
                let missing = request.length.0 as usize - payload.len();
                let more = missing.min(bytes.len() - taken);
                payload.extend_from_slice(&bytes[taken..taken + more]);
                taken += more;
                if more < missing {
                    return Ok(taken);
                }
                let (request, payload) = self.write.take().unwrap();
                self.perform(request, &payload);
            }
            let before = self.connection.output().length().0 as usize;
            let received = self.connection.receive(&bytes[taken..]);
            let waiting = self.connection.output().length().0 as usize;
            assert!(waiting <= before.max(wire::MAX_OWN_OUTPUT + wire::MAX_OPTION as usize), "{waiting} bytes wait");
            let (consumed, event) = match received {
                Ok(received) => received,
                Err(error) => {
                    self.send();
                    assert!(self.connection.is_closed());
                    return Err(error);
                }
            };
            taken += consumed;
            let sent = self.sent.len();
            self.send();
            match event {
                Some(Event::Request(request)) => {
                    self.check(&request);
                    self.requests.push(request);
                    if request.payload() > Bytes::ZERO {
                        self.write = Some((request, Vec::new()));
                    } else {
                        self.perform(request, &[]);
                    }
                }
                Some(event) => {
                    let stop = event != Event::Ready;
                    self.events.push(event);
                    if stop {
                        return Ok(taken);
                    }
                }
                None if taken == bytes.len() || (consumed == 0 && self.sent.len() == sent) => return Ok(taken),
                None => {}
            }
        }
    }

    /// Whether the payload of a write is incomplete.
    pub fn waits_for_payload(&self) -> bool {
        self.write.is_some()
    }

    /// Checks the properties of a request that a loop relies on.
    fn check(&self, request: &Request) {
        let export = self.connection.export();
        let end = export.from + export.size;
        assert!(request.offset.checked_add(request.length).unwrap() <= end, "beyond the end: {request:?}");
        assert!(request.offset >= export.from || request.command == Command::Flush, "before the start: {request:?}");
        assert!(
            request.offset.is_multiple_of(export.block.minimum) && request.length.is_multiple_of(export.block.minimum)
        );
        assert_eq!(request.length == Bytes::ZERO, request.command == Command::Flush, "no bytes: {request:?}");
        if matches!(request.command, Command::Read { .. } | Command::Write { .. }) {
            assert!(request.length <= export.block.maximum);
        }
        if export.read_only {
            assert!(matches!(
                request.command,
                Command::Read { .. } | Command::Flush | Command::Cache | Command::Status { .. }
            ));
        }
    }

    /// Moves the output to the sent bytes.
    pub fn send(&mut self) {
        if self.deaf {
            return;
        }
        let mut batch: Output<Vec<u8>> = mem::take(self.connection.output());
        let length = batch.length().0 as usize;
        let before = self.sent.len();
        for piece in batch.pieces() {
            match piece {
                Piece::Bytes(bytes) => self.sent.extend_from_slice(bytes),
                Piece::Payload(payload, length) => self.sent.extend_from_slice(&payload[..length.0 as usize]),
            }
        }
        assert_eq!(self.sent.len() - before, length);
        batch.clear();
        assert!(batch.is_empty() && batch.count() == 0);
        *self.connection.output() = batch;
    }

    /// Answers the requests that were held.
    pub fn release(&mut self) {
        self.hold = false;
        for request in mem::take(&mut self.held) {
            self.perform(request, &[]);
        }
    }

    fn perform(&mut self, request: Request, payload: &[u8]) {
        if self.hold {
            return self.held.push(request);
        }
        if let Some((error, message)) = self.fail.take() {
            self.connection.reply_error(&request, error, &message);
            return self.send();
        }
        let (begin, end) = (request.offset.0 as usize, (request.offset + request.length).0 as usize);
        let blocks = begin / BLOCK..end.div_ceil(BLOCK);
        match request.command {
            Command::Read { unfragmented } => self.read(&request, unfragmented),
            Command::Write { .. } => {
                self.disk[begin..end].copy_from_slice(payload);
                self.allocated[blocks].fill(true);
                self.connection.reply_ok(&request);
            }
            Command::WriteZeroes { no_hole, .. } => {
                self.disk[begin..end].fill(0);
                if no_hole {
                    self.allocated[blocks].fill(true);
                }
                self.connection.reply_ok(&request);
            }
            Command::Status { .. } => {
                let runs = blocks.clone().map(|block| Run {
                    length: Bytes((end.min((block + 1) * BLOCK) - begin.max(block * BLOCK)) as u64),
                    allocated: self.allocated[block],
                    zero: !self.allocated[block],
                    devices: u32::from(self.allocated[block]) << (block / 2 % 2),
                });
                self.connection.reply_status(&request, runs.collect::<Vec<_>>());
            }
            Command::Flush | Command::Trim { .. } | Command::Cache => self.connection.reply_ok(&request),
        }
        self.send();
    }

    fn read(&mut self, request: &Request, unfragmented: bool) {
        let (begin, end) = (request.offset.0 as usize, (request.offset + request.length).0 as usize);
        let whole = self.disk[begin..end].to_vec();
        match self.style {
            Style::Chunks if self.connection.is_structured() && !unfragmented => {
                for block in begin / BLOCK..end.div_ceil(BLOCK) {
                    let (from, to) = (begin.max(block * BLOCK), end.min((block + 1) * BLOCK));
                    let (offset, length) = (Bytes(from as u64), Bytes((to - from) as u64));
                    if self.allocated[block] {
                        let data = [(self.disk[from..to].to_vec(), length)];
                        self.connection.read_data(request, offset, length, data);
                    } else {
                        self.connection.read_hole(request, offset, length);
                    }
                }
                self.connection.reply_ok(request);
            }
            Style::Halves if whole.len() > 1 => {
                let (left, right) = whole.split_at(whole.len() / 2);
                let halves = [left, right].map(|half| (half.to_vec(), Bytes(half.len() as u64)));
                self.connection.reply_read(request, halves);
            }
            _ => self.connection.reply_read(request, [(whole, request.length)]),
        }
    }
}

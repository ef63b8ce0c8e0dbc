//! Host requests between NBD and the volume: their buffers, their pieces, their answers.

use peryton_engine::{Location, Request as HostRequest, RequestError};
use peryton_recording::Flags;
use peryton_units::{Bytes, Op};

use super::{
    client::{Client, Incoming, Payload},
    front::{Answered, Ask, Front},
    outages::as_told,
    requests::{Failed, NONE, Pending, Piece},
    share,
};
use crate::{
    arena::{Memory, PAGE},
    disks::Disks,
    nbd::{Command, Errno, Request, Run},
    pool::Pool,
    status::Asked,
    volume::{Data, Volume},
};

/// Long discards go to the engine in pieces of this size. The engine divides a piece into extents, all of which are in
/// flight together.
const DISCARDED_AT_ONCE: u64 = 64 << 20;
/// The most long requests without data that have a piece in flight; they take turns.
const MOST_LONG: u32 = 4;
fn skew(offset: u64) -> usize {
    (offset % PAGE as u64) as usize
}

/// Whether a request goes to the engine in pieces, one after another.
fn is_long(request: &Request, longest_zeros: u64) -> bool {
    request.length.0 > longest_at_once(request, longest_zeros)
}

fn longest_at_once(request: &Request, longest_zeros: u64) -> u64 {
    match request.command {
        Command::Trim { .. } => DISCARDED_AT_ONCE,
        Command::WriteZeroes { .. } => longest_zeros,
        _ => u64::MAX,
    }
}

impl Front {
    /// Whether the volume has as many requests of this client as it may have.
    #[inline]
    pub(super) fn has_enough(&self, client: u32) -> bool {
        let Some(own) = &self.clients[client as usize] else { return false };
        let many = own.in_flight >= share::MOST_BESIDE_OTHERS && self.others_ask(client);
        many || own.in_flight >= share::MOST_IN_FLIGHT
    }

    /// Whether another client has sent a request lately.
    fn others_ask(&self, but: u32) -> bool {
        let asks = |(index, client): (usize, &Option<Client>)| {
            index != but as usize
                && client.as_ref().is_some_and(|other| self.now.saturating_sub(other.asked) < share::ASKS)
        };
        let block_device_asks = |asked| self.now.saturating_sub(asked) < share::ASKS;
        self.clients.iter().enumerate().any(asks) || self.block_device_asked.is_some_and(block_device_asks)
    }

    /// Accepts a request; returns `false` if it must wait for a buffer.
    #[inline]
    pub(super) fn take_in(&mut self, client: u32, request: Request) -> bool {
        if matches!(request.command, Command::Read { .. }) && !self.may_read(client, &request) {
            return false;
        }
        let pending = Pending {
            client,
            request,
            arrived: self.now,
            handed: 0,
            outstanding: 0,
            failed: None,
            flushing: false,
            abandoned: false,
            first: NONE,
            last: NONE,
        };
        let slot = self.requests.pending.add(pending);
        let longest_zeros = self.longest_zeros;
        let owner = self.clients[client as usize].as_mut().expect("a client that asks exists");
        owner.in_flight += share::count_in_flight(request.offset.0, request.length.0);
        owner.asked = self.now;
        match request.command {
            Command::Read { .. } => self.read(slot),
            Command::Write { .. } => {
                owner.incoming = Some(Incoming { request: slot, left: request.length.0, piece: None });
            }
            Command::Cache => {
                // A cache hint says that the host will read this range from the volume: see `Engine::host_dropped`.
                owner.credit -= share::steps_of_data(request.length.0.min(1 << 30) / 64);
                self.asks.push(Ask::Evict { from: request.offset, to: request.offset + request.length });
                self.answer(slot, Ok(()));
            }
            Command::WriteZeroes { fast: true, .. } => {
                let message = "zeroes are written here like any data";
                owner.nbd.reply_error(&request, Errno::NotSupported, message);
                self.release(slot);
            }
            Command::Status { one } => {
                let (from, to) = (request.offset, request.offset + request.length);
                self.asks.push(Ask::Status { request: slot, from, to, one });
            }
            Command::Trim { .. } | Command::WriteZeroes { .. } if is_long(&request, longest_zeros) => {
                let listed = !owner.long.is_empty();
                owner.long.push_back(slot);
                if !listed {
                    self.requests.long.push_back(client);
                    self.pump_long();
                }
            }
            Command::Flush | Command::Trim { .. } | Command::WriteZeroes { .. } => self.hand_on_rest(slot),
        }
        true
    }

    /// Whether there are buffers for all of a read.
    #[inline]
    fn may_read(&self, client: u32, request: &Request) -> bool {
        let held = self.clients[client as usize].as_ref().map_or(0, |client| client.held);
        let need = self.read_needs(request);
        self.shares.allows(held, need, self.pool.free_bytes())
    }

    /// The most bytes of the pool that a read takes.
    #[inline]
    fn read_needs(&self, request: &Request) -> usize {
        let (mut offset, end) = (request.offset.0, request.offset.0 + request.length.0);
        let mut need = 0;
        while offset < end {
            let len = self.shares.piece(offset, end - offset, false);
            need += Pool::rounded(skew(offset) + len);
            offset += len as u64;
        }
        need
    }

    /// Whether a request waits for more than its client's small share.
    pub(super) fn is_large(&self, client: u32, request: &Request) -> bool {
        let held = self.clients[client as usize].as_ref().map_or(0, |client| client.held);
        matches!(request.command, Command::Read { .. }) && !self.shares.is_small(held, self.read_needs(request))
    }

    /// Takes buffers for all of a read, and submits it.
    fn read(&mut self, slot: u32) {
        let Pending { client, request, .. } = *self.requests.pending.at(slot);
        let end = request.offset.0 + request.length.0;
        let mut offset = request.offset.0;
        while offset < end {
            let len = self.shares.piece(offset, end - offset, false);
            let piece = self.piece(client, slot, offset, len).expect("it was seen that there is room for all of it");
            let pending = self.requests.pending.at(slot);
            let last = std::mem::replace(&mut pending.last, piece);
            if last == NONE {
                pending.first = piece;
            } else {
                self.requests.pieces.at(last).next = piece;
            }
            offset += self.requests.pieces.at(piece).len as u64;
        }
        let mut piece = self.requests.pending.at(slot).first;
        self.requests.pending.at(slot).handed = request.length.0;
        while piece != NONE {
            let next = self.requests.pieces.at(piece).next;
            self.submit(piece, Op::Read);
            piece = next;
        }
    }

    /// Makes a piece of at most `len` bytes at `offset`, with a buffer; `None` if no page is free.
    fn piece(&mut self, client: u32, request: u32, offset: u64, len: usize) -> Option<u32> {
        let block = self.pool.take_some(skew(offset) + len)?;
        let len = len.min(Pool::bytes(&block) - skew(offset));
        let memory = self.pool.memory(&block).add(skew(offset));
        self.holds(client, Pool::bytes(&block) as isize);
        Some(self.requests.pieces.add(Piece { request, block: Some(block), memory, offset, len, next: NONE }))
    }

    /// Updates the number of bytes that a client holds of the pool.
    #[inline]
    fn holds(&mut self, client: u32, more: isize) {
        let client = self.clients[client as usize].as_mut().expect("a client waits for its requests");
        let before = client.held;
        client.held = before.checked_add_signed(more).expect("what is given back was taken");
        self.shares.changed(before, client.held);
    }

    /// Takes a buffer for the next part of an incoming payload; returns `false` if none is free.
    pub(super) fn make_room(&mut self, client: u32) -> bool {
        let owner = self.clients[client as usize].as_ref().expect("a client that sends exists");
        let Some(Incoming { request, left, piece: None }) = owner.incoming else { return true };
        let (held, pending) = (owner.held, self.requests.pending.at(request));
        let offset = pending.request.offset.0 + pending.handed;
        let found = [false, true].into_iter().find_map(|small| {
            let len = self.shares.piece(offset, left, small);
            let need = Pool::rounded(skew(offset) + len);
            self.shares.allows(held, need, self.pool.free_bytes()).then_some(len)
        });
        let Some(len) = found else { return false };
        let Some(piece) = self.piece(client, request, offset, len) else { return false };
        let (memory, len) = (self.requests.pieces.at(piece).memory, self.requests.pieces.at(piece).len);
        self.requests.pending.at(request).handed += len as u64;
        let owner = self.clients[client as usize].as_mut().expect("it was there");
        owner.incoming = Some(Incoming {
            request,
            left: left - len as u64,
            piece: Some(super::client::Filling { piece, memory, filled: 0, len }),
        });
        true
    }

    /// Submits a part of a payload that is complete.
    pub(super) fn came(&mut self, client: u32) {
        let owner = self.clients[client as usize].as_mut().expect("a client that sends exists");
        let incoming = owner.incoming.as_mut().expect("its payload came");
        let piece = incoming.piece.take().expect("into a buffer").piece;
        if incoming.left == 0 {
            owner.incoming = None;
        }
        let steps = share::steps_of_data(self.requests.pieces.at(piece).len as u64) - 1;
        owner.credit -= steps;
        self.submit(piece, Op::Write);
    }

    /// Abandons a write whose remaining payload will not come.
    pub(super) fn abandon(&mut self, incoming: Incoming) {
        if let Some(filling) = incoming.piece {
            self.release_piece(filling.piece);
        }
        let pending = self.requests.pending.at(incoming.request);
        pending.abandoned = true;
        if pending.outstanding == 0 {
            self.release(incoming.request);
        }
    }

    #[inline]
    fn submit(&mut self, piece: u32, op: Op) {
        let Piece { request, memory, offset, len, .. } = *self.requests.pieces.at(piece);
        self.requests.pending.at(request).outstanding += 1;
        let (offset, data) = match op {
            Op::Flush => (Bytes::ZERO, Data::None),
            Op::Discard => (Bytes(offset), Data::None),
            Op::Write if memory == Memory::NONE => {
                let command = self.requests.pending.at(request).request.command;
                (Bytes(offset), Data::Zeros { allocate: matches!(command, Command::WriteZeroes { no_hole: true, .. }) })
            }
            Op::Read | Op::Write => (Bytes(offset), Data::At(memory)),
        };
        let asked = HostRequest { op, offset, len: Bytes(len as u64) };
        self.asks.push(Ask::Submit { piece, asked, data });
    }

    /// Submits the next part of a request without data; nearly always that is all of it.
    fn hand_on_rest(&mut self, slot: u32) {
        let longest_zeros = self.longest_zeros;
        let pending = self.requests.pending.at(slot);
        let Request { command, offset, length, .. } = pending.request;
        let len = (length.0 - pending.handed).min(longest_at_once(&pending.request, longest_zeros));
        let (op, len) = match command {
            _ if pending.flushing => (Op::Flush, 0),
            Command::Trim { .. } => (Op::Discard, len),
            Command::WriteZeroes { .. } => (Op::Write, len),
            _ => (Op::Flush, 0),
        };
        let offset = offset.0 + pending.handed;
        pending.handed += len;
        let piece = Piece { request: slot, block: None, memory: Memory::NONE, offset, len: len as usize, next: NONE };
        let piece = self.requests.pieces.add(piece);
        self.submit(piece, op);
    }

    /// Lets long requests continue: one piece of each client in turn.
    fn pump_long(&mut self) {
        while self.requests.long_in_flight < MOST_LONG {
            let Some(client) = self.requests.long.pop_front() else { return };
            let owner = self.clients[client as usize].as_ref().expect("a client waits for its requests");
            let slot = *owner.long.front().expect("a client that is listed has a long request");
            self.requests.long_in_flight += 1;
            self.hand_on_rest(slot);
        }
    }

    /// Handles the end of a piece of a long request; returns `true` if more of it follows.
    fn long_went_on(&mut self, slot: u32) -> bool {
        let stopping = self.stopping.is_some();
        let pending = self.requests.pending.at(slot);
        let client = pending.client;
        let owner = self.clients[client as usize].as_mut().expect("a client waits for its requests");
        let rest = pending.handed < pending.request.length.0;
        if rest && pending.failed.is_none() && (stopping || owner.state == super::client::State::Cut) {
            pending.failed = Some(Failed::Stopping);
        }
        let goes_on = rest && pending.failed.is_none();
        if !goes_on {
            owner.long.pop_front();
        }
        if !owner.long.is_empty() {
            self.requests.long.push_back(client);
        }
        self.requests.long_in_flight -= 1;
        goes_on
    }

    /// Abandons the parts of a client's long requests that have not begun.
    pub(super) fn drop_long_of(&mut self, client: u32) {
        let listed = self.requests.long.iter().position(|other| *other == client);
        if let Some(at) = listed {
            self.requests.long.remove(at);
        }
        let Some(owner) = self.clients[client as usize].as_mut() else { return };
        // The first request has a piece in flight, unless it is listed.
        let keep = usize::from(listed.is_none()).min(owner.long.len());
        let dropped = owner.long.split_off(keep);
        for slot in dropped {
            self.answer(slot, Err(Failed::Stopping));
        }
    }

    /// Handles an answer of the engine: continues with the next part or the requested flush, or answers the client.
    #[inline]
    pub(super) fn replied(&mut self, piece: u32, result: Result<(), RequestError>) {
        let slot = self.requests.pieces.at(piece).request;
        let longest_zeros = self.longest_zeros;
        let pending = self.requests.pending.at(slot);
        pending.outstanding -= 1;
        let Pending { request, flushing, client, .. } = *pending;
        let result = match &mut self.clients[client as usize] {
            Some(client) if flushing || matches!(request.command, Command::Flush) => {
                self.flush_errors.answer(&mut client.heard, result, self.flush_error_causes)
            }
            _ => result,
        };
        if let Err(error) = result {
            pending.failed.get_or_insert(Failed::Engine(error));
        }
        if !matches!(request.command, Command::Read { .. }) {
            self.release_piece(piece);
        }
        if !flushing && is_long(&request, longest_zeros) {
            let goes_on = self.long_went_on(slot);
            self.pump_long();
            if goes_on {
                return;
            }
        }
        let pending = self.requests.pending.at(slot);
        let is_write = matches!(request.command, Command::Write { .. });
        if pending.outstanding > 0 || (is_write && !flushing && !pending.abandoned && self.is_coming(slot)) {
            return;
        }
        let pending = self.requests.pending.at(slot);
        if pending.abandoned {
            return self.release(slot);
        }
        let durable = flags_of(request.command).has(Flags::DURABLE);
        if durable && !flushing && pending.failed.is_none() {
            pending.flushing = true;
            return self.hand_on_rest(slot);
        }
        let result = pending.failed.map_or(Ok(()), Err);
        self.answer(slot, result);
    }

    /// Whether more of this request's payload is to come.
    fn is_coming(&mut self, slot: u32) -> bool {
        let client = self.requests.pending.at(slot).client;
        let client = self.clients[client as usize].as_ref().expect("a client waits for its requests");
        client.incoming.is_some_and(|incoming| incoming.request == slot)
    }

    #[inline]
    fn answer(&mut self, slot: u32, result: Result<(), Failed>) {
        let Pending { request, client: index, arrived, .. } = *self.requests.pending.at(slot);
        let took = self.now.saturating_sub(arrived);
        let flags = flags_of(request.command).with(Flags::FAILED.when(result.is_err()));
        let (asked, offset, len) = (kind_of(request.command), request.offset, request.length);
        self.answered.push(Answered { asked, took, offset, len, flags });
        match result {
            Ok(()) if matches!(request.command, Command::Read { .. }) => {
                // The buffers stay in use by the socket until the data is sent.
                let (mut next, pieces) = (self.requests.pending.at(slot).first, &mut self.requests.pieces);
                let payloads = std::iter::from_fn(|| {
                    let piece = (next != NONE).then(|| std::mem::replace(&mut next, NONE))?;
                    let row = pieces.at(piece);
                    next = row.next;
                    Some((Payload { memory: row.memory, piece }, Bytes(row.len as u64)))
                });
                self.clients[index as usize].as_mut().expect("it waits").nbd.reply_read(&request, payloads);
            }
            Ok(()) => {
                self.clients[index as usize].as_mut().expect("it waits").nbd.reply_ok(&request);
                self.release(slot);
            }
            Err(error) => {
                let (errno, message) = match error {
                    Failed::Stopping => (Errno::Shutdown, "the server is shutting down".to_owned()),
                    Failed::Engine(error) => {
                        let told = as_told(error, asked == Asked::Read);
                        (errno(told), told.to_string())
                    }
                };
                self.clients[index as usize].as_mut().expect("it waits").nbd.reply_error(&request, errno, &message);
                let mut piece = self.requests.pending.at(slot).first;
                if piece == NONE {
                    self.release(slot);
                }
                while piece != NONE {
                    let next = self.requests.pieces.at(piece).next;
                    self.sent_piece(piece);
                    piece = next;
                }
            }
        }
        self.list(index);
    }

    /// Answers where the blocks of a range are.
    pub(super) fn told_status(&mut self, slot: u32, runs: &[Run]) {
        let Pending { request, client, .. } = *self.requests.pending.at(slot);
        let owner = self.clients[client as usize].as_mut().expect("a client waits for its requests");
        owner.nbd.reply_status(&request, runs.iter().copied());
        owner.credit -= share::steps_of_lookups(runs.len() as u64);
        self.release(slot);
        self.list(client);
    }

    /// Ends a piece of a read that was sent or will not be; with the last piece the request ends.
    #[inline]
    pub(super) fn sent_piece(&mut self, piece: u32) {
        let slot = self.requests.pieces.at(piece).request;
        let is_last = self.requests.pending.at(slot).last == piece;
        self.release_piece(piece);
        if is_last {
            self.release(slot);
        }
    }

    #[inline]
    fn release_piece(&mut self, piece: u32) {
        let Piece { request, block, .. } = self.requests.pieces.take(piece);
        if let Some(block) = block {
            let client = self.requests.pending.at(request).client;
            self.holds(client, -(Pool::bytes(&block) as isize));
            self.pool.free(block);
            self.released = true;
        }
    }

    /// Ends an answered request.
    #[inline]
    fn release(&mut self, slot: u32) {
        let pending = self.requests.pending.take(slot);
        let client = self.clients[pending.client as usize].as_mut().expect("a client waits for its requests");
        client.in_flight -= share::count_in_flight(pending.request.offset.0, pending.request.length.0);
        self.released = true;
    }
}

/// The kind of a request in the figures.
fn kind_of(command: Command) -> Asked {
    match command {
        Command::Read { .. } => Asked::Read,
        Command::Write { .. } | Command::WriteZeroes { .. } => Asked::Write,
        Command::Flush => Asked::Flush,
        Command::Trim { .. } => Asked::Discard,
        Command::Cache | Command::Status { .. } => Asked::Other,
    }
}

/// The flags with which a request is recorded.
#[inline]
fn flags_of(command: Command) -> Flags {
    let (fua, zeros) = match command {
        Command::Write { fua } | Command::Trim { fua } => (fua, false),
        Command::WriteZeroes { fua, .. } => (fua, true),
        _ => (false, false),
    };
    Flags::DURABLE.when(fua).with(Flags::ZEROS.when(zeros))
}

/// The operation with which a request is recorded, if it is recorded.
#[inline]
pub(super) fn row_of(asked: Asked, offset: Bytes, len: Bytes) -> Option<(Op, Bytes, Bytes)> {
    match asked {
        Asked::Read => Some((Op::Read, offset, len)),
        Asked::Write => Some((Op::Write, offset, len)),
        Asked::Discard => Some((Op::Discard, offset, len)),
        Asked::Flush => Some((Op::Flush, Bytes::ZERO, Bytes::ZERO)),
        // Hints and questions about blocks move no data.
        Asked::Other => None,
    }
}

fn errno(error: RequestError) -> Errno {
    match error {
        RequestError::OutOfRange => Errno::Invalid,
        RequestError::NoSpace => Errno::NoSpace,
        RequestError::Device | RequestError::Lost => Errno::Io,
    }
}

/// Where the blocks of a range are, as far as [`share::MOST_LOOKUPS`] lookups lead, or, if only `one` answer is wanted, to where
/// everything is different.
pub(super) fn runs(volume: &Volume<Disks>, from: Bytes, to: Bytes, one: bool) -> Box<[Run]> {
    let found = std::iter::successors(volume.location(from).map(|at| (from, at)), |(from, at)| {
        let next = *from + at.len;
        volume.location(next).filter(|_| next < to).map(|at| (next, at))
    });
    let mut runs: Vec<Run> = Vec::new();
    let (mut state_ends, mut devices_end) = (false, false);
    for (_, at) in found.take(share::MOST_LOOKUPS) {
        let run = run(&at);
        runs.push(run);
        state_ends |= (run.allocated, run.zero) != (runs[0].allocated, runs[0].zero);
        devices_end |= run.devices != runs[0].devices;
        if one && state_ends && devices_end {
            break;
        }
    }
    runs.into()
}

fn run(at: &Location) -> Run {
    // Data that was never written reads as zeros; after a discard it may or may not.
    let devices = at.device.map_or(0, |device| 1 << device.index().min(31));
    Run { length: at.len, allocated: at.mapped, zero: !at.mapped, devices }
}

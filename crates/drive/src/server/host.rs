//! Host requests between NBD and the volume: buffers for them, their steps, their answers.

use peryton_engine::{Location, Request as HostRequest, RequestError, RequestId};
use peryton_units::{Bytes, Nanos, Op};

use super::{Server, client::Payload};
use crate::{
    arena::{Memory, PAGE},
    nbd::{Command, Errno, Request, Run},
    pool::Block,
    volume::Data,
};

/// A discard is handed to the engine in pieces of this size: each is divided by extents, and all of a piece is in flight
/// at once.
const DISCARDED_AT_ONCE: u64 = 64 << 20;

/// A host request that the volume has.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) client: u32,
    pub(super) request: Request,
    block: Option<Block>,
    memory: Memory,
    pub(super) arrived: Nanos,
    /// Bytes of it that have been handed to the engine.
    handed: u64,
    /// All of it is written; what is left is the flush that was asked for.
    flushing: bool,
}

/// A client may have one part in so many of the pool, and one request in any case: one that never takes its answers
/// should not make the others wait.
const SHARES: usize = 4;

/// How long the buffer of a request has to be: the data lies in it as it lies in the blocks of the volume, so that most
/// of it needs no copying to suit a device.
fn buffer_len(request: &Request) -> usize {
    match request.command {
        Command::Read { .. } | Command::Write { .. } => skew(request) + request.length.0 as usize,
        _ => 0,
    }
}

fn skew(request: &Request) -> usize {
    (request.offset.0 % PAGE as u64) as usize
}

impl Server {
    /// Whether a client has to wait for itself.
    #[inline]
    pub(super) fn has_its_share(&self, client: u32, request: &Request) -> bool {
        let held = self.clients[client as usize].as_ref().map_or(0, |client| client.held);
        held > 0 && held + buffer_len(request) > self.pool.arena().len() / SHARES
    }

    /// Takes a request in; `false` if there is no buffer for it now.
    #[inline]
    pub(super) fn take_in(&mut self, client: u32, request: Request) -> bool {
        let (mut block, mut memory) = (None, Memory::NONE);
        if matches!(request.command, Command::Read { .. } | Command::Write { .. }) {
            let Some(taken) = self.pool.take(buffer_len(&request)) else { return false };
            memory = self.pool.memory(&taken).add(skew(&request));
            block = Some(taken);
        }
        let pending = Pending { client, request, block, memory, arrived: self.now, handed: 0, flushing: false };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.pending[slot as usize] = Some(pending);
                slot
            }
            None => {
                self.pending.push(Some(pending));
                self.pending.len() as u32 - 1
            }
        };
        let owner = self.clients[client as usize].as_mut().expect("a client that asks exists");
        owner.in_flight += 1;
        owner.held += buffer_len(&request);
        match request.command {
            Command::Write { .. } => {
                let len = request.length.0 as usize;
                owner.incoming = Some(super::client::Incoming { slot, memory, filled: 0, len });
            }
            Command::Cache => self.answer(slot, Ok(())),
            Command::WriteZeroes { fast: true, .. } => {
                let message = "zeroes are written here like any data";
                owner.nbd.reply_error(&request, Errno::NotSupported, message);
                self.release(slot);
            }
            Command::Status { .. } => {
                let engine = self.volume.engine();
                let end = request.offset + request.length;
                let runs = std::iter::successors(
                    engine.location(request.offset).map(|at| (request.offset, at)),
                    |(from, at)| {
                        let next = *from + at.len;
                        engine.location(next).filter(|_| next < end).map(|at| (next, at))
                    },
                );
                owner.nbd.reply_status(&request, runs.map(|(_, at)| run(&at)));
                self.release(slot);
            }
            Command::Read { .. } | Command::Flush | Command::Trim { .. } | Command::WriteZeroes { .. } => {
                self.hand_on(slot);
            }
        }
        true
    }

    /// Hands the next part of a request to the engine: nearly always all of it.
    #[inline]
    pub(super) fn hand_on(&mut self, slot: u32) {
        let pending = self.pending[slot as usize].as_mut().expect("a request in flight has a row");
        let Request { command, offset, length, .. } = pending.request;
        let rest = length.0 - pending.handed;
        let (op, len, data) = match command {
            _ if pending.flushing => (Op::Flush, 0, Data::None),
            Command::Read { .. } => (Op::Read, rest, Data::At(pending.memory)),
            Command::Write { .. } => (Op::Write, rest, Data::At(pending.memory)),
            Command::Trim { .. } => (Op::Discard, rest.min(DISCARDED_AT_ONCE), Data::None),
            Command::WriteZeroes { .. } => (Op::Write, rest.min(self.volume.longest_zeros()), Data::Zeros),
            Command::Flush | Command::Cache | Command::Status { .. } => (Op::Flush, 0, Data::None),
        };
        let offset = if op == Op::Flush { Bytes::ZERO } else { offset + Bytes(pending.handed) };
        pending.handed += len;
        let id = RequestId(u64::from(slot));
        self.volume.submit(self.now, id, HostRequest { op, offset, len: Bytes(len) }, data);
    }

    /// The engine has answered: the next part, the flush that was asked for, or the client's answer.
    #[inline]
    pub(super) fn replied(&mut self, slot: u32, result: Result<(), RequestError>) {
        let pending = self.pending[slot as usize].as_mut().expect("a request in flight has a row");
        if result.is_ok() && !pending.flushing {
            let durable = matches!(
                pending.request.command,
                Command::Write { fua: true } | Command::Trim { fua: true } | Command::WriteZeroes { fua: true, .. }
            );
            if pending.handed < pending.request.length.0 {
                return self.hand_on(slot);
            }
            if durable {
                pending.flushing = true;
                return self.hand_on(slot);
            }
        }
        self.answer(slot, result);
    }

    #[inline]
    fn answer(&mut self, slot: u32, result: Result<(), RequestError>) {
        let pending = self.pending[slot as usize].as_ref().expect("a request in flight has a row");
        let (request, index) = (pending.request, pending.client);
        self.awake.answered();
        self.latencies.record(
            request.command,
            self.now.saturating_sub(pending.arrived),
            request.length,
            result.is_ok(),
        );
        let client = self.clients[index as usize].as_mut().expect("a client waits for its requests");
        match result {
            Ok(()) if matches!(request.command, Command::Read { .. }) => {
                // The buffer is the socket's until the data has gone.
                let payload = Payload { memory: pending.memory, slot };
                client.nbd.reply_read(&request, [(payload, request.length)]);
            }
            Ok(()) => {
                client.nbd.reply_ok(&request);
                self.release(slot);
            }
            Err(error) => {
                let errno = match error {
                    RequestError::OutOfRange => Errno::Invalid,
                    RequestError::NoSpace => Errno::NoSpace,
                    RequestError::Device | RequestError::Lost => Errno::Io,
                };
                client.nbd.reply_error(&request, errno, &error.to_string());
                self.release(slot);
            }
        }
        self.list(index);
    }

    /// The request is answered and its buffer free.
    #[inline]
    pub(super) fn release(&mut self, slot: u32) {
        let pending = self.pending[slot as usize].take().expect("a request is released once");
        self.free.push(slot);
        if let Some(block) = pending.block {
            self.pool.free(block);
        }
        let client = self.clients[pending.client as usize].as_mut().expect("a client waits for its requests");
        client.in_flight -= 1;
        client.held -= buffer_len(&pending.request);
        if client.starved.is_some() && !self.starved.contains(&pending.client) {
            self.starved.push_back(pending.client);
        }
        self.released = true;
    }
}

fn run(at: &Location) -> Run {
    // What was never written reads as zeros; a hint that was never obeyed may leave it so or not.
    let devices = at.device.map_or(0, |device| 1 << device.index().min(31));
    Run { length: at.len, allocated: at.mapped, zero: !at.mapped, devices }
}

//! One NBD client: its socket, and the bytes between the socket and the protocol.

use std::{
    mem,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    sync::Arc,
};

use peryton_units::Nanos;

use crate::{
    arena::Memory,
    kernel::Message,
    nbd::{Connection, Export, Output, Piece, Request, Security, TlsError, TlsServer, TlsSession},
};

/// How much is read ahead of a client. Payloads of writes beyond it go straight to their buffers.
const INPUT: usize = 64 << 10;
/// Plain text that is encrypted at once, about: several records.
const ENCRYPTED: usize = 256 << 10;

/// The data of a read that waits to be sent.
#[derive(Debug)]
pub(super) struct Payload {
    pub(super) memory: Memory,
    /// The request that it answers.
    pub(super) slot: u32,
}

/// A write whose payload is being received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub(super) slot: u32,
    pub(super) memory: Memory,
    pub(super) filled: usize,
    pub(super) len: usize,
}

/// TLS, where it is used.
#[derive(Debug)]
enum Tls {
    /// A unix socket.
    Never,
    /// The client has not asked for it yet.
    Awaited(Arc<TlsServer>),
    Started(Box<TlsSession>),
}

/// Where a client stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// Nothing more is taken from it; what it asked for is answered.
    Finishing,
    /// It is cut off; what is under way for it is waited for.
    Cut,
}

#[derive(Debug)]
pub(super) struct Client {
    socket: OwnedFd,
    pub(super) nbd: Connection<Payload>,
    tls: Tls,
    pub(super) state: State,
    /// For the log.
    pub(super) peer: String,
    /// Received from the socket and not yet understood: plain text, or TLS records.
    input: Box<[u8]>,
    from: usize,
    to: usize,
    /// Plain text out of TLS.
    plain: Vec<u8>,
    plain_from: usize,
    pub(super) incoming: Option<Incoming>,
    /// A request that waits for a buffer.
    pub(super) starved: Option<Request>,
    message: Message,
    pub(super) receiving: bool,
    /// What is being sent.
    batch: Output<Payload>,
    encrypted: Vec<u8>,
    /// What goes out next, before anything else: the go-ahead for TLS, in the clear.
    go_ahead: Vec<u8>,
    outgoing: Message,
    pub(super) sending: bool,
    /// It stands in the list of those that have something to send.
    pub(super) listed: bool,
    /// Requests of it that the volume has.
    pub(super) in_flight: u32,
    /// Bytes of buffers that they have.
    pub(super) held: usize,
    /// The last time that bytes went either way.
    pub(super) active: Nanos,
}

impl Client {
    pub(super) fn new(
        socket: OwnedFd,
        peer: String,
        export: Arc<Export>,
        tls: Option<Arc<TlsServer>>,
        now: Nanos,
    ) -> Client {
        let security = if tls.is_some() { Security::TlsRequired } else { Security::Plain };
        Client {
            socket,
            nbd: Connection::new(export, security),
            tls: tls.map_or(Tls::Never, Tls::Awaited),
            state: State::Open,
            peer,
            input: vec![0; INPUT].into_boxed_slice(),
            from: 0,
            to: 0,
            plain: Vec::new(),
            plain_from: 0,
            incoming: None,
            starved: None,
            message: Message::default(),
            receiving: false,
            batch: Output::default(),
            encrypted: Vec::new(),
            go_ahead: Vec::new(),
            outgoing: Message::default(),
            sending: false,
            listed: false,
            in_flight: 0,
            held: 0,
            active: now,
        }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Whether nothing is under way for it, and nothing will be.
    pub(super) fn is_over(&mut self) -> bool {
        let silent = self.state == State::Cut || self.state == State::Finishing && self.nbd.output().is_empty();
        silent && !self.receiving && !self.sending && self.in_flight == 0
    }

    /// Whether no deadline applies to it.
    pub(super) fn is_at_ease(&self) -> bool {
        self.state == State::Open && self.nbd.is_ready() && self.incoming.is_none() && !self.sending
    }

    /// Ends both directions: what the kernel has of it comes back.
    pub(super) fn cut(&mut self) {
        self.state = State::Cut;
        // A socket that is no longer connected is what we want.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// What to receive into next: the rest of a payload, and behind it the input buffer.
    pub(super) fn receive_into(&mut self) -> &mut Message {
        debug_assert!(self.from == self.to && !self.receiving);
        (self.from, self.to) = (0, 0);
        self.message.clear();
        if let (Some(incoming), Tls::Never) = (self.incoming, &self.tls) {
            self.message.push(incoming.memory.add(incoming.filled), incoming.len - incoming.filled);
        }
        // SAFETY: the input is the client's, which is kept until the kernel has answered, and is not touched meanwhile.
        self.message.push(unsafe { Memory::of(&mut self.input) }, INPUT);
        self.receiving = true;
        &mut self.message
    }

    /// So many bytes have come.
    pub(super) fn received(&mut self, mut bytes: usize) {
        if let (Some(incoming), Tls::Never) = (&mut self.incoming, &self.tls) {
            let direct = bytes.min(incoming.len - incoming.filled);
            incoming.filled += direct;
            bytes -= direct;
        }
        self.to = bytes;
    }

    /// Whether everything that came has been understood, so that more can be received.
    pub(super) fn is_drained(&self) -> bool {
        self.from == self.to && self.plain_from == self.plain.len()
    }

    /// Decrypts what has come, where that is to be done.
    pub(super) fn decrypt(&mut self) -> Result<(), TlsError> {
        let Tls::Started(session) = &mut self.tls else { return Ok(()) };
        if self.plain_from < self.plain.len() {
            return Ok(());
        }
        self.plain.clear();
        self.plain_from = 0;
        loop {
            let taken = session.receive(&self.input[self.from..self.to]);
            self.from += *taken.as_ref().unwrap_or(&0);
            let before = self.plain.len();
            self.plain.resize(before + INPUT, 0);
            let got = session.plain(&mut self.plain[before..]);
            self.plain.truncate(before + got);
            let stuck = got == 0 && *taken.as_ref().unwrap_or(&0) == 0;
            taken?;
            // All of the input, which bounds what comes out of it: nobody else would look at a rest.
            if stuck || (got == 0 && self.from == self.to) {
                return Ok(());
            }
        }
    }

    /// The client has ended TLS, and nothing more of it is to come.
    pub(super) fn has_ended_tls(&self) -> bool {
        matches!(&self.tls, Tls::Started(session) if session.is_closed()) && self.plain_from == self.plain.len()
    }

    /// Whether TLS was asked for and is not yet agreed upon.
    pub(super) fn is_shaking_hands(&self) -> bool {
        matches!(&self.tls, Tls::Started(session) if !session.is_ready())
    }

    /// The client may begin TLS once it has our acknowledgement.
    pub(super) fn start_tls(&mut self) {
        let Tls::Awaited(server) = &self.tls else { unreachable!("TLS was offered and not yet begun") };
        self.tls = Tls::Started(Box::new(server.session()));
        // The acknowledgement is the last thing that goes out in the clear.
        for piece in self.nbd.output().pieces() {
            if let Piece::Bytes(bytes) = piece {
                self.go_ahead.extend_from_slice(bytes);
            }
        }
        self.nbd.output().clear();
        self.nbd.tls_started();
    }

    /// What is to be understood next.
    #[inline]
    pub(super) fn unread(&self) -> &[u8] {
        match self.tls {
            Tls::Started(_) => &self.plain[self.plain_from..],
            _ => &self.input[self.from..self.to],
        }
    }

    #[inline]
    pub(super) fn consume(&mut self, bytes: usize) {
        match self.tls {
            Tls::Started(_) => self.plain_from += bytes,
            _ => self.from += bytes,
        }
    }

    /// Hands the next event of the protocol out.
    #[inline]
    pub(super) fn next_event(&mut self) -> Result<Option<crate::nbd::Event>, crate::nbd::ProtocolError> {
        let unread = match self.tls {
            Tls::Started(_) => &self.plain[self.plain_from..],
            _ => &self.input[self.from..self.to],
        };
        let (taken, event) = self.nbd.receive(unread)?;
        self.consume(taken);
        Ok(event)
    }

    /// Moves what has come of a payload to its buffer. `true` when the payload is whole.
    pub(super) fn fill(&mut self) -> bool {
        let Some(mut incoming) = self.incoming else { return false };
        let unread = self.unread();
        let len = unread.len().min(incoming.len - incoming.filled);
        // SAFETY: the buffer is this request's alone until its payload is whole.
        let into = unsafe { incoming.memory.add(incoming.filled).slice_mut(len) };
        into.copy_from_slice(&unread[..len]);
        self.consume(len);
        incoming.filled += len;
        self.incoming = Some(incoming);
        incoming.filled == incoming.len
    }

    /// Gathers what is to be sent; `None` if there is nothing, or something is under way.
    pub(super) fn send_from(&mut self) -> Option<&mut Message> {
        if self.sending || self.state == State::Cut {
            return None;
        }
        self.outgoing.clear();
        match &mut self.tls {
            Tls::Started(session) => {
                self.encrypted.append(&mut self.go_ahead);
                session.pending(&mut self.encrypted);
                if session.is_ready() && !self.nbd.output().is_empty() {
                    self.batch = mem::take(self.nbd.output());
                    for piece in self.batch.pieces() {
                        match piece {
                            Piece::Bytes(bytes) => session.encrypt(bytes, &mut self.encrypted),
                            // SAFETY: the payload stays as it is until it is given back.
                            Piece::Payload(payload, len) => {
                                session.encrypt(unsafe { payload.memory.slice(len.0 as usize) }, &mut self.encrypted);
                            }
                        }
                    }
                }
                if self.encrypted.is_empty() {
                    return None;
                }
                // SAFETY: the client is kept, and this not changed, until the kernel has sent it.
                self.outgoing.push(unsafe { Memory::of(&mut self.encrypted) }, self.encrypted.len());
            }
            Tls::Never | Tls::Awaited(_) => {
                if self.nbd.output().is_empty() {
                    return None;
                }
                self.batch = mem::take(self.nbd.output());
                for piece in self.batch.pieces() {
                    match piece {
                        // SAFETY: the reply's bytes are kept until they are sent, and only read.
                        Piece::Bytes(bytes) => self.outgoing.push(unsafe { Memory::of_const(bytes) }, bytes.len()),
                        Piece::Payload(payload, len) => self.outgoing.push(payload.memory, len.0 as usize),
                    }
                }
            }
        }
        self.sending = true;
        Some(&mut self.outgoing)
    }

    /// So many bytes have gone. `None` if that was all; otherwise what is left.
    pub(super) fn sent(&mut self, bytes: usize) -> Option<&mut Message> {
        self.outgoing.advance(bytes);
        if !self.outgoing.is_empty() {
            return Some(&mut self.outgoing);
        }
        None
    }

    /// Everything has gone, or never will: the payloads come back.
    pub(super) fn end_sending(&mut self) -> impl Iterator<Item = Payload> + use<'_> {
        self.sending = false;
        self.outgoing.clear();
        self.encrypted.clear();
        self.encrypted.shrink_to(ENCRYPTED);
        self.batch.drain()
    }

    /// Payloads that will never be sent.
    pub(super) fn abandoned(&mut self) -> impl Iterator<Item = Payload> + use<'_> {
        self.nbd.output().drain()
    }
}

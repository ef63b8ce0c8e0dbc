//! One NBD client: its socket, and the bytes between the socket and the protocol.

use std::{
    collections::VecDeque,
    mem,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
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
    /// The piece of a request that it answers.
    pub(super) piece: u32,
}

/// A write whose payload is being received, a piece at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub(super) request: u32,
    /// Bytes that have no piece yet.
    pub(super) left: u64,
    /// Where the next bytes go; nowhere while there is no buffer.
    pub(super) piece: Option<Filling>,
}

/// A piece of a payload that is being received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filling {
    pub(super) piece: u32,
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
    /// Another thread goes on with its handshake.
    Away,
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
    /// A request that waits for a buffer, or until fewer of its client are in flight.
    pub(super) starved: Option<Request>,
    /// It stands in the list of those that wait so.
    pub(super) waits: bool,
    message: Message,
    pub(super) receiving: bool,
    /// What is being sent.
    batch: Output<Payload>,
    /// Pieces of the batch that are encrypted, and bytes of the next one.
    batch_done: (usize, usize),
    encrypted: Vec<u8>,
    /// What goes out next, before anything else: the go-ahead for TLS, in the clear.
    go_ahead: Vec<u8>,
    outgoing: Message,
    pub(super) sending: bool,
    /// It stands in the list of those that have something to send.
    pub(super) listed: bool,
    /// Requests of it that the volume has.
    pub(super) in_flight: u32,
    /// When the last one came; long ago before the first.
    pub(super) asked: Nanos,
    /// Bytes of buffers that they have.
    pub(super) held: usize,
    /// When it connected, and the last time that bytes went either way, as the loop's attention goes.
    pub(super) since: Nanos,
    pub(super) active: Nanos,
    /// Bytes that went either way since the start of `span`.
    pub(super) moved: u64,
    pub(super) span: Nanos,
    /// Where it comes from: an address or a process.
    pub(super) origin: String,
    /// That it is connected is an event.
    pub(super) told: bool,
    /// What the loop may still do for it in this turn.
    pub(super) credit: i64,
    /// It stands in the list of those that go on in the next turn.
    pub(super) later: bool,
    /// Its long requests without data, in order.
    pub(super) long: VecDeque<u32>,
    /// Tells the thread of handshakes that nobody waits for this one.
    pub(super) gone: Arc<AtomicBool>,
}

impl Client {
    pub(super) fn new(
        socket: OwnedFd,
        (peer, origin): (String, String),
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
            waits: false,
            message: Message::default(),
            receiving: false,
            batch: Output::default(),
            batch_done: (0, 0),
            encrypted: Vec::new(),
            go_ahead: Vec::new(),
            outgoing: Message::default(),
            sending: false,
            listed: false,
            in_flight: 0,
            asked: Nanos::ZERO,
            held: 0,
            since: now,
            active: now,
            moved: 0,
            span: now,
            origin,
            told: false,
            credit: 0,
            later: false,
            long: VecDeque::new(),
            gone: Arc::default(),
        }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Whether nothing is under way for it, and nothing will be.
    pub(super) fn is_over(&mut self) -> bool {
        let sent = self.nbd.output().is_empty() && self.batch.is_empty();
        let silent = self.state == State::Cut || self.state == State::Finishing && sent;
        silent && !self.receiving && !self.sending && self.in_flight == 0 && !matches!(self.tls, Tls::Away)
    }

    /// Whether it has not finished its handshake.
    pub(super) fn is_stranger(&self) -> bool {
        self.state == State::Open && !self.nbd.is_ready()
    }

    /// Whether it uses the volume.
    pub(super) fn is_user(&self) -> bool {
        self.state == State::Open && self.nbd.is_ready()
    }

    /// Whether its session takes no more of what there is to say: it has failed.
    pub(super) fn is_deaf(&self) -> bool {
        self.state != State::Cut && !self.sending && !self.batch.is_empty()
    }

    /// So many bytes went either way.
    pub(super) fn progressed(&mut self, now: Nanos, bytes: u64) {
        self.active = now;
        self.moved += bytes;
    }

    /// Whether no deadline applies to it.
    pub(super) fn is_at_ease(&self) -> bool {
        self.state == State::Open && self.nbd.is_ready() && self.incoming.is_none() && !self.sending
    }

    /// Ends both directions: what the kernel has of it comes back.
    pub(super) fn cut(&mut self) {
        self.state = State::Cut;
        self.gone.store(true, Ordering::Relaxed);
        // A socket that is no longer connected is what we want.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// What to receive into next: the rest of a payload, and behind it the input buffer.
    pub(super) fn receive_into(&mut self) -> &mut Message {
        debug_assert!(self.from == self.to && !self.receiving);
        (self.from, self.to) = (0, 0);
        self.message.clear();
        let mut behind = true;
        if let (Some(incoming), Tls::Never) = (&self.incoming, &self.tls) {
            let piece = incoming.piece.expect("nothing is received before there is a buffer for it");
            self.message.push(piece.memory.add(piece.filled), piece.len - piece.filled);
            // What comes behind this piece belongs into the next one, which has no buffer yet.
            behind = incoming.left == 0;
        }
        if behind {
            // SAFETY: the input is the client's, which is kept until the kernel has answered, and is not touched meanwhile.
            self.message.push(unsafe { Memory::of(&mut self.input) }, INPUT);
        }
        self.receiving = true;
        &mut self.message
    }

    /// So many bytes have come.
    pub(super) fn received(&mut self, mut bytes: usize) {
        if let (Some(Incoming { piece: Some(piece), .. }), Tls::Never) = (&mut self.incoming, &self.tls) {
            let direct = bytes.min(piece.len - piece.filled);
            piece.filled += direct;
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
        match &self.tls {
            Tls::Started(session) => !session.is_ready(),
            Tls::Away => true,
            Tls::Never | Tls::Awaited(_) => false,
        }
    }

    /// The session and what has come for it, for another thread to go on with the handshake; `None` if nothing has come, or
    /// it is there already.
    pub(super) fn hand_over(&mut self) -> Option<(Box<TlsSession>, Vec<u8>)> {
        if self.from == self.to {
            return None;
        }
        let bytes = self.input[self.from..self.to].to_vec();
        match mem::replace(&mut self.tls, Tls::Away) {
            Tls::Started(session) => {
                (self.from, self.to) = (0, 0);
                Some((session, bytes))
            }
            other => {
                self.tls = other;
                None
            }
        }
    }

    /// The session is back, with what was not understood yet of the bytes that went with it.
    pub(super) fn take_back(&mut self, session: Box<TlsSession>, rest: &[u8]) {
        debug_assert!(matches!(self.tls, Tls::Away) && self.from == self.to);
        self.tls = Tls::Started(session);
        self.input[..rest.len()].copy_from_slice(rest);
        (self.from, self.to) = (0, rest.len());
    }

    /// Whether another thread has its session.
    pub(super) fn is_away(&self) -> bool {
        matches!(self.tls, Tls::Away)
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

    /// Moves what has come of a payload to its buffer. `true` when the piece is whole.
    pub(super) fn fill(&mut self) -> bool {
        let Some(mut piece) = self.incoming.and_then(|incoming| incoming.piece) else { return false };
        let unread = self.unread();
        let len = unread.len().min(piece.len - piece.filled);
        // SAFETY: the buffer is this request's alone until its payload is whole.
        let into = unsafe { piece.memory.add(piece.filled).slice_mut(len) };
        into.copy_from_slice(&unread[..len]);
        self.consume(len);
        piece.filled += len;
        if let Some(incoming) = &mut self.incoming {
            incoming.piece = Some(piece);
        }
        piece.filled == piece.len
    }

    /// Gathers what is to be sent; `None` if there is nothing, or something is under way.
    pub(super) fn send_from(&mut self) -> Option<&mut Message> {
        if self.sending || self.state == State::Cut {
            return None;
        }
        self.outgoing.clear();
        match &mut self.tls {
            Tls::Away => {
                self.encrypted.append(&mut self.go_ahead);
                if self.encrypted.is_empty() {
                    return None;
                }
                // SAFETY: the client is kept, and this not changed, until the kernel has sent it.
                self.outgoing.push(unsafe { Memory::of(&mut self.encrypted) }, self.encrypted.len());
            }
            Tls::Started(session) => {
                self.encrypted.append(&mut self.go_ahead);
                session.pending(&mut self.encrypted);
                if session.is_ready() {
                    if self.batch.is_empty() {
                        self.batch = mem::take(self.nbd.output());
                    }
                    encrypt_some(session, &self.batch, &mut self.batch_done, &mut self.encrypted);
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
                self.batch_done = (self.batch.count(), 0);
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

    /// Everything that was handed to the kernel has gone, or never will: the payloads of a batch that is finished come back.
    pub(super) fn end_sending(&mut self) -> impl Iterator<Item = Payload> + use<'_> {
        self.sending = false;
        self.outgoing.clear();
        self.encrypted.clear();
        self.encrypted.shrink_to(ENCRYPTED);
        let finished = self.state == State::Cut || self.batch_done.0 >= self.batch.count();
        if finished {
            self.batch_done = (0, 0);
        }
        finished.then(|| self.batch.drain()).into_iter().flatten()
    }

    /// Payloads that will never be sent.
    pub(super) fn abandoned(&mut self) -> impl Iterator<Item = Payload> + use<'_> {
        self.batch.drain().chain(self.nbd.output().drain())
    }
}

/// Encrypts the next part of a batch, about [`ENCRYPTED`] bytes: the others wait meanwhile.
fn encrypt_some(session: &mut TlsSession, batch: &Output<Payload>, done: &mut (usize, usize), into: &mut Vec<u8>) {
    for piece in batch.pieces().skip(done.0) {
        let bytes = match piece {
            Piece::Bytes(bytes) => bytes,
            // SAFETY: the payload stays as it is until it is given back.
            Piece::Payload(payload, len) => unsafe { payload.memory.slice(len.0 as usize) },
        };
        let room = ENCRYPTED.saturating_sub(into.len());
        let rest = &bytes[done.1..];
        if rest.len() > room {
            session.encrypt(&rest[..room], into);
            done.1 += room;
            return;
        }
        session.encrypt(rest, into);
        *done = (done.0 + 1, 0);
    }
}

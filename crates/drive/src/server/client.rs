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

use super::flush_errors::Heard;
use crate::{
    arena::Memory,
    kernel::Message,
    nbd::{Connection, Export, Output, Piece, Request, Security, TlsError, TlsServer, TlsSession},
};

/// The size of a client's input buffer. Payloads of writes beyond it go directly to their buffers.
const INPUT: usize = 64 << 10;
/// The approximate number of bytes that are encrypted at once: several records.
const ENCRYPTED: usize = 256 << 10;

/// The data of a read that waits to be sent.
#[derive(Debug)]
pub(super) struct Payload {
    pub(super) memory: Memory,
    /// The piece of a request whose data this is.
    pub(super) piece: u32,
}

/// A write whose payload is being received, a piece at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub(super) request: u32,
    /// Bytes that have no piece yet.
    pub(super) left: u64,
    /// The piece that the next bytes go to; `None` while there is no buffer.
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

/// The state of TLS on a connection.
#[derive(Debug)]
enum Tls {
    /// The connection is a unix socket, without TLS.
    Never,
    /// The client has not started TLS yet.
    Awaited(Arc<TlsServer>),
    Started(Box<TlsSession>),
    /// Another thread is continuing the handshake.
    Away,
}

/// The state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// No more input is taken; requests in flight are answered.
    Finishing,
    /// The connection is cut; the server waits for what is in flight.
    Cut,
}

#[derive(Debug)]
pub(super) struct Client {
    socket: OwnedFd,
    pub(super) nbd: Connection<Payload>,
    tls: Tls,
    pub(super) state: State,
    /// A description of the peer, for the log.
    pub(super) peer: String,
    /// Bytes from the socket that have not been parsed: plain text, or TLS records.
    input: Box<[u8]>,
    from: usize,
    to: usize,
    /// Plain text decrypted by TLS.
    plain: Vec<u8>,
    plain_from: usize,
    pub(super) incoming: Option<Incoming>,
    /// A request that waits for a buffer, or for others of this client to end.
    pub(super) waiting_request: Option<Request>,
    /// Whether the client is in the list of those that wait so.
    pub(super) waits: bool,
    message: Message,
    pub(super) receiving: bool,
    /// The output that is being sent.
    batch: Output<Payload>,
    /// Number of pieces of the batch that are encrypted, and of bytes of the next one.
    batch_done: (usize, usize),
    encrypted: Vec<u8>,
    /// The plain-text acknowledgement of TLS; it is sent before anything else.
    go_ahead: Vec<u8>,
    outgoing: Message,
    pub(super) sending: bool,
    /// Whether the client is in the list of those with output.
    pub(super) listed: bool,
    /// Number of the client's requests that the volume has; see [`super::share::count_in_flight`].
    pub(super) in_flight: u32,
    /// The failed flushes that it has heard of.
    pub(super) heard: Heard,
    /// When the last request arrived; before the first, long ago.
    pub(super) asked: Nanos,
    /// Bytes of buffers that its requests hold.
    pub(super) held: usize,
    /// When it connected, and when bytes last moved in either direction, on the clock that stops while the loop does
    /// not run.
    pub(super) since: Nanos,
    pub(super) active: Nanos,
    /// Bytes moved in either direction since the start of `span`.
    pub(super) moved: u64,
    pub(super) span: Nanos,
    /// The origin of the connection: an address or a process.
    pub(super) origin: String,
    /// Whether an event has reported that it is connected.
    pub(super) reported: bool,
    /// The steps that the loop may still do for it in this turn.
    pub(super) credit: i64,
    /// Whether it is in the list of those that continue in the next turn.
    pub(super) later: bool,
    /// Its long requests without data, in order.
    pub(super) long: VecDeque<u32>,
    /// Set when the handshake thread's result is no longer needed.
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
            waiting_request: None,
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
            heard: Heard::default(),
            asked: Nanos::ZERO,
            held: 0,
            since: now,
            active: now,
            moved: 0,
            span: now,
            origin,
            reported: false,
            credit: 0,
            later: false,
            long: VecDeque::new(),
            gone: Arc::default(),
        }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Whether nothing is in flight for the client, and nothing more will come.
    pub(super) fn is_over(&mut self) -> bool {
        let sent = self.nbd.output().is_empty() && self.batch.is_empty();
        let silent = self.state == State::Cut || self.state == State::Finishing && sent;
        silent && !self.receiving && !self.sending && self.in_flight == 0 && !matches!(self.tls, Tls::Away)
    }

    /// Whether it has not finished its handshake.
    pub(super) fn is_handshaking(&self) -> bool {
        self.state == State::Open && !self.nbd.is_ready()
    }

    /// Whether it uses the volume.
    pub(super) fn is_user(&self) -> bool {
        self.state == State::Open && self.nbd.is_ready()
    }

    /// Whether its TLS session has failed and accepts no output.
    pub(super) fn is_deaf(&self) -> bool {
        self.state != State::Cut && !self.sending && !self.batch.is_empty()
    }

    /// Notes that bytes moved in either direction.
    pub(super) fn progressed(&mut self, now: Nanos, bytes: u64) {
        self.active = now;
        self.moved += bytes;
    }

    /// Whether no deadline applies to it.
    pub(super) fn is_at_ease(&self) -> bool {
        self.state == State::Open && self.nbd.is_ready() && self.incoming.is_none() && !self.sending
    }

    /// Shuts both directions down, so that system calls on the socket return.
    pub(super) fn cut(&mut self) {
        self.state = State::Cut;
        self.gone.store(true, Ordering::Relaxed);
        // A failure means that the socket is not connected any more.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// The memory to receive into next: the rest of a payload, and after it the input buffer.
    pub(super) fn receive_into(&mut self) -> &mut Message {
        debug_assert!(self.from == self.to && !self.receiving);
        (self.from, self.to) = (0, 0);
        self.message.clear();
        let mut behind = true;
        if let (Some(incoming), Tls::Never) = (&self.incoming, &self.tls) {
            let piece = incoming.piece.expect("nothing is received before there is a buffer for it");
            self.message.push(piece.memory.add(piece.filled), piece.len - piece.filled);
            // What follows this piece belongs to the next one, which has no buffer yet.
            behind = incoming.left == 0;
        }
        if behind {
            // SAFETY: the input is the client's, which is kept until the kernel has answered, and is not touched meanwhile.
            self.message.push(unsafe { Memory::of(&mut self.input) }, INPUT);
        }
        self.receiving = true;
        &mut self.message
    }

    /// Accounts for received bytes.
    pub(super) fn received(&mut self, mut bytes: usize) {
        if let (Some(Incoming { piece: Some(piece), .. }), Tls::Never) = (&mut self.incoming, &self.tls) {
            let direct = bytes.min(piece.len - piece.filled);
            piece.filled += direct;
            bytes -= direct;
        }
        self.to = bytes;
    }

    /// Whether all input has been parsed, so that more can be received.
    pub(super) fn is_drained(&self) -> bool {
        self.from == self.to && self.plain_from == self.plain.len()
    }

    /// Decrypts the input if the connection uses TLS.
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
            // Continues until all input is taken: no later call would take the rest. The input bounds the output.
            if stuck || (got == 0 && self.from == self.to) {
                return Ok(());
            }
        }
    }

    /// Whether the client has closed TLS, so that nothing more will come.
    pub(super) fn has_ended_tls(&self) -> bool {
        matches!(&self.tls, Tls::Started(session) if session.is_closed()) && self.plain_from == self.plain.len()
    }

    /// Whether the TLS handshake has begun and is not finished.
    pub(super) fn is_shaking_hands(&self) -> bool {
        match &self.tls {
            Tls::Started(session) => !session.is_ready(),
            Tls::Away => true,
            Tls::Never | Tls::Awaited(_) => false,
        }
    }

    /// Takes the session and its input, for another thread to continue the handshake. `None` if there is no input, or
    /// the other thread has the session already.
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

    /// Returns the session, with the input that was not consumed.
    pub(super) fn take_back(&mut self, session: Box<TlsSession>, rest: &[u8]) {
        debug_assert!(matches!(self.tls, Tls::Away) && self.from == self.to);
        self.tls = Tls::Started(session);
        self.input[..rest.len()].copy_from_slice(rest);
        (self.from, self.to) = (0, rest.len());
    }

    /// Whether another thread has the session.
    pub(super) fn is_away(&self) -> bool {
        matches!(self.tls, Tls::Away)
    }

    /// Starts TLS; it begins once the client has the acknowledgement.
    pub(super) fn start_tls(&mut self) {
        let Tls::Awaited(server) = &self.tls else { unreachable!("TLS was offered and not yet begun") };
        self.tls = Tls::Started(Box::new(server.session()));
        // The acknowledgement is the last output in plain text.
        for piece in self.nbd.output().pieces() {
            if let Piece::Bytes(bytes) = piece {
                self.go_ahead.extend_from_slice(bytes);
            }
        }
        self.nbd.output().clear();
        self.nbd.tls_started();
    }

    /// The input that is to be parsed next.
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

    /// Parses the input up to the next event.
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

    /// Moves received payload to its buffer. Returns `true` when the piece is complete.
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

    /// `None` if nothing is encrypted.
    fn push_encrypted(&mut self) -> Option<()> {
        // SAFETY: the client is kept, and this buffer not changed, until the kernel has sent it.
        (!self.encrypted.is_empty())
            .then(|| self.outgoing.push(unsafe { Memory::of(&mut self.encrypted) }, self.encrypted.len()))
    }

    /// Prepares the next output; `None` if there is none, or a send is under way.
    pub(super) fn send_from(&mut self) -> Option<&mut Message> {
        if self.sending || self.state == State::Cut {
            return None;
        }
        self.outgoing.clear();
        match &mut self.tls {
            Tls::Away => {
                self.encrypted.append(&mut self.go_ahead);
                self.push_encrypted()?;
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
                self.push_encrypted()?;
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

    /// Accounts for sent bytes. Returns the rest of the message, or `None` if all was sent.
    pub(super) fn sent(&mut self, bytes: usize) -> Option<&mut Message> {
        self.outgoing.advance(bytes);
        if !self.outgoing.is_empty() {
            return Some(&mut self.outgoing);
        }
        None
    }

    /// Ends a send that is complete or failed; returns the payloads of a finished batch.
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

    /// Returns the payloads that will never be sent.
    pub(super) fn abandoned(&mut self) -> impl Iterator<Item = Payload> + use<'_> {
        self.batch.drain().chain(self.nbd.output().drain())
    }
}

/// Encrypts the next part of a batch, about [`ENCRYPTED`] bytes, so that other clients do not wait for long.
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

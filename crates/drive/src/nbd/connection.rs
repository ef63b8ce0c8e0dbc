//! One client: the phases of its connection, and the parsing of a stream that arrives in pieces into options and
//! requests.

use std::{mem, sync::Arc};

use super::{
    export::Export,
    handshake::Contexts,
    output::Output,
    request::{Cookie, ProtocolError, Request},
    transmission::Refusal,
    wire,
};

/// Whether a connection is encrypted ("TLS support").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// TLS is never used: for unix sockets, which have permissions.
    Plain,
    /// TLS is required: before it the client can do nothing else and learns nothing (FORCEDTLS).
    TlsRequired,
}

/// What a client has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The client requests TLS, and the acknowledgement is in the output. Send the output as it is, begin TLS with the
    /// bytes that the client sends from here on, then call [`Connection::tls_started`]. Until then no input is
    /// consumed.
    StartTls,
    /// The handshake is over; requests come next.
    Ready,
    /// The client sent a request. The payload of a write comes next in the stream, and the caller receives it.
    Request(Request),
    /// The client has disconnected in good order. Answer what is in flight, send the output, end TLS, close.
    Disconnect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waits for the client's handshake flags.
    ClientFlags,
    /// Waits for the header of an option.
    Option,
    /// Waits for the data of an option.
    OptionData { option: u32, length: u32 },
    /// Skips the data of an option that is too long.
    OptionTooBig { option: u32, left: u32 },
    /// Waits for the loop to start TLS.
    StartingTls,
    /// Waits for the header of a request.
    Request,
    /// Skips the payload of a refused write. The refusal is sent after it, because clients that send and receive in
    /// turn do not expect it earlier.
    Refused { cookie: Cookie, refusal: Refusal, left: u32 },
    /// The connection has ended, or its input is ignored.
    Closed,
}

impl Phase {
    /// How many bytes the phase needs before it can proceed; `None` if it takes no input.
    fn needs(self) -> Option<usize> {
        match self {
            Phase::ClientFlags => Some(4),
            Phase::Option => Some(16),
            Phase::OptionData { length, .. } => Some(length as usize),
            Phase::Request => Some(28),
            Phase::OptionTooBig { .. } | Phase::StartingTls | Phase::Refused { .. } | Phase::Closed => None,
        }
    }
}

/// The server's side of one client's connection. `P` is the caller's name of a payload in the output (see [`Output`]).
///
/// Its memory is bounded: it keeps at most [`wire::MAX_OPTION`] bytes of input, and reads no more while
/// [`wire::MAX_OWN_OUTPUT`] bytes of protocol wait in the output. The caller bounds the number of requests in flight,
/// the duration of the handshake, and the number of clients.
#[derive(Debug)]
pub struct Connection<P> {
    /// What the client may choose from, and what it has chosen.
    pub(super) offered: Arc<Export>,
    pub(super) export: Arc<Export>,
    pub(super) security: Security,
    pub(super) phase: Phase,
    /// The beginning of the input that the phase needs.
    partial: Vec<u8>,
    /// The client's handshake flags.
    pub(super) fixed: bool,
    pub(super) no_zeroes: bool,
    pub(super) tls: bool,
    pub(super) structured: bool,
    pub(super) contexts: Contexts,
    pub(super) options: u32,
    pub(super) in_flight: u32,
    pub(super) shutting_down: bool,
    pub(super) output: Output<P>,
}

impl<P> Connection<P> {
    /// Starts a connection; the greeting is in the output.
    ///
    /// # Panics
    ///
    /// If [`Export::check`] returns an error.
    pub fn new(export: Arc<Export>, security: Security) -> Connection<P> {
        if let Err(error) = export.check() {
            panic!("{error}");
        }
        let mut output = Output::default();
        output.push(&wire::INIT_MAGIC.to_be_bytes());
        output.push(&wire::OPTION_MAGIC.to_be_bytes());
        output.push(&(wire::handshake::FIXED_NEWSTYLE | wire::handshake::NO_ZEROES).to_be_bytes());
        Connection {
            offered: Arc::clone(&export),
            export,
            security,
            phase: Phase::ClientFlags,
            partial: Vec::new(),
            fixed: false,
            no_zeroes: false,
            tls: false,
            structured: false,
            contexts: Contexts::default(),
            options: 0,
            in_flight: 0,
            shutting_down: false,
            output,
        }
    }

    /// Takes bytes from the client, up to the first event. Returns how many were taken, and the event.
    ///
    /// If there is no event, either everything was taken, or the output is full: send it, then continue with the rest.
    /// After the [`Event::Request`] of a write, the next [`Request::payload`] bytes of the stream are the caller's;
    /// continue after them. After an error or [`Event::Disconnect`] nothing more is taken.
    ///
    /// # Errors
    /// The client violates the protocol: close the connection.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(usize, Option<Event>), ProtocolError> {
        let mut taken = 0;
        while self.output.protocol_length() < wire::MAX_OWN_OUTPUT {
            let rest = &bytes[taken..];
            let Some(needs) = self.phase.needs() else {
                let skipped = self.skip(rest.len());
                taken += skipped;
                if skipped == 0 {
                    break;
                }
                continue;
            };
            // A header nearly always arrives whole and need not be copied.
            let mut gathered = Vec::new();
            let whole = if self.partial.is_empty() && rest.len() >= needs {
                taken += needs;
                &rest[..needs]
            } else {
                let more = rest.len().min(needs - self.partial.len());
                self.partial.extend_from_slice(&rest[..more]);
                taken += more;
                if self.partial.len() < needs {
                    break;
                }
                gathered = mem::take(&mut self.partial);
                &gathered
            };
            let event = self.advance(whole).inspect_err(|_| self.phase = Phase::Closed)?;
            if self.partial.capacity() == 0 && gathered.capacity() <= 64 {
                gathered.clear();
                self.partial = gathered;
            }
            if event.is_some() {
                return Ok((taken, event));
            }
        }
        debug_assert!(self.partial.len() < wire::MAX_OPTION as usize, "more input kept than any phase needs");
        Ok((taken, None))
    }

    /// Proceeds once the input that the phase needs has come.
    fn advance(&mut self, bytes: &[u8]) -> Result<Option<Event>, ProtocolError> {
        match self.phase {
            Phase::ClientFlags => self.client_flags(bytes).map(|()| None),
            Phase::Option => self.option_header(bytes).map(|()| None),
            Phase::OptionData { option, .. } => {
                self.phase = Phase::Option;
                self.option(option, bytes)
            }
            Phase::Request => self.request(bytes),
            Phase::OptionTooBig { .. } | Phase::StartingTls | Phase::Refused { .. } | Phase::Closed => {
                unreachable!("the phase waits for no bytes")
            }
        }
    }

    /// Skips up to `available` bytes of unwanted input; returns how many.
    fn skip(&mut self, available: usize) -> usize {
        let left = match &mut self.phase {
            Phase::OptionTooBig { left, .. } | Phase::Refused { left, .. } => left,
            _ => return 0,
        };
        let skipped = available.min(*left as usize);
        *left -= skipped as u32;
        if *left == 0 {
            match self.phase {
                Phase::Refused { cookie, refusal, .. } => {
                    self.phase = Phase::Request;
                    self.refuse(cookie, refusal);
                }
                Phase::OptionTooBig { option, .. } => {
                    self.phase = Phase::Option;
                    self.refuse_too_big(option);
                }
                _ => unreachable!("the phase reads past nothing"),
            }
        }
        skipped
    }

    /// Continues after the client's TLS handshake: input and output are plain text inside TLS from here on.
    ///
    /// # Panics
    ///
    /// If the last event was not [`Event::StartTls`].
    pub fn tls_started(&mut self) {
        assert_eq!(self.phase, Phase::StartingTls, "TLS started though the client did not ask for it");
        self.tls = true;
        self.phase = Phase::Option;
    }

    /// Refuses everything from here on: options with `NBD_REP_ERR_SHUTDOWN`, requests with `Errno::Shutdown`. Requests
    /// in flight are answered as usual.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    /// The output to be sent. Take it with `mem::take`, or send it from here and clear it.
    pub fn output(&mut self) -> &mut Output<P> {
        &mut self.output
    }

    /// The number of requests that wait for their answer.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether requests are accepted, because the handshake is complete.
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Request | Phase::Refused { .. })
    }

    /// Whether no more input is taken.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Whether reads may be answered in several chunks and with holes.
    pub fn is_structured(&self) -> bool {
        self.structured
    }

    /// The volume that the connection serves.
    pub fn export(&self) -> &Arc<Export> {
        &self.export
    }
}

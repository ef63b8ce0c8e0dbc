//! One client: the phases of its connection, and how a stream that arrives in pieces becomes options and requests.

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
    /// Never: for unix sockets, which have permissions.
    Plain,
    /// Always: until the client has started TLS it can ask for nothing else and learns nothing (FORCEDTLS).
    TlsRequired,
}

/// What a client has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It wants TLS, and the acknowledgement is in the output. Send that as it is, begin TLS with whatever the client
    /// sends from here on, then call [`Connection::tls_started`]; until then nothing is consumed.
    StartTls,
    /// The handshake is over; requests come next.
    Ready,
    /// It asks for something. If that is a write, its payload comes next in the stream and is the caller's to receive.
    Request(Request),
    /// It said goodbye. Answer what is in flight, send the output, end TLS, close.
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
    /// Reads past the data of an option that is too long.
    OptionTooBig { option: u32, left: u32 },
    /// Waits for the loop to start TLS.
    StartingTls,
    /// Waits for the header of a request.
    Request,
    /// Reads past the payload of a write that is refused. The refusal comes after it: clients that send and receive
    /// in turn do not expect it earlier.
    Refused { cookie: Cookie, refusal: Refusal, left: u32 },
    /// Nothing more comes, or nothing that is listened to.
    Closed,
}

impl Phase {
    /// How many bytes the phase has to see before anything happens; `None` where bytes are not for it.
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

/// The server's side of one client's connection. `P` names a payload in the output (see [`Output`]).
///
/// Its memory is bounded: at most [`wire::MAX_OPTION`] bytes of input are kept, and no more is read while
/// [`wire::MAX_OWN_OUTPUT`] bytes of protocol wait in the output. How many requests are in flight, how long a client
/// may take for its handshake, and how many clients there are is the loop's to bound.
#[derive(Debug)]
pub struct Connection<P> {
    pub(super) export: Arc<Export>,
    pub(super) security: Security,
    pub(super) phase: Phase,
    /// The beginning of whatever the phase waits for.
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
    /// A client has connected; the greeting is in the output.
    ///
    /// # Panics
    ///
    /// When [`Export::check`] would complain.
    pub fn new(export: Arc<Export>, security: Security) -> Connection<P> {
        if let Err(error) = export.check() {
            panic!("{error}");
        }
        let mut output = Output::default();
        output.push(&wire::INIT_MAGIC.to_be_bytes());
        output.push(&wire::OPTION_MAGIC.to_be_bytes());
        output.push(&(wire::handshake::FIXED_NEWSTYLE | wire::handshake::NO_ZEROES).to_be_bytes());
        Connection {
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

    /// Takes bytes from the client, up to the first event. Returns how many were taken and what happened.
    ///
    /// Without an event either everything was taken, or too much waits in the output: send it, then go on with the
    /// rest. After [`Event::Request`] of a write the next [`Request::payload`] bytes of the stream are the caller's;
    /// go on behind them. After an error, or [`Event::Disconnect`], nothing is taken any more.
    ///
    /// # Errors
    /// The client does not speak the protocol: the connection has to be closed.
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
            // Nearly always a header arrives whole and need not be copied.
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

    /// Everything that the phase waited for has come.
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

    /// Reads past up to `available` bytes that nobody wants.
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

    /// The client's TLS handshake is over: what comes and goes is plain text inside TLS from here on.
    ///
    /// # Panics
    ///
    /// Unless the last event was [`Event::StartTls`].
    pub fn tls_started(&mut self) {
        assert_eq!(self.phase, Phase::StartingTls, "TLS started though the client did not ask for it");
        self.tls = true;
        self.phase = Phase::Option;
    }

    /// Refuses whatever comes from here on: options with `NBD_REP_ERR_SHUTDOWN`, requests with
    /// `Errno::Shutdown`. Requests in flight are answered as usual.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    /// What is to be sent. Take it with `mem::take`, or send it from here and clear it.
    pub fn output(&mut self) -> &mut Output<P> {
        &mut self.output
    }

    /// Requests that wait for their answer.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether requests are being taken; until then a client owes its handshake.
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Request | Phase::Refused { .. })
    }

    /// Whether nothing is taken any more.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Whether reads may be answered in several chunks and with holes.
    pub fn is_structured(&self) -> bool {
        self.structured
    }

    /// The volume that is served.
    pub fn export(&self) -> &Arc<Export> {
        &self.export
    }
}

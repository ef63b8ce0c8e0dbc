//! The front end of clients: their connections, requests and buffers. It is driven by the loop of the volume, or by a thread of its own
//! (`front_thread.rs`). What it wants of the volume is put into a list, and the volume's answers are handed to it, so it does not
//! know on which thread the volume is.

use std::{collections::VecDeque, mem, sync::Arc};

use peryton_engine::{Request as HostRequest, RequestError};
use peryton_recording::Flags;
use peryton_units::{Bytes, Nanos};

use super::{
    accept::Acceptance, asking::Asking, client::Client, handshakes::Handshakes, requests::Requests, say::Limits,
    share::Shares,
};
use crate::{
    events::Events,
    kernel::{Event, Kernel},
    listen::Listener,
    nbd::{Export, Run, TlsServer},
    pool::Pool,
    status::Asked,
    volume::Data,
};

/// The interval at which slow clients are looked for.
const SWEEP: Nanos = Nanos::from_s(1);

/// What a front end wants of the volume.
#[derive(Debug)]
pub(super) enum Ask {
    /// Carry a piece of a request out. It is answered.
    Submit { piece: u32, asked: HostRequest, data: Data },
    /// Say where the blocks of a range are. It is answered.
    Status { request: u32, from: Bytes, to: Bytes, one: bool },
    /// The host has dropped a range from its cache. There is no answer.
    Evict { from: Bytes, to: Bytes },
    /// Record this, which was answered. There is no answer.
    Record { at: Nanos, answered: Answered },
}

impl Ask {
    /// Whether the volume answers it.
    #[inline]
    pub(super) fn is_answered(&self) -> bool {
        matches!(self, Ask::Submit { .. } | Ask::Status { .. })
    }
}

/// An answer of the volume.
#[derive(Debug)]
pub(super) enum Answer {
    /// A piece was carried out, or not.
    Replied { piece: u32, result: Result<(), RequestError> },
    /// Where the blocks are.
    Status { request: u32, runs: Box<[Run]> },
}

/// A request that was answered, for the figures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) asked: Asked,
    pub(super) took: Nanos,
    pub(super) offset: Bytes,
    pub(super) len: Bytes,
    pub(super) flags: Flags,
}

/// The clients whose sockets one thread serves.
pub(super) struct Front {
    /// Sockets; in the volume's loop its devices as well.
    pub(super) kernel: Kernel,
    pub(super) pool: Pool,
    pub(super) export: Arc<Export>,
    pub(super) listeners: Vec<Listener>,
    pub(super) tls: Option<Arc<TlsServer>>,
    pub(super) acceptances: Vec<Acceptance>,
    pub(super) handshakes: Option<Handshakes>,
    pub(super) clients: Vec<Option<Client>>,
    /// Places in `clients` whose client another thread serves.
    pub(super) away: Vec<bool>,
    /// Whether clients go to another thread when their handshake is over.
    pub(super) moves_on: bool,
    /// Clients that another thread is to serve.
    pub(super) leaving: Vec<(u32, Client)>,
    /// Clients that have gone since this was looked at.
    pub(super) ended: Vec<u32>,
    pub(super) requests: Requests,
    pub(super) shares: Shares,
    /// Clients that have output.
    pub(super) senders: Vec<u32>,
    /// Clients that continue in the next turn, because they have used up this one.
    pub(super) later: VecDeque<u32>,
    /// Clients that wait for buffers, or for requests of theirs to end, in order.
    pub(super) buffer_waiters: VecDeque<u32>,
    /// Whether a buffer or a request was freed since the last look at the waiting clients.
    pub(super) released: bool,
    /// What the volume is to do, in order.
    pub(super) asks: Vec<Ask>,
    /// No more requests are taken from clients while this many asks wait.
    pub(super) most_asks: usize,
    /// Requests that were answered since this was looked at.
    pub(super) answered: Vec<Answered>,
    pub(super) longest_zeros: u64,
    pub(super) now: Nanos,
    /// A clock for the deadlines of clients. It advances by at most [`SWEEP`] for each turn of the loop, so that no client
    /// counts as late before its input has been read.
    pub(super) attention: Nanos,
    pub(super) next_sweep: Nanos,
    /// No more requests are taken, and clients are cut off at this time.
    pub(super) stopping: Option<Nanos>,
    pub(super) clients_served: u64,
    pub(super) limits: Limits,
    pub(super) events: Events,
    pub(super) asking: Arc<Asking>,
    /// Its place in `asking`.
    pub(super) place: usize,
}

/// The most asks that wait before clients wait, too.
pub(super) const MOST_ASKS: usize = 1024;

/// The parts that a front end is made from.
pub(super) struct FrontParts {
    pub(super) kernel: Kernel,
    pub(super) pool: Pool,
    pub(super) export: Arc<Export>,
    /// The size that the engine handles best.
    pub(super) unit: Bytes,
    pub(super) longest_zeros: u64,
    pub(super) events: Events,
    pub(super) asking: Arc<Asking>,
    pub(super) place: usize,
}

impl Front {
    pub(super) fn new(parts: FrontParts) -> Front {
        Front {
            kernel: parts.kernel,
            shares: Shares::new(parts.pool.arena().len(), parts.unit.0),
            pool: parts.pool,
            export: parts.export,
            listeners: Vec::new(),
            tls: None,
            acceptances: Vec::new(),
            handshakes: None,
            clients: Vec::new(),
            away: Vec::new(),
            moves_on: false,
            leaving: Vec::new(),
            ended: Vec::new(),
            requests: Requests::default(),
            senders: Vec::new(),
            later: VecDeque::new(),
            buffer_waiters: VecDeque::new(),
            released: false,
            asks: Vec::new(),
            most_asks: MOST_ASKS,
            answered: Vec::new(),
            longest_zeros: parts.longest_zeros,
            now: Nanos::ZERO,
            attention: Nanos::ZERO,
            next_sweep: Nanos::ZERO,
            stopping: None,
            clients_served: 0,
            limits: Limits::default(),
            events: parts.events,
            asking: parts.asking,
            place: parts.place,
        }
    }

    /// Accepts connections at these addresses.
    pub(super) fn listen(&mut self, listeners: Vec<Listener>, tls: Option<TlsServer>, handshakes: Option<Handshakes>) {
        self.acceptances = listeners.iter().map(|_| Acceptance::default()).collect();
        self.listeners = listeners;
        self.tls = tls.map(Arc::new);
        self.handshakes = handshakes;
    }

    #[inline]
    pub(super) fn set_now(&mut self, now: Nanos) {
        self.attention = self.attention.saturating_add(Nanos(now.saturating_sub(self.now).0.min(SWEEP.0)));
        self.now = now;
    }

    /// Handles what came from a socket.
    #[inline]
    pub(super) fn socket_event(&mut self, event: Event) {
        match event {
            Event::Received { connection, result } => self.received(connection, result),
            Event::Sent { connection, result } => self.sent(connection, result),
            Event::Accepted { listener, result } => self.accepted(listener, result),
            Event::Device { .. } | Event::BlockDevice { .. } | Event::Woken => {
                unreachable!("the volume's loop keeps what is its own")
            }
        }
    }

    /// Handles an answer of the volume.
    #[inline]
    pub(super) fn told(&mut self, answer: Answer) {
        match answer {
            Answer::Replied { piece, result } => self.replied(piece, result),
            Answer::Status { request, runs } => self.told_status(request, &runs),
        }
    }

    /// When slow clients are to be looked for.
    pub(super) fn next_look(&self) -> Option<Nanos> {
        let any = self.stopping.is_some() || self.clients.iter().flatten().any(|client| !client.is_at_ease());
        any.then_some(self.next_sweep)
    }

    /// Looks for slow clients, if it is time.
    pub(super) fn look(&mut self) {
        if self.next_sweep <= self.now {
            self.next_sweep = self.now.saturating_add(SWEEP);
            self.sweep();
        }
    }

    /// Serves clients that waited, if something was freed; returns whether there was any.
    #[inline]
    pub(super) fn serve_waiters(&mut self) -> bool {
        if !mem::take(&mut self.released) || self.buffer_waiters.is_empty() {
            return false;
        }
        self.serve_buffer_waiters();
        true
    }

    /// Takes no more requests, and cuts clients off that have not taken their answers until then.
    pub(super) fn begin_to_stop(&mut self, until: Nanos) {
        self.stopping = Some(until);
        for index in 0..self.clients.len() {
            let Some(client) = &mut self.clients[index] else { continue };
            client.nbd.shut_down();
            client.gone.store(true, std::sync::atomic::Ordering::Relaxed);
            let whole = client.incoming.is_none();
            self.drop_long_of(index as u32);
            if whole {
                self.finish_client(index as u32);
            }
        }
    }

    /// Ends clients that have their answers, and those whose time is over, while the server stops.
    pub(super) fn drain(&mut self) {
        let Some(until) = self.stopping else { return };
        for index in 0..self.clients.len() as u32 {
            let Some(client) = &self.clients[index as usize] else { continue };
            if client.state == super::client::State::Open && client.incoming.is_none() {
                self.finish_client(index);
            }
            let open = |client: &Client| client.state != super::client::State::Cut;
            if self.now > until && self.clients[index as usize].as_ref().is_some_and(open) {
                self.cut(index);
            }
            self.end_if_over(index);
        }
    }

    /// Whether all clients have gone, here and elsewhere.
    pub(super) fn is_deserted(&self) -> bool {
        self.clients.iter().all(Option::is_none) && self.leaving.is_empty() && !self.away.contains(&true)
    }

    /// Number of clients that other threads serve.
    pub(super) fn count_away(&self) -> usize {
        self.away.iter().filter(|away| **away).count()
    }

    /// Number of connected clients, here and elsewhere.
    pub(super) fn connected(&self) -> usize {
        self.clients.iter().flatten().count() + self.count_away()
    }

    /// Lets a client go to another thread, if nothing is under way for it; returns whether it has gone.
    pub(super) fn let_go(&mut self, index: u32) -> bool {
        let client = self.clients[index as usize].as_mut().expect("a client that goes elsewhere exists");
        if !client.moves || !client.is_movable() {
            return false;
        }
        let mut client = self.clients[index as usize].take().expect("it was there");
        client.listed = false;
        self.away[index as usize] = true;
        self.leaving.push((index, client));
        true
    }

    /// Takes a client over from the thread on which its handshake was done.
    pub(super) fn welcome_from_elsewhere(&mut self, index: u32, mut client: Client) {
        let places = self.clients.len().max(index as usize + 1);
        self.clients.resize_with(places, || None);
        self.away.resize(places, false);
        (client.moves, client.credit) = (false, super::share::QUANTUM);
        (client.active, client.since, client.span) = (self.attention, self.attention, self.attention);
        self.clients[index as usize] = Some(client);
        if let Some(until) = self.stopping {
            self.begin_to_stop(until);
        }
        self.list(index);
        self.advance(index);
    }
}

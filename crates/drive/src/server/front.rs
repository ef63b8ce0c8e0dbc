//! The front end of clients: their connections, requests and buffers. Its requests to the volume go into a list, which the loop carries out
//! (`asks.rs`).

use std::{collections::VecDeque, mem, sync::Arc};

use peryton_engine::Request as HostRequest;
use peryton_recording::Flags;
use peryton_units::{Bytes, Nanos};

use super::{
    accept::Acceptance, client::Client, flush_errors::FlushErrors, handshakes::Handshakes, requests::Requests,
    say::Limits, share::Shares,
};
use crate::{
    events::Events,
    kernel::{Event, Kernel},
    listen::Listener,
    nbd::{Export, TlsServer},
    pool::Pool,
    status::Asked,
    volume::Data,
};

/// The interval at which slow clients are looked for.
const SWEEP: Nanos = Nanos::from_s(1);

/// A request of the front end to the volume.
#[derive(Debug)]
pub(super) enum Ask {
    /// Carry a piece of a request out.
    Submit { piece: u32, asked: HostRequest, data: Data },
    /// Say where the blocks of a range are.
    Status { request: u32, from: Bytes, to: Bytes, one: bool },
    /// The host has dropped a range from its cache. There is no answer.
    Evict { from: Bytes, to: Bytes },
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

/// The clients and their sockets.
pub(super) struct Front {
    /// Sockets, and the volume's devices.
    pub(super) kernel: Kernel,
    pub(super) pool: Pool,
    pub(super) export: Arc<Export>,
    pub(super) listeners: Vec<Listener>,
    pub(super) tls: Option<Arc<TlsServer>>,
    pub(super) acceptances: Vec<Acceptance>,
    pub(super) handshakes: Option<Handshakes>,
    pub(super) clients: Vec<Option<Client>>,
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
    /// Requests to the volume, in order.
    pub(super) asks: Vec<Ask>,
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
    pub(super) flush_errors: FlushErrors,
    /// Flushes of devices that have failed so far, and losses of what was answered.
    pub(super) flush_error_causes: u64,
    /// When the block device has last had a request: while it has some, a client may have fewer in flight.
    pub(super) block_device_asked: Option<Nanos>,
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
    /// Whether hosts of an earlier server may miss what it had answered.
    pub(super) lacks_records: bool,
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
            requests: Requests::default(),
            senders: Vec::new(),
            later: VecDeque::new(),
            buffer_waiters: VecDeque::new(),
            released: false,
            asks: Vec::new(),
            answered: Vec::new(),
            longest_zeros: parts.longest_zeros,
            now: Nanos::ZERO,
            attention: Nanos::ZERO,
            next_sweep: Nanos::ZERO,
            stopping: None,
            clients_served: 0,
            limits: Limits::default(),
            events: parts.events,
            flush_errors: FlushErrors::new(parts.lacks_records),
            flush_error_causes: 0,
            block_device_asked: None,
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

    /// Ends clients that have their answers, and those whose time is over, while the server stops. Returns whether any has gone.
    pub(super) fn drain(&mut self) -> bool {
        let Some(until) = self.stopping else { return false };
        let before = self.connected();
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
        self.connected() < before
    }

    /// Whether all clients have gone.
    pub(super) fn is_deserted(&self) -> bool {
        self.clients.iter().all(Option::is_none)
    }

    /// Number of connected clients.
    pub(super) fn connected(&self) -> usize {
        self.clients.iter().flatten().count()
    }
}

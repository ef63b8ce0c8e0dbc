//! The thread that owns a volume: sockets, engine and devices in one loop. Nothing in it blocks but the wait for the next
//! event, and nothing in it grows with what clients do.

mod admin;
mod awake;
mod client;
mod handle;
mod host;
mod spin;
mod stop;

use std::{
    collections::VecDeque,
    io,
    os::fd::{FromRawFd, OwnedFd},
    path::Path,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use peryton_engine::{Engine, RequestId};
use peryton_units::Nanos;

pub(crate) use self::admin::About;
pub use self::handle::Handle;
use self::{
    admin::Complaints,
    awake::Awake,
    client::{Client, State},
    host::Pending,
    spin::Spin,
};
use crate::{
    cpu_latency::CpuLatency,
    disks::Disks,
    events::What,
    kernel::{Event, Kernel, Wait},
    listen::Listener,
    nbd::{self, Export, TlsServer},
    pool::Pool,
    status::Latencies,
    volume::Volume,
};

/// The most clients at once; more are turned away.
pub(crate) const MOST_CLIENTS: usize = 64;
/// A client has so long for its handshake.
const HANDSHAKE_TIME: Nanos = Nanos::from_s(10);
/// A client that neither sends the rest of a write nor takes its answers holds buffers that others may need. It has so
/// long.
const STALL_TIME: Nanos = Nanos::from_s(30);
/// The same while others do wait for buffers.
const STALL_TIME_OF_NEED: Nanos = Nanos::from_s(3);
/// How often clients are looked at for that.
const SWEEP: Nanos = Nanos::from_s(1);

/// The longest stretch of memory that is registered with io_uring as one: its limit, and a bound on what is pinned.
const PINNED_AT_MOST: usize = 1 << 30;
/// Where the kernel is told how soon processors have to be awake.
const CPU_LATENCY: &str = "/dev/cpu_dma_latency";
// What is waited for.
const CLIENTS: usize = 0;
const DEVICES: usize = 1;

/// What another thread asks of the one that owns the volume.
pub(crate) type Call = Box<dyn FnOnce(&mut Server) + Send>;

/// A volume that is being served.
pub(crate) struct Server {
    pub(crate) kernel: Kernel,
    pub(crate) volume: Volume<Disks>,
    pub(crate) pool: Pool,
    export: Arc<Export>,
    listeners: Vec<Listener>,
    tls: Option<Arc<TlsServer>>,
    clients: Vec<Option<Client>>,
    /// Host requests by id.
    pending: Vec<Option<Pending>>,
    free: Vec<u32>,
    /// Clients with something to send.
    senders: Vec<u32>,
    /// Clients that wait for buffers, in order.
    starved: VecDeque<u32>,
    /// A buffer has become free since the last look at them.
    released: bool,
    pub(crate) latencies: Latencies,
    calls: mpsc::Receiver<Call>,
    started: Instant,
    pub(crate) now: Nanos,
    next_sweep: Nanos,
    /// How to wait for clients and, when they have been asked for something, for devices.
    spins: [Spin; 2],
    /// Which of them is waited for.
    awaited: usize,
    awake: Awake,
    pub(crate) stop: stop::Stop,
    pub(crate) clients_served: u64,
    about: About,
    complaints: Complaints,
}

/// What a server is made of.
pub(crate) struct Parts {
    pub(crate) kernel: Kernel,
    pub(crate) volume: Volume<Disks>,
    pub(crate) pool: Pool,
    pub(crate) export: Export,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) tls: Option<TlsServer>,
    pub(crate) calls: mpsc::Receiver<Call>,
    pub(crate) spin: Duration,
    pub(crate) cpu_latency: CpuLatency,
    pub(crate) started: Instant,
    pub(crate) about: About,
}

impl Server {
    pub(crate) fn new(parts: Parts) -> Server {
        let most = Nanos(parts.spin.as_nanos().try_into().unwrap_or(u64::MAX >> 1));
        Server {
            kernel: parts.kernel,
            volume: parts.volume,
            pool: parts.pool,
            export: Arc::new(parts.export),
            listeners: parts.listeners,
            tls: parts.tls.map(Arc::new),
            clients: Vec::new(),
            pending: Vec::new(),
            free: Vec::new(),
            senders: Vec::new(),
            starved: VecDeque::new(),
            released: false,
            latencies: Latencies::default(),
            calls: parts.calls,
            started: parts.started,
            now: Nanos::ZERO,
            next_sweep: Nanos::ZERO,
            spins: [Spin::new(most), Spin::new(most)],
            awaited: CLIENTS,
            awake: Awake::new(parts.cpu_latency, Path::new(CPU_LATENCY)),
            stop: stop::Stop::default(),
            clients_served: 0,
            about: parts.about,
            complaints: Complaints::default(),
        }
    }

    /// Tells the kernel what memory will often be used: a bounded part of it, because it is pinned.
    pub(crate) fn register(&mut self) {
        let mut memory = vec![(self.pool.arena().at(0), self.pool.arena().len())];
        memory.extend(self.volume.backend.arenas().iter().map(|arena| (arena.at(0), arena.len())));
        memory.extend(self.volume.memory());
        memory.retain(|(_, len)| *len <= PINNED_AT_MOST);
        self.kernel.register(&memory);
    }

    /// Serves until told to stop, and until everything that was taken in is done.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        for index in 0..self.listeners.len() {
            self.kernel.accept(index as u32, self.listeners[index].fd());
        }
        let mut events = Vec::new();
        loop {
            let wait = self.wait();
            self.kernel.turn(wait, &mut events)?;
            self.now = self.clock();
            // What is sent is mostly gone at once, which says nothing about the answer.
            if events.iter().any(|event| !matches!(event, Event::Sent { .. })) {
                self.spins[self.awaited].came(self.now);
            }
            for event in events.drain(..) {
                self.event(event);
            }
            self.timers();
            self.settle();
            if self.is_finished() {
                return Ok(());
            }
        }
    }

    fn clock(&self) -> Nanos {
        Nanos(self.started.elapsed().as_nanos() as u64)
    }

    /// How long to wait: not at all for a while after the last event, then until the next timer.
    #[inline]
    fn wait(&mut self) -> Wait {
        self.awaited = if self.volume.backend.in_flight() > 0 { DEVICES } else { CLIENTS };
        if self.spins[self.awaited].goes_on(self.now, spin::preempted) {
            return Wait::No;
        }
        let (engine, devices) = (self.volume.engine().deadline(), self.volume.backend.next_due());
        let deadlines = [engine, devices, self.next_look(), self.awake.deadline()];
        match deadlines.into_iter().flatten().min() {
            None => Wait::Forever,
            Some(due) => Wait::For(Duration::from_nanos(due.saturating_sub(self.now).0)),
        }
    }

    /// When clients have to be looked at.
    fn next_look(&self) -> Option<Nanos> {
        let somebody = self.stop.is_asked() || self.clients.iter().flatten().any(|client| !client.is_at_ease());
        somebody.then_some(self.next_sweep)
    }

    fn timers(&mut self) {
        self.volume.backend.tick(self.now);
        self.awake.tick(self.now);
        if self.volume.engine().deadline().is_some_and(|deadline| deadline <= self.now) {
            self.volume.tick(self.now);
        }
        if self.next_sweep <= self.now {
            self.next_sweep = self.now.saturating_add(SWEEP);
            self.sweep();
        }
    }

    #[inline]
    fn event(&mut self, event: Event) {
        match event {
            Event::Device { slot, result } => self.volume.backend.answered(slot, result),
            Event::Received { connection, result } => self.received(connection, result),
            Event::Sent { connection, result } => self.sent(connection, result),
            Event::Accepted { listener, result } => self.accepted(listener, result),
            Event::Woken => {
                while let Ok(call) = self.calls.try_recv() {
                    call(self);
                }
            }
        }
    }

    /// Brings everything that can happen now to its end: completions, replies, requests that waited for buffers, and
    /// hands what is asked of the kernel over.
    #[inline]
    fn settle(&mut self) {
        loop {
            let mut finished = std::mem::take(&mut self.volume.backend.finished);
            let mut replies = std::mem::take(self.volume.replies());
            if finished.is_empty() && replies.is_empty() {
                if !self.volume.backend.failures.is_empty() {
                    self.complain();
                    continue;
                }
                if !std::mem::take(&mut self.released) || self.starved.is_empty() {
                    break;
                }
                self.feed_starved();
                continue;
            }
            for (io, result) in finished.drain(..) {
                self.volume.complete(self.now, io, result);
            }
            for (RequestId(id), result) in replies.drain(..) {
                if self.stop.is_flushing() {
                    self.flushed(result);
                } else {
                    self.replied(id as u32, result);
                }
            }
            // The allocations are used again, unless something came meanwhile.
            if self.volume.backend.finished.is_empty() {
                self.volume.backend.finished = finished;
            }
            if self.volume.replies().is_empty() {
                *self.volume.replies() = replies;
            }
        }
        let mut raw = std::mem::take(&mut self.volume.backend.raw);
        for raw in raw.drain(..) {
            self.kernel.device(&raw);
        }
        self.volume.backend.raw = raw;
        if self.volume.engine().gone() != self.complaints.gone {
            self.tell_of_death();
        }
        self.send();
    }

    // Clients.

    #[cold]
    fn accepted(&mut self, listener: u32, result: i32) {
        let source = &self.listeners[listener as usize];
        if self.stop.is_asked() {
            if result >= 0 {
                // SAFETY: the kernel has just given it to us.
                drop(unsafe { OwnedFd::from_raw_fd(result) });
            }
            return;
        }
        self.kernel.accept(listener, source.fd());
        if result < 0 {
            tracing::warn!(error = %io::Error::from_raw_os_error(-result), "a client could not connect");
            return;
        }
        // SAFETY: the kernel has just given it to us.
        let socket = unsafe { OwnedFd::from_raw_fd(result) };
        let peer = source.prepare(&socket);
        let index = match self.clients.iter().position(Option::is_none) {
            Some(index) => index,
            None if self.clients.len() < MOST_CLIENTS => {
                self.clients.push(None);
                self.clients.len() - 1
            }
            None => {
                tracing::warn!(%peer, "turned away: {MOST_CLIENTS} clients are connected");
                return;
            }
        };
        tracing::info!(%peer, client = index, "connected");
        self.clients_served += 1;
        self.about.events.tell(What::Connected { client: index as u32, peer: peer.clone() });
        let tls = self.tls.clone().filter(|_| source.is_tcp());
        self.clients[index] = Some(Client::new(socket, peer, Arc::clone(&self.export), tls, self.now));
        self.list(index as u32);
        self.receive(index as u32);
    }

    fn received(&mut self, index: u32, result: i32) {
        let client = self.clients[index as usize].as_mut().expect("a client stays until its calls are answered");
        client.receiving = false;
        client.active = self.now;
        if client.state != State::Open {
            return self.end_if_over(index);
        }
        if result <= 0 {
            let error = io::Error::from_raw_os_error(-result);
            if result == -libc::EINTR || result == -libc::EAGAIN {
                return self.receive(index);
            }
            if result < 0 && result != -libc::ECONNRESET {
                tracing::info!(client = index, %error, "connection lost");
            }
            return self.finish_client(index);
        }
        client.received(result.unsigned_abs() as usize);
        self.advance(index);
    }

    /// Understands what has come from a client, as far as there are buffers for it, and asks for more.
    fn advance(&mut self, index: u32) {
        loop {
            let client = self.clients[index as usize].as_mut().expect("a client that advances exists");
            if client.state != State::Open || client.starved.is_some() {
                return;
            }
            if let Err(error) = client.decrypt() {
                tracing::warn!(client = index, peer = %client.peer, %error, "TLS");
                self.list(index);
                return self.finish_client(index);
            }
            let (shaking_hands, incoming) = (client.is_shaking_hands(), client.incoming);
            if shaking_hands {
                self.list(index);
            }
            let client = self.clients[index as usize].as_mut().expect("it was there");
            if let Some(incoming) = incoming {
                if client.fill() {
                    client.incoming = None;
                    self.hand_on(incoming.slot);
                    continue;
                }
                break;
            }
            match client.next_event() {
                Ok(Some(nbd::Event::Request(request))) => {
                    self.list(index);
                    if self.has_its_share(index, &request) {
                        // It goes on when one of its own requests has ended.
                        self.clients[index as usize].as_mut().expect("it was there").starved = Some(request);
                        return;
                    }
                    if !self.starved.is_empty() || !self.take_in(index, request) {
                        self.clients[index as usize].as_mut().expect("it was there").starved = Some(request);
                        self.starved.push_back(index);
                        return;
                    }
                }
                Ok(Some(nbd::Event::StartTls)) => {
                    client.start_tls();
                    self.list(index);
                }
                Ok(Some(nbd::Event::Ready)) => {
                    tracing::info!(client = index, peer = %client.peer, "uses the volume");
                    self.list(index);
                }
                Ok(Some(nbd::Event::Disconnect)) => return self.finish_client(index),
                Ok(None) => {
                    self.list(index);
                    if client_has_ended(&self.clients, index) {
                        return self.finish_client(index);
                    }
                    break;
                }
                Err(error) => {
                    tracing::warn!(client = index, peer = %client.peer, %error, "cut off");
                    return self.cut(index);
                }
            }
        }
        let client = self.clients[index as usize].as_ref().expect("it was there");
        // What is left waits until answers have gone.
        if client.is_drained() {
            self.receive(index);
        }
    }

    fn receive(&mut self, index: u32) {
        let client = self.clients[index as usize].as_mut().expect("a client that is listened to exists");
        let fd = client.fd();
        if !client.receiving {
            self.kernel.receive(index, fd, client.receive_into());
        }
    }

    /// Those that wait for buffers, in order, as long as there are some.
    fn feed_starved(&mut self) {
        while let Some(index) = self.starved.front().copied() {
            let request = self.clients[index as usize].as_mut().and_then(|client| client.starved.take());
            if let Some(request) = request {
                let for_itself = self.has_its_share(index, &request);
                if for_itself || !self.take_in(index, request) {
                    self.clients[index as usize].as_mut().expect("it was there").starved = Some(request);
                    if !for_itself {
                        return;
                    }
                    // The end of one of its own requests brings it back here.
                    self.starved.pop_front();
                    continue;
                }
            }
            self.starved.pop_front();
            // One that has gone meanwhile has left its place in the list behind.
            if request.is_some() {
                self.list(index);
                self.advance(index);
            }
        }
    }

    /// It has something to send.
    #[inline]
    fn list(&mut self, index: u32) {
        let client = self.clients[index as usize].as_mut().expect("a client that is listed exists");
        if !client.listed {
            client.listed = true;
            self.senders.push(index);
        }
    }

    #[inline]
    fn send(&mut self) {
        while let Some(index) = self.senders.pop() {
            let Some(client) = self.clients[index as usize].as_mut() else { continue };
            client.listed = false;
            let fd = client.fd();
            if let Some(message) = client.send_from() {
                self.kernel.send(index, fd, message);
            }
            self.end_if_over(index);
        }
    }

    fn sent(&mut self, index: u32, result: i32) {
        let client = self.clients[index as usize].as_mut().expect("a client stays until its calls are answered");
        client.active = self.now;
        if result == -libc::EINTR || result == -libc::EAGAIN || result > 0 {
            let fd = client.fd();
            if let Some(message) = client.sent(result.max(0) as usize) {
                return self.kernel.send(index, fd, message);
            }
        } else if client.state != State::Cut {
            client.cut();
        }
        let payloads: Vec<u32> = client.end_sending().map(|payload| payload.slot).collect();
        let cut = client.state == State::Cut;
        for slot in payloads {
            self.release(slot);
        }
        if cut {
            return self.end_if_over(index);
        }
        self.list(index);
        // What came while too much waited to be sent.
        let client = self.clients[index as usize].as_ref().expect("it was there");
        if !client.receiving {
            self.advance(index);
        }
    }

    /// Nothing more is taken from it.
    fn finish_client(&mut self, index: u32) {
        let client = self.clients[index as usize].as_mut().expect("a client that ends exists");
        if client.state == State::Open {
            client.state = State::Finishing;
        }
        self.drop_incoming(index);
        self.list(index);
    }

    /// Cuts a client off; its requests go on, their answers are for nobody.
    fn cut(&mut self, index: u32) {
        let client = self.clients[index as usize].as_mut().expect("a client that is cut off exists");
        client.cut();
        self.drop_incoming(index);
        self.list(index);
    }

    /// A write whose payload will not come, a request that will not be taken in.
    fn drop_incoming(&mut self, index: u32) {
        let client = self.clients[index as usize].as_mut().expect("a client that ends exists");
        client.starved = None;
        if client.receiving {
            return;
        }
        if let Some(incoming) = client.incoming.take() {
            self.release(incoming.slot);
        }
    }

    fn end_if_over(&mut self, index: u32) {
        let Some(client) = self.clients[index as usize].as_mut() else { return };
        if client.state == State::Open {
            return;
        }
        if client.state == State::Cut && !client.sending {
            let abandoned: Vec<u32> = client.abandoned().map(|payload| payload.slot).collect();
            for slot in abandoned {
                self.release(slot);
            }
        }
        self.drop_incoming(index);
        let client = self.clients[index as usize].as_mut().expect("it was there");
        if client.is_over() {
            tracing::info!(client = index, peer = %client.peer, "disconnected");
            self.about.events.tell(What::Disconnected { client: index, peer: client.peer.clone() });
            self.clients[index as usize] = None;
        } else if client.state == State::Finishing && client.receiving && client.in_flight == 0 && !client.sending {
            // It said goodbye and keeps the line open.
            client.cut();
        }
    }

    /// Clients that take too long.
    fn sweep(&mut self) {
        for index in 0..self.clients.len() {
            let Some(client) = &self.clients[index] else { continue };
            let idle = self.now.saturating_sub(client.active);
            let late = !client.nbd.is_ready() && idle > HANDSHAKE_TIME;
            let patience = if self.starved.is_empty() { STALL_TIME } else { STALL_TIME_OF_NEED };
            let stalled = (client.incoming.is_some() || client.sending) && idle > patience;
            if client.state != State::Cut && (late || stalled) {
                tracing::warn!(client = index, peer = %client.peer, "cut off: it has not moved for {idle}");
                self.cut(index as u32);
            }
        }
        self.settle_clients();
    }

    fn settle_clients(&mut self) {
        for index in 0..self.clients.len() {
            self.end_if_over(index as u32);
        }
    }

    /// Takes the engine and its devices out, at the end. Clients are gone; so are, with the ring, calls of the kernel that
    /// are left.
    pub(crate) fn into_parts(self) -> (Engine, About) {
        let Server { kernel, volume, pool, about, .. } = self;
        drop(kernel);
        drop(pool);
        (volume.into_parts().0, about)
    }

    /// Host requests that are not answered yet.
    fn requests_in_flight(&self) -> usize {
        self.pending.len() - self.free.len()
    }

    /// How many clients are connected.
    pub(crate) fn connected(&self) -> usize {
        self.clients.iter().flatten().count()
    }
}

fn client_has_ended(clients: &[Option<Client>], index: u32) -> bool {
    clients[index as usize].as_ref().is_some_and(Client::has_ended_tls)
}

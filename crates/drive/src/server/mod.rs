//! The thread that owns a volume: sockets, engine and devices in one loop. Only the wait for the next event blocks, and
//! every table has a bound that clients cannot exceed.

mod about;
mod accept;
mod admin;
mod asking;
mod attached;
mod awake;
mod block_device;
mod block_device_control;
mod block_device_state;
mod changing;
mod changing_state;
mod cleaning;
mod client;
mod drives;
mod ends;
mod front;
mod front_thread;
mod fronts;
mod handle;
mod handshakes;
mod host;
mod measure;
mod notes;
mod outage_state;
mod outages;
mod queue_threads;
mod recording;
mod reopening;
mod reopening_state;
mod replacing;
mod replacing_state;
mod requests;
mod resizing;
mod resizing_state;
mod say;
mod share;
mod sleep;
mod spin;
mod stop;
mod traffic;
mod warmth;
mod watchdog;

use std::{
    io,
    path::Path,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use peryton_engine::{Engine, RequestId};
use peryton_units::Nanos;

pub(crate) use self::about::About;
pub(crate) use self::block_device_state::{Announce, BlockDevice};
pub(crate) use self::changing::let_evacuated_go;
pub(crate) use self::fronts::{MOST_FRONTS, RING, Threading};
pub use self::handle::Handle;
pub(crate) use self::reopening_state::Reopening;
pub use self::replacing_state::Successor;
pub use self::resizing_state::NewSize;
use self::{
    asking::Asking,
    awake::Awake,
    front::{Answered, Front, FrontParts},
    fronts::Fronts,
    handshakes::Handshakes,
    queue_threads::QueueThreads,
    say::Limits,
    spin::Spin,
    watchdog::Watchdog,
};
use crate::{
    arena::Memory,
    cpu_latency::CpuLatency,
    disks::Disks,
    health::Watch,
    heat::Heat,
    kernel::{Event, Kernel, Wait, Waker},
    line_log::LineLog,
    listen::Listener,
    nbd::{Export, TlsServer},
    notify::Notifier,
    pool::Pool,
    recorder::Recorder,
    shared_memory::{NoMemory, SharedMemory},
    status::Latencies,
    volume::Volume,
};

/// The longest part of memory that is registered with io_uring at once: its limit, and a bound on what is pinned.
const PINNED_AT_MOST: usize = 1 << 30;
/// The kernel's file for CPU latency limits.
const CPU_LATENCY: &str = "/dev/cpu_dma_latency";
// The kinds of events that the loop waits for.
const CLIENTS: usize = 0;
const DEVICES: usize = 1;

/// A call from another thread, run on the thread that owns the volume.
pub(crate) type Call = Box<dyn FnOnce(&mut Server) + Send>;

/// A volume that is being served.
pub(crate) struct Server {
    /// The clients that this thread serves: all of them, or those whose handshake is not over. It has the kernel that this thread uses.
    front: Front,
    pub(crate) volume: Volume<Disks>,
    /// The threads that serve the others.
    fronts: Fronts,
    /// The threads that have the block device's queues.
    queues: QueueThreads,
    /// The most threads beside this one for clients, and for the block device.
    threads: usize,
    /// Why a thread cannot go on.
    failed: Option<io::Error>,
    pub(crate) latencies: Latencies,
    heat: Heat,
    calls: mpsc::Receiver<Call>,
    started: Instant,
    pub(crate) now: Nanos,
    /// The polling for clients and, while requests are in flight, for devices.
    spins: [Spin; 2],
    /// Which of the two is being waited for.
    awaited: usize,
    awake: Awake,
    watchdog: Watchdog,
    pub(crate) stop: stop::Stop,
    about: About,
    limits: Limits,
    notes: notes::Notes,
    /// Devices whose fencing has been reported as an event, one bit each.
    reported_gone: u32,
    outages: outage_state::Outages,
    reopening: Reopening,
    replacing: replacing_state::Replacing,
    resizing: resizing_state::Resizing,
    changing: changing_state::Changing,
    log: Option<LineLog>,
    recorder: Option<Recorder>,
    handle: Handle,
    block_device: Option<BlockDevice>,
    /// The engine's number for the request that is a client's first piece. Those of the block device's slots come before.
    first_piece: u32,
    /// The memory for the data of its requests.
    block_device_memory: Option<(Memory, usize)>,
    /// The threads of the drives beneath the volume.
    drives: Option<Watch>,
    /// The device to which a budget for wear applies.
    fast: Option<usize>,
    /// The idle time after which each device is to rest, by the design, whether it can or not.
    rests_after: Vec<Option<Nanos>>,
    /// From when on drives may be asked again what was written to their flash.
    count_programs_from: Nanos,
}

/// The parts that a server is made from.
pub(crate) struct Parts {
    pub(crate) kernel: Kernel,
    pub(crate) volume: Volume<Disks>,
    /// The pool of each thread that serves clients; of this thread if there is only one.
    pub(crate) pools: Vec<Pool>,
    pub(crate) threading: Threading,
    pub(crate) waker: Waker,
    pub(crate) export: Export,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) tls: Option<TlsServer>,
    pub(crate) calls: mpsc::Receiver<Call>,
    pub(crate) spin: Duration,
    pub(crate) cpu_latency: CpuLatency,
    pub(crate) started: Instant,
    pub(crate) about: About,
    pub(crate) log: Option<LineLog>,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) handle: Handle,
    pub(crate) notifier: Notifier,
    pub(crate) reopening: Reopening,
}

impl Server {
    pub(crate) fn new(parts: Parts) -> io::Result<Server> {
        let handle = parts.handle.clone();
        let shook = move |done| handle.send(Box::new(move |server: &mut Server| server.front.shook(done)));
        let handshakes = parts.tls.is_some().then(|| Handshakes::new(shook)).transpose()?;
        let (unit, size) = (parts.volume.engine().move_buffer_bytes(), parts.volume.engine().volume_size());
        let most = Nanos(parts.spin.as_nanos().try_into().unwrap_or(u64::MAX >> 1));
        let Threading { threads, ring } = parts.threading;
        let mut pools = parts.pools;
        // Clients in their handshake have no requests.
        let pool = if threads > 0 { Pool::new(0)? } else { pools.pop().expect("there is a pool for this thread") };
        let mut front = Front::new(FrontParts {
            kernel: parts.kernel,
            pool,
            export: Arc::new(parts.export),
            unit,
            longest_zeros: parts.volume.longest_zeros(),
            events: parts.about.events.clone(),
            asking: Arc::new(Asking::new(threads + 2)),
            place: asking::BLOCK_DEVICE + 1,
        });
        front.listen(parts.listeners, parts.tls, handshakes);
        let mut server = Server {
            front,
            volume: parts.volume,
            fronts: Fronts::new(parts.waker, threads),
            queues: QueueThreads::default(),
            threads,
            failed: None,
            latencies: Latencies::default(),
            heat: Heat::new(size),
            calls: parts.calls,
            started: parts.started,
            now: Nanos::ZERO,
            spins: [Spin::new(most), Spin::new(most)],
            awaited: CLIENTS,
            awake: Awake::new(parts.cpu_latency, Path::new(CPU_LATENCY)),
            watchdog: Watchdog::new(parts.notifier),
            stop: stop::Stop::default(),
            about: parts.about,
            limits: Limits::default(),
            notes: notes::Notes::default(),
            reported_gone: 0,
            outages: outage_state::Outages::default(),
            reopening: parts.reopening,
            replacing: replacing_state::Replacing::default(),
            resizing: resizing_state::Resizing::default(),
            changing: changing_state::Changing::default(),
            log: parts.log,
            recorder: parts.recorder,
            handle: parts.handle,
            block_device: None,
            first_piece: 0,
            block_device_memory: None,
            drives: None,
            fast: None,
            rests_after: Vec::new(),
            count_programs_from: Nanos::ZERO,
        };
        server.start_fronts(pools, ring)?;
        Ok(server)
    }

    /// Registers the memory that is used most with the kernel; only a bounded part, because it is pinned.
    pub(crate) fn register(&mut self) {
        let pools =
            std::iter::once(self.front.pool.arena()).filter(|_| self.fronts.is_empty()).chain(self.fronts.arenas());
        let mut memory: Vec<_> = pools.map(|arena| (arena.at(0), arena.len())).collect();
        memory.extend(self.block_device_memory);
        memory.extend(self.volume.backend.arenas().iter().map(|arena| (arena.at(0), arena.len())));
        memory.extend(self.volume.buffers());
        memory.retain(|(_, len)| *len <= PINNED_AT_MOST);
        self.front.kernel.register(&memory);
    }

    /// Serves until stopped, and until everything that was accepted is done.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        self.front.accept_more();
        let mut events = Vec::new();
        loop {
            let wait = self.wait();
            let wait = self.fronts.before(wait, &self.queues);
            self.front.kernel.turn(wait, &mut events)?;
            let asked = self.fronts.after();
            self.queues.take(&mut events);
            self.now = self.clock();
            self.front.set_now(self.now);
            self.volume.backend.set_now(self.now);
            // Sends are mostly complete at once, which says nothing about how fast answers come.
            if asked || events.iter().any(|event| !matches!(event, Event::Sent { .. })) {
                self.spins[self.awaited].came(self.now);
            }
            for event in events.drain(..) {
                self.event(event);
            }
            self.front.go_on_later();
            self.timers();
            self.settle();
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if self.is_finished() {
                self.fronts.end();
                self.queues.end(self.block_device.as_ref().is_some_and(BlockDevice::keeps_commands));
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
        if !self.front.later.is_empty() {
            return Wait::No;
        }
        self.awaited = if self.volume.backend.in_flight() > 0 { DEVICES } else { CLIENTS };
        if self.spins[self.awaited].goes_on(self.now, spin::preempted) {
            return Wait::No;
        }
        let (engine, devices) = (self.volume.engine().deadline(), self.volume.backend.next_due());
        let reopening = self.reopening.deadline(self.now);
        let (awake, watchdog) = (self.awake.deadline(), self.watchdog.deadline());
        let recorder = self.recorder.as_ref().and_then(Recorder::deadline);
        let (resizing, changing) = (self.resizing_deadline(), self.changing.deadline());
        let (look, accept) = (self.front.next_look(), self.front.next_accept());
        let deadlines = [engine, devices, look, awake, accept, reopening, resizing, changing, watchdog, recorder];
        match deadlines.into_iter().flatten().min() {
            None => Wait::Forever,
            Some(due) => Wait::For(Duration::from_nanos(due.saturating_sub(self.now).0)),
        }
    }

    fn timers(&mut self) {
        self.volume.backend.tick(self.now);
        self.awake.tick(self.now);
        self.watchdog.tick(self.now);
        self.tick_recorder();
        if self.volume.engine().deadline().is_some_and(|deadline| deadline <= self.now) {
            self.volume.tick(self.now);
        }
        self.order_drives();
        self.front.accept_more();
        self.front.look();
    }

    #[inline]
    fn event(&mut self, event: Event) {
        match event {
            Event::Device { slot, result } => {
                let result = if result > 0 { result } else { self.unless_removed(slot, result) };
                self.volume.backend.answered(slot, result);
            }
            Event::Received { .. } | Event::Sent { .. } | Event::Accepted { .. } => self.front.socket_event(event),
            Event::BlockDevice { slot, result } => self.block_device_event(slot, result),
            Event::Woken => {
                while let Ok(call) = self.calls.try_recv() {
                    call(self);
                }
            }
        }
    }

    /// Handles everything that can proceed now: completions, replies, requests that waited for buffers. Then submits
    /// the calls to the kernel.
    #[inline]
    fn settle(&mut self) {
        loop {
            self.take_asks();
            let mut finished = std::mem::take(&mut self.volume.backend.finished);
            let mut replies = std::mem::take(self.volume.replies());
            if finished.is_empty() && replies.is_empty() {
                if !self.volume.backend.failures.is_empty() {
                    self.complain();
                    continue;
                }
                if let Some(result) = self.volume.backend.own_finished.take() {
                    self.notes_step_done(result);
                    continue;
                }
                if !self.front.serve_waiters() {
                    break;
                }
                continue;
            }
            // Before failures are reported, the engine has to know which of them count.
            self.excuse();
            for (io, result) in finished.drain(..) {
                self.volume.complete(self.now, io, result);
            }
            for (RequestId(id), result) in replies.drain(..) {
                if self.stop.is_flushing() {
                    self.flushed(result);
                } else if let Some(piece) = (id as u32).checked_sub(self.first_piece) {
                    self.client_replied(piece, result);
                } else {
                    self.block_device_replied(id as u32, result);
                }
            }
            // The allocation is reused unless new results have come meanwhile.
            if self.volume.backend.finished.is_empty() {
                self.volume.backend.finished = finished;
            }
            if self.volume.replies().is_empty() {
                *self.volume.replies() = replies;
            }
        }
        self.go_on_replacing();
        self.go_on_resizing();
        let mut raw = std::mem::take(&mut self.volume.backend.raw);
        for raw in raw.drain(..) {
            self.front.kernel.device(&raw);
        }
        self.volume.backend.raw = raw;
        self.volume.heed_doubt();
        if self.volume.engine().gone() != self.reported_gone {
            self.report_deaths();
        }
        self.report_outages();
        self.report_doubt();
        self.reopen_if_stopped();
        self.go_on_changing();
        let mut answered = std::mem::take(&mut self.front.answered);
        for Answered { asked, took, offset, len, flags } in answered.drain(..) {
            self.record(asked, took, offset, len, flags);
        }
        self.front.answered = answered;
        self.queues.wake();
        self.fronts.wake();
        self.front.send();
        self.front.ended.clear();
        self.send_clients_on();
    }

    /// Returns the engine and the devices at the end, when all clients are gone. System calls that are left end with
    /// the ring, or, if a block device stays for the next server, with the process.
    pub(crate) fn into_parts(self) -> (Engine, About, Result<SharedMemory, NoMemory>, Option<BlockDevice>) {
        let Server { front, fronts, volume, about, block_device, .. } = self;
        // The kernel first, which may be using the memory.
        let Front { kernel, .. } = front;
        match &block_device {
            Some(device) if device.keeps_commands() => kernel.keep(),
            _ => drop(kernel),
        }
        drop(fronts);
        let (engine, _, memory) = volume.into_parts();
        (engine, about, memory, block_device)
    }
}

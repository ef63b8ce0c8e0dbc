//! The thread that owns a volume: sockets, engine and devices in one loop. Only the wait for the next event blocks, and
//! every table has a bound that clients cannot exceed.
//!
//! `front` has the clients: `accept` and `handshakes` their beginning, `client` and `traffic` their connections, `host` and `requests`
//! what they ask for, `share` what each may hold, `ends` when one is cut off. `asks` takes what they ask to the volume.
//! `changing` is the state machine of changes for which the volume is closed for a moment; meanwhile `closed` has the engine on another
//! thread. `replacing`, `resizing`, `attached`, `warmth` and `cleaning` are what those changes and other long work consist of.
//! `outages`, `flush_errors` and `drives` say who has to hear of what fails. `block_device` serves the kernel's requests.
//! `timers` has the times at which a part goes on by itself. `admin`, `measure`, `recording`, `say` and `handle` are for other threads; `stop` and `watchdog` for the end, and for signs of life.

mod about;
mod accept;
mod admin;
mod asks;
mod attached;
mod block_device;
mod block_device_control;
mod block_device_state;
mod changing;
mod changing_state;
mod cleaning;
mod client;
mod closed;
mod drives;
mod drives_state;
mod ends;
mod flush_errors;
mod front;
mod handle;
mod handshakes;
mod host;
mod measure;
mod notes;
mod outage_state;
mod outages;
mod recording;
mod registered;
mod replacing;
mod replacing_state;
mod requests;
mod resizing;
mod say;
mod share;
mod stop;
mod timers;
mod traffic;
mod warmth;
mod watchdog;

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, mpsc},
    time::Instant,
};

use peryton_engine::{Engine, RequestId};
use peryton_units::Nanos;

pub(crate) use self::about::About;
pub(crate) use self::block_device_state::{Announce, BlockDevice};
pub(crate) use self::changing::let_evacuated_go;
pub(crate) use self::changing_state::Changing;
pub use self::changing_state::{NewSize, Stoppable};
pub use self::handle::Handle;
pub(crate) use self::handshakes::Handshakes;
pub use self::replacing_state::Successor;
use self::{
    front::{Answered, Front, FrontParts},
    say::Limits,
    watchdog::Watchdog,
};
use crate::{
    arena::Memory,
    disks::Disks,
    heat::Heat,
    kernel::{Event, Kernel},
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

/// A call from another thread, run on the thread that owns the volume.
pub(crate) type Call = Box<dyn FnOnce(&mut Server) + Send>;

/// When a call is run.
pub(crate) enum Called {
    /// When the volume has its engine.
    WithEngine(Call),
    /// Also while another thread has it.
    Always(Call),
}

/// A volume that is being served.
pub(crate) struct Server {
    /// The clients. It has the kernel's ring.
    front: Front,
    pub(crate) volume: Volume<Disks>,
    /// Why the server cannot go on.
    failed: Option<io::Error>,
    pub(crate) latencies: Latencies,
    heat: Heat,
    calls: mpsc::Receiver<Called>,
    /// Calls that wait for the engine. Each control client waits for one, and each thread of the server has one or two.
    deferred: VecDeque<Call>,
    started: Instant,
    pub(crate) now: Nanos,
    watchdog: Watchdog,
    pub(crate) stop: stop::Stop,
    about: About,
    limits: Limits,
    notes: notes::Notes,
    /// Devices whose fencing has been reported as an event, one bit each.
    reported_gone: u32,
    outages: outage_state::Outages,
    replacing: replacing_state::Replacing,
    changing: Changing,
    log: Option<LineLog>,
    recorder: Option<Recorder>,
    handle: Handle,
    block_device: Option<BlockDevice>,
    /// The engine's number for the request that is a client's first piece. Those of the block device's slots come before.
    first_piece: u32,
    /// The memory for the data of its requests.
    block_device_memory: Option<(Memory, usize)>,
    drives: drives_state::Drives,
}

/// The parts that a server is made from.
pub(crate) struct Parts {
    pub(crate) kernel: Kernel,
    pub(crate) volume: Volume<Disks>,
    pub(crate) pool: Pool,
    pub(crate) export: Export,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) tls: Option<TlsServer>,
    /// The thread of its handshakes, if there is TLS.
    pub(crate) handshakes: Option<Handshakes>,
    pub(crate) calls: mpsc::Receiver<Called>,
    pub(crate) started: Instant,
    pub(crate) about: About,
    pub(crate) log: Option<LineLog>,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) handle: Handle,
    pub(crate) notifier: Notifier,
    pub(crate) changing: Changing,
}

impl Server {
    /// Starts the thread of TLS handshakes.
    pub(crate) fn handshakes(handle: Handle) -> io::Result<Handshakes> {
        Handshakes::new(move |done| handle.send_always(Box::new(move |server: &mut Server| server.front.shook(done))))
    }

    pub(crate) fn new(parts: Parts) -> Server {
        let (unit, size) = (parts.volume.engine().move_buffer_bytes(), parts.volume.engine().volume_size());
        let mut front = Front::new(FrontParts {
            kernel: parts.kernel,
            pool: parts.pool,
            export: Arc::new(parts.export),
            unit,
            longest_zeros: parts.volume.longest_zeros(),
            events: parts.about.events.clone(),
            lacks_records: parts.about.lacks_records,
        });
        front.listen(parts.listeners, parts.tls, parts.handshakes);
        Server {
            front,
            volume: parts.volume,
            failed: None,
            latencies: Latencies::default(),
            heat: Heat::new(size),
            calls: parts.calls,
            deferred: VecDeque::new(),
            started: parts.started,
            now: Nanos::ZERO,
            watchdog: Watchdog::new(parts.notifier),
            stop: stop::Stop::default(),
            about: parts.about,
            limits: Limits::default(),
            notes: notes::Notes::default(),
            reported_gone: 0,
            outages: outage_state::Outages::default(),
            replacing: replacing_state::Replacing::default(),
            changing: parts.changing,
            log: parts.log,
            recorder: parts.recorder,
            handle: parts.handle,
            block_device: None,
            first_piece: 0,
            block_device_memory: None,
            drives: drives_state::Drives::default(),
        }
    }

    /// Serves until stopped, and until everything that was accepted is done.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        self.front.accept_more();
        let mut events = Vec::new();
        loop {
            let wait = self.wait();
            self.front.kernel.turn(wait, &mut events)?;
            self.now = self.clock();
            self.front.set_now(self.now);
            self.volume.backend.set_now(self.now);
            for event in events.drain(..) {
                self.event(event);
            }
            self.run_deferred();
            self.front.go_on_later();
            self.timers();
            self.settle();
            if self.stop.takes_wish() {
                self.begin_to_stop();
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            loop {
                match self.end_goes_on() {
                    stop::Step::Over => return Ok(()),
                    stop::Step::Waits => break,
                    stop::Step::Settle => self.settle(),
                }
            }
        }
    }

    /// Ends the server in this turn, and leaves the volume as it is.
    pub(crate) fn fail(&mut self, why: io::Error) {
        self.failed = Some(why);
    }

    fn clock(&self) -> Nanos {
        Nanos(self.started.elapsed().as_nanos() as u64)
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
                while let Ok(called) = self.calls.try_recv() {
                    match called {
                        Called::Always(call) => call(self),
                        Called::WithEngine(call) => self.deferred.push_back(call),
                    }
                }
            }
        }
    }

    /// Runs the calls that need the engine, if it is here.
    fn run_deferred(&mut self) {
        while self.changing.away().is_none()
            && let Some(call) = self.deferred.pop_front()
        {
            call(self);
        }
    }

    /// Notes the request to stop, which waits until the engine is back; the engine's thread no longer waits for devices.
    fn asked_to_stop(&mut self) {
        if let Some(away) = self.changing.away() {
            away.shared.give_up();
        }
    }

    /// Handles everything that can proceed now: completions, replies, requests that waited for buffers. Then submits
    /// the calls to the kernel.
    #[inline]
    fn settle(&mut self) {
        if self.changing.away().is_some() {
            return self.settle_without_engine();
        }
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
            // Before failures are reported, the engine has to know which devices it must not give up for them.
            self.excuse();
            for (io, result) in finished.drain(..) {
                self.volume.complete(self.now, io, result);
            }
            self.front.flush_error_causes = self.volume.backend.failed_flushes() + self.volume.engine().errors_owed();
            for (RequestId(id), result) in replies.drain(..) {
                let result = result.map_err(|error| self.for_lack_of_space(error));
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
        let mut raw = std::mem::take(&mut self.volume.backend.raw);
        for raw in raw.drain(..) {
            self.front.kernel.device(&raw);
        }
        self.volume.backend.raw = raw;
        // This comes before the answers of the turn are sent: records may point to data that a device has lost.
        let heard = self.block_device.as_ref().map(|device| device.heard);
        self.volume.heed_doubt(self.front.flush_errors.are_owed(heard));
        if self.volume.engine().gone() != self.reported_gone {
            self.report_deaths();
        }
        self.report_outages();
        self.report_doubt();
        self.go_on_changing();
        if self.changing.rests() {
            let (status, snapshot) = (self.status(), self.snapshot());
            self.go_away(status, snapshot);
        }
        self.record_answered();
        self.front.send();
    }

    /// A turn without the engine: requests wait, up to a bound, and connections go on.
    #[cold]
    fn settle_without_engine(&mut self) {
        while self.front.serve_waiters() {}
        self.record_answered();
        self.front.send();
    }

    #[inline]
    fn record_answered(&mut self) {
        let mut answered = std::mem::take(&mut self.front.answered);
        for Answered { asked, took, offset, len, flags } in answered.drain(..) {
            self.record(asked, took, offset, len, flags);
        }
        self.front.answered = answered;
    }

    /// Returns the engine and the devices at the end, when all clients are gone. System calls that are left end with
    /// the ring, or, if a block device stays for the next server, with the process.
    pub(crate) fn into_parts(self) -> (Engine, About, Result<SharedMemory, NoMemory>, Option<BlockDevice>) {
        let Server { front, volume, about, block_device, .. } = self;
        // The kernel first, which may be using the memory.
        let Front { kernel, .. } = front;
        match &block_device {
            Some(device) if device.keeps_commands() => kernel.keep(),
            _ => drop(kernel),
        }
        let (engine, _, memory) = volume.into_parts();
        (engine, about, memory, block_device)
    }
}

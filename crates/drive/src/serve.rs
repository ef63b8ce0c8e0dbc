//! Serves a volume: from a design and its devices to a server that runs until it is stopped.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::{Duration, Instant, SystemTime},
};

use peryton_engine::{DeviceId, Engine, LogPart, Logging, Opened, Overlay, Placement, closed};
use peryton_recording::RecordedDevice;
use peryton_units::{Bytes, Nanos};

use crate::{
    block::Linux,
    clock::unix_s,
    control::{Control, Listening},
    copies::{self, Served},
    design_file::DesignFile,
    disks::{Ability, Disks},
    events::{Events, What},
    health::Table as DriveTable,
    http::{Address, Http, Listening as HttpListening, Refused},
    kernel::{Kernel, Waker},
    line_log::LineLog,
    listen::{Endpoint, Listener},
    live::Live,
    metrics::{Described, Source},
    multi_mount::{self, Held},
    nbd::{Export, Part, TlsFiles, TlsServer},
    notify::Notifier,
    offline::{self, OfDevices as _},
    open::{Device, DeviceOpenError, DevicePath, Opening, Rights, named},
    own_sizes::any_superblock,
    pool::Pool,
    read_only::ReadOnly,
    recorder::{Noting, Record, Recorder, Start},
    serve_error::ServeError,
    server::{About, Announce, BlockDevice, Called, Changing, Handle, Handshakes, Parts, Server, let_evacuated_go},
    shared_memory::{Handoff, NoMemory, SharedMemory},
    site::{LivePage, PageSite, Site},
    spec::{Tuner, VolumeSpec},
    status::Traffic,
    storage::{Files, PATIENCE},
    ublk::{Control as UblkControl, Prepared, UblkError, UblkSettings, Wanted},
    volume::{LONGEST_ZEROS, Volume, Workspace},
};

/// The smallest pool: a client may send requests of 32 MiB.
const SMALLEST_POOL: Bytes = Bytes::mib(8);

/// How a volume is served; no setting here changes what is stored.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which build of Peryton this is, for the page, metrics and recordings.
    pub version: &'static str,
    /// Memory for the data of host requests. When it is used up, clients wait.
    pub pool: Bytes,
    /// The most memory for the buffers of moves.
    pub move_memory: Bytes,
    /// Whether to use io_uring if the system allows it.
    pub io_uring: bool,
    /// Whether to bypass the page cache if the file system supports that.
    pub direct: bool,
    /// Certificates for TLS; without them only unix sockets are served.
    pub tls: Option<TlsFiles>,
    /// How often the health of the drives beneath the volume is read; `None`: never.
    pub health: Option<Duration>,
    /// Whether devices may be made to fail on demand ([`Handle::fault`]).
    pub drills: bool,
    /// Whether the volume is to be read only; it is anyway if a device cannot be written.
    pub read_only: bool,
    /// Names of devices to leave out: they are not opened, and data that only they have is lost.
    pub without: Vec<String>,
    /// How to serve the volume as a block device of this machine, if at all.
    pub ublk: Option<UblkSettings>,
    /// The program that watches this one, if there is one. It hears of signs of life, of progress and of what the server does; that
    /// clients can use the volume is for the caller to report.
    pub notifier: Notifier,
    /// Where to record what clients do, if at all.
    pub record: Option<Record>,
    /// The file in which the path of a device is set when another one takes its place, if there is one.
    pub design: Option<DesignFile>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            version: env!("CARGO_PKG_VERSION"),
            pool: Bytes::mib(64),
            move_memory: Bytes::gib(1),
            io_uring: true,
            direct: true,
            tls: None,
            health: Some(HEALTH_EVERY),
            drills: false,
            read_only: false,
            without: Vec::new(),
            ublk: None,
            notifier: Notifier::default(),
            record: None,
            design: None,
        }
    }
}

/// How often the health of drives is read by default.
const HEALTH_EVERY: Duration = Duration::from_secs(300);

/// A volume whose devices are open and locked, with an address for clients.
#[derive(Debug)]
pub struct Service {
    engine: Engine,
    /// Why the volume is only read, if it is.
    read_only: Option<ReadOnly>,
    /// The blocks on the devices that name this process as the server. A volume that is only read has none.
    held: Option<Held>,
    placement: Placement,
    opened: Opened,
    lacks_records: bool,
    tuner: Option<Tuner>,
    names: Vec<String>,
    /// Where the devices are according to the design.
    paths: Vec<PathBuf>,
    devices: Vec<Option<Device>>,
    export: Export,
    listeners: Vec<Listener>,
    pool: Pool,
    tls: Option<TlsServer>,
    settings: Settings,
    handle: Handle,
    calls: mpsc::Receiver<Called>,
    events: Events,
    controls: Vec<Listening>,
    sites: Vec<HttpListening>,
    /// Connections to any of them that got nothing.
    refused: Arc<Refused>,
    log: Option<LineLog>,
    recorder: Option<Recorder>,
    memory: Result<SharedMemory, NoMemory>,
    handoff: Handoff,
    /// Says that this process serves the volume.
    _served: Option<Served>,
    ublk: Option<UblkControl>,
    announce: Option<Announce>,
    /// What is known of the drives beneath the volume.
    drives: Arc<DriveTable>,
}

/// What serving needs of the system.
struct Ready {
    disks: Disks,
    workspace: Workspace,
    kernel: Kernel,
    /// The thread of TLS handshakes, if there is TLS.
    handshakes: Option<Handshakes>,
    block_device: Option<Prepared>,
}

/// What a server did while it served.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Summary {
    /// The requests of clients.
    pub traffic: Traffic,
    /// The engine's statistics.
    #[serde(rename = "ledger")]
    pub stats: peryton_engine::Stats,
}

impl Service {
    /// Opens the devices, recovers the volume, and listens. Clients that connect wait until [`Service::run`] is called.
    ///
    /// # Errors
    /// A device is missing, too small or in use, the volume cannot be opened, or the address cannot be listened on.
    pub fn open(spec: &VolumeSpec, endpoint: &Endpoint, settings: Settings) -> Result<Service, ServeError> {
        if settings.pool < SMALLEST_POOL {
            let pool = settings.pool;
            return Err(ServeError::Refused(format!("a pool of {pool} is too small: give at least {SMALLEST_POOL}")));
        }
        if let (Some(_), Placement::Logging(Logging { primaries, .. })) = (&settings.ublk, &spec.config.placement)
            && primaries.len() > 1
        {
            let what = "several primaries share the log, and each is a volume of its own, which ublk does not serve: leave out --ublk, and attach each with nbd-client";
            return Err(ServeError::Refused(format!("{what} (placement.primary)")));
        }
        let recording = settings.record.as_ref().map(Recorder::create).transpose()?;
        let ublk = ublk_control(&settings)?;
        settings.notifier.status("opening the volume");
        let tls = match (&settings.tls, endpoint) {
            (None, Endpoint::Tcp(address)) => {
                return Err(ServeError::Refused(format!(
                    "{address}: TCP is served with TLS only: give --tls-cert, --tls-key and --tls-ca, or the path of a unix socket"
                )));
            }
            (Some(files), Endpoint::Tcp(_)) => Some(TlsServer::from_files(files)?),
            (_, Endpoint::Unix(_)) => None,
        };
        let system = |what| move |source| ServeError::System { what, source };
        let pool = Pool::new(settings.pool.0 as usize).map_err(system("memory for the pool (--pool)"))?;
        let waker = Waker::new().map_err(system("an eventfd"))?;
        let handoff = Handoff::new(&spec.process_death, &settings.notifier);
        let InPlace { devices, mut engine, opened, state, read_only, held, lacks_records } =
            open_in_place(spec, &settings, &handoff)?;
        let tuner = spec.tuner.clone();
        let events = Events::default();
        // The records of the earlier server are needed until here: now their changes are durable.
        let memory = match &read_only {
            Some(_) => Err(NoMemory::NotNeeded),
            None => handoff.begin(&mut engine, &devices, lacks_records),
        };
        if let Some(ReadOnly { why, .. }) = &read_only {
            tracing::warn!("the volume is only read: {why}");
        }
        match (&memory, opened.taken_over) {
            (Err(NoMemory::System { .. }), _) => {
                let why = memory.as_ref().err().map(ToString::to_string).unwrap_or_default();
                tracing::warn!("if the server is killed, unflushed writes may be lost: {why}");
                events.report(What::Unprotected { why });
            }
            (_, Some(records)) => {
                tracing::info!(records, "the previous server was killed; its acknowledged writes are kept")
            }
            _ if lacks_records => tracing::error!(
                "the previous server was killed and has left no records: writes that it answered and that were not flushed may be lost"
            ),
            _ if !opened.clean && devices.iter().flatten().count() > 1 => tracing::warn!(
                "the volume was not closed in good order: only the journal can tell a device from an older copy of it, such as a \
                 snapshot"
            ),
            _ => {}
        }
        let served = handoff.directory().and_then(|directory| copies::say(directory, opened.volume, &devices));
        let served = match served {
            Ok((served, others)) => {
                for other in others {
                    tracing::warn!(
                        "a copy of this volume is served on this machine as well, by {other}: each has its own data from now on; give the \
                         copy an identity of its own before both become part of one machine's mounts (a file system's UUID is copied, too)"
                    );
                    events.report(What::Copy { served: other });
                }
                Some(served)
            }
            Err(why) => {
                tracing::debug!("whether a copy of this volume is served as well is not known: {why}");
                None
            }
        };
        let mut export = Export::new(&spec.name, engine.volume_size());
        export.rotational = spec.rotational;
        let parts = engine.log_parts();
        if parts.len() > 1 {
            // Each is a volume of its own to clients.
            let part = |part: LogPart| Part {
                name: spec.devices[part.device.index()].name.clone(),
                from: part.range.start,
                size: part.range.end - part.range.start,
            };
            export.parts = parts.into_iter().map(part).collect();
        }
        export.read_only = read_only.is_some();
        // A request, with its place in a block, must fit into half of the pool, so that two clients never block each other.
        let most = (settings.pool.0 / 2).min(32 << 20);
        export.block.maximum = Bytes(1 << most.ilog2());
        let (sender, calls) = mpsc::channel();
        let handle = Handle::new(sender, waker);
        let paths: Vec<_> = devices.iter().map(|device| device.as_ref().map(|device| device.path.clone())).collect();
        let drives = Arc::new(DriveTable::new(&Linux::default(), &paths, settings.health));
        let recorded = |(device, at): (&Option<Device>, &DevicePath)| RecordedDevice {
            name: at.name.clone(),
            size: device.as_ref().map(|device| device.size),
        };
        let begin = settings.record.clone().zip(recording).map(|(record, file)| {
            let devices = devices.iter().zip(&spec.devices).map(recorded).collect();
            let (version, name, volume) = (settings.version, spec.name.clone(), engine.volume_size());
            (record, file, Start { version, name, volume, devices, state })
        });
        let mut service = Service {
            engine,
            read_only,
            held,
            placement: spec.config.placement.clone(),
            opened,
            lacks_records,
            tuner,
            paths: spec.devices.iter().map(|device| device.path.clone()).collect(),
            names: spec.devices.iter().map(|device| device.name.clone()).collect(),
            devices,
            export,
            listeners: Vec::new(),
            pool,
            tls,
            settings,
            handle,
            calls,
            events,
            controls: Vec::new(),
            sites: Vec::new(),
            refused: Arc::default(),
            log: None,
            recorder: None,
            memory,
            handoff,
            _served: served,
            ublk,
            announce: None,
            drives,
        };
        let listen = || -> Result<(), ServeError> {
            service.export.check()?;
            Workspace::new(&service.engine, service.settings.move_memory.0)?;
            service.recorder = begin.map(|(record, file, start)| Recorder::begin(&record, file, start)).transpose()?;
            service.listeners.push(Listener::bind(endpoint)?);
            Ok(())
        };
        match listen() {
            Ok(()) => Ok(service),
            Err(error) => {
                service.close_unserved();
                Err(error)
            }
        }
    }

    /// Sets the log that the program writes, so that the status can report lines that were dropped.
    pub fn set_log(&mut self, log: LineLog) {
        self.log = Some(log);
    }

    /// A handle to the server, for other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// The address for clients.
    pub fn endpoint(&self) -> Endpoint {
        self.listeners[0].endpoint()
    }

    /// The size of the volume.
    pub fn size(&self) -> Bytes {
        self.export.size
    }

    /// Why the volume is only read, if it is.
    pub fn read_only(&self) -> Option<&ReadOnly> {
        self.read_only.as_ref()
    }

    /// How many bytes of the volume are lost with devices that are gone.
    pub fn lost(&self) -> Bytes {
        self.engine.losses(0).bytes
    }

    /// The names of the devices that were evacuated, and without which the volume is served.
    pub fn evacuated(&self) -> Vec<String> {
        let devices = self.names.iter().enumerate();
        let evacuated = devices.filter(|(index, _)| self.engine.was_evacuated(DeviceId(*index as u8)));
        evacuated.map(|(_, name)| name.clone()).collect()
    }

    /// Calls `announce` with the path of the block device when it can be used, on another thread.
    pub fn when_live(&mut self, announce: impl FnOnce(&str) + Send + 'static) {
        self.announce = Some(Announce(Box::new(announce)));
    }

    /// Listens on a control socket while the returned value lives and the volume is served.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn control(&mut self, path: &Path) -> Result<Control, ServeError> {
        let control = Control::listen(path, &self.handle, &self.events)?;
        self.controls.push(control.listening());
        Ok(control)
    }

    /// Answers scrapers of metrics while the returned value lives and the volume is served. The log has to be
    /// set before.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn metrics(&mut self, address: &Address) -> Result<Http, ServeError> {
        let metrics = self.source().0;
        self.listen(address, metrics, None)
    }

    /// The same, and shows the page of the volume at the same address.
    ///
    /// # Errors
    /// The address cannot be listened on, or the system has no thread that follows the volume.
    pub fn http(&mut self, address: &Address, page: LivePage) -> Result<Http, ServeError> {
        let (metrics, described) = self.source();
        let live = Live::start(self.handle.clone(), described, self.events.clone())
            .map_err(|source| ServeError::System { what: "a thread that follows the volume", source })?;
        let page = PageSite { page, live };
        self.listen(address, metrics, Some(page))
    }

    fn listen(&mut self, address: &Address, metrics: Source, page: Option<PageSite>) -> Result<Http, ServeError> {
        let site = Site { metrics, page, is_tcp: matches!(address, Address::Loopback(_)) };
        let http = Http::listen(address, Arc::new(site))?;
        self.sites.push(http.listening());
        Ok(http)
    }

    fn source(&self) -> (Source, Arc<Described>) {
        let described = Arc::new(self.described());
        (Source::new(self.handle.clone(), Arc::clone(&described), Arc::clone(&self.refused)), described)
    }

    fn described(&self) -> Described {
        Described {
            version: self.settings.version,
            name: self.export.name.clone(),
            id: self.opened.volume.0,
            placement: self.placement.kind(),
            fast: self.placement.hybrid().map(|pair| pair.fast.index()),
            started: SystemTime::now(),
            log: self.log.clone(),
            devices: self.names.clone(),
            drives: Arc::clone(&self.drives),
        }
    }

    /// The state in which the volume was found.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Serves on this thread until stopped, then closes the volume.
    ///
    /// # Errors
    /// A system call fails, or the volume cannot be closed in good order; it is recovered when it is opened next.
    pub fn run(mut self) -> Result<Summary, ServeError> {
        match self.make_ready() {
            Ok(ready) => self.serve_with(ready),
            Err(error) => {
                self.close_unserved();
                Err(error)
            }
        }
    }

    /// Gets everything from the system that serving needs, so that the volume can be closed if something is missing.
    fn make_ready(&mut self) -> Result<Ready, ServeError> {
        let system = |what| move |source| ServeError::System { what, source };
        let workspace = Workspace::new(&self.engine, self.settings.move_memory.0)?;
        let devices = &self.devices;
        let abilities =
            devices.iter().map(|device| device.as_ref().map_or_else(Ability::absent, |device| device.ability.clone()));
        let mut disks = Disks::new(abilities.collect()).map_err(system("memory for bounce buffers"))?;
        let absent = devices.iter().enumerate().filter(|(_, device)| device.is_none());
        absent.for_each(|(index, _)| disks.faults_mut().leave_out(index));
        if self.recorder.is_some() {
            disks.measure();
        }
        let mut files: Vec<_> =
            devices.iter().map(|device| device.as_ref().map(|device| device.file.clone())).collect();
        if let Some(division) = devices.iter().flatten().find_map(|device| device.division.as_ref()) {
            let home = division.elsewhere().map(|file| {
                files.push(Some(file.clone()));
                DeviceId((files.len() - 1) as u8)
            });
            disks.divide(division.map, home.or(division.home.is_some().then_some(division.map.home)));
        } else {
            // For a device that is to take the place of another one.
            files.push(None);
        }
        let kernel = Kernel::new(files, self.handle.waker(), DEPTH, self.settings.io_uring)
            .map_err(system("threads for the devices"))?;
        if matches!(kernel, Kernel::Threads(_)) {
            if self.ublk.is_some() {
                return Err(UblkError::NoRing.into());
            }
            for listener in &self.listeners {
                listener.set_nonblocking().map_err(system("the listening socket"))?;
            }
        }
        let handshakes = self.tls.is_some().then(|| Server::handshakes(self.handle.clone())).transpose();
        let handshakes = handshakes.map_err(system("threads for clients"))?;
        if let Some(held) = &self.held {
            let handle = self.handle.clone();
            let taken = move |by: String| {
                tracing::error!("another server has the volume, so this one stops at once: {by}");
                handle.send_always(Box::new(move |server| server.fail(std::io::Error::other(by))));
            };
            held.renew(Arc::clone(&self.drives), taken).map_err(system("a thread"))?;
        }
        // It comes last, because it would stay without a server.
        let block_device = self.prepare_block_device()?;
        Ok(Ready { disks, workspace, kernel, handshakes, block_device })
    }

    fn serve_with(self, ready: Ready) -> Result<Summary, ServeError> {
        let system = |what| move |source| ServeError::System { what, source };
        let Ready { disks, workspace, kernel, handshakes, block_device } = ready;
        let sockets = Sockets { controls: self.controls, sites: self.sites };
        let mut volume = Volume::with(self.engine, disks, workspace);
        volume.keep_in(self.memory);
        volume.know_written(self.opened.written_to);
        if self.read_only.is_some() {
            volume.only_read();
        }
        let Opened { clean, generation, ref notes, .. } = self.opened;
        let kept = About::kept(notes);
        let lacks_records = self.lacks_records;
        self.events.report(What::Opened { clean, generation, lacks_records });
        let events = self.events.clone();
        let written_to = self.opened.written_to;
        let (name, tuner, opened) = (self.export.name.clone(), self.tuner, self.opened);
        let names = self.names;
        let (devices, read_only, held) = (self.devices, self.read_only, self.held);
        let (settings, drills) = (Vec::new(), false);
        let about =
            About { name, names, opened, lacks_records, devices, tuner, settings, events, read_only, held, drills };
        let mut server = Server::new(Parts {
            kernel,
            volume,
            pool: self.pool,
            export: self.export,
            listeners: self.listeners,
            tls: self.tls,
            handshakes,
            calls: self.calls,
            started: Instant::now(),
            about,
            log: self.log,
            recorder: self.recorder,
            handle: self.handle,
            notifier: self.settings.notifier.clone(),
            changing: Changing::new(self.handoff),
        });
        server.allow_drills(self.settings.drills);
        server.let_devices_be_replaced(self.settings.direct);
        server.let_devices_change(self.paths, self.settings.design.clone());
        server.volume.engine_mut().tell_time(Nanos::ZERO, unix_s());
        server.expect_block_device(block_device.as_ref());
        server.register();
        server.apply_patience();
        server.restore_settings(kept);
        let fast = self.placement.hybrid().map(|pair| pair.fast.index());
        let mut begun = server.watch_drives(self.drives, fast).map_err(system("threads for the drives"));
        if let (Ok(()), Some(prepared)) = (&begun, block_device) {
            begun = server.attach(prepared, self.announce).map_err(ServeError::from);
        }
        if let Err(error) = begun {
            let (engine, about, memory, _) = server.into_parts();
            let About { devices, held, read_only, .. } = about;
            Closing { engine, devices, held, is_written: read_only.is_none(), memory, sockets }
                .close_after_failure(&self.settings.notifier, written_to);
            return Err(error);
        }
        server.run().map_err(system("waiting for events"))?;
        let summary = Summary { traffic: server.latencies.traffic(), stats: server.volume.engine().stats().clone() };
        let in_doubt = server.in_doubt();
        server.finish_recording();
        let (now, written_to) = (server.now, server.volume.written_to());
        let (mut engine, about, memory, block_device) = server.into_parts();
        let failed = block_device.and_then(BlockDevice::end);
        about.events.end();
        if let Some(error) = in_doubt {
            // The volume stays marked as open on its devices, so it is recovered when it is opened next.
            sockets.end();
            about.devices.iter().flatten().for_each(Device::unlock);
            return Err(error);
        }
        engine.tell_time(now, unix_s());
        let About { devices, held, read_only, .. } = about;
        let is_written = read_only.is_none();
        Closing { engine, devices, held, is_written, memory, sockets }
            .close(&self.settings.notifier, Some(written_to))?;
        tracing::info!("closed in good order");
        failed.map_or(Ok(summary), |error| Err(error.into()))
    }
}

/// A volume that is served no more, or was not served.
struct Closing {
    engine: Engine,
    devices: Vec<Option<Device>>,
    held: Option<Held>,
    /// Whether the volume was opened to be written. Otherwise there is nothing to close.
    is_written: bool,
    memory: Result<SharedMemory, NoMemory>,
    sockets: Sockets,
}

impl Closing {
    /// Closes the volume, and lets go of its devices and addresses. If that fails, the volume is recovered when it is opened next.
    fn close(mut self, notifier: &Notifier, written_to: Option<Bytes>) -> Result<(), ServeError> {
        notifier.status("closing the volume");
        let files = Files::new(&self.devices).map_err(|source| ServeError::System { what: "memory", source });
        let closed = files.and_then(|files| {
            if !self.is_written {
                return Ok(());
            }
            written_to.into_iter().for_each(|to| self.engine.tell_written_to(to));
            Ok(self.engine.close(&mut files.notifying(notifier))?)
        });
        if let (Ok(()), Some(held)) = (&closed, &self.held) {
            held.release();
        }
        // The next server of the volume may need the same addresses.
        self.sockets.end();
        self.devices.iter().flatten().for_each(Device::unlock);
        match (&closed, self.memory) {
            (Ok(()), Ok(memory)) => memory.remove(),
            // The records may point to lost data, so the next server must not use them. The last flush covers all that was answered.
            (Err(_), Ok(mut memory)) => memory.doubt(true),
            (_, Err(_)) => {}
        }
        closed
    }

    /// Closes a volume that no client has used, after a failure that is the one to report.
    fn close_after_failure(self, notifier: &Notifier, written_to: Option<Bytes>) {
        if let Err(error) = self.close(notifier, written_to) {
            tracing::warn!(%error, "the volume is recovered when it is opened next");
        }
    }
}

impl Service {
    /// Makes the block device, or finds the one that waits for a server of this volume.
    fn prepare_block_device(&mut self) -> Result<Option<Prepared>, UblkError> {
        let (Some(control), Some(settings)) = (self.ublk.take(), self.settings.ublk.clone()) else { return Ok(None) };
        let wanted = Wanted {
            settings,
            name: self.export.name.clone(),
            volume: self.opened.volume.0,
            size: self.export.size,
            rotational: self.export.rotational,
            read_only: self.read_only.is_some(),
            memory: self.settings.pool,
            longest_zeroes: LONGEST_ZEROS as u64,
        };
        let prepared = Prepared::new(control, &wanted)?;
        if prepared.recovered {
            self.settings.notifier.status(&format!("taking over /dev/ublkb{}", prepared.info.id));
        }
        Ok(Some(prepared))
    }

    /// Closes the volume again, which no client has used.
    pub fn close_unserved(self) {
        let Service { engine, devices, held, memory, controls, sites, .. } = self;
        let (is_written, sockets) = (self.read_only.is_none(), Sockets { controls, sites });
        Closing { engine, devices, held, is_written, memory, sockets }
            .close_after_failure(&self.settings.notifier, self.opened.written_to);
    }
}

/// The addresses that the next server of the volume may need.
struct Sockets {
    controls: Vec<Listening>,
    sites: Vec<HttpListening>,
}

impl Sockets {
    fn end(&self) {
        self.controls.iter().for_each(Listening::end);
        self.sites.iter().for_each(HttpListening::end);
    }
}

/// Opens the kernel's control device if the volume is to be a block device.
fn ublk_control(settings: &Settings) -> Result<Option<UblkControl>, UblkError> {
    let Some(ublk) = &settings.ublk else { return Ok(None) };
    ublk.check()?;
    if !settings.io_uring {
        return Err(UblkError::NoRing);
    }
    UblkControl::open().map(Some)
}

/// The approximate number of commands in flight.
const DEPTH: u32 = 512;

/// What an opening read, for a recording, or why that is not its state.
type State = Result<Vec<Vec<u8>>, String>;

/// A volume that is open.
struct InPlace {
    devices: Vec<Option<Device>>,
    engine: Engine,
    opened: Opened,
    state: State,
    read_only: Option<ReadOnly>,
    held: Option<Held>,
    /// Whether hosts of a server that was killed may live and miss what it had answered: it has left no records.
    lacks_records: bool,
}

/// Opens the devices and the volume. If a device can be read and not written, nothing is written to any.
fn open_in_place(spec: &VolumeSpec, settings: &Settings, handoff: &Handoff) -> Result<InPlace, ServeError> {
    if settings.read_only {
        let why = "asked for with --read-only".to_owned();
        return open_with(spec, settings, handoff, Some(ReadOnly { device: None, why }));
    }
    // One write may fail for another reason, and opening can be begun again.
    let began = Instant::now();
    let opened = match open_with(spec, settings, handoff, None) {
        Err(ServeError::Unwritable(_)) if began.elapsed() < PATIENCE => open_with(spec, settings, handoff, None),
        other => other,
    };
    let read_only = match opened {
        Err(ServeError::Unwritable(read_only)) => read_only,
        Err(ServeError::Open(DeviceOpenError::ReadOnly { name, path, source })) => {
            let index = spec.devices.iter().position(|at| at.name == name).unwrap_or(0);
            let why = format!(
                "{}: device '{name}' can be read, and not written ({source}): give permission to write it; if it takes no writes any more, {}",
                path.display(),
                offline::way_out(&spec.devices[index], DeviceId(index as u8), &spec.config.placement)
            );
            ReadOnly { device: Some((name, path)), why }
        }
        other => return other,
    };
    open_with(spec, settings, handoff, Some(read_only))
}

fn open_with(
    spec: &VolumeSpec,
    settings: &Settings,
    handoff: &Handoff,
    read_only: Option<ReadOnly>,
) -> Result<InPlace, ServeError> {
    let rights = if read_only.is_some() { Rights::Read } else { Rights::Write };
    let mut without = named(&spec.devices, &settings.without)?;
    let mut devices = Device::open_volume(&spec.devices, Opening { direct: settings.direct, rights }, &without)?;
    let_evacuated_go(&spec.config, &mut devices, &mut without)
        .map_err(|source| ServeError::System { what: "memory", source })?;
    let hosts_live = multi_mount::look(&devices, &settings.notifier)?;
    let most_state = settings.record.as_ref().map(|record| Bytes(record.limit.0 / 2));
    check_sizes(spec, &devices, &without)?;
    let held = match rights {
        Rights::Read => {
            devices.iter().flatten().for_each(|device| multi_mount::take_up_wear(device, None));
            None
        }
        Rights::Write | Rights::Create => Some(Held::take(&devices).map_err(|(index, error)| {
            tracing::warn!(device = spec.devices[index].name, %error, "a write failed");
            let at = &spec.devices[index];
            let is_full = error.kind() == io::ErrorKind::StorageFull;
            let why = offline::refuses_writes(at, DeviceId(index as u8), &spec.config.placement, is_full);
            let DevicePath { name, path } = at.clone();
            ServeError::Unwritable(ReadOnly { device: Some((name, path)), why })
        })?),
    };
    let (engine, opened, state) =
        open_engine(spec, &devices, &without, (&settings.notifier, handoff), most_state, rights)?;
    let needs_records = !opened.clean && read_only.is_none() && engine.label_of_records().is_some();
    let lacks_records = hosts_live && needs_records && opened.taken_over.is_none();
    Ok(InPlace { devices, engine, opened, state, read_only, held, lacks_records })
}

/// Checks that all devices are there that are not left out, and are as large as the volume needs.
fn check_sizes(spec: &VolumeSpec, devices: &[Option<Device>], without: &[DeviceId]) -> Result<(), ServeError> {
    let config = &spec.config;
    let mut files = Files::new(devices).map_err(|source| ServeError::System { what: "memory", source })?;
    let needs = closed::sizes_in_force(config, &mut files);
    let needs = needs.map_err(|error| ServeError::Refused(spec.with_names(error)))?.devices;
    for (index, ((device, at), need)) in devices.iter().zip(&spec.devices).zip(&needs).enumerate() {
        if without.iter().any(|other| other.index() == index) {
            continue;
        }
        match device {
            None => {
                return Err(ServeError::Refused(format!(
                    "{at} is not there: attach it, or set its path in the design; or give up the data that only it has (--without {}), and \
                     put an empty device in its place (peryton replace); peryton create makes a new volume",
                    at.name
                )));
            }
            Some(device) if device.room() < *need => {
                if any_superblock(device).is_none() {
                    return Err(ServeError::Refused(format!(
                        "{at} has {} and no superblock of a volume: it is another device, or an empty file; name the device, or a copy of \
                         it, or give up its data (--without {})",
                        device.size, at.name
                    )));
                }
                // A device that is too small may be the wrong one, or the design another one.
                if let Some(error) = offline::not_of_this_design(spec, devices, without) {
                    return Err(ServeError::Refused(spec.why_not_opened(&error)));
                }
                let (has, need) = (device.room().beside(*need), need.beside(device.room()));
                return Err(ServeError::Refused(format!(
                    "{at} has {has}, the design needs {need} of it: change the design back, or give a larger one"
                )));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Opens the volume on its devices, and notes what it reads, up to this many bytes.
fn open_engine(
    spec: &VolumeSpec,
    devices: &[Option<Device>],
    without: &[DeviceId],
    (notifier, handoff): (&Notifier, &Handoff),
    most_state: Option<Bytes>,
    rights: Rights,
) -> Result<(Engine, Opened, State), ServeError> {
    let config = &spec.config;
    devices.iter().flatten().for_each(Device::drop_cached);
    let mut files = Files::handed_over(devices, handoff)
        .map_err(|source| ServeError::System { what: "memory", source })?
        .notifying(notifier);
    let mut noting = Noting::new(&mut files, most_state);
    let opened = match rights {
        Rights::Read => Engine::open_without(config.clone(), &mut Overlay::new(&mut noting), without),
        Rights::Write | Rights::Create => Engine::open_without(config.clone(), &mut noting, without),
    };
    let state = noting.into_state();
    let (engine, opened) = opened.map_err(|error| {
        let rolled_back = offline::rolled_back(spec, devices, without, (&files, &error));
        let why = rolled_back.unwrap_or_else(|| offline::in_words(spec, files.failed(), &error));
        match files.failed().filter(|failed| !failed.is_read && error.is_of_a_device()) {
            Some(failed) => {
                let DevicePath { name, path } = spec.devices[failed.device.index()].clone();
                ServeError::Unwritable(ReadOnly { device: Some((name, path)), why })
            }
            None => ServeError::Refused(why),
        }
    })?;
    Ok((engine, opened, state))
}

#[cfg(test)]
mod tests {
    use peryton_engine::{Config, Hybrid, Tuning};

    use super::*;
    use crate::{ProcessDeath, format::format};

    /// The fear: the machine lacks something as serving begins, and the volume has to be recovered although nobody has used it.
    #[test]
    fn a_server_that_cannot_begin_closes_the_volume() {
        let folder = tempfile::tempdir().unwrap();
        let size = Bytes::mib(16);
        let at = |name: &str| DevicePath { name: name.to_owned(), path: folder.path().join(name) };
        let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: Bytes::kib(64) };
        let (placement, tuning) = (Placement::Caching(pair), Tuning::default());
        let config = Config { devices: vec![size, size], placement, tuning };
        let spec = VolumeSpec {
            name: "v".to_owned(),
            config,
            devices: vec![at("fast"), at("slow")],
            process_death: ProcessDeath::Off,
            rotational: false,
            tuner: None,
        };
        format(&spec, false).unwrap();
        let open = || Service::open(&spec, &Endpoint::Unix(folder.path().join("nbd")), Settings::default()).unwrap();
        let mut service = open();
        service.settings.move_memory = Bytes(1);
        assert!(matches!(service.run(), Err(ServeError::Memory(_))));
        let again = open();
        assert!(again.opened().clean, "it was not closed");
        again.close_unserved();
    }
}

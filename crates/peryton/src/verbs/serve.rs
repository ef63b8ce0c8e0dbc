//! `peryton serve`: serves a volume as a block device, over NBD or of this machine.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use peryton_drive::{
    Address, Endpoint, Http, LineLog, LivePage, Notifier, ServeError, Service, Settings, Summary, TlsFiles,
    UblkSettings, control::Control,
};
use peryton_engine::{Opened, PlacementKind};
use peryton_units::{Bytes, Nanos};
use serde_json::json;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2},
    iterator::Signals,
};

use crate::{condition::WHAT_IS_NOT_KNOWN, failure::Failure, output, page, volume};

/// Options of `peryton serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    design: volume::DesignArgs,
    /// Where NBD clients connect: a socket, or an address with TLS
    ///
    /// Where NBD clients connect: the path of a unix socket, or an address (with TLS only) [default: /run/peryton/NAME/nbd, or
    /// the design's path with .nbd].
    #[arg(long, value_name = "SOCKET|HOST:PORT")]
    nbd: Option<Endpoint>,
    /// Where the other verbs connect: a socket
    ///
    /// Where the other verbs connect [default: /run/peryton/NAME/control, or the design's path with .control].
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Where the page and the metrics are [default: nowhere]
    ///
    /// The address of the web page, and of the metrics (at /metrics): unix:PATH, or an address of this machine's own such as
    /// 127.0.0.1:9469 [default: nowhere].
    #[arg(long, value_name = "unix:PATH|127.0.0.1:PORT", help_heading = "Page and metrics")]
    http: Option<Address>,
    /// The metrics without the page [default: with --http]
    ///
    /// The address of the metrics without the page: unix:PATH, or an address of this machine's own [default: that of --http].
    #[arg(long, value_name = "unix:PATH|127.0.0.1:PORT", help_heading = "Page and metrics")]
    metrics: Option<Address>,
    /// The server's certificate (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"], help_heading = "Clients over TCP")]
    tls_cert: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Clients over TCP")]
    tls_key: Option<PathBuf>,
    /// The authority that signs the clients' certificates (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Clients over TCP")]
    tls_ca: Option<PathBuf>,
    /// Certificates that the authority has revoked (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Clients over TCP")]
    tls_crl: Option<PathBuf>,
    /// A client that may connect, by its certificate [default: all signed]
    ///
    /// A client that may connect, by a name in the subjectAltName of its certificate; may be given several times. Without this
    /// option, every client with a certificate of the authority may connect.
    #[arg(long, value_name = "NAME", requires = "tls_cert", help_heading = "Clients over TCP")]
    tls_client: Vec<String>,
    /// Memory for requests in flight
    ///
    /// Memory for requests in flight; beyond it clients wait.
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pool: Bytes,
    /// The most memory for moves between devices
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    move_memory: Bytes,
    /// Make the volume a block device of this machine, /dev/ublkbN
    ///
    /// Make the volume a block device of this machine as well, /dev/ublkbN (Linux 6.5 or later with the module ublk_drv, as
    /// root); it outlives this server, and the next one takes it over.
    #[arg(long, conflicts_with_all = ["no_io_uring", "no_direct"], help_heading = "Block device")]
    ublk: bool,
    /// The number of queues [default: one for each processor, at most four]
    #[arg(long, value_name = "N", requires = "ublk", help_heading = "Block device")]
    ublk_queues: Option<u16>,
    /// The number of requests in each queue
    #[arg(long, value_name = "N", requires = "ublk", default_value = "64", help_heading = "Block device")]
    ublk_depth: u16,
    /// The logical block of the device: 512B or 4KiB
    ///
    /// The logical block of the device: 512B or 4KiB. A write of less than 4 KiB reads its block first.
    #[arg(long, value_name = "SIZE", requires = "ublk", default_value = "512B", help_heading = "Block device")]
    ublk_block: Bytes,
    /// Time between readings of drives' health
    ///
    /// How often the health of the drives beneath is read (SMART, NVMe): a time of 10s or more, or off.
    #[arg(long, value_name = "TIME|off", default_value = "5min")]
    health: HealthEvery,
    /// Let clients of the control socket inject faults, for drills
    ///
    /// Let clients of the control socket inject faults, for drills: by its verbs fault and heal.
    #[arg(long)]
    drills: bool,
    /// Do not use io_uring
    #[arg(long)]
    no_io_uring: bool,
    /// Use the page cache (no O_DIRECT)
    #[arg(long)]
    no_direct: bool,
    /// Serve the volume for reads only, and write nothing to its devices
    ///
    /// Serve the volume for reads only, and write nothing to its devices, also after a crash. A volume with a device that cannot be
    /// written is always served in this way. Data in a log that were not verified yet cannot be read in this way.
    #[arg(long, conflicts_with = "drills")]
    read_only: bool,
    /// Serve without this lost device, which is refused later
    ///
    /// Serve without this lost device: data that only it had are lost, the rest is served, and the device is refused later.
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,
    /// Record requests and their latencies, for peryton twin and advise
    ///
    /// Record requests and their latencies in a file, for peryton twin and advise. Earlier files of the recording are FILE.0,
    /// FILE.1 and so on; an older recording at this path is renamed to FILE.old.
    #[arg(long, value_name = "FILE", help_heading = "Recording")]
    record: Option<PathBuf>,
    /// Delete the oldest file beyond this size
    ///
    /// The most bytes of the recording; beyond it the oldest file is deleted.
    #[arg(long, value_name = "SIZE", requires = "record", default_value = "256MiB", help_heading = "Recording")]
    record_limit: Bytes,
    /// Print the volume at the start and a summary at the end as JSON
    #[arg(long)]
    json: bool,
}

/// How often the health of drives is read; `None`: never.
#[derive(Clone, Copy, Debug)]
struct HealthEvery(Option<Duration>);

/// Each reading is a dozen commands to a drive.
const SHORTEST_HEALTH: Nanos = Nanos::from_s(10);

impl std::str::FromStr for HealthEvery {
    type Err = String;

    fn from_str(text: &str) -> Result<HealthEvery, String> {
        match text.parse::<Nanos>() {
            _ if text == "off" => Ok(HealthEvery(None)),
            Ok(time) if time >= SHORTEST_HEALTH => Ok(HealthEvery(Some(Duration::from_nanos(time.0)))),
            _ => Err(format!("'{text}': give off, or a time of {SHORTEST_HEALTH} or more such as 5min")),
        }
    }
}

/// The longest wait for the last log lines to be written to standard error.
const LAST_LINES: Duration = Duration::from_millis(500);

/// Serves until SIGTERM, SIGINT, SIGHUP or SIGUSR2.
pub fn run(args: Args) -> Result<(), Failure> {
    if args.ublk {
        // Before there are other threads.
        peryton_drive::prepare_process().map_err(|error| Failure::from(ServeError::from(error)))?;
    }
    let log = log()?;
    let result = serve(&args, &log);
    log.finish(LAST_LINES);
    result
}

fn serve(args: &Args, log: &LineLog) -> Result<(), Failure> {
    let (spec, record) = match &args.record {
        Some(path) => {
            let (spec, record) = args.design.spec_to_record(&args.without, path, args.record_limit)?;
            (spec, Some(record))
        }
        None => (args.design.spec_to_serve(&args.without)?, None),
    };
    let sockets = args.design.named().sockets();
    if args.nbd.is_none() || args.control.is_none() {
        sockets.make_folder()?;
    }
    let endpoint = args.nbd.clone().unwrap_or(Endpoint::Unix(sockets.nbd));
    let control = args.control.clone().unwrap_or(sockets.control);
    let notifier = Notifier::from_environment().unwrap_or_else(|error| {
        tracing::warn!(%error, "NOTIFY_SOCKET: the service manager is not notified");
        Notifier::default()
    });
    let mut service = Service::open(&spec, &endpoint, Settings { record, ..settings(args, notifier.clone())? })?;
    service.set_log(log.clone());
    let changes = match spec.config.placement.kind() {
        PlacementKind::Logging => "nothing changes the size of such a volume: correct the design",
        _ => "peryton resize changes it, and the design does not",
    };
    for kept in args.design.kept_sizes(&args.without) {
        tracing::warn!("{kept}: {changes}");
    }
    let (control, http, metrics) = match listen(args, &mut service, log, (&control, page::live(&spec.name))) {
        Ok(listening) => listening,
        Err(error) => {
            service.close_unserved();
            return Err(error);
        }
    };
    let opened = service.opened().clone();
    let shown = service.endpoint().to_string();
    let start = Start {
        name: spec.name.clone(),
        size: service.size(),
        nbd: shown,
        control: control.path().to_owned(),
        http: http.as_ref().map(|http| http.address().url("/")),
        metrics: metrics.as_ref().or(http.as_ref()).map(|metrics| metrics.address().url("/metrics")),
        opened,
        without: args.without.clone(),
        evacuated: service.evacuated(),
        lost: service.lost(),
        read_only: service.read_only().map(|read_only| read_only.why.clone()),
        json: args.json,
    };
    if args.ublk {
        // Scripts that wait for the line are to find the device.
        service.when_live(move |path| {
            notifier.ready(&served_at(path));
            drop(start.print(Some(path)));
        });
    } else {
        notifier.ready(&served_at(&start.nbd));
        start.print(None)?;
    }
    let summary = service.run()?;
    drop((control, http, metrics));
    if args.json { output::print_json(&summary) } else { output::tell(&summed_up(&summary)) }
}

/// Listens on the control socket, and for browsers and scrapers. Both are at one address unless `--metrics` names another one.
fn listen(
    args: &Args,
    service: &mut Service,
    log: &LineLog,
    (control, page): (&Path, LivePage),
) -> Result<(Control, Option<Http>, Option<Http>), Failure> {
    // Before others find the control socket or hear that the server is there, and may end it.
    stop_on_signals(service, log, if args.ublk { 2 } else { 1 })?;
    let control = service.control(control)?;
    let http = args.http.as_ref().map(|address| service.http(address, page)).transpose()?;
    let metrics = args.metrics.as_ref().filter(|address| args.http.as_ref() != Some(*address));
    let metrics = metrics.map(|address| service.metrics(address)).transpose()?;
    Ok((control, http, metrics))
}

/// The status of a server that serves clients at this place.
fn served_at(place: &str) -> String {
    format!("{place} is served by process {}, peryton {}", std::process::id(), peryton_version::VERSION)
}

/// What is printed when clients can use the volume.
struct Start {
    name: String,
    size: Bytes,
    nbd: String,
    control: PathBuf,
    http: Option<String>,
    metrics: Option<String>,
    opened: Opened,
    without: Vec<String>,
    evacuated: Vec<String>,
    lost: Bytes,
    /// Why the volume is only read, if it is.
    read_only: Option<String>,
    json: bool,
}

impl Start {
    /// Says which devices the volume goes on without because they were evacuated.
    fn tell_evacuated(&self) -> Result<(), Failure> {
        match self.evacuated.is_empty() {
            true => Ok(()),
            false => output::tell(&format!("without {}, which was removed\n", self.evacuated.join(" and "))),
        }
    }

    /// `device`: the path of the block device, if there is one.
    fn print(&self, device: Option<&str>) -> Result<(), Failure> {
        let Start { name, size, nbd, control, http, metrics, opened, without, evacuated, lost, json, .. } = self;
        if *json {
            let mut line = json!({
                "name": name,
                "size": size,
                "nbd": nbd,
                "control": control,
                "volume": format!("{:032x}", opened.volume.0),
                "generation": opened.generation,
                "clean": opened.clean,
                "without": without,
                "evacuated": evacuated,
                "lost_bytes": lost,
                "read_only": self.read_only,
            });
            if let Some(device) = device {
                line["ublk"] = device.into();
            }
            if let Some(http) = http {
                line["http"] = http.as_str().into();
            }
            if let Some(metrics) = metrics {
                line["metrics"] = metrics.as_str().into();
            }
            return output::print_json_line(&line);
        }
        let how = match &self.read_only {
            Some(_) => "only to be read",
            None if opened.clean => "closed in good order",
            None => "recovered",
        };
        let device = device.map(|device| format!("{device} and ")).unwrap_or_default();
        let metrics = metrics.as_ref().map(|at| format!(", metrics {at}")).unwrap_or_default();
        let http = http.as_ref().map(|at| format!(", page {at}")).unwrap_or_default();
        let control = control.display();
        output::tell(&format!("{name}: {size} ({how}) at {device}{nbd}, control {control}{http}{metrics}\n"))?;
        if let Some(why) = &self.read_only {
            output::tell(&format!("READ-ONLY: {why}\n"))?;
        }
        if without.is_empty() {
            return self.tell_evacuated();
        }
        let lost = match lost.0 {
            _ if opened.is_loss_unknown => format!("loss of {WHAT_IS_NOT_KNOWN}"),
            0 => "no loss is known".to_owned(),
            _ => format!("{lost} are lost"),
        };
        output::tell(&format!("degraded, without {}: {lost}\n", without.join(" and ")))
    }
}

/// The most queues by default; one thread serves them all.
const QUEUES: usize = 4;

fn ublk(args: &Args) -> Result<Option<UblkSettings>, Failure> {
    if !args.ublk {
        return Ok(None);
    }
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get().min(QUEUES));
    Ok(Some(UblkSettings {
        queues: args.ublk_queues.unwrap_or(processors as u16),
        depth: args.ublk_depth,
        block: args.ublk_block,
        design: args.design.absolute()?,
    }))
}

fn settings(args: &Args, notifier: Notifier) -> Result<Settings, Failure> {
    let tls = match (&args.tls_cert, &args.tls_key, &args.tls_ca) {
        (Some(certificate), Some(key), Some(authority)) => Some(TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            authority: authority.clone(),
            revoked: args.tls_crl.clone(),
            clients: args.tls_client.clone(),
        }),
        _ => None,
    };
    Ok(Settings {
        version: peryton_version::VERSION,
        pool: args.pool,
        move_memory: args.move_memory,
        io_uring: !args.no_io_uring,
        direct: !args.no_direct,
        tls,
        health: args.health.0,
        drills: args.drills,
        read_only: args.read_only,
        without: args.without.clone(),
        ublk: ublk(args)?,
        notifier,
        record: None,
        design: Some(args.design.file()),
    })
}

/// Logs to standard error, which may be full or closed, or a pipe without a reader. PERYTON_LOG selects the log level
/// (such as `debug`, or `peryton_drive=trace`).
fn log() -> Result<LineLog, Failure> {
    let log = LineLog::new(std::io::stderr()).map_err(|error| Failure::failed(format!("the log: {error}")))?;
    let writer = log.clone();
    let filter = tracing_subscriber::EnvFilter::try_from_env("PERYTON_LOG");
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let to = move || writer.clone();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(to).with_target(false).init();
    Ok(log)
}

/// The first signal stops the server cleanly, the second at once; with a block device the second as the first, because the device may be in
/// use, and the third at once. SIGUSR2 stops it cleanly as well, and leaves its block device for the
/// next server.
fn stop_on_signals(service: &Service, log: &LineLog, clean: u32) -> Result<(), Failure> {
    let (handle, log) = (service.handle(), log.clone());
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR2]).map_err(Failure::failed)?;
    std::thread::spawn(move || {
        let mut asked = 0;
        for signal in signals.forever() {
            if signal == SIGUSR2 {
                handle.hand_over();
                continue;
            }
            asked += 1;
            if asked > clean {
                tracing::warn!("stopped at once: the volume will be recovered when it is opened next");
                log.finish(LAST_LINES);
                std::process::exit(1);
            }
            handle.stop();
        }
    });
    Ok(())
}

fn summed_up(summary: &Summary) -> String {
    let traffic = &summary.traffic;
    format!(
        "served {} reads ({}), {} writes ({}), {} flushes\n",
        traffic.read.requests,
        traffic.bytes_read,
        traffic.write.requests,
        traffic.bytes_written,
        traffic.flush.requests
    )
}

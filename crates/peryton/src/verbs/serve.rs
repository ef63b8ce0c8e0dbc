//! `peryton serve`: serves a volume as a block device over NBD.

use std::{path::PathBuf, time::Duration};

use peryton_drive::{CpuLatency, Endpoint, LineLog, Service, Settings, Summary, TlsFiles};
use peryton_units::{Bytes, Nanos};
use serde_json::json;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::{failure::Failure, output, volume};

/// Options of `peryton serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    design: volume::DesignArgs,
    /// Where NBD clients connect: the path of a unix socket, or an address (with TLS only) [default: the design's
    /// path with .nbd]
    #[arg(long, value_name = "SOCKET|HOST:PORT")]
    nbd: Option<Endpoint>,
    /// Where status, set and events connect [default: the design's path with .control]
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// The server's certificate (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    tls_cert: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The authority that signs the clients' certificates (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// Memory for requests in flight; when it is used up, clients wait
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pool: Bytes,
    /// The most memory for moves between devices
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    move_memory: Bytes,
    /// How long to poll for the next event before sleeping, while events come that fast; 0 saves processor time
    #[arg(long, value_name = "TIME", default_value = "250us")]
    spin: Nanos,
    /// How long a processor may take to wake up while answers are fast: a time, off (no limit), or auto (a short time on
    /// machines with up to eight processors, else no limit). A short time costs energy, and needs permission for
    /// /dev/cpu_dma_latency
    #[arg(long, value_name = "TIME", default_value = "auto")]
    cpu_latency: CpuLatency,
    /// Do not use io_uring
    #[arg(long)]
    no_io_uring: bool,
    /// Use the page cache
    #[arg(long)]
    no_direct: bool,
    /// Serve without this lost device: data that only it had are lost, the rest is served, and the device is refused later
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,
    /// Print the volume at the start and a summary at the end as JSON
    #[arg(long)]
    json: bool,
}

/// The longest wait for the last log lines to be written to standard error.
const LAST_LINES: Duration = Duration::from_millis(500);

/// Serves until SIGTERM or SIGINT.
pub fn run(args: Args) -> Result<(), Failure> {
    let log = log()?;
    let result = serve(&args, &log);
    log.finish(LAST_LINES);
    result
}

fn serve(args: &Args, log: &LineLog) -> Result<(), Failure> {
    let spec = args.design.spec_to_serve()?;
    let endpoint = args.nbd.clone().unwrap_or_else(|| Endpoint::Unix(args.design.beside("nbd")));
    let control = args.control.clone().unwrap_or_else(|| args.design.beside("control"));
    let mut service = Service::open(&spec, &endpoint, settings(args))?;
    service.set_log(log.clone());
    let opened = service.opened().clone();
    let control = service.control(&control)?;
    let shown = service.endpoint().to_string();
    if args.json {
        output::print_json_line(&json!({
            "name": spec.name,
            "size": service.size(),
            "nbd": shown,
            "control": control.path(),
            "volume": format!("{:032x}", opened.volume.0),
            "generation": opened.generation,
            "clean": opened.clean,
            "without": args.without,
            "lost_bytes": service.lost(),
        }))?;
    } else {
        let how = if opened.clean { "closed in good order" } else { "recovered" };
        let control = control.path().display();
        output::print(&format!("{}: {} ({how}) at {shown}, control {control}\n", spec.name, service.size()))?;
        if !args.without.is_empty() {
            let lost = service.lost();
            output::print(&format!("degraded, without {}: {lost} are lost\n", args.without.join(" and ")))?;
        }
    }
    stop_on_signals(&service, log)?;
    let summary = service.run()?;
    drop(control);
    if args.json { output::print_json(&summary) } else { output::print(&summed_up(&summary)) }
}

fn settings(args: &Args) -> Settings {
    let tls = match (&args.tls_cert, &args.tls_key, &args.tls_ca) {
        (Some(certificate), Some(key), Some(authority)) => {
            Some(TlsFiles { certificate: certificate.clone(), key: key.clone(), authority: authority.clone() })
        }
        _ => None,
    };
    Settings {
        pool: args.pool,
        move_memory: args.move_memory,
        io_uring: !args.no_io_uring,
        direct: !args.no_direct,
        spin: Duration::from_nanos(args.spin.0),
        cpu_latency: args.cpu_latency,
        tls,
        without: args.without.clone(),
    }
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

/// The first signal stops the server cleanly, the second at once.
fn stop_on_signals(service: &Service, log: &LineLog) -> Result<(), Failure> {
    let (handle, log) = (service.handle(), log.clone());
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(Failure::failed)?;
    std::thread::spawn(move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 {
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

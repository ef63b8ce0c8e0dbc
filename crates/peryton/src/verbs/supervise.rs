//! `peryton supervise`: runs `peryton serve --ublk`, and starts it again when it ends unexpectedly. If it stays away for too long, the
//! block device is removed, so that programs get errors instead of waiting for ever.

use std::{
    ffi::OsString,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    time::{Duration, Instant},
};

use peryton_drive::{BlockDevice, Supervision, Task, block_devices, remove_block_device, stop_server};
use peryton_units::Nanos;
use serde_json::Value;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
    low_level,
};

use crate::{failure::Failure, output, volume};

/// Options of `peryton supervise`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    design: volume::DesignArgs,
    /// How long programs wait for a server that cannot be started again; then their requests fail
    #[arg(long, value_name = "TIME", default_value = "60s")]
    give_up_after: Nanos,
    /// Options for peryton serve
    #[arg(last = true, value_name = "OPTION")]
    serve: Vec<OsString>,
}

/// What the supervision waits for.
enum News {
    /// The server serves the block device at this path.
    Serves(String),
    /// The server has ended.
    Ended(Option<ExitStatus>),
    /// A signal asks for the end.
    Stop,
}

/// Supervises until the server is stopped, or is given up.
pub fn run(args: &Args) -> Result<(), Failure> {
    // A supervisor that waits for memory that only its server's device can free would be of no use. Its servers inherit part of it.
    peryton_drive::prepare_process().map_err(Failure::bad_input)?;
    let design = args.design.absolute()?;
    let began = Instant::now();
    let clock = || Nanos(began.elapsed().as_nanos() as u64);
    let device = device_of(&design);
    if let Some(BlockDevice { pid: Some(pid), .. }) = device {
        let path = design.display();
        return Err(Failure::bad_input(format!("{path}: process {pid} serves it already: stop that first")));
    }
    let mut supervision = Supervision::new(clock(), args.give_up_after, device.is_some());
    let (sender, news) = mpsc::channel();
    stop_on_signals(&sender)?;
    // The path as it is now: a newer version of the program is started by the same name.
    let program = std::env::current_exe().map_err(Failure::failed)?;
    let mut server: Option<u32> = None;
    loop {
        let now = clock();
        let until = match supervision.task(now) {
            Task::Start => {
                match start(&program, args, &sender) {
                    Ok(pid) => {
                        server = Some(pid);
                        supervision.started();
                    }
                    Err(error) => {
                        eprintln!("peryton: {}: {error}", program.display());
                        supervision.started();
                        supervision.ended(now, None, device_of(&design).is_some());
                    }
                }
                continue;
            }
            Task::Wait { until } => until,
            Task::End { code: 0 } => return Ok(()),
            Task::End { code } => return Err(Failure::quietly(u8::try_from(code).unwrap_or(1))),
            Task::GiveUp => return Err(give_up(&design, server, args.give_up_after)),
        };
        let heard = match until {
            None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => news.recv_timeout(Duration::from_nanos(until.saturating_sub(now).0)),
        };
        match heard {
            Ok(News::Serves(path)) => {
                supervision.serves(clock());
                let pid = server.map_or(String::new(), |pid| format!(" by process {pid}"));
                output::print(&format!("{path} is served{pid}\n"))?;
            }
            Ok(News::Ended(status)) => {
                server = None;
                let code = status.and_then(|status| status.code());
                let waits = device_of(&design).is_some();
                supervision.ended(clock(), code, waits);
                if code != Some(0) && !supervision.is_stopping() {
                    let how = status.map_or("is lost".to_owned(), |status| format!("ended with {status}"));
                    eprintln!("peryton: the server {how}{}", if waits { "; its block device waits" } else { "" });
                }
            }
            Ok(News::Stop) => {
                supervision.stop();
                if let Some(pid) = server {
                    stop_server(pid, false);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("this function has a sender"),
        }
    }
}

/// The block device of this design, if there is one that was not stopped.
fn device_of(design: &Path) -> Option<BlockDevice> {
    let devices = block_devices().unwrap_or_else(|error| {
        eprintln!("peryton: {error}");
        Vec::new()
    });
    devices.into_iter().find(|device| device.design == design && device.state != "stopped")
}

/// Starts a server, with threads that report its news; returns its process.
fn start(program: &PathBuf, args: &Args, news: &Sender<News>) -> std::io::Result<u32> {
    let mut command = Command::new(program);
    command.arg("serve").args(args.design.again()).args(["--ublk", "--json"]).args(&args.serve);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let (pid, lines, news) = (child.id(), child.stdout.take().expect("it was asked for"), news.clone());
    std::thread::Builder::new().name("server".to_owned()).spawn(move || {
        read(lines, &news);
        wait(&mut child, &news);
    })?;
    Ok(pid)
}

/// Reads what the server prints, until it ends or closes its output.
fn read(lines: ChildStdout, news: &Sender<News>) {
    for line in BufReader::new(lines).lines().map_while(Result::ok) {
        let value: Value = serde_json::from_str(&line).unwrap_or_default();
        if let Some(path) = value["ublk"].as_str() {
            let _ = news.send(News::Serves(path.to_owned()));
        }
    }
}

fn wait(child: &mut Child, news: &Sender<News>) {
    // A failure of sending means that the program is ending.
    let _ = news.send(News::Ended(child.wait().ok()));
}

/// Ends the server if it is there, and lets the requests of its device fail.
fn give_up(design: &Path, server: Option<u32>, after: Nanos) -> Failure {
    if let Some(pid) = server {
        stop_server(pid, true);
    }
    let Some(device) = device_of(design) else {
        return Failure::failed(format!("{}: the server stayed away for {after}", design.display()));
    };
    let path = device.path();
    // The process that was just killed takes a moment to be gone.
    let mut removed = remove_block_device(&path);
    for _ in 0..GONE_LOOKS {
        if removed.is_ok() {
            break;
        }
        std::thread::sleep(GONE_LOOK);
        removed = remove_block_device(&path);
    }
    match removed {
        Ok(_) => Failure::failed(format!(
            "{}: the server stayed away for {after} (--give-up-after): {path} is removed, and its requests fail",
            design.display()
        )),
        Err(error) => Failure::failed(format!("{}: the server stayed away for {after}: {error}", design.display())),
    }
}

/// How often, and at which interval, a device is looked at whose server was killed.
const GONE_LOOKS: u32 = 50;
const GONE_LOOK: Duration = Duration::from_millis(100);

fn stop_on_signals(news: &Sender<News>) -> Result<(), Failure> {
    let news = news.clone();
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(Failure::failed)?;
    std::thread::spawn(move || {
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 {
                // The second signal ends the program at once; the server goes on.
                let _ = low_level::emulate_default_handler(signal);
            }
            let _ = news.send(News::Stop);
        }
    });
    Ok(())
}

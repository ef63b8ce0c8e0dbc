//! `peryton supervise`: runs `peryton serve --ublk`, starts it again when it ends unexpectedly, kills it when it hangs, and replaces it
//! by the program that is installed now. If it stays away for too long, the block device is removed, so that programs get errors
//! instead of waiting for ever.
//!
//! systemd watches the supervisor, and the supervisor watches the server, by the same protocol (sd_notify). The server's signs of life
//! are not passed on: systemd would answer their absence by killing supervisor and server, and it would restart, which means unmount,
//! what requires them. The supervisor kills the server alone, and the next one takes over its block device.

use std::{
    cell::RefCell,
    ffi::OsString,
    fs,
    io::{self, BufRead as _, BufReader},
    os::unix::{net::UnixStream, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    time::{Duration, Instant},
};

use peryton_drive::{
    Ask, BlockDevice, DevicePath, Given, Keeper, Message, Notified, Notifier, Patience, ServerProcess, Supervision,
    Task, block_devices, remove_block_device,
};
use peryton_sim::DesignText;
use peryton_units::Nanos;
use serde_json::Value;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2},
    iterator::Signals,
    low_level,
};

use crate::{failure::Failure, output, terminal, volume};

/// Options of `peryton supervise`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    design: volume::DesignArgs,
    /// How long requests wait for a server before they fail
    ///
    /// How long programs wait for a server that cannot be started again; then their requests fail.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    give_up_after: Nanos,
    /// Kill a server that hangs for this time; 0s: never
    ///
    /// How long a server may give no sign of life before it is killed, so that another one takes over; 0s: it is never killed.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    hung_after: Nanos,
    /// Wait this long at the start for missing devices
    #[arg(long, value_name = "TIME", default_value = "0s")]
    wait_for_devices: Nanos,
    /// Serve over NBD alone, without a block device
    ///
    /// Serve over NBD alone, without a block device of this machine: clients have to connect again when the server is started again.
    #[arg(long)]
    nbd_only: bool,
    /// Options for peryton serve
    #[arg(last = true, value_name = "OPTION")]
    serve: Vec<OsString>,
}

/// How long a server may take to end that was asked to, if it makes no progress. The unit for systemd waits longer than that.
const END_WITHIN: Nanos = Nanos::from_s(60);
/// The shortest time after which a server counts as hung: below that, a busy machine would be the reason.
const HUNG_AT_LEAST: Nanos = Nanos::from_s(1);
/// The interval of looks for devices that are not there yet, and how much longer systemd is asked to wait each time.
const DEVICE_LOOK: Duration = Duration::from_millis(500);
const DEVICE_EXTENDS: Duration = Duration::from_secs(30);

/// What the supervision waits for.
enum News {
    /// The server serves clients here.
    Serves(String),
    /// The server has sent this.
    Said(Message),
    /// The server has given this.
    Given(Given),
    /// The server has ended.
    Ended(Option<ExitStatus>),
    /// A signal asks for the end.
    Stop,
    /// A signal asks for the program that is installed now.
    HandOver,
}

/// Supervises until the server is stopped, or is given up.
pub fn run(args: &Args) -> Result<(), Failure> {
    let design = args.design.absolute()?;
    DesignText::read(&design)?;
    let (sender, news) = mpsc::channel();
    heed_signals(&sender)?;
    if !args.nbd_only {
        // A supervisor that waits for memory that only its server's device can free would be of no use. Its servers inherit part of it.
        peryton_drive::prepare_process()
            .map_err(|error| Failure::bad_input(format!("{error}; peryton serve needs no ublk, for NBD")))?;
    }
    let hung_after = match args.hung_after {
        Nanos::ZERO => None,
        after if after < HUNG_AT_LEAST => {
            return Err(Failure::bad_input(format!(
                "--hung-after {after}: is less than {HUNG_AT_LEAST}, which a busy server may need: give more, or 0s to never kill it"
            )));
        }
        after => Some(after),
    };
    let notifier = Notifier::from_environment().unwrap_or_else(|error| {
        terminal::report(format!("NOTIFY_SOCKET: {error}; the service manager is not notified"));
        Notifier::default()
    });
    // The path as it is now: a newer version of the program is started by the same name.
    let program = std::env::current_exe().map_err(Failure::failed)?;
    let socket = socket(&design);
    remove_those_of_ended(&socket);
    let notified = Notified::at(&socket).map_err(|error| Failure::failed(format!("{}: {error}", socket.display())))?;
    listen(&notified, &sender).map_err(Failure::failed)?;
    // From an earlier supervisor, or the one that this process was before.
    let (began, keeper) = (Instant::now(), RefCell::new(Keeper::new(notifier.clone())));
    Supervisor { args, design, program, hung_after, notifier, notified, sender, news, began, keeper }.run()
}

/// Where the server notifies its supervisor.
fn socket(design: &Path) -> PathBuf {
    let name = design.file_stem().unwrap_or_default().to_string_lossy();
    let file = format!("{name}.{}.notify", std::process::id());
    // systemd's RuntimeDirectory=; the first of several.
    match std::env::var("RUNTIME_DIRECTORY").ok().and_then(|all| all.split(':').next().map(PathBuf::from)) {
        Some(directory) if directory.is_absolute() => directory.join(file),
        _ => design.with_file_name(file),
    }
}

/// Removes the sockets of supervisors of this design that were killed.
fn remove_those_of_ended(socket: &Path) {
    let parts = |path: &Path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".notify")?;
        let (volume, pid) = name.rsplit_once('.')?;
        Some((volume.to_owned(), pid.parse::<u32>().ok()?))
    };
    let (Some(folder), Some((volume, _))) = (socket.parent(), parts(socket)) else { return };
    for found in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = found.path();
        let is_stale = |(of, pid): (String, u32)| of == volume && !Path::new(&format!("/proc/{pid}")).exists();
        if parts(&path).is_some_and(is_stale) {
            // Another supervisor may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}

struct Supervisor<'a> {
    args: &'a Args,
    design: PathBuf,
    program: PathBuf,
    hung_after: Option<Nanos>,
    /// systemd, if it has started this program.
    notifier: Notifier,
    notified: Notified,
    sender: Sender<News>,
    news: Receiver<News>,
    began: Instant,
    /// What servers have given to keep.
    keeper: RefCell<Keeper>,
}

impl Supervisor<'_> {
    fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos() as u64)
    }

    fn run(&self) -> Result<(), Failure> {
        let device = self.device();
        let orphan = device.as_ref().and_then(|device| device.pid).or_else(|| self.served_by());
        if let Some(pid) = orphan {
            self.take_over(pid)?;
        }
        if let Some(early) = self.wait_for_devices()? {
            return match early {
                News::HandOver => Err(Failure::failed(self.renew())),
                _ => Ok(()),
            };
        }
        let patience =
            Patience { give_up_after: self.args.give_up_after, hung_after: self.hung_after, end_within: END_WITHIN };
        let mut supervision = Supervision::new(self.now(), patience, device.is_some());
        if self.keeper.borrow().kept().is_some() {
            supervision = supervision.after_a_kill();
        }
        let (mut server, mut next_beat): (Option<ServerProcess>, _) = (None, Nanos::ZERO);
        loop {
            let now = self.now();
            if self.notifier.beat_every().is_some() && next_beat <= now {
                self.notifier.beat();
                next_beat = self.notifier.beat_every().map_or(now, |every| now.saturating_add(every));
            }
            let until = match supervision.task(now) {
                Task::Start => {
                    server = self.start(&mut supervision);
                    continue;
                }
                Task::AskToEnd => {
                    if let Some(server) = &server {
                        server.ask(if supervision.is_handing_over() { Ask::HandOver } else { Ask::End });
                    }
                    continue;
                }
                Task::Kill => {
                    if let Some(server) = &server {
                        self.kill(server, &supervision);
                    }
                    continue;
                }
                Task::Renew => {
                    terminal::report(self.renew());
                    supervision.goes_on();
                    continue;
                }
                Task::Wait { until } => until,
                Task::End { code: 0 } => return Ok(()),
                Task::End { code } => return Err(Failure::quietly(u8::try_from(code).unwrap_or(1))),
                Task::GiveUp => return Err(self.give_up(server.as_ref())),
            };
            let beat = self.notifier.beat_every().map(|_| next_beat);
            match self.next([until, beat].into_iter().flatten().min()) {
                Some(news) => self.heed(news, &mut supervision, &mut server)?,
                None => continue,
            }
        }
    }

    /// The process that listens on the control socket of the volume.
    fn served_by(&self) -> Option<i32> {
        let socket = UnixStream::connect(self.args.design.named().sockets().control).ok()?;
        let peer = rustix::net::sockopt::socket_peercred(&socket).ok()?;
        Some(peer.pid.as_raw_nonzero().get())
    }

    /// Lets a server hand the volume over that has lost its supervisor.
    fn take_over(&self, pid: i32) -> Result<(), Failure> {
        let path = self.design.display();
        if let Some(other) = supervisor_of(pid) {
            return Err(Failure::bad_input(format!("{path}: process {other} supervises it already: stop that first")));
        }
        let Some(server) = ServerProcess::running(pid).map_err(Failure::failed)? else { return Ok(()) };
        terminal::report(format!("{path}: process {pid} serves it without a supervisor, and hands it over"));
        self.notifier.extend(Duration::from_nanos(END_WITHIN.0));
        server.ask(Ask::HandOver);
        if server.ends_within(Duration::from_nanos(END_WITHIN.0)) {
            return Ok(());
        }
        Err(Failure::failed(format!(
            "{path}: process {pid}, which serves it, has not ended within {END_WITHIN}: stop it first"
        )))
    }

    /// Waits for news.
    fn next(&self, until: Option<Nanos>) -> Option<News> {
        let heard = match until {
            None => self.news.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => self.news.recv_timeout(Duration::from_nanos(until.saturating_sub(self.now()).0)),
        };
        match heard {
            Ok(news) => Some(news),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("this program has a sender"),
        }
    }

    fn heed(
        &self,
        news: News,
        supervision: &mut Supervision,
        server: &mut Option<ServerProcess>,
    ) -> Result<(), Failure> {
        match news {
            News::Serves(path) => {
                supervision.serves(self.now());
                let pid = server.as_ref().map_or(String::new(), |server| format!(" by process {}", server.pid()));
                output::tell(&format!("{path} is served{pid}\n"))?;
            }
            // Should this program be killed, systemd has the memory.
            News::Given(given) => self.keeper.borrow_mut().take(given),
            News::Said(Message { ready, alive, status, extend }) => {
                if ready {
                    supervision.serves(self.now());
                }
                if alive {
                    supervision.lives(self.now());
                }
                if let Some(by) = extend {
                    supervision.extended(self.now(), by);
                    self.notifier.extend(Duration::from_nanos(by.0));
                }
                match status {
                    Some(status) if ready => self.notifier.ready(&status),
                    Some(status) => self.notifier.status(&status),
                    None => {}
                }
            }
            News::Ended(status) => {
                *server = None;
                let code = status.and_then(|status| status.code());
                let waits = self.device().is_some();
                let expected = supervision.is_stopping() || supervision.is_handing_over();
                supervision.ended(self.now(), code, waits);
                if code != Some(0) || (!expected && waits) {
                    let how = status.map_or("is lost".to_owned(), |status| format!("ended with {status}"));
                    let line = format!("the server {how}{}", if waits { "; its block device waits" } else { "" });
                    self.notifier.status(&line);
                    terminal::report(&line);
                }
            }
            News::Stop => {
                self.notifier.stopping("stopping");
                supervision.stop(self.now());
            }
            News::HandOver => {
                self.notifier.status("handing over to the program that is installed now");
                supervision.hand_over(self.now());
            }
        }
        Ok(())
    }

    /// Waits until the devices of the design are there. Returns what ended the wait before, if anything did.
    fn wait_for_devices(&self) -> Result<Option<News>, Failure> {
        let devices = self.args.design.devices()?;
        let without = without(&self.args.serve);
        let missing = || {
            let mut absent = devices.iter().filter(|device| !without.contains(&device.name) && !device.path.exists());
            let first = absent.next()?;
            // The others say which are not needed.
            let evacuated = peryton_drive::evacuated(&devices);
            std::iter::once(first).chain(absent).find(|device| !evacuated.contains(&device.name))
        };
        let (began, mut waited) = (self.now(), false);
        while let Some(DevicePath { name, path }) = missing() {
            let (path, design) = (path.display(), self.design.display());
            let after = self.args.wait_for_devices;
            if self.now().saturating_sub(began) >= after {
                // Without a wait the server says what it lacks.
                return match waited {
                    true => Err(Failure::bad_input(format!(
                        "{design}: devices.{name}: {path} is not there after {after} (--wait-for-devices)"
                    ))),
                    false => Ok(None),
                };
            }
            if !waited {
                terminal::report(format!("waiting for devices.{name}: {path}"));
            }
            waited = true;
            self.notifier.status(&format!("waiting for device {name}: {path}"));
            self.notifier.extend(DEVICE_EXTENDS);
            if self.notifier.beat_every().is_some() {
                self.notifier.beat();
            }
            match self.news.recv_timeout(DEVICE_LOOK) {
                Ok(news @ (News::Stop | News::HandOver)) => return Ok(Some(news)),
                _ => continue,
            }
        }
        Ok(None)
    }

    /// The block device of this design, if there is one that was not stopped.
    fn device(&self) -> Option<BlockDevice> {
        if self.args.nbd_only {
            return None;
        }
        let devices = block_devices().unwrap_or_else(|error| {
            terminal::report(&error);
            Vec::new()
        });
        devices.into_iter().find(|device| device.design == self.design && device.state != "stopped")
    }

    /// Starts a server, and returns its process.
    fn start(&self, supervision: &mut Supervision) -> Option<ServerProcess> {
        self.notifier.status("starting the server");
        let started = self.spawn();
        supervision.started();
        started
            .inspect_err(|error| {
                terminal::report(format!("{}: {error}", self.program.display()));
                supervision.ended(self.now(), None, self.device().is_some());
            })
            .ok()
    }

    /// Starts a server, with threads that report its news; returns its process.
    fn spawn(&self) -> io::Result<ServerProcess> {
        let mut command = Command::new(&self.program);
        command.arg("serve").args(self.args.design.again());
        if !self.args.nbd_only {
            command.arg("--ublk");
        }
        self.notified.listen_to(&mut command, self.hung_after, self.keeper.borrow().kept());
        command.arg("--json").args(&self.args.serve);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let (process, news) = (ServerProcess::of(&child)?, self.sender.clone());
        let (lines, key) = (child.stdout.take().expect("it was asked for"), self.key());
        std::thread::Builder::new().name("server".to_owned()).spawn(move || {
            read(lines, key, &news);
            wait(&mut child, &news);
        })?;
        Ok(process)
    }

    /// What names the place where clients are served, in the line that a server prints.
    fn key(&self) -> &'static str {
        if self.args.nbd_only { "nbd" } else { "ublk" }
    }

    /// Kills a server that hangs, or does not end. SIGABRT, with its core dump, would not end one that is stopped.
    fn kill(&self, server: &ServerProcess, supervision: &Supervision) {
        let pid = server.pid();
        let state = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let state = state.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or("unknown").trim();
        let why = match self.hung_after {
            _ if supervision.is_stopping() || supervision.is_handing_over() => "does not end".to_owned(),
            Some(after) => format!("has given no sign of life for {after} (--hung-after)"),
            None => "hangs".to_owned(),
        };
        let line = format!("the server {why}; its state is {state}; it is killed");
        self.notifier.status(&line);
        terminal::report(&line);
        server.ask(Ask::Kill);
    }

    /// Becomes the program that is installed now: the same process, the same arguments. Returns why not.
    fn renew(&self) -> String {
        let mut command = Command::new(&self.program);
        Notified::renew(&mut command, self.keeper.borrow().kept());
        let error = command.args(std::env::args_os().skip(1)).exec();
        format!("{}: {error}; this version goes on", self.program.display())
    }

    /// Ends the server if it is there, and lets the requests of its device fail.
    fn give_up(&self, server: Option<&ServerProcess>) -> Failure {
        let (design, after) = (self.design.display(), self.args.give_up_after);
        self.notifier.status(&format!("giving up: the server stayed away for {after}"));
        if let Some(server) = server {
            server.ask(Ask::Kill);
        }
        let Some(device) = self.device() else {
            return Failure::failed(format!("{design}: the server stayed away for {after}"));
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
                "{design}: the server stayed away for {after} (--give-up-after): {path} is removed, and its requests fail"
            )),
            Err(error) => Failure::failed(format!("{design}: the server stayed away for {after}: {error}")),
        }
    }
}

/// The supervisor of a server, if its parent is one.
fn supervisor_of(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent: u32 = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
    let command = fs::read(format!("/proc/{parent}/cmdline")).ok()?;
    command.split(|byte| *byte == 0).any(|word| word == b"supervise").then_some(parent)
}

/// The devices that the server is to do without, by its options.
fn without(options: &[OsString]) -> Vec<String> {
    let mut names = Vec::new();
    for (index, option) in options.iter().enumerate() {
        let option = option.to_string_lossy();
        if option == "--without" {
            names.extend(options.get(index + 1).map(|name| name.to_string_lossy().into_owned()));
        } else if let Some(name) = option.strip_prefix("--without=") {
            names.push(name.to_owned());
        }
    }
    names
}

/// Reads what the server prints, until it ends or closes its output.
fn read(lines: ChildStdout, key: &str, news: &Sender<News>) {
    for line in BufReader::new(lines).lines().map_while(Result::ok) {
        let value: Value = serde_json::from_str(&line).unwrap_or_default();
        if let Some(path) = value[key].as_str() {
            let _ = news.send(News::Serves(path.to_owned()));
        }
    }
}

fn wait(child: &mut Child, news: &Sender<News>) {
    // A failure of sending means that the program is ending.
    let _ = news.send(News::Ended(child.wait().ok()));
}

/// Passes on what servers send.
fn listen(notified: &Notified, news: &Sender<News>) -> io::Result<()> {
    let (socket, news) = (notified.socket()?, news.clone());
    std::thread::Builder::new().name("notified".to_owned()).spawn(move || {
        while let Ok((message, given)) = Notified::next(&socket) {
            let given = given.map(News::Given).into_iter();
            for said in given.chain([News::Said(message)]) {
                if news.send(said).is_err() {
                    return;
                }
            }
        }
    })?;
    Ok(())
}

/// How often, and at which interval, a device is looked at whose server was killed.
const GONE_LOOKS: u32 = 50;
const GONE_LOOK: Duration = Duration::from_millis(100);

fn heed_signals(news: &Sender<News>) -> Result<(), Failure> {
    let news = news.clone();
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR2]).map_err(Failure::failed)?;
    std::thread::spawn(move || {
        let mut stops = false;
        for signal in signals.forever() {
            if signal == SIGUSR2 {
                let _ = news.send(News::HandOver);
                continue;
            }
            if stops {
                // The second signal ends the program at once; the server goes on.
                let _ = low_level::emulate_default_handler(signal);
            }
            stops = true;
            let _ = news.send(News::Stop);
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_killed_supervisors_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let (own, ended) = (std::process::id(), u32::MAX);
        let names = [
            format!("a.b.{own}.notify"),
            format!("a.b.{ended}.notify"),
            format!("a.{ended}.notify"),
            "a.b.notify".to_owned(),
        ];
        names.iter().for_each(|name| fs::write(folder.path().join(name), "").unwrap());
        remove_those_of_ended(&folder.path().join(&names[0]));
        let left: Vec<bool> = names.iter().map(|name| folder.path().join(name).exists()).collect();
        assert_eq!(left, [true, false, true, true]);
    }

    #[test]
    fn devices_that_the_server_does_without_are_not_waited_for() {
        let options = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(without(&options(&["--nbd", "x", "--without", "a", "--without=b"])), ["a", "b"]);
        assert_eq!(without(&options(&["--control", "without", "--without"])), [""; 0]);
    }
}

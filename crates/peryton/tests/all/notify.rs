//! The fear: systemd believes that a volume is served when it is not, or that a server lives whose loop hangs; a supervisor leaves a
//! hung server alone, or kills one that works. (What happens to a block device meanwhile is tested by `scripts/kernel/boot.py`.)

use std::{
    fs,
    os::unix::net::{UnixDatagram, UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const DESIGN: &str =
    "[devices.small]\nprofile = 'fixed'\nsize = '8MiB'\npath = 'small.img'\n[placement]\nmode = 'single'\n";

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn peryton() -> Command {
    Command::new(env!("CARGO_BIN_EXE_peryton"))
}

fn volume() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("v.toml"), DESIGN).unwrap();
    let made = peryton().args(["create", "v.toml"]).current_dir(folder.path()).output().unwrap();
    assert!(made.status.success());
    folder
}

/// The end of the protocol that systemd has, and the program that it watches.
struct Watched {
    socket: UnixDatagram,
    process: Child,
    folder: PathBuf,
    /// All lines that arrived.
    heard: Vec<String>,
}

impl Watched {
    fn start(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Watched {
        let path = folder.join("systemd");
        let _ = fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        let mut command = peryton();
        command.args(arguments).current_dir(folder).env("NOTIFY_SOCKET", &path).env_remove("RUNTIME_DIRECTORY");
        command.envs(variables.iter().copied()).stdout(Stdio::null());
        let log = fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
        let process = command.stderr(log).spawn().unwrap();
        Watched { socket, process, folder: folder.to_owned(), heard: Vec::new() }
    }

    /// Waits for a line that begins like this, within a time; returns the rest of it.
    fn hears_within(&mut self, start: &str, within: Duration) -> Option<String> {
        let began = Instant::now();
        let mut bytes = [0; 4096];
        loop {
            let left = within.checked_sub(began.elapsed()).filter(|left| !left.is_zero())?;
            self.socket.set_read_timeout(Some(left)).unwrap();
            let Ok(len) = self.socket.recv(&mut bytes) else { continue };
            let lines: Vec<String> =
                String::from_utf8(bytes[..len].to_vec()).unwrap().lines().map(str::to_owned).collect();
            self.heard.extend(lines.iter().cloned());
            if let Some(rest) = lines.iter().find_map(|line| line.strip_prefix(start)) {
                return Some(rest.to_owned());
            }
        }
    }

    fn hears(&mut self, start: &str) -> String {
        self.hears_within(start, PATIENCE).unwrap_or_else(|| {
            let log = fs::read_to_string(self.folder.join("log")).unwrap();
            panic!("no {start} in {:?}\n{log}", self.heard)
        })
    }

    /// Waits until clients are served; returns the process that serves them.
    fn ready(&mut self) -> i32 {
        loop {
            let status = self.hears("STATUS=");
            if let Some((_, after)) = status.split_once("is served by process ") {
                assert!(self.heard.contains(&"READY=1".to_owned()), "{:?}", self.heard);
                return after.split(',').next().unwrap().parse().unwrap();
            }
        }
    }

    fn signal(&self, signal: i32) {
        send(self.process.id() as i32, signal);
    }

    fn end(mut self) -> (Option<i32>, Vec<String>) {
        let began = Instant::now();
        let mut bytes = [0; 4096];
        self.socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut status = None;
        loop {
            match self.socket.recv(&mut bytes) {
                Ok(len) => self.heard.extend(String::from_utf8_lossy(&bytes[..len]).lines().map(str::to_owned)),
                // All that was sent is heard.
                Err(_) if status.is_some() => break,
                Err(_) => {}
            }
            status = status.or(self.process.try_wait().unwrap());
            assert!(began.elapsed() < PATIENCE, "it does not end: {:?}", self.heard);
        }
        (status.unwrap().code(), std::mem::take(&mut self.heard))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // A supervisor that is killed leaves its server.
        if !self.heard.is_empty() && self.process.try_wait().unwrap().is_none() {
            self.signal(libc::SIGTERM);
            let began = Instant::now();
            while self.process.try_wait().unwrap().is_none() && began.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn send(pid: i32, signal: i32) {
    // SAFETY: the call takes numbers only; the process is a child of this test, or of its child.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "process {pid}");
}

/// Stops one thread of a process while this lives, and leaves the others running.
struct Stopped(i32);

impl Stopped {
    /// The thread that owns the volume is the first one. `None` if tracing is forbidden here.
    fn loop_of(pid: i32) -> Option<Stopped> {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the calls change only how the kernel treats that thread.
        let stopped = unsafe {
            libc::ptrace(libc::PTRACE_SEIZE, pid, none, none) == 0
                && libc::ptrace(libc::PTRACE_INTERRUPT, pid, none, none) == 0
        };
        if !stopped {
            eprintln!("skipped: this test may not stop a thread: {}", std::io::Error::last_os_error());
            return None;
        }
        // SAFETY: as above; a null status is allowed.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) };
        Some(Stopped(pid))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: as above. A process that was killed is not gone before its tracer has waited for it.
        unsafe {
            if libc::ptrace(libc::PTRACE_DETACH, self.0, none, none) != 0 {
                libc::waitpid(self.0, std::ptr::null_mut(), libc::__WALL);
            }
        }
    }
}

#[test]
fn a_server_is_ready_when_clients_are_served_and_not_before() {
    let folder = volume();
    let mut served = Watched::start(folder.path(), &["serve", "v.toml"], &[]);
    let pid = served.ready();
    assert_eq!(pid, served.process.id() as i32);
    UnixStream::connect(folder.path().join("v.nbd")).unwrap();
    // Opening a volume may take long, and says that it goes on; the test asked for no signs of life.
    let ready = served.heard.iter().position(|line| line == "READY=1").unwrap();
    let extended = served.heard.iter().position(|line| line.starts_with("EXTEND_TIMEOUT_USEC=")).unwrap();
    assert!(extended < ready, "{:?}", served.heard);
    served.signal(libc::SIGTERM);
    let (code, heard) = served.end();
    assert_eq!(code, Some(0));
    let places = ["STATUS=opening the volume", "READY=1", "STOPPING=1", "STATUS=closing the volume"]
        .map(|line| heard.iter().position(|heard| heard == line).unwrap_or_else(|| panic!("no {line} in {heard:?}")));
    assert!(places.is_sorted() && !heard.contains(&"WATCHDOG=1".to_owned()), "{heard:?}");
}

#[test]
fn a_volume_that_cannot_be_served_is_never_ready() {
    let folder = volume();
    fs::remove_file(folder.path().join("small.img")).unwrap();
    let (code, heard) = Watched::start(folder.path(), &["serve", "v.toml"], &[]).end();
    assert_eq!(code, Some(2));
    assert!(!heard.contains(&"READY=1".to_owned()), "{heard:?}");
}

#[test]
fn signs_of_life_come_from_the_loop_and_from_nothing_else() {
    let folder = volume();
    let mut served = Watched::start(folder.path(), &["serve", "v.toml"], &[("WATCHDOG_USEC", "900000")]);
    let pid = served.ready();
    let began = Instant::now();
    for _ in 0..6 {
        served.hears("WATCHDOG=1");
    }
    // A third of 0.9 s, six times; the first is sent at once.
    assert!(began.elapsed() > Duration::from_millis(1_200), "{:?}", began.elapsed());
    let Some(stopped) = Stopped::loop_of(pid) else { return };
    while served.hears_within("WATCHDOG=1", Duration::from_millis(100)).is_some() {}
    let beat = served.hears_within("WATCHDOG=1", Duration::from_secs(2));
    assert!(beat.is_none(), "the loop hangs, and the server gives signs of life");
    // Its other threads run on.
    UnixStream::connect(folder.path().join("v.control")).unwrap();
    drop(stopped);
    served.hears("WATCHDOG=1");
}

#[test]
fn signs_of_life_that_are_asked_of_another_process_are_not_given() {
    let folder = volume();
    let mut served =
        Watched::start(folder.path(), &["serve", "v.toml"], &[("WATCHDOG_USEC", "100000"), ("WATCHDOG_PID", "1")]);
    served.ready();
    assert!(served.hears_within("WATCHDOG=1", Duration::from_secs(1)).is_none());
}

#[test]
fn a_socket_that_is_not_there_stops_nobody() {
    let folder = volume();
    let mut serving = peryton();
    serving.args(["serve", "v.toml"]).current_dir(folder.path()).env("NOTIFY_SOCKET", "/nowhere/at/all");
    let mut serving = serving.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while UnixStream::connect(folder.path().join("v.control")).is_err() {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
    send(serving.id() as i32, libc::SIGUSR2);
    assert!(serving.wait().unwrap().success(), "a server that hands over ends in good order");
}

const SUPERVISE: [&str; 3] = ["supervise", "v.toml", "--nbd-only"];

fn supervise(folder: &Path, more: &[&str], variables: &[(&str, &str)]) -> Watched {
    Watched::start(folder, &[&SUPERVISE[..], more].concat(), variables)
}

#[test]
fn a_server_that_is_killed_is_started_again_and_the_supervisor_says_so() {
    let folder = volume();
    let mut watched = supervise(folder.path(), &[], &[("WATCHDOG_USEC", "300000")]);
    let first = watched.ready();
    assert_ne!(first, watched.process.id() as i32);
    watched.hears("WATCHDOG=1");
    send(first, libc::SIGKILL);
    assert!(watched.hears("STATUS=the server ended with ").contains("signal: 9"));
    assert_ne!(watched.ready(), first);
    watched.signal(libc::SIGTERM);
    let (code, heard) = watched.end();
    assert!(code == Some(0) && heard.contains(&"STOPPING=1".to_owned()), "{code:?} {heard:?}");
    let left = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name.ends_with("notify")).count(), 0);
}

/// The fear: the new supervisor waits for devices that the server has which the old one has left.
#[test]
fn a_server_that_has_lost_its_supervisor_is_taken_over() {
    let folder = volume();
    let mut watched = supervise(folder.path(), &[], &[]);
    let orphan = watched.ready();
    let (code, _) = supervise(folder.path(), &[], &[]).end();
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(code == Some(2) && log.contains("supervises it already"), "{code:?} {log}");
    watched.process.kill().unwrap();
    watched.process.wait().unwrap();
    let mut next = supervise(folder.path(), &[], &[]);
    assert_ne!(next.ready(), orphan);
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains(&format!("process {orphan} serves it without a supervisor")), "{log}");
    assert!(!next.heard.iter().any(|line| line.contains("recovering")), "{:?}", next.heard);
    next.signal(libc::SIGTERM);
    assert_eq!(next.end().0, Some(0));
}

#[test]
fn a_server_that_is_stopped_is_killed_and_replaced() {
    let folder = volume();
    let mut watched = supervise(folder.path(), &["--hung-after", "2s"], &[]);
    let first = watched.ready();
    send(first, libc::SIGSTOP);
    let began = Instant::now();
    let said = watched.hears("STATUS=the server has given no sign of life for ");
    assert!(said.contains("stopped") && said.contains("--hung-after"), "{said}");
    assert!(began.elapsed() >= Duration::from_secs(1), "too early: {:?}", began.elapsed());
    assert_ne!(watched.ready(), first);
}

#[test]
fn a_server_whose_loop_hangs_is_killed_although_its_other_threads_run() {
    let folder = volume();
    let mut watched = supervise(folder.path(), &["--hung-after", "2s"], &[]);
    let first = watched.ready();
    let Some(stopped) = Stopped::loop_of(first) else { return };
    watched.hears("STATUS=the server has given no sign of life for ");
    // The signal has been sent, or is about to be.
    std::thread::sleep(Duration::from_millis(500));
    drop(stopped);
    assert_ne!(watched.ready(), first);
}

#[test]
fn a_server_that_works_or_is_not_watched_is_left_alone() {
    for (hung_after, stop) in [("1s", false), ("0s", true)] {
        let folder = volume();
        let mut watched = supervise(folder.path(), &["--hung-after", hung_after], &[]);
        let first = watched.ready();
        if stop {
            send(first, libc::SIGSTOP);
        }
        assert_eq!(watched.hears_within("STATUS=", Duration::from_secs(4)), None);
        send(first, libc::SIGCONT);
    }
}

#[test]
fn a_supervisor_becomes_the_program_that_is_installed_now() {
    let folder = volume();
    let mut watched = supervise(folder.path(), &["--hung-after", "5s"], &[]);
    let supervisor = watched.process.id() as i32;
    let mut before = watched.ready();
    for _ in 0..3 {
        watched.signal(libc::SIGUSR2);
        watched.hears("STATUS=handing over");
        let now = watched.ready();
        assert_ne!(now, before);
        before = now;
    }
    assert_eq!(watched.process.id() as i32, supervisor);
    assert!(!watched.heard.iter().any(|line| line.contains("recovering")), "{:?}", watched.heard);
    watched.signal(libc::SIGTERM);
    assert_eq!(watched.end().0, Some(0));
}

#[test]
fn devices_that_come_late_are_waited_for_and_those_that_never_come_are_named() {
    let folder = volume();
    let (path, away) = (folder.path().join("small.img"), folder.path().join("away"));
    fs::rename(&path, &away).unwrap();
    let mut watched = supervise(folder.path(), &["--wait-for-devices", "60s"], &[]);
    assert!(watched.hears("STATUS=waiting for device small: ").ends_with("small.img"));
    watched.hears("EXTEND_TIMEOUT_USEC=");
    fs::rename(&away, &path).unwrap();
    watched.ready();
    watched.signal(libc::SIGTERM);
    assert_eq!(watched.end().0, Some(0));
    // A wait can be ended.
    fs::rename(&path, &away).unwrap();
    let mut watched = supervise(folder.path(), &["--wait-for-devices", "60s"], &[]);
    watched.hears("STATUS=waiting for device small: ");
    watched.signal(libc::SIGTERM);
    assert_eq!(watched.end().0, Some(0));
    fs::remove_file(folder.path().join("log")).unwrap();
    let (code, _) = supervise(folder.path(), &["--wait-for-devices", "1s"], &[]).end();
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let last = log.lines().last().unwrap();
    assert_eq!(code, Some(2));
    assert!(
        last.contains("devices.small") && last.contains("small.img") && last.contains("--wait-for-devices"),
        "{log}"
    );
}

#[test]
fn a_time_that_any_server_would_exceed_is_refused() {
    let folder = volume();
    let output = peryton().args(SUPERVISE).args(["--hung-after", "10ms"]).current_dir(folder.path()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
    assert!(error.contains("--hung-after") && error.contains("less than 1s"), "{error}");
}

//! What the program that watches a server hears of it: systemd, or `peryton supervise`. The protocol is that of sd_notify(3):
//! datagrams with lines `KEY=value`, sent to the socket that NOTIFY_SOCKET names.
//!
//! The crate `sd-notify` is not used, because it opens a socket for each message and waits until the receiver has room for it; the
//! loop that serves a volume must not wait for anything. Here a message that does not fit is dropped.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
            process::{CommandExt as _, parent_id},
        },
    },
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use peryton_units::Nanos;
use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
        SocketType,
    },
    pipe::PipeFlags,
};

use crate::{listen::bind_private, shared_memory::NAME};

/// The variable that names the socket.
const SOCKET: &str = "NOTIFY_SOCKET";
/// The variables with the interval in which a sign of life is expected, and of which process.
const WATCHDOG: &str = "WATCHDOG_USEC";
const WATCHDOG_OF: &str = "WATCHDOG_PID";

/// The variable that says how many descriptors the program keeps that watches this one: systemd's name for it, from version 254 on.
const STORE: &str = "FDSTORE";
/// The variables of systemd with descriptors that it has kept: how many, for which process, their names.
const LISTEN_FDS: &str = "LISTEN_FDS";
const LISTEN_OF: &str = "LISTEN_PID";
const LISTEN_NAMES: &str = "LISTEN_FDNAMES";
/// The first of them.
const FIRST_LISTEN_FD: u32 = 3;
/// The variable with the number of the descriptor that the supervisor has kept.
const HANDOFF: &str = "PERYTON_HANDOFF";
/// How long the program may take to have room for a descriptor that it is to keep,
const ROOM_WITHIN: Duration = Duration::from_secs(2);
const ROOM_LOOK: Duration = Duration::from_millis(5);
/// and how long to have taken it.
const KEPT_WITHIN: Duration = Duration::from_secs(20);

/// Signs of life are sent this many times in the interval in which one is expected.
const BEATS: u64 = 3;
/// Opening and closing a volume report at this interval that they make progress,
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// and ask for this much time more: a call to a device that takes longer is no progress.
const PROGRESS_LASTS: Duration = Duration::from_secs(30);

/// Messages with a descriptor: one to keep, and one that is closed when all earlier messages were heeded.
const KEEP: &str = "FDSTORE=1";
const BARRIER: &str = "BARRIER=1";

/// The longest reason that is read why a descriptor is not kept.
const LONGEST_REFUSAL: usize = 256;

/// The longest message that is read; systemd reads as much.
const LONGEST_MESSAGE: usize = 4096;

/// Notifies the program that watches this one, if there is one.
#[derive(Clone, Debug, Default)]
pub struct Notifier(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    socket: UnixDatagram,
    beat_every: Option<Nanos>,
    began: Instant,
    /// When progress was reported last, in ms since `began`.
    progress: AtomicU64,
    /// The status while everything is well.
    serving: Mutex<String>,
    /// Whether the program keeps descriptors for the next server, and the one that it has kept.
    keeps: bool,
    inherited: Option<File>,
    /// The process that started this one.
    parent: u32,
}

/// The memory that the program that watches this one has kept from an earlier process.
fn inherited() -> Option<File> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let of_systemd = || {
        let ours = number(LISTEN_OF)? == std::process::id() && number(LISTEN_FDS)? > 0;
        let names = env::var(LISTEN_NAMES).ok().filter(|_| ours)?;
        Some(FIRST_LISTEN_FD + u32::try_from(names.split(':').position(|name| name == NAME)?).ok()?)
    };
    let path = format!("/proc/self/fd/{}", number(HANDOFF).or_else(of_systemd)?);
    // Another program's descriptor could have the number by now.
    let is_memory = fs::read_link(&path).is_ok_and(|to| to.to_string_lossy().starts_with(&format!("/memfd:{NAME}")));
    File::options().read(true).write(true).open(path).ok().filter(|_| is_memory)
}

/// Hands a descriptor on to a program that is about to be started.
fn hand_on(command: &mut Command, descriptor: BorrowedFd<'_>) {
    let number = descriptor.as_raw_fd();
    command.env(HANDOFF, number.to_string()).env_remove(LISTEN_FDS).env_remove(LISTEN_OF).env_remove(LISTEN_NAMES);
    let open_there = move || {
        // SAFETY: a descriptor is open for as long as the program that started this child waits for the call.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        Ok(rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty())?)
    };
    // SAFETY: the function makes one system call, and neither allocates nor locks.
    unsafe { command.pre_exec(open_there) };
}

impl Notifier {
    /// The program that the environment names. Without one, nothing is sent.
    ///
    /// # Errors
    /// The environment names a socket that cannot be reached.
    pub fn from_environment() -> io::Result<Notifier> {
        let Some(at) = env::var_os(SOCKET).filter(|at| !at.is_empty()) else { return Ok(Notifier(None)) };
        let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let ours = number(WATCHDOG_OF).is_none_or(|pid| pid == u64::from(std::process::id()));
        let within = number(WATCHDOG).filter(|within_us| ours && *within_us > 0).map(Nanos::from_us);
        let keeps = number(STORE).is_some_and(|count| count > 0);
        Notifier::to(&at, within, keeps, inherited())
    }

    /// Notifies at this address (a path, or a name in the abstract namespace after `@`), and gives signs of life within this time.
    fn to(at: &OsString, within: Option<Nanos>, keeps: bool, inherited: Option<File>) -> io::Result<Notifier> {
        let address = match at.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(Path::new(at))?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect_addr(&address)?;
        let beat_every = within.map(|within| Nanos((within.0 / BEATS).max(1)));
        let progress = AtomicU64::new(u64::MAX);
        Ok(Notifier(Some(Arc::new(Inner {
            socket,
            beat_every,
            began: Instant::now(),
            progress,
            serving: Mutex::default(),
            keeps,
            inherited,
            parent: parent_id(),
        }))))
    }

    fn send(&self, message: &str) {
        let Some(inner) = &self.0 else { return };
        // What cannot be sent at once is dropped: a status is soon followed by another, and signs of life come more often than needed.
        if let Err(error) = inner.socket.send(message.as_bytes()) {
            tracing::debug!(%error, message, "the program that watches this one was not notified");
        }
    }

    /// Everything is there for clients.
    pub fn ready(&self, status: &str) {
        if let Some(inner) = &self.0 {
            *inner.serving.lock().unwrap_or_else(PoisonError::into_inner) = line(status);
        }
        self.send(&format!("READY=1\nSTATUS={}", line(status)));
    }

    /// What kept the program from its work is over: the status is that of [`Notifier::ready`] again.
    pub(crate) fn goes_on(&self) {
        let Some(inner) = &self.0 else { return };
        let serving = inner.serving.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !serving.is_empty() {
            self.status(&serving);
        }
    }

    /// What is being done now.
    pub fn status(&self, status: &str) {
        self.send(&format!("STATUS={}", line(status)));
    }

    /// The end has begun.
    pub fn stopping(&self, status: &str) {
        self.send(&format!("STOPPING=1\nSTATUS={}", line(status)));
    }

    /// The start or the end goes on, and may take this much longer.
    pub fn extend(&self, by: Duration) {
        self.send(&format!("EXTEND_TIMEOUT_USEC={}", by.as_micros()));
    }

    /// A device has carried out a call while the volume is opened or closed. This is reported now and then, and counts as a sign of
    /// life.
    pub(crate) fn progress(&self) {
        let Some(inner) = &self.0 else { return };
        let now = inner.began.elapsed().as_millis() as u64;
        let last = inner.progress.load(Ordering::Relaxed);
        if last != u64::MAX && now.saturating_sub(last) < PROGRESS_EVERY.as_millis() as u64 {
            return;
        }
        inner.progress.store(now, Ordering::Relaxed);
        self.extend(PROGRESS_LASTS);
        if inner.beat_every.is_some() {
            self.beat();
        }
    }

    /// Whether there is such a program.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the program keeps a descriptor for the next server.
    pub fn keeps(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.keeps)
    }

    /// What it has kept from an earlier server.
    pub fn inherited(&self) -> Option<File> {
        self.0.as_ref()?.inherited.as_ref()?.try_clone().ok()
    }

    /// Gives it the memory for the next server, and returns when every program has it that is to keep it.
    ///
    /// # Errors
    /// One of them has no room for it, does not answer, or has ended.
    pub(crate) fn keep(&self, memory: BorrowedFd<'_>) -> io::Result<()> {
        let inner = self.0.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        self.give(&Given::Memory(memory.try_clone_to_owned()?))?;
        let (kept, barrier) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        self.give(&Given::Barrier(barrier))?;
        let (asked, look) = (Instant::now(), PROGRESS_EVERY.try_into().map_err(io::Error::other)?);
        while rustix::event::poll(&mut [PollFd::new(&kept, PollFlags::IN)], Some(&look))? == 0 {
            if asked.elapsed() > KEPT_WITHIN {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {KEPT_WITHIN:?}")));
            }
            self.progress();
        }
        let mut refusal = [0; LONGEST_REFUSAL];
        let len = rustix::io::read(&kept, &mut refusal)?;
        // What a program has sent that has ended is dropped by the one above it.
        match parent_id() == inner.parent {
            true if len == 0 => Ok(()),
            true => Err(io::Error::other(String::from_utf8_lossy(&refusal[..len]))),
            false => Err(io::Error::other("it has ended")),
        }
    }

    fn give(&self, given: &Given) -> io::Result<()> {
        match given {
            Given::Memory(memory) => self.send_with(&format!("{KEEP}\nFDNAME={NAME}"), memory.as_fd()),
            Given::Barrier(barrier) => self.send_with(BARRIER, barrier.as_fd()),
        }
    }

    fn send_with(&self, message: &str, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let inner = self.0.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let began = Instant::now();
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let descriptors = [descriptor];
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
            let parts = [io::IoSlice::new(message.as_bytes())];
            match rustix::net::sendmsg(&inner.socket, &parts, &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN) if began.elapsed() < ROOM_WITHIN => std::thread::sleep(ROOM_LOOK),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The interval of signs of life, if any are expected.
    pub fn beat_every(&self) -> Option<Nanos> {
        self.0.as_ref()?.beat_every
    }

    /// Gives a sign of life.
    pub fn beat(&self) {
        self.send("WATCHDOG=1");
    }
}

/// A status has one line.
fn line(status: &str) -> String {
    status.replace(['\n', '\r'], " ")
}

/// What a message says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Clients are served.
    pub ready: bool,
    /// A sign of life.
    pub alive: bool,
    /// What the program does.
    pub status: Option<String>,
    /// The start or the end goes on for so long at most.
    pub extend: Option<Nanos>,
}

impl Message {
    /// Reads a message. Lines that say nothing here are ignored, as the protocol asks for.
    pub fn parse(bytes: &[u8]) -> Message {
        let mut message = Message::default();
        for (key, value) in String::from_utf8_lossy(bytes).lines().filter_map(|line| line.split_once('=')) {
            match key {
                "READY" => message.ready |= value == "1",
                "WATCHDOG" => message.alive |= value == "1",
                "STATUS" => message.status = Some(value.to_owned()),
                "EXTEND_TIMEOUT_USEC" => message.extend = value.parse().ok().map(Nanos::from_us),
                _ => {}
            }
        }
        message
    }
}

/// A descriptor that a server gives to the program that watches it.
#[derive(Debug)]
pub enum Given {
    /// The memory for the next server, to be kept.
    Memory(OwnedFd),
    /// A pipe that is closed when whatever was given before is kept, and that is told why it is not: the server waits for that.
    Barrier(OwnedFd),
}

/// Keeps what servers give to the program that watches them, and passes it on to the one above that, if there is one. Versions of systemd
/// before 254 do not say whether they keep descriptors; those that keep none drop them.
#[derive(Debug)]
pub struct Keeper {
    above: Notifier,
    /// The memory that the next server takes over.
    kept: Option<OwnedFd>,
    /// Why the program above has no room for it.
    refused: Option<io::Error>,
}

impl Keeper {
    /// Keeps what an earlier process has handed on.
    pub fn new(above: Notifier) -> Keeper {
        Keeper { kept: above.inherited().map(OwnedFd::from), above, refused: None }
    }

    /// The memory that the next server takes over.
    pub fn kept(&self) -> Option<&OwnedFd> {
        self.kept.as_ref()
    }

    /// Takes what a server has given. The program above closes the barrier when it has the memory; a server is told why it has not.
    pub fn take(&mut self, given: Given) {
        let passed_on = if self.above.is_there() { self.above.give(&given) } else { Ok(()) };
        match given {
            Given::Memory(memory) => (self.kept, self.refused) = (Some(memory), passed_on.err()),
            Given::Barrier(barrier) => {
                if let Some(why) = self.refused.take().or(passed_on.err()) {
                    // A server that has ended does not need it.
                    let _ = rustix::io::write(barrier, why.to_string().as_bytes());
                }
            }
        }
    }
}

/// A socket on which a program that this one has started notifies it. Only processes of the same user can send to it.
#[derive(Debug)]
pub struct Notified {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Notified {
    /// Makes the socket at this path; one that is there is replaced.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn at(path: &Path) -> io::Result<Notified> {
        if let Err(error) = fs::remove_file(path)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let socket = UnixDatagram::from(bind_private(path, SocketType::DGRAM)?);
        Ok(Notified { socket, path: path.to_owned() })
    }

    /// Another handle, for the thread that waits for messages.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn socket(&self) -> io::Result<UnixDatagram> {
        self.socket.try_clone()
    }

    /// Makes a program notify here, within this time at the latest if it serves, and hands on what an earlier one has given to keep.
    pub fn listen_to(&self, command: &mut Command, within: Option<Nanos>, kept: Option<&OwnedFd>) {
        command.env(SOCKET, &self.path).env_remove(WATCHDOG_OF).env_remove(WATCHDOG).env(STORE, "1");
        command.env_remove(HANDOFF).env_remove(LISTEN_FDS).env_remove(LISTEN_OF).env_remove(LISTEN_NAMES);
        if let Some(kept) = kept {
            hand_on(command, kept.as_fd());
        }
        if let Some(within) = within {
            command.env(WATCHDOG, (within.0 / 1000).to_string());
        }
    }

    /// Makes a program that takes this one's place take over what is kept.
    pub fn renew(command: &mut Command, kept: Option<&OwnedFd>) {
        command.env_remove(HANDOFF);
        if let Some(kept) = kept {
            hand_on(command, kept.as_fd());
        }
    }

    /// Waits for the next message, and the descriptor that it gives.
    ///
    /// # Errors
    /// The socket fails.
    pub fn next(socket: &UnixDatagram) -> io::Result<(Message, Option<Given>)> {
        let mut bytes = [0; LONGEST_MESSAGE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [io::IoSliceMut::new(&mut bytes)];
        let received = rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let mut given = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                given = descriptors.last();
            }
        }
        let bytes = &bytes[..received.bytes];
        let says = |line: &str| bytes.split(|byte| *byte == b'\n').any(|said| said == line.as_bytes());
        let given = given.and_then(|descriptor| match () {
            () if says(KEEP) => Some(Given::Memory(descriptor)),
            () if says(BARRIER) => Some(Given::Barrier(descriptor)),
            () => None,
        });
        Ok((Message::parse(bytes), given))
    }
}

impl Drop for Notified {
    fn drop(&mut self) {
        // Its folder may be gone already.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(within: Option<Nanos>) -> (tempfile::TempDir, Notified, Notifier) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let notified = Notified::at(&path).unwrap();
        let notifier = Notifier::to(&path.into_os_string(), within, true, None).unwrap();
        (folder, notified, notifier)
    }

    fn waiting(notified: &Notified) -> Vec<Message> {
        notified.socket.set_nonblocking(true).unwrap();
        std::iter::from_fn(|| Some(Notified::next(&notified.socket).ok()?.0)).collect()
    }

    #[test]
    fn what_is_sent_is_what_arrives() {
        let (_folder, notified, notifier) = pair(Some(Nanos::from_s(30)));
        assert_eq!(notifier.beat_every(), Some(Nanos::from_s(10)));
        notifier.ready("a\nREADY=0");
        notifier.beat();
        notifier.extend(Duration::from_secs(2));
        let alive = Message { alive: true, ..Message::default() };
        let ready = Message { ready: true, status: Some("a READY=0".to_owned()), ..Message::default() };
        let extend = Message { extend: Some(Nanos::from_s(2)), ..Message::default() };
        assert_eq!(waiting(&notified), [ready, alive, extend]);
    }

    /// A message of another user could keep a hung server alive, or end one.
    #[test]
    fn the_socket_is_never_open_to_others() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let over = std::sync::atomic::AtomicBool::new(false);
        let seen = std::sync::atomic::AtomicU32::new(0);
        let worst = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut worst = 0;
                while !over.load(Ordering::Relaxed) {
                    if let Ok(about) = fs::symlink_metadata(&path) {
                        worst |= about.permissions().mode() & 0o777;
                        seen.fetch_add(1, Ordering::Relaxed);
                    }
                }
                worst
            });
            let began = std::time::Instant::now();
            while seen.load(Ordering::Relaxed) < 300 && began.elapsed().as_secs() < 30 {
                drop(Notified::at(&path).unwrap());
            }
            over.store(true, Ordering::Relaxed);
            watcher.join().unwrap()
        });
        assert_eq!(worst, 0o600, "{worst:o}");
    }

    #[test]
    fn progress_is_reported_now_and_then_and_not_for_each_call() {
        let (_folder, notified, notifier) = pair(Some(Nanos::from_s(30)));
        for _ in 0..1000 {
            notifier.progress();
        }
        let found = waiting(&notified);
        assert!(found.len() >= 2 && found.len() <= 4, "{found:?}");
        assert!(found[0].extend.is_some() && found[1].alive);
    }

    #[test]
    fn a_receiver_that_reads_nothing_or_has_gone_stops_nobody() {
        let (_folder, notified, notifier) = pair(None);
        for _ in 0..100_000 {
            notifier.status("the socket has no room for as many");
        }
        drop(notified);
        notifier.ready("gone");
        assert_eq!(notifier.beat_every(), None);
    }

    /// Answers the notifier `below`, as a supervisor does that systemd watches (`above`), until that has given its memory.
    fn supervise(below: &UnixDatagram, above: &Notifier) -> Option<OwnedFd> {
        let mut keeper = Keeper::new(above.clone());
        loop {
            if let Some(given) = Notified::next(below).unwrap().1 {
                let is_last = matches!(given, Given::Barrier(_));
                keeper.take(given);
                if is_last {
                    return keeper.kept;
                }
            }
        }
    }

    fn memory() -> File {
        File::from(rustix::fs::memfd_create(NAME, rustix::fs::MemfdFlags::CLOEXEC).unwrap())
    }

    /// As of a systemd that does not say whether it keeps descriptors.
    fn keeping(path: &Path) -> Notifier {
        Notifier::to(&path.as_os_str().to_owned(), None, false, None).unwrap()
    }

    /// Whoever gives its memory goes on when all programs above have it, and not before: each drops what one has sent that was killed.
    #[test]
    fn what_is_given_is_kept_by_all_when_the_giver_goes_on() {
        use std::os::unix::fs::FileExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (of_systemd, of_supervisor) = (folder.path().join("systemd"), folder.path().join("supervisor"));
        let (systemd, supervisor) = (Notified::at(&of_systemd).unwrap(), Notified::at(&of_supervisor).unwrap());
        let (above, below) = (keeping(&of_systemd), supervisor.socket().unwrap());
        let has_gone_on = std::sync::atomic::AtomicBool::new(false);
        let (supervised, kept) = std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let memory = memory();
                memory.write_all_at(b"kept", 0).unwrap();
                keeping(&of_supervisor).keep(memory.as_fd()).unwrap();
                has_gone_on.store(true, Ordering::SeqCst);
            });
            let supervised = supervise(&below, &above).unwrap();
            let first = Notified::next(&systemd.socket).unwrap().1;
            std::thread::sleep(Duration::from_millis(50));
            assert!(!has_gone_on.load(Ordering::SeqCst), "systemd has not answered");
            let Some(Given::Memory(kept)) = first else { panic!("{first:?}") };
            assert!(
                matches!(Notified::next(&systemd.socket).unwrap(), (message, Some(Given::Barrier(_))) if message == Message::default())
            );
            server.join().unwrap();
            (supervised, kept)
        });
        for kept in [supervised, kept] {
            let mut command = Command::new("sh");
            command.args(["-c", "cat /proc/self/fd/$PERYTON_HANDOFF"]);
            supervisor.listen_to(&mut command, None, Some(&kept));
            assert_eq!(command.output().unwrap().stdout, b"kept");
        }
    }

    #[test]
    fn a_giver_hears_that_a_program_above_does_not_keep_it() {
        let folder = tempfile::tempdir().unwrap();
        let (of_systemd, of_supervisor) = (folder.path().join("systemd"), folder.path().join("supervisor"));
        let systemd = Notified::at(&of_systemd).unwrap();
        let (above, supervisor) = (keeping(&of_systemd), Notified::at(&of_supervisor).unwrap());
        drop(systemd);
        let below = supervisor.socket().unwrap();
        let answer = std::thread::scope(|scope| {
            scope.spawn(|| supervise(&below, &above).unwrap());
            keeping(&of_supervisor).keep(memory().as_fd())
        });
        let why = answer.unwrap_err().to_string();
        assert!(why.contains("Connection refused"), "{why}");
    }

    #[test]
    fn names_in_the_abstract_namespace_begin_with_an_at_sign() {
        let name = format!("peryton-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        Notifier::to(&format!("@{name}").into(), None, false, None).unwrap().status("here");
        assert_eq!(Notified::next(&socket).unwrap().0.status.as_deref(), Some("here"));
        assert!(Notifier::to(&"@peryton-test-of-nothing".into(), None, false, None).is_err());
    }

    #[test]
    fn lines_that_mean_nothing_are_ignored() {
        for bytes in [&b""[..], b"\xff\xfe=1\n\n=\nREADY", b"READY=0\nWATCHDOG=trigger\nEXTEND_TIMEOUT_USEC=soon"] {
            assert_eq!(Message::parse(bytes), Message::default(), "{bytes:?}");
        }
    }
}

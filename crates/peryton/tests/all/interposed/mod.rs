//! Runs the built program, as it ships, and fails one of its writes, flushes or discards of certain files, or kills it there. A
//! seccomp filter reports these system calls to the test, which decides (Linux 5.5, no privileges). The filter refuses
//! `io_uring_setup`, as some containers do: what goes through a ring cannot be seen, and the program has threads for this case.

use std::{
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::{fs::MetadataExt, net::UnixDatagram, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::served::Client;

/// What happens at the chosen call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// It fails, with an error that does not pass by itself.
    Fails,
    /// It fails so, and everything after it: the device takes reads and refuses writes.
    Refuses,
    /// It fails for lack of space, and every write after it; flushes do not.
    Fills,
    /// It and all commands after it fail, also reads: the device has gone.
    Dies,
    /// The program is killed before the call does anything.
    Kills,
}

/// Where something happens: at the `nth` write, flush or discard, from 1; 0: nowhere.
#[derive(Clone, Debug)]
pub struct At {
    pub nth: u32,
    pub point: Point,
    /// The files that count.
    pub files: Vec<PathBuf>,
}

/// A program that is watched.
pub struct Watched {
    pub child: Child,
    calls: Arc<AtomicU32>,
    plan: Arc<Mutex<Plan>>,
}

/// At which call something happens, and whether it has.
#[derive(Debug)]
struct Plan {
    nth: u32,
    has_happened: bool,
}

impl Watched {
    /// How many writes, flushes and discards of the files there were.
    pub fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }

    /// From now on, something happens at the `nth` call from here, in place of what was to happen.
    pub fn arm(&self, nth: u32) {
        self.plan.lock().unwrap().nth = self.calls() + nth;
    }

    /// Nothing happens any more.
    pub fn disarm(&self) {
        self.plan.lock().unwrap().nth = 0;
    }

    /// Whether anything has happened; if not, nothing does any more.
    pub fn has_happened(&self) -> bool {
        let mut plan = self.plan.lock().unwrap();
        if !plan.has_happened {
            plan.nth = 0;
        }
        plan.has_happened
    }
}

const CALLS: [libc::c_long; 5] =
    [libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_fdatasync, libc::SYS_fsync, libc::SYS_fallocate];
// _IOWR('!', 0, struct seccomp_notif) and _IOWR('!', 1, struct seccomp_notif_resp).
const RECEIVE: u64 = 0xc000_2100 | (size_of::<libc::seccomp_notif>() as u64) << 16;
const SEND: u64 = 0xc000_2101 | (size_of::<libc::seccomp_notif_resp>() as u64) << 16;

fn filter(point: Point) -> Vec<libc::sock_filter> {
    let op = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let answer = |k: u32| op(libc::BPF_RET | libc::BPF_K, 0, 0, k);
    let is = |call: libc::c_long| op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32);
    // The number of the call is the first word.
    let mut program = vec![op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    program.extend([is(libc::SYS_io_uring_setup), answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32)]);
    let reads = [libc::SYS_pread64, libc::SYS_preadv];
    for call in CALLS.into_iter().chain(reads.into_iter().filter(|_| point == Point::Dies)) {
        program.extend([is(call), answer(libc::SECCOMP_RET_USER_NOTIF)]);
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    program
}

/// Installs the filter in this process; returns the descriptor at which calls are reported.
fn install(program: &[libc::sock_filter]) -> io::Result<RawFd> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program is valid as long as the calls take.
    let listener = unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
        libc::syscall(libc::SYS_seccomp, mode, flags, &program)
    };
    if listener < 0 { Err(io::Error::last_os_error()) } else { Ok(listener as RawFd) }
}

/// Sends a descriptor, without allocating: between fork and exec nothing may.
fn send_descriptor(socket: RawFd, descriptor: RawFd) -> io::Result<()> {
    let mut byte = 1_u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut control = [0_u64; 4];
    // SAFETY: all that the message points to outlives the call, and the control block has room for one descriptor.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(descriptor);
        if libc::sendmsg(socket, &raw const message, 0) < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn receive_descriptor(socket: &UnixDatagram) -> io::Result<OwnedFd> {
    let mut byte = 0_u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut control = [0_u64; 4];
    // SAFETY: as above.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        if libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) < 0 {
            return Err(io::Error::last_os_error());
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned()))
    }
}

/// Starts the program. `None` if this system has no filters that report calls, or allows none.
pub fn start(mut command: Command, at: At) -> Option<Watched> {
    let (ours, theirs) = UnixDatagram::pair().expect("two sockets");
    let program = filter(at.point);
    let socket = theirs.as_raw_fd();
    // SAFETY: only system calls, and nothing is allocated.
    unsafe {
        command.pre_exec(move || send_descriptor(socket, install(&program)?));
    }
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("no seccomp filter here: {error}");
            return None;
        }
    };
    drop(theirs);
    let listener = receive_descriptor(&ours).expect("the child has sent it");
    let calls = Arc::new(AtomicU32::new(0));
    let plan = Arc::new(Mutex::new(Plan { nth: at.nth, has_happened: false }));
    let (counted, planned, pid) = (Arc::clone(&calls), Arc::clone(&plan), child.id() as libc::pid_t);
    thread::spawn(move || decide(&listener, pid, &at, (&counted, &planned)));
    Some(Watched { child, calls, plan })
}

/// Answers the calls that are reported, until the program has ended.
fn decide(listener: &OwnedFd, pid: libc::pid_t, at: &At, (calls, plan): (&AtomicU32, &Mutex<Plan>)) {
    loop {
        // SAFETY: plain data.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        let mut ready = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, which is open; the kernel writes what it says it does.
        let received = unsafe {
            libc::poll(&raw mut ready, 1, -1);
            if ready.revents & libc::POLLIN == 0 {
                return;
            }
            libc::ioctl(listener.as_raw_fd(), RECEIVE as _, &raw mut call)
        };
        if received != 0 {
            continue;
        }
        let counts = is_one_of(call.pid, call.data.args[0] as RawFd, &at.files);
        let reads = [libc::SYS_pread64, libc::SYS_preadv].contains(&libc::c_long::from(call.data.nr));
        let nth = if counts { calls.fetch_add(u32::from(!reads), Ordering::SeqCst) + u32::from(!reads) } else { 0 };
        let lasts = matches!(at.point, Point::Refuses | Point::Fills | Point::Dies);
        let mut plan = plan.lock().unwrap();
        let chosen = plan.nth;
        let is_it =
            counts && chosen > 0 && (nth == chosen && !reads || lasts && (nth > chosen || reads && nth == chosen));
        plan.has_happened |= is_it;
        drop(plan);
        let flushes = [libc::SYS_fdatasync, libc::SYS_fsync].contains(&libc::c_long::from(call.data.nr));
        let (error, flags) = match at.point {
            _ if !is_it => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            // The kernel names the blocks as bad, so the server does not wait for them to come back.
            Point::Fails | Point::Refuses => (-if flushes { libc::EIO } else { libc::ENODATA }, 0),
            Point::Dies => (-libc::ENXIO, 0),
            Point::Fills if flushes => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Point::Fills => (-libc::ENOSPC, 0),
            Point::Kills => {
                // SAFETY: it is our child, which this process has not waited for, because the child waits for this answer.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                (-libc::EIO, 0)
            }
        };
        let mut answer = libc::seccomp_notif_resp { id: call.id, val: 0, error, flags };
        // SAFETY: as above. It fails if the program has ended meanwhile.
        unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw mut answer) };
    }
}

/// Whether the descriptor of the thread is one of the files.
fn is_one_of(thread: u32, descriptor: RawFd, files: &[PathBuf]) -> bool {
    let Ok(open) = std::fs::metadata(format!("/proc/{thread}/fd/{descriptor}")) else { return false };
    files
        .iter()
        .filter_map(|file| std::fs::metadata(file).ok())
        .any(|file| (file.dev(), file.ino()) == (open.dev(), open.ino()))
}

/// Waits until a program has ended; `said`: what it has said until then.
pub fn ended(child: &mut Child, patience: Duration, said: impl Fn() -> String) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(began.elapsed() < patience, "it does not end: {}", said());
        thread::sleep(Duration::from_millis(1));
    }
}

/// A client of the server; `None` if that has ended before it listened.
pub fn client(folder: &Path, child: &mut Child, patience: Duration) -> Option<Client> {
    let began = Instant::now();
    loop {
        if let Ok(client) = Client::try_connect(&folder.join("v.nbd")) {
            return Some(client);
        }
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        assert!(began.elapsed() < patience, "it neither listens nor ends");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Asks the program to end.
pub fn terminate(child: &Child) {
    // SAFETY: it is our child, and was not waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
}

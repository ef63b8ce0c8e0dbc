//! The method without io_uring: threads carry out device commands, and sockets are polled.

use std::{
    collections::VecDeque,
    io,
    os::fd::{BorrowedFd, OwnedFd, RawFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::FallocateFlags,
    io::Errno,
};

use super::{Event, Files, Message, Wait, Waker};
use crate::disks::{Ask, Raw};

/// The number of worker threads, and so of device commands carried out at once.
const WORKERS: usize = 16;

/// A device command for a worker.
struct Work(Raw, Arc<OwnedFd>);

// SAFETY: the memory that it names is its own until it is answered.
unsafe impl Send for Work {}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    done: Vec<(u32, i32)>,
    stop: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
    /// Wakes the loop when a command is done.
    done: Waker,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Call {
    Accept,
    Receive(*mut libc::msghdr),
    Send(*mut libc::msghdr),
}

struct Pending {
    name: u32,
    fd: RawFd,
    call: Call,
}

pub(crate) struct Threads {
    files: Files,
    shared: Arc<Shared>,
    workers: Vec<thread::JoinHandle<()>>,
    waker: Waker,
    pending: Vec<Pending>,
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads").field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}

impl Threads {
    pub(super) fn new(files: Files, waker: Waker) -> io::Result<Threads> {
        let shared =
            Arc::new(Shared { queue: Mutex::new(Queue::default()), more: Condvar::new(), done: Waker::new()? });
        let worker = |number| {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name(format!("device-{number}")).spawn(move || work(&shared))
        };
        let workers = (0..WORKERS).map(worker).collect::<io::Result<_>>()?;
        Ok(Threads { files, shared, workers, waker, pending: Vec::new() })
    }

    pub(super) fn set_file(&mut self, index: usize, file: Option<Arc<OwnedFd>>) {
        self.files[index] = file;
    }

    pub(super) fn device(&mut self, raw: &Raw) {
        let file = self.files[raw.device.index()].as_ref().expect("an absent device is asked for nothing");
        self.shared.lock().work.push_back(Work(*raw, Arc::clone(file)));
        self.shared.more.notify_one();
    }

    pub(super) fn accept(&mut self, listener: u32, fd: RawFd) {
        self.pending.push(Pending { name: listener, fd, call: Call::Accept });
    }

    pub(super) fn receive(&mut self, connection: u32, fd: RawFd, message: &mut Message) {
        self.pending.push(Pending { name: connection, fd, call: Call::Receive(message.header()) });
    }

    pub(super) fn send(&mut self, connection: u32, fd: RawFd, message: &mut Message) {
        self.pending.push(Pending { name: connection, fd, call: Call::Send(message.header()) });
    }

    pub(super) fn turn(&mut self, wait: Wait, events: &mut Vec<Event>) -> io::Result<()> {
        let before = events.len();
        self.gather(events);
        if events.len() == before && wait != Wait::No {
            self.poll(wait, events)?;
            self.gather(events);
        }
        Ok(())
    }

    /// Gathers finished commands and tries each socket call.
    fn gather(&mut self, events: &mut Vec<Event>) {
        for (slot, result) in self.shared.lock().done.drain(..) {
            events.push(Event::Device { slot, result });
        }
        self.pending.retain(|pending| match pending.attempt() {
            None => true,
            Some(event) => {
                events.push(event);
                false
            }
        });
    }

    fn poll(&mut self, wait: Wait, events: &mut Vec<Event>) -> io::Result<()> {
        // SAFETY: the descriptors are open: their owners keep them until the calls on them are answered.
        let borrow = |fd| unsafe { BorrowedFd::borrow_raw(fd) };
        let mut fds = vec![
            PollFd::from_borrowed_fd(borrow(self.waker.fd()), PollFlags::IN),
            PollFd::from_borrowed_fd(borrow(self.shared.done.fd()), PollFlags::IN),
        ];
        fds.extend(self.pending.iter().map(|pending| {
            let flags = if matches!(pending.call, Call::Send(_)) { PollFlags::OUT } else { PollFlags::IN };
            PollFd::from_borrowed_fd(borrow(pending.fd), flags)
        }));
        let timeout = match wait {
            Wait::For(time) => Some(timespec(time)),
            Wait::No | Wait::Forever => None,
        };
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.shared.done.clear();
        if !fds[0].revents().is_empty() {
            self.waker.clear();
            events.push(Event::Woken);
        }
        Ok(())
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: time.subsec_nanos().into() }
}

impl Pending {
    /// Tries the call; `None` if it would block.
    fn attempt(&self) -> Option<Event> {
        // SAFETY: descriptor and message are valid until the call is answered; see `Kernel`.
        let result = unsafe {
            match self.call {
                Call::Accept => {
                    let flags = libc::SOCK_CLOEXEC;
                    libc::accept4(self.fd, std::ptr::null_mut(), std::ptr::null_mut(), flags) as isize
                }
                Call::Receive(header) => libc::recvmsg(self.fd, header, libc::MSG_DONTWAIT),
                Call::Send(header) => libc::sendmsg(self.fd, header, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL),
            }
        };
        let result = if result < 0 { -last_errno() } else { i32::try_from(result).unwrap_or(i32::MAX) };
        if result == -libc::EAGAIN || result == -libc::EINTR {
            return None;
        }
        Some(match self.call {
            Call::Accept => Event::Accepted { listener: self.name, result },
            Call::Receive(_) => Event::Received { connection: self.name, result },
            Call::Send(_) => Event::Sent { connection: self.name, result },
        })
    }
}

fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

fn work(shared: &Shared) {
    let mut queue = shared.lock();
    loop {
        if let Some(Work(raw, file)) = queue.work.pop_front() {
            drop(queue);
            let result = carry_out(&raw, &file);
            queue = shared.lock();
            queue.done.push((raw.slot, result));
            shared.done.wake();
        } else if queue.stop {
            return;
        } else {
            queue = shared.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Carries out one device command synchronously.
fn carry_out(raw: &Raw, file: &OwnedFd) -> i32 {
    let len = raw.len as usize;
    let result = match raw.ask {
        // SAFETY: the memory is the command's until it is answered.
        Ask::Read => rustix::io::pread(file, unsafe { raw.memory.slice_mut(len) }, raw.at),
        // SAFETY: as above.
        Ask::Write => rustix::io::pwrite(file, unsafe { raw.memory.slice(len) }, raw.at),
        Ask::Sync => rustix::fs::fdatasync(file).map(|()| 0),
        Ask::Punch => {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(file, flags, raw.at, raw.len).map(|()| 0)
        }
        Ask::ZeroRange => {
            let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(file, flags, raw.at, raw.len).map(|()| 0)
        }
    };
    match result {
        Ok(moved) => i32::try_from(moved).unwrap_or(i32::MAX),
        Err(errno) => -errno.raw_os_error(),
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.more.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has already reported it.
            let _ = worker.join();
        }
    }
}

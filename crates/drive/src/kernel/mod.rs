//! The interface to the kernel: device commands and socket calls, all in flight at once, and their answers. It uses
//! io_uring, or threads and `poll` where io_uring is refused.

mod message;
mod threads;
mod uring;

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    sync::Arc,
    time::Duration,
};

pub(crate) use message::Message;

use self::{threads::Threads, uring::Uring};
use crate::{arena::Memory, disks::Raw};

/// An answer: the number of bytes transferred, or a file descriptor, or a negative error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A device command.
    Device { slot: u32, result: i32 },
    /// A client has connected.
    Accepted { listener: u32, result: i32 },
    /// A message has been filled.
    Received { connection: u32, result: i32 },
    /// A message has been sent, or a part of it.
    Sent { connection: u32, result: i32 },
    /// A request of a block device has come, or none will come any more.
    BlockDevice { slot: u32, result: i32 },
    /// Another thread has woken the loop.
    Woken,
}

/// A command of a slot of a block device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotCommand {
    pub(crate) slot: u32,
    pub(crate) operation: u32,
    pub(crate) bytes: [u8; 16],
}

/// Whether the end of a send has to be heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// The loop turns once it is over.
    Heard,
    /// Only when the loop turns for another reason: the kernel takes the message at once, unless the socket is full.
    Unheard,
}

/// How long to wait for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Do not wait.
    No,
    /// At most this long.
    For(Duration),
    /// Until there is an event.
    Forever,
}

/// A way to reach the kernel. The caller must keep memory and messages unchanged until they are answered.
#[derive(Debug)]
pub(crate) enum Kernel {
    Uring(Box<Uring>),
    Threads(Threads),
}

/// Wakes the thread of a volume.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn new() -> io::Result<Waker> {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        Ok(Waker(Arc::new(rustix::event::eventfd(0, flags)?)))
    }

    /// Wakes the thread. Calls before the thread has woken count as one.
    pub(crate) fn wake(&self) {
        // The only possible failure is a full counter, and then the thread is already woken.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0; 8]);
    }

    fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The files of the devices, in the engine's order. Absent devices get no commands.
pub(crate) type Files = Vec<Option<Arc<OwnedFd>>>;

impl Kernel {
    /// Uses io_uring if the system allows it. `depth` is the approximate number of commands in flight.
    pub(crate) fn new(files: Files, waker: Waker, depth: u32, io_uring: bool) -> io::Result<Kernel> {
        if io_uring {
            match Uring::new(&files, waker.clone(), depth) {
                Ok(ring) => return Ok(Kernel::Uring(Box::new(ring))),
                Err(error) => tracing::warn!(%error, "io_uring is not available; threads do its work, more slowly"),
            }
        }
        Ok(Kernel::Threads(Threads::new(files, waker)?))
    }

    /// Puts a file into the place of another one, or takes it away. Commands that are in flight end on the one that they began on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn set_file(&mut self, index: usize, file: Option<Arc<OwnedFd>>) -> io::Result<()> {
        match self {
            Kernel::Uring(ring) => ring.set_file(index, file),
            Kernel::Threads(threads) => {
                threads.set_file(index, file);
                Ok(())
            }
        }
    }

    /// Registers memory that commands will use often: start and length.
    pub(crate) fn register(&mut self, memory: &[(Memory, usize)]) {
        if let Kernel::Uring(ring) = self {
            ring.register(memory);
        }
    }

    /// Lets go of the devices' files, and keeps the rest until the process ends: commands of a block device that wait for requests
    /// are then cancelled by the process's end. All device commands must have been answered.
    pub(crate) fn keep(self) {
        match self {
            Kernel::Uring(ring) => ring.keep(),
            Kernel::Threads(threads) => drop(threads),
        }
    }

    #[inline]
    pub(crate) fn device(&mut self, raw: &Raw) {
        match self {
            Kernel::Uring(ring) => ring.device(raw),
            Kernel::Threads(threads) => threads.device(raw),
        }
    }

    pub(crate) fn accept(&mut self, listener: u32, fd: RawFd) {
        match self {
            Kernel::Uring(ring) => ring.accept(listener, fd),
            Kernel::Threads(threads) => threads.accept(listener, fd),
        }
    }

    #[inline]
    pub(crate) fn receive(&mut self, connection: u32, fd: RawFd, message: &mut Message) {
        match self {
            Kernel::Uring(ring) => ring.receive(connection, fd, message),
            Kernel::Threads(threads) => threads.receive(connection, fd, message),
        }
    }

    #[inline]
    pub(crate) fn send(&mut self, connection: u32, fd: RawFd, message: &mut Message, haste: Haste) {
        match self {
            Kernel::Uring(ring) => ring.send(connection, fd, message, haste),
            Kernel::Threads(threads) => threads.send(connection, fd, message),
        }
    }

    /// Gives a command to a queue of a block device.
    #[inline]
    pub(crate) fn block_device(&mut self, fd: RawFd, command: &SlotCommand) {
        match self {
            Kernel::Uring(ring) => ring.block_device(fd, command),
            Kernel::Threads(_) => unreachable!("a volume is not served as a block device without io_uring"),
        }
    }

    /// Submits the queued calls.
    pub(crate) fn submit(&mut self) {
        if let Kernel::Uring(ring) = self {
            ring.submit();
        }
    }

    /// Submits the queued calls and gathers answers.
    #[inline]
    pub(crate) fn turn(&mut self, wait: Wait, events: &mut Vec<Event>) -> io::Result<()> {
        match self {
            Kernel::Uring(ring) => ring.turn(wait, events),
            Kernel::Threads(threads) => threads.turn(wait, events),
        }
    }

    /// How often the kernel was entered to submit calls or to gather answers.
    pub(crate) fn calls(&self) -> Option<u64> {
        match self {
            Kernel::Uring(ring) => Some(ring.calls()),
            Kernel::Threads(_) => None,
        }
    }

    /// The name of the method, for the log and the status.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Kernel::Uring(_) => "io_uring",
            Kernel::Threads(_) => "threads",
        }
    }
}

//! Threads that have the queues of the block device: each gives commands for its queues to the kernel and takes requests from it, so that the
//! kernel copies their data on that thread. What a request asks for, and its answer, is decided on the volume's thread as
//! without them: the rings between carry no more than the commands and events that would pass between the loop and its own kernel ring.
//!
//! A slot has one command or one event under way, so rings with a place for each slot are never full.

use std::{
    io,
    os::fd::RawFd,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    thread,
};

use rtrb::{Consumer, Producer, RingBuffer};

use super::sleep::Sleep;
use crate::kernel::{Event, Kernel, SlotCommand, Wait, Waker};

/// What a thread is to do.
const GO_ON: u8 = 0;
const END: u8 = 1;
/// End while commands wait for requests.
const END_WITH_COMMANDS: u8 = 2;

/// An event of a slot.
#[derive(Clone, Copy, Debug)]
struct Came {
    slot: u32,
    result: i32,
}

/// A thread with some of the queues.
#[derive(Debug)]
struct Remote {
    commands: Producer<SlotCommand>,
    came: Consumer<Came>,
    sleep: Sleep,
    waker: Waker,
    end: Arc<AtomicU8>,
    /// Whether commands have been put into its ring since it was woken.
    told: bool,
    thread: Option<thread::JoinHandle<()>>,
}

/// The threads. Without any, the volume's thread has the queues.
#[derive(Debug, Default)]
pub(super) struct QueueThreads {
    remotes: Vec<Remote>,
    /// The slots of a queue; all commands of a queue come from one thread, as the kernel demands.
    depth: u32,
}

impl QueueThreads {
    /// Starts as many threads, each for the queues of a device with `slots` slots, `depth` a queue.
    pub(super) fn start(
        threads: usize,
        (slots, depth): (u32, u32),
        fd: RawFd,
        volume: &Sleep,
        failed: impl Fn(io::Error) + Clone + Send + 'static,
    ) -> io::Result<QueueThreads> {
        let threads = threads.min((slots / depth) as usize);
        let remotes = (0..threads).map(|number| {
            let waker = Waker::new()?;
            let sleep = Sleep::new(waker.clone());
            let ((commands, taken), (given, came)) = (RingBuffer::new(slots as usize), RingBuffer::new(slots as usize));
            let end = Arc::new(AtomicU8::new(GO_ON));
            let thread = Thread {
                commands: taken,
                came: given,
                fd,
                own: sleep.clone(),
                volume: volume.clone(),
                end: Arc::clone(&end),
            };
            let (own_waker, failed) = (waker.clone(), failed.clone());
            let name = format!("queues-{number}");
            let thread = thread::Builder::new().name(name).spawn(move || {
                let _unwinding = Unwinding(failed.clone());
                // The kernel accepts submissions to a ring from one thread only.
                let kernel = Kernel::new(Vec::new(), own_waker, slots, true);
                if let Err(error) = kernel.and_then(|kernel| thread.run(kernel)) {
                    failed(error);
                }
            })?;
            Ok(Remote { commands, came, sleep, waker, end, told: false, thread: Some(thread) })
        });
        Ok(QueueThreads { remotes: remotes.collect::<io::Result<_>>()?, depth })
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.remotes.is_empty()
    }

    /// Gives a command to the kernel, on the thread that has the slot's queue.
    #[inline]
    pub(super) fn give(&mut self, command: SlotCommand) {
        let count = self.remotes.len();
        let remote = &mut self.remotes[(command.slot / self.depth) as usize % count];
        remote.commands.push(command).expect("a slot has one command under way");
        remote.told = true;
    }

    /// Wakes the threads that have commands.
    #[inline]
    pub(super) fn wake(&mut self) {
        for remote in &mut self.remotes {
            if std::mem::take(&mut remote.told) {
                remote.sleep.wake();
            }
        }
    }

    pub(super) fn have_events(&self) -> bool {
        self.remotes.iter().any(|remote| !remote.came.is_empty())
    }

    /// Appends what has come.
    #[inline]
    pub(super) fn take(&mut self, events: &mut Vec<Event>) {
        for remote in &mut self.remotes {
            while let Ok(Came { slot, result }) = remote.came.pop() {
                events.push(Event::BlockDevice { slot, result });
            }
        }
    }

    /// Ends the threads. The kernel then has no commands for the queues any more. `keeps`: requests may still come
    /// ([`BlockDevice::keeps_commands`](super::BlockDevice::keeps_commands)).
    pub(super) fn end(&mut self, keeps: bool) {
        for remote in &mut self.remotes {
            remote.end.store(if keeps { END_WITH_COMMANDS } else { END }, Ordering::Release);
            remote.waker.wake();
        }
        for remote in &mut self.remotes {
            // A thread that panicked has already reported it.
            let _ = remote.thread.take().map(thread::JoinHandle::join);
        }
        self.remotes.clear();
    }
}

/// Reports a panic of its thread: the requests of its queues would wait for ever.
struct Unwinding<F: Fn(io::Error)>(F);

impl<F: Fn(io::Error)> Drop for Unwinding<F> {
    fn drop(&mut self) {
        if thread::panicking() {
            (self.0)(io::Error::other("a thread with queues of the block device has panicked"));
        }
    }
}

struct Thread {
    commands: Consumer<SlotCommand>,
    came: Producer<Came>,
    fd: RawFd,
    own: Sleep,
    volume: Sleep,
    end: Arc<AtomicU8>,
}

impl Thread {
    fn run(mut self, mut kernel: Kernel) -> io::Result<()> {
        let mut events = Vec::new();
        loop {
            while let Ok(command) = self.commands.pop() {
                kernel.block_device(self.fd, &command);
            }
            let commands = &self.commands;
            let wait = self.own.before(Wait::Forever, || !commands.is_empty());
            kernel.turn(wait, &mut events)?;
            self.own.after();
            let mut any = false;
            for event in events.drain(..) {
                if let Event::BlockDevice { slot, result } = event {
                    self.came.push(Came { slot, result }).expect("a slot has one event under way");
                    any = true;
                }
            }
            if any {
                self.volume.wake();
            }
            match self.end.load(Ordering::Acquire) {
                GO_ON => {}
                // Commands that wait are cancelled when this thread has ended, by itself.
                END_WITH_COMMANDS => {
                    kernel.keep();
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
    }
}

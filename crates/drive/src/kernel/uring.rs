//! io_uring: one ring for devices and sockets, so that one system call submits commands and gathers answers.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    sync::Arc,
};

use io_uring::{IoUring, opcode, squeue, types};

use super::{Event, Files, Haste, Message, SlotCommand, Wait, Waker};
use crate::{
    arena::Memory,
    disks::{Ask, Raw},
};

/// `IORING_ENTER_GETEVENTS`: lets the kernel run the completion work that it has deferred.
const GET_EVENTS: u32 = 1;
/// The longest submission queue; more commands take several calls.
const MOST_ENTRIES: u32 = 1024;

/// The longest message whose end need not be heard of: its memory stays in use until the loop turns again.
const MOST_UNHEARD: usize = 64 << 10;

// The kind of call, in the upper half of its user data.
const DEVICE: u64 = 0;
const ACCEPT: u64 = 1 << 32;
const RECEIVE: u64 = 2 << 32;
const SEND: u64 = 3 << 32;
const WAKE: u64 = 4 << 32;
const BLOCK_DEVICE: u64 = 5 << 32;

pub(crate) struct Uring {
    ring: IoUring,
    files: Files,
    /// Whether files are registered, so that commands name them by index.
    registered_files: bool,
    /// The registered memory by index: start and end.
    registered: Vec<(usize, usize)>,
    waker: Waker,
    waker_armed: bool,
    /// Sends whose success the kernel does not report: the connection and the bytes. They are over once they are submitted.
    unheard: Vec<(u32, i32)>,
    /// Whether the kernel can leave successes out.
    can_skip: bool,
    /// Whether the kernel says in shared memory that there is work which it does only when it is entered.
    flags_work: bool,
    calls: u64,
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring").field("registered", &self.registered).finish_non_exhaustive()
    }
}

impl Uring {
    pub(super) fn new(files: &Files, waker: Waker, depth: u32) -> io::Result<Uring> {
        let entries = depth.clamp(64, MOST_ENTRIES).next_power_of_two();
        let modern = || {
            let mut builder = IoUring::builder();
            builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
            builder.setup_cqsize(entries * 4).build(entries)
        };
        // Kernels before 6.1 reject these flags.
        let (ring, is_modern) = match modern() {
            Ok(ring) => (ring, true),
            Err(_) => (IoUring::builder().setup_cqsize(entries * 4).build(entries)?, false),
        };
        let fds: Vec<RawFd> = files.iter().map(|file| file.as_ref().map_or(-1, |file| file.as_raw_fd())).collect();
        let registered_files = match ring.submitter().register_files(&fds) {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(%error, "files are not registered with io_uring");
                false
            }
        };
        let files = files.clone();
        // Kernels before 5.19 would keep silent about a send that took a part.
        let can_skip = is_modern && ring.params().is_feature_skip_cqe_on_success();
        Ok(Uring {
            ring,
            files,
            registered_files,
            registered: Vec::new(),
            waker,
            waker_armed: false,
            unheard: Vec::new(),
            can_skip,
            flags_work: is_modern,
            calls: 0,
        })
    }

    pub(super) fn set_file(&mut self, index: usize, file: Option<Arc<OwnedFd>>) -> io::Result<()> {
        // What is queued is for the file that is there now.
        self.submit();
        if self.registered_files {
            let fd = file.as_ref().map_or(-1, |file| file.as_raw_fd());
            self.ring.submitter().register_files_update(index as u32, &[fd])?;
        }
        self.files[index] = file;
        Ok(())
    }

    pub(super) fn register(&mut self, memory: &[(Memory, usize)]) {
        let wanted: Vec<_> = memory.iter().map(|(at, len)| (at.address(), at.address() + len)).collect();
        if self.registered == wanted {
            return;
        }
        if !self.registered.is_empty() {
            // Commands in flight keep their buffers.
            let _ = self.ring.submitter().unregister_buffers();
            self.registered.clear();
        }
        let buffers: Vec<libc::iovec> = memory
            .iter()
            .map(|(memory, len)| libc::iovec { iov_base: memory.as_ptr().cast(), iov_len: *len })
            .collect();
        // SAFETY: the arenas live as long as the ring's owner keeps them, which is longer than the ring.
        match unsafe { self.ring.submitter().register_buffers(&buffers) } {
            Ok(()) => self.registered = wanted,
            Err(error) => tracing::info!(
                %error,
                "buffers are not registered with io_uring: a few percent slower; raise RLIMIT_MEMLOCK (ulimit -l)"
            ),
        }
    }

    /// Queues an entry; if the queue is full, submits it first.
    #[inline]
    fn push(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: what the entry points to stays valid until it is answered; see `Kernel`.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return;
            }
            self.calls += 1;
            if let Err(error) = self.ring.submit() {
                // The completion queue is full; the kernel takes more entries after it is emptied. The entries stay
                // queued, and GETEVENTS makes room.
                tracing::trace!(%error, "io_uring is busy");
                self.enter(0, GET_EVENTS);
            }
        }
    }

    fn enter(&mut self, wait_for: u32, flags: u32) {
        let queued = self.ring.submission().len() as u32;
        self.calls += 1;
        // SAFETY: no argument is given.
        let result = unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, wait_for, flags, None) };
        if let Err(error) = result {
            tracing::trace!(%error, "io_uring_enter");
        }
    }

    #[inline]
    pub(super) fn device(&mut self, raw: &Raw) {
        let index = raw.device.index();
        let data = DEVICE | u64::from(raw.slot);
        if self.registered_files {
            let entry = self.entry(raw, types::Fixed(index as u32)).user_data(data);
            self.push(&entry);
        } else {
            let file = self.files[index].as_ref().expect("an absent device is asked for nothing");
            let entry = self.entry(raw, types::Fd(file.as_raw_fd())).user_data(data);
            self.push(&entry);
        }
    }

    #[inline]
    fn entry<F: sealed::File>(&self, raw: &Raw, file: F) -> squeue::Entry {
        let (start, len) = (raw.memory.address(), raw.len as u32);
        let fixed = || {
            let found = self.registered.iter().position(|(from, to)| *from <= start && start + raw.len as usize <= *to);
            found.map(|index| index as u16)
        };
        let memory = raw.memory.as_ptr();
        match raw.ask {
            Ask::Read | Ask::Write => {
                assert!(raw.len as usize <= raw.memory.len(), "{raw:?} is longer than its memory")
            }
            Ask::Sync | Ask::Punch | Ask::ZeroRange => {}
        }
        match raw.ask {
            Ask::Read => match fixed() {
                Some(index) => file.read_fixed(memory, len, index, raw.at),
                None => file.read(memory, len, raw.at),
            },
            Ask::Write => match fixed() {
                Some(index) => file.write_fixed(memory, len, index, raw.at),
                None => file.write(memory, len, raw.at),
            },
            Ask::Sync => file.sync(),
            Ask::Punch => file.allocate(raw, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE),
            Ask::ZeroRange => file.allocate(raw, libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE),
        }
    }

    pub(super) fn accept(&mut self, listener: u32, fd: RawFd) {
        let entry = opcode::Accept::new(types::Fd(fd), std::ptr::null_mut(), std::ptr::null_mut())
            .flags(libc::SOCK_CLOEXEC)
            .build()
            .user_data(ACCEPT | u64::from(listener));
        self.push(&entry);
    }

    #[inline]
    pub(super) fn receive(&mut self, connection: u32, fd: RawFd, message: &mut Message) {
        let entry = opcode::RecvMsg::new(types::Fd(fd), message.header()).build();
        self.push(&entry.user_data(RECEIVE | u64::from(connection)));
    }

    #[inline]
    pub(super) fn send(&mut self, connection: u32, fd: RawFd, message: &mut Message, haste: Haste) {
        let bytes = message.bytes();
        // Without MSG_WAITALL, so that a slow client's partial progress is seen.
        let mut flags = libc::MSG_NOSIGNAL;
        let mut entry_flags = squeue::Flags::empty();
        if haste == Haste::Unheard && self.can_skip && bytes <= MOST_UNHEARD {
            // The kernel sends all of it when it takes the entry, or reports a failure and how much it has sent.
            flags |= libc::MSG_DONTWAIT | libc::MSG_WAITALL;
            entry_flags = squeue::Flags::SKIP_SUCCESS;
            self.unheard.push((connection, bytes as i32));
        }
        let entry = opcode::SendMsg::new(types::Fd(fd), message.header()).flags(flags as u32).build();
        self.push(&entry.flags(entry_flags).user_data(SEND | u64::from(connection)));
    }

    #[inline]
    pub(super) fn block_device(&mut self, fd: RawFd, command: &SlotCommand) {
        let SlotCommand { slot, operation, bytes } = *command;
        let entry = opcode::UringCmd16::new(types::Fd(fd), operation).cmd(bytes).build();
        self.push(&entry.user_data(BLOCK_DEVICE | u64::from(slot)));
    }

    pub(super) fn submit(&mut self) {
        self.enter(0, 0);
    }

    /// Lets go of the files, and keeps the ring until the process ends.
    pub(super) fn keep(mut self) {
        self.release_files();
        self.files = Vec::new();
        std::mem::forget(self);
    }

    fn release_files(&mut self) {
        // The kernel releases a ring only some time after its process has ended, and would keep the devices busy until
        // then.
        if std::mem::take(&mut self.registered_files) {
            let _ = self.ring.submitter().unregister_files();
        }
    }

    #[inline]
    pub(super) fn turn(&mut self, wait: Wait, events: &mut Vec<Event>) -> io::Result<()> {
        if !self.waker_armed {
            self.waker_armed = true;
            let entry = opcode::PollAdd::new(types::Fd(self.waker.fd()), libc::POLLIN as u32).build();
            self.push(&entry.user_data(WAKE));
        }
        let wait = if self.ring.completion().is_empty() { wait } else { Wait::No };
        let result = match wait {
            Wait::No if self.flags_work && self.has_nothing_to_do() => Ok(0),
            Wait::No => {
                self.calls += 1;
                let queued = self.ring.submission().len() as u32;
                // SAFETY: no argument is given.
                unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, GET_EVENTS, None) }
            }
            Wait::For(time) => {
                self.calls += 1;
                let time = types::Timespec::from(time);
                self.ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            }
            Wait::Forever => {
                self.calls += 1;
                self.ring.submit_and_wait(1)
            }
        };
        match result {
            Ok(_) => {}
            // The time is over, a signal arrived, or there is no room until the answers are gathered.
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {}
            Err(error) => return Err(error),
        }
        // Only then has the kernel reported every failure of a send.
        let is_taken = {
            let submission = self.ring.submission();
            submission.is_empty() && !submission.cq_overflow()
        };
        for answer in self.ring.completion() {
            let (data, result) = (answer.user_data(), answer.result());
            let name = data as u32;
            events.push(match data & !0xffff_ffff {
                DEVICE => Event::Device { slot: name, result },
                ACCEPT => Event::Accepted { listener: name, result },
                RECEIVE => Event::Received { connection: name, result },
                SEND => {
                    self.unheard.retain(|(connection, _)| *connection != name);
                    Event::Sent { connection: name, result }
                }
                BLOCK_DEVICE => Event::BlockDevice { slot: name, result },
                _ => {
                    self.waker_armed = false;
                    self.waker.clear();
                    Event::Woken
                }
            });
        }
        if is_taken {
            events.extend(self.unheard.drain(..).map(|(connection, result)| Event::Sent { connection, result }));
        }
        Ok(())
    }

    /// Whether entering the kernel would neither submit nor bring anything.
    fn has_nothing_to_do(&mut self) -> bool {
        let submission = self.ring.submission();
        submission.is_empty() && !submission.taskrun() && !submission.cq_overflow()
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.release_files();
    }
}

/// The same commands for registered and for plain files.
mod sealed {
    use io_uring::{opcode, squeue::Entry, types};

    use super::Raw;

    pub(super) trait File {
        fn read(self, memory: *mut u8, len: u32, at: u64) -> Entry;
        fn read_fixed(self, memory: *mut u8, len: u32, index: u16, at: u64) -> Entry;
        fn write(self, memory: *mut u8, len: u32, at: u64) -> Entry;
        fn write_fixed(self, memory: *mut u8, len: u32, index: u16, at: u64) -> Entry;
        fn sync(self) -> Entry;
        fn allocate(self, raw: &Raw, mode: i32) -> Entry;
    }

    macro_rules! file {
        ($type:ty) => {
            impl File for $type {
                #[inline]
                fn read(self, memory: *mut u8, len: u32, at: u64) -> Entry {
                    opcode::Read::new(self, memory, len).offset(at).build()
                }
                #[inline]
                fn read_fixed(self, memory: *mut u8, len: u32, index: u16, at: u64) -> Entry {
                    opcode::ReadFixed::new(self, memory, len, index).offset(at).build()
                }
                #[inline]
                fn write(self, memory: *mut u8, len: u32, at: u64) -> Entry {
                    opcode::Write::new(self, memory, len).offset(at).build()
                }
                #[inline]
                fn write_fixed(self, memory: *mut u8, len: u32, index: u16, at: u64) -> Entry {
                    opcode::WriteFixed::new(self, memory, len, index).offset(at).build()
                }
                fn sync(self) -> Entry {
                    opcode::Fsync::new(self).flags(types::FsyncFlags::DATASYNC).build()
                }
                fn allocate(self, raw: &Raw, mode: i32) -> Entry {
                    opcode::Fallocate::new(self, raw.len).offset(raw.at).mode(mode).build()
                }
            }
        };
    }
    file!(types::Fixed);
    file!(types::Fd);
}

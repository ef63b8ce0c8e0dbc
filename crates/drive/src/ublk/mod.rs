//! The volume as a block device of this machine, by the kernel's driver `ublk_drv`: `/dev/ublkbN`.
//!
//! The kernel hands a request over by ending an `io_uring` command that waited for it, and is answered by the next command, which
//! waits again. All queues of a device are served by the thread that owns the volume, on its one ring (`server/block_device.rs`).
//! Nothing in this folder but `control`, `queues` and `find` speaks with the kernel; what a request asks for, and which requests
//! are where, is decided without I/O (`request`, `slots`).
//!
//! The kernel copies data between the pages of a request and the slot's own memory here. So a request never waits for memory, of
//! which other programs' need could deprive it.

use std::{io, os::fd::OwnedFd, process::Child, time::Duration};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

mod attach;
mod control;
mod error;
mod find;
mod locked_memory;
mod names;
mod queues;
mod request;
mod slots;
mod supervision;
mod wire;

pub use self::{
    attach::UblkSettings,
    error::UblkError,
    find::{BlockDevice, block_device, block_devices, remove_block_device},
    supervision::{Patience, Supervision, Task},
};
pub(crate) use self::{
    attach::{Attached, Prepared, Wanted},
    control::Control,
    locked_memory::state as locked_memory,
    names::NameFile,
    queues::Queues,
    request::{Kind, Request},
    slots::{Arrived, Replied, Slots},
    wire::{COMMIT_AND_FETCH_REQ, FETCH_REQ},
};

/// How long the kernel may take to notice that a server has ended, and to make or free the files of a device. It notices at the
/// latest when a request has waited for 30 s, and looks only now and then.
const PATIENCE: Duration = Duration::from_secs(90);

/// What a supervisor asks a server for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// To end in good order. A block device without users is removed.
    End,
    /// To end in good order, and to leave the block device for the next server.
    HandOver,
    /// It is killed.
    Kill,
}

/// A server that this program has started. What is asked of it reaches no other process, should it have ended and its number be
/// another one's.
#[derive(Debug)]
pub struct ServerProcess {
    pid: u32,
    descriptor: OwnedFd,
}

impl ServerProcess {
    /// Takes the number of a child that was not waited for yet.
    ///
    /// # Errors
    /// There is no such process, or no descriptor is left.
    pub fn of(child: &Child) -> io::Result<ServerProcess> {
        let pid = rustix::process::Pid::from_child(child);
        let descriptor = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        Ok(ServerProcess { pid: child.id(), descriptor })
    }

    /// Takes the number of a server that another program has started; `None` if there is no such process.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn running(pid: i32) -> io::Result<Option<ServerProcess>> {
        let Some(number) = rustix::process::Pid::from_raw(pid) else { return Ok(None) };
        match rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty()) {
            Ok(descriptor) => Ok(Some(ServerProcess { pid: pid.unsigned_abs(), descriptor })),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether it ends within a time.
    pub fn ends_within(&self, time: Duration) -> bool {
        let mut descriptors = [PollFd::new(&self.descriptor, PollFlags::IN)];
        let within = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        poll(&mut descriptors, Some(&within)).is_ok_and(|count| count > 0)
    }

    /// Its number, for messages.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends it a signal. Nothing happens if it has ended.
    pub fn ask(&self, ask: Ask) {
        let signal = match ask {
            Ask::End => rustix::process::Signal::TERM,
            Ask::HandOver => rustix::process::Signal::USR2,
            Ask::Kill => rustix::process::Signal::KILL,
        };
        if let Err(error) = rustix::process::pidfd_send_signal(&self.descriptor, signal) {
            tracing::debug!(%error, "the server has ended");
        }
    }
}

/// Prepares this process for serving a block device: looks whether the kernel can do it, and locks the memory. To be called before
/// there are other threads.
///
/// # Errors
/// The kernel has no ublk, or this process may not use it or lock its memory.
pub fn prepare_process() -> Result<(), UblkError> {
    Control::open()?;
    locked_memory::lock_memory()
}

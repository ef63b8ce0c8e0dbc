//! The state of the volume as a block device of this machine.

use std::{sync::mpsc, thread::JoinHandle};

use peryton_units::{Bytes, Nanos};
use serde_json::{Value, json};

use super::flush_errors::Heard;
use crate::ublk::{Control, NameFile, Queues, Slots, UblkError};

/// The state of the block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The kernel is making it, or giving it to this server.
    Starting,
    Live,
    /// The server is to end, and the other thread removes the device if no program uses it.
    Removing,
    /// It is removed.
    Removed,
    /// It stays, and the next server takes it over.
    Left,
    /// It could not be started.
    Failed,
}

/// A server is to end that has a block device.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedToEnd {
    pub(super) since: Nanos,
    /// Whether it was asked a second time.
    pub(super) again: bool,
    /// Whether it was reported that a program uses the device.
    pub(super) told: bool,
}

/// The block device of the volume.
#[derive(Debug)]
pub(crate) struct BlockDevice {
    pub(super) queues: Queues,
    pub(super) slots: Slots,
    pub(super) id: u32,
    /// The logical block and the longest request in bytes.
    pub(super) block: u32,
    pub(super) longest: u32,
    /// The size that the kernel knows, and whether that can change.
    pub(super) size: Bytes,
    pub(super) can_grow: bool,
    pub(super) recovered: bool,
    pub(super) phase: Phase,
    /// The server was asked to end while the device was live.
    pub(super) asked: Option<AskedToEnd>,
    /// Whether the server is to stop as soon as the device has started.
    pub(super) stop_wanted: bool,
    /// Whether the device stays when the server stops, also if no program uses it.
    pub(super) stays: bool,
    pub(super) error: Option<UblkError>,
    /// The failed flushes that the kernel has heard of.
    pub(super) heard: Heard,
    /// Whether the kernel knows this thread as one that writeback depends on (`PR_SET_IO_FLUSHER`), and the memory locked at the start.
    pub(super) memory: (bool, u64),
    pub(super) name: NameFile,
    pub(super) jobs: mpsc::Sender<Job>,
    pub(super) thread: JoinHandle<Control>,
}

/// Called with the path of the block device when it can be used.
pub(crate) struct Announce(pub(crate) Box<dyn FnOnce(&str) + Send>);

impl std::fmt::Debug for Announce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Announce")
    }
}

/// What the thread is to do.
pub(super) enum Job {
    /// Let requests come to a new device, or to one that was taken over.
    Start { device: u32, recovered: bool, name: NameFile, announce: Option<Announce> },
    /// Remove the device if no program uses it.
    Remove { device: u32 },
    /// Tell the kernel that it has grown.
    Grow { device: u32, size: Bytes },
}

/// The result of removing the device.
#[derive(Debug)]
pub(super) enum Removal {
    /// It has gone.
    Removed,
    /// It stays.
    Left { why: String },
}

impl BlockDevice {
    pub(super) fn path(&self) -> String {
        format!("/dev/ublkb{}", self.id)
    }

    /// What the volume has more of whole blocks than the device; `None` if it has not.
    pub(super) fn lacks(&self, volume: Bytes) -> Option<Bytes> {
        let block = u64::from(self.block);
        Some(Bytes(volume.0 / block * block)).filter(|size| *size > self.size)
    }

    /// Whether all accepted requests are answered, or no program waits for the answers.
    pub(super) fn is_idle(&self) -> bool {
        self.slots.serving() == 0
    }

    pub(super) fn is_live(&self) -> bool {
        self.phase == Phase::Live
    }

    /// Lets the other thread remove it if no program uses it. `false`: that thread has panicked, and the device stays.
    pub(super) fn remove(&mut self) -> bool {
        self.phase = Phase::Removing;
        let is_being_removed = self.jobs.send(Job::Remove { device: self.id }).is_ok();
        if !is_being_removed {
            self.phase = Phase::Left;
            self.slots.leave();
        }
        is_being_removed
    }

    /// Whether commands wait for requests, which come as long as the device is there.
    ///
    /// They must wait until the process ends. If their ring were closed earlier, the kernel would cancel them from another thread
    /// while requests still come, and can lose a request. Such a request is neither handed over nor given back. Linux (seen with 6.12)
    /// then waits for it without end, and lets no other server take the device over. At the end of the process the kernel cancels
    /// the commands on the thread to which it hands requests over, so nothing is lost between the two.
    pub(super) fn keeps_commands(&self) -> bool {
        match self.phase {
            Phase::Starting | Phase::Removed | Phase::Failed => false,
            Phase::Live | Phase::Removing | Phase::Left => true,
        }
    }

    pub(super) fn serving(&self) -> u32 {
        self.slots.serving()
    }

    pub(super) fn status(&self) -> Value {
        let (flusher, locked) = self.memory;
        json!({
            "path": self.path(),
            "name": self.name.name,
            "state": match self.phase {
                Phase::Starting => "starting",
                Phase::Live => "live",
                Phase::Removing => "removing",
                Phase::Removed => "removed",
                Phase::Left => "left",
                Phase::Failed => "failed",
            },
            "taken_over": self.recovered,
            "requests_in_flight": self.slots.serving(),
            "requests_left": self.slots.left(),
            "slots": self.slots.count(),
            "logical_block_bytes": self.block,
            "longest_request_bytes": self.longest,
            "io_flusher": flusher,
            "memory_locked_bytes": locked,
        })
    }

    /// Ends the other thread; the kernel must have released the ring, or keep it. Removes the device if it is not to stay.
    pub(crate) fn end(self) -> Option<UblkError> {
        let (path, keeps) = (self.path(), self.keeps_commands());
        let BlockDevice { queues, jobs, thread, phase, id, error, recovered, name, .. } = self;
        if keeps {
            // The kernel writes the data of requests that come there.
            std::mem::forget(queues);
        } else {
            drop(queues);
        }
        drop(jobs);
        let Ok(mut control) = thread.join() else { return error };
        let remove = phase == Phase::Removed || (phase == Phase::Failed && !recovered);
        if remove {
            if let Err(error) = control.delete(id) {
                tracing::warn!(%error, "{path} cannot be removed");
            }
            name.forget(id);
        }
        error
    }
}

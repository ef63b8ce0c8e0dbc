//! A device as `peryton calibrate` measures it: commands past the page cache, many in flight, each with the time that it took.
//!
//! It is opened for reading only unless it may be overwritten, so that a measurement of reads cannot harm it, whatever it asks for.

use std::{
    fs, io,
    mem::ManuallyDrop,
    os::{
        fd::OwnedFd,
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use peryton_engine::DeviceId;
use peryton_units::{Bytes, Nanos, Op};
use rustix::{
    fs::{FlockOperation, Mode, OFlags, SeekFrom},
    io::Errno,
};
use thiserror::Error;

use crate::{
    arena::Arena,
    block::{DeviceAbout, Linux},
    disks::{Ask, Raw},
    kernel::{Event, Files, Kernel, Wait, Waker},
    open,
};

/// The share of the free space that a scratch file leaves, as one part in this many.
const LEFT_FREE: u64 = 20;

/// Why a device cannot be measured. One line: which device, what is wrong, what to do.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// It cannot be measured, or not in this way.
    #[error("{}: {what}", path.display())]
    Refused {
        /// The device.
        path: PathBuf,
        /// What is wrong and what to do.
        what: String,
    },
    /// A system call failed.
    #[error("{}: {source}{remedy}", path.display())]
    System {
        /// The device.
        path: PathBuf,
        /// What it says.
        source: io::Error,
        /// What to do about it.
        remedy: &'static str,
    },
}

/// What may be done to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is only read.
    Read,
    /// Its content is overwritten.
    Overwrite,
    /// A new file of this size is made, used and removed.
    Scratch(Bytes),
}

/// A device that is open to be measured.
#[derive(Debug)]
pub struct DirectDevice {
    kernel: Kernel,
    arena: ManuallyDrop<Arena>,
    /// Bytes of memory of each slot.
    room: usize,
    /// Commands in flight: what those of each slot move, which is nothing for a flush.
    lengths: Vec<Option<u64>>,
    events: Vec<Event>,
    began: Instant,
    path: PathBuf,
    /// What was opened: bytes, alignment, whether the page cache is bypassed.
    pub size: Bytes,
    /// Offsets and lengths have to be multiples of this.
    pub block: Bytes,
    /// Whether the page cache is bypassed.
    pub is_direct: bool,
}

impl DirectDevice {
    /// Opens a device for this many commands in flight of at most `room` bytes.
    ///
    /// # Errors
    /// It is not there, is in use where it would be overwritten, is no device or file, or the system refuses.
    pub fn open(path: &Path, access: Access, slots: u32, room: Bytes) -> Result<DirectDevice, MeasureError> {
        let failed = |source: io::Error, remedy| MeasureError::System { path: path.to_owned(), source, remedy };
        let refused = |what: String| MeasureError::Refused { path: path.to_owned(), what };
        let (file, is_direct, is_block) = match access {
            Access::Scratch(size) => {
                let (file, is_direct) = scratch(path, size)?;
                (file, is_direct, false)
            }
            Access::Read | Access::Overwrite => {
                let about = fs::metadata(path).map_err(|error| failed(error, ""))?;
                let kind = about.file_type();
                if !kind.is_block_device() && !kind.is_file() {
                    return Err(refused("it is neither a block device nor a file: nothing can be measured".to_owned()));
                }
                let mut flags = OFlags::CLOEXEC;
                if access == Access::Overwrite {
                    if let Some(by) = Linux::default().in_use(path) {
                        return Err(refused(format!("it is not overwritten, because it {by}")));
                    }
                    flags |= OFlags::RDWR | if kind.is_block_device() { OFlags::EXCL } else { OFlags::empty() };
                }
                let (file, is_direct) = open_direct(path, flags).map_err(|error| match error {
                    Errno::BUSY => refused("it is in use: what uses it has to give it up first".to_owned()),
                    Errno::ACCESS | Errno::PERM => {
                        failed(error.into(), ": measuring a device needs its permission; as root it has that")
                    }
                    _ => failed(error.into(), ""),
                })?;
                if access == Access::Overwrite {
                    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
                        .map_err(|_| refused("it is in use by another peryton".to_owned()))?;
                }
                (file, is_direct, kind.is_block_device())
            }
        };
        let size = rustix::fs::seek(&file, SeekFrom::End(0)).map_err(|error| failed(error.into(), ""))?;
        let block = open::ability(&file, is_direct, is_block).block.max(512);
        if size < block {
            return Err(refused(format!("it has {size} bytes: there is nothing to measure")));
        }
        let room = room.0.max(block).next_multiple_of(4096) as usize;
        let arena = Arena::new(room * slots as usize).map_err(|error| failed(error, ": not enough memory"))?;
        fill(&arena);
        let files: Files = vec![Some(Arc::new(file))];
        let waker = Waker::new().map_err(|error| failed(error, ""))?;
        let kernel = Kernel::new(files, waker, slots, true).map_err(|error| failed(error, ""))?;
        Ok(DirectDevice {
            kernel,
            arena: ManuallyDrop::new(arena),
            room,
            lengths: vec![None; slots as usize],
            events: Vec::new(),
            began: Instant::now(),
            path: path.to_owned(),
            size: Bytes(size),
            block: Bytes(block),
            is_direct,
        })
    }

    /// The method by which commands reach the kernel.
    pub fn method(&self) -> &'static str {
        self.kernel.name()
    }

    /// The time since it was opened, by the system's monotonic clock.
    pub fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos() as u64)
    }

    /// Begins a command in a slot that has none.
    ///
    /// # Panics
    /// For a slot or a length that it was not opened for, and a slot that has a command.
    pub fn begin(&mut self, slot: u32, op: Op, at: Bytes, len: Bytes) {
        let index = slot as usize;
        assert!(len.0 as usize <= self.room && self.lengths[index].is_none(), "slot {slot} with {len}");
        self.lengths[index] = Some(len.0);
        let memory = self.arena.at(index * self.room).first(self.room);
        let ask = match op {
            Op::Write => Ask::Write,
            Op::Flush => Ask::Sync,
            Op::Read | Op::Discard => Ask::Read,
        };
        self.kernel.device(&Raw { slot, device: DeviceId(0), ask, at: at.0, len: len.0, memory });
    }

    /// Waits until a command is done, and adds the slots of those that are, with the time.
    ///
    /// # Errors
    /// A command failed or moved less than it was to.
    pub fn wait(&mut self, done: &mut Vec<(u32, Nanos)>) -> Result<(), MeasureError> {
        let system = |source| MeasureError::System { path: self.path.clone(), source, remedy: "" };
        while self.events.is_empty() {
            self.kernel.turn(Wait::Forever, &mut self.events).map_err(system)?;
        }
        let now = Nanos(self.began.elapsed().as_nanos() as u64);
        for event in self.events.drain(..) {
            let Event::Device { slot, result } = event else { continue };
            let len = self.lengths[slot as usize].take().unwrap_or_default();
            if result < 0 {
                let source = io::Error::from_raw_os_error(-result);
                return Err(MeasureError::System {
                    path: self.path.clone(),
                    source,
                    remedy: ": the device failed a command",
                });
            }
            if result as u64 != len {
                let what = format!("a command of {len} bytes moved {result}: the device ended before it should");
                return Err(MeasureError::Refused { path: self.path.clone(), what });
            }
            done.push((slot, now));
        }
        Ok(())
    }

    /// Lets time pass.
    pub fn rest(&self, time: Nanos) {
        std::thread::sleep(Duration::from_nanos(time.0));
    }
}

impl Drop for DirectDevice {
    fn drop(&mut self) {
        // The kernel writes into the memory of reads that are in flight.
        while self.lengths.iter().any(Option::is_some) {
            if self.kernel.turn(Wait::Forever, &mut self.events).is_err() {
                return;
            }
            for event in self.events.drain(..) {
                if let Event::Device { slot, .. } = event {
                    self.lengths[slot as usize] = None;
                }
            }
        }
        // SAFETY: no command uses it any more, and nothing does after this.
        unsafe { ManuallyDrop::drop(&mut self.arena) };
    }
}

/// Opens past the page cache if the file system can do that.
fn open_direct(path: &Path, flags: OFlags) -> Result<(OwnedFd, bool), Errno> {
    let mode = Mode::from_raw_mode(0o600);
    match rustix::fs::open(path, flags | OFlags::DIRECT, mode) {
        Ok(file) => Ok((file, true)),
        Err(Errno::INVAL) => rustix::fs::open(path, flags, mode).map(|file| (file, false)),
        Err(error) => Err(error),
    }
}

/// A new file, which has no name any more, so that nothing is left of it however the program ends.
fn scratch(path: &Path, size: Bytes) -> Result<(OwnedFd, bool), MeasureError> {
    let failed = |source: io::Error, remedy| MeasureError::System { path: path.to_owned(), source, remedy };
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
    let opened = open_direct(path, flags);
    // A file system without O_DIRECT has made the file when it refuses.
    let opened = match opened {
        Err(Errno::EXIST) if fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() == 0) => {
            rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map(|file| (file, false))
        }
        other => other,
    };
    let (file, is_direct) = opened.map_err(|error| failed(error.into(), ": the scratch file cannot be made there"))?;
    fs::remove_file(path).map_err(|error| failed(error, ": the scratch file cannot be removed"))?;
    let free = rustix::fs::fstatvfs(&file).map_err(|error| failed(error.into(), ""))?;
    let free = free.f_bavail.saturating_mul(free.f_frsize);
    if size.0 > free - free / LEFT_FREE {
        let what = format!(
            "a scratch file of {size} does not fit into the {} that are free: give a smaller --scratch",
            Bytes(free >> 20 << 20)
        );
        return Err(MeasureError::Refused { path: path.to_owned(), what });
    }
    rustix::fs::ftruncate(&file, size.0).map_err(|error| failed(error.into(), ""))?;
    Ok((file, is_direct))
}

/// Fills memory with what no device can compress.
fn fill(arena: &Arena) {
    // SAFETY: no other code knows the arena.
    let bytes = unsafe { arena.at(0).slice_mut(arena.len()) };
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for word in bytes.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_ne_bytes());
    }
}

/// Asks Linux about a device, or about the device beneath a file or folder.
pub fn device_about(path: &Path) -> DeviceAbout {
    let Ok(about) = fs::metadata(path) else { return DeviceAbout::default() };
    let is_block_device = about.file_type().is_block_device();
    let found = Linux::default().described(if is_block_device { about.rdev() } else { about.dev() });
    DeviceAbout { is_block_device, ..found.unwrap_or_default() }
}

//! The queues of a block device: the descriptors of requests, which the kernel shows, and the memory for their data.

use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::{AsRawFd, RawFd},
    path::PathBuf,
    ptr::NonNull,
    thread,
    time::{Duration, Instant},
};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{
    PATIENCE,
    error::UblkError,
    wire::{Descriptor, DeviceInfo, IoCommand, MOST_DEPTH},
};
use crate::arena::{Arena, Memory, PAGE};

/// The interval of attempts meanwhile.
const LOOK: Duration = Duration::from_millis(10);

/// The descriptors of a queue.
#[derive(Debug)]
struct Descriptors {
    start: NonNull<u8>,
    bytes: usize,
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no pointer into it is left.
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(result.is_ok(), "a mapping of ours can be unmapped");
    }
}

/// The queues of a device. Slots are numbered through all of them.
#[derive(Debug)]
pub(crate) struct Queues {
    descriptors: Vec<Descriptors>,
    file: File,
    /// For each slot the data of its request.
    buffers: Arena,
    depth: u32,
    longest: usize,
}

// SAFETY: the mappings belong to this value alone, and no thread-local state refers to them.
unsafe impl Send for Queues {}

/// The distance of two queues' descriptors in the device's file, and the length of one's.
fn layout(depth: u16, page: usize) -> (usize, usize) {
    let bytes = |depth: u16| (usize::from(depth) * Descriptor::BYTES).next_multiple_of(page);
    (bytes(MOST_DEPTH), bytes(depth))
}

impl Queues {
    /// Allocates the memory for a device's requests. Nothing else can fail for lack of memory later.
    pub(crate) fn memory(info: &DeviceInfo) -> Result<Arena, UblkError> {
        let longest = (info.longest as usize).next_multiple_of(PAGE);
        Arena::new(info.slots() as usize * longest).map_err(UblkError::system("memory for the block device's requests"))
    }

    /// Opens the queues of a device that has no server.
    pub(crate) fn open(info: &DeviceInfo, buffers: Arena) -> Result<Queues, UblkError> {
        let path = PathBuf::from(format!("/dev/ublkc{}", info.id));
        let system = |source| UblkError::System { what: path.display().to_string(), source };
        let began = Instant::now();
        let file = loop {
            match OpenOptions::new().read(true).write(true).open(&path) {
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EBUSY))
                        && began.elapsed() < PATIENCE =>
                {
                    thread::sleep(LOOK);
                }
                other => break other.map_err(system)?,
            }
        };
        // SAFETY: the call only reads system configuration.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(PAGE as i64) as usize;
        let (distance, bytes) = layout(info.depth, page);
        let map = |queue: u16| -> io::Result<Descriptors> {
            // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
            let start = unsafe {
                let at = (usize::from(queue) * distance) as u64;
                let flags = MapFlags::SHARED | MapFlags::POPULATE;
                mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, flags, &file, at)
            }?;
            let start = NonNull::new(start.cast::<u8>()).expect("a mapping is never at address zero");
            Ok(Descriptors { start, bytes })
        };
        let descriptors = (0..info.queues).map(map).collect::<io::Result<_>>().map_err(system)?;
        let longest = (info.longest as usize).next_multiple_of(PAGE);
        Ok(Queues { descriptors, file, buffers, depth: info.depth.into(), longest })
    }

    pub(crate) fn count(&self) -> u32 {
        self.descriptors.len() as u32 * self.depth
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The memory for the data of the request in `slot`.
    #[inline]
    pub(crate) fn data(&self, slot: u32) -> Memory {
        self.buffers.at(slot as usize * self.longest).first(self.longest)
    }

    /// The request in `slot`, which the kernel has handed over.
    #[inline]
    pub(crate) fn descriptor(&self, slot: u32) -> Descriptor {
        let descriptors = &self.descriptors[(slot / self.depth) as usize];
        let at = (slot % self.depth) as usize * Descriptor::BYTES;
        assert!(at + Descriptor::BYTES <= descriptors.bytes, "a slot has a descriptor");
        // SAFETY: the bytes lie in the mapping. The kernel changes them only while it has the slot; should it change them now, each
        // value is still checked after it was read, once.
        let bytes = unsafe { descriptors.start.add(at).cast::<[u8; Descriptor::BYTES]>().read_volatile() };
        Descriptor::decode(&bytes)
    }

    /// The command for `slot` that answers with `result` and waits for the next request.
    #[inline]
    pub(crate) fn command(&self, slot: u32, result: i32) -> [u8; IoCommand::BYTES] {
        let (queue, tag) = ((slot / self.depth) as u16, (slot % self.depth) as u16);
        let address = self.data(slot).address() as u64;
        IoCommand { queue, tag, result, address }.encode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_lie_where_the_kernel_has_them() {
        assert_eq!(layout(64, 4096), (98_304, 4096));
        assert_eq!(layout(1024, 4096), (98_304, 24_576));
        assert_eq!(layout(64, 65_536), (131_072, 65_536));
    }
}

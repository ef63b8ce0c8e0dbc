//! The pages of a block device's requests. The kernel can let the server's ring read devices straight into them, so that no read is
//! copied: it then has each request's pages in the ring's table of buffers, at the number of the request's slot.
//!
//! The kernel copies what the processor itself writes (data of a move, zeros, parts of blocks), and what a device reads while the
//! pages are not in the table. The data of *writes* are always copied to the slot's own memory first. A write may go to two devices,
//! or its checksum may be recorded, and programs may change the pages meanwhile. Both devices and the checksum must have the same
//! data.

use std::{
    fs::File,
    io,
    mem::ManuallyDrop,
    os::{
        fd::{FromRawFd, RawFd},
        unix::fs::FileExt,
    },
};

use crate::arena::Memory;

/// Where the kernel has the data of a request, as an offset in the device's file: the base, and the bits of tag and queue.
const BASE: u64 = 0x8000_0000;
const TAG_SHIFT: u32 = 25;
const QUEUE_SHIFT: u32 = 41;

/// The pages of all requests of a device, found by the memory that each slot has of its own.
#[derive(Debug)]
pub(crate) struct RequestPages {
    /// The device's file, which belongs to its queues.
    file: ManuallyDrop<File>,
    /// The address of the first slot's memory, and the bytes of each.
    start: usize,
    each: usize,
    depth: u32,
    /// What addresses and lengths of the pages' parts are multiples of.
    alignment: u64,
    /// Whether the pages of the slot's request are in the ring's table.
    registered: Vec<bool>,
}

/// A place in the pages of a request: the number of its buffer, and a byte of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) buffer: u16,
    pub(crate) offset: u64,
}

impl RequestPages {
    /// `file` is open as long as there are requests. `memory` has `each` bytes for each of `slots` slots, in order, `depth` of them a queue. There are no more slots than a table of
    /// buffers has places.
    pub(crate) fn new(file: RawFd, memory: Memory, (slots, depth): (u32, u32), each: usize, alignment: u64) -> Self {
        assert!(
            slots <= u32::from(u16::MAX) && memory.len() >= slots as usize * each,
            "each slot has memory and a number"
        );
        // SAFETY: the file is only read and written while there are requests, and never closed here.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(file) });
        RequestPages { file, start: memory.address(), each, depth, alignment, registered: vec![false; slots as usize] }
    }

    /// Whether the request that has come in `slot` has its pages in the ring's table.
    #[inline]
    pub(crate) fn came(&mut self, slot: u32, registered: bool) {
        self.registered[slot as usize] = registered;
    }

    /// The slot that has this memory, and which of its bytes it begins with.
    #[inline]
    fn find(&self, memory: Memory) -> Option<(u32, u64)> {
        let at = memory.address().checked_sub(self.start)?;
        let slot = at / self.each;
        (slot < self.registered.len()).then(|| (slot as u32, (at % self.each) as u64))
    }

    /// Where a device of this alignment reads to in place of `memory`; `None` if it has to read there.
    #[inline]
    pub(crate) fn place(&self, memory: Memory, alignment: u64) -> Option<Place> {
        let (slot, offset) = self.find(memory)?;
        let fits = self.registered[slot as usize] && self.alignment.is_multiple_of(alignment);
        fits.then_some(Place { buffer: slot as u16, offset })
    }

    fn position(&self, slot: u32, offset: u64) -> u64 {
        let (queue, tag) = (slot / self.depth, slot % self.depth);
        BASE + (u64::from(queue) << QUEUE_SHIFT) + (u64::from(tag) << TAG_SHIFT) + offset
    }

    /// Copies the data of a write from its pages to the slot's memory, which is `memory`.
    ///
    /// # Errors
    /// The kernel refuses, or has less.
    pub(crate) fn fetch(&self, memory: Memory, len: usize) -> io::Result<()> {
        let (slot, offset) = self.find(memory).expect("the memory of a slot");
        // SAFETY: the request has just come, so nothing else uses the slot's memory.
        self.file.read_exact_at(unsafe { memory.slice_mut(len) }, self.position(slot, offset))
    }

    /// Copies what the slot's memory has of a read to the request's pages. Memory that is no slot's is left alone.
    ///
    /// # Panics
    /// If the kernel refuses. It does so only if the request is no longer there or is no read: a fault of this program, after which
    /// the answer would be wrong. The next server answers the request.
    pub(crate) fn store(&self, memory: Memory, len: usize) {
        let Some((slot, offset)) = self.find(memory) else { return };
        // SAFETY: the caller has just written it, and no device does.
        let done = self.file.write_all_at(unsafe { memory.slice(len) }, self.position(slot, offset));
        done.unwrap_or_else(|error| panic!("the kernel does not take the data of the read in slot {slot}: {error}"));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::arena::Arena;

    const EACH: usize = 8192;

    fn pages(file: RawFd, arena: &Arena) -> RequestPages {
        RequestPages::new(file, arena.at(0), (6, 2), EACH, 512)
    }

    #[test]
    fn memory_of_a_slot_is_found_and_other_memory_is_not() {
        let (arena, other) = (Arena::new(6 * EACH).unwrap(), Arena::new(EACH).unwrap());
        let file = tempfile::tempfile().unwrap();
        let mut pages = pages(file.as_raw_fd(), &arena);
        pages.came(3, true);
        assert_eq!(pages.place(arena.at(3 * EACH + 512), 512), Some(Place { buffer: 3, offset: 512 }));
        assert_eq!(
            pages.place(arena.at(3 * EACH), 4096),
            None,
            "the parts of its pages may be too short for such a device"
        );
        assert_eq!(pages.place(arena.at(2 * EACH), 512), None, "its pages are not in the table");
        assert_eq!(pages.place(other.at(0), 512), None);
        pages.came(3, false);
        assert_eq!(pages.place(arena.at(3 * EACH), 512), None);
        pages.store(other.at(0), EACH);
    }

    #[test]
    fn data_are_where_the_kernels_header_has_them() {
        let (arena, file) = (Arena::new(6 * EACH).unwrap(), tempfile::tempfile().unwrap());
        let pages = pages(file.as_raw_fd(), &arena);
        assert_eq!(pages.position(0, 0), 0x8000_0000);
        // The third slot is the first of the second queue.
        assert_eq!(pages.position(2, 0), 0x8000_0000 + (1 << 41));
        assert_eq!(pages.position(5, 77), 0x8000_0000 + (2 << 41) + (1 << 25) + 77);
    }

    #[test]
    fn a_part_of_a_request_is_copied_both_ways() {
        let arena = Arena::new(6 * EACH).unwrap();
        let file = tempfile::tempfile().unwrap();
        let pages = pages(file.as_raw_fd(), &arena);
        let memory = arena.at(5 * EACH + 512);
        // SAFETY: nothing else uses the arena.
        unsafe { memory.slice_mut(1024) }.fill(7);
        pages.store(memory, 1024);
        // SAFETY: as above.
        unsafe { memory.slice_mut(1024) }.fill(0);
        pages.fetch(memory, 1024).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { memory.slice(1024) }, [7; 1024]);
        assert!(pages.fetch(memory, 4096).is_err(), "there is less");
    }
}

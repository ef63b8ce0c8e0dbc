//! Memory that devices and sockets read from and write to: page-aligned, allocated once, never moved.

use std::{io, ptr::NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// What arenas are aligned to and measured in: a page, and the largest logical block that disks have.
pub(crate) const PAGE: usize = 4096;

/// A stretch of memory in zeros. Only pointers into it are given out, because the kernel reads and writes it while the
/// program runs; who uses which part when is the business of those who hold them.
#[derive(Debug)]
pub(crate) struct Arena {
    start: NonNull<u8>,
    len: usize,
}

impl Arena {
    /// `len` bytes, rounded up to pages. The kernel provides them when they are first touched.
    pub(crate) fn new(len: usize) -> io::Result<Arena> {
        let len = len.next_multiple_of(PAGE).max(PAGE);
        // SAFETY: a fresh private mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }?;
        let start = NonNull::new(start.cast::<u8>()).expect("a mapping is never at address zero");
        Ok(Arena { start, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where byte `offset` is.
    pub(crate) fn at(&self, offset: usize) -> Memory {
        assert!(offset <= self.len, "byte {offset} of an arena of {}", self.len);
        // SAFETY: within the mapping, or one past its end.
        Memory(unsafe { self.start.add(offset) })
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever holds pointers into it holds the arena too.
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "a mapping of ours can be unmapped");
    }
}

/// A place in an arena (or in another buffer that outlives its use): what a device or a socket reads or writes.
///
/// It carries no length and no lifetime. The rule that makes it sound: while an operation on a range of memory is under
/// way, nobody else writes that range, nor reads it if the operation does write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory(NonNull<u8>);

impl Memory {
    /// Operations without data.
    pub const NONE: Memory = Memory(NonNull::dangling());

    /// The start of a slice that outlives its use.
    pub fn of(slice: &mut [u8]) -> Memory {
        Memory(NonNull::from(slice).cast())
    }

    /// The start of a slice that outlives its use and is only read.
    pub(crate) fn of_const(slice: &[u8]) -> Memory {
        Memory(NonNull::from(slice).cast())
    }

    /// For the kernel.
    pub(crate) fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }

    pub(crate) fn address(self) -> usize {
        self.0.as_ptr() as usize
    }

    /// `bytes` further on, in the same buffer.
    pub(crate) fn add(self, bytes: usize) -> Memory {
        // SAFETY: the caller stays within the buffer that this points into; an address is all that is computed.
        Memory(unsafe { NonNull::new_unchecked(self.0.as_ptr().wrapping_add(bytes)) })
    }

    /// The bytes there.
    ///
    /// # Safety
    /// `len` bytes must be there, and nobody may write them while the slice lives.
    pub(crate) unsafe fn slice<'a>(self, len: usize) -> &'a [u8] {
        // SAFETY: as the caller promises.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), len) }
    }

    /// The bytes there, to be written.
    ///
    /// # Safety
    /// `len` bytes must be there, and nobody else may read or write them while the slice lives.
    pub(crate) unsafe fn slice_mut<'a>(self, len: usize) -> &'a mut [u8] {
        // SAFETY: as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), len) }
    }
}

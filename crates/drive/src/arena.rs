//! Memory that devices and sockets read from and write to: page-aligned, allocated once, never moved.

use std::{io, ptr::NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// The alignment and granularity of arenas, in bytes: a page, which is also the largest logical block of disks.
pub(crate) const PAGE: usize = 4096;

/// A zeroed mapping. The arena gives out [`Memory`] only, not slices, because the kernel reads and writes it while the
/// program runs; the owner of a part tracks its use.
#[derive(Debug)]
pub(crate) struct Arena {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: an arena only gives out names of its memory; every use of one follows the rule of [`Memory`], on any thread.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps `len` bytes, rounded up to pages. The kernel allocates pages when they are first touched.
    pub(crate) fn new(len: usize) -> io::Result<Arena> {
        let len = len.next_multiple_of(PAGE).max(PAGE);
        // SAFETY: a new private mapping at an address that the kernel chooses overlaps nothing.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }?;
        let start = NonNull::new(start.cast::<u8>()).expect("a mapping is never at address zero");
        Ok(Arena { start, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The memory from byte `offset` to the arena's end.
    pub(crate) fn at(&self, offset: usize) -> Memory {
        Memory { start: self.start, len: self.len }.add(offset)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the owners of pointers into it own the arena too.
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "a mapping of ours can be unmapped");
    }
}

/// A stretch of memory that a device or a socket reads or writes: a part of an arena, or of another buffer.
///
/// It carries its length, and every use of it is checked against that, in release builds too. It carries no lifetime,
/// because the kernel uses the memory while the program runs; for that reason the functions that make one from a slice
/// and those that read or write the bytes are `unsafe`. The rule that makes them sound: while an operation on the
/// memory is under way, nothing else writes it, nor reads it if the operation writes it.
///
/// ```
/// use peryton_drive::Memory;
///
/// let mut block = vec![7_u8; 4096];
/// // SAFETY: the block outlives its only use, the next line.
/// let memory = unsafe { Memory::of(&mut block) };
/// assert_eq!(memory.len(), 4096);
/// // SAFETY: nothing writes the block meanwhile.
/// assert_eq!(unsafe { memory.slice(2) }, [7, 7]);
/// ```
///
/// Safe code cannot make one that outlives its buffer:
///
/// ```compile_fail,E0133
/// let memory = peryton_drive::Memory::of(&mut vec![0; 4096]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is a name. The bytes are read and written by unsafe functions only, and their rule holds between threads as well.
unsafe impl Send for Memory {}

impl Memory {
    /// The memory of operations without data.
    pub const NONE: Memory = Memory { start: NonNull::dangling(), len: 0 };

    /// Names the memory of a slice.
    ///
    /// # Safety
    /// The slice must stay where it is until the last operation on this memory is complete. Until then nothing else may write
    /// it, and nothing may read it while an operation writes it.
    pub unsafe fn of(slice: &mut [u8]) -> Memory {
        Memory { len: slice.len(), start: NonNull::from(slice).cast() }
    }

    /// Names the memory of a slice that is only read.
    ///
    /// # Safety
    /// As [`Memory::of`], and no operation may write it.
    pub(crate) unsafe fn of_const(slice: &[u8]) -> Memory {
        Memory { len: slice.len(), start: NonNull::from(slice).cast() }
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether the length is zero.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The address, for system calls.
    pub(crate) fn as_ptr(self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn address(self) -> usize {
        self.start.as_ptr() as usize
    }

    /// The rest of the memory after the first `bytes`.
    ///
    /// # Panics
    /// If the memory is shorter than that.
    #[inline]
    #[must_use]
    pub(crate) fn add(self, bytes: usize) -> Memory {
        assert!(bytes <= self.len, "byte {bytes} of a memory of {}", self.len);
        // SAFETY: within the memory, or one past its end.
        Memory { start: unsafe { self.start.add(bytes) }, len: self.len - bytes }
    }

    /// The first `len` bytes of the memory.
    ///
    /// # Panics
    /// If the memory is shorter than that.
    #[inline]
    #[must_use]
    pub(crate) fn first(self, len: usize) -> Memory {
        assert!(len <= self.len, "{len} bytes of a memory of {}", self.len);
        Memory { len, ..self }
    }

    /// The first `len` bytes as a slice.
    ///
    /// # Safety
    /// The buffer must still be there, and nothing may write those bytes while the slice lives.
    ///
    /// # Panics
    /// If the memory is shorter than that.
    pub unsafe fn slice<'a>(self, len: usize) -> &'a [u8] {
        // SAFETY: `first` has checked the length; the rest is as the caller promises.
        unsafe { std::slice::from_raw_parts(self.first(len).as_ptr(), len) }
    }

    /// The first `len` bytes as a mutable slice.
    ///
    /// # Safety
    /// The buffer must still be there, and nothing else may read or write those bytes while the slice lives.
    ///
    /// # Panics
    /// If the memory is shorter than that.
    pub unsafe fn slice_mut<'a>(self, len: usize) -> &'a mut [u8] {
        // SAFETY: `first` has checked the length; the rest is as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.first(len).as_ptr(), len) }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_range_beyond_the_memory_is_refused() {
        let arena = Arena::new(2 * PAGE).unwrap();
        let page = arena.at(PAGE).first(PAGE);
        assert_eq!((page.len(), page.add(PAGE).len(), arena.at(2 * PAGE).len()), (PAGE, 0, 0));
        // SAFETY: nothing else uses the arena.
        unsafe { page.slice_mut(PAGE) }.fill(1);
        assert!(catch_unwind(|| arena.at(2 * PAGE + 1)).is_err());
        assert!(catch_unwind(|| page.add(PAGE + 1)).is_err());
        assert!(catch_unwind(|| page.first(PAGE + 1)).is_err());
        // SAFETY: nothing else uses the arena, and the slices are never made.
        unsafe {
            assert!(catch_unwind(|| page.slice(PAGE + 1)).is_err());
            assert!(catch_unwind(|| page.add(1).slice_mut(PAGE)).is_err());
            assert!(catch_unwind(|| Memory::NONE.slice(1)).is_err());
        }
    }
}

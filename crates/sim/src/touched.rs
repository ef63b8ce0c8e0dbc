//! The extents accessed in a run: the first access to each is a miss that no cache avoids.

use peryton_units::{Bytes, Op, prefetch};

/// A bit for each extent of the volume.
#[derive(Debug)]
pub(crate) struct Touched {
    extent: u64,
    /// The size of an extent as a power of two, if it is one: a shift is quicker than a division.
    shift: Option<u32>,
    bits: Vec<u64>,
    /// Number of extents accessed since the start.
    pub(crate) extents: u64,
    /// Number of reads and writes by extent since counting began, and the number that were the first access to their
    /// extent.
    pub(crate) accesses: u64,
    pub(crate) first: u64,
}

impl Touched {
    pub(crate) fn new(volume: Bytes, extent: Bytes) -> Touched {
        let extents = volume.0.div_ceil(extent.0);
        let bits = vec![0; extents.div_ceil(64) as usize];
        let shift = extent.0.is_power_of_two().then(|| extent.0.trailing_zeros());
        Touched { extent: extent.0, shift, bits, extents: 0, accesses: 0, first: 0 }
    }

    /// The size of the accessed extents.
    pub(crate) fn bytes(&self) -> Bytes {
        Bytes(self.extents * self.extent)
    }

    #[inline(always)]
    pub(crate) fn touch(&mut self, op: Op, offset: Bytes, len: Bytes) {
        if !matches!(op, Op::Read | Op::Write) || len == Bytes::ZERO {
            return;
        }
        let extent_at = |offset: u64| self.shift.map_or_else(|| offset / self.extent, |shift| offset >> shift);
        let (first, last) = (extent_at(offset.0), extent_at(offset.0 + len.0 - 1));
        self.touch_extent(first);
        // Most accesses are to one extent.
        (first + 1..=last).for_each(|extent| self.touch_extent(extent));
    }

    #[inline(always)]
    fn touch_extent(&mut self, extent: u64) {
        self.accesses += 1;
        let Some(word) = self.bits.get_mut((extent / 64) as usize) else { return };
        // Without a branch, which nothing could predict.
        let is_new = !*word >> (extent % 64) & 1;
        *word |= 1 << (extent % 64);
        self.extents += is_new;
        self.first += is_new;
    }

    /// Prefetches what [`Touched::touch`] reads into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, offset: Bytes) {
        if let Some(word) = self.shift.and_then(|shift| self.bits.get((offset.0 >> shift) as usize / 64)) {
            prefetch(word);
        }
    }

    /// Starts counting again at the end of the warm-up; extents that were accessed stay known.
    pub(crate) fn reset(&mut self) {
        (self.accesses, self.first) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_is_new_once() {
        let mut touched = Touched::new(Bytes::mib(1), Bytes::kib(4));
        touched.touch(Op::Read, Bytes(4000), Bytes(200));
        touched.touch(Op::Write, Bytes(0), Bytes(4096));
        touched.touch(Op::Flush, Bytes::ZERO, Bytes::ZERO);
        touched.touch(Op::Discard, Bytes(65536), Bytes(4096));
        assert_eq!((touched.accesses, touched.first, touched.bytes()), (3, 2, Bytes(8192)));
        touched.reset();
        touched.touch(Op::Write, Bytes(4096), Bytes(8192));
        assert_eq!((touched.accesses, touched.first, touched.extents), (2, 1, 3));
    }
}

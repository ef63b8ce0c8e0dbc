//! Which parts of a volume were ever written. What never was reads as zeros, so clients are told that it is a hole, and zeros that are
//! written there change nothing.
//!
//! A bit stands for a part. At the opening the bits follow from the last close, which records the offset from which on nothing was ever
//! written. After a kill or a power loss this offset is not known, and every part counts as written.

use peryton_units::Bytes;

/// The smallest part.
const SMALLEST: u64 = 4 << 10;
/// The most parts; those of larger volumes are larger.
const MOST: u64 = 1 << 20;
const BITS: u64 = 64;

#[derive(Debug)]
pub(crate) struct Written {
    words: Vec<u64>,
    shift: u32,
    size: u64,
}

impl Written {
    /// `from`: nothing was ever written from there on; `None`: that is not known.
    pub(crate) fn new(Bytes(size): Bytes, from: Option<Bytes>) -> Written {
        let shift = size.div_ceil(MOST).next_power_of_two().max(SMALLEST).ilog2();
        let parts = size.div_ceil(1 << shift);
        let mut written = Written { words: vec![0; parts.div_ceil(BITS) as usize], shift, size };
        written.note(Bytes::ZERO, from.unwrap_or(Bytes(size)));
        written
    }

    /// The numbers of the parts in a range.
    fn parts(&self, from: Bytes, len: Bytes) -> std::ops::Range<u64> {
        let end = from.0.saturating_add(len.0).min(self.size);
        let end = if from.0 < end { end.div_ceil(1 << self.shift) } else { 0 };
        from.0 >> self.shift..end
    }

    /// A range is being written.
    #[inline]
    pub(crate) fn note(&mut self, from: Bytes, len: Bytes) {
        let parts = self.parts(from, len);
        let mut at = parts.start;
        while at < parts.end {
            let to = parts.end.min((at / BITS + 1) * BITS);
            self.words[(at / BITS) as usize] |= u64::MAX >> (BITS - (to - at)) << (at % BITS);
            at = to;
        }
    }

    fn is_set(&self, part: u64) -> bool {
        self.words[(part / BITS) as usize] >> (part % BITS) & 1 == 1
    }

    /// Whether something may have been written at an offset, and for how many bytes the same is so, up to `most`.
    pub(crate) fn run(&self, Bytes(at): Bytes, most: Bytes) -> (bool, Bytes) {
        let (first, end) = (at >> self.shift, self.parts(Bytes(at), most).end);
        let is = self.is_set(first);
        let same = if is { u64::MAX } else { 0 };
        let mut part = first + 1;
        while part < end {
            let whole = part.is_multiple_of(BITS) && self.words[(part / BITS) as usize] == same;
            match whole {
                true => part += BITS,
                false if self.is_set(part) == is => part += 1,
                false => break,
            }
        }
        (is, Bytes((part << self.shift).saturating_sub(at)).min(most))
    }

    /// From where on nothing was ever written.
    pub(crate) fn end(&self) -> Bytes {
        let last = self.words.iter().rposition(|word| *word != 0);
        let parts = last.map_or(0, |word| word as u64 * BITS + BITS - u64::from(self.words[word].leading_zeros()));
        Bytes((parts << self.shift).min(self.size))
    }

    /// The volume has another size. A part that was added counts as written, since its content is not known.
    pub(crate) fn resize(&mut self, size: Bytes) {
        if size.0 == self.size {
            return;
        }
        let mut new = Written::new(size, None);
        if new.shift == self.shift {
            let known = self.parts(Bytes::ZERO, Bytes(self.size.min(size.0))).end / BITS;
            new.words[..known as usize].copy_from_slice(&self.words[..known as usize]);
        }
        *self = new;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_known_counts_as_written() {
        let all = Written::new(Bytes::mib(1), None);
        assert_eq!((all.end(), all.run(Bytes(5), Bytes(100))), (Bytes::mib(1), (true, Bytes(100))));
        let mut none = Written::new(Bytes::mib(1), Some(Bytes::ZERO));
        assert_eq!((none.end(), none.run(Bytes(5), Bytes::kib(900))), (Bytes::ZERO, (false, Bytes::kib(900))));
        none.resize(Bytes::mib(2));
        assert_eq!(none.run(Bytes::ZERO, Bytes::mib(2)), (false, Bytes::mib(1)));
        let large = Written::new(Bytes(1 << 50), Some(Bytes(3)));
        assert!(large.words.len() as u64 <= MOST / BITS && large.end() == Bytes(1 << 30));
    }

    proptest! {
        #[test]
        fn it_says_what_a_list_of_blocks_says(
            size in 1_u64..600_000,
            writes in prop::collection::vec((0_u64..600_000, 1_u64..200_000), 0..8),
            asked in (0_u64..600_000, 1_u64..300_000),
        ) {
            let (mut written, mut blocks) = (Written::new(Bytes(size), Some(Bytes::ZERO)), vec![false; size.div_ceil(4096) as usize]);
            for (from, len) in writes {
                let end = (from + len).min(size);
                written.note(Bytes(from), Bytes(len));
                (from.min(end)..end).for_each(|at| blocks[(at >> 12) as usize] = true);
            }
            let end = blocks.iter().rposition(|is| *is).map_or(0, |last| ((last as u64 + 1) << 12).min(size));
            prop_assert_eq!(written.end(), Bytes(end));
            let (at, most) = (asked.0 % size, asked.1.min(size - asked.0 % size));
            let first = blocks[(at >> 12) as usize];
            let run = (at..at + most).take_while(|at| blocks[(at >> 12) as usize] == first).count() as u64;
            prop_assert_eq!(written.run(Bytes(at), Bytes(most)), (first, Bytes(run)));
        }
    }
}

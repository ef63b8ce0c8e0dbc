//! The map of a log: the place of the newest copy of each block.
//!
//! The map takes four bytes for each block, in chunks that are allocated when a block of the chunk is first logged. An
//! entry has one of three forms. Zero: the block is on the primary. A place in the log: the whole block lies there
//! contiguously. The index of a list of fragments: parts of the block were written, and the primary holds the other
//! parts. The log bounds the number of fragments: each record adds at most two to a block that it cuts.

use peryton_format::log::{MOST_LOG_BYTES, SECTOR};

use crate::io::slab::Slab;

const CHUNK_SHIFT: u32 = 10;
const CHUNK: usize = 1 << CHUNK_SHIFT;
// An entry can hold 2^31 - 1 sectors.
const _: () = assert!(MOST_LOG_BYTES / SECTOR <= 1 << 31);

const ON_PRIMARY: u32 = 0;
const FRAGMENTED: u32 = 1 << 31;

/// Bytes `from..to` of a block are at `at` in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fragment {
    from: u32,
    to: u32,
    at: u64,
}

#[derive(Debug)]
pub(in crate::log) struct BlockMap {
    shift: u32,
    chunks: Vec<Option<Box<[u32; CHUNK]>>>,
    fragments: Slab<Vec<Fragment>>,
}

fn whole(at: u64) -> u32 {
    debug_assert!(at.is_multiple_of(SECTOR) && at < MOST_LOG_BYTES - SECTOR, "place {at} cannot be named");
    (at / SECTOR) as u32 + 1
}

fn place(entry: u32) -> u64 {
    u64::from(entry - 1) * SECTOR
}

impl BlockMap {
    /// A map of `size` bytes in blocks of `1 << shift`, all of them on the primary.
    pub(in crate::log) fn new(size: u64, shift: u32) -> BlockMap {
        let chunks = size.div_ceil(1 << shift).div_ceil(CHUNK as u64) as usize;
        BlockMap { shift, chunks: (0..chunks).map(|_| None).collect(), fragments: Slab::new() }
    }

    pub(in crate::log) fn block_bytes(&self) -> u64 {
        1 << self.shift
    }

    #[inline]
    fn entry(&self, block: u64) -> u32 {
        match &self.chunks[(block >> CHUNK_SHIFT) as usize] {
            Some(chunk) => chunk[block as usize & (CHUNK - 1)],
            None => ON_PRIMARY,
        }
    }

    #[inline]
    fn entry_mut(&mut self, block: u64) -> &mut u32 {
        let chunk = self.chunks[(block >> CHUNK_SHIFT) as usize].get_or_insert_with(|| Box::new([ON_PRIMARY; CHUNK]));
        &mut chunk[block as usize & (CHUNK - 1)]
    }

    /// Calls `piece(from, to, place in the log)` for each part of the range, in the order of addresses.
    #[inline]
    pub(in crate::log) fn walk(&self, from: u64, to: u64, mut piece: impl FnMut(u64, u64, Option<u64>)) {
        let mut next = from;
        while next < to {
            let block = next >> self.shift;
            let start = block << self.shift;
            let end = (start + self.block_bytes()).min(to);
            let entry = self.entry(block);
            if entry == ON_PRIMARY {
                piece(next, end, None);
            } else if entry & FRAGMENTED == 0 {
                piece(next, end, Some(place(entry) + (next - start)));
            } else {
                for fragment in &self.fragments[entry & !FRAGMENTED] {
                    let (low, high) = (start + u64::from(fragment.from), start + u64::from(fragment.to));
                    if high <= next || low >= end {
                        continue;
                    }
                    if low > next {
                        piece(next, low, None);
                        next = low;
                    }
                    let high = high.min(end);
                    piece(next, high, Some(fragment.at + (next - low)));
                    next = high;
                }
                if next < end {
                    piece(next, end, None);
                }
            }
            next = end;
        }
    }

    /// Like [`BlockMap::walk`], for the whole map of `size` bytes; skips chunks in which nothing was ever logged.
    pub(in crate::log) fn walk_all(&self, size: u64, mut piece: impl FnMut(u64, u64, Option<u64>)) {
        let bytes = (CHUNK as u64) << self.shift;
        for (chunk, from) in self.chunks.iter().zip((0..).step_by(bytes as usize)) {
            let to = size.min(from + bytes);
            match chunk {
                None => piece(from, to, None),
                Some(_) => self.walk(from, to, &mut piece),
            }
        }
    }

    /// Calls `part(from, to, at)` for each part of the range whose newest copy is still where a record put it, with
    /// `from` at place `at`.
    pub(in crate::log) fn live(&self, from: u64, to: u64, at: u64, mut part: impl FnMut(u64, u64, u64)) {
        self.walk(from, to, |low, high, place| {
            if place == Some(at + (low - from)) {
                part(low, high, at + (low - from));
            }
        });
    }

    /// Records that the newest copy of the range is now at `at` in the log. Calls `superseded(at, len)` for each copy
    /// in the log that is now obsolete.
    #[inline]
    pub(in crate::log) fn install(&mut self, from: u64, to: u64, at: u64, mut superseded: impl FnMut(u64, u64)) {
        let mut next = from;
        while next < to {
            let block = next >> self.shift;
            let start = block << self.shift;
            let end = (start + self.block_bytes()).min(to);
            let at = at + (next - from);
            if end - next == self.block_bytes() {
                let new = whole(at);
                let entry = self.entry_mut(block);
                let before = std::mem::replace(entry, new);
                if before & FRAGMENTED != 0 {
                    self.drop_fragments(before, &mut superseded);
                } else if before != ON_PRIMARY {
                    superseded(place(before), 1 << self.shift);
                }
            } else {
                self.cut(block, (next - start) as u32, (end - start) as u32, Some(at), &mut superseded);
            }
            next = end;
        }
    }

    /// Records that the newest copy of the range is now on the primary. Calls `superseded(at, len)` for each copy in
    /// the log that is now obsolete.
    pub(in crate::log) fn remove(&mut self, from: u64, to: u64, mut superseded: impl FnMut(u64, u64)) {
        let mut next = from;
        while next < to {
            let block = next >> self.shift;
            let start = block << self.shift;
            let end = (start + self.block_bytes()).min(to);
            if self.entry(block) != ON_PRIMARY {
                self.cut(block, (next - start) as u32, (end - start) as u32, None, &mut superseded);
            }
            next = end;
        }
    }

    fn drop_fragments(&mut self, entry: u32, superseded: &mut impl FnMut(u64, u64)) {
        let index = entry & !FRAGMENTED;
        for fragment in std::mem::take(&mut self.fragments[index]) {
            superseded(fragment.at, u64::from(fragment.to - fragment.from));
        }
        self.fragments.remove(index);
    }

    /// Changes the place of a part of a block.
    fn cut(&mut self, block: u64, from: u32, to: u32, at: Option<u64>, superseded: &mut impl FnMut(u64, u64)) {
        let bytes = self.block_bytes() as u32;
        let before = self.entry(block);
        let (old, index) = if before == ON_PRIMARY {
            (Vec::new(), None)
        } else if before & FRAGMENTED != 0 {
            let index = before & !FRAGMENTED;
            (std::mem::take(&mut self.fragments[index]), Some(index))
        } else {
            (vec![Fragment { from: 0, to: bytes, at: place(before) }], None)
        };
        let mut parts: Vec<Fragment> = Vec::with_capacity(old.len() + 2);
        let mut new = at.map(|at| Fragment { from, to, at });
        for fragment in old {
            if fragment.from < from {
                parts.push(Fragment { to: fragment.to.min(from), ..fragment });
            }
            let (low, high) = (fragment.from.max(from), fragment.to.min(to));
            if low < high {
                superseded(fragment.at + u64::from(low - fragment.from), u64::from(high - low));
            }
            if fragment.to > to {
                parts.extend(new.take());
                let low = fragment.from.max(to);
                parts.push(Fragment { from: low, to: fragment.to, at: fragment.at + u64::from(low - fragment.from) });
            }
        }
        parts.extend(new);
        parts.dedup_by(|next, last| {
            let joins = last.to == next.from && last.at + u64::from(last.to - last.from) == next.at;
            if joins {
                last.to = next.to;
            }
            joins
        });
        let all = parts.first().copied().filter(|first| first.from == 0 && first.to == bytes);
        let entry = match (parts.is_empty(), all) {
            (true, _) => ON_PRIMARY,
            (_, Some(all)) if all.at.is_multiple_of(SECTOR) => whole(all.at),
            _ => {
                let index = match index {
                    Some(index) => {
                        self.fragments[index] = parts;
                        index
                    }
                    None => self.fragments.insert(parts),
                };
                FRAGMENTED | index
            }
        };
        if let (Some(index), true) = (index, entry & FRAGMENTED == 0) {
            self.fragments.remove(index);
        }
        *self.entry_mut(block) = entry;
    }

    /// Memory that the entries take, in bytes.
    #[cfg(test)]
    fn bytes(&self) -> u64 {
        let chunks = self.chunks.iter().flatten().count() as u64;
        chunks * (CHUNK as u64 * 4) + self.chunks.len() as u64 * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_sequence_of_changes_reads_as_an_array_of_bytes_would(
            changes in prop::collection::vec((0u64..6000, 1u64..3000, any::<bool>()), 1..60)
        ) {
            let size = 10_000u64;
            let mut map = BlockMap::new(size, 10);
            let mut model: Vec<Option<u64>> = vec![None; size as usize];
            let (mut next, mut live) = (0u64, 0u64);
            for (from, len, logged) in changes {
                let to = from + len;
                let mut dead = 0;
                if logged {
                    let at = next + from % SECTOR;
                    next = (at + len).next_multiple_of(SECTOR);
                    map.install(from, to, at, |_, len| dead += len);
                    live += len;
                    for byte in from..to {
                        model[byte as usize] = Some(at + byte - from);
                    }
                } else {
                    map.remove(from, to, |_, len| dead += len);
                    model[from as usize..to as usize].fill(None);
                }
                live -= dead;
                prop_assert_eq!(live, model.iter().flatten().count() as u64);
            }
            let mut reached = 0;
            map.walk(0, size, |from, to, place| {
                assert_eq!(from, reached);
                reached = to;
                for byte in from..to {
                    assert_eq!(place.map(|at| at + byte - from), model[byte as usize]);
                }
            });
            prop_assert_eq!(reached, size);
        }
    }

    #[test]
    fn memory_grows_with_logged_blocks_and_fragments_are_freed() {
        let mut map = BlockMap::new(1 << 40, 12);
        let root = map.bytes();
        map.install(0, 1 << 20, 0, |_, _| {});
        assert_eq!(map.bytes() - root, 4096);
        map.install(512, 1024, 1 << 21, |_, _| {});
        assert_eq!(map.fragments.len(), 1);
        map.remove(0, 4096, |_, _| {});
        assert_eq!(map.fragments.len(), 0);
    }
}

//! What an append says of itself on disk: a header of 4 KiB before its data, or before the entries of an index.

use super::log::HEADER;
use crate::metadata::{
    VolumeId,
    block::{BLOCK, BLOCK_LEN, Kind, get_u32, get_u64, is_sealed, put_u32, put_u64, seal},
};

/// Sequences beyond this are never given out.
pub(super) const MOST_SEQUENCE: u64 = 1 << 62;
/// No place in the log.
pub(super) const NOWHERE: u64 = u64::MAX;

const FIELDS: usize = 64;
const MEMBER: usize = 24;
/// Members that a header has room for.
pub(super) const MOST_MEMBERS: usize = (BLOCK_LEN - FIELDS) / MEMBER;

const INDEX_FIELDS: usize = 32;
const ENTRY: usize = 24;
/// Entries in a block of an index.
pub(super) const ENTRIES_PER_BLOCK: usize = (BLOCK_LEN - INDEX_FIELDS) / ENTRY;
/// A place in the log takes this many bits; a length is above it.
const PLACE_BITS: u32 = 40;

/// One write in an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Where on the volume.
    pub(super) offset: u64,
    /// Bytes from the start of the append.
    pub(super) within: u32,
    pub(super) len: u32,
    /// CRC-32C of the data.
    pub(super) checksum: u32,
}

/// One write as an index lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) offset: u64,
    /// Where in the log its data is.
    pub(super) at: u64,
    pub(super) len: u64,
    /// That of its append.
    pub(super) sequence: u64,
}

/// What an index covers: every append from `first` up to but without `upto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) first: u64,
    pub(super) upto: u64,
    /// Where append `upto` is, if it did not open a segment.
    pub(super) upto_at: u64,
    /// The index before this one.
    pub(super) previous: u64,
    pub(super) entries: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Data(Vec<Member>),
    Index(Index),
}

/// The first block of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Appends are numbered without gaps, in the order in which they take effect.
    pub(super) sequence: u64,
    /// The sequence of the first append in the segment since it was last free.
    pub(super) opened: u64,
    /// Where in the log this is.
    pub(super) at: u64,
    /// With this block and the padding at the end.
    pub(super) len: u64,
    /// All appends below were durable when this was written, or a durable commit said that they are absent.
    pub(super) flushed: u64,
    /// Where the newest index was.
    pub(super) index: u64,
    pub(super) body: Body,
}

impl Header {
    pub(super) fn encode(&self, volume: VolumeId, block: &mut [u8]) {
        block.fill(0);
        put_u64(block, 8, self.sequence);
        put_u64(block, 16, self.opened);
        put_u64(block, 24, self.at);
        put_u64(block, 32, self.flushed);
        put_u64(block, 40, self.index);
        put_u32(block, 48, self.len as u32);
        match &self.body {
            Body::Data(members) => {
                debug_assert!(members.len() <= MOST_MEMBERS);
                put_u32(block, 52, 0);
                put_u32(block, 56, members.len() as u32);
                for (member, at) in members.iter().zip((FIELDS..).step_by(MEMBER)) {
                    put_u64(block, at, member.offset);
                    put_u32(block, at + 8, member.within);
                    put_u32(block, at + 12, member.len);
                    put_u32(block, at + 16, member.checksum);
                }
            }
            Body::Index(index) => {
                put_u32(block, 52, 1);
                put_u32(block, 56, index.entries);
                put_u64(block, 64, index.first);
                put_u64(block, 72, index.upto);
                put_u64(block, 80, index.upto_at);
                put_u64(block, 88, index.previous);
            }
        }
        seal(block, Kind::LogAppend, volume);
    }

    /// What a block in place `at` of the log says, if it is the header of an append and belongs there.
    pub(super) fn decode(block: &[u8], volume: VolumeId, at: u64) -> Option<Header> {
        if !is_sealed(block, Kind::LogAppend, volume) || get_u64(block, 24) != at {
            return None;
        }
        let (len, count) = (u64::from(get_u32(block, 48)), get_u32(block, 56));
        let body = match get_u32(block, 52) {
            0 if count as usize <= MOST_MEMBERS => Body::Data(members(block, count as usize, len)?),
            1 if u64::from(count).div_ceil(ENTRIES_PER_BLOCK as u64) * BLOCK + HEADER == len => Body::Index(Index {
                first: get_u64(block, 64),
                upto: get_u64(block, 72),
                upto_at: get_u64(block, 80),
                previous: get_u64(block, 88),
                entries: count,
            }),
            _ => return None,
        };
        let header = Header {
            sequence: get_u64(block, 8),
            opened: get_u64(block, 16),
            at,
            len,
            flushed: get_u64(block, 32),
            index: get_u64(block, 40),
            body,
        };
        let sound = header.opened <= header.sequence
            && header.sequence < MOST_SEQUENCE
            && len >= HEADER
            && len.is_multiple_of(HEADER);
        sound.then_some(header)
    }
}

fn members(block: &[u8], count: usize, len: u64) -> Option<Vec<Member>> {
    let member = |at: usize| {
        let (within, bytes) = (get_u32(block, at + 8), get_u32(block, at + 12));
        let fits = u64::from(within) >= HEADER && u64::from(within) + u64::from(bytes) <= len && bytes > 0;
        let checksum = get_u32(block, at + 16);
        fits.then(|| Member { offset: get_u64(block, at), within, len: bytes, checksum })
    };
    (FIELDS..).step_by(MEMBER).take(count).map(member).collect()
}

/// How long an index of so many entries is, its header included.
pub(super) fn index_bytes(entries: usize) -> u64 {
    HEADER + (entries.div_ceil(ENTRIES_PER_BLOCK) as u64) * BLOCK
}

/// Encodes the blocks that follow the header of index append `sequence`.
pub(super) fn encode_entries(entries: impl Iterator<Item = Entry>, sequence: u64, volume: VolumeId, into: &mut [u8]) {
    let mut entries = entries.peekable();
    for (number, block) in into.chunks_exact_mut(BLOCK_LEN).enumerate() {
        block.fill(0);
        let mut count = 0;
        while count < ENTRIES_PER_BLOCK
            && let Some(entry) = entries.next()
        {
            let at = INDEX_FIELDS + count * ENTRY;
            put_u64(block, at, entry.offset);
            put_u64(block, at + 8, entry.at | entry.len << PLACE_BITS);
            put_u64(block, at + 16, entry.sequence);
            count += 1;
        }
        put_u64(block, 8, sequence);
        put_u32(block, 16, number as u32);
        put_u32(block, 20, count as u32);
        seal(block, Kind::LogIndex, volume);
    }
    debug_assert!(entries.peek().is_none(), "an index is as long as its entries need");
}

/// Adds the entries of block `number` of index append `sequence`; `None` if it is not that, or not whole.
pub(super) fn decode_entries(
    block: &[u8],
    sequence: u64,
    number: u32,
    volume: VolumeId,
    into: &mut Vec<Entry>,
) -> Option<()> {
    let count = is_sealed(block, Kind::LogIndex, volume).then(|| get_u32(block, 20) as usize)?;
    let sound = get_u64(block, 8) == sequence && get_u32(block, 16) == number && count <= ENTRIES_PER_BLOCK;
    sound.then_some(())?;
    into.extend((0..count).map(|slot| {
        let at = INDEX_FIELDS + slot * ENTRY;
        let place = get_u64(block, at + 8);
        let (at_log, len) = (place & ((1 << PLACE_BITS) - 1), place >> PLACE_BITS);
        Entry { offset: get_u64(block, at), at: at_log, len, sequence: get_u64(block, at + 16) }
    }));
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VOLUME: VolumeId = VolumeId(5);

    fn data() -> Header {
        let member = |number: u32| Member { offset: 7 << 50, within: 4096 + number, len: 512, checksum: number };
        Header {
            sequence: 1 << 60,
            opened: 3,
            at: 12 << 12,
            len: 16 << 10,
            flushed: 9,
            index: NOWHERE,
            body: Body::Data((0..MOST_MEMBERS as u32).map(member).collect()),
        }
    }

    #[test]
    fn headers_and_entries_come_back_as_they_were() {
        let index = Index { first: 1, upto: 2, upto_at: 3, previous: 4, entries: 400 };
        for header in [data(), Header { body: Body::Index(index), len: index_bytes(400), ..data() }] {
            let mut block = vec![1; BLOCK_LEN];
            header.encode(VOLUME, &mut block);
            assert_eq!(Header::decode(&block, VOLUME, header.at).as_ref(), Some(&header));
            assert_eq!(Header::decode(&block, VOLUME, 0), None, "a header counts only where it belongs");
            assert_eq!(Header::decode(&block, VolumeId(6), header.at), None);
        }
        let entries: Vec<Entry> = (0..400)
            .map(|n| Entry { offset: n << 40, at: (1 << 40) - 1 - n, len: 200_000 + n, sequence: u64::MAX - n })
            .collect();
        let mut bytes = vec![1; index_bytes(400) as usize - BLOCK_LEN];
        encode_entries(entries.iter().copied(), 77, VOLUME, &mut bytes);
        let mut found = Vec::new();
        for (number, block) in bytes.chunks(BLOCK_LEN).enumerate() {
            assert_eq!(decode_entries(block, 78, number as u32, VOLUME, &mut found), None);
            assert_eq!(decode_entries(block, 77, number as u32 + 1, VOLUME, &mut found), None);
            decode_entries(block, 77, number as u32, VOLUME, &mut found).unwrap();
        }
        assert_eq!(found, entries);
    }

    proptest! {
        #[test]
        fn no_block_whatever_it_holds_breaks_the_readers(
            mut block in proptest::collection::vec(any::<u8>(), BLOCK_LEN), small: bool, at: u64
        ) {
            if small {
                // Fields that look plausible reach further into the reader.
                for byte in &mut block[48..64] {
                    *byte &= 1;
                }
            }
            put_u64(&mut block, 24, at);
            seal(&mut block, Kind::LogAppend, VOLUME);
            let _ = Header::decode(&block, VOLUME, at);
            seal(&mut block, Kind::LogIndex, VOLUME);
            let _ = decode_entries(&block, get_u64(&block, 8), get_u32(&block, 16), VOLUME, &mut Vec::new());
        }

        #[test]
        fn a_flipped_bit_is_noticed(bit in 0..BLOCK_LEN * 8) {
            let mut block = vec![0; BLOCK_LEN];
            data().encode(VOLUME, &mut block);
            block[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Header::decode(&block, VOLUME, data().at), None);
        }
    }
}

//! The header of an append: a block of 4 KiB before its data, or before the entries of an index.

use super::{HEADER, MOST_SEQUENCE, PLACE_BITS};
use crate::{
    block::{BLOCK, BLOCK_LEN, Kind, get_u32, get_u64, is_sealed, put_u32, put_u64, seal},
    superblock::VolumeId,
};

const FIELDS: usize = 64;
const MEMBER: usize = 24;
/// The most members of a header.
pub const MOST_MEMBERS: usize = (BLOCK_LEN - FIELDS) / MEMBER;

const INDEX_FIELDS: usize = 32;
const ENTRY: usize = 24;
/// Number of entries in a block of an index.
pub const ENTRIES_PER_BLOCK: usize = (BLOCK_LEN - INDEX_FIELDS) / ENTRY;

/// One write in an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendMember {
    /// Offset of the write on the volume.
    pub offset: u64,
    /// Offset of its data from the start of the append.
    pub within: u32,
    /// Length of the data in bytes.
    pub len: u32,
    /// The CRC-32C of the data.
    pub checksum: u32,
}

/// One write in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Offset of the write on the volume.
    pub offset: u64,
    /// Place of its data in the log.
    pub at: u64,
    /// Length of the data in bytes.
    pub len: u64,
    /// Sequence of its append.
    pub sequence: u64,
}

/// What an index covers: every append from sequence `first` up to but not including `upto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexSpan {
    /// The sequence of the first append that the index covers.
    pub first: u64,
    /// The sequence after the last.
    pub upto: u64,
    /// Place of append `upto`, unless it opened a segment.
    pub upto_at: u64,
    /// Place of the index before this one.
    pub previous: u64,
    /// Number of its entries.
    pub entries: u32,
}

/// The content of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendBody {
    /// Data: the writes, or parts of writes.
    Data(Vec<AppendMember>),
    /// An index.
    Index(IndexSpan),
}

/// The first block of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendHeader {
    /// The sequence of the append. Appends are numbered without gaps, in the order in which they take effect.
    pub sequence: u64,
    /// The sequence of the first append in this segment since the segment was last free.
    pub opened: u64,
    /// Place of the append in the log.
    pub at: u64,
    /// Length of the append in bytes, with its header and the padding at the end.
    pub len: u64,
    /// Every append with a lower sequence was durable when this one was written, or recorded as absent by a durable
    /// commit.
    pub flushed: u64,
    /// Place of the newest index.
    pub index: u64,
    /// The content after the header.
    pub body: AppendBody,
}

impl AppendHeader {
    /// Encodes the header into `block`, which is one block.
    ///
    /// # Panics
    ///
    /// If `block` is shorter than a block, or there are more than [`MOST_MEMBERS`] members.
    pub fn encode(&self, volume: VolumeId, block: &mut [u8]) {
        block.fill(0);
        put_u64(block, 8, self.sequence);
        put_u64(block, 16, self.opened);
        put_u64(block, 24, self.at);
        put_u64(block, 32, self.flushed);
        put_u64(block, 40, self.index);
        put_u32(block, 48, self.len as u32);
        match &self.body {
            AppendBody::Data(members) => {
                assert!(members.len() <= MOST_MEMBERS, "{} members do not fit a header", members.len());
                put_u32(block, 52, 0);
                put_u32(block, 56, members.len() as u32);
                for (member, at) in members.iter().zip((FIELDS..).step_by(MEMBER)) {
                    put_u64(block, at, member.offset);
                    put_u32(block, at + 8, member.within);
                    put_u32(block, at + 12, member.len);
                    put_u32(block, at + 16, member.checksum);
                }
            }
            AppendBody::Index(index) => {
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

    /// Decodes the header of the append at place `at` of the log; `None` if the block is not a valid header, or is that
    /// of another place.
    pub fn decode(block: &[u8], volume: VolumeId, at: u64) -> Option<AppendHeader> {
        if !is_sealed(block, Kind::LogAppend, volume) || get_u64(block, 24) != at {
            return None;
        }
        let (len, count) = (u64::from(get_u32(block, 48)), get_u32(block, 56));
        let body = match get_u32(block, 52) {
            0 if count as usize <= MOST_MEMBERS => AppendBody::Data(members(block, count as usize, len)?),
            1 if u64::from(count).div_ceil(ENTRIES_PER_BLOCK as u64) * BLOCK + HEADER == len => {
                AppendBody::Index(IndexSpan {
                    first: get_u64(block, 64),
                    upto: get_u64(block, 72),
                    upto_at: get_u64(block, 80),
                    previous: get_u64(block, 88),
                    entries: count,
                })
            }
            _ => return None,
        };
        let header = AppendHeader {
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

fn members(block: &[u8], count: usize, len: u64) -> Option<Vec<AppendMember>> {
    let member = |at: usize| {
        let (within, bytes) = (get_u32(block, at + 8), get_u32(block, at + 12));
        let fits = u64::from(within) >= HEADER && u64::from(within) + u64::from(bytes) <= len && bytes > 0;
        let checksum = get_u32(block, at + 16);
        fits.then(|| AppendMember { offset: get_u64(block, at), within, len: bytes, checksum })
    };
    (FIELDS..).step_by(MEMBER).take(count).map(member).collect()
}

/// The checksum of a member's data (CRC-32C).
pub fn data_checksum(data: &[u8]) -> u32 {
    crc32c::crc32c(data)
}

/// Length in bytes of an index with this many entries, its header included.
pub fn index_bytes(entries: usize) -> u64 {
    HEADER + (entries.div_ceil(ENTRIES_PER_BLOCK) as u64) * BLOCK
}

/// Encodes the blocks of entries that follow the header of the index with this sequence.
pub fn encode_entries(entries: impl Iterator<Item = IndexEntry>, sequence: u64, volume: VolumeId, into: &mut [u8]) {
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

/// Adds the entries in block `number` of the index with this sequence to `into`; `None` if the block is another one, or
/// is not valid.
pub fn decode_entries(
    block: &[u8],
    sequence: u64,
    number: u32,
    volume: VolumeId,
    into: &mut Vec<IndexEntry>,
) -> Option<()> {
    let count = is_sealed(block, Kind::LogIndex, volume).then(|| get_u32(block, 20) as usize)?;
    let sound = get_u64(block, 8) == sequence && get_u32(block, 16) == number && count <= ENTRIES_PER_BLOCK;
    sound.then_some(())?;
    into.extend((0..count).map(|slot| {
        let at = INDEX_FIELDS + slot * ENTRY;
        let place = get_u64(block, at + 8);
        let (at_log, len) = (place & ((1 << PLACE_BITS) - 1), place >> PLACE_BITS);
        IndexEntry { offset: get_u64(block, at), at: at_log, len, sequence: get_u64(block, at + 16) }
    }));
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::NOWHERE, *};

    const VOLUME: VolumeId = VolumeId(5);

    fn data() -> AppendHeader {
        let member = |number: u32| AppendMember { offset: 7 << 50, within: 4096 + number, len: 512, checksum: number };
        AppendHeader {
            sequence: 1 << 60,
            opened: 3,
            at: 12 << 12,
            len: 16 << 10,
            flushed: 9,
            index: NOWHERE,
            body: AppendBody::Data((0..MOST_MEMBERS as u32).map(member).collect()),
        }
    }

    #[test]
    fn headers_and_entries_are_decoded_as_they_were_encoded() {
        let index = IndexSpan { first: 1, upto: 2, upto_at: 3, previous: 4, entries: 400 };
        for header in [data(), AppendHeader { body: AppendBody::Index(index), len: index_bytes(400), ..data() }] {
            let mut block = vec![1; BLOCK_LEN];
            header.encode(VOLUME, &mut block);
            assert_eq!(AppendHeader::decode(&block, VOLUME, header.at).as_ref(), Some(&header));
            assert_eq!(AppendHeader::decode(&block, VOLUME, 0), None, "a header counts only where it belongs");
            assert_eq!(AppendHeader::decode(&block, VolumeId(6), header.at), None);
        }
        let entries: Vec<IndexEntry> = (0..400)
            .map(|n| IndexEntry { offset: n << 40, at: (1 << 40) - 1 - n, len: 200_000 + n, sequence: u64::MAX - n })
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
        fn no_content_of_a_block_breaks_the_readers(
            mut block in proptest::collection::vec(any::<u8>(), BLOCK_LEN), small: bool, at: u64
        ) {
            if small {
                // Plausible fields reach further into the reader.
                for byte in &mut block[48..64] {
                    *byte &= 1;
                }
            }
            put_u64(&mut block, 24, at);
            seal(&mut block, Kind::LogAppend, VOLUME);
            let _ = AppendHeader::decode(&block, VOLUME, at);
            seal(&mut block, Kind::LogIndex, VOLUME);
            let _ = decode_entries(&block, get_u64(&block, 8), get_u32(&block, 16), VOLUME, &mut Vec::new());
        }

        #[test]
        fn a_flipped_bit_is_noticed(bit in 0..BLOCK_LEN * 8) {
            let mut block = vec![0; BLOCK_LEN];
            data().encode(VOLUME, &mut block);
            block[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(AppendHeader::decode(&block, VOLUME, data().at), None);
        }
    }
}

//! Reading the log of a volume that is not open: single headers, indexes, and where they may be.

use std::collections::BTreeMap;

use peryton_units::Bytes;

use super::{
    BUFFER,
    header::{self, Body, Entry, Header, Index, NOWHERE},
    log::HEADER,
};
use crate::{
    command::DeviceId,
    metadata::{
        VolumeId,
        block::{BLOCK, BLOCK_LEN},
    },
    storage::Storage,
};

/// The log is read in pieces of this size: no append is longer, so that two of them hold a header if there is one.
const PIECE: u64 = BUFFER;
/// How far behind a hole in a segment is looked for what was written after it. A damaged header hides one append.
const LOOK_AHEAD: u64 = 16 << 20;

/// A log on a device. Whatever it holds, nothing here trusts it.
pub(super) struct Scan<'a> {
    pub(super) storage: &'a mut dyn Storage,
    pub(super) device: DeviceId,
    /// Where the first segment begins on the device.
    pub(super) log_at: Bytes,
    pub(super) segment: u64,
    pub(super) segments: u64,
    pub(super) volume: VolumeId,
    /// One piece, where it begins, and which of its blocks could be read.
    piece: Vec<u8>,
    piece_at: Option<u64>,
    readable: Vec<bool>,
}

/// An index that can be trusted, and where it is.
#[derive(Clone, Debug)]
pub(super) struct FoundIndex {
    pub(super) at: u64,
    pub(super) sequence: u64,
    pub(super) covered: Index,
}

impl<'a> Scan<'a> {
    pub(super) fn new(
        storage: &'a mut dyn Storage,
        (device, log_at): (DeviceId, Bytes),
        (segment, segments): (u64, u64),
        volume: VolumeId,
    ) -> Scan<'a> {
        let (piece, readable) = (Vec::new(), Vec::new());
        Scan { storage, device, log_at, segment, segments, volume, piece, piece_at: None, readable }
    }

    fn bytes(&self) -> u64 {
        self.segment * self.segments
    }

    pub(super) fn segment_of(&self, at: u64) -> u32 {
        (at / self.segment) as u32
    }

    pub(super) fn start_of(&self, segment: u32) -> u64 {
        u64::from(segment) * self.segment
    }

    /// The block at a place in the log that is a multiple of its size.
    fn block(&mut self, at: u64) -> Option<&[u8]> {
        if at >= self.bytes() || !at.is_multiple_of(BLOCK) {
            return None;
        }
        let start = at / PIECE * PIECE;
        if self.piece_at != Some(start) {
            self.piece_at = Some(start);
            let len = PIECE.min(self.bytes() - start) as usize;
            self.piece.resize(len, 0);
            self.readable.clear();
            let whole = self.storage.read(self.device, self.log_at + Bytes(start), &mut self.piece).is_ok();
            for (block, within) in self.piece.chunks_exact_mut(BLOCK_LEN).zip((start..).step_by(BLOCK_LEN)) {
                // One bad sector must not hide its neighbours.
                let read = whole || self.storage.read(self.device, self.log_at + Bytes(within), block).is_ok();
                self.readable.push(read);
            }
        }
        let within = (at - start) as usize;
        self.readable[within / BLOCK_LEN].then(|| &self.piece[within..within + BLOCK_LEN])
    }

    /// The header of the append at a place, if there is one and it lies within its segment.
    pub(super) fn header(&mut self, at: u64) -> Option<Header> {
        let volume = self.volume;
        let header = self.block(at).and_then(|block| Header::decode(block, volume, at))?;
        (at % self.segment + header.len <= self.segment).then_some(header)
    }

    /// The header of the first append in a segment; nothing else is read.
    pub(super) fn first_header(&mut self, segment: u32) -> Option<Header> {
        let at = self.start_of(segment);
        let mut block = [0; BLOCK_LEN];
        self.storage.read(self.device, self.log_at + Bytes(at), &mut block).ok()?;
        Header::decode(&block, self.volume, at).filter(|header| header.len <= self.segment)
    }

    /// Where the append is whose data is at `at`.
    pub(super) fn append_of(&mut self, at: u64, sequence: u64) -> u64 {
        let last = at / BLOCK * BLOCK;
        let places = (0..BUFFER / BLOCK).map_while(|back| last.checked_sub(back * BLOCK));
        let mut headers = places.filter_map(|at| self.header(at));
        headers.find(|header| header.sequence == sequence).map_or(NOWHERE, |header| header.at)
    }

    /// Whether the device can read all of a range of blocks.
    pub(super) fn is_readable(&mut self, from: u64, to: u64) -> bool {
        (from / BLOCK * BLOCK..to).step_by(BLOCK_LEN).all(|at| self.block(at).is_some())
    }

    /// Whether everything that the header speaks of is there.
    pub(super) fn is_whole(&mut self, header: &Header) -> bool {
        let members = match &header.body {
            Body::Index(_) => return self.entries(header).is_some(),
            Body::Data(members) => members,
        };
        members.iter().all(|member| {
            let (mut next, end) = (header.at + u64::from(member.within), u64::from(member.len));
            let end = next + end;
            let mut sum = 0;
            while next < end {
                let start = next / BLOCK * BLOCK;
                let Some(block) = self.block(start) else { return false };
                let to = end.min(start + BLOCK);
                sum = crc32c::crc32c_append(sum, &block[(next - start) as usize..(to - start) as usize]);
                next = to;
            }
            sum == member.checksum
        })
    }

    /// The entries of an index, if all of it is there.
    pub(super) fn entries(&mut self, header: &Header) -> Option<Vec<Entry>> {
        let Body::Index(index) = header.body else { return None };
        let volume = self.volume;
        let mut entries = Vec::new();
        for number in 0..(header.len - HEADER) / BLOCK {
            let block = self.block(header.at + HEADER + number * BLOCK)?;
            header::decode_entries(block, header.sequence, number as u32, volume, &mut entries)?;
        }
        (entries.len() == index.entries as usize).then_some(entries)
    }

    /// The index at a place, if it is whole and of the present life of its segment.
    pub(super) fn index(&mut self, at: u64, lives: &Lives) -> Option<FoundIndex> {
        let header = self.header(at).filter(|header| lives.of(self.segment_of(at)) == Some(header.opened))?;
        let Body::Index(covered) = header.body else { return None };
        self.entries(&header)?;
        let sound = covered.first <= covered.upto && covered.upto <= header.sequence;
        sound.then_some(FoundIndex { at, sequence: header.sequence, covered })
    }

    /// The last header in a segment that is found by halving: with holes behind it there may be later ones.
    pub(super) fn last_header(&mut self, segment: u32, opened: u64) -> Option<Header> {
        let start = self.start_of(segment);
        let (mut low, mut high) = (0, self.segment.div_ceil(PIECE));
        let mut last = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let from = start + middle * PIECE;
            let to = (from + 2 * PIECE).min(start + self.segment);
            let found = self.headers(from, to, |header| header.opened == opened);
            match found.last() {
                Some(header) => {
                    last = Some(header.clone());
                    low = middle + 1;
                }
                None => high = middle,
            }
        }
        last
    }

    /// Every header in a range that is one of those asked for, wherever it is.
    fn headers(&mut self, from: u64, to: u64, asked: impl Fn(&Header) -> bool) -> Vec<Header> {
        (from..to).step_by(BLOCK_LEN).filter_map(|at| self.header(at)).filter(|header| asked(header)).collect()
    }

    /// The highest sequence below which all was durable, as the appends behind a hole say.
    pub(super) fn flushed_behind(&mut self, at: u64, opened: u64) -> u64 {
        let end = self.start_of(self.segment_of(at)) + self.segment;
        let found = self.headers(at, end.min(at + LOOK_AHEAD), |header| header.opened == opened);
        found.iter().map(|header| header.flushed).max().unwrap_or(0)
    }

    /// Near the start of a segment the latest header since it was last free.
    pub(super) fn any_header(&mut self, segment: u32, before: u64) -> Option<Header> {
        let (start, end) = (self.start_of(segment), self.start_of(segment) + self.segment);
        let found = self.headers(start, end.min(start + 2 * PIECE), |header| header.opened >= before);
        found.into_iter().max_by_key(|header| header.sequence)
    }
}

/// Which segments are in use, and the sequence that opened each.
#[derive(Debug, Default)]
pub(super) struct Lives {
    by_segment: Vec<Option<u64>>,
    by_sequence: BTreeMap<u64, u32>,
}

impl Lives {
    pub(super) fn new(lives: Vec<Option<u64>>) -> Lives {
        let mut all = Lives { by_segment: vec![None; lives.len()], by_sequence: BTreeMap::new() };
        for (segment, life) in lives.into_iter().enumerate() {
            let Some(life) = life else { continue };
            // No append opens two.
            all.by_sequence.entry(life).or_insert_with(|| {
                all.by_segment[segment] = Some(life);
                segment as u32
            });
        }
        all
    }

    pub(super) fn of(&self, segment: u32) -> Option<u64> {
        self.by_segment.get(segment as usize).copied().flatten()
    }

    /// The segment that an append opened.
    pub(super) fn opened_by(&self, sequence: u64) -> Option<u32> {
        self.by_sequence.get(&sequence).copied()
    }

    /// In the order in which they were opened.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.by_sequence.iter().map(|(sequence, segment)| (*segment, *sequence))
    }
}

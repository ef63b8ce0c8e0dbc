//! Reads the log of a volume that is not open: single headers and indexes, and searches for them.

use std::collections::BTreeMap;

use peryton_units::Bytes;

use super::{
    HEADER, LONGEST_APPEND, NOWHERE,
    header::{self, AppendBody, AppendHeader, AppendMember, IndexEntry, IndexSpan},
    layout::LogLayout,
};
use crate::{
    block::{BLOCK, BLOCK_LEN},
    storage::{DeviceId, Storage},
    superblock::VolumeId,
};

/// The log is read in parts of this many bytes. No append is longer, so two parts hold a header if there is one.
const PIECE: u64 = LONGEST_APPEND;
/// How many bytes after a gap in a segment are searched for later appends. A damaged header hides one append.
const LOOK_AHEAD: u64 = 16 << 20;

/// The log on a device that is not in use. It trusts no content of the device.
pub struct LogScan<'a> {
    storage: &'a mut dyn Storage,
    layout: LogLayout,
    volume: VolumeId,
    /// One part of the log, its place, and which of its blocks could be read.
    piece: Vec<u8>,
    piece_at: Option<u64>,
    readable: Vec<bool>,
}

/// A valid index.
#[derive(Clone, Debug)]
pub struct FoundIndex {
    /// Place of the index in the log.
    pub at: u64,
    /// Sequence of its append.
    pub sequence: u64,
    /// What it covers.
    pub covered: IndexSpan,
}

impl<'a> LogScan<'a> {
    /// Makes a scan of the log with this layout. Reads nothing yet.
    pub fn new(storage: &'a mut dyn Storage, layout: LogLayout, volume: VolumeId) -> LogScan<'a> {
        LogScan { storage, layout, volume, piece: Vec::new(), piece_at: None, readable: Vec::new() }
    }

    /// The device that holds the log.
    pub fn device(&self) -> DeviceId {
        self.layout.pair().log
    }

    /// Size of a segment in bytes.
    pub fn segment_bytes(&self) -> u64 {
        self.layout.segment_bytes()
    }

    fn bytes(&self) -> u64 {
        self.layout.segment_bytes() * self.layout.segments()
    }

    /// The segment that a place in the log is in.
    pub fn segment_of(&self, at: u64) -> u32 {
        (at / self.segment_bytes()) as u32
    }

    /// Place of the start of a segment in the log.
    pub fn start_of(&self, segment: u32) -> u64 {
        u64::from(segment) * self.segment_bytes()
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> bool {
        self.storage.read(self.layout.pair().log, self.layout.log_at() + Bytes(at), into).is_ok()
    }

    /// The block at a place in the log; the place must be a multiple of the block size.
    fn block(&mut self, at: u64) -> Option<&[u8]> {
        if at >= self.bytes() || !at.is_multiple_of(BLOCK) {
            return None;
        }
        let start = at / PIECE * PIECE;
        if self.piece_at != Some(start) {
            self.piece_at = Some(start);
            let len = PIECE.min(self.bytes() - start) as usize;
            let mut piece = std::mem::take(&mut self.piece);
            piece.resize(len, 0);
            self.readable.clear();
            let whole = self.read(start, &mut piece);
            for (block, within) in piece.chunks_exact_mut(BLOCK_LEN).zip((start..).step_by(BLOCK_LEN)) {
                // One bad sector must not hide its neighbours, so the blocks are then read one by one.
                let read = whole || self.read(within, block);
                self.readable.push(read);
            }
            self.piece = piece;
        }
        let within = (at - start) as usize;
        self.readable[within / BLOCK_LEN].then(|| &self.piece[within..within + BLOCK_LEN])
    }

    /// The header of the append at a place, if there is one and the append lies within its segment.
    pub fn header(&mut self, at: u64) -> Option<AppendHeader> {
        let volume = self.volume;
        let header = self.block(at).and_then(|block| AppendHeader::decode(block, volume, at))?;
        (at % self.segment_bytes() + header.len <= self.segment_bytes()).then_some(header)
    }

    /// The header of the first append in a segment; reads nothing else.
    pub fn first_header(&mut self, segment: u32) -> Option<AppendHeader> {
        let at = self.start_of(segment);
        let mut block = [0; BLOCK_LEN];
        self.read(at, &mut block).then_some(())?;
        AppendHeader::decode(&block, self.volume, at).filter(|header| header.len <= self.segment_bytes())
    }

    /// Place of the append with this sequence that has data at `at`; [`NOWHERE`] if it is not found.
    pub fn append_of(&mut self, at: u64, sequence: u64) -> u64 {
        let last = at / BLOCK * BLOCK;
        let places = (0..LONGEST_APPEND / BLOCK).map_while(|back| last.checked_sub(back * BLOCK));
        let mut headers = places.filter_map(|at| self.header(at));
        headers.find(|header| header.sequence == sequence).map_or(NOWHERE, |header| header.at)
    }

    /// Whether the device can read all blocks of a range.
    pub fn is_readable(&mut self, from: u64, to: u64) -> bool {
        (from / BLOCK * BLOCK..to).step_by(BLOCK_LEN).all(|at| self.block(at).is_some())
    }

    /// Whether all data that the header lists is there, with correct checksums.
    pub fn is_whole(&mut self, header: &AppendHeader) -> bool {
        let members = match &header.body {
            AppendBody::Index(_) => return self.entries(header).is_some(),
            AppendBody::Data(members) => members,
        };
        members.iter().all(|member| self.is_member_whole(header.at, member))
    }

    /// Whether the data of a member of the append at this place is whole.
    pub fn is_member_whole(&mut self, at: u64, member: &AppendMember) -> bool {
        let mut next = at.saturating_add(u64::from(member.within));
        let end = next.saturating_add(u64::from(member.len));
        let mut sum = 0;
        while next < end {
            let start = next / BLOCK * BLOCK;
            let Some(block) = self.block(start) else { return false };
            let to = end.min(start + BLOCK);
            sum = crc32c::crc32c_append(sum, &block[(next - start) as usize..(to - start) as usize]);
            next = to;
        }
        sum == member.checksum
    }

    /// Whether the data at a place is what was appended there, in a segment that was opened with sequence `opened`. Without a readable
    /// header of its append it is not.
    pub fn is_piece_whole(&mut self, at: u64, len: u64, opened: u64) -> bool {
        let last = at / BLOCK * BLOCK;
        let places = (0..LONGEST_APPEND / BLOCK).map_while(|back| last.checked_sub(back * BLOCK));
        let mut headers = places.filter_map(|at| self.header(at)).filter(|header| header.opened == opened);
        let Some(AppendHeader { at: append_at, body: AppendBody::Data(members), .. }) = headers.next() else {
            return false;
        };
        drop(headers);
        let holds = |member: &&AppendMember| {
            let from = append_at + u64::from(member.within);
            from <= at && at + len <= from + u64::from(member.len)
        };
        members.iter().find(holds).is_some_and(|member| self.is_member_whole(append_at, member))
    }

    /// The entries of the index with this header; `None` if the append is not an index, or is not complete.
    pub fn entries(&mut self, header: &AppendHeader) -> Option<Vec<IndexEntry>> {
        let AppendBody::Index(index) = header.body else { return None };
        let volume = self.volume;
        let mut entries = Vec::new();
        for number in 0..header.len.saturating_sub(HEADER) / BLOCK {
            let block = self.block(header.at.saturating_add(HEADER + number * BLOCK))?;
            header::decode_entries(block, header.sequence, number as u32, volume, &mut entries)?;
        }
        (entries.len() == index.entries as usize).then_some(entries)
    }

    /// The index at a place; `None` if there is no complete one, or it is older than the present content of its
    /// segment.
    pub fn index(&mut self, at: u64, in_use: &SegmentsInUse) -> Option<FoundIndex> {
        let header = self.header(at).filter(|header| in_use.opened(self.segment_of(at)) == Some(header.opened))?;
        let AppendBody::Index(covered) = header.body else { return None };
        self.entries(&header)?;
        let sound = covered.first <= covered.upto && covered.upto <= header.sequence;
        sound.then_some(FoundIndex { at, sequence: header.sequence, covered })
    }

    /// The last header in a segment according to a binary search. Beyond a gap there may be later ones.
    pub fn last_header(&mut self, segment: u32, opened: u64) -> Option<AppendHeader> {
        let start = self.start_of(segment);
        let (mut low, mut high) = (0, self.segment_bytes().div_ceil(PIECE));
        let mut last = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let from = start + middle * PIECE;
            let to = (from + 2 * PIECE).min(start + self.segment_bytes());
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

    /// Every header in a range for which `asked` returns true, at any place.
    fn headers(&mut self, from: u64, to: u64, asked: impl Fn(&AppendHeader) -> bool) -> Vec<AppendHeader> {
        (from..to).step_by(BLOCK_LEN).filter_map(|at| self.header(at)).filter(|header| asked(header)).collect()
    }

    /// The highest sequence below which all appends were durable, according to the appends after a gap at `at`.
    pub fn flushed_behind(&mut self, at: u64, opened: u64) -> u64 {
        let end = self.start_of(self.segment_of(at)) + self.segment_bytes();
        let found = self.headers(at, end.min(at + LOOK_AHEAD), |header| header.opened == opened);
        found.iter().map(|header| header.flushed).max().unwrap_or(0)
    }

    /// The header with the highest sequence near the start of a segment, if the segment was opened with sequence
    /// `before` or later.
    pub fn any_header(&mut self, segment: u32, before: u64) -> Option<AppendHeader> {
        let (start, end) = (self.start_of(segment), self.start_of(segment) + self.segment_bytes());
        let found = self.headers(start, end.min(start + 2 * PIECE), |header| header.opened >= before);
        found.into_iter().max_by_key(|header| header.sequence)
    }
}

/// Which segments are in use, and the sequence that opened each of them.
#[derive(Debug, Default)]
pub struct SegmentsInUse {
    by_segment: Vec<Option<u64>>,
    by_sequence: BTreeMap<u64, u32>,
}

impl SegmentsInUse {
    /// Makes the table from the sequence that opened each segment in use.
    pub fn new(opened: Vec<Option<u64>>) -> SegmentsInUse {
        let mut all = SegmentsInUse { by_segment: vec![None; opened.len()], by_sequence: BTreeMap::new() };
        for (segment, opened) in opened.into_iter().enumerate() {
            let Some(opened) = opened else { continue };
            // No append opens two segments.
            all.by_sequence.entry(opened).or_insert_with(|| {
                all.by_segment[segment] = Some(opened);
                segment as u32
            });
        }
        all
    }

    /// The sequence that opened a segment; `None` if it is free.
    pub fn opened(&self, segment: u32) -> Option<u64> {
        self.by_segment.get(segment as usize).copied().flatten()
    }

    /// The segment that the append with this sequence opened.
    pub fn opened_by(&self, sequence: u64) -> Option<u32> {
        self.by_sequence.get(&sequence).copied()
    }

    /// The segments and the sequences that opened them, in the order in which they were opened.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.by_sequence.iter().map(|(sequence, segment)| (*segment, *sequence))
    }
}

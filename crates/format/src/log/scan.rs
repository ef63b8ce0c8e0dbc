//! Reads the log of a volume that is not open: single headers and indexes, and looks for them where they may be.

use std::collections::BTreeMap;

use peryton_units::Bytes;

use super::{
    HEADER, LONGEST_APPEND, NOWHERE,
    header::{self, AppendBody, AppendHeader, IndexEntry, IndexSpan},
    layout::LogLayout,
};
use crate::{
    block::{BLOCK, BLOCK_LEN},
    storage::{DeviceId, Storage},
    superblock::VolumeId,
};

/// The log is read in pieces of this size: no append is longer, so that two of them hold a header if there is one.
const PIECE: u64 = LONGEST_APPEND;
/// How far behind a hole in a segment is looked for what was written after it. A damaged header hides one append.
const LOOK_AHEAD: u64 = 16 << 20;

/// The log on a device that is not in use. Whatever the device holds, nothing here trusts it.
pub struct LogScan<'a> {
    storage: &'a mut dyn Storage,
    layout: LogLayout,
    volume: VolumeId,
    /// One piece of the log, where it begins, and which of its blocks could be read.
    piece: Vec<u8>,
    piece_at: Option<u64>,
    readable: Vec<bool>,
}

/// An index that can be trusted.
#[derive(Clone, Debug)]
pub struct FoundIndex {
    /// Where in the log it is.
    pub at: u64,
    /// The sequence of its append.
    pub sequence: u64,
    /// What it covers.
    pub covered: IndexSpan,
}

impl<'a> LogScan<'a> {
    /// A scan of the log that is laid out so. Nothing is read yet.
    pub fn new(storage: &'a mut dyn Storage, layout: LogLayout, volume: VolumeId) -> LogScan<'a> {
        LogScan { storage, layout, volume, piece: Vec::new(), piece_at: None, readable: Vec::new() }
    }

    /// The device that the log is on.
    pub fn device(&self) -> DeviceId {
        self.layout.pair().log
    }

    /// How long a segment is.
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

    /// Where in the log a segment begins.
    pub fn start_of(&self, segment: u32) -> u64 {
        u64::from(segment) * self.segment_bytes()
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> bool {
        self.storage.read(self.layout.pair().log, self.layout.log_at() + Bytes(at), into).is_ok()
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
            let mut piece = std::mem::take(&mut self.piece);
            piece.resize(len, 0);
            self.readable.clear();
            let whole = self.read(start, &mut piece);
            for (block, within) in piece.chunks_exact_mut(BLOCK_LEN).zip((start..).step_by(BLOCK_LEN)) {
                // One bad sector must not hide its neighbours.
                let read = whole || self.read(within, block);
                self.readable.push(read);
            }
            self.piece = piece;
        }
        let within = (at - start) as usize;
        self.readable[within / BLOCK_LEN].then(|| &self.piece[within..within + BLOCK_LEN])
    }

    /// The header of the append at a place, if there is one and it lies within its segment.
    pub fn header(&mut self, at: u64) -> Option<AppendHeader> {
        let volume = self.volume;
        let header = self.block(at).and_then(|block| AppendHeader::decode(block, volume, at))?;
        (at % self.segment_bytes() + header.len <= self.segment_bytes()).then_some(header)
    }

    /// The header of the first append in a segment; nothing else is read.
    pub fn first_header(&mut self, segment: u32) -> Option<AppendHeader> {
        let at = self.start_of(segment);
        let mut block = [0; BLOCK_LEN];
        self.read(at, &mut block).then_some(())?;
        AppendHeader::decode(&block, self.volume, at).filter(|header| header.len <= self.segment_bytes())
    }

    /// Where the append with this sequence is, of which some data is at `at`; [`NOWHERE`] if it is not found.
    pub fn append_of(&mut self, at: u64, sequence: u64) -> u64 {
        let last = at / BLOCK * BLOCK;
        let places = (0..LONGEST_APPEND / BLOCK).map_while(|back| last.checked_sub(back * BLOCK));
        let mut headers = places.filter_map(|at| self.header(at));
        headers.find(|header| header.sequence == sequence).map_or(NOWHERE, |header| header.at)
    }

    /// Whether the device can read all of a range of blocks.
    pub fn is_readable(&mut self, from: u64, to: u64) -> bool {
        (from / BLOCK * BLOCK..to).step_by(BLOCK_LEN).all(|at| self.block(at).is_some())
    }

    /// Whether everything is there that the header lists, with the right checksums.
    pub fn is_whole(&mut self, header: &AppendHeader) -> bool {
        let members = match &header.body {
            AppendBody::Index(_) => return self.entries(header).is_some(),
            AppendBody::Data(members) => members,
        };
        members.iter().all(|member| {
            let mut next = header.at.saturating_add(u64::from(member.within));
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
        })
    }

    /// The entries of the index with this header; `None` if the append is no index, or not all of it is there.
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

    /// The index at a place; `None` if there is none that is whole, or it is older than its segment's present content.
    pub fn index(&mut self, at: u64, in_use: &SegmentsInUse) -> Option<FoundIndex> {
        let header = self.header(at).filter(|header| in_use.opened(self.segment_of(at)) == Some(header.opened))?;
        let AppendBody::Index(covered) = header.body else { return None };
        self.entries(&header)?;
        let sound = covered.first <= covered.upto && covered.upto <= header.sequence;
        sound.then_some(FoundIndex { at, sequence: header.sequence, covered })
    }

    /// The last header in a segment that is found by halving. If there are holes behind it, there may be later ones.
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

    /// Every header in a range of which `asked` is true, wherever it is.
    fn headers(&mut self, from: u64, to: u64, asked: impl Fn(&AppendHeader) -> bool) -> Vec<AppendHeader> {
        (from..to).step_by(BLOCK_LEN).filter_map(|at| self.header(at)).filter(|header| asked(header)).collect()
    }

    /// The highest sequence below which all appends were durable, according to the appends behind a hole at `at`.
    pub fn flushed_behind(&mut self, at: u64, opened: u64) -> u64 {
        let end = self.start_of(self.segment_of(at)) + self.segment_bytes();
        let found = self.headers(at, end.min(at + LOOK_AHEAD), |header| header.opened == opened);
        found.iter().map(|header| header.flushed).max().unwrap_or(0)
    }

    /// The header with the highest sequence near the start of a segment, of those opened with sequence `before` or later.
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
    /// From the sequence that opened each segment, as far as it is in use.
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

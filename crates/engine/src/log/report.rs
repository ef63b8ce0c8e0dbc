//! A report of the content of a log that is not open: what opening it would find. Nothing is written.

use std::ops::Range;

use peryton_format::{
    log::header::{AppendBody, AppendHeader, AppendMember},
    log::ring::{CommitRecord, SegmentUse},
    storage::Storage,
    superblock::VolumeId,
};
use peryton_units::Bytes;
use serde::Serialize;

use crate::{
    api::error::OpenError,
    api::location::{MapOf, MapPart, MapRow},
    log::drive::LogDrive,
    log::found::Contents,
};

/// The content of a log on its device. All places and lengths are in bytes; places are counted from the start of the
/// device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogReport {
    /// Number of the newest commit in the ring.
    pub newest_commit: u64,
    /// Number of the first commit that is still needed.
    pub first_needed_commit: u64,
    /// The records of the needed commits, oldest first.
    pub records: Vec<LogRecord>,
    /// Length of a segment.
    pub segment_bytes: u64,
    /// The segments in use, in the order in which they were opened.
    pub segments: Vec<SegmentReport>,
    /// The indexes of the appends in them, oldest first.
    pub indexes: Vec<IndexReport>,
    /// Appends of data that no index covers, in order; opening the volume replays them.
    pub appends: Vec<AppendReport>,
    /// Sequence of the first append that is absent: the log ends before it.
    pub cut: u64,
}

/// A segment in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentReport {
    /// Number of the segment, from 0.
    pub segment: u32,
    /// Place of the segment's first byte.
    pub at: u64,
    /// The sequence of its first append.
    pub opened: u64,
}

/// An index of appends. It covers the sequences from `first` up to but not including `upto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IndexReport {
    /// Sequence of the index itself.
    pub sequence: u64,
    /// Place of the index.
    pub at: u64,
    /// The first sequence that it covers.
    pub first: u64,
    /// The sequence after the last that it covers.
    pub upto: u64,
    /// Number of writes that it lists.
    pub entries: u32,
}

/// An append of data: one or more host writes, or parts of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AppendReport {
    /// Sequence of the append.
    pub sequence: u64,
    /// Place of its header.
    pub at: u64,
    /// Its length including the header.
    pub len: u64,
    /// The writes in it.
    pub writes: Vec<WriteReport>,
}

/// One host write, or a part of one, in an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WriteReport {
    /// Offset on the volume.
    pub offset: u64,
    /// Length of the data.
    pub len: u64,
    /// Place of the data on the log device.
    pub at: u64,
}

/// A record of a commit. Places and lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum LogRecord {
    /// The primary has newer data for the range than every append before sequence `before`.
    Void {
        /// Offset on the volume.
        offset: u64,
        /// Length of the range.
        len: u64,
        /// The first sequence that is not affected.
        before: u64,
    },
    /// The appends from sequence `from` up to but not including `to` are absent.
    Absent {
        /// The first absent sequence.
        from: u64,
        /// The sequence after the last absent one.
        to: u64,
    },
    /// Of this segment only the pieces in the `Left` records that follow are needed. They are newer than every append
    /// before sequence `as_of`.
    Listed {
        /// Number of the segment.
        segment: u32,
        /// Sequence of the append that opened the segment.
        opened: u64,
        /// The first sequence that may be newer than the pieces.
        as_of: u64,
    },
    /// One piece of the `Listed` record before it.
    Left {
        /// Offset on the volume.
        offset: u64,
        /// Length of the data.
        len: u64,
        /// Place of the data on the log device.
        at: u64,
    },
}

impl LogDrive {
    /// Reports the content of the log and which parts of the volume are newest there. `clean`: the volume was closed in
    /// good order.
    pub(crate) fn report(
        &mut self,
        storage: &mut dyn Storage,
        volume: VolumeId,
        clean: bool,
    ) -> Result<(LogReport, Vec<MapRow>), OpenError> {
        let log_at = self.log_at;
        let place = |at: u64| log_at + at;
        let mut appends = Vec::new();
        let recorded = self.read_ring(storage, volume, None)?;
        let found =
            self.find(storage, (&recorded, volume), clean, &mut |header| appends.extend(append(header, place)))?;
        let Contents { lives, chain, cut, .. } = found;
        let segments = lives.iter().filter(|(segment, opened)| {
            let held = recorded.newest.segments[*segment as usize];
            *opened < cut || held == SegmentUse::InUse { opened: *opened }
        });
        let segment_bytes = self.log.segment_bytes();
        let segments = segments.map(|(segment, opened)| {
            let at = place(u64::from(segment) * segment_bytes);
            SegmentReport { segment, at, opened }
        });
        let indexes = chain.iter().map(|index| {
            let covered = index.covered;
            let (first, upto, entries) = (covered.first, covered.upto, covered.entries);
            IndexReport { sequence: index.sequence, at: place(index.at), first, upto, entries }
        });
        let report = LogReport {
            newest_commit: recorded.newest.head.number,
            first_needed_commit: recorded.newest.head.first_needed,
            records: recorded.records.iter().map(|record| log_record(*record, place)).collect(),
            segment_bytes,
            segments: segments.collect(),
            indexes: indexes.collect(),
            appends,
            cut,
        };
        Ok((report, self.newest()))
    }

    /// The parts of the volume whose newest copy is in the log.
    fn newest(&self) -> Vec<MapRow> {
        let mut rows = Vec::new();
        self.map.walk_all(self.size, |from, to, at| self.add_row(&mut rows, from..to, at));
        rows
    }

    /// The same of so many blocks from an offset on.
    pub(in crate::log) fn rows_from(&self, Bytes(from): Bytes, most: u32) -> MapPart {
        let to = from.saturating_add(u64::from(most) * self.map.block_bytes()).min(self.size);
        let mut rows = Vec::new();
        self.map.walk(from, to, |from, to, at| self.add_row(&mut rows, from..to, at));
        MapPart { of: MapOf::LogRanges, rows, next: (to < self.size).then_some(Bytes(to)) }
    }

    /// Adds a range that is in the log at a place there, if it is.
    fn add_row(&self, rows: &mut Vec<MapRow>, range: Range<u64>, at: Option<u64>) {
        let Some(at) = at.map(|at| self.log_place(at).1.0) else { return };
        let (offset, len) = (range.start, range.end - range.start);
        match rows.last_mut() {
            Some(last) if last.offset + last.len == offset && last.at.map(|before| before + last.len) == Some(at) => {
                last.len += len;
            }
            _ => {
                let device = Some(self.log_device.index());
                rows.push(MapRow { offset, len, device, at: Some(at), dirty: true, ..MapRow::default() });
            }
        }
    }
}

/// Reports a data append; `None` for an index, which the report lists separately.
fn append(header: &AppendHeader, place: impl Fn(u64) -> u64) -> Option<AppendReport> {
    let AppendBody::Data(members) = &header.body else { return None };
    let write = |member: &AppendMember| {
        let at = place(header.at + u64::from(member.within));
        WriteReport { offset: member.offset, len: u64::from(member.len), at }
    };
    let writes = members.iter().map(write).collect();
    Some(AppendReport { sequence: header.sequence, at: place(header.at), len: header.len, writes })
}

fn log_record(record: CommitRecord, place: impl Fn(u64) -> u64) -> LogRecord {
    match record {
        CommitRecord::Void { offset, len, before } => LogRecord::Void { offset, len, before },
        CommitRecord::Absent { from, to, .. } => LogRecord::Absent { from, to },
        CommitRecord::Listed { segment, opened, as_of, .. } => LogRecord::Listed { segment, opened, as_of },
        CommitRecord::Left { offset, at, len } => LogRecord::Left { offset, len, at: place(at) },
    }
}

//! What is in a log that is not open, as opening it would find it. Nothing is written.

use peryton_format::{
    log::header::{AppendBody, AppendHeader, AppendMember},
    log::ring::{CommitRecord, SegmentUse},
    storage::Storage,
    superblock::VolumeId,
};
use serde::Serialize;

use crate::{api::error::OpenError, api::location::MapRow, log::drive::LogDrive, log::found::Contents};

/// A log, as it lies on its device. Places are counted from the start of the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogReport {
    /// The newest commit in the ring.
    pub newest_commit: u64,
    /// The first one that is still needed.
    pub first_needed_commit: u64,
    /// What they say besides the state of the segments.
    pub records: Vec<LogRecord>,
    /// How long a segment is.
    pub segment_bytes: u64,
    /// Those in use, in the order in which they were opened.
    pub segments: Vec<SegmentReport>,
    /// The indexes of what is in them, oldest first.
    pub indexes: Vec<IndexReport>,
    /// Appends of data that no index covers, in order: what is replayed.
    pub appends: Vec<AppendReport>,
    /// The sequence of the first append that is not there.
    pub cut: u64,
}

/// A segment in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentReport {
    /// Which.
    pub segment: u32,
    /// Where it begins.
    pub at: u64,
    /// The sequence of its first append.
    pub opened: u64,
}

/// An index of appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IndexReport {
    /// Its own sequence.
    pub sequence: u64,
    /// Where it is.
    pub at: u64,
    /// The first sequence that it covers.
    pub first: u64,
    /// The sequence after the last.
    pub upto: u64,
    /// How many writes it lists.
    pub entries: u32,
}

/// An append: several writes, or parts of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AppendReport {
    /// Its sequence.
    pub sequence: u64,
    /// Where it is.
    pub at: u64,
    /// How long, with its header.
    pub len: u64,
    /// What it holds.
    pub writes: Vec<WriteReport>,
}

/// One write in an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WriteReport {
    /// Where on the volume.
    pub offset: u64,
    /// How long.
    pub len: u64,
    /// Where its data is.
    pub at: u64,
}

/// What a commit says besides the state of the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum LogRecord {
    /// The primary has newer data for the range than any append before this sequence.
    Void {
        /// Where on the volume.
        offset: u64,
        /// How long.
        len: u64,
        /// The sequence.
        before: u64,
    },
    /// These appends do not count.
    Absent {
        /// The first.
        from: u64,
        /// The sequence after the last.
        to: u64,
    },
    /// Of a segment only the pieces that follow count, as newer than any append before this sequence.
    Listed {
        /// Which segment.
        segment: u32,
        /// The sequence that opened it.
        opened: u64,
        /// The sequence.
        as_of: u64,
    },
    /// One of them.
    Left {
        /// Where on the volume.
        offset: u64,
        /// How long.
        len: u64,
        /// Where its data is.
        at: u64,
    },
}

impl LogDrive {
    /// What the log holds, and which parts of the volume are newest there. `clean`: it was closed in good order.
    pub(crate) fn report(
        &mut self,
        storage: &mut dyn Storage,
        volume: VolumeId,
        clean: bool,
    ) -> Result<(LogReport, Vec<MapRow>), OpenError> {
        let log_at = self.log_at;
        let place = |at: u64| log_at + at;
        let mut appends = Vec::new();
        let recorded = self.read_ring(storage, volume)?;
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

    /// The parts of the volume that are newest in the log.
    fn newest(&self) -> Vec<MapRow> {
        let mut rows: Vec<MapRow> = Vec::new();
        self.map.walk_all(self.size, |from, to, at| {
            let Some(at) = at.map(|at| self.log_place(at).1.0) else { return };
            let len = to - from;
            if let Some(last) = rows.last_mut()
                && last.offset + last.len == from
                && last.at.map(|before| before + last.len) == Some(at)
            {
                last.len += len;
                return;
            }
            let device = Some(self.log_device.index());
            rows.push(MapRow { offset: from, len, device, at: Some(at), dirty: true, lost: false });
        });
        rows
    }
}

/// Indexes are listed elsewhere.
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

//! A log before a primary (Griffin): writes are appended to the log device, and migrate to the primary later, once
//! however often they were overwritten meanwhile.
//!
//! `log.rs` gives out space, `append.rs` gathers writes and appends them, `block_map.rs` knows the newest copies,
//! `migrate.rs` empties the log when `triggers.rs` says so, `direct.rs` writes to the primary what cannot or should not
//! be logged, and `commit.rs` makes durable what the log's own records do not say.
//!
//! `layout.rs` divides the devices; `degraded.rs` goes on with one of the two devices.
//!
//! The format on disk, and the scan that finds it again, are `peryton_format::log`. `index.rs` lists for a restart what was
//! appended, `restore.rs` makes a running drive of what the scan finds, and `report.rs` a list.
//!
//! What keeps the newest copy the newest:
//! * Appends take effect in the order in which they lie in the log, so that a replay of the log comes to the same map,
//!   and stops at the first hole: all that a flush covered comes before it. An append that fails is written to the
//!   primary instead, and a commit says that it is absent.
//! * A write to the primary waits for appends and migrations in flight of the same range, and appends wait for it.
//! * A segment is used again only after the primary was flushed, and the log, which may hold what superseded its content;
//!   after that a commit that says so is durable; and no read of it is in flight. Segments are emptied oldest first; where a failed device leaves something behind, the commit lists it.
//! * A discard of what the log holds zeroes the primary before the log's copy is given up, for what lies beneath is
//!   older.

mod append;
mod block_map;
mod commit;
mod config;
mod degraded;
mod direct;
mod index;
mod invariants;
mod layout;
mod log;
mod migrate;
mod parked;
mod placement;
mod report;
mod restore;
mod selective;
pub(crate) mod step;
mod triggers;

pub(crate) use layout::lay_out;

pub use report::{AppendReport, IndexReport, LogRecord, LogReport, SegmentReport, WriteReport};

pub use config::{LogCaching, Logging as Devices, LoggingTuning, MOST_GATHERED, READ_SAMPLE, Triggers};

use peryton_format::{
    layout::MetadataLayout,
    log::{HEADER, LONGEST_APPEND, SECTOR, layout::LogLayout},
    superblock::VolumeId,
};
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    command::{Buffer, Cause, Commands, DeviceId, Request},
    error::RequestError,
    io::RequestIndex,
    logging::step::{Core, Step},
};
use append::Appends;
use block_map::BlockMap;
use commit::Commit;
use degraded::Gone;
use direct::{Directs, Piece, Way};
use index::Indexes;
use log::Log;
use migrate::Migration;
use parked::Parking;
use selective::Overwrites;
use triggers::Since;

/// The length of a buffer: the longest append, and the longest read or write of a migration.
pub(crate) const BUFFER: u64 = LONGEST_APPEND;

#[derive(Debug)]
pub(crate) struct Logging {
    pub(crate) primary: DeviceId,
    pub(crate) log_device: DeviceId,
    size: u64,
    block: u64,
    /// Where the first segment begins on the log device.
    log_at: u64,
    /// What the devices know it by; a simulated drive has no name.
    volume: Option<VolumeId>,
    /// The longest piece of a write that one append takes.
    most_record: u64,
    map: BlockMap,
    log: Log,
    appends: Appends,
    index: Indexes,
    directs: Directs,
    parked: Parking,
    migration: Migration,
    since: Since,
    commit: Commit,
    overwrites: Overwrites,
    gone: Gone,
    layout: LogLayout,
}

impl Logging {
    pub(crate) fn new(layout: LogLayout) -> Logging {
        let Devices { primary, log, block } = layout.pair().into();
        let (size, segment, count) = (layout.volume_size().0, layout.segment_bytes(), layout.segments());
        let most = segment.min(BUFFER) - HEADER - SECTOR;
        Logging {
            primary,
            log_device: log,
            size,
            block: block.0,
            log_at: layout.log_at().0,
            volume: None,
            most_record: most & !(block.0 - 1),
            map: BlockMap::new(size, block.0.trailing_zeros()),
            log: Log::new(segment, count),
            appends: Appends::new(),
            index: Indexes::new(),
            directs: Directs::new(),
            parked: Parking::default(),
            migration: Migration::new(),
            since: Since::default(),
            commit: Commit::new(layout.ring_at(), layout.ring_bytes(), count as usize),
            overwrites: Overwrites::new(),
            gone: Gone::default(),
            layout,
        }
    }

    /// Byte 0 of the volume is not byte 0 of the primary: alone, it must not look like a file system while the log holds
    /// newer data.
    fn primary_place(&self, offset: u64) -> (DeviceId, Bytes) {
        (self.primary, MetadataLayout::bare().data_at + Bytes(offset))
    }

    fn log_place(&self, at: u64) -> (DeviceId, Bytes) {
        (self.log_device, Bytes(self.log_at + at))
    }

    /// Takes a read, write or discard that lies within the volume and is not empty.
    #[inline]
    pub(super) fn take(
        &mut self,
        core: &mut Core,
        now: Nanos,
        request: RequestIndex,
        asked: Request,
        out: &mut Commands,
    ) {
        match asked.op {
            Op::Read => self.read(core, now, request, asked, out),
            Op::Write => self.write(core, now, request, asked, out),
            Op::Discard => self.discard(core, now, request, asked, out),
            Op::Flush => unreachable!("a flush has no range"),
        }
    }

    /// Reads the newest copies, wherever they are: neighbours on a device with one command.
    #[inline]
    fn read(&mut self, core: &mut Core, now: Nanos, request: RequestIndex, asked: Request, out: &mut Commands) {
        let (from, to) = (asked.offset.0, asked.offset.0 + asked.len.0);
        let (log_device, log_at, (primary, data_at)) = (self.log_device, self.log_at, self.primary_place(0));
        let gone = self.gone;
        let Logging { map, log, .. } = self;
        let border = log.segment_bytes() - 1;
        let mut from_log = 0;
        let mut issue = |from: u64, to: u64, place: Option<u64>, core: &mut Core| {
            core.add_part(request);
            let buffer = Buffer::Request { id: core.id_of(request), offset: Bytes(from) - asked.offset };
            let len = Bytes(to - from);
            match place {
                _ if gone.has(place) => core.part_done(request, Err(RequestError::Lost), out),
                None => {
                    let purpose = Step::Host { request };
                    core.read((primary, data_at + Bytes(from)), len, buffer, purpose, Cause::Host, out);
                }
                Some(at) => {
                    let segment = log.segment_of(at);
                    log.segments[segment as usize].readers += 1;
                    from_log += len.0;
                    let purpose = Step::Read { request, segment };
                    core.read((log_device, Bytes(log_at + at)), len, buffer, purpose, Cause::Host, out);
                }
            }
        };
        let mut run: Option<(u64, u64, Option<u64>)> = None;
        map.walk(from, to, |low, high, place| match &mut run {
            Some((start, end, before)) if continues(*before, *end - *start, place, border) => *end = high,
            _ => {
                if let Some((start, end, place)) = run.replace((low, high, place)) {
                    issue(start, end, place, core);
                }
            }
        });
        if let Some((start, end, place)) = run {
            issue(start, end, place, core);
        }
        let books = core.ledger.logging_mut();
        books.reads += 1;
        books.bytes_read += asked.len.0;
        books.reads_from_log += u64::from(from_log > 0);
        books.bytes_read_from_log += from_log;
        self.since.reads += 1;
        self.since.reads_from_log += u64::from(from_log > 0);
        if core.tuning.logging.caching.is_selective() {
            for block in from / self.block..to.div_ceil(self.block) {
                self.overwrites.read(block);
            }
        }
        if from_log > 0 {
            self.migrate_if_due(core, now, out);
        }
    }

    /// Cuts a write into pieces that an append can hold, and where selective caching treats neighbours differently.
    #[inline]
    fn write(&mut self, core: &mut Core, now: Nanos, request: RequestIndex, asked: Request, out: &mut Commands) {
        core.ledger.logging_mut().bytes_written_by_host += asked.len.0;
        let (start, end) = (asked.offset.0, asked.offset.0 + asked.len.0);
        let threshold = match core.tuning.logging.caching {
            // A threshold of zero is full caching (Griffin, section 5.1).
            LogCaching::Full | LogCaching::Selective { overwrite_ratio_ppm: 0 } => None,
            // The log is all there is.
            _ if self.gone.primary => None,
            LogCaching::Selective { overwrite_ratio_ppm } => Some(overwrite_ratio_ppm),
        };
        let mut next = start;
        while next < end {
            let first = next / self.block;
            let (way, run_end) = match threshold {
                None => (Way::Log, end),
                Some(threshold) => {
                    let logged = self.overwrites.written(first, threshold);
                    (if logged { Way::Log } else { Way::Direct }, self.block * (first + 1))
                }
            };
            let mut to = run_end.min(end);
            if let Some(threshold) = threshold {
                while to < end && to - next < self.most_record {
                    let logged = self.overwrites.peek(to / self.block, threshold);
                    if logged != (way == Way::Log) {
                        break;
                    }
                    self.overwrites.written(to / self.block, threshold);
                    to = (to + self.block).min(end);
                }
            }
            if way == Way::Log && to - next > self.most_record {
                to = (next & !(self.block - 1)) + self.most_record;
            }
            let piece = Piece { request, offset: next, len: to - next, buffer: next - start };
            core.add_part(request);
            self.place(core, now, piece, way, out);
            next = to;
        }
    }

    /// Discards the blocks that are fully covered; for the rest it is a hint not worth taking.
    fn discard(&mut self, core: &mut Core, now: Nanos, request: RequestIndex, asked: Request, out: &mut Commands) {
        let from = asked.offset.0.next_multiple_of(self.block);
        let to = (asked.offset.0 + asked.len.0) & !(self.block - 1);
        if from < to {
            core.add_part(request);
            let piece = Piece { request, offset: from, len: to - from, buffer: 0 };
            self.place(core, now, piece, Way::Discard, out);
        }
    }
}

/// Whether a part lies right behind what is being read: on the primary, or in the same segment of the log.
#[inline]
fn continues(run: Option<u64>, len: u64, next: Option<u64>, border: u64) -> bool {
    match (run, next) {
        (None, None) => true,
        (Some(run), Some(next)) => run + len == next && next & border != 0,
        _ => false,
    }
}

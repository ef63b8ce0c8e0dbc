//! The parts of a drive with a log before a primary, and how it cuts requests into pieces.

use peryton_format::{
    log::layout::LogLayout,
    log::{HEADER, SECTOR},
    superblock::VolumeId,
};
use peryton_units::{Bytes, Op};

use crate::{
    api::command::{Buffer, Cause, DeviceId, Request},
    api::error::RequestError,
    api::logging::{LogCaching, Logging},
    io::RequestIndex,
    log::append::Appends,
    log::block_map::BlockMap,
    log::damage::OnDamage,
    log::deferred::DeferredPieces,
    log::direct::{Directs, Past, Piece, Way},
    log::doubts::Stopped,
    log::index::Indexes,
    log::journal::Commit,
    log::layout::BUFFER,
    log::migration::Migration,
    log::mode::{LogFenced, Since},
    log::primaries::LogPrimaries,
    log::ready::{Ready, Turn},
    log::segments::Segments,
    log::selective::Overwrites,
    log::step::{LogCall, LogStep},
    log::verifying::{Verifying, Waiter},
};

#[derive(Debug)]
pub(crate) struct LogDrive {
    pub(in crate::log) primaries: LogPrimaries,
    pub(crate) log_device: DeviceId,
    pub(in crate::log) size: u64,
    pub(in crate::log) block: u64,
    /// The place of the first segment on the log device.
    pub(in crate::log) log_at: u64,
    /// The volume's identity on the devices; a simulated drive has none.
    pub(in crate::log) volume: Option<VolumeId>,
    /// The most bytes of a write that one append takes.
    pub(in crate::log) most_record: u64,
    pub(in crate::log) map: BlockMap,
    pub(in crate::log) log: Segments,
    pub(in crate::log) appends: Appends,
    pub(in crate::log) index: Indexes,
    pub(in crate::log) directs: Directs,
    pub(in crate::log) deferred: DeferredPieces,
    pub(in crate::log) migration: Migration,
    pub(in crate::log) since: Since,
    pub(in crate::log) commit: Commit,
    pub(in crate::log) overwrites: Overwrites,
    pub(in crate::log) gone: LogFenced,
    /// A flush has failed: nothing goes on before the volume is opened again.
    pub(in crate::log) stopped: Stopped,
    pub(in crate::log) layout: LogLayout,
    pub(in crate::log) on_damage: OnDamage,
    pub(in crate::log) verifying: Verifying,
    pub(in crate::log) ready: Ready,
    /// What has lost its checksums is taken as it is.
    pub(in crate::log) trusts_unverifiable: bool,
    /// There is such data.
    pub(in crate::log) has_unverifiable: bool,
}

impl LogDrive {
    pub(in crate::log) fn log_place(&self, at: u64) -> (DeviceId, Bytes) {
        (self.log_device, Bytes(self.log_at + at))
    }

    pub(crate) fn new(layout: LogLayout) -> LogDrive {
        let Logging { log, block, .. } = layout.pair();
        let (size, segment, count) = (layout.volume_size().0, layout.segment_bytes(), layout.segments());
        let most = segment.min(BUFFER) - HEADER - SECTOR;
        LogDrive {
            primaries: LogPrimaries::new(&layout),
            log_device: log,
            size,
            block: block.0,
            log_at: layout.log_at().0,
            volume: None,
            most_record: most & !(block.0 - 1),
            map: BlockMap::new(size, block.0.trailing_zeros()),
            log: Segments::new(segment, count),
            appends: Appends::new(),
            index: Indexes::new(),
            directs: Directs::new(),
            deferred: DeferredPieces::default(),
            migration: Migration::new(),
            since: Since::default(),
            commit: Commit::new(layout.ring_at(), layout.ring_bytes(), count as usize),
            overwrites: Overwrites::new(),
            gone: LogFenced::default(),
            stopped: Stopped::default(),
            layout,
            on_damage: OnDamage::Refuse,
            verifying: Verifying::default(),
            ready: Ready::default(),
            trusts_unverifiable: false,
            has_unverifiable: false,
        }
    }

    /// Carries out a read, write or discard that lies within the volume and is not empty.
    #[inline]
    pub(in crate::log) fn take(&mut self, io: &mut LogCall, request: RequestIndex, asked: Request) {
        if self.stopped.any() {
            io.add_part(request);
            return io.part_done(request, self.answer());
        }
        match asked.op {
            Op::Read => self.read(io, request, asked),
            Op::Write => self.write(io, request, asked),
            Op::Discard => self.discard(io, request, asked),
            Op::Flush => unreachable!("a flush has no range"),
        }
    }

    /// Reads the newest copies. Parts that are neighbours on one device are read with one command.
    #[inline]
    pub(in crate::log) fn read(&mut self, io: &mut LogCall, request: RequestIndex, asked: Request) {
        let (from, to) = (asked.offset.0, asked.offset.0 + asked.len.0);
        let (log_device, log_at) = (self.log_device, self.log_at);
        let gone = self.gone;
        let LogDrive { map, log, primaries, .. } = self;
        let border = log.segment_bytes() - 1;
        let mut from_log = 0;
        let mut waiting: Vec<Waiter> = Vec::new();
        let mut issue = |from: u64, to: u64, place: Option<u64>, io: &mut LogCall| {
            io.add_part(request);
            let buffer = Buffer::Request { id: io.id_of(request), offset: Bytes(from) - asked.offset };
            let len = Bytes(to - from);
            match place {
                Some(_) if gone.log => io.part_done(request, Err(RequestError::Lost)),
                None if primaries.is_gone(from) => io.part_done(request, Err(RequestError::Lost)),
                Some(at) if log.is_damaged(at, len.0) => io.part_done(request, Err(RequestError::Lost)),
                Some(at) if log.is_unverified(at, len.0) => {
                    let segment = log.segment_of(at);
                    log.segments[segment as usize].readers += 1;
                    from_log += len.0;
                    waiting.push(Waiter { request, at, len: len.0, buffer: from - asked.offset.0 });
                }
                None => {
                    let purpose = LogStep::Host { request };
                    io.read(primaries.place_of(from), len, buffer, purpose, Cause::Host);
                }
                Some(at) => {
                    let segment = log.segment_of(at);
                    log.segments[segment as usize].readers += 1;
                    from_log += len.0;
                    let purpose = LogStep::Read { request, segment };
                    io.read((log_device, Bytes(log_at + at)), len, buffer, purpose, Cause::Host);
                }
            }
        };
        let mut run: Option<(u64, u64, Option<u64>)> = None;
        map.walk(from, to, |low, high, place| match &mut run {
            Some((start, end, before))
                if continues(*before, *end - *start, place, border) && !primaries.begins(low) =>
            {
                *end = high;
            }
            _ => {
                if let Some((start, end, place)) = run.replace((low, high, place)) {
                    issue(start, end, place, io);
                }
            }
        });
        if let Some((start, end, place)) = run {
            issue(start, end, place, io);
        }
        for waiter in waiting {
            self.wait_until_verified(io, waiter);
        }
        let stats = io.stats.logging_mut();
        stats.reads += 1;
        stats.bytes_read += asked.len.0;
        stats.reads_from_log += u64::from(from_log > 0);
        stats.bytes_read_from_log += from_log;
        self.since.reads += 1;
        self.since.reads_from_log += u64::from(from_log > 0);
        if io.tuning.logging.caching.is_selective() {
            for block in from / self.block..to.div_ceil(self.block) {
                self.overwrites.read(block);
            }
        }
        if from_log > 0 {
            self.ready.push(Turn::Trigger);
        }
    }

    /// Cuts a write into pieces that each fit an append, and where selective caching sends neighbouring blocks to
    /// different devices.
    #[inline]
    pub(in crate::log) fn write(&mut self, io: &mut LogCall, request: RequestIndex, asked: Request) {
        io.stats.logging_mut().bytes_written_by_host += asked.len.0;
        let (start, end) = (asked.offset.0, asked.offset.0 + asked.len.0);
        let threshold = match io.tuning.logging.caching {
            // A threshold of zero is full caching (Griffin, section 5.1).
            LogCaching::Full | LogCaching::Selective { overwrite_ratio_ppm: 0 } => None,
            LogCaching::Selective { overwrite_ratio_ppm } => Some(overwrite_ratio_ppm),
        };
        let mut next = start;
        while next < end {
            let primary = *self.primaries.of(next);
            let end = end.min(primary.to);
            if primary.gone && !self.primaries.all_gone() {
                // The log is for the others: what it took for this one would stay in it.
                io.add_part(request);
                io.part_done(request, Err(RequestError::Device));
                next = end;
                continue;
            }
            // Without any primary, the log takes every write.
            let threshold = threshold.filter(|_| !primary.gone);
            let first = next / self.block;
            let (mut way, run_end) = match threshold {
                None => (Way::Log, end),
                Some(threshold) => {
                    let logged = self.overwrites.written(first, threshold);
                    (if logged { Way::Log } else { Way::Direct(Past::Selective) }, self.block * (first + 1))
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
            if way == Way::Log && self.is_outrun(io, primary) {
                way = Way::Direct(Past::Outrun);
            }
            if way == Way::Log && to - next > self.most_record {
                to = (next & !(self.block - 1)) + self.most_record;
            }
            let piece = Piece { request, offset: next, len: to - next, buffer: next - start };
            io.add_part(request);
            self.place(io, piece, way);
            next = to;
        }
    }

    /// Discards the blocks that the request covers fully. The engine ignores the rest: a discard is only a hint.
    pub(in crate::log) fn discard(&mut self, io: &mut LogCall, request: RequestIndex, asked: Request) {
        let from = asked.offset.0.next_multiple_of(self.block);
        let to = (asked.offset.0 + asked.len.0) & !(self.block - 1);
        let mut next = from;
        while next < to {
            let end = to.min(self.primaries.of(next).to);
            io.add_part(request);
            let piece = Piece { request, offset: next, len: end - next, buffer: 0 };
            self.place(io, piece, Way::Discard);
            next = end;
        }
    }
}

/// Whether a part directly follows what is being read: on a primary, or in the same segment of the log.
#[inline]
pub(in crate::log) fn continues(run: Option<u64>, len: u64, next: Option<u64>, border: u64) -> bool {
    match (run, next) {
        (None, None) => true,
        (Some(run), Some(next)) => run + len == next && next & border != 0,
        _ => false,
    }
}

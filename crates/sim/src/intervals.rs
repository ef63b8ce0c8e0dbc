//! The measured span in intervals of equal length: what was counted in each.
//!
//! An interval begins after its first instant and ends with its last: what happens at the moment in which one ends and the
//! next one begins belongs to the one that ends. The last interval ends with the last reply, and may be shorter.

use peryton_device::DeviceStats;
use peryton_engine::{AdaptiveView, Stats};
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    SimError,
    course::{COURSE_BEGINS, COURSE_ROWS, CoarseTimes, kind_of},
    latency::RecentLatencies,
    latency_report::Latency,
};

/// The most rows of the intervals of a run in memory: each interval has one for the drive and one for each member of its
/// devices. With two devices there are 349,525 intervals at most (four days of seconds), and they take about 500 MB.
pub const MOST_ROWS: usize = 1 << 20;

/// What an engine counts, as of all volumes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EngineCounts {
    pub(crate) fast_hits: u64,
    pub(crate) fast_misses: u64,
    pub(crate) bypassed: u64,
    pub(crate) promotions: u64,
    pub(crate) demotions: u64,
    pub(crate) writebacks: u64,
    pub(crate) moved_bytes: u64,
    pub(crate) cancelled: u64,
    pub(crate) bytes_appended: u64,
    pub(crate) bytes_direct: u64,
    pub(crate) bytes_migrated: u64,
    pub(crate) reads: u64,
    pub(crate) reads_from_log: u64,
}

impl EngineCounts {
    /// Adds an engine's counts.
    pub(crate) fn add(&mut self, stats: &Stats) {
        self.fast_hits += stats.fast_hits;
        self.fast_misses += stats.fast_misses;
        self.bypassed += stats.bypassed;
        self.promotions += stats.moves.promotions;
        self.demotions += stats.moves.demotions;
        self.writebacks += stats.moves.writebacks;
        self.moved_bytes += stats.moves.bytes.0;
        self.cancelled += stats.moves.cancelled.sum();
        if let Some(log) = &stats.logging {
            self.bytes_appended += log.bytes_appended;
            self.bytes_direct += log.bytes_direct;
            self.bytes_migrated += log.bytes_migrated;
            self.reads += log.reads;
            self.reads_from_log += log.reads_from_log;
        }
    }

    /// Adds what was counted in the next interval.
    fn and(&self, next: &EngineCounts) -> EngineCounts {
        self.with(next, |ours, next| ours + next)
    }

    /// What was counted since `before`.
    fn since(&self, before: &EngineCounts) -> EngineCounts {
        self.with(before, |ours, before| ours - before)
    }

    /// Combines each count with the other's.
    fn with(&self, other: &EngineCounts, both: impl Fn(u64, u64) -> u64) -> EngineCounts {
        EngineCounts {
            fast_hits: both(self.fast_hits, other.fast_hits),
            fast_misses: both(self.fast_misses, other.fast_misses),
            bypassed: both(self.bypassed, other.bypassed),
            promotions: both(self.promotions, other.promotions),
            demotions: both(self.demotions, other.demotions),
            writebacks: both(self.writebacks, other.writebacks),
            moved_bytes: both(self.moved_bytes, other.moved_bytes),
            cancelled: both(self.cancelled, other.cancelled),
            bytes_appended: both(self.bytes_appended, other.bytes_appended),
            bytes_direct: both(self.bytes_direct, other.bytes_direct),
            bytes_migrated: both(self.bytes_migrated, other.bytes_migrated),
            reads: both(self.reads, other.reads),
            reads_from_log: both(self.reads_from_log, other.reads_from_log),
        }
    }
}

/// What a member of a device counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct DeviceCounts {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) bytes_read: Bytes,
    pub(crate) bytes_written: Bytes,
    pub(crate) pages_read: u64,
    pub(crate) pages_written: u64,
    pub(crate) busy: Nanos,
    pub(crate) standby: Nanos,
    pub(crate) energy_j: f64,
    pub(crate) start_stops: u64,
    pub(crate) erases: Option<u64>,
    pub(crate) nand_bytes_written: Option<Bytes>,
}

impl DeviceCounts {
    pub(crate) fn of(stats: &DeviceStats) -> DeviceCounts {
        DeviceCounts {
            reads: stats.reads,
            writes: stats.writes,
            bytes_read: stats.bytes_read,
            bytes_written: stats.bytes_written,
            pages_read: stats.pages_read,
            pages_written: stats.pages_written,
            busy: stats.busy,
            standby: stats.standby,
            energy_j: stats.energy_j,
            start_stops: stats.start_stops,
            erases: stats.erases,
            nand_bytes_written: stats.nand_bytes_written,
        }
    }

    /// Adds what was counted in the next interval.
    fn and(&self, next: &DeviceCounts) -> DeviceCounts {
        DeviceCounts {
            reads: self.reads + next.reads,
            writes: self.writes + next.writes,
            bytes_read: self.bytes_read + next.bytes_read,
            bytes_written: self.bytes_written + next.bytes_written,
            pages_read: self.pages_read + next.pages_read,
            pages_written: self.pages_written + next.pages_written,
            busy: self.busy + next.busy,
            standby: self.standby + next.standby,
            energy_j: self.energy_j + next.energy_j,
            start_stops: self.start_stops + next.start_stops,
            erases: self.erases.zip(next.erases).map(|(ours, theirs)| ours + theirs),
            nand_bytes_written: self
                .nand_bytes_written
                .zip(next.nand_bytes_written)
                .map(|(ours, theirs)| ours + theirs),
        }
    }

    /// What was counted since `before`. A model that counts the end of a command ahead may
    /// have a little less afterwards.
    fn since(&self, before: &DeviceCounts) -> DeviceCounts {
        DeviceCounts {
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            bytes_read: self.bytes_read - before.bytes_read,
            bytes_written: self.bytes_written - before.bytes_written,
            pages_read: self.pages_read - before.pages_read,
            pages_written: self.pages_written - before.pages_written,
            busy: self.busy.saturating_sub(before.busy),
            standby: self.standby.saturating_sub(before.standby),
            energy_j: (self.energy_j - before.energy_j).max(0.0),
            start_stops: self.start_stops - before.start_stops,
            erases: self.erases.map(|erases| erases - before.erases.unwrap_or(0)),
            nand_bytes_written: self
                .nand_bytes_written
                .map(|bytes| bytes - before.nand_bytes_written.unwrap_or(Bytes::ZERO)),
        }
    }
}

/// The state of the drive at the end of an interval.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) engine: EngineCounts,
    pub(crate) devices: Vec<DeviceCounts>,
    pub(crate) dirty: Bytes,
    /// Of an adaptive admission threshold.
    pub(crate) adaptive: Option<AdaptiveView>,
}

/// What was counted in an interval.
#[derive(Debug)]
pub(crate) struct Interval {
    /// Its start and end since the beginning of the measured span.
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
    pub(crate) requests: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    pub(crate) latency: Latency,
    pub(crate) engine: EngineCounts,
    /// At its end.
    pub(crate) dirty: Bytes,
    pub(crate) adaptive: Option<AdaptiveView>,
    /// In the order of the design, with all members.
    pub(crate) devices: Box<[DeviceCounts]>,
}

impl Interval {
    /// Makes one interval of this one and the next; their response times are put together elsewhere.
    fn and(self, next: &Interval) -> Interval {
        Interval {
            to: next.to,
            requests: self.requests + next.requests,
            bytes_read: self.bytes_read + next.bytes_read,
            bytes_written: self.bytes_written + next.bytes_written,
            engine: self.engine.and(&next.engine),
            dirty: next.dirty,
            adaptive: next.adaptive.clone(),
            devices: self.devices.iter().zip(&next.devices).map(|(ours, theirs)| ours.and(theirs)).collect(),
            ..self
        }
    }
}

/// The response times since the last interval ended.
#[derive(Debug, Default)]
struct RecentTimes {
    all: RecentLatencies,
    reads: RecentLatencies,
    writes: RecentLatencies,
    flushes: RecentLatencies,
}

/// The intervals so far.
#[derive(Debug)]
pub(crate) struct Intervals {
    length: Nanos,
    /// The beginning of the measured span.
    since: Nanos,
    /// The end of the last whole interval.
    ended: Nanos,
    most: u64,
    /// The counts at that time.
    before: (EngineCounts, Vec<DeviceCounts>),
    times: RecentTimes,
    requests: u64,
    bytes: [u64; 2],
    rows: Vec<Interval>,
    /// Of a course, which has few intervals however long the run: the response times of the present one, and of each row.
    course: Option<(CoarseTimes, Vec<CoarseTimes>)>,
}

impl Intervals {
    /// A course over time: intervals that become longer as the run goes on, so that there are never more than [`COURSE_ROWS`].
    pub(crate) fn course(members: usize) -> Intervals {
        let course = Some((CoarseTimes::default(), Vec::new()));
        Intervals { course, ..Intervals::new(COURSE_BEGINS, members) }
    }

    /// Makes one interval of two.
    fn fold(&mut self) {
        let Some((_, times)) = &mut self.course else { return };
        let mut rows = std::mem::take(&mut self.rows).into_iter();
        while let Some(row) = rows.next() {
            self.rows.push(match rows.next() {
                Some(next) => row.and(&next),
                None => row,
            });
        }
        *times = times
            .chunks(2)
            .map(|two| {
                let mut sum = two[0].clone();
                two[1..].iter().for_each(|next| sum.add(next));
                sum
            })
            .collect();
        self.length = Nanos(self.length.0.saturating_mul(2));
    }

    /// Intervals of a drive whose devices have this many members.
    pub(crate) fn new(length: Nanos, members: usize) -> Intervals {
        Intervals {
            length,
            since: Nanos::ZERO,
            ended: Nanos::ZERO,
            most: (MOST_ROWS / (1 + members)) as u64,
            before: (EngineCounts::default(), vec![DeviceCounts::default(); members]),
            times: RecentTimes::default(),
            requests: 0,
            bytes: [0; 2],
            rows: Vec::new(),
            course: None,
        }
    }

    /// Starts the first interval with the measured span, when all counts are zero.
    pub(crate) fn begin(&mut self, now: Nanos) {
        (self.since, self.ended) = (now, now);
    }

    /// The end of the present interval.
    pub(crate) fn next(&self) -> Nanos {
        self.ended.saturating_add(self.length)
    }

    /// Counts an answer.
    pub(crate) fn answered(&mut self, op: Op, span: Nanos, len: Bytes) {
        self.requests += 1;
        match op {
            Op::Read => self.bytes[0] += len.0,
            Op::Write => self.bytes[1] += len.0,
            Op::Flush | Op::Discard => {}
        }
        if let Some((times, _)) = &mut self.course {
            times.record(kind_of(op), span);
            return;
        }
        self.times.all.record(span);
        match op {
            Op::Read => self.times.reads.record(span),
            Op::Write => self.times.writes.record(span),
            Op::Flush => self.times.flushes.record(span),
            Op::Discard => {}
        }
    }

    /// Checks that there may be as many intervals as it takes to reach `until`.
    pub(crate) fn check(&self, until: Nanos) -> Result<(), SimError> {
        let so_far = until.saturating_sub(self.since);
        if self.course.is_some() {
            return Ok(());
        }
        if so_far.0 / self.length.0 < self.most {
            return Ok(());
        }
        let least = Nanos(so_far.0.div_ceil(self.most).saturating_add(1));
        Err(SimError::TooManyIntervals { length: self.length, most: self.most, least, so_far })
    }

    /// Ends the present interval at `to`, with the state of the drive at this time.
    pub(crate) fn end(&mut self, to: Nanos, state: State) {
        let State { engine, devices, dirty, adaptive } = state;
        let (counted, before) = &mut self.before;
        let RecentTimes { all, reads, writes, flushes } = &mut self.times;
        self.rows.push(Interval {
            from: self.ended - self.since,
            to: to - self.since,
            requests: std::mem::take(&mut self.requests),
            bytes_read: std::mem::take(&mut self.bytes[0]),
            bytes_written: std::mem::take(&mut self.bytes[1]),
            latency: Latency {
                all: all.take(),
                read: reads.take(),
                write: writes.take(),
                flush: flushes.take(),
                write_then_flush: None,
            },
            engine: engine.since(counted),
            dirty,
            adaptive,
            devices: devices.iter().zip(before.iter()).map(|(now, before)| now.since(before)).collect(),
        });
        self.before = (engine, devices);
        self.ended = to;
        if let Some((times, of_rows)) = &mut self.course {
            of_rows.push(std::mem::take(times));
            if self.rows.len() == COURSE_ROWS {
                self.fold();
            }
        }
    }

    /// Whether the measured span has a part that is in no interval yet.
    pub(crate) fn is_open(&self, now: Nanos) -> bool {
        now > self.ended || self.rows.is_empty()
    }

    pub(crate) fn into_rows(mut self) -> Vec<Interval> {
        if let Some((_, times)) = &self.course {
            self.rows.iter_mut().zip(times).for_each(|(row, times)| row.latency = times.latency());
        }
        self.rows
    }
}

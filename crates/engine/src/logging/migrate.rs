//! Emptying the log (Griffin, sections 5.2 and 5.4): what is still the newest copy is read in the order of the log,
//! sorted by address, and written to the primary in runs as long as a buffer. The host goes on meanwhile: its writes go
//! to other segments, and what it overwrites is skipped.
//!
//! A migration goes window by window: `Planning → Reading → Writing → Planning`, until its source is at its end. A
//! window is as much as `migration_memory` holds; `window.rs` fills it.

mod window;

use std::collections::VecDeque;

use peryton_format::log::ring::CommitRecord;
use peryton_units::{Bytes, Nanos};

use super::{
    BUFFER, Logging, append,
    log::Record,
    triggers::{RETRY, Trigger},
};
use crate::{
    command::{Buffer, Cause, Command, Commands},
    config::Tuning,
    logging::step::{Core, Step},
    slab::Slab,
};

/// Reads in flight: one that the disk is at, and the next.
const READS: u32 = 2;
/// Writes in flight, and buffers to put runs together in. Few, for the host's reads go to the same device.
const WRITES: u32 = 4;
/// How many records, or blocks of a hinted range, are looked at in one call.
const LOOK_AT: u64 = 1 << 16;
/// Ranges of host hints that wait; more are forgotten, as hints may be.
const MOST_HINTS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Planning,
    Reading,
    Writing,
}

/// One read of the log.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    at: u64,
    len: u64,
    /// Nothing else is read with it, for an earlier read failed.
    alone: bool,
    failed: bool,
}

/// Something to migrate, and where in the window it is.
#[derive(Clone, Copy, Debug)]
struct Part {
    offset: u64,
    len: u64,
    at: u64,
    chunk: u32,
}

/// One write to the primary.
#[derive(Debug)]
struct Run {
    offset: u64,
    len: u64,
    parts: Vec<Part>,
    assembly: Option<u32>,
}

#[derive(Debug)]
pub(super) struct Migration {
    phase: Phase,
    /// Segments still to be looked at, and how many records of the first have been.
    segments: VecDeque<u32>,
    record: usize,
    /// Segments looked at to their end in this window.
    passed: Vec<u32>,
    /// A hinted range, as far as it has not been looked at.
    range: (u64, u64),
    hints: VecDeque<(u64, u64)>,
    whole: bool,
    began: Nanos,
    chunks: Vec<Chunk>,
    parts: Vec<Part>,
    next_chunk: usize,
    next_part: usize,
    in_flight: u32,
    runs: Slab<Run>,
    writing: Vec<u32>,
    assemblies: Vec<u32>,
    /// As many as the window began with, whatever the tuning says since.
    window: u32,
    left_over: bool,
    /// Segments that a failed device kept from being emptied, and those younger than them.
    held_back: Vec<u32>,
    /// The list of what is left in them is too long.
    stuck: bool,
}

fn window(tuning: &Tuning) -> u32 {
    (tuning.logging.migration_memory.0 / BUFFER).max(1) as u32
}

impl Migration {
    pub(super) fn new() -> Migration {
        Migration {
            phase: Phase::Idle,
            segments: VecDeque::new(),
            record: 0,
            passed: Vec::new(),
            range: (0, 0),
            hints: VecDeque::new(),
            whole: false,
            began: Nanos::ZERO,
            chunks: Vec::new(),
            parts: Vec::new(),
            next_chunk: 0,
            next_part: 0,
            in_flight: 0,
            runs: Slab::new(),
            writing: Vec::new(),
            assemblies: (0..WRITES).collect(),
            window: 0,
            left_over: false,
            held_back: Vec::new(),
            stuck: false,
        }
    }

    /// Buffers for a window and for putting runs together.
    pub(super) fn buffers(&self, tuning: &Tuning) -> u32 {
        WRITES + self.window.max(window(tuning))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle && self.hints.is_empty()
    }

    pub(super) fn hint(&mut self, from: u64, to: u64) {
        if from < to && self.hints.len() < MOST_HINTS {
            self.hints.push_back((from, to));
        }
    }

    /// A device is dead: what is not under way is left, so that what was recorded before is still needed.
    pub(super) fn stop(&mut self) {
        self.whole = false;
        self.segments.clear();
        self.passed.clear();
        self.hints.clear();
        self.held_back.clear();
        (self.record, self.range, self.next_chunk) = (0, (0, 0), self.chunks.len());
        self.parts.truncate(self.next_part);
    }

    /// Whether the range is on its way to the primary.
    pub(super) fn writes(&self, from: u64, to: u64) -> bool {
        self.writing.iter().map(|run| &self.runs[*run]).any(|run| run.offset < to && from < run.offset + run.len)
    }

    pub(super) fn reading_or_writing(&self) -> bool {
        matches!(self.phase, Phase::Reading | Phase::Writing)
    }
}

impl Logging {
    pub(super) fn start_migration(&mut self, core: &mut Core, now: Nanos, trigger: Trigger, out: &mut Commands) {
        debug_assert!(self.migration.is_idle());
        self.log.close();
        self.commit.migration_starts();
        let migration = &mut self.migration;
        migration.segments.extend(&self.log.order);
        migration.record = 0;
        migration.whole = true;
        self.begin(core, now, trigger);
        self.pump_migration(core, now, out);
    }

    /// Migrates what only the log has, whatever the triggers say.
    pub(crate) fn write_all_home(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        if self.migration.is_idle() && self.log.live > 0 && !self.gone.any() {
            self.start_migration(core, now, Trigger::Hint, out);
        } else {
            self.pump_migration(core, now, out);
        }
    }

    /// Blocks' worth of what only the log has.
    pub(crate) fn blocks_away(&self) -> u64 {
        self.log.live.div_ceil(self.block)
    }

    fn begin(&mut self, core: &mut Core, now: Nanos, trigger: Trigger) {
        self.migration.phase = Phase::Planning;
        self.migration.began = now;
        (self.migration.left_over, self.migration.stuck) = (false, false);
        let by = &mut core.ledger.logging_mut().migrations;
        *match trigger {
            Trigger::Timeout => &mut by.timeout,
            Trigger::ReadShare => &mut by.read_share,
            Trigger::Size => &mut by.size,
            Trigger::LogUsed => &mut by.log_used,
            Trigger::Hint => &mut by.hint,
        } += 1;
        if trigger != Trigger::Hint {
            self.since.started = now;
            self.since.reads = 0;
            self.since.reads_from_log = 0;
        }
    }

    /// Goes on as far as nothing has to be waited for.
    #[inline]
    pub(super) fn pump_migration(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        if self.migration.is_idle() {
            return;
        }
        loop {
            let goes_on = match self.migration.phase {
                Phase::Idle => self.begin_hint(core, now),
                Phase::Planning => self.plan(core, now, out),
                Phase::Reading => self.read_window(core, out),
                Phase::Writing => self.write_window(core, now, out),
            };
            if !goes_on {
                return;
            }
        }
    }

    fn begin_hint(&mut self, core: &mut Core, now: Nanos) -> bool {
        let Some(range) = self.migration.hints.pop_front() else { return false };
        self.migration.range = range;
        self.migration.whole = false;
        self.begin(core, now, Trigger::Hint);
        true
    }

    /// Fills a window. Says whether there is something to go on with now.
    fn plan(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) -> bool {
        self.migration.window = window(&core.tuning);
        let mut looks = LOOK_AT;
        if self.migration.whole {
            self.plan_segments(core, &mut looks);
        } else {
            self.plan_range(&mut looks);
        }
        let migration = &mut self.migration;
        if !migration.chunks.is_empty() {
            migration.phase = Phase::Reading;
            return true;
        }
        if looks == 0 {
            core.due(now);
            return false;
        }
        self.pass_segments(core, now, out);
        if self.migration.segments.is_empty() && self.migration.range.0 >= self.migration.range.1 {
            self.settle_held_back(core, now, out);
            let migration = &mut self.migration;
            migration.phase = Phase::Idle;
            migration.window = 0;
            if migration.left_over {
                self.since.not_before = now.saturating_add(RETRY);
                core.due(self.since.not_before);
            }
            if migration.whole && !migration.left_over {
                self.since.first_logged = self.since.first_logged.max(migration.began);
            }
            if migration.whole && !migration.stuck {
                self.commit.migration_ended();
            }
            self.migrate_if_due(core, now, out);
            return !self.migration.is_idle();
        }
        // The next segment still has appends in flight; the last of them goes on here.
        false
    }

    fn read_window(&mut self, core: &mut Core, out: &mut Commands) -> bool {
        let (log_device, log_at) = (self.log_device, self.log_at);
        let migration = &mut self.migration;
        while migration.in_flight < READS && migration.next_chunk < migration.chunks.len() {
            let index = migration.next_chunk as u32;
            let Chunk { at, len, .. } = migration.chunks[migration.next_chunk];
            migration.next_chunk += 1;
            migration.in_flight += 1;
            let buffer = Buffer::Move { index: window_buffer(index), offset: Bytes::ZERO };
            let purpose = Step::MigrationRead { chunk: index };
            core.read((log_device, Bytes(log_at + at)), Bytes(len), buffer, purpose, Cause::WriteBack, out);
        }
        if migration.in_flight > 0 {
            return false;
        }
        let Migration { chunks, parts, .. } = migration;
        parts.retain(|part| !chunks[part.chunk as usize].failed);
        parts.sort_unstable_by_key(|part| part.offset);
        migration.next_part = 0;
        migration.phase = Phase::Writing;
        true
    }

    pub(super) fn migration_read(&mut self, core: &mut Core, now: Nanos, chunk: u32, failed: bool, out: &mut Commands) {
        self.migration.in_flight -= 1;
        self.migration.chunks[chunk as usize].failed = failed;
        self.migration.left_over |= failed;
        self.pump_migration(core, now, out);
    }

    fn write_window(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) -> bool {
        while (self.migration.writing.len() as u32) < WRITES
            && let Some(run) = self.next_run(core)
        {
            self.write_run(core, run, out);
        }
        if !self.migration.writing.is_empty() {
            return false;
        }
        let migration = &mut self.migration;
        debug_assert_eq!(migration.next_part, migration.parts.len());
        migration.chunks.clear();
        migration.parts.clear();
        migration.next_chunk = 0;
        migration.next_part = 0;
        migration.phase = Phase::Planning;
        self.pass_segments(core, now, out);
        true
    }

    /// The next neighbouring parts that are still the newest copies.
    fn next_run(&mut self, core: &mut Core) -> Option<Run> {
        let Logging { migration, map, directs, .. } = self;
        let mut run = Run { offset: 0, len: 0, parts: Vec::new(), assembly: None };
        while let Some(part) = migration.parts.get(migration.next_part).copied() {
            let mut found: Option<Part> = None;
            let mut closed = false;
            map.live(part.offset, part.offset + part.len, part.at, |low, high, at| match &mut found {
                _ if closed => {}
                None => found = Some(Part { offset: low, len: high - low, at, chunk: part.chunk }),
                Some(last) if last.offset + last.len == low => last.len += high - low,
                Some(_) => closed = true,
            });
            let reached = found.map_or(part.offset + part.len, |found| found.offset);
            core.ledger.logging_mut().bytes_superseded += reached - part.offset;
            let rest = &mut migration.parts[migration.next_part];
            (rest.offset, rest.at) = (reached, part.at + (reached - part.offset));
            rest.len -= reached - part.offset;
            let Some(found) = found else {
                migration.next_part += 1;
                continue;
            };
            let end = found.offset + found.len;
            // A write to the primary is under way there, and will make this obsolete.
            let taken = directs.overlaps(found.offset, end);
            if !taken {
                let follows = run.len == 0 || run.offset + run.len == found.offset;
                if !follows || run.len + found.len > BUFFER {
                    return Some(run);
                }
                if run.len == 0 {
                    run.offset = found.offset;
                }
                run.len += found.len;
                run.parts.push(found);
            }
            migration.left_over |= taken;
            (rest.offset, rest.at) = (end, found.at + found.len);
            rest.len -= found.len;
            if rest.len == 0 {
                migration.next_part += 1;
            }
        }
        (run.len > 0).then_some(run)
    }

    fn write_run(&mut self, core: &mut Core, mut run: Run, out: &mut Commands) {
        let migration = &mut self.migration;
        let place = |part: &Part| {
            let offset = Bytes(part.at - migration.chunks[part.chunk as usize].at);
            Buffer::Move { index: window_buffer(part.chunk), offset }
        };
        let first = run.parts[0];
        let together =
            run.parts.windows(2).all(|pair| pair[0].chunk == pair[1].chunk && pair[0].at + pair[0].len == pair[1].at);
        let buffer = if together {
            place(&first)
        } else {
            let assembly = migration.assemblies.pop().expect("as many as writes in flight");
            let index = append::BUFFERS + assembly;
            for part in &run.parts {
                let to = Buffer::Move { index, offset: Bytes(part.offset - run.offset) };
                out.push(Command::Copy { from: place(part), to, len: Bytes(part.len) });
            }
            run.assembly = Some(assembly);
            Buffer::Move { index, offset: Bytes::ZERO }
        };
        let (at, len) = (self.primary_place(run.offset), Bytes(run.len));
        let index = self.migration.runs.insert(run);
        self.migration.writing.push(index);
        core.write(at, len, buffer, Step::MigrationWrite { run: index }, Cause::WriteBack, out);
        core.ledger.logging_mut().bytes_migrated += len.0;
    }

    pub(super) fn migration_wrote(
        &mut self,
        core: &mut Core,
        now: Nanos,
        index: u32,
        failed: bool,
        out: &mut Commands,
    ) {
        let Logging { migration, map, log, .. } = self;
        let run = &mut migration.runs[index];
        let parts = std::mem::take(&mut run.parts);
        migration.assemblies.extend(run.assembly.take());
        migration.runs.remove(index);
        migration.writing.retain(|other| *other != index);
        migration.left_over |= failed;
        if !failed {
            let mut live: Vec<(u64, u64)> = Vec::new();
            for part in &parts {
                map.live(part.offset, part.offset + part.len, part.at, |low, high, _| live.push((low, high)));
            }
            for (low, high) in live {
                map.remove(low, high, |at, len| log.superseded(at, len));
            }
        }
        self.retry_parked(core, now, out);
        self.pump_migration(core, now, out);
    }

    /// Segments of which all has been migrated are free after the next commit, unless an older one is not.
    fn pass_segments(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        if self.migration.passed.is_empty() {
            return;
        }
        for index in std::mem::take(&mut self.migration.passed) {
            let live = self.log.segments[index as usize].live;
            self.migration.left_over |= live > 0;
            if live == 0 && self.migration.held_back.is_empty() {
                self.log.drain(index);
                self.commit.free(index);
            } else {
                self.migration.held_back.push(index);
            }
        }
        self.pump_commit(core, now, out);
    }

    /// A failed device has left something behind in the log. It is listed, so that what is younger can be given up, all
    /// at one moment: otherwise a list would bring back what something that was given up meanwhile has superseded.
    /// If the list would be too long nothing is given up.
    fn settle_held_back(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        let all = std::mem::take(&mut self.migration.held_back);
        let (empty, left): (Vec<u32>, Vec<u32>) =
            all.into_iter().partition(|index| self.log.segments[*index as usize].live == 0);
        let lists: Vec<(u32, Vec<Record>)> = left.into_iter().map(|index| (index, self.left_in(index))).collect();
        let records: usize = lists.iter().map(|(_, left)| 1 + left.len()).sum();
        self.migration.stuck = records > self.commit.most_listed();
        // The next time each record is read by itself, so that a bad sector takes no more than its own with it.
        lists.iter().for_each(|(index, _)| self.log.segments[*index as usize].left_over = true);
        if self.migration.stuck {
            return;
        }
        let as_of = self.unretired().0;
        for (index, left) in lists {
            let start = self.log.start_of(index);
            let segment = &mut self.log.segments[index as usize];
            let (opened, count) = (segment.opened, left.len() as u32);
            let head = CommitRecord::Listed { segment: index, count, opened, as_of };
            let each = left.iter().map(|Record { offset, within, len }| {
                let (at, len) = (start + u64::from(*within), u64::from(*len));
                CommitRecord::Left { offset: *offset, at, len }
            });
            self.commit.list(core, now, std::iter::once(head).chain(each));
            segment.records = left;
        }
        for index in empty {
            self.log.drain(index);
            self.commit.free(index);
        }
        self.pump_commit(core, now, out);
    }

    /// What is still the newest copy of what the segment holds.
    fn left_in(&self, index: u32) -> Vec<Record> {
        let start = self.log.start_of(index);
        let mut left: Vec<Record> = Vec::new();
        for Record { offset, within, len } in &self.log.segments[index as usize].records {
            let to = offset + u64::from(*len);
            self.map.live(*offset, to, start + u64::from(*within), |low, high, at| {
                left.push(Record { offset: low, within: (at - start) as u32, len: (high - low) as u32 });
            });
        }
        left
    }
}

fn window_buffer(chunk: u32) -> u32 {
    append::BUFFERS + WRITES + chunk
}

//! Migration empties the log (Griffin, sections 5.2 and 5.4). It reads the newest copies in the order of the log, sorts
//! them by address, and writes them to the primary in runs as long as a buffer. The host continues meanwhile: its
//! writes go to other segments, and the migration skips what the host overwrites.
//!
//! A migration works in windows: `Planning → Reading → Writing → Planning`, until its source is exhausted. A window
//! holds `migration_memory` bytes; `window.rs` fills it.

use peryton_format::log::ring::CommitRecord;
use peryton_units::{Bytes, Nanos};

use crate::{
    api::command::{Buffer, Cause, Command},
    log::append::BUFFERS,
    log::drive::LogDrive,
    log::layout::BUFFER,
    log::migration::{Chunk, Migration, Next, Part, Phase, Run, WRITES, window_of},
    log::mode::Trigger,
    log::ready::Turn,
    log::segments::Record,
    log::step::{LogCall, LogIo, LogStep},
    log::triggers::RETRY,
    log::verifying::VERIFIES,
};

/// Reads in flight: one that the disk serves, and the next.
const READS: u32 = 2;

/// Number of records, or of blocks of a hinted range, that one call examines.
const LOOK_AT: u64 = 1 << 16;

impl LogDrive {
    #[inline]
    pub(in crate::log) fn migrate_if_due(&mut self, io: &mut LogIo) {
        if let Some(trigger) = self.fired(io).filter(|_| !self.stopped.any()) {
            self.start_migration(io, trigger);
        }
    }

    fn start_migration(&mut self, io: &mut LogIo, trigger: Trigger) {
        debug_assert!(self.migration.is_idle());
        self.log.close();
        self.commit.migration_starts();
        let migration = &mut self.migration;
        migration.segments.extend(&self.log.order);
        migration.record = 0;
        migration.whole = true;
        migration.covers = self.log.next_sequence();
        self.begin(io, trigger);
        self.ready.push(Turn::Migration);
    }

    /// Migrates everything that only the log has, whatever the triggers say.
    pub(crate) fn write_all_home(&mut self, io: &mut LogIo) {
        if self.migration.is_idle() && self.log.live > 0 && !self.is_stranded() && !self.stopped.any() {
            self.start_migration(io, Trigger::Hint);
        }
        self.ready.push(Turn::Migration);
    }

    /// Number of blocks that only the log has, rounded up.
    pub(crate) fn blocks_away(&self) -> u64 {
        self.log.live.div_ceil(self.block)
    }

    fn begin(&mut self, io: &mut LogIo, trigger: Trigger) {
        self.migration.phase = Phase::Planning;
        self.migration.began = io.now;
        self.log.retry_unreadable();
        (self.migration.left_over, self.migration.stuck) = (false, false);
        let by = &mut io.stats.logging_mut().migrations;
        *match trigger {
            Trigger::Timeout => &mut by.timeout,
            Trigger::ReadShare => &mut by.read_share,
            Trigger::Size => &mut by.size,
            Trigger::LogUsed => &mut by.log_used,
            Trigger::Hint => &mut by.hint,
        } += 1;
        if trigger != Trigger::Hint {
            self.since.started = io.now;
            self.since.reads = 0;
            self.since.reads_from_log = 0;
        }
    }

    /// Continues the migration until it has to wait for a command.
    #[inline]
    pub(in crate::log) fn pump_migration(&mut self, io: &mut LogCall) {
        if self.migration.is_idle() {
            return;
        }
        if self.stopped.any() {
            if self.migration.in_flight == 0 && self.migration.writing.is_empty() {
                self.migration.abandon();
            }
            return;
        }
        loop {
            let goes_on = match self.migration.phase {
                Phase::Idle => self.begin_hint(io),
                Phase::Planning => self.plan(io),
                Phase::Reading => self.read_window(io),
                Phase::Writing => self.write_window(io),
            };
            if !goes_on {
                return;
            }
        }
    }

    fn begin_hint(&mut self, io: &mut LogIo) -> bool {
        let Some(range) = self.migration.hints.pop_front() else { return false };
        self.migration.range = range;
        self.migration.whole = false;
        self.begin(io, Trigger::Hint);
        true
    }

    /// Fills a window. Returns whether the migration can continue now.
    fn plan(&mut self, io: &mut LogCall) -> bool {
        (self.migration.window, self.migration.unit) = (window_of(&io.tuning), self.write_unit(io));
        let mut looks = LOOK_AT;
        let unverified =
            if self.migration.whole { self.plan_segments(io, &mut looks) } else { self.plan_range(&mut looks) };
        if let Some(at) = unverified {
            self.verify_ahead(io, at);
        }
        let migration = &mut self.migration;
        if !migration.chunks.is_empty() {
            migration.phase = Phase::Reading;
            return true;
        }
        if looks == 0 {
            io.due_in(Nanos::ZERO);
            return false;
        }
        self.pass_segments();
        if self.migration.segments.is_empty() && self.migration.range.0 >= self.migration.range.1 {
            self.settle_held_back(io);
            let migration = &mut self.migration;
            migration.phase = Phase::Idle;
            migration.window = 0;
            if migration.left_over {
                self.since.not_before = io.now.saturating_add(RETRY);
                io.due(self.since.not_before);
            }
            if migration.whole && !migration.left_over {
                self.since.first_logged = self.since.first_logged.max(migration.began);
            }
            if migration.whole && !migration.stuck {
                self.commit.migration_ended();
            }
            if self.commit.ring_fills() || !self.deferred.is_empty() {
                // A commit makes room, and pieces of requests may wait for it, or for the answer that nothing will.
                self.commit.make_room(self.directs.in_flight.len());
                self.ready.push(Turn::Commit);
                self.ready.push(Turn::Pieces);
            }
            // The next one may begin, or a hinted range is next.
            self.ready.push(Turn::Trigger);
            self.ready.push(Turn::Migration);
            return false;
        }
        // Appends to the next segment are in flight, or its data are being verified; the completion continues the
        // migration.
        false
    }

    fn read_window(&mut self, io: &mut LogCall) -> bool {
        let (log_device, log_at) = (self.log_device, self.log_at);
        let migration = &mut self.migration;
        while migration.in_flight < READS && migration.next_chunk < migration.chunks.len() {
            let index = migration.next_chunk as u32;
            let Chunk { at, len, .. } = migration.chunks[migration.next_chunk];
            migration.next_chunk += 1;
            migration.in_flight += 1;
            let buffer = Buffer::Move { index: window_buffer(index), offset: Bytes::ZERO };
            let purpose = LogStep::MigrationRead { chunk: index };
            io.read((log_device, Bytes(log_at + at)), Bytes(len), buffer, purpose, Cause::WriteBack);
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

    pub(in crate::log) fn migration_read(&mut self, chunk: u32, failed: bool) {
        self.migration.in_flight -= 1;
        self.migration.chunks[chunk as usize].failed = failed;
        self.migration.left_over |= failed;
        self.ready.push(Turn::Migration);
    }

    fn write_window(&mut self, io: &mut LogCall) -> bool {
        while (self.migration.writing.len() as u32) < WRITES {
            if let Some(unit) = self.migration.unit {
                match self.next_units(io, unit) {
                    Next::Units(run) => {
                        self.start_units(io, run);
                        continue;
                    }
                    Next::None => break,
                    Next::AsItIs => {}
                }
            }
            let Some(run) = self.next_run(io) else { break };
            self.write_run(io, run);
        }
        if !self.migration.writing.is_empty() || self.migration.next_part < self.migration.parts.len() {
            return false;
        }
        let migration = &mut self.migration;
        migration.chunks.clear();
        migration.parts.clear();
        migration.next_chunk = 0;
        migration.next_part = 0;
        migration.phase = Phase::Planning;
        self.pass_segments();
        true
    }

    /// Returns the next run of neighbouring parts that are still the newest copies; `None` if there is none, or if a write to
    /// the primary has to end first.
    fn next_run(&mut self, io: &mut LogIo) -> Option<Run> {
        let LogDrive { migration, map, directs, primaries, .. } = self;
        let mut run = Run { pending: 1, ..Run::default() };
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
            io.stats.logging_mut().bytes_superseded += reached - part.offset;
            let rest = &mut migration.parts[migration.next_part];
            (rest.offset, rest.at) = (reached, part.at + (reached - part.offset));
            rest.len -= reached - part.offset;
            let Some(found) = found else {
                migration.next_part += 1;
                continue;
            };
            let end = found.offset + found.len;
            if directs.overlaps(found.offset, end) {
                // A write to the primary makes the copy in the log obsolete, unless it fails. It goes on from here when
                // that is known.
                break;
            }
            let follows = run.len == 0 || run.offset + run.len == found.offset && !primaries.begins(found.offset);
            if !follows || run.len + found.len > BUFFER {
                return Some(run);
            }
            if run.len == 0 {
                run.offset = found.offset;
            }
            run.len += found.len;
            run.parts.push(found);
            (rest.offset, rest.at) = (end, found.at + found.len);
            rest.len -= found.len;
            if rest.len == 0 {
                migration.next_part += 1;
            }
        }
        (run.len > 0).then_some(run)
    }

    fn write_run(&mut self, io: &mut LogCall, mut run: Run) {
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
            let index = BUFFERS + assembly;
            for part in &run.parts {
                let to = Buffer::Move { index, offset: Bytes(part.offset - run.offset) };
                io.out.push(Command::Copy { from: place(part), to, len: Bytes(part.len) });
            }
            run.assembly = Some(assembly);
            Buffer::Move { index, offset: Bytes::ZERO }
        };
        let (at, len) = (self.primaries.place_of(run.offset), Bytes(run.len));
        let index = self.migration.runs.insert(run);
        self.migration.writing.push(index);
        io.write(at, len, buffer, LogStep::MigrationWrite { run: index }, Cause::WriteBack);
        io.stats.logging_mut().bytes_migrated += len.0;
    }

    pub(in crate::log) fn migration_wrote(&mut self, io: &mut LogCall, index: u32, failed: bool) {
        let run = &mut self.migration.runs[index];
        run.pending -= 1;
        run.failed |= failed;
        match (run.pending, run.failed) {
            (0, true) if run.completed && !self.stopped.any() => {
                // The completing data may be the unwritable ones.
                run.failed = false;
                self.write_parts(io, index);
            }
            (0, _) => self.run_is_over(index),
            _ => {}
        }
    }

    /// Nothing of a run is under way any more: what was written is on the primary.
    pub(in crate::log) fn run_is_over(&mut self, index: u32) {
        let LogDrive { migration, map, log, .. } = self;
        let run = &mut migration.runs[index];
        let (parts, failed) = (std::mem::take(&mut run.parts), run.failed);
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
        self.ready.push(Turn::Pieces);
        self.ready.push(Turn::Migration);
    }

    /// Frees migrated segments with the next commit. A segment is held back if an older one still has data.
    fn pass_segments(&mut self) {
        if self.migration.passed.is_empty() {
            return;
        }
        for index in std::mem::take(&mut self.migration.passed) {
            let live = self.log.segments[index as usize].live;
            self.migration.left_over |= live > 0;
            if live == 0 && self.migration.held_back.is_empty() && !self.is_kept(index) {
                self.log.drain(index);
                self.commit.free(index);
            } else {
                self.migration.held_back.push(index);
            }
        }
        self.ready.push(Turn::Commit);
    }

    /// Handles the segments that a failed device kept from being emptied. Their remaining records are listed in one
    /// commit that also frees the younger segments. Both must happen at once: a list would otherwise restore copies
    /// that a segment freed meanwhile had superseded. If the list would be too long, no segment is freed.
    fn settle_held_back(&mut self, io: &mut LogIo) {
        let all = std::mem::take(&mut self.migration.held_back);
        if self.primaries.any_gone() {
            return self.settle_beside_gone(io, &all);
        }
        let (empty, left): (Vec<u32>, Vec<u32>) =
            all.into_iter().partition(|index| self.log.segments[*index as usize].live == 0);
        let lists: Vec<(u32, Vec<Record>)> = left.into_iter().map(|index| (index, self.left_in(index))).collect();
        let records: usize = lists.iter().map(|(_, left)| 1 + left.len()).sum();
        self.migration.stuck = records > self.commit.most_listed();
        // From now on each record of these segments is read by itself, so that a bad sector affects only its own
        // record.
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
            self.commit.list(io, std::iter::once(head).chain(each));
            segment.records = left;
        }
        for index in empty {
            self.log.drain(index);
            self.commit.free(index);
        }
        self.ready.push(Turn::Commit);
    }
}

pub(in crate::log) fn window_buffer(chunk: u32) -> u32 {
    BUFFERS + WRITES + VERIFIES + chunk
}
